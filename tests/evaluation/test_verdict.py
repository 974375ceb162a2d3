"""The recommendation follows its rule and says no more than the comparisons show."""

import re
from collections import Counter
from collections.abc import Sequence
from math import inf

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

from heads.evaluation.details import Measures, measure
from heads.evaluation.learning_curve import LearningCurvePoint, curve_says, subsets
from heads.evaluation.metrics import SCORES
from heads.evaluation.predictions import CellPredictions, EvaluationTask
from heads.evaluation.significance import Comparisons, compare
from heads.evaluation.verdict import Recommendation, brief, recommend, small_difference
from heads.problem import MULTI_LABEL, REGRESSION


def measured(
    task: EvaluationTask,
    tuned: Sequence[str] = (),
    is_random: bool = True,
    **logits: Sequence[Tensor],
) -> tuple[dict[str, Measures], Comparisons]:
    """Cells with these logits in each seed; the first is the reference."""
    rows = torch.arange(len(task.targets))
    outcomes = [
        CellPredictions(name=name, rows=(rows,) * len(own), logits=tuple(own), is_random=is_random)
        for name, own in logits.items()
    ]
    found = {outcome.name: measure(outcome, task) for outcome in outcomes}
    return found, compare(outcomes, task, reference=outcomes[0].name, tuned=tuned)


def compared(
    rows: int,
    seeds: int = 3,
    tuned: Sequence[str] = (),
    groups: int = 0,
    **wrong: Sequence[int] | Sequence[Sequence[int]],
) -> tuple[dict[str, Measures], Comparisons]:
    """Cells that answer a stretch of rows, (from, to), wrong, or one stretch for each seed."""
    numbers = torch.arange(rows)
    task = EvaluationTask(
        targets=torch.zeros(rows).long(),
        classes=("x", "y"),
        groups=numbers % groups if groups else numbers,
        texts=numbers,
    )
    logits = dict[str, Sequence[Tensor]]()
    for name, stretches in wrong.items():
        each = [stretches] * seeds if isinstance(stretches[0], int) else stretches
        hits = [((numbers < start) | (numbers >= end)).float() for start, end in each]
        logits[name] = [torch.stack([right, 1 - right], dim=1) for right in hits]
    return measured(task, tuned, **logits)


def stage(
    rows: int, seeds: int = 3, trained: int = 100, **rights: Sequence[int]
) -> LearningCurvePoint:
    found, comparisons = compared(rows, seeds, **rights)
    return LearningCurvePoint(
        rows=trained,
        scores={name: one.score for name, one in found.items()},
        best=comparisons.best,
        to_best=comparisons.to_best,
    )


@given(score=st.floats(0, 1))
def test_a_small_difference_is_relative_to_the_errors_that_are_left(score):
    found = small_difference(score, SCORES["accuracy"])
    assert 0.002 <= found <= 0.02
    assert found <= max(0.002, (1 - score) / 5)
    assert found == 0.02 or score > 0.89
    assert small_difference(-score, SCORES["neg_mean_absolute_error"]) == score / 10


# Other scores


def of_labels(rows: int, **wrongs: int) -> tuple[dict[str, Measures], Comparisons]:
    """Cells that give so many rows a wrong label besides the right one."""
    targets = torch.tensor([[1.0, 0.0]]).repeat(rows, 1)
    task = EvaluationTask(
        targets=targets, classes=("x", "y"), groups=torch.arange(rows), problem=MULTI_LABEL
    )
    logits = dict[str, Sequence[Tensor]]()
    for name, wrong in wrongs.items():
        own = 2 * targets - 1
        own[:wrong, 1] = 1
        logits[name] = [own] * 3
    return measured(task, **logits)


def of_numbers(rows: int, **noises: float) -> tuple[dict[str, Measures], Comparisons]:
    """Cells that are off by so much; those of 99 or more answer 0."""
    rng = torch.Generator().manual_seed(0)
    targets = torch.randn(rows, generator=rng)
    task = EvaluationTask(
        targets=targets, classes=("x",), groups=torch.arange(rows), problem=REGRESSION
    )
    logits = dict[str, Sequence[Tensor]]()
    for name, noise in noises.items():
        own = targets + noise * torch.randn(rows, generator=rng)
        logits[name] = [(own if noise < 99 else torch.zeros(rows))[:, None]]
    return measured(task, is_random=False, **logits)


# The one head that is recommended

SIZES = {"linear": 100, "other": 103, "mlp": 1_000, "deep": 2_000, "poor": 3_000, "full": 9_000}


