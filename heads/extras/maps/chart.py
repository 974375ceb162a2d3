"""The map as a chart."""

from collections import Counter
from collections.abc import Sequence
from textwrap import wrap

from heads.extras.maps import row_map as maps
from heads.extras.maps.row_map import MappedReading, RowMap
from heads.interfaces.views.figures import (
    AMBER,
    NAME,
    Chart,
    Figure,
    build_axis,
    build_figure,
    hover_text,
)
from heads.interfaces.views.format import COLOURS, GREY, cut, escape

# Of classes on a map, each to be told from the others on a light and on a dark ground.
MANY = (
    *COLOURS, "#7c5cd6", "#0284c7", "#65a30d", "#dc2626", "#a16207", "#0e7490",
)  # fmt: skip
LONGEST, WIDE = 240, 60  # letters of a text that one points at, and of one of its lines
OTHER = "other labels"


def draw_map(row_map: RowMap) -> Chart:
    """Draw the rows under each reading side by side, the commonest labels in colours."""
    hovers = [_describe_row(row_map, at) for at in range(len(row_map.rows))]
    traces, axes, notes = list[Figure](), Figure(), list[Figure]()
    frame: Figure = {"fixedrange": False, "showticklabels": False, "automargin": False}
    frame["showgrid"] = False
    width = 1 / len(row_map.readings)
    for number, mapped in enumerate(row_map.readings):
        end = "" if number == 0 else f"{number + 1}"
        traces += _draw_dots(row_map, mapped, hovers, end)
        low, high = number * width + 0.01, (number + 1) * width - 0.01
        axes[f"xaxis{end}"] = build_axis(domain=[low, high], anchor=f"y{end}", **frame)
        axes[f"yaxis{end}"] = build_axis(anchor=f"x{end}", **frame)
        notes.append({
            "xref": "paper", "yref": "paper", "x": low, "y": 1, "xanchor": "left",
            "yanchor": "bottom", "showarrow": False, "text": f"<b>{escape(mapped.reading)}</b>",
        })  # fmt: skip
    legend = {"orientation": "h", "x": 0, "y": 0, "yanchor": "top", "itemsizing": "constant"}
    layout = {"showlegend": True, "dragmode": "pan", "margin": {"l": 8, "r": 8, "t": 28, "b": 8}}
    return Chart(
        figure=build_figure(traces, 520, legend=legend, annotations=notes, **layout, **axes),
        says=maps.summarize(row_map),
        note=" ".join((*map(maps.describe_trust, row_map.readings), *row_map.notes)),
        key="Point at a dot to read its text.",
        headers=maps.HEADERS,
        rows=tuple(maps.list_readings(row_map)),
    )


def _draw_dots(
    row_map: RowMap, mapped: MappedReading, hovers: Sequence[str], end: str
) -> list[Figure]:
    """Return a trace for each label; for numbers one, coloured by them."""
    common = {"type": "scattergl", "mode": "markers", "xaxis": f"x{end}", "yaxis": f"y{end}"}
    common["hoverinfo"] = "text"
    size = 5 if len(row_map.rows) > 2000 else 7
    if row_map.numbers:
        marker = {
            "size": size, "color": list(row_map.numbers), "showscale": not end,
            "colorscale": [[0, COLOURS[0]], [0.5, GREY], [1, AMBER]], "colorbar": {"thickness": 10},
        }  # fmt: skip
        points = {"x": list(mapped.x), "y": list(mapped.y), "hovertext": list(hovers)}
        return [common | points | {"marker": marker, "showlegend": False}]
    usual = [name for name, _ in Counter(row_map.labels).most_common(len(MANY))]
    shown = dict(zip(sorted(usual), MANY, strict=False))
    places = {name: list[int]() for name in (OTHER, *shown)}  # grey ones lie below
    for at, label in enumerate(row_map.labels):
        places[label if label in shown else OTHER].append(at)
    return [
        common
        | {
            "name": escape(cut(name, NAME)),
            "legendgroup": escape(name),
            "showlegend": not end,
            "x": [mapped.x[at] for at in own],
            "y": [mapped.y[at] for at in own],
            "hovertext": [hovers[at] for at in own],
            "marker": {"size": size, "color": shown.get(name, GREY), "opacity": 0.75},
        }
        for name, own in places.items()
        if own
    ]


def _describe_row(row_map: RowMap, at: int) -> str:
    """Return the text or texts of a row, its label, and the head's answer, to hover over."""
    lines = []
    for text in (row_map.texts[at], *(row_map.pairs[at : at + 1])):
        lines += wrap(" ".join(text[:LONGEST].split()) + "…" * (len(text) > LONGEST), WIDE)
    lines.append(f"labelled {row_map.labels[at]}")
    if row_map.answers and row_map.answers[at]:
        lines.append(f"{row_map.head} answers {row_map.answers[at]}")
    return hover_text(*lines)
