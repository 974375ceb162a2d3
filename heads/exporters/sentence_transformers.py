"""A trained head on its base model as a folder that sentence-transformers loads, and its proof.

A head on single texts becomes the modules of a SentenceTransformer: the model, its pooling, and the
head's layers as Dense modules behind it. They leave the sentence's vector where it was and give the
logits under a name of their own, which Dense can do since 5.4. A head on pairs becomes a
CrossEncoder: where a class of Transformers computes the same, that class's checkpoint, which every
version loads; else the same modules.
Legend: n texts, c classes, w width of the pooled vector.
"""

import copy
import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from heads.backbone.backbone import Backbone
from heads.backbone.trained_reading import (
    ACTIVATIONS,
    CROSS_ENCODER,
    LENGTH,
    LOGITS,
    MODULES,
    PROMPTS,
    SCORES,
    VECTOR,
    Dense,
    UnitLength,
)
from heads.backbone.weights import pooler_weights
from heads.caching import save_tensors
from heads.catalog.base_models import base_of
from heads.classifier.classifier import Classifier
from heads.classifier.module import RecipeModule
from heads.classifier.sentence_head import POOLINGS
from heads.errors import CheckpointError, HeadsError, RecipeError
from heads.exporters.matching import Equivalent, equivalent
from heads.exporters.model_card import Publication, base_name, model_card
from heads.exporters.tokenizer import tokenizer_of
from heads.exporters.transformers import Written, config_of, write_native
from heads.exporters.verification import MOST_DIFFERENCE, verify_logits
from heads.parts.modules import (
    Directions,
    Normalise,
    Scale,
    acts_in_training_only,
    is_idle,
    is_plain,
    leaves,
    words,
)
from heads.parts.resolved_recipe import PAIR, ResolvedRecipe
from heads.problem import SINGLE_OUTPUT
from heads.rng import IsolatedRng

LIBRARY = "sentence-transformers"
SINCE = "5.4.0"  # whose Dense can write under another name than it reads
OTHERWISE = "Export it without --as, or as an ONNX file."
WITHOUT = "Export it without --as."  # where an ONNX file does not hold it either
MODES = {ours: modes for modes, ours in POOLINGS.items()}
USUAL_EPS = nn.LayerNorm(1).eps  # of the library's LayerNorm, which has no other
ASIDE = "pooled"  # where the vector is kept while a layer norm, which knows one name, is at work
PROMPT = "classification"
SEVERAL = 2  # classes: any number, as the modules are the same
IDENTITY, SIGMOID = "torch.nn.modules.linear.Identity", "torch.nn.modules.activation.Sigmoid"
USE_VECTORS = """\
from sentence_transformers import SentenceTransformer  # {since} or newer

model = SentenceTransformer({folder})
(found,) = model.encode(["Not bad at all."], output_value=None)
print(found["logits"], found["sentence_embedding"].shape)"""
USE_PAIRS = """\
from sentence_transformers import CrossEncoder{since}

model = CrossEncoder({folder})
print(model.predict([("The bridge is closed.", "The bridge is shut.")]))  # {gives}"""
_CLASSES = "The classes, in the order of the logits, are `id2label` in `config.json`."


@dataclass(frozen=True, slots=True, kw_only=True)
class Module:
    """A module of the library as it lies in its folder.

    Attributes:
        name: Its class.
        config: What its config.json says.
        tensors: What its model.safetensors holds.
    """

    name: str
    config: Mapping[str, Any]
    tensors: Mapping[str, Tensor]


def check_recipe(resolved: ResolvedRecipe, backbone: Backbone) -> None:
    """Refuses a recipe that sentence-transformers can never compute, before it is trained.

    Raises:
        RecipeError: It can be neither a SentenceTransformer nor a CrossEncoder.
    """
    with IsolatedRng().rolling():  # its random weights are not used
        module = RecipeModule(resolved, backbone, SEVERAL)
    try:
        modules_of(module, backbone.for_recipe(resolved), LOGITS)
    except RecipeError:
        try:  # of pairs it may still be a class of Transformers
            equivalent(module, backbone, SEVERAL)
        except RecipeError:
            pass
        else:
            return
        raise


