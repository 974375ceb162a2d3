"""The tab Leaderboard: the verdict of a run, and all that it rests on."""

from collections.abc import Iterator
from dataclasses import dataclass, fields
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any

import gradio as gr

from heads.errors import LimitError, RecipeError
from heads.interfaces.views import comparison, dataset
from heads.interfaces.web import run_access
from heads.interfaces.web.guards import as_csv, guarded, saves, sentence
from heads.interfaces.web.startup import Opening
from heads.interfaces.web.tabs import export_panel
from heads.interfaces.web.tabs.compare import CONCURRENCY
from heads.interfaces.web.tabs.train import TrainTab
from heads.parts.resolved_recipe import OVR
from heads.problem import SINGLE_LABEL
from heads.runs.folder import RunFolder
from heads.settings import limits

if TYPE_CHECKING:
    from heads.runs.leaderboard import Leaderboard

# --- What one does with a run: ask its heads, save a report, take a head away, delete it.

QUIET: dict[str, Any] = {"show_progress": "hidden", "api_visibility": "private"}


MOST = 4  # heads side by side
WIDTH = 384  # of a base model; whether a head can be divided does not depend on it


@dataclass(frozen=True, slots=True, kw_only=True)
class Tools:
    """The components that a run fills, in the order of `of_tools`; then those of deleting."""

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
        gr.Markdown(export_panel.SAYS)
        with gr.Row():
            taken = gr.Dropdown([], label="Head", interactive=True, min_width=200)
            form = gr.Radio(
                [export_panel.FOLDER, export_panel.ONNX],
                value=export_panel.FOLDER,
                label="As",
                min_width=200,
            )
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
    prepare.click(_prepared, asked, [told, file], **QUIET, **export_panel.ONE_AT_A_TIME)
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


def of_tools(run: RunFolder, board: "Leaderboard") -> list[Any]:
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

    found, resolved = board.cell(name).measures.calibration, board.recipes[name]
    if (
        found is None
        or found.temperature == 1
        or not board.problem.has_classes
        or resolved.loss == OVR
    ):
        return False
    return divides(resolved.sketch(WIDTH, len(board.classes)))


@guarded
def _chosen(name: Any, head: Any) -> Any:
    from heads.runs.leaderboard import leaderboard

    board = leaderboard(run_access.opened(name))
    return gr.update(visible=calibrates(board, str(head or "")), value=False)


def _tried(name: Any, text: str, pair: str, names: list[str]) -> Any:
    from heads.interfaces.views import predictions
    from heads.runs.spec import load
    from heads.runs.trained_heads import classifier

    try:
        run = run_access.opened(name)
        if not names:
            raise RecipeError("No head is chosen.", "Choose one.")
        if len(names) > MOST:
            raise LimitError(f"At most {MOST} heads stand side by side.", "Take some away.")
        corpus = load(run).corpus
        second = (pair or "") if corpus.pairs else None
        told = {
            head: predictions.reply(classifier(run, head, limits()), text or "", second)
            for head in names
        }
        numbers = corpus.numbers or (0.0,)
        return predictions.tried(told, (min(numbers), max(numbers)))
    except Exception as error:
        return comparison.failure(sentence(error))


@guarded
def _report(name: Any) -> str:
    from heads.interfaces.views.report import report
    from heads.runs.drill_down import disagreements
    from heads.runs.leaderboard import leaderboard

    run = run_access.opened(name)
    return report(leaderboard(run), disagreements(run))


def _prepared(name: Any, head: Any, form: str, calibrated: bool) -> Iterator[tuple[Any, Any]]:
    """Writes and verifies a head of a run, and hands the file over."""
    from heads.runs.trained_heads import classifier

    hidden = gr.update(visible=False)
    with TemporaryDirectory(prefix="head-to-head-") as place:
        try:
            yield comparison.busy("Writing and checking the file"), hidden
            found = classifier(run_access.opened(name), str(head or ""), limits())
            path, says = export_panel.written(found, form, Path(place), calibrated)
            yield comparison.exported(says), gr.update(visible=True, value=str(path))
        except Exception as error:
            yield comparison.failure(sentence(error)), hidden


@guarded
def _deleted(name: Any) -> Any:
    run_access.opened(name).delete()
    return gr.update(visible=False)


READS: dict[str, Any] = {"concurrency_id": "boards", "concurrency_limit": 4}
NONE = "No run is kept yet. Go to the tab Train: with a sample it takes less than a minute."
NO_CURVE = (
    "The heads of this run were not also trained on fewer rows: it ended early, has fewer than "
    "200 rows to learn from, or “Learning curve” was not ticked (tab Train, More settings)."
)
LETTER, PADDING = 9, 30  # pixels in a column of the table
MOST_LETTERS = 36  # of a recipe there
MOST_TEXTS = 10  # on which the heads disagree


