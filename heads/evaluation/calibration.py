"""Whether a cell is as sure as it is right: reliability, temperature, thresholds, coverage.

The confidence of an answer is the probability of the class answered; of several labels every
one is a decision, given or not, with a confidence of its own.

Legend: n tested rows of one seed, m development rows, c classes, a all answers of all seeds.
"""

from dataclasses import dataclass
from math import exp, log
from statistics import fmean

import torch
from torch import Tensor
from torch.nn.functional import one_hot

from heads.evaluation.predictions import CellPredictions, EvaluationTask, answers_of
from heads.problem import ProblemType

# --- Answers by their confidence: how often they are right, and how far that is from it.

BINS = 15


@dataclass(frozen=True, slots=True, kw_only=True)
class Bin:
    """Answers of like confidence.

    Attributes:
        confidence: The mean probability of the answered class.
        accuracy: The share of them that is right.
    """

    rows: int
    confidence: float
    accuracy: float


def reliability(confidences: Tensor, hits: Tensor) -> tuple[Bin, ...]:
    """Answers in up to 15 bins by the rank of their confidence (Nixon et al. 2019).

    Args:
        confidences: (a,).
        hits: (a,), 1 where the answer is right, else 0.
    """
    from scipy.stats import rankdata

    ranks = torch.from_numpy(rankdata(confidences.numpy(), method="min")).long() - 1
    numbers = ranks * BINS // len(ranks)
    return tuple(
        Bin(
            rows=int(chosen.sum()),
            confidence=float(confidences[chosen].mean()),
            accuracy=float(hits[chosen].mean()),
        )
        for chosen in (numbers == number for number in numbers.unique())
    )


def calibration_error(bins: tuple[Bin, ...]) -> float:
    """Mean |confidence − accuracy| over the answers in bins."""
    gaps = sum(one.rows * abs(one.confidence - one.accuracy) for one in bins)
    return gaps / sum(one.rows for one in bins)


POINTS = 20  # of the curve of coverage
PULL = 3.0  # of a threshold to the common one: the best of 0.5 to 4 on two data sets
TINY = 1e-12
PRIOR = 2.0  # the shape of a temperature's prior, less 1
FACTORS = 1e-2, 1e3  # of logits whose mean square is 1; beyond them confidence hardly moves


@dataclass(frozen=True, slots=True, kw_only=True)
class Coverage:
    """What is answered, and how well, where less sure answers are withheld.

    Attributes:
        threshold: The confidence, after scaling, below which there is no answer.
        coverage: The share of all answers that is still given.
        accuracy: The share of those that is right.
    """

    threshold: float
    coverage: float
    accuracy: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Calibration:
    """How far a temperature, found on the development rows, mends the confidence.

    Attributes:
        temperature: What the logits are divided by: above 1 the head was too sure.
        error_before: The calibration error on the tested rows as they were answered.
        error_after: The same with the logits divided.
        coverage: From answering all to a few of which the head is surest, after.
    """

    temperature: float
    error_before: float
    error_after: float
    log_loss_before: float
    log_loss_after: float
    bins: tuple[Bin, ...]
    coverage: tuple[Coverage, ...]


def calibration(
    outcome: CellPredictions, task: EvaluationTask, before: tuple[Bin, ...]
) -> Calibration | None:
    """Scales the confidence on the held rows and tells what that did on the tested ones.

    None for numbers, and where there are no held rows. No answer changes by it.

    Args:
        before: The answers by their confidence as it is, from `reliability`.
    """
    if outcome.held is None or not task.problem.has_classes:
        return None
    logits, rows = outcome.held
    found = temperature(logits, task.targets[rows], task.problem)
    hits, sure = decided(outcome, task), confidence(outcome, task, found)
    after = reliability(sure, hits)
    return Calibration(
        temperature=found,
        error_before=calibration_error(before),
        error_after=calibration_error(after),
        log_loss_before=log_loss(outcome, task),
        log_loss_after=log_loss(outcome, task, found),
        bins=after,
        coverage=_coverage(sure, hits),
    )


