"""How a file was read, as a fragment of HTML: rows, classes, warnings, first rows. No Gradio."""

import math
from collections.abc import Sequence

from markupsafe import Markup

from heads.data.dataset import Data
from heads.data.table import LISTS, ColumnHints, Columns, Finding
from heads.errors import DataError
from heads.interfaces.views.plain_charts import bars
from heads.interfaces.views.comparison import joined

CELL = 120  # characters
SHOWN = 4  # warnings that are not folded away
BINS = 10  # about as many bars for numbers
ROLES = {
    "text": "text", "pair": "second text", "label": "label", "split": "split", "group": "group",
}  # fmt: skip
# What labels can be: how pages and the API call it, and how a user reads it.
FORMS = {
    "one": "one a row",
    "|": 'several, parted by "|"',
    ";": 'several, parted by ";"',
    ",": 'several, parted by ","',
    LISTS: "several, as a list",
    "columns": "a 0/1 column each",
    "number": "a number",
}


def said(
    names: Sequence[str], form: str, labels: tuple[str, ...], order: tuple[str, ...]
) -> ColumnHints:
    """What a user said of the columns.

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
        raise DataError(f"Labels cannot be '{form[:40]}'.", f"Choose one of {' '.join(FORMS)}")
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


def account(data: Data) -> Markup:
    """What becomes of every row of a file, and what one should know before training on it."""
    used, rows = len(data.corpus), data.rows_in
    how_many = f"{used:,} of {rows:,} rows are used"
    if used == rows:
        how_many = f"all {rows:,} rows are used"
    kept = Markup("<p><strong>{}:</strong> {}, {}. {}</p>").format(
        data.corpus.name,
        how_many,
        data.says,
        " ".join(data.notes),
    )
    drawn = Markup(
        '<div class="verdict {}" role="status">{}{}</div><div class="pair account"><div>'
        "<h4>First rows</h4>{}</div><div><h4>{}</h4>{}</div></div>"
    )
    return drawn.format(
        "differ" if data.findings else "agree",
        kept,
        _warnings(data.findings),
        preview(data.names, data.head, data.columns),
        f"Rows of each {data.corpus.problem.group}" if data.classes else "Rows of each size",
        _numbers(data.corpus.numbers) if data.corpus.numbers else _classes(data),
    )


def _warnings(findings: Sequence[Finding]) -> Markup:
    lines = [Markup('<p class="note">{}</p>').format(each.says) for each in findings]
    if len(lines) <= SHOWN:
        return joined(lines)
    more = f"{len(lines) - SHOWN} more notes"
    folded = Markup('<details class="notes"><summary>{}</summary>{}</details>')
    return joined([*lines[:SHOWN], folded.format(more, joined(lines[SHOWN:]))])


def _classes(data: Data) -> Markup:
    rows = sorted(data.classes.items(), key=lambda row: -row[1])
    most = max(1, *(number for _, number in rows))
    return bars(
        [(name, number / most) for name, number in rows],
        shown=[f"{number:,}" for _, number in rows],
    )


def _numbers(numbers: Sequence[float]) -> Markup:
    """How many rows have a number of about which size, in about ten round steps."""
    low, high = min(numbers), max(numbers)
    exact = (high - low) / BINS
    power = 10.0 ** math.floor(math.log10(exact))
    step = next(times * power for times in (1, 2, 5, 10) if times * power >= exact * 0.999)
    first = math.floor(low / step)
    last = max(first, math.ceil(high / step) - 1)  # the greatest number belongs to the last bar
    counts = dict.fromkeys(range(first, last + 1), 0)
    for number in numbers:
        counts[min(last, math.floor(number / step))] += 1
    most = max(counts.values())
    return bars(
        [(f"{at * step:.4g} to {(at + 1) * step:.4g}", own / most) for at, own in counts.items()],
        shown=[f"{own:,}" for own in counts.values()],
    )


def preview(names: Sequence[str], rows: Sequence[Sequence[str]], columns: Columns) -> Markup:
    """The first rows as they are in the file; the columns that are used say as what."""
    roles = {getattr(columns, role): says for role, says in ROLES.items()}
    roles |= dict.fromkeys(columns.labels, "label")
    head = joined(
        Markup("<th>{}{}</th>").format(
            _cut(name),
            Markup('<br><span class="role">{}</span>').format(roles[name]) if name in roles else "",
        )
        for name in names
    )
    body = joined(
        Markup("<tr>{}</tr>").format(
            joined(Markup("<td>{}</td>").format(_cut(cell)) for cell in row)
        )
        for row in rows
    )
    return Markup(
        '<div class="scroll" tabindex="0"><table class="figures preview"><thead><tr>{}</tr>'
        "</thead><tbody>{}</tbody></table></div>"
    ).format(head, body)


def _cut(cell: str) -> str:
    return cell if len(cell) <= CELL else f"{cell[:CELL].rstrip()}…"


def remark(says: str) -> Markup:
    """A quiet sentence."""
    return Markup('<p class="quiet">{}</p>').format(says)
