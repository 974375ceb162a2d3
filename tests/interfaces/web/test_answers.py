"""Where one is, and what answers a question: without a browser."""

from dataclasses import replace
from types import SimpleNamespace

import gradio as gr
import pytest
from hypothesis import given
from hypothesis import strategies as st

from heads.data.samples import PAIR_RECIPES
from heads.errors import HeadsError
from heads.interfaces.web.location import OPENING, PLACES, Location
from heads.interfaces.web.places import builder
from heads.interfaces.web.places.answers import PendingQuestion, PendingQuestions, answering, line
from heads.interfaces.web.places.try_it import TryHandlers, _turned, settings_of

TEXTS = st.text(max_size=30)


@given(
    st.builds(
        Location,
        place=st.sampled_from(PLACES),
        text=TEXTS,
        pair=TEXTS,
        sample=st.sampled_from(["sentiment", "pairs", "aspects"]),
        run=st.sampled_from(["", "abc-123"]),
        recipes=st.lists(
            st.sampled_from(["mean+linear", "cls@4+mlp?hidden=8"]), min_size=1, unique=True
        ).map(tuple),
        lane=st.integers(0, 4),
        show=st.sampled_from(["why", "take"]),
        result=st.sampled_from(["", "x-1"]),
        head=st.sampled_from(["", "mean+linear?loss=ovr"]),
    )
)
def test_a_link_restores_where_one_is(there):
    there = there.suited()
    is_there = there.lane <= len(there.recipes)
    assert Location.of(there.query) == (there if is_there else replace(there, lane=0))


@given(st.text(max_size=200))
def test_no_link_breaks_the_page(query):
    there = Location.of("?" + query)
    assert Location.of(there.query) == there


def test_links_of_earlier_versions_are_read():
    there = Location.of("?text=Fine&sample=intents&recipes=mean+linear%2Ccls%2Broberta&pairs=joint")
    assert (there.place, there.text, there.sample) == ("try", "Fine", "intents")
    assert there.recipes == ("mean+linear", "cls+roberta")
    many = Location.of("?recipes=mean+linear,cls+linear,max+linear,last+linear,mean+mlp&lane=4")
    assert len(many.recipes) == 4
    assert Location.of("?recipes=mean+linear&lane=4").lane == 0


def test_warm_heads_answer_in_one_step():
    list(answering(PendingQuestion(asked=OPENING)))
    (shown,) = answering(PendingQuestion(asked=OPENING))
    assert shown["lanes"].count('class="lane"') == 4
    assert '<option value="mean">' in shown["line"]
    assert "of the sample “Sentiment”" in shown["under"]


@pytest.mark.parametrize(
    ("query", "says"),
    [
        ("?text=", "Type a sentence"),
        ("?text=a&sample=similarity", "Type the second sentence as well"),
        ("?text=a&recipes=nonsense", "is not a recipe"),
        ("?text=a&model=/etc/passwd", ""),
    ],
)
def test_what_cannot_be_answered_is_said_and_the_answers_stay(query, says):
    *_, shown = answering(PendingQuestion(asked=Location.of(query)))
    assert says in shown["error"]
    assert 'role="alert"' in shown["error"]
    assert "lanes" not in shown


@pytest.mark.parametrize(
    ("query", "cancelled", "says"),
    [
        ("?text=a&recipes=mean+linear,attention+knn", set(), "cannot be trained together"),
        ("?text=a&recipes=mean@2+mlp?hidden=7,mean+linear", {1}, "cancelled"),
    ],
)
def test_a_head_that_does_not_answer_says_why_in_its_own_lane(query, cancelled, says):
    question = PendingQuestion(asked=Location.of(query), cancelled=cancelled)
    *_, shown = answering(question)
    assert "error" not in shown
    assert says in shown["lanes"]
    assert shown["lanes"].count(" held-out texts (") == 1


def test_a_second_sentence_takes_the_heads_of_the_pairs():
    handlers, visitor = TryHandlers(PendingQuestions()), SimpleNamespace(session_hash="me")
    texts = ("The bridge is closed.", "The bridge is shut.")
    steps = handlers.changed(OPENING.query, *texts, visitor)
    assert next(steps)["verdict"] == ""
    asked = next(steps)
    assert asked["source"] == "sample:pairs"
    assert Location.of(asked["query"]).recipes == PAIR_RECIPES


