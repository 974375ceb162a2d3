"""How well one cell does: its score with an interval, and every other measure of its kind.

Every measure is taken in each repetition, the folds of one together, and averaged over them; the
calibration and the confusion take the answers of all of them together.

Legend: n tested rows of one seed, c classes, s seeds.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from math import atanh, exp, inf, tanh
from statistics import fmean

import torch
from torch import Tensor

from heads.evaluation import statistics
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

# --- What is measured of one kind of label beside the score; each kind fills what it has.


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


# --- Measures of answers where a row has one class, beside accuracy, loss and calibration.

OF_ORDER = ("quadratic_kappa",)


def details_of_one(outcome: CellPredictions, task: EvaluationTask) -> Details:
    """Every other measure of one cell.

    Those of a confusion table are counted as in scikit-learn: recall over the classes that were
    tested, F1 over those that were tested or answered.
    """
    targets = [task.targets[rows] for rows in outcome.rows]
    logs = [logits.double().log_softmax(dim=1) for logits in outcome.logits]
    tables = [_confusion(*pair) for pair in zip(logs, targets, strict=True)]
    f1s = torch.stack([statistics.f1(table.double()) for table in tables])
    values = {
        name: fmean(float(score(table.double())) for table in tables)
        for name, score in statistics.BY_NAME.items()
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


# --- Measures of answers where a row may have any number of labels, beside micro-F1 and loss.


def details_of_many(outcome: CellPredictions, task: EvaluationTask) -> Details:
    """Every other measure of one cell.

    F1 is over the labels that were tested or given, average precision over those that were tested.
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
    outcome: CellPredictions,
    task: EvaluationTask,
    pairs: Sequence[tuple[Tensor, Tensor]],
    f1s: Tensor,
    precise: Tensor,
) -> tuple[LabelDetails, ...]:
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
        LabelDetails(
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


# --- Measures of predicted numbers, beside Spearman's correlation.


def details_of_number(outcome: CellPredictions, task: EvaluationTask) -> Details:
    """Every other measure of one cell."""
    pairs = [
        (given.double(), task.targets[rows].double())
        for rows, given in zip(outcome.rows, answers_of(outcome, task).given, strict=True)
    ]
    return Details(
        values={
            "pearson": fmean(_pearson(*pair) for pair in pairs),
            "mean_squared_error": fmean(float((one - two).square().mean()) for one, two in pairs),
            "mean_absolute_error": fmean(float((one - two).abs().mean()) for one, two in pairs),
            "r2": fmean(_explained(*pair) for pair in pairs),
        }
    )


def _pearson(given: Tensor, truth: Tensor) -> float:
    one, two = given - given.mean(), truth - truth.mean()
    scale = float(one.norm() * two.norm())
    return max(-1.0, min(1.0, float(one @ two) / scale)) if scale else 0.0


def _explained(given: Tensor, truth: Tensor) -> float:
    left, whole = (
        float((given - truth).square().sum()),
        float((truth - truth.mean()).square().sum()),
    )
    return 1 - left / whole if whole else float(left == 0)


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
    found, whole = scores(outcome, task), pooled(outcome)
    low, high = score_interval(outcome, task)
    details = DETAILS[task.problem](whole, task)
    values, bins = {**_others(outcome, task), **details.values, task.ranked_by: fmean(found)}, ()
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


def _others(outcome: CellPredictions, task: EvaluationTask) -> dict[str, float]:
    """What the head would be ranked by under other metrics that are no part of the details."""
    if task.problem.is_exclusive:  # its details know all of them
        return {}
    others = (replace(task, metric=name) for name in metrics_of(task.problem))
    return {other.ranked_by: fmean(scores(outcome, other)) for other in others}


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
