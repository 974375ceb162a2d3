"""What the cells of a column look like: sentences, words that come again, dates, ids, names."""

import random
import re
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from heads.pipeline.numerals import notation_of
from heads.pipeline.table.cells import members
from heads.pipeline.table.names import ANSWERS, plain
from heads.pipeline.table.sheet import Table

_SAMPLE = 2_000
_LETTERS = re.compile(r"[^\W\d_]")
# Scripts that part no words: two of their signs are about a word.
_UNPARTED = re.compile("[\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u3040-\u30ff\u3400-\u9fff]")
_MONTH = (
    "jan(?:uary)?|feb(?:ruary)?|mar(?:ch)?|apr(?:il)?|may|june?|july?|aug(?:ust)?|"
    "sept?(?:ember)?|oct(?:ober)?|nov(?:ember)?|dec(?:ember)?"
)
_DAY = (
    "mon(?:day)?|tue(?:s(?:day)?)?|wed(?:nesday)?|thu(?:rs(?:day)?)?|fri(?:day)?|sat(?:urday)?|"
    "sun(?:day)?"
)
_ZONE = r"am|pm|utc|gmt|[pmce][sd]t|t|z|st|nd|rd|th|of|at|on"
_WORDS_OF_DATES = re.compile(rf"(?:{_MONTH}|{_DAY}|{_ZONE})(?![a-z])", re.I)
_DOTTED = re.compile(r"\d{1,4}\.\d{1,2}\.\d{1,4}(?: \d\d?:\d\d\S*)?$")
_DIGITS = re.compile(r"\d+")
_ADDRESS = re.compile(
    r"(?:https?://|www\.|/)\S+|\S+@\S+\.\S+|@\w+|\S+\.(?:txt|html?|json|csv|png|jpg|jpeg|xml)"
)
_NAME = re.compile(
    r"(?:[A-ZÀ-Þ][\w'’.-]*\.?)(?: (?:de|van|von|da|la|al|bin))?(?: [A-ZÀ-Þ][\w'’.-]*){1,2}"
)
_MARKUP = re.compile(r"\s*<[a-zA-Z!/][^>]*>|\s*\( ?(?:ROOT|S|NP|[A-Z.]+|\() ")
_YEARS = (1900, 2100)


@dataclass(frozen=True, slots=True, kw_only=True)
class Look:
    """What a sample of a column's cells looks like. Shares are of the filled cells, from 0 to 1.

    Attributes:
        filled: How many cells hold something.
        full: The share of all cells that do.
        letters: Letters of a filled cell, on average; a date or a number has hardly any.
        distinct: How many different ones there are.
        numbers: Whether all are numbers.
        fractions: Whether all are numbers, and some are not whole.
        sentences: The share with four words or more.
        dates: The share that are dates, times or years.
        codes: The share that are ids, addresses, names of files.
        people: The share that look like names of persons: two or three words with capitals.
        markup: The share that begin like HTML, or like a parse tree.
        lists: Whether all are lists.
        answers: The share that are called as answers often are, such as positive or spam.
    """

    filled: int
    full: float
    letters: float
    distinct: int
    numbers: bool
    fractions: bool
    sentences: float
    dates: float
    codes: float
    people: float
    markup: float
    lists: bool
    answers: float

    @property
    def variety(self) -> float:
        """The share of the filled cells that are unlike all before: 1 where none comes again."""
        return self.distinct / max(self.filled, 1)

    @property
    def constant(self) -> bool:
        """Whether all filled cells are the same, or none is filled."""
        return self.distinct < 2

    @property
    def repeats(self) -> bool:
        """Whether the cells come again and again, as labels do."""
        return self.filled > 0 and self.distinct <= max(2, self.filled // 2)


def look(table: Table, name: str) -> Look:
    """Looks at rows from the whole table, which may be sorted by class.

    They are drawn, always the same: of every second row a table that alternates shows one class.
    """
    at = table.columns.index(name)
    size = len(table.rows)
    drawn = range(size) if size <= _SAMPLE else random.Random(0).sample(range(size), _SAMPLE)
    cells = [table.rows[row][at].strip() for row in drawn]
    counts = Counter(cell for cell in cells if cell)
    filled = counts.total()
    notation = notation_of(counts)
    values = [notation.value(cell) for cell in counts]
    numbers = bool(values) and None not in values

    def share(test: Callable[[str], object]) -> float:
        return sum(times for cell, times in counts.items() if test(cell)) / max(filled, 1)

    return Look(
        filled=filled,
        full=filled / max(len(cells), 1),
        letters=sum(len(_LETTERS.findall(cell)) * n for cell, n in counts.items()) / max(filled, 1),
        distinct=len(counts),
        numbers=numbers,
        fractions=numbers and any(value != int(value) for value in values if value is not None),
        sentences=share(lambda cell: _words(cell) >= 4),
        dates=share(_is_year if numbers else is_date),
        codes=0.0 if numbers else share(is_code),
        people=share(_NAME.fullmatch),
        markup=share(_MARKUP.match),
        lists=bool(counts) and all(members(cell) is not None for cell in counts),
        answers=share(lambda cell: plain(cell) in ANSWERS),
    )


def _words(cell: str) -> int:
    unparted = 0 if cell.isascii() else len(_UNPARTED.findall(cell))
    return len(cell.split()) + unparted // 2


def is_date(cell: str) -> bool:
    """Whether a cell is a date or a time, whichever way it is written.

    >>> [is_date(cell) for cell in ("16-03-2020", "Mon Apr 06 22:19:45 PDT 2009", "2:30 pm")]
    [True, True, True]
    >>> [is_date(c) for c in ("May", "12", "3.5", "room 12 at 3 pm", "2020/01/02 is the day")]
    [False, False, False, False, False]
    """
    if _DOTTED.match(cell):
        return True
    if len(cell) > 40 or not any(letter.isdigit() for letter in cell):
        return False
    rest = _WORDS_OF_DATES.sub("", cell)
    if any(letter.isalpha() for letter in rest):
        return False
    groups = len(_DIGITS.findall(rest))
    parted = any(sign in rest for sign in "/:-") or rest != cell
    return parted and groups + (rest != cell) >= 2 and not rest.startswith("-")


def _is_year(cell: str) -> bool:
    return cell.isdigit() and len(cell) == 4 and _YEARS[0] <= int(cell) < _YEARS[1]


def is_code(cell: str) -> bool:
    """Whether a cell is an id, an address or the name of a file: one word that nobody says.

    >>> [is_code(cell) for cell in ("AVqkIhwDv8e3D1O", "gj04", "https://t.co/x", "@me", "a/b.txt")]
    [True, True, True, True, True]
    >>> [is_code(cell) for cell in ("positive", "UTTER", "not_entailment", "5", "two words")]
    [False, False, False, False, False]
    """
    if _ADDRESS.fullmatch(cell):
        return True
    if " " in cell or cell.isdigit():
        return False
    return any(letter.isdigit() for letter in cell) and any(letter.isalpha() for letter in cell)


def looks_of(table: Table, names: Sequence[str]) -> dict[str, Look]:
    """A look at each of some columns."""
    return {name: look(table, name) for name in names}
