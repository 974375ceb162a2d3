"""The verdict: which heads agree on what, and which of them are counted."""

from dataclasses import replace

import pytest

from heads.classifier.prediction import Prediction
from heads.evaluation.statistics import Scores
from heads.interpret.comparison import Comparison, is_unanimous, rightness, verdict
from heads.problem import MULTI_LABEL, SINGLE_LABEL
from heads.recipe import Recipe


def predicted(
    name: str, *answer: str, classes: str = "a b c", new: bool = False, own: bool = False
) -> Prediction:
    scores = Scores(rows=1, accuracy=1.0, low=0.2, high=1.0, majority=0.5)
    return Prediction(
        recipe=Recipe.parse("mean+linear"),
        name=name,
        classes=tuple(classes.split()),
        problem=SINGLE_LABEL,
        new=("classifier.weight",) if new else (),
        logits=(0.0, 0.0),
        probabilities=(0.9, 0.1),
        answer=answer,
        margin=0.8,
        parameters=1,
        trained_on="made up",
        rows=0 if own else 1,
        scores=None if own else scores,
    )


ONE, TWO, THREE, FOUR = (predicted(*pair) for pair in zip("1234", "aabb", strict=True))
LOUD = predicted("own", "A", classes="A B C", own=True)
ELSE = predicted("own", "x", classes="x y", own=True)
RANDOM = predicted("own", "b", new=True, own=True)
RANDOM_ELSE = predicted("own", "x", classes="x y", new=True, own=True)
OTHER, NONE, BOTH = predicted("5", "c"), predicted("6"), predicted("7", "a", "b")
STREET = predicted("own", "STRASSE", classes="STRASSE WEG", own=True)
CLOSE = replace(predicted("8", "a"), probabilities=(0.6, 0.4), margin=0.2)


@pytest.mark.parametrize(
    ("predictions", "says", "unanimous"),
    [
        ([ONE], "1 says a.", True),
        ([ONE, TWO], "Both heads agree: a.", True),
        ([ONE, TWO, ONE], "All 3 heads agree: a.", True),
        ([ONE, THREE], "The two heads disagree: 1 says a; 3 says b.", False),
        ([ONE, THREE, TWO], "2 of 3 heads agree: a. 3 says b.", False),
        ([THREE, ONE, TWO], "2 of 3 heads agree: a. 3 says b.", False),
        ([ONE, THREE, OTHER], "The 3 heads disagree: 1 says a; 3 says b; 5 says c.", False),
        (
            [ONE, THREE, FOUR, TWO],
            "The heads are split: 1 says a; 3 says b; 4 says b; 2 says a.",
            False,
        ),
        ([NONE, NONE], "Both heads agree: none of the classes.", True),
        ([BOTH], "7 says a, b.", True),
        ([NONE, BOTH], "The two heads disagree: 6 says none of the classes; 7 says a, b.", False),
        ([ONE, CLOSE], "The two heads disagree: 1 says a; 8 is undecided.", False),
        ([LOUD], "own says A.", True),
        ([LOUD, ONE], "Both heads agree: A.", True),
        ([ONE, LOUD], "Both heads agree: a.", True),
        ([LOUD, ONE, TWO], "All 3 heads agree: A.", True),
        ([LOUD, ONE, THREE], "2 of 3 heads agree: A. 3 says b.", False),
        ([ELSE], "own says x.", True),
        ([ELSE, ONE], "1 says a. Of its own classes, own says x.", False),
        ([ONE, ELSE, TWO], "Both heads agree: a. Of its own classes, own says x.", False),
        ([RANDOM], "own is a random head: what it says means nothing.", True),
        ([RANDOM, ONE], "1 says a.", True),
        ([ONE, TWO, RANDOM], "Both heads agree: a.", True),
        ([ONE, RANDOM, THREE], "The two heads disagree: 1 says a; 3 says b.", False),
        ([RANDOM_ELSE, ONE, TWO], "Both heads agree: a.", True),
        (
            [STREET, predicted("1", "Straße", classes="Straße Weg")],
            "Both heads agree: STRASSE.",
            True,
        ),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_the_verdict_counts_each_head_where_it_belongs(
    predictions: list[Prediction], says: str, unanimous: bool
) -> None:
    assert verdict(predictions) == says
    assert is_unanimous(predictions) is unanimous


def test_a_head_is_undecided_where_its_accuracy_is_known_no_better() -> None:
    assert CLOSE.is_undecided  # the interval of its accuracy goes from 0.2 to 1
    assert CLOSE.scores is not None
    assert not replace(CLOSE, scores=replace(CLOSE.scores, low=0.95)).is_undecided
    assert not replace(CLOSE, problem=MULTI_LABEL).is_undecided
    assert rightness([CLOSE], "a") == "The right answer is a."
    found = Comparison(
        model="m",
        revision="r",
        text="t",
        pair="",
        sample="s",
        classes=("a", "b", "c"),
        problem=SINGLE_LABEL,
        predictions=(ONE, CLOSE),
        notes=(),
    )
    assert [one["undecided"] for one in found.as_json()["recipes"]] == [False, True]
