"""Measures are those of scikit-learn, intervals hold their bounds, comparisons are exact."""

import json
import math
from collections.abc import Sequence
from dataclasses import replace

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from judged_cells import cell_of, task_of
from torch import Tensor

from heads.errors import RecipeError
from heads.evaluation.details import Measures, measure
from heads.evaluation.intervals import score_interval
from heads.evaluation.predictions import CellPredictions, parts
from heads.evaluation.significance import LEVEL, Comparisons, Difference, compare
from heads.evaluation.statistics import wilson


def answering(name: str, *right: Sequence[bool]) -> CellPredictions:
    """A cell of two classes, class 0 being right, that is right in these rows of each seed."""
    hits = [torch.tensor(seed).float() for seed in right]
    return cell_of(*(torch.stack([seed, 1 - seed], dim=1) for seed in hits), name=name)


def zeros(rows: int) -> Tensor:
    return torch.zeros(rows, dtype=torch.long)


def of(differences: Sequence[Difference], name: str) -> Difference:
    return next(d for d in differences if d.name == name)


# Measures


@pytest.fixture(scope="module")
def measured() -> tuple[Measures, Tensor, Tensor]:
    """One seed of 200 rows; class d is never the truth, class c never the answer."""
    rng = torch.Generator().manual_seed(0)
    targets = torch.randint(3, (200,), generator=rng)
    logits = torch.randn(200, 4, generator=rng)
    logits[torch.arange(200), targets] += 1.5
    logits[:, 2] -= 20
    return measure(cell_of(logits), task_of(targets, 4)), targets, logits


def test_measures_are_their_plain_formulas(measured):
    found, targets, logits = measured
    pairs = list(zip(targets.tolist(), logits.argmax(dim=1).tolist(), strict=True))
    table = [[pairs.count((truth, said)) for said in range(4)] for truth in range(4)]
    assert found.confusion.tolist() == table
    for number, f1 in enumerate(found.f1):
        true, said = sum(table[number]), sum(row[number] for row in table)
        assert f1 == (
            pytest.approx(2 * table[number][number] / (true + said)) if true + said else None
        )
    truth, shares = torch.eye(4)[targets], logits.double().softmax(dim=1)
    assert found.values["brier"] == pytest.approx(float((shares - truth).square().sum() / 200))
    likely = shares[torch.arange(200), targets]
    assert found.values["log_loss"] == pytest.approx(float(-likely.log().mean()))
    ordered = replace(task_of(targets, 4), ordered=True)
    off = sum(abs(truth - said) for truth, said in pairs) / 200
    assert measure(cell_of(logits), ordered).values["mean_absolute_error"] == pytest.approx(off)


def test_a_class_that_is_nowhere_has_no_f1_and_one_never_answered_has_none_of_it():
    logits = torch.tensor([[1.0, 0, 0], [1.0, 0, 0]])
    found = measure(cell_of(logits), task_of(torch.tensor([0, 1]), 3))
    assert found.f1 == (pytest.approx(2 / 3), 0.0, None)
    assert found.values["macro_f1"] == pytest.approx(1 / 3)


def test_bins_hold_all_answers_and_equal_confidences_stay_together(measured):
    found, targets, _ = measured
    assert sum(one.rows for one in found.bins) == 200
    assert len(found.bins) == 15
    assert max(one.rows for one in found.bins) - min(one.rows for one in found.bins) <= 1
    (only,) = measure(cell_of(torch.zeros(200, 4)), task_of(targets, 4)).bins
    assert (only.rows, only.confidence) == (200, 0.25)


@pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf])
def test_what_is_no_number_is_refused(value):
    outcome = answering("mean+mlp", [True, False, True])
    outcome.logits[0][1, 0] = value
    with pytest.raises(RecipeError):
        measure(outcome, task_of(zeros(3)))


def test_huge_logits_are_no_harm():
    found = measure(cell_of(torch.tensor([[1e30, 0], [0, 1e30]])), task_of(zeros(2)))
    assert (found.score, found.values["brier"], found.values["log_loss"]) == (
        0.5,
        1.0,
        pytest.approx(5e29),
    )


# Intervals


