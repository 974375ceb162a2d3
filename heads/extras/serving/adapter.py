"""Check whether an adapter folder of PEFT holds a whole classifier: head, labels, base model.

PEFT loads a folder without its head without an error, with a random one. Nothing of the base model
is computed: its class is built on the meta device, for names and shapes.
"""

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError
from safetensors.torch import load_file
from torch import Tensor

from heads.backbone.hub import CONFIG_BYTES, as_json
from heads.backbone.safety import Checkpoint, admit, check_name, is_folder
from heads.classifier.native_head import stored_shapes
from heads.errors import CheckpointError, HeadsError, ModelError
from heads.extras.serving.report import AdapterReport, CheckFinding, HeadState, fault, note

CONFIG, WEIGHTS, PICKLED = "adapter_config.json", "adapter_model.safetensors", "adapter_model.bin"
INNER = "base_model.model."  # begins every name in a file of PEFT
OUTER = "base_model."  # the same where prompts are learned, which change no layer
# Before it the layer that a matrix is added to. AdaLoRA's names end in lora_A, without a weight.
MATRIX = re.compile(r"\.(?:lora_(?P<lora>\w+)|token_adapter\.trainable_tokens_delta)(?:\.|$)")
KNOWN = ("LORA", "ADALORA", "")  # kinds whose matrices are checked; of others only the head
SAVED, ORIGINAL = ".modules_to_save.", ".original_module."
TASK = "SEQ_CLS"  # with which PEFT saves the modules of these names without being told
ALWAYS_SAVED = ("classifier", "score")


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Adapter:
    """An adapter folder: its own matrices and the tensors saved whole, by plain names."""

    folder: Path
    kind: str
    config: Mapping[str, Any]
    matrices: Mapping[str, Tensor]
    saved: Mapping[str, Tensor]

    @property
    def rank(self) -> int:
        """The rank of its matrices; 0 where it has none."""
        matrices = self.matrices.items()
        return next((own.shape[0] for name, own in matrices if _letter(name) == "A"), 0)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class BaseClass:
    """The class that an adapter is added to: names, shapes, and the tensors its files lack."""

    name: str
    shapes: Mapping[str, tuple[int, ...]]
    head: tuple[str, ...]

    @property
    def head_modules(self) -> list[str]:
        """The modules of the head, as modules_to_save names them."""
        cuts = {True: str.rpartition, False: str.partition}
        return list(dict.fromkeys(cuts["pooler." in name](name, ".")[0] for name in self.head))


def check_folder(folder: str, base: str) -> AdapterReport:
    """Check an adapter folder as `heads.check_adapter` does; base "" is the one that it names."""
    adapter = _read_adapter(folder)
    named = adapter.config.get("base_model_name_or_path")
    named = named if isinstance(named, str) else ""
    findings = [] if base else list(_check_name(named))
    base_class = None
    try:
        if base or named:
            base_class = _build_class(admit(base or named, download=False))
    except HeadsError as error:
        if base:
            raise
        says = f"It could not be compared with its base model: {error.what}"
        findings.append(note("base", says, "Name it with --base."))
    head, head_faults = _check_head(adapter, base_class)
    outputs, labels = _count_outputs(adapter, base_class), _read_labels(adapter.folder)
    findings += [*head_faults, *_check_matrices(adapter, base_class)]
    findings += _check_labels(labels, outputs)
    learned = dict.fromkeys(map(_layer, adapter.matrices)) if adapter.kind in KNOWN else ()
    return AdapterReport(
        folder=folder,
        kind=adapter.kind,
        base=base or named,
        called=base_class.name if base_class else "",
        rank=adapter.rank,
        learned=tuple(learned),
        saved=tuple(dict.fromkeys(name.rpartition(".")[0] for name in adapter.saved)),
        head=head,
        outputs=outputs,
        labels=labels,
        findings=tuple(sorted(findings, key=lambda finding: finding.weight)),
    )


# --- The folder.