def temperature(logits: Tensor, targets: Tensor, problem: ProblemType) -> float:
    """Return the number that logits are divided by for the smallest log loss on these rows.

    Few rows say little, so 1 / T has a gamma distribution of mode 1 as its prior. T is 1 where it
    cannot be told: of numbers, without rows, or where no row is answered wrong, so that no
    confidence would be too high.

    Args:
        logits: (m, c).
        targets: (m,) numbers of classes, or (m, c) 1 at the labels of a row.

    Source: Guo et al. 2017. The loss is convex in 1/T: its slope is searched for its root.
    """
    from scipy.optimize import root_scalar

    if not (problem.has_classes and len(logits)):
        return 1.0
    logits = logits.double()
    if problem.is_exclusive:
        logits = logits - logits.mean(dim=1, keepdim=True)
        positive = one_hot(targets, logits.shape[1]).bool()
        sure = logits[positive] - logits.masked_fill(positive, -torch.inf).amax(dim=1)
    else:
        positive = targets.bool()
        sure = torch.where(positive, logits, -logits)
    if bool((sure >= 0).all()):
        return 1.0
    scale = float(logits.square().mean().sqrt())
    logits = logits / scale
    met = (logits * positive).sum()

    def slope(power: float) -> float:
        """Of the loss by the factor e^power of the logits; it only grows."""
        # The derivative by e^power of PRIOR (u - log u), where u = e^power / scale is 1 / T.
        prior = PRIOR * (1 / scale - exp(-power))
        return float((logits * problem.probabilities(exp(power) * logits)).sum() - met) + prior

    low, high = map(log, FACTORS)
    if slope(low) >= 0:
        return scale / FACTORS[0]
    if slope(high) <= 0:
        return scale / FACTORS[1]
    return scale / exp(root_scalar(slope, bracket=(low, high)).root)


def thresholds(logits: Tensor, targets: Tensor) -> Tensor:
    """(c,), the logits above which each label is given, for the best F1 of it on these rows.

    They are drawn to the common threshold, the more the rarer the label: what a threshold away
    from it gains in F1 has to outweigh PULL / √(rows with the label) for each standard deviation
    of the logits between the two, since the F1 of few rows errs by about 1 / √rows. A label that
    no row has takes the common threshold.

    Args:
        logits: (m, c).
        targets: (m, c), 1 at the labels of a row.

    Source: Yang 2001 (SCut), who also shows that it overfits rare labels.
    """
    common = common_threshold(logits, targets)
    rows = targets.bool().sum(dim=0)
    pull = PULL / (rows.clamp_min(1).sqrt() * logits.double().std().clamp_min(TINY))
    return torch.where(rows > 0, _best_cuts(logits, targets, common, pull), common)


def common_threshold(logits: Tensor, targets: Tensor) -> float:
    """The one logit above which any label is given, for the best micro-F1 on these rows.

    0 where no row has a label.
    """
    if not bool(targets.any()):
        return 0.0
    return float(_best_cuts(logits.reshape(-1, 1), targets.reshape(-1, 1)))


def _best_cuts(
    logits: Tensor, targets: Tensor, common: float = 0.0, pull: Tensor | float = 0.0
) -> Tensor:
    """(c,), where the F1 of all above, less `pull` times the way from `common`, is best.

    Each is midway from the last that is given to the next below; of equals the highest.
    """
    ordered, order = logits.sort(dim=0, descending=True, stable=True)
    right = targets.bool().gather(0, order).cumsum(dim=0).double()
    scores = 2 * right / (torch.arange(1, len(ordered) + 1)[:, None] + right[-1])
    ordered = ordered.double()
    below = torch.cat([ordered[1:], ordered[-1:] - 2])  # one less where all are given
    cuts = (ordered + below) / 2
    scores -= pull * (cuts - common).abs()
    scores[ordered == below] = -torch.inf  # what is equal is given together
    return cuts.gather(0, scores.argmax(dim=0, keepdim=True))[0]


def confidence(outcome: CellPredictions, task: EvaluationTask, temperature: float = 1.0) -> Tensor:
    """(a,), the probability of every answer, with the logits divided by a temperature."""
    divided = [logits.double() / temperature for logits in outcome.logits]
    pairs = zip(divided, answers_of(outcome, task).given, strict=True)
    return torch.cat([task.problem.confidence(*pair).flatten() for pair in pairs])


def decided(outcome: CellPredictions, task: EvaluationTask) -> Tensor:
    """(a,), 1 where an answer is right, else 0."""
    pairs = zip(outcome.rows, answers_of(outcome, task).given, strict=True)
    return torch.cat([(given == task.targets[rows]).double().flatten() for rows, given in pairs])


def log_loss(outcome: CellPredictions, task: EvaluationTask, temperature: float = 1.0) -> float:
    """Mean −ln of the probability of the truth, of every row or of every label of every row."""
    losses = []
    for rows, logits in zip(outcome.rows, outcome.logits, strict=True):
        divided, targets = logits.double() / temperature, task.targets[rows]
        losses.append(-float(task.problem.log_likelihood(divided, targets).mean()))
    return fmean(losses)


def _coverage(confidences: Tensor, hits: Tensor) -> tuple[Coverage, ...]:
    """From answering all to the surest twentieth; answers of equal confidence go together."""
    ordered = confidences.sort().values
    levels = ordered[torch.arange(POINTS) * len(ordered) // POINTS].unique()
    return tuple(
        Coverage(
            threshold=float(level),
            coverage=float(kept.double().mean()),
            accuracy=float(hits[kept].mean()),
        )
        for level, kept in ((level, confidences >= level) for level in levels)
    )
