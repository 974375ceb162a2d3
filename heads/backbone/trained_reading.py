"""How a base model was trained to be read: its sentence-transformers modules, as one function.

``modules.json`` lists what stands behind the model, each with a folder of its own: a pooling, dense
layers, a normalisation. They are read as data, from JSON and safetensors; no module's own code is
run, and what is not known here is refused in a sentence.
Legend: n texts, t tokens, d width of a state, w width of a sentence's vector.
"""

import json
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError, safe_open
from torch import Tensor, nn

from heads.backbone.device import HERE
from heads.errors import HeadsError, RecipeError
from heads.parts.pooled import Pooled, pooled
from heads.parts.poolings import cls, last, max, mean, sqrt_mean, weighted
from heads.parts.registry import pooling

# Its poolings, in the order in which several of them stand side by side.
MODES: Mapping[str, Callable[[Tensor, Tensor], Tensor | Pooled]] = {
    "cls": cls,
    "max": max,
    "mean": mean,
    "mean_sqrt_len_tokens": sqrt_mean,
    "weightedmean": weighted,
    "lasttoken": last,
}
FLAGS = {  # as versions before 5.5 say it
    "pooling_mode_cls_token": "cls",
    "pooling_mode_max_tokens": "max",
    "pooling_mode_mean_tokens": "mean",
    "pooling_mode_mean_sqrt_len_tokens": "mean_sqrt_len_tokens",
    "pooling_mode_weightedmean_tokens": "weightedmean",
    "pooling_mode_lasttoken": "lasttoken",
}
ACTIVATIONS = (
    *("Identity", "Tanh", "ReLU", "GELU", "SiLU", "Sigmoid", "ELU", "LeakyReLU", "Mish"),
    *("Softplus", "Softsign", "Hardswish", "ReLU6", "SELU", "CELU"),
)
USUAL_ACTIVATION = "Tanh"  # of a dense layer whose configuration names none
LIBRARY = "sentence_transformers."
PLACE = re.compile(r"\d_[A-Za-z]{1,40}")  # a module's folder, as a download takes it along
MODULES, PROMPTS = "modules.json", "config_sentence_transformers.json"
LENGTH = "sentence_bert_config.json"
VECTOR = "sentence_embedding"  # under this name modules pass the sentence's vector on
LOGITS, SCORES = "logits", "scores"  # what a classification layer gives: ours, CrossEncoder's
CROSS_ENCODER = "CrossEncoder"
USUAL_LABELS = 2  # of a config of Transformers that names none
MOST_BYTES = 1_000_000  # of a JSON file
MOST_MODULES = 20


@dataclass(frozen=True, slots=True, kw_only=True)
class SentenceConfig:
    """What a base model's folder says of sentences, beside its modules.

    Attributes:
        prompts: What is written before a text, by name: ``{"query": "query: "}``.
        default_prompt: The name of the one that is written where none is asked for, or "".
        tokens: How many tokens of a text are read at most; 0 where nothing is said.
        reads_pairs: Whether it is a CrossEncoder, which is asked about two texts.
        activation: What a CrossEncoder applies to its logits, by its full name, or "".
    """

    prompts: Mapping[str, str] = field(default_factory=dict)
    default_prompt: str = ""
    tokens: int = 0
    reads_pairs: bool = False
    activation: str = ""


