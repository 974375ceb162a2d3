"""The 95 % interval of a score: for other rows, other seeds and, with folds, other training rows.

With a test set the true score is the mean, over new seeds and all rows of the kind that was
tested, of heads that learn from these very training rows. With folds it is that of heads that
learn from as many rows drawn anew.

Legend: n rows, g groups of rows, s seeds, k cells.
"""

from collections.abc import Collection, Iterator, Sequence
from math import atanh, exp, inf, tanh
from statistics import fmean

import torch
from torch import Tensor

from heads.evaluation.metrics import Metric
from heads.evaluation.predictions import (
    MAJORITY,
    Answers,
    CellPredictions,
    EvaluationTask,
    answers_of,
    by_text,
    evidence,
    parts,
    repetitions,
    scores,
)
from heads.evaluation.significance import scatter, seed_variance, tail_quantile
from heads.evaluation.statistics import Z_95, macro_f1_bias, wilson

CONFIDENCE = 0.95
# What training rows add, with folds, to the variance through tested rows: a share of it that halves
# at so many rows, or the same share of scores to which all classes count alike. No estimate can be
# had from folds (Bengio & Grandvalet 2004): these are measured, see `studies/coverage.py`.
TRAINING_ROWS, HALF_AT, TRAINING_CLASSES = 0.5, 600, 0.4


def score_interval(outcome: CellPredictions | Answers, task: EvaluationTask) -> tuple[float, float]:
    """Return the interval of a cell whose seeds alone say how much training scatters."""
    return score_intervals([outcome], task)[0]


def score_intervals(
    cells: Sequence[CellPredictions | Answers],
    task: EvaluationTask,
    tuned: Collection[str] = (),
) -> list[tuple[float, float]]:
    """Return the 95 % interval of every cell's mean score.

    The variance of a score has three parts: the tested rows, where all answers to one group, in all
    seeds, are one piece of evidence; the seeds, pooled over the cells of a kind, as for differences
    (`seed_variance`); and with folds the training rows, of which all folds share most.

    A share's interval is Wilson's on the number of rows that would be as uncertain; a correlation's
    is on Fisher's scale, others are on the scale of the logarithm of the error. Of few groups of
    several texts the quantile is Student's.

    Args:
        tuned: The names of cells that learn their base model as well: a kind of their own.

    Source: Wilson 1927; Fisher 1921; Liang & Zeger 1986; Korn & Graubard 1998; Nadeau & Bengio 2003
    and Bates, Hastie & Tibshirani 2024 for folds.
    """
    influences = [_influence(cell, task) for cell in cells]
    luck = [torch.zeros(1)] * len(cells)
    kinds: dict[tuple[int, bool], list[int]] = {}
    for number, cell in enumerate(cells):
        if cell.name != MAJORITY:  # which has no luck
            kinds.setdefault((len(cell.rows), cell.name in tuned), []).append(number)
    for (seeds, is_tuned), numbers in kinds.items():
        is_folded = len(repetitions(cells[numbers[0]])) < seeds
        # A fold of hard rows is hard for all cells, so luck is measured about their mean. About its
        # own mean a single cell has none: nearly true if it is frozen, but not if it is tuned.
        is_centred = is_folded and (len(numbers) > 1 or not is_tuned)
        level = max(abs(fmean(scores(cells[number], task))) for number in numbers)
        unit = (level or 1.0) if task.score.scale == "error" else 1.0
        pooled = _luck([influences[number] for number in numbers], is_centred, unit)
        for number, variances in zip(numbers, pooled, strict=True):
            luck[number] = variances
    return [
        _interval(cell, task, each, variances)
        for cell, (each, _), variances in zip(cells, influences, luck, strict=True)
    ]


def _influence(cell: CellPredictions | Answers, task: EvaluationTask) -> tuple[Tensor, Tensor]:
    """Each group's part of the score, (s, g), and each seed's score, (s,), about their means."""
    values, score = parts(cell, task), fmean(scores(cell, task))
    weights = by_text([torch.ones_like(value) for value in values], cell, task)
    each = by_text(evidence(cell, task), cell, task) - weights * score
    return each, by_text(values, cell, task).sum(dim=1) - weights.sum(dim=1) * score


