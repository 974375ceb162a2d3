"""How a file was read, as a fragment of HTML: columns, classes, warnings, rows. No Gradio."""

from collections import Counter
from collections.abc import Sequence

from markupsafe import Markup

from heads.data.dataset import Data
from heads.data.table import LISTS, ColumnHints, Columns, Table
from heads.errors import DataError
from heads.interfaces.views import counts
from heads.interfaces.views.html import failure, render

CELL = 120  # characters
SHOWN = 4  # warnings that are not folded away
MOST_BARS = 20  # classes
MOST_NAMED = 6  # columns of labels
ROLES = {
    "vectors": "vectors",
    "text": "text", "pair": "second text", "label": "label", "split": "split", "group": "group",
}  # fmt: skip
# What labels can be: how pages and the API call it, and how a user reads it.
FORMS = {
    "one": "one a row",
    "|": 'several, separated by "|"',
    ";": 'several, separated by ";"',
    ",": 'several, separated by ","',
    LISTS: "several, as a list",
    "columns": "a 0/1 column each",
    "number": "a number",
}


def build_hints(
    names: Sequence[str], form: str, labels: tuple[str, ...], order: tuple[str, ...]
) -> ColumnHints:
    """Return what a user said of the columns.

    Args:
        names: Of the columns of text, label, second text, split and group; "" where nothing was
            said.
        form: One of `FORMS`; "" where nothing was said.
        labels: The 0/1 columns; used only where the form is that, or nothing was said.
        order: The classes from low to high; used only where a row has one, or nothing was said.

    Raises:
        DataError: There is no such form, or it lacks its columns.
    """
    text, label, pair, split, group = names
    if form and form not in FORMS:
        known = ", ".join(f"'{one}'" for one in FORMS)
        raise DataError(f"Labels cannot be '{form[:40]}'.", f"Choose one of {known}.")
    if form == "columns" and not labels:
        raise DataError("No 0/1 columns are chosen.", "Choose the columns, one for each label.")
    return ColumnHints(
        text=text,
        label="" if form == "columns" else label,
        pair=pair,
        split=split,
        separator=None if not form else form if form in (*"|;,", LISTS) else "",
        labels=labels if form in ("", "columns") else (),
        number=form == "number" if form else None,
        order=order if form in ("", "one") else (),
        group=group,
    )


def form_of(columns: Columns) -> str:
    """Which of the forms the labels have."""
    if columns.number or columns.labels:
        return "number" if columns.number else "columns"
    return columns.separator or "one"


def card(data: Data, *, can_change: bool = True) -> Markup:
    """Show how a file was read, what to know before training, and its first rows."""
    used, rows = len(data.corpus), data.rows_in
    columns = data.columns
    roles = [
        (says, getattr(columns, role)) for role, says in ROLES.items() if getattr(columns, role)
    ]
    if columns.labels:
        roles.append(("labels", ", ".join(columns.labels[:MOST_NAMED])))
    return render(
        "card.html",
        name=data.corpus.name,
        can_change=can_change,
        rows=f"{used:,} rows" if used == rows else f"{used:,} of {rows:,} rows",
        roles=roles,
        says=data.says,
        notes=list(data.notes),
        findings=[*_few(data), *(each.says for each in data.findings)],
        shown=SHOWN,
        table=preview(data.names, data.head, columns),
        group=f"Rows of each {data.corpus.problem.group}" if data.classes else "Rows of each size",
        bars=_bars(data),
        more=max(0, len(data.classes) - MOST_BARS),
    )


def _few(data: Data) -> list[str]:
    """That no head will be recommended, where so few rows are scored; better known before."""
    from heads.evaluation.verdict import FEWEST_ROWS  # which imports torch

    parts = data.corpus.parts
    tested = parts.count("test") if "test" in parts else len(data.corpus)
    if tested >= FEWEST_ROWS:
        return []
    rows = f"{tested} {'row' if tested == 1 else 'rows'}"
    return [f"{rows} to score on: fewer than {FEWEST_ROWS} are too few to recommend a head."]


def problem(says: str, table: Table, columns: Columns) -> Markup:
    """What is wrong, above the rows that it is wrong with."""
    first = preview(table.columns, table.rows[:5], columns)
    return failure(says) + first


def _bars(data: Data) -> list[tuple[str, str, str, bool]]:
    numbers = data.corpus.numbers
    rows = counts.by_size(numbers) if numbers else Counter(data.classes).most_common(MOST_BARS)
    most = max(1, *(number for _, number in rows))
    return [(name, f"{100 * own / most:.1f}", f"{own:,}", True) for name, own in rows]


def preview(names: Sequence[str], rows: Sequence[Sequence[str]], columns: Columns) -> Markup:
    """The first rows as they are in the file; the columns that are used say as what."""
    roles = {getattr(columns, role): says for role, says in ROLES.items()}
    roles |= dict.fromkeys(columns.labels, "label")
    return render(
        "preview.html",
        names=[(_cut(name), roles.get(name, "")) for name in names],
        rows=[[_cut(cell) for cell in row] for row in rows],
    )


def _cut(cell: str) -> str:
    return cell if len(cell) <= CELL else f"{cell[:CELL].rstrip()}…"
