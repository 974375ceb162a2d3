"""Which given labels the heads, out of fold, hold for wrong: confident learning.

How many are doubtful is counted by class: rows of which heads that have not learned from them are
confident of another class, which is to be as sure of it as they are, on average, of the rows that
are labelled with it. So many are named, those first whose own label is the least probable. What is
named is to be looked at and may be right: heads that share one base model err alike.

Of several labels each is a yes-or-no question of its own. Numbers have no classes to be confident
of: there a row is doubtful whose number lies far from the one predicted.

Legend: n tested rows, c classes or labels.

Source: Northcutt, Jiang and Chuang 2021, Confident Learning: Estimating Uncertainty in Dataset
Labels, JAIR 70: equations 1 and 2 (confident joint and thresholds), section 3.2 (pruning by rank of
self-confidence). Of the ways to choose rows there this one found the most labels that were made
wrong, and named the fewest right ones: docs/extras/labels.md.
"""

from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn.functional import one_hot

from heads.problem import ProblemType

ROUNDING = 1e-6  # of a probability
FAR = 3.0  # robust standard deviations of the residuals; of a normal distribution 0.3 % lie beyond
MAD = 1.4826  # of a normal distribution, its standard deviation in median absolute deviations


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Doubts:
    """What is held of the label of every row.

    Attributes:
        is_doubtful: (n,), whether it is to be looked at.
        suggested: What it would be instead, in the form of targets; what it is where it is not
            doubtful, and of numbers always the one predicted.
        quality: (n,), how far it is to be trusted: the lowest are looked at first.
        sure: The probability of the label that is given, and of the one suggested, (n,) each; of
            several labels, that the one doubted most is as it is given, or is not; NaN for numbers.
    """

    is_doubtful: Tensor
    suggested: Tensor
    quality: Tensor
    sure: tuple[Tensor, Tensor]


def doubts(probabilities: Tensor, targets: Tensor, problem: ProblemType) -> Doubts:
    """Holds the labels of rows to what heads say that have not learned from these rows.

    Args:
        probabilities: (n, c), of the classes; or (n, 1), the numbers predicted.
        targets: (n,) numbers of classes, (n, c) 1 at the labels of a row, or (n,) numbers.
    """
    if not problem.has_classes:
        return _far(probabilities[:, 0], targets)
    if problem.is_exclusive:
        return _confident(probabilities, targets)
    return _confident_by_label(probabilities, targets.bool())


def thresholds(probabilities: Tensor, targets: Tensor) -> Tensor:
    """(c,), how sure heads are of a class on average, on the rows labelled with it.

    Infinite for a class that no row has: nothing can be confidently of it.

    Source: Northcutt et al. 2021, equation 2.
    """
    given = one_hot(targets, probabilities.shape[1])
    rows = given.sum(dim=0)
    sure = (probabilities * given).sum(dim=0) / rows.clamp_min(1)
    return torch.where(rows > 0, sure, torch.inf)


def _confident(probabilities: Tensor, targets: Tensor) -> Doubts:
    """One class a row: as many as stand off the diagonal of the confident joint.

    Of several classes above their thresholds the most probable counts. A row whose own label is the
    most probable of all is on the diagonal, as in cleanlab, the authors' library.

    Source: Northcutt et al. 2021, equation 1.
    """
    places = targets[:, None]
    given = probabilities.gather(1, places)[:, 0]
    other, suggested = probabilities.scatter(1, places, -1.0).max(dim=1)
    is_sure = probabilities >= thresholds(probabilities, targets) - ROUNDING
    counted = probabilities.where(is_sure, -1.0).argmax(dim=1)
    off_diagonal = is_sure.any(dim=1) & (counted != targets) & (other > given)
    ranked = given.where(other > given, torch.inf).argsort(stable=True)
    is_doubtful = torch.zeros(len(targets), dtype=torch.bool)
    is_doubtful[ranked[: int(off_diagonal.sum())]] = True
    return Doubts(
        is_doubtful=is_doubtful,
        suggested=torch.where(is_doubtful, suggested, targets),
        quality=given,
        sure=(given, other),
    )


def _confident_by_label(probabilities: Tensor, targets: Tensor) -> Doubts:
    """Several labels a row: for each label whether a row has it is a question of its own."""
    asked = torch.stack([1 - probabilities, probabilities], dim=2)  # (n, c, 2), no and yes
    each = [
        _confident(asked[:, label], targets[:, label].long()) for label in range(asked.shape[1])
    ]
    quality = torch.stack([one.quality for one in each], dim=1)
    doubted = torch.stack([one.is_doubtful for one in each], dim=1)
    shown = doubted | ~doubted.any(dim=1, keepdim=True)  # what is said of a row is of its doubts
    worst = quality.where(shown, torch.inf).argmin(dim=1, keepdim=True)
    given = torch.stack([one.sure[0] for one in each], dim=1).gather(1, worst)[:, 0]
    return Doubts(
        is_doubtful=doubted.any(dim=1),
        suggested=targets ^ doubted,
        quality=quality.gather(1, worst)[:, 0],
        sure=(given, 1 - given),
    )


def _far(predicted: Tensor, targets: Tensor) -> Doubts:
    """Numbers: further from the one predicted than FAR robust standard deviations.

    This is no confident learning, which numbers have none of: heads that err alike on hard rows
    name those as well.
    """
    residuals = (targets - predicted).double()
    residuals = residuals - residuals.median()
    spread = float(residuals.abs().median()) * MAD or float(residuals.square().mean().sqrt())
    quality = -residuals.abs() / (spread or 1.0)
    unknown = torch.full_like(residuals, torch.nan)
    return Doubts(
        is_doubtful=quality < -FAR,
        suggested=predicted,
        quality=quality,
        sure=(unknown, unknown),
    )