class TrainedReading(nn.Module):
    """Token states to the vector that a base model was trained to give: pooling, then modules.

    Attributes:
        modes: Its poolings, by the library's names; several stand side by side.
        reads_prompt: Whether the tokens of a prompt before the text are pooled with the others.
        steps: What follows: `Dense`, `nn.LayerNorm`, `UnitLength`.
    """

    def __init__(
        self, modes: Sequence[str], steps: Sequence[nn.Module] = (), *, reads_prompt: bool = True
    ) -> None:
        super().__init__()
        self.modes = tuple(modes)
        self.reads_prompt = reads_prompt
        self.steps = nn.ModuleList(steps).eval().requires_grad_(False)

    def forward(self, mask: Tensor, states: Tensor) -> Pooled:
        """Return `Pooled` (n, w), given what is read (n, t) and the last states (n, t, d)."""
        parts = [pooled(MODES[mode](mask, states), states) for mode in self.modes]
        vectors = torch.cat([part.vectors for part in parts], dim=-1)
        reads = torch.stack([part.reads for part in parts]).mean(dim=0)
        # One small product a text: the modules stay where all readings share them.
        found = vectors.to(HERE)
        for step in self.steps:
            found = step(found)
        return Pooled(found.to(vectors.device), reads)

    @property
    def poolings(self) -> list[str]:
        """Its poolings by our names."""
        return [MODES[mode].__name__ for mode in self.modes]

    @property
    def is_by_window(self) -> bool:
        """Whether it reads single tokens by their place (`Pooling.is_by_window`)."""
        return any(pooling[name].is_by_window for name in self.poolings)

    @property
    def has_unit_length(self) -> bool:
        """Whether what it gives is scaled to length 1 at the end."""
        return len(self.steps) > 0 and isinstance(self.steps[-1], UnitLength)

    @property
    def plain(self) -> str:
        """The mode, where it is one pooling and at most scaled to length 1; else ""."""
        scaled = all(isinstance(step, UnitLength) for step in self.steps)
        return self.modes[0] if len(self.modes) == 1 and scaled else ""

    @property
    def says(self) -> str:
        """What it does, in a few words: ``mean, Dense 768 → 3,072, length 1``."""
        told = [" and ".join(self.modes)]
        for step in self.steps:
            told.append(step.says if isinstance(step, Dense) else "")
            told[-1] = told[-1] or ("length 1" if isinstance(step, UnitLength) else "LayerNorm")
        return ", ".join(told)


class Dense(nn.Module):
    """A linear layer with an activation, and where it is said the input added to what it gives."""

    def __init__(
        self, linear: nn.Linear, activation: nn.Module, residual: nn.Module | None = None
    ) -> None:
        super().__init__()
        self.linear, self.activation, self.residual = linear, activation, residual

    def forward(self, vectors: Tensor) -> Tensor:
        found = self.activation(self.linear(vectors))
        return found if self.residual is None else found + self.residual(vectors)

    @property
    def is_linear(self) -> bool:
        """Whether it is a linear layer and nothing else."""
        return isinstance(self.activation, nn.Identity) and self.residual is None

    @property
    def says(self) -> str:
        """Its sizes and its activation."""
        sizes = f"Dense {self.linear.in_features:,} → {self.linear.out_features:,}"
        idle = isinstance(self.activation, nn.Identity)
        return sizes if idle else f"{sizes} ({type(self.activation).__name__.lower()})"


class UnitLength(nn.Module):
    """A vector scaled to length 1."""

    def forward(self, vectors: Tensor) -> Tensor:
        return nn.functional.normalize(vectors, dim=-1)


# --- From a folder.


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """A module behind the pooling.

    Attributes:
        place: Its folder, such as 2_Dense.
        module: `Dense`, `nn.LayerNorm` or `UnitLength`.
    """

    place: str
    module: nn.Module


@dataclass(frozen=True, slots=True, kw_only=True)
class SentenceModules:
    """What stands behind a base model in its folder, as data.

    Attributes:
        modes: The poolings, by the library's names; several stand side by side.
        reads_prompt: Whether the tokens of a prompt before the text are pooled with the others.
        vector: From the pooled states to the sentence's vector (w).
        logits: From the pooled states to the logits of classes (c), where a classification layer is
            among the modules; else nothing.
    """

    modes: tuple[str, ...]
    reads_prompt: bool
    vector: tuple[Step, ...]
    logits: tuple[Step, ...] = ()

    @property
    def reading(self) -> TrainedReading:
        """Token states to the sentence's vector."""
        steps = [step.module for step in self.vector]
        return TrainedReading(self.modes, steps, reads_prompt=self.reads_prompt)


