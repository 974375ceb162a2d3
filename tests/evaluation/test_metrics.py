"""Every metric is that of scikit-learn or SciPy, and a row's part of it is its pull on it."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
import torch
from scipy import stats
from sklearn import metrics
from torch import Tensor

from heads.errors import DataError, LimitError
from heads.evaluation.intervals import score_interval
from heads.evaluation.metrics import AUTO, SCORES, MetricName, metric_of, metrics_of
from heads.evaluation.predictions import Answers, EvaluationTask, evidence, parts
from heads.evaluation.significance import compare
from heads.problem import (
    MULTI_LABEL,
    PROBLEM_TYPES,
    REGRESSION,
    SINGLE_LABEL,
    ProblemType,
)
from heads.settings import METRIC_NAMES, ExperimentConfig

CLASSES = 4


def f1(average: str, zero: float = 0.0) -> Callable[[Any, Any], float]:
    return lambda y, x: metrics.f1_score(y, x, average=average, zero_division=zero)


# What a library says it is, of (truth, answers).
KNOWN: dict[tuple[ProblemType, MetricName], Callable[[Any, Any], Any]] = {
    (SINGLE_LABEL, "accuracy"): metrics.accuracy_score,
    (SINGLE_LABEL, "balanced_accuracy"): metrics.balanced_accuracy_score,
    (SINGLE_LABEL, "macro_f1"): f1("macro"),
    (SINGLE_LABEL, "weighted_f1"): f1("weighted"),
    (SINGLE_LABEL, "mcc"): metrics.matthews_corrcoef,
    (SINGLE_LABEL, "cohen_kappa"): metrics.cohen_kappa_score,
    (SINGLE_LABEL, "quadratic_kappa"): lambda y, x: metrics.cohen_kappa_score(
        y, x, weights="quadratic"
    ),
    (MULTI_LABEL, "micro_f1"): f1("micro"),
    (MULTI_LABEL, "macro_f1"): f1("macro"),
    (MULTI_LABEL, "samples_f1"): f1("samples", 1.0),
    (MULTI_LABEL, "exact_match"): metrics.accuracy_score,
    (REGRESSION, "spearman"): lambda y, x: stats.spearmanr(y, x).statistic,
    (REGRESSION, "pearson"): lambda y, x: stats.pearsonr(y, x).statistic,
    (REGRESSION, "r2"): metrics.r2_score,
    (REGRESSION, "neg_mean_squared_error"): lambda y, x: -metrics.mean_squared_error(y, x),
    (REGRESSION, "neg_mean_absolute_error"): lambda y, x: -metrics.mean_absolute_error(y, x),
}
EACH = pytest.mark.parametrize(("problem", "metric"), KNOWN)


def drawn(problem: ProblemType, rows: int, seed: int = 0) -> tuple[Tensor, Tensor]:
    """Truth and answers that agree more often than not; classes of unlike size."""
    rng = torch.Generator().manual_seed(seed)
    if problem is REGRESSION:
        truth = (3 * torch.randn(rows, generator=rng)).round() + 1  # some are equal
        return truth, (truth + 2 * torch.randn(rows, generator=rng)).round()
    if problem is MULTI_LABEL:
        truth = (torch.rand(rows, CLASSES, generator=rng) < 0.3).float()
        return truth, truth.bool() ^ (torch.rand(rows, CLASSES, generator=rng) < 0.15)
    truth = torch.tensor([0.6, 0.2, 0.15, 0.05]).multinomial(rows, True, generator=rng)
    other = torch.randint(CLASSES, (rows,), generator=rng)
    return truth, torch.where(torch.rand(rows, generator=rng) < 0.7, truth, other)


def task_of(problem: ProblemType, truth: Tensor, metric: MetricName) -> EvaluationTask:
    names = ("x",) if problem is REGRESSION else tuple("abcd")
    rows = torch.arange(len(truth))
    return EvaluationTask(
        targets=truth, classes=names, groups=rows, problem=problem, ordered=True, metric=metric
    )


def saying(given: Tensor, name: str = "x") -> Answers:
    return Answers(name=name, rows=(torch.arange(len(given)),), given=(given,), is_random=False)


def counted(problem: ProblemType, metric: MetricName, truth: Tensor, given: Tensor) -> Tensor:
    return parts(saying(given), task_of(problem, truth, metric))[0]


def test_the_settings_name_every_metric_and_each_is_known_to_a_library():
    assert (AUTO, *SCORES) == METRIC_NAMES
    assert {(problem, name) for name, one in SCORES.items() for problem in one.parts} == set(KNOWN)
    for problem in PROBLEM_TYPES.values():
        assert metrics_of(problem)[0] == problem.metric == metric_of(AUTO, problem)


@EACH
def test_the_mean_of_the_parts_is_what_the_library_says(problem, metric):
    for seed in range(5):
        truth, given = drawn(problem, 120, seed)
        wanted = KNOWN[problem, metric](truth.numpy(), given.numpy())
        assert float(counted(problem, metric, truth, given).mean()) == pytest.approx(wanted)


@EACH
def test_a_part_is_what_one_more_such_row_does_to_the_score(problem, metric):
    """By finite differences of the library's own score: 50 times all rows and one of them again."""
    truth, given = drawn(problem, 60)
    score, times = KNOWN[problem, metric], 50
    of_rows = counted(problem, metric, truth, given)
    base = float(of_rows.mean())
    for row in range(0, 60, 7):
        more = [
            torch.cat([side.repeat(times, *[1] * (side.dim() - 1)), side[row : row + 1]])
            for side in (truth, given)
        ]
        moved = (score(*(side.numpy() for side in more)) - base) * (60 * times + 1)
        assert moved == pytest.approx(float(of_rows[row]) - base, rel=0.02, abs=0.02)


