"""Measures of answers where a row has one class, beside accuracy, loss and calibration.

Legend: n tested rows of one seed, c classes.
"""

from statistics import fmean

import torch
from torch import Tensor

from heads.pipeline.measure.details import Details
from heads.pipeline.measure.outcomes import Outcome, Task


def details_of_one(outcome: Outcome, task: Task) -> Details:
    """Every other measure of one cell.

    `balanced_accuracy` is the mean recall over the classes that were tested, `macro_f1` the mean
    F1 over those that were tested or answered (as in scikit-learn), `brier` the mean of
    Σ (probability − truth)² over classes: 0 is best, 2 is worst. Where classes stand in an
    order, `mean_absolute_error` counts how many classes an answer is off, and `quadratic_kappa`
    is the agreement beyond chance, with squared distances (Cohen 1968).
    """
    targets = [task.targets[rows] for rows in outcome.rows]
    logs = [logits.double().log_softmax(dim=1) for logits in outcome.logits]
    tables = [_confusion(*pair) for pair in zip(logs, targets, strict=True)]
    f1s = torch.stack([_f1(table) for table in tables])
    values = {
        "balanced_accuracy": fmean(_recall(table) for table in tables),
        "macro_f1": float(f1s.nanmean(dim=1).mean()),
        "brier": fmean(_brier(*pair) for pair in zip(logs, targets, strict=True)),
    }
    if task.ordered:
        values |= {
            "mean_absolute_error": fmean(map(_absolute_error, tables)),
            "quadratic_kappa": fmean(map(_kappa, tables)),
        }
    return Details(
        values=values,
        f1=tuple(None if value != value else value for value in f1s.nanmean(dim=0).tolist()),
        confusion=torch.stack(tables).sum(dim=0),
    )


def _confusion(logs: Tensor, targets: Tensor) -> Tensor:
    classes = logs.shape[1]
    pairs = targets * classes + logs.argmax(dim=1)
    return torch.bincount(pairs, minlength=classes**2).view(classes, classes)


def _recall(table: Tensor) -> float:
    tested = table.sum(dim=1)
    return float((table.diagonal()[tested > 0] / tested[tested > 0]).double().mean())


def _f1(table: Tensor) -> Tensor:
    """(c,), NaN for a class that was neither tested nor answered."""
    return 2 * table.diagonal().double() / (table.sum(dim=0) + table.sum(dim=1))


def _brier(logs: Tensor, targets: Tensor) -> float:
    truth = torch.nn.functional.one_hot(targets, logs.shape[1])
    return float((logs.exp() - truth).square().sum(dim=1).mean())


def _absolute_error(table: Tensor) -> float:
    places = torch.arange(len(table))
    off = (places[:, None] - places).abs()
    return float((table * off).sum() / table.sum())


def _kappa(table: Tensor) -> float:
    """0 where truth and answers are one and the same class throughout: chance does as well."""
    places, table = torch.arange(len(table)), table.double()
    squares = (places[:, None] - places).square()
    by_chance = table.sum(dim=1)[:, None] * table.sum(dim=0) / table.sum()
    expected = float((squares * by_chance).sum())
    return 1 - float((squares * table).sum()) / expected if expected else 0.0
