"""Excel workbooks (.xlsx): the cells of the first sheet to a `Table`.

openpyxl reads row by row, so that limits hold while reading. pandas.read_excel makes all rows as
wide as the widest before anybody can count them, and its other engine, calamine, ends the whole
process over a workbook of 5 kB with one cell in the last row and column.
"""

import re
import warnings
import zipfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import datetime, time
from pathlib import Path
from typing import TYPE_CHECKING, Any

from heads.data.grid import Grid, table_of
from heads.data.table import Finding, Table, check_size, count, finding, is_known, short, where
from heads.errors import DataError, HeadsError, LimitError
from heads.settings import Limits

if TYPE_CHECKING:
    from openpyxl.workbook import Workbook

MAGIC = b"PK\x03\x04"  # a zip archive, as all files of newer office programs are
_EXPORT = "Export the table as CSV in UTF-8."
_UNPACK = "Unpack it and choose the table in it."
_SAVE_AGAIN = "Open it in Excel or LibreOffice and save it as .xlsx, or export the table as CSV."
# What openpyxl makes objects of at once, hundreds of bytes for one of four: styles, names, parts.
_AT_ONCE = re.compile(
    r"\[Content_Types\]\.xml|docProps/.*|xl/(?:_rels/.*|workbook\.xml|styles\.xml)"
)
_MOST_AT_ONCE = 2_000_000
_LAST_ROW = 1_048_576  # of a sheet in Excel; a file may claim any
_TITLE_ROWS = 5
_WHOLE = 1e15  # whole numbers below are exact, and Excel shows them with all their digits


def read_excel(path: Path, limits: Limits, header: bool | None = None) -> Table:
    """Reads the first sheet of a workbook; macros in it are never run.

    Args:
        header: Whether the first row names the columns; None finds out.

    Raises:
        DataError: It is another zip archive, is damaged, or its first sheet is empty.
        LimitError: It holds more than this place allows.
    """
    name = short(path.name, 60)
    _check_archive(path, name, limits)
    with _opened(path, name) as book:
        shown = [sheet for sheet in book.worksheets if sheet.sheet_state == "visible"]
        sheet = (shown or book.worksheets)[0]
        place, others = book.worksheets.index(sheet), len(book.worksheets) - 1
        rows, lines, errors = _rows(book, place, name, limits)
    which = f"the sheet '{short(sheet.title)}'"
    grid = _grid(rows, lines, titled=header is not False)
    unsaved = []
    if not rows or any("" in row for row in grid.rows):
        with _opened(path, name, formulas=True) as book:
            unsaved = _unsaved(book, place, dict(zip(grid.lines, grid.rows, strict=True)))
    if not rows and unsaved:
        raise DataError(f"In {name}, {which} holds formulas without their results.", _SAVE_AGAIN)
    if not rows:
        hint = "Move the sheet with texts and labels to the front."
        raise DataError(f"In {name}, {which} is empty.", hint)
    findings: list[Finding] = []
    for kind, places, what in (
        ("errors", errors, "with an error such as #N/A, read as empty"),
        ("formulas", unsaved, "with formulas whose results were not saved, read as empty"),
    ):
        if places:
            says = f"{count(len(places), 'row')} {what}: {where(places, 'row')}."
            findings.append(finding(kind, f"{says} Mend them in Excel and save.", places))
    note = f"Read {which} of the Excel workbook"
    if others:
        first = "the first that is not hidden" if place else "the first"
        note += f", {first}; {count(others, 'other sheet was', 'other sheets were')} left out"
    return table_of(grid, name, limits, header, [f"{note}."], findings)


def _check_archive(path: Path, name: str, limits: Limits) -> None:
    """Refuses other archives, and what unpacks to too much, by the list of what is in it.

    zipfile unpacks no more of a part than this list says, so that it cannot say too little.
    """
    try:
        with zipfile.ZipFile(path) as archive:
            parts = archive.infolist()
    except (zipfile.BadZipFile, ValueError, NotImplementedError):
        raise DataError(
            f"{name} is a zip archive or an Excel file, and damaged.", _EXPORT
        ) from None
    names = {part.filename for part in parts}
    if "xl/workbook.bin" in names:
        raise DataError(f"{name} is a binary Excel workbook (.xlsb).", _SAVE_AGAIN)
    if "mimetype" in names or ("[Content_Types].xml" in names and "xl/workbook.xml" not in names):
        raise DataError(f"{name} is an office file, but no Excel workbook (.xlsx).", _EXPORT)
    if "xl/workbook.xml" not in names:
        raise DataError(f"{name} is a zip archive, which is never unpacked here.", _UNPACK)
    if any(part.flag_bits & 1 for part in parts):
        raise DataError(f"{name} is an Excel workbook with a password.", "Save it without one.")
    if sum(part.file_size for part in parts) > limits.unpacked_bytes:
        most = limits.unpacked_bytes // 1_000_000
        what = f"{name} unpacks to more than the {most:,} MB that this place reads."
        raise LimitError(what, "Choose a part of it.")
    at_once = [part.file_size for part in parts if _AT_ONCE.fullmatch(part.filename)]
    if sum(at_once) > _MOST_AT_ONCE:
        raise LimitError(f"{name} holds too many styles or names of cells.", _EXPORT)


