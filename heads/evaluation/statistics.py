"""Statistics that scores rest on: intervals, confusion tables, and each row's influence.

A score that is no mean of its rows, such as F1 or a correlation, is one to first order: each
row contributes its influence function. What is known of means (intervals, paired comparisons)
then holds for the score.

Written here and not taken from scikit-learn, whose metrics are numbers: a row's influence is the
derivative of one. All parts of a score take a third to a fourteenth of the time of that number
there (300 to 20,000 rows, 3 to 77 classes), and every setting that a search tries is scored so.

Legend: n rows, c classes or labels, m means.
"""

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor

# --- How well a head does: logits and labels to scores with an interval.

Z_95 = 1.959963984540054  # the normal quantile of a two-sided 95 % interval


@dataclass(frozen=True, slots=True, kw_only=True)
class Scores:
    """Scores on rows that the head has not seen.

    Attributes:
        accuracy: The share answered right; for several labels a row, all of them right.
        low: Lower end of the 95 % Wilson interval of the accuracy.
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


Function = Callable[[Tensor], Tensor]


def of_table(given: Tensor, truth: Tensor, classes: int, score: Function) -> Tensor:
    """(n,), each row's part of a score of the confusion table, which is their mean.

    Args:
        given: (n,), the class answered.
        truth: (n,), the class of the row.
        score: (c, c) shares to a number, differentiable.

    Source: the infinitesimal jackknife (Jaeckel 1972; Efron 1982, chapter 6).
    """
    cells = truth.long() * classes + given.long()
    table = torch.bincount(cells, minlength=classes**2).double() / len(cells)  # (c²,)
    value, gradients = _gradients(table.view(classes, classes), score)
    flat = gradients.flatten()
    return value + flat[cells] - flat @ table


def of_means(values: Tensor, score: Function) -> Tensor:
    """(n,), each row's part of a score that is a function of means of rows.

    Args:
        values: (n, m), or (n, m, c).
        score: Their means (m,) or (m, c) to a number, differentiable.

    Source: as of `of_table`.
    """
    values = values.double()
    means = values.mean(dim=0)
    value, gradients = _gradients(means, score)
    return value + ((values - means) * gradients).flatten(1).sum(dim=1)


def _gradients(point: Tensor, score: Function) -> tuple[Tensor, Tensor]:
    """A score and its derivative, 0 where it does not hang on anything."""
    point = point.detach().requires_grad_()
    with torch.enable_grad():  # whoever asks may have switched it off
        value = score(point)
        (gradients,) = torch.autograd.grad(value, point)
    return value.detach(), gradients


def micro_f1_parts(given: Tensor, truth: Tensor) -> Tensor:
    """(n,), each row's part of micro-F1: their mean is micro-F1, as scikit-learn counts it.

    Args:
        given: (n, c), true at the labels answered.
        truth: (n, c), 1 at the labels of the row.

    Source: the influence function of a ratio of two means (the delta method).
    """
    truth = truth.bool()
    both = 2.0 * (given & truth).sum(dim=1).double()
    either = (given.sum(dim=1) + truth.sum(dim=1)).double()
    if not bool(either.any()):  # no label is answered and none is true
        return torch.zeros(len(either), dtype=torch.double)
    score = both.sum() / either.sum()
    return score + (both - score * either) / either.mean()


def macro_f1_parts(given: Tensor, truth: Tensor) -> Tensor:
    """(n,), the same of macro-F1, over the labels that are true or given somewhere."""
    truth = truth.bool()
    both = 2.0 * (given & truth).double()
    either = given.double() + truth.double()
    known = either.sum(dim=0) > 0
    if not bool(known.any()):
        return torch.zeros(len(either), dtype=torch.double)
    values = torch.stack([both[:, known], either[:, known]], dim=1)
    return of_means(values, lambda means: (means[0] / means[1]).mean())


def samples_f1_parts(given: Tensor, truth: Tensor) -> Tensor:
    """(n,), the F1 of each row's labels, 1 where it has none and gets none."""
    both = (given & truth.bool()).sum(dim=1).double()
    either = (given.sum(dim=1) + truth.bool().sum(dim=1)).double()
    return (2 * both / either).nan_to_num(nan=1.0)


