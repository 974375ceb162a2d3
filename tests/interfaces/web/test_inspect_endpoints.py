"""The endpoints that look inside heads answer as Python does."""

import pytest
from gradio_client import Client
from gradio_client.exceptions import AppError

import heads

TEXT, HEADS = "Not bad at all.", ["mean+linear", "cls+roberta"]


@pytest.fixture(scope="module")
def client(page_url):
    return Client(page_url, verbose=False)


def test_look_answers_with_scores_that_add_up(client):
    found = client.predict(TEXT, "", HEADS, api_name="/inspect")
    for one, same in zip(
        found["attributions"], heads.Inspector(recipes=HEADS).attribute(TEXT), strict=True
    ):
        scores = [token["score"] for token in one["tokens"]]
        assert scores == pytest.approx([token.score for token in same.tokens], abs=1e-5)
        assert one["completeness_error"] < 0.01
    assert len(found["nearest"][0]["neighbours"]) == 5


def test_a_class_and_what_it_is_held_against_can_be_asked_for(client):
    asked = (TEXT, "", HEADS, "all-MiniLM-L6-v2", "", "", "negative", "runner-up")
    for one in client.predict(*asked, api_name="/inspect")["attributions"]:
        assert one["label"] == "negative"
        assert one["rival"] in ("neutral", "positive")
        total = sum(token["score"] for token in one["tokens"])
        assert total == pytest.approx(one["value"] - one["value_on_blanks"], rel=0.011)


def test_edit_ablate_and_readings(client):
    found = client.predict(TEXT, ["Bad at all."], "", HEADS, api_name="/edit")
    assert found["summary"] == heads.Inspector(recipes=HEADS).flips(TEXT, ["Bad at all."]).summary
    found = client.predict(TEXT, "", HEADS, without="dense", api_name="/ablate")
    assert [one["layer"] for one in found] == ["dense"]
    assert found[0]["retrained"]["name"] == "cls+roberta?without=dense"
    bare = client.predict(TEXT, "", HEADS, without="dense", retrain=False, api_name="/ablate")
    assert bare[0]["retrained"] is None
    found = client.predict(TEXT, "", HEADS, temperature=2.0, api_name="/readings")
    assert sum(found[0]["tempered"]) == pytest.approx(1)


@pytest.mark.parametrize(
    ("call", "arguments", "sentence"),
    [
        ("/inspect", {"text": ""}, "The sentence is empty."),
        ("/edit", {"edits": []}, "no edited sentence"),
        ("/ablate", {"recipes": HEADS, "without": "tahn"}, "no layer"),
        ("/readings", {"recipes": HEADS, "temperature": 99.0}, "The temperature must lie"),
    ],
)
def test_what_does_not_fit_is_a_sentence(client, call, arguments, sentence):
    with pytest.raises(AppError, match=sentence):
        client.predict(**{"text": TEXT, **arguments}, api_name=call)
