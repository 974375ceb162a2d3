"""Scores of a confusion table: of one class a row, all that a score needs to know.

Each takes the table (c, c), rows are true classes and columns answers, in counts or in shares,
and is differentiable in it: so every row's part of the score is had (`influence.py`). Classes
count where they are tested, or answered, as in scikit-learn.

Legend: c classes.
"""

from collections.abc import Callable, Mapping

import torch
from torch import Tensor


def accuracy(table: Tensor) -> Tensor:
    """The share answered right."""
    return table.diagonal().sum() / table.sum()


def balanced_accuracy(table: Tensor) -> Tensor:
    """The mean recall over the classes that are tested.

    Source: Brodersen et al. 2010; scikit-learn's `balanced_accuracy_score`.
    """
    true = table.sum(dim=1)
    return (table.diagonal()[true > 0] / true[true > 0]).mean()


def f1(table: Tensor) -> Tensor:
    """(c,), the F1 of each class; NaN for one that is neither tested nor answered."""
    return 2 * table.diagonal() / (table.sum(dim=0) + table.sum(dim=1))


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


BY_NAME: Mapping[str, Callable[[Tensor], Tensor]] = {
    one.__name__: one
    for one in (
        accuracy, balanced_accuracy, macro_f1, weighted_f1, mcc, cohen_kappa, quadratic_kappa,
    )
}  # fmt: skip
