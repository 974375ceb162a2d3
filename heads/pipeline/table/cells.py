"""Single cells: labels made clean, and formulas of spreadsheets guarded and restored."""

import csv
import json
import re
import unicodedata

from heads.pipeline.corpus import CONTROLS
from heads.pipeline.letters import is_blank

# What Excel, LibreOffice and Google Sheets take for the start of a formula.
FORMULA_SIGNS = "=+-@\t\r\n＝＋－＠"
LISTS = "[]"  # what "parts" labels where each cell is a list of them
_MEMBER = re.compile(r""""(?:[^"\\]|\\.)*"|'(?:[^'\\]|\\.)*'|[-+\w.]+""")
_PYTHON_2 = re.compile(r"(?<![^\s,])u(?=['\"])")  # as in [u'a', u'b']
_NOTHING = ("None", "null", "nan", "NaN")
_GUARDED = re.compile(f"'*[{re.escape(FORMULA_SIGNS)}]")


def guard_cell(cell: str) -> str:
    """Puts `'` before a cell that a spreadsheet would run; `unguard_cell` takes it away.

    A cell that already looks guarded gets one more, so that every text comes back as it was.

    >>> guard_cell("=1+1"), guard_cell("'=1+1"), guard_cell("plain")
    ("'=1+1", "''=1+1", 'plain')
    """
    return "'" + cell if _GUARDED.match(cell) else cell


def unguard_cell(cell: str) -> str:
    """Takes away what `guard_cell` put there.

    >>> unguard_cell("'=1+1"), unguard_cell("=1+1"), unguard_cell("'tis plain")
    ('=1+1', '=1+1', "'tis plain")
    """
    return cell[1:] if cell.startswith("'") and _GUARDED.match(cell) else cell


def clean_label(cell: str) -> str:
    """A label without control characters and without spaces around it; its case is kept.

    One of which nothing is to be seen is none.
    """
    label = " ".join(CONTROLS.sub("", unicodedata.normalize("NFC", cell)).split())
    return "" if is_blank(label) else label


def listed(names: str) -> tuple[str, ...]:
    """Names in a line, parted by commas; quotes go around a name that holds one.

    >>> listed('low, middle, "high, very"'), listed("")
    (('low', 'middle', 'high, very'), ())
    """
    line = " ".join(names.split())
    found = next(csv.reader([line], skipinitialspace=True), [])
    return tuple(filter(None, map(clean_label, found)))


def members(cell: str) -> list[str] | None:
    """The members of a list in a cell, as JSON, Python or NumPy write it; None where it is none.

    >>> members('["a", "b c"]'), members("['a' 'b']"), members("[2, 17]"), members("[]")
    (['a', 'b c'], ['a', 'b'], ['2', '17'], [])
    >>> members("[URGENT]"), members("a, b"), members('[["a"]]')
    (None, None, None)
    >>> members("[u'a', u'b']"), members("[None]")
    (['a', 'b'], [])
    """
    cell = cell.strip()
    if not (cell.startswith("[") and cell.endswith("]")):
        return None
    inside = _PYTHON_2.sub("", cell[1:-1])
    if _MEMBER.sub("", inside).strip(" \t\r\n,"):
        return None
    written = [one for one in _MEMBER.findall(inside) if one not in _NOTHING]
    found = [_member(one) for one in written]
    return None if None in found else [one for one in found if one is not None]


def _member(written: str) -> str | None:
    """A member of a list without its quotes; None for a word that nobody quoted."""
    if written[0] == '"':
        try:
            return str(json.loads(written))
        except ValueError:
            return None
    if written[0] == "'":
        return written[1:-1].replace("\\'", "'")
    return written if is_value(written) else None


def is_value(word: str) -> bool:
    """Whether a word stands in JSON or Python without quotes: a number, or true and the like."""
    return bool(re.fullmatch(r"[-+]?[\d.]+(?:[eE][-+]?\d+)?|true|false|True|False", word))
