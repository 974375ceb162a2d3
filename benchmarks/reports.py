"""What the benchmarks found, as values: rows with ratios, a report, its file, its tables.

A ratio says how many times as fast (or as small) ours is: what the other took over what ours
took. Above 1 ours is ahead. It is the median of the ratios of single rounds, in which the two
ran one after the other, and its spread is the least and the largest of them.
"""

import json
import statistics
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

PAGE = Path(__file__).parents[1] / "docs" / "PERFORMANCE.md"


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """One thing that was measured, alone or against something else in the same rounds.

    Attributes:
        ours: How much ours took, a median; None where only the other was measured.
        against: What it is compared with; empty where with nothing.
        peer: How much that took, a median; None where it could not be measured.
        ratio: How many times as fast ours is; None where nothing is compared.
        spread: The least and the largest of the rounds: of the ratio, or where there is none,
            of what was measured.
        rounds: How often each was measured.
        note: What one must know to read the numbers, in a sentence.
        target: What the ratio should reach; None where nothing was promised.
        drawn: Whether it has a bar in the figure.
    """

    what: str
    ours: float | None = None
    against: str = ""
    peer: float | None = None
    ratio: float | None = None
    spread: tuple[float, float] | None = None
    unit: str = "s"
    rounds: int = 1
    note: str = ""
    target: float | None = None
    drawn: bool = True


def compared(
    what: str,
    ours: Sequence[float],
    against: str,
    peer: Sequence[float],
    *,
    note: str = "",
    target: float | None = None,
    drawn: bool = True,
) -> Row:
    """A row for two things that were timed in turn, round by round, in seconds.

    >>> row = compared("sorting", [1.0, 1.0, 2.0], "a peer", [3.0, 2.0, 8.0])
    >>> row.ours, row.peer, row.ratio, row.spread
    (1.0, 3.0, 3.0, (2.0, 4.0))
    """
    ratios = [theirs / own for own, theirs in zip(ours, peer, strict=True)]
    return Row(
        what=what,
        ours=statistics.median(ours),
        against=against,
        peer=statistics.median(peer),
        ratio=statistics.median(ratios),
        spread=(min(ratios), max(ratios)),
        rounds=len(ratios),
        note=note,
        target=target,
        drawn=drawn,
    )


def measured(what: str, values: Sequence[float], *, unit: str = "s", note: str = "") -> Row:
    """A row for something that is compared with nothing.

    >>> measured("memory", [3.0, 1.0, 2.0], unit="GB").spread
    (1.0, 3.0)
    """
    return Row(
        what=what,
        ours=statistics.median(values),
        spread=(min(values), max(values)),
        unit=unit,
        rounds=len(values),
        note=note,
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Report:
    """All that one run of the benchmarks found.

    Attributes:
        machine: What it ran on: processor, cores, versions, date.
        parts: The rows of each part, by its name; the speed of matrix products is one.
        missing: Parts that were left out or failed, and why, in a sentence.
    """

    machine: Mapping[str, Any]
    parts: Mapping[str, Sequence[Row]]
    missing: Mapping[str, str]

    def save(self, path: Path) -> None:
        """Writes it as JSON."""
        parts = {name: [asdict(row) for row in rows] for name, rows in self.parts.items()}
        whole = {"machine": dict(self.machine), "parts": parts, "missing": dict(self.missing)}
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(json.dumps(whole, indent=1, ensure_ascii=False) + "\n", "utf-8")


def opened(path: Path) -> Report:
    """The report that a file holds."""
    found = json.loads(path.read_text("utf-8"))
    for row in (row for rows in found["parts"].values() for row in rows):
        row["spread"] = tuple(row["spread"]) if row["spread"] else None
    parts = {name: [Row(**row) for row in rows] for name, rows in found["parts"].items()}
    return Report(machine=found["machine"], parts=parts, missing=found["missing"])


def number(value: float | None) -> str:
    """A number with three digits that count.

    >>> number(0.01234), number(3.14159), number(12345.6), number(0), number(None)
    ('0.0123', '3.14', '12,346', '0', '')
    """
    if value is None:
        return ""
    if value == 0 or abs(value) >= 100:
        return f"{value:,.0f}"
    digits = 1 if abs(value) >= 10 else 2 if abs(value) >= 1 else 3 if abs(value) >= 0.1 else 4
    return f"{value:.{digits}f}"


def line(row: Row) -> str:
    """A row for the terminal.

    >>> line(compared("sorting", [1.0], "a peer", [3.0], note="of 5 rows"))
    'sorting: 1.00 s; a peer 3.00 s; 3.00 times as fast; of 5 rows'
    """
    told = [] if row.ours is None else [f"{number(row.ours)} {row.unit}".strip()]
    if row.against:
        told.append(f"{row.against} {_amount(row.peer, row.unit) or 'not measured'}")
    if row.ratio is not None:
        told.append(f"{number(row.ratio)} times as fast{_spread(row)}")
    elif told and row.ours is not None:
        told[0] += _spread(row)
    return f"{row.what}: {'; '.join(filter(None, (*told, row.note)))}"


def table(rows: Sequence[Row]) -> str:
    """The rows of a part in Markdown."""
    head = "| what | ours | against | theirs | times as fast | note |\n|---|--:|---|--:|--:|---|\n"
    return head + "".join(f"| {' | '.join(_cells(row))} |\n" for row in rows)


def _cells(row: Row) -> tuple[str, ...]:
    ours, ratio = _amount(row.ours, row.unit), ""
    if row.ratio is not None:
        ratio = f"**{number(row.ratio)}**{_spread(row)}"
    else:
        ours += _spread(row)
    told = (row.what, ours, row.against, _amount(row.peer, row.unit), ratio, _noted(row))
    return tuple(text.replace("|", "\\|") for text in told)


def _noted(row: Row) -> str:
    goal = "" if row.target is None else f"goal {number(row.target)}"
    return "; ".join(filter(None, (goal, row.note)))


def _amount(value: float | None, unit: str) -> str:
    return "" if value is None else f"{number(value)} {unit}".strip()


def _spread(row: Row) -> str:
    if not row.spread or row.rounds < 2:
        return ""
    return f" ({number(row.spread[0])} to {number(row.spread[1])})"


def markdown(report: Report, figure: str = "") -> str:
    """The whole report: the machine in a paragraph, the figure, a table a part."""
    told = [_machine(report.machine), figure] if figure else [_machine(report.machine)]
    for name, rows in report.parts.items():
        if rows:
            told += [f"### {name.capitalize()}", table(rows).rstrip()]
    told += [f"Not measured: {name}, {why}" for name, why in report.missing.items()]
    return "\n\n".join(told) + "\n"


def _machine(machine: Mapping[str, Any]) -> str:
    versions = ", ".join(f"{name} {version}" for name, version in machine["versions"].items())
    return (
        f"Measured {machine['date']} on {machine['processor']}, {machine['cores']} cores, "
        f"{machine['memory']:.0f} GB, {machine['system']} ({machine['instructions']}). {versions}."
    )


def replace_region(page: str, inner: str, name: str = "measured") -> str | None:
    r"""Replace what stands between the markers of a page; return None if it has none.

    >>> replace_region("a\n<!-- table -->\nold\n<!-- /table -->\nz", "new\n", "table")
    'a\n<!-- table -->\nnew\n<!-- /table -->\nz'
    """
    before, start, rest = page.partition(f"<!-- {name} -->\n")
    _, end, after = rest.partition(f"<!-- /{name} -->")
    return f"{before}{start}{inner}{end}{after}" if start and end else None
