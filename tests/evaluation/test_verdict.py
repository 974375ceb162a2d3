"""The verdict says what the comparison found and no more, and the learning curve likewise."""

import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from heads.evaluation.details import Measures, measure
from heads.evaluation.learning_curve import LearningCurvePoint, curve_says, subsets
from heads.evaluation.metrics import SCORES, MetricName
from heads.evaluation.predictions import CellPredictions, EvaluationTask
from heads.evaluation.significance import Comparisons, compare
from heads.evaluation.verdict import Recommendation, brief, enough, judge, recommend
from heads.problem import MULTI_LABEL, REGRESSION


def compared(
    rows: int, seeds: int = 3, **rights: Sequence[int]
) -> tuple[dict[str, Measures], Comparisons]:
    """Cells that answer these stretches of rows, (from, to), wrong; the first is the reference."""
    task = EvaluationTask(
        targets=torch.zeros(rows).long(), classes=("x", "y"), groups=torch.arange(rows)
    )
    outcomes = []
    for name, (start, end) in rights.items():
        wrong = torch.zeros(rows)
        wrong[start:end] = 1
        logits = torch.stack([1 - wrong, wrong], dim=1)
        tested = (torch.arange(rows),) * seeds
        outcomes.append(CellPredictions(name=name, rows=tested, logits=(logits,) * seeds))
    found = {outcome.name: measure(outcome, task) for outcome in outcomes}
    return found, compare(outcomes, task, reference=outcomes[0].name)


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


def verdict(rows: int, seeds: int = 3, **rights: Sequence[int]) -> tuple[str, ...]:
    return judge(*compared(rows, seeds, **rights), commonest="x")


def test_the_reference_is_enough_where_no_other_is_told_apart_and_the_bound_is_small():
    (says,) = verdict(5000, linear=(0, 400), mlp=(5, 405), deep=(0, 410))
    assert says == "`linear` is enough: no head is better by more than 0.1 points (95 %)."


def test_too_few_rows_are_no_proof_that_the_reference_is_enough():
    first, more = verdict(120, linear=(0, 20), mlp=(15, 30))
    assert first.startswith("No head is shown to be better than `linear`")
    assert "120 tested rows" in first
    assert "`mlp`" in first  # the one that may be better, by as much as is said
    assert more.startswith("The lead seen, `mlp` by 4.2 points, would take about ")
    assert int(more.split("about ")[1].split()[0]) in range(130, 2000)


def test_a_better_head_is_named_with_its_interval_and_its_equals():
    says, *_ = verdict(2000, linear=(0, 300), mlp=(100, 300), deep=(101, 301), poor=(0, 500))
    assert says.startswith("`mlp` is better than `linear` by 5.0 points (")
    assert says.endswith(", 95 %); 1 other head is not distinguishable from it.")


def test_few_groups_are_said_to_be_what_is_missing():
    measures, comparisons = compared(120, linear=(0, 20), mlp=(15, 30))
    first, more, *_ = judge(measures, replace(comparisons, groups=8))
    assert first.startswith("No head is shown to be better than `linear`")
    assert more == (
        "The 120 tested rows stand in 8 groups, each of them one piece of evidence: more groups, "
        "not more rows, would tell heads apart."
    )
    assert "groups" not in "".join(judge(measures, replace(comparisons, groups=100)))


def test_the_highest_of_many_scores_is_told_as_what_it_is_on_rows_that_did_not_choose():
    starts = {f"head{n}": (37 * n, 37 * n + 60 - n % 3) for n in range(12)}
    says = verdict(600, **starts)[-1]
    told = re.fullmatch(
        r"`head\d+` scores (9\d\.\d) % and was chosen among 12 heads on these rows; on rows that "
        r"do not choose: about (8\d\.\d) %\.",
        says,
    )
    assert told
    assert float(told[2]) < float(told[1])


@given(score=st.floats(0, 1))
def test_enough_is_relative_to_what_is_left_to_gain(score):
    found = enough(score, SCORES["accuracy"])
    assert 0.002 <= found <= 0.02
    assert found <= max(0.002, (1 - score) / 5)
    assert found == 0.02 or score > 0.89
    assert enough(-score, SCORES["neg_mean_absolute_error"]) == score / 10


