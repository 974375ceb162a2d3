"""How well one cell does: its score with an interval, and every other measure of its kind.

Every measure is taken in each seed and averaged over seeds; the calibration and the confusion
take the answers of all seeds together.

Legend: n tested rows of one seed, c classes, s seeds.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from math import atanh, inf, tanh
from statistics import fmean, variance

import torch
from torch import Tensor

from heads.pipeline.measure.calibration import (
    Calibration,
    calibration,
    confidence,
    decided,
    log_loss,
)
from heads.pipeline.measure.details import Label
from heads.pipeline.measure.measures_many import details_of_many
from heads.pipeline.measure.measures_number import details_of_number
from heads.pipeline.measure.measures_one import details_of_one
from heads.pipeline.measure.outcomes import Answers, Outcome, Task, by_text, check, parts
from heads.pipeline.measure.reliability import Bin, calibration_error, reliability
from heads.pipeline.measure.scores import METRICS, Metric
from heads.pipeline.metrics import wilson

CONFIDENCE = 0.95
DETAILS = {"one": details_of_one, "many": details_of_many, "number": details_of_number}


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Measures:
    """How well one cell does on rows that it has not seen.

    Attributes:
        name: The recipe, or the name of a baseline.
        rows: How many rows of the corpus were tested at least once.
        metric: What the score is; `SCORES` says its name.
        score: The accuracy, micro-F1 or Spearman's correlation, mean over seeds.
        low: Lower end of its 95 % interval.
        high: Its upper end.
        scores: The score in each seed.
        values: Every measure by name, the score among them, mean over seeds.
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
    metric: Metric
    score: float
    low: float
    high: float
    scores: tuple[float, ...]
    values: Mapping[str, float]
    f1: tuple[float | None, ...] = ()
    labels: tuple[Label, ...] = ()
    bins: tuple[Bin, ...] = ()
    confusion: Tensor | None = None
    calibration: Calibration | None = None


def measure(outcome: Outcome, task: Task) -> Measures:
    """All measures of one cell.

    Raises:
        RecipeError: A logit is infinite or NaN.
    """
    check(outcome, task)
    scores = tuple(float(seed.mean()) for seed in parts(outcome, task))
    low, high = score_interval(outcome, task)
    details, metric = DETAILS[task.kind](outcome, task), METRICS[task.kind]
    values, bins = {metric: fmean(scores), **details.values}, ()
    if task.kind != "number":
        bins = reliability(confidence(outcome, task), decided(outcome, task))
        values |= {
            "log_loss": log_loss(outcome, task),
            "calibration_error": calibration_error(bins),
        }
    return Measures(
        name=outcome.name,
        rows=len(torch.cat(outcome.rows).unique()),
        metric=metric,
        score=values[metric],
        low=low,
        high=high,
        scores=scores,
        values=values,
        f1=details.f1,
        labels=details.labels,
        bins=bins,
        confusion=details.confusion,
        calibration=calibration(outcome, task, bins),
    )


def score_interval(outcome: Outcome | Answers, task: Task) -> tuple[float, float]:
    """The 95 % interval of the mean score; of one seed's accuracy on distinct texts, Wilson's.

    It is meant for new rows and new repetitions on these data. Its variance has two parts: that
    of the tested texts, where all answers to one text, in all seeds, are one piece of
    evidence (cluster-robust), and that of the seeds' scores over s. For a share they turn
    into a number of rows that would be as uncertain, for Wilson's interval, which stays
    between 0 and 1; a correlation's are taken on Fisher's scale. Few seeds widen the interval
    by Student's t (Satterthwaite's degrees of freedom).

    With repeated splits, tested rows and training noise count twice in the sum, which errs on
    the wide side. Nadeau & Bengio (2003) take (1/s + n_test/n_train) for 1/s, since the scores of
    s splits of one sample share training and tested rows and so scatter too little. That factor is
    for an interval made of this scatter alone; here the variance of the tested texts is added to
    it, with all splits of a text as one cluster. What training rows that overlap have in common
    is in neither part: the interval is for this sample of rows, not for another one to learn from.

    Source: Wilson 1927; Fisher 1921; Liang & Zeger 1986; Satterthwaite 1946; Korn & Graubard
    1998.
    """
    from scipy.special import stdtrit

    found = parts(outcome, task)
    scores = [float(seed.mean()) for seed in found]
    seeds, score = len(scores), fmean(scores)
    by_group = by_text(found, outcome.rows, task).mean(dim=0)
    weights = by_text([torch.ones_like(seed) for seed in found], outcome.rows, task).mean(dim=0)
    of_rows = float((by_group - weights * score).square().sum())
    of_seeds = variance(scores) / seeds if seeds > 1 else 0.0
    both = of_rows + of_seeds
    freedom = (both / of_seeds) ** 2 * (seeds - 1) if of_seeds else inf
    quantile, texts = float(stdtrit(freedom, (1 + CONFIDENCE) / 2)), int((weights > 0).sum())
    if task.kind == "number":
        return _fisher(score, both, texts, quantile)
    # A share of rows is no surer than if all were independent; F1 counts labels, not rows.
    most = sum(map(len, outcome.rows)) if task.kind == "one" else inf
    # Nothing varies where all is right or all is wrong: then each unique text is one row.
    rows = min(score * (1 - score) / both, most) if both > 1e-15 else texts
    return wilson(score, rows, quantile)


def _fisher(score: float, variance: float, texts: int, quantile: float) -> tuple[float, float]:
    if variance <= 1e-15 or texts < 4:  # nothing varies: as sure as of a share of as many rows
        low, high = wilson((1 + score) / 2, texts, quantile)
        return 2 * low - 1, 2 * high - 1
    half = quantile * (variance * texts / (texts - 3)) ** 0.5 / (1 - score**2)
    return tanh(atanh(score) - half), tanh(atanh(score) + half)