@dataclass(frozen=True, slots=True, kw_only=True)
class View:
    """What a run is shown in, in the order of `_shown`."""

    verdict: gr.HTML
    results: gr.Column
    measure: gr.Radio
    heat: gr.HTML
    sizes: gr.HTML
    growth: gr.HTML
    layered: gr.Column
    layers: gr.HTML
    table: gr.Dataframe
    head: gr.Dropdown
    closer: gr.HTML
    labels: gr.Button
    apart: gr.HTML
    estimates: gr.HTML
    others: gr.HTML
    tools: Tools

    def all(self) -> list[Any]:
        """The components, the tools' own last."""
        own = [getattr(self, field.name) for field in fields(self) if field.name != "tools"]
        return [*own, *self.tools.all()]


def build(tabs: gr.Tabs, tab: gr.Tab, opening: Opening, trained: TrainTab) -> None:
    """Draws the tab; it shows a run when it is opened."""
    run = gr.Dropdown(
        [], value=None, label="Run", interactive=True, elem_id="run", allow_custom_value=False
    )
    verdict = gr.HTML(comparison.busy("Looking for runs"), elem_id="found", padding=False)
    with gr.Column(visible=False) as results:
        measure, heat = _grid()
        opening.fills([measure], _measures)
        tools = build_tools(run)
        with gr.Row():
            with gr.Column(min_width=300):
                gr.Markdown("### Score against size")
                sizes = gr.HTML("", elem_id="sizes", padding=False)
            with gr.Column(min_width=300):
                gr.Markdown("### Would more rows change the choice?")
                growth = gr.HTML("", elem_id="growth", padding=False)
        with gr.Column(visible=False) as layered:
            gr.Markdown("### Layer by layer")
            layers = gr.HTML("", elem_id="layers", padding=False)
        table = _table(run)
        gr.Markdown("### A closer look at one head")
        head = gr.Dropdown([], label="Head", interactive=True, elem_id="head")
        close = gr.HTML("", elem_id="closer", padding=False)
        labels = gr.Button(
            "Save all labels as CSV", size="sm", visible=False, elem_id="save-labels"
        )
        saves(labels, _labels_as_csv, [run, head], "labels.csv")
        gr.Markdown("### Where the heads disagree most")
        apart = gr.HTML("", elem_id="disagree", padding=False)
        gr.Markdown("### What could be told before any training")
        estimates = gr.HTML("", elem_id="estimates", padding=False)
        gr.Markdown("### Other runs on the same rows")
        others = gr.HTML("", elem_id="others", padding=False)
    view = View(
        verdict=verdict, results=results, measure=measure, heat=heat, sizes=sizes, growth=growth,
        layered=layered, layers=layers, table=table, head=head, closer=close, labels=labels,
        apart=apart, estimates=estimates, others=others, tools=tools,
    )  # fmt: skip
    _wire(tabs, tab, trained, run, view)


def _grid() -> tuple[gr.Radio, gr.HTML]:
    gr.Markdown("### Every pooling with every head")
    measure = gr.Radio(
        [],
        label="Show",
        elem_id="measure",
    )
    return measure, gr.HTML("", elem_id="board", padding=False)


def _measures() -> list[Any]:
    from heads.interfaces.views.format import MEASURES

    shown = [(one.label, one.name) for one in MEASURES[SINGLE_LABEL]]
    return [gr.update(choices=shown, value=shown[0][1])]


def _table(run: gr.Dropdown) -> gr.Dataframe:
    gr.Markdown("### All numbers")
    table = gr.Dataframe(
        interactive=False,
        max_height=420,
        show_label=False,
        buttons=["copy", "fullscreen"],
        elem_id="scores",
    )
    save = gr.Button("Save as CSV", size="sm", elem_id="save-csv")
    saves(save, _as_csv, [run], "leaderboard.csv")
    return table


