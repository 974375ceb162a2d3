"""Files of texts and labels that tests write, and what is said of those that are read."""

import csv
import io
from collections.abc import Iterable, Sequence
from pathlib import Path

from heads.data.dataset import Data


def encoded(
    rows: Iterable[Sequence[object]],
    *,
    delimiter: str = ",",
    quote: str = '"',
    quoting: int = csv.QUOTE_MINIMAL,
    encoding: str = "utf-8",
    end: str = "\r\n",
) -> bytes:
    """Return rows as a delimited file; what Windows-1252 lacks becomes a question mark."""
    file = io.StringIO(newline="")
    writer = csv.writer(
        file,
        delimiter=delimiter,
        quotechar=quote,
        quoting=quoting,
        lineterminator=end,
    )
    writer.writerows(rows)
    return file.getvalue().encode(encoding, "replace" if encoding == "cp1252" else "strict")


def labelled(folder: Path, cells: Sequence[object], sign: str = ",") -> Path:
    """Write a text for each label cell."""
    rows = [(f"this is the {row}th of some texts", cell) for row, cell in enumerate(cells)]
    path = folder / "table.csv"
    path.write_bytes(encoded([("text", "label"), *rows], delimiter=sign))
    return path


def kinds(data: Data) -> set[str]:
    """Return the kinds of all warnings."""
    return {finding.kind for finding in data.findings}


def says(data: Data, kind: str) -> str:
    """Return the first warning of a kind, or ""."""
    return next((finding.says for finding in data.findings if finding.kind == kind), "")
