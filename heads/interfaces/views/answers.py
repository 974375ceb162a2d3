"""Short answers to what one asks of a run once a head is recommended: a phrase each.

They stand beside a folded question, whose charts and tables show the rest.
"""

from collections.abc import Mapping, Sequence
from math import pi, sqrt
from typing import Any

from torch import Tensor

from heads.evaluation.calibration import Bin
from heads.evaluation.details import LabelDetails, Measures
from heads.evaluation.learning_curve import FLAT
from heads.evaluation.metrics import SCORES
from heads.evaluation.verdict import FEWEST_ROWS
from heads.interfaces.views.format import count, counted, percent
from heads.problem import ProblemType
from heads.runs.drill_down import LAST, Disagreement, LayerCurve, layer_name
from heads.runs.leaderboard import Leaderboard

NEAR = 0.05  # confidence that is off by no more can be relied on
Z_ONE_SIDED = 1.645


def more_rows(board: Leaderboard) -> str:
    """Would more rows help? What the last doubling of the rows gave the recommended head."""
    if len(board.curve) < 2:
        return "not known: this run has no learning curve"
    before, after = board.curve[-2:]
    name = leader(board.curve, board.recommendation.name)
    first, last, metric = before["scores"][name], after["scores"][name], SCORES[board.metric]
    gain = last["score"] - first["score"]
    told = f"{metric.signed(gain)}{' points' * metric.is_share}"
    sizes = f"from {before['rows']:,} to {after['rows']:,} rows"
    if gain <= FLAT * (abs(last["score"]) if metric.scale == "error" else 1):
        return f"hardly: {told} {sizes}"
    # No interval stands behind a gain; half of the wider one of the scores is a guess at what is
    # more than luck, since the same texts were asked both times.
    surely = gain > max(one["high"] - one["low"] for one in (first, last)) / 4
    return f"{'probably' if surely else 'perhaps'}: {told} {sizes}"


def leader(curve: Sequence[Mapping[str, Any]], wanted: str) -> str:
    """The head that a learning curve is about: the wanted one, or the best that is everywhere."""
    there = [name for name in curve[-1]["scores"] if all(name in one["scores"] for one in curve)]
    if wanted in there:
        return wanted
    return max(there, key=lambda name: curve[-1]["scores"][name]["score"])


def trust(measures: Measures) -> str:
    """Say whether its confidence can be trusted, and advise a temperature where that mends it."""
    if not measures.bins:
        return ""
    error, scaled = measures.values["calibration_error"], measures.calibration
    off, repeats = f"off by {_points(error)}", len(measures.scores)
    if error <= NEAR:
        return f"yes: {off} on average"
    if measures.rows < FEWEST_ROWS:
        return f"not known: {counted(measures.rows, 'row')} are too few to tell"
    if error <= most_by_chance(measures.bins, repeats):
        rows = counted(measures.rows, "row")
        return f"not clear from {rows}: {off}, which may be chance"
    answers = sum(one.rows for one in measures.bins)
    gap = sum(one.rows * (one.confidence - one.accuracy) for one in measures.bins) / answers
    way = "it is overconfident" if gap > 0 else "it is underconfident"
    if scaled and scaled.error_after < scaled.error_before - FLAT:
        left = _points(scaled.error_after)
        way += f" (its logits divided by {scaled.temperature:.2f} are off by {left})"
    return f"no: {off}; {way}"


def most_by_chance(bins: Sequence[Bin], repeats: int = 1) -> float:
    """The calibration error that a head of perfect confidence stays below in 95 %.

    Few answers in a bin are never right just as often as they are sure: of 200 rows in 15 bins
    that alone gives about 10 points.

    Args:
        repeats: How often the same rows were answered.
    """
    whole = sum(one.rows for one in bins)
    spreads = [
        one.rows / whole * sqrt(one.confidence * (1 - one.confidence) * repeats / one.rows)
        for one in bins
    ]
    # The mean of |z| is √(2/π), its variance 1 − 2/π.
    luck = Z_ONE_SIDED * sqrt((1 - 2 / pi) * sum(one**2 for one in spreads))
    return sqrt(2 / pi) * sum(spreads) + luck


def _points(share: float) -> str:
    told = f"{100 * share:.{0 if share >= 0.0095 else 1}f}"
    return f"{told} point{'s' * (told != '1')}"


def confused(measures: Measures, classes: Sequence[str]) -> str:
    """Which classes are confused? The pair that is mistaken most; of labels the hardest."""
    if measures.confusion is not None:
        return mistaken(measures.confusion, classes)
    labels = worst_first(measures.labels)
    if not labels or labels[0].f1 is None:
        return ""
    return f"{labels[0].name} is the hardest: F1 {percent(labels[0].f1, 0)}"


def mistaken(table: Tensor, classes: Sequence[str]) -> str:
    """The pair of classes that is mistaken most often.

    Args:
        table: (c, c), how often a class (row) was answered with a class (column).
    """
    wrong = table.clone().fill_diagonal_(0)
    most = int(wrong.max())
    if not most:
        return "none: every answer is right"
    true, said = divmod(int(wrong.argmax()), len(table))
    return f"{classes[true]} is taken for {classes[said]}: {most:,} of {int(table[true].sum()):,}"


def worst_first(found: Sequence[LabelDetails]) -> list[LabelDetails]:
    """Labels by F1, the lowest first; those that were neither tested nor given last."""
    return sorted(found, key=lambda label: (label.f1 is None, label.f1, label.name))


def disagree(found: Sequence[Disagreement], tested: int, problem: ProblemType) -> str:
    """Say on how many of the tested rows heads disagree, or by how much."""
    if not problem.has_classes:
        if not found:
            return "not known: there is one head"
        return f"by {sum(one.share for one in found) / len(found):.2g} on a row"
    if not found:
        return "on no row"
    return f"on {len(found):,} of {counted(tested, 'row')}"


def worth(board: Leaderboard) -> str:
    """Answer "Is it worth its size?": the size of the recommended head, and why it."""
    use = board.recommendation
    if not use.name:
        return ""
    reason = use.because.partition(";")[0].replace("`", "")
    return f"{count(board.cell(use.name).learned)} parameters; {reason}"


def foretold(board: Leaderboard) -> str:
    """Could that be told before any training? By which estimates."""
    if not board.agreements:
        return ""
    right = [one for one in board.agreements if not one.differs]
    if not right:
        return "no: every estimate chose a pooling that is worse after training"
    only = "only " * (len(right) < len(board.agreements))
    *first, last = (one.measure for one in right)
    who = f"{', '.join(first)} and {last}" if first else last
    chose = f"{only}{who} chose the best pooling"
    return chose + ", or one not significantly worse" * any(o.first != o.best for o in right)


def which_layer(board: Leaderboard, curves: Sequence[LayerCurve]) -> str:
    """Name the best of the layers of `layered(board)`, beside the last."""
    use = board.recommendation
    if not curves:
        return ""
    about = next((c for c in curves if any(own.name == use.name for own in c.cells)), curves[0])
    told = SCORES[board.metric].told
    best = max(range(len(about.cells)), key=lambda at: about.cells[at].measures.score)
    first, last = about.cells[best], about.cells[-1]
    scored = told(first.measures.score)
    if about.layers[-1] != LAST:
        return f"{layer_name(int(about.layers[best]))}: {scored}"
    if first is last:
        return f"the last: {scored}"
    known = {use.name, *use.alike}
    chance = ", which may be chance" if use.name and {first.name, last.name} <= known else ""
    other = f"the last: {told(last.measures.score)}{chance}"
    return f"{layer_name(int(about.layers[best]))}: {scored}; {other}"
