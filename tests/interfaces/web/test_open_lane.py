"""An opened lane as its handlers answer it, and what of that is waited for."""

import re
from dataclasses import replace
from types import SimpleNamespace

import gradio as gr
import pytest

from heads.classifier.calibration import CALIBRATED
from heads.data.samples import SAMPLES
from heads.events import result
from heads.interfaces.web.lane_sections import SectionParts
from heads.interfaces.web.location import Location
from heads.interfaces.web.places import builder, lane_answers, open_lane

PARTS = SectionParts(outputs=[])


def stands(stream):
    """What stands in the section Why in the end."""
    found = {}
    for values in stream:
        told = zip(lane_answers.WHY, values, strict=True)
        found |= {name: one for name, one in told if one != gr.skip()}
    return found


def visitor(name="somebody"):
    return SimpleNamespace(session_hash=name)


def test_another_lane_ends_what_is_told_of_the_one_before():
    panel = open_lane.PanelHandlers()
    first = Location(text="Fine.", recipes=("mean+linear", "cls+linear"), lane=1)
    second, other = replace(first, lane=2), visitor("another")
    told, elsewhere = (panel.load(first, PARTS, ["", ""], one) for one in (visitor(), other))
    next(told), next(elsewhere)
    assert panel.moved(first.query, visitor()) == [gr.skip()] * 2  # nothing else is open
    heading, _ = panel.moved(second.query, visitor())
    assert "cls+linear" in heading
    assert list(told) == []
    assert stands(panel.load(second, PARTS, ["", ""], visitor()))["status"] == ""
    assert list(panel.load(second, PARTS, ["", ""], visitor())) == []  # it stands there already
    assert stands(elsewhere)["status"] == ""
    heading, _ = panel.moved(replace(second, lane=0).query, visitor())
    assert not heading  # so page.css hides the panel
    assert stands(panel.load(second, PARTS, ["", ""], visitor()))["tokens"]


def test_the_panel_follows_words_once_they_have_settled(monkeypatch):
    monkeypatch.setattr(open_lane, "PAUSE", 0.1)
    panel, asked = open_lane.PanelHandlers(), Location(text="Fine.", lane=1)
    next(panel.load(asked, PARTS, ["", ""], visitor()))
    typed, more = replace(asked, text="Bad"), replace(asked, text="Bad.")
    panel.moved(typed.query, visitor())
    monkeypatch.setattr("time.sleep", lambda _: panel.moved(more.query, visitor()))
    assert list(panel.load(typed, PARTS, ["", ""], visitor())) == []
    monkeypatch.undo()
    assert "bad" in stands(panel.load(more, PARTS, ["", ""], visitor()))["tokens"]


def test_words_do_not_hang_on_a_head_that_is_taken_along():
    asked = Location(text="Fine.", lane=1, show="take")
    assert open_lane.opens_the_same(asked, replace(asked, text="Bad.", head="mean+linear"))
    assert not open_lane.opens_the_same(asked, replace(asked, lane=2))
    why = replace(asked, show="why")
    assert not open_lane.opens_the_same(why, replace(why, text="Bad."))


def test_what_the_head_could_not_read_is_said():
    asked = Location(text="word " * 400, recipes=("mean+linear",), lane=1)
    first, *rest = lane_answers.why(asked, "", "others")
    assert first[3:6] == ["", "", ""]  # what stood there of another text goes at once
    assert stands(rest)["tokens"].count("not read: the base model takes no more") == 1
    assert sum(one[3] != gr.skip() for one in rest) == 1
    unknown = Location(text="Good ☃ 猫猫!", recipes=("mean+linear",), lane=1)
    found = stands(lane_answers.why(unknown, "", "others"))
    assert found["tokens"].count("the base model does not know these words") == 1
    assert "What speaks for" in found["tokens"]
    assert "nearest training examples" in found["near"]
    assert found["status"] == ""


@pytest.mark.parametrize("power", [None, "warm", 1.5, -2])
def test_a_temperature_out_of_range_is_a_sentence(power):
    asked = Location(text="Fine.", recipes=("mean+linear",), lane=1)
    told = lane_answers.apply_temperature(asked, power)
    assert 'role="alert"' in told
    assert "from −1 to 1" in told


