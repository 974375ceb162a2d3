"""Scores of a whole set of rows as means of what each row contributes to them.

A score that is no mean of its rows, such as F1 or a correlation, is one to first order: each
row contributes its influence function. What is known of means (intervals, paired comparisons)
then holds for the score.

Legend: n rows, c labels.
"""

import torch
from torch import Tensor

from heads.pipeline.metrics import ranks


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


def _ranks(values: Tensor) -> Tensor:
    """(n,), the middle rank of every value as a share of the rows, less one half."""
    return (ranks(values.double()) - (len(values) + 1) / 2) / len(values)


def _beyond(values: Tensor, weights: Tensor) -> Tensor:
    """(n,), for each row the mean over all rows of weight · (1 above it, ½ level with it)."""
    distinct, place = values.double().unique(return_inverse=True)
    sums = torch.zeros(len(distinct), dtype=torch.double).index_add_(0, place, weights)
    above = sums.sum() - sums.cumsum(dim=0) + sums / 2
    return above[place] / len(values)
