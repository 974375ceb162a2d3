"""The learning curve: the same comparison on a quarter, a half and all of the training rows."""

import random
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from heads.pipeline.measure.judgement import points
from heads.pipeline.measure.paired import Difference

SHARES = (0.25, 0.5, 1.0)
FLAT = 0.005  # less than half a point from a half to all rows is hardly growth


@dataclass(frozen=True, slots=True, kw_only=True)
class Stage:
    """The comparison at one size of the training set.

    Attributes:
        rows: How many training rows.
        accuracies: Of every cell, by its name.
        best: The head in the lead.
        to_best: The other cells less that one.
    """

    rows: int
    accuracies: Mapping[str, float]
    best: str
    to_best: tuple[Difference, ...]


def subsets(
    targets: Sequence[int], rows: Sequence[int], *, seed: int, shares: Sequence[float] = SHARES
) -> tuple[list[int], ...]:
    """Parts of the training rows, each within the next, every class in proportion.

    A class keeps at least one row in every part.

    Args:
        targets: The number of the class of every row of the corpus.
        rows: The training rows.

    Returns:
        For each share its rows, in ascending order.
    """
    shuffled = list(rows)
    random.Random(seed).shuffle(shuffled)
    sizes = Counter(targets[row] for row in shuffled)
    seen: Counter[int] = Counter()
    place: dict[int, float] = {}
    for row in shuffled:
        # The middle of the row's stretch of its class, from 0 to 1; the first is always in.
        rank = seen[targets[row]]
        place[row] = (rank + 0.5) / sizes[targets[row]] if rank else 0.0
        seen[targets[row]] += 1
    return tuple(sorted(row for row in shuffled if place[row] < share) for share in shares)


def curve_says(stages: Sequence[Stage]) -> str:
    """Whether more rows would change the choice, in a sentence or two; sizes ascend."""
    return f"{_choice(stages)} {_growth(stages)}".strip()


def _choice(stages: Sequence[Stage]) -> str:
    if len(stages[-1].accuracies) == 1:
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


def _growth(stages: Sequence[Stage]) -> str:
    if len(stages) < 2:
        return ""
    before, after = stages[-2], stages[-1]
    best = after.best
    if best not in before.accuracies:
        return ""
    gain = after.accuracies[best] - before.accuracies[best]
    sizes = f"from {before.rows:,} to {after.rows:,} rows"
    if gain > FLAT:
        return f"Its accuracy still grew by {points(gain)} {sizes}: more rows may help."
    return f"Its accuracy hardly grew {sizes}."