def sentence_modules(folder: Path, width: int) -> SentenceModules:
    """Read a folder's modules: those that make the sentence's vector, and a classification layer.

    Modules pass what they make on by name. What is written under another name than the sentence's
    vector are logits. Without such a name a last dense layer without an activation counts as
    them if it gives as many numbers as the model's config has labels.

    Args:
        width: d, of the base model's states.

    Raises:
        RecipeError: It has none, or one that is not known here or broken.
    """
    if not (folder / MODULES).is_file():
        raise _refused("it has no modules.json")
    check_case(folder)
    listed = _json(folder / MODULES)
    if not isinstance(listed, list) or not 1 < len(listed) <= MOST_MODULES:
        raise _refused("its modules.json lists no modules behind the model")
    named = [_named(one) for one in listed]
    if [name for name, _ in named[:2]] != ["Transformer", "Pooling"]:
        raise _refused(f"it begins with {' and '.join(name for name, _ in named[:2])}")
    modes, reads_prompt = _pooling(_config(folder, named[1][1]), width)
    # Under each name what made it so far, from the pooled states on, and its size.
    flows: dict[str, tuple[tuple[Step, ...], int]] = {VECTOR: ((), width * len(modes))}
    for name, place in named[2:]:
        taken, given = _names_through(name, folder, place)
        if taken not in flows:
            raise _refused(f"its {place} works on something else than the sentence's vector")
        steps, size = flows[taken]
        module, size = _step(name, folder, place, size)
        own = () if module is None or _copies(module) else (Step(place=place, module=module),)
        flows[given] = (*steps, *own), size
    vector, logits = _parted(flows, folder)
    return SentenceModules(modes=modes, reads_prompt=reads_prompt, vector=vector, logits=logits)


def _names_through(name: str, folder: Path, place: str) -> tuple[str, str]:
    """The names under which a module finds what it takes, and leaves what it gives."""
    if name not in ("Dense", "Normalize") or not (folder / place / "config.json").is_file():
        return VECTOR, VECTOR
    config = _config(folder, place)
    taken = str(config.get("module_input_name") or VECTOR)
    return taken, str(config.get("module_output_name") or taken)


def _copies(module: nn.Module) -> bool:
    """Whether a dense layer gives what it takes: so modules put the vector aside and back."""
    if not isinstance(module, Dense) or not module.is_linear or module.linear.bias is not None:
        return False
    weight = module.linear.weight
    return weight.shape[0] == weight.shape[1] and torch.equal(weight, torch.eye(len(weight)))


def _parted(
    flows: Mapping[str, tuple[tuple[Step, ...], int]], folder: Path
) -> tuple[tuple[Step, ...], tuple[Step, ...]]:
    """The steps to the sentence's vector, and those to the logits."""
    vector, size = flows[VECTOR]
    others = [name for name in flows if name != VECTOR and flows[name][0]]
    named = next((name for name in (LOGITS, SCORES) if name in others), "")
    if named or len(others) == 1:
        return vector, flows[named or others[0]][0]
    last = vector[-1].module if vector else None
    if not others and isinstance(last, Dense) and last.is_linear and size == _labels(folder):
        return vector[:-1], vector
    return vector, ()


def _labels(folder: Path) -> int:
    """How many labels a model's config has, as Transformers counts them."""
    try:
        config = _json(folder / "config.json")
    except RecipeError:
        return 0
    config = config if isinstance(config, dict) else {}
    names, number = config.get("id2label"), config.get("num_labels", USUAL_LABELS)
    return len(names) if isinstance(names, dict) else number if isinstance(number, int) else 0


def check_case(folder: Path) -> None:
    """Raise RecipeError where texts are to be put in lower case that the tokenizer keeps.

    The library changes the tokenizer for that; ours is the base model's for all readings.
    """
    if _object(folder / LENGTH).get("do_lower_case") is True and not _lowercases(folder):
        raise _refused(f"its {LENGTH} asks for lower case, and its tokenizer keeps capitals")