@pytest.mark.parametrize(
    ("problem", "metric"),
    [(SINGLE_LABEL, "balanced_accuracy"), (SINGLE_LABEL, "macro_f1"), (MULTI_LABEL, "macro_f1")],
)
def test_evidence_of_large_classes_is_that_of_the_parts(problem, metric):
    truth, given = drawn(problem, 3000)
    task, answers = task_of(problem, truth, metric), saying(given)
    (own,), (told,) = parts(answers, task), evidence(answers, task)
    assert torch.allclose(told, own, rtol=0.02, atol=0.02)
    assert float(told.mean()) == pytest.approx(float(own.mean()), abs=1e-3)


def test_evidence_of_a_small_class_has_its_unbiased_variance():
    truth = torch.tensor([0] * 3 + [1] * 2 + [2])
    given = torch.tensor([0, 0, 1, 1, 0, 2])
    task = task_of(SINGLE_LABEL, truth, "balanced_accuracy")
    (told,) = evidence(saying(given), task)
    recalls = torch.tensor([2 / 3, 1 / 2, 1.0]).double()
    score = float(recalls.mean())
    right = (given == truth).double()
    unsure = (told - score) / len(truth)  # what each row moves the mean of three recalls by
    for own, size in ((truth == 0, 3), (truth == 1, 2)):
        expected = right[own].var() / size / 9
        assert float(unsure[own].square().sum()) == pytest.approx(float(expected))
    # Of one row nothing is known but how far it lies from the mean of the classes that have more.
    others = (2 / 3 + 1 / 2) / 2
    assert float(unsure[5]) == pytest.approx((1 - others) / 3)
    # Two rows of one group are one piece of evidence.
    grouped = replace(task, groups=torch.tensor([0, 1, 2, 3, 3, 4]))
    (told,) = evidence(saying(given), grouped)
    unsure = (told - score) / len(truth)
    assert unsure[3:5].tolist() == pytest.approx([(1 - 2 / 3) / 6, (0 - 2 / 3) / 6])


