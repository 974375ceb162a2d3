"""How well one cell does: its score with an interval, and every other measure of its kind.

Every measure is taken in each repetition, the folds of one together, and averaged over them; the
calibration and the confusion take the answers of all of them together.

Legend: n tested rows of one seed, c classes, s seeds.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from math import atanh, exp, inf, tanh
from statistics import fmean

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
from heads.pipeline.measure.outcomes import (
    Answers,
    Outcome,
    Task,
    by_text,
    check,
    evidence,
    parts,
    pooled,
    scores,
)
from heads.pipeline.measure.reliability import Bin, calibration_error, reliability
from heads.pipeline.measure.scores import Metric, ScoreName, metrics_of
from heads.pipeline.metrics import Z_95, wilson

CONFIDENCE = 0.95
DETAILS = {"one": details_of_one, "many": details_of_many, "number": details_of_number}


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
    found, whole = scores(outcome, task), pooled(outcome)
    low, high = score_interval(outcome, task)
    details = DETAILS[task.kind](whole, task)
    values, bins = {**_others(outcome, task), **details.values, task.ranked_by: fmean(found)}, ()
    if task.kind != "number":
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


def _others(outcome: Outcome, task: Task) -> dict[str, float]:
    """What the head would be ranked by under other metrics that are no part of the details."""
    if task.kind == "one":  # its details know all of them
        return {}
    others = (replace(task, metric=name) for name in metrics_of(task.kind))
    return {other.ranked_by: fmean(scores(outcome, other)) for other in others}


def score_interval(outcome: Outcome | Answers, task: Task) -> tuple[float, float]:
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
    score: float, variance: float, texts: int, quantile: float, name: ScoreName
) -> tuple[float, float]:
    """The interval of a score by that of the logarithm of what it lacks of the most."""
    left = name.high - score
    if left <= 0:  # nothing is lacking
        return score, score
    half = quantile * (variance * texts / max(texts - 3, 1)) ** 0.5 / left
    return name.high - left * exp(min(half, 50.0)), name.high - left * exp(-half)
