"""Measures of several labels a row are those of scikit-learn; a row's part of F1 is its pull."""

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn import metrics
from torch import Tensor

from heads.errors import RecipeError
from heads.evaluation.details import Measures, measure
from heads.evaluation.intervals import score_interval
from heads.evaluation.predictions import (
    Answers,
    CellPredictions,
    EvaluationTask,
    answers_of,
    parts,
    strata,
)
from heads.evaluation.statistics import micro_f1_parts
from heads.problem import MULTI_LABEL

LABELS = 5


def task_of(targets: Tensor, groups: Tensor | None = None) -> EvaluationTask:
    names = tuple("abcdefgh"[: targets.shape[1]])
    groups = torch.arange(len(targets)) if groups is None else groups
    return EvaluationTask(targets=targets, classes=names, groups=groups, problem=MULTI_LABEL)


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
    outcome = CellPredictions(
        name="x", rows=(torch.arange(300),), logits=(logits,), thresholds=bars
    )
    return measure(outcome, task_of(targets)), targets, logits, logits > bars


def test_measures_are_those_of_scikit_learn(measured):
    found, targets, logits, answers = measured
    values = found.values
    assert found.metric == "micro_f1"
    assert found.score == values["micro_f1"]

    assert found.score == pytest.approx(f1(targets, answers))
    wanted = metrics.f1_score(targets, answers, average="macro")
    assert values["macro_f1"] == pytest.approx(wanted)
    wanted = metrics.f1_score(targets, answers, average="samples", zero_division=1.0)
    assert values["samples_f1"] == pytest.approx(wanted)
    wanted = metrics.average_precision_score(targets, logits, average="macro")
    assert values["mean_average_precision"] == pytest.approx(wanted)
    assert values["exact_match"] == pytest.approx(metrics.accuracy_score(targets, answers))
    assert values["hamming_loss"] == pytest.approx(metrics.hamming_loss(targets, answers))
    shares = logits.double().sigmoid()
    losses = [metrics.log_loss(targets[:, n], shares[:, n]) for n in range(LABELS)]
    assert values["log_loss"] == pytest.approx(sum(losses) / LABELS)
    assert found.low < found.score < found.high
    assert found.confusion is None


def test_the_table_of_labels_is_that_of_scikit_learn(measured):
    found, targets, logits, answers = measured
    assert [one.name for one in found.labels] == list("abcde")
    for number, one in enumerate(found.labels):
        truth, said = targets[:, number], answers[:, number]
        assert one.rows == int(truth.sum())
        assert one.precision == pytest.approx(metrics.precision_score(truth, said))
        assert one.recall == pytest.approx(metrics.recall_score(truth, said))
        assert one.f1 == found.f1[number] == pytest.approx(metrics.f1_score(truth, said))
        wanted = metrics.average_precision_score(truth, logits[:, number])
        assert one.average_precision == pytest.approx(wanted)
    assert found.labels[0].threshold == pytest.approx(1 / (1 + 2.718281828**0.4))


def test_the_table_of_labels_is_its_plain_formulas(measured):
    found, targets, logits, answers = measured
    for number, one in enumerate(found.labels):
        truth, said, own = targets[:, number].bool(), answers[:, number], logits[:, number]
        right = float((truth & said).sum())
        assert one.precision == pytest.approx(right / float(said.sum()))
        assert one.recall == pytest.approx(right / float(truth.sum()))
        area, before = 0.0, 0.0
        for cut in own.unique().flip(0):  # from the surest on; equal ones are reached together
            recall = float((truth & (own >= cut)).sum() / truth.sum())
            area += (recall - before) * float(truth[own >= cut].double().mean())
            before = recall
        assert one.average_precision == pytest.approx(area)
    wrong = float((answers != targets.bool()).double().mean())
    assert found.values["hamming_loss"] == pytest.approx(wrong)


def test_the_mean_over_seeds_is_the_mean_of_what_scikit_learn_gives_each():
    targets, logits = drawn(200, 1)
    rows = torch.arange(0, 120), torch.arange(80, 200)
    outcome = CellPredictions(name="x", rows=rows, logits=tuple(logits[part] for part in rows))
    found = measure(outcome, task_of(targets))
    each = [f1(targets[part], logits[part] > 0) for part in rows]
    assert found.scores == pytest.approx(each)
    assert found.score == pytest.approx(sum(each) / 2)
    assert found.rows == 200
    assert [one.rows for one in found.labels] == targets.sum(dim=0).tolist()