def _lowercases(folder: Path) -> bool:
    """Return True if a folder's tokenizer puts texts in lower case by itself."""
    if not (folder / "tokenizer.json").is_file():  # one that Transformers builds from its words
        return _object(folder / "tokenizer_config.json").get("do_lower_case") is True
    try:  # read and never run, for it may be a stranger's
        tokenizer = json.loads((folder / "tokenizer.json").read_text("utf-8"))
        normalizer = tokenizer.get("normalizer") or {}
        parts = normalizer.get("normalizers", [normalizer])
        return any(part.get("lowercase", part.get("type") == "Lowercase") for part in parts)
    except (OSError, ValueError, AttributeError, TypeError, RecursionError):
        raise _refused("its tokenizer.json cannot be read") from None


def sentence_config(folder: Path) -> SentenceConfig:
    """What a folder says of prompts and lengths; nothing, where nothing can be read."""
    try:
        told, length = _object(folder / PROMPTS), _object(folder / LENGTH)
    except RecipeError:
        return SentenceConfig()
    given = told.get("prompts")
    prompts = {
        str(name): text
        for name, text in (given.items() if isinstance(given, dict) else ())
        if isinstance(text, str) and text
    }
    usual, tokens = told.get("default_prompt_name"), length.get("max_seq_length")
    return SentenceConfig(
        prompts=prompts,
        default_prompt=usual if isinstance(usual, str) and usual in prompts else "",
        tokens=tokens if isinstance(tokens, int) and tokens > 0 else 0,
        reads_pairs=told.get("model_type") == CROSS_ENCODER,
        activation=str(told.get("activation_fn") or ""),
    )


def _refused(why: str) -> RecipeError:
    what = f"How this base model was trained to be read is not known here: {why}."
    return RecipeError(what, "Take another pooling, for example mean or cls.")


def _json(path: Path) -> Any:
    try:
        if path.stat().st_size > MOST_BYTES:
            raise _refused(f"its {path.name} is over {MOST_BYTES // 1_000_000} MB")
        return json.loads(path.read_text("utf-8"))
    except (OSError, ValueError, RecursionError):
        raise _refused(f"its {path.name} cannot be read as JSON") from None


def _object(path: Path) -> dict[str, Any]:
    """Return the JSON object in a file; an empty one where there is none."""
    values = _json(path) if path.is_file() else {}
    return values if isinstance(values, dict) else {}


def _named(module: Any) -> tuple[str, str]:
    """A module's class, whose home has moved from version to version, and its folder."""
    kind, place = (module.get("type"), module.get("path")) if isinstance(module, dict) else ("", "")
    if not isinstance(kind, str) or not isinstance(place, str):
        raise _refused("its modules.json cannot be understood")
    name = kind.rpartition(".")[2]
    if not kind.startswith(LIBRARY):
        raise _refused(f"its module {kind[:80]} is code of its own, which is never run")
    if name != "Transformer" and not PLACE.fullmatch(place):
        raise _refused(f"its module {name[:40]} lies in no folder such as 1_Pooling")
    return name, place


def _config(folder: Path, place: str) -> dict[str, Any]:
    path = folder / place / "config.json"
    if not path.is_file():
        raise _refused(f"its {place}/config.json is not on this machine; fetch it again")
    values = _json(path)
    if not isinstance(values, dict):
        raise _refused(f"its {place}/config.json holds no JSON object")
    return values


def _pooling(config: Mapping[str, Any], width: int) -> tuple[tuple[str, ...], bool]:
    """The modes of a pooling, and whether it pools the tokens of a prompt too."""
    size = config.get("embedding_dimension", config.get("word_embedding_dimension", width))
    if size != width:
        raise _refused(f"its pooling is of {size} numbers a token, and there are {width}")
    modes = config.get("pooling_mode") or [mode for flag, mode in FLAGS.items() if config.get(flag)]
    modes = (modes,) if isinstance(modes, str) else tuple(modes) or ("mean",)
    if unknown := [mode for mode in modes if mode not in MODES]:
        raise _refused(f"its pooling '{str(unknown[0])[:40]}' is none of {', '.join(MODES)}")
    reads_prompt = config.get("include_prompt", True) is not False
    if "weightedmean" in modes and not reads_prompt:  # it counts tokens from the prompt's first
        raise _refused("its weighted mean counts the tokens of a prompt that it does not read")
    return modes, reads_prompt


