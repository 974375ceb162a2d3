"""Which column holds the texts and which the labels: by their names, then by what is in them.

What the labels are (one a row, several, a number) is told from their cells.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace

from heads.errors import DataError
from heads.pipeline.table.dialect import is_number
from heads.pipeline.table.kinds import cells_of, find_separator, flag_columns, is_measured
from heads.pipeline.table.names import (
    ABOUT,
    LABELS,
    PAIRS,
    PARTS,
    SPLITS,
    SURELY,
    TEXTS,
    plain,
    words,
)
from heads.pipeline.table.sheet import Columns, Said, Table, short

_SAMPLE = 2_000
_MOST = 5  # four of five columns are most of them
_NO_LETTERS = re.compile(r"[\W\d_]+")
# A column of words is taken for the labels rather than one of as many numbers, or somewhat fewer.
_NUMBERS_COUNT = 5
_MANY_FLAGS = 3


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


def guess(table: Table, said: Said | None = None) -> Columns:
    """Guesses which column is what; the user confirms or changes it.

    Args:
        said: What the user said already: it is taken as it stands.

    Raises:
        DataError: There are fewer than two columns to choose from.
    """
    said = said or Said()
    if said.label and said.labels:
        what = "A label column is named, and 0/1 columns as well."
        raise DataError(what, "Name the one or the others.")
    found, flags = _by_column(table)
    named = {key: getattr(said, key) for key in ("text", "label", "pair", "split")}
    found = replace(found, **{key: name for key, name in named.items() if name})
    is_plain = not (said.label or said.separator or said.number or said.order)
    labels = said.labels or (flags if is_plain and said.separator is None else ())
    if labels:
        used = (found.text, found.pair, found.split)
        kept = tuple(name for name in labels if name in said.labels or name not in used)
        return replace(found, label="", labels=kept, number=bool(said.number), order=said.order)
    return _by_cells(table, found, said)


def _by_cells(table: Table, columns: Columns, said: Said) -> Columns:
    """What the cells of the label column are: numbers, several labels, or one."""
    number, separator = said.number, said.separator
    if columns.label in table.columns and not said.order:
        cells = cells_of(table, columns.label)
        if number is None:
            number = not separator and is_measured(cells)
        if separator is None:
            separator = "" if number else find_separator(cells)
    return replace(columns, number=bool(number), separator=separator or "", order=said.order)


def _by_column(table: Table) -> tuple[Columns, tuple[str, ...]]:
    """The columns by name and look; and the 0/1 columns that are the labels, if any are."""
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
    flags = _flags(table, left, label)
    others = [name for name in left if name not in flags]
    worded = any(seen[n].repeats and seen[n].distinct > 2 and not seen[n].numbers for n in others)
    if flags and worded and not label and len(flags) * _MOST < len(left) * (_MOST - 1):
        flags, left = (), others  # a few marks beside a column of words
    label = label or _label(left, seen, paired=bool(pair))
    if label not in flags and (len(flags) < _MANY_FLAGS or len(flags) * 2 <= len(left)):
        flags = ()  # they are only something else about the texts
    return Columns(text=text, label=label, pair=pair, split=split), flags


def _flags(table: Table, names: Sequence[str], label: str) -> tuple[str, ...]:
    """The 0/1 columns, unless a column called like a label is none of them."""
    if not table.has_header or plain(label) in SURELY:
        return ()
    flags = flag_columns(table, [name for name in names if not ABOUT & set(words(name))])
    return () if label and label not in flags else flags


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
