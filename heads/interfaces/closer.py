"""One head looked at closely, and what could be told before training, as HTML. No Gradio."""

from collections.abc import Sequence
from typing import Any

import torch
from markupsafe import Markup
from torch import Tensor

from heads.evaluation.details import Label
from heads.evaluation.metrics import SCORES
from heads.interfaces import sureness
from heads.interfaces.boards import broken, coded
from heads.interfaces.charts import Line, bars, chart, even, percent
from heads.interfaces.chosen import chosen_says
from heads.interfaces.drawings import joined
from heads.interfaces.figures import COLOURS, ZERO
from heads.interfaces.measured import between, ranked
from heads.runs.cells import Cell
from heads.runs.drill_down import Closeup, layer_name
from heads.runs.leaderboard import Leaderboard

MOST_CLASSES = 20
UPRIGHT = 6  # classes whose names fit above their columns
LABELS = (
    "Label", "Rows", "Precision", "Recall", "F1", "Average precision", "Given from",
)  # fmt: skip


def one(look: Closeup) -> Markup:
    """All of it for a head, with headings."""
    measures = look.cell.measures
    drawn = [_settings(look.cell), _mix(look.mix)]
    if measures.confusion is not None:
        drawn.append(
            _part("Which classes are confused", confusion(measures.confusion, look.classes))
        )
    if measures.labels:
        drawn.append(_part("Every label, the worst first", labels(measures.labels)))
    if look.kind == "number":
        drawn.append(_pair(_part("All measures", numbers(look.cell)), _scatter(look.points)))
        return joined(drawn)
    sure = _part("Is it as sure as it is right?", sureness.reliability(measures))
    open_ = sureness.coverage(measures.calibration, look.kind)
    drawn.append(_pair(sure, _part("What if it may abstain?", open_)))
    if not measures.labels:
        drawn.append(_part("F1 of every class, the worst first", f1(measures.f1, look.classes)))
    return joined(drawn)


def _part(title: str, drawn: Markup) -> Markup:
    return Markup("<h4>{}</h4>{}").format(title, drawn)


def _pair(left: Markup, right: Markup) -> Markup:
    return Markup("<div class='pair'><div>{}</div><div>{}</div></div>").format(left, right)


def _settings(cell: Cell) -> Markup:
    says = chosen_says(cell)
    return Markup('<p class="quiet">{}</p>').format(says) if says else Markup("")


def _mix(shares: Sequence[float]) -> Markup:
    """How much of each layer a learned mix reads."""
    if not shares:
        return Markup("")
    names = [layer_name(number).capitalize() for number in range(len(shares))]
    most = max(shares)
    drawn = bars(
        [(name, share / most) for name, share in zip(names, shares, strict=True)],
        shown=[percent(share) for share in shares],
    )
    told = Markup('<p class="quiet">{}</p>').format(
        f"It began with equal shares, {percent(1 / len(shares))} each."
    )
    return _part("Which layers it has learned to read", drawn + told)


def confusion(table: Tensor, classes: Sequence[str]) -> Markup:
    """How often a class was answered with a class; of many, those that are confused most.

    Args:
        table: (c, c), rows are the true classes.
    """
    wrong = table - torch.diag(table.diagonal())
    order = (wrong.sum(dim=0) + wrong.sum(dim=1)).argsort(descending=True, stable=True)
    shown = sorted(order[:MOST_CLASSES].tolist())
    head = joined(
        Markup('<th><span title="{0}">{0}</span></th>').format(classes[at]) for at in shown
    )
    rows = []
    for true in shown:
        whole = max(1, int(table[true].sum()))
        cells = joined(
            Markup('<td class="{}" style="--depth:{:.3f}">{}</td>').format(
                "tile" if said == true else "tile wrong",
                int(table[true, said]) / whole,
                int(table[true, said]) or "",
            )
            for said in shown
        )
        row = Markup('<tr><th title="{0}">{0}</th>{1}</tr>')
        rows.append(row.format(classes[true], cells))
    told = "How often a class (row) was answered with a class (column), all repetitions together"
    if len(classes) > MOST_CLASSES:
        told += f"; the {MOST_CLASSES} of {len(classes)} classes that are confused most"
    return Markup(
        '<div class="scroll" tabindex="0"><table class="heat confusion {}"><caption>{}</caption>'
        "<thead><tr><th>true class</th>{}</tr></thead><tbody>{}</tbody></table></div>"
    ).format("many" if len(shown) > UPRIGHT else "", told, head, joined(rows))


