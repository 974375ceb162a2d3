"""A head as a file to take along: a Transformers folder, or one ONNX file, zipped."""

import zipfile
from pathlib import Path
from typing import TYPE_CHECKING

from heads.caching import writing
from heads.errors import LimitError, RecipeError
from heads.settings import current_limits

if TYPE_CHECKING:
    from heads.classifier.classifier import Classifier

FOLDER, ONNX = "Transformers folder (zip)", "ONNX file (zip)"
OWN_CLASS = "Transformers folder with its own class (zip)"
ADAPTER = "PEFT adapter, without the base model (zip)"  # of what tune=lora has learned
SAYS = "The head with its base model, for use without this app."


def forms_of(classifier: "Classifier") -> list[str]:
    """Return the forms in which a head can be taken along, the usual one first."""
    from heads.exporters.adapter import has_adapter
    from heads.exporters.matching import equivalent

    try:
        equivalent(classifier.head.module, classifier.backbone, len(classifier.classes))
        folder = FOLDER
    except RecipeError:
        folder = OWN_CLASS
    return [folder, ONNX, *[ADAPTER] * has_adapter(classifier)]


def written(classifier: "Classifier", form: str, place: Path) -> tuple[Path, list[str], str]:
    """Write a head as a zip file; return the file, what to say of it, and code that uses it."""
    from heads.classifier.calibration import CALIBRATED
    from heads.exporters.export import export

    most = current_limits().export_bytes
    size = classifier.backbone.parameters * 4
    if size > most:
        what = f"{classifier.backbone.id} would be a file of {size / 1e6:,.0f} MB; "
        raise LimitError(
            what + f"this place allows {most / 1e6:,.0f} MB.", "Export it on your own machine."
        )
    name = "".join(c if c.isalnum() else "-" for c in str(classifier.recipe)).strip("-")[:60]
    exact = "Loaded anew, its logits differ from the head's by at most {:.1g}."
    folder = place / name
    if form == ONNX:
        says, difference = _with_tokenizer(classifier, folder)
        says.insert(1, exact.format(difference))
        code = (folder / "run.py").read_text("utf-8")
    else:
        found = export(classifier, folder, adapter=form == ADAPTER)
        says = [f"{name}.zip: {found.called}.", exact.format(found.difference), *found.notes]
        code = found.usage
    if by := classifier.head.chosen.get(CALIBRATED):
        says.insert(1, f"It is calibrated: its last layer is divided by the temperature {by:.3g}.")
    path = place / f"{name}.zip"
    with writing(path.name), zipfile.ZipFile(path, "w", zipfile.ZIP_STORED) as archive:
        for file in sorted(file for file in folder.rglob("*") if file.is_file()):
            archive.write(file, f"{name}/{file.relative_to(folder)}")
    return path, says, code.strip()


def _with_tokenizer(classifier: "Classifier", folder: Path) -> tuple[list[str], float]:
    """Writes the ONNX file with all that one needs to run it; what to say, and its difference."""
    from heads.exporters.export import export_onnx
    from heads.exporters.onnx import usage
    from heads.exporters.tokenizer import tokenizer_of

    file = f"{folder.name}.onnx"
    with writing(folder.name):
        folder.mkdir()
        report = export_onnx(classifier, folder / file)
        (folder / "run.py").write_text(usage(classifier, file, tokenizer="."), "utf-8")
        tokenizer_of(classifier).save_pretrained(folder)
    says = f"{folder.name}.zip: {file}, its tokenizer, and run.py, which runs it in that folder."
    return [says, *report.notes], report.difference
