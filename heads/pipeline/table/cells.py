"""Cells that a spreadsheet would run as a formula: guarded on export, restored on import."""

import re

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