def write_sentence_transformers(
    classifier: Classifier, path: Path, name: str, published: Publication | None = None
) -> Written:
    """Fill a folder for SentenceTransformer or CrossEncoder, and load it; see `write_native`.

    Raises:
        RecipeError: No modules of the library compute the same.
        CheckpointError: It does not load, or answers otherwise.
    """
    folder = _Folder(classifier=classifier, path=path, name=name, published=published)
    if not classifier.head.needs_pairs:
        return folder.of_vectors()
    try:
        native = equivalent(classifier.head.module, classifier.backbone, len(classifier.classes))
    except RecipeError:
        return folder.of_pairs()
    return folder.of_native(native)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Folder:
    """A folder to be filled; see `write_sentence_transformers`."""

    classifier: Classifier
    path: Path
    name: str
    published: Publication | None

    def of_vectors(self) -> Written:
        """Fills it with the modules of a SentenceTransformer."""
        self._modules(LOGITS, {"model_type": "SentenceTransformer", "similarity_fn_name": "cosine"})
        use = USE_VECTORS.format(folder=json.dumps(self.name), since=SINCE)
        told = f"It gives the pooled vector as `{VECTOR}` and the logits as `{LOGITS}`."
        return self._proved("SentenceTransformer", use, [f"{told} {_CLASSES}", *self._needs()])

    def of_pairs(self) -> Written:
        """Fills it with the modules of a CrossEncoder."""
        if prefix := self.classifier.backbone.prefix:
            what = f"A CrossEncoder writes no prompt such as '{prefix.strip()}' before a pair."
            raise RecipeError(what, WITHOUT)
        own = {"model_type": CROSS_ENCODER, "activation_fn": self._activation}
        self._modules(SCORES, own)
        use = self._pairs_use(f"  # {SINCE} or newer")
        older = "Older versions load it without an error, with a head that is random."
        return self._proved(CROSS_ENCODER, use, [_CLASSES, *self._needs(), older])

    def of_native(self, native: Equivalent) -> Written:
        """Fills it with the checkpoint of a class of Transformers, which a CrossEncoder is."""
        given = (self.classifier, native, self.path, self.name, self.published)
        native_written = write_native(*given)
        self._describe(json.loads((self.path / "config.json").read_text("utf-8")))
        notes = [*native_written.notes, _CLASSES]
        written = self._proved(CROSS_ENCODER, self._pairs_use(""), notes)
        return written._replace(called=f"{written.called} and {native_written.called}")

    @property
    def _activation(self) -> str:
        """What a CrossEncoder applies: nothing, but to a single logit of a yes-or-no question."""
        return SIGMOID if self.classifier.head.problem is SINGLE_OUTPUT else IDENTITY

    def _pairs_use(self, since: str) -> str:
        gives = "logits, (n, c); apply_softmax=True gives probabilities"
        if not self.classifier.head.problem.is_exclusive:
            gives = "logits, (n, c); activation_fn=torch.nn.Sigmoid() gives probabilities"
        if len(self.classifier.classes) == 1:
            gives = "one number a pair"
        return USE_PAIRS.format(folder=json.dumps(self.name), since=since, gives=gives)

    def _needs(self) -> Iterator[str]:
        yield f"It needs {LIBRARY} {SINCE} or newer."
        if self.classifier.backbone.reads_padding:
            yield "This base model reads padding: texts of other lengths beside it change a text's."

    def _modules(self, output: str, facts: Mapping[str, Any]) -> None:
        """Writes the model, its tokenizer and the modules behind it."""
        classifier, path = self.classifier, self.path
        backbone = classifier.backbone
        modules = modules_of(classifier.head.module, backbone, output)
        tokenizer = tokenizer_of(classifier)
        tokenizer.padding_side = "right"  # as we read
        config = config_of(classifier, backbone.model.config, tokenizer)
        config.__dict__.pop("auto_map", None)  # names code of the base model's own
        backbone.model.save_pretrained(path)
        written = json.loads((path / "config.json").read_text("utf-8"))
        config.architectures = written.get("architectures")
        config.save_pretrained(path)
        tokenizer.save_pretrained(path)
        self._describe(json.loads((path / "config.json").read_text("utf-8")))
        listed = [("Transformer", ""), *((one.name, f"{at}_{one.name}") for at, one in modules)]
        kinds = [
            {
                "idx": at,
                "name": str(at),
                "path": place,
                "type": f"sentence_transformers.models.{of}",
            }
            for at, (of, place) in enumerate(listed)
        ]
        for at, one in modules:
            _write_module(one, path / f"{at}_{one.name}")
        _write_json(path / MODULES, kinds)
        _write_json(path / LENGTH, {"max_seq_length": backbone.tokens, "do_lower_case": False})
        prompts = dict(backbone.sentences.prompts)
        prompts |= {PROMPT: backbone.prefix} if backbone.prefix else {}
        usual = {"default_prompt_name": PROMPT if backbone.prefix else None}
        version = {"__version__": {"sentence_transformers": SINCE}}
        _write_json(path / PROMPTS, {**version, **facts, "prompts": prompts, **usual})

    def _describe(self, config: dict[str, Any]) -> None:
        """Says in the model's config what a CrossEncoder applies."""
        if self.classifier.head.needs_pairs:
            config["sentence_transformers"] = {"activation_fn": self._activation}
        _write_json(self.path / "config.json", config)

    def _proved(self, called: str, use: str, notes: Sequence[str]) -> Written:
        """Writes the card, loads the folder anew and compares."""
        classifier, told = self.classifier, list(notes)
        is_installed = find_spec("sentence_transformers") is not None
        if not is_installed:
            told.append(f"{LIBRARY} is not installed here: Head to Head has read the folder anew.")
        card = model_card(classifier, use, told, library=LIBRARY, published=self.published)
        (self.path / "README.md").write_text(card, "utf-8")
        try:
            theirs = (_by_library if is_installed else _by_ourselves)(classifier, self.path)
            padded = not classifier.backbone.reads_padding
            _, difference = verify_logits(classifier, theirs, most=MOST_DIFFERENCE, padded=padded)
            return Written(f"a folder of {LIBRARY} for {called}", difference, tuple(told), use)
        except CheckpointError as error:
            what = f"{called} does not read {base_name(classifier.backbone)} as we do: {error.what}"
            raise CheckpointError(what, OTHERWISE) from error


