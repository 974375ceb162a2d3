"""A file as cells, which column is what, and what a reader should know about it."""

import csv
import json
import re
import unicodedata
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from heads.data.text import CONTROLS, is_blank
from heads.errors import LimitError
from heads.settings import current_limits

if TYPE_CHECKING:
    from heads.data.vectors import RowVectors

MOST_LINES = 100
VECTOR_COLUMN, CELL = "vectors", "[…]"  # an array without a name; what stands in such cells
_SHOWN = 5


@dataclass(frozen=True, slots=True, kw_only=True)
class ColumnHints:
    """What the user said of the columns, by name; the rest is guessed.

    Attributes:
        text: The column of the texts; guessed, if not named.
        label: The column of the labels; guessed, if not named.
        pair: The column of the second texts; guessed, if not named.
        split: The column that says train, validation or test; guessed, if not named.
        separator: The sign between labels in a cell, [] where cells are lists; guessed, if not
            given.
        labels: Columns of 0 and 1, one for each label; guessed, if not named.
        number: Whether the label is a number to predict; guessed, if not said.
        order: The classes from low to high, where they have an order.
        group: The column that says which rows belong together, such as their author: no split
            parts them.
        vectors: The column of vectors to learn from in the place of texts; one is taken by itself
            where there are no texts.
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
    vectors: str = ""

    def __bool__(self) -> bool:
        return self != ColumnHints()


@dataclass(frozen=True, slots=True, kw_only=True)
class Columns(ColumnHints):
    """Which column is what, once it is settled; "" where there is none.

    A `separator` of "[]" means that cells are lists of labels, "" one label a cell; where `labels`
    are given, `label` is "". Beside `vectors` a column of texts only says what the rows are called,
    and what words are counted in.
    """

    separator: str = ""
    number: bool = False

    @property
    def used(self) -> tuple[str, ...]:
        """The names of the columns that are read."""
        names = (self.text, self.pair, self.label, *self.labels, self.split, self.group)
        return tuple(name for name in names if name)


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
        columns: The names of the columns, all different; "column 3" where there is no name.
        rows: The cells, as many in each row as there are columns.
        lines: The number of the line (or row, see `unit`) at which each row begins.
        has_header: Whether the file names its columns.
        unnamed: The columns without a name in a file that names the others.
        nested: Columns with a cell that is a list or an object, and the first line of one.
        lists: Those of them whose cells are all lists of plain values, kept as JSON.
        spelled: Whether cells were typed as text, where a spreadsheet's `'` may stand.
        dropped: Rows that are left out already: reason -> lines.
        unit: What `lines` counts: "line" or "row".
        source: Of a data set of the Hub its name down to the commit, by which it is read again.
        vectors: The columns that hold vectors, and what reads them once they are asked for; the
            cells say "[…]" there.
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
    source: str = ""
    vectors: "Mapping[str, Callable[[], RowVectors]]" = field(default_factory=dict)


def check_size(name: str, *, rows: int = 0, columns: int = 0) -> None:
    """Raise LimitError for more rows or columns than this place allows, while they are read."""
    limits = current_limits()
    if rows > limits.rows:
        what = f"{name} has more than {limits.rows:,} rows, the most this place reads."
        raise LimitError(what, "Choose a part of them.")
    if columns > limits.columns:
        what = f"{name} has {columns:,} columns; this place reads up to {limits.columns:,}."
        raise LimitError(what, "Keep the columns with texts and labels.")


def check_unpacked(name: str, size: int) -> None:
    """Raise LimitError for what unpacks to more bytes than this place allows."""
    limits = current_limits()
    if size > limits.unpacked_bytes:
        most = limits.unpacked_bytes // 1_000_000
        what = f"{name} unpacks to more than the {most:,} MB that this place reads."
        raise LimitError(what, "Choose a part of it.")


def finding(kind: str, says: str, lines: Sequence[int] = ()) -> Finding:
    """Return a warning with as many of its lines as are worth keeping."""
    return Finding(kind=kind, says=says, lines=tuple(lines[:MOST_LINES]))


def where(lines: Sequence[int], unit: str = "line") -> str:
    """Name lines in a sentence.

    >>> where([4]), where([4, 9, 12]), where(range(2, 20))
    ('line 4', 'lines 4, 9 and 12', 'lines 2, 3, 4, 5, 6 and 13 more')
    """
    if len(lines) == 1:
        return f"{unit} {lines[0]}"
    shown = [f"{line}" for line in lines[:_SHOWN]]
    left = len(lines) - len(shown)
    last = f"{left} more" if left else shown.pop()
    return f"{unit}s {', '.join(shown)} and {last}"


def quoted(names: Iterable[str], most: int = 3) -> str:
    """Return the first few names in quotes, and how many more there are."""
    names = list(names)
    shown = ", ".join(f"'{short(name)}'" for name in names[:most])
    return shown + (f" and {len(names) - most:,} more" if len(names) > most else "")


def lines_as_json(lines_by_reason: Mapping[str, Sequence[int]]) -> dict[str, Any]:
    """Return how many lines each reason has, and the first of them, as JSON can hold it."""
    return {
        reason: {"count": len(lines), "lines": list(lines[:MOST_LINES])}
        for reason, lines in lines_by_reason.items()
    }


def count(number: int, thing: str, things: str = "") -> str:
    """Return a number with its noun.

    >>> count(1, "row"), count(2000, "row"), count(2, "class", "classes")
    ('1 row', '2,000 rows', '2 classes')
    """
    return f"{number:,} {thing if number == 1 else things or thing + 's'}"


def short(text: str, most: int = 40) -> str:
    r"""Return a text as it can stand in a sentence: on one line, cut, invisible signs spelled.

    >>> short("a\nb" + "x" * 50, 10)
    'a bxxxxxx…'
    """
    line = " ".join(text[: 4 * most].split())
    line = "".join(letter if letter.isprintable() else f"\\u{ord(letter):04x}" for letter in line)
    return line if len(line) <= most else line[: most - 1] + "…"


# --- Single cells: labels made clean, and formulas of spreadsheets guarded and restored.

# What Excel, LibreOffice and Google Sheets take for the start of a formula.
FORMULA_SIGNS = "=+-@\t\r\n＝＋－＠"
LISTS = "[]"  # what "parts" labels where each cell is a list of them
_MEMBER = re.compile(r""""(?:[^"\\]|\\.)*"|'(?:[^'\\]|\\.)*'|[-+\w.]+""")
_PYTHON_2 = re.compile(r"(?<![^\s,])u(?=['\"])")  # as in [u'a', u'b']
_UNQUOTED = re.compile(r"[-+]?[\d.]+(?:[eE][-+]?\d+)?|true|false|True|False")
_NOTHING = ("None", "null", "nan", "NaN")
_GUARDED = re.compile(f"'*[{re.escape(FORMULA_SIGNS)}]")
_RUNS_NOTHING = re.compile(r"[-+]?(?:\d+\.?\d*|\.\d+)(?:[eE][-+]?\d+)?", re.ASCII)  # a number


