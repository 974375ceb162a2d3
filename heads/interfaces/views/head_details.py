"""One head closely, as HTML: confusion, labels, calibration, its settings. No Gradio."""

from collections.abc import Mapping, Sequence
from typing import Any

import torch
from markupsafe import Markup
from torch import Tensor

from heads.evaluation.calibration import Bin, Calibration, Coverage
from heads.evaluation.details import LabelDetails, Measures
from heads.evaluation.metrics import SCORES
from heads.interfaces.views.plain_charts import Axis, Line, bars, chart, even, percent
from heads.interfaces.views.comparison import COLOURS, ZERO, joined
from heads.interfaces.views.format import apart, between, ranked
from heads.interfaces.views.leaderboard import broken, coded
from heads.problem import REGRESSION, ProblemType
from heads.recipe import Value
from heads.runs.cells import Cell
from heads.runs.drill_down import Closeup, closeup, layer_name
from heads.runs.leaderboard import Leaderboard

# --- Whether a head is as sure as it is right, and what it gains by abstaining: words and charts.

NEAR = 1.05  # a temperature within this factor of 1 changes little
WHOLE = ((0.0, "0 %"), (0.5, "50 %"), (1.0, "100 %"))


def scaled_says(found: Calibration) -> str:
    """What the temperature tells of a head, and what dividing by it does, in two sentences."""
    divided = f"its logits are to be divided by {found.temperature:.2f}"
    if found.temperature >= NEAR:
        first = f"It is too sure: {divided} (the temperature, found on development rows)."
    elif found.temperature <= 1 / NEAR:
        first = f"It is not sure enough: {divided} (the temperature, found on development rows)."
    else:
        first = (
            "On the whole it is neither too sure nor too unsure: the best temperature, found on "
            f"development rows, is {found.temperature:.2f}, close to 1."
        )
    before, after = (f"{100 * one:.1f}" for one in (found.error_before, found.error_after))
    if found.error_after >= found.error_before:  # what fails its own test is no advice
        return (
            f"A temperature found on development rows, {found.temperature:.2f}, does not help on "
            f"the tested rows: with it the calibration error is {after} instead of {before} "
            "points. Leave its logits as they are."
        )
    return (
        f"{first} That takes its calibration error on the tested rows from {before} to "
        f"{after} points."
    )


def useful(points: Sequence[Coverage]) -> Coverage | None:
    """Where abstaining halves the errors at the least cost; None where it never does."""
    goal = (1 + points[0].accuracy) / 2
    return next((point for point in points[1:] if point.accuracy >= goal), None)


def abstained_says(points: Sequence[Coverage], problem: ProblemType) -> str:
    """What a head gains where it may leave open what it is not sure of, in a sentence."""
    whole, found = points[0], useful(points)
    things = problem.decided
    if whole.accuracy == 1:
        return f"It answers all {things} right, so abstaining has nothing to gain."
    if found is None:
        last = points[-1]
        return (
            f"Abstaining would not halve its errors: of the {_share(last.coverage)} of {things} "
            f"that it is surest of, it answers {_share(last.accuracy)} right."
        )
    return (
        f"If it may abstain where it is less sure than {_share(found.threshold)}, it answers "
        f"{_share(found.coverage)} of the {things} and {_share(found.accuracy)} of those right; "
        f"of all it answers {_share(whole.accuracy)} right."
    )


def _share(share: float) -> str:
    """A share with as many digits as tell it from all.

    >>> _share(0.8), _share(0.9912), _share(0.99951), _share(1)
    ('80 %', '99.1 %', '99.95 %', '100 %')
    """
    digits = 0 if share < 0.985 or share == 1 else 1 if share < 0.9985 else 2
    return percent(share, digits)


