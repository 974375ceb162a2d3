"""The head that a checkpoint came with, as one of ours: any XForSequenceClassification."""

import json
import struct
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from safetensors import SafetensorError, safe_open
from safetensors.torch import load_file

from heads.backbone.backbone import Backbone
from heads.backbone.config_check import shown
from heads.backbone.exported import read_config
from heads.backbone.loading import load as load_backbone
from heads.backbone.safety import check_no_share
from heads.backbone.trained_reading import sentence_modules
from heads.catalog.families import FAMILIES
from heads.checked_files import read_tensors
from heads.classifier.classifier import Classifier
from heads.classifier.config_extras import voting
from heads.classifier.module import RecipeModule, TrainedHead, assemble, head_from_facts
from heads.classifier.native_head import native_head
from heads.classifier.sentence_head import SETFIT, SETFIT_PICKLE
from heads.errors import CheckpointError, HeadsError
from heads.evaluation.predictions import OWN
from heads.parts.modules import last_linear
from heads.parts.resolve import resolve
from heads.parts.resolved_recipe import ResolvedRecipe
from heads.problem import MULTI_LABEL, SINGLE_LABEL
from heads.recipe import Recipe
from heads.rng import IsolatedRng
from heads.settings import current_limits, use_limits

# --- Heads in files of their own, put onto a base model: a safetensors file, or a folder of ours.

HEADER_BYTES = 64_000
FACTS_BYTES = 1_000_000
VERSION = 1  # of an exported folder
FACTS, TENSORS = "head.json", "head.safetensors"  # of an exported folder
MALFORMED = (ValueError, KeyError, TypeError, RuntimeError, AttributeError)
ANOTHER = "Choose another file."


def load_head(path: Path, recipe: ResolvedRecipe, backbone: Backbone) -> TrainedHead:
    """Reads the tensors of a head and puts them onto a base model.

    Args:
        path: A file with the tensors of the recipe's head, in float32 and under their names in
            our chain or in a Transformers checkpoint, and `labels`, a JSON list, as metadata.

    Raises:
        CheckpointError: It is no such file, or does not fit the recipe or the base model.
    """
    try:
        header = _header(path)
        labels = _labels(header.pop("__metadata__", {}), path, backbone)
        with IsolatedRng().rolling():
            module = assemble(recipe, backbone, len(labels), problem=SINGLE_LABEL)
        named = _fitting(header, module, path, len(labels))
        tensors = load_file(path)
    except (OSError, SafetensorError, struct.error) as error:
        raise _unreadable(path) from error
    for name in named.values():
        if not tensors[name].isfinite().all():
            raise CheckpointError(f"{path.name}: its weights ({name}) hold NaN or Inf.", ANOTHER)
    module.head.load_state_dict({ours: tensors[name] for ours, name in named.items()})
    return TrainedHead(
        recipe=module.reader.resolved.recipe,
        model=backbone.id,
        classes=labels,
        problem=SINGLE_LABEL,
        trained_on=path.name,
        module=module.eval().requires_grad_(False),
    )


def load_exported(folder: Path, backbone: Backbone) -> Classifier:
    """Read a folder that `heads.export` wrote with its own loader, or raise CheckpointError.

    Args:
        backbone: The base model that lies in it; it will read as much of a text as the loader does.
    """
    try:
        if (folder / FACTS).stat().st_size > FACTS_BYTES:
            raise ValueError("too large")
        facts = json.loads((folder / FACTS).read_text("utf-8"))
        if facts["version"] != VERSION:
            raise ValueError("of another version")
        # A base model that cuts texts where the head's own one did when it was exported. Folders of
        # older versions do not say where; what it cannot read it is not told to.
        tokens = facts.get("tokens", backbone.tokens)
        windows = dict(facts.get("backbone") or {}).get("windows", backbone.windows)
        if not all(type(number) is int and number > 0 for number in (tokens, windows)):
            raise ValueError("no number of tokens or windows")
        backbone = replace(backbone, tokens=min(tokens, backbone.tokens), windows=windows)
        head = head_from_facts(facts, read_tensors(folder / TENSORS)[0], backbone)
        return Classifier(backbone=backbone, head=head)
    except (OSError, SafetensorError, *MALFORMED) as error:
        what = f"{folder.name} is not an export that can be read ({type(error).__name__})."
        raise CheckpointError(what, "Export the head again.") from error


def _header(path: Path) -> dict[str, Any]:
    """The tensors that the file says it holds, and its metadata; refuses what is no such file."""
    with path.open("rb") as file:
        (length,) = struct.unpack("<Q", file.read(8))
        if length > HEADER_BYTES:
            if path.stat().st_size < length + 8:
                raise _unreadable(path)
            what = f"{path.name}: its header is over {HEADER_BYTES // 1000} kB, so it holds "
            raise CheckpointError(what + "unexpected tensors.", ANOTHER)
        raw = file.read(length)
    try:
        pairs: list[tuple[str, Any]] = json.loads(raw, object_pairs_hook=list)
        header = json.loads(raw)
    except (ValueError, RecursionError):
        raise _unreadable(path) from None
    if not isinstance(header, dict):
        raise _unreadable(path)
    twice = [name for name, count in Counter(name for name, _ in pairs).items() if count > 1]
    if twice:
        raise CheckpointError(f"{path.name} names {shown(twice[0])} twice.", ANOTHER)
    return header


