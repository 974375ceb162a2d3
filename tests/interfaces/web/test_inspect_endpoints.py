"""The endpoints that look inside heads answer as Python does."""

from dataclasses import replace

import pytest
from gradio_client import Client
from gradio_client.exceptions import AppError

import heads
from heads.data.samples import SAMPLES
from heads.interfaces.web.location import Location
from heads.interfaces.web.places import open_lane

TEXT, HEADS = "Not bad at all.", ["mean+linear", "cls+roberta"]


@pytest.fixture(scope="module")
def client(page_url):
    return Client(page_url, verbose=False)


def test_look_answers_with_scores_that_add_up(client):
    found = client.predict(TEXT, "", HEADS, api_name="/look")
    for one, same in zip(
        found["attributions"], heads.Inspector(recipes=HEADS).attribute(TEXT), strict=True
    ):
        scores = [token["score"] for token in one["tokens"]]
        assert scores == pytest.approx([token.score for token in same.tokens], abs=1e-5)
        assert one["completeness_error"] < 0.01
    assert len(found["nearest"][0]["neighbours"]) == 5


def test_a_class_and_what_it_is_held_against_can_be_asked_for(client):
    asked = (TEXT, "", HEADS, "all-MiniLM-L6-v2", "", "", "negative", "runner-up")
    for one in client.predict(*asked, api_name="/look")["attributions"]:
        assert one["label"] == "negative"
        assert one["rival"] in ("neutral", "positive")
        total = sum(token["score"] for token in one["tokens"])
        assert total == pytest.approx(one["value"] - one["value_on_blanks"], rel=0.011)


def test_edit_ablate_and_readings(client):
    found = client.predict(TEXT, ["Bad at all."], "", HEADS, api_name="/edit")
    assert found["summary"] == heads.Inspector(recipes=HEADS).flips(TEXT, ["Bad at all."]).summary
    found = client.predict(TEXT, "", HEADS, "dense", api_name="/ablate")
    assert [one["layer"] for one in found] == ["dense"]
    assert found[0]["retrained"]["name"] == "cls+roberta?without=dense"
    bare = (TEXT, "", HEADS, "dense", "", "", False)
    assert client.predict(*bare, api_name="/ablate")[0]["retrained"] is None
    found = client.predict(TEXT, "", HEADS, 2.0, api_name="/readings")
    assert sum(found[0]["tempered"]) == pytest.approx(1)


@pytest.mark.parametrize(
    ("call", "arguments", "sentence"),
    [
        ("/look", ("",), "The sentence is empty."),
        ("/edit", (TEXT, []), "no edited sentence"),
        ("/ablate", (TEXT, "", HEADS, "tahn"), "no layer"),
        ("/readings", (TEXT, "", HEADS, 99.0), "The temperature must lie"),
    ],
)
def test_what_does_not_fit_is_a_sentence(client, call, arguments, sentence):
    with pytest.raises(AppError, match=sentence):
        client.predict(*arguments, api_name=call)


def test_what_the_head_could_not_read_is_said():
    asked = Location(text="word " * 400, recipes=("mean+linear",), lane=1)
    first, *_, last = open_lane.why(asked, "", "others")
    assert first[3:6] == ["", "", ""]  # what stood there of another text goes at once
    assert last[3].count("not read: the base model takes no more") == 1
    unknown = Location(text="Good ☃ 猫猫!", recipes=("mean+linear",), lane=1)
    *_, last = open_lane.why(unknown, "", "others")
    assert last[3].count("the base model does not know these signs") == 1
    assert "What speaks for" in last[3]
    assert "nearest training examples" in last[4]


@pytest.mark.parametrize("power", [None, "warm", 1.5, -2])
def test_a_temperature_out_of_range_is_a_sentence(power):
    asked = Location(text="Fine.", recipes=("mean+linear",), lane=1)
    assert "from −1 to 1" in open_lane.numbers(asked, power)[0]


def test_a_lane_shows_its_numbers_chain_and_what_sets_it_apart():
    asked = Location(text="Fine.", recipes=("mean+linear", "cls+roberta"), lane=2)
    table, slider, warm, csv = open_lane.numbers(asked, 0.5)
    assert "positive" in table
    assert slider["visible"]
    assert "At temperature 3.2" in warm
    assert csv.count("cls+roberta") == 3
    chain, other, apart = open_lane.how(asked, "")
    assert "classifier.out_proj" in chain
    assert other["value"] == "mean+linear"
    assert "dense" in apart


def test_numbers_have_no_classes_to_choose_from():
    text, pair = SAMPLES["similarity"].tries[0]
    recipes = ("mean+linear",)
    asked = Location(text=text, pair=pair, sample="similarity", recipes=recipes, lane=1)
    *_, last = open_lane.why(asked, "", "others")
    assert not last[1]["visible"]
    assert "What moves the number" in last[3]
    table, slider, warm, _ = open_lane.numbers(asked, 0)
    assert (slider["visible"], warm) == (False, "")
    assert "%" not in table


def test_a_head_is_trained_without_a_layer_where_that_is_asked_for():
    asked = Location(text="Not bad at all.", recipes=("cls+roberta",), lane=1)
    *_, last = open_lane.retrained(asked)
    assert "trained without" in last
    *_, refused = open_lane.retrained(replace(asked, text=" "))
    assert 'role="alert"' in refused


def test_edits_are_answered_by_all_lanes():
    asked = Location(text="Not bad at all.", recipes=("mean+linear", "cls+linear"), lane=1)
    html = open_lane.edited(asked, "Bad.\n\nGood.")
    assert html.count("<tr>") == 4  # head, the sentence itself, two edits
    assert "cls+linear" in html
