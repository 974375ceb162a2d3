"""How well one cell does: its score with an interval, and every other measure of its kind.

Every measure is taken in each repetition, the folds of one together, and averaged over them; the
calibration and the confusion take the answers of all of them together.

Legend: n tested rows of one seed, c classes, s seeds.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields, replace
from math import isnan, nan
from statistics import fmean
from typing import Any

import torch
from torch import Tensor

from heads.evaluation.calibration import (
    Bin,
    Calibration,
    calibration,
    calibration_error,
    confidence,
    decided,
    log_loss,
    reliability,
)
from heads.evaluation.intervals import score_interval
from heads.evaluation.metrics import MetricName, metrics_of
from heads.evaluation.predictions import (
    CellPredictions,
    EvaluationTask,
    answers_of,
    check,
    pooled,
    scores,
)
from heads.problem import MULTI_LABEL, REGRESSION, SINGLE_LABEL


@dataclass(frozen=True, slots=True, kw_only=True)
class LabelDetails:
    """How well one label is found, where a row may have any number of them.

    Each measure is None where nothing was there to take it from.

    Attributes:
        rows: How many of the tested rows have it.
        precision: Of the rows that it was given, the share that has it.
        recall: Of the rows that have it, the share that it was given.
        average_precision: The area under precision over recall, over all thresholds.
        threshold: The probability from which it is given.
    """

    name: str
    rows: int
    precision: float | None
    recall: float | None
    f1: float | None
    average_precision: float | None
    threshold: float


# --- What is measured beside the scores, by scikit-learn, as attributes of `Measures`; each problem
# type fills what it has.

# Of every class or label; NaN where there is nothing to take it from.
EACH: Mapping[str, Any] = {"average": None, "zero_division": nan}


def details_of_one(outcome: CellPredictions, task: EvaluationTask) -> dict[str, Any]:
    """Of answers where a row has one class; F1 is over the classes that were tested or answered."""
    from sklearn.metrics import (
        brier_score_loss,
        confusion_matrix,
        f1_score,
        mean_absolute_error,
    )

    pairs, classes = _pairs(outcome, task), range(len(task.classes))
    shares = [logits.double().softmax(dim=1) for logits in outcome.logits]
    values = {
        "brier": fmean(
            brier_score_loss(truth, own, labels=classes, scale_by_half=False)  # pyright: ignore[reportArgumentType]
            for (truth, _), own in zip(pairs, shares, strict=True)
        )
    }
    if task.ordered:
        values["mean_absolute_error"] = fmean(mean_absolute_error(*pair) for pair in pairs)
    f1s = [f1_score(*pair, labels=classes, **EACH) for pair in pairs]
    tables = [torch.from_numpy(confusion_matrix(*pair, labels=classes)) for pair in pairs]
    return {"values": values, "f1": _each(f1s), "confusion": torch.stack(tables).sum(dim=0)}


def details_of_many(outcome: CellPredictions, task: EvaluationTask) -> dict[str, Any]:
    """Of answers where a row may have any number of labels.

    F1 is over the labels that were tested or given, average precision over those that were tested.
    """
    from sklearn.metrics import (
        average_precision_score,
        hamming_loss,
        precision_recall_fscore_support,
    )

    pairs = _pairs(outcome, task)
    counted = [precision_recall_fscore_support(*pair, **EACH) for pair in pairs]
    precision, recall, f1 = (_each([one[place] for one in counted]) for place in range(3))
    precise = [
        [
            average_precision_score(has, own) if has.any() else nan
            for has, own in zip(truth.T, logits.T, strict=True)
        ]
        for (truth, _), logits in zip(pairs, outcome.logits, strict=True)
    ]
    means = torch.tensor(precise, dtype=torch.double).nanmean(dim=1)
    bars = torch.zeros(len(task.classes)) if outcome.thresholds is None else outcome.thresholds
    columns = zip(
        task.classes,
        task.targets[torch.cat(outcome.rows).unique()].bool().sum(dim=0).tolist(),
        precision,
        recall,
        f1,
        _each(precise),
        bars.reshape(-1, len(task.classes)).mean(dim=0).double().sigmoid().tolist(),
        strict=True,
    )
    names = [one.name for one in fields(LabelDetails)]
    values = {
        "mean_average_precision": float(means.nan_to_num().mean()),
        "hamming_loss": fmean(hamming_loss(*pair) for pair in pairs),
    }
    labels = tuple(LabelDetails(**dict(zip(names, own, strict=True))) for own in columns)
    return {"values": values, "f1": f1, "labels": labels}


def details_of_number(outcome: CellPredictions, task: EvaluationTask) -> dict[str, Any]:
    """Of predicted numbers."""
    from sklearn.metrics import mean_absolute_error, mean_squared_error

    pairs = _pairs(outcome, task)
    values = {
        "mean_squared_error": fmean(mean_squared_error(*pair) for pair in pairs),
        "mean_absolute_error": fmean(mean_absolute_error(*pair) for pair in pairs),
    }
    return {"values": values}


def _pairs(outcome: CellPredictions, task: EvaluationTask) -> list[tuple[Any, Any]]:
    """For each seed what is true and what was answered, as scikit-learn takes them."""
    return [
        (task.targets[rows].numpy(), given.to(task.targets.dtype).numpy())
        for rows, given in zip(outcome.rows, answers_of(outcome, task).given, strict=True)
    ]


def _each(values: Sequence[Any]) -> tuple[float | None, ...]:
    """Of every class or label the mean over the seeds in which it has a value."""
    means = torch.stack([torch.as_tensor(own, dtype=torch.double) for own in values]).nanmean(dim=0)
    return tuple(None if isnan(value) else value for value in means.tolist())


DETAILS = {
    SINGLE_LABEL: details_of_one, MULTI_LABEL: details_of_many, REGRESSION: details_of_number
}  # fmt: skip


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Measures:
    """How well one cell does on rows that it has not seen.

    Attributes:
        rows: How many rows of the corpus were tested at least once.
        metric: What the score is; `SCORES` says its name.
        score: Its value, mean over repetitions.
        values: Every measure by name, the score among them, mean over repetitions.
        f1: F1 of each class or label; None for one that was neither tested nor answered.
        labels: Every label closely, where a row may have any number of them.
        bins: Answers by confidence, 15 bins of equally many from the least to the most
            confident; answers of equal confidence stay in one bin. Their mean
            |confidence − accuracy| is `calibration_error`.
        confusion: (c, c), how often a class (row) was answered with a class (column).
        calibration: What a temperature does to the confidence; None where it is not known.
    """

    name: str
    rows: int
    metric: MetricName
    score: float
    low: float
    high: float
    scores: tuple[float, ...]
    values: Mapping[str, float]
    f1: tuple[float | None, ...] = ()
    labels: tuple[LabelDetails, ...] = ()
    bins: tuple[Bin, ...] = ()
    confusion: Tensor | None = None
    calibration: Calibration | None = None


def measure(outcome: CellPredictions, task: EvaluationTask) -> Measures:
    """Return all measures of one cell; raise RecipeError if a logit is infinite or NaN."""
    check(outcome, task)
    answers, whole = answers_of(outcome, task), pooled(outcome)
    found, (low, high) = scores(answers, task), score_interval(answers, task)
    details = DETAILS[task.problem](whole, task)
    # Of a score the mean of its parts, which intervals and comparisons are made of as well.
    ranked = metrics_of(task.problem, ordered=task.ordered)
    values = {name: fmean(scores(answers, replace(task, metric=name))) for name in ranked}
    values |= {**details.pop("values"), task.ranked_by: fmean(found)}
    bins: tuple[Bin, ...] = ()
    if task.problem.has_classes:
        bins = reliability(confidence(whole, task), decided(whole, task))
        values |= {
            "log_loss": log_loss(whole, task),
            "calibration_error": calibration_error(bins),
        }
    return Measures(
        name=outcome.name,
        rows=len(torch.cat(outcome.rows).unique()),
        metric=task.ranked_by,
        score=values[task.ranked_by],
        low=low,
        high=high,
        scores=found,
        bins=bins,
        calibration=calibration(whole, task, bins),
        values=values,
        **details,
    )
