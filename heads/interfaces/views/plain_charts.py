"""Charts as fragments of HTML: a page and a report that no script draws show the same. No Gradio.

Text is HTML, so it never shrinks with the chart; only lines are SVG. Every value passes
`Markup.format`, which escapes it. Colours come from the style sheet `board.css`.
"""

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass

from markupsafe import Markup

from heads.evaluation.metrics import SCORES, Metric, MetricName
from heads.interfaces.views.comparison import COLOURS, ZERO, count, joined

MOST_BARS = 20


@dataclass(frozen=True, slots=True, kw_only=True)
class Axis:
    """One direction of a chart.

    Attributes:
        low: Where it begins.
        high: Where it ends.
        ticks: Values that are written, and what is written there.
        says: What it shows.
        is_log: Whether equal steps are equal factors.
    """

    low: float
    high: float
    ticks: tuple[tuple[float, str], ...]
    says: str
    is_log: bool = False

    def place(self, value: float) -> float:
        """Where a value stands, in percent of the axis; never outside.

        >>> Axis(low=0, high=2, ticks=(), says="").place(0.5)
        25.0
        """
        ends = [self.low, self.high, value]
        low, high, at = map(math.log10, ends) if self.is_log else ends
        share = (at - low) / (high - low) if high > low else 0.5
        return round(100 * min(1.0, max(0.0, share)), 2)


@dataclass(frozen=True, slots=True, kw_only=True)
class Line:
    """Points that belong together.

    Attributes:
        name: What the legend calls it.
        points: Pairs of x and y.
        colour: Of line and dots.
        spans: For each point the ends of its interval, or nothing.
        says: For each point what is read when it is pointed at, or nothing.
        joins: Whether a line goes through the points.
    """

    name: str
    points: tuple[tuple[float, float], ...]
    colour: str = ZERO
    spans: tuple[tuple[float, float], ...] = ()
    says: tuple[str, ...] = ()
    joins: bool = False


def percent(share: float, digits: int = 1) -> str:
    """A share for the eye.

    >>> percent(0.70125), percent(1, 0)
    ('70.1 %', '100 %')
    """
    return f"{share:.{digits}%}".replace("%", " %")


def scores(values: Iterable[float], metric: MetricName) -> Axis:
    """An axis for scores: wide enough for all, on round tenths."""
    values, name = list(values) or [0.0, 1.0], SCORES[metric]
    if name.scale in ("explained", "error"):  # they have no lower end
        return even(values, name.title)
    low = max(0 if name.is_share else -10, math.floor(min(values) * 10 - 0.2))
    high = min(10, max(math.ceil(max(values) * 10 + 0.2), low + 1))
    step = 1 if high - low <= 5 else 2 if high - low <= 10 else 4
    ticks = tuple((at / 10, _tenths(at, name)) for at in range(low, high + 1, step))
    return Axis(low=low / 10, high=high / 10, ticks=ticks, says=name.title)


def _tenths(at: int, name: Metric) -> str:
    return f"{at * 10} %" if name.is_share else f"{at / 10:.1f}".replace("-", "−")


def even(
    values: Iterable[float], says: str, shown: Callable[[float], str] = "{:.4g}".format
) -> Axis:
    """An axis for any numbers, with up to six round ticks.

    Args:
        shown: How a tick is written.
    """
    values = list(values) or [0.0, 1.0]
    least, most = min(values), max(values)
    size = max(abs(least), abs(most))
    if size < 1e-300:  # its powers of ten are no numbers any more
        size = 1.0
    # What is all but equal gets a step of its size.
    exact = (most - least) / 4 if most - least > 1e-9 * size else size
    power = 10.0 ** math.floor(math.log10(exact))
    step = next(times * power for times in (1, 2, 5, 10) if times * power >= exact * 0.999)
    first, last = math.floor(least / step + 1e-6), math.ceil(most / step - 1e-6)
    numbers = range(first, max(last, first + 1) + 1)
    ticks = tuple((at * step, shown(at * step).replace("-", "−")) for at in numbers)
    return Axis(low=ticks[0][0], high=ticks[-1][0], ticks=ticks, says=says)


def powers(values: Iterable[float], says: str) -> Axis:
    """An axis of powers of ten around some positive numbers."""
    values = list(values) or [1.0]
    low, high = math.floor(math.log10(min(values))), math.ceil(math.log10(max(values)))
    high = max(high, low + 1)
    ticks = tuple((10.0**at, count(10**at)) for at in range(low, high + 1))
    return Axis(low=10.0**low, high=10.0**high, ticks=ticks, says=says, is_log=True)


def steps(high: int, says: str) -> Axis:
    """An axis of powers of two from 8, up to the first beyond a number of steps."""
    least, most = 3, max(5, math.ceil(math.log2(max(high, 1))))
    every = math.ceil((most - least) / 5)  # ticks would touch
    ticks = tuple((2.0**at, f"{2**at:,}") for at in range(least, most + 1, every))
    return Axis(low=2.0**least, high=2.0**most, ticks=ticks, says=says, is_log=True)