def advise(
    measures: dict[str, Measures], comparisons: Comparisons, **options: int
) -> Recommendation:
    sizes = {name: SIZES.get(name, 50) for name in measures}
    return recommend(measures, comparisons, sizes, commonest="x", **options)


def recommended(rows: int, seeds: int = 3, **wrong: Sequence[int]) -> Recommendation:
    return advise(*compared(rows, seeds, **wrong))


def test_the_smallest_of_the_heads_that_are_not_significantly_worse_is_recommended():
    found = recommended(200, mlp=(20, 76), linear=(0, 60), majority=(0, 120), tfidf=(0, 110))
    assert (found.name, found.use, found.alike) == ("linear", "`linear`", ("mlp",))
    assert "accuracy 70 % (95 % interval 63–76 %)" in found.because
    assert "majority class 40 %, bag of words 45 %" in found.because
    assert "smaller than the best head, `mlp` (72 %)" in found.because
    needed = re.search(r"about ([\d,]+) rows to detect a difference of 2 points", found.how_sure)
    assert needed
    assert int(needed[1].replace(",", "")) > 200


def test_among_heads_of_about_one_size_the_highest_score_is_recommended():
    wrong = {"linear": (0, 60), "mlp": (10, 64), "majority": (0, 120)}
    assert recommended(200, **wrong, other=(5, 63)).name == "other"
    assert recommended(200, **wrong, other=(5, 66)).name == "linear"
    assert recommended(200, **wrong, other=(5, 65)).name == "linear"  # level: the reference


def test_a_small_head_that_is_significantly_worse_is_not_recommended():
    wrong = {"mlp": (100, 300), "deep": (101, 301), "poor": (0, 500), "majority": (0, 900)}
    found = recommended(2000, linear=(0, 300), **wrong)
    assert (found.name, found.alike) == ("mlp", ("deep",))
    assert "1 of the 3 other heads" in found.how_sure
    alone = recommended(2000, linear=(0, 300), mlp=(0, 100), majority=(0, 900))
    assert (alone.name, alone.alike) == ("mlp", ())


def test_a_head_that_is_worse_than_the_reference_alone_is_not_recommended():
    """The family of all pairs is larger than that of the comparisons with the reference."""
    wrong = {"other": (60, 170), "mlp": (30, 120), "majority": (0, 120)}
    _, comparisons = compared(300, **wrong)
    (pair,) = (d for d in comparisons.to_best if d.name == "other")
    assert not pair.differs
    found = recommended(300, **wrong)
    assert (found.name, found.alike) == ("mlp", ())


def test_the_recommended_head_beats_the_baselines_that_the_best_one_beats():
    wrong = {"linear": (0, 90), "mlp": (35, 110), "majority": (0, 300), "tfidf": (10, 110)}
    assert recommended(600, **wrong).name == "mlp"
    assert recommended(600, **wrong | {"tfidf": (0, 200)}).name == "linear"


def test_the_reason_is_true_of_the_sizes():
    wrong = {"linear": (0, 60), "other": (5, 63), "majority": (0, 120)}
    assert "no much smaller head is as good" in recommended(200, **wrong).because
    # A smaller head is as good, but not significantly better than a bag of words.
    wrong = {"linear": (0, 90), "mlp": (35, 110), "majority": (0, 300), "tfidf": (10, 110)}
    words = recommended(600, **wrong)
    assert words.alike == ("linear",)
    assert "no smaller head is significantly better than a bag of words" in words.because
    # A smaller head is as good, but not significantly better than the majority class.
    wrong = {"linear": (100, 200), "mlp": (20, 110), "majority": (0, 120)}
    alone = recommended(300, **wrong)
    assert (alone.name, alone.alike) == ("mlp", ("linear",))
    assert alone.because.startswith("highest score;")
    # The best head is smaller, but not significantly better than the majority class.
    wrong = {"linear": (100, 200), "mlp": (20, 123), "majority": (0, 120)}
    larger = recommended(300, **wrong)
    assert (larger.name, "smaller" in larger.because) == ("mlp", False)


def test_a_head_without_parameters_is_not_the_smallest():
    measures, comparisons = compared(200, linear=(0, 30), knn=(1, 33), majority=(0, 120))
    sizes = {"linear": 100, "knn": inf}
    assert recommend(measures, comparisons, sizes).name == "linear"