@pytest.mark.parametrize("lonely", [1, 2])
def test_a_verdict_does_not_hang_on_classes_of_one_row(lonely: int):
    """Two heads that answer 500 rows alike, and the only row of one or two classes not."""
    truth = torch.cat([torch.zeros(500).long(), torch.arange(1, lonely + 1)])
    common = torch.where(torch.arange(500) % 10 > 0, 0, 1)  # recall 0.9
    one = torch.cat([common, torch.arange(1, lonely + 1)])
    other = torch.cat([common, torch.zeros(lonely).long()])
    for metric in ("balanced_accuracy", "macro_f1"):
        task = task_of(SINGLE_LABEL, truth, metric)
        cells = [replace(saying(own, name), is_random=False) for own, name in
                 ((one, "one"), (other, "other"))]  # fmt: skip
        found = compare(cells, task, reference="one")
        assert not any(gap.differs for gap in found.to_reference), metric


@EACH
def test_an_interval_holds_the_score_and_stays_within_what_is_possible(problem, metric):
    truth, given = drawn(problem, 150)
    task, name = task_of(problem, truth, metric), SCORES[metric]
    score = float(parts(saying(given), task)[0].mean())
    low, high = score_interval(saying(given), task)
    assert name.low <= low < score < high <= name.high
    perfect = truth.bool() if problem is MULTI_LABEL else truth
    low, high = score_interval(saying(perfect), task)
    assert low <= name.high
    assert high == pytest.approx(name.high)
    assert name.told(score)


@EACH
def test_better_answers_are_told_apart_by_every_metric(problem, metric):
    truth, poor = drawn(problem, 900)
    mends = torch.arange(900) % 2 == 0
    mends = mends[:, None] if problem is MULTI_LABEL else mends
    good = torch.where(mends, truth.to(poor.dtype), poor)
    cells = [saying(poor, "poor"), saying(good, "good"), saying(poor.clone(), "like")]
    better, like = compare(cells, task_of(problem, truth, metric), reference="poor").to_reference
    assert better.differs
    assert 0 < better.low < better.difference < better.high
    assert (like.difference, like.differs) == (pytest.approx(0.0), False)
    assert like.low < 0 < like.high


def test_the_metric_decides_who_is_best():
    truth = torch.tensor([0] * 900 + [1] * 100)
    always, even = torch.zeros(1000).long(), truth.clone()
    even[:150] = 1  # misses 150 of the many, and none of the few
    cells = [saying(always, "always"), saying(even, "even")]
    for metric, wanted in (("accuracy", "always"), ("balanced_accuracy", "even"), ("mcc", "even")):
        task = EvaluationTask(
            targets=truth, classes=("a", "b"), groups=torch.arange(1000), metric=metric
        )
        assert compare(cells, task, reference="always").best == wanted


@pytest.mark.parametrize(
    "metric", ["balanced_accuracy", "macro_f1", "mcc", "cohen_kappa", "quadratic_kappa"]
)
def test_classes_that_are_nowhere_and_constant_answers_are_no_error(metric):
    truth, given = torch.tensor([0, 0, 1]), torch.zeros(3).long()
    found = counted(SINGLE_LABEL, metric, truth, given)
    wanted = KNOWN[SINGLE_LABEL, metric](truth, given)
    assert float(found.mean()) == pytest.approx(wanted)
    alike = counted(SINGLE_LABEL, metric, torch.zeros(3).long(), given)
    assert bool(alike.isfinite().all())


def test_what_is_no_metric_for_the_labels_is_refused():
    with pytest.raises(DataError):
        metric_of("mcc", REGRESSION)
    with pytest.raises(DataError):
        metric_of("quadratic_kappa", SINGLE_LABEL)
    assert metric_of("quadratic_kappa", SINGLE_LABEL, ordered=True) == "quadratic_kappa"
    with pytest.raises(LimitError):
        ExperimentConfig(metric="auc")


def test_errors_in_units_of_the_labels_do_not_hang_on_the_unit():
    truth, poor = drawn(REGRESSION, 400)
    good = (truth + poor) / 2
    task = task_of(REGRESSION, truth, "neg_mean_absolute_error")
    (one,) = compare([saying(poor, "a"), saying(good, "b")], task, reference="a").to_reference
    task = replace(task, targets=1000 * truth)
    cells = [saying(1000 * poor, "a"), saying(1000 * good, "b")]
    (other,) = compare(cells, task, reference="a").to_reference
    assert other.differs == one.differs
    assert other.high == pytest.approx(1000 * one.high, rel=1e-3)
    assert other.p == one.p
