"""Figures and drawings as values: valid for Plotly, equal ranges, nothing foreign as markup."""

import json
import re

import plotly.graph_objects as go
import pytest
from hypothesis import given
from hypothesis import strategies as st

from heads.api import compare, explain
from heads.interfaces.views import comparison as view
from heads.interfaces.views import explanation as layers_view

COLOUR = re.compile(r"#[0-9a-f]{6}|rgba\([\d.,]+\)")


@pytest.fixture(scope="module")
def comparison():
    return compare("Not bad at all.", recipes=["mean+linear", "cls+roberta"])


@pytest.fixture(params=[True, False], ids=["probabilities", "logits"])
def figure(request, comparison):
    prediction = comparison.predictions[0]
    percent = request.param
    return view.bars(
        comparison.classes,
        prediction.probabilities if percent else prediction.logits,
        answer=prediction.answer,
        colour=view.COLOURS[0],
        span=view.probability_span() if percent else view.logit_span([prediction.logits]),
        percent=percent,
    )


def test_plotly_accepts_the_figure_whole(figure):
    drawn = json.loads(go.Figure(figure).to_json())
    assert drawn["data"][0]["marker"]["cornerradius"] == 3
    assert "template" not in figure["layout"]


def test_colours_are_ones_that_every_plotly_draws(figure):
    text = json.dumps(figure)
    for name in ("color", "gridcolor", "zerolinecolor", "paper_bgcolor"):
        for value in re.findall(rf'"{name}": "([^"]+)"', text):
            assert COLOUR.fullmatch(value), value


def test_the_answer_alone_is_coloured_and_every_number_is_printed(figure):
    trace = figure["data"][0]
    assert trace["marker"]["color"].count(view.COLOURS[0]) == 1
    assert len(trace["text"]) == 3


def test_percent_has_its_space_and_a_single_bar_room_for_its_axis():
    one = {"answer": (), "colour": view.COLOURS[0], "span": (0.0, 1.3)}
    shares = view.bars(["a"], [0.344], percent=True, **one)
    assert shares["data"][0]["text"] == ["34 %"]
    assert shares["layout"]["xaxis"]["ticktext"] == ["0 %", "50 %", "100 %"]
    assert shares["layout"]["minreducedheight"] < shares["layout"]["height"]
    assert view.bars(["a"], [-0.5], percent=False, **one)["data"][0]["text"] == ["−0.5"]


@given(st.lists(st.lists(st.floats(-50, 50), min_size=1, max_size=5), min_size=1, max_size=4))
def test_one_range_holds_the_logits_of_all_recipes(logits):
    low, high = view.logit_span(logits)
    assert all(low <= value <= high for row in logits for value in row)
    assert low <= 0 <= high


@given(st.text())
def test_escaped_text_holds_no_tag_link_template_or_mathematics(text):
    escaped = view.escape(text)
    assert "<" not in escaped
    assert "$" not in escaped
    assert "%{" not in escaped
    assert escaped.isprintable() or "\u200b" in escaped


def test_hostile_labels_and_words_are_escaped_in_every_drawing(comparison):
    hostile = '<img src=x onerror="x">'
    explanation = explain("mean+linear", hostile)
    for drawing in (
        layers_view.reading(explanation),
        view.failure(hostile),
        view.legend([(hostile, hostile)]),
        layers_view.difference(hostile),
        view.chart_name(hostile),
    ):
        assert "<img" not in drawing
    assert "&lt;" in layers_view.reading(explanation)


def test_cards_show_the_held_out_accuracy_that_the_shell_prints(comparison):
    shown = view.accuracy(comparison.predictions[0].scores)
    assert shown in view.cards(comparison)
    assert re.fullmatch(r"\d+\.\d % \(\d+\.\d to \d+\.\d\)", shown)