def test_a_clear_winner_and_a_close_one_say_so():
    found = recommended(2000, linear=(0, 100), mlp=(0, 300), deep=(0, 400), majority=(0, 900))
    assert (found.name, found.how_sure) == ("linear", "the 2 other heads are significantly worse")
    found = recommended(5000, linear=(0, 400), mlp=(5, 405), majority=(0, 2000))
    assert found.how_sure.endswith("none is better by more than 0.1 points (95 %)")
    found = recommended(900, linear=(0, 90), majority=(0, 500))
    assert (found.name, found.how_sure) == ("linear", "no other head was trained")


def test_no_head_is_recommended_that_is_not_significantly_better_than_the_majority():
    found = recommended(2000, linear=(0, 600), mlp=(0, 605), majority=(0, 601), tfidf=(0, 160))
    assert (found.name, found.alike) == ("", ())
    assert found.use.startswith("No recommendation: ")
    assert "always answering 'x'" in found.use
    assert "majority class 69.95 %, bag of words 92.00 %" in found.because
    assert "0.1 points" in found.how_sure
    behind = recommended(2000, linear=(0, 700), majority=(0, 601))
    assert behind.how_sure == "no head scores higher on 2,000 held-out rows"


def test_where_only_one_head_beats_the_majority_it_is_taken():
    found = recommended(300, linear=(60, 170), mlp=(45, 140), majority=(0, 120))
    assert (found.name, found.alike) == ("mlp", ("linear",))


def test_few_rows_are_too_few_to_choose():
    found = recommended(49, linear=(0, 1), majority=(0, 30))
    assert (found.name, found.use) == (
        "", "No recommendation: 49 held-out rows are too few to choose a head"
    )  # fmt: skip
    assert found.because.startswith("`linear` scores highest: accuracy 98.0 % (")
    assert recommended(50, linear=(0, 1), majority=(0, 30)).name == "linear"
    assert "1 held-out row is too few" in recommended(1, 1, linear=(0, 0), majority=(0, 1)).use


