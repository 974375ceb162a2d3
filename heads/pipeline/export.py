"""A trained head as a Transformers checkpoint that anybody can load without us.

Where a class of Transformers computes the same, the folder is that class's own; where none does,
it carries its own short loader.
"""

import copy
import shutil
import tempfile
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from heads.errors import CheckpointError, RecipeError
from heads.pipeline.card import model_card
from heads.pipeline.classifier import Classifier
from heads.pipeline.equivalent import Equivalent, equivalent
from heads.pipeline.onnx import OnnxReport, write_onnx
from heads.pipeline.portable import write_portable
from heads.recipe import Recipe

TEXTS = ("Not bad at all.", "I want my money back", "yes", "The plot is thin, the cast is not.")
ROUNDING = 1e-5  # of logits, against the largest of them or 1
NATIVE_USE = """\
from transformers import pipeline

classify = pipeline("text-classification", "{folder}", top_k=None)
print(classify("Not bad at all.", truncation=True))"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Exported:
    """What was written.

    Attributes:
        folder: Where.
        native: Whether it is a class of Transformers, which needs no code of its own.
        called: That class, or the loader.
        recipe: The recipe as that class has it; as it was, where there is none.
        difference: The largest difference of two logits between the folder, loaded anew, and us.
        notes: What one should know, a sentence each.
        files: The names of the files.
    """

    folder: Path
    native: bool
    called: str
    recipe: Recipe
    difference: float
    notes: tuple[str, ...]
    files: tuple[str, ...]

    def as_json(self) -> dict[str, Any]:
        """The same as plain values: the answer of `heads export --json`."""
        return asdict(self) | {"folder": str(self.folder), "recipe": str(self.recipe)}


def export(classifier: Classifier, folder: str | Path) -> Exported:
    """Writes a trained head with its base model as a folder that Transformers loads.

    Args:
        classifier: From `heads.train` or `heads.load`.
        folder: Where to; it must not exist, or be empty.

    Raises:
        CheckpointError: There is something in the folder, it cannot be written, or what was
            written does not answer as this classifier does (it is deleted then).
    """
    folder = Path(folder).expanduser()
    _check_trained(classifier)
    try:
        native = equivalent(classifier.head.module, classifier.backbone, len(classifier.classes))
    except RecipeError as error:
        why = str(error)
    else:
        return in_new_folder(folder, lambda path: _write_native(classifier, native, path, folder))
    difference = write_portable(classifier, folder, why=why)
    return Exported(
        folder=folder,
        native=False,
        called="load.py",
        recipe=classifier.recipe,
        difference=difference,
        notes=(why, "So the folder carries its own loader: see load.py in it."),
        files=_files(folder),
    )


def export_onnx(classifier: Classifier, path: str | Path) -> OnnxReport:
    """Writes base model, pooling and head as one ONNX file, and checks it with onnxruntime.

    Args:
        classifier: From `heads.train` or `heads.load`.
        path: A new file whose name ends in .onnx.

    Raises:
        HeadsError: Packages are missing, ONNX does not know a part of it, or the file does not
            answer as this classifier does (it is deleted then).
    """
    path = Path(path).expanduser()
    _check_trained(classifier)
    if path.exists():
        raise CheckpointError(f"There is something at {path} already.", "Name a new file.")
    return write_onnx(classifier, path)


def _check_trained(classifier: Classifier) -> None:
    if classifier.head.new:
        what = f"The head that {classifier.head.model} came with is random."
        raise CheckpointError(what, "Train one first.")


def in_new_folder(folder: Path, write: Callable[[Path], Exported]) -> Exported:
    """Fills a folder so that it is there whole or not at all.

    Raises:
        CheckpointError: There is something in it already, or the disk refuses.
    """
    try:
        if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
            raise CheckpointError(f"There is something in {folder} already.", "Name a new folder.")
        folder.parent.mkdir(parents=True, exist_ok=True)
        path = Path(tempfile.mkdtemp(dir=folder.parent, prefix=f".{folder.name}-unfinished-"))
        try:
            path.chmod(0o755)
            written = write(path)
            if folder.exists():
                folder.rmdir()
            path.replace(folder)
        finally:
            shutil.rmtree(path, ignore_errors=True)
    except OSError as error:
        what = f"{folder} cannot be written ({error.strerror or type(error).__name__})."
        raise CheckpointError(what, "Name another folder, or make room.") from error
    return written


def _write_native(classifier: Classifier, native: Equivalent, path: Path, folder: Path) -> Exported:
    from transformers import AutoModelForSequenceClassification

    tokenizer = _tokenizer(classifier)
    config = _config(classifier, native, tokenizer)
    with torch.device("meta"):
        model = AutoModelForSequenceClassification.from_config(config)
    state = _state(classifier, native, model)
    model.load_state_dict(state, strict=False, assign=True)
    model.save_pretrained(path)
    tokenizer.save_pretrained(path)
    called, notes = type(model).__name__, _notes(classifier, native)
    use = NATIVE_USE.format(folder=folder.name)
    (path / "README.md").write_text(model_card(classifier, use, notes), "utf-8")
    return Exported(
        folder=folder,
        native=True,
        called=called,
        recipe=native.recipe,
        difference=_verified(classifier, path),
        notes=tuple(notes),
        files=_files(path),
    )


def _tokenizer(classifier: Classifier) -> Any:
    """A copy of the tokenizer that cuts as we do, with a padding token, without templates."""
    tokenizer = copy.deepcopy(classifier.backbone.tokenizer)
    tokenizer.model_max_length = classifier.backbone.tokens
    tokenizer.chat_template = None
    if tokenizer.pad_token is None:
        tokenizer.pad_token = tokenizer.eos_token or tokenizer.unk_token
    return tokenizer


def _config(classifier: Classifier, native: Equivalent, tokenizer: Any) -> Any:
    config = copy.deepcopy(native.config)
    config.id2label = dict(enumerate(classifier.classes))
    config.label2id = {name: number for number, name in enumerate(classifier.classes)}
    many = classifier.head.many
    config.problem_type = "multi_label_classification" if many else "single_label_classification"
    for inner in {id(found): found for found in (config, config.get_text_config())}.values():
        if getattr(inner, "pad_token_id", None) is None:
            inner.pad_token_id = tokenizer.pad_token_id
    return config


def _state(classifier: Classifier, native: Equivalent, model: Any) -> Mapping[str, Tensor]:
    """Every tensor of the class, from our base model and our head.

    Raises:
        CheckpointError: One of them has no source here.
    """
    base = model.base_model_prefix
    prefix = f"{base}."
    state = {prefix + n: t for n, t in classifier.backbone.model.state_dict().items()}
    head_prefix = _head_prefix(native)
    for ours, tensor in native.tensors.items():
        state[native.form.name_of(ours, head_prefix, base)] = tensor
    wanted = model.state_dict()
    lacking = [name for name in wanted if name not in state]
    if lacking:
        what = f"{type(model).__name__} has a tensor {lacking[0]} that nothing here holds."
        raise CheckpointError(what, "Export another recipe.")
    return {name: tensor.contiguous() for name, tensor in state.items() if name in wanted}


def _head_prefix(native: Equivalent) -> str:
    from heads.parts.menu import head

    return head[native.recipe.head].prefix


def _notes(classifier: Classifier, native: Equivalent) -> list[str]:
    notes = [native.differs] if native.differs else []
    if native.recipe.head != classifier.recipe.head:
        notes.append(f"Once trained, {classifier.recipe} is the same function as {native.recipe}.")
    if classifier.backbone.tokenizer.pad_token is None:
        notes.append("Its tokenizer had no padding token; it now pads with its end-of-text token.")
    return notes


def _verified(classifier: Classifier, path: Path) -> float:
    """Loads the folder as anybody would, and compares logits and the loading report.

    Raises:
        CheckpointError: They differ, or tensors are missing or left over.
    """
    from transformers import AutoModelForSequenceClassification, AutoTokenizer

    model, report = AutoModelForSequenceClassification.from_pretrained(
        path,
        output_loading_info=True,
        attn_implementation=classifier.backbone.model.config._attn_implementation,
    )
    odd = [str(key) for keys in report.values() for key in keys]
    if odd:
        what = f"What was written does not load whole: {odd[0]}."
        raise CheckpointError(what, "Export another recipe, and tell us of this one.")
    tokenizer = AutoTokenizer.from_pretrained(path)
    ours = torch.cat([classifier.logits([text]) for text in TEXTS])
    with torch.inference_mode():
        theirs = torch.cat(
            [
                model.eval()(**tokenizer(text, truncation=True, return_tensors="pt")).logits
                for text in TEXTS
            ]
        )
    difference = (ours - theirs).abs().max().item()
    if not difference <= ROUNDING * max(1.0, ours.abs().max().item()):
        what = f"What was written answers otherwise than this head, by up to {difference:.1g}."
        raise CheckpointError(what, "Export another recipe, and tell us of this one.")
    return difference


def _files(path: Path) -> tuple[str, ...]:
    return tuple(sorted(str(p.relative_to(path)) for p in path.rglob("*") if p.is_file()))