def test_a_lane_shows_its_numbers_chain_and_what_sets_it_apart():
    asked = Location(text="Fine.", recipes=("mean+linear", "cls+roberta"), lane=2)
    table, slider, warm = next(lane_answers.numbers(asked))
    assert "positive" in table
    assert slider["visible"]
    assert "At temperature 1:" in warm
    assert "At temperature 3.2" in lane_answers.apply_temperature(asked, 0.5)
    assert lane_answers.numbers_csv(asked).count("cls+roberta") == 3
    (chain,) = next(lane_answers.how(asked))
    assert "out_proj" in chain
    *_, (other, view) = lane_answers.compare_lanes(asked, "")
    assert other["value"] == "mean+linear"
    assert view.count("<section") == 2
    assert "adds" in view or "leaves out" in view
    *_, (_, alone) = lane_answers.compare_lanes(
        replace(asked, recipes=("cls+roberta",), lane=1), ""
    )
    assert 'role="alert"' in alone


def test_two_heads_that_agree_are_explained_by_the_same_difference_of_logits():
    text = "Can I still stop the order I placed this morning?"
    recipes = ("cls+linear", "mean+linear")  # of which each has another runner-up
    asked = Location(text=text, sample="intents", recipes=recipes, lane=1, show="compare")
    *_, (_, view) = lane_answers.compare_lanes(asked, "")
    evidence = re.findall(r"<h4>(Evidence for .*? rather than .*?)</h4>", view)
    assert len(evidence) == 2
    assert evidence[0] == evidence[1]
    assert "of the same logits in both heads" in view
    *_, (_, alike) = lane_answers.compare_lanes(replace(asked, text="Hm", sample="sentiment"), "")
    assert "turns its answer" not in alike  # without its one word there is no text


def test_a_random_head_is_no_head_that_disagrees():
    recipes = ("mean+linear", "own", "cls+roberta")
    asked = Location(text="Not bad at all.", recipes=recipes, lane=1, show="compare")
    *_, (other, view) = lane_answers.compare_lanes(asked, "")
    assert other["value"] != "own"
    *_, (_, view) = lane_answers.compare_lanes(asked, "own")  # other classes: each its own answer
    assert view.count("Evidence for") == 2
    assert "the same logits" not in view


def test_the_panel_of_raw_lanes_is_raw_but_for_what_is_taken_along():
    asked = Location(text="Fine.", recipes=("mean+linear",), lane=1)
    raw = replace(asked, raw=True)
    for location, is_raw in ((asked, False), (raw, True), (replace(raw, show="take"), False)):
        (classifier,) = result(lane_answers.load_lane_heads(location, location.recipes)).classifiers
        assert (CALIBRATED in classifier.head.chosen) is not is_raw
    assert lane_answers.numbers_csv(raw) != lane_answers.numbers_csv(asked)


def test_numbers_have_no_classes_to_choose_from():
    text, pair = SAMPLES["similarity"].tries[0]
    recipes = ("mean+linear",)
    asked = Location(text=text, pair=pair, sample="similarity", recipes=recipes, lane=1)
    found = stands(lane_answers.why(asked, "", "others"))
    assert not found["label"]["visible"]
    assert "What moves the number" in found["tokens"]
    table, slider, warm = next(lane_answers.numbers(asked))
    assert (slider["visible"], warm) == (False, "")
    assert "%" not in table


def test_a_head_is_trained_without_a_layer_where_that_is_asked_for():
    asked = Location(text="Not bad at all.", recipes=("cls+roberta",), lane=1)
    *_, last = lane_answers.retrain(asked)
    assert "trained without" in last
    *_, refused = lane_answers.retrain(replace(asked, text=" "))
    assert 'role="alert"' in refused


def test_edits_are_answered_by_all_lanes():
    asked = Location(text="Not bad at all.", recipes=("mean+linear", "cls+linear"), lane=1)
    html = lane_answers.answer_edits(asked, "Bad.\n\nGood.")
    assert html.count("<tr>") == 4  # head, the sentence itself, two edits
    assert "cls+linear" in html


def test_the_builder_opens_though_a_link_names_a_lane_that_there_is_not():
    query = "?recipes=mean+linear,cls+linear&lane=4"
    handlers = builder.BuilderHandlers(SimpleNamespace(handlers=None))
    click = gr.EventData(None, {"fields": {"do": "build", "lane": "4"}})
    opened = handlers.opened(query, click)
    assert opened["draft"] == {"recipe": "cls+linear", "lane": 0}  # a new lane
