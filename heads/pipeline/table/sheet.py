"""A file as cells, which column is what, and what a reader should know about it."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

MOST_LINES = 100
_SHOWN = 5


@dataclass(frozen=True, slots=True, kw_only=True)
class Columns:
    """Which column is what, by name; "" where there is none.

    Attributes:
        text: The column of the texts.
        label: The column of the labels.
        pair: The column of the second texts.
        split: The column that says which rows are for training and which for testing.
        separator: Labels in one cell are split at it; "[]" means that cells are lists of them,
            "" one label a cell.
        labels: Columns of 0 and 1, one for each label; `label` is "" then.
        number: Whether the label is a number that is to be predicted.
        order: The classes from low to high, where they have an order.
        group: The column that says which rows belong together, such as their author.
    """

    text: str
    label: str
    pair: str = ""
    split: str = ""
    separator: str = ""
    labels: tuple[str, ...] = ()
    number: bool = False
    order: tuple[str, ...] = ()
    group: str = ""

    @property
    def used(self) -> tuple[str, ...]:
        """The names of the columns that are read."""
        names = (self.text, self.pair, self.label, *self.labels, self.split, self.group)
        return tuple(name for name in names if name)


@dataclass(frozen=True, slots=True, kw_only=True)
class ColumnHints:
    """What the user said of the columns; the rest is guessed.

    Attributes:
        text: The column of the texts, as the next three by name; "" where nothing was said.
        label: The column of the labels.
        pair: The column of the second texts.
        split: The column of train, validation and test.
        separator: The sign between labels, "[]" for lists, "" for none; None where nothing was
            said.
        labels: The columns of 0 and 1.
        number: Whether the label is a number to predict; None where nothing was said.
        order: The classes from low to high.
        group: The column of what belongs together.
    """

    text: str = ""
    label: str = ""
    pair: str = ""
    split: str = ""
    separator: str | None = None
    labels: tuple[str, ...] = ()
    number: bool | None = None
    order: tuple[str, ...] = ()
    group: str = ""

    def __bool__(self) -> bool:
        return self != ColumnHints()


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """One warning about a table.

    Attributes:
        kind: A short stable key, for example "duplicates".
        says: One plain sentence: what, where, what to do.
        lines: Numbers of lines where it is so, at most 100 of them.
    """

    kind: str
    says: str
    lines: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Table:
    """A file as cells, all of them strings.

    Attributes:
        name: The file's name.
        columns: The names of the columns, all different; "column 3" where there is no name.
        rows: The cells, as many in each row as there are columns.
        lines: The number of the line (or row, see `unit`) at which each row begins.
        has_header: Whether the file names its columns.
        unnamed: The columns without a name in a file that names the others.
        nested: Columns with a cell that is a list or an object, and the first line of one.
        lists: Those of them whose cells are all lists of plain values, kept as JSON.
        spelled: Whether cells were typed as text, where a spreadsheet's `'` may stand.
        dropped: Rows that are left out already: reason -> lines.
        notes: Plain sentences on how it was read.
        findings: Warnings on how it was read.
        unit: What `lines` counts: "line" or "row".
    """

    name: str
    columns: tuple[str, ...]
    rows: Sequence[Sequence[str]]
    lines: Sequence[int]
    has_header: bool = True
    unnamed: frozenset[str] = frozenset()
    nested: Mapping[str, int] = field(default_factory=dict)
    lists: frozenset[str] = frozenset()
    spelled: bool = False
    dropped: Mapping[str, tuple[int, ...]] = field(default_factory=dict)
    notes: tuple[str, ...] = ()
    findings: tuple[Finding, ...] = ()
    unit: str = "line"


def finding(kind: str, says: str, lines: Sequence[int] = ()) -> Finding:
    """A warning with as many of its lines as are worth keeping."""
    return Finding(kind=kind, says=says, lines=tuple(lines[:MOST_LINES]))


def where(lines: Sequence[int], unit: str = "line") -> str:
    """Names lines in a sentence.

    >>> where([4]), where([4, 9, 12]), where(range(2, 20))
    ('line 4', 'lines 4, 9 and 12', 'lines 2, 3, 4, 5, 6 and 13 more')
    """
    if len(lines) == 1:
        return f"{unit} {lines[0]}"
    shown = [f"{line}" for line in lines[:_SHOWN]]
    left = len(lines) - len(shown)
    last = f"{left} more" if left else shown.pop()
    return f"{unit}s {', '.join(shown)} and {last}"


def count(number: int, thing: str, things: str = "") -> str:
    """A number with its noun.

    >>> count(1, "row"), count(2000, "row"), count(2, "class", "classes")
    ('1 row', '2,000 rows', '2 classes')
    """
    return f"{number:,} {thing if number == 1 else things or thing + 's'}"


def short(text: str, most: int = 40) -> str:
    r"""A text as it can stand in a sentence: on one line, cut, with its invisible signs spelled.

    >>> short("a\nb" + "x" * 50, 10)
    'a bxxxxxx…'
    """
    line = " ".join(text[: 4 * most].split())
    line = "".join(letter if letter.isprintable() else f"\\u{ord(letter):04x}" for letter in line)
    return line if len(line) <= most else line[: most - 1] + "…"