def labels(found: Sequence[Label]) -> Markup:
    """A row a label, the lowest F1 first."""
    head = joined(Markup("<th>{}</th>").format(name) for name in LABELS)
    rows = joined(
        Markup("<tr><th>{}</th>{}</tr>").format(
            label.name, joined(Markup("<td>{}</td>").format(shown) for shown in _label(label))
        )
        for label in worst_first(found)
    )
    told = (
        f"{len(found)} labels. Rows: those tested that have it. Given from: the probability "
        "from which it is given, chosen on development rows."
    )
    return Markup(
        '<p class="quiet">{}</p><div class="scroll tall" tabindex="0"><table class="figures">'
        "<thead><tr>{}</tr></thead><tbody>{}</tbody></table></div>"
    ).format(told, head, rows)


def worst_first(found: Sequence[Label]) -> list[Label]:
    """Labels by F1, the lowest first; those that were neither tested nor given last."""
    return sorted(found, key=lambda label: (label.f1 is None, label.f1, label.name))


def _label(label: Label) -> list[str]:
    shares = (label.precision, label.recall, label.f1, label.average_precision)
    shown = ["" if share is None else percent(share) for share in shares]
    return [f"{label.rows:,}", *shown, percent(label.threshold)]


def label_figures(found: Sequence[Label]) -> tuple[list[str], list[list[Any]]]:
    """The same for a spreadsheet: headers and rows, shares in percent."""
    shares = ("precision", "recall", "f1", "average_precision", "threshold")
    rows = [
        [label.name, label.rows]
        + [
            None if (share := getattr(label, name)) is None else round(100 * share, 1)
            for name in shares
        ]
        for label in worst_first(found)
    ]
    return [*LABELS[:2], *(f"{name} %" for name in LABELS[2:])], rows


def numbers(cell: Cell) -> Markup:
    """Every measure of predicted numbers."""
    measures = cell.measures
    rows = [
        (one.label, one.shown(value))
        for one in ranked("number", measures.metric)
        if (value := one.of(cell)) is not None
    ]
    rows.insert(1, ("its 95 % interval", between(measures, "to")))
    body = joined(Markup("<tr><th>{}</th><td>{}</td></tr>").format(*row) for row in rows)
    drawn = Markup('<div class="scroll"><table class="figures"><tbody>{}</tbody></table></div>')
    return drawn.format(body)


def _scatter(points: Sequence[tuple[float, float]]) -> Markup:
    """Predicted against true numbers."""
    if not points:
        return Markup("")
    x, y = zip(*points, strict=True)
    across, up = even(x, "The number in the data"), even([*x, *y], "Predicted")
    low, high = max(across.low, up.low), min(across.high, up.high)
    lines = [
        Line(name="exactly right", points=((low, low), (high, high)), colour=ZERO, joins=True),
        Line(
            name="a row",
            points=tuple(points),
            says=tuple(f"{true:.4g} in the data, {said:.4g} predicted" for true, said in points),
            colour=COLOURS[0],
        ),
    ]
    drawn = chart(lines, across, up, says="Predicted against true numbers")
    return _part("Predicted and true", Markup('<div class="fine">{}</div>').format(drawn))


def f1(scores: Sequence[float | None], classes: Sequence[str]) -> Markup:
    """The F1 of every class, the lowest first."""
    rows = [(name, score) for name, score in zip(classes, scores, strict=True) if score is not None]
    return bars(sorted(rows, key=lambda row: row[1]))


def estimates(board: Leaderboard) -> Markup:
    """What could be told before any training, and whether it was right."""
    if not board.estimates:
        return Markup('<p class="quiet">There are none for this run.</p>')
    told = SCORES[board.metric].told
    rows = joined(
        Markup("<tr><th>{}</th><td>{}</td><td>{}</td><td>{}</td></tr>").format(
            broken(item.name), f"{item.log_me:.3f}", f"{item.h_score:.3f}", told(item.neighbours)
        )
        for item in board.estimates
    )
    says = joined(Markup("<li>{}</li>").format(coded(item.says)) for item in board.agreements)
    return Markup(
        '<ul class="plain">{}</ul><div class="scroll" tabindex="0"><table class="figures">'
        "<caption>More is better</caption><thead><tr><th>pooling</th><th>LogME</th>"
        "<th>H-score</th><th>10 nearest rows</th></tr></thead><tbody>{}</tbody></table></div>"
    ).format(says, rows)
