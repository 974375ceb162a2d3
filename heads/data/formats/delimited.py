"""Text with cells separated by a sign (CSV, TSV and their kin) to a `Table`."""

import contextlib
import csv
import re
import sys
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from itertools import islice
from typing import Literal

from heads.data.column_names import is_known
from heads.data.formats.table_stream import (
    NAMES_AGAIN,
    WRONG_COUNT,
    Delimited,
    Grid,
    Row,
    RowScan,
    TableStream,
    pad_row,
    stream_grid,
    table_of,
    top_of,
)
from heads.data.table import Finding, Table, check_size, count, finding, where
from heads.errors import DataError

# --- Which sign parts the cells of a file.
#
# csv.Sniffer, which pandas asks too, finds blanks or points in five of the seven tables of messy/
# (isear_pipe.csv, stsb_dev_tabs_named_csv.csv, …), and a ' for the quote in sst2/train.csv.

DELIMITERS = {",": "commas", "\t": "tabs", ";": "semicolons", "|": "vertical bars"}
_HINT = re.compile(r'"?sep=(.)"?\r?\n', re.I)  # Excel writes and reads this first line
_LINE = re.compile(r"[^\r\n]*(?:\r\n|\r|\n)|[^\r\n]+")
_SAMPLE_ROWS = 400
_SAMPLE_LINES = 2_000
_TITLE_LINES = 5
_EVEN = 0.9
# A line whose cells are all in single quotes, and one that holds such a cell beside a sign.
_QUOTED = re.compile(r"'(?:[^']|'')*'(?:[,;\t|] ?'(?:[^']|'')*')+")
_HELD = re.compile(r"^'.*'[,;\t|]|[,;\t|] ?'.*'$")


def lines_of(text: str) -> Iterator[str]:
    r"""Yield the lines of a text with their ends, whichever of \n, \r\n and \r they are.

    str.splitlines also parts at the form feeds and U+2028 that texts hold.
    """
    return (found.group() for found in _LINE.finditer(text))


@dataclass(frozen=True, slots=True, kw_only=True)
class Dialect:
    """The signs by which a text is split into cells.

    Attributes:
        start: How many letters of the text come before the table.
        title: What stands there, where it is more than a hint for Excel.
    """

    delimiter: str
    quote: str = '"'
    start: int = 0
    title: str = ""


def choose_dialect(text: str) -> Dialect:
    """Return the signs that part and quote the cells, and where the table begins."""
    hint = _HINT.match(text)
    if hint:
        return Dialect(delimiter=hint[1], start=hint.end())
    quote = "'" if _in_single_quotes(text) else '"'
    sign, score = _best(text, quote)
    if score >= (_EVEN, True):
        return Dialect(delimiter=sign, quote=quote)
    start = 0
    for line in islice(lines_of(text), _TITLE_LINES):
        if any(is_known(cell) for one in DELIMITERS for cell in line.strip().split(one)):
            break
        start += len(line)
        below = text[start:]
        other, even = _best(below, quote)
        # A title is surely one where names that are known follow it, and even rows these.
        if even >= (_EVEN, True):
            return Dialect(
                delimiter=other, quote=quote, start=start, title=" ".join(text[:start].split())
            )
    return Dialect(delimiter=sign, quote=quote)


def _best(text: str, quote: str) -> tuple[str, tuple[float, bool]]:
    """Return the sign that parts a text best, and how well it does."""
    scores = {sign: _evenness(text, sign, quote) for sign in DELIMITERS}
    best = max(scores, key=lambda sign: scores[sign])  # the first of equals
    return best, scores[best]


def _in_single_quotes(text: str) -> bool:
    """Return True if all cells of the first line, and cells of nearly all others, are in '."""
    lines = [line.rstrip("\r\n") for line in islice(lines_of(text), _SAMPLE_ROWS)]
    filled = [line for line in lines if line.strip()]
    if len(filled) < 2 or not _QUOTED.fullmatch(filled[0]):
        return False
    return sum(bool(_HELD.search(line)) for line in filled) >= _EVEN * len(filled)