def test_without_a_recommendation_the_head_that_scores_highest_is_named():
    for rows, told in ((40, {"majority": (0, 20)}), (900, {})):
        wrong = {"linear": (0, rows // 5), "mlp": (0, rows // 8), **told}
        found = recommended(rows, **wrong)
        assert found.name == ""
        assert found.because.startswith("`mlp` scores highest"), found


def test_training_once_shows_nothing_of_luck_but_what_is_far_behind_is_not_recommended():
    found = recommended(2000, 1, linear=(0, 300), mlp=(0, 100), majority=(0, 900))
    assert (found.name, found.alike) == ("mlp", ("linear",))
    assert "train with 3 seeds" in found.how_sure


def test_groups_not_rows_are_what_is_missing_where_they_are_few():
    wrong = {"linear": (0, 20), "mlp": (15, 30), "majority": (0, 90)}
    assert "8 groups" in advise(*compared(120, groups=8, **wrong)).how_sure
    assert "groups" not in advise(*compared(120, groups=100, **wrong)).how_sure


def test_a_bag_of_words_that_does_as_well_is_the_first_thing_said():
    wrong = {"majority": (0, 900), "tfidf": (0, 105)}
    found = recommended(2000, linear=(0, 100), mlp=(0, 400), **wrong)
    assert found.sentences[0] == "A bag of words does as well here (94.8 %)."
    found = recommended(2000, linear=(0, 300), majority=(0, 900), tfidf=(0, 100))
    assert found.sentences[0] == "A bag of words does better here (95.0 %)."
    found = recommended(200, linear=(0, 40), majority=(0, 130), tfidf=(30, 80))
    assert not found.lead
    assert "a bag of words is not significantly worse" in found.how_sure
    assert not recommended(2000, linear=(0, 100), majority=(0, 900), tfidf=(0, 400)).lead


def test_heads_outside_the_comparison_are_counted():
    both = compared(2000, linear=(0, 100), mlp=(0, 300), majority=(0, 900))
    found = advise(*both, stopped=1, left=2, improving=1)
    assert "1 more was eliminated in the race; 2 more are still to be trained" in found.how_sure
    assert "1 head was still improving" in found.how_sure


def test_a_head_chosen_among_many_says_what_to_expect_on_other_rows():
    starts = {f"head{n}": (37 * n, 37 * n + 60 - n % 3) for n in range(12)}
    found = recommended(600, **starts, majority=(0, 500))
    assert re.search(r"expect about 8\d\.?\d* %, as it was chosen on these rows", found.how_sure)


def test_every_metric_is_said_in_its_own_words():
    of = advise(*of_labels(900, linear=200, majority=900))
    assert of.because.startswith("micro-F1 90 % (95 % interval 8")
    assert of.because.endswith("; majority class 67 %")
    of = advise(*of_numbers(900, linear=0.5, majority=99.0, tfidf=0.9))
    told = (
        r"Spearman correlation 0\.\d\d \(95 % interval 0\.\d\d–0\.\d\d\); "
        r"mean of the labels 0\.00, bag of words 0\.\d\d"
    )
    assert re.fullmatch(told, of.because)
    of = advise(*of_numbers(1000, linear=0.6, mlp=0.3, majority=99.0))
    assert of.name == "mlp"
    assert "points" not in of.how_sure


@given(
    metric=st.sampled_from(sorted(SCORES)),
    scores=st.lists(st.floats(0.0, 1.0), min_size=1, max_size=5),
)
def test_short_scores_are_the_scores_and_never_wholly_right_by_rounding(metric, scores):
    name = SCORES[metric]
    scores = [-score for score in scores] if name.scale == "error" else scores
    told = brief(name, *scores)
    assert len(told) == len(scores)
    for shown, score in zip(told, scores, strict=True):
        value = float(shown.replace(",", "").replace("−", "-"))
        if name.is_share:
            assert value == pytest.approx(100 * score, abs=0.5001)
            assert value < 100 or score > 0.99999
        else:
            assert value == pytest.approx(abs(score), abs=0.0051)


def test_the_checkpoints_own_head_is_compared_and_its_score_stands_beside_the_others():
    """It may have seen the rows, so it is never recommended."""
    wrong = {"linear": (0, 600), "majority": (0, 601), "own": (0, 0)}
    none = recommended(2000, **wrong)
    assert (none.name, none.lead) == (
        "", "The checkpoint's own head is significantly better than `linear`."
    )  # fmt: skip
    assert none.because.startswith("of the heads trained here, `linear` scores highest: accuracy ")
    assert none.because.endswith("the checkpoint's own head 100.00 %")
    some = recommended(2000, **wrong | {"linear": (0, 100)}, tfidf=(0, 100))
    assert some.sentences[0] == (
        "The checkpoint's own head is significantly better than `linear`. "
        "A bag of words does as well here (95.0 %)."
    )


# The learning curve


@given(sizes=st.lists(st.integers(1, 40), min_size=1, max_size=6), seed=st.integers(0, 9))
def test_subsets_are_nested_and_keep_every_class_in_proportion(sizes, seed):
    targets = [number for number, size in enumerate(sizes) for _ in range(size)]
    rows = list(range(len(targets)))
    quarter, half, full = subsets(targets, rows, seed=seed)
    assert set(quarter) <= set(half) <= set(full)
    assert full == rows
    for share, part in ((0.25, quarter), (0.5, half)):
        held = Counter(targets[row] for row in part)
        for number, size in enumerate(sizes):
            assert held[number] >= 1
            assert held[number] == pytest.approx(max(1, share * size), abs=0.75)
    assert subsets(targets, rows, seed=seed) == (quarter, half, full)


def test_the_curve_of_one_head_speaks_of_no_lead_and_names_its_score():
    one = {"best": "linear", "to_best": ()}
    few, hardly, more = (
        LearningCurvePoint(rows=rows, scores={"linear": score}, **one)
        for rows, score in ((250, 0.5), (500, 0.501), (500, 0.61))
    )
    says = curve_says([few, hardly], "spearman")
    assert says.endswith("The Spearman correlation of `linear` hardly grew from 250 to 500 rows.")
    assert curve_says([few, more]) == (
        "`linear` is the only head. The accuracy of `linear` was seen to grow by 11.0 points from "
        "250 to 500 rows: more rows may help."
    )


def test_the_curve_says_whether_the_choice_hangs_on_the_rows():
    few = stage(2000, trained=250, linear=(0, 300), mlp=(0, 500))
    more = stage(2000, trained=500, linear=(0, 280), mlp=(9, 290))
    near = stage(2000, trained=1000, linear=(0, 263), mlp=(0, 262))
    past = stage(2000, trained=1000, linear=(0, 270), mlp=(0, 100))
    assert curve_says([few, more]).startswith(
        "From 250 to 500 rows `linear` is never significantly worse than the best. The accuracy "
    )
    says = curve_says([few, more, near])
    assert "`linear` is never significantly worse than the best." in says
    assert says.endswith("more rows may help.")
    says = curve_says([few, more, past])
    assert says.startswith(
        "The choice changes with the rows: among the best with fewer rows, `linear` is behind with "
        "1,000."
    )
    assert curve_says([more, stage(2000, trained=1000, linear=(0, 280), mlp=(9, 290))]) == (
        "Of the 2 heads drawn, those with the highest scores on the development rows, none is "
        "significantly worse than the best of them, from 500 to 1,000 rows. "
        "The accuracy of `linear` hardly grew from 500 to 1,000 rows."
    )
    always = [stage(2000, trained=n, linear=(0, 300), mlp=(0, 500)) for n in (250, 500)]
    assert curve_says(always).startswith(
        "From 250 to 500 rows `linear` is never significantly worse than the best, and `mlp` is "
        "behind it at every size."
    )


# --- A head that fine-tunes its base model needs a copy of it.


def advised(
    tuned: Sequence[str], **wrong: Sequence[int] | Sequence[Sequence[int]]
) -> tuple[Recommendation, Comparisons]:
    """The recommendation and what it rests on, of heads that were trained five times."""
    measures, comparisons = compared(2000, 5, tuned, **wrong)
    return advise(measures, comparisons), comparisons


ERRATIC = [(300, 520), (300, 480), (300, 440), (300, 580), (300, 550)]


def test_a_frozen_head_that_is_not_significantly_worse_goes_before_a_tuned_one():
    wrong = {"linear": (0, 300), "mlp": (100, 301), "full": (101, 301), "majority": (0, 900)}
    found, _ = advised(["full"], **wrong)
    assert (found.name, found.alike) == ("mlp", ("full",))
    assert "the fine-tuned `full` is not significantly different" in found.because


def test_a_tuned_head_that_is_clearly_better_is_recommended():
    wrong = {"linear": (0, 400), "mlp": (100, 400), "full": (300, 400), "majority": (0, 900)}
    found, _ = advised(["full"], **wrong)
    assert (found.name, found.alike) == ("full", ())
    assert "a copy of it" in found.because
    assert found.how_sure == "the 2 other heads are significantly worse"


def test_a_tuned_head_that_is_worse_is_said_to_be():
    wrong = {"linear": (0, 300), "full": (0, 500), "majority": (0, 900)}
    found, _ = advised(["full"], **wrong)
    assert (found.name, found.alike) == ("linear", ())
    assert "the fine-tuned `full` is worse" in found.because
    assert found.how_sure == "of the frozen heads, no other head was trained"


@pytest.mark.parametrize(
    "wrong",
    [
        {"linear": (0, 500), "mlp": (100, 330), "deep": (100, 350), "majority": (0, 900)},
        {"linear": (0, 300), "mlp": (5, 305), "majority": (0, 900)},
    ],
)
def test_what_is_said_of_frozen_heads_is_what_would_be_said_without_an_erratic_tuned_one(wrong):
    alone, _ = advised([], **wrong)
    found, comparisons = advised(["full"], **wrong, full=ERRATIC)
    assert comparisons.best == "full"
    assert found.name == alone.name
    assert [one for one in found.alike if one != "full"] == list(alone.alike)
    assert found.how_sure.replace("of the frozen heads, ", "") == alone.how_sure


def test_a_tuned_head_is_not_recommended_for_beating_the_reference_alone():
    """One scores highest, but erratically; another is surely above the reference, not above mlp."""
    wrong = {"linear": (0, 400), "mlp": (100, 330), "bitfit": (200, 425), "majority": (0, 900)}
    found, comparisons = advised(
        ["full", "bitfit"],
        **wrong,
        full=[(300, 500), (300, 310), (300, 700), (300, 320), (300, 640)],
    )
    assert comparisons.best == "full"
    assert [d.name for d in comparisons.to_reference if d.differs and d.difference > 0] == [
        "mlp",
        "bitfit",
    ]
    assert (found.name, found.alike) == ("mlp", ("full", "bitfit"))


def test_where_no_frozen_head_beats_guessing_a_tuned_one_that_does_is_taken():
    wrong = {"linear": (0, 900), "mlp": (0, 905), "full": (0, 300), "majority": (0, 901)}
    assert advised(["full"], **wrong)[0].name == "full"
    assert advised([], **{name: wrong[name] for name in wrong if name != "full"})[0].name == ""
    wrong["full"] = (0, 899)
    assert advised(["full"], **wrong)[0].name == ""