def spearman_parts(one: Tensor, other: Tensor) -> Tensor:
    """(n,), each row's part of Spearman's correlation, their mean; ties share their middle rank.

    The correlation is cov(F, G) / √(var F · var G) of the ranks F and G as shares of the rows;
    a row contributes by its own ranks and by moving the ranks of all rows beyond it. Where a
    side is constant, the correlation is 0.

    Source: the influence function of Spearman's rho, as in Croux & Dehon 2010; here with the
    variances' own influence, which is not 0 where there are ties.
    """
    x, y = _ranks(one), _ranks(other)
    spread_x, spread_y = x.square().mean(), y.square().mean()
    if not bool(spread_x > 0) or not bool(spread_y > 0):
        return torch.zeros(len(x), dtype=torch.double)
    scale = (spread_x * spread_y).sqrt()
    score = (x * y).mean() / scale
    shared = x * y + _beyond(one, y) + _beyond(other, x)
    own_x = (x.square() + 2 * _beyond(one, x)) / spread_x
    own_y = (y.square() + 2 * _beyond(other, y)) / spread_y
    influence = shared / scale - score * (own_x + own_y) / 2
    return score + influence - influence.mean()


def pearson_parts(given: Tensor, truth: Tensor) -> Tensor:
    """(n,), each row's part of Pearson's correlation; 0 where a side is constant."""
    one, two = (side.double() - side.double().mean() for side in (given, truth))
    if not float(one.norm() * two.norm()):
        return torch.zeros(len(one), dtype=torch.double)
    one, two = one / one.std(correction=0), two / two.std(correction=0)
    values = torch.stack([one, two, one * one, two * two, one * two], dim=1)

    def score(means: Tensor) -> Tensor:
        x, y, xx, yy, xy = means
        return (xy - x * y) / ((xx - x * x) * (yy - y * y)).sqrt()

    return of_means(values, score)


def r2_parts(given: Tensor, truth: Tensor) -> Tensor:
    """(n,), each row's part of the share of the variance that is explained.

    Where all true numbers are equal it is 1 if they are met and else 0, as in scikit-learn.
    """
    middle = truth.double().mean()
    one, two = given.double() - middle, truth.double() - middle
    off = (one - two).square()
    if not float(two.abs().max()):
        return torch.full_like(off, float(off.sum() == 0))
    values = torch.stack([off, two, two.square()], dim=1)
    return of_means(values, lambda means: 1 - means[0] / (means[2] - means[1] ** 2))


def _ranks(values: Tensor) -> Tensor:
    """(n,), the middle rank of every value as a share of the rows, less one half."""
    from scipy.stats import rankdata

    ranks = torch.from_numpy(rankdata(values.double().numpy()))
    return (ranks - (len(values) + 1) / 2) / len(values)


def _beyond(values: Tensor, weights: Tensor) -> Tensor:
    """(n,), for each row the mean over all rows of weight · (1 above it, ½ level with it)."""
    distinct, place = values.double().unique(return_inverse=True)
    sums = torch.zeros(len(distinct), dtype=torch.double).index_add_(0, place, weights)
    above = sums.sum() - sums.cumsum(dim=0) + sums / 2
    return above[place] / len(values)


# --- Parts of class-wise scores from which variances are made, of small classes as well.


def of_recalls(given: Tensor, truth: Tensor, classes: int, groups: Tensor) -> Tensor:
    """(n,), each row's part of the mean recall over the classes that are tested.

    Args:
        given: (n,), the class answered.
        truth: (n,), the class of the row.
        groups: (n,), rows of one group share a number.
    """
    right = (given == truth).double()
    sizes = torch.bincount(truth, minlength=classes)
    recalls = torch.bincount(truth, right, minlength=classes) / sizes
    known = sizes > 0
    about, factors = _corrected(recalls, known, _pieces(truth, classes, groups))
    scale = factors * len(truth) / (sizes * known.sum())
    return recalls[known].mean() + (right - about[truth]) * scale[truth]


def of_f1s(given: Tensor, truth: Tensor, classes: int, groups: Tensor) -> Tensor:
    """(n,), each row's part of the mean F1 over the classes that are true or given somewhere.

    Args:
        given: (n,), the class answered; or (n, c), true at the labels answered.
        truth: (n,), the class of the row; or (n, c), 1 at its labels.
    """
    rows = torch.arange(len(truth))
    if truth.dim() == 1:  # without a table of (n, c): of many rows and classes it is large
        has, answered = (rows, truth), (rows, given)
        right = given == truth
    else:
        has, answered = truth.bool().nonzero(as_tuple=True), given.bool().nonzero(as_tuple=True)
        right = given[has].bool()
    labels = torch.cat([has[1], answered[1]])
    sizes = torch.bincount(labels, minlength=classes)
    known = sizes > 0
    if not bool(known.any()):
        return torch.zeros(len(truth), dtype=torch.double)
    scores = 2 * torch.bincount(has[1][right], minlength=classes).double() / sizes
    about, factors = _corrected(scores, known, _pieces(has[1], classes, groups[has[0]]))
    scale = factors * len(truth) / (sizes * known.sum())
    # A label that is true, and one that is given, each count -F; both at once 2 more.
    own = torch.zeros(len(truth)).double()
    own.index_add_(0, torch.cat([has[0], answered[0]]), -(about * scale)[labels])
    own.index_add_(0, has[0][right], 2 * scale[has[1][right]])
    return scores[known].mean() + own