@given(right=st.integers(0, 60), rows=st.integers(1, 60))
def test_one_seed_of_distinct_texts_has_wilsons_interval(right, rows):
    right = min(right, rows)
    outcome = answering("x", [row < right for row in range(rows)])
    assert score_interval(outcome, task_of(zeros(rows))) == pytest.approx(
        wilson(right / rows, rows)
    )


def test_repeated_texts_widen_the_interval_as_if_they_were_one_row():
    hits = [row % 4 != 0 for row in range(40)]
    once = score_interval(answering("x", hits), task_of(zeros(40)))
    many = answering("x", hits * 5)
    groups = torch.arange(40).repeat(5)
    assert score_interval(many, task_of(zeros(200), groups=groups)) == pytest.approx(once)
    low, high = score_interval(many, task_of(zeros(200)))
    assert high - low < 0.6 * (once[1] - once[0])


@pytest.mark.parametrize("right", [True, False])
def test_an_interval_has_a_width_where_nothing_is_wrong_or_right(right):
    low, high = score_interval(answering("x", *[[right] * 50] * 3), task_of(zeros(50)))
    assert high - low == pytest.approx(wilson(50 / 50, 50)[1] - wilson(50 / 50, 50)[0])
    assert 0 <= low < high <= 1


def test_seeds_that_differ_widen_the_interval_the_more_the_fewer_they_are():
    def width(*rights: int) -> float:
        seeds = [[row < right for row in range(100)] for right in rights]
        low, high = score_interval(answering("x", *seeds), task_of(zeros(100)))
        return high - low

    assert width(80, 80, 80) < width(75, 80, 85) < width(60, 80, 100)
    assert width(60, 80, 100, 60, 80, 100) < width(60, 80, 100)


# Comparisons


def compared(
    *outcomes: CellPredictions, groups: Tensor | None = None, seed: int = 0
) -> Comparisons:
    rows = len(outcomes[0].rows[0])
    task = task_of(zeros(rows), **({} if groups is None else {"groups": groups}))
    return compare(outcomes, task, reference=outcomes[0].name, seed=seed)


def test_identical_answers_are_never_different_and_their_interval_has_a_width():
    hits = [row % 5 != 0 for row in range(100)]
    found = compared(answering("a", hits), answering("b", hits), answering("c", [True] * 100))
    same = of(found.to_reference, "b")
    assert (same.difference, same.p, same.differs) == (0.0, 1.0, False)
    assert same.low == -same.high
    assert 0 < same.high < 0.06
    assert found.best == "c"


@pytest.mark.parametrize(("better", "worse"), [(5, 0), (8, 1), (12, 3), (20, 20), (30, 10)])
def test_one_pair_of_one_seed_has_the_p_of_the_exact_sign_test(better, worse):
    rows, apart = 400, better + worse
    first = answering("a", [row >= better for row in range(rows)])
    second = answering("b", [not better <= row < apart for row in range(rows)])
    tail = sum(math.comb(apart, k) for k in range(max(better, worse), apart + 1)) / 2**apart
    (found,) = compared(first, second).to_reference
    assert found.difference == pytest.approx((better - worse) / rows)
    assert found.p == pytest.approx(min(1.0, 2 * tail), abs=0.03)
    assert found.p <= LEVEL or not found.differs


def test_the_interval_leaves_zero_out_just_when_p_is_small():
    rng = torch.Generator().manual_seed(0)
    shares = torch.linspace(0.6, 0.9, 13)
    cells = [
        answering(f"{share:.3f}", *(torch.rand(2, 300, generator=rng) < share).tolist())
        for share in shares
    ]
    found = compared(*cells)
    for d in (*found.to_reference, *found.to_best):
        assert d.differs == (d.p <= LEVEL) == (not d.low <= 0 <= d.high)
        assert d.low <= d.difference <= d.high
    assert any(d.differs for d in found.to_reference)
    assert not all(d.differs for d in found.to_reference)


def test_a_family_of_many_raises_the_bar():
    rng = torch.Generator().manual_seed(3)
    near = [row >= 14 for row in range(300)]
    far = [row >= 28 or row % 7 == 0 for row in range(300)]
    others = [
        answering(f"x{n}", (torch.rand(300, generator=rng) < 0.9).tolist()) for n in range(30)
    ]
    alone = of(compared(answering("a", far), answering("b", near)).to_reference, "b")
    among = of(compared(answering("a", far), answering("b", near), *others).to_reference, "b")
    assert alone.difference == among.difference
    assert alone.p < among.p
    assert alone.high < among.high


