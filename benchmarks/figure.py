"""The ratios of a report as a picture: bars on a logarithmic axis, drawn by hand as SVG."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from xml.sax.saxutils import escape

from benchmarks.reports import Report, Row, number

WIDE, LABELS, RIGHT = 1000, 420, 70  # of the picture, of the words, of the numbers behind a bar
HIGH, BAR, TOP, BOTTOM = 34, 12, 20, 34  # of a row, of its bar, above and below all
LEGEND = "times as fast: median; thin line: all rounds; dotted: the goal"
FONT = "system-ui, -apple-system, 'Segoe UI', Roboto, sans-serif"


@dataclass(frozen=True, slots=True, kw_only=True)
class Ink:
    """The colours of one theme."""

    text: str
    quiet: str
    rule: str
    ahead: str
    behind: str
    whisker: str


LIGHT = Ink(
    text="#1f2328", quiet="#59636e", rule="#d1d9e0", ahead="#3b6ea8", behind="#b08a3e",
    whisker="#1f2328",
)  # fmt: skip
DARK = Ink(
    text="#f0f6fc", quiet="#9198a1", rule="#3d444d", ahead="#6ca0dc", behind="#d4b06a",
    whisker="#f0f6fc",
)  # fmt: skip


def drawn(report: Report, ink: Ink) -> str:
    """All rows that have a ratio and are to be drawn, as an SVG; empty where there are none."""
    rows = [row for rows in report.parts.values() for row in rows if row.ratio and row.drawn]
    if not rows:
        return ""
    axis = Axis.over(rows)
    high = TOP + HIGH * len(rows) + BOTTOM
    lines = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDE} {high}" role="img" '
        f'font-family="{FONT}" font-size="13">',
        "<title>How many times as fast as floors and peers; 1 is as fast</title>",
        *_grid(axis, high, ink),
        _text(
            LEGEND, LABELS - 12, high - BOTTOM + 20, ink.quiet, 'text-anchor="end" font-size="11"'
        ),
        *(part for place, row in enumerate(rows) for part in _row(row, place, axis, ink)),
        "</svg>",
    ]
    return "\n".join(lines) + "\n"


@dataclass(frozen=True, slots=True, kw_only=True)
class Axis:
    """A logarithmic axis of ratios."""

    low: float
    high: float

    @classmethod
    def over(cls, rows: Sequence[Row]) -> "Axis":
        """One that holds all ratios, their spreads and goals, and 1."""
        values = [1.0]
        for row in rows:
            values += [row.ratio or 1.0, row.target or 1.0, *(row.spread or ())]
        values = [value for value in values if value > 0]
        return cls(low=min(values) / 1.15, high=max(values) * 1.15)

    def at(self, ratio: float) -> float:
        """Where a ratio stands, from the left of the picture."""
        room = WIDE - LABELS - RIGHT
        share = math.log(max(ratio, self.low) / self.low) / math.log(self.high / self.low)
        return LABELS + room * share

    def marks(self) -> list[float]:
        """Round ratios within it: 1, 2, 5 and their tenfolds; of many, the tens.

        >>> Axis(low=0.5, high=12).marks()
        [0.5, 1.0, 2.0, 5.0, 10.0]
        >>> Axis(low=0.9, high=2000).marks()
        [1.0, 10.0, 100.0, 1000.0]
        """
        powers = range(math.floor(math.log10(self.low)), math.ceil(math.log10(self.high)) + 1)
        steps = (1, 2, 5) if self.high / self.low < 50 else (1,)
        found = [float(f"{step}e{power}") for power in powers for step in steps]
        return [mark for mark in found if self.low <= mark <= self.high]


def _grid(axis: Axis, high: int, ink: Ink) -> list[str]:
    lines = []
    for mark in axis.marks():
        x = axis.at(mark)
        width = 1.5 if mark == 1 else 0.75
        lines += [
            f'<line x1="{x:.1f}" x2="{x:.1f}" y1="{TOP - 8}" y2="{high - BOTTOM + 4}" '
            f'stroke="{ink.quiet if mark == 1 else ink.rule}" stroke-width="{width}"/>',
            _text(f"{mark:g}×", x, high - BOTTOM + 20, ink.quiet, 'text-anchor="middle"'),
        ]
    return lines


def _row(row: Row, place: int, axis: Axis, ink: Ink) -> list[str]:
    ratio = row.ratio or 1.0
    middle = TOP + HIGH * place + HIGH / 2
    left, right = sorted((axis.at(1), axis.at(ratio)))
    colour = ink.ahead if ratio >= 1 else ink.behind
    lines = [
        _text(_short(row.what), LABELS - 12, middle - 1, ink.text, 'text-anchor="end"'),
        _text(
            _short(f"against {row.against}"), LABELS - 12, middle + 13, ink.quiet,
            'text-anchor="end" font-size="11"',
        ),
        f'<rect x="{left:.1f}" y="{middle - BAR / 2:.1f}" width="{max(right - left, 1):.1f}" '
        f'height="{BAR}" rx="2" fill="{colour}"/>',
    ]  # fmt: skip
    ends = [right]
    if row.spread and row.rounds > 1:
        low, high = (axis.at(end) for end in row.spread)
        lines.append(
            f'<line x1="{low:.1f}" x2="{high:.1f}" y1="{middle:.1f}" y2="{middle:.1f}" '
            f'stroke="{ink.whisker}" stroke-width="1.25"/>'
        )
        ends.append(high)
    if row.target:
        x = axis.at(row.target)
        lines.append(
            f'<line x1="{x:.1f}" x2="{x:.1f}" y1="{middle - BAR / 2 - 4:.1f}" '
            f'y2="{middle + BAR / 2 + 4:.1f}" stroke="{ink.text}" stroke-dasharray="2 2"/>'
        )
        ends.append(x)
    lines.append(_text(f"{number(ratio)}×", max(ends) + 7, middle + 4.5, ink.text, ""))
    return lines


def _text(text: str, x: float, y: float, colour: str, more: str) -> str:
    place = f'x="{x:.1f}" y="{y:.1f}" fill="{colour}"'
    return f"<text {place} {more}>{escape(text)}</text>"


def _short(text: str, most: int = 66) -> str:
    return text if len(text) <= most else f"{text[: most - 1].rstrip()}…"