# --- A recipe as modules.


def modules_of(module: RecipeModule, backbone: Backbone, output: str) -> list[tuple[int, Module]]:
    """The modules that compute what a recipe does, numbered as they stand behind the model.

    Args:
        backbone: As it reads for the recipe: with its prefix, if it has one.
        output: The name of the logits.

    Raises:
        RecipeError: There are none; says why.
    """
    _check_reading(module.reader.resolved, backbone)
    modes, reading = _reading(module.reader.resolved, backbone)
    pooling = {
        "embedding_dimension": backbone.width,
        "pooling_mode": modes[0] if len(modes) == 1 else list(modes),
        "include_prompt": backbone.reads_prefix or not backbone.prefix,
    }
    head = _steps(module)
    found = [Module(name="Pooling", config=pooling, tensors={})]
    found += [_module(step, VECTOR, VECTOR) for step in reading]
    found += _head_modules(head, module.reader.width, output)
    return list(enumerate(found, start=1))


def _check_reading(resolved: ResolvedRecipe, backbone: Backbone) -> None:
    """Refuses what no pooling of the library can read.

    Raises:
        RecipeError: So it is; says why.
    """
    last = resolved.layers is None and resolved.layer % (backbone.layers + 1) == backbone.layers
    why = {
        f"puts two texts together after each was read by itself ({PAIR}={resolved.pair})": (
            resolved.pair
        ),
        "reads other layers than the last one": not last,
        "writes a prompt behind every text": backbone.prompt,
        "reads a long text in windows": resolved.reads_windows,
        "applies its head to every token": resolved.late and not resolved.pooling.token,
        "reads an encoder that has a decoder behind it, and the library the decoder": (
            backbone.decoder_width
        ),
        "gives the first token global attention": base_of(backbone.model_type).marks_first,
    }
    if what := next((told for told, holds in why.items() if holds), ""):
        told = f"No modules of {LIBRARY} compute {resolved.recipe}: it {what}."
        raise RecipeError(told, WITHOUT if backbone.prompt or resolved.reads_windows else OTHERWISE)


