"""Charts of results, each with a sentence for those who do not see it. No Gradio."""

from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from math import ceil, floor, log10
from typing import Any

from torch import Tensor

from heads.evaluation.calibration import Bin, Coverage
from heads.evaluation.details import Measures
from heads.evaluation.metrics import SCORES, Metric
from heads.evaluation.transferability import MEASURES as ESTIMATES
from heads.interfaces.views import answers, counts
from heads.interfaces.views.figures import (
    AMBER,
    BAND,
    FADED,
    FEW,
    MOST_BARS,
    MOST_ROWS,
    NOTHING,
    ROW,
    SHADES,
    UPRIGHT,
    Chart,
    Figure,
    axis_factor,
    bar_trace,
    build_axis,
    build_bars,
    build_figure,
    heat_traces,
    hover_text,
    name_axis,
    score_axis,
)
from heads.interfaces.views.format import (
    COLOURS,
    GREY,
    GRID,
    IN_WORDS,
    LEAST,
    ZERO,
    Measure,
    between,
    counted,
    cut,
    escape,
    offered,
    percent,
    shares,
    signed,
)
from heads.interfaces.views.head_details import abstained_says, useful
from heads.interfaces.views.lanes import chance
from heads.interfaces.views.leaderboard import duration
from heads.interpret.comparison import Comparison
from heads.parts.poolings import GIVEN
from heads.parts.resolve import head, pairing, pooling
from heads.parts.resolved_recipe import ResolvedRecipe
from heads.problem import ProblemType
from heads.runs.cells import Cell
from heads.runs.drill_down import LayerCurve, layer_name, layered
from heads.runs.leaderboard import Leaderboard
from heads.runs.ways_of_learning import WaysOfLearning


@dataclass(frozen=True, slots=True, kw_only=True)
class Tile:
    """A cell of the heat map: the value that shades it, its text, and its interval if known."""

    value: float
    shown: str
    below: str = ""


# --- Heads side by side: a row a head, and a tile a head.


def forest(board: Leaderboard, chosen: str = "") -> Chart:
    """Every head with its 95 % interval, the best first; the baselines as lines.

    A band lies behind the heads that cannot be told apart from the recommended one. Every point
    has its recipe as `customdata`, and so has the row that it lies in; the chosen head is framed.
    """
    name, use = SCORES[board.metric], board.recommendation
    heads = [cell for cell in board.cells if not cell.is_baseline]
    kept = [c for at, c in enumerate(heads) if at < MOST_ROWS or c.name in (use.name, chosen)]
    if not kept:
        return Chart(figure=build_figure([], 40), says="No head is done yet.")
    lows, highs = [c.measures.low for c in kept], [c.measures.high for c in kept]
    span = max(highs) - min(lows)
    lines = {c.name: c.measures.score for c in board.cells if c.is_baseline}
    # A baseline that is far away would squeeze the heads: it is named at the edge.
    near = {one: at for one, at in lines.items() if -span <= at - min(lows) <= 2 * span}
    axis = score_axis([*lows, *highs, *near.values()], name, **FEW)
    low, high = axis["range"]
    texts = _write_scores([c.measures.score for c in kept], name, span)
    colours = [COLOURS[0] if cell.name == use.name else GREY for cell in kept]
    recipes = [cell.name for cell in kept]
    rows = {
        "type": "bar",
        "orientation": "h",
        "base": low,
        "x": [high - low] * len(kept),
        "y": list(range(len(kept))),
        "width": 0.98,
        "marker": {"color": NOTHING},
        **_describe_points(kept, name),
    }
    points = _colour_points(kept, colours, name)
    shapes = [_band(at, BAND) for at, c in enumerate(kept) if c.name in (use.name, *use.alike)]
    shapes += [_band(at, NOTHING, COLOURS[0]) for at, c in enumerate(kept) if c.name == chosen]
    notes = [
        _note_beside_row(f"<b>{text}</b> ★" if cell.name == use.name else text, at)
        for at, (cell, text) in enumerate(zip(kept, texts, strict=True))
    ]
    for line, colour in ((0, ZERO), (1, AMBER)):
        if list(IN_WORDS)[line] in lines:
            cell = list(IN_WORDS)[line]
            text = f"{_name_baselines(board)[cell]} {_write_scores([lines[cell]], name, 0.5)[0]}"
            drawn = _draw_baseline(text, axis_factor(name) * lines[cell], line, colour, axis)
            shapes, notes = [*shapes, *drawn[0]], [*notes, *drawn[1]]
    names = name_axis(recipes)
    names["ticktext"] = [
        _both_names(board.recipes[recipe], told, is_bold=recipe in (use.name, chosen))
        for recipe, told in zip(recipes, names["ticktext"], strict=True)
    ]
    left = len(heads) - len(kept)
    return Chart(
        figure=build_figure(
            [rows, *points],
            ROW * len(kept) + 40 + 46,
            top=40,
            right=80,
            xaxis=axis,
            yaxis=names,
            shapes=shapes,
            annotations=notes,
            bargap=0,
        ),
        says=_ranked_says(board, heads),
        key=_explain_signs(board, left),
    )


