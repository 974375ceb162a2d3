"""How a file was read, as a fragment of HTML: rows, classes, warnings, first rows. No Gradio."""

from collections.abc import Sequence

from markupsafe import Markup

from heads.interfaces.charts import bars
from heads.interfaces.drawings import counted, joined
from heads.pipeline.table import Columns, Data, Finding

CELL = 120  # characters
SHOWN = 4  # warnings that are not folded away
ROLES = {"text": "text", "pair": "second text", "label": "label", "split": "split"}


def account(data: Data) -> Markup:
    """What becomes of every row of a file, and what one should know before training on it."""
    used, rows = len(data.corpus), data.rows_in
    how_many = f"{used:,} of {rows:,} rows are used"
    if used == rows:
        how_many = f"all {rows:,} rows are used"
    kept = Markup("<p><strong>{}:</strong> {}, {}. {}</p>").format(
        data.corpus.name,
        how_many,
        counted(len(data.classes), "class"),
        " ".join(data.notes),
    )
    drawn = Markup(
        '<div class="verdict {}" role="status">{}{}</div><div class="pair account"><div>'
        "<h4>First rows</h4>{}</div><div><h4>Rows of each class</h4>{}</div></div>"
    )
    return drawn.format(
        "differ" if data.findings else "agree",
        kept,
        _warnings(data.findings),
        preview(data.names, data.head, data.columns),
        _classes(data),
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


def preview(names: Sequence[str], rows: Sequence[Sequence[str]], columns: Columns) -> Markup:
    """The first rows as they are in the file; the columns that are used say as what."""
    roles = {getattr(columns, role): says for role, says in ROLES.items()}
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
