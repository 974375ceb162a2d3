"""Rows that a fold scores by heads that never met their class: what becomes of them.

A class whose rows all are of one group, or are one row, stands in one fold, and the heads that
score that fold learn from the others. `data.joining.settle_unseen` settles the same for a test set.

Legend: n tested rows of one fold, c classes.
"""

from dataclasses import replace

import torch
from torch import Tensor

from heads.data.corpus import Corpus
from heads.data.joining import MOST_UNSEEN, named
from heads.data.splits import FOLDS, Splits
from heads.errors import DataError
from heads.evaluation.predictions import EvaluationTask


def unmet(splits: Splits, task: EvaluationTask) -> tuple[Tensor, ...]:
    """Return for each fold (n,) the tested rows whose classes it does not learn from, if any.

    Of several labels all must be new: heads that have met one of them can score there.
    """
    if splits.kind != FOLDS or not task.problem.has_classes:
        return ()
    pairs = zip(splits.train, splits.test, strict=True)
    return tuple(never_met(task, train, test) for train, test in pairs)


def never_met(task: EvaluationTask, train: Tensor, test: Tensor) -> Tensor:
    """(n,), the tested rows that have classes, and none that a row to learn from has."""
    new = _new(task, train, test)
    return new.any(dim=1) & (new == _classes(task, test)).all(dim=1)


def _new(task: EvaluationTask, train: Tensor, test: Tensor) -> Tensor:
    """(n, c), the classes of tested rows that no row to learn from has."""
    return _classes(task, test) & ~_classes(task, train).any(dim=0)


def _classes(task: EvaluationTask, rows: Tensor) -> Tensor:
    """(n, c), true at the classes of some rows."""
    return task.problem.target_matrix(task.targets[rows], len(task.classes)).bool()


def set_aside(splits: Splits, task: EvaluationTask) -> Splits:
    """The same folds without such rows; a fold that has no others is none."""
    odd = unmet(splits, task)
    if not any(bool(own.any()) for own in odd):
        return splits
    test = tuple(rows[~own] for rows, own in zip(splits.test, odd, strict=True))
    left = [fold for fold, rows in enumerate(test) if len(rows)]

    def some(values: tuple) -> tuple:
        return tuple(values[fold] for fold in left) if values else ()

    names = ("search", "development", "train", "repetition", "repeats", "folds")
    return replace(splits, test=some(test), **{n: some(getattr(splits, n)) for n in names})


def says_of_unmet(splits: Splits, task: EvaluationTask, corpus: Corpus, unseen: str) -> str:
    """Say what becomes of such rows; raise DataError if they are most of those scored."""
    odd = unmet(splits, task)
    rows = [test[own] for test, own in zip(splits.test, odd, strict=True)] if odd else []
    count, scored = sum(map(len, rows)), sum(map(len, splits.test))
    if not count:
        return ""
    new = torch.zeros(len(task.classes)).bool()
    for train, own in zip(splits.train, rows, strict=True):
        new |= _new(task, train, own).any(dim=0)
    some = len(torch.cat(rows).unique())
    have = "has" if some == 1 else "have"
    told = f"{some:,} of the {len(torch.cat(splits.test).unique()):,} rows {have} a class"
    told += f" whose rows all stand in one fold ({named(corpus, new.nonzero()[:, 0].tolist())})"
    if count > MOST_UNSEEN * scored:
        hint = (
            "Choose a finer column for groups." if corpus.groups else "Add rows of these classes."
        )
        raise DataError(f"{told}: no head that scores them would have met it.", hint)
    if unseen == "wrong":
        return f"{told}; they are scored, and no head that scores them can get them right."
    return f"{told}; they are set aside and not scored (--unseen wrong scores them as wrong)."