def _both_names(recipe: ResolvedRecipe, shown: str, *, is_bold: bool) -> str:
    """Write the everyday name of a head, hidden on a phone (see theme.py), and its recipe."""
    everyday = f'<span style="letter-spacing:0px">{escape(recipe.frozen_title)}  </span>'
    everyday = f"<b>{everyday}</b>" if is_bold else everyday
    return everyday + (
        f"<b>{shown}</b>" if is_bold else f'<span style="opacity:.75">{shown}</span>'
    )


def _write_scores(values: Sequence[float], name: Metric, span: float) -> list[str]:
    return shares(values, span) if name.is_share else [name.told(value) for value in values]


def _describe_points(cells: Sequence[Cell], name: Metric) -> Figure:
    """Return what a trace with a point a cell shows of each: its recipe, score and size."""
    hovers = [
        hover_text(
            cell.name,
            f"{name.told(cell.measures.score)} ({between(cell.measures, 'to')}, 95 %)",
            f"{cell.learned:,} parameters",
        )
        for cell in cells
    ]
    return {"customdata": [cell.name for cell in cells], "hoverinfo": "text", "hovertext": hovers}


def _colour_points(cells: Sequence[Cell], colours: Sequence[str], name: Metric) -> list[Figure]:
    """Return points with their intervals, a row a cell, a trace for each colour."""
    factor, traces = axis_factor(name), list[Figure]()
    for colour in dict.fromkeys(colours):
        rows = [row for row, own in enumerate(colours) if own == colour]
        own = [cells[row] for row in rows]
        spans = [(c.measures.score, c.measures.low, c.measures.high) for c in own]
        trace = _line(
            [(factor * score, row) for (score, _, _), row in zip(spans, rows, strict=True)],
            "",
            colour,
            mode="markers",
            error_x=_error_bars(spans, colour, factor) | {"thickness": 3},
            marker={"color": colour, "size": 11},
            **_describe_points(own, name),
        )
        traces.append(trace)
    return traces


def _band(at: int, fill: str, line: str = NOTHING) -> Figure:
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


def _note_beside_row(text: str, at: int) -> Figure:
    return {
        "xref": "paper",
        "x": 1,
        "xanchor": "left",
        "xshift": 8,
        "y": at,
        "text": text,
        "showarrow": False,
    }


def _name_baselines(board: Leaderboard) -> Mapping[str, str]:
    return {**IN_WORDS, "majority": board.problem.usual_answer}


def _draw_baseline(
    text: str, at: float, line: int, colour: str, axis: Figure
) -> tuple[list[Figure], list[Figure]]:
    """The dashed line of a baseline with its name above; at the edge, where it is far away."""
    low, high = axis["range"]
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
    # Beside the line is room: on its left there are the names' as well, which end below.
    side = "left" if at - low < 0.3 * (high - low) else "right"
    text = f"┆ {text}" if side == "left" else f"{text} ┆"
    return [_dashed_line(at, colour)], [note | {"x": at, "xanchor": side, "text": text}]


def _dashed_line(at: float, colour: str) -> Figure:
    return {
        "type": "line",
        "layer": "below",
        "x0": at,
        "x1": at,
        "yref": "paper",
        "y0": 0,
        "y1": 1,
        "line": {"color": colour, "width": 1.5, "dash": "dash"},
    }


