"""Thresholds are the best there are, the temperature the best there is, coverage adds up."""

import math
from dataclasses import replace

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from judged_cells import cell_of, task_of
from scipy.optimize import minimize_scalar
from sklearn import metrics
from torch import Tensor
from torch.nn.functional import binary_cross_entropy_with_logits, cross_entropy

from heads.evaluation.calibration import PRIOR, common_threshold, temperature, thresholds
from heads.evaluation.details import measure
from heads.evaluation.predictions import CellPredictions, EvaluationTask
from heads.problem import MULTI_LABEL, REGRESSION, SINGLE_LABEL


def drawn(rows: int, seed: int, labels: int) -> tuple[Tensor, Tensor]:
    rng = torch.Generator().manual_seed(seed)
    targets = (torch.rand(rows, labels, generator=rng) < 0.3).float()
    logits = 2 * targets - 1.5 + torch.randn(rows, labels, generator=rng)
    return (4 * logits).round() / 4, targets


# Thresholds


def f1(given: Tensor, targets: Tensor) -> float:
    return float(2 * (given * targets).sum() / (given.sum() + targets.sum()).clamp_min(1))


def best_f1(logits: Tensor, targets: Tensor) -> float:
    cuts = [*(logits.unique() - 0.01).tolist(), float(logits.max()) + 1]
    return max(f1(logits > cut, targets) for cut in cuts)


@given(rows=st.integers(1, 40), seed=st.integers(0, 100))
@settings(max_examples=30)
def test_no_common_threshold_has_a_better_micro_f1(rows, seed):
    logits, targets = drawn(rows, seed, 3)
    found = f1(logits > common_threshold(logits, targets), targets)
    assert found == pytest.approx(best_f1(logits, targets))


def test_a_label_of_many_rows_has_the_threshold_of_nearly_its_best_f1():
    logits, targets = drawn(4000, 0, 3)
    logits = logits + torch.tensor([0.0, 1.5, -1.5])  # that no common threshold can serve
    found = thresholds(logits, targets)
    common = common_threshold(logits, targets)
    for label in range(3):
        x, y = logits[:, label], targets[:, label]
        reached, best = metrics.f1_score(y, x > found[label]), best_f1(x, y)
        assert best - 0.02 < reached <= best + 1e-6
    assert float(found[1]) > common > float(found[2])


def test_a_rare_label_is_drawn_to_the_common_threshold_and_one_without_rows_takes_it():
    logits, targets = drawn(400, 0, 5)
    logits[:, 3] -= 3
    logits[:, 4] -= 3
    targets[:, 4] = 0
    common = common_threshold(logits, targets)
    apart = []
    for rows in (400, 12):
        rare = targets.clone()
        rare[rows:, 3] = 0
        apart.append(abs(float(thresholds(logits, rare)[3]) - common_threshold(logits, rare)))
    assert apart[1] < apart[0] / 2
    assert float(thresholds(logits, targets)[4]) == common


@given(seed=st.integers(0, 100), scale=st.sampled_from([1e-3, 0.5, 100.0]))
@settings(max_examples=20)
def test_thresholds_follow_the_scale_of_the_logits(seed, scale):
    logits, targets = drawn(60, seed, 3)
    once, again = thresholds(logits, targets), thresholds(scale * logits.double(), targets)
    given = [(x > cut) for x, cut in ((logits, once), (scale * logits.double(), again))]
    assert torch.equal(*given)


def test_thresholds_lie_between_logits_and_without_any_label_at_one_half():
    logits = torch.tensor([[3.0], [1.0], [-1.0]] * 10)
    assert thresholds(logits, (logits > 2).float()).tolist() == [2.0]
    assert thresholds(logits, torch.ones(30, 1)).tolist() == [-2.0]
    assert thresholds(logits, torch.zeros(30, 1)).tolist() == [0.0]


# The temperature


@pytest.mark.parametrize("scale", [0.05, 1.0, 8.0])
@pytest.mark.parametrize("problem", [SINGLE_LABEL, MULTI_LABEL], ids=["one", "many"])
def test_the_temperature_has_the_smallest_log_loss_and_prior(scale, problem):
    rng = torch.Generator().manual_seed(1)
    logits = torch.randn(400, 5, generator=rng).double()
    if problem is SINGLE_LABEL:
        loss, targets = cross_entropy, logits.softmax(dim=1).multinomial(1, generator=rng)[:, 0]
        logits = scale * logits + torch.arange(400)[:, None]  # what all classes share is nothing
    else:
        loss = binary_cross_entropy_with_logits
        targets = (logits - 1).sigmoid().bernoulli(generator=rng)
        logits = scale * (logits - 1)
    found = temperature(logits, targets, problem)
    best = minimize_scalar(
        lambda at: (
            float(loss(logits / math.exp(at), targets, reduction="sum"))
            + PRIOR * (math.exp(-at) + at)
        ),
        bounds=(-6, 6),
    )
    assert found == pytest.approx(math.exp(best.x), rel=1e-3)
    assert found == pytest.approx(scale, rel=0.3)


