"""How well a head does: logits and labels to scores with an interval.

Legend: n rows, c classes; `logits` (n, c); `targets` (n, c), 1 where the row has the class.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import torch
from torch import Tensor

# How logits become probabilities: classes that compete, yes-or-no questions for each class, such
# questions whose answers are put to a vote, or not at all (numbers).
Squash = Literal["softmax", "sigmoid", "votes", "none"]
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
        metric: What `accuracy` is where it is none: the name of another metric.
        among: How many heads of a run were scored on these rows, so that this one may have been
            chosen by them; 1 of a head that was trained by itself.
        own: What this very head reached, where `accuracy` is the mean of several trainings.
    """

    rows: int
    accuracy: float
    low: float
    high: float
    majority: float
    metric: str = "accuracy"
    among: int = 1
    own: float | None = None


def score(logits: Tensor, targets: Tensor, squash: Squash) -> Scores:
    """Compares answers with labels."""
    right = int((answers(logits, squash) == targets.bool()).all(dim=1).sum())
    commonest = int(torch.unique(targets, dim=0, return_counts=True)[1].max())
    low, high = wilson(right / len(targets), len(targets))
    return Scores(
        rows=len(targets),
        accuracy=right / len(targets),
        low=low,
        high=high,
        majority=commonest / len(targets),
    )


def answers(logits: Tensor, squash: Squash, thresholds: Sequence[float] = ()) -> Tensor:
    """(n, c), true at the classes that are answered: the largest, or all above their threshold.

    Args:
        thresholds: For each class a logit; 0, which is one half, without them.
    """
    if squash == "sigmoid":
        return logits > torch.tensor(thresholds or [0.0], dtype=torch.double)
    return torch.nn.functional.one_hot(logits.argmax(dim=1), logits.shape[1]).bool()


def probabilities(logits: Tensor, squash: Squash) -> Tensor:
    """(n, c): the softmax; one sigmoid a class; or those over their sum; numbers as they are."""
    if squash == "none":
        return logits
    if squash == "sigmoid":
        return logits.sigmoid()
    return competing(logits, squash).softmax(dim=1)


def competing(logits: Tensor, squash: Squash) -> Tensor:
    """Logits whose softmax are the probabilities of classes one of which applies, (n, c).

    The sigmoids of one-versus-rest over their sum are the softmax of their logarithms.

    Source: scikit-learn's OneVsRestClassifier.predict_proba.
    """
    return torch.nn.functional.logsigmoid(logits) if squash == "votes" else logits


def wilson(share: float, rows: float, quantile: float = Z_95) -> tuple[float, float]:
    """The interval of a share (Wilson 1927), which stays between 0 and 1; that of 95 %.

    >>> tuple(round(end, 3) for end in wilson(0.9, 100))
    (0.826, 0.945)
    """
    spread = quantile**2 / rows
    centre = share + spread / 2
    half = quantile * (share * (1 - share) / rows + spread / (4 * rows)) ** 0.5
    low, high = (centre - half) / (1 + spread), (centre + half) / (1 + spread)
    # At the ends rounding would leave a trace.
    return max(0.0, low) if share > 0 else 0.0, min(1.0, high) if share < 1 else 1.0


def fit_of_numbers(given: Tensor, targets: Tensor) -> Scores:
    """How well numbers (n,) are predicted: Spearman's correlation, 0 where nothing varies.

    Source: the interval is Bonett and Wright's (2000), on Fisher's scale.
    """
    rho = spearman(given, targets)
    spread = Z_95 * ((1 + rho**2 / 2) / max(len(targets) - 3, 1)) ** 0.5
    centre = math.atanh(min(max(rho, -0.9999), 0.9999))
    return Scores(
        rows=len(targets),
        accuracy=rho,
        low=math.tanh(centre - spread),
        high=math.tanh(centre + spread),
        majority=0.0,
        metric="spearman",
    )


def spearman(one: Tensor, other: Tensor) -> float:
    """Spearman's correlation of two series (n,), equal values sharing their mean rank.

    >>> round(spearman(torch.tensor([1.0, 2, 3, 3]), torch.tensor([1.0, 3, 4, 2])), 4)
    0.6325
    """
    x, y = (ranks(side) - ranks(side).mean() for side in (one, other))
    scale = float((x.square().sum() * y.square().sum()).sqrt())
    return float((x * y).sum()) / scale if scale > 0 else 0.0


def ranks(values: Tensor) -> Tensor:
    """The ranks of values (n,), from 1; equal ones share their mean."""
    _, places, counts = values.unique(return_inverse=True, return_counts=True)
    return (counts.cumsum(dim=0).double() - (counts - 1) / 2)[places]
