"""The charts of a run as the plain dictionaries that Plotly draws, each with what it says in words.

One figure serves light and dark: the style sheet colours its text. No Gradio, no Plotly.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from heads.evaluation.metrics import SCORES, MetricName
from heads.evaluation.predictions import MAJORITY, TFIDF
from heads.interfaces.views.comparison import escape
from heads.interfaces.views.format import LEAST, Measure, between, offered
from heads.interfaces.views.lanes import title_of
from heads.parts.resolved_recipe import ResolvedRecipe
from heads.runs.cells import Cell
from heads.runs.leaderboard import Leaderboard

Figure = dict[str, Any]
ACCENT, GREY, WORDS = "#4f6bed", "#8b8b96", "#d97706"
GRID, ZERO = "rgba(128,128,128,.18)", "rgba(128,128,128,.6)"
BAND = "rgba(79,107,237,.09)"
SHADES = [[0, "rgba(79,107,237,.08)"], [1, "rgba(79,107,237,.85)"]]
ROW, FRAME = 25, 52  # pixels of a row, and of all else
MOST_ROWS = 30
LAYOUT: Figure = {
    "paper_bgcolor": "rgba(0,0,0,0)",
    "plot_bgcolor": "rgba(0,0,0,0)",
    "font": {"size": 12.5, "color": "#7a7a85"},
    "showlegend": False,
    "hoverlabel": {"font": {"size": 13}},
}
AXIS: Figure = {"fixedrange": True, "automargin": True, "gridcolor": GRID, "zeroline": False}


@dataclass(frozen=True, slots=True, kw_only=True)
class Chart:
    """A figure, and the same in words for those who do not see it."""

    figure: Figure
    says: str


def _whole(data: Sequence[Figure], layout: Figure) -> Figure:
    return {
        "data": list(data),
        "layout": LAYOUT | layout,
        "config": {"displayModeBar": False, "responsive": True},
    }


def score_axis(values: Sequence[float], metric: MetricName) -> Figure:
    """A horizontal axis for scores: it fits them, and leaves out what cannot be."""
    scale = SCORES[metric]
    low, high = min(values), max(values)
    room = max((high - low) * 0.06, 0.01 * abs(high) or 0.01)
    low, high = max(scale.low, low - room), min(scale.high + room / 3, high + room)
    axis = AXIS | {"range": [low, high], "nticks": 7}
    return axis | ({"tickformat": ".0%"} if scale.is_share else {})


def forest(board: Leaderboard) -> Chart:
    """Every head with its 95 % interval, the best first; what guessing and counting words reach.

    A band lies behind those that cannot be told apart from the recommended one.
    """
    heads = [cell for cell in board.cells if not cell.is_baseline]
    left, heads = len(heads) - MOST_ROWS, heads[:MOST_ROWS]
    chosen, metric = board.recommendation, SCORES[board.metric]
    alike = {chosen.name, *chosen.alike} if chosen.name else set()
    colours = [ACCENT if cell.name == chosen.name else GREY for cell in heads]
    scores = [cell.measures.score for cell in heads]
    points: Figure = {
        "type": "scatter",
        "mode": "markers",
        "x": scores,
        "y": list(range(len(heads))),
        "marker": {"size": 10, "color": colours},
        "customdata": [cell.name for cell in heads],
        "text": [_hover(cell, board) for cell in heads],
        "hovertemplate": "%{text}<extra></extra>",
    }
    lines = [
        {
            "type": "scatter",
            "mode": "lines",
            "x": [cell.measures.low, cell.measures.high],
            "y": [row, row],
            "line": {"color": colour, "width": 3},
            "customdata": [cell.name] * 2,
            "hoverinfo": "skip",
        }
        for row, (cell, colour) in enumerate(zip(heads, colours, strict=True))
    ]
    known = {cell.name: cell.measures.score for cell in board.cells if cell.is_baseline}
    bars = [
        (known[name], says, colour)
        for name, says, colour in ((MAJORITY, "guessing", GREY), (TFIDF, "counting words", WORDS))
        if name in known
    ]
    ends = [end for cell in heads for end in (cell.measures.low, cell.measures.high)]
    shapes: list[Figure] = [
        _band(row) for row, cell in enumerate(heads) if cell.name in alike
    ]  # fmt: skip
    shapes += [
        {"type": "line", "x0": at, "x1": at, "yref": "paper", "y0": 0, "y1": 1,
         "line": {"color": colour, "width": 1.5, "dash": "dash"}}
        for at, _, colour in bars
    ]  # fmt: skip
    notes: list[Figure] = [
        {"x": at, "yref": "paper", "y": 0, "yanchor": "top", "yshift": -18 - 14 * number,
         "showarrow": False, "xanchor": "center", "font": {"size": 11.5},
         "text": f"┆ {says} {metric.told(at)}"}
        for number, (at, says, _) in enumerate(bars)
    ]  # fmt: skip
    notes += [
        {"xref": "paper", "x": 1, "xanchor": "left", "xshift": 8, "y": row, "showarrow": False,
         "font": {"size": 12.5}, "text": metric.told(cell.measures.score)
         + (" <b>★</b>" if cell.name == chosen.name else "")}
        for row, cell in enumerate(heads)
    ]  # fmt: skip
    names = AXIS | {
        "tickvals": list(range(len(heads))),
        "ticktext": [escape(cell.name) for cell in heads],
        "range": [len(heads) - 0.4, -0.6],
        "showgrid": False,
        "ticklabelstandoff": 6,
    }
    layout = {
        "height": ROW * len(heads) + FRAME + 18,
        "margin": {"l": 8, "r": 78, "t": 4, "b": 48},
        "xaxis": score_axis([*ends, *known.values()], board.metric) | {"side": "bottom"},
        "yaxis": names,
        "shapes": shapes,
        "annotations": notes,
        "hovermode": "closest",
    }
    more = f" {left} more below." if left > 0 else ""
    said = f"{chosen.use.replace('`', '')}: {chosen.because}. {chosen.how_sure}.".replace("..", ".")
    return Chart(figure=_whole([*lines, points], layout), says=f"Forest plot. {said}{more}")


def _band(row: int) -> Figure:
    return {
        "type": "rect", "xref": "paper", "x0": 0, "x1": 1, "y0": row - 0.5, "y1": row + 0.5,
        "fillcolor": BAND, "line": {"width": 0}, "layer": "below",
    }  # fmt: skip


def _hover(cell: Cell, board: Leaderboard) -> str:
    told = SCORES[board.metric].told(cell.measures.score)
    lines = [
        f"<b>{escape(title_of(cell.name))}</b> {escape(cell.name)}",
        f"{SCORES[board.metric].title} {told} ({between(cell.measures)})",
        f"{cell.parameters:,} parameters",
    ]
    return "<br>".join(lines)


# --- The heat map.


@dataclass(frozen=True, slots=True, kw_only=True)
class Tile:
    """A cell of the heat map.

    Attributes:
        value: Which decides on the shade.
        shown: What is written.
    """

    value: float
    shown: str


def heat_map(board: Leaderboard, name: str = "") -> Chart:
    """A row a pooling, a column a head, the better the darker; the recommended one has a star.

    Args:
        name: Of the measure; the score, if the cells have none of that name.
    """
    heads = [cell for cell in board.cells if not cell.is_baseline]
    known = offered(board.cells)
    measure = next((one for one in known if one.name == name), known[0])
    tiles = {
        cell.name: Tile(value=value, shown=measure.shown(value))
        for cell in heads
        if (value := measure.of(cell)) is not None
    }
    out = [one.recipe for one in board.stopped]
    recipes = [board.recipes[name] for name in (*(cell.name for cell in heads), *out)]
    return tiled(recipes, tiles, measure, star=board.recommendation.name, out=out)


def tiled(
    recipes: Sequence[ResolvedRecipe],
    tiles: Mapping[str, Tile],
    measure: Measure,
    *,
    star: str = "",
    out: Sequence[str] = (),
) -> Chart:
    """The heat map of some recipes, as far as their cells are done.

    Args:
        recipes: All that are planned.
        star: The one that is recommended.
        out: Those that a race has stopped.
    """
    from heads.interfaces.views.leaderboard import in_order

    names = {str(one): (one.reading, one.behind) for one in in_order(recipes)}
    rows = list(dict.fromkeys(reading for reading, _ in names.values()))
    columns = list(dict.fromkeys(behind for _, behind in names.values()))
    sign = 1 if measure.high_is_good else -1
    values = [sign * tile.value for tile in tiles.values()] or [0.0]
    least = LEAST[measure.form] or 0.02 * max(map(abs, values))
    span = max(max(values) - min(values), least) or 1.0
    depth: list[list[float | None]] = [[None] * len(columns) for _ in rows]
    text = [[""] * len(columns) for _ in rows]
    custom = [[""] * len(columns) for _ in rows]
    for name, (reading, behind) in names.items():
        row, column = rows.index(reading), columns.index(behind)
        custom[row][column] = name
        tile = tiles.get(name)
        if tile is None:
            text[row][column] = "stopped" if name in out else ""
            continue
        depth[row][column] = max(0.0, 1 - (max(values) - sign * tile.value) / span)
        text[row][column] = tile.shown + (" ★" if name == star else "")
    trace = {
        "type": "heatmap",
        "z": depth,
        "text": text,
        "texttemplate": "%{text}",
        "textfont": {"size": 12.5},
        "customdata": custom,
        "hovertemplate": "%{customdata}: %{text}<extra></extra>",
        "colorscale": SHADES,
        "zmin": 0,
        "zmax": 1,
        "showscale": False,
        "xgap": 3,
        "ygap": 3,
        "hoverongaps": False,
    }
    top = AXIS | {"side": "top", "showgrid": False}
    at = list(range(len(columns)))
    layout = {
        "height": 34 * len(rows) + 64,
        "margin": {"l": 8, "r": 8, "t": 30, "b": 6},
        "xaxis": top | {"tickvals": at, "ticktext": list(map(escape, columns))},
        "yaxis": AXIS | {
            "autorange": "reversed", "showgrid": False,
            "tickvals": list(range(len(rows))), "ticktext": list(map(escape, rows)),
            "ticklabelstandoff": 6,
        },
    }  # fmt: skip
    best = max(tiles.items(), key=lambda one: sign * one[1].value, default=None)
    says = f"{measure.label} by pooling (rows) and head (columns)."
    if best:
        says += f" Best: {best[0]}, {best[1].shown}."
    return Chart(figure=_whole([trace], layout), says=says)
