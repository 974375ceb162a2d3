"""Measures of several labels a row are those of scikit-learn; a row's part of F1 is its pull."""

from dataclasses import replace

import judged_cells
import pytest
import torch
from judged_cells import cell_of
from sklearn import metrics
from torch import Tensor

from heads.errors import RecipeError
from heads.evaluation.details import Measures, measure
from heads.evaluation.intervals import score_interval
from heads.evaluation.predictions import (
    Answers,
    EvaluationTask,
    answers_of,
    parts,
    strata,
)
from heads.problem import MULTI_LABEL

LABELS = 5


def task_of(targets: Tensor) -> EvaluationTask:
    return judged_cells.task_of(targets, targets.shape[1], MULTI_LABEL)


def drawn(rows: int, seed: int, labels: int = LABELS) -> tuple[Tensor, Tensor]:
    """Targets of which some rows have none, and logits in steps, so that some are equal."""
    rng = torch.Generator().manual_seed(seed)
    targets = (torch.rand(rows, labels, generator=rng) < 0.3).float()
    logits = 2 * targets - 1.5 + torch.randn(rows, labels, generator=rng)
    return targets, (4 * logits).round() / 4


def f1(targets: Tensor, answers: Tensor) -> float:
    return float(metrics.f1_score(targets, answers, average="micro", zero_division=0.0))


@pytest.fixture(scope="module")
def measured() -> tuple[Measures, Tensor, Tensor, Tensor]:
    """300 rows of one seed, with thresholds of their own."""
    targets, logits = drawn(300, 0)
    bars = torch.tensor([-0.4, 0.1, 0.3, 0.0, -0.1])
    outcome = cell_of(logits, thresholds=bars)
    return measure(outcome, task_of(targets)), targets, logits, logits > bars


def test_measures_and_the_table_of_labels_are_their_plain_formulas(measured):
    found, targets, logits, answers = measured
    assert (found.metric, found.score) == ("micro_f1", pytest.approx(f1(targets, answers)))
    assert found.low < found.score < found.high
    assert found.confusion is None
    assert [one.name for one in found.labels] == list("abcde")
    assert found.labels[0].threshold == pytest.approx(1 / (1 + 2.718281828**0.4))
    for number, one in enumerate(found.labels):
        truth, said, own = targets[:, number].bool(), answers[:, number], logits[:, number]
        right = float((truth & said).sum())
        assert one.rows == int(truth.sum())
        assert one.f1 == found.f1[number] == pytest.approx(metrics.f1_score(truth, said))
        assert one.precision == pytest.approx(right / float(said.sum()))
        assert one.recall == pytest.approx(right / float(truth.sum()))
        area, before = 0.0, 0.0
        for cut in own.unique().flip(0):  # from the surest on; equal ones are reached together
            recall = float((truth & (own >= cut)).sum() / truth.sum())
            area += (recall - before) * float(truth[own >= cut].double().mean())
            before = recall
        assert one.average_precision == pytest.approx(area)
    wrong, shares = answers != targets.bool(), logits.double().sigmoid()
    assert found.values["hamming_loss"] == pytest.approx(float(wrong.double().mean()))
    areas = [one.average_precision for one in found.labels]
    assert found.values["mean_average_precision"] == pytest.approx(sum(areas) / LABELS)
    likely = torch.where(targets.bool(), shares, 1 - shares)
    assert found.values["log_loss"] == pytest.approx(float(-likely.log().mean()))


def test_the_mean_over_seeds_is_the_mean_of_what_scikit_learn_gives_each():
    targets, logits = drawn(200, 1)
    rows = torch.arange(0, 120), torch.arange(80, 200)
    found = measure(cell_of(*(logits[part] for part in rows), rows=rows), task_of(targets))
    each = [f1(targets[part], logits[part] > 0) for part in rows]
    assert found.scores == pytest.approx(each)
    assert found.score == pytest.approx(sum(each) / 2)
    assert found.rows == 200
    assert [one.rows for one in found.labels] == targets.sum(dim=0).tolist()


def test_a_label_that_is_nowhere_counts_in_no_mean_and_one_given_in_vain_is_zero():
    targets = torch.tensor([[1.0, 0, 0, 0], [1.0, 0, 0, 1]])
    logits = torch.tensor([[1.0, -1, 1, -1], [1.0, -1, -1, -1]])
    found = measure(cell_of(logits), task_of(targets))
    assert found.f1 == (1.0, None, 0.0, 0.0)
    assert found.values["macro_f1"] == pytest.approx(1 / 3)
    a, b, c, d = found.labels
    assert (a.precision, a.recall, a.average_precision) == (1.0, 1.0, 1.0)
    assert (b.precision, b.recall, b.average_precision) == (None, None, None)
    assert (c.precision, c.recall, c.average_precision) == (0.0, None, None)
    assert (d.precision, d.recall, d.average_precision) == (None, 0.0, 0.5)
    assert found.values["mean_average_precision"] == 0.75


def test_rows_without_labels_that_get_none_are_right_and_nothing_at_all_is_no_error():
    found = measure(cell_of(-torch.ones(3, 2)), task_of(torch.zeros(3, 2)))
    assert found.values["samples_f1"] == found.values["exact_match"] == 1.0
    assert (found.score, found.values["macro_f1"]) == (0.0, 0.0)
    assert 0.0 == found.low < found.high


def test_answers_of_a_kept_cell_are_worth_what_its_logits_were():
    targets, logits = drawn(50, 2)
    bars = torch.linspace(-0.5, 0.5, LABELS)
    outcome = cell_of(logits, thresholds=bars)
    task = task_of(targets)
    answers = answers_of(outcome, task)
    assert isinstance(answers, Answers)
    assert answers.given[0].dtype == torch.bool
    assert torch.equal(parts(answers, task)[0], parts(outcome, task)[0])
    assert score_interval(answers, task) == score_interval(outcome, task)


def test_shapes_that_do_not_fit_and_logits_that_are_no_numbers_are_refused():
    targets, logits = drawn(10, 3)
    task, held = task_of(targets), (torch.full((2, LABELS), torch.nan), torch.arange(2))
    few = replace(task, targets=targets[:, :2])
    for cell, asked, error, names in (
        (cell_of(logits[:, :3]), task, ValueError, "logits"),
        (cell_of(logits, thresholds=torch.zeros(2)), task, ValueError, "thresholds"),
        (cell_of(logits), few, ValueError, "targets"),
        (cell_of(logits, held=held), task, RecipeError, None),
    ):
        with pytest.raises(error, match=names):
            measure(cell, asked)


def test_strata_are_the_rarest_labels_of_rows():
    targets = torch.tensor([[1.0, 1, 0], [1, 0, 0], [0, 0, 0], [1, 0, 1], [0, 0, 1]])
    assert strata(task_of(targets)).tolist() == [1, 0, 3, 2, 2]
