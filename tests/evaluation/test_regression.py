"""Measures of numbers and of ordered classes are those of scipy and scikit-learn."""

import math

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats
from torch import Tensor

from heads.evaluation.details import measure
from heads.evaluation.intervals import score_interval
from heads.evaluation.predictions import CellPredictions, EvaluationTask, strata
from heads.evaluation.significance import compare
from heads.evaluation.statistics import spearman_parts
from heads.problem import REGRESSION


def task_of(targets: Tensor, groups: Tensor | None = None) -> EvaluationTask:
    groups = torch.arange(len(targets)) if groups is None else groups
    return EvaluationTask(targets=targets, classes=("likeness",), groups=groups, problem=REGRESSION)


def drawn(rows: int, seed: int, noise: float = 1.0) -> tuple[Tensor, Tensor]:
    """Numbers from 0 to 5 in halves, and predictions of them with some ties."""
    rng = torch.Generator().manual_seed(seed)
    targets = (10 * torch.rand(rows, generator=rng)).round() / 2
    given = targets + noise * torch.randn(rows, generator=rng)
    return targets, (5 * given).round() / 5


def saying(name: str, *given: Tensor) -> CellPredictions:
    rows = tuple(torch.arange(len(one)) for one in given)
    return CellPredictions(name=name, rows=rows, logits=tuple(one[:, None] for one in given))


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


@given(rows=st.integers(2, 25), seed=st.integers(0, 300), steps=st.integers(1, 6))
@settings(max_examples=60)
def test_the_parts_of_the_correlation_are_what_each_row_would_move_it_by(rows, seed, steps):
    rng = torch.Generator().manual_seed(seed)
    one = torch.randint(steps + 1, (rows,), generator=rng)
    other = one + torch.randint(2 * steps, (rows,), generator=rng)
    found = spearman_parts(one, other)
    if len(one.unique()) == 1 or len(other.unique()) == 1:
        assert found.tolist() == [0.0] * rows
        return
    score = float(stats.spearmanr(one, other).statistic)
    assert float(found.mean()) == pytest.approx(score, abs=1e-12)

    def weighted(weights: Tensor) -> float:
        """The same of rows that weigh unequally, from the definition of a middle rank."""
        ranks = []
        for values in (one, other):
            below = (values[:, None] > values).double() + (values[:, None] == values).double() / 2
            rank = below @ weights
            ranks.append(rank - weights @ rank)
        x, y = ranks
        return float(
            (weights * x * y).sum() / ((weights * x * x).sum() * (weights * y * y).sum()) ** 0.5
        )

    step = 1e-6
    for row in range(rows):
        weights = torch.full((rows,), (1 - step) / rows).double()
        weights[row] += step
        moved = weighted(weights)
        assert float(found[row]) - score == pytest.approx((moved - score) / step, abs=1e-3)


def test_fishers_interval_is_that_of_scipy_where_both_are_normal():
    rng = torch.Generator().manual_seed(4)
    targets = torch.randn(4000, generator=rng)
    said = targets + torch.randn(4000, generator=rng)
    low, high = score_interval(saying("x", said), task_of(targets))
    wanted = stats.pearsonr(targets.double(), said.double()).confidence_interval()
    assert high - low == pytest.approx(wanted.high - wanted.low, rel=0.15)


# Classes in an order


def test_classes_without_an_order_have_neither():
    task = EvaluationTask(targets=torch.zeros(3).long(), classes=("x", "y"), groups=torch.arange(3))
    outcome = CellPredictions(name="x", rows=(torch.arange(3),), logits=(torch.eye(3)[:, :2],))
    assert set(measure(outcome, task).values) == {
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
