"""Writes the tables of README.md anew from the docstrings of the parts; `make docs`."""

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from heads.parts.menu import parts
from heads.parts.models import MODELS
from heads.parts.samples import SAMPLES

README = Path(__file__).parents[1] / "README.md"


def tables() -> dict[str, str]:
    """The text between each pair of markers, by the markers' name."""
    shelves = parts()
    return {
        "poolings": _shelf(shelves["poolings"]),
        "layers": _shelf(shelves["layers"]),
        "heads": _shelf(shelves["heads"]),
        "models": _table(
            ("base model", "what it is", "parameters", "layers × width", "licence"),
            (
                (f"`{m.id}`", m.says, f"{m.millions}M", f"{m.layers} × {m.width}", m.licence)
                for m in MODELS
            ),
        ),
        "samples": _table(
            ("sample", "question"), ((f"`{item.name}`", item.says) for item in SAMPLES.values())
        ),
    }


def fresh(text: str) -> str:
    """The README with its tables written anew."""
    for name, table in tables().items():
        start, end = f"<!-- {name} -->\n", f"<!-- /{name} -->"
        before, _, rest = text.partition(start)
        _, found, after = rest.partition(end)
        if not found:
            raise SystemExit(f"README.md has no markers for the table '{name}'.")
        text = f"{before}{start}{table}{end}{after}"
    return text


def _shelf(shelf: Iterable[Mapping[str, Any]]) -> str:
    rows = ((f"`{part['name']}`", part["says"], part["source"]) for part in shelf)
    return _table(("name", "what it does", "source"), rows)


def _table(columns: Iterable[str], rows: Iterable[Iterable[str]]) -> str:
    columns = tuple(columns)
    lines = [columns, ("---",) * len(columns), *rows]
    cells = (
        " | ".join(cell.replace("|", "\\|").replace("<", "&lt;") for cell in row) for row in lines
    )
    return "".join(f"| {row} |\n" for row in cells)


if __name__ == "__main__":
    README.write_text(fresh(README.read_text("utf-8")), "utf-8")
