"""Which column holds the texts and which the labels: by what is in them, then by their names.

What the labels are (one a row, several, a number) is told from their cells.
"""

import math
import random
import re
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

from heads.data.column_names import (
    ABOUT,
    ANSWERS,
    LABELS,
    OPINIONS,
    PAIRS,
    PARTS,
    PERSONS,
    SPLITS,
    SURELY,
    TEXTS,
    VECTORS,
    WEAK,
    plain,
    words,
)
from heads.data.labels import are_lists, cells_of, find_separator, flag_columns, is_measured
from heads.data.numbers import notation_of
from heads.data.table import (
    LISTS,
    ColumnHints,
    Columns,
    Finding,
    Table,
    finding,
    members,
    short,
)
from heads.errors import DataError

# --- What the cells of a column look like: sentences, words that come again, dates, ids, names.

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
class ColumnProfile:
    """What a sample of a column's cells looks like. Shares are of the filled cells, from 0 to 1.

    Attributes:
        full: The share of all cells that do.
        letters: Letters of a filled cell, on average; a date or a number has hardly any.
        fractions: Whether all are numbers, and some are not whole.
        sentences: The share with four words or more.
        dates: The share that are dates, times or years.
        codes: The share that are ids, addresses, names of files.
        people: The share that look like names of persons: two or three words with capitals.
        markup: The share that begin like HTML, or like a parse tree.
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


def profile(table: Table, name: str) -> ColumnProfile:
    """Return what rows from the whole table look like, which may be sorted by class.

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

    return ColumnProfile(
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
    """Return True if a cell is a date or a time, whichever way it is written.

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
    """Return True if a cell is an id, an address or the name of a file: one word that nobody says.

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


# --- How well a column would do as the texts, or as the labels: by what is in it, then by its name.

NEVER = -15.0  # for cells that are all the same: a label only where nothing else can be,
CALLED = 5.0  # or where the column is called one: then it is that which lacks a second class
_LONG = 60  # letters: no label is as long


def text_points(name: str, seen: ColumnProfile) -> float:
    """Return how well a column does as the texts: long, varied cells, unlike each other."""
    # Twice as long is one point: a title of 30 letters has 5, a review of 500 has 9.
    points = math.log2(1 + min(seen.letters, 2_000))
    points *= 0.4 + 0.6 * seen.sentences  # single words are keywords, names of things
    points *= seen.variety**0.5  # what comes again and again is a label, or an answer to all
    points *= 0.3 + 0.7 * seen.full
    points -= 6 * max(seen.dates, seen.codes) + 3 * seen.markup + 2 * seen.people
    if seen.numbers or seen.lists:
        points -= 6
    if seen.constant:
        points -= 6
    return points + _text_name(name)


def _text_name(name: str) -> float:
    """Return up to two and a half points for a name that texts often have."""
    key, parts = plain(name), words(name)
    if key in TEXTS:
        return 2.5 - 1.5 * TEXTS.index(key) / len(TEXTS)
    about = ABOUT & set(parts) or PERSONS & set(parts)
    if about:
        return -1.5
    if any(part in TEXTS for part in parts):
        return 1.2 - 0.7 * next(at for at, known in enumerate(TEXTS) if known in parts) / len(TEXTS)
    return 0.0


def label_points(
    name: str, seen: ColumnProfile, *, paired: bool = False, opinion: bool = False
) -> float:
    """Return how well a column does as the labels: few different cells, in few words.

    Args:
        paired: Whether the rows have two texts, which are often labelled by how alike they are.
        opinion: Whether the texts are reviews, which are often labelled with stars.
    """
    if seen.constant and seen.filled and plain(name) in SURELY:
        return CALLED
    points = label_contents(seen)
    named = _label_name(name)
    if paired and seen.fractions:
        points += 6.0
    elif seen.fractions and plain(name) in SURELY:
        points += 3.0  # called the target, it is one that is measured
    if opinion and OPINIONS & set(words(name)) and seen.numbers:
        named += 2.0
    return points + named


def label_contents(seen: ColumnProfile) -> float:
    """Return the points for what is in a column of labels."""
    if seen.constant:
        return NEVER
    many = 5 if seen.numbers else 1  # numbers count things as often as they name classes
    # Two labels have 1.7 points, twenty 0.7, two hundred none: the fewer, the clearer.
    points = 2.0 - min(math.log10(many * seen.distinct), 3.0)
    points += 4.0 * (1 - seen.variety) if seen.repeats else 1.0 * (1 - seen.variety)
    points += 0.0 if seen.numbers else 1.0
    points += 2.0 * seen.answers
    points -= 3.0 * (1 - seen.full)
    points -= 6.0 * seen.dates + 2.0 * seen.codes + 1.0 * seen.people * seen.variety
    points -= 5.0 * min(seen.letters / _LONG, 1.0) ** 2
    points -= 2.0 * seen.sentences + 3.0 * seen.markup
    return points


def _label_name(name: str) -> float:
    """Return up to six points for a name that labels often have, the clearer the more."""
    key, parts = plain(name), words(name)
    clear = 6.0 - 2.5 / len(LABELS) * LABELS.index(key) if key in LABELS else 0.0
    if key in WEAK:
        return 2.0
    if clear:
        return clear
    about = (ABOUT | PERSONS) & set(parts)
    held = next((known for known in LABELS if known in parts), "")
    if held and about <= {"name"}:  # "Intent Name"
        return 4.5 - 2.5 / len(LABELS) * LABELS.index(held)
    if about:
        return -3.0 if not held else -1.0
    if parts and (parts[0] in ("is", "has") or any(part in WEAK for part in parts)):
        return 1.0
    return 0.0


def is_named(name: str) -> bool:
    """Return True if a column is called as labels are."""
    return _label_name(name) > 0


def ranked(points: Mapping[str, float]) -> list[str]:
    """Return names by their points, the most first; the first of equals."""
    return sorted(points, key=lambda name: -points[name])


_MOST = 5  # four of five columns are most of them
_MANY_FLAGS = 3
_NEAR_TEXT = 0.8  # of the points of the best, from which a second column may be the texts as well
_NEAR_LABEL = 1.5  # points behind the best, within which a second column may be the labels as well
_LEAST_LABEL = 3.0  # points without which nobody would take a column for the labels
_EXAMPLE = 30  # characters
_FIRST = 200  # rows of which some cells are shown
_HALF = 0.5


def fitting(columns: Columns, table: Table) -> Columns | None:
    """Return the columns of the data for a file that is its test; None where it lacks one.

    Its classes need no order of their own, and it need not say what is a test or a group.
    """
    optional = ("split", "group", "text") if columns.vectors else ("split", "group")
    known = {name: getattr(columns, name) for name in optional}
    left = {name: column if column in table.columns else "" for name, column in known.items()}
    columns = replace(columns, **left)
    is_read = not columns.vectors or columns.vectors in table.vectors
    if is_read and all(name in table.columns for name in columns.used):
        return replace(columns, order=())
    return None


def guess(table: Table, said: ColumnHints | None = None) -> Columns:
    """Guess the columns that the user has not named; raise DataError if there are too few."""
    said = said or ColumnHints()
    if said.text in table.vectors:  # as one says it who sees a menu of columns
        said = replace(said, text="", vectors=said.text)
    if said.label and said.labels:
        what = "A label column is named, and 0/1 columns as well."
        raise DataError(what, "Name the one or the others.")
    choice = _choice(table, said)
    found, flags = choice.columns, choice.flags
    named = {key: getattr(said, key) for key in ("text", "label", "pair", "split", "vectors")}
    found = replace(found, **{key: name for key, name in named.items() if name})
    is_plain = not (said.label or said.separator or said.number or said.order)
    labels = said.labels or (flags if is_plain and said.separator is None else ())
    if labels:
        used = (found.text, found.pair, found.split)
        kept = tuple(name for name in labels if name in said.labels or name not in used)
        return replace(found, label="", labels=kept, number=bool(said.number), order=said.order)
    return _by_cells(table, found, said)


def _by_cells(table: Table, columns: Columns, said: ColumnHints) -> Columns:
    """Return what the cells of the label column are: numbers, several labels, or one."""
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
    """The columns by the part they take, and the points of each as texts and as labels."""

    columns: Columns
    flags: tuple[str, ...]
    texts: Mapping[str, float]
    labels: Mapping[str, float]


def _choice(table: Table, said: ColumnHints) -> _Choice:
    if table.vectors or said.vectors:
        found = _beside_vectors(table, said)
        if said.vectors or not found.columns.text:
            return found
    names = [name for name in table.columns if name not in table.unnamed]
    split = _split(table, [name for name in names if name != said.group])
    free = [name for name in names if name not in (split, said.group)]
    if len(free) < 2:
        raise _too_few(table.name, free)
    seen = {name: profile(table, name) for name in free}
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


def _beside_vectors(table: Table, said: ColumnHints) -> _Choice:
    """Return the columns where vectors are learned from: labels, and texts if any are there."""
    names = _without([n for n in table.columns if n not in table.unnamed], *table.vectors)
    split = _split(table, _without(names, said.group))
    free = _without(names, split, said.group)
    seen = {name: profile(table, name) for name in free}
    texts = {
        name: text_points(name, seen[name])
        for name in _without(free, said.label, *said.labels)
        if name not in table.nested and _are_texts(name, seen[name])
    }
    text = said.text or next(iter(ranked(texts)), "")
    left = _without(free, text)
    if not left:
        what = f"{table.name} holds vectors and no labels."
        raise DataError(what, "Give these in a file of their own (--labels-file), in one order.")
    labels = _labels(table, left, seen, paired=False)
    label = next(iter(ranked(labels)), "")
    flags = _flags_among(table, left, seen, label)
    columns = Columns(
        text=text, label=label, split=split, group=said.group,
        vectors=said.vectors or ("" if text else _the_vectors(table)),
    )  # fmt: skip
    return _Choice(columns=columns, flags=flags, texts={}, labels={} if flags else labels)


def _are_texts(name: str, look: ColumnProfile) -> bool:
    """Return True if a column beside vectors holds texts: sentences, or what is called so."""
    return not (look.numbers or look.constant) and (
        look.sentences > _HALF or (plain(name) in TEXTS and not look.repeats)
    )


def _the_vectors(table: Table) -> str:
    """Return the column of vectors, if there is one, or one of several that is called so."""
    called = [name for name in table.vectors if plain(name) in VECTORS]
    found = called if len(called) == 1 else list(table.vectors)
    if len(found) == 1:
        return found[0]
    told = ", ".join(map(short, found))
    what = f"{table.name} has several columns of vectors ({told})."
    raise DataError(what, f"Name one: --vectors {short(found[0])}.")


def _without(names: Sequence[str], *taken: str) -> list[str]:
    return [name for name in names if name not in taken]


def _labels(
    table: Table, names: Sequence[str], seen: Mapping[str, ColumnProfile], *, paired: bool
) -> dict[str, float]:
    """Return the points of columns as the labels."""
    opinion = any({"review", "reviews"} & set(words(name)) for name in seen)
    return {
        name: label_points(name, seen[name], paired=paired, opinion=opinion)
        for name in names
        if name not in table.nested or name in table.lists
    }


def _text_and_label(
    table: Table,
    names: Sequence[str],
    seen: Mapping[str, ColumnProfile],
    labels: Mapping[str, float],
    first: str,
) -> tuple[str, str, dict[str, float]]:
    """Return the columns of texts and of labels that together have the most points."""
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
    table: Table, left: Sequence[str], seen: Mapping[str, ColumnProfile], label: str
) -> tuple[str, ...]:
    """Return the 0/1 columns among some, if they are the labels rather than something else."""
    named = label if is_named(label) and seen[label].distinct > 1 else ""
    flags = ()
    if table.has_header and plain(named) not in SURELY:
        flags = flag_columns(table, [name for name in left if not ABOUT & set(words(name))])
    if named and named not in flags:
        return ()
    others = [name for name in left if name not in flags]
    worded = any(seen[n].repeats and seen[n].distinct > 2 and not seen[n].numbers for n in others)
    if flags and worded and not named and len(flags) * _MOST < len(left) * (_MOST - 1):
        return ()  # a few marks beside a column of words
    if label not in flags and (len(flags) < _MANY_FLAGS or len(flags) * 2 <= len(left)):
        return ()  # they are only something else about the texts
    return flags


