"""Whether an adapter folder of PEFT holds a whole classifier: head, labels and the base it is for.

An adapter is some small matrices beside a base model. Whether the head was learned and saved with
them hangs on `task_type` and `modules_to_save`, and PEFT loads a folder without it in silence, with
a random head. Nothing of the base model is computed: its class is built on the meta device, for
names and shapes, and the folder's tensors are read from safetensors.
"""

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any, Literal

import torch
from safetensors import SafetensorError, safe_open
from torch import Tensor

from heads import display
from heads.backbone.hub import CONFIG_BYTES, as_json
from heads.backbone.safety import Checkpoint, admit, check_name, is_folder
from heads.classifier.native_head import stored_shapes
from heads.errors import CheckpointError, HeadsError, ModelError
from heads.interfaces.views.format import counted
from heads.settings import Limits

CONFIG, WEIGHTS, PICKLED = "adapter_config.json", "adapter_model.safetensors", "adapter_model.bin"
INNER = "base_model.model."  # stands before every name in a file of PEFT
# Before it the layer that a matrix is added to. AdaLoRA's names end in lora_A, without a weight.
MATRIX = re.compile(r"\.(?:lora_(?P<lora>\w+)|token_adapter\.trainable_tokens_delta)(?:\.|$)")
KNOWN = ("LORA", "ADALORA", "")  # kinds whose matrices are judged; of others only the head
ALWAYS_SAVED = ("classifier", "score")  # modules that PEFT saves whole under TASK
OUTER = "base_model."  # the same where prompts are learned, which change no layer
KEPT, ORIGINAL = ".modules_to_save.", ".original_module."
TASK = "SEQ_CLS"  # with which PEFT saves modules called classifier or score without being told

Weight = Literal["fault", "note"]


@dataclass(frozen=True, slots=True, kw_only=True)
class AdapterFinding:
    """Something that one should know of an adapter.

    Attributes:
        weight: "fault" where it does not do what its owner thinks; else "note".
        says: What it is, in a sentence.
        hint: What to do.
    """

    weight: Weight
    says: str
    hint: str = ""

    @property
    def sentence(self) -> str:
        """Return the finding with its weight and what to do."""
        return " ".join(filter(None, (f"{self.weight.capitalize()}:", self.says, self.hint)))


