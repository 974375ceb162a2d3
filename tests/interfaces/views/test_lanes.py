"""The lanes of Try as values: what each reads, its numbers, its answer; no foreign markup."""

import re

import pytest

from heads.api import compare
from heads.data.samples import SAMPLES
from heads.interfaces.views import lanes as view

HOSTILE = '<script>alert("x")</script>'


def drawn(comparison):
    found = [view.lane(one, number) for number, one in enumerate(comparison.predictions, 1)]
    return str(view.lanes(found))


@pytest.fixture(scope="module")
def comparison():
    return compare("Not bad at all.", recipes=["cls+linear", "mean+linear", "cls+roberta"])


def test_every_lane_prints_its_numbers_and_shades_what_it_reads(comparison):
    html = drawn(comparison)
    for one in comparison.predictions:
        for logit in view.logits_shown(one.logits):
            assert logit in html
    assert html.count("--shade:60%") == 1 + 7 + 1  # one token, all seven, one token
    assert "dense layer" in html
    assert len(re.findall(r"\d+ % of 84 held-out texts \(\d+–\d+\)", html)) == 3


def test_the_verdict_is_in_everyday_words_and_says_who_differs():
    comparison = compare("I laughed, but not where I was meant to.")
    assert view.lead(comparison) == "Three say negative; First token → One layer says positive."
    assert view.lead(compare("Lovely.")) == "All four heads say positive."
    alone = compare("Lovely.", recipes=["mean+linear"])
    assert view.lead(alone) == "Average → One layer says positive."


def test_several_labels_have_marks_and_numbers_no_bars(tiny):
    asked = {"recipes": ["mean+linear"], "model": str(tiny())}
    html = drawn(compare(SAMPLES["aspects"].tries[0][0], sample="aspects", **asked))
    assert "from its own threshold" in html
    assert "<em style=" in html
    html = drawn(compare(*SAMPLES["similarity"].tries[0], sample="similarity", **asked))
    assert "Spearman" in html
    assert "width:" not in html


def test_of_many_classes_the_likeliest_are_shown(tiny):
    asked = {"recipes": ["mean+linear"], "model": str(tiny())}
    html = drawn(compare("the late cat", sample="intents", **asked))
    assert html.count("<small>") == 4
    assert "and 6 less likely" in html


def test_two_texts_read_each_by_itself_stand_one_after_the_other(tiny):
    asked = {"recipes": ["mean+linear"], "model": str(tiny())}
    (one,) = compare("A dog.", "A cat.", pairs="uv_diff", **asked).predictions
    assert sum(share for _, share in one.reads) == pytest.approx(2, abs=1e-5)


def test_foreign_words_and_names_are_escaped_everywhere(comparison):
    html = drawn(compare(HOSTILE, recipes=["mean+linear"]))
    assert "<script" not in html
    lane = view.Lane(number=1, recipe=HOSTILE, title=HOSTILE, state=HOSTILE, share=0.5)
    assert "<script" not in view.lanes([lane])


def test_a_lane_that_waits_has_its_progress_and_can_be_cancelled():
    waits, *_ = view.waiting(["mean+linear"])
    html = view.lanes([waits, view.Lane(number=2, recipe="a", title="A", state="x", share=0.5)])
    assert html.count("<progress") == 1
    assert html.count('data-do="cancel"') == 1
    again = view.lanes([view.Lane(number=1, recipe="a", title="A", state="cancelled")])
    assert 'data-do="again"' in again
