"""Excel workbooks (.xlsx): the cells of the first sheet to a `Table`.

openpyxl reads row by row, so that limits hold while reading. pandas.read_excel makes all rows as
wide as the widest before anybody can count them, and its other engine, calamine, ends the whole
process over a workbook of 5 kB with one cell in the last row and column.
"""

import contextlib
import io
import re
import warnings
import zipfile
import zlib
from collections.abc import Collection, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from datetime import datetime, time
from itertools import islice
from pathlib import Path
from time import thread_time
from typing import TYPE_CHECKING, Any

from heads import interruption
from heads.data.column_names import is_known
from heads.data.formats.table_stream import (
    NAMES_AGAIN,
    Grid,
    Row,
    RowScan,
    TableStream,
    pad_row,
    stream_grid,
    table_of,
    top_of,
)
from heads.data.table import (
    Finding,
    Table,
    check_size,
    check_unpacked,
    count,
    finding,
    short,
    where,
)
from heads.errors import DataError, HeadsError, LimitError
from heads.interruption import Interrupted
from heads.settings import current_limits

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
_TAG_BYTES = 250_000  # no cell of Excel has more
_LAST_ROW = 1_048_576  # of a sheet in Excel; a file may claim any
_TITLE_ROWS = 5
_WHOLE = 1e15  # whole numbers below are exact, and Excel shows them with all their digits


ERROR = "e"  # openpyxl's word for a cell that holds #N/A and the like


def read_excel(path: Path, header: bool | None = None) -> Table:
    """Read the first sheet of a workbook, as `open_table` does; macros in it are never run.

    Raises:
        DataError: It is another zip archive, is damaged, or its first sheet is empty.
        LimitError: It holds more than this place allows.
    """
    scan = _scan(path, is_whole=True)
    return table_of(_grid(scan, titled=header is not False)[0], header)


@dataclass(kw_only=True, slots=True)
class _Scan(RowScan):
    """One pass over the first sheet that is not hidden.

    Attributes:
        place: Which of the sheets it is.
        note: What it is called, and which were left out.
        width: The most cells of a row.
        findings: Warnings of cells that hold no value.
    """

    name: str
    place: int = 0
    note: str = ""
    width: int = 0
    findings: Sequence[Finding] = ()


def _scan(path: Path, *, is_whole: bool) -> _Scan:
    name = short(path.name, 60)
    _check_archive(path, name)
    scan, errors = _Scan(name=name, is_whole=is_whole), list[int]()
    with _open_book(path, name, current_limits().read_seconds) as book:
        which = _choose_sheet(book, scan)
        for number, cells in _cells(book, scan.place):
            if any(cell.data_type == ERROR for cell in cells):
                errors.append(number)
            if row := _texts(cells):
                scan.width = max(scan.width, len(row))
                check_size(name, rows=scan.count, columns=len(row))
                scan.add(number, row)
    unsaved = list(_without_results(path, name, scan.place))
    if not scan.rows and unsaved:
        raise DataError(f"In {name}, {which} holds formulas without their results.", _SAVE_AGAIN)
    if not scan.rows:
        hint = "Move the sheet with texts and labels to the front."
        raise DataError(f"In {name}, {which} is empty.", hint)
    scan.findings = _list_findings(errors, unsaved)
    return scan


def _choose_sheet(book: "Workbook", scan: _Scan) -> str:
    """Take the first sheet that is not hidden; return what it is called within a sentence."""
    shown = [sheet for sheet in book.worksheets if sheet.sheet_state == "visible"]
    sheet = (shown or book.worksheets)[0]
    scan.place, others = book.worksheets.index(sheet), len(book.worksheets) - 1
    which = f"the sheet '{short(sheet.title)}'"
    note = f"Read {which} of the Excel workbook"
    if others:
        first = "the first that is not hidden" if scan.place else "the first"
        note += f", {first}; {count(others, 'other sheet was', 'other sheets were')} left out"
    scan.note = f"{note}."
    return which