def _evenness(text: str, delimiter: str, quote: str) -> tuple[float, bool]:
    """Return the share of rows as wide as the first, and whether it holds known names."""
    best = (0.0, False)
    for quoting in (csv.QUOTE_MINIMAL, csv.QUOTE_NONE):
        lines = islice(lines_of(text[: 64 * 1024 * 16]), _SAMPLE_LINES)
        rows = []
        try:
            reader = csv.reader(lines, delimiter=delimiter, quotechar=quote, quoting=quoting)
            rows = [row for row in islice(reader, _SAMPLE_ROWS) if row]
        except csv.Error:
            pass  # what was read so far is enough to compare
        if rows and len(rows[0]) > 1:
            even = sum(len(row) == len(rows[0]) for row in rows) / len(rows)
            best = max(best, (round(even, 1), any(map(is_known, rows[0]))))
        elif rows and all(len(row) == 1 and "\n" not in row[0] for row in rows):
            break  # the sign stands in quoted cells only, whose quotes come in pairs
    return best


# --- Cells, with the line on which each row begins: csv knows it. pandas does not, and pyarrow
# numbers the rows that it leaves out, not their lines (hostile/c24_quoted_newlines.csv).

_MOST_RAGGED = 0.1
_CELL_CHARACTERS = 16_000_000
TAKES_ZEROS = sys.version_info >= (3, 11)
# The parser's own limit holds for the whole process and for cells that are merely cut here.
csv.field_size_limit(_CELL_CHARACTERS)


@dataclass(frozen=True, slots=True, kw_only=True)
class CsvFormat:
    """How lines become rows of cells.

    Attributes:
        quoting: `csv.QUOTE_MINIMAL`, or `csv.QUOTE_NONE` where quotes are part of the texts.
        escape: What stands for a quote in a cell besides two of them; "" for nothing.
    """

    delimiter: str
    quote: str = '"'
    quoting: Literal[0, 3] = csv.QUOTE_MINIMAL
    escape: str = ""

    def rows(self, lines: Iterable[str], name: str) -> Iterator[tuple[int, list[str]]]:
        """Yield rows, also empty ones, with the lines on which they begin, or raise DataError."""
        start = 1
        reader = csv.reader(
            map(self._plain, lines), delimiter=self.delimiter, quotechar=self.quote,
            quoting=self.quoting, strict=True,
        )  # fmt: skip
        try:
            for row in reader:
                yield start, row
                start = reader.line_num + 1
        except csv.Error as error:
            raise _broken(name, start, reader.line_num, str(error)) from None

    def _plain(self, line: str) -> str:
        if self.escape:
            line = line.replace(self.escape, self.quote * 2)
        # Before 3.11 the parser stops at a zero byte; any control character is removed later.
        return line if TAKES_ZEROS else line.replace("\0", "\x01")


ONE = "\x1f"  # parts units in no text; where a file has one column nothing parts its cells


@dataclass(frozen=True, slots=True, kw_only=True)
class _Split:
    """The split of a text into rows; without a `reading` each of its lines is one text."""

    reading: CsvFormat | None
    lines: Callable[[], Iterator[str]]
    name: str
    is_one: bool = False

    def rows(self) -> Iterator[tuple[int, list[str]]]:
        """Yield rows with their lines, without lines on which there is none."""
        if self.reading is None:
            for number, line in enumerate(self.lines(), start=1):
                yield number, [line.rstrip("\r\n")]
            return
        for line, row in self.reading.rows(self.lines(), self.name):
            if self.is_one:
                if row:
                    yield line, [ONE.join(row)]
            elif len(row) > 1 or (row and row[0].strip()):
                yield line, row


