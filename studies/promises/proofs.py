"""What was measured of every promise, kept as JSON and drawn as the table of docs/PROMISES.md.

Rows keep the date, the commit and the machine of their own measurement, since seldom all of them
are measured at once: a module that is measured anew takes the place of its own rows alone.
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from benchmarks.reports import replace_region
from benchmarks.stored import ROOT
from studies.promises.promise import Row

PAGE = ROOT / "docs" / "PROMISES.md"
KEPT = PAGE.with_name("promises.json")
COLUMNS = ("promise", "what is promised", "measured", "must be", "holds", "seconds", "again with")
Stored = Mapping[str, Any]


def keep(name: str, rows: Sequence[Row], order: Sequence[str], path: Path = KEPT) -> None:
    """Puts the rows of a module in the place of those that it had.

    Args:
        name: The module.
        order: All modules, in the order of the table.
        path: The file.
    """
    known = json.loads(path.read_text("utf-8")) if path.is_file() else {}
    known[name] = {**_circumstances(), "rows": [asdict(row) for row in rows]}
    ordered = {one: known[one] for one in order if one in known}
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(ordered, ensure_ascii=False, indent=1) + "\n", "utf-8")


def _circumstances() -> dict[str, Any]:
    """When and on what something was measured."""
    from benchmarks.machine import facts

    found = facts()
    kept = {name: found[name] for name in ("date", "processor", "cores")}
    return {**kept, "memory": round(found["memory"]), "commit": found["versions"]["head-to-head"]}


def drawn(known: Mapping[str, Stored]) -> str:
    """The table, and below it what its rows were measured on."""
    lines = [COLUMNS, ("---",) * len(COLUMNS)]
    places: dict[str, list[str]] = {}
    rows = [(Row(**values), one) for one in known.values() for values in one["rows"]]
    for row, _ in sorted(rows, key=lambda pair: _number(pair[0].promise)):
        holds = "yes" if row.holds else "**no**"
        where = f"`{row.command}`"
        seconds = f"{row.seconds:,.0f}"
        cells = (row.promise, row.says, row.measured, row.target, holds, seconds, where)
        lines.append(tuple(cell.replace("|", "\\|") for cell in cells))
    for row, one in rows:
        place = "{date}, {commit}, {processor}, {cores} cores, {memory} GB".format(**one)
        places.setdefault(place, []).append(row.promise)
    table = "".join(f"| {' | '.join(line)} |\n" for line in lines)
    told = "".join(f"- {', '.join(dict.fromkeys(of))}: {at}\n" for at, of in places.items())
    failing = sum(not row.holds for row, _ in rows)
    summary = f"{len(rows) - failing} of {len(rows)} rows hold."
    return f"{summary}\n\n{table}\nMeasured on:\n\n{told}"


def _number(promise: str) -> int:
    return int(promise[1:])


def fresh(text: str, path: Path = KEPT) -> str:
    """The page with the table written anew from what is kept."""
    if not path.is_file():
        return text
    return replace_region(text, drawn(json.loads(path.read_text("utf-8"))), "promises") or text


def write_page() -> None:
    """Writes the page anew from what is kept."""
    PAGE.write_text(fresh(PAGE.read_text("utf-8")), "utf-8")


if __name__ == "__main__":
    write_page()
