"""Which column holds the texts and which the labels: by their names, then by what is in them."""

import re
from collections.abc import Sequence
from dataclasses import dataclass

from heads.errors import DataError
from heads.pipeline.table.dialect import is_number
from heads.pipeline.table.names import ABOUT, LABELS, PAIRS, PARTS, SPLITS, TEXTS, plain, words
from heads.pipeline.table.sheet import Columns, Table, short

_SAMPLE = 2_000
_NO_LETTERS = re.compile(r"[\W\d_]+")
# A column of words is taken for the labels rather than one of as many numbers, or somewhat fewer.
_NUMBERS_COUNT = 5


@dataclass(frozen=True, slots=True, kw_only=True)
class _Seen:
    """What a sample of a column's cells looks like.

    Attributes:
        filled: How many cells hold something.
        length: Letters of a filled cell, on average; a date or a number has hardly any.
        distinct: How many different ones there are.
        numbers: Whether all are numbers.
        fractions: Whether all are numbers and some have a point.
    """

    filled: int
    length: float
    distinct: int
    numbers: bool
    fractions: bool

    @property
    def repeats(self) -> bool:
        """Whether the cells come again and again, as labels do."""
        return self.filled > 0 and self.distinct <= max(2, self.filled // 2)


def guess(table: Table) -> Columns:
    """Guesses which column is what; the user confirms or changes it.

    Raises:
        DataError: There are fewer than two columns to choose from.
    """
    names = [name for name in table.columns if name not in table.unnamed]
    split = _split(table, names)
    free = [name for name in names if name != split]
    if len(free) < 2:
        raise _too_few(table.name, free)
    seen = {name: _look(table, name) for name in free}
    text, pair = _pair(free)
    label = _named(free, LABELS, (text, pair), {name: seen[name].length <= 100 for name in free})
    sparing = [name for name in free if name != label]
    if not text:
        text = _text(sparing, seen)
    if not pair and not label and not table.has_header:
        text, pair = _alike(text, sparing, seen)
    left = [name for name in free if name not in (text, pair)]
    if not left:
        raise _too_few(table.name, free)
    label = label or _label(left, seen, paired=bool(pair))
    return Columns(text=text, label=label, pair=pair, split=split)


def _too_few(name: str, columns: Sequence[str]) -> DataError:
    found = " and ".join(f"'{short(column)}'" for column in columns) or "without a name"
    what = f"{name} has only the column{'s' * (len(columns) > 1)} {found}."
    return DataError(what, "Add a column of texts or of labels, parted by commas.", line=1)


def _look(table: Table, name: str) -> _Seen:
    """Looks at rows from the whole table, which may be sorted by class."""
    at = table.columns.index(name)
    step = max(1, len(table.rows) // _SAMPLE)
    cells = [row[at].strip() for row in table.rows[::step]]
    filled = [cell for cell in cells if cell]
    numbers = bool(filled) and all(map(is_number, filled))
    return _Seen(
        filled=len(filled),
        length=sum(len(_NO_LETTERS.sub("", cell)) for cell in filled) / max(len(filled), 1),
        distinct=len(set(filled)),
        numbers=numbers,
        fractions=numbers and any("." in cell for cell in filled),
    )


def _split(table: Table, names: Sequence[str]) -> str:
    """A column that is called like a split and says nothing but train, validation and test."""
    for name in names:
        if plain(name) in SPLITS:
            at = table.columns.index(name)
            if all(row[at].strip().casefold() in PARTS for row in table.rows):
                return name
    return ""


def _pair(names: Sequence[str]) -> tuple[str, str]:
    """The two columns of texts, where they are called so."""
    by_plain = {plain(name): name for name in names}
    for first, second in PAIRS:
        if first in by_plain and second in by_plain:
            return by_plain[first], by_plain[second]
    return "", ""


def _named(
    names: Sequence[str], known: Sequence[str], taken: Sequence[str], fits: dict[str, bool]
) -> str:
    """The column with the clearest name: the whole name first, then a word of it."""
    free = [name for name in names if name not in taken and fits[name]]
    for key in known:
        for name in free:
            if plain(name) == key:
                return name
    for key in known:
        for name in free:
            if key in words(name) and not ABOUT & set(words(name)):
                return name
    return ""


def _text(names: Sequence[str], seen: dict[str, _Seen]) -> str:
    """The column of the texts: by its name, else the one with the longest different cells."""
    fits = {name: plain(name) == "text" or not seen[name].numbers for name in names}
    named = _named(names, TEXTS, (), fits)
    return named or max(
        names, key=lambda name: (not seen[name].numbers, seen[name].length * seen[name].distinct)
    )


def _alike(text: str, names: Sequence[str], seen: dict[str, _Seen]) -> tuple[str, str]:
    """A second column of texts about as long and as different as the first, without names."""
    first = seen[text]
    for name in names:
        other = seen[name]
        same = 0.5 <= other.length / max(first.length, 1) <= 2
        if name != text and same and not other.repeats and other.length > 15 and not first.repeats:
            later = names.index(name) > names.index(text)
            return (text, name) if later else (name, text)
    return text, ""


def _label(names: Sequence[str], seen: dict[str, _Seen], paired: bool) -> str:
    """The column whose cells come again, few different ones before many.

    Beside two texts without names a column of fractions is their similarity.
    """
    if paired:
        similarity = [name for name in names if seen[name].fractions]
        if similarity:
            return similarity[0]

    def rank(name: str) -> tuple[bool, bool, int]:
        column = seen[name]
        weight = _NUMBERS_COUNT if column.numbers else 1
        return not column.repeats, column.distinct < 2, weight * column.distinct

    return min(names, key=rank)
