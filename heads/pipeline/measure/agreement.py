"""Whether what estimates said before training is what training found."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

import torch

from heads.pipeline.measure.estimates import MEASURES, Estimate
from heads.pipeline.measure.scores import SCORES, Metric


@dataclass(frozen=True, slots=True, kw_only=True)
class Agreement:
    """Whether an estimate agreed with the scores that training gave.

    Attributes:
        measure: The name of the estimate.
        tau: Kendall's tau-b with the scores: 1 the same order, 0 none, −1 reversed; None
            where all are equal.
        first: What the estimate put first.
        best: What training put first.
        says: The same in a sentence.
    """

    measure: str
    tau: float | None
    first: str
    best: str
    says: str


def agreement(
    estimates: Sequence[Estimate],
    scores: Mapping[str, float],
    worse: Collection[str] = (),
    metric: Metric = "accuracy",
) -> tuple[Agreement, ...]:
    """Whether the estimates agreed with training, each in a number and a sentence.

    Args:
        scores: What training gave with each estimate's features, by its name.
        worse: The names of features that training has told apart from the best.
        metric: What the scores are.
    """
    return tuple(_agreed(measure, estimates, scores, worse, metric) for measure in MEASURES)


def _agreed(
    measure: str,
    estimates: Sequence[Estimate],
    scores: Mapping[str, float],
    worse: Collection[str],
    metric: Metric,
) -> Agreement:
    guessed = {one.name: float(getattr(one, measure)) for one in estimates}
    first = max(guessed, key=guessed.__getitem__)
    best = max(guessed, key=lambda name: (scores[name], name == first))  # where some are level
    tau = kendall([*guessed.values()], [scores[name] for name in guessed])
    label = MEASURES[measure]
    behind = SCORES[metric].gap(scores[best] - scores[first])
    if first == best:
        says = f"{label} chose `{first}`, which is also the best after training."
    elif first in worse:
        says = f"{label} chose `{first}`, which is {behind} worse than `{best}`."
    else:
        says = f"{label} chose `{first}`, which is not distinguishable from the best, `{best}`."
    return Agreement(measure=label, tau=tau, first=first, best=best, says=says)


def kendall(some: Sequence[float], others: Sequence[float]) -> float | None:
    """Kendall's tau-b: of all pairs, how many more are in the same order than in the other.

    None where all numbers of a side are equal. Source: Kendall 1945.

    >>> kendall([1, 2, 3], [10, 20, 30]), kendall([1, 2, 3], [3, 2, 1]), kendall([1, 1], [1, 2])
    (1.0, -1.0, None)
    """
    one, two = (torch.tensor(side, dtype=torch.double) for side in (some, others))
    one, two = (one[:, None] - one).sign(), (two[:, None] - two).sign()
    scale = float(one.square().sum() * two.square().sum()) ** 0.5
    return float((one * two).sum()) / scale if scale else None
