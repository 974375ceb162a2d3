"""The map as a chart."""

from collections import Counter
from collections.abc import Sequence
from textwrap import wrap

from heads.extras.maps import words
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


def draw_map(found: RowMap) -> Chart:
    """Draw the rows under each reading side by side, the commonest labels in colours."""
    hovers = [_of_row(found, at) for at in range(len(found.rows))]
    traces, axes, notes = list[Figure](), Figure(), list[Figure]()
    share = 1 / len(found.readings)
    for number, one in enumerate(found.readings):
        end = "" if number == 0 else f"{number + 1}"
        traces += _dots(found, one, hovers, end)
        frame: Figure = {"fixedrange": False, "showticklabels": False, "automargin": False}
        low, high = number * share, (number + 1) * share
        axes[f"xaxis{end}"] = build_axis(
            domain=[low + 0.01, high - 0.01], anchor=f"y{end}", showgrid=False, **frame
        )
        axes[f"yaxis{end}"] = build_axis(anchor=f"x{end}", showgrid=False, **frame)
        notes.append({
            "xref": "paper", "yref": "paper", "x": low + 0.01, "y": 1, "xanchor": "left",
            "yanchor": "bottom", "showarrow": False, "text": f"<b>{escape(one.reading)}</b>",
        })  # fmt: skip
    return Chart(
        figure=build_figure(
            traces,
            520,
            showlegend=True,
            dragmode="pan",
            margin={"l": 8, "r": 8, "t": 28, "b": 8},
            legend={"orientation": "h", "x": 0, "y": 0, "yanchor": "top", "itemsizing": "constant"},
            annotations=notes,
            **axes,
        ),
        says=words.summarize(found),
        key=" ".join((*map(words.describe_trust, found.readings), *found.notes)),
        headers=words.HEADERS,
        rows=tuple(words.list_readings(found)),
    )


def _dots(found: RowMap, one: MappedReading, hovers: Sequence[str], end: str) -> list[Figure]:
    """A trace a label; of numbers one, whose colours are those."""
    common = {
        "type": "scattergl",
        "mode": "markers",
        "xaxis": f"x{end}",
        "yaxis": f"y{end}",
        "hoverinfo": "text",
    }
    size = 5 if len(found.rows) > 2000 else 7
    if found.numbers:
        marker = {
            "size": size, "color": list(found.numbers), "showscale": not end,
            "colorscale": [[0, COLOURS[0]], [0.5, GREY], [1, AMBER]], "colorbar": {"thickness": 10},
        }  # fmt: skip
        whole = {"x": list(one.x), "y": list(one.y), "hovertext": list(hovers), "marker": marker}
        return [common | whole | {"showlegend": False}]
    usual = [name for name, _ in Counter(found.labels).most_common(len(MANY))]
    shown = dict(zip(sorted(usual), MANY, strict=False))
    traces = []
    for name, colour in ((OTHER, GREY), *shown.items()):  # grey ones lie below
        own = [
            at for at, label in enumerate(found.labels)
            if label == name or (name == OTHER and label not in shown)
        ]  # fmt: skip
        if own:
            traces.append(
                common
                | {
                    "name": escape(cut(name, NAME)),
                    "legendgroup": escape(name),
                    "showlegend": not end,
                    "x": [one.x[at] for at in own],
                    "y": [one.y[at] for at in own],
                    "hovertext": [hovers[at] for at in own],
                    "marker": {"size": size, "color": colour, "opacity": 0.75},
                }
            )
    return traces


def _of_row(found: RowMap, at: int) -> str:
    """What pointing at a row shows: its text, its second one, its label, and the answer."""
    told = []
    for text in (found.texts[at], *(found.pairs[at : at + 1])):
        told += wrap(" ".join(text[:LONGEST].split()) + "…" * (len(text) > LONGEST), WIDE)
    told.append(f"labelled {found.labels[at]}")
    if found.answers and found.answers[at]:
        told.append(f"{found.head} answers {found.answers[at]}")
    return hover_text(*told)
