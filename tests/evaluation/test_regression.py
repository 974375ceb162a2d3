"""Measures of numbers and of ordered classes are those of scipy and scikit-learn."""

import math

import judged_cells
import pytest
import torch
from judged_cells import cell_of
from scipy import stats
from torch import Tensor

from heads.evaluation.details import measure
from heads.evaluation.intervals import score_interval
from heads.evaluation.predictions import CellPredictions, EvaluationTask, strata
from heads.evaluation.significance import compare
from heads.problem import REGRESSION


def task_of(targets: Tensor) -> EvaluationTask:
    return judged_cells.task_of(targets, 1, REGRESSION)


def drawn(rows: int, seed: int, noise: float = 1.0) -> tuple[Tensor, Tensor]:
    """Numbers from 0 to 5 in halves, and predictions of them with some ties."""
    rng = torch.Generator().manual_seed(seed)
    targets = (10 * torch.rand(rows, generator=rng)).round() / 2
    given = targets + noise * torch.randn(rows, generator=rng)
    return targets, (5 * given).round() / 5


def saying(name: str, *given: Tensor) -> CellPredictions:
    return cell_of(*(each[:, None] for each in given), name=name)


def test_constant_numbers_have_no_correlation_and_are_no_error():
    targets, _ = drawn(40, 1)
    found = measure(saying("majority", torch.full((40,), 2.5)), task_of(targets))
    assert (found.bins, found.f1, found.labels) == ((), (), ())
    assert found.confusion is None is found.calibration
    assert (found.metric, found.score, found.values["pearson"]) == ("spearman", 0.0, 0.0)
    assert -0.5 < found.low < 0 < found.high < 0.5
    alike = measure(saying("x", targets), task_of(torch.ones(40)))
    assert (alike.score, alike.values["r2"]) == (0.0, 0.0)
    exact = measure(saying("x", torch.ones(40)), task_of(torch.ones(40)))
    assert exact.values["r2"] == 1.0
    found = compare(
        [saying("majority", torch.zeros(40)), saying("linear", targets)],
        task_of(targets),
        reference="linear",
    )
    assert found.to_reference[0].difference == pytest.approx(-1.0)
    assert found.to_reference[0].low < -1.0


@pytest.mark.parametrize("rows", [1, 2, 3, 5])
def test_a_few_rows_have_a_wide_interval(rows):
    low, high = score_interval(saying("x", torch.arange(rows).float()), task_of(torch.arange(rows)))
    assert -1 <= low < high <= 1
    assert high - low > 0.5


def test_fishers_interval_is_that_of_scipy_where_both_are_normal():
    rng = torch.Generator().manual_seed(4)
    targets = torch.randn(4000, generator=rng)
    said = targets + torch.randn(4000, generator=rng)
    low, high = score_interval(saying("x", said), task_of(targets))
    wanted = stats.pearsonr(targets.double(), said.double()).confidence_interval()
    assert high - low == pytest.approx(wanted.high - wanted.low, rel=0.15)


# Classes in an order


def test_classes_without_an_order_have_neither():
    task = judged_cells.task_of(torch.zeros(3).long())
    assert set(measure(cell_of(torch.eye(3)[:, :2]), task).values) == {
        "accuracy", "balanced_accuracy", "macro_f1", "weighted_f1", "mcc", "cohen_kappa", "brier",
        "log_loss", "calibration_error",
    }  # fmt: skip


def test_strata_of_numbers_are_tenths_and_equal_numbers_stay_together():
    numbers = torch.tensor([3.0, 1.0, 2.0, 1.0, *range(10, 26)])
    found = strata(task_of(numbers))
    assert found[1] == found[3] == 0
    assert found.max() == 9
    assert found[4:].tolist() == sorted(found[4:].tolist())
    assert math.isclose(float(found.double().mean()), 4.5, abs_tol=0.2)
