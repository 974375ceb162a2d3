"""Measures of predicted numbers, beside Spearman's correlation."""

from statistics import fmean

from torch import Tensor

from heads.pipeline.measure.details import Details
from heads.pipeline.measure.outcomes import Outcome, Task, answers_of


def details_of_number(outcome: Outcome, task: Task) -> Details:
    """Every other measure of one cell.

    `pearson` is 0 where a side is constant. `r2` is the share of the variance explained: 1 is
    best, 0 what the mean of the tested rows would get, and it can be below.
    """
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
