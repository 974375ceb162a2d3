"""Text with cells parted by a sign (CSV, TSV and their kin) to a `Table`."""

import contextlib
import csv
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Literal

from heads.data.grid import Grid, table_of
from heads.data.table import Finding, Table, check_size, count, finding, is_known, where
from heads.errors import DataError
from heads.settings import Limits

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
    """How a text is parted into cells.

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
    return best


# --- Cells, with the line on which each row begins: csv knows it. pandas does not, and pyarrow
# numbers the rows that it leaves out, not their lines (hostile/c24_quoted_newlines.csv).

_MOST_RAGGED = 0.1
_CELL_CHARACTERS = 16_000_000
# The parser's own limit holds for the whole process and for cells that are merely cut here.
csv.field_size_limit(_CELL_CHARACTERS)


def read_delimited(text: str, name: str, limits: Limits, header: bool | None = None) -> Table:
    """Reads cells parted by commas, tabs, semicolons or vertical bars.

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
    grid, findings = _quoted(text, dialect, name, limits)
    notes = []
    if dialect.delimiter != ",":
        sign = DELIMITERS.get(dialect.delimiter, repr(dialect.delimiter))
        notes.append(f"Cells are parted by {sign}.")
    if dialect.quote != '"':
        notes.append("Cells are in single quotes.")
    return table_of(_even(grid, name, dialect.title), name, limits, header, notes, findings)


def _quoted(
    text: str, dialect: Dialect, name: str, limits: Limits
) -> tuple[Grid, Sequence[Finding]]:
    r"""Parses with quotes; where they do not add up, as they stand or with their escapes.

    In messy/msr_paraphrase_train_bom.txt and messy/stsb_dev_tabs_named_csv.csv quotes do not come
    in pairs, and pandas loses 138 and 35 rows within others; in hostile/c27_backslash_escapes.csv
    and c23_unclosed_quote.csv it loses texts. It says nothing of either.
    """
    sign = dialect.delimiter
    if dialect.quote != '"':
        return _parse(text.replace("\\'", "''"), sign, name, limits, quote=dialect.quote), ()
    grid, error = None, None
    try:
        grid = _parse(text, sign, name, limits)
    except DataError as broken:
        error = broken
    # A cell that holds a line end and the sign between cells may be two rows in one.
    odd = grid is None or any("\n" in cell and sign in cell for row in grid.rows for cell in row)
    if odd and sign in "\t|" and not text.startswith('"'):
        plain = _parse(text, sign, name, limits, quoting=csv.QUOTE_NONE)
        if _ragged(plain) <= (_MOST_RAGGED * len(plain.rows) if error else 0):
            says = f"Quotes in {name} do not come in pairs; they were read as part of the texts."
            return plain, [finding("quotes", says)]
    if grid is not None:
        return grid, ()
    with contextlib.suppress(DataError):
        grid = _parse(text.replace('\\"', '""'), sign, name, limits)
    if grid is None or _ragged(grid) or '\\"' not in text:
        raise error or AssertionError("a grid or an error")
    lines = [number for number, line in enumerate(lines_of(text), start=1) if '\\"' in line]
    says = f'Read \\" as a quote inside a cell: {where(lines)}. Write it as "" to be safe.'
    return grid, [finding("backslash", says, lines)]


def _parse(
    text: str,
    delimiter: str,
    name: str,
    limits: Limits,
    *,
    quoting: Literal[0, 3] = csv.QUOTE_MINIMAL,
    quote: str = '"',
) -> Grid:
    rows: list[list[str]] = []
    lines: list[int] = []
    start = 1
    # Before 3.11 the parser stops at a zero byte; any control character is removed later.
    source = lines_of(text.replace("\0", "\x01"))
    reader = csv.reader(source, delimiter=delimiter, quotechar=quote, quoting=quoting, strict=True)
    try:
        for row in reader:
            if len(row) > 1 or (row and row[0].strip()):
                rows.append(row)
                lines.append(start)
                # The first row may name the columns, and only its width is that of the table.
                check_size(name, limits, rows=len(rows) - 1, columns=len(rows[0]))
            start = reader.line_num + 1
    except csv.Error as error:
        raise _broken(name, start, reader.line_num, str(error)) from None
    if not rows:
        raise DataError(f"{name}: The file is empty.", "Choose one with texts and labels.")
    return Grid(rows=rows, lines=lines)


def _ragged(grid: Grid) -> int:
    """How many rows differ from the first in their number of cells."""
    return sum(len(row) != len(grid.rows[0]) for row in grid.rows)


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

    Raises:
        DataError: More than a tenth of the rows differ.
    """
    first, rows, lines, odd = grid.rows[0], [], [], {}
    for line, row in zip(grid.lines, grid.rows, strict=True):
        fitted = _fitted(row, first)
        if len(fitted) != len(first):
            odd[line] = len(row)
        else:
            rows.append(fitted)
            lines.append(line)
    if len(odd) > _MOST_RAGGED * len(grid.rows):
        line, cells = next(iter(odd.items()))
        what = (
            f"Line {line} of {name} has {count(cells, 'cell')} where the first has {len(first)}; "
            f"{len(odd):,} of {len(grid.rows):,} rows do not have {len(first)}."
        )
        raise DataError(what, "Part all cells by one sign; quote cells that hold it.", line=line)
    return Grid(rows=rows, lines=lines, odd=tuple(odd), title=title)


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
