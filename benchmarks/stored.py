"""Tables of the docs that were measured, and the figures that they are written from.

A benchmark with ``--write`` stores what it found as docs/measured/NAME.json, with commit, date,
machine and the data's fingerprints, and writes the page anew that has the markers
``<!-- measured: NAME -->`` and ``<!-- /measured: NAME -->``. ``python -m benchmarks.stored`` writes
all such pages from what is stored, and measures nothing; `make docs` does it too. A test holds
every page to what is stored, so no figure is changed by hand.
"""

import argparse
import csv
import hashlib
import json
import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from textwrap import indent
from typing import Any

ROOT = Path(__file__).parents[1]
DATA = ROOT.parent / "shared" / "data"  # the data sets, where they lie beside the repository
FOLDER = ROOT / "docs" / "measured"
QUICK_ROWS = 1000
PAGES = (ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md")))
REGION = re.compile(
    r"^( *)(<!-- measured: ([a-z0-9_-]+) -->\n).*?( *<!-- /measured: \3 -->)$",
    re.DOTALL | re.MULTILINE,
)

Cell = str | Mapping[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class Table:
    """A table as it was measured: figures with all their digits, written down only when drawn.

    Attributes:
        rows: Its cells: words, or figures as `score`, `gap` and `figure` make them.
    """

    title: str
    columns: Sequence[str]
    rows: Sequence[Sequence[Cell]]


def score(value: float, low: float, high: float) -> Cell:
    """A share with its 95 % interval."""
    return {"score": value, "low": low, "high": high}


def gap(difference: float, low: float, high: float, *, differs: bool) -> Cell:
    """A difference of two shares with its interval, and whether it is told apart from none."""
    return {"gap": difference, "low": low, "high": high, "differs": differs}


def figure(value: float, digits: int = 1, unit: str = "") -> Cell:
    """Any other number, to be written with so many digits; percent are shares times 100."""
    return {"figure": value, "digits": digits, "unit": unit}


def written(cell: Cell) -> str:
    r"""A cell as a reader sees it.

    >>> written(score(0.6884, 0.665, 0.709)), written(gap(-0.0041, -0.011, 0.003, differs=False))
    ('68.8 (66.5–70.9)', '−0.4 (−1.1 to +0.3)')
    >>> written(figure(0.123, 1, "%")), written(figure(12.34, 0, "s")), written("a|b")
    ('12.3 %', '12 s', 'a\\|b')
    """
    if isinstance(cell, str):
        return cell.replace("|", "\\|")
    if "score" in cell:
        value, low, high = (100 * cell[name] for name in ("score", "low", "high"))
        told = f"{value:.1f} ({low:.1f}–{high:.1f})"
    elif "gap" in cell:
        value, low, high = (100 * cell[name] for name in ("gap", "low", "high"))
        told = f"{value:+.1f} ({low:+.1f} to {high:+.1f}){' *' if cell['differs'] else ''}"
    else:
        value = cell["figure"] * (100 if cell["unit"] == "%" else 1)
        told = f"{value:,.{cell['digits']}f} {cell['unit']}".strip()
    return told.replace("-", "−")


def drawn(table: Table) -> list[str]:
    """A table as lines of Markdown."""
    rows = (table.columns, ["---"] * len(table.columns), *table.rows)
    lines = ["| " + " | ".join(map(written, row)) + " |" for row in rows]
    return [f"**{table.title}**", "", *lines] if table.title else lines


def rendered(stored: Mapping[str, Any]) -> str:
    """What stands between the markers of a page: what, when and where it was measured; tables."""
    machine = stored["machine"]
    data = ", ".join(f"{name} {digest[:8]}" for name, digest in stored["data"].items())
    parts = [
        f"*Measured at {stored['commit']} on {stored['date']} with `{stored['command']}` "
        f"({machine['processor']}, {machine['instructions']}, {machine['cores']} cores; "
        f"data: {data}).*"
    ]
    for values in stored["tables"]:
        parts.append("\n".join(drawn(Table(**values))))
    return "\n\n".join(parts) + "\n"


def store(
    name: str, tables: Sequence[Table], *, command: str, data: Sequence[Path], folder: Path = FOLDER
) -> Path:
    """Keeps what a benchmark found.

    Args:
        command: What measures it again.
        data: The folders of the data sets.
    """
    from benchmarks.machine import facts

    machine = facts()
    values = {
        "name": name,
        "command": command,
        "commit": machine["versions"]["head-to-head"],
        "date": machine["date"],
        "machine": {n: machine[n] for n in ("processor", "instructions", "cores", "versions")},
        "data": {one.name: fingerprint(one) for one in data},
        "tables": [asdict(table) for table in tables],
    }
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"{name}.json"
    path.write_text(json.dumps(values, ensure_ascii=False, indent=1) + "\n", "utf-8")
    return path


def fingerprint(folder: Path) -> str:
    """The hash of a data set's files, train, val and test."""
    digest = hashlib.sha256()
    for name in ("train.csv", "val.csv", "test.csv"):
        if (folder / name).is_file():
            digest.update(name.encode() + (folder / name).read_bytes())
    return digest.hexdigest()


def fresh(text: str, folder: Path = FOLDER) -> str:
    """A page with every region written anew of which something is stored."""

    def region(found: re.Match[str]) -> str:
        path = folder / f"{found[3]}.json"
        if not path.is_file():
            return found[0]
        inner = indent(rendered(json.loads(path.read_text("utf-8"))), found[1])
        return f"{found[1]}{found[2]}{inner}{found[4]}"

    return REGION.sub(region, text)


def parse_arguments(
    parser: argparse.ArgumentParser, arguments: Sequence[str] | None = None
) -> argparse.Namespace:
    """Parse arguments, with the flags of a measurement that feeds a table of the docs added."""
    parser.add_argument("--write", action="store_true", help="store the figures for the docs")
    parser.add_argument("--quick", action="store_true", help="on few rows: to see that it works")
    parser.add_argument("--into", type=Path, default=FOLDER, help="where figures are stored")
    options = parser.parse_args(arguments)
    if options.quick and options.write and options.into.resolve() == FOLDER:
        parser.error("figures of --quick are not for the docs; name another folder with --into")
    return options


@contextmanager
def some_of(folders: Sequence[Path], *, quick: bool) -> Iterator[list[Path]]:
    """The folders of data sets; or quickly, folders with some rows of each."""
    if not quick:
        yield list(folders)
        return
    with TemporaryDirectory() as place:
        for folder in folders:
            (Path(place) / folder.name).mkdir()
            for path in folder.glob("*.csv"):
                with path.open(encoding="utf-8", newline="") as file:
                    head, *rows = csv.reader(file)
                rows = rows[:: max(1, len(rows) // QUICK_ROWS)]  # a file may be sorted by class
                part = Path(place) / folder.name / path.name
                with part.open("w", encoding="utf-8", newline="") as file:
                    csv.writer(file).writerows([head, *rows])
        yield [Path(place) / folder.name for folder in folders]


def publish(
    name: str, tables: Sequence[Table], asked: argparse.Namespace, *, command: str,
    data: Sequence[Path],
) -> None:  # fmt: skip
    """Prints tables; stores them too, where that was asked for, and writes the docs anew."""
    for table in tables:
        print("\n" + "\n".join(drawn(table)), flush=True)
    if asked.write:
        path = store(name, tables, command=command, data=data, folder=asked.into)
        print(f"\nstored in {path}")
        if asked.into.resolve() == FOLDER:
            main()


def main() -> None:
    """Writes all pages anew from what is stored."""
    for page in PAGES:
        page.write_text(fresh(page.read_text("utf-8")), "utf-8")


if __name__ == "__main__":
    main()