def _too_few(name: str, columns: Sequence[str]) -> DataError:
    found = " and ".join(f"'{short(column)}'" for column in columns) or "without a name"
    what = f"{name} has only the column{'s' * (len(columns) > 1)} {found}."
    return DataError(what, "Add a column of texts or of labels.", line=1)


def _split(table: Table, names: Sequence[str]) -> str:
    """Return a column that is called like a split and says only train, validation and test."""
    for name in names:
        if plain(name) in SPLITS:
            at = table.columns.index(name)
            if all(row[at].strip().casefold() in PARTS for row in table.rows):
                return name
    return ""


def _pair(names: Sequence[str], seen: Mapping[str, ColumnProfile]) -> tuple[str, str]:
    """Return the two columns of texts, where they are called so and no cell speaks against it."""
    by_plain = {plain(name): name for name in names}
    for keys in PAIRS:
        found = [by_plain[key] for key in keys if key in by_plain]
        if len(found) == len(keys) and not any(
            (look.numbers and look.filled > 1 and look.repeats) or look.dates >= _HALF
            for look in map(seen.__getitem__, found)
        ):
            return found[0], found[1]
    return "", ""


def _alike(text: str, names: Sequence[str], seen: Mapping[str, ColumnProfile]) -> tuple[str, str]:
    """Return the texts and a second column of them, about as long and as different, or ""."""
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
    """Return which other columns may be the texts or the labels as well, where two are near."""
    choice = _choice(table, ColumnHints())
    texts, labels, columns, found = choice.texts, choice.labels, choice.columns, []
    best = texts.get(columns.text, 0.0)
    near_texts = {name: n for name, n in texts.items() if n > _NEAR_TEXT * best > 0}
    least = max(labels.get(columns.label, 0.0) - _NEAR_LABEL, _LEAST_LABEL)
    near_labels = {name: points for name, points in labels.items() if points >= least}
    for role, taken, points in (
        ("text", columns.text, near_texts),
        ("label", columns.label, near_labels),
    ):
        if near := _without(ranked(points), columns.text, columns.label):
            others = " or ".join(_example(table, name) for name in near[:2])
            says = (
                f"{_example(table, taken)} was taken for the {role}s; {others} may be meant as "
                f'well. Choose it as the {role} column if so (--{role} "{short(near[0])}").'
            )
            found.append(finding(f"which_{role}", says))
    return found


def _example(table: Table, name: str) -> str:
    """Return a column's name with some of its different cells."""
    at = table.columns.index(name)
    cells = dict.fromkeys(filter(None, (row[at].strip() for row in table.rows[:_FIRST])))
    shown = [short(cell, _EXAMPLE) for cell in list(cells)[:2]]
    return f"'{short(name)}' ({', '.join(shown)})" if shown else f"'{short(name)}'"