def test_a_point_more_is_much_where_few_answers_are_wrong():
    says = verdict(3000, linear=(0, 45), mlp=(10, 55), deep=(20, 60))[0]
    assert "`deep` may be better by up to 0.6 points" in says
    says = verdict(3000, linear=(0, 445), mlp=(10, 455), deep=(20, 460))[0]
    assert says.startswith("`linear` is enough: ")


def test_a_clear_winner_is_better_than_every_other():
    (says,) = verdict(2000, linear=(0, 300), mlp=(0, 100), poor=(0, 500))
    assert says.endswith(", and than every other head.")


def test_a_clear_reference_is_said_to_be_better():
    (says,) = verdict(2000, linear=(0, 100), mlp=(0, 300))
    assert says.startswith("`linear` is better than every other head, by ")


def test_heads_that_beat_no_baseline_are_told_so():
    _, says = verdict(2000, linear=(0, 600), mlp=(0, 605), majority=(0, 601))
    assert says.startswith(
        "No head is shown to be better than always answering 'x' (majority, 70.0 %)"
    )
    _, says = verdict(2000, linear=(0, 600), mlp=(0, 605), majority=(0, 900), tfidf=(0, 160))
    assert says == (
        "No head is better than TF-IDF + logistic regression (92.0 %): "
        "it beats the best one, `linear`, by 22.0 points."
    )
    assert len(verdict(2000, linear=(0, 600), mlp=(0, 605), majority=(0, 900))) == 1


def test_a_baseline_that_the_reference_beats_is_beaten_though_the_best_head_is_less_sure():
    wrong = {"linear": (10, 28), "mlp": (1000, 1017), "tfidf": (0, 28)}
    _, comparisons = compared(2000, 3, **wrong)
    told = {d.name: d.differs for d in comparisons.to_best}
    assert (comparisons.best, told["tfidf"]) == ("mlp", False)
    assert not any("TF-IDF" in says for says in verdict(2000, 3, **wrong))


def test_heads_that_were_trained_once_are_not_told_apart():
    assert verdict(2000, 1, linear=(0, 300), mlp=(0, 100), majority=(0, 900)) == (
        "No head is shown to be better than `linear`: what one training of each gives may be luck.",
        "Each head was trained once, which shows nothing of luck: train with 3 seeds to tell them "
        "apart.",
    )
    first, *_ = verdict(5000, 1, linear=(0, 400), mlp=(5, 405))
    assert "enough" not in first


def test_a_single_head_gets_its_accuracy():
    (says,) = verdict(1000, 1, linear=(0, 100), majority=(0, 800))
    assert says == "`linear` answers 90.0 % right (88.0 % to 91.7 %, 95 %)."


# Other scores


def of_labels(
    rows: int, seeds: int = 1, metric: MetricName | None = None, **wrongs: int
) -> tuple[dict[str, Measures], Comparisons]:
    """Cells that give so many rows a wrong label besides the right one."""
    targets = torch.zeros(rows, 2)
    targets[:, 0] = 1
    task = EvaluationTask(
        targets=targets,
        classes=("x", "y"),
        groups=torch.arange(rows),
        problem=MULTI_LABEL,
        metric=metric,
    )
    outcomes = []
    for name, wrong in wrongs.items():
        logits = 2 * targets - 1
        logits[:wrong, 1] = 1
        tested = (torch.arange(rows),) * seeds
        outcomes.append(CellPredictions(name=name, rows=tested, logits=(logits,) * seeds))
    found = {outcome.name: measure(outcome, task) for outcome in outcomes}
    return found, compare(outcomes, task, reference=outcomes[0].name)


def of_numbers(
    rows: int, metric: MetricName | None = None, **noises: float
) -> tuple[dict[str, Measures], Comparisons]:
    """Cells that are off by so much."""
    rng = torch.Generator().manual_seed(0)
    targets = torch.randn(rows, generator=rng)
    task = EvaluationTask(
        targets=targets,
        classes=("x",),
        groups=torch.arange(rows),
        problem=REGRESSION,
        metric=metric,
    )
    outcomes = []
    for name, noise in noises.items():
        logits = targets + noise * torch.randn(rows, generator=rng)
        logits = logits if noise < 99 else torch.zeros(rows)
        tested, solved = (torch.arange(rows),), (logits[:, None],)
        outcomes.append(CellPredictions(name=name, rows=tested, logits=solved, is_random=False))
    found = {outcome.name: measure(outcome, task) for outcome in outcomes}
    return found, compare(outcomes, task, reference=outcomes[0].name)


