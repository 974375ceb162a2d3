"""Charts as plain Plotly figures, each with a sentence for those who do not see it. No Gradio.

A figure is a dictionary that Plotly draws, `{"data": …, "layout": …, "config": …}`, the same for
the page and for the report; Plotly itself is not imported. One figure serves light and dark: its
ground is transparent, and `board.css` colours its text. So its colours are hex or rgba(), which
every version of Plotly reads, and foreign text passes `escape`.
"""

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from math import ceil, floor, isfinite, log2, log10
from typing import TYPE_CHECKING, Any, Literal

from markupsafe import Markup

from heads.evaluation.metrics import SCORES, Metric, MetricName
from heads.interfaces.views.format import (
    COLOURS,
    GREY,
    GRID,
    IN_WORDS,
    LEAST,
    ZERO,
    Measure,
    between,
    count,
    counted,
    cut,
    escape,
    offered,
    percent as percent,
    shares,
)
from heads.parts.resolve import head, pairing, pooling

if TYPE_CHECKING:
    from torch import Tensor

    from heads.data.dataset import Data
    from heads.evaluation.calibration import Bin, Calibration, Coverage
    from heads.evaluation.details import Measures
    from heads.parts.resolved_recipe import ResolvedRecipe
    from heads.problem import ProblemType
    from heads.runs.cells import Cell
    from heads.runs.drill_down import LayerCurve
    from heads.runs.leaderboard import Leaderboard

