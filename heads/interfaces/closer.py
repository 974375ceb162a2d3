"""One head looked at closely, and where heads disagree, as fragments of HTML. No Gradio."""

from collections.abc import Mapping, Sequence

import torch
from markupsafe import Markup
from torch import Tensor

from heads.interfaces.boards import coded
from heads.interfaces.charts import Axis, Line, bars, chart, percent
from heads.interfaces.drawings import joined
from heads.interfaces.figures import COLOURS, ZERO
from heads.pipeline.measure.measures import Bin
from heads.pipeline.runs.cell import Cell
from heads.pipeline.runs.disagreement import Disagreement
from heads.pipeline.runs.leaderboard import Leaderboard

MOST_CLASSES = 20
UPRIGHT = 6  # classes whose names fit above their columns
NAMED = 3  # heads that are named for one answer


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


def calibration(bins: Sequence[Bin], error: float) -> Markup:
    """How often a head is right when it is that sure."""
    everything = Axis(
        low=0, high=1, ticks=((0, "0 %"), (0.5, "50 %"), (1, "100 %")), says="Answered right"
    )
    x = Axis(low=0, high=1, ticks=everything.ticks, says="How sure the head was")
    lines = [
        Line(
            name="exactly as sure as it is right", points=((0, 0), (1, 1)), colour=ZERO, joins=True
        ),
        Line(
            name="this head",
            points=tuple((one.confidence, one.accuracy) for one in bins),
            says=tuple(
                f"{one.rows:,} answers, {percent(one.confidence)} sure, "
                f"{percent(one.accuracy)} right"
                for one in bins
            ),
            colour=COLOURS[0],
            joins=True,
        ),
    ]
    told = f"On average it is {error * 100:.1f} points more or less sure than it is right."
    drawn = chart(lines, x, everything, says=f"Calibration. {told}")
    return Markup("<p>{}</p>{}").format(told, drawn)


def f1(scores: Sequence[float | None], classes: Sequence[str]) -> Markup:
    """The F1 of every class, the lowest first."""
    rows = [(name, score) for name, score in zip(classes, scores, strict=True) if score is not None]
    return bars(sorted(rows, key=lambda row: row[1]))


def one(cell: Cell, classes: Sequence[str]) -> Markup:
    """All of it for a head, with headings."""
    measures = cell.measures
    chosen = ", ".join(
        f"{name.replace('_', ' ')} {_plain(value)}"
        for name, value in cell.chosen.items()
        if name != "planned"
    )
    return Markup(
        "{}<h4>Which classes are confused</h4>{}<div class='pair'><div>"
        "<h4>Is it as sure as it is right?</h4>{}</div><div><h4>F1 of every class</h4>{}</div>"
        "</div>"
    ).format(
        Markup('<p class="quiet">Settings that were best: {}.</p>').format(chosen)
        if chosen
        else "",
        confusion(measures.confusion, classes),
        calibration(measures.bins, measures.calibration_error),
        f1(measures.f1, classes),
    )


def _plain(value: object) -> str:
    if isinstance(value, bool):
        return "yes" if value else "no"
    return f"{value:.4g}" if isinstance(value, float) else str(value)


def disagreements(found: Sequence[Disagreement]) -> Markup:
    """The texts on which the heads disagree most, with what each of them says."""
    if not found:
        return Markup('<p class="quiet">The heads agree on every text.</p>')
    items = []
    for item in found:
        groups: dict[str, list[tuple[float, str]]] = {}
        for name, said, sure in item.answers:
            groups.setdefault(said, []).append((sure, name))
        answers = joined(
            Markup('<dt class="{}">{}</dt><dd>{}</dd>').format(
                "right" if said == item.label else "",
                said,
                _sayers(names),
            )
            for said, names in sorted(groups.items(), key=lambda pair: -len(pair[1]))
        )
        text = " ↔ ".join(short(text) for text in (item.text, item.pair) if text)
        items.append(
            Markup("<li><p>“{}” <span class='quiet'>is {}</span></p><dl>{}</dl></li>").format(
                text, item.label, answers
            )
        )
    return Markup('<ol class="disagree">{}</ol>').format(joined(items))


def _sayers(names: Sequence[tuple[float, str]]) -> str:
    """Who says so, the surest first; of many, a few."""
    shown = ", ".join(f"{name} ({percent(sure, 0)})" for sure, name in sorted(names)[::-1][:NAMED])
    more = len(names) - NAMED
    return f"{shown} and {more} more" if more > 0 else shown


def short(text: str, most: int = 300) -> str:
    """A text that does not fill the page."""
    return text if len(text) <= most else f"{text[:most].rstrip()}…"


def estimates(board: Leaderboard) -> Markup:
    """What could be told before any training, and whether it was right."""
    if not board.estimates:
        return Markup('<p class="quiet">There are none for this run.</p>')
    rows = joined(
        Markup("<tr><th>{}</th><td>{}</td><td>{}</td><td>{}</td></tr>").format(
            item.name, f"{item.log_me:.3f}", f"{item.h_score:.3f}", percent(item.neighbours)
        )
        for item in board.estimates
    )
    says = joined(Markup("<li>{}</li>").format(coded(item.says)) for item in board.agreements)
    return Markup(
        '<ul class="plain">{}</ul><div class="scroll" tabindex="0"><table class="figures">'
        "<caption>More is better</caption><thead><tr><th>pooling</th><th>LogME</th>"
        "<th>H-score</th><th>10 nearest rows</th></tr></thead><tbody>{}</tbody></table></div>"
    ).format(says, rows)


def tried(answers: Mapping[str, Sequence[float]], classes: Sequence[str], shown: int = 6) -> Markup:
    """What up to four heads say of a sentence: a card a head, the likeliest classes first."""
    cards = []
    for (name, chances), colour in zip(answers.items(), COLOURS, strict=False):
        order = sorted(range(len(classes)), key=lambda at: -chances[at])
        rows = [(classes[at], chances[at]) for at in order]
        left = len(rows) - shown
        rest = Markup('<p class="quiet">and {} less likely</p>').format(left) if left > 0 else ""
        cards.append(
            Markup(
                '<article class="card" style="--mark:{}"><h4>{}</h4><p class="answer">'
                "<strong>{}</strong> {}</p>{}{}</article>"
            ).format(
                colour,
                name,
                rows[0][0],
                percent(rows[0][1], 0),
                bars(rows[:shown], colour=colour, best=True),
                rest,
            )
        )
    return Markup('<div class="cards">{}</div>').format(joined(cards))
