"""Results as they are drawn in a terminal, in a notebook and as figures of Plotly's.

A result is a title and blocks below it: sentences, tables and code (`heads.display.Description`),
which `views.descriptions` gives of every type of result, and charts. Some types have a view of the
page's own, which a notebook shows instead. Such a fragment of HTML stands for itself: its style
goes with it, it runs no script, asks for nothing from elsewhere, and is read in light and in dark.
"""

import io
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import cache, singledispatch
from pathlib import Path
from textwrap import wrap
from typing import TYPE_CHECKING, Any

from markupsafe import Markup
from rich import box
from rich import table as rich_table
from rich.console import Console, ConsoleOptions
from rich.measure import Measurement
from rich.segment import Segment
from rich.text import Text

from heads.catalog.catalog import CatalogEntry
from heads.classifier.classifier import Classifier
from heads.data.dataset import Data
from heads.display import Code, Description, Displayed, Table
from heads.errors import DataError, did_you_mean, printable
from heads.evaluation.details import Measures
from heads.inference.predict import FileAnswers
from heads.interfaces.views import charts, dataset, interpretation, lanes, whole_files
from heads.interfaces.views import explanation as explained
from heads.interfaces.views.descriptions import describe, describe_leaderboard, tabulate_cells
from heads.interfaces.views.figures import Chart
from heads.interfaces.views.format import offered
from heads.interfaces.views.html import draw_table, render
from heads.interfaces.views.leaderboard import result as draw_board
from heads.interfaces.views.sections import find_subject
from heads.interpret.ablation import Ablation
from heads.interpret.attribution_result import Attribution
from heads.interpret.comparison import Comparison
from heads.interpret.counterfactuals import Counterfactuals
from heads.interpret.explanation import Explanation
from heads.interpret.neighbors import Neighbourhood
from heads.interpret.outputs import Reading
from heads.interpret.padding.report import PaddingReport
from heads.runs.leaderboard import Leaderboard

if TYPE_CHECKING:
    from plotly.graph_objects import Figure

# --- In a terminal.

UNBOUND = 10_000  # characters of a line in which nothing is folded
GAP = 3  # characters between two columns
WIDE = 110  # columns of a terminal that hold every measure


class Terminal(Console):
    """A console on which no text of a user's moves the cursor or turns the way of writing."""

    def render(self, renderable: Any, options: ConsoleOptions | None = None) -> Iterator[Segment]:
        for segment in super().render(renderable, options):
            if segment.control or segment.text.isprintable():
                yield segment
            else:
                text = "\n".join(map(printable, segment.text.split("\n")))
                yield Segment(text, segment.style)


def text(result: Any) -> str:
    """Return a result as the shell prints it; a classifier in one line."""
    if isinstance(result, Classifier):
        return repr(result)
    output = io.StringIO()
    show(result, console=Terminal(file=output))
    return output.getvalue().rstrip()


def show(
    *items: str | Table | Code | Description | Displayed, console: Console | None = None
) -> None:
    """Print sentences, tables, code and results; nothing for an empty text."""
    console = console or Terminal()
    for item in items:
        if isinstance(item, Description | Displayed):
            description = _describe(item, console)
            console.print(Text(description.title, style="bold"))
            show(*description.blocks, console=console)
        elif isinstance(item, Table):
            show(item.title, console=console)
            console.print(*fit_table(item, console), sep="\n")
            show(item.note, console=console)
        elif isinstance(item, Code):
            console.print(Text(item.text), soft_wrap=True)  # to be copied as it is
        elif item:  # a text of a user's is no markup, whatever stands in it
            console.print(Text(item))


def _describe(item: Description | Displayed, console: Console) -> Description:
    if isinstance(item, Leaderboard):
        return describe_leaderboard(item, is_wide=console.width >= WIDE)
    return item if isinstance(item, Description) else describe(item)


