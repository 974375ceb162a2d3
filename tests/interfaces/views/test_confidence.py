"""How sure a head is, in words: what a temperature tells, and where abstaining pays."""

from dataclasses import replace

import pytest

from heads.evaluation.calibration import Bin, Calibration, Coverage
from heads.evaluation.details import Measures
from heads.interfaces.views.head_details import (
    abstained_says,
    coverage,
    reliability,
    scaled_says,
    useful,
)
from heads.problem import MULTI_LABEL, SINGLE_LABEL

POINTS = tuple(
    Coverage(threshold=threshold, coverage=share, accuracy=accuracy)
    for threshold, share, accuracy in ((0.3, 1.0, 0.8), (0.6, 0.9, 0.85), (0.8, 0.7, 0.96))
)
FOUND = Calibration(
    temperature=1.34,
    error_before=0.052,
    error_after=0.019,
    log_loss_before=0.5,
    log_loss_after=0.4,
    bins=(Bin(rows=9, confidence=0.6, accuracy=0.5),),
    coverage=POINTS,
)


@pytest.mark.parametrize(
    ("temperature", "says"),
    [
        (1.34, "It is too sure: its logits are to be divided by 1.34"),
        (0.74, "It is not sure enough: its logits are to be divided by 0.74"),
        (1.02, "neither too sure nor too unsure"),
    ],
)
def test_a_temperature_says_which_way_a_head_errs(temperature, says):
    assert says in scaled_says(replace(FOUND, temperature=temperature))


def test_it_says_what_the_temperature_does_even_where_it_does_harm():
    assert "from 5.2 to 1.9 points" in scaled_says(FOUND)
    assert "does not help" in scaled_says(replace(FOUND, error_after=0.06))
    assert "stays 5.2 points" in scaled_says(replace(FOUND, error_after=0.0521))


def test_abstaining_is_told_where_it_halves_the_errors():
    assert useful(POINTS) is POINTS[2]
    says = abstained_says(POINTS, SINGLE_LABEL)
    assert "less sure than 80 %, it answers 70 % of the texts and 96 % of those right" in says
    assert "of all it answers 80 % right" in says
    assert "yes-or-no questions" in abstained_says(POINTS, MULTI_LABEL)
    assert "would not halve its errors: of the 90 %" in abstained_says(POINTS[:2], SINGLE_LABEL)
    right = (replace(POINTS[0], accuracy=1.0),)
    assert "nothing to gain" in abstained_says(right, SINGLE_LABEL)


def test_both_curves_and_the_useful_point_are_drawn():
    measures = Measures(
        name="mean+linear", rows=9, metric="accuracy", score=0.8, low=0.7, high=0.9, scores=(0.8,),
        values={"calibration_error": 0.052}, bins=(Bin(rows=9, confidence=0.9, accuracy=0.5),),
        calibration=FOUND,
    )  # fmt: skip
    drawn = reliability(measures)
    assert "as it is" in drawn
    assert "logits divided by 1.34" in drawn
    assert "9 answers, 90.0 % sure, 50.0 % right" in drawn
    assert "9 answers, 60.0 % sure, 50.0 % right" in drawn
    assert "divided" not in reliability(replace(measures, calibration=None))
    assert "abstaining below 80 %" in coverage(FOUND, SINGLE_LABEL)
    assert "cannot be told" in coverage(None, SINGLE_LABEL)
