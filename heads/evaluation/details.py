"""How well one cell does: its score with an interval, and every other measure of its kind.

Every measure is taken in each repetition, the folds of one together, and averaged over them; the
calibration and the confusion take the answers of all of them together.

Legend: n tested rows of one seed, c classes, s seeds.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields, replace
from math import atanh, exp, inf, isnan, nan, tanh
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
from heads.evaluation.metrics import Metric, MetricName, metrics_of
from heads.evaluation.predictions import (
    Answers,
    CellPredictions,
    EvaluationTask,
    answers_of,
    by_text,
    check,
    evidence,
    parts,
    pooled,
    scores,
)
from heads.evaluation.statistics import Z_95, wilson
from heads.problem import MULTI_LABEL, REGRESSION, SINGLE_LABEL

# --- What is measured of one kind of label beside the scores; each kind fills what it has.


@dataclass(frozen=True, slots=True, kw_only=True)
class LabelDetails:
    """How well one label is found, where a row may have any number of them.

    Each measure is None where nothing was there to take it from.

    Attributes:
        name: Of the label.
        rows: How many of the tested rows have it.
        precision: Of the rows that it was given, the share that has it.
        recall: Of the rows that have it, the share that it was given.
        f1: Their harmonic mean.
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


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Details:
    """Measures of one kind of label.

    Attributes:
        values: Measures by name, mean over seeds.
        f1: F1 of each class or label; None for one that was neither tested nor answered.
        labels: Every label closely, where a row may have any number of them.
        confusion: (c, c), how often a class (row) was answered with a class (column).
    """

    values: Mapping[str, float]
    f1: tuple[float | None, ...] = ()
    labels: tuple[LabelDetails, ...] = ()
    confusion: Tensor | None = None


# --- What is measured beside the scores: by scikit-learn, mean over seeds.

# Of every class or label; NaN where there is nothing to take it from.
EACH: Mapping[str, Any] = {"average": None, "zero_division": nan}


def details_of_one(outcome: CellPredictions, task: EvaluationTask) -> Details:
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
    return Details(values=values, f1=_each(f1s), confusion=torch.stack(tables).sum(dim=0))


def details_of_many(outcome: CellPredictions, task: EvaluationTask) -> Details:
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
    return Details(
        values={
            "mean_average_precision": float(means.nan_to_num().mean()),
            "hamming_loss": fmean(hamming_loss(*pair) for pair in pairs),
        },
        f1=f1,
        labels=tuple(LabelDetails(**dict(zip(names, own, strict=True))) for own in columns),
    )


def details_of_number(outcome: CellPredictions, task: EvaluationTask) -> Details:
    """Of predicted numbers."""
    from sklearn.metrics import mean_absolute_error, mean_squared_error

    pairs = _pairs(outcome, task)
    return Details(
        values={
            "mean_squared_error": fmean(mean_squared_error(*pair) for pair in pairs),
            "mean_absolute_error": fmean(mean_absolute_error(*pair) for pair in pairs),
        }
    )


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


