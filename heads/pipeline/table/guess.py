"""Which column holds the texts and which the labels: by what is in them, then by their names.

What the labels are (one a row, several, a number) is told from their cells.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from heads.errors import DataError
from heads.pipeline.table.cells import LISTS
from heads.pipeline.table.kinds import (
    are_lists,
    cells_of,
    find_separator,
    flag_columns,
    is_measured,
)
from heads.pipeline.table.looks import Look, looks_of
from heads.pipeline.table.names import ABOUT, PAIRS, PARTS, SPLITS, SURELY, plain, words
from heads.pipeline.table.scoring import is_named, label_points, ranked, text_points
from heads.pipeline.table.sheet import ColumnHints, Columns, Finding, Table, finding, short

_MOST = 5  # four of five columns are most of them
_MANY_FLAGS = 3
_NEAR_TEXT = 0.8  # of the points of the best, from which a second column may be the texts as well
_NEAR_LABEL = 1.5  # points behind the best, within which a second column may be the labels as well
_LEAST_LABEL = 3.0  # points without which nobody would take a column for the labels
_EXAMPLE = 30  # characters
_FIRST = 200  # rows of which some cells are shown
_HALF = 0.5


def guess(table: Table, said: ColumnHints | None = None) -> Columns:
    """Guesses which column is what; the user confirms or changes it.

    Args:
        said: What the user said already: it is taken as it stands.

    Raises:
        DataError: There are fewer than two columns to choose from.
    """
    said = said or ColumnHints()
    if said.label and said.labels:
        what = "A label column is named, and 0/1 columns as well."
        raise DataError(what, "Name the one or the others.")
    choice = _choice(table, said)
    found, flags = choice.columns, choice.flags
    named = {key: getattr(said, key) for key in ("text", "label", "pair", "split")}
    found = replace(found, **{key: name for key, name in named.items() if name})
    is_plain = not (said.label or said.separator or said.number or said.order)
    labels = said.labels or (flags if is_plain and said.separator is None else ())
    if labels:
        used = (found.text, found.pair, found.split)
        kept = tuple(name for name in labels if name in said.labels or name not in used)
        return replace(found, label="", labels=kept, number=bool(said.number), order=said.order)
    return _by_cells(table, found, said)


def _by_cells(table: Table, columns: Columns, said: ColumnHints) -> Columns:
    """What the cells of the label column are: numbers, several labels, or one."""
    number, separator = said.number, said.separator
    if columns.label in table.columns and not said.order:
        cells = cells_of(table, columns.label)
        if separator is None and not number and are_lists(cells):
            separator = LISTS
        if number is None:
            number = not separator and is_measured(cells)
        if separator is None:
            separator = "" if number else find_separator(cells)
    return replace(columns, number=bool(number), separator=separator or "", order=said.order)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Choice:
    """What columns were taken for what, and how well each would have done.

    Attributes:
        columns: Those of text, label, second text and split.
        flags: The 0/1 columns that are the labels, if any are.
        texts: The points of each column as the texts; none where two names say it.
        labels: The points of each column as the labels; none where 0/1 columns are.
    """

    columns: Columns
    flags: tuple[str, ...]
    texts: Mapping[str, float]
    labels: Mapping[str, float]


def _choice(table: Table, said: ColumnHints) -> _Choice:
    names = [name for name in table.columns if name not in table.unnamed]
    split = _split(table, [name for name in names if name != said.group])
    free = [name for name in names if name not in (split, said.group)]
    if len(free) < 2:
        raise _too_few(table.name, free)
    seen = looks_of(table, free)
    first, pair = _pair(free, seen)
    labels = _labels(table, _without(free, first, pair), seen, paired=bool(pair))
    text, label, texts = _text_and_label(table, free, seen, labels, first)
    if not pair and not table.has_header:
        text, pair = _alike(text, _without(free, label), seen)
        if pair:  # how alike two texts are is often a fraction
            labels = _labels(table, _without(free, text, pair), seen, paired=True)
            label = ranked(labels)[0] if labels else ""
    left = _without(free, text, pair)
    if not left:
        raise _too_few(table.name, free)
    flags = _flags_among(table, left, seen, label)
    columns = Columns(text=text, label=label, pair=pair, split=split, group=said.group)
    return _Choice(
        columns=columns, flags=flags, texts={} if pair else texts, labels={} if flags else labels
    )


def _without(names: Sequence[str], *taken: str) -> list[str]:
    return [name for name in names if name not in taken]


def _labels(
    table: Table, names: Sequence[str], seen: Mapping[str, Look], *, paired: bool
) -> dict[str, float]:
    """The points of columns as the labels."""
    opinion = any({"review", "reviews"} & set(words(name)) for name in seen)
    return {
        name: label_points(name, seen[name], paired=paired, opinion=opinion)
        for name in names
        if name not in table.nested or name in table.lists
    }


def _text_and_label(
    table: Table,
    names: Sequence[str],
    seen: Mapping[str, Look],
    labels: Mapping[str, float],
    first: str,
) -> tuple[str, str, dict[str, float]]:
    """The columns of texts and of labels that together have the most points."""
    flat = [name for name in names if name not in table.nested]
    flat = flat if len(flat) > 1 else list(names)
    texts = {name: text_points(name, seen[name]) for name in ([first] if first else flat)}
    best = [
        (texts[text] + labels[label], text, label)
        for text in ranked(texts)[:3]
        for label in ranked(labels)[:3]
        if text != label
    ]
    if not best:
        return first or ranked(texts)[0], "", texts
    _, text, label = max(best, key=lambda way: way[0])  # the first of equals
    return text, label, texts


def _flags_among(
    table: Table, left: Sequence[str], seen: Mapping[str, Look], label: str
) -> tuple[str, ...]:
    """The 0/1 columns among some, if they are the labels rather than something else."""
    named = label if is_named(label) and seen[label].distinct > 1 else ""
    flags = _flags(table, left, named)
    others = [name for name in left if name not in flags]
    worded = any(seen[n].repeats and seen[n].distinct > 2 and not seen[n].numbers for n in others)
    if flags and worded and not named and len(flags) * _MOST < len(left) * (_MOST - 1):
        return ()  # a few marks beside a column of words
    if label not in flags and (len(flags) < _MANY_FLAGS or len(flags) * 2 <= len(left)):
        return ()  # they are only something else about the texts
    return flags


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


def _split(table: Table, names: Sequence[str]) -> str:
    """A column that is called like a split and says nothing but train, validation and test."""
    for name in names:
        if plain(name) in SPLITS:
            at = table.columns.index(name)
            if all(row[at].strip().casefold() in PARTS for row in table.rows):
                return name
    return ""


def _pair(names: Sequence[str], seen: Mapping[str, Look]) -> tuple[str, str]:
    """The two columns of texts, where they are called so and no cell speaks against it."""
    by_plain = {plain(name): name for name in names}
    for keys in PAIRS:
        found = [by_plain[key] for key in keys if key in by_plain]
        if len(found) == len(keys) and all(map(_may_be_text, (seen[name] for name in found))):
            return found[0], found[1]
    return "", ""


def _may_be_text(look: Look) -> bool:
    return not (look.numbers and look.filled > 1 and look.repeats) and look.dates < _HALF


def _alike(text: str, names: Sequence[str], seen: Mapping[str, Look]) -> tuple[str, str]:
    """A second column of texts about as long and as different as the first, without names."""
    first = seen[text]
    for name in names:
        other = seen[name]
        same = 0.5 <= other.letters / max(first.letters, 1) <= 2
        is_text = not other.repeats and other.letters > 15 and other.sentences > _HALF
        if name != text and same and is_text and not first.repeats:
            later = names.index(name) > names.index(text)
            return (text, name) if later else (name, text)
    return text, ""


def doubts(table: Table) -> list[Finding]:
    """Which other columns may be the texts or the labels as well, where two are near."""
    choice = _choice(table, ColumnHints())
    columns, found = choice.columns, []
    best, others = choice.texts.get(columns.text, 0.0), ranked(choice.texts)
    near = [
        name
        for name in others
        if name not in (columns.text, columns.label) and choice.texts[name] > _NEAR_TEXT * best > 0
    ]
    if near:
        found.append(_doubt(table, "text", columns.text, near))
    best = choice.labels.get(columns.label, 0.0)
    near = [
        name
        for name in ranked(choice.labels)
        if name not in (columns.label, columns.text)
        and choice.labels[name] >= max(best - _NEAR_LABEL, _LEAST_LABEL)
    ]
    if near:
        found.append(_doubt(table, "label", columns.label, near))
    return found


def _doubt(table: Table, role: str, taken: str, near: Sequence[str]) -> Finding:
    """A warning that names both columns, shows a cell of each, and says how to choose the other."""
    what = "texts" if role == "text" else "labels"
    others = " or ".join(_example(table, name) for name in near[:2])
    says = (
        f"{_example(table, taken)} was taken for the {what}; {others} may be meant as well. "
        f'Choose it as the {role} column if so (--{role} "{short(near[0])}").'
    )
    return finding(f"which_{role}", says)


def _example(table: Table, name: str) -> str:
    """A column's name with some of its different cells."""
    at = table.columns.index(name)
    cells = dict.fromkeys(filter(None, (row[at].strip() for row in table.rows[:_FIRST])))
    shown = [short(cell, _EXAMPLE) for cell in list(cells)[:2]]
    return f"'{short(name)}' ({', '.join(shown)})" if shown else f"'{short(name)}'"
