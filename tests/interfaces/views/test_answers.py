"""Short answers say what the numbers allow, and advise nothing that failed its own test."""

from dataclasses import replace

import pytest
import torch
from boards import CLOSE, FAR, NUMBERS, SCALED, board_of, label, measures_of, stages
from hypothesis import given
from hypothesis import strategies as st

from heads.evaluation.calibration import Bin, calibration_error, reliability
from heads.evaluation.verdict import Recommendation
from heads.interfaces.views import answers
from heads.interfaces.views.format import count
from heads.problem import REGRESSION, SINGLE_LABEL
from heads.runs.drill_down import Disagreement, LayerCurve


@pytest.mark.parametrize(
    ("before", "after", "says"),
    [
        (0.70, 0.73, "probably: +3.0 points from 500 to 1,000 rows"),
        (0.70, 0.71, "perhaps: +1.0 points from 500 to 1,000 rows"),
        (0.70, 0.702, "hardly: +0.2 points from 500 to 1,000 rows"),
        (0.70, 0.69, "hardly: −1.0 points from 500 to 1,000 rows"),
    ],
)
def test_more_rows_help_as_they_helped_the_recommended_head(before, after, says):
    curve = stages(**{"cls+linear": (0.1, 0.9), "mean+linear": (before, after)})
    assert answers.more_rows(replace(board_of(**CLOSE, **FAR), curve=curve)) == says


def test_without_a_curve_it_is_not_known_whether_rows_help():
    board = board_of(**CLOSE, **FAR)
    assert answers.more_rows(board) == "not known: this run has no learning curve"
    others = stages(**{"cls+mlp": (0.5, 0.6), "max+mlp": (0.5, 0.7)})
    assert answers.more_rows(replace(board, curve=others)).startswith("probably: +20.0 points")


def test_units_of_an_error_are_told_as_they_are():
    curve = stages(**{"mean+linear": (-0.9, -0.6)})
    board = replace(board_of(**CLOSE, **FAR), metric="neg_mean_absolute_error", curve=curve)
    assert answers.more_rows(board) == "probably: +0.3 from 500 to 1,000 rows"


def test_confidence_that_is_off_says_which_way_and_what_mends_it():
    assert answers.trust(measures_of()) == "no: off by 40 points; it is overconfident"
    scaled = measures_of(calibration=SCALED)
    assert answers.trust(scaled) == (
        "no: off by 40 points; it is overconfident "
        "(its logits divided by 1.34 are off by 10 points)"
    )
    unsure = measures_of(bins=(Bin(rows=90, confidence=0.5, accuracy=0.9),))
    assert answers.trust(unsure) == "no: off by 40 points; it is underconfident"
    near = measures_of(values={"calibration_error": 0.031})
    assert answers.trust(near) == "yes: off by 3 points on average"
    assert answers.trust(measures_of(values={"calibration_error": 0.004})).endswith(
        "0.4 points on average"
    )
    assert answers.trust(measures_of(bins=())) == ""


@given(after=st.floats(0.38, 1.0), temperature=st.floats(0.1, 9.0))
def test_a_temperature_that_does_not_help_on_tested_rows_is_not_advised(after, temperature):
    harm = replace(SCALED, error_after=max(after, SCALED.error_before), temperature=temperature)
    assert "divided" not in answers.trust(measures_of(calibration=harm))


def test_few_rows_make_an_error_that_is_no_more_than_chance():
    rng = torch.Generator().manual_seed(0)
    above = 0
    for _ in range(200):
        sure = 0.4 + 0.6 * torch.rand(195, generator=rng, dtype=torch.double)
        bins = reliability(
            sure, (torch.rand(195, generator=rng, dtype=torch.double) < sure).double()
        )
        above += calibration_error(bins) > answers.most_by_chance(bins)
    assert 0 <= above <= 24  # about 5 % of them
    few = tuple(Bin(rows=6, confidence=0.5 + 0.03 * n, accuracy=0.4 + 0.03 * n) for n in range(15))
    told = answers.trust(
        measures_of(bins=few, values={"calibration_error": calibration_error(few)})
    )
    assert told == "not clear from 90 rows: off by 10 points, which may be chance"
    assert answers.most_by_chance(few, repeats=4) == pytest.approx(2 * answers.most_by_chance(few))


def test_the_pair_of_classes_that_is_mistaken_most_is_named():
    table = torch.tensor([[40, 2, 0], [9, 30, 1], [0, 0, 50]])
    assert answers.confused(measures_of(confusion=table), "abc") == "b is taken for a: 9 of 40"
    right = measures_of(confusion=torch.eye(3).long())
    assert answers.confused(right, "abc") == "none: every answer is right"


def test_of_labels_the_hardest_is_named_and_of_numbers_none():
    labels = (label("good", 0.9), label("none", None), label("bad", 0.123))
    hardest = answers.confused(measures_of(labels=labels), ("good", "none", "bad"))
    assert hardest == "bad is the hardest: F1 12 %"
    assert [one.name for one in answers.worst_first(labels)] == ["bad", "good", "none"]
    assert answers.confused(NUMBERS, ()) == ""


def test_texts_on_which_heads_disagree_are_counted():
    one = Disagreement(line=1, text="t", pair="", label="a", answers=(), share=0.5)
    assert answers.disagree([one] * 31, 195, SINGLE_LABEL) == "on 31 of 195 rows"
    assert answers.disagree([], 195, SINGLE_LABEL) == "on no row"
    assert answers.disagree([one, replace(one, share=0.24)], 9, REGRESSION) == "by 0.37 on a row"
    assert answers.disagree([], 9, REGRESSION) == "not known: there is one head"


def test_the_worth_of_a_head_is_its_size_and_why_it_is_recommended():
    board = board_of(**CLOSE, **FAR)
    size, reason = answers.worth(board).split(" parameters; ")
    assert size == count(board.cell("mean+linear").learned)
    assert reason in board.recommendation.because.replace("`", "")
    assert answers.worth(replace(board, recommendation=Recommendation())) == ""


def test_the_best_layer_stands_beside_the_last():
    board = board_of(
        **{"mean+linear": (0, 300), "mean@1+linear": (1, 298), "mean@0+linear": (0, 900)}, **FAR
    )
    order = ("mean@0+linear", "mean@1+linear", "mean+linear")
    curve = LayerCurve(
        recipe="mean+linear", layers=("0", "1", "last"), says="",
        cells=tuple(map(board.cell, order)), estimates=(None,) * 3,
    )  # fmt: skip
    assert answers.which_layer(board, [curve]) == (
        "layer 1: 85.2 %; the last: 85.0 %, which may be chance"
    )
    assert answers.which_layer(board, []) == ""
    unknown = replace(curve, layers=("0", "1", "6"))
    assert answers.which_layer(board, [unknown]) == "layer 1: 85.2 %"
    short = replace(curve, layers=("0", "last"), cells=(curve.cells[0], curve.cells[2]))
    assert answers.which_layer(board, [short]) == "the last: 85.0 %"