def test_rows_of_one_text_are_one_piece_of_evidence():
    first, second = [True] * 30, [row % 3 != 0 for row in range(30)]
    (single,) = compared(answering("a", first), answering("b", second)).to_reference
    groups = torch.arange(30).repeat(4)
    cells = answering("a", first * 4), answering("b", second * 4)
    (repeated,) = compared(*cells, groups=groups).to_reference
    assert repeated.p == pytest.approx(single.p, abs=0.01)
    assert repeated.high == pytest.approx(single.high, abs=0.01)


def test_of_few_groups_of_many_texts_only_what_differs_widens_the_interval():
    rng = torch.Generator().manual_seed(0)
    right = [torch.rand(240, generator=rng) < share for share in (0.9, 0.93)]
    one, other = (
        answering(name, list(map(bool, own))) for name, own in zip("ab", right, strict=True)
    )
    targets, authors = zeros(240), torch.arange(240) % 8
    found = []
    for texts in (torch.arange(240), None):
        task = replace(task_of(targets, groups=authors), texts=texts)
        (told,) = compare([one, other], task, reference="a").to_reference
        found.append(told.high - told.low)
    assert found[0] < 0.2  # that of the eight groups' scores
    assert found[1] > 0.5  # were a group's worth of disagreement added to it


def test_few_groups_have_intervals_that_hold():
    rng, held = torch.Generator().manual_seed(0), 0
    true = float(torch.special.ndtr(0.8 * torch.randn(100_000, generator=rng) + 1.2).mean())
    authors, rows = torch.arange(6).repeat_interleave(40), torch.arange(240)
    task = replace(task_of(zeros(240), groups=authors), texts=rows)
    for _ in range(200):  # authors differ in how hard they are to read
        ease = torch.special.ndtr(0.8 * torch.randn(6, generator=rng) + 1.2)[authors]
        right = [list(map(bool, torch.rand(240, generator=rng) < ease)) for _ in range(3)]
        low, high = score_interval(answering("a", *right), task)
        held += low <= true <= high
    assert held > 0.88 * 200  # 83 % by the normal quantile


def test_seeds_on_which_a_difference_hangs_make_it_unsure():
    base = answering("a", *[[row < 800 for row in range(1000)]] * 3)
    steady = answering("b", *[[row < 830 for row in range(1000)]] * 3)
    lucky = answering("b", *[[row < right for row in range(1000)] for right in (800, 810, 880)])
    (sure,), (unsure,) = compared(base, steady).to_reference, compared(base, lucky).to_reference
    assert sure.difference == pytest.approx(unsure.difference)
    assert sure.differs
    assert not unsure.differs


def test_comparisons_are_the_same_after_they_were_saved():
    rng = torch.Generator().manual_seed(6)
    cells = [answering(n, *(torch.rand(2, 90, generator=rng) < 0.8).tolist()) for n in "abcd"]
    found = compare(cells, task_of(zeros(90)), reference="a", tuned=["c", "d"])
    again = Comparisons.from_json(json.loads(json.dumps(found.as_json())))
    assert found.frozen is not None
    assert again.as_json() == found.as_json()
    for name in "abcd":
        assert again.to(name) == found.to(name)


def test_cells_are_compared_over_the_seeds_that_all_of_them_have():
    one, three = [True] * 40, [False, True] * 20
    found = compared(answering("a", one, three, three), answering("b", three, one))
    assert found.pairs.seeds == 2
    assert found.to_reference[0].difference == 0.0


def test_cells_that_were_asked_other_rows_are_refused():
    other = cell_of(torch.zeros(40, 2), name="b", rows=(torch.arange(40).flip(0),))
    with pytest.raises(ValueError, match="different rows"):
        compared(answering("a", [True] * 40), other)


def test_a_baseline_is_compared_but_is_never_the_best():
    worse = [row % 2 == 0 for row in range(100)]
    found = compared(answering("a", worse, worse), answering("tfidf", *[[True] * 100] * 2))
    assert found.best == "a"
    assert of(found.to_best, "tfidf").differs