def _labels(metadata: Any, path: Path, backbone: Backbone) -> tuple[str, ...]:
    """The names of the classes; the base model that the file names is only compared."""
    facts = metadata if isinstance(metadata, Mapping) else {}
    base = facts.get("base_model")
    if base is not None and base != backbone.id:
        what = f"{path.name} says that it was made for '{shown(base, 80)}', not for {backbone.id}."
        raise CheckpointError(what, "Give that base model yourself, if you trust it.")
    try:
        labels = json.loads(facts["labels"])
    except KeyError:
        what = f"{path.name} does not name its labels."
        raise CheckpointError(what, "Save it with the metadata labels, a JSON list.") from None
    except (ValueError, TypeError, RecursionError):
        labels = None
    if not isinstance(labels, list) or not all(isinstance(name, str) for name in labels):
        raise CheckpointError(f"{path.name}: its labels are no JSON list of names.", ANOTHER)
    if len(labels) < 2:
        raise CheckpointError(f"{path.name} names fewer than two labels.", ANOTHER)
    return tuple(labels)


def _fitting(
    header: Mapping[str, Any], module: RecipeModule, path: Path, labels: int
) -> dict[str, str]:
    """Our names of the head's tensors, and theirs in the file, which must be these and no more."""
    resolved, own = module.reader.resolved, module.head.state_dict()
    named = {name: name if name in header else resolved.head.prefix + name for name in own}
    for ours, name in named.items():
        if name not in header:
            what = f"{path.name} lacks the tensor {name} of {resolved.recipe}."
            raise CheckpointError(what, "Name the recipe that it was trained as.")
        facts = header[name] if isinstance(header[name], Mapping) else {}
        if facts.get("dtype") != "F32":
            raise CheckpointError(f"{path.name}: {name} is not in float32.", "Save it so.")
        _check_shape(facts.get("shape"), list(own[ours].shape), (name, path.name), labels)
    extra = [name for name in header if name not in named.values()]
    if extra:
        what = f"{path.name} holds unexpected tensors, {shown(extra[0], 60)} among them."
        raise CheckpointError(what, ANOTHER)
    return named


def _check_shape(found: Any, wanted: list[int], names: tuple[str, str], labels: int) -> None:
    """Says what a shape that does not fit means."""
    if found == wanted:
        return
    tensor, file = names
    if isinstance(found, list) and len(found) == len(wanted) == 2 and found[1] != wanted[1]:
        what = f"{file}: this head needs hidden size {found[1]}; the chosen model has {wanted[1]}."
        raise CheckpointError(what, "Choose the base model that it was trained on.")
    if isinstance(found, list) and found[1:] == wanted[1:]:
        what = f"{file}: {tensor} has {found[0]} rows, and the file names {labels} labels."
        raise CheckpointError(what, ANOTHER)
    raise CheckpointError(f"{file}: {tensor} has another shape than the recipe's.", ANOTHER)


def _unreadable(path: Path) -> CheckpointError:
    return CheckpointError(f"{path.name} is not a safetensors file.", ANOTHER)


LONGEST = 8192  # tokens of a text, where a checkpoint's own head has room for them


def is_own(recipe: Recipe | str) -> bool:
    """Whether what is asked for is the head that a checkpoint came with, not a recipe."""
    return isinstance(recipe, str) and recipe.strip().lower() == OWN


def load(model: str | Path, base: str, recipe: ResolvedRecipe) -> Classifier:
    """Do what `heads.load` does; the base and the recipe are those of a head alone."""
    check_no_share(str(model))
    limits = current_limits()
    if not limits.public:  # what its authors let it read, it reads
        limits = replace(limits, tokens=max(limits.tokens, LONGEST))
    with use_limits(limits):
        return _load(model, base, recipe)


def _load(model: str | Path, base: str, recipe: ResolvedRecipe) -> Classifier:
    place = None if current_limits().public else _place(model)
    if place and place.is_file() and place.suffix != ".safetensors":
        raise CheckpointError(f"{place.name} is a file.", "Give the folder that it lies in.")
    if str(model).endswith(".safetensors"):
        if place is None or not place.is_file():
            raise CheckpointError(f"There is no file {shown(str(model), 80)} here.", "Check it.")
        backbone = load_backbone(base)
        head = load_head(place, recipe, backbone)
        return Classifier(backbone=backbone, head=head)
    if place and (place / FACTS).is_file():
        backbone = load_backbone(str(place / "backbone"))
        return load_exported(place, backbone)
    backbone = load_backbone(str(model))
    head = own_head(backbone)
    check_trained(backbone, head)
    return Classifier(backbone=backbone, head=head)