def chart(lines: Sequence[Line], x: Axis, y: Axis, *, says: str) -> Markup:
    """Draws lines and dots in a frame, with a legend of those that have a name.

    Args:
        says: What one sees, for those who do not see it.
    """
    frame = Markup(
        '<figure class="plot" role="img" aria-label="{}"><figcaption>{}</figcaption>'
        '<div class="field">{}<svg viewBox="0 0 100 100" preserveAspectRatio="none"'
        ' aria-hidden="true">{}</svg>{}</div><p class="axis">{}</p></figure>{}'
    )
    return frame.format(
        says,
        y.says,
        joined([*_ticks(x, "x"), *_ticks(y, "y")]),
        joined(_path(line, x, y) for line in lines if line.joins),
        joined(dot for line in lines for dot in _dots(line, x, y)),
        x.says,
        legend([(line.colour, line.name) for line in lines if line.name]),
    )


def legend(names: Sequence[tuple[str, str]]) -> Markup:
    """Which colour is what."""
    items = (
        Markup('<li style="--mark:{}"><i></i><span>{}</span></li>').format(colour, name)
        for colour, name in names
    )
    return Markup('<ul class="key">{}</ul>').format(joined(items)) if names else Markup("")


def _ticks(axis: Axis, letter: str) -> Iterable[Markup]:
    side = "left" if letter == "x" else "bottom"
    for value, says in axis.ticks:
        yield Markup('<span class="tick {}" style="{}:{}%"><b>{}</b></span>').format(
            letter, side, axis.place(value), says
        )


def _path(line: Line, x: Axis, y: Axis) -> Markup:
    points = " ".join(f"{x.place(at)},{100 - y.place(value)}" for at, value in line.points)
    return Markup('<polyline points="{}" style="stroke:{}"/>').format(points, line.colour)


def _dots(line: Line, x: Axis, y: Axis) -> Iterable[Markup]:
    for number, (at, value) in enumerate(line.points):
        left, bottom = x.place(at), y.place(value)
        if line.spans:
            low, high = map(y.place, line.spans[number])
            yield Markup(
                '<i class="span" style="left:{}%;bottom:{}%;height:{}%;--mark:{}"></i>'
            ).format(left, low, round(high - low, 2), line.colour)
        told = line.says[number] if line.says else ""
        yield Markup('<i class="dot" style="left:{}%;bottom:{}%;--mark:{}" title="{}"></i>').format(
            left, bottom, line.colour, told
        )


def live(
    curves: Mapping[str, Mapping[int, float]], last: int, metric: MetricName = "accuracy"
) -> Markup:
    """The validation score of the heads that are being trained, step by step.

    Args:
        curves: For each of the last heads, the best score after so many steps.
        last: The most steps so far; the frame moves when they are more than a power of two.
    """
    x = steps(last, "Steps")
    name = SCORES[metric]
    lines = [
        Line(
            name=recipe if max(points, default=0) else f"{recipe} (solved at once)",
            points=tuple((max(x.low, step), score) for step, score in sorted(points.items())),
            colour=colour,
            joins=True,
        )
        for (recipe, points), colour in zip(curves.items(), COLOURS, strict=False)
    ]
    ticks = tuple((at / 10, _tenths(at, name)) for at in (0, 5, 10))
    y = Axis(low=0, high=1, ticks=ticks, says=name.title)
    if name.scale in ("explained", "error"):
        y = scores([score for points in curves.values() for score in points.values()], metric)
    told = "; ".join(f"{one} {name.told(max(found.values()))}" for one, found in curves.items())
    return chart(lines, x, y, says=f"Best so far: {told}")


def bars(
    rows: Sequence[tuple[str, float]],
    *,
    colour: str = COLOURS[0],
    best: bool = False,
    shown: Sequence[str] = (),
    marks: Sequence[float] = (),
    most: int = MOST_BARS,
) -> Markup:
    """One bar of a share a row, every number printed.

    Args:
        best: Whether only the longest bar takes the colour.
        shown: What is written behind each bar; the share in percent, if nothing else.
        marks: For each bar a share that is marked on it: a bar that does not reach it is grey.
        most: How many are drawn; the rest is counted.
    """
    longest = max((share for _, share in rows), default=0.0)
    written = shown or [percent(share) for _, share in rows]
    lines = []
    for at, ((name, share), says) in enumerate(zip(rows[:most], written, strict=False)):
        is_off = share <= marks[at] if marks else best and share < longest
        mark = Markup('<s style="left:{:.2f}%"></s>').format(100 * marks[at]) if marks else ""
        bar = Markup('<u><i style="--share:{:.4f}"></i>{}</u>').format(max(0.0, share), mark)
        line = Markup('<li class="{}"><span>{}</span>{}<b>{}</b></li>')
        lines.append(line.format("off" if is_off else "", name, bar, says))
    left = len(rows) - most
    rest = Markup('<p class="quiet">and {} more</p>').format(f"{left:,}") if left > 0 else ""
    drawn = Markup('<ul class="bars" style="--mark:{}">{}</ul>{}')
    return drawn.format(colour, joined(lines), rest)