def _luck(influences: Sequence[tuple[Tensor, Tensor]], is_centred: bool, unit: float) -> Tensor:
    """(k, atoms), equally likely variances of the mean score of each cell through its training."""
    each, by_seed = (torch.stack(values, dim=-1) for values in zip(*influences, strict=True))
    seeds, count = by_seed.shape
    if is_centred:
        factor = (count / max(count - 1, 1)) ** 0.5
        each = (each - each.mean(dim=-1, keepdim=True)) * factor
        by_seed = (by_seed - by_seed.mean(dim=-1, keepdim=True)) * factor
    between, within = scatter(each, by_seed)
    return seed_variance(between, within, seeds, unit).atoms * within[:, None] / seeds


def _interval(
    cell: CellPredictions | Answers, task: EvaluationTask, each: Tensor, luck: Tensor
) -> tuple[float, float]:
    score, name = fmean(scores(cell, task)), task.score
    rows = torch.cat(cell.rows).unique()
    groups = len(task.groups[rows].unique())
    inflation = _inflation(cell, task, groups)
    if task.ranked_by == "macro_f1":
        score += fmean(_macro_f1_biases(answers_of(cell, task), task))
    variance = float(each.mean(dim=0).square().sum()) * inflation + luck.double()
    # That of a normal distribution which is beyond its bar as often.
    variance = (float(tail_quantile(variance[None], 1 - CONFIDENCE)) / Z_95) ** 2
    if name.scale == "correlation":
        return _fisher(score, variance, groups)
    if not name.is_share:
        return _by_error(score, variance, groups, name)
    # A share of rows is no surer than if all were independent; F1 counts no rows.
    is_mean = task.ranked_by in ("accuracy", "exact_match")
    most = sum(map(len, cell.rows)) if is_mean else inf
    score = min(max(score, 0.0), 1.0)  # a bias may have been taken from it
    spread = score * (1 - score)
    # Nothing varies where all is right or all is wrong: then each unique text is one row.
    is_varied = min(variance, spread) > 1e-15
    return wilson(score, min(spread / variance, most) if is_varied else groups / inflation)


def _macro_f1_biases(answers: Answers, task: EvaluationTask) -> Iterator[float]:
    """For each repetition by how much its macro-F1 is lower than on many rows."""
    for seeds in repetitions(answers):
        given = torch.cat([answers.given[seed] for seed in seeds])
        truth = task.targets[torch.cat([answers.rows[seed] for seed in seeds])]
        yield macro_f1_bias(given, truth, len(task.classes))


def _inflation(cell: CellPredictions | Answers, task: EvaluationTask, groups: int) -> float:
    """By how much the variance is larger than through tested rows alone, with many of them."""
    from scipy.special import stdtrit

    factor, name = 1.0, task.score
    if cell.repetition and len(cell.rows) > 1:  # one head alone is scored for itself
        factor += TRAINING_CLASSES if name.evidence else TRAINING_ROWS / (1 + groups / HALF_AT)
    if task.texts is not None and groups < len(task.texts[torch.cat(cell.rows)].unique()):
        # Of groups there may be few; the spread about their own mean is then too small as well,
        # unless evidence has been corrected for that class by class.
        few = max(groups - 1, 1)
        factor *= (float(stdtrit(few, (1 + CONFIDENCE) / 2)) / Z_95) ** 2
        factor *= 1.0 if name.evidence else groups / few
    return factor


def _fisher(score: float, variance: float, groups: int) -> tuple[float, float]:
    # Where nothing varies, or nothing is lacking: as sure as of a share of as many rows.
    if variance <= 1e-15 or groups < 4 or 1 - score**2 <= 1e-12:
        low, high = wilson(min(max((1 + score) / 2, 0.0), 1.0), groups)
        return 2 * low - 1, 2 * high - 1
    half = Z_95 * (variance * groups / (groups - 3)) ** 0.5 / (1 - score**2)
    return tanh(atanh(score) - half), tanh(atanh(score) + half)


def _by_error(score: float, variance: float, groups: int, name: Metric) -> tuple[float, float]:
    """The interval of a score by that of the logarithm of what it lacks of the most."""
    left = name.high - score
    if left <= 0:  # nothing is lacking
        return score, score
    half = Z_95 * (variance * groups / max(groups - 3, 1)) ** 0.5 / left
    return name.high - left * exp(min(half, 50.0)), name.high - left * exp(-half)
