"""Numbers as people write them: 3.1 and 3,1, 1,000, 45 %, $9.99; and which are one and the same.

pandas must be told what a comma is, reads no units, and makes 7 of the 007 that is another class in
hostile/l05_leading_zeros.csv.
"""

import math
import re
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Literal

NUMBER = re.compile(r"\s*[-+]?(?:\d+\.?\d*|\.\d+)(?:[eE][-+]?\d+)?\s*")
# Digits with commas and points in any order: what they mean, the other cells of the column say.
_MARKED = re.compile(r"[-+]?\d[\d.,]*")
_THOUSANDS = re.compile(r"[-+]?[1-9]\d{0,2}(?:,\d{3})+(?:\.\d+)?")
_DECIMAL_COMMA = re.compile(r"[-+]?(?:\d+|[1-9]\d{0,2}(?:\.\d{3})+),\d+")
_SIGNS = r"[$€£¥₹₽₺₩]|(?:USD|EUR|GBP|INR|Rs\.?|CHF|kr)(?![a-z])"
_PRICE = re.compile(
    rf"(?:{_SIGNS})\s*(?P<before>[-+]?\d.*)|(?P<after>[-+]?\d[\d.,]*)\s*(?:{_SIGNS})"
)
_PERCENT = re.compile(r"(?P<number>[-+]?\d[\d.,]*)\s*(?:%|percent)")
Unit = Literal["", "percent", "price"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Notation:
    """How the numbers of a column are written.

    Attributes:
        comma: What a comma is: "" (no part of a number), "decimal" or "thousands".
        unit: What stands beside them: nothing, a percent sign, or one of money.
    """

    comma: Literal["", "decimal", "thousands"] = ""
    unit: Unit = ""

    def value(self, cell: str) -> float | None:
        """Return the number in a cell, if it is a finite one.

        >>> Notation(comma="decimal").value("3,1"), Notation().value("1e999"), Notation().value("x")
        (3.1, None, None)
        """
        bare = _bare(cell)[0] if self.unit else cell.strip()
        if self.comma == "decimal" and _DECIMAL_COMMA.fullmatch(bare):
            bare = bare.replace(".", "").replace(",", ".")
        elif self.comma == "thousands" and _THOUSANDS.fullmatch(bare):
            bare = bare.replace(",", "")
        value = float(bare) if NUMBER.fullmatch(bare) else math.inf
        return value if math.isfinite(value) else None


PLAIN = Notation()


def notation_of(cells: Iterable[str]) -> Notation:
    """Return how the numbers among the cells of a column are written.

    A comma is for thousands where it could be that in all of them, else for decimals where it could
    be that: `1,000` beside `2,500` are thousands, beside `2,5` it is one.

    >>> notation_of(["3,1", "4", "2,75"]), notation_of(["1,000", "12,500", "7"]).comma
    (Notation(comma='decimal', unit=''), 'thousands')
    >>> notation_of(["45 %", "7%"]).unit, notation_of(["$9.99", "10 €"]).unit
    ('percent', 'price')
    """
    units: set[str] = set()
    marked: list[str] = []
    for cell in cells:
        bare, unit = _bare(cell)
        if "," in bare and _MARKED.fullmatch(bare):
            marked.append(bare)
        if unit or NUMBER.fullmatch(bare):
            units.add(unit)
    comma = ""
    if marked and all(map(_THOUSANDS.fullmatch, marked)):
        comma = "thousands"
    elif marked and all(map(_DECIMAL_COMMA.fullmatch, marked)):
        comma = "decimal"
    told = units - {""}
    unit: Unit = "percent" if told == {"percent"} else "price" if told == {"price"} else ""
    return Notation(comma=comma, unit=unit)


def _bare(cell: str) -> tuple[str, Unit]:
    """Return a cell without a unit, and the unit."""
    cell = cell.strip()
    if found := _PERCENT.fullmatch(cell):
        return found["number"], "percent"
    if found := _PRICE.fullmatch(cell):
        return (found["before"] or found["after"]).strip(), "price"
    return cell, ""


def plainest(label: str) -> str:
    """Return a number without zeros that say nothing behind its point; any other label as it is.

    >>> plainest("1.0"), plainest("2.50"), plainest("007"), plainest("10"), plainest("v1.0")
    ('1', '2.5', '007', '10', 'v1.0')
    """
    if not re.fullmatch(r"[-+]?\d+[.,]\d+", label):
        return label
    whole = label.rstrip("0")
    return whole[:-1] if whole[-1] in ".," else whole