@dataclass(kw_only=True, slots=True)
class _Scan(RowScan):
    """One pass over all rows of a delimited file, each as wide as the first where that can be.

    Attributes:
        ragged: How many differ from the first in their number of cells.
        is_odd: Whether a cell holds a line end and the delimiter: it may be two rows.
        widest: The most cells of a row.
        odd: The number of cells of rows that cannot be made as wide as the first, by line.
    """

    split: _Split
    ragged: int = 0
    is_odd: bool = False
    widest: int = 0
    odd: dict[int, int] = field(default_factory=dict)
    title: str = ""
    notes: list[str] = field(default_factory=list)
    findings: Sequence[Finding] = ()

    @property
    def width(self) -> int:
        return len(self.rows[0])

    def run(self) -> "_Scan":
        """Read all rows; raise DataError for quotes that do not fit, LimitError for too many."""
        reading = self.split.reading
        sign = ONE if reading is None else reading.delimiter
        first: list[str] = []
        for line, row in self.split.rows():
            first = first or row
            fitted = row
            if len(row) != len(first):
                self.ragged += 1
                fitted = _fitted(row, first)
                if len(fitted) != len(first):
                    self.odd[line] = len(row)
            self.is_odd = self.is_odd or any("\n" in cell and sign in cell for cell in row)
            self.widest = max(self.widest, len(fitted))
            # The first row may name the columns; of a table only its width counts.
            columns = len(first) if self.is_whole else self.widest
            check_size(self.split.name, rows=self.count, columns=columns)
            self.add(line, fitted)
        return self

    def check(self) -> None:
        """Raise DataError for an empty file, or if over a tenth of the rows are odd."""
        if not self.rows:
            raise nothing_in(self.split.name)
        if len(self.odd) > _MOST_RAGGED * self.count:
            line, cells = next(iter(self.odd.items()))
            what = (
                f"Line {line} of {self.split.name} has {count(cells, 'cell')} where the first has "
                f"{self.width}; {len(self.odd):,} of {self.count:,} rows do not have {self.width}."
            )
            hint = "Use one delimiter and quote cells that contain it."
            raise DataError(what, hint, line=line)

    def grid(self, rows: list[list[str]], lines: list[int]) -> Grid:
        """Return rows of this scan with what is known of the file."""
        return Grid(
            name=self.split.name, rows=rows, lines=lines, title=self.title, notes=self.notes,
            findings=self.findings, odd=tuple(self.odd) if self.is_whole else (),
        )  # fmt: skip


def _scan_quoted(split: _Split, *, quote: str, is_whole: bool) -> _Scan:
    r"""Read rows with quotes; where these do not add up, as they stand or with escapes.

    In messy/msr_paraphrase_train_bom.txt and messy/stsb_dev_tabs_named_csv.csv quotes do not come
    in pairs, and pandas loses 138 and 35 rows within others; in hostile/c27_backslash_escapes.csv
    and c23_unclosed_quote.csv it loses texts. It says nothing of either.

    Raises:
        DataError: Quotes do not fit, however they are read; names the line.
    """
    usual = split.reading
    assert usual is not None
    sign = usual.delimiter

    def scan(reading: CsvFormat) -> _Scan:
        return _Scan(split=replace(split, reading=reading), is_whole=is_whole).run()

    if quote != '"':
        return scan(replace(usual, quote=quote, escape="\\" + quote))
    paired, error = None, None
    try:
        paired = scan(usual)
    except DataError as broken:
        error = broken
    is_odd = paired is None or paired.is_odd
    if is_odd and sign in "\t|" and not next(iter(split.lines()), "").startswith('"'):
        bare = scan(replace(usual, quoting=csv.QUOTE_NONE))
        if bare.ragged <= (_MOST_RAGGED * bare.count if error else 0):
            bare.findings = [_unpaired(split.name)]
            return bare
    if paired:
        return paired
    lines = [number for number, line in enumerate(split.lines(), start=1) if '\\"' in line]
    with contextlib.suppress(DataError):
        if lines and not (escaped := scan(replace(usual, escape='\\"'))).ragged:
            says = f'Read \\" as a quote inside a cell: {where(lines)}. Write it as "" to be safe.'
            escaped.findings = [finding("backslash", says, lines)]
            return escaped
    assert error is not None
    raise error


