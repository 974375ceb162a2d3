"""Measures of answers where a row may have any number of labels, beside micro-F1 and loss.

Legend: n tested rows of one seed, c labels, s seeds.
"""

from collections.abc import Sequence
from statistics import fmean

import torch
from torch import Tensor

from heads.pipeline.measure.details import Details, Label
from heads.pipeline.measure.outcomes import Outcome, Task, answers_of


def details_of_many(outcome: Outcome, task: Task) -> Details:
    """Every other measure of one cell.

    `macro_f1` is the mean F1 over the labels that were tested or given, `samples_f1` the mean F1
    of each row's labels (1 where it has none and gets none), `mean_average_precision` the mean
    over the labels that were tested, `exact_match` the share of rows with all labels right,
    `hamming_loss` the share of labels of rows that are wrong.
    """
    truths = [task.targets[rows].bool() for rows in outcome.rows]
    given = answers_of(outcome, task).given
    pairs = list(zip(given, truths, strict=True))
    f1s = torch.stack([_f1(yes, truth, dim=0) for yes, truth in pairs])
    precise = torch.stack(
        [_precisions(*pair) for pair in zip(outcome.logits, truths, strict=True)]
    )  # (s, c)
    values = {
        "macro_f1": _mean(f1s),
        "samples_f1": fmean(
            float(_f1(yes, truth, dim=1).nan_to_num(nan=1.0).mean()) for yes, truth in pairs
        ),
        "mean_average_precision": _mean(precise),
        "exact_match": fmean(
            float((yes == truth).all(dim=1).double().mean()) for yes, truth in pairs
        ),
        "hamming_loss": fmean(float((yes != truth).double().mean()) for yes, truth in pairs),
    }
    return Details(
        values=values,
        f1=_each(f1s),
        labels=_labels(outcome, task, pairs, f1s, precise),
    )


def _labels(
    outcome: Outcome,
    task: Task,
    pairs: Sequence[tuple[Tensor, Tensor]],
    f1s: Tensor,
    precise: Tensor,
) -> tuple[Label, ...]:
    bars = outcome.thresholds
    bars = torch.zeros(len(task.classes)) if bars is None else bars
    bars = bars.reshape(-1, len(task.classes)).mean(dim=0)
    tested = task.targets[torch.cat(outcome.rows).unique()].bool().sum(dim=0)
    right = torch.stack([(yes & truth).sum(dim=0) for yes, truth in pairs]).double()
    given = torch.stack([yes.sum(dim=0) for yes, _ in pairs])
    true = torch.stack([truth.sum(dim=0) for _, truth in pairs])
    columns = zip(
        task.classes,
        tested.tolist(),
        _each(right / given),
        _each(right / true),
        _each(f1s),
        _each(precise),
        bars.double().sigmoid().tolist(),
        strict=True,
    )
    return tuple(
        Label(
            name=name,
            rows=rows,
            precision=precision,
            recall=recall,
            f1=f1,
            average_precision=average_precision,
            threshold=threshold,
        )
        for name, rows, precision, recall, f1, average_precision, threshold in columns
    )


def _f1(given: Tensor, truth: Tensor, *, dim: int) -> Tensor:
    """F1 of every label (dim 0) or row (dim 1); NaN where nothing is given and nothing true."""
    both = (given & truth).sum(dim=dim).double()
    return 2 * both / (given.sum(dim=dim) + truth.sum(dim=dim))


def _precisions(logits: Tensor, truth: Tensor) -> Tensor:
    """(c,), Σ (recall − recall before) · precision over falling thresholds; NaN without rows."""
    found = [_precision(*column) for column in zip(logits.T, truth.T, strict=True)]
    return torch.tensor(found, dtype=torch.double)


def _precision(logits: Tensor, truth: Tensor) -> float:
    if not bool(truth.any()):
        return float("nan")
    ordered, order = logits.sort(descending=True)
    right = truth[order].cumsum(dim=0).double()
    last = torch.ones_like(truth)
    last[:-1] = ordered[:-1] != ordered[1:]  # equal logits are reached together
    precision = right / torch.arange(1, len(right) + 1)
    right, precision = right[last], precision[last]
    gained = right.diff(prepend=torch.zeros(1, dtype=torch.double))
    return float((gained * precision).sum() / right[-1])


def _mean(values: Tensor) -> float:
    """The mean over seeds of the mean over labels that have a value; 0 where none has."""
    return float(values.nanmean(dim=1).nan_to_num().mean())


def _each(values: Tensor) -> tuple[float | None, ...]:
    """Of every label the mean over the seeds in which it has a value."""
    return tuple(None if value != value else value for value in values.nanmean(dim=0).tolist())
