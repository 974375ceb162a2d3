"""The export of a head from the tab Compare: a Transformers folder, or one ONNX file."""

import zipfile
from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any

import gradio as gr

from heads.backbone.models import BUNDLED
from heads.caching import writing
from heads.errors import LimitError
from heads.interfaces.views import comparison
from heads.interfaces.web.guards import sentence, throttled
from heads.interfaces.web.links import OPENING, PageQuery
from heads.settings import limits

if TYPE_CHECKING:
    from heads.classifier.classifier import Classifier

FOLDER, ONNX = "Transformers folder (zip)", "ONNX file (zip)"
SAYS = (
    "The head with its base model, for use without this app: as a class of Transformers where "
    "there is one that computes the same, else with a short loader of its own."
)
ONE_AT_A_TIME: dict[str, Any] = {"concurrency_id": "export", "concurrency_limit": 1}


def build(recipes: gr.Dropdown, model: gr.Dropdown, sample: gr.Dropdown, pair: gr.Textbox) -> None:
    """Draws the panel; it exports what is chosen above."""
    with gr.Accordion("Take a head with you", open=False, elem_id="take"):
        gr.Markdown(SAYS)
        with gr.Row(equal_height=True):
            recipe = gr.Dropdown(
                list(OPENING.recipes),
                value=OPENING.recipes[0],
                label="Head",
                info="One of the recipes above.",
                interactive=True,
                min_width=200,
            )
            form = gr.Radio([FOLDER, ONNX], value=FOLDER, label="As", min_width=200)
        button = gr.Button("Prepare the file", size="sm")
        told = gr.HTML("", elem_id="taken", padding=False)
        file = gr.DownloadButton("Download", visible=False, variant="primary", size="sm")
    quiet: dict[str, Any] = {"show_progress": "hidden", "api_visibility": "private"}
    recipes.change(_offered, recipes, recipe, queue=False, **quiet)
    asked = [recipe, form, model, sample, pair]
    button.click(_prepared, asked, [told, file], **quiet, **ONE_AT_A_TIME)


def _offered(recipes: list[str]) -> Any:
    return gr.update(choices=recipes, value=recipes[0] if recipes else None)


def _prepared(
    recipe: str, form: str, model: str, sample: str, pair: str
) -> Iterator[tuple[str, Any]]:
    """Trains the head if need be, writes and verifies it, and hands the file over."""
    from heads.api import training
    from heads.classifier.classifier import Classifier

    hidden = gr.update(visible=False)
    with TemporaryDirectory(prefix="head-to-head-") as place:
        try:
            asked = PageQuery(text="", pair=pair or "", model=model or BUNDLED, sample=sample)
            data = asked.suited().sample
            classifier = None
            for event in throttled(training(recipe or "", data, model=asked.model)):
                if isinstance(event, Classifier):
                    classifier = event
                else:
                    yield comparison.progress(event), hidden
            assert classifier is not None
            yield comparison.busy("Writing and checking the file"), hidden
            path, says = written(classifier, form, Path(place))
            yield comparison.exported(says), gr.update(visible=True, value=str(path))
        except Exception as error:
            yield comparison.failure(sentence(error)), hidden


def written(
    classifier: "Classifier", form: str, place: Path, calibrated: bool = False
) -> tuple[Path, list[str]]:
    """Writes a head in a form as a zip file; the file, and what to say of it.

    Args:
        calibrated: Whether its logits are divided by its temperature, as only heads of runs have.

    Raises:
        HeadsError: It cannot be written in that form, or would be too large here.
    """
    from heads.exporters.calibrated import calibrated as divided
    from heads.exporters.export import export
    from heads.exporters.model_card import CALIBRATED

    classifier = divided(classifier) if calibrated else classifier
    most = limits().export_bytes
    size = classifier.backbone.parameters * 4
    if size > most:
        what = f"{classifier.backbone.id} would be a file of {size / 1e6:,.0f} MB; "
        raise LimitError(
            what + f"this place allows {most / 1e6:,.0f} MB.", "Export it on your own machine."
        )
    name = "".join(c if c.isalnum() else "-" for c in str(classifier.recipe)).strip("-")[:60]
    exact = "Loaded anew, its logits differ from the page's by at most {:.1g}."
    folder = place / name
    if form == ONNX:
        says, difference = _with_tokenizer(classifier, folder)
        says.insert(1, exact.format(difference))
    else:
        found = export(classifier, folder)
        says = [f"{name}.zip: {found.called}.", exact.format(found.difference), *found.notes]
    if calibrated:
        by = classifier.head.chosen[CALIBRATED]
        says.insert(1, f"It is calibrated: its last layer is divided by the temperature {by:.3g}.")
    path = place / f"{name}.zip"
    with writing(path.name), zipfile.ZipFile(path, "w", zipfile.ZIP_STORED) as archive:
        for file in sorted(file for file in folder.rglob("*") if file.is_file()):
            archive.write(file, f"{name}/{file.relative_to(folder)}")
    return path, says


def _with_tokenizer(classifier: "Classifier", folder: Path) -> tuple[list[str], float]:
    """Writes the ONNX file with all that one needs to run it; what to say, and its difference."""
    from heads.exporters.export import export_onnx
    from heads.exporters.onnx import usage
    from heads.exporters.transformers import tokenizer_of

    file = f"{folder.name}.onnx"
    with writing(folder.name):
        folder.mkdir()
        report = export_onnx(classifier, folder / file)
        (folder / "run.py").write_text(usage(classifier, file, tokenizer="."), "utf-8")
        tokenizer_of(classifier).save_pretrained(folder)
    says = f"{folder.name}.zip: {file}, its tokenizer, and run.py, which runs it in that folder."
    return [says, *report.notes], report.difference