@dataclass(frozen=True, slots=True, kw_only=True)
class AdapterReport(display.Displayed):
    """What an adapter folder of PEFT holds, and whether it is a whole classifier.

    Attributes:
        folder: The folder.
        kind: The kind of adapter, such as LORA.
        base: The base model that it names.
        called: The class of Transformers that it goes onto, such as BertForSequenceClassification;
            "" where the base model is not on this machine.
        rank: The rank of its matrices; 0 where it has none.
        learned: The modules of the base model that have an addition; none where its kind is not
            known here.
        saved: The modules that are saved whole, among them the head if it was learned.
        head: Whether the head is in the folder: whole, in part, or not; unknown where neither the
            base model nor the names tell.
        outputs: How many logits the saved head gives; 0 where there is none.
        labels: Their names, where the folder has them.
        findings: Faults first.
    """

    folder: str
    kind: str
    base: str
    called: str
    rank: int
    learned: tuple[str, ...]
    saved: tuple[str, ...]
    head: Literal["whole", "partly", "missing", "unknown"]
    outputs: int
    labels: tuple[str, ...]
    findings: tuple[AdapterFinding, ...]

    @property
    def is_whole(self) -> bool:
        """Whether nothing is wrong with it."""
        return not any(one.weight == "fault" for one in self.findings)

    @property
    def verdict(self) -> str:
        """In one sentence, what it is."""
        faults = sum(one.weight == "fault" for one in self.findings)
        if faults:
            many = "1 fault" if faults == 1 else f"{faults} faults"
            return f"This adapter is no whole classifier: {many}."
        if self.head != "whole":
            return "Nothing wrong is found, but the head could not be held to its base model."
        if not self.outputs:
            return "The adapter goes onto a classifier whose head is in the base model's own files."
        return f"Adapter and head are both here: a classifier of {self.outputs} outputs."

    def describe(self) -> display.Description:
        """Return what shell and notebook show."""
        rank = f" of rank {self.rank}" * bool(self.rank)
        onto = f" ({self.called})" * bool(self.called)
        lines = [f"{self.kind or 'PEFT'}{rank} for {self.base}{onto}."]
        if self.learned:
            lines.append(
                f"Learned: {counted(len(self.learned), 'module')}, such as {self.learned[0]}."
            )
        lines.append(f"Saved whole: {', '.join(self.saved) or 'nothing'}.")
        lines += [f"Labels: {', '.join(self.labels)}."] * bool(self.labels)
        findings = [one.sentence for one in self.findings]
        return display.Description(title=self.verdict, blocks=(*findings, *lines))

    def as_json(self) -> dict[str, Any]:
        """As plain values."""
        return {**asdict(self), "whole": self.is_whole, "verdict": self.verdict}


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class _Adapter:
    """What lies in the folder: its config, its matrices and what is saved whole, by plain names."""

    folder: Path
    config: Mapping[str, Any]
    matrices: Mapping[str, Tensor] = field(default_factory=dict)
    saved: Mapping[str, Tensor] = field(default_factory=dict)

    @property
    def kind(self) -> str:
        """The kind of adapter, such as LORA."""
        return str(self.config.get("peft_type") or "")

    @property
    def asked(self) -> tuple[str, ...]:
        """The modules that its config wants saved."""
        given = self.config.get("modules_to_save")
        return tuple(map(str, given)) if isinstance(given, list) else ()


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class _Base:
    """Hold names and shapes of the base class, and in `head` the tensors its files lack."""

    called: str
    shapes: Mapping[str, tuple[int, ...]]
    head: tuple[str, ...]


def check_adapter(folder: str, base: str, limits: Limits) -> AdapterReport:
    """Looks into an adapter folder.

    Args:
        folder: A folder on this machine.
        base: The base model, in place of the one that the folder names; "" for that one.

    Raises:
        CheckpointError: It is no folder of an adapter.
        ModelError: The base model that was given is not there, or must not be loaded.
    """
    adapter = _opened(folder, limits)
    named = adapter.config.get("base_model_name_or_path")
    named = named if isinstance(named, str) else ""
    findings = [] if base else list(_of_name(named))
    found, why = _base(base or named, limits, must=bool(base))
    findings += why
    state, own = _of_head(adapter, found)
    findings += own
    outputs, labels = _outputs(adapter, found), _labels(adapter.folder)
    findings += [*_of_matrices(adapter, found), *_of_labels(labels, outputs)]
    return AdapterReport(
        folder=folder,
        kind=adapter.kind,
        base=base or named,
        called=found.called if found else "",
        rank=_rank(adapter),
        learned=tuple(dict.fromkeys(map(_place, adapter.matrices)) if _is_known(adapter) else ()),
        saved=tuple(dict.fromkeys(name.rpartition(".")[0] for name in adapter.saved)),
        head=state,
        outputs=outputs,
        labels=labels,
        findings=tuple(sorted(findings, key=lambda one: one.weight)),
    )


# --- What lies in the folder.


