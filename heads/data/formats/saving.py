"""Columns and rows as a file that `heads.read` reads again, cell for cell."""

import csv
import json
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

from heads.caching import check_free, place_told, replacing, writing
from heads.data.table import guard_cell
from heads.errors import DataError

Rows = Sequence[Sequence[Any]]


def check_new(path: Path) -> None:
    """Refuses a file that is there already, and a name from which no kind of file can be told.

    Raises:
        DataError: It is one of these.
    """
    if path.suffix.lower() not in KINDS:
        what = f"The ending of {path.name[:80]} says no kind of file that is written here."
        raise DataError(what, f"End it in {', '.join(KINDS)}.")
    check_free(path)


def save(path: Path, columns: Sequence[str], rows: Rows) -> None:
    """Writes a file of the kind that its name ends in, whole or not at all.

    Args:
        rows: Texts, numbers and None are their cells.

    Raises:
        DataError: The disk does not take it.
    """
    fill = KINDS[path.suffix.lower()]
    with writing(place_told(path)):
        path.parent.mkdir(parents=True, exist_ok=True)
        with replacing(path) as place:  # readable by all whom the user's mask lets
            fill(place, columns, rows)


def _delimited(path: Path, columns: Sequence[str], rows: Rows, sign: str) -> None:
    """For spreadsheets too: with a mark of UTF-8, and no cell that one would run as a formula."""
    with path.open("w", encoding="utf-8-sig", newline="") as file:
        writer = csv.writer(file, delimiter=sign)
        writer.writerow([guard_cell(name) for name in columns])
        for row in rows:
            writer.writerow([guard_cell(cell) if isinstance(cell, str) else cell for cell in row])


def _lines(path: Path, columns: Sequence[str], rows: Rows) -> None:
    with path.open("w", encoding="utf-8", newline="\n") as file:
        for row in rows:
            file.write(json.dumps(dict(zip(columns, row, strict=True)), ensure_ascii=False) + "\n")


def _parquet(path: Path, columns: Sequence[str], rows: Rows) -> None:
    import pyarrow as pa
    from pyarrow import parquet

    cells = list(zip(*rows, strict=True)) or [()] * len(columns)
    parquet.write_table(pa.table(dict(zip(columns, map(list, cells), strict=True))), path)


KINDS: Mapping[str, Callable[[Path, Sequence[str], Rows], None]] = {
    ".csv": partial(_delimited, sign=","),
    ".tsv": partial(_delimited, sign="\t"),
    ".jsonl": _lines,
    ".parquet": _parquet,
}
