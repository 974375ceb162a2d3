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
from dataclasses import dataclass, field, replace
from datetime import datetime, time
from itertools import islice
from pathlib import Path
from time import thread_time
from typing import TYPE_CHECKING, Any

from heads import interruption
from heads.data.column_names import is_known
from heads.data.formats.header import HEADER_ROWS, NAMES_AGAIN, Grid, Top, table_of, top_of
from heads.data.formats.table_stream import (
    TEXT,
    Row,
    Sampler,
    TableStream,
    blocked,
    filled,
    named_columns,
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
    grid = _grid(scan.rows, scan.lines, titled=header is not False)
    return table_of(grid, scan.name, header, [scan.note], scan.findings)


@dataclass(kw_only=True, slots=True)
class _Scan:
    """One pass over the first sheet that is not hidden.

    Attributes:
        place: Which of the sheets it is.
        note: What it is called, and which were left out.
        rows: The first rows that are not empty; all, for a table.
        lines: Their numbers.
        drawn: A sample of all rows.
        count: How many rows there are.
        width: The most cells of a row.
        findings: Warnings of cells that hold no value.
    """

    name: str
    place: int = 0
    note: str = ""
    rows: list[list[str]] = field(default_factory=list)
    lines: list[int] = field(default_factory=list)
    drawn: Sampler = field(default_factory=Sampler)
    count: int = 0
    width: int = 0
    findings: Sequence[Finding] = ()


def _scan(path: Path, *, is_whole: bool) -> _Scan:
    name = short(path.name, 60)
    _check_archive(path, name)
    scan, errors = _Scan(name=name), list[int]()
    with _open_book(path, name, current_limits().read_seconds) as book:
        which = _choose_sheet(book, scan)
        for number, cells in _cells(book, scan.place):
            if any(cell.data_type == ERROR for cell in cells):
                errors.append(number)
            if not (row := _texts(cells)):
                continue
            scan.count, scan.width = scan.count + 1, max(scan.width, len(row))
            check_size(name, rows=scan.count - 1, columns=len(row))
            if is_whole or len(scan.rows) <= HEADER_ROWS:
                scan.rows.append(row)
                scan.lines.append(number)
            if not is_whole:
                scan.drawn.add(number, row)
    unsaved = list(_without_results(path, name, scan.place))
    if not scan.rows:
        raise _no_rows(name, which, has_formulas=bool(unsaved))
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


def _no_rows(name: str, which: str, *, has_formulas: bool) -> DataError:
    if has_formulas:
        return DataError(f"In {name}, {which} holds formulas without their results.", _SAVE_AGAIN)
    hint = "Move the sheet with texts and labels to the front."
    return DataError(f"In {name}, {which} is empty.", hint)


def _list_findings(errors: Sequence[int], unsaved: Sequence[int]) -> list[Finding]:
    """Warnings of cells that hold no value."""
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
    """The filled rows of a sheet with their numbers, whatever size the sheet claims to have."""
    from openpyxl.cell.read_only import EMPTY_CELL

    sheet: Any = book.worksheets[place]
    sheet.reset_dimensions()
    for number, cells in enumerate(sheet.iter_rows(max_row=_LAST_ROW), start=1):
        if any(cell is not EMPTY_CELL for cell in cells):
            yield number, cells


def _texts(cells: Sequence[Any]) -> list[str]:
    """The cells of a row as texts, to the last that is filled; none of an empty row."""
    row = ["" if cell.data_type == ERROR else _text(cell.value) for cell in cells]
    while row and not row[-1]:
        row.pop()
    return row if any(map(str.strip, row)) else []


def _grid(rows: list[list[str]], lines: list[int], *, titled: bool) -> Grid:
    """The columns that are not empty, below rows of one cell if the names of columns follow."""
    top = _titles(rows) if titled else 0
    title = " ".join(cell.strip() for row in rows[:top] for cell in row if cell.strip())
    above, rows, lines = lines[:1], rows[top:], lines[top:]
    width = max(map(len, rows), default=0)
    for row in rows:
        row.extend([""] * (width - len(row)))
    filled = [at for at in range(width) if any(row[at].strip() for row in rows)]
    rows = [[row[at] for at in filled] for row in rows]
    return Grid(rows=rows, lines=lines, title=title, above=above, unit="row")


def _titles(rows: Sequence[Sequence[str]]) -> int:
    """How many rows of one cell stand above the names of columns."""
    many = (at for at, row in enumerate(rows) if sum(bool(cell.strip()) for cell in row) > 1)
    top = next(many, 0)
    is_named = top <= _TITLE_ROWS and any(map(is_known, rows[top] if rows else ()))
    return top if is_named else 0


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
    width = scan.width
    # The columns of the grid: what stands in the titles alone, or is blank, has no name.
    below = scan.rows[_titles(scan.rows) if header is not False else 0 :]
    places = [at for at in range(width) if any("".join(row[at : at + 1]).strip() for row in below)]
    top = _top(scan, header, known)
    names = dict(zip(places, top.table.columns, strict=True))
    if len(places) == 1 and not top.table.has_header:
        names = {places[0]: TEXT}
    columns = named_columns(width, names)
    before = scan.lines[top.skipped - 1] if top.skipped else 0
    rows = [(number, filled(row, width)) for number, row in scan.drawn.drawn() if number > before]
    table = replace(
        top.table, columns=columns, rows=[row for _, row in rows],
        lines=[number for number, _ in rows],
        unnamed=top.table.unnamed | {columns[at] for at in range(width) if at not in names},
        findings=(*top.table.findings, *scan.findings),
    )  # fmt: skip
    titles = dict(zip(places, top.names, strict=True)) if top.names else names
    return TableStream(
        name=scan.name, form="excel", columns=columns, sample=table, notes=(scan.note,),
        titles=tuple(titles.get(at, "") for at in range(width)), rows=scan.count - top.skipped,
        blocks=lambda most: blocked(_read_rows(path, scan, top, places), most),
    )  # fmt: skip


def _top(scan: _Scan, header: bool | None, known: Collection[str]) -> Top:
    """Return what the first rows say; of titles above the names as well."""
    rows = [list(row) for row in scan.rows]
    titles = _titles(rows) if header is not False else 0
    grid = _grid(rows, scan.lines, titled=header is not False)
    if header is None and any(cell.strip() in known for cell in grid.rows[0]):
        header = True
    if header is None and len(grid.rows[0]) == 1:
        header = len(grid.rows) > 1 and is_known(grid.rows[0][0])
    top = top_of(grid, scan.name, header, [scan.note])
    return replace(top, skipped=top.skipped + titles)


def _read_rows(path: Path, scan: _Scan, top: Top, places: Sequence[int]) -> Iterator[Row]:
    blank, width = SheetCell(None, "", "n"), scan.width
    with _open_book(path, scan.name) as book:
        filled_rows = (
            (n, cells, row) for n, cells in _cells(book, scan.place) if (row := _texts(cells))
        )
        for number, cells, row in islice(filled_rows, top.skipped, None):
            texts = filled(row, width)
            is_again = bool(top.names) and [texts[at] for at in places] == list(top.names)
            own = [
                blank
                if cell.value is None
                else SheetCell(cell.value, cell.number_format, cell.data_type)
                for cell in cells[:width]
            ]
            own += [blank] * (width - len(own))
            yield Row(line=number, cells=texts, odd=NAMES_AGAIN if is_again else "", own=own)
