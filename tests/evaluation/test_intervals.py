"""Intervals of scores hold the true score, and few seeds do not make them useless.

`python -m studies.coverage` draws many more; docs/statistics.md has what it gave.
"""

from dataclasses import replace

import pytest
import slow
import torch

from heads.evaluation.intervals import score_interval, score_intervals
from heads.evaluation.metrics import MetricName
from heads.evaluation.predictions import Answers, EvaluationTask
from heads.evaluation.significance import compare, seed_variance
from heads.evaluation.statistics import macro_f1, macro_f1_bias, wilson
from heads.problem import REGRESSION
from studies.coverage import Gaussian, Setting, coverage
from studies.simulation import Design, simulated


def answers(name: str, *wrong: int, rows: int = 84) -> Answers:
    """A head that answers so many rows wrongly in each seed, the first ones."""
    given = tuple((torch.arange(rows) < count).long() for count in wrong)
    return Answers(name=name, rows=(torch.arange(rows),) * len(wrong), given=given)


def task(rows: int = 84) -> EvaluationTask:
    return EvaluationTask(
        targets=torch.zeros(rows).long(), classes=("x", "y"), groups=torch.arange(rows)
    )


def test_two_seeds_of_some_heads_do_not_blow_up_the_interval_of_one_that_changed() -> None:
    cells = [answers("a", 20, 21), answers("b", 22, 22), answers("c", 19, 20), answers("d", 25, 24)]
    changed = answers("tfidf", 24, 32)
    low, high = score_intervals([*cells, changed], task())[-1]
    plain = wilson(1 - 28 / 84, 84)
    assert plain[1] - plain[0] < high - low < 1.5 * (plain[1] - plain[0])


def test_a_head_without_luck_has_the_interval_of_its_rows() -> None:
    same = answers("tfidf", 24, 24)
    assert score_interval(same, task()) == pytest.approx(wilson(60 / 84, 84))
    noisy = [answers("a", 20, 30), answers("b", 28, 18), same]
    assert score_intervals(noisy, task())[-1] == pytest.approx(wilson(60 / 84, 84))


def test_folds_widen_the_interval_by_what_training_rows_add() -> None:
    rng = torch.Generator().manual_seed(0)
    (head,), known = simulated(Design(rows=300, seeds=5, repetitions=1), [0.0], [0.0], rng)
    low, high = score_interval(head, known)
    order = torch.cat(head.rows).argsort()
    whole = Answers(name="x", rows=(torch.arange(300),), given=(torch.cat(head.given)[order],))
    least, most = score_interval(whole, known)
    assert 1.05 < (high - low) / (most - least) < 1.35


def test_the_folds_of_a_single_tuned_head_tell_its_luck() -> None:
    folds = torch.arange(500).tensor_split(5)

    def cell(name: str, *shares: float) -> Answers:
        given = tuple(
            (torch.arange(100) >= share * 100).long() for share in shares
        )  # the true class is 0
        return Answers(name=name, rows=folds, given=given, repetition=(0,) * 5)

    frozen, even = cell("frozen", *[0.8] * 5), cell("tuned", *[0.84] * 5)
    scattered = cell("tuned", 0.92, 0.92, 0.92, 0.92, 0.52)
    widths = {
        names: [high - low for low, high in score_intervals(cells, task(500), names)]
        for names, cells in {
            ("tuned",): [frozen, scattered],
            ("tuned", "x"): [frozen, even],
        }.items()
    }
    assert widths["tuned",][1] > 3 * widths["tuned", "x"][1]
    assert widths["tuned",][0] == widths["tuned", "x"][0]


def test_differences_of_two_seeds_are_of_some_use() -> None:
    widths = []
    for number in range(40):
        rng = torch.Generator().manual_seed(number)
        heads, known = simulated(Design(rows=84, seeds=2), [0.0] * 4, [0.003] * 4, rng)
        found = compare(heads, known, reference="head 0", seed=number)
        widths += [(d.high - d.low) / 2 for d in found.to_reference]
    assert max(widths) < 0.35  # a third of them were 0.7 and more


@pytest.mark.parametrize("metric", ["spearman", "pearson", "r2"])
def test_a_perfect_head_beside_noisy_ones_has_an_interval(metric: MetricName) -> None:
    rng = torch.Generator().manual_seed(0)
    truth, rows = torch.randn(60, generator=rng), tuple(torch.arange(60).tensor_split(3))
    known = replace(task(60), targets=truth, problem=REGRESSION, metric=metric)
    cells = [
        Answers(
            name=f"noise {noise}",
            rows=rows,
            given=tuple(truth[part] + noise * torch.randn(20, generator=rng) for part in rows),
            is_random=True,
            repetition=(0, 0, 0),
        )
        for noise in (0.0, 0.5, 1.0)
    ]
    perfect, *others = score_intervals(cells, known)
    assert perfect[0] <= perfect[1] == pytest.approx(1)
    assert all(low < high < 1 for low, high in others)


def test_three_seeds_or_more_tell_luck_by_themselves() -> None:
    """What is common fills up what two seeds do not show, and nothing else."""
    between, within = torch.tensor([1e-4, 1e-4, 4e-4]), torch.full((3,), 1e-4)
    far = {"unit": 100.0}
    assert torch.equal(
        seed_variance(between, within, 3).atoms, seed_variance(between, within, 3, **far).atoms
    )
    assert not torch.equal(
        seed_variance(between, within, 2).atoms, seed_variance(between, within, 2, **far).atoms
    )


def test_the_bias_of_macro_f1_on_few_rows_is_known() -> None:
    rng, classes, rows, draws = torch.Generator().manual_seed(0), 5, 60, 400
    table = 0.6 * torch.eye(classes).double() + 0.08
    table = table / table.sum()
    cells = table.flatten().multinomial(draws * rows, True, generator=rng).view(draws, rows)
    scores, biases = [], []
    for drawn in cells:
        counts = torch.bincount(drawn, minlength=classes**2).view(classes, classes).double()
        scores.append(macro_f1(counts))
        biases.append(macro_f1_bias(drawn % classes, drawn // classes, classes))
    gap = float(macro_f1(table) - torch.stack(scores).mean())
    assert gap > 0.004
    assert sum(biases) / draws == pytest.approx(gap, abs=0.004)
    truth = torch.eye(classes)[torch.arange(rows) % classes]
    given = truth.bool() & (torch.arange(rows) % 4 > 0)[:, None]
    assert 0 < macro_f1_bias(given, truth, classes) < 0.05
    assert macro_f1_bias(given & False, truth * 0, classes) == 0.0


SETTINGS = [
    (classes, skewed, rows, folds)
    for classes in (2, 6, 20)
    for skewed in (True, False)
    for rows in (150, 300, 1_000)
    for folds in (True, False)
    if rows >= 10 * classes  # of fewer rows a class, folds are too good: see docs/statistics.md
]


@pytest.mark.parametrize(
    ("classes", "skewed", "rows", "folds"),
    slow.but(SETTINGS, (6, True, 300, True), (6, True, 300, False)),
)
def test_intervals_hold_what_is_true(classes: int, skewed: bool, rows: int, folds: bool) -> None:
    held = coverage(Setting(rows=rows, folds=folds), Gaussian(classes, skewed=skewed), 40)
    assert held.mean(dim=1).min() >= 0.85, held