def _unpaired(name: str) -> Finding:
    says = f"Quotes in {name} do not come in pairs; they were read as part of the texts."
    return finding("quotes", says)


def nothing_in(name: str) -> DataError:
    """Return the error of a file without a letter."""
    return DataError(f"{name}: The file is empty.", "Choose one with rows.")


def _broken(name: str, start: int, end: int, error: str) -> DataError:
    """Return what is wrong with a quote, and where."""
    if "field limit" in error:
        what = f"The cell that begins on line {start} of {name} is too long."
        return DataError(what, "Is a closing quote missing?", line=start)
    if end > start or "unexpected end" in error:
        what = f"The quote opened on line {start} of {name} is never closed."
        return DataError(what, "Close it, or double a quote that is part of the text.", line=start)
    what = f"Line {start} of {name} has a quote in the middle of a quoted cell."
    return DataError(what, 'Write a quote that is part of the text as "".', line=start)


def _fitted(row: list[str], first: Sequence[str]) -> list[str]:
    """Return a row with empty cells at its end taken away or added, where that gives it its width.

    Where the first row ends in an empty cell all rows do (messy/isear_pipe.csv), and one more is
    one too many.
    """
    width = len(first)
    if len(row) > width and first[-1].strip() and not any(cell.strip() for cell in row[width:]):
        return row[:width]
    if len(row) < width and not any(cell.strip() for cell in first[len(row) :]):
        return row + [""] * (width - len(row))
    return row


# --- A file: a table where all of it is kept, a stream where it is read again row by row.

_FEW_LINES = 5
_HEAD_CHARACTERS = 4 * 64 * 1024 * 16


@dataclass(frozen=True, slots=True, kw_only=True)
class TextSource:
    """The text of a file, of which only its beginning is in memory.

    Attributes:
        lines: Gives its lines with their ends, from the first.
        head: Its first millions of letters.
    """

    lines: Callable[[], Iterator[str]]
    head: str
    facts: Delimited
    notes: Sequence[str] = ()
    findings: Sequence[Finding] = ()


def head_of(lines: Iterable[str]) -> str:
    """Return the beginning of a text: as much as is looked at to see what it is."""
    head, size = [], 0
    for line in lines:
        head.append(line)
        size += len(line)
        if size > _HEAD_CHARACTERS:
            break
    return "".join(head)


def read_delimited(source: TextSource, name: str, header: bool | None = None) -> Table:
    """Read cells separated by commas, tabs, semicolons or vertical bars.

    pandas fills up the short rows of hostile/c22_ragged_rows.csv in silence; they are left out.

    Raises:
        DataError: Quotes or numbers of cells do not fit; names the line.
        LimitError: More rows or columns than this place allows.
    """
    scan = _scan(source, name, choose_dialect(source.head), is_whole=True)
    scan.check()
    rows = [row for line, row in zip(scan.lines, scan.rows, strict=True) if line not in scan.odd]
    lines = [line for line in scan.lines if line not in scan.odd]
    return table_of(scan.grid(rows, lines), header)


def stream_delimited(
    source: TextSource,
    name: str,
    header: bool | None = None,
    known: Collection[str] = (),
    *,
    of_lines: bool = False,
    may_be_lines: bool = False,
) -> TableStream:
    """Look through cells separated by a sign, or lines of text; raise as `read_delimited` does.

    Args:
        header, known, of_lines: As of `open_stream`.
        may_be_lines: Whether each line is one text where no sign parts the lines evenly.
    """
    lines = _Split(reading=None, lines=source.lines, name=name, is_one=True)
    notes = []
    if not of_lines:
        try:
            return _stream(_scan_rows(source, name, header), source, header, known)
        except DataError:
            if not may_be_lines or _has_names(source.head):
                raise
        notes = ["No sign parts its lines evenly: each was read as one text."]
    scan = _Scan(split=lines, is_whole=False, notes=notes).run()
    return _stream(scan, source, header, known)


