"""Whether a head is as sure as it is right, and what it gains by abstaining: words and charts.

The words are the terminal's as well. No Gradio.
"""

from collections.abc import Sequence

from markupsafe import Markup

from heads.data.corpus import Kind
from heads.evaluation.calibration import Bin, Calibration, Coverage
from heads.evaluation.details import Measures
from heads.interfaces.charts import Axis, Line, chart, even, percent
from heads.interfaces.drawings import joined
from heads.interfaces.figures import COLOURS, ZERO

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
    if before == after:
        return f"{first} Its calibration error stays {before} points on the tested rows."
    if found.error_after < found.error_before:
        return (
            f"{first} That takes its calibration error on the tested rows from {before} to "
            f"{after} points."
        )
    return (
        f"{first} It does not help on the tested rows: the calibration error goes from "
        f"{before} to {after} points."
    )


def useful(points: Sequence[Coverage]) -> Coverage | None:
    """Where abstaining halves the errors at the least cost; None where it never does."""
    goal = (1 + points[0].accuracy) / 2
    return next((point for point in points[1:] if point.accuracy >= goal), None)


def abstained_says(points: Sequence[Coverage], kind: Kind) -> str:
    """What a head gains where it may leave open what it is not sure of, in a sentence."""
    whole, found = points[0], useful(points)
    things = "texts" if kind == "one" else "yes-or-no questions"
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


def coverage(found: Calibration | None, kind: Kind) -> Markup:
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
    x = Axis(low=0, high=1, ticks=WHOLE, says=f"{'Texts' if kind == 'one' else 'Labels'} answered")
    y = even((one.accuracy for one in points), "Of those, right", lambda at: percent(at))
    says = abstained_says(points, kind)
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
