"""Text with cells parted by a sign (CSV, TSV and their kin) to a `Table`."""

import csv
import re
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Literal

from heads.data.numbers import NUMBER, notation_of
from heads.data.table import Finding, Table, count, finding, is_known, short, where
from heads.errors import DataError, LimitError
from heads.settings import Limits

# --- Which sign parts the cells of a file, and whether its first line names the columns.

DELIMITERS = {",": "commas", "\t": "tabs", ";": "semicolons", "|": "vertical bars"}
_HINT = re.compile(r'"?sep=(.)"?\r?\n', re.I)  # Excel writes and reads this first line
_LINE = re.compile(r"[^\r\n]*(?:\r\n|\r|\n)|[^\r\n]+")
_SAMPLE_ROWS = 400
_SAMPLE_LINES = 2_000
_HEADER_ROWS = 2_000
_TITLE_LINES = 5
_EVEN = 0.9
# A line whose cells are all in single quotes, and one that holds such a cell beside a sign.
_QUOTED = re.compile(r"'(?:[^']|'')*'(?:[,;\t|] ?'(?:[^']|'')*')+")
_HELD = re.compile(r"^'.*'[,;\t|]|[,;\t|] ?'.*'$")


def lines_of(text: str) -> Iterator[str]:
    r"""The lines of a text with their ends, whichever of \n, \r\n and \r they are."""
    return (found.group() for found in _LINE.finditer(text))


def is_number(cell: str) -> bool:
    """Whether a cell is a decimal number.

    >>> is_number("-1.5e3"), is_number("007"), is_number("1,5"), is_number("")
    (True, True, False, False)
    """
    return NUMBER.fullmatch(cell) is not None


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
        if any(_cells_known(line, one) for one in DELIMITERS):
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


def _cells_known(line: str, sign: str) -> bool:
    return any(map(is_known, line.strip().split(sign)))


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


def names_columns(rows: Sequence[Sequence[str]]) -> bool:
    """Whether the first of the rows holds the names of the columns."""
    first = [cell.strip() for cell in rows[0]]
    rest = rows[1 : _HEADER_ROWS + 1]
    known = sum(map(is_known, first))
    if known > 1 or not rest or _is_counting(first):
        return known > 0 or _is_counting(first)
    verdicts = [_verdict(cell, [row[at].strip() for row in rest]) for at, cell in enumerate(first)]
    if "data" in verdicts:
        return False
    if known or "name" in verdicts:
        return True
    return all(len(cell) <= 40 and len(cell.split()) <= 4 for cell in first)


def _is_counting(first: Sequence[str]) -> bool:
    """0, 1, 2 and so on: what pandas calls columns without names."""
    cells = list(first[1:] if first[0] == "" else first)
    return len(cells) > 1 and cells == [f"{number}" for number in range(len(cells))]


def _verdict(cell: str, below: Sequence[str]) -> str:
    """What a cell of the first row is, seen from its column: "data", "name" or "" (either)."""
    if not cell:
        return ""
    filled = [other for other in below if other]
    notation = notation_of([cell, *filled])
    if notation.value(cell) is not None or cell in below:
        return "data"
    if filled and all(notation.value(other) is not None for other in filled):
        return "name"
    few = len(Counter(filled)) * 2 <= len(filled)
    return "name" if few else ""


