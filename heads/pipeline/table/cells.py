"""Single cells: labels made clean, and formulas of spreadsheets guarded and restored."""

import csv
import re
import unicodedata

from heads.pipeline.corpus import CONTROLS

# What Excel, LibreOffice and Google Sheets take for the start of a formula.
FORMULA_SIGNS = "=+-@\t\r\n＝＋－＠"
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
    """A label without control characters and without spaces around it; its case is kept."""
    return " ".join(CONTROLS.sub("", unicodedata.normalize("NFC", cell)).split())


def listed(names: str) -> tuple[str, ...]:
    """Names in a line, parted by commas; quotes go around a name that holds one.

    >>> listed('low, middle, "high, very"'), listed("")
    (('low', 'middle', 'high, very'), ())
    """
    line = " ".join(names.split())
    found = next(csv.reader([line], skipinitialspace=True), [])
    return tuple(filter(None, map(clean_label, found)))