def test_a_label_that_is_nowhere_counts_in_no_mean_and_one_given_in_vain_is_zero():
    targets = torch.tensor([[1.0, 0, 0, 0], [1.0, 0, 0, 1]])
    logits = torch.tensor([[1.0, -1, 1, -1], [1.0, -1, -1, -1]])
    found = measure(
        CellPredictions(name="x", rows=(torch.arange(2),), logits=(logits,)), task_of(targets)
    )
    assert found.f1 == (1.0, None, 0.0, 0.0)
    assert found.values["macro_f1"] == pytest.approx(1 / 3)
    a, b, c, d = found.labels
    assert (a.precision, a.recall, a.average_precision) == (1.0, 1.0, 1.0)
    assert (b.precision, b.recall, b.average_precision) == (None, None, None)
    assert (c.precision, c.recall, c.average_precision) == (0.0, None, None)
    assert (d.precision, d.recall, d.average_precision) == (None, 0.0, 0.5)
    assert found.values["mean_average_precision"] == 0.75


def test_rows_without_labels_that_get_none_are_right_and_nothing_at_all_is_no_error():
    found = measure(
        CellPredictions(name="x", rows=(torch.arange(3),), logits=(-torch.ones(3, 2),)),
        task_of(torch.zeros(3, 2)),
    )
    assert found.values["samples_f1"] == found.values["exact_match"] == 1.0
    assert (found.score, found.values["macro_f1"]) == (0.0, 0.0)
    assert 0.0 == found.low < found.high


@given(rows=st.integers(1, 30), seed=st.integers(0, 200))
@settings(max_examples=60)
def test_the_parts_of_micro_f1_are_what_each_row_would_move_it_by(rows, seed):
    targets, logits = drawn(rows, seed, 3)
    answers = logits > 0
    found = micro_f1_parts(answers, targets)
    score = f1(targets, answers)
    assert float(found.mean()) == pytest.approx(score, abs=1e-12)
    both = 2 * (answers & targets.bool()).sum(dim=1).double()
    either = answers.sum(dim=1) + targets.sum(dim=1).double()
    if either.sum() == 0:
        return
    step = 1e-6  # more weight for one row, by which the score moves
    for row in range(rows):
        weights = torch.full((rows,), (1 - step) / rows).double()
        weights[row] += step
        moved = float((weights @ both) / (weights @ either))
        assert float(found[row]) - score == pytest.approx((moved - score) / step, abs=1e-4)


def test_answers_of_a_kept_cell_are_worth_what_its_logits_were():
    targets, logits = drawn(50, 2)
    bars = torch.linspace(-0.5, 0.5, LABELS)
    outcome = CellPredictions(name="x", rows=(torch.arange(50),), logits=(logits,), thresholds=bars)
    task = task_of(targets)
    answers = answers_of(outcome, task)
    assert isinstance(answers, Answers)
    assert answers.given[0].dtype == torch.bool
    assert torch.equal(parts(answers, task)[0], parts(outcome, task)[0])
    assert score_interval(answers, task) == score_interval(outcome, task)


def test_shapes_that_do_not_fit_and_logits_that_are_no_numbers_are_refused():
    targets, logits = drawn(10, 3)
    task, rows = task_of(targets), (torch.arange(10),)
    with pytest.raises(ValueError, match="logits"):
        measure(CellPredictions(name="x", rows=rows, logits=(logits[:, :3],)), task)
    wrong = CellPredictions(name="x", rows=rows, logits=(logits,), thresholds=torch.zeros(2))
    with pytest.raises(ValueError, match="thresholds"):
        measure(wrong, task)
    few = EvaluationTask(
        targets=targets[:, :2], classes=task.classes, groups=task.groups, problem=MULTI_LABEL
    )
    with pytest.raises(ValueError, match="targets"):
        measure(CellPredictions(name="x", rows=rows, logits=(logits,)), few)
    held = torch.full((2, LABELS), torch.nan), torch.arange(2)
    unsure = CellPredictions(name="x", rows=rows, logits=(logits,), held=held)
    with pytest.raises(RecipeError, match="2 of 2 rows with no finite number"):
        measure(unsure, task)


def test_strata_are_the_rarest_labels_of_rows():
    targets = torch.tensor([[1.0, 1, 0], [1, 0, 0], [0, 0, 0], [1, 0, 1], [0, 0, 1]])
    assert strata(task_of(targets)).tolist() == [1, 0, 3, 2, 2]
