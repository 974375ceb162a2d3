"""Write a trained head as a folder or a file that others load without this package."""

import contextlib
import shutil
import tempfile
from collections.abc import Iterator
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from heads import display
from heads.backbone.config_check import shown
from heads.caching import UNFINISHED, delete_stale, in_use, place_told, writing
from heads.classifier.classifier import Classifier
from heads.classifier.modeling_source import TEMPLATE
from heads.classifier.module import TrainedHead
from heads.data.corpus import Corpus
from heads.errors import CheckpointError, RecipeError
from heads.exporters.adapter import write_adapter
from heads.exporters.int8 import write_int8
from heads.exporters.model_card import Publication, model_card
from heads.exporters.onnx import OnnxReport, write_onnx
from heads.exporters.sentence_transformers import LIBRARY, write_sentence_transformers
from heads.exporters.transformers import write_model
from heads.recipe import Recipe

LIBRARIES = ("transformers", LIBRARY)
HINTS = {
    "portable": "This folder is no longer written: every head is a model of Transformers.",
    "setfit": f"SetFit keeps its head as a pickle, which is never written; use {LIBRARY}.",
    "onnx": "An ONNX file is written with --onnx, or by heads.export_onnx.",
    "adapter": "An adapter is written with --adapter, or adapter=True.",
    "cross-encoder": f"A head that was trained on pairs is a CrossEncoder as {LIBRARY}.",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Exported(display.Displayed):
    """A folder that was written and compared with the classifier.

    Attributes:
        native: Whether it is a class of Transformers, which needs no code of its own.
        called: The class; of an adapter the class that it is put onto; of a folder of
            sentence-transformers the class that loads it.
        recipe: The recipe as the class of Transformers has it, else as it was trained.
        difference: The largest difference of a logit between the folder, loaded anew, and us.
        notes: What one should know, one sentence each.
        usage: Lines of Python that load it and answer.
    """

    folder: Path
    native: bool
    called: str
    recipe: Recipe
    difference: float
    notes: tuple[str, ...]
    files: tuple[str, ...]
    usage: str

    def as_json(self) -> dict[str, Any]:
        """Return it as plain values: the answer of `heads export --json`."""
        return asdict(self) | {"folder": str(self.folder), "recipe": str(self.recipe)}


def export(
    classifier: Classifier,
    folder: str | Path,
    *,
    library: str = "",
    adapter: bool = False,
    published: Publication | None = None,
) -> Exported:
    """Do what `heads.export` does: write the folder, load it anew, and compare.

    Args:
        published: What the card says besides, where the folder is put onto the Hub.
    """
    folder = check_place(folder, onnx=False)
    _check_trained(classifier)
    check_library(library, adapter=adapter)
    if classifier.backbone.is_given:
        what = f"{classifier.recipe} learned from vectors, and has no base model to export with it."
        raise CheckpointError(what, "Export it as an ONNX file, which takes vectors: --onnx.")
    write_folder = write_sentence_transformers if library == LIBRARY else write_model
    write_folder = write_adapter if adapter else write_folder
    with new_folder(folder) as path:
        name = published.repo if published else folder.name
        written = write_folder(classifier, path, name)
        card = model_card(
            classifier,
            written.usage,
            written.notes,
            library="peft" if adapter else library or LIBRARIES[0],
            is_adapter=adapter,
            has_code=(path / TEMPLATE.name).is_file(),
            published=published,
        )
        (path / "README.md").write_text(card, "utf-8")
        files = [str(file.relative_to(path)) for file in path.rglob("*") if file.is_file()]
    return Exported(
        folder=folder,
        native=written.native is not None,
        called=written.called,
        recipe=written.native or classifier.recipe,
        difference=written.difference,
        notes=(*_refit_notes(classifier.head), *written.notes),
        files=tuple(sorted(files)),
        usage=written.usage,
    )


def export_onnx(
    classifier: Classifier, path: str | Path, *, int8: Corpus | None = None, most_loss: float = 0.01
) -> OnnxReport:
    """Do what `heads.export_onnx` does: write the file, and check it with onnxruntime.

    Args:
        int8: Rows for an 8-bit file; None for one in 32 bits.
    """
    path = check_place(path, onnx=True)
    _check_trained(classifier)
    if int8 is None:
        report = write_onnx(classifier, path)
    else:
        report = write_int8(classifier, path, int8, most_loss=most_loss)
    return replace(report, notes=(*_refit_notes(classifier.head), *report.notes))


def _refit_notes(head: TrainedHead) -> tuple[str, ...]:
    """Return what to say of a head that was trained on all rows after it was scored."""
    if head.refit is None:
        return ()
    return (
        f"Trained again on all {head.rows:,} rows in {head.refit.seconds:.1f} s, with the settings "
        f"chosen before, so its probabilities are not those of the head that was scored. Its score "
        f"is that of heads that learned from about {head.refit.rows:,}.",
    )


def check_place(path: str | Path, *, onnx: bool) -> Path:
    """Return the path of an export; raise CheckpointError if it is taken or not writable."""
    kind = "one ONNX file" if onnx else "a folder"
    try:
        target = Path(path).expanduser()
        is_folder = target.is_dir() and not target.is_symlink()
        occupied = target.is_symlink() or target.exists()
        if is_folder and not onnx:
            occupied = any(target.iterdir())
    except (OSError, ValueError, RuntimeError):
        what = f"{shown(str(path), 80)!r} is no place to write to."
        raise CheckpointError(what, "Name a new file or folder.") from None
    if occupied:
        raise CheckpointError(f"There is something in {target} already.", "Name a new place.")
    if onnx != (target.suffix == ".onnx"):
        hint = f"{'Let' if onnx else 'Do not let'} its name end in .onnx."
        raise CheckpointError(f"{target.name} is to be {kind}.", hint)
    return target


def check_library(library: str, *, adapter: bool = False, onnx: bool = False) -> None:
    """Raise RecipeError for an unknown library, or one beside an adapter or an ONNX file."""
    if library and (adapter or onnx):
        what = f"An {'adapter' if adapter else 'ONNX file'} is of no library to choose."
        raise RecipeError(what, "Leave --as out.")
    if library and library not in LIBRARIES:
        what = HINTS.get(library.lower(), f"'{library[:40]}' is no library that loads a folder.")
        raise RecipeError(what, f"The libraries that are known are {', '.join(LIBRARIES)}.")


def _check_trained(classifier: Classifier) -> None:
    if classifier.head.new:
        what = f"The head that {classifier.head.model} came with is random."
        raise CheckpointError(what, "Train one first.")


@contextlib.contextmanager
def new_folder(folder: Path) -> Iterator[Path]:
    """Yield a folder to fill, which takes its name only when it is full."""
    with writing(place_told(folder), kind=CheckpointError):
        folder.parent.mkdir(parents=True, exist_ok=True)
        delete_stale(folder.parent)
        path = Path(tempfile.mkdtemp(dir=folder.parent, prefix=UNFINISHED))
        try:
            with in_use(path):
                path.chmod(0o755)
                yield path
                mode = (path / "README.md").stat().st_mode & 0o777
                for file in path.rglob("*"):
                    if file.is_file():
                        file.chmod(mode)  # safetensors lets nobody else read its files
            if folder.exists():
                folder.rmdir()
            path.replace(folder)
        finally:
            shutil.rmtree(path, ignore_errors=True)