def fit_table(table: Table, console: Console) -> list[rich_table.Table]:
    """Return a table as wide as a terminal, in which no recipe and no other word is broken.

    Wide columns are folded, the first one last. Columns for which there is still no room go into a
    table of their own, beside the first one again.
    """
    options, end = console.options.update(max_width=UNBOUND), len(table.headers)
    columns = list(zip(table.headers, *table.rows, strict=True))
    spans = [[Measurement.get(console, options, Text(cell)) for cell in own] for own in columns]
    widths = [max(1, *(span.maximum for span in column)) for column in spans]
    least = [max(1, *(span.minimum for span in column)) for column in spans]

    def excess(columns: Sequence[int]) -> int:
        return sum(columns) + GAP * len(columns) - 1 - console.width

    if excess(least) > 0 and end > 2:
        cut = next((n for n in range(end - 1, 2, -1) if excess(least[:n]) <= 0), 2)
        parts = []
        for places in (range(cut), (0, *range(cut, end))):
            headers, *rows = zip(*(columns[place] for place in places), strict=True)
            parts += fit_table(replace(table, headers=headers, rows=tuple(rows)), console)
        return parts
    for _ in range(excess(widths)):
        if folded := [place for place in range(end) if widths[place] > least[place]]:
            widths[max(folded, key=lambda place: (place > 0, widths[place]))] -= 1
    drawn = rich_table.Table(box=box.SIMPLE_HEAD, pad_edge=False)
    for header, width in zip(table.headers, widths, strict=True):
        drawn.add_column(Text(header), width=width, overflow="fold")
    for row in table.rows:
        drawn.add_row(*map(Text, row))
    return [drawn]


# --- In a notebook.

CSS = Path(charts.__file__).with_name("notebook.css")


def html(result: Any) -> str:
    """Return a result as a fragment of HTML that stands for itself."""
    return str(render("notebook.html", css=_style(), body=draw(result)))


@cache
def _style() -> Markup:
    """Return the style on one line; its id `_` makes it count more than a notebook's own rules."""
    return Markup(" ".join(CSS.read_text("utf-8").split()))  # our own file


@singledispatch
def draw(result: Any) -> Markup:
    """Return what a result says as HTML; those below have a view of the page's own."""
    description = describe(result)
    title = Markup("<p><strong>{}</strong></p>").format(description.title)
    return title + Markup("").join(map(_draw_block, filter(None, description.blocks)))


def _draw_block(block: str | Table | Code) -> Markup:
    if isinstance(block, Table):
        return draw_table(block)
    if isinstance(block, Code):
        return Markup("<pre>{}</pre>").format(block.text)
    return Markup("<p>{}</p>").format(block)


@draw.register
def _(comparison: Comparison) -> Markup:
    drawn = [
        lanes.lane(prediction, number)
        for number, prediction in enumerate(comparison.predictions, start=1)
    ]
    sentence = " ↔ ".join(filter(None, (comparison.text, comparison.pair)))
    return render("compared.html", says=lanes.verdict(comparison), sentence=sentence, lanes=drawn)


@draw.register
def _(explanation: Explanation) -> Markup:
    tokens = lanes.tokens(explanation.reads)
    return render("explained.html", body=explained.explanation(explanation, ""), tokens=tokens)


@draw.register
def _(answers: FileAnswers) -> Markup:
    place = Markup("<p>Every row is in {}.</p>").format(answers.to) if answers.to else ""
    return whole_files.answered(answers, None) + place


VIEWS: Mapping[type, Callable[[Any], Markup]] = {
    Ablation: lambda ablation: interpretation.ablations([ablation]),
    Attribution: lambda one: interpretation.attribution(one, is_number=not one.answer),
    CatalogEntry: explained.family,
    Counterfactuals: interpretation.edits,
    Data: lambda data: dataset.card(data, can_change=False),
    Leaderboard: lambda board: draw_board(board) + draw_table(tabulate_cells(board, is_wide=True)),
    Neighbourhood: lambda one: interpretation.neighbours([one]),
    PaddingReport: explained.padding,
    Reading: interpretation.numbers,
}
for _type, _view in VIEWS.items():
    draw.register(_type, _view)


# --- As figures of Plotly's: those of the page, with their words.

Draw = Callable[[Leaderboard, str, str], Chart | None]
LINE = 110  # characters of a line above a figure
LINE_HEIGHT = 18  # pixels