def guard_cell(cell: str) -> str:
    """Put `'` before a cell that a spreadsheet would run; `unguard_cell` takes it away.

    A cell that already looks guarded gets one more, so that every text comes back as it was. A
    number runs nothing and stays, for others than us would read '-1 as another class than -1.

    >>> guard_cell("=1+1"), guard_cell("'=1+1"), guard_cell("plain"), guard_cell("-1")
    ("'=1+1", "''=1+1", 'plain', '-1')
    """
    return "'" + cell if _GUARDED.match(cell) and not _RUNS_NOTHING.fullmatch(cell) else cell


def written_cell(cell: Any, *, excel_safe: bool) -> Any:
    """Return a cell as every CSV and TSV file of ours holds it: as it is, or else guarded."""
    return guard_cell(cell) if excel_safe and isinstance(cell, str) else cell


def unguard_cell(cell: str) -> str:
    """Take away what `guard_cell` put there.

    >>> unguard_cell("'=1+1"), unguard_cell("=1+1"), unguard_cell("'tis plain")
    ('=1+1', '=1+1', "'tis plain")
    """
    return cell[1:] if cell.startswith("'") and _GUARDED.match(cell) else cell


def clean_label(cell: str) -> str:
    """Return a label without control characters and without spaces around it; its case is kept.

    One of which nothing is to be seen is none.
    """
    label = " ".join(CONTROLS.sub("", unicodedata.normalize("NFC", cell)).split())
    return "" if is_blank(label) else label


def listed(names: str) -> tuple[str, ...]:
    """Name in a line, separated by commas; quotes go around a name that holds one.

    >>> listed('low, middle, "high, very"'), listed("")
    (('low', 'middle', 'high, very'), ())
    """
    line = " ".join(names.split())
    found = next(csv.reader([line], skipinitialspace=True), [])
    return tuple(filter(None, map(clean_label, found)))


def members(cell: str) -> list[str] | None:
    """Return the members of a list in a cell, as JSON, Python or NumPy write it, or None.

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
    """Return a member of a list without its quotes; None for a word that nobody quoted."""
    if written[0] == '"':
        try:
            return str(json.loads(written))
        except ValueError:
            return None
    if written[0] == "'":
        return written[1:-1].replace("\\'", "'")
    return written if _UNQUOTED.fullmatch(written) else None
