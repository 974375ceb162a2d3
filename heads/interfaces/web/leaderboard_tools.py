"""What one does with a run: ask its heads, save a report, take a head away, delete it."""

from collections.abc import Iterator
from dataclasses import dataclass, fields
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any

import gradio as gr

from heads.errors import LimitError, RecipeError
from heads.interfaces import drawings
from heads.interfaces.web import kept_runs, take
from heads.interfaces.web.compare import CONCURRENCY
from heads.interfaces.web.guards import guarded, sentence
from heads.interfaces.web.saves import saves
from heads.parts.resolved import OVR
from heads.runs.folder import RunFolder
from heads.settings import limits

QUIET: dict[str, Any] = {"show_progress": "hidden", "api_visibility": "private"}

if TYPE_CHECKING:
    from heads.runs.leaderboard import Leaderboard

MOST = 4  # heads side by side
WIDTH = 384  # of a base model; whether a head can be divided does not depend on it


@dataclass(frozen=True, slots=True, kw_only=True)
class Tools:
    """The components that a run fills, in the order of `offered`; then those of deleting."""

    heads: gr.Dropdown
    pair: gr.Textbox
    answers: gr.HTML
    taken: gr.Dropdown
    calibrated: gr.Checkbox
    told: gr.HTML
    file: gr.DownloadButton
    sure: gr.Button

    def all(self) -> list[Any]:
        """All of them."""
        return [getattr(self, field.name) for field in fields(self)]

    @classmethod
    def count(cls) -> int:
        """How many they are."""
        return len(fields(cls))

    def deleted(self, listed: Any, inputs: list[Any], run: gr.Dropdown, then: Any) -> None:
        """What happens once one is sure: the run goes, and the next one is shown."""
        gone = self.sure.click(_deleted, run, self.sure, **QUIET)
        gone.success(listed, inputs, run, **QUIET).then(**then)


def build_tools(run: gr.Dropdown) -> Tools:
    """Draws the tools."""
    heads, pair, answers = _try(run)
    with gr.Accordion("Take the winner with you", open=False, elem_id="away"):
        gr.Markdown(take.SAYS)
        with gr.Row():
            taken = gr.Dropdown([], label="Head", interactive=True, min_width=200)
            form = gr.Radio([take.FOLDER, take.ONNX], value=take.FOLDER, label="As", min_width=200)
        calibrated = gr.Checkbox(
            label="Calibrated: divide the last layer by the temperature",
            info="The head is then about as sure as it is right; its answers stay.",
            visible=False,
            elem_id="calibrated",
        )
        prepare = gr.Button("Prepare the file", size="sm", elem_id="take-winner")
        told = gr.HTML("", elem_id="winner", padding=False)
        file = gr.DownloadButton("Download the head", visible=False, variant="primary", size="sm")
    with gr.Row():
        saved = gr.Button("Report (one HTML file)", size="sm", elem_id="report")
        delete = gr.Button("Delete this run", size="sm", elem_id="delete")
        sure = gr.Button(
            "Yes, delete it for good", size="sm", variant="stop", visible=False, elem_id="sure"
        )
    saves(saved, _report, [run], "head-to-head-report.html")
    taken.input(_chosen, [run, taken], calibrated, **QUIET)
    asked = [run, taken, form, calibrated]
    prepare.click(_prepared, asked, [told, file], **QUIET, **take.ONE_AT_A_TIME)
    delete.click(lambda: gr.update(visible=True), None, sure, queue=False, **QUIET)
    return Tools(
        heads=heads, pair=pair, answers=answers, taken=taken, calibrated=calibrated, told=told,
        file=file, sure=sure,
    )  # fmt: skip