def test_a_single_head_gets_its_score_by_name():
    (says,) = judge(*of_labels(900, linear=200))
    assert says.startswith("`linear` reaches a micro-F1 of 90.0 % (8")
    assert says.endswith(" %, 95 %).")
    (says,) = judge(*of_numbers(900, linear=0.5))
    number = r"0\.\d{3}"
    told = rf"`linear` reaches a Spearman correlation of {number} \({number} to {number}, 95 %\)\."
    assert re.fullmatch(told, says)


def test_points_are_hundredths_of_a_share_and_a_correlation_is_said_as_it_is():
    (says,) = judge(*of_labels(9000, 3, linear=900, mlp=905))
    assert says == "`linear` is enough: no head is better by more than 0.1 points (95 %)."
    says = judge(*of_numbers(1000, linear=0.6, mlp=0.3))[0]
    assert re.match(
        r"`mlp` is better than `linear` by 0\.1\d\d \(0\.\d{3} to 0\.\d{3}, 95 %\)", says
    )
    assert "points" not in says


def test_baselines_are_called_what_they_are_of_each_kind():
    says = judge(*of_labels(900, linear=300, majority=300))[-1]
    assert says == ("No head is better than always giving the commonest labels (majority, 85.7 %).")
    says = judge(*of_numbers(900, linear=0.5, tfidf=0.3))[-1]
    assert says.startswith("No head is better than TF-IDF + ridge regression (0.9")
    says = judge(*of_numbers(40, linear=40.0, majority=99.0))[-1]
    assert "always answering the mean (majority, 0.000)" in says


# The one head that is recommended


def recommended(rows: int, seeds: int = 3, **rights: Sequence[int]) -> Recommendation:
    return recommend(*compared(rows, seeds, **rights), commonest="x")


def test_the_reference_is_recommended_where_no_head_is_shown_to_be_better():
    found = recommended(200, linear=(0, 60), mlp=(20, 76), majority=(0, 120), tfidf=(0, 110))
    assert (found.name, found.use, found.alike) == ("linear", "`linear`", ("mlp",))
    assert found.because == (
        "70 % right (63 to 76); guessing 40 %, counting words 45 %; "
        "no other is shown to be better than this simple head"
    )
    told = re.fullmatch(
        r"the other head cannot be told apart from it on 200 tested rows; "
        r"about ([\d,]+) rows would settle a difference of 2 points",
        found.how_sure,
    )
    assert told
    assert int(told[1].replace(",", "")) > 200


def test_the_head_that_is_shown_to_be_better_is_recommended_and_its_equals_are_counted():
    wrong = {"mlp": (100, 300), "deep": (101, 301), "poor": (0, 500), "majority": (0, 900)}
    found = recommended(2000, linear=(0, 300), **wrong)
    assert (found.name, found.alike) == ("mlp", ("deep",))
    assert re.match(
        r"better than `linear` by 5\.0 points \(\d\.\d to \d\.\d, 95 %\)", found.how_sure
    )
    assert "1 of the 3 others cannot be told apart from it on 2,000 tested rows" in found.how_sure
    alone = recommended(2000, linear=(0, 300), mlp=(0, 100), majority=(0, 900))
    assert (alone.name, alone.alike) == ("mlp", ())
    assert "other" not in alone.how_sure


def test_a_clear_reference_and_a_close_one_say_so():
    found = recommended(2000, linear=(0, 100), mlp=(0, 300), deep=(0, 400), majority=(0, 900))
    assert (found.name, found.how_sure) == ("linear", "the 2 others are worse")
    found = recommended(5000, linear=(0, 400), mlp=(5, 405), majority=(0, 2000))
    assert found.how_sure.endswith("none is better by more than 0.1 points (95 %)")
    found = recommended(900, linear=(0, 90), majority=(0, 500))
    assert (found.name, found.how_sure) == ("linear", "no other head was trained")