def macro_f1_bias(given: Tensor, truth: Tensor, classes: int) -> float:
    """Return by how much macro-F1 is lower on these rows, on average, than on many.

    Of a class that is true or given m times it is F (1 - F) / m, by the second-order delta method.
    """
    if truth.dim() == 1:
        hits = torch.bincount(truth[given == truth], minlength=classes)
        sizes = torch.bincount(torch.cat([given, truth]), minlength=classes)
    else:
        hits, sizes = (given & truth.bool()).sum(dim=0), given.sum(dim=0) + truth.sum(dim=0)
    known = sizes > 0
    f1s = 2 * hits[known].double() / sizes[known]
    return float((f1s * (1 - f1s) / sizes[known]).mean()) if bool(known.any()) else 0.0


def _pieces(labels: Tensor, classes: int, groups: Tensor) -> Tensor:
    """(c,), of how many groups the rows of each class are."""
    different = torch.stack([groups, labels]).unique(dim=1)
    return torch.bincount(different[1], minlength=classes).double()


def _corrected(scores: Tensor, known: Tensor, pieces: Tensor) -> tuple[Tensor, Tensor]:
    """For each class what its rows scatter about, and the factor for that being their own mean."""
    lonely = pieces <= 1
    others = known & ~lonely
    about = torch.where(lonely, scores[others if bool(others.any()) else known].mean(), scores)
    return about, torch.where(lonely, 1.0, pieces / (pieces - 1)).sqrt()


# --- Scores of a confusion table: of one class a row, all that a score needs to know.


def balanced_accuracy(table: Tensor) -> Tensor:
    """The mean recall over the classes that are tested.

    Source: Brodersen et al. 2010; scikit-learn's `balanced_accuracy_score`.
    """
    true = table.sum(dim=1)
    return (table.diagonal()[true > 0] / true[true > 0]).mean()


def macro_f1(table: Tensor) -> Tensor:
    """The mean F1 over the classes that are tested or answered."""
    known = table.sum(dim=0) + table.sum(dim=1) > 0
    both, either = 2 * table.diagonal()[known], (table.sum(dim=0) + table.sum(dim=1))[known]
    return (both / either).mean()


def weighted_f1(table: Tensor) -> Tensor:
    """The mean F1 of the classes, each by how often it is true."""
    true = table.sum(dim=1)
    known = true > 0
    either = (table.sum(dim=0) + true)[known]
    return (2 * table.diagonal()[known] / either * true[known]).sum() / table.sum()


def mcc(table: Tensor) -> Tensor:
    """Matthews' correlation of truth and answer; 0 where either is one class throughout.

    Source: Matthews 1975; of several classes Gorodkin 2004.
    """
    table = table / table.sum()
    true, answered = table.sum(dim=1), table.sum(dim=0)
    shared = table.diagonal().sum() - true @ answered
    spread = (1 - true.square().sum()) * (1 - answered.square().sum())
    return shared / spread.sqrt() if float(spread.detach()) > 1e-15 else 0 * table.sum()


def cohen_kappa(table: Tensor) -> Tensor:
    """The agreement beyond that of chance; 0 where chance agrees throughout.

    Source: Cohen 1960.
    """
    return _kappa(table, 1 - torch.eye(len(table), dtype=table.dtype))


def quadratic_kappa(table: Tensor) -> Tensor:
    """The same of classes in an order, by squared distances; 0 where chance does as well.

    Source: Cohen 1968.
    """
    places = torch.arange(len(table), dtype=table.dtype)
    return _kappa(table, (places[:, None] - places).square())


def _kappa(table: Tensor, costs: Tensor) -> Tensor:
    table = table / table.sum()
    by_chance = table.sum(dim=1) @ costs @ table.sum(dim=0)
    return (
        1 - (costs * table).sum() / by_chance if float(by_chance.detach()) > 0 else 0 * table.sum()
    )
