"""The learning curve: the same comparison on a quarter, a half and all of the training rows."""

import random
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from heads.evaluation.metrics import SCORES, Metric, MetricName
from heads.evaluation.significance import Difference

SHARES = (0.25, 0.5, 1.0)
FLAT = 0.005  # less than half a point from a half to all rows is hardly growth


@dataclass(frozen=True, slots=True, kw_only=True)
class LearningCurvePoint:
    """The comparison at one size of the training set.

    Attributes:
        to_best: The other cells less that one.
    """

    rows: int
    scores: Mapping[str, float]
    best: str
    to_best: tuple[Difference, ...]


def subsets(
    strata: Sequence[int], rows: Sequence[int], *, seed: int, shares: Sequence[float] = SHARES
) -> tuple[list[int], ...]:
    """Parts of the training rows, each within the next, every class in proportion.

    A class keeps at least one row in every part.

    Args:
        strata: For every row of the corpus the number of its class, or of what stands for it
            (`strata` of the outcomes).

    Returns:
        For each share its rows, in ascending order.
    """
    shuffled = list(rows)
    random.Random(seed).shuffle(shuffled)
    sizes = Counter(strata[row] for row in shuffled)
    seen: Counter[int] = Counter()
    place: dict[int, float] = {}
    for row in shuffled:
        # The middle of the row's stretch of its class, from 0 to 1; the first is always in.
        rank = seen[strata[row]]
        place[row] = (rank + 0.5) / sizes[strata[row]] if rank else 0.0
        seen[strata[row]] += 1
    return tuple(sorted(row for row in shuffled if place[row] < share) for share in shares)


def curve_says(stages: Sequence[LearningCurvePoint], metric: MetricName = "accuracy") -> str:
    """Whether more rows would change the choice, in a sentence or two; sizes ascend.

    The head that scores highest at a size is the luckiest of several: nothing is said of its lead
    but what the comparison of all pairs there allows.
    """
    return f"{_choice(stages)} {_growth(stages, SCORES[metric])}".strip()


def _choice(stages: Sequence[LearningCurvePoint]) -> str:
    if len(stages[-1].scores) == 1:
        return f"`{stages[-1].best}` is the only head."
    sizes = [f"{stage.rows:,}" for stage in stages]
    behind = [{d.name for d in stage.to_best if d.differs} for stage in stages]
    if not any(behind):
        return (
            f"Of the {len(stages[-1].scores)} heads drawn, those with the highest scores on the "
            "development rows, none is significantly worse than the best of them, "
            f"from {sizes[0]} to {sizes[-1]} rows."
        )
    last = stages[-1]
    former = dict.fromkeys(stage.best for stage in stages[:-1])
    overtaken = [name for name in former if name in behind[-1]]
    if overtaken:
        names, size = ", ".join(f"`{name}`" for name in overtaken), sizes[-1]
        best = f"among the best with fewer rows, {names} {_is(overtaken)} behind with {size}"
        return f"The choice changes with the rows: {best}."
    surely = [name for name in last.scores if all(name in out for out in behind)]
    near = [name for name in last.scores if all(name not in out for out in behind)]
    told = " and ".join(f"`{name}`" for name in near)
    worse = f"{_is(near)} never significantly worse than the best"
    says = f"From {sizes[0]} to {sizes[-1]} rows {told} {worse}"
    if not near:
        better = "is significantly better than heads that were near before"
        says = f"With {sizes[-1]} rows `{last.best}` {better}"
    if surely:
        told = " and ".join(f"`{name}`" for name in surely)
        says += f", and {told} {_is(surely)} behind it at every size"
    return f"{says}."


def _is(names: Sequence[str]) -> str:
    return "is" if len(names) == 1 else "are"


def _growth(stages: Sequence[LearningCurvePoint], name: Metric) -> str:
    """What more rows gave the last leader, as it was seen: no interval stands behind it."""
    if len(stages) < 2:
        return ""
    before, after = stages[-2], stages[-1]
    best = after.best
    if best not in before.scores:
        return ""
    gain = after.scores[best] - before.scores[best]
    least = FLAT * abs(after.scores[best]) if name.scale == "error" else FLAT
    sizes = f"from {before.rows:,} to {after.rows:,} rows"
    if gain > least:
        grew = f"The {name.noun} of `{best}` was seen to grow by {name.gap(gain)} {sizes}"
        return f"{grew}: more rows may help."
    return f"The {name.noun} of `{best}` hardly grew {sizes}."