Figure = dict[str, Any]
CONFIG: Figure = {"displayModeBar": False, "responsive": True}
NOTHING = "rgba(0,0,0,0)"
BAND = "rgba(79,107,237,.09)"
AMBER = COLOURS[1]
# Of one hue, so that it lies on a light and on a dark ground alike.
SHADES = [[0, "rgba(79,107,237,.10)"], [1, "rgba(79,107,237,.80)"]]
ROW, NAME = 25, 26  # pixels of a row, and letters of its name


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Chart:
    """A figure, and what it says.

    Attributes:
        figure: What Plotly draws.
        says: What one sees in it, in a sentence.
        key: What its signs mean, to be read below it; or nothing.
        headers: What stands above the columns of `rows`.
        rows: The numbers that are drawn, for those who want them as a table; or nothing.
    """

    figure: Figure
    says: str
    key: str = ""
    headers: tuple[str, ...] = ()
    rows: tuple[tuple[str, ...], ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Tile:
    """A cell of the heat map.

    Attributes:
        value: Which decides on the shade.
        shown: What is written.
        below: Its interval, which one reads by pointing at it.
    """

    value: float
    shown: str
    below: str = ""


# --- What all figures share: the frame, axes and bars.


def _figure(data: list[Figure], height: int, **layout: Any) -> Figure:
    """A figure without a frame of its own; it does not zoom, so that a page scrolls over it."""
    usual = {
        "height": height,
        "margin": {"l": 8, "r": 12, "t": 8, "b": 8},
        "showlegend": False,
        "dragmode": False,
        "hovermode": "closest",
        "paper_bgcolor": NOTHING,
        "plot_bgcolor": NOTHING,
        "font": {"size": 13, "color": "#7a7a85"},
        "hoverlabel": {"align": "left", "font": {"size": 13}},
        "legend": {"orientation": "h", "x": 0, "y": 1.02, "yanchor": "bottom"},
    }
    return {"data": data, "layout": usual | layout, "config": CONFIG}


def _axis(title: str = "", **more: Any) -> Figure:
    usual = {
        "fixedrange": True,
        "automargin": True,
        "gridcolor": GRID,
        "zeroline": False,
        "ticklabelstandoff": 4,
        "nticks": 5,
        "ticks": "",
    }
    return (
        usual
        | ({"title": {"text": title, "standoff": 8, "font": {"size": 13}}} if title else {})
        | more
    )


def _factor(name: Metric) -> float:
    """Shares are drawn in percent, so that Plotly's own ticks fit them."""
    return 100.0 if name.is_share else 1.0


def _scores(values: Sequence[float], name: Metric, title: str = "") -> Figure:
    """An axis of scores that holds them all, and no more than there can be."""
    low, high = min(values), max(values)
    # What is all but equal gets an axis of its size, of which ticks can be told apart.
    room = max(0.05 * (high - low), 1e-3 if name.scale != "error" else 1e-3 * abs(high) or 1.0)
    ends = max(name.low, low - room), min(name.high, high + room)
    return _axis(
        title,
        range=[_factor(name) * end for end in ends],
        ticksuffix=" %" * name.is_share,
    )


def _hover(*lines: str) -> str:
    return "<br>".join(map(escape, filter(None, lines)))


def _bars(
    rows: Sequence[tuple[str, float]],
    texts: Sequence[str],
    *,
    most: int = 20,
    colours: str | Sequence[str] = COLOURS[0],
) -> Figure:
    """A bar a row, from the top down, every number printed; of many the first."""
    shown = rows[:most]
    longest = max([value for _, value in shown] or [1.0]) or 1.0
    trace = {
        "type": "bar",
        "orientation": "h",
        "x": [value for _, value in shown],
        "y": list(range(len(shown))),
        "text": list(texts[:most]),
        "textposition": "outside",
        "cliponaxis": False,
        "hoverinfo": "text",
        "hovertext": [_hover(name, text) for (name, _), text in zip(shown, texts, strict=False)],
        "marker": {
            "color": colours if isinstance(colours, str) else list(colours[:most]),
            "cornerradius": 3,
        },
    }
    return _figure(
        [trace],
        ROW * len(shown) + 20,
        bargap=0.4,
        xaxis=_axis(range=[0, 1.3 * longest], visible=False),
        yaxis=_names([name for name, _ in shown]),
    )


def _names(names: Sequence[str], most: int = NAME) -> Figure:
    """A vertical axis of names, the first at the top."""
    return _axis(
        tickvals=list(range(len(names))),
        ticktext=[escape(cut(name, most)) for name in names],
        range=[len(names) - 0.5, -0.5],
        showgrid=False,
    )


# --- Heads side by side: a row a head, and a tile a head.

MOST_ROWS = 30


def forest(board: "Leaderboard", chosen: str = "") -> Chart:
    """Every head with its 95 % interval, the best first; where guessing and counting words stand.

    A band lies behind the heads that cannot be told apart from the recommended one. Every point
    has its recipe as `customdata`, and so has the whole row that it lies in.

    Args:
        chosen: The head that is looked at closely.
    """
    name, use = SCORES[board.metric], board.recommendation
    heads = [cell for cell in board.cells if not cell.is_baseline]
    kept = [c for at, c in enumerate(heads) if at < MOST_ROWS or c.name in (use.name, chosen)]
    if not kept:
        return Chart(figure=_figure([], 40), says="No head is done yet.")
    lows, highs = [c.measures.low for c in kept], [c.measures.high for c in kept]
    span = max(highs) - min(lows)
    lines = {c.name: c.measures.score for c in board.cells if c.is_baseline}
    # A baseline that is far away would squeeze the heads: it is named at the edge.
    near = {one: at for one, at in lines.items() if -span <= at - min(lows) <= 2 * span}
    axis = _scores([*lows, *highs, *near.values()], name)
    low, high = axis["range"]
    texts = _told([c.measures.score for c in kept], name, span)
    colours = [COLOURS[0] if cell.name == use.name else GREY for cell in kept]
    hovers = [_of_cell(cell, name) for cell in kept]
    recipes, places = [cell.name for cell in kept], list(range(len(kept)))
    rows = {
        "type": "bar",
        "orientation": "h",
        "base": low,
        "x": [high - low] * len(kept),
        "y": places,
        "width": 0.98,
        "marker": {"color": NOTHING},
        "customdata": recipes,
        "hoverinfo": "text",
        "hovertext": hovers,
    }
    points = [
        _points(kept, places, colour, name, [at for at in places if colours[at] == colour])
        for colour in dict.fromkeys(colours)
    ]
    shapes = [_band(at, BAND) for at, c in enumerate(kept) if c.name in (use.name, *use.alike)]
    shapes += [_band(at, NOTHING, COLOURS[0]) for at, c in enumerate(kept) if c.name == chosen]
    notes = [
        _beside(f"<b>{text}</b> ★" if cell.name == use.name else text, at)
        for at, (cell, text) in enumerate(zip(kept, texts, strict=True))
    ]
    for line, colour in ((0, ZERO), (1, AMBER)):
        if list(IN_WORDS)[line] in lines:
            drawn = _baseline(list(IN_WORDS)[line], line, colour, lines, axis, name)
            shapes, notes = [*shapes, *drawn[0]], [*notes, *drawn[1]]
    names = _names(recipes)
    names["ticktext"] = [
        f"<b>{told}</b>" if cell.name in (use.name, chosen) else told
        for cell, told in zip(kept, names["ticktext"], strict=True)
    ]
    left = len(heads) - len(kept)
    return Chart(
        figure=_figure(
            [rows, *points],
            ROW * len(kept) + 40 + 46,
            margin={"l": 8, "r": 80, "t": 40, "b": 8},
            xaxis=axis,
            yaxis=names,
            shapes=shapes,
            annotations=notes,
            bargap=0,
        ),
        says=_ranked_says(board, heads),
        key=_key(board, left),
    )


def _told(values: Sequence[float], name: Metric, span: float) -> list[str]:
    return shares(values, span) if name.is_share else [name.told(value) for value in values]


def _of_cell(cell: "Cell", name: Metric) -> str:
    size = f"{cell.parameters:,} parameters"
    interval = f"{name.told(cell.measures.score)} ({between(cell.measures, 'to')}, 95 %)"
    return _hover(cell.name, interval, size)


def _points(
    cells: "Sequence[Cell]", places: Sequence[int], colour: str, name: Metric, own: Sequence[int]
) -> Figure:
    """Points with their intervals, all of one colour."""
    factor, measured = _factor(name), [cells[at].measures for at in own]
    return {
        "type": "scatter",
        "mode": "markers",
        "x": [factor * one.score for one in measured],
        "y": [places[at] for at in own],
        "error_x": {
            "type": "data",
            "symmetric": False,
            "array": [factor * (one.high - one.score) for one in measured],
            "arrayminus": [factor * (one.score - one.low) for one in measured],
            "thickness": 3,
            "width": 0,
            "color": colour,
        },
        "marker": {"color": colour, "size": 11},
        "customdata": [cells[at].name for at in own],
        "hoverinfo": "text",
        "hovertext": [_of_cell(cells[at], name) for at in own],
        "cliponaxis": False,
    }


def _band(at: int, fill: str, line: str = NOTHING) -> Figure:
    """A band behind a row, from edge to edge."""
    return {
        "type": "rect",
        "layer": "below",
        "xref": "paper",
        "x0": -2,
        "x1": 2,
        "y0": at - 0.5,
        "y1": at + 0.5,
        "fillcolor": fill,
        "line": {"color": line, "width": 1.5 if line != NOTHING else 0},
    }


def _beside(text: str, at: int) -> Figure:
    return {
        "xref": "paper",
        "x": 1,
        "xanchor": "left",
        "xshift": 8,
        "y": at,
        "text": text,
        "showarrow": False,
    }


def _baseline(
    cell: str, line: int, colour: str, lines: Mapping[str, float], axis: Figure, name: Metric
) -> tuple[list[Figure], list[Figure]]:
    """The dashed line of a baseline with its name above; at the edge, where it is far away."""
    (low, high), at = axis["range"], _factor(name) * lines[cell]
    text = f"{IN_WORDS[cell]} {_told([lines[cell]], name, 0.5)[0]}"
    note = {
        "yref": "paper",
        "y": 1,
        "yanchor": "bottom",
        "yshift": 18 - 17 * line,
        "showarrow": False,
        "font": {"size": 12},
    }
    if not low <= at <= high:
        side, text = ("left", f"◂ {text}") if at < low else ("right", f"{text} ▸")
        edge = {"xref": "paper", "x": float(at > high), "xanchor": side, "text": text}
        return [], [note | edge]
    drawn = {
        "type": "line",
        "layer": "below",
        "x0": at,
        "x1": at,
        "yref": "paper",
        "y0": 0,
        "y1": 1,
        "line": {"color": colour, "width": 1.5, "dash": "dash"},
    }
    side = "left" if at - low < high - at else "right"  # to where there is more room
    text = f"┆ {text}" if side == "left" else f"{text} ┆"
    return [drawn], [note | {"x": at, "xanchor": side, "text": text}]


def _ranked_says(board: "Leaderboard", heads: "Sequence[Cell]") -> str:
    name, use = SCORES[board.metric], board.recommendation
    best = heads[0]
    first = f"{best.name} scores highest, {name.told(best.measures.score)}"
    if not use.name:
        return f"{first}; none is recommended."
    if use.name == best.name:
        first = f"{use.name} is recommended and scores highest, {name.told(best.measures.score)}"
    else:
        own = board.cell(use.name).measures.score
        first = f"{use.name} is recommended with {name.told(own)}; {first}"
    if not use.alike:
        return f"{first}; every other head is told apart from it." if heads[1:] else f"{first}."
    return f"{first}; {counted(len(use.alike), 'other head')} cannot be told apart from it."


def _key(board: "Leaderboard", left: int = 0) -> str:
    """What the signs mean, and who is left out."""
    use, told = board.recommendation, [f"{SCORES[board.metric].title} and its 95 % interval."]
    if use.name:
        told.append("★ recommended.")
    if use.alike:
        told.append("Band: cannot be told apart from it.")
    if left:
        told.append(f"And {counted(left, 'head')} below these.")
    if board.stopped:
        told.append(f"Not drawn: {counted(len(board.stopped), 'head')} stopped in the race.")
    return " ".join(told)


def heat_map(board: "Leaderboard", measure: str = "") -> Chart:
    """A row a pooling, a column a head; the better, the darker, and the recommended has a star.

    Args:
        measure: The name of one of `offered(board.cells)`; the score, if the cells have none such.
    """
    known = offered(board.cells)
    asked = next((one for one in known if one.name == measure), known[0])
    found = {c.name: (c, value) for c in board.cells if (value := asked.of(c)) is not None}
    heads = {name: own for name, own in found.items() if not own[0].is_baseline}
    values = [value for _, value in heads.values()]
    texts = _measured(values, asked)
    tiles = {
        name: Tile(value=value, shown=text, below=_interval(cell, asked))
        for (name, (cell, value)), text in zip(heads.items(), texts, strict=True)
    }
    out = [one.recipe for one in board.stopped]
    names = in_order([board.recipes[name] for name in (*heads, *out)])
    drawn = _heat(names, tiles, asked, star=board.recommendation.name, out=out)
    beside = [
        f"{words.capitalize()}: {asked.shown(found[name][1])}."
        for name, words in IN_WORDS.items()
        if name in found
    ]
    if not tiles:
        return Chart(figure=drawn, says="Not measured yet.")
    best = (max if asked.high_is_good else min)(tiles, key=lambda one: tiles[one].value)
    says = f"{asked.label} by pooling and head: the best is {best} with {tiles[best].shown}."
    star = "★ recommended. " * bool(board.recommendation.name in tiles)
    return Chart(figure=drawn, says=says, key=f"{star}The darker, the better. {' '.join(beside)}")


def _measured(values: Sequence[float], measure: Measure) -> list[str]:
    if measure.form != "share":
        return [measure.shown(value) for value in values]
    return shares(values, max(values, default=0.0) - min(values, default=0.0) or 1.0)


def _interval(cell: "Cell", measure: Measure) -> str:
    own = cell.measures
    return f"{between(own, 'to')}, 95 %" if measure.name == own.metric else ""


def in_order(recipes: "Iterable[ResolvedRecipe]") -> "list[ResolvedRecipe]":
    """Recipes in the order of the menu: like poolings and like heads side by side."""
    poolings, heads, pairs = list(pooling), list(head), ["", *pairing]

    def place(resolved: "ResolvedRecipe") -> tuple[int, int, str, int, str, int, str]:
        reader, layers = poolings.index(resolved.pooling.name), resolved.recipe.layers
        named = "" if layers.isdecimal() else layers
        reading = reader, resolved.layer, named, pairs.index(resolved.pair), resolved.reading
        return *reading, heads.index(resolved.head.name), str(resolved)

    return sorted(recipes, key=place)


def live_heat(
    recipes: "Sequence[ResolvedRecipe]",
    tiles: Mapping[str, Tile],
    measure: Measure,
    out: Collection[str] = (),
) -> Chart:
    """The heat map of a running training, as far as it is filled; its frame keeps still.

    Args:
        recipes: All heads that are planned, in the order of rows and columns.
        tiles: Of those that are done.
        out: Those that were stopped in a race.
    """
    says = f"{measure.label}: {len(tiles)} of {counted(len(recipes), 'head')} done."
    return Chart(figure=_heat(recipes, tiles, measure, out=out), says=says)


def _heat(
    recipes: "Sequence[ResolvedRecipe]",
    tiles: Mapping[str, Tile],
    measure: Measure,
    *,
    star: str = "",
    out: Collection[str] = (),
) -> Figure:
    readings = list(dict.fromkeys(one.reading for one in recipes))
    tops = list(dict.fromkeys(one.behind for one in recipes))
    at = {(one.reading, one.behind): str(one) for one in recipes}
    grid = [[at.get((reading, top), "") for top in tops] for reading in readings]
    sign = 1 if measure.high_is_good else -1
    values = [sign * tile.value for tile in tiles.values()] or [0.0]
    span = max(values) - min(values)
    span = max(span, LEAST[measure.form] or 0.02 * max(map(abs, values))) or 1.0

    def depth(name: str) -> float | None:
        return 1 - (max(values) - sign * tiles[name].value) / span if name in tiles else None

    def text(name: str) -> str:
        if name not in tiles:
            return "stopped" if name in out else ""
        return f"<b>{tiles[name].shown} ★</b>" if name == star else tiles[name].shown

    def hover(name: str) -> str:
        if name not in tiles:
            return _hover(name, "stopped in the race" if name in out else "waits") if name else ""
        interval = f" ({tiles[name].below})" if tiles[name].below else ""
        return _hover(name, f"{measure.label}: {tiles[name].shown}{interval}")

    # What has no value has no depth: a grey trace of its own below.
    empty = [[0 if name and name not in tiles else None for name in row] for row in grid]
    done = [[depth(name) for name in row] for row in grid]
    common = {
        "type": "heatmap",
        "x": list(range(len(tops))),
        "y": list(range(len(readings))),
        "text": [[text(name) for name in row] for row in grid],
        "texttemplate": "%{text}",
        "customdata": grid,
        "hoverinfo": "text",
        "hovertext": [[hover(name) for name in row] for row in grid],
        "hoverongaps": False,
        "showscale": False,
        "xgap": 3,
        "ygap": 3,
        "zmin": 0,
        "zmax": 1,
    }
    faint = {"z": empty, "colorscale": [[0, GRID], [1, GRID]]}
    return _figure(
        [common | faint, common | {"z": done, "colorscale": SHADES}],
        36 * len(readings) + 60,
        xaxis=_axis(
            tickvals=list(range(len(tops))),
            ticktext=[escape(cut(top, 20)) for top in tops],
            side="top",
            showgrid=False,
        ),
        yaxis=_names(readings, 20),
    )