def _reading(
    resolved: ResolvedRecipe, backbone: Backbone
) -> tuple[tuple[str, ...], list[nn.Module]]:
    """The modes of the pooling, and the steps from there to the vector that the head gets.

    Raises:
        RecipeError: The library has no such pooling.
    """
    steps: list[nn.Module] = [UnitLength()] if resolved.normalise else []
    if resolved.pooling.is_trained and backbone.trained is not None:
        return backbone.trained.modes, [*backbone.trained.steps, *steps]
    if resolved.pooling.is_pooler and (dense := _pooler(backbone)):
        return ("cls",), [dense, *steps]
    if resolved.pooling.name not in MODES:
        what = f"{LIBRARY} has no pooling that reads as {resolved.pooling.name} does."
        known = ", ".join(MODES)
        raise RecipeError(what, f"{OTHERWISE} Those that it has are {known}.")
    return MODES[resolved.pooling.name], steps


def _pooler(backbone: Backbone) -> Dense | None:
    """The base model's own pooler on the first token, where it is a dense layer and a tanh."""
    weights = pooler_weights(backbone.model)
    if "pooler.dense.weight" not in weights:
        return None
    wide, narrow = weights["pooler.dense.weight"].shape
    dense = nn.Linear(narrow, wide)
    dense.load_state_dict({name.rpartition(".")[2]: own for name, own in weights.items()})
    return Dense(dense, nn.Tanh())


def _steps(module: RecipeModule) -> list[nn.Module]:
    """The layers of a head that act in use, as `Dense`, `nn.LayerNorm` and `UnitLength`.

    Raises:
        RecipeError: The library has none that computes one of them.
    """
    steps: list[nn.Module] = []
    for _, layer in leaves(module.head):
        if is_idle(layer) or acts_in_training_only(layer):
            continue
        before = steps[-1] if steps else None
        if (step := _step(layer)) is not None:
            steps.append(step)
        elif isinstance(before, Dense) and before.is_linear and _follows(layer):
            steps[-1] = _followed(before, layer)
        else:
            resolved = module.reader.resolved
            what = f"No module of {LIBRARY} computes a {words(layer, is_last=False)}"
            raise RecipeError(f"{what}, as {resolved.head.name} does.", OTHERWISE)
    return steps


def _step(layer: nn.Module) -> nn.Module | None:
    """A layer that is a step of its own."""
    if is_plain(layer, nn.Linear):
        return Dense(layer, nn.Identity())
    if isinstance(layer, Directions):  # (c, w) of length 1
        linear = nn.Linear(layer.width, layer.classes, bias=False)
        linear.weight.data = nn.functional.normalize(layer.weight.detach(), dim=-1)
        return Dense(linear, nn.Identity())
    if is_plain(layer, nn.LayerNorm) and layer.eps == USUAL_EPS:
        return layer
    return UnitLength() if isinstance(layer, Normalise) else None


def _follows(layer: nn.Module) -> bool:
    """Whether a layer can be taken up by a dense one before it."""
    kind = type(layer)
    if isinstance(layer, Scale):
        return True
    # Of torch, and as it is without arguments, for only its name is kept.
    is_torch = kind.__module__.startswith("torch.nn.") and kind.__name__ in ACTIVATIONS
    return is_torch and repr(layer) == repr(kind())


def _followed(dense: Dense, layer: nn.Module) -> Dense:
    if not isinstance(layer, Scale):
        return Dense(dense.linear, layer)
    linear: nn.Linear = copy.deepcopy(dense.linear)
    for parameter in linear.parameters():
        parameter.data = parameter.data * layer.factor
    return Dense(linear, nn.Identity())


def _head_modules(steps: Sequence[nn.Module], width: int, output: str) -> list[Module]:
    """The modules of a head, which leave the vector as it was.

    Layer norms and lengths work on the sentence's vector alone: then it is put aside before, by a
    dense layer that changes nothing, and back behind.
    """
    first, *others = steps
    if all(isinstance(step, Dense) for step in steps):
        names = [VECTOR] + [output] * len(others)
        return [_module(step, name, output) for step, name in zip(steps, names, strict=True)]
    copied = nn.Linear(width, width, bias=False)
    copied.weight.data = torch.eye(width)
    same, last = Dense(copied, nn.Identity()), steps[-1]
    return [
        _module(same, VECTOR, ASIDE),
        *(_module(step, VECTOR, VECTOR) for step in (first, *others[:-1])),
        _module(last, VECTOR, output),
        _module(same, ASIDE, VECTOR),
    ]


