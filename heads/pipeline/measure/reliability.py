"""Answers by their confidence: how often they are right, and how far that is from it."""

from dataclasses import dataclass

import torch
from torch import Tensor

BINS = 15


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


def reliability(confidences: Tensor, hits: Tensor) -> tuple[Bin, ...]:
    """Answers in up to 15 bins by the rank of their confidence (Nixon et al. 2019).

    Args:
        confidences: (a,).
        hits: (a,), 1 where the answer is right, else 0.
    """
    ordered, order = confidences.sort()
    ranks = torch.empty_like(order)
    ranks[order] = torch.searchsorted(ordered, ordered)  # equal ones rank equal
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