def test_where_no_temperature_is_best_it_is_one_and_where_logits_mislead_it_is_hot():
    right = torch.eye(3).repeat(4, 1)
    targets = torch.arange(12) % 3
    assert temperature(right, targets, SINGLE_LABEL) == 1.0
    assert temperature(right - 0.5, right, MULTI_LABEL) == 1.0
    assert temperature(torch.zeros(12, 3), targets, SINGLE_LABEL) == 1.0
    assert temperature(torch.ones(12, 3), targets, SINGLE_LABEL) == 1.0
    assert temperature(torch.zeros(0, 3), torch.zeros(0).long(), SINGLE_LABEL) == 1.0
    assert temperature(torch.randn(9, 1), torch.randn(9), REGRESSION) == 1.0
    tied = torch.tensor([[2.0, 0.0], [1.0, 1.0]])
    assert temperature(tied, torch.tensor([0, 1]), SINGLE_LABEL) == 1.0
    many, all_targets = right.repeat(20, 1), targets.repeat(20)
    shares = (-many / temperature(-many, all_targets, SINGLE_LABEL)).softmax(dim=1)
    assert shares.max() < 0.35


def test_few_rows_move_the_temperature_less_than_many():
    wrong_once = torch.tensor([[3.0, 0.0]] * 4 + [[1.0, 2.0]])
    targets = torch.zeros(5).long()
    few = temperature(wrong_once / 30, targets, SINGLE_LABEL)
    many = temperature(wrong_once.repeat(100, 1) / 30, targets.repeat(100), SINGLE_LABEL)
    assert 1 > few > 2 * many


# Before and after


@pytest.fixture(scope="module")
def boastful() -> tuple[CellPredictions, EvaluationTask]:
    """Logits three times as large as they should be, two seeds of 1,000 rows and 500 held."""
    rng = torch.Generator().manual_seed(3)
    logits = 1.5 * torch.randn(1500, 3, generator=rng)
    targets = logits.softmax(dim=1).multinomial(1, generator=rng)[:, 0]
    task = task_of(targets, 3)
    rows, held = torch.arange(1000), torch.arange(1000, 1500)
    again = logits[rows] + 0.1 * torch.randn(1000, 3, generator=rng)
    return cell_of(3 * logits[rows], 3 * again, held=(3 * logits[held], held)), task


def test_a_temperature_mends_what_is_too_sure_and_changes_no_answer(boastful):
    found = measure(*boastful)
    mended = found.calibration
    assert mended is not None
    assert mended.temperature == pytest.approx(3.0, rel=0.2)
    assert mended.error_before == found.values["calibration_error"] > 0.1
    assert mended.error_after < 0.05
    assert mended.log_loss_before == found.values["log_loss"]
    assert mended.log_loss_after < mended.log_loss_before
    assert sum(one.rows for one in mended.bins) == 2000
    right = sum(one.rows * one.accuracy for one in mended.bins) / 2000
    assert right == pytest.approx(found.score)


def test_coverage_goes_from_all_to_a_few_that_are_surer_and_more_often_right(boastful):
    found = measure(*boastful)
    assert found.calibration is not None
    points = found.calibration.coverage
    assert len(points) == 20
    assert points[0].coverage == 1.0
    assert points[0].accuracy == pytest.approx(found.score)
    assert points[-1].coverage == pytest.approx(0.05, abs=0.001)
    assert [p.threshold for p in points] == sorted(p.threshold for p in points)
    assert [p.coverage for p in points] == sorted((p.coverage for p in points), reverse=True)
    assert points[-1].accuracy > 0.9 > points[0].accuracy


def test_answers_of_one_confidence_go_together(boastful):
    _, task = boastful
    alike = torch.zeros(100, 3)
    found = measure(cell_of(alike, held=(alike, torch.arange(100))), task).calibration
    assert found is not None
    assert [point.coverage for point in found.coverage] == [1.0]
    assert found.temperature == 1.0


def test_every_label_of_a_row_is_a_decision_of_its_own():
    logits, targets = drawn(200, 4, 3)
    bars, held = torch.tensor([-1.0, 0.0, 0.5]), (4 * logits[100:], torch.arange(100, 200))
    outcome = cell_of(4 * logits[:100], thresholds=bars, held=held)
    found = measure(outcome, task_of(targets, 3, MULTI_LABEL))
    mended = found.calibration
    assert mended is not None
    assert sum(one.rows for one in found.bins) == 300
    assert mended.temperature > 1.5
    assert mended.log_loss_after < mended.log_loss_before
    assert mended.coverage[0].accuracy == pytest.approx(1 - found.values["hamming_loss"])


def test_without_held_rows_nothing_is_known_of_a_temperature(boastful):
    outcome, task = boastful
    assert measure(replace(outcome, held=None), task).calibration is None