def _read_adapter(folder: str) -> Adapter:
    check_name(folder)
    shown, path = folder[:80], Path(folder.strip()).expanduser()
    if not is_folder(folder.strip()):
        raise CheckpointError(f"There is no folder '{shown}' here.", "Give an adapter's folder.")
    if not (path / CONFIG).is_file():
        what = f"There is no {CONFIG} in {shown}, so it is no adapter of PEFT."
        raise CheckpointError(what, "Give the folder that its save_pretrained wrote.")
    if (path / CONFIG).stat().st_size > CONFIG_BYTES:
        raise CheckpointError(f"Its {CONFIG} is over {CONFIG_BYTES // 1_000_000} MB.")
    config = as_json((path / CONFIG).read_bytes(), CONFIG)
    if not (path / WEIGHTS).is_file():
        why = ", only a pickled one, which is never opened" * (path / PICKLED).is_file()
        hint = "Save it again with safe_serialization=True."
        raise CheckpointError(f"There is no {WEIGHTS} in {shown}{why}.", hint)
    try:
        tensors = {_plain_name(name): own for name, own in load_file(path / WEIGHTS).items()}
    except (OSError, SafetensorError):
        raise CheckpointError(f"Its {WEIGHTS} cannot be read.", "Save or fetch it again.") from None
    tensors.pop("", None)
    modules = {*ALWAYS_SAVED, *(name.rpartition(".")[2] for name in _modules_to_save(config))}
    kind = str(config.get("peft_type") or "")

    def is_saved(name: str) -> bool:
        return not (MATRIX.search(name) if kind in KNOWN else modules.isdisjoint(name.split(".")))

    saved = {name: own for name, own in tensors.items() if is_saved(name)}
    matrices = {name: own for name, own in tensors.items() if name not in saved}
    return Adapter(folder=path, kind=kind, config=config, matrices=matrices, saved=saved)


def _modules_to_save(config: Mapping[str, Any]) -> list[str]:
    modules = config.get("modules_to_save")
    return list(map(str, modules)) if isinstance(modules, list) else []


def _plain_name(name: str) -> str:
    """Return a tensor's name in the model, without what PEFT adds; "" of what it only wraps."""
    if ORIGINAL in name:
        return ""
    name = name.removeprefix(INNER if name.startswith(INNER) else OUTER)
    module, saved, rest = name.replace(".base_layer.", ".").partition(SAVED)
    return f"{module}.{rest.removeprefix('default.')}" if saved else module


def _layer(name: str) -> str:
    return MATRIX.split(name)[0]


def _letter(name: str) -> str:
    """Return which matrix of its layer it is: A, B, E, embedding_A, …; "" of learned tokens."""
    match = MATRIX.search(name)
    return (match["lora"] or "") if match else ""


def _read_labels(folder: Path) -> tuple[str, ...]:
    try:
        names = json.loads((folder / "config.json").read_text("utf-8")).get("id2label")
        return tuple(str(names[key]) for key in sorted(names, key=int)) if names else ()
    except (OSError, ValueError, TypeError, AttributeError, RecursionError):
        return ()


def _build_class(checkpoint: Checkpoint) -> BaseClass:
    from transformers import AutoConfig, AutoModelForSequenceClassification

    config = AutoConfig.from_pretrained(checkpoint.folder, trust_remote_code=False)
    try:
        with torch.device("meta"):
            model = AutoModelForSequenceClassification.from_config(config)
    except (ValueError, RuntimeError, TypeError, ImportError) as error:
        what = f"{checkpoint.id} has no class for classification ({type(error).__name__})."
        raise ModelError(what) from None
    shapes = {name: tuple(own.shape) for name, own in model.state_dict().items()}
    prefix = f"{model.base_model_prefix}."
    stored = {name.removeprefix(prefix) for name in stored_shapes(checkpoint.folder)}
    # The head and a pooler alone: what else the files call otherwise is there, or does not load.
    own = [name for name in shapes if not name.startswith(prefix) or "pooler." in name]
    lacking = tuple(name for name in own if name.removeprefix(prefix) not in stored)
    return BaseClass(name=type(model).__name__, shapes=shapes, head=lacking)


# --- The checks.


def _check_name(named: str) -> Iterator[CheckFinding]:
    if not named:
        says = "Its config names no base model."
        yield fault("base", says, f"Write base_model_name_or_path into its {CONFIG}.")
    elif named.startswith(("/", ".", "~")) and not Path(named).expanduser().is_dir():
        says = f"Its base model is the folder {named[:80]}, which is not on this machine."
        yield fault("base", says, f"Write an id of the Hub into its {CONFIG}, or give --base.")


def _check_head(adapter: Adapter, base: BaseClass | None) -> tuple[HeadState, list[CheckFinding]]:
    if base is None:
        return ("unknown", []) if adapter.saved else ("missing", [_missing_head(adapter, base)])
    lacking = [name for name in base.head if name not in adapter.saved]
    if not lacking:
        return "whole", []
    if any(name in adapter.saved for name in base.head if "pooler." not in name):
        modules = ", ".join(dict.fromkeys(name.rpartition(".")[0] for name in lacking))
        says = f"Part of the head is not in the folder ({modules}): it is random at every load."
        return "partly", [fault("head", says, f"Train with modules_to_save={base.head_modules}.")]
    return "missing", [_missing_head(adapter, base)]


