"""Find doubtful labels from out-of-fold predictions: confident learning.

Heads are confident of another class if it is as probable to them as it is, on average, on the rows
labelled with it. As many rows are doubtful, those whose own label is the least probable. Of several
labels each is a yes-or-no question of its own. A number is doubtful that lies far from the
prediction.

Legend: n tested rows, c classes or labels.

Source: Northcutt, Jiang and Chuang 2021, Confident Learning: Estimating Uncertainty in Dataset
Labels, JAIR 70: equations 1 and 2 (confident joint and thresholds), section 3.2 (pruning by rank of
self-confidence), the best of its ways to choose rows: docs/extras/labels.md.
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
    """The doubts about the label of every row."""

    is_doubtful: Tensor  # (n,), whether it is to be reviewed
    suggested: Tensor  # targets: the own one where it is not doubtful; of numbers the predicted one
    quality: Tensor  # (n,), how far it is to be trusted: the lowest come first
    # the probabilities of the given and the suggested label, (n,) each; of several, of the most
    # doubted one; NaN for numbers
    sure: tuple[Tensor, Tensor]


def doubts(probabilities: Tensor, targets: Tensor, problem: ProblemType) -> Doubts:
    """Compare the labels of rows with the predictions of heads that have not learned from them.

    Args:
        probabilities: (n, c), of the classes; or (n, 1), the numbers predicted.
        targets: (n,) numbers of classes, (n, c) 1 at the labels of a row, or (n,) numbers.
    """
    if not problem.has_classes:
        return _doubt_numbers(probabilities[:, 0], targets)
    if problem.is_exclusive:
        return _doubt_classes(probabilities, targets)
    return _doubt_label_sets(probabilities, targets.bool())


def thresholds(probabilities: Tensor, targets: Tensor) -> Tensor:
    """Return the mean probability of each class on the rows labelled with it, (c,); inf of none.

    Source: Northcutt et al. 2021, equation 2.
    """
    given = one_hot(targets, probabilities.shape[1])
    rows = given.sum(dim=0)
    sure = (probabilities * given).sum(dim=0) / rows.clamp_min(1)
    return torch.where(rows > 0, sure, torch.inf)


def _doubt_classes(probabilities: Tensor, targets: Tensor) -> Doubts:
    """Doubt as many rows of one class each as stand off the diagonal of the confident joint.

    Of several classes above their thresholds the most probable counts. A row whose own label is the
    most probable of all is on the diagonal, as in cleanlab.

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


def _doubt_label_sets(probabilities: Tensor, targets: Tensor) -> Doubts:
    both = torch.stack([1 - probabilities, probabilities], dim=2)  # (n, c, 2), no and yes
    labels = [_doubt_classes(both[:, at], targets[:, at].long()) for at in range(both.shape[1])]
    quality = torch.stack([label.quality for label in labels], dim=1)
    doubted = torch.stack([label.is_doubtful for label in labels], dim=1)
    shown = doubted | ~doubted.any(dim=1, keepdim=True)  # of a doubtful row, its doubts alone
    worst = quality.where(shown, torch.inf).argmin(dim=1, keepdim=True)
    given = torch.stack([label.sure[0] for label in labels], dim=1).gather(1, worst)[:, 0]
    return Doubts(
        is_doubtful=doubted.any(dim=1),
        suggested=targets ^ doubted,
        quality=quality.gather(1, worst)[:, 0],
        sure=(given, 1 - given),
    )


def _doubt_numbers(predicted: Tensor, targets: Tensor) -> Doubts:
    """Doubt numbers further from the predicted ones than FAR robust standard deviations."""
    residuals = (targets - predicted).double()
    residuals = residuals - residuals.median()
    spread = float(residuals.abs().median()) * MAD or float(residuals.square().mean().sqrt())
    quality = -residuals.abs() / (spread or 1.0)
    sure = torch.full_like(residuals, torch.nan)
    is_far = quality < -FAR
    return Doubts(is_doubtful=is_far, suggested=predicted, quality=quality, sure=(sure, sure))