def reliability(measures: Measures) -> Markup:
    """How often a head is right when it is that sure, as it is and with its logits divided."""
    scaled, error = measures.calibration, measures.values["calibration_error"]
    says = f"Its confidence is off by {error * 100:.1f} points on average."
    exact = Line(name="as sure as right", points=((0, 0), (1, 1)), colour=ZERO, joins=True)
    lines = [exact, _curve(measures.bins, "as it is" if scaled else "this head", COLOURS[0])]
    if scaled:
        says = f"{says} {scaled_says(scaled)}"
        name = f"logits divided by {scaled.temperature:.2f}"
        lines.append(_curve(scaled.bins, name, COLOURS[1]))
    labels = "How sure it was of a label" if measures.labels else "How sure it was"
    x = Axis(low=0, high=1, ticks=WHOLE, says=labels)
    y = Axis(low=0, high=1, ticks=WHOLE, says="Answered right")
    return Markup("<p>{}</p>{}").format(says, chart(lines, x, y, says=f"Calibration. {says}"))


def _curve(bins: Sequence[Bin], name: str, colour: str) -> Line:
    return Line(
        name=name,
        points=tuple((one.confidence, one.accuracy) for one in bins),
        says=tuple(
            f"{one.rows:,} answers, {percent(one.confidence)} sure, {percent(one.accuracy)} right"
            for one in bins
        ),
        colour=colour,
        joins=True,
    )


def coverage(found: Calibration | None, problem: ProblemType) -> Markup:
    """How much is answered, and how much of that is right, where a head may abstain."""
    if found is None:
        return Markup('<p class="quiet">{}</p>').format(
            "It has no development rows that it has not learned from, so this cannot be told."
        )
    points, chosen = found.coverage, useful(found.coverage)
    lines = [_covered(points, "", COLOURS[0], joins=True)]
    if chosen:
        name = f"abstaining below {_share(chosen.threshold)}"
        lines.append(_covered([chosen], name, COLOURS[1]))
    x = Axis(
        low=0, high=1, ticks=WHOLE, says=f"{'Texts' if problem.is_exclusive else 'Labels'} answered"
    )
    y = even((one.accuracy for one in points), "Of those, right", lambda at: percent(at))
    says = abstained_says(points, problem)
    return joined([Markup("<p>{}</p>").format(says), chart(lines, x, y, says=says)])


def _covered(points: Sequence[Coverage], name: str, colour: str, *, joins: bool = False) -> Line:
    return Line(
        name=name,
        points=tuple((one.coverage, one.accuracy) for one in points),
        says=tuple(
            f"at least {_share(one.threshold)} sure: answers {_share(one.coverage)}, "
            f"{_share(one.accuracy)} of them right"
            for one in points
        ),
        colour=colour,
        joins=joins,
    )


# --- The settings that a head was learned with, in the field's words.

ASIDE = ("epochs", "converged")  # what differs between seeds that have chosen the same
# What is said of a setting that is on, and of one that is off, where that is worth a word.
SWITCHES: Mapping[str, tuple[str, str]] = {
    "standardise": ("standardised", "not standardised"),
    "principal_axes": ("along principal axes", ""),
    "converged": ("", "still improving at the cap"),
}


def settings_says(chosen: Mapping[str, Value]) -> str:
    """Settings as one says them.

    >>> settings_says({"standardise": True, "principal_axes": False, "learning_rate": 0.004,
    ...     "weight_decay": 0.3, "epochs": 16.0, "converged": True})
    'standardised, learning rate 0.004, weight decay 0.3, 16 epochs'
    >>> settings_says({"standardise": False, "C": 0.1})
    'not standardised, C 0.1'
    """
    switches = [_said(name, value) for name, value in chosen.items() if name in SWITCHES]
    first = [_said("standardise", chosen["standardise"])] if "standardise" in chosen else []
    others = [_said(name, value) for name, value in chosen.items() if name not in SWITCHES]
    return ", ".join(filter(None, dict.fromkeys([*first, *others, *switches])))


def _said(name: str, value: Value) -> str:
    if name in SWITCHES:
        return SWITCHES[name][0 if value else 1]
    if name == "epochs":
        return f"{value:.3g} epoch{'' if value == 1 else 's'}"
    told = f"{value:.4g}" if isinstance(value, float) else str(value)
    return f"{name.replace('_', ' ')} {told}"