def _module(step: nn.Module, taken: str, given: str) -> Module:
    """A step as a module that takes and gives under these names."""
    if isinstance(step, UnitLength):
        return Module(name="Normalize", config={}, tensors={})
    if isinstance(step, nn.LayerNorm):
        bias = torch.zeros_like(step.weight) if step.bias is None else step.bias
        tensors = {"norm.weight": step.weight, "norm.bias": bias}
        config = {"dimension": step.normalized_shape[0]}
        return Module(name="LayerNorm", config=config, tensors=tensors)
    assert isinstance(step, Dense)
    linear, kind = step.linear, type(step.activation)
    config = {
        "in_features": linear.in_features,
        "out_features": linear.out_features,
        "bias": linear.bias is not None,
        "activation_function": f"{kind.__module__}.{kind.__name__}",  # else it is a tanh
    }
    if (taken, given) != (VECTOR, VECTOR):
        config |= {"module_input_name": taken, "module_output_name": given}
    tensors = {f"linear.{name}": tensor for name, tensor in linear.state_dict().items()}
    if step.residual is not None:
        config |= {"use_residual": True}
        tensors |= {f"residual.{n}": own for n, own in step.residual.state_dict().items()}
    return Module(name="Dense", config=config, tensors=tensors)


def _write_module(module: Module, folder: Path) -> None:
    folder.mkdir()
    if module.config:
        _write_json(folder / "config.json", module.config)
    if module.tensors:
        own = {name: tensor.detach().cpu() for name, tensor in module.tensors.items()}
        save_tensors(folder / "model.safetensors", own)


def _write_json(path: Path, values: Any) -> None:
    path.write_text(json.dumps(values, ensure_ascii=False, indent=2) + "\n", "utf-8")


# --- What the folder answers, once loaded.


def _by_library(classifier: Classifier, path: Path) -> Any:
    """Texts and second texts to logits (n, c), as the library has them."""
    from sentence_transformers import CrossEncoder, SentenceTransformer

    backbone, pairs = classifier.backbone, classifier.head.needs_pairs
    kind: Any = CrossEncoder if pairs else SentenceTransformer
    given: dict[str, Any] = {"device": "cpu", "local_files_only": True}
    try:
        model = kind(str(path), **given)
    except HeadsError:
        raise
    except Exception as error:
        what = f"it does not load ({type(error).__name__})."
        raise CheckpointError(what, OTHERWISE) from error

    def asked(texts: Sequence[str], seconds: Sequence[str]) -> Tensor:
        both = list(zip(texts, seconds, strict=True)) if seconds else list(texts)
        count = len(classifier.classes)
        if backbone.stubborn or (seconds and not backbone.separates):  # where our cutting differs
            features = {
                n: t.cpu() for n, t in backbone.filled(backbone.encode(texts, seconds)).items()
            }
            return model(features)[SCORES if pairs else LOGITS].reshape(-1, count)
        if pairs:
            told = {"activation_fn": nn.Identity(), "convert_to_tensor": True}
            return model.predict(both, show_progress_bar=False, **told).reshape(-1, count)
        found = model.encode(both, output_value=None, show_progress_bar=False)
        return torch.stack([one[LOGITS] for one in found])

    def theirs(texts: Sequence[str], seconds: Sequence[str]) -> Tensor:
        with torch.inference_mode(), IsolatedRng().rolling():
            return asked(texts, seconds)

    return theirs


def _by_ourselves(classifier: Classifier, path: Path) -> Any:
    """The same by our own reader of such folders."""
    from heads.backbone.loading import load
    from heads.classifier.pretrained import own_head
    from heads.settings import limits

    backbone = load(str(path), limits=replace(limits(), public=False))  # a folder of ours
    return Classifier(backbone=backbone, head=own_head(backbone)).logits
