"""How well a head does: logits and labels to scores with an interval.

Legend: n rows, c classes; `logits` (n, c); `targets` (n, c), 1 where the row has the class.
"""

from dataclasses import dataclass

import torch
from torch import Tensor

Z_95 = 1.959963984540054  # the normal quantile of a two-sided 95 % interval


@dataclass(frozen=True, slots=True, kw_only=True)
class Scores:
    """Scores on rows that the head has not seen.

    Attributes:
        rows: How many.
        accuracy: The share answered right; for several labels a row, all of them right.
        low: Lower end of the 95 % Wilson interval of the accuracy.
        high: Its upper end.
        majority: The accuracy of always giving the commonest answer.
    """

    rows: int
    accuracy: float
    low: float
    high: float
    majority: float


def score(logits: Tensor, targets: Tensor, *, many: bool) -> Scores:
    """Compares answers with labels."""
    right = int((answers(logits, many=many) == targets.bool()).all(dim=1).sum())
    commonest = int(torch.unique(targets, dim=0, return_counts=True)[1].max())
    low, high = wilson(right, len(targets))
    return Scores(
        rows=len(targets),
        accuracy=right / len(targets),
        low=low,
        high=high,
        majority=commonest / len(targets),
    )


def answers(logits: Tensor, *, many: bool) -> Tensor:
    """(n, c), true at the classes that are answered: the largest, or all above one half."""
    if many:
        return logits > 0
    return torch.nn.functional.one_hot(logits.argmax(dim=1), logits.shape[1]).bool()


def probabilities(logits: Tensor, *, many: bool) -> Tensor:
    """(n, c), by the softmax, or by one sigmoid a class where several may apply."""
    return logits.sigmoid() if many else logits.softmax(dim=1)


def wilson(right: int, rows: int) -> tuple[float, float]:
    """The 95 % interval of a share (Wilson 1927), which stays between 0 and 1.

    >>> tuple(round(end, 3) for end in wilson(90, 100))
    (0.826, 0.945)
    """
    share, spread = right / rows, Z_95**2 / rows
    centre = share + spread / 2
    half = Z_95 * (share * (1 - share) / rows + spread / (4 * rows)) ** 0.5
    return max(0.0, (centre - half) / (1 + spread)), min(1.0, (centre + half) / (1 + spread))
