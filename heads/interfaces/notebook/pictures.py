"""Pictures of results as Plotly's own figures: those of the page, with what they say."""

from collections.abc import Callable, Mapping
from textwrap import wrap
from typing import TYPE_CHECKING, Any

from heads.errors import DataError, did_you_mean
from heads.evaluation.details import Measures
from heads.explain.comparison import Comparison
from heads.interfaces.views import charts
from heads.interfaces.views.charts import Chart
from heads.interfaces.views.format import offered
from heads.interfaces.views.sections import find_subject
from heads.runs.leaderboard import Leaderboard

if TYPE_CHECKING:
    from plotly.graph_objects import Figure

Picture = Callable[[Leaderboard, str, str], Chart | None]

LINE = 110  # characters of a line above a figure
LINE_HEIGHT = 18  # pixels


def figure(found: Any, kind: str, **of: str) -> "Figure":
    """A picture of a result.

    Raises:
        DataError: There is no such picture, or the result does not have what it shows.
    """
    if isinstance(found, Comparison):
        return build_plotly_figure(charts.comparison(found))
    if isinstance(found, Leaderboard):
        return build_plotly_figure(_of_run(found, kind, **of))
    raise TypeError(f"nothing draws a {type(found).__name__}")  # a fault of ours


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


# --- Of a run. Each takes the leaderboard, a measure and a recipe, and gives None without them.


def _heat_map(board: Leaderboard, measure: str, recipe: str) -> Chart:
    known = [one.name for one in offered(board.cells)]
    if measure and measure not in known:
        raise DataError(f"The heads have no measure '{measure}'.", did_you_mean(measure, known))
    return charts.heat_map(board, measure)


def _layers(board: Leaderboard, measure: str, recipe: str) -> Chart | None:
    found = charts.layers(board)
    named = [one for one in found if one.says.startswith(f"{recipe}:")]
    return next(iter([*named, *found]), None)


def _ways(board: Leaderboard, measure: str, recipe: str) -> Chart | None:
    found = {one.recipe: one for one in board.ways_of_learning}
    return charts.ways(found.get(recipe) or next(iter(found.values()))) if found else None


def _of_head(draw: Callable[[Measures, Leaderboard], Chart | None]) -> Picture:
    """Return the picture of one head: the named one, the recommended one, else the best."""

    def picture(board: Leaderboard, measure: str, recipe: str) -> Chart | None:
        name = find_subject(board, recipe).head
        if not any(cell.name == name for cell in board.cells):
            what = f"{recipe} is not done yet." if recipe else "No head is done yet."
            raise DataError(what, "Resume the run.")
        return draw(board.cell(name).measures, board)

    return picture


PICTURES: Mapping[str, Picture] = {
    "forest": lambda board, measure, recipe: charts.forest(board, recipe),
    "heat_map": _heat_map,
    "sizes": lambda board, measure, recipe: charts.sizes(board),
    "growth": lambda board, measure, recipe: charts.growth(board),
    "layers": _layers,
    "ways": _ways,
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


def _of_run(board: Leaderboard, kind: str, measure: str, recipe: str) -> Chart:
    if kind not in PICTURES:
        raise DataError(f"A leaderboard has no picture '{kind}'.", did_you_mean(kind, PICTURES))
    if recipe and recipe not in board.recipes:
        raise DataError(f"This run has no head '{recipe}'.", did_you_mean(recipe, board.recipes))
    if chart := PICTURES[kind](board, measure, recipe):
        return chart
    raise DataError(f"This run has nothing that a picture '{kind}' would show.", "Draw another.")