def test_no_head_is_recommended_that_is_not_shown_to_beat_guessing():
    found = recommended(2000, linear=(0, 600), mlp=(0, 605), majority=(0, 601), tfidf=(0, 160))
    assert (found.name, found.alike) == ("", ())
    assert found.use == "None: no head is shown to beat guessing (always answering 'x')"
    assert re.fullmatch(
        r"`linear` scores highest: 70\.00 % right \(67\.\d\d to 71\.\d\d\); guessing 69\.95 %, "
        r"counting words 92\.00 %",
        found.because,
    )
    assert found.how_sure.startswith("the lead of 0.1 points on 2,000 tested rows may be chance")
    behind = recommended(2000, linear=(0, 700), majority=(0, 601))
    assert behind.how_sure == "on 2,000 tested rows no head is ahead of it"


def test_where_only_the_best_head_is_shown_to_beat_guessing_it_is_taken():
    found = recommended(300, linear=(60, 170), mlp=(45, 140), majority=(0, 120))
    assert (found.name, found.alike) == ("mlp", ("linear",))
    assert found.how_sure.startswith("the simpler `linear` is not shown to beat guessing; ")


def test_a_head_that_is_better_than_the_reference_is_not_also_near_it():
    wrong = {"linear": (60, 170), "mlp": (30, 120), "majority": (0, 120)}
    _, comparisons = compared(300, **wrong)
    (of_all,) = (d for d in comparisons.to_best if d.name == "linear")
    found = recommended(300, **wrong)
    assert not of_all.differs  # the family of all pairs is larger
    assert (found.name, found.alike) == ("mlp", ())


def test_a_better_head_beats_guessing_if_the_reference_does_or_both_intervals_say_so():
    measures, comparisons = compared(2000, linear=(0, 500), mlp=(0, 300), majority=(0, 520))
    assert recommend(measures, comparisons).name == "mlp"
    apart = replace(comparisons, best="other", to_best=())
    assert recommend(measures, apart).name == "mlp"
    assert recommend(measures, apart).alike == ()


def test_few_rows_are_too_few_to_choose():
    found = recommended(49, linear=(0, 1), majority=(0, 30))
    assert (found.name, found.use) == ("", "None: 49 tested rows are too few to choose")
    assert found.because.startswith("`linear` scores highest: 98.0 % right (")
    assert found.how_sure == "not at all; test on 50 rows or more"
    assert recommended(50, linear=(0, 1), majority=(0, 30)).name == "linear"
    assert "1 tested row is too few" in recommended(1, 1, linear=(0, 0), majority=(0, 1)).use