def _missing_head(adapter: Adapter, base: BaseClass | None) -> CheckFinding:
    named, modules = _modules_to_save(adapter.config), base.head_modules if base else []
    hint = f"Train it with {f'modules_to_save={modules}' if base else 'task_type=SEQ_CLS'}."
    is_named = any(own == name or own.endswith(f".{name}") for own in modules for name in named)
    if base and named and not is_named:
        heads = f"the head of {base.name} is {', '.join(modules)}: it"
        why = f"modules_to_save names {', '.join(named)}, and {heads}"
    elif named or adapter.config.get("task_type") == TASK:
        says = "Its config wants the head saved, and the file has no tensor of it: it was lost."
        hint = "Save it by the model's own save_pretrained, not from a state_dict."
        return fault("head", says, hint)
    else:
        why = "Its config has neither task_type=SEQ_CLS nor modules_to_save: the head"
    says = f"{why} was neither learned nor saved, and is random at every load."
    return fault("head", says, hint)


def _check_matrices(adapter: Adapter, base: BaseClass | None) -> Iterator[CheckFinding]:
    """Yield what is wrong with the matrices, and with the tensors that are saved whole."""
    tensors = {**adapter.matrices, **adapter.saved}
    if broken := [name for name, own in tensors.items() if not own.isfinite().all()]:
        yield fault("weights", f"The tensor {broken[0]} holds NaN or infinity.", "Train it again.")
    if adapter.kind not in KNOWN:
        says = f"The matrices of an adapter of the kind {adapter.kind[:40]} are not checked: its "
        yield note("weights", f"{says}head and its labels are.")
        return
    letters = {name: _letter(name) for name in adapter.matrices}
    zero = "E" if "E" in letters.values() else "B"  # before training; AdaLoRA's singular values
    added = [own for name, own in adapter.matrices.items() if letters[name].endswith(zero)]
    if added and "" not in letters.values() and not any(own.any() for own in added):
        says = f"It adds nothing: every lora_{zero} is 0, as before any training."
        yield fault("weights", says, "Train it.")
    if base:
        yield from _check_places(adapter, base)
    key = "init_r" if adapter.kind == "ADALORA" else "r"
    rank, said = adapter.rank, adapter.config.get(key)
    if rank and isinstance(said, int) and rank != said and not adapter.config.get("rank_pattern"):
        says = f"Its matrices have rank {rank}, and its config says {key}={said}."
        yield fault("weights", says, "Save it again.")


def _check_places(adapter: Adapter, base: BaseClass) -> Iterator[CheckFinding]:
    layers = sorted(set(map(_layer, adapter.matrices)))
    missing = [f"there is no {name}" for name in layers if f"{name}.weight" not in base.shapes]
    odd = sorted(filter(None, (_check_shape(*item, base) for item in adapter.matrices.items())))
    if wrong := missing or odd:
        says = f"It is of another base model: in {base.name} {wrong[0]}."
        yield fault("base", says, "Name the base model that it was trained on.")
    foreign = sorted(name for name in adapter.saved if name not in base.shapes)
    if foreign and not missing:
        says = f"It holds {foreign[0]}, and {base.name} has no such tensor: it is not loaded."
        hint = "Check modules_to_save, and the class that it was trained as."
        yield fault("base", says, hint)


def _check_shape(name: str, matrix: Tensor, base: BaseClass) -> str:
    """Say how the shape of a matrix does not suit the layer that it is added to; "" if it does."""
    layer, letter = _layer(name), _letter(name)
    shape = base.shapes.get(f"{layer}.weight", ())
    if len(shape) != 2 or matrix.dim() != 2 or letter not in ("A", "B", ""):
        return ""
    size = matrix.shape[0] if letter == "B" else matrix.shape[1]
    # In either place, for GPT-2's layers are stored the other way round.
    return "" if size in shape else f"{layer} is {shape[0]} × {shape[1]}, not of {size}"


def _count_outputs(adapter: Adapter, base: BaseClass | None) -> int:
    names = [name for name in (base.head if base else adapter.saved) if name in adapter.saved]
    names = [name for name in names if name.endswith(".weight") and "pooler." not in name]
    rows = [own.shape[0] for name in names if (own := adapter.saved[name]).dim() == 2]
    return int(rows[-1]) if rows else 0


def _check_labels(labels: Sequence[str], outputs: int) -> Iterator[CheckFinding]:
    if outputs and not labels:
        says = f"The names of its {outputs} labels are not in the folder."
        hint = f"Load the base model with num_labels={outputs}, and save its config here."
        yield note("labels", says, hint)
    elif outputs and len(labels) != outputs:
        says = f"The head gives {outputs} logits, and its config.json names {len(labels)} labels."
        yield fault("labels", says, "Save the config of the model that was trained.")
