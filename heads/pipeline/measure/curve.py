"""The learning curve: the same comparison on a quarter, a half and all of the training rows."""

import random
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from heads.pipeline.measure.paired import Difference
from heads.pipeline.measure.scores import SCORES, Metric, ScoreName

SHARES = (0.25, 0.5, 1.0)
FLAT = 0.005  # less than half a point from a half to all rows is hardly growth


@dataclass(frozen=True, slots=True, kw_only=True)
class Stage:
    """The comparison at one size of the training set.

    Attributes:
        rows: How many training rows.
        scores: Of every cell, by its name.
        best: The head in the lead.
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
        rows: The training rows.

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


def curve_says(stages: Sequence[Stage], metric: Metric = "accuracy") -> str:
    """Whether more rows would change the choice, in a sentence or two; sizes ascend."""
    return f"{_choice(stages)} {_growth(stages, SCORES[metric])}".strip()


def _choice(stages: Sequence[Stage]) -> str:
    if len(stages[-1].scores) == 1:
        return f"`{stages[-1].best}` is the only head."
    leaders = [stage.best for stage in stages]
    sizes = [f"{stage.rows:,}" for stage in stages]
    if len(set(leaders)) == 1:
        return f"`{leaders[0]}` leads at every size, from {sizes[0]} to {sizes[-1]} rows."
    told = "; ".join(
        f"`{name}` with {size} rows" for name, size in zip(leaders, sizes, strict=True)
    )
    last = {d.name: d for d in stages[-1].to_best}
    former = [name for name in dict.fromkeys(leaders[:-1]) if name != leaders[-1]]
    overtaken = [name for name in former if name in last and last[name].differs]
    if overtaken:
        behind = ", ".join(f"`{name}`" for name in overtaken)
        return f"The choice changes with the rows: in the lead are {told}; {behind} fell behind."
    return f"The lead changes ({told}), but not by more than chance: any of them will do."


def _growth(stages: Sequence[Stage], name: ScoreName) -> str:
    if len(stages) < 2:
        return ""
    before, after = stages[-2], stages[-1]
    best = after.best
    if best not in before.scores:
        return ""
    gain = after.scores[best] - before.scores[best]
    sizes = f"from {before.rows:,} to {after.rows:,} rows"
    if gain > FLAT:
        return f"Its {name.noun} still grew by {name.gap(gain)} {sizes}: more rows may help."
    return f"Its {name.noun} hardly grew {sizes}."
