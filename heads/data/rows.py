"""The cells of the chosen columns to texts and clean labels, and an account of every row."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import repeat, takewhile

from heads.data.column_names import PARTS
from heads.data.corpus import check_text
from heads.data.labels import label_cells
from heads.data.table import (
    LISTS,
    MOST_LINES,
    Columns,
    Finding,
    Table,
    clean_label,
    count,
    finding,
    short,
    unguard_cell,
    where,
)
from heads.data.text import CONTROLS
from heads.data.vectors import RowVectors
from heads.errors import DataError, did_you_mean
from heads.settings import current_limits

NO_TEXT, NO_PAIR, NO_VECTOR = "no text", "no second text", "no vector"


@dataclass(kw_only=True)
class Rows:
    """What is kept of a table, column by column, and what is not.

    Attributes:
        sets: The labels of each row: one, or any number; none where rows have numbers.
        numbers: The number of each row, where it is to be predicted.
        groups: The group of each row, "" for none, where a column says it.
        dropped: Rows left out: reason -> lines.
        cut: Lines with a text that was cut to the limit.
        controls: Lines with a text that holds control characters.
        spilled: Lines whose text went on in columns without a name.
        restored: Lines with a cell that had a spreadsheet's `'` before it.
        unit: What lines count: "line" or "row".
        places: The number of each row among all of the table, from 0.
        are_named: Whether the texts are names made of vectors, since there are no others.
    """

    texts: list[str] = field(default_factory=list)
    pairs: list[str] = field(default_factory=list)
    sets: list[tuple[str, ...]] = field(default_factory=list)
    numbers: list[float] = field(default_factory=list)
    parts: list[str] = field(default_factory=list)
    groups: list[str] = field(default_factory=list)
    lines: list[int] = field(default_factory=list)
    dropped: dict[str, list[int]] = field(default_factory=dict)
    cut: list[int] = field(default_factory=list)
    controls: list[int] = field(default_factory=list)
    spilled: list[int] = field(default_factory=list)
    restored: list[int] = field(default_factory=list)
    unit: str = "line"
    places: list[int] = field(default_factory=list)
    are_named: bool = False

    @property
    def thing(self) -> str:
        """What stands in a row, in a sentence."""
        return "vector" if self.are_named else "text"

    def where(self, rows: Sequence[int]) -> str:
        """Name the lines of some rows in a sentence."""
        return where([self.lines[row] for row in rows], self.unit)

    def found(self, kind: str, says: str, rows: Sequence[int] = ()) -> Finding:
        """Return a warning on some rows."""
        return finding(kind, says, [self.lines[row] for row in rows[:MOST_LINES]])


def check_columns(table: Table, columns: Columns) -> None:
    """Raise DataError unless the chosen columns exist, differ, hold no lists and agree."""
    _check_chosen(table, columns)
    for name in (*columns.used, *columns.labels):  # of the labels one may be named by nothing
        is_list = name == columns.label and columns.separator == LISTS and name in table.lists
        check_column(table, name, may_nest=is_list)
    if len(set(columns.used)) < len(columns.used):
        what = "The same column is chosen twice."
        raise DataError(what, "Choose one column for each of text, label, split and group.")
    if sum(map(bool, (columns.number, columns.labels, columns.separator))) > 1:
        what = "A separator, 0/1 columns and a number say different things of the labels."
        raise DataError(what, "Choose one of them.")
    if columns.label and columns.labels:
        what = "A label column is chosen, and 0/1 columns as well."
        raise DataError(what, "Choose one or the other.")


def check_column(table: Table, name: str, *, may_nest: bool = False) -> None:
    """Raise DataError for a column that is not there, or holds lists or objects."""
    if name not in table.columns:
        what = f"{table.name} has no column '{short(name)}'."
        raise DataError(what, did_you_mean(name, map(short, table.columns)), column=name)
    if name in table.nested and not may_nest:
        line = table.nested[name]
        what = f"The column '{short(name)}' holds lists or objects ({table.unit} {line})."
        raise DataError(what, "Choose a column with one text a cell.", line=line, column=name)


def _check_chosen(table: Table, columns: Columns) -> None:
    """Check that something is read, and something is to be found from it."""
    read, name = columns.text or columns.vectors, columns.vectors
    if not read or not (columns.label or columns.labels):
        what = f"No column of {'labels' if read else 'texts'} is chosen."
        raise DataError(what, f"{table.name} has {', '.join(map(short, table.columns[:8]))}.")
    if not name:
        return
    if name not in table.vectors:
        held = ", ".join(map(short, table.vectors)) or "none"
        what = f"{table.name} has no column of vectors called '{short(name)}' (it has: {held})."
        hint = "Vectors are lists of floats, all of one length."
        raise DataError(what, did_you_mean(name, table.vectors) if held != "none" else hint)
    if columns.pair:
        what = "Vectors are learned from as they are, so a column of second texts says nothing."
        raise DataError(what, "Put the vectors of two texts side by side, or choose the texts.")


def collect(table: Table, columns: Columns, vectors: RowVectors | None = None) -> Rows:
    """Take the chosen cells of every row, and keep account of rows that cannot be used.

    Args:
        vectors: Those of all rows, which are then learned from; a text only names a row.

    Raises:
        DataError: A cell of the split column or of a 0/1 column says something else.
    """
    dropped = {reason: list(lines) for reason, lines in table.dropped.items()}
    are_named = vectors is not None and not columns.text
    found = Rows(dropped=dropped, unit=table.unit, are_named=are_named)
    taking = TextReader.of(table, columns, found) if columns.text else None
    named = vectors.names if vectors else repeat(None, len(table.rows))
    split_at = table.columns.index(columns.split) if columns.split else -1
    group_at = table.columns.index(columns.group) if columns.group else -1
    read = label_cells(table, columns)
    for at, (line, row, name) in enumerate(zip(table.lines, table.rows, named, strict=True)):
        texts = taking.texts(row, line) if taking and name != "" else [""]
        if name:
            texts = [texts[0] or name]
        label = (NO_VECTOR if name == "" else missing(texts)) or read(row, line)
        if isinstance(label, str):  # why the row cannot be used
            found.dropped.setdefault(label, []).append(line)
            continue
        if isinstance(label, tuple):
            found.sets.append(label)
        else:
            found.numbers.append(label)
        found.places.append(at)
        found.texts.append(texts[0])
        found.pairs.extend(texts[1:])
        found.lines.append(line)
        if group_at >= 0:
            found.groups.append(clean_label(row[group_at]))
        if split_at >= 0:
            found.parts.append(_part(row[split_at], line, table, columns.split))
    return found


@dataclass(frozen=True, slots=True, kw_only=True)
class TextReader:
    """Takes the texts of rows, as heads learn from them and as they are asked.

    Attributes:
        places: The columns of the texts.
        spill: Columns without a name after them, into which commas put the rest of a text.
        spelled: Whether cells were typed as text, where a spreadsheet's `'` may stand.
        longest: Characters of a text.
        found: Where it is noted what is done to texts.
    """

    places: Sequence[int]
    spill: Sequence[int]
    spelled: bool
    longest: int
    found: Rows

    @classmethod
    def of(cls, table: Table, columns: Columns, found: Rows) -> "TextReader":
        """That of the rows of a table, or of a stream of which the table is a sample."""
        longest = current_limits().text_characters
        wanted = [columns.text, columns.pair] if columns.pair else [columns.text]
        places = [table.columns.index(name) for name in wanted]
        # Columns without a name right after the text: where its commas put the rest of it.
        free = table.unnamed - {*columns.used}
        after = range(places[-1] + 1, len(table.columns))
        spill = list(takewhile(lambda at: table.columns[at] in free, after))
        return cls(places=places, spill=spill, spelled=table.spelled, longest=longest, found=found)

    def texts(self, row: Sequence[str], line: int) -> list[str]:
        """Return the texts of a row as its cells hold them; "" for a blank one."""
        cells = [row[at] for at in self.places]
        if filled := [at for at in self.spill if row[at]]:
            cells[-1] = ",".join([cells[-1], *(row[at] for at in self.spill if at <= filled[-1])])
            self.found.spilled.append(line)
        return [self._text(cell, line) for cell in cells]

    def _text(self, given: str, line: int) -> str:
        found = self.found
        cell = unguard_cell(given) if self.spelled else given
        if cell is not given and cell != given:
            found.restored.append(line)
        if len(cell) > self.longest:
            found.cut.append(line)
        if CONTROLS.search(cell.replace("\r", ""), 0, self.longest):
            found.controls.append(line)
        try:
            return check_text(cell, "text", longest=self.longest) if cell else ""
        except DataError:
            return ""


def missing(texts: Sequence[str]) -> str:
    """Return which text a row lacks, or "" where it lacks none."""
    if not texts[0]:
        return NO_TEXT
    return "" if texts[-1] else NO_PAIR


def _part(cell: str, line: int, table: Table, column: str) -> str:
    part = PARTS.get(cell.strip().casefold())
    if part is None:
        what = f"The split column says '{short(cell)}' on {table.unit} {line}."
        hint = "Write train, validation or test, or choose no split column."
        raise DataError(what, hint, line=line, column=column)
    return part


def account(rows: Rows, table: Table) -> list[Finding]:
    """Return warnings on rows that were left out and on texts that were changed."""
    unit = table.unit
    findings = [
        finding(
            reason.replace("no ", "no_").replace(" ", "_"),
            f"Dropped {count(len(lines), 'row')} with {reason}: {where(lines, unit)}.",
            lines,
        )
        for reason, lines in rows.dropped.items()
        if reason not in table.dropped
    ]
    return findings + text_account(rows, unit)


def text_account(rows: Rows, unit: str) -> list[Finding]:
    """Return warnings on texts that were changed before anybody reads them."""
    findings = []
    texts = (
        ("cut", rows.cut, "Cut {} to the longest text that is read: {}."),
        ("controls", rows.controls, "Control characters, which models read, in {}: {}."),
        ("spill", rows.spilled, "Joined {} with the columns without a name after them: {}."),
        ("restored", rows.restored, "Removed the ' that guards a formula before {}: {}."),
    )
    for kind, lines, says in texts:
        if lines:
            said = says.format(count(len(lines), "text"), where(lines, unit))
            findings.append(finding(kind, said, lines))
    return findings