def test_without_a_recommendation_the_head_that_scores_highest_is_named():
    for rows, told in ((40, {"majority": (0, 20)}), (900, {})):
        wrong = {"linear": (0, rows // 5), "mlp": (0, rows // 8), **told}
        found = recommended(rows, **wrong)
        assert found.name == ""
        assert found.because.startswith("`mlp` scores highest"), found


def test_without_the_baseline_nothing_is_known_of_guessing():
    found = recommend(*compared(900, linear=(0, 90)), left=3)
    assert found.use == "None: heads have not been compared with guessing yet"
    assert found.because == "`linear` scores highest: 90 % right (88 to 92)"
    assert found.how_sure == "3 more are still to be trained"


def test_training_once_says_nothing_of_luck_but_guessing_is_beaten():
    found = recommended(2000, 1, linear=(0, 300), mlp=(0, 100), majority=(0, 900))
    assert found.name == "linear"
    assert found.how_sure == (
        "the other head cannot be told apart from it on 2,000 tested rows; "
        "trained once: luck is not known, 3 seeds would show it"
    )


def test_groups_not_rows_are_what_is_missing_where_they_are_few():
    measures, comparisons = compared(120, linear=(0, 20), mlp=(15, 30), majority=(0, 90))
    found = recommend(measures, replace(comparisons, groups=8))
    assert found.how_sure.endswith("these stand in 8 groups: more groups would settle it, not rows")


def test_counted_words_that_do_as_well_are_told():
    wrong = {"majority": (0, 900), "tfidf": (0, 105)}
    found = recommended(2000, linear=(0, 100), mlp=(0, 400), **wrong)
    assert found.how_sure == "the other head is worse; counting words may do as well"
    found = recommended(2000, linear=(0, 300), majority=(0, 900), tfidf=(0, 100))
    assert found.name == "linear"
    assert found.how_sure == "no other head was trained; counting words does better"


def test_heads_outside_the_comparison_are_counted():
    both = compared(2000, linear=(0, 100), mlp=(0, 300), majority=(0, 900))
    assert recommend(*both, stopped=1, left=2).how_sure == (
        "the other head is worse; 1 more was stopped in the race; 2 more are still to be trained"
    )


def test_a_head_chosen_among_many_is_told_as_what_it_is_on_other_rows():
    starts = {f"head{n}": (37 * n, 37 * n + 60 - n % 3) for n in range(12)}
    measures, comparisons = compared(600, **starts, majority=(0, 500))
    assert comparisons.chosen is not None
    unbeaten = [
        replace(d, high=1.0) if d.name == "majority" else d for d in comparisons.to_reference
    ]
    lucky = [replace(d, low=-1.0) if d.name == "head0" else d for d in comparisons.to_best]
    found = recommend(
        measures, replace(comparisons, to_reference=tuple(unbeaten), to_best=tuple(lucky))
    )
    assert found.name == comparisons.best
    assert re.search(r"; about 8\d\.?\d* % on rows that did not choose it; ", found.how_sure)


def test_every_metric_is_said_in_its_own_words():
    of = recommend(*of_labels(900, 3, linear=200, majority=900))
    assert of.because.startswith("micro-F1 90 % (8")
    assert of.because.endswith("); guessing 67 %")
    of = recommend(*of_numbers(900, linear=0.5, majority=99.0, tfidf=0.9))
    told = (
        r"Spearman correlation 0\.\d\d \(0\.\d\d to 0\.\d\d\); "
        r"guessing the mean 0\.00, counting words 0\.\d\d"
    )
    assert re.fullmatch(told, of.because)
    off = recommend(*of_numbers(900, metric="neg_mean_absolute_error", linear=0.5, majority=99.0))
    told = r"mean absolute error (0\.\d+) \((0\.\d+) to (0\.\d+)\); guessing the mean (0\.\d+)"
    found = re.fullmatch(told, off.because)
    assert found
    error, low, high, guessing = map(float, found.groups())
    assert low < error < high < guessing
    whole = recommend(*of_labels(900, 3, metric="exact_match", linear=200, majority=900))
    assert whole.because.startswith("all labels of 78 % of the rows right (")


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


def test_the_curve_of_one_head_speaks_of_no_lead():
    one = {"best": "linear", "to_best": ()}
    few = LearningCurvePoint(rows=250, scores={"linear": 0.5}, **one)
    more = LearningCurvePoint(rows=500, scores={"linear": 0.61}, **one)
    assert curve_says([few, more]) == (
        "`linear` is the only head. The accuracy of `linear` was seen to grow by 11.0 points from "
        "250 to 500 rows: more rows may help."
    )


def test_the_curve_names_its_score():
    one = {"best": "linear", "to_best": ()}
    few = LearningCurvePoint(rows=250, scores={"linear": 0.5}, **one)
    more = LearningCurvePoint(rows=500, scores={"linear": 0.501}, **one)
    says = curve_says([few, more], "spearman")
    assert says.endswith("The Spearman correlation of `linear` hardly grew from 250 to 500 rows.")


def test_the_curve_says_whether_the_choice_hangs_on_the_rows():
    few = stage(2000, trained=250, linear=(0, 300), mlp=(0, 500))
    more = stage(2000, trained=500, linear=(0, 280), mlp=(9, 290))
    near = stage(2000, trained=1000, linear=(0, 263), mlp=(0, 262))
    past = stage(2000, trained=1000, linear=(0, 270), mlp=(0, 100))
    assert curve_says([few, more]).startswith(
        "From 250 to 500 rows `linear` is never told apart from the best. The accuracy "
    )
    says = curve_says([few, more, near])
    assert "`linear` is never told apart from the best." in says
    assert says.endswith("more rows may help.")
    says = curve_says([few, more, past])
    assert says.startswith(
        "The choice changes with the rows: among the best with fewer rows, `linear` is behind with "
        "1,000."
    )
    assert curve_says([more, stage(2000, trained=1000, linear=(0, 280), mlp=(9, 290))]) == (
        "From 500 to 1,000 rows no head is told apart from the best. The accuracy of `linear` "
        "hardly grew from 500 to 1,000 rows."
    )
    always = [stage(2000, trained=n, linear=(0, 300), mlp=(0, 500)) for n in (250, 500)]
    assert curve_says(always).startswith(
        "From 250 to 500 rows `linear` is never told apart from the best, and `mlp` is behind it "
        "at every size."
    )


# --- A head that learns its base model as well costs one of its own.


def advised(
    tuned: Sequence[str], rows: int = 2000, **wrong: Sequence[int] | Sequence[Sequence[int]]
) -> tuple[Recommendation, tuple[str, ...], Comparisons]:
    """The recommendation, the verdict and what they rest on; a stretch of wrong rows, or five."""
    task = EvaluationTask(
        targets=torch.zeros(rows).long(), classes=("x", "y"), groups=torch.arange(rows)
    )
    outcomes = []
    for name, stretches in wrong.items():
        each = [stretches] * 5 if isinstance(stretches[0], int) else stretches
        logits = []
        for start, end in each:
            is_wrong = torch.zeros(rows)
            is_wrong[start:end] = 1
            logits.append(torch.stack([1 - is_wrong, is_wrong], dim=1))
        tested = (torch.arange(rows),) * 5
        outcomes.append(CellPredictions(name=name, rows=tested, logits=tuple(logits)))
    measures = {one.name: measure(one, task) for one in outcomes}
    found = compare(outcomes, task, reference=outcomes[0].name, tuned=tuned)
    return recommend(measures, found), judge(measures, found), found


ERRATIC = [(300, 520), (300, 480), (300, 440), (300, 580), (300, 550)]


def test_a_frozen_head_that_is_not_told_apart_goes_before_a_tuned_one():
    wrong = {"linear": (0, 300), "mlp": (100, 301), "full": (101, 301), "majority": (0, 900)}
    found, told, _ = advised(["full"], **wrong)
    assert (found.name, found.alike) == ("mlp", ("full",))
    assert found.because.endswith(
        "; `full`, which learns the base model as well, is not told apart from it"
    )
    assert told[1] == (
        "`full`, which learns the base model as well, scores highest, but is not shown to beat "
        "`mlp`."
    )


def test_a_tuned_head_that_is_clearly_better_is_recommended_and_says_by_how_much():
    wrong = {"linear": (0, 400), "mlp": (100, 400), "full": (300, 400), "majority": (0, 900)}
    found, told, _ = advised(["full"], **wrong)
    assert (found.name, found.alike) == ("full", ())
    assert found.because.endswith("; it learns the base model as well, and needs one of its own")
    by = r"by 10\.0 points \(\d+\.\d to \d+\.\d, 95 %\)"
    assert re.search(
        f"; better than `mlp`, the best on the frozen base model, {by}; the 2 others are worse$",
        found.how_sure,
    )
    assert re.fullmatch(
        "`full` learns the base model as well and is better than `mlp`, the best head on the "
        rf"frozen one, {by}\.",
        told[0],
    )
    assert told[1].startswith("On the frozen base model: `mlp` is better than `linear` by 5.0 poi")


def test_a_tuned_head_that_is_worse_is_said_to_be():
    wrong = {"linear": (0, 300), "full": (0, 500), "majority": (0, 900)}
    found, told, _ = advised(["full"], **wrong)
    assert (found.name, found.alike) == ("linear", ())
    assert found.because.endswith("; `full`, which learns the base model as well, is worse")
    assert found.how_sure == "on the frozen base model no other head was trained"
    assert told[1].startswith(
        "`full`, the best head that learns the base model as well, is worse than `linear` by 10.0 "
    )


@pytest.mark.parametrize(
    "wrong",
    [
        {"linear": (0, 500), "mlp": (100, 330), "deep": (100, 350), "majority": (0, 900)},
        {"linear": (0, 300), "mlp": (5, 305), "majority": (0, 900)},
    ],
)
def test_what_is_said_of_frozen_heads_is_what_would_be_said_without_an_erratic_tuned_one(wrong):
    alone, first, _ = advised([], **wrong)
    found, told, comparisons = advised(["full"], **wrong, full=ERRATIC)
    assert comparisons.best == "full"
    assert found.name == alone.name
    assert [one for one in found.alike if one != "full"] == list(alone.alike)
    assert told[0] == f"On the frozen base model: {first[0]}"
    assert found.how_sure.replace("on the frozen base model ", "") == alone.how_sure


def test_a_tuned_head_is_not_recommended_for_beating_the_reference_alone():
    """One scores highest, but erratically; another is surely above the reference, not above mlp."""
    wrong = {"linear": (0, 400), "mlp": (100, 330), "bitfit": (200, 425), "majority": (0, 900)}
    found, _, comparisons = advised(
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
