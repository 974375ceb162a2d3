"""Columns and rows as a file that `heads.read` reads again, cell for cell."""

import csv
import json
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

from heads.caching import check_free, place_told, replacing, writing
from heads.data.table import written_cell
from heads.errors import DataError

Rows = Sequence[Sequence[Any]]


def check_new(path: Path) -> None:
    """Raise DataError for a file that is there already, and a name of no kind of file."""
    if path.suffix.lower() not in KINDS:
        what = f"The ending of {path.name[:80]} says no kind of file that is written here."
        raise DataError(what, f"End it in {', '.join(KINDS)}.")
    check_free(path)


def save(path: Path, columns: Sequence[str], rows: Rows, *, excel_safe: bool = False) -> None:
    """Write a file of the kind that its name ends in, whole or not at all; or raise DataError.

    Args:
        rows: Texts, numbers and None are their cells.
        excel_safe: Whether each cell of CSV and TSV that a spreadsheet would run is guarded.
    """
    fill = KINDS[path.suffix.lower()]
    if path.suffix.lower() in DELIMITED:
        columns, *rows = (
            [written_cell(cell, excel_safe=excel_safe) for cell in row] for row in (columns, *rows)
        )
    with writing(place_told(path)):
        path.parent.mkdir(parents=True, exist_ok=True)
        with replacing(path) as place:  # readable by all whom the user's mask lets
            fill(place, columns, rows)


def _delimited(path: Path, columns: Sequence[str], rows: Rows, sign: str) -> None:
    """With a mark of UTF-8, which spreadsheets look for."""
    with path.open("w", encoding="utf-8-sig", newline="") as file:
        writer = csv.writer(file, delimiter=sign)
        writer.writerows([columns, *rows])


def _lines(path: Path, columns: Sequence[str], rows: Rows) -> None:
    with path.open("w", encoding="utf-8", newline="\n") as file:
        for row in rows:
            file.write(json.dumps(dict(zip(columns, row, strict=True)), ensure_ascii=False) + "\n")


def _parquet(path: Path, columns: Sequence[str], rows: Rows) -> None:
    import pyarrow as pa
    from pyarrow import parquet

    cells = list(zip(*rows, strict=True)) or [()] * len(columns)
    parquet.write_table(pa.table(dict(zip(columns, map(list, cells), strict=True))), path)


DELIMITED = (".csv", ".tsv")
KINDS: Mapping[str, Callable[[Path, Sequence[str], Rows], None]] = {
    ".csv": partial(_delimited, sign=","),
    ".tsv": partial(_delimited, sign="\t"),
    ".jsonl": _lines,
    ".parquet": _parquet,
}