def _ranked_says(board: Leaderboard, heads: Sequence[Cell]) -> str:
    name, use = SCORES[board.metric], board.recommendation
    best = heads[0]
    first = f"{best.name} scores highest, {name.told(best.measures.score)}"
    if not use.name:
        return f"{first}; none is recommended."
    own = board.cell(use.name).measures.score
    if own >= best.measures.score:  # another head may have the same score
        first = f"{use.name} is recommended and scores highest, {name.told(own)}"
    else:
        first = f"{use.name} is recommended with {name.told(own)}; {first}"
    if not use.alike:
        return (
            f"{first}; every other head is significantly different." if heads[1:] else f"{first}."
        )
    near = f"{counted(len(use.alike), 'other head')} {'is' if len(use.alike) == 1 else 'are'}"
    return f"{first}; {near} not significantly different from it."


def _explain_signs(board: Leaderboard, left: int = 0) -> str:
    """What the signs mean, and who is left out."""
    use, told = board.recommendation, [f"{SCORES[board.metric].title} and its 95 % interval."]
    if use.name:
        told.append("★ recommended.")
    if use.alike:
        told.append(
            "Band: not significantly different from it, by differences on the same rows; so a head "
            "with a lower score may be in the band while a higher one is not."
        )
    if left:
        told.append(f"And {counted(left, 'head')} below these.")
    if board.stopped:
        told.append(f"Not drawn: {counted(len(board.stopped), 'head')} stopped in the race.")
    return " ".join(told)


def heat_map(board: Leaderboard, measure: str = "") -> Chart:
    """A row a pooling, a column a head; the better, the darker, and the recommended has a star.

    Args:
        measure: The name of one of `offered(board.cells)`; the score, if the cells have none such.
    """
    known = offered(board.cells)
    asked = next((one for one in known if one.name == measure), known[0])
    found = {c.name: (c, value) for c in board.cells if (value := asked.of(c)) is not None}
    heads = {name: own for name, own in found.items() if not own[0].is_baseline}
    values = [value for _, value in heads.values()]
    span = max(values, default=0.0) - min(values, default=0.0)
    is_share = asked.form == "share"
    texts = shares(values, span or 1.0) if is_share else list(map(asked.shown, values))
    tiles = {
        name: Tile(
            value=value,
            shown=text,
            below=f"{between(cell.measures, 'to')}, 95 %" * (asked.name == cell.measures.metric),
        )
        for (name, (cell, value)), text in zip(heads.items(), texts, strict=True)
    }
    out = [one.recipe for one in board.stopped]
    names = in_order([board.recipes[name] for name in (*heads, *out)])
    drawn = _heat(names, tiles, asked, star=board.recommendation.name, out=out)
    beside = [
        f"{words.capitalize()}: {asked.shown(found[name][1])}."
        for name, words in _name_baselines(board).items()
        if name in found
    ]
    if not tiles:
        return Chart(figure=drawn, says="Not measured yet.")
    best = (max if asked.high_is_good else min)(tiles, key=lambda one: tiles[one].value)
    told = asked.shown(heads[best][1])
    says = f"{asked.label} by pooling and head: the best is {best} with {told}."
    star = "★ recommended. " * bool(board.recommendation.name in tiles)
    return Chart(figure=drawn, says=says, key=f"{star}The darker, the better. {' '.join(beside)}")


def in_order(recipes: Iterable[ResolvedRecipe]) -> list[ResolvedRecipe]:
    """Recipes in the order of the menu: like poolings and like heads side by side."""
    poolings, heads, pairs = [*pooling, GIVEN.name], list(head), ["", *pairing]

    def place(resolved: ResolvedRecipe) -> tuple[int, int, str, int, str, int, str]:
        reader, layers = poolings.index(resolved.pooling.name), resolved.recipe.layers
        named = "" if layers.isdecimal() else layers
        reading = reader, resolved.layer, named, pairs.index(resolved.pair), resolved.reading
        return *reading, heads.index(resolved.head.name), str(resolved)

    return sorted(recipes, key=place)


def live_heat(
    recipes: Sequence[ResolvedRecipe],
    tiles: Mapping[str, Tile],
    measure: Measure,
    out: Collection[str] = (),
) -> Chart:
    """Draw the heat map of a running training as far as it is filled; its frame keeps still."""
    says = f"{measure.label}: {len(tiles)} of {counted(len(recipes), 'head')} done."
    return Chart(figure=_heat(in_order(recipes), tiles, measure, out=out), says=says)


