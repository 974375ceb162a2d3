"""What looks inside heads, drawn: HTML that shows numbers beside colours and escapes every text."""

from dataclasses import replace

import pytest

from heads.interfaces.views import interpretation
from heads.interpret.ablation import Ablation, Effect, Worth
from heads.interpret.attribution_result import Attribution, Token
from heads.interpret.counterfactuals import Counterfactual, Counterfactuals, pieces
from heads.interpret.neighbors import Neighbour, Neighbourhood
from heads.interpret.outputs import HeadOutput, read_output
from heads.problem import REGRESSION, SINGLE_LABEL

HOSTILE = "<script>x</script>"
SAID = HeadOutput(
    name="a+b",
    classes=("x", "y"),
    logits=(1.0, -1.0),
    probabilities=(0.88, 0.12),
    answer=("x",),
    problem=SINGLE_LABEL,
)


def attribution(**other):
    tokens = tuple(
        Token(text=text, side=side, score=score, gradient_times_input=0.25, read=0.5)
        for text, side, score in (("[CLS]", "", 0.0), (HOSTILE, "text", 1.5), ("b", "pair", -0.75))
    )
    facts = {"name": "a+b", "label": "x", "answer": ("x",), "logit": 1.0, "baseline": 0.25,
             "value": 1.5, "value_on_blanks": 0.75, "against": "others", "span": 2.0,
             "blank": "[MASK]", "tokens": tokens, "completeness_error": 0.001,
             "steps": 32}  # fmt: skip
    return Attribution(**(facts | other))


@pytest.mark.parametrize(
    ("facts", "has", "has_not"),
    [
        (
            {},
            ["+1.50", "−0.75", 'class="read for"', 'class="read against"', "0.10 %",
             "the logit of x less the mean of the others is +1.500, and +0.750 with"],
            ["<script>", "(it answers"],
        ),
        ({"answer": ("y",)}, ["(it answers y)"], []),
        ({"completeness_error": 0.02}, ["not closely"], []),
        ({"measured_on": "logits"}, ["of the logits&#39; span"], []),
        (
            {"why_not": "It counts votes."},
            ["It counts votes."], ["+1.50", 'class="reading"', "What speaks for"],
        ),
    ],
)  # fmt: skip
def test_every_score_is_written_and_what_to_know_of_it(facts, has, has_not):
    html = interpretation.attribution(attribution(**facts))
    assert [told for told in has if told not in html] == []
    assert [told for told in has_not if told in html] == []


def test_a_number_has_no_class_to_speak_for():
    one = attribution(name="cls+linear", label="label", answer=(), against="", value=-1.25)
    html = interpretation.attribution(one, is_number=True)
    for told in ("What moves the number", "raises the number", "cls+linear: the number is −1.250"):
        assert told in html
    assert "label" not in html


def test_it_is_written_where_the_second_text_begins():
    html = interpretation.attribution(attribution())
    assert html.count("second text</span>") == 1
    assert html.index("second text</span>") < html.index(">b</b>")
    alone = attribution(tokens=attribution().tokens[:2])
    assert "second text" not in interpretation.attribution(alone)


def test_neighbours_with_labels_and_similarity():
    near = Neighbour(text=HOSTILE, pair="second", labels=("x",), similarity=0.875, line=3)
    one = Neighbourhood(name="a+b", answer="x", neighbours=(near,), searched=1200, alike=1)
    html = interpretation.neighbours([one])
    assert "similarity 0.88" in html
    assert "1,200 texts" in html
    assert "<script>" not in html
    assert "not known here" in interpretation.neighbours([])


def test_flips_are_marked_in_words():
    original = Counterfactual(
        text="Not bad", pair="", pieces=pieces("Not bad", "Not bad"), said=(SAID,), flips=(False,)
    )
    turned = replace(SAID, logits=(-1.0, 1.0), probabilities=(0.12, 0.88), answer=("y",))
    edit = Counterfactual(
        text=HOSTILE, pair="", pieces=pieces("Not bad", HOSTILE), said=(turned,), flips=(True,)
    )
    html = interpretation.edits(Counterfactuals(original=original, edits=(edit,)))
    assert "<del>Not bad</del>" in html
    assert html.count("flips</span>") == 1
    assert "y 88 %" in html
    assert "<script>" not in html


def test_layers_before_and_after():
    effect = Effect(rows=105, changed=68, before=0.619, after=0.352)
    one = Ablation(name="a+b", layer="dense", does="dense layer", before=SAID, after=SAID,
                   effect=effect)  # fmt: skip
    html = interpretation.ablations([one])
    assert "from 61.9 to 35.2 % right" in html
    assert html.count("+1.000") == 2
    assert "trained without" not in html
    worth = Worth(metric="accuracy", rows=105, seeds=3, whole=0.62, without=0.61, difference=0.01,
                  low=-0.05, high=0.07)  # fmt: skip
    anew = replace(SAID, logits=(0.5, -0.5))
    html = interpretation.ablations([replace(one, retrained=anew, worth=worth)])
    assert "taken out</th><th>trained without dense</th>" in html
    assert "+0.500" in html
    assert "answers 61.0 % right; with dense it answers 62.0 % right" in html
    assert "is +1.0 points on 105 tested rows (95 %: −5.0 to +7.0; over 3 seeds)" in html
    none = Ablation(name="a+b", layer="dense", does="", before=SAID, after=None, why_not="No.")
    assert "<table" not in interpretation.ablations([none])
    assert "a single linear layer" in interpretation.ablations([])


@pytest.mark.parametrize(("temperature", "share"), [(1.0, "88 %"), (10.0, "55 %")])
def test_temperature_redraws_the_same_logits(temperature, share):
    html = interpretation.tempered(read_output(SAID, temperature), "#4f6bed")
    assert share in html
    assert f"At temperature {temperature:g}" in html


def test_numbers_are_a_row_a_class_read_in_two_ways():
    html = interpretation.numbers(read_output(SAID), (0.5, 0.25))
    assert "+1.000" in html
    assert "88 %" in html
    assert "73 %" in html
    assert "25 %" in html
    assert "which one class is it?" in html
    assert interpretation.number_rows(SAID)[1][0] == ["a+b", "x", 1.0, 0.88]


def test_a_number_has_no_probability():
    number = replace(
        SAID, classes=("label",), logits=(-1.96,), probabilities=(-1.96,), answer=(),
        problem=REGRESSION,
    )  # fmt: skip
    html = interpretation.numbers(read_output(number))
    assert "−1.960" in html
    assert "%" not in html
    assert interpretation.number_rows(number) == (
        ["recipe", "class", "logit"],
        [["a+b", "label", -1.96]],
    )
    gone = Ablation(name="a+b", layer="dense", does="dense layer", before=number, after=number)
    html = interpretation.ablations([gone])
    assert "<th>number</th>" in html
    assert "logit of" not in html
