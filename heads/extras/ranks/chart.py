"""The diagram of critical differences."""

from math import ceil, floor

from heads.extras.ranks.critical_differences import CriticalDifferences
from heads.interfaces.views.figures import Chart, Figure, build_axis, build_figure, hover_text
from heads.interfaces.views.format import COLOURS, GREY, cut, escape

CLIQUE, LINE = 11, 21  # pixels of a bar over a group, and of the line to a name
SIDE = 30  # letters of a name beside the diagram
MOST_CLIQUES = 30


def draw_ranks(result: CriticalDifferences) -> Chart:
    """Draw average ranks on an axis, names at both sides, and bars over groups (Demšar)."""
    low = floor(result.ranks[0] + 1e-9)
    high = max(ceil(result.ranks[-1] - 1e-9), low + 1)
    at, letters = dict(zip(result.recipes, result.ranks, strict=True)), result.letters
    cliques = result.cliques[:MOST_CLIQUES]
    top, half = CLIQUE * len(cliques) + 16, (len(at) + 1) // 2  # the better half is at the left
    height = top + LINE * (half - 1) + 12
    lines, names = list[Figure](), list[Figure]()
    for number, (name, rank) in enumerate(at.items()):
        is_left = number < half
        depth = top + LINE * (number if is_left else len(at) - 1 - number)
        line, shown = _draw_name(name, rank, low if is_left else high, depth, is_left)
        lines.append(line)
        names.append(shown)
    for number, clique in enumerate(cliques, start=1):
        colour = COLOURS[0] if result.recipes[0] in clique else GREY
        lines.append({
            "type": "scatter", "mode": "lines+markers", "x": [at[name] for name in clique],
            "y": [-CLIQUE * number] * len(clique), "line": {"color": colour, "width": 5},
            "marker": {"color": colour, "size": 9}, "hoverinfo": "skip", "cliponaxis": False,
        })  # fmt: skip
    ruler, words = _draw_ruler(result.critical_difference, low, high, height)
    side = 60 + 7 * max(len(cut(name, SIDE)) for name in result.recipes)
    axis = {"ticks": "inside", "ticklen": 6, "tickcolor": GREY, "showgrid": False}
    axis |= {"showline": True, "linecolor": GREY, "linewidth": 1.5, "side": "top"}
    axis |= {"dtick": ceil((high - low) / 12), "range": [low, high], "automargin": False}
    layout = {
        "margin": {"l": side, "r": side, "t": 62, "b": 8}, "xaxis": build_axis(**axis),
        "yaxis": build_axis(range=[-height, 0], visible=False),
    }  # fmt: skip
    return Chart(
        figure=build_figure(
            lines, height + 70, shapes=ruler, annotations=[words, *names], **layout
        ),
        says=result.verdict,
        key=f"{result.key} A bar lies over each group, with a dot at each of it."
        + f" The first {MOST_CLIQUES} are drawn." * (len(result.cliques) > MOST_CLIQUES),
        headers=("Recipe", "Average rank", "Groups"),
        rows=tuple((name, f"{rank:.2f}", letters[name]) for name, rank in at.items()),
    )


def _draw_name(
    name: str, rank: float, side: int, depth: int, is_left: bool
) -> tuple[Figure, Figure]:
    """Draw the line from a rank on the axis to a side, and the name there."""
    line = {
        "type": "scatter", "mode": "lines", "x": [rank, rank, side], "y": [0, -depth, -depth],
        "line": {"color": GREY, "width": 1.2}, "hoverinfo": "text", "cliponaxis": False,
        "hovertext": [hover_text(name, f"average rank {rank:.2f}")] * 3,
    }  # fmt: skip
    parts = [escape(cut(name, SIDE)), f"<b>{rank:.2f}</b>"]
    shown = {
        "x": side, "y": -depth, "showarrow": False, "xanchor": "right" if is_left else "left",
        "xshift": -6 if is_left else 6, "text": "  ".join(parts if is_left else parts[::-1]),
    }  # fmt: skip
    return line, shown


def _draw_ruler(length: float, low: float, high: float, height: int) -> tuple[list[Figure], Figure]:
    """Draw the critical difference as a length above the axis; say in words if it is longer."""
    is_drawn = length <= high - low
    words = {"yref": "paper", "y": 1 + 34 / height, "showarrow": False, "yanchor": "bottom"}
    text = f"CD {length:.2f}" if is_drawn else f"CD {length:.2f}, longer than the axis"
    words |= {"x": low, "xanchor": "left", "text": text, "font": {"size": 12}}
    line = {
        "type": "line", "x0": low, "x1": low + length, "yref": "paper", "y0": 1 + 32 / height,
        "y1": 1 + 32 / height, "line": {"color": GREY, "width": 2},
    }  # fmt: skip
    return [line] * is_drawn, words