def _scan_rows(source: TextSource, name: str, header: bool | None) -> _Scan:
    """Scan the rows of a stream, which may be of one column of texts that hold commas."""
    dialect = choose_dialect(source.head)
    if not is_one_column(source.head, dialect):
        if header is False and dialect.title:
            dialect = replace(dialect, start=0, title="")
        return _scan(source, name, dialect, is_whole=False)
    quoted = CsvFormat(delimiter=ONE)
    split = _Split(reading=quoted, lines=source.lines, name=name, is_one=True)
    try:
        return _Scan(split=split, is_whole=False).run()
    except DataError:
        bare = replace(split, reading=None)
        return _Scan(split=bare, is_whole=False, findings=[_unpaired(name)]).run()


def _scan(source: TextSource, name: str, dialect: Dialect, *, is_whole: bool) -> _Scan:
    before = sum(1 for _ in lines_of(source.head[: dialect.start]))

    def lines() -> Iterator[str]:
        # Empty ones in the place of a title, so that all that come after keep their numbers.
        lines = source.lines()
        yield from ("\n" for _ in islice(lines, before))
        yield from lines

    split = _Split(reading=CsvFormat(delimiter=dialect.delimiter), lines=lines, name=name)
    scan = _scan_quoted(split, quote=dialect.quote, is_whole=is_whole)
    scan.title = dialect.title
    if dialect.delimiter != ",":
        sign = DELIMITERS.get(dialect.delimiter, repr(dialect.delimiter))
        scan.notes.append(f"Separator: {sign}.")
    if dialect.quote != '"':
        scan.notes.append("Cells are in single quotes.")
    return scan


def _has_names(head: str) -> bool:
    """Return True if the first row of a text names columns as labelled tables do."""
    return _best(head, '"')[1][1]


def is_one_column(head: str, dialect: Dialect) -> bool:
    """Return True if no sign parts the first row of a text, which is no title of others either."""
    if dialect.title and not _has_names(head[dialect.start :]):
        below = islice(lines_of(head[dialect.start :]), _FEW_LINES)
        return sum(1 for _ in below) < _FEW_LINES  # that they are even is chance
    return not dialect.start and _best(head, dialect.quote)[1][0] == 0.0


def _stream(
    scan: _Scan, source: TextSource, header: bool | None, known: Collection[str]
) -> TableStream:
    scan.check()
    split, width = scan.split, scan.width
    grid = scan.grid([pad_row(row, width)[:width] for row in scan.rows], scan.lines)
    top = top_of(grid, header, known, is_one=split.is_one)
    few, findings = [line for line, cells in scan.odd.items() if cells < width], []
    if few:
        have = "has" if len(few) == 1 else "have"
        says = f"{count(len(few), 'row')} {have} fewer cells than there are columns: {where(few)}."
        findings = [finding("few_cells", f"{says} They were filled with empty ones.", few)]

    def read_rows() -> Iterator[Row]:
        for line, row in islice(split.rows(), top.skipped, None):
            fitted = _fitted(row, scan.rows[0])
            odd = WRONG_COUNT if len(fitted) > width else ""
            if top.names and fitted == top.names:
                odd = NAMES_AGAIN
            yield Row(line=line, cells=pad_row(fitted, scan.widest), odd=odd)

    places = range(scan.widest)
    delimiter = split.reading.delimiter if split.reading else ONE
    facts = replace(source.facts, delimiter="," if delimiter == ONE else delimiter)
    return stream_grid(
        scan, top, places, scan.widest, read_rows, form="delimited", findings=findings, facts=facts
    )
