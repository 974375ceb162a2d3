"""The cells of the chosen columns to clean texts and labels, and an account of every row."""

import unicodedata
from collections.abc import Sequence
from dataclasses import dataclass, field

from heads.errors import DataError, did_you_mean
from heads.pipeline.corpus import CONTROLS, gate
from heads.pipeline.table.cells import unguard_cell
from heads.pipeline.table.names import PARTS
from heads.pipeline.table.sheet import (
    MOST_LINES,
    Columns,
    Finding,
    Table,
    count,
    finding,
    short,
    where,
)
from heads.settings import Limits

NO_TEXT, NO_PAIR, NO_LABEL = "no text", "no second text", "no label"


@dataclass(kw_only=True)
class Rows:
    """What is kept of a table, column by column, and what is not.

    Attributes:
        dropped: Rows left out: reason -> lines.
        cut: Lines with a text that was cut to the limit.
        controls: Lines with a text from which control characters were removed.
        spilled: Lines whose text went on in columns without a name.
        restored: Lines with a cell that had a spreadsheet's `'` before it.
        unit: What lines count: "line" or "row".
    """

    texts: list[str] = field(default_factory=list)
    pairs: list[str] = field(default_factory=list)
    labels: list[str] = field(default_factory=list)
    parts: list[str] = field(default_factory=list)
    lines: list[int] = field(default_factory=list)
    dropped: dict[str, list[int]] = field(default_factory=dict)
    cut: list[int] = field(default_factory=list)
    controls: list[int] = field(default_factory=list)
    spilled: list[int] = field(default_factory=list)
    restored: list[int] = field(default_factory=list)
    unit: str = "line"

    def where(self, rows: Sequence[int]) -> str:
        """Names the lines of some rows in a sentence."""
        return where([self.lines[row] for row in rows], self.unit)

    def found(self, kind: str, says: str, rows: Sequence[int] = ()) -> Finding:
        """A warning on some rows."""
        return finding(kind, says, [self.lines[row] for row in rows[:MOST_LINES]])


def check_columns(table: Table, columns: Columns) -> None:
    """Checks that the chosen columns are there, different, and no lists.

    Raises:
        DataError: One is not.
    """
    for name in (columns.text, columns.label, *columns.used):
        if name not in table.columns:
            what = f"{table.name} has no column '{short(name)}'."
            raise DataError(what, did_you_mean(name, map(short, table.columns)), column=name)
        if name in table.nested:
            line = table.nested[name]
            what = f"The column '{short(name)}' holds lists or objects ({table.unit} {line})."
            raise DataError(what, "Choose a column with one text a cell.", line=line, column=name)
    if len(set(columns.used)) < len(columns.used):
        what = "The same column is chosen twice."
        raise DataError(what, "Choose one column for each of text, label and split.")


def collect(table: Table, columns: Columns, limits: Limits) -> Rows:
    """Cleans the chosen cells of every row, and keeps account of rows that cannot be used.

    Raises:
        DataError: A cell of the split column says something else than train, validation, test.
    """
    dropped = {reason: list(lines) for reason, lines in table.dropped.items()}
    found = Rows(dropped=dropped, unit=table.unit)
    wanted = [columns.text, columns.pair] if columns.pair else [columns.text]
    places = [table.columns.index(name) for name in wanted]
    label_at = table.columns.index(columns.label)
    split_at = table.columns.index(columns.split) if columns.split else -1
    spill = _spill(table, places[-1], (label_at, split_at))
    labels: dict[str, str] = {}
    for line, row in zip(table.lines, table.rows, strict=True):
        cells = [row[at] for at in places]
        if spill and any(row[at] for at in spill):
            cells[-1] = _joined(cells[-1], row, spill)
            found.spilled.append(line)
        raw = row[label_at]
        if raw not in labels:
            labels[raw] = clean_label(unguard_cell(raw) if table.spelled else raw)
        texts = _clean(cells, line, table, limits, found)
        reason = _missing(texts, labels[raw], bool(columns.separator))
        if reason:
            found.dropped.setdefault(reason, []).append(line)
            continue
        found.texts.append(texts[0])
        found.pairs.extend(texts[1:])
        found.labels.append(labels[raw])
        found.lines.append(line)
        if split_at >= 0:
            found.parts.append(_part(row[split_at], line, table, columns.split))
    return found


def clean_label(cell: str) -> str:
    """A label without control characters and without spaces around it; its case is kept."""
    return " ".join(CONTROLS.sub("", unicodedata.normalize("NFC", cell)).split())


def _clean(cells: Sequence[str], line: int, table: Table, limits: Limits, found: Rows) -> list[str]:
    """The texts of a row as the gate lets them in; "" for one of which nothing is left."""
    texts = []
    for given in cells:
        cell = unguard_cell(given) if table.spelled else given
        if cell is not given and cell != given:
            found.restored.append(line)
        if "\r" in cell:
            cell = cell.replace("\r\n", "\n").replace("\r", "\n")
        if len(cell) > limits.text_characters:
            found.cut.append(line)
        if CONTROLS.search(cell, 0, limits.text_characters):
            found.controls.append(line)
        try:
            texts.append(gate(cell, limits, "text") if cell else "")
        except DataError:
            texts.append("")
    return texts


def _missing(texts: Sequence[str], label: str, many: bool) -> str:
    """Why a row cannot be used, or "" where it can; rows with many labels may have none."""
    if not texts[0]:
        return NO_TEXT
    if not texts[-1]:
        return NO_PAIR
    return "" if label or many else NO_LABEL


def _spill(table: Table, last_text: int, others: Sequence[int]) -> list[int]:
    """Columns without a name right after the text: where its commas put the rest of it."""
    found = []
    for at in range(last_text + 1, len(table.columns)):
        if table.columns[at] not in table.unnamed or at in others:
            break
        found.append(at)
    return found


def _joined(cell: str, row: Sequence[str], spill: Sequence[int]) -> str:
    last = max(at for at in spill if row[at])
    return ",".join([cell, *(row[at] for at in spill if at <= last)])


def _part(cell: str, line: int, table: Table, column: str) -> str:
    part = PARTS.get(cell.strip().casefold())
    if part is None:
        what = f"The split column says '{short(cell)}' on {table.unit} {line}."
        hint = "Write train, validation or test, or choose no split column."
        raise DataError(what, hint, line=line, column=column)
    return part


def account(rows: Rows, table: Table) -> list[Finding]:
    """Warnings on rows that were left out and on texts that were changed."""
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
    texts = (
        ("cut", rows.cut, "Cut {} to the longest text that is read: {}."),
        ("controls", rows.controls, "Removed invisible control characters from {}: {}."),
        ("spill", rows.spilled, "Joined {} with the columns without a name after them: {}."),
        ("restored", rows.restored, "Removed the ' that guards a formula before {}: {}."),
    )
    for kind, lines, says in texts:
        if lines:
            said = says.format(count(len(lines), "text"), where(lines, unit))
            findings.append(finding(kind, said, lines))
    return findings
