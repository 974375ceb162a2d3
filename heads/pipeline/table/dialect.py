"""Which sign parts the cells of a file, and whether its first line names the columns.

Measured on the files this was made for, csv.Sniffer is wrong on five of eight, and clevercsv
stops on zero bytes and takes a space where two signs are mixed. A file of texts and labels has
one of four signs, and the right one gives every row as many cells as the first.
"""

import csv
import re
from collections import Counter
from collections.abc import Iterator, Sequence
from itertools import islice

from heads.pipeline.corpus import NUMBER
from heads.pipeline.table.names import is_known

DELIMITERS = {",": "commas", "\t": "tabs", ";": "semicolons", "|": "vertical bars"}
_HINT = re.compile(r'"?sep=(.)"?\r?\n', re.I)  # Excel writes and reads this first line
_LINE = re.compile(r"[^\r\n]*(?:\r\n|\r|\n)|[^\r\n]+")
_SAMPLE_ROWS = 400
_SAMPLE_LINES = 2_000
_HEADER_ROWS = 2_000


def lines_of(text: str) -> Iterator[str]:
    r"""The lines of a text with their ends, whichever of \n, \r\n and \r they are."""
    return (found.group() for found in _LINE.finditer(text))


def is_number(cell: str) -> bool:
    """Whether a cell is a decimal number.

    >>> is_number("-1.5e3"), is_number("007"), is_number("1,5"), is_number("")
    (True, True, False, False)
    """
    return NUMBER.fullmatch(cell) is not None


def choose_delimiter(text: str) -> tuple[str, int]:
    """The sign that parts the cells, and how many letters of the text come before the table."""
    hint = _HINT.match(text)
    if hint:
        return hint[1], hint.end()
    scores = {sign: _evenness(text, sign) for sign in DELIMITERS}
    return max(scores, key=lambda sign: scores[sign]), 0  # the first of equals


def _evenness(text: str, delimiter: str) -> tuple[float, bool]:
    """The share of rows with as many cells as the first, and whether it holds known names."""
    best = (0.0, False)
    for quoting in (csv.QUOTE_MINIMAL, csv.QUOTE_NONE):
        lines = islice(lines_of(text[: 64 * 1024 * 16]), _SAMPLE_LINES)
        rows = []
        try:
            reader = csv.reader(lines, delimiter=delimiter, quoting=quoting)
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
    if is_number(cell) or cell in below:
        return "data"
    filled = [other for other in below if other]
    if filled and all(map(is_number, filled)):
        return "name"
    few = len(Counter(filled)) * 2 <= len(filled)
    return "name" if few else ""
