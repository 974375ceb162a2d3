"""Text with cells separated by a sign (CSV, TSV and their kin) to a `Table`."""

import contextlib
import csv
import re
import sys
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import islice
from typing import Literal

from heads.data.column_names import is_known
from heads.data.formats.header import (
    HEADER_ROWS,
    NAMES_AGAIN,
    WRONG_COUNT,
    Grid,
    Top,
    table_of,
    top_of,
)
from heads.data.formats.table_stream import (
    TEXT,
    Delimited,
    Row,
    Sampler,
    TableStream,
    blocked,
    filled,
    named_columns,
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
    r"""The lines of a text with their ends, whichever of \n, \r\n and \r they are.

    str.splitlines also parts at the form feeds and U+2028 that texts hold.
    """
    return (found.group() for found in _LINE.finditer(text))


@dataclass(frozen=True, slots=True, kw_only=True)
class Dialect:
    """The signs by which a text is split into cells.

    Attributes:
        delimiter: The sign between cells.
        quote: The sign around a cell that holds it.
        start: How many letters of the text come before the table.
        title: What stands there, where it is more than a hint for Excel.
    """

    delimiter: str
    quote: str = '"'
    start: int = 0
    title: str = ""


def choose_dialect(text: str) -> Dialect:
    """The signs that part and quote the cells, and where the table begins."""
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
    """The sign that parts a text best, and how well it does."""
    scores = {sign: _evenness(text, sign, quote) for sign in DELIMITERS}
    best = max(scores, key=lambda sign: scores[sign])  # the first of equals
    return best, scores[best]


def _in_single_quotes(text: str) -> bool:
    """Whether all cells of the first line, and cells of nearly all others, are in '."""
    lines = [line.rstrip("\r\n") for line in islice(lines_of(text), _SAMPLE_ROWS)]
    filled = [line for line in lines if line.strip()]
    if len(filled) < 2 or not _QUOTED.fullmatch(filled[0]):
        return False
    return sum(bool(_HELD.search(line)) for line in filled) >= _EVEN * len(filled)


def _evenness(text: str, delimiter: str, quote: str) -> tuple[float, bool]:
    """The share of rows with as many cells as the first, and whether it holds known names."""
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
        delimiter: The sign between cells.
        quote: The sign around a cell that holds it.
        quoting: `csv.QUOTE_MINIMAL`, or `csv.QUOTE_NONE` where quotes are part of the texts.
        escape: What stands for a quote in a cell besides two of them; "" for nothing.
    """

    delimiter: str
    quote: str = '"'
    quoting: Literal[0, 3] = csv.QUOTE_MINIMAL
    escape: str = ""

    def rows(self, lines: Iterable[str], name: str) -> Iterator[tuple[int, list[str]]]:
        """Yield rows with the line on which each begins; an empty line is a row without cells.

        Raises:
            DataError: Quotes do not fit; names the line.
        """
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


@dataclass(frozen=True, slots=True, kw_only=True)
class Shape:
    """What is counted of the rows that a reading gives.

    Attributes:
        rows: How many there are, without empty lines.
        ragged: How many differ from the first in their number of cells.
        is_odd: Whether a cell holds a line end and the sign between cells: it may be two rows.
    """

    rows: int
    ragged: int
    is_odd: bool


def shape_of(rows: Iterable[Sequence[str]], sign: str) -> Shape:
    """Counts rows, without keeping them."""
    count = ragged = width = 0
    is_odd = False
    for row in rows:
        width = width or len(row)
        count += 1
        ragged += len(row) != width
        is_odd = is_odd or any("\n" in cell and sign in cell for cell in row)
    return Shape(rows=count, ragged=ragged, is_odd=is_odd)


def settled(
    shape: Callable[[CsvFormat], Shape],
    lines: Callable[[], Iterable[str]],
    dialect: Dialect,
    name: str,
) -> tuple[CsvFormat, list[Finding]]:
    r"""How a text is read: with quotes; where they do not add up, as they stand or with escapes.

    In messy/msr_paraphrase_train_bom.txt and messy/stsb_dev_tabs_named_csv.csv quotes do not come
    in pairs, and pandas loses 138 and 35 rows within others; in hostile/c27_backslash_escapes.csv
    and c23_unclosed_quote.csv it loses texts. It says nothing of either.

    Args:
        shape: Reads the text so, and says what that gives.
        lines: Gives the lines of the text, from the first.

    Raises:
        DataError: Quotes do not fit, however they are read; names the line.
    """
    sign, quote = dialect.delimiter, dialect.quote
    if quote != '"':
        return CsvFormat(delimiter=sign, quote=quote, escape="\\" + quote), []
    usual, error = CsvFormat(delimiter=sign), None
    try:
        found = shape(usual)
    except DataError as broken:
        found, error = None, broken
    is_odd = found is None or found.is_odd
    if is_odd and sign in "\t|" and not next(iter(lines()), "").startswith('"'):
        bare = CsvFormat(delimiter=sign, quoting=csv.QUOTE_NONE)
        plain = shape(bare)
        if plain.ragged <= (_MOST_RAGGED * plain.rows if error else 0):
            says = f"Quotes in {name} do not come in pairs; they were read as part of the texts."
            return bare, [finding("quotes", says)]
    if error is None:
        return usual, []
    escaped = CsvFormat(delimiter=sign, escape='\\"')
    places = [number for number, line in enumerate(lines(), start=1) if '\\"' in line]
    with contextlib.suppress(DataError):
        if places and not shape(escaped).ragged:
            says = f'Read \\" as a quote inside a cell: {where(places)}. Write it as "" to be safe.'
            return escaped, [finding("backslash", says, places)]
    raise error


def read_delimited(text: str, name: str, header: bool | None = None) -> Table:
    """Reads cells separated by commas, tabs, semicolons or vertical bars.

    Args:
        header: Whether the first line names the columns; None finds out.

    Raises:
        DataError: Quotes or numbers of cells do not fit; names the line.
        LimitError: More rows or columns than this place allows.
    """
    dialect = choose_dialect(text)
    # Empty lines, so that all that come after keep their numbers.
    before = sum(1 for _ in lines_of(text[: dialect.start]))
    text = "\n" * before + text[dialect.start :]
    grids: dict[CsvFormat, Grid] = {}

    def shape(reading: CsvFormat) -> Shape:
        grids[reading] = grid = _parsed(text, reading, name)
        return shape_of(grid.rows, reading.delimiter)

    reading, findings = settled(shape, lambda: lines_of(text), dialect, name)
    grid = grids.get(reading) or _parsed(text, reading, name)
    even = _even(grid, name, dialect.title)
    return table_of(even, name, header, notes_on(dialect), findings)


def notes_on(dialect: Dialect) -> list[str]:
    """What one should know of the signs in a file."""
    notes = []
    if dialect.delimiter != ",":
        sign = DELIMITERS.get(dialect.delimiter, repr(dialect.delimiter))
        notes.append(f"Separator: {sign}.")
    if dialect.quote != '"':
        notes.append("Cells are in single quotes.")
    return notes


def _parsed(text: str, reading: CsvFormat, name: str) -> Grid:
    grid = Grid(rows=[], lines=[])
    for line, row in _Parting(reading=reading, lines=lambda: lines_of(text), name=name).rows():
        grid.rows.append(row)
        grid.lines.append(line)
        # The first row may name the columns, and only its width is that of the table.
        check_size(name, rows=len(grid.rows) - 1, columns=len(grid.rows[0]))
    if not grid.rows:
        raise nothing_in(name)
    return grid


def nothing_in(name: str) -> DataError:
    """What is said of a file without a letter, whether it is to be learned from or answered."""
    return DataError(f"{name}: The file is empty.", "Choose one with rows.")


def _broken(name: str, start: int, end: int, error: str) -> DataError:
    """What is wrong with a quote, and where."""
    if "field limit" in error:
        what = f"The cell that begins on line {start} of {name} is too long."
        return DataError(what, "Is a closing quote missing?", line=start)
    if end > start or "unexpected end" in error:
        what = f"The quote opened on line {start} of {name} is never closed."
        return DataError(what, "Close it, or double a quote that is part of the text.", line=start)
    what = f"Line {start} of {name} has a quote in the middle of a quoted cell."
    return DataError(what, 'Write a quote that is part of the text as "".', line=start)


def _even(grid: Grid, name: str, title: str) -> Grid:
    """Rows of equal length, and the lines of those that were left out.

    pandas fills up the short rows of hostile/c22_ragged_rows.csv in silence.
    """
    first, even, odd = grid.rows[0], Grid(rows=[], lines=[], title=title), {}
    for line, row in zip(grid.lines, grid.rows, strict=True):
        fitted = _fitted(row, first)
        if len(fitted) != len(first):
            odd[line] = len(row)
        else:
            even.rows.append(fitted)
            even.lines.append(line)
    check_even(name, odd, len(grid.rows), len(first))
    return replace(even, odd=tuple(odd))


def check_even(name: str, odd: Mapping[int, int], rows: int, width: int) -> None:
    """Raise DataError if over a tenth of the rows have another number of cells (`odd`, by line)."""
    if len(odd) > _MOST_RAGGED * rows:
        line, cells = next(iter(odd.items()))
        what = (
            f"Line {line} of {name} has {count(cells, 'cell')} where the first has {width}; "
            f"{len(odd):,} of {rows:,} rows do not have {width}."
        )
        raise DataError(what, "Part all cells by one sign; quote cells that hold it.", line=line)


def _fitted(row: list[str], first: Sequence[str]) -> list[str]:
    """A row with empty cells at its end taken away or added, where that gives it its width.

    Where the first row ends in an empty cell all rows do (messy/isear_pipe.csv), and one more is
    one too many.
    """
    width = len(first)
    if len(row) > width and first[-1].strip() and not any(cell.strip() for cell in row[width:]):
        return row[:width]
    if len(row) < width and not any(cell.strip() for cell in first[len(row) :]):
        return row + [""] * (width - len(row))
    return row


# --- The same as a stream, of which no row is left out.

ONE = "\x1f"  # parts units in no text; where a file has one column nothing parts its cells
_FEW_LINES = 5
_HEAD_CHARACTERS = 4 * 64 * 1024 * 16


@dataclass(frozen=True, slots=True, kw_only=True)
class TextSource:
    """The text of a file, of which only its beginning is in memory.

    Attributes:
        lines: Gives its lines with their ends, from the first.
        head: Its first millions of letters.
        facts: How it was written.
    """

    lines: Callable[[], Iterator[str]]
    head: str
    facts: Delimited


def head_of(lines: Iterable[str]) -> str:
    """Return the beginning of a text: as much as is looked at to see what it is."""
    found, size = [], 0
    for line in lines:
        found.append(line)
        size += len(line)
        if size > _HEAD_CHARACTERS:
            break
    return "".join(found)


@dataclass(kw_only=True, slots=True)
class _Parting:
    """The split of a text into rows; without a `reading` each of its lines is one text."""

    reading: CsvFormat | None
    lines: Callable[[], Iterator[str]]
    name: str
    title: str = ""
    is_one: bool = False
    notes: list[str] = field(default_factory=list)
    findings: list[Finding] = field(default_factory=list)

    def rows(self) -> Iterator[tuple[int, list[str]]]:
        """The rows with their lines, without lines on which there is none."""
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


def stream_delimited(
    source: TextSource,
    name: str,
    header: bool | None = None,
    known: Collection[str] = (),
    *,
    of_lines: bool = False,
    may_be_lines: bool = False,
) -> TableStream:
    """Looks through cells separated by a sign, or through a text of which each line is a row.

    Args:
        header: Whether the first line names the columns; None finds out.
        known: Names of columns: a first row that holds one names all of them.
        of_lines: Whether each line is one text, whatever signs it holds.
        may_be_lines: Whether it is that where no sign parts it evenly.

    Raises:
        DataError: Quotes or numbers of cells do not fit; names the line.
        LimitError: More rows or columns than this place allows.
    """
    try:
        parting = _parting(source, name, of_lines=of_lines, keeps_title=header is False)
        return _looked_through(parting, source, header, known)
    except DataError:
        if of_lines or not may_be_lines or _has_names(source.head):
            raise
    lines = _Parting(reading=None, lines=source.lines, name=name, is_one=True)
    lines.notes.append("No sign parts its lines evenly: each was read as one text.")
    return _looked_through(lines, source, header, known)


def _parting(source: TextSource, name: str, *, of_lines: bool, keeps_title: bool) -> _Parting:
    if of_lines:
        return _Parting(reading=None, lines=source.lines, name=name, is_one=True)
    dialect = choose_dialect(source.head)
    if is_one_column(source.head, dialect):
        return _one_column(source, name)
    if keeps_title and dialect.title:
        dialect = replace(dialect, start=0, title="")
    before = sum(1 for _ in lines_of(source.head[: dialect.start]))

    def lines() -> Iterator[str]:
        for number, line in enumerate(source.lines()):
            yield "\n" if number < before else line

    def shape(reading: CsvFormat) -> Shape:
        parted = _Parting(reading=reading, lines=lines, name=name)
        return shape_of((row for _, row in parted.rows()), reading.delimiter)

    reading, findings = settled(shape, lines, dialect, name)
    return _Parting(
        reading=reading, lines=lines, name=name, title=dialect.title, notes=notes_on(dialect),
        findings=findings,
    )  # fmt: skip


def _has_names(head: str) -> bool:
    """Whether the first row of a text names columns as those of labelled tables are called."""
    return _best(head, '"')[1][1]


def is_one_column(head: str, dialect: Dialect) -> bool:
    """Whether no sign parts the first row of a text, which is no title of others either."""
    if dialect.title and not _has_names(head[dialect.start :]):
        below = islice(lines_of(head[dialect.start :]), _FEW_LINES)
        return sum(1 for _ in below) < _FEW_LINES  # that they are even is chance
    return not dialect.start and _best(head, dialect.quote)[1][0] == 0.0


def _one_column(source: TextSource, name: str) -> _Parting:
    """A file of one column, whose texts hold commas; with quotes around them, or without."""
    reading = CsvFormat(delimiter=ONE)
    parting = _Parting(reading=reading, lines=source.lines, name=name, is_one=True)
    try:
        for _ in parting.rows():
            pass
    except DataError:
        says = f"Quotes in {name} do not come in pairs; they were read as part of the texts."
        parting.reading, parting.findings = None, [finding("quotes", says)]
    return parting


@dataclass(kw_only=True, slots=True)
class _Counted:
    """The counts of a pass over all rows; `odd` has the sizes of unlike rows by their lines."""

    first: list[tuple[int, list[str]]] = field(default_factory=list)
    widest: int = 0
    odd: dict[int, int] = field(default_factory=dict)
    drawn: Sampler = field(default_factory=Sampler)

    @property
    def width(self) -> int:
        return len(self.first[0][1])


def _counted(parting: _Parting) -> _Counted:
    found = _Counted()
    for line, row in parting.rows():
        names = found.first[0][1] if found.first else row
        fitted = _fitted(row, names)
        found.widest = max(found.widest, len(fitted))
        check_size(parting.name, rows=found.drawn.seen, columns=found.widest)
        if len(fitted) != len(names):
            found.odd[line] = len(row)
        if len(found.first) <= HEADER_ROWS:
            found.first.append((line, fitted))
        found.drawn.add(line, fitted)
    if not found.first:
        raise nothing_in(parting.name)
    check_even(parting.name, found.odd, found.drawn.seen, found.width)
    return found


def _looked_through(
    parting: _Parting,
    source: TextSource,
    header: bool | None,
    known: Collection[str],
) -> TableStream:
    found = _counted(parting)
    top = _top(parting, found, header, known)
    names = dict(enumerate(top.table.columns))
    if parting.is_one and not top.table.has_header:
        names = {0: TEXT}
    columns = named_columns(found.widest, names)
    titles = tuple(top.names) or columns
    before = found.first[top.skipped - 1][0] if top.skipped else 0
    sample = [(line, row) for line, row in found.drawn.drawn() if line > before]
    table = replace(
        top.table,
        columns=columns,
        rows=[filled(row, len(columns)) for _, row in sample],
        lines=[line for line, _ in sample],
        unnamed=top.table.unnamed | frozenset(columns[found.width :]),
        findings=(*parting.findings, *top.table.findings, *_few_cells(found)),
    )
    if not table.rows:
        raise DataError(f"{parting.name} has no data rows.", "Add rows below the names.")
    delimiter = parting.reading.delimiter if parting.reading else ","
    return TableStream(
        name=parting.name,
        form="delimited",
        columns=columns,
        titles=(*titles, *[""] * (len(columns) - len(titles))),
        rows=found.drawn.seen - top.skipped,
        sample=table,
        blocks=lambda most: blocked(_rows(parting, found, top, len(columns)), most),
        facts=replace(source.facts, delimiter="," if delimiter == ONE else delimiter),
        notes=tuple(parting.notes),
    )


def _few_cells(found: _Counted) -> list[Finding]:
    """A warning of rows that were filled up with empty cells."""
    few = [line for line, cells in found.odd.items() if cells < found.width]
    if not few:
        return []
    have = "has" if len(few) == 1 else "have"
    says = f"{count(len(few), 'row')} {have} fewer cells than there are columns: {where(few)}."
    return [finding("few_cells", f"{says} They were filled with empty ones.", few)]


def _top(
    parting: _Parting,
    found: _Counted,
    header: bool | None,
    known: Collection[str],
) -> Top:
    rows = [filled(row, found.width)[: found.width] for _, row in found.first]
    first = found.first[0][1]
    if header is None and any(cell.strip() in known for cell in first):
        header = True
    elif header is None and parting.is_one:
        # The first of many short texts looks like a name; only a name that is known is one.
        header = is_known(first[0])
    grid = Grid(rows=rows, lines=[line for line, _ in found.first], title=parting.title)
    return top_of(grid, parting.name, header, parting.notes)


def _rows(parting: _Parting, found: _Counted, top: Top, columns: int) -> Iterator[Row]:
    first = found.first[0][1]
    for line, row in islice(parting.rows(), top.skipped, None):
        fitted = _fitted(row, first)
        odd = WRONG_COUNT if len(fitted) > found.width else ""
        if top.names and fitted == top.names:
            odd = NAMES_AGAIN
        yield Row(line=line, cells=filled(fitted, columns), odd=odd)