def _place(model: str | Path) -> Path | None:
    """Where something of that name lies on this machine, if it does."""
    try:
        place = Path(model).expanduser()
        return place if place.exists() else None
    except (OSError, ValueError, RuntimeError):
        return None  # a null byte, a name too long, the home of a user who does not exist


def check_trained(backbone: Backbone, head: TrainedHead) -> None:
    """Raise CheckpointError if a checkpoint lacks some tensors of its own head."""
    if head.new:
        raise _untrained(backbone)


def _untrained(backbone: Backbone) -> CheckpointError:
    native = native_head(backbone)
    odd = [native.names[name] for name in native.mismatched]
    if odd:
        what = f"{backbone.id} has {odd[0]} in another shape than its config says."
        return CheckpointError(what, "Mend its config, or choose another model.")
    lacking = ", ".join(native.names[name] for name in native.new[:3])
    more = f" and {len(native.new) - 3} more" if len(native.new) > 3 else ""
    what = f"{backbone.id} has no trained head: it lacks {lacking}{more}."
    return CheckpointError(what, "Train one on it, for example with mean+linear.")


def own_head(backbone: Backbone) -> TrainedHead:
    """The head that a base model's checkpoint came with; random where the checkpoint has none.

    Raises:
        RecipeError: No recipe expresses its family's head; says why.
        CheckpointError: Its tensors are not those of its family's head.
    """
    native = native_head(backbone)
    if not native.classes:
        raise CheckpointError(f"The config of {backbone.id} names no classes.", "Choose another.")
    marks = native.marks
    votes = marks.votes and native.problem is MULTI_LABEL
    problem = SINGLE_LABEL if votes else native.problem
    recipe = voting(native.recipe) if votes else native.recipe
    with IsolatedRng().rolling():
        module = RecipeModule(recipe, backbone, len(native.classes))
    module.head.load_state_dict(dict(native.tensors))
    if native.reader_tensors:
        module.reader.load_state_dict(dict(native.reader_tensors))
    return TrainedHead(
        recipe=recipe.recipe,
        model=backbone.id,
        classes=native.classes,
        problem=problem,
        trained_on=backbone.id,
        module=module.eval().requires_grad_(False),
        new=native.new,
        temperature=marks.temperature,
        thresholds=()
        if votes or native.problem.output_activation != "sigmoid"
        else marks.thresholds,
        paired=marks.paired,
    )


def fine_tuned_warning(backbone: Backbone, *, has_test: bool = False) -> str:
    """Return what to say before any score on a fine-tuned classifier; nothing on another model."""
    if not is_fine_tuned(backbone):
        return ""
    seen = "the test rows" if has_test else "these rows"
    warning = f"This model was already fine-tuned as a classifier. If it saw {seen}, every score "
    return f"{warning}here is too high.{' Use a fixed test set it has not seen.' * (not has_test)}"


def is_fine_tuned(backbone: Backbone) -> bool:
    """Return True if the base model's checkpoint holds a trained classification head.

    A pooler, a head for masked words and an output layer that has never been trained are none.
    """
    folder = backbone.untuned.folder
    if folder is None:
        return False
    if read_config(folder) or (folder / SETFIT).is_file() or (folder / SETFIT_PICKLE).is_file():
        return True
    try:
        if sentence_modules(folder, backbone.width).logits:
            return True
    except HeadsError:
        pass  # it has no modules of sentence-transformers, or none that can be read
    return _has_trained_output(backbone, folder)


def _has_trained_output(backbone: Backbone, folder: Path) -> bool:
    """Return True if the files hold the last layer of the family's classifier, and it has learned.

    Transformers sets a new layer's bias to 0, which any step of training changes.
    """
    if any("TokenClassification" in n for n in backbone.model.config.architectures or ()):
        return False  # it has a layer of the same name, for single tokens
    names = {*_output_layers(backbone)}
    for path in sorted(folder.glob("*.safetensors")):
        with safe_open(path, framework="pt") as file:
            stored = {*file.keys()}
            for name in names & {key.removesuffix(".weight") for key in stored}:
                bias = f"{name}.bias"
                if bias not in stored or bool(file.get_tensor(bias).any()):
                    return True
    return False


def _output_layers(backbone: Backbone) -> Iterator[str]:
    """Yield the names that the last layer of the family's own classifier may have."""
    form = FAMILIES.get(backbone.model_type)
    if form is None or not form.texts:
        yield from ("classifier", "score")
        return
    for recipe in map(resolve, form.texts):
        last, base = last_linear(recipe.sketch(8, 2)), backbone.model.base_model_prefix
        yield form.name_of(f"{last}.", recipe.head.prefix, base).removesuffix(".")
