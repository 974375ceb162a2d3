"""How well one cell does: accuracy with its interval, F1, probabilities, calibration.

Every measure is taken in each seed and averaged over seeds; the calibration and the confusion
take the answers of all seeds together.

Legend: n tested rows of one seed, c classes, s seeds.
"""

from dataclasses import dataclass
from statistics import fmean, variance

import torch
from torch import Tensor

from heads.pipeline.measure.outcomes import Answers, Outcome, Task, by_text, check, right

BINS = 15
CONFIDENCE = 0.95


@dataclass(frozen=True, slots=True, kw_only=True)
class Bin:
    """Answers of like confidence.

    Attributes:
        rows: How many answers.
        confidence: The mean probability of the answered class.
        accuracy: The share of them that is right.
    """

    rows: int
    confidence: float
    accuracy: float


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Measures:
    """How well one cell does on rows that it has not seen.

    Attributes:
        name: The recipe, or the name of a baseline.
        rows: How many rows of the corpus were tested at least once.
        accuracy: The share answered right, mean over seeds.
        low: Lower end of its 95 % interval.
        high: Its upper end.
        accuracies: The accuracy in each seed.
        balanced_accuracy: Mean recall over the classes that were tested.
        macro_f1: Mean F1 over the classes that were tested or answered (as in scikit-learn).
        f1: F1 of each class; None for one that was neither tested nor answered.
        log_loss: Mean −ln of the probability of the true class.
        brier: Mean of Σ (probability − truth)² over classes: 0 is best, 2 is worst.
        calibration_error: Mean |confidence − accuracy| over 15 bins of equally many answers;
            answers of equal confidence stay in one bin.
        bins: Those bins, from the least to the most confident.
        confusion: (c, c), how often a class (row) was answered with a class (column).
    """

    name: str
    rows: int
    accuracy: float
    low: float
    high: float
    accuracies: tuple[float, ...]
    balanced_accuracy: float
    macro_f1: float
    f1: tuple[float | None, ...]
    log_loss: float
    brier: float
    calibration_error: float
    bins: tuple[Bin, ...]
    confusion: Tensor


def measure(outcome: Outcome, task: Task) -> Measures:
    """All measures of one cell.

    Raises:
        RecipeError: A logit is infinite or NaN.
    """
    check(outcome, task)
    hits = right(outcome, task)
    accuracies = tuple(float(seed.mean()) for seed in hits)
    low, high = accuracy_interval(outcome, task)
    targets = [task.targets[rows] for rows in outcome.rows]
    logs = [logits.double().log_softmax(dim=1) for logits in outcome.logits]
    tables = [_confusion(log, target) for log, target in zip(logs, targets, strict=True)]
    f1s = torch.stack([_f1(table) for table in tables])
    bins = _bins(torch.cat([log.amax(dim=1).exp() for log in logs]), torch.cat(hits))
    return Measures(
        name=outcome.name,
        rows=len(torch.cat(outcome.rows).unique()),
        accuracy=fmean(accuracies),
        low=low,
        high=high,
        accuracies=accuracies,
        balanced_accuracy=fmean(_recall(table) for table in tables),
        macro_f1=float(f1s.nanmean(dim=1).mean()),
        f1=tuple(None if value != value else value for value in f1s.nanmean(dim=0).tolist()),
        log_loss=fmean(_log_loss(*pair) for pair in zip(logs, targets, strict=True)),
        brier=fmean(_brier(*pair) for pair in zip(logs, targets, strict=True)),
        calibration_error=_calibration_error(bins),
        bins=bins,
        confusion=torch.stack(tables).sum(dim=0),
    )


def accuracy_interval(outcome: Outcome | Answers, task: Task) -> tuple[float, float]:
    """The 95 % interval of the mean accuracy; for one seed and distinct texts it is Wilson's.

    It is meant for new rows and new repetitions on these data. Its variance has two parts: that
    of the tested texts, where all answers to one text, in all seeds, are one piece of
    evidence (cluster-robust), and that of the seeds' accuracies over s. Together they turn
    into a number of rows that would be as uncertain, for Wilson's interval, which stays
    between 0 and 1; few seeds widen it by Student's t (Satterthwaite's degrees of freedom).

    With repeated splits, tested rows and training noise count twice in the sum, which errs on
    the wide side. The correction of Nadeau & Bengio for overlapping splits is not added: what
    it stands in for, that a row is tested in several splits, the clusters already count.

    Source: Wilson 1927; Liang & Zeger 1986; Satterthwaite 1946; Korn & Graubard 1998.
    """
    from scipy.special import stdtrit

    hits = right(outcome, task)
    accuracies = [float(seed.mean()) for seed in hits]
    seeds, share = len(accuracies), fmean(accuracies)
    parts = by_text(hits, outcome.rows, task).mean(dim=0)
    weights = by_text([torch.ones_like(seed) for seed in hits], outcome.rows, task).mean(dim=0)
    of_rows = float((parts - weights * share).square().sum())
    of_seeds = variance(accuracies) / seeds if seeds > 1 else 0.0
    both = of_rows + of_seeds
    freedom = (both / of_seeds) ** 2 * (seeds - 1) if of_seeds else float("inf")
    most = sum(map(len, outcome.rows))
    # Nothing varies where all is right or all is wrong: then each unique text is one row.
    rows = min(share * (1 - share) / both, most) if both > 1e-15 else int((weights > 0).sum())
    return _wilson(share, rows, float(stdtrit(freedom, (1 + CONFIDENCE) / 2)))


def _wilson(share: float, rows: float, quantile: float) -> tuple[float, float]:
    spread = quantile**2 / rows
    centre = share + spread / 2
    half = quantile * (share * (1 - share) / rows + spread / (4 * rows)) ** 0.5
    return max(0.0, (centre - half) / (1 + spread)), min(1.0, (centre + half) / (1 + spread))


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


def _log_loss(logs: Tensor, targets: Tensor) -> float:
    return -float(logs.gather(1, targets[:, None]).mean())


def _brier(logs: Tensor, targets: Tensor) -> float:
    truth = torch.nn.functional.one_hot(targets, logs.shape[1])
    return float((logs.exp() - truth).square().sum(dim=1).mean())


def _bins(confidences: Tensor, hits: Tensor) -> tuple[Bin, ...]:
    """Answers in up to 15 bins by the rank of their confidence (Nixon et al. 2019)."""
    ranks = torch.searchsorted(confidences.sort().values, confidences)  # equal ones rank equal
    numbers = ranks * BINS // len(ranks)
    return tuple(
        Bin(
            rows=int(chosen.sum()),
            confidence=float(confidences[chosen].mean()),
            accuracy=float(hits[chosen].mean()),
        )
        for chosen in (numbers == number for number in numbers.unique())
    )


def _calibration_error(bins: tuple[Bin, ...]) -> float:
    gaps = sum(one.rows * abs(one.confidence - one.accuracy) for one in bins)
    return gaps / sum(one.rows for one in bins)
