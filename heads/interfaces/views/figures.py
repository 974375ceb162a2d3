"""What all charts share: a Plotly figure as plain values, its frame, axes and bars. No Gradio.

A figure is a dictionary that Plotly draws, `{"data": …, "layout": …, "config": …}`, the same for
the page and for the report; Plotly itself is not imported. One figure serves light and dark: its
ground is transparent, and `board.css` colours its text. So its colours are hex or rgba(), which
every version of Plotly reads, and foreign text passes `escape`.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from heads.display import Table
from heads.evaluation.metrics import Metric
from heads.interfaces.views.format import COLOURS, GRID, cut, escape

Figure = dict[str, Any]
CONFIG: Figure = {"displayModeBar": False, "responsive": True}
NOTHING = "rgba(0,0,0,0)"
BAND = "rgba(79,107,237,.09)"
AMBER = COLOURS[1]
FADED = "rgba(79,107,237,.4)"
# Of one hue, so that it lies on a light and on a dark ground alike.
SHADES = [[0, "rgba(79,107,237,.10)"], [1, "rgba(79,107,237,.80)"]]
# Of an axis that has room on a phone; every score stands beside its row with the unit.
FEW: Figure = {"nticks": 4, "tickangle": 0, "showticksuffix": "none"}
MOST_ROWS, MOST_BARS = 30, 20
UPRIGHT = 8  # columns, above which their names stand upright
ROW, NAME = 25, 22  # pixels of a row, and letters of its name


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Chart:
    """A figure, and what it says.

    Attributes:
        says: What it shows, in a sentence.
        note: What the numbers are, or ""; true of the figure and of the table.
        key: What the signs and colours of the figure mean, or "".
        rows: The numbers that are drawn, for those who want them as a table; or nothing.
    """

    figure: Figure
    says: str
    note: str = ""
    key: str = ""
    headers: tuple[str, ...] = ()
    rows: tuple[tuple[str, ...], ...] = ()

    @property
    def numbers(self) -> Table:
        """The numbers that are drawn."""
        return Table(headers=self.headers, rows=self.rows)


# --- What all figures share: the frame, axes and bars.


def build_figure(
    data: list[Figure], height: int, *, top: int = 8, right: int = 12, **layout: Any
) -> Figure:
    """A figure without a frame of its own; it does not zoom, so that a page scrolls over it.

    Args:
        height: In pixels, as are the margins `top` and `right`; a legend has room at the top.
    """
    usual = {
        "height": height,
        "margin": {"l": 8, "r": right, "t": 36 if layout.get("showlegend") else top, "b": 8},
        "minreducedheight": 20,  # of a single row there is room for its names all the same
        "showlegend": False,
        "dragmode": False,
        "hovermode": "closest",
        "paper_bgcolor": NOTHING,
        "plot_bgcolor": NOTHING,
        "font": {"size": 13, "color": "#7a7a85"},
        "hoverlabel": {
            "align": "left",
            "bgcolor": "#27272a",
            "bordercolor": "#27272a",
            "font": {"size": 13, "color": "#ffffff"},
        },
        "legend": {"orientation": "h", "x": 0, "y": 1.01, "yanchor": "bottom"},
    }
    return {"data": data, "layout": usual | layout, "config": CONFIG}


def build_axis(title: str = "", **more: Any) -> Figure:
    """Return an axis that does not zoom, with a few ticks."""
    usual = {
        "fixedrange": True,
        "automargin": True,
        "gridcolor": GRID,
        "zeroline": False,
        "ticklabelstandoff": 4,
        "nticks": 5,
        "ticks": "",
        "tickfont": {"size": 12},
    }
    return (
        usual
        | ({"title": {"text": title, "standoff": 8, "font": {"size": 13}}} if title else {})
        | more
    )


def axis_factor(name: Metric) -> float:
    """Shares are drawn in percent, so that Plotly's own ticks fit them."""
    return 100.0 if name.is_share else 1.0


def score_axis(values: Sequence[float], name: Metric, title: str = "", **more: Any) -> Figure:
    """An axis of scores that holds them all, and no more than there can be."""
    low, high = min(values), max(values)
    # What is all but equal gets an axis of its size, of which ticks can be told apart.
    room = max(0.05 * (high - low), 1e-3 if name.scale != "error" else 1e-3 * abs(high) or 1.0)
    ends = max(name.low, low - room), min(name.high, high + room)
    return build_axis(
        title,
        range=[axis_factor(name) * end for end in ends],
        ticksuffix=" %" * name.is_share,
        **more,
    )


def hover_text(*lines: str) -> str:
    """Return lines, the empty ones left out, as Plotly shows them beside the pointer."""
    return "<br>".join(map(escape, filter(None, lines)))


def build_bars(
    rows: Sequence[tuple[str, float]], texts: Sequence[str], *, most: int = MOST_BARS
) -> Figure:
    """A bar a row, from the top down, every number printed; of many the first."""
    names, values = [name for name, _ in rows[:most]], [value for _, value in rows[:most]]
    hovers = [hover_text(*pair) for pair in zip(names, texts, strict=False)]
    return build_figure(
        [bar_trace(values, texts[:most], hovers, COLOURS[0])],
        ROW * len(names) + 20,
        bargap=0.4,
        xaxis=build_axis(range=[0, 1.3 * (max(values, default=1.0) or 1.0)], visible=False),
        yaxis=name_axis(names),
    )


def bar_trace(
    values: Sequence[float | None], texts: Sequence[str], hovers: Sequence[str], colour: str
) -> Figure:
    """Return horizontal bars from the top down, each with its text at its end."""
    return {
        "type": "bar",
        "orientation": "h",
        "x": list(values),
        "y": list(range(len(values))),
        "text": list(texts),
        "textposition": "outside",
        "cliponaxis": False,
        "hoverinfo": "text",
        "hovertext": list(hovers),
        "marker": {"color": colour, "cornerradius": 3},
    }


def heat_traces(
    texts: Sequence[Sequence[str]],
    hovers: Sequence[Sequence[str]],
    layers: Sequence[Figure],
    **more: Any,
) -> list[Figure]:
    """Return a heat map with a text in each tile, as layers that each colour some of the tiles.

    Args:
        layers: Of each its values `z`, None where it has none, its `colorscale`, and `zmax`.
    """
    common: Figure = {
        "type": "heatmap",
        "text": texts,
        "texttemplate": "%{text}",
        "hoverinfo": "text",
        "hovertext": hovers,
        "hoverongaps": False,
        "showscale": False,
        "xgap": 3,
        "ygap": 3,
        "zmin": 0,
        "zmax": 1,
    }
    return [common | more | layer for layer in layers]


def name_axis(names: Sequence[str], most: int = NAME, title: str = "") -> Figure:
    """Return a vertical axis of names, the first at the top."""
    return build_axis(
        title,
        tickvals=list(range(len(names))),
        ticktext=[escape(cut(name, most)) for name in names],
        range=[len(names) - 0.5, -0.5],
        showgrid=False,
    )