def _heat(
    recipes: Sequence[ResolvedRecipe],
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
            state = "stopped in the race" if name in out else "waits"
            return hover_text(name, state) if name else ""
        interval = f" ({tiles[name].below})" if tiles[name].below else ""
        return hover_text(name, f"{measure.label}: {tiles[name].shown}{interval}")

    # What has no value has no depth: a grey trace of its own below.
    empty = [[0 if name and name not in tiles else None for name in row] for row in grid]
    done = [[depth(name) for name in row] for row in grid]
    traces = heat_traces(
        [[text(name) for name in row] for row in grid],
        [[hover(name) for name in row] for row in grid],
        [{"z": empty, "colorscale": [[0, GRID], [1, GRID]]}, {"z": done, "colorscale": SHADES}],
        x=list(range(len(tops))),
        y=list(range(len(readings))),
        textfont={"size": 12 if len(tops) <= 5 else 10},
        customdata=grid,
    )
    # Options go below the head's name. Plotly turns the names of more columns than have room;
    # of many they stand upright, where slanting ones of two lines would lie on each other.
    names = [escape(cut(top, 20)) for top in tops]
    has_options = any("?" in top for top in tops)
    upright = len(tops) > UPRIGHT and has_options
    turned: Figure = {"tickangle": -90} if upright else {}
    room = 60 + (14 + 45 * (len(tops) > 5)) * has_options + 35 * upright
    return build_figure(
        traces,
        36 * len(readings) + room + 26,
        xaxis=build_axis(
            "head",
            tickvals=list(range(len(tops))),
            ticktext=names if upright else [name.replace("?", "<br>?", 1) for name in names],
            **turned,
            side="top",
            showgrid=False,
        ),
        yaxis=name_axis(readings, 20, "pooling"),
    )


def _line(
    points: Sequence[tuple[float, float]],
    name: str,
    colour: str,
    hovers: Sequence[str] = (),
    **more: Any,
) -> Figure:
    usual = {
        "type": "scatter",
        "mode": "lines+markers",
        "name": escape(name),
        "x": [x for x, _ in points],
        "y": [y for _, y in points],
        "line": {"color": colour, "width": 2},
        "marker": {"color": colour, "size": 7},
        "hoverinfo": "text" if hovers else "skip",
        "hovertext": [hover_text(told) for told in hovers],
        "cliponaxis": False,
    }
    return usual | more


def _error_bars(ends: Sequence[tuple[float, float, float]], colour: str, factor: float) -> Figure:
    """Upright intervals, each given as its score, low and high end."""
    return {
        "type": "data",
        "symmetric": False,
        "array": [factor * (high - score) for score, _, high in ends],
        "arrayminus": [factor * (score - low) for score, low, _ in ends],
        "thickness": 1.5,
        "width": 0,
        "color": colour,
    }


# --- How the score goes with the size of a head, the number of rows and the layer.


def sizes(board: Leaderboard) -> Chart | None:
    """The score against the number of parameters learned; None where all learn as many."""
    heads = [cell for cell in board.cells if not cell.is_baseline and cell.learned]
    if len({cell.learned for cell in heads}) < 2:
        return None
    name, use = SCORES[board.metric], board.recommendation
    factor, traces = axis_factor(name), []
    for colour in (GREY, COLOURS[0]):
        own = [cell for cell in heads if (cell.name == use.name) == (colour != GREY)]
        spans = [(c.measures.score, c.measures.low, c.measures.high) for c in own]
        traces.append(
            _line(
                [(c.learned, factor * c.measures.score) for c in own],
                "",
                colour,
                mode="markers",
                marker={"color": colour, "size": 10},
                **_describe_points(own, name),
                # Heads of one kind are of one size: their intervals would lie on each other.
                error_y=_error_bars(spans, FADED, factor) | {"visible": colour != GREY},
            )
        )
    powers = [log10(cell.learned) for cell in heads]
    ends = [end for cell in heads for end in (cell.measures.low, cell.measures.high)]
    told = answers.worth(board)
    return Chart(
        figure=build_figure(
            traces,
            300,
            xaxis=build_axis(
                "Parameters that are learned",
                type="log",
                range=[floor(min(powers) * 2 - 0.2) / 2, ceil(max(powers) * 2 + 0.2) / 2],
                dtick=1,
                exponentformat="SI",
            ),
            yaxis=score_axis(ends, name),
        ),
        says=f"{name.title} against size{': ' * bool(told)}{told}.",
        key="Blue: recommended, with its 95 % interval." * bool(use.name),
    )


def growth(board: Leaderboard) -> Chart | None:
    """The learning curve: the score of the leaders against the rows learned from; None without."""
    if len(board.curve) < 2:
        return None
    name, use = SCORES[board.metric], board.recommendation.name
    factor, rows = axis_factor(name), [stage["rows"] for stage in board.curve]
    # The recommended head comes first, and so has its colour.
    names = sorted(board.curve[-1]["scores"], key=lambda one: one != use)[: len(COLOURS)]
    traces, ends, table = [], [], []
    for recipe, colour in zip(names, COLOURS, strict=False):
        stages = [
            (stage["rows"], own["score"], own["low"], own["high"])
            for stage in board.curve
            if (own := stage["scores"].get(recipe))
        ]
        spans = [(score, low, high) for _, score, low, high in stages]
        own = _line(
            [(at, factor * score) for at, score, _, _ in stages],
            recipe,
            colour,
            [
                f"{recipe}, {at:,} rows: {name.told(score)} ({name.between(low, high)})"
                for at, score, low, high in stages
            ],
        )
        if recipe == names[0]:  # of all of them the intervals would lie on each other
            own["error_y"] = _error_bars(spans, FADED, factor)
            ends += [end for span in spans for end in span]
        traces.append(own)
        ends += [score for score, _, _ in spans]
        table += [
            (recipe, f"{at:,}", name.told(score), name.between(low, high))
            for at, score, low, high in stages
        ]
    return Chart(
        figure=build_figure(
            traces,
            300,
            showlegend=True,
            xaxis=build_axis(
                "Rows learned from",
                range=[0, 1.06 * max(rows)],
                tickvals=rows,
                ticktext=[f"{at:,}" for at in rows],
            ),
            yaxis=score_axis(ends, name),
        ),
        says=board.curve_says.replace("`", ""),
        note=f"{name.title}; of {names[0]} with its 95 % interval.",
        headers=("Recipe", "Rows", name.title, "95 % interval"),
        rows=tuple(table),
    )


def layers(board: Leaderboard) -> tuple[Chart, ...]:
    """Where the task lives: the score of every layer, and what could be told of it before."""
    return tuple(_draw_layer_curve(board, one) for one in layered(board))


def _draw_layer_curve(board: Leaderboard, curve: LayerCurve) -> Chart:
    name, factor = SCORES[board.metric], axis_factor(SCORES[board.metric])
    measured, places = [cell.measures for cell in curve.cells], range(len(curve.cells))
    spans = [(m.score, m.low, m.high) for m in measured]
    score = _line(
        [(at, factor * own.score) for at, own in enumerate(measured)],
        name.title,
        COLOURS[0],
        error_y=_error_bars(spans, FADED, factor),
        **_describe_points(curve.cells, name),
    )
    traces, columns = [score], []
    for (measure, title), colour in zip(ESTIMATES.items(), COLOURS[1:], strict=True):
        values = [getattr(one, measure) for one in curve.estimates if one is not None]
        if len(values) < len(curve.cells):
            break
        columns.append(values)
        low, span = min(values), max(values) - min(values) or 1.0
        told = [f"{title}: {value:.3f}" for value in values]
        points = [(at, (value - low) / span) for at, value in enumerate(values)]
        traces.append(_line(points, title, colour, told, yaxis="y2"))
    # Below the scores the estimates, each from its lowest to its highest.
    lower = {"domain": [0, 0.3], "range": [-0.1, 1.1], "tickvals": [0, 1]}
    upper = {"domain": [0.42, 1]} if columns else {}
    layout: dict[str, Any] = {}
    if columns:
        layout["yaxis2"] = build_axis(ticktext=["lowest", "highest"], **lower)
    names = ["0<br>embeddings" if one == "0" else one for one in curve.layers]
    headers = ("Layer", name.title, "95 % interval", *list(ESTIMATES.values())[: len(columns)])
    rows = [
        (layer, name.told(own.score), between(own, "to"), *(f"{one[at]:.3f}" for one in columns))
        for at, (layer, own) in enumerate(zip(curve.layers, measured, strict=True))
    ]
    return Chart(
        figure=build_figure(
            traces,
            400 if columns else 280,
            showlegend=bool(columns),
            xaxis=build_axis(
                tickvals=list(places),
                ticktext=names,
                range=[-0.4, len(names) - 0.6],
                anchor="y2" if columns else "y",
            ),
            yaxis=score_axis([end for span in spans for end in span], name) | upper,
            **layout,
        ),
        says=f"{curve.recipe}: {curve.says}".replace("`", ""),
        note="By the layer that is read.",
        key="Below: estimates before training." * bool(columns),
        headers=headers,
        rows=tuple(rows),
    )


def ways(found: WaysOfLearning) -> Chart:
    """One recipe in every way of learning: score and interval of each, and how long it took."""
    cells = [one.cell for one in found.ways]
    name = SCORES[cells[0].measures.metric]
    ends = [end for cell in cells for end in (cell.measures.low, cell.measures.high)]
    used = [found.best is not None and cell is found.best.cell for cell in cells]
    points = _colour_points(cells, [COLOURS[0] if is_used else GREY for is_used in used], name)
    texts = _write_scores([cell.measures.score for cell in cells], name, max(ends) - min(ends))
    told = [f"<b>{text}</b>" if used[at] else text for at, text in enumerate(texts)]
    first = axis_factor(name) * cells[0].measures.score
    titles = [one.resolved.tuned_title for one in found.ways]
    names = name_axis(titles)
    names["ticktext"] = [
        f'{shown}  <span style="opacity:.75">{duration(max(cell.seconds, 0.1))}</span>'
        for shown, cell in zip(names["ticktext"], cells, strict=True)
    ]
    return Chart(
        figure=build_figure(
            points,
            ROW * len(cells) + 60,
            right=80,
            xaxis=score_axis(ends, name, **FEW),
            yaxis=names,
            shapes=[_dashed_line(first, ZERO)],
            annotations=[_note_beside_row(text, at) for at, text in enumerate(told)],
        ),
        says=f"{found.recipe}: {found.says}",
        note=f"{name.title} with its 95 % interval, and the time that search and training took.",
        key=f"Dashed: {titles[0].lower()}.",
        headers=("What is learned", name.title, "95 % interval", "Time"),
        rows=tuple(
            (title, text, between(cell.measures, "to"), duration(max(cell.seconds, 0.1)))
            for title, text, cell in zip(titles, texts, cells, strict=True)
        ),
    )


def comparison(found: Comparison) -> Chart:
    """Draw the probability of every class, or of many the likeliest, under every head."""
    shown = [one for one in found.predictions if one.problem.has_classes]
    is_share, shown = bool(shown), shown or list(found.predictions)
    values = [
        dict(zip(one.classes, one.probabilities if is_share else one.logits, strict=True))
        for one in shown
    ]
    known = list(dict.fromkeys(name for own in values for name in own))
    names = known
    if is_share and len(known) > MOST_CLASSES:
        likely = {name: max(own.get(name, 0.0) for own in values) for name in known}
        names = sorted(known, key=lambda name: -likely[name])[:MOST_CLASSES]
    written = chance if is_share else signed
    told = [tuple(written(own[name]) if name in own else "" for name in names) for own in values]
    factor = 100 if is_share else 1
    traces = [
        bar_trace(
            [factor * own[name] if name in own else None for name in names],
            texts,
            [hover_text(one.name, f"{n}: {text}") for n, text in zip(names, texts, strict=True)],
            COLOURS[at % len(COLOURS)],
        )
        | {"name": escape(one.name)}
        for at, (one, own, texts) in enumerate(zip(shown, values, told, strict=True))
    ]
    ends: Figure = {"range": [0, 112], "tickvals": [0, 25, 50, 75, 100]} if is_share else {}
    return Chart(
        figure=build_figure(
            traces,
            (10 + 16 * len(traces)) * len(names) + 80,
            barmode="group",
            bargap=0.25,
            showlegend=True,
            right=24,
            xaxis=build_axis("Probability" if is_share else "", ticksuffix=" %" * is_share, **ends),
            yaxis=name_axis(names),
        ),
        says=found.verdict,
        note=f"The {len(names)} likeliest of {len(known)} classes." * (len(names) < len(known)),
        headers=("Class" if is_share else "", *(one.name for one in shown)),
        rows=tuple(zip(names, *told, strict=True)),
    )


# --- One head closely.


def reliability(measures: Measures) -> Chart:
    """How often a head is right when it is that sure, as it is and with its logits divided."""
    scaled = measures.calibration
    traces = [
        _line([(0, 0), (100, 100)], "as sure as right", ZERO, mode="lines"),
        _bin_trace(measures.bins, "as it is" if scaled else "this head", COLOURS[0]),
    ]
    tables = [("as it is", measures.bins)]
    if scaled and scaled.error_after < scaled.error_before:
        name = f"logits divided by {scaled.temperature:.2f}"
        traces.append(_bin_trace(scaled.bins, name, COLOURS[1]))
        tables.append((name, scaled.bins))
    sure = "How sure it was of a label" if measures.labels else "How sure it was"
    return Chart(
        figure=build_figure(
            traces,
            320,
            showlegend=True,
            right=16,
            xaxis=build_axis(sure, range=[0, 100], ticksuffix=" %"),
            yaxis=build_axis("Answered right", range=[0, 100], ticksuffix=" %"),
        ),
        says=f"Can its confidence be trusted? {answers.trust(measures)}.",
        headers=("", "Answers", "Sure", "Right"),
        rows=tuple(
            (name, f"{one.rows:,}", percent(one.confidence), percent(one.accuracy))
            for name, bins in tables
            for one in bins
        ),
    )


def _bin_trace(bins: Sequence[Bin], name: str, colour: str) -> Figure:
    told = [
        f"{one.rows:,} answers, {percent(one.confidence)} sure, {percent(one.accuracy)} right"
        for one in bins
    ]
    points = [(100 * one.confidence, 100 * one.accuracy) for one in bins]
    return _line(points, name, colour, told)


def coverage(points: Sequence[Coverage], problem: ProblemType) -> Chart:
    """Draw how much is answered, and how much of it right, where a head may abstain."""
    told = [
        f"at least {sure} sure: answers {much}, {right} of them right"
        for sure, much, right in zip(
            shares([one.threshold for one in points]),
            shares([one.coverage for one in points]),
            shares([one.accuracy for one in points], 0.1),
            strict=True,
        )
    ]
    drawn = [(100 * one.coverage, 100 * one.accuracy) for one in points]
    traces = [_line(drawn, "", COLOURS[0], told)]
    if chosen := useful(points):
        at = points.index(chosen)
        marker = {"color": AMBER, "size": 13}
        traces.append(_line([drawn[at]], "", AMBER, [told[at]], mode="markers", marker=marker))
    answered = f"{'Texts' if problem.is_exclusive else 'Labels'} answered"
    accuracy = SCORES["accuracy"]
    return Chart(
        figure=build_figure(
            traces,
            320,
            margin={"l": 8, "r": 16, "t": 36, "b": 8},
            xaxis=build_axis(answered, range=[0, 104], ticksuffix=" %"),
            yaxis=score_axis([one.accuracy for one in points], accuracy, "Of those, right"),
        ),
        says=abstained_says(points, problem),
        headers=("At least so sure", answered, "Of those, right"),
        rows=tuple(
            (percent(one.threshold), percent(one.coverage), percent(one.accuracy)) for one in points
        ),
    )


MOST_CLASSES = 20


def confusion(table: Tensor, classes: Sequence[str]) -> Chart:
    """How often a class was answered with a class; of many, those that are confused most.

    Args:
        table: (c, c), rows are the true classes.
    """
    wrong = table.clone().fill_diagonal_(0)
    order = (wrong.sum(dim=0) + wrong.sum(dim=1)).argsort(descending=True, stable=True)
    shown = sorted(order[:MOST_CLASSES].tolist())
    part = table[shown][:, shown]
    parts = (part / table[shown].sum(dim=1, keepdim=True).clamp_min(1)).tolist()
    counts, places = part.tolist(), range(len(shown))
    names = [classes[int(at)] for at in shown]
    told = "{}, answered with {}: {:,} ({})".format
    hovers = [
        [
            hover_text(told(true, answer, counts[at][to], percent(parts[at][to])))
            for to, answer in enumerate(names)
        ]
        for at, true in enumerate(names)
    ]
    right = [[parts[at][to] if at == to else None for to in places] for at in places]
    off = [[parts[at][to] if at != to else None for to in places] for at in places]
    amber = [[0, "rgba(217,119,6,.05)"], [1, "rgba(217,119,6,.85)"]]
    note = "Numbers: held-out rows."
    if len(classes) > MOST_CLASSES:
        note += f" The {MOST_CLASSES} of {len(classes)} classes that are confused most."
    return Chart(
        figure=build_figure(
            heat_traces(
                [[f"{number:,}" if number else "" for number in row] for row in counts],
                hovers,
                [{"z": right, "colorscale": SHADES}, {"z": off, "colorscale": amber, "zmax": 0.4}],
                xgap=2,
                ygap=2,
            ),
            28 * len(shown) + 120,
            xaxis=build_axis(
                "predicted class",
                tickvals=list(places),
                ticktext=[escape(cut(name, 18)) for name in names],
                side="top",
                showgrid=False,
            ),
            yaxis=name_axis(names, 18, "true class"),
        ),
        says=f"Which classes are confused? {answers.mistaken(table, classes)}.",
        note=note,
        key="Colour: share of the row, blue if right, orange if wrong.",
        headers=("True class", *names),
        rows=tuple(
            (name, *(f"{n:,}" for n in row)) for name, row in zip(names, counts, strict=True)
        ),
    )


def f1(scores: Sequence[float | None], classes: Sequence[str]) -> Chart:
    """The F1 of every class, the lowest first; of many classes the lowest."""
    known = [
        (name, score) for name, score in zip(classes, scores, strict=True) if score is not None
    ]
    rows = sorted(known, key=lambda row: row[1])
    texts = shares([score for _, score in rows])
    return Chart(
        figure=build_bars(rows, texts),
        says=f"F1 is lowest for {rows[0][0]}: {texts[0]}." if rows else "No class was tested.",
        key=_more(rows),
        headers=("Class", "F1"),
        rows=tuple((name, text) for (name, _), text in zip(rows, texts, strict=True)),
    )


def mix(parts: Sequence[float]) -> Chart:
    """How much of each layer a learned mix reads."""
    names = [layer_name(number).capitalize() for number in range(len(parts))]
    rows, texts = list(zip(names, parts, strict=True)), shares(parts, max(parts))
    most = max(range(len(parts)), key=parts.__getitem__)
    return Chart(
        figure=build_bars(rows, texts, most=len(rows)),
        says=f"It has learned to read {layer_name(most)} most: {texts[most]}.",
        key=f"It began with equal shares, {percent(1 / len(parts))} each.",
    )


def scatter(points: Sequence[tuple[float, float]], measures: Measures) -> Chart:
    """Draw predicted against true numbers, each point a true and a predicted one."""
    true, said = zip(*points, strict=True)
    low, high = max(min(true), min(said)), min(max(true), max(said))
    dots = _line(
        points,
        "a row",
        COLOURS[0],
        [f"{one:.4g} in the data, {two:.4g} predicted" for one, two in points],
        mode="markers",
        marker={"color": COLOURS[0], "size": 6, "opacity": 0.6},
    )
    exact = _line([(low, low), (high, high)], "exactly right", ZERO, mode="lines")
    name, own = SCORES[measures.metric], measures.score
    return Chart(
        figure=build_figure(
            [exact, dots],
            340,
            xaxis=build_axis("The number in the data"),
            yaxis=build_axis("Predicted"),
        ),
        says=f"Predicted against true numbers: {name.noun} {name.told(own)}.",
        key="The line: exactly right.",
    )


# --- The data.


def class_counts(rows_of: Mapping[str, int]) -> Chart:
    """How many rows each class has, the commonest first."""
    rows = Counter(rows_of).most_common()
    (most, commonest), (least, rarest) = rows[0], rows[-1]
    told = f"{most} has most rows, {commonest:,}; {least} fewest, {rarest:,}."
    if commonest == rarest:
        told = f"Each has {counted(rarest, 'row')}."
    return Chart(
        figure=build_bars(rows, [f"{number:,}" for _, number in rows]), says=told, key=_more(rows)
    )


def number_counts(numbers: Sequence[float]) -> Chart:
    """How many rows have a number of about which size, in about ten round steps."""
    rows = counts.by_size(numbers)
    most = max(rows, key=lambda row: row[1])
    return Chart(
        figure=build_bars(rows, [f"{own:,}" for _, own in rows]),
        says=f"Most numbers, {most[1]:,} of {len(numbers):,}, are from {most[0]}.",
    )


def _more(rows: Sequence[Any]) -> str:
    return f"And {len(rows) - MOST_BARS:,} more." if len(rows) > MOST_BARS else ""
