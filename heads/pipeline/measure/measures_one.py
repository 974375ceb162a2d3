"""Measures of answers where a row has one class, beside accuracy, loss and calibration.

Legend: n tested rows of one seed, c classes.
"""

from statistics import fmean

import torch
from torch import Tensor

from heads.pipeline.measure import confusion
from heads.pipeline.measure.details import Details
from heads.pipeline.measure.outcomes import Outcome, Task

OF_ORDER = ("quadratic_kappa",)


def details_of_one(outcome: Outcome, task: Task) -> Details:
    """Every other measure of one cell.

    Those of `confusion` are counted as in scikit-learn: `balanced_accuracy` is the mean recall
    over the classes that were tested, `macro_f1` the mean F1 over those that were tested or
    answered. `brier` is the mean of Σ (probability − truth)² over classes: 0 is best, 2 is worst.
    Where classes stand in an order, `mean_absolute_error` counts how many classes an answer is
    off.
    """
    targets = [task.targets[rows] for rows in outcome.rows]
    logs = [logits.double().log_softmax(dim=1) for logits in outcome.logits]
    tables = [_confusion(*pair) for pair in zip(logs, targets, strict=True)]
    f1s = torch.stack([confusion.f1(table.double()) for table in tables])
    values = {
        name: fmean(float(score(table.double())) for table in tables)
        for name, score in confusion.BY_NAME.items()
        if task.ordered or name not in OF_ORDER
    }
    values["brier"] = fmean(_brier(*pair) for pair in zip(logs, targets, strict=True))
    if task.ordered:
        values["mean_absolute_error"] = fmean(map(_absolute_error, tables))
    return Details(
        values=values,
        f1=tuple(None if value != value else value for value in f1s.nanmean(dim=0).tolist()),
        confusion=torch.stack(tables).sum(dim=0),
    )


def _confusion(logs: Tensor, targets: Tensor) -> Tensor:
    classes = logs.shape[1]
    pairs = targets * classes + logs.argmax(dim=1)
    return torch.bincount(pairs, minlength=classes**2).view(classes, classes)


def _brier(logs: Tensor, targets: Tensor) -> float:
    truth = torch.nn.functional.one_hot(targets, logs.shape[1])
    return float((logs.exp() - truth).square().sum(dim=1).mean())


def _absolute_error(table: Tensor) -> float:
    places = torch.arange(len(table))
    off = (places[:, None] - places).abs()
    return float((table * off).sum() / table.sum())
