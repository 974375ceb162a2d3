"""The first page: served before anything heavy is imported, and filled in behind it."""

import threading

import gradio as gr
import pytest
from gradio.blocks import postprocess_update_dict
from served import alone, free_port

from heads.interfaces.web import startup as opening_module
from heads.interfaces.web.app import build
from heads.interfaces.web.location import OPENING
from heads.interfaces.web.places import settings_form
from heads.interfaces.web.places.answers import PendingQuestion, answering
from heads.interfaces.web.startup import SAYS, Opening

HEAVY = ("torch", "transformers", "safetensors", "sklearn", "scipy", "plotly", "matplotlib")


def test_the_page_is_built_without_anything_heavy():
    code = "import sys; from heads.interfaces.web.app import build; build(); "
    assert alone(f"{code}print([name for name in {HEAVY} if name in sys.modules])") == "[]"


@pytest.fixture(scope="module")
def page():
    page = build()
    yield page
    page.close()


def values_of(page):
    return [one["props"].get("value") for one in page.blocks.get_config_file()["components"]]


def choices_of(page, label):
    found = (one["props"] for one in page.blocks.get_config_file()["components"])
    return next(props["choices"] for props in found if props.get("label") == label)


def test_who_comes_later_finds_the_examples_in_the_page_itself(page):
    assert any(SAYS in str(value) for value in values_of(page))
    assert len(choices_of(page, "Family or model")) == 1
    page.launch(port=free_port())
    page.opening.wait(page.blocks)
    values = values_of(page)
    assert not any(SAYS in str(value) for value in values)
    assert any('class="says"' in str(value) for value in values)
    assert any("GPT2ForSequenceClassification" in str(value) for value in values)
    assert len(choices_of(page, "Family or model")) > 50
    assert len(choices_of(page, "Heads")) == 7
    assert page.blocks.config["components"] == page.blocks.get_config_file()["components"]


def test_who_came_before_gets_the_example_by_an_event(page):
    first = next(one for one in page.opening._fillings if not one.is_sent)
    (example,) = answering(PendingQuestion(asked=OPENING))
    assert first.sent()[1] == example["verdict"]
    send = next(fn for fn in page.blocks.fns.values() if fn.name == "send")
    handler = send.fn.__wrapped__
    assert len(handler("")) == len(handler("yes")) == len(send.outputs)
    assert gr.skip() not in handler("")
    assert handler("yes") == [gr.skip()] * len(send.outputs)


def test_a_place_without_its_example_leaves_the_others_theirs(caplog):
    with gr.Blocks() as page:
        opening, one, other = Opening(), gr.HTML("one"), gr.HTML("other")
    opening.fills([one], lambda: [1 / 0])
    opening.fills([other], lambda: ["filled"])
    opening.wait(page)
    assert (one.value, other.value) == ("one", "filled")
    assert "without an example" in caplog.text


def test_every_early_visitor_gets_whole_changes():
    with gr.Blocks() as page:
        opening, menu, text = Opening(), gr.Radio([]), gr.HTML("")
        first = opening.fills([menu], lambda: [gr.update(choices=["a"], value="a")], is_sent=False)
        opening.fills([text, menu], lambda: ["now", gr.update(choices=["b"], value="b")])
        opening.wire(page)
    send = next(fn for fn in page.fns.values() if fn.name == "send").fn
    for _ in range(2):
        opening.wait(page)
        (_, sent), (kept,) = send(""), first.sent()
        for change, value in ((sent, "b"), (kept, "a")):
            assert postprocess_update_dict(menu, change)["value"] == value


@pytest.mark.parametrize("name", ["set_initial_value", "get_config_file"])
def test_nobody_waits_for_ever_for_a_page_that_cannot_be_filled(caplog, monkeypatch, name):
    def fails(*_):
        raise RuntimeError("no page today")

    with gr.Blocks() as page:
        opening, text = Opening(), gr.HTML("")
    opening.fills([text], lambda: ["filled"])
    monkeypatch.setattr(*((page, name) if hasattr(page, name) else (opening_module, name)), fails)
    waiting = threading.Thread(target=opening.wait, args=(page,), daemon=True)
    waiting.start()
    waiting.join(10)
    assert not waiting.is_alive()
    assert "without its examples" in caplog.text


def test_the_grids_that_the_page_names_are_those_of_the_pipeline():
    from heads.runs.grids import GRIDS

    assert {name for _, name in settings_form.GRID} <= set(GRIDS)