def test_heads_that_draw_lots_and_were_trained_once_are_not_told_apart():
    good, poor = [row >= 20 for row in range(200)], [row >= 90 for row in range(200)]
    cells = [answering("a", poor), answering("b", good), answering("tfidf", poor)]
    found = compared(*cells)
    assert found.once
    assert not any(d.differs for d in (*found.to_reference, *found.to_best))
    assert of(found.to_reference, "b").low > 0  # of these trained heads it is known
    solved = [replace(cell, is_random=False) for cell in cells]
    assert not compared(*solved).once
    assert of(compared(*solved).to_reference, "b").differs
    mixed = compared(*solved[:2], replace(answering("c", good), is_random=True))
    assert of(mixed.to_reference, "b").differs
    assert not of(mixed.to_reference, "c").differs


def test_noisy_cells_do_not_blur_quiet_ones():
    def wrong(*ends: int) -> list[list[bool]]:
        return [[row >= end for row in range(2000)] for end in ends]

    quiet = [
        answering(f"q{n}", *wrong(*(200 + n + shift for shift in (0, 3, -3)))) for n in range(6)
    ]
    noisy = answering("noisy", *wrong(150, 200, 280))
    better = answering("better", *wrong(150, 153, 148))
    found = compared(*quiet, better, noisy)
    assert of(found.to_reference, "better").differs
    assert not of(found.to_reference, "noisy").differs
    width = {d.name: d.high - d.low for d in found.to_reference}
    assert width["noisy"] > 2 * width["better"]


# Folds


def folded(name: str, right: Sequence[bool], folds: Sequence[Tensor]) -> CellPredictions:
    logits = torch.tensor(right).float()
    return in_folds(torch.stack([logits, 1 - logits], dim=1), folds, name)


def in_folds(logits: Tensor, folds: Sequence[Tensor], name: str = "x") -> CellPredictions:
    parts, repetition = [logits[fold] for fold in folds], (0,) * len(folds)
    return cell_of(*parts, name=name, rows=tuple(folds), repetition=repetition)


def test_the_folds_of_a_repetition_are_one_score_of_all_their_rows():
    rng = torch.Generator().manual_seed(2)
    folds = torch.randperm(97, generator=rng).split(20)  # the last is smaller
    targets = torch.randint(3, (97,), generator=rng)
    logits = torch.randn(97, 3, generator=rng)
    outcome, whole = in_folds(logits, folds), cell_of(logits)
    for metric in ("accuracy", "macro_f1", "mcc"):
        task = replace(task_of(targets, 3), metric=metric)
        one, other = measure(outcome, task), measure(whole, task)
        assert one.score == pytest.approx(other.score)
        assert one.scores == pytest.approx(other.scores)
        assert one.values == pytest.approx(other.values)
        assert one.confusion.tolist() == other.confusion.tolist()
        assert sum(float(seed.sum()) for seed in parts(outcome, task)) == pytest.approx(
            97 * one.score
        )


def test_folds_of_other_rows_are_no_luck():
    rng = torch.Generator().manual_seed(3)
    right = (torch.rand(1000, generator=rng) < 0.9).tolist()
    folds = torch.randperm(1000, generator=rng).split(200)
    task = task_of(zeros(1000))
    low, high = score_interval(folded("x", right, folds), task)
    once = score_interval(answering("x", right), task)
    assert high - low < 1.35 * (once[1] - once[0])


# What was chosen


def test_the_best_of_many_like_heads_scores_less_on_rows_that_did_not_choose_it():
    rng = torch.Generator().manual_seed(4)
    like = [answering(f"{n}", (torch.rand(300, generator=rng) < 0.8).tolist()) for n in range(30)]
    found, task = compared(*like), task_of(zeros(300))
    best = max(score_interval(one, task)[1] for one in like)
    top = max(measure(one, task).score for one in like)
    assert found.chosen < top - 0.01
    assert 0.77 < found.chosen < top < best
    clear = compared(answering("a", [True] * 300), *like)
    assert clear.chosen == pytest.approx(1.0)
    assert compared(like[0]).chosen is None