WRONG_COUNT = "wrong number of cells"
NAMES_AGAIN = "names of the columns again"
_MOST_RAGGED = 0.1
_CELL_CHARACTERS = 16_000_000
# The parser's own limit holds for the whole process and for cells that are merely cut here.
csv.field_size_limit(_CELL_CHARACTERS)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Grid:
    """Rows of unequal length, and the line on which each begins."""

    rows: list[list[str]]
    lines: list[int]

    def ragged(self) -> int:
        """How many rows differ from the first in their number of cells."""
        return sum(len(row) != len(self.rows[0]) for row in self.rows)


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
    findings: list[Finding] = []
    dropped: dict[str, tuple[int, ...]] = {}
    grid, odd = _even(_quoted(text, dialect, name, limits, findings), name)
    if header is not False:
        grid = _untitled(grid, dialect.title, findings)
    if odd:
        dropped[WRONG_COUNT] = tuple(odd)
        says = f"Left out {count(len(odd), 'row')} with a {WRONG_COUNT}: {where(odd)}."
        findings.append(finding("cells", f"{says} Put quotes around such cells.", odd))
    first = grid.rows[0]
    named = names_columns(grid.rows) if header is None else header
    if named:
        grid, again = _below(grid)
        if again:
            dropped[NAMES_AGAIN] = tuple(again)
            says = f"Left out {count(len(again), 'row')} with the {NAMES_AGAIN}: {where(again)}."
            findings.append(finding("header_again", says, again))
    elif header is None:
        findings.append(_no_names(first, grid.lines[0]))
    if len(grid.rows) > limits.rows:
        raise _too_many_rows(name, limits)
    if not grid.rows:
        raise DataError(f"{name} has no data rows.", "Add rows below the names of the columns.")
    columns, unnamed = _names(first if named else [""] * len(first), name)
    return Table(
        name=name, columns=columns, rows=grid.rows, lines=grid.lines, has_header=named,
        unnamed=unnamed if named else frozenset(), spelled=True, dropped=dropped,
        notes=_notes(dialect), findings=tuple(findings),
    )  # fmt: skip


def _no_names(first: Sequence[str], line: int) -> Finding:
    says = (
        f"The first line looks like data ('{short(' · '.join(first))}'), so it was kept as a "
        "row; say so if it holds the names of the columns."
    )
    return finding("header", says, [line])


def _below(grid: _Grid) -> tuple[_Grid, list[int]]:
    """The rows below the names of the columns, and the lines on which these stand again."""
    first = grid.rows[0]
    kept = [at for at, row in enumerate(grid.rows) if row != first]
    again = [line for line, row in zip(grid.lines, grid.rows, strict=True) if row == first][1:]
    return _Grid(rows=[grid.rows[at] for at in kept], lines=[grid.lines[at] for at in kept]), again


def _notes(dialect: Dialect) -> tuple[str, ...]:
    """What is unusual about the signs of a file."""
    sign, found = dialect.delimiter, []
    if sign != ",":
        found.append(f"Cells are parted by {DELIMITERS.get(sign, repr(sign))}.")
    if dialect.quote != '"':
        found.append("Cells are in single quotes.")
    return tuple(found)


def _untitled(grid: _Grid, title: str, findings: list[Finding]) -> _Grid:
    """The rows without a title above the names of the columns, which is told of."""
    if not title and _is_title(grid.rows):
        title = " ".join(filter(None, map(str.strip, grid.rows[0])))
        grid = _Grid(rows=grid.rows[1:], lines=grid.lines[1:])
    if title:
        says = f"Took '{short(title)}' above the names of the columns for a title, and left it out."
        findings.append(finding("title", says, [1]))
    return grid


def _is_title(rows: Sequence[Sequence[str]]) -> bool:
    """Whether the first row is one cell and empty ones, above a row of names for all columns.

    Or has a comma itself, above a row of which two names are known.
    """
    if len(rows) < 3 or len(rows[0]) < 2 or any(map(is_known, rows[0])):
        return False
    names = [cell.strip() for cell in rows[1]]
    known = sum(map(is_known, names))
    is_alone = sum(bool(cell.strip()) for cell in rows[0]) == 1
    return all(names) and known >= (1 if is_alone else 2)


def _quoted(
    text: str, dialect: Dialect, name: str, limits: Limits, findings: list[Finding]
) -> _Grid:
    """Parses with quotes; where they do not add up, as they stand or with their escapes."""
    delimiter = dialect.delimiter
    if dialect.quote != '"':
        text = text.replace("\\'", "''")
        return _parse(text, delimiter, name, limits, quote=dialect.quote)
    try:
        grid = _parse(text, delimiter, name, limits)
        # A cell that holds a line end and the sign between cells may be two rows in one.
        spans = any("\n" in cell and delimiter in cell for row in grid.rows for cell in row)
        error = None
    except DataError as broken:
        grid, spans, error = None, False, broken
    if delimiter in "\t|" and (error or spans) and not text.startswith('"'):
        plain = _parse(text, delimiter, name, limits, quoting=csv.QUOTE_NONE)
        if plain.ragged() <= (_MOST_RAGGED * len(plain.rows) if error else 0):
            says = f"Quotes in {name} do not come in pairs; they were read as part of the texts."
            findings.append(finding("quotes", says))
            return plain
    if error and '\\"' in text:
        grid = _unescaped(text, delimiter, name, limits, findings)
    if grid is None:
        raise error or AssertionError("a grid or an error")
    return grid