def figure(result: Any, kind: str, **options: str) -> "Figure":
    """Draw a chart of a result.

    Raises:
        DataError: There is no such chart, or the result does not have what it shows.
    """
    if isinstance(result, Comparison):
        return build_plotly_figure(charts.comparison(result))
    if isinstance(result, Leaderboard):
        return build_plotly_figure(_draw_chart(result, kind, **options))
    raise TypeError(f"nothing draws a {type(result).__name__}")  # a fault of ours


def build_plotly_figure(chart: Chart) -> "Figure":
    """Return a chart as a figure of Plotly that has its words and its key beside it."""
    import plotly.graph_objects as go

    lines = [line for text in (chart.says, chart.note, chart.key) for line in wrap(text, LINE)]
    layout, room = chart.figure["layout"], LINE_HEIGHT * len(lines) + 14
    # Names that stand above a figure take as much room as they need: then the words go below.
    is_above = layout["xaxis"].get("side") != "top"
    title = {
        "text": "<br>".join(map(charts.escape, lines)),
        "font": {"size": 13},
        "x": 0,
        "y": float(is_above),
        "yanchor": "top" if is_above else "bottom",
        # Plotly hangs all lines on the first of them, and several a little higher than one.
        "pad": {"l": 8, "t": 8 if len(lines) == 1 else 22, "b": room - 22},
    }
    side = "t" if is_above else "b"
    margin = layout["margin"] | {side: layout["margin"][side] + room}
    own = {"title": title, "margin": margin, "height": layout["height"] + room}
    return go.Figure({"data": chart.figure["data"], "layout": layout | own})


def _draw_heat_map(board: Leaderboard, measure: str, recipe: str) -> Chart:
    known = [one.name for one in offered(board.cells)]
    if measure and measure not in known:
        raise DataError(f"The heads have no measure '{measure}'.", did_you_mean(measure, known))
    return charts.heat_map(board, measure)


def _draw_layers(board: Leaderboard, measure: str, recipe: str) -> Chart | None:
    drawn = charts.layers(board)
    named = [chart for chart in drawn if chart.says.startswith(f"{recipe}:")]
    return next(iter([*named, *drawn]), None)


def _draw_ways(board: Leaderboard, measure: str, recipe: str) -> Chart | None:
    ways = {way.recipe: way for way in board.ways_of_learning}
    return charts.ways(ways.get(recipe) or next(iter(ways.values()))) if ways else None


def _of_head(draw: Callable[[Measures, Leaderboard], Chart | None]) -> Draw:
    """Return the chart of one head: the named one, the recommended one, else the best."""

    def draw_head(board: Leaderboard, measure: str, recipe: str) -> Chart | None:
        name = find_subject(board, recipe).head
        if not any(cell.name == name for cell in board.cells):
            what = f"{recipe} is not done yet." if recipe else "No head is done yet."
            raise DataError(what, "Resume the run.")
        return draw(board.cell(name).measures, board)

    return draw_head


# Each takes the leaderboard, a measure and a recipe, and gives None without what it shows.
PICTURES: Mapping[str, Draw] = {
    "forest": lambda board, measure, recipe: charts.forest(board, recipe),
    "heat_map": _draw_heat_map,
    "sizes": lambda board, measure, recipe: charts.sizes(board),
    "growth": lambda board, measure, recipe: charts.growth(board),
    "layers": _draw_layers,
    "ways": _draw_ways,
    "reliability": _of_head(lambda own, board: charts.reliability(own) if own.bins else None),
    "coverage": _of_head(
        lambda own, board: (
            charts.coverage(own.calibration.coverage, board.problem) if own.calibration else None
        )
    ),
    "confusion": _of_head(
        lambda own, board: (
            None if own.confusion is None else charts.confusion(own.confusion, board.classes)
        )
    ),
    "f1": _of_head(lambda own, board: charts.f1(own.f1, board.classes) if own.f1 else None),
}


def _draw_chart(board: Leaderboard, kind: str, measure: str, recipe: str) -> Chart:
    if kind not in PICTURES:
        raise DataError(f"A leaderboard has no picture '{kind}'.", did_you_mean(kind, PICTURES))
    if recipe and recipe not in board.recipes:
        raise DataError(f"This run has no head '{recipe}'.", did_you_mean(recipe, board.recipes))
    if chart := PICTURES[kind](board, measure, recipe):
        return chart
    raise DataError(f"This run has nothing that a picture '{kind}' would show.", "Draw another.")