def _step(name: str, folder: Path, place: str, size: int) -> tuple[nn.Module | None, int]:
    """A module behind the pooling, None where it does nothing, and how many numbers it gives."""
    if name == "Normalize":
        return UnitLength(), size
    if name == "Dropout":  # acts in training alone
        return None, size
    if name == "LayerNorm":
        found = nn.LayerNorm(size)
        _fill(found, folder / place, {"norm.weight": "weight", "norm.bias": "bias"}, place)
        return found, size
    if name == "Dense":
        return _dense(folder, place, size)
    raise _refused(f"its module {name[:40]} is not known here")


def _dense(folder: Path, place: str, size: int) -> tuple[Dense, int]:
    config = _config(folder, place)
    taken, given = config.get("in_features"), config.get("out_features")
    if taken != size or not isinstance(given, int) or not 0 < given <= MOST_BYTES:
        raise _refused(f"its {place} takes {taken} numbers and gives {given}, of {size}")
    linear = nn.Linear(size, given, bias=config.get("bias", True) is not False)
    added = config.get("use_residual") is True
    residual: nn.Module | None = nn.Identity() if added else None
    names = {f"linear.{name}": f"linear.{name}" for name, _ in linear.named_parameters()}
    if added and size != given:
        residual = nn.Linear(size, given, bias=False)
        names["residual.weight"] = "residual.weight"
    found = Dense(linear, _activation(config.get("activation_function"), place), residual)
    _fill(found, folder / place, names, place)
    return found, given


def _activation(told: Any, place: str) -> nn.Module:
    """An activation of torch by its full name; the library's own where none is named."""
    if told is None:
        return getattr(nn, USUAL_ACTIVATION)()
    name = str(told).rpartition(".")[2]
    if not str(told).startswith("torch.nn.") or name not in ACTIVATIONS:
        raise _refused(f"the activation '{str(told)[:80]}' of its {place} is not known here")
    return getattr(nn, name)()


def _fill(module: nn.Module, folder: Path, names: Mapping[str, str], place: str) -> None:
    """Fills a module with the tensors of a folder, by their names there."""
    own = module.state_dict()
    try:
        with safe_open(folder / "model.safetensors", framework="pt") as file:
            for theirs, ours in names.items():
                if list(file.get_slice(theirs).get_shape()) != list(own[ours].shape):
                    raise _refused(f"the tensor {theirs} of its {place} has another shape")
                own[ours].copy_(file.get_tensor(theirs))
    except (OSError, SafetensorError):
        pickled = (folder / "pytorch_model.bin").is_file()
        why = "are pickled, and pickles are never opened" if pickled else "cannot be read"
        raise _refused(f"the weights of its {place} {why}") from None


def sentence_files(folder: Path) -> Iterator[Path]:
    """The files of a folder's sentence-transformers configuration and of its modules."""
    named = [folder / name for name in (MODULES, PROMPTS, LENGTH)]
    places = sorted(one for one in folder.iterdir() if PLACE.fullmatch(one.name))
    files = (place / name for place in places for name in ("config.json", "model.safetensors"))
    yield from (path for path in (*named, *files) if path.is_file())


def why_untrained(folder: Path | None, id: str, width: int) -> RecipeError:
    """Why a base model has no reading of its own."""
    try:
        if folder is None:
            raise _refused("it was never on disk")
        sentence_modules(folder, width)
    except HeadsError as error:
        what = error.what.replace("this base model", id, 1)
        return RecipeError(what, error.hint)
    raise AssertionError("it has one")
