"""A link fills in the form; what is not on this machine is fetched, or opened, by a click alone."""

from types import SimpleNamespace

import gradio as gr
import pytest
from fake_hub import Repository
from served import page_here

from heads.interfaces.web.lane_sections import SectionParts
from heads.interfaces.web.location import Location
from heads.interfaces.web.places import answers, builder, lane_answers, open_lane
from heads.interfaces.web.places.answers import PendingQuestions
from heads.interfaces.web.places.try_it import TryHandlers
from heads.interruption import interruptible

VISITOR = SimpleNamespace(session_hash="a visitor")
LOAD = gr.EventData(target=None, _data={"fields": {"do": "load"}})
OFFER = 'data-do="load"'


@pytest.fixture
def asking():
    return TryHandlers(PendingQuestions())


def told(steps):
    """All that a handler shows, as one text."""
    with interruptible(lambda: None):
        values = [step.values() if isinstance(step, dict) else step for step in steps]
    return " ".join(str(value) for step in values for value in step)


def test_a_link_fetches_nothing_and_a_click_answers(fake, tiny, asking):
    fake.models["a/tiny"] = Repository(folder=tiny())
    link = Location.of("?model=a/tiny&recipes=mean+centroid&text=good")
    shown = told(asking.with_settings(link, [], VISITOR))
    assert OFFER in shown
    assert "waits for its base model" in shown
    typed = link.query, "other words", ""
    assert OFFER in told(asking.changed(*typed, VISITOR)), "nor does typing"
    assert OFFER in told(asking.typed(*typed, VISITOR))
    menu = "a/tiny", "sample:topic", "joint", False
    assert OFFER in told(asking.turned(VISITOR, *typed, *menu)), "nor another choice"
    assert fake.asked == []
    assert "<strong>" in told(asking.loaded(*typed, LOAD, VISITOR))
    assert fake.downloads("a/tiny")
    count = len(fake.asked)
    other = SimpleNamespace(session_hash="another")
    assert OFFER not in told(asking.with_settings(link, [], other)), "it is here now"
    assert len(fake.asked) == count


def test_the_choice_in_the_menu_is_a_click(fake, tiny, asking):
    fake.models["a/tiny"] = Repository(folder=tiny())
    menu = "a/tiny", "sample:sentiment", "joint", False
    asked = Location.of("?recipes=mean+centroid")
    shown = told(asking.turned(VISITOR, asked.query, "good", "", *menu))
    assert OFFER not in shown
    assert fake.downloads("a/tiny")


def test_an_opened_lane_and_the_builder_fetch_nothing(fake, tiny):
    fake.models["a/tiny"] = Repository(folder=tiny())
    panel = open_lane.PanelHandlers()
    for show in ("why", "how", "numbers", "compare", "take"):
        query = f"?model=a/tiny&lane=1&show={show}&text=good&recipes=mean+linear,cls+linear"
        link = Location.of(query)
        inputs = [""] * {"why": 2, "compare": 1}.get(show, 0)
        shown = told(panel.load(link, SectionParts(outputs=[]), inputs, VISITOR))
        assert "The base model a/tiny is not loaded." in shown
    assert "is not loaded" in told([[lane_answers.answer_edits(link, "bad")]])
    assert "is not loaded" in told(panel.prepared(link.query, "folder", VISITOR))
    draft = {"recipe": "mean+linear", "lane": 1}
    assert "is not loaded" in builder.draw_draft(link, draft)
    assert fake.asked == []


def test_no_folder_is_opened_by_a_link_alone(copied, asking):
    folder = str(copied())
    link = Location.of({"model": folder, "recipes": "mean+centroid", "text": "good"})
    shown = told(asking.with_settings(link, [], VISITOR))
    assert "was not opened here before" in shown
    assert "<strong>" in told(asking.loaded(link.query, "good", "", LOAD, VISITOR))
    assert OFFER not in told(asking.with_settings(link, [], VISITOR)), "as after a reload"


def test_a_model_that_cannot_come_is_offered_again(fake, asking, monkeypatch):
    monkeypatch.setattr(answers, "PATIENCE", 0.0)  # else what failed quickly leaves the offer there
    link = Location.of("?model=a/none&recipes=mean+centroid&text=good")
    told(asking.with_settings(link, [], VISITOR))
    shown = told(asking.loaded(link.query, "good", "", LOAD, VISITOR))
    assert "The Hub has no public model called a/none." in shown
    assert OFFER in shown


@pytest.mark.parametrize("model", ["../x", "//host/share", "\\\\host\\share"])
def test_what_is_no_model_is_said_at_once(asking, model):
    link = Location.of({"model": model, "text": "good"})
    shown = told(asking.with_settings(link, [], VISITOR))
    assert ("another machine" in shown) == ("host" in model)


@pytest.mark.slow
def test_in_chromium_a_link_waits_for_its_button(fake, tiny, chrome):
    fake.models["a/tiny"] = Repository(folder=tiny())
    with page_here() as here:
        page = chrome.new_page()
        page.set_default_timeout(45_000)
        link = "?model=a/tiny&recipes=mean%2Bcentroid&lane=1&show=numbers&text=good"
        page.goto(here.url + link)
        page.locator("#verdict .offer button").wait_for()
        page.get_by_text("The base model a/tiny is not loaded.").first.wait_for()
        page.evaluate("history.pushState(null, '', location.search.replace('good', 'bad'))")
        page.go_back()
        page.wait_for_timeout(500)
        assert fake.asked == []
        page.locator("#verdict .offer button").click()
        page.locator("#verdict strong").wait_for(timeout=90_000)
        assert fake.downloads("a/tiny")
        page.locator("#panel #numbers table").wait_for()
        page.close()