@contextmanager
def _opened(path: Path, name: str, *, formulas: bool = False) -> "Iterator[Workbook]":
    """A workbook whose cells are values, or the formulas that gave them."""
    from openpyxl import load_workbook

    # A file object: of a path, openpyxl looks at the ending.
    with path.open("rb") as file, warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of extensions that openpyxl would not write again
        try:
            book = load_workbook(file, read_only=True, data_only=not formulas, keep_links=False)
            if not book.worksheets:
                raise DataError(f"{name} is an Excel workbook without a sheet.", _EXPORT)
            yield book
        except HeadsError:
            raise
        except Exception as error:  # a damaged workbook raises whatever its XML leads to
            raise DataError(f"{name} is an Excel workbook, and damaged.", _SAVE_AGAIN) from error


def _cells(book: "Workbook", place: int) -> Iterator[tuple[int, Sequence[Any]]]:
    """The filled rows of a sheet with their numbers, whatever size the sheet claims to have."""
    from openpyxl.cell.read_only import EMPTY_CELL

    sheet: Any = book.worksheets[place]
    sheet.reset_dimensions()
    for number, cells in enumerate(sheet.iter_rows(max_row=_LAST_ROW), start=1):
        if any(cell is not EMPTY_CELL for cell in cells):
            yield number, cells


def _rows(
    book: "Workbook", place: int, name: str, limits: Limits
) -> tuple[list[list[str]], list[int], list[int]]:
    """The rows that are not empty, their numbers, and the numbers of those with errors."""
    rows, lines, errors = [], [], []
    for number, cells in _cells(book, place):
        row = ["" if cell.data_type == "e" else _text(cell.value) for cell in cells]
        if any(cell.data_type == "e" for cell in cells):
            errors.append(number)
        while row and not row[-1]:
            row.pop()
        if any(map(str.strip, row)):
            rows.append(row)
            lines.append(number)
            check_size(name, limits, rows=len(rows) - 1, columns=len(row))
    return rows, lines, errors


def _grid(rows: list[list[str]], lines: list[int], *, titled: bool) -> Grid:
    """The columns that are not empty, below rows of one cell if the names of columns follow."""
    many = (at for at, row in enumerate(rows) if sum(bool(cell.strip()) for cell in row) > 1)
    top = next(many, 0)
    if not titled or top > _TITLE_ROWS or not any(map(is_known, rows[top] if rows else ())):
        top = 0
    title = " ".join(cell.strip() for row in rows[:top] for cell in row if cell.strip())
    above, rows, lines = lines[:1], rows[top:], lines[top:]
    width = max(map(len, rows), default=0)
    for row in rows:
        row.extend([""] * (width - len(row)))
    filled = [at for at in range(width) if any(row[at].strip() for row in rows)]
    rows = [[row[at] for at in filled] for row in rows]
    return Grid(rows=rows, lines=lines, title=title, above=above, unit="row")


def _unsaved(book: "Workbook", place: int, rows: Mapping[int, Sequence[str]]) -> list[int]:
    """Numbers of rows with a formula that has no value, as programs other than Excel write them."""
    return [
        number
        for number, cells in _cells(book, place)
        if "" in rows.get(number, ("",)) and any(cell.data_type == "f" for cell in cells)
    ]


def _text(value: Any) -> str:
    """A value as a cell: 1.0 is 1, a day without a time is a date, true and false as in JSON."""
    if value is None:
        return ""
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, float) and value.is_integer() and abs(value) < _WHOLE:
        return str(int(value))
    if isinstance(value, datetime):
        return str(value.date() if value.time() == time() else value)
    # Excel's spelling of the line end that CSV files bring along.
    return str(value).replace("_x000D_", "\r")
