"""Which sign parts the cells of a file, and whether its first line names the columns.

Measured on the files this was made for, csv.Sniffer is wrong on five of eight, and clevercsv
stops on zero bytes and takes a space where two signs are mixed. A file of texts and labels has
one of four signs, and the right one gives every row as many cells as the first.
"""

import csv
import re
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import islice

from heads.pipeline.numerals import NUMBER, notation_of
from heads.pipeline.table.names import is_known

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
