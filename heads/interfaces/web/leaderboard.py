"""The tab Leaderboard: the verdict of a run, and all that it rests on."""

from dataclasses import dataclass, fields
from typing import TYPE_CHECKING, Any

import gradio as gr

from heads.interfaces import accounts, drawings
from heads.interfaces.web import kept_runs, leaderboard_tools
from heads.interfaces.web.guards import guarded, sentence
from heads.interfaces.web.leaderboard_tools import QUIET, Tools
from heads.interfaces.web.opening import Opening
from heads.interfaces.web.saves import as_csv, saves
from heads.interfaces.web.train import Trained
from heads.runs.folder import RunFolder

if TYPE_CHECKING:
    from heads.runs.leaderboard import Leaderboard

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


def build(tabs: gr.Tabs, tab: gr.Tab, opening: Opening, trained: Trained) -> None:
    """Draws the tab; it shows a run when it is opened."""
    run = gr.Dropdown(
        [], value=None, label="Run", interactive=True, elem_id="run", allow_custom_value=False
    )
    verdict = gr.HTML(drawings.busy("Looking for runs"), elem_id="found", padding=False)
    with gr.Column(visible=False) as results:
        measure, heat = _grid()
        opening.fills([measure], _measures)
        tools = leaderboard_tools.build_tools(run)
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
    from heads.interfaces.measured import MEASURES

    shown = [(one.label, one.name) for one in MEASURES["one"]]
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


def _wire(tabs: gr.Tabs, tab: gr.Tab, trained: Trained, run: gr.Dropdown, view: View) -> None:
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
    found = kept_runs.choices(mine)
    ids = [each for _, each in found]
    return gr.update(choices=found, value=name if name in ids else next(iter(ids), None))


@guarded
def _listed(name: Any, mine: Any) -> Any:
    return _menu(name, mine)


def _shown(name: Any, mine: Any) -> list[Any]:
    """The values of `View.all`."""
    from heads.interfaces import boards
    from heads.runs.leaderboard import leaderboard

    empty: list[Any] = [gr.skip()] * (len(fields(View)) - 3 + Tools.count())
    if not name:
        return [drawings.failure(NONE), gr.update(visible=False), *empty]
    try:
        run = kept_runs.opened(name)
        board = leaderboard(run)
        if not board.best:
            return [boards.verdict(board), gr.update(visible=False), *empty]
        return _drawn(run, board, mine)
    except Exception as error:
        return [drawings.failure(sentence(error)), gr.update(visible=False), *empty]


def _drawn(run: RunFolder, board: "Leaderboard", mine: Any) -> list[Any]:
    from heads.interfaces import boards, closer, replies, trends
    from heads.interfaces.measured import offered
    from heads.runs.drill_down import closeup, disagreements

    heads = [cell.name for cell in board.cells if not cell.is_baseline]
    measures, layers = offered(board.cells), trends.layers(board)
    shown = [(one.label, one.name) for one in measures]
    return [
        boards.verdict(board),
        gr.update(visible=True),
        gr.update(choices=shown, value=measures[0].name),
        boards.heat_of(board),
        trends.sizes(board),
        trends.growth(board) if len(board.curve) > 1 else accounts.remark(NO_CURVE),
        gr.update(visible=bool(layers)),
        layers,
        _scores(board),
        gr.update(choices=heads, value=board.best),
        closer.one(closeup(board, board.best)),
        gr.update(visible=board.kind == "many"),
        replies.disagreements(disagreements(run, most=MOST_TEXTS), board.kind),
        closer.estimates(board),
        kept_runs.same_data(run, mine),
        *leaderboard_tools.offered(run, board),
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
    from heads.interfaces.measured import figures, headers, offered

    measures = offered(board.cells)
    return headers(measures), [figures(cell, measures) for cell in board.cells]


@guarded
def _as_csv(name: Any) -> str:
    from heads.runs.leaderboard import leaderboard

    return as_csv(*_figures(leaderboard(kept_runs.opened(name))))


@guarded
def _labels_as_csv(name: Any, head: str) -> str:
    from heads.interfaces import closer
    from heads.runs.leaderboard import leaderboard

    board = leaderboard(kept_runs.opened(name))
    return as_csv(*closer.label_figures(board.cell(head).measures.labels))


@guarded
def _measured(name: Any, measure: str) -> Any:
    from heads.interfaces import boards
    from heads.runs.leaderboard import leaderboard

    return boards.heat_of(leaderboard(kept_runs.opened(name)), measure)


@guarded
def _closer(name: Any, head: str) -> Any:
    from heads.interfaces import closer
    from heads.runs.drill_down import closeup
    from heads.runs.leaderboard import leaderboard

    return closer.one(closeup(leaderboard(kept_runs.opened(name)), head))