def _opened(folder: str, limits: Limits) -> _Adapter:
    check_name(folder)
    if not is_folder(folder.strip(), limits):
        raise CheckpointError(
            f"There is no folder '{folder[:80]}' here.", "Give an adapter's folder."
        )
    place = Path(folder.strip()).expanduser()
    if not (place / CONFIG).is_file():
        what = f"There is no {CONFIG} in {folder[:80]}, so it is no adapter of PEFT."
        raise CheckpointError(what, "Give the folder that its save_pretrained wrote.")
    if (place / CONFIG).stat().st_size > CONFIG_BYTES:
        raise CheckpointError(f"Its {CONFIG} is over {CONFIG_BYTES // 1_000_000} MB.", "")
    config = as_json((place / CONFIG).read_bytes(), CONFIG)
    if not (place / WEIGHTS).is_file():
        why = ", only a pickled one, which is never opened" * (place / PICKLED).is_file()
        hint = "Save it again with safe_serialization=True."
        raise CheckpointError(f"There is no {WEIGHTS} in {folder[:80]}{why}.", hint)
    try:
        with safe_open(place / WEIGHTS, framework="pt") as file:
            tensors = {_plain(name): file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
    except (OSError, SafetensorError):
        raise CheckpointError(f"Its {WEIGHTS} cannot be read.", "Save or fetch it again.") from None
    tensors = {name: own for name, own in tensors.items() if name}
    adapter = _Adapter(folder=place, config=config)
    is_saved = {name: _is_saved(name, adapter) for name in tensors}
    return replace(
        adapter,
        matrices={name: own for name, own in tensors.items() if not is_saved[name]},
        saved={name: own for name, own in tensors.items() if is_saved[name]},
    )


def _is_known(adapter: _Adapter) -> bool:
    return adapter.kind in KNOWN


def _is_saved(name: str, adapter: _Adapter) -> bool:
    """Whether a tensor is of a module that is saved whole, not the adapter's own."""
    if _is_known(adapter):
        return MATRIX.search(name) is None
    return not {*ALWAYS_SAVED, *(one.rpartition(".")[2] for one in adapter.asked)}.isdisjoint(
        name.split(".")
    )


def _place(name: str) -> str:
    """The layer of the base model that a matrix is added to."""
    return MATRIX.split(name)[0]


def _letter(name: str) -> str:
    """Which matrix of its layer it is: A, B, E, embedding_A, …; "" of learned tokens."""
    found = MATRIX.search(name)
    return (found["lora"] or "") if found else ""


def _plain(name: str) -> str:
    """A tensor's name in the model, without what PEFT puts around it; "" of what it only wraps."""
    if ORIGINAL in name:
        return ""
    outer = INNER if name.startswith(INNER) else OUTER
    name = name.removeprefix(outer).replace(".base_layer.", ".")
    module, kept, rest = name.partition(KEPT)
    return f"{module}.{rest.removeprefix('default.')}" if kept else name


def _labels(folder: Path) -> tuple[str, ...]:
    """The names of the classes, where a config.json lies beside the adapter."""
    try:
        told = json.loads((folder / "config.json").read_text("utf-8")).get("id2label")
        return tuple(str(told[key]) for key in sorted(told, key=int)) if told else ()
    except (OSError, ValueError, TypeError, AttributeError, RecursionError):
        return ()


def _rank(adapter: _Adapter) -> int:
    every = adapter.matrices.items()
    return next((own.shape[0] for name, own in every if _letter(name) == "A"), 0)


# --- The base model: its class on the meta device.


def _base(name: str, limits: Limits, *, must: bool) -> tuple[_Base | None, list[AdapterFinding]]:
    """The class that an adapter goes onto, or why it could not be held to it."""
    if not name:
        return None, []
    try:
        checkpoint = admit(name, limits, download=False)
        return _built(checkpoint), []
    except HeadsError as error:
        if must:
            raise
        says = f"It could not be held to its base model: {error.what}"
        return None, [AdapterFinding(weight="note", says=says, hint="Name it with --base.")]


def _built(checkpoint: Checkpoint) -> _Base:
    from transformers import AutoConfig, AutoModelForSequenceClassification

    config = AutoConfig.from_pretrained(checkpoint.folder, trust_remote_code=False)
    try:
        with torch.device("meta"):
            model = AutoModelForSequenceClassification.from_config(config)
    except (ValueError, RuntimeError, TypeError, ImportError) as error:
        what = f"{checkpoint.id} has no class for classification ({type(error).__name__})."
        raise ModelError(what, "") from None
    shapes = {name: tuple(own.shape) for name, own in model.state_dict().items()}
    prefix = f"{model.base_model_prefix}."
    stored = {name.removeprefix(prefix) for name in stored_shapes(checkpoint.folder)}
    # The head and a pooler alone: what else the files call otherwise is there, or does not load.
    ours = [name for name in shapes if not name.startswith(prefix) or "pooler." in name]
    lacking = [name for name in ours if name.removeprefix(prefix) not in stored]
    return _Base(called=type(model).__name__, shapes=shapes, head=tuple(lacking))


# --- What is wrong with it, or good to know.


def _fault(says: str, hint: str = "") -> AdapterFinding:
    return AdapterFinding(weight="fault", says=says, hint=hint)


def _of_name(named: str) -> Iterator[AdapterFinding]:
    if not named:
        says = "Its config names no base model."
        yield _fault(says, "Write base_model_name_or_path into its adapter_config.json.")
    elif named.startswith(("/", ".", "~")) and not Path(named).expanduser().is_dir():
        says = f"Its base model is the folder {named[:80]}, which is not on this machine."
        yield _fault(says, "Write an id of the Hub into its adapter_config.json, or give --base.")


def _of_head(
    adapter: _Adapter, base: _Base | None
) -> tuple[Literal["whole", "partly", "missing", "unknown"], list[AdapterFinding]]:
    """Whether the head is in the folder."""
    if base is None:
        return ("unknown", []) if adapter.saved else ("missing", [_unsaved(adapter)])
    lacking = [name for name in base.head if name not in adapter.saved]
    if not lacking:
        return "whole", []
    modules = ", ".join(dict.fromkeys(name.rpartition(".")[0] for name in lacking))
    if len(lacking) < len(base.head) and any(
        name in adapter.saved for name in base.head if "pooler." not in name
    ):
        says = f"Of the head {modules} is not in the folder: it is random at every load."
        return "partly", [_fault(says, _retrain(base))]
    return "missing", [_unsaved(adapter, base)]


def _retrain(base: _Base) -> str:
    modules = dict.fromkeys(_module(name) for name in base.head)
    return f"Train it with modules_to_save={list(modules)}."


def _module(name: str) -> str:
    return name.rpartition(".")[0] if "pooler." in name else name.partition(".")[0]


def _unsaved(adapter: _Adapter, base: _Base | None = None) -> AdapterFinding:
    """Why a head is not in the folder."""
    hint = _retrain(base) if base else "Train it with task_type=SEQ_CLS or modules_to_save."
    theirs = dict.fromkeys(map(_module, base.head)) if base else {}
    if base and adapter.asked and not any(_ends(one, theirs) for one in adapter.asked):
        says = (
            f"modules_to_save names {', '.join(adapter.asked)}, and the head of {base.called} is "
            f"{', '.join(theirs)}: it was neither learned nor saved, and is random at every load."
        )
        return _fault(says, hint)
    if adapter.asked or adapter.config.get("task_type") == TASK:
        says = "Its config wants the head saved, and the file has no tensor of it: it was lost."
        return _fault(says, "Save it by the model's own save_pretrained, not from a state_dict.")
    says = (
        "Neither task_type=SEQ_CLS nor modules_to_save stands in its config: the head was neither "
        "learned nor saved, and is random at every load."
    )
    return _fault(says, hint)


def _ends(module: str, among: Mapping[str, None]) -> bool:
    return any(name == module or name.endswith(f".{module}") for name in among)


def _of_matrices(adapter: _Adapter, base: _Base | None) -> Iterator[AdapterFinding]:
    """What is wrong with the matrices, and with what is saved whole."""
    every = {**adapter.matrices, **adapter.saved}
    broken = [name for name, own in every.items() if not own.isfinite().all()]
    if broken:
        yield _fault(f"The tensor {broken[0]} holds NaN or infinity.", "Train it again.")
    if not _is_known(adapter):
        says = f"What an adapter of the kind {adapter.kind[:40]} adds is not judged here: only its "
        yield AdapterFinding(weight="note", says=f"{says}head and its labels are.")
        return
    if idle := _idle(adapter):
        yield _fault(f"It adds nothing: every {idle} is 0, as before any training.", "Train it.")
    if base:
        yield from _of_places(adapter, base)
    rank, key = _rank(adapter), "init_r" if adapter.kind == "ADALORA" else "r"
    told = adapter.config.get(key)
    if rank and isinstance(told, int) and rank != told and not adapter.config.get("rank_pattern"):
        says = f"Its matrices have rank {rank}, and its config says {key}={told}."
        yield _fault(says, "Save it again.")


def _idle(adapter: _Adapter) -> str:
    """The name of the matrices that are 0 before any training, where all of them are; else ""."""
    letters = {name: _letter(name) for name in adapter.matrices}
    first = "E" if "E" in letters.values() else "B"  # AdaLoRA begins with singular values of 0
    added = [own for name, own in adapter.matrices.items() if letters[name].endswith(first)]
    learns_tokens = "" in letters.values()
    is_idle = added and not learns_tokens and not any(own.any() for own in added)
    return f"lora_{first}" if is_idle else ""


def _of_places(adapter: _Adapter, base: _Base) -> Iterator[AdapterFinding]:
    """What of it has no place in its base model."""
    places = set(map(_place, adapter.matrices))
    nowhere = sorted(place for place in places if f"{place}.weight" not in base.shapes)
    odd = sorted(filter(None, (_odd(name, own, base) for name, own in adapter.matrices.items())))
    if nowhere or odd:
        why = f"there is no {nowhere[0]}" if nowhere else odd[0]
        says = f"It is of another base model: in {base.called} {why}."
        yield _fault(says, "Name the base model that it was trained on.")
    foreign = sorted(name for name in adapter.saved if name not in base.shapes)
    if foreign and not nowhere:
        says = f"It holds {foreign[0]}, and {base.called} has no such tensor: it is not loaded."
        yield _fault(says, "Look at modules_to_save, and at the class that it was trained as.")


def _odd(name: str, own: Tensor, base: _Base) -> str:
    """A matrix whose shape does not suit the layer that it is added to."""
    place, matrix = _place(name), _letter(name)
    shape = base.shapes.get(f"{place}.weight")
    if shape is None or len(shape) != 2 or own.dim() != 2 or matrix not in ("A", "B", ""):
        return ""
    # GPT-2's layers are stored the other way round.
    sizes = {shape[0], shape[1]}
    size = own.shape[0] if matrix == "B" else own.shape[1]
    return "" if size in sizes else f"{place} is {shape[0]} × {shape[1]}, not of {size}"


def _outputs(adapter: _Adapter, base: _Base | None) -> int:
    """How many logits the saved head gives: the rows of its last matrix."""
    own = [name for name in (base.head if base else adapter.saved) if name in adapter.saved]
    known = [n for n in own if n.endswith(".weight") and adapter.saved[n].dim() == 2]
    known = [name for name in known if "pooler." not in name]
    return int(adapter.saved[known[-1]].shape[0]) if known else 0


def _of_labels(labels: Sequence[str], outputs: int) -> Iterator[AdapterFinding]:
    if not outputs:
        return
    if labels and len(labels) != outputs:
        says = f"The head gives {outputs} logits, and its config.json names {len(labels)} labels."
        yield _fault(says, "Save the config of the model that was trained.")
    elif not labels:
        says = f"The names of its {outputs} labels are not in the folder."
        hint = f"Load the base model with num_labels={outputs}, and save its config here."
        yield AdapterFinding(weight="note", says=says, hint=hint)
