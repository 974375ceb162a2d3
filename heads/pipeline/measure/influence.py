"""Scores of a whole set of rows as means of what each row contributes to them.

A score that is no mean of its rows, such as F1 or a correlation, is one to first order: each
row contributes its influence function. What is known of means (intervals, paired comparisons)
then holds for the score.

Legend: n rows, c classes or labels, m means.
"""

from collections.abc import Callable

import torch
from torch import Tensor

from heads.pipeline.metrics import ranks

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
    value, slopes = _slopes(table.view(classes, classes), score)
    flat = slopes.flatten()
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
    value, slopes = _slopes(means, score)
    return value + ((values - means) * slopes).flatten(1).sum(dim=1)


def _slopes(point: Tensor, score: Function) -> tuple[Tensor, Tensor]:
    """A score and its derivative, 0 where it does not hang on anything."""
    point = point.detach().requires_grad_()
    with torch.enable_grad():  # whoever asks may have switched it off
        value = score(point)
        (slopes,) = torch.autograd.grad(value, point)
    return value.detach(), slopes


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

    Args:
        one: (n,), numbers of any kind.
        other: (n,), likewise.

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
    return (ranks(values.double()) - (len(values) + 1) / 2) / len(values)


def _beyond(values: Tensor, weights: Tensor) -> Tensor:
    """(n,), for each row the mean over all rows of weight · (1 above it, ½ level with it)."""
    distinct, place = values.double().unique(return_inverse=True)
    sums = torch.zeros(len(distinct), dtype=torch.double).index_add_(0, place, weights)
    above = sums.sum() - sums.cumsum(dim=0) + sums / 2
    return above[place] / len(values)