def _wire(tabs: gr.Tabs, tab: gr.Tab, trained: TrainTab, run: gr.Dropdown, view: View) -> None:
    everything: dict[str, Any] = {
        "fn": _shown, "inputs": [run, trained.mine], "outputs": view.all(), **QUIET, **READS
    }  # fmt: skip
    tab.select(_listed, [run, trained.mine], run, **QUIET, **READS).then(**everything)
    trained.open.click(
        lambda name, mine: [gr.Tabs(selected="leaderboard"), _menu(name, mine)],
        [trained.run, trained.mine], [tabs, run], **QUIET, **READS,
    ).then(**everything)  # fmt: skip
    run.input(**everything)
    view.measure.input(_measured, [run, view.measure], view.heat, **QUIET, **READS)
    view.head.input(_closer, [run, view.head], view.closer, **QUIET, **READS)
    view.tools.deleted(
        lambda mine: _listed(None, mine), [trained.mine], run, everything | {"trigger_mode": "once"}
    )


def _menu(name: Any, mine: Any) -> Any:
    """The runs to choose from, with that one chosen, or the newest."""
    found = run_access.choices(mine)
    ids = [each for _, each in found]
    return gr.update(choices=found, value=name if name in ids else next(iter(ids), None))


@guarded
def _listed(name: Any, mine: Any) -> Any:
    return _menu(name, mine)


def _shown(name: Any, mine: Any) -> list[Any]:
    """The values of `View.all`."""
    from heads.interfaces.views import leaderboard as view
    from heads.runs.leaderboard import leaderboard

    empty: list[Any] = [gr.skip()] * (len(fields(View)) - 3 + Tools.count())
    if not name:
        return [comparison.failure(NONE), gr.update(visible=False), *empty]
    try:
        run = run_access.opened(name)
        board = leaderboard(run)
        if not board.best:
            return [view.verdict(board), gr.update(visible=False), *empty]
        return _drawn(run, board, mine)
    except Exception as error:
        return [comparison.failure(sentence(error)), gr.update(visible=False), *empty]


def _drawn(run: RunFolder, board: "Leaderboard", mine: Any) -> list[Any]:
    from heads.interfaces.views import head_details, predictions
    from heads.interfaces.views import leaderboard as view
    from heads.interfaces.views.format import offered
    from heads.runs.drill_down import closeup, disagreements

    heads = [cell.name for cell in board.cells if not cell.is_baseline]
    measures, layers = offered(board.cells), view.layers(board)
    shown = [(one.label, one.name) for one in measures]
    return [
        view.verdict(board),
        gr.update(visible=True),
        gr.update(choices=shown, value=measures[0].name),
        view.heat_of(board),
        view.sizes(board),
        view.growth(board) if len(board.curve) > 1 else dataset.remark(NO_CURVE),
        gr.update(visible=bool(layers)),
        layers,
        _scores(board),
        gr.update(choices=heads, value=board.best),
        head_details.one(closeup(board, board.best)),
        gr.update(visible=board.problem.has_label_sets),
        predictions.disagreements(disagreements(run, most=MOST_TEXTS), board.problem),
        head_details.estimates(board),
        run_access.same_data(run, mine),
        *of_tools(run, board),
    ]


def _scores(board: "Leaderboard") -> Any:
    """The table, whose columns are those of the kind of labels."""
    names, rows = _figures(board)
    longest = max(len(row[0]) for row in rows)
    letters = [min(longest, MOST_LETTERS), *(max(len(name), 5) for name in names[1:-1]), 22]
    return gr.update(
        value={"headers": names, "data": rows},
        headers=names,
        datatype=["str", *["number"] * (len(names) - 2), "str"],
        column_widths=[f"{LETTER * width + PADDING}px" for width in letters],
    )


def _figures(board: "Leaderboard") -> tuple[list[str], list[list[Any]]]:
    from heads.interfaces.views.format import figures, headers, offered

    measures = offered(board.cells)
    return headers(measures), [figures(cell, measures) for cell in board.cells]


@guarded
def _as_csv(name: Any) -> str:
    from heads.runs.leaderboard import leaderboard

    return as_csv(*_figures(leaderboard(run_access.opened(name))))


@guarded
def _labels_as_csv(name: Any, head: str) -> str:
    from heads.interfaces.views import head_details
    from heads.runs.leaderboard import leaderboard

    board = leaderboard(run_access.opened(name))
    return as_csv(*head_details.label_figures(board.cell(head).measures.labels))


@guarded
def _measured(name: Any, measure: str) -> Any:
    from heads.interfaces.views import leaderboard as view
    from heads.runs.leaderboard import leaderboard

    return view.heat_of(leaderboard(run_access.opened(name)), measure)


@guarded
def _closer(name: Any, head: str) -> Any:
    from heads.interfaces.views import head_details
    from heads.runs.drill_down import closeup
    from heads.runs.leaderboard import leaderboard

    return head_details.one(closeup(leaderboard(run_access.opened(name)), head))