def _unescaped(
    text: str, delimiter: str, name: str, limits: Limits, findings: list[Finding]
) -> _Grid | None:
    r"""Reads \" as a quote, where that makes sense of the whole file."""
    try:
        grid = _parse(text.replace('\\"', '""'), delimiter, name, limits)
    except DataError:
        return None
    if grid.ragged():
        return None
    lines = [number for number, line in enumerate(lines_of(text), start=1) if '\\"' in line]
    says = f'Read \\" as a quote inside a cell: {where(lines)}. Write it as "" to be safe.'
    findings.append(finding("backslash", says, lines))
    return grid


def _parse(
    text: str,
    delimiter: str,
    name: str,
    limits: Limits,
    *,
    quoting: Literal[0, 3] = csv.QUOTE_MINIMAL,
    quote: str = '"',
) -> _Grid:
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
                _check_size(rows, name, limits)
            start = reader.line_num + 1
    except csv.Error as error:
        raise _broken(name, start, reader.line_num, str(error)) from None
    if not rows:
        raise DataError(f"{name}: The file is empty.", "Choose one with texts and labels.")
    return _Grid(rows=rows, lines=lines)


def _check_size(rows: list[list[str]], name: str, limits: Limits) -> None:
    """Stops while reading, not after."""
    if len(rows) == 1 and len(rows[0]) > limits.columns:
        what = f"{name} has {len(rows[0]):,} columns; this place reads up to {limits.columns:,}."
        raise LimitError(what, "Keep the columns with texts and labels.")
    if len(rows) > limits.rows + 1:
        raise _too_many_rows(name, limits)


def _too_many_rows(name: str, limits: Limits) -> LimitError:
    what = f"{name} has more than {limits.rows:,} rows, the most this place reads."
    return LimitError(what, "Choose a part of them.")


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


def _even(grid: _Grid, name: str) -> tuple[_Grid, list[int]]:
    """Rows of equal length, and the lines of those that were left out.

    Raises:
        DataError: More than a tenth of the rows differ.
    """
    width = len(grid.rows[0])
    rows, lines, odd = [], [], []
    for line, row in zip(grid.lines, grid.rows, strict=True):
        fitted = _fitted(row, width, grid.rows[0])
        if fitted is None:
            odd.append((line, len(row)))
        else:
            rows.append(fitted)
            lines.append(line)
    if len(odd) > _MOST_RAGGED * len(grid.rows):
        line, cells = odd[0]
        what = (
            f"Line {line} of {name} has {count(cells, 'cell')} where the first has {width}; "
            f"{len(odd):,} of {len(grid.rows):,} rows do not have {width}."
        )
        raise DataError(what, "Part all cells by one sign; quote cells that hold it.", line=line)
    return _Grid(rows=rows, lines=lines), [line for line, _ in odd]


def _fitted(row: list[str], width: int, first: Sequence[str]) -> list[str] | None:
    """A row with empty cells at its end taken away or added, or None where that is not enough.

    Where the first row ends in an empty cell all rows do, and one more is one too many.
    """
    if len(row) > width and first[-1].strip() and not any(cell.strip() for cell in row[width:]):
        return row[:width]
    if len(row) < width and not any(cell.strip() for cell in first[len(row) :]):
        return row + [""] * (width - len(row))
    return row if len(row) == width else None


def _names(cells: Sequence[str], name: str) -> tuple[tuple[str, ...], frozenset[str]]:
    """Names for all columns, and which of them the file does not name."""
    names = [" ".join(cell.split()) or f"column {at}" for at, cell in enumerate(cells, start=1)]
    twice = [known for known, times in Counter(names).items() if times > 1]
    if twice:
        what = f"{name} has two columns named '{short(twice[0])}'."
        raise DataError(what, "Rename one of them.", line=1, column=twice[0])
    unnamed = {names[at] for at, cell in enumerate(cells) if not cell.strip()}
    return tuple(names), frozenset(unnamed)