def _list_findings(errors: Sequence[int], unsaved: Sequence[int]) -> list[Finding]:
    """Return warnings of cells that hold no value."""
    findings: list[Finding] = []
    for kind, places, what in (
        ("errors", errors, "with an error such as #N/A, read as empty"),
        ("formulas", unsaved, "with formulas whose results were not saved, read as empty"),
    ):
        if places:
            says = f"{count(len(places), 'row')} {what}: {where(places, 'row')}."
            findings.append(finding(kind, f"{says} Mend them in Excel and save.", places))
    return findings


def _check_archive(path: Path, name: str) -> None:
    """Refuse other archives, and what unpacks to too much, by the list of what is in it.

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
    check_unpacked(name, sum(part.file_size for part in parts))
    at_once = [part.file_size for part in parts if _AT_ONCE.fullmatch(part.filename)]
    if sum(at_once) > _MOST_AT_ONCE:
        raise LimitError(f"{name} holds too many styles or names of cells.", _EXPORT)
    if current_limits().xml_tags:
        _check_xml(path, name)


def _check_xml(path: Path, name: str) -> None:
    """Refuse XML of too many tags, or of a long one, which a parser reads again and again."""
    tags = 0
    with zipfile.ZipFile(path) as archive:
        for part in archive.infolist():
            if part.filename.startswith("xl/media/"):
                continue
            # What is broken about a part is said where it is read.
            with suppress(zipfile.BadZipFile, zlib.error), archive.open(part) as file:
                while piece := file.read(_TAG_BYTES):
                    tags += piece.count(b"<")
                    is_long = len(piece) == _TAG_BYTES and b">" not in piece
                    if is_long or tags > current_limits().xml_tags:
                        raise LimitError(f"{name} holds more cells than are read here.", _EXPORT)


class _TimedFile(io.FileIO):
    """A file that its thread may read for so many seconds, also within a very long row."""

    def __init__(self, path: Path, name: str, seconds: int) -> None:
        super().__init__(path)
        self._title, self._seconds, self._start = name, seconds, thread_time()

    def read(self, size: int | None = -1, /) -> bytes:
        interruption.check()
        if self._seconds and thread_time() - self._start > self._seconds:
            what = f"{self._title} takes longer to read than the {self._seconds} seconds allowed."
            raise LimitError(what, _EXPORT)
        return super().read(-1 if size is None else size) or b""


@contextmanager
def _open_book(
    path: Path, name: str, seconds: int = 0, *, formulas: bool = False
) -> "Iterator[Workbook]":
    """A workbook whose cells are values, or the formulas that gave them."""
    from openpyxl import load_workbook

    # A file object: of a path, openpyxl looks at the ending.
    with _TimedFile(path, name, seconds) as file, warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of extensions that openpyxl would not write again
        try:
            book = load_workbook(file, read_only=True, data_only=not formulas, keep_links=False)
            if not book.worksheets:
                raise DataError(f"{name} is an Excel workbook without a sheet.", _EXPORT)
            yield book
        except (HeadsError, Interrupted):
            raise
        except Exception as error:  # a damaged workbook raises whatever its XML leads to
            raise DataError(f"{name} is an Excel workbook, and damaged.", _SAVE_AGAIN) from error


def _cells(book: "Workbook", place: int) -> Iterator[tuple[int, Sequence[Any]]]:
    """Yield the filled rows of a sheet with their numbers, whatever size it claims to have."""
    from openpyxl.cell.read_only import EMPTY_CELL

    sheet: Any = book.worksheets[place]
    sheet.reset_dimensions()
    for number, cells in enumerate(sheet.iter_rows(max_row=_LAST_ROW), start=1):
        if any(cell is not EMPTY_CELL for cell in cells):
            yield number, cells


def _texts(cells: Sequence[Any]) -> list[str]:
    """Return the cells of a row as texts, to the last that is filled; none of an empty row."""
    row = ["" if cell.data_type == ERROR else _text(cell.value) for cell in cells]
    while row and not row[-1]:
        row.pop()
    return row if any(map(str.strip, row)) else []


def _grid(scan: _Scan, *, titled: bool) -> tuple[Grid, list[int]]:
    """Return the columns that are not empty, and their places, below rows that are a title."""
    top = _titles(scan.rows) if titled else 0
    title = " ".join(cell.strip() for row in scan.rows[:top] for cell in row if cell.strip())
    rows = [pad_row(row, scan.width) for row in scan.rows[top:]]
    places = [at for at in range(scan.width) if any(row[at].strip() for row in rows)]
    grid = Grid(
        name=scan.name, rows=[[row[at] for at in places] for row in rows], lines=scan.lines[top:],
        title=title, above=scan.lines[:1], unit="row", notes=[scan.note],
        findings=scan.findings if scan.is_whole else (),
    )  # fmt: skip
    return grid, places


def _titles(rows: Sequence[Sequence[str]]) -> int:
    """Return how many rows of one cell stand above the names of columns."""
    many = (at for at, row in enumerate(rows) if sum(bool(cell.strip()) for cell in row) > 1)
    top = next(many, 0)
    is_named = top <= _TITLE_ROWS and any(map(is_known, rows[top] if rows else ()))
    return top if is_named else 0


def _text(value: Any) -> str:
    """Return a value as a cell: 1.0 is 1, a day without a time a date, booleans as in JSON."""
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


_FORMULA = re.compile(rb"<f[ >/]")


def _without_results(path: Path, name: str, place: int) -> Iterator[int]:
    """Yield the numbers of rows with a formula that has no value, which Excel always writes."""
    limits = current_limits()
    if not _has_formulas(path):
        return
    with (
        _open_book(path, name, limits.read_seconds) as values,
        _open_book(path, name, limits.read_seconds, formulas=True) as book,
    ):
        others = _cells(values, place)
        at, row = next(others, (_LAST_ROW + 1, ()))
        for number, cells in _cells(book, place):
            while at < number:
                at, row = next(others, (_LAST_ROW + 1, ()))
            known = row if at == number else ()
            empty = (n for n in range(len(cells)) if n >= len(known) or known[n].value is None)
            if any(cells[n].data_type == "f" for n in empty):
                yield number


def _has_formulas(path: Path) -> bool:
    """Return True if any sheet holds a formula, by its XML: nothing is made of it."""
    damage = (zipfile.BadZipFile, zlib.error, NotImplementedError, EOFError)
    with zipfile.ZipFile(path) as archive:
        for part in archive.infolist():
            if part.filename.startswith("xl/worksheets/") and part.filename.endswith(".xml"):
                # A damaged sheet is another one than is read, which would have been refused.
                with contextlib.suppress(*damage), archive.open(part) as file:
                    end = b""
                    while piece := file.read(1_000_000):
                        interruption.check()
                        if _FORMULA.search(end + piece):
                            return True
                        end = piece[-3:]
    return False


# --- A stream: cells keep their values, and how these are shown.


@dataclass(frozen=True, slots=True)
class SheetCell:
    """A cell of a sheet as a writer needs it: its value, how it is shown, and of which kind."""

    value: Any
    shown_as: str
    kind: str


def stream_excel(
    path: Path, header: bool | None = None, known: Collection[str] = ()
) -> TableStream:
    """Look through the first sheet of a workbook, as `open_stream` does; raise as `read_excel`."""
    scan = _scan(path, is_whole=False)
    grid, places = _grid(scan, titled=header is not False)
    if header is None and len(places) == len(grid.rows) == 1:
        header = False  # of a single cell that is a known name, too
    top = top_of(grid, header, known, is_one=len(places) == 1)
    top = replace(top, skipped=top.skipped + len(scan.rows) - len(grid.rows))
    blank, width = SheetCell(None, "", "n"), scan.width

    def read_rows() -> Iterator[Row]:
        with _open_book(path, scan.name) as book:
            filled_rows = (
                (n, cells, row) for n, cells in _cells(book, scan.place) if (row := _texts(cells))
            )
            for number, cells, row in islice(filled_rows, top.skipped, None):
                texts = pad_row(row, width)
                is_again = bool(top.names) and [texts[at] for at in places] == list(top.names)
                own = [
                    SheetCell(cell.value, cell.number_format, cell.data_type)
                    if cell.value is not None
                    else blank
                    for cell in cells[:width]
                ]
                own += [blank] * (width - len(own))
                yield Row(line=number, cells=texts, odd=NAMES_AGAIN if is_again else "", own=own)

    return stream_grid(scan, top, places, width, read_rows, form="excel", findings=scan.findings)