CONFIDENCE = 0.95
DETAILS = {
    SINGLE_LABEL: details_of_one, MULTI_LABEL: details_of_many, REGRESSION: details_of_number
}  # fmt: skip


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Measures:
    """How well one cell does on rows that it has not seen.

    Attributes:
        name: The recipe, or the name of a baseline.
        rows: How many rows of the corpus were tested at least once.
        metric: What the score is; `SCORES` says its name.
        score: Its value, mean over repetitions.
        low: Lower end of its 95 % interval.
        high: Its upper end.
        scores: The score in each repetition.
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
    """All measures of one cell.

    Raises:
        RecipeError: A logit is infinite or NaN.
    """
    check(outcome, task)
    answers, whole = answers_of(outcome, task), pooled(outcome)
    found, (low, high) = scores(answers, task), score_interval(answers, task)
    details = DETAILS[task.problem](whole, task)
    # Of a score the mean of its parts, which intervals and comparisons are made of as well.
    ranked = metrics_of(task.problem, ordered=task.ordered)
    values = {name: fmean(scores(answers, replace(task, metric=name))) for name in ranked}
    values, bins = {**values, **details.values, task.ranked_by: fmean(found)}, ()
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
        values=values,
        f1=details.f1,
        labels=details.labels,
        bins=bins,
        confusion=details.confusion,
        calibration=calibration(whole, task, bins),
    )


def score_interval(outcome: CellPredictions | Answers, task: EvaluationTask) -> tuple[float, float]:
    """The 95 % interval of the mean score; of one seed's accuracy on distinct texts, Wilson's.

    It is meant for new rows and for training anew on rows like these. Its variance has two parts:
    that of the tested texts, where all answers to one text, in all seeds, are one piece of
    evidence (cluster-robust), and the luck of training: what the seeds' scores vary beyond what
    their tested texts make them vary, over s. (Folds test other texts each, so most of what
    their scores vary is of the texts.) Luck that all seeds share, of rows that all of them learn
    from, is in no interval.

    For a share the variance turns into a number of rows that would be as uncertain, for Wilson's
    interval, which stays between 0 and 1; a correlation's is taken on Fisher's scale, that of an
    error or of an unexplained share on the scale of its logarithm. The part of luck takes
    Student's quantile for so few seeds, that of the texts the normal one; and where texts are held
    together in groups, Student's for so few groups.

    Nadeau & Bengio (2003) take (1/s + n_test/n_train) for 1/s, since the scores of s splits of one
    sample share training and tested rows and so scatter too little. That factor is for an interval
    made of this scatter alone; here the variance of the tested texts is added to it, with all
    splits of a text as one cluster.

    Source: Wilson 1927; Fisher 1921; Liang & Zeger 1986; Korn & Graubard 1998; Cochran & Cox 1950
    for the quantile of two parts; Bayle et al. 2020 for the folds of a cross-validation.
    """
    from scipy.special import stdtrit

    found = parts(outcome, task)
    score, seeds = fmean(scores(outcome, task)), len(found)
    weights = by_text([torch.ones_like(seed) for seed in found], outcome, task)
    each = by_text(evidence(outcome, task), outcome, task) - weights * score  # (s, g)
    of_rows = float(each.mean(dim=0).square().sum())
    by_seed = by_text(found, outcome, task).sum(dim=1) - weights.sum(dim=1) * score
    of_luck = _luck(each, of_rows, by_seed) / seeds
    both = of_rows + of_luck
    # Of rows there are many, of seeds few: each part is as sure as its own number allows.
    share = of_luck / both if of_luck else 0.0
    texts, name = int((weights.sum(dim=0) > 0).sum()), task.score
    surely, unsurely = Z_95, float(stdtrit(max(seeds - 1, 1), (1 + CONFIDENCE) / 2))
    if task.texts is not None and texts < len(task.texts[torch.cat(outcome.rows)].unique()):
        # Of groups there may be few; the spread about their own mean is then too small as well,
        # unless evidence has been corrected for that class by class.
        few = max(texts - 1, 1)
        own = 1.0 if name.evidence else (texts / few) ** 0.5
        surely = float(stdtrit(few, (1 + CONFIDENCE) / 2)) * own
    quantile = ((1 - share) * surely**2 + share * unsurely**2) ** 0.5 if share else surely
    if name.scale == "correlation":
        return _fisher(score, both, texts, quantile)
    if not name.is_share:
        return _by_error(score, both, texts, quantile, name)
    # A share of rows is no surer than if all were independent; F1 counts no rows.
    is_mean = task.ranked_by in ("accuracy", "exact_match")
    most = sum(map(len, outcome.rows)) if is_mean else inf
    # Nothing varies where all is right or all is wrong: then each unique text is one row.
    rows = min(score * (1 - score) / both, most) if both > 1e-15 else texts
    return wilson(score, rows, quantile)


def _luck(each: Tensor, of_rows: float, by_seed: Tensor) -> float:
    """The variance of the seeds' scores beyond that through the texts that they test.

    Args:
        each: (s, g), each text's part in each seed, about the score.
        of_rows: What the texts make their mean vary.
        by_seed: (s,), the score of each seed, about that of all.
    """
    seeds = len(each)
    if seeds == 1:
        return 0.0
    within = (float(each.square().sum()) - seeds * of_rows) / (seeds - 1)
    return max(0.0, float(by_seed.var()) - max(0.0, within))


def _fisher(score: float, variance: float, texts: int, quantile: float) -> tuple[float, float]:
    if variance <= 1e-15 or texts < 4:  # nothing varies: as sure as of a share of as many rows
        low, high = wilson((1 + score) / 2, texts, quantile)
        return 2 * low - 1, 2 * high - 1
    half = quantile * (variance * texts / (texts - 3)) ** 0.5 / (1 - score**2)
    return tanh(atanh(score) - half), tanh(atanh(score) + half)


def _by_error(
    score: float, variance: float, texts: int, quantile: float, name: Metric
) -> tuple[float, float]:
    """The interval of a score by that of the logarithm of what it lacks of the most."""
    left = name.high - score
    if left <= 0:  # nothing is lacking
        return score, score
    half = quantile * (variance * texts / max(texts - 3, 1)) ** 0.5 / left
    return name.high - left * exp(min(half, 50.0)), name.high - left * exp(-half)