def _try(run: gr.Dropdown) -> tuple[gr.Dropdown, gr.Textbox, gr.HTML]:
    with gr.Accordion("Try these heads on a sentence", open=True, elem_id="try"):
        with gr.Row():
            with gr.Column(min_width=280):
                text = gr.Textbox(label="Your sentence", lines=1, max_lines=6, max_length=20_000)
                pair = gr.Textbox(
                    label="Its second sentence", lines=1, max_lines=6, max_length=20_000,
                    visible=False,
                )  # fmt: skip
            heads = gr.Dropdown(
                [],
                label="Heads, up to four",
                multiselect=True,
                max_choices=MOST,
                interactive=True,
                min_width=280,
            )
        button = gr.Button("Try", variant="primary", size="sm", elem_id="ask")
        answers = gr.HTML("", elem_id="answers", padding=False)
    asked = [run, text, pair, heads]
    gr.on([button.click, text.submit, pair.submit], _tried, asked, answers, **QUIET, **CONCURRENCY)
    return heads, pair, answers


def offered(run: RunFolder, board: "Leaderboard") -> list[Any]:
    """The values of `Tools.all` for a run."""
    from heads.runs.spec import load

    names = [cell.name for cell in board.cells if not cell.is_baseline]
    first = list(dict.fromkeys([board.best, board.reference, *names]))[:MOST]
    hidden = gr.update(visible=False)
    return [
        gr.update(choices=names, value=first),
        gr.update(visible=bool(load(run).corpus.pairs)),
        "",
        gr.update(choices=names, value=board.best),
        gr.update(visible=calibrates(board, board.best), value=False),
        "",
        hidden,
        hidden,
    ]


def calibrates(board: "Leaderboard", name: str) -> bool:
    """Whether a temperature was found for a head, and its last layer can be divided by it."""
    from heads.exporters.calibrated import divides
    from heads.parts.resolve import resolve

    found, order = board.cell(name).measures.calibration, resolve(name)
    if found is None or found.temperature == 1 or board.kind == "number" or order.loss == OVR:
        return False
    return divides(order.sketch(WIDTH, len(board.classes)))


@guarded
def _chosen(name: Any, head: Any) -> Any:
    from heads.runs.leaderboard import leaderboard

    board = leaderboard(kept_runs.opened(name))
    return gr.update(visible=calibrates(board, str(head or "")), value=False)


def _tried(name: Any, text: str, pair: str, names: list[str]) -> Any:
    from heads.interfaces import replies
    from heads.runs.spec import load
    from heads.runs.trained_heads import classifier

    try:
        run = kept_runs.opened(name)
        if not names:
            raise RecipeError("No head is chosen.", "Choose one.")
        if len(names) > MOST:
            raise LimitError(f"At most {MOST} heads stand side by side.", "Take some away.")
        corpus = load(run).corpus
        second = (pair or "") if corpus.pairs else None
        told = {
            head: replies.reply(classifier(run, head, limits()), text or "", second)
            for head in names
        }
        numbers = corpus.numbers or (0.0,)
        return replies.tried(told, (min(numbers), max(numbers)))
    except Exception as error:
        return drawings.failure(sentence(error))


@guarded
def _report(name: Any) -> str:
    from heads.interfaces.report import report
    from heads.runs.drill_down import disagreements
    from heads.runs.leaderboard import leaderboard

    run = kept_runs.opened(name)
    return report(leaderboard(run), disagreements(run))


def _prepared(name: Any, head: Any, form: str, calibrated: bool) -> Iterator[tuple[Any, Any]]:
    """Writes and verifies a head of a run, and hands the file over."""
    from heads.runs.trained_heads import classifier

    hidden = gr.update(visible=False)
    with TemporaryDirectory(prefix="head-to-head-") as place:
        try:
            yield drawings.busy("Writing and checking the file"), hidden
            found = classifier(kept_runs.opened(name), str(head or ""), limits())
            path, says = take.written(found, form, Path(place), calibrated)
            yield drawings.exported(says), gr.update(visible=True, value=str(path))
        except Exception as error:
            yield drawings.failure(sentence(error)), hidden


@guarded
def _deleted(name: Any) -> Any:
    kept_runs.opened(name).delete()
    return gr.update(visible=False)