def test_a_lane_can_be_cancelled_however_its_head_came_there():
    handlers = TryHandlers(PendingQuestions())
    visitor = SimpleNamespace(session_hash="me")
    asked = Location.of("?text=a&recipes=mean@2+mlp?hidden=9,mean+linear")
    stream = handlers.with_settings(asked, [], visitor)
    event = gr.EventData(None, {"fields": {"do": "cancel", "lane": "1"}})
    next(stream)
    handlers.cancel(event, visitor)
    *_, values = stream
    assert "cancelled" in values["lanes"]
    assert values["lanes"].count(" held-out texts (") == 1


def test_another_question_ends_the_one_that_is_waited_for():
    handlers = TryHandlers(PendingQuestions())
    visitor = SimpleNamespace(session_hash="me")
    asked = Location.of("?text=a&recipes=mean@3+mlp?hidden=9,mean@3+mlp?hidden=8")
    stream = handlers.with_settings(asked, [], visitor)
    next(stream)
    handlers.interrupted("a", "", visitor)  # the page itself has filled the box
    assert not handlers.questions.of("me").is_over
    handlers.interrupted("b", "", visitor)
    assert all("held-out" not in str(values) for values in stream)
    *_, values = handlers.answers(replace(asked, recipes=("mean+linear",)), visitor)
    assert values["lanes"].count(" held-out texts (") == 1


def test_a_run_that_is_gone_gives_way_to_a_sample_and_says_so():
    handlers, visitor = TryHandlers(PendingQuestions()), SimpleNamespace(session_hash="me")
    *_, values = handlers.with_settings(Location.of("?run=gone&text=a"), [], visitor)
    assert "no such run" in values["error"]
    assert "those of a sample" in values["error"]
    assert values["lanes"].count(" held-out texts (") == 4


def test_another_sample_keeps_words_of_ones_own_and_changes_those_to_try():
    own = Location.of("?text=My own words")
    assert _turned(own, "", "sample:aspects", "").text == "My own words"
    assert _turned(OPENING, "", "sample:aspects", "").text.startswith("Lovely colour")
    pairs = _turned(OPENING, "", "sample:pairs", "")
    assert (pairs.sample, bool(pairs.pair)) == ("pairs", True)
    assert settings_of(pairs)["pair"]["visible"]


def test_a_choice_does_not_take_back_the_next_one_in_its_menu():
    handlers, visitor = TryHandlers(PendingQuestions()), SimpleNamespace(session_hash="a")
    task = "sample:pairs"
    steps = handlers.turned(visitor, OPENING.query, OPENING.text, "", "", task, "", False)
    settings = next(steps)
    assert "source" not in settings  # by then the menu may show another task
    assert settings["pair"]["value"]


def test_a_draft_follows_menus_and_line():
    draft = {"recipe": "mean+linear", "lane": 2}
    found = builder.apply_menus(draft, {"pooling": "cls", "head": "mlp"})
    assert found == {"recipe": "cls+mlp", "lane": 2}
    found = builder.apply_form(found, {"recipe": "cls+mlp", "layer": "cat4", "option_hidden": "32"})
    assert found == {"recipe": "cls@cat4+mlp?hidden=32", "lane": 2}
    found = builder.apply_menus(found, {"pooling": "mean", "head": "linear"})
    assert found == {"recipe": "mean@cat4+linear", "lane": 2}  # the layer stays
    tuned = {"recipe": "mean+mlp?hidden=32&tune=last2", "lane": 2}
    found_tuned = builder.apply_menus(tuned, {"pooling": "cls", "head": "linear"})
    assert found_tuned["recipe"] == "cls+linear?tune=last2"
    found = builder.apply_form(found, {"recipe": "max+linear"})
    assert builder.place_draft(OPENING, found).recipes[1] == "max+linear"
    own = {"recipe": "own", "lane": 1}
    assert builder.apply_form(own, {"recipe": "own"}) == own
    with pytest.raises(HeadsError, match="is in lane 1 already"):
        builder.place_draft(OPENING, {"recipe": "cls+linear", "lane": 2})
    assert len(builder.remove_lane(OPENING, found).recipes) == 3
    assert "Did you mean" in builder.draw_draft(OPENING, {"recipe": "mean+lineer", "lane": 1})


def test_the_menus_have_every_part_once():
    from heads.parts.resolve import head, pooling

    html = str(line(OPENING, 3))
    for name in (*pooling, *head):
        assert html.count(f'<option value="{name}"') == 1
    assert '<option value="roberta" selected>' in html
    assert html.index("One linear layer") < html.index("Closed form")
