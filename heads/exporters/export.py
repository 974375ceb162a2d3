"""A trained head as a folder that anybody can load without us: Transformers, or its kin.

Where a class of Transformers computes the same, the folder is that class's own; where none does,
it is a `HeadForSequenceClassification`, whose code goes along.
"""

import shutil
import tempfile
from collections.abc import Callable
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from heads import display
from heads.backbone.config_check import shown
from heads.caching import UNFINISHED, delete_stale, in_use, place_told, writing
from heads.classifier.classifier import Classifier
from heads.classifier.module import TrainedHead
from heads.errors import CheckpointError, RecipeError
from heads.exporters.adapter import check_adapter, write_adapter
from heads.exporters.matching import Equivalent, equivalent
from heads.exporters.model_card import Publication
from heads.exporters.onnx import OnnxReport, write_onnx
from heads.exporters.sentence_transformers import LIBRARY, write_sentence_transformers
from heads.exporters.transformers import write_head_model, write_native
from heads.recipe import Recipe

TRANSFORMERS = "transformers"
LIBRARIES = (TRANSFORMERS, LIBRARY)
OTHERS = {  # what one may ask for besides, and what to do
    "portable": "A folder with a loader of its own is no longer written: as transformers every "
    "head is a model that Transformers loads",
    "setfit": "SetFit keeps its head as a pickle, which is never written here; as "
    f"{LIBRARY} the folder needs none",
    "onnx": "An ONNX file is written with --onnx, or by heads.export_onnx",
    "adapter": "An adapter is written with --adapter, or adapter=True",
    "cross-encoder": f"As {LIBRARY} a head that was trained on pairs is a CrossEncoder",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Exported(display.Displayed):
    """What was written.

    Attributes:
        folder: Where.
        native: Whether it is a class of Transformers, which needs no code of its own.
        called: The class; of an adapter the class that it is put onto; of a folder of
            sentence-transformers what loads it.
        recipe: The recipe as that class has it; as it was, where there is none.
        difference: The largest difference of two logits between the folder, loaded anew, and us.
        notes: What one should know, a sentence each.
        files: The names of the files.
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
        """The same as plain values: the answer of `heads export --json`."""
        return asdict(self) | {"folder": str(self.folder), "recipe": str(self.recipe)}


def export(
    classifier: Classifier,
    folder: str | Path,
    *,
    library: str = "",
    adapter: bool = False,
    published: Publication | None = None,
) -> Exported:
    """What `heads.export` does: writes the folder, loads it anew, and compares.

    Args:
        published: What its card says besides, where it is put onto the Hub.
    """
    folder = check_place(folder, onnx=False)
    _check_trained(classifier)
    check_library(library, adapter=adapter)
    native, why = _select_format(classifier, library, adapter)
    name = published.repo if published else folder.name

    def fill(path: Path) -> Exported:
        if native is not None:
            write_folder = write_adapter if adapter else write_native
            written = write_folder(classifier, native, path, name, published)
        elif why:
            written = write_head_model(classifier, why, path, name, published)
        else:
            written = write_sentence_transformers(classifier, path, name, published)
        files = [str(file.relative_to(path)) for file in path.rglob("*") if file.is_file()]
        return Exported(
            folder=folder,
            native=native is not None,
            called=written.called,
            recipe=native.recipe.recipe if native else classifier.recipe,
            difference=written.difference,
            notes=(*refit_notes(classifier.head), *written.notes),
            files=tuple(sorted(files)),
            usage=written.usage,
        )

    return in_new_folder(folder, fill)


def _select_format(
    classifier: Classifier, library: str, adapter: bool
) -> tuple[Equivalent | None, str]:
    """Return the class of Transformers to write, or else why the folder needs code of its own.

    For sentence-transformers there is no class and the reason is empty.
    """
    if classifier.backbone.is_given:
        what = f"{classifier.recipe} learned from vectors, and has no base model to export with it."
        raise CheckpointError(what, "Export it as an ONNX file, which takes vectors: --onnx.")
    if adapter:
        check_adapter(classifier)
    elif library == LIBRARY:
        return None, ""
    try:
        return equivalent(classifier.head.module, classifier.backbone, len(classifier.classes)), ""
    except RecipeError as error:
        if adapter:
            raise
        return None, str(error)


def export_onnx(classifier: Classifier, path: str | Path) -> OnnxReport:
    """What `heads.export_onnx` does: writes the file, and checks it with onnxruntime."""
    path = check_place(path, onnx=True)
    _check_trained(classifier)
    found = write_onnx(classifier, path)
    return replace(found, notes=(*refit_notes(classifier.head), *found.notes))


def refit_notes(head: TrainedHead) -> tuple[str, ...]:
    """Return what to say of a head that has learned from all rows since it was scored."""
    if head.refit is None:
        return ()
    return (
        f"Trained again on all {head.rows:,} rows in {head.refit.seconds:.1f} s, with the settings "
        f"chosen before, so its probabilities are not those of the head that was scored. Its score "
        f"is that of heads that learned from about {head.refit.rows:,}.",
    )


def check_place(path: str | Path, *, onnx: bool) -> Path:
    """Where an export is to go, if it may go there.

    Raises:
        CheckpointError: It is no place to write to, or there is something already.
    """
    try:
        place = Path(path).expanduser()
        occupied = place.is_symlink() or place.exists()
        if occupied and not onnx and place.is_dir() and not place.is_symlink():
            occupied = any(place.iterdir())
    except (OSError, ValueError, RuntimeError):
        what = f"{shown(str(path), 80)!r} is no place to write to."
        raise CheckpointError(what, "Name a new file or folder.") from None
    if occupied:
        raise CheckpointError(f"There is something in {place} already.", "Name a new place.")
    if onnx != (place.suffix == ".onnx"):
        what = f"{place.name} is to be {'one ONNX file' if onnx else 'a folder'}."
        raise CheckpointError(what, f"{'Let' if onnx else 'Do not let'} its name end in .onnx.")
    return place


def check_library(library: str, *, adapter: bool = False, onnx: bool = False) -> None:
    """Raise RecipeError for an unknown library, or one beside an adapter or an ONNX file."""
    if library and (adapter or onnx):
        what = f"An {'adapter' if adapter else 'ONNX file'} is of no library to choose."
        raise RecipeError(what, "Leave --as out.")
    if library and library not in LIBRARIES:
        known = f"The libraries that are known are {', '.join(LIBRARIES)}."
        other = OTHERS.get(library.lower())
        what = f"{other}." if other else f"'{library[:40]}' is no library that loads a folder."
        raise RecipeError(what, known)


def _check_trained(classifier: Classifier) -> None:
    if classifier.head.new:
        what = f"The head that {classifier.head.model} came with is random."
        raise CheckpointError(what, "Train one first.")


def in_new_folder(folder: Path, write: Callable[[Path], Exported]) -> Exported:
    """Fills a folder so that it is there whole or not at all.

    Raises:
        CheckpointError: There is something in it already, or the disk refuses.
    """
    with writing(place_told(folder), kind=CheckpointError):
        folder.parent.mkdir(parents=True, exist_ok=True)
        delete_stale(folder.parent)
        path = Path(tempfile.mkdtemp(dir=folder.parent, prefix=UNFINISHED))
        try:
            with in_use(path):
                path.chmod(0o755)
                written = write(path)
                _let_read(path)
            if folder.exists():
                folder.rmdir()
            path.replace(folder)
        finally:
            shutil.rmtree(path, ignore_errors=True)
    return written


def _let_read(path: Path) -> None:
    """Gives all files the permissions of the card: safetensors lets nobody else read its own."""
    mode = (path / "README.md").stat().st_mode if (path / "README.md").exists() else 0o644
    for file in path.rglob("*"):
        if file.is_file():
            file.chmod(mode & 0o777)