def chosen_says(cell: Cell) -> str:
    """What the first seed of a cell has chosen, and how many have chosen the same; or nothing."""
    told, every = settings_says(cell.chosen), cell.chosen_by_seed
    if not told:
        return ""
    if len(every) < 2:
        return f"Settings that were best: {told}."
    same = sum(_alike(one) == _alike(cell.chosen) for one in every)
    aside = " (epochs aside)" if "epochs" in cell.chosen else ""
    again = f"The same were best in {same} of {len(every)} seeds or folds{aside}."
    return f"Settings that were best for the first seed, whose head is kept: {told}. {again}"


def _alike(chosen: Mapping[str, Value]) -> dict[str, Value]:
    return {name: value for name, value in chosen.items() if name not in ASIDE}


MOST_CLASSES = 20
UPRIGHT = 6  # classes whose names fit above their columns
LABELS = (
    "Label", "Rows", "Precision", "Recall", "F1", "Average precision", "Given from",
)  # fmt: skip


def facts(board: Leaderboard, cell: Cell) -> list[tuple[str, str]]:
    """One head in a few lines: what it reaches, against which others, and at what price."""
    name, measures = SCORES[board.metric], cell.measures
    rows = [(name.title, f"{name.told(measures.score)} ({between(measures, 'to')}, 95 %)")]
    if cell.to_best is not None:
        rows.append(("Against the best", apart(cell)))
    if cell.to_reference is not None:
        by = name.signed(cell.to_reference.difference)
        surely = "more than chance" if cell.to_reference.differs else "within chance"
        rows.append((f"Against {board.reference}", f"{by}, {surely}"))
    rows.append(("Size", f"{cell.parameters:,} parameters are learned"))
    time = f"{cell.seconds:.1f} s to train"
    if cell.latency_ms is not None:
        time += f", {cell.latency_ms:.2f} ms added to a text"
    rows.append(("Time", time))
    if told := chosen_says(cell):
        rows.append(("Settings", told.partition(": ")[2] or told))
    return rows


def confidence(board: Leaderboard, cell: Cell) -> Markup:
    """Whether a head is as sure as it is right, and what it gains by abstaining."""
    sure = _part("Is it as sure as it is right?", reliability(cell.measures))
    open_ = coverage(cell.measures.calibration, board.problem)
    return _pair(sure, _part("What if it may abstain?", open_))


def mistakes(board: Leaderboard, name: str) -> Markup:
    """Where a head is wrong: confusions, labels, or predicted against true numbers."""
    look = closeup(board, name)
    measures, drawn = look.cell.measures, [_mix(look.mix)]
    if measures.confusion is not None:
        drawn.append(confusion(measures.confusion, look.classes))
    if measures.labels:
        drawn.append(labels(measures.labels))
    if not look.problem.has_classes:
        drawn.append(_pair(_part("All measures", numbers(look.cell)), _scatter(look.points)))
    elif not measures.labels:
        drawn.append(_part("F1 of every class, the worst first", f1(measures.f1, look.classes)))
    return joined(drawn)


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
    if not look.problem.has_classes:
        drawn.append(_pair(_part("All measures", numbers(look.cell)), _scatter(look.points)))
        return joined(drawn)
    sure = _part("Is it as sure as it is right?", reliability(measures))
    open_ = coverage(measures.calibration, look.problem)
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


def labels(found: Sequence[LabelDetails]) -> Markup:
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


def worst_first(found: Sequence[LabelDetails]) -> list[LabelDetails]:
    """Labels by F1, the lowest first; those that were neither tested nor given last."""
    return sorted(found, key=lambda label: (label.f1 is None, label.f1, label.name))


def _label(label: LabelDetails) -> list[str]:
    shares = (label.precision, label.recall, label.f1, label.average_precision)
    shown = ["" if share is None else percent(share) for share in shares]
    return [f"{label.rows:,}", *shown, percent(label.threshold)]


def label_figures(found: Sequence[LabelDetails]) -> tuple[list[str], list[list[Any]]]:
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
        for one in ranked(REGRESSION, measures.metric)
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
