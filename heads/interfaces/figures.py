"""Values to Plotly figures, as the plain dictionaries that Plotly draws. Pure, no Gradio.

One figure serves light and dark: the page's style sheet colours text and grid. Colours are
hex or rgba only, which every Plotly version draws.
"""

import re
from collections.abc import Sequence
from functools import lru_cache
from typing import Any

# One colour a recipe, each at least 3:1 on the light and the dark background.
COLOURS = ("#4f6bed", "#d97706", "#0f9d8a", "#c8478f")
LOSER = "rgba(128,128,140,.35)"
GRID = "rgba(128,128,128,.18)"
ZERO = "rgba(128,128,128,.6)"
BAR, FRAME = 32, 44  # height of one class and of all else, in pixels
Figure = dict[str, Any]
AXIS: Figure = {
    "fixedrange": True,
    "automargin": True,
    "gridcolor": GRID,
    "zeroline": True,
    "zerolinecolor": ZERO,
}
SHARES: Figure = {"tickvals": [0, 0.5, 1], "ticktext": ["0 %", "50 %", "100 %"]}
FRAMELESS: Figure = {
    "margin": {"l": 4, "r": 12, "t": 6, "b": 4},
    "showlegend": False,
    "bargap": 0.35,
    "paper_bgcolor": "rgba(0,0,0,0)",
    "plot_bgcolor": "rgba(0,0,0,0)",
    "font": {"size": 13, "color": "#7a7a85"},
}


@lru_cache(maxsize=4096)
def escape(text: str) -> str:
    r"""A text as Plotly draws it to the letter: no tags, links, templates or mathematics.

    >>> escape("<b>5</b> %{y} $x$")
    '&lt;b>5&lt;/b> %\u200b{y} ＄x＄'
    """
    text = "".join(letter for letter in text if letter.isprintable())
    text = re.sub("[\\u202a-\\u202e\\u2066-\\u2069]", "", text)
    return (
        text.replace("&", "&amp;").replace("<", "&lt;").replace("%{", "%\u200b{").replace("$", "＄")
    )


def signed(value: float, digits: int = 2) -> str:
    """A number with its sign.

    >>> signed(0.5), signed(-1.25, 1), signed(0.0), signed(-0.0001)
    ('+0.50', '−1.2', '0.00', '0.00')
    """
    told = f"{value:+.{digits}f}"
    return told[1:] if not float(told) else told.replace("-", "−")


def bars(
    classes: Sequence[str],
    values: Sequence[float],
    *,
    answer: Sequence[str],
    colour: str,
    span: tuple[float, float],
    percent: bool,
) -> Figure:
    """Draws one bar a class, the answer in colour, every number printed.

    Args:
        span: The range of the horizontal axis, the same for all recipes.
        percent: Whether values are probabilities.
    """
    shown = [f"{100 * value:.0f} %" if percent else signed(value, 1) for value in values]
    trace = {
        "type": "bar",
        "orientation": "h",
        "x": list(values),
        "y": list(range(len(classes))),
        "text": shown,
        "textposition": "outside",
        "cliponaxis": False,
        "hoverinfo": "skip",
        "marker": {
            "color": [colour if name in answer else LOSER for name in classes],
            "cornerradius": 3,
        },
    }
    names = {
        "tickvals": list(range(len(classes))),
        "ticktext": [escape(name) for name in classes],
        "autorange": "reversed",
        "showgrid": False,
        "zeroline": False,
        "ticklabelstandoff": 6,
    }
    layout = {
        "height": BAR * len(classes) + FRAME,
        "minreducedheight": BAR,  # else the axis of a single bar has no room
        "xaxis": AXIS | {"range": list(span)} | (SHARES if percent else {"nticks": 4}),
        "yaxis": AXIS | names,
    }
    return {"data": [trace], "layout": FRAMELESS | layout}


def probability_span() -> tuple[float, float]:
    """Room for 0 to 1 and for the number that stands behind the bar."""
    return 0.0, 1.3


def logit_span(logits: Sequence[Sequence[float]]) -> tuple[float, float]:
    """One range for the logits of all recipes, with room for the numbers at both ends.

    >>> logit_span([[-1.0, 3.0], [0.5, 1.0]])
    (-2.2, 4.2)
    """
    least = min(0.0, *(value for row in logits for value in row))
    most = max(0.0, *(value for row in logits for value in row))
    room = max(most - least, 1e-3) * 0.3
    return least - (room if least < 0 else 0), most + (room if most > 0 else 0)
