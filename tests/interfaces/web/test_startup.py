"""The first page: served before anything heavy is imported, and filled in behind it."""

import asyncio
import os
import subprocess
import sys
import threading
from pathlib import Path

import gradio as gr
import pytest
from gradio.blocks import postprocess_update_dict
from loops import finished

from heads.interfaces.web import startup as opening_module
from heads.interfaces.web.app import build
from heads.interfaces.web.location import OPENING
from heads.interfaces.web.places import settings_form
from heads.interfaces.web.places.answers import PendingQuestion, answering
from heads.interfaces.web.startup import SAYS, Opening

HEAVY = ("torch", "transformers", "safetensors", "sklearn", "scipy", "plotly", "matplotlib")


def alone(code):
    """What a fresh interpreter prints."""
    command = [sys.executable, "-c", code]
    return subprocess.check_output(command, text=True, cwd=Path(__file__).parents[3]).strip()


def test_the_page_is_built_without_anything_heavy():
    code = "import sys; from heads.interfaces.web.app import build; build(); "
    assert alone(f"{code}print([name for name in {HEAVY} if name in sys.modules])") == "[]"


def test_gradio_is_imported_without_writing_stubs_and_garbage_is_collected_again():
    code = "import gc; import heads.interfaces.web.app; from gradio import component_meta as meta; "
    # Gradio's own function would not find the source of `object`.
    assert alone(f"{code}print(meta.create_or_modify_pyi(object, '', []), gc.isenabled())") == (
        "None True"
    )


def test_a_session_keeps_no_configurations_and_gradio_still_would():
    """Where its own sessions keep none either, the patch has to go."""
    from gradio import route_utils, state_holder

    page = build()
    lean, (usual, *_) = state_holder.SessionState, state_holder.SessionState.__mro__[1:]
    assert route_utils.SessionState is lean
    session = lean(page)
    box = next(one for one in page.blocks.values() if isinstance(one, gr.Textbox))
    session[box._id] = gr.Textbox("changed", render=False)
    session._update_value_in_config(box._id, "again")
    assert session[box._id].value == "changed"
    assert session.config_values == {}
    # Sessions that were told the same share it, and no others.
    other, third = lean(page), lean(page)
    other[box._id] = gr.Textbox("changed", render=False)
    third[box._id] = gr.Textbox("changed", lines=2, render=False)
    assert other[box._id] is session[box._id]
    assert third[box._id].lines == 2
    assert lean(page)[box._id] is box
    assert len(usual(page).config_values) > 100, "Gradio has mended it: take the patch out"


def test_of_uploads_whose_progress_nobody_asks_for_few_are_known():
    from gradio import routes

    progress = routes.file_upload_statuses
    for number in range(1_100):
        progress.track(f"u{number}")
    assert len(progress._statuses) == len(progress._signals) == 1_000
    with pytest.raises(asyncio.TimeoutError):
        finished(asyncio.wait_for(progress.is_tracked("never sent"), 0.01))
    assert "never sent" not in progress._signals
    for number in range(1_100):
        progress.stop_tracking(f"u{number}")
    assert not progress._signals


@pytest.fixture(scope="module")
def page():
    page = build()
    yield page
    page.close()


def values_of(page):
    return [one["props"].get("value") for one in page.get_config_file()["components"]]


def choices_of(page, label):
    found = (one["props"] for one in page.get_config_file()["components"])
    return next(props["choices"] for props in found if props.get("label") == label)


def test_who_comes_later_finds_the_examples_in_the_page_itself(page):
    assert any(SAYS in str(value) for value in values_of(page))
    assert len(choices_of(page, "Family or model")) == 1
    page.launch(server_name="127.0.0.1", prevent_thread_lock=True, quiet=True)
    list(page.opening.waited(page))
    values = values_of(page)
    assert not any(SAYS in str(value) for value in values)
    assert any('class="says"' in str(value) for value in values)
    assert any("GPT2ForSequenceClassification" in str(value) for value in values)
    assert len(choices_of(page, "Family or model")) > 50
    assert len(choices_of(page, "Heads")) == 7
    assert page.config["components"] == page.get_config_file()["components"]


def test_who_came_before_gets_the_example_by_an_event(page):
    first = next(one for one in page.opening._fillings if not one.is_sent)
    (example,) = answering(PendingQuestion(asked=OPENING))
    assert first.sent()[1] == example.verdict
    send = next(fn for fn in page.fns.values() if fn.name == "send")
    assert len(send.fn("")) == len(send.fn("yes")) == len(send.outputs)
    assert gr.skip() not in send.fn("")
    assert send.fn("yes") == [gr.skip()] * len(send.outputs)


def test_a_place_without_its_example_leaves_the_others_theirs(caplog):
    with gr.Blocks() as page:
        opening, one, other = Opening(), gr.HTML("one"), gr.HTML("other")
    opening.fills([one], lambda: [1 / 0])
    opening.fills([other], lambda: ["filled"])
    page.is_running = True
    list(opening.waited(page))
    assert (one.value, other.value) == ("one", "filled")
    assert "without an example" in caplog.text


def test_every_early_visitor_gets_whole_changes():
    with gr.Blocks() as page:
        opening, menu, text = Opening(), gr.Radio([]), gr.HTML("")
        first = opening.fills([menu], lambda: [gr.update(choices=["a"], value="a")], is_sent=False)
        opening.fills([text, menu], lambda: ["now", gr.update(choices=["b"], value="b")])
        opening.wire(page)
    page.is_running = True
    send = next(fn for fn in page.fns.values() if fn.name == "send").fn
    for _ in range(2):
        list(opening.waited(page))
        (_, sent), (kept,) = send(""), first.sent()
        for change, value in ((sent, "b"), (kept, "a")):
            assert postprocess_update_dict(menu, change)["value"] == value


@pytest.mark.parametrize("name", ["_put", "get_config_file"])
def test_nobody_waits_for_ever_for_a_page_that_cannot_be_filled(caplog, monkeypatch, name):
    def fails(*_):
        raise RuntimeError("no page today")

    with gr.Blocks() as page:
        opening, text = Opening(), gr.HTML("")
    opening.fills([text], lambda: ["filled"])
    page.is_running = True
    monkeypatch.setattr(*((page, name) if hasattr(page, name) else (opening_module, name)), fails)
    waiting = threading.Thread(target=lambda: list(opening.waited(page)), daemon=True)
    waiting.start()
    waiting.join(10)
    assert not waiting.is_alive()
    assert "without its examples" in caplog.text


def test_the_grids_that_the_page_names_are_those_of_the_pipeline():
    from heads.runs.spec import GRIDS

    assert {name for _, name in settings_form.GRID} <= set(GRIDS)


@pytest.mark.parametrize("settles", [True, False])
def test_on_a_space_nothing_replaces_the_code_of_the_page(settles):
    """Without the patch Gradio asks for the package that serves port 7887, and says so here."""
    code = f"""
from heads.interfaces.web import gradio_patches
import gradio as gr
if {settles}:
    gradio_patches.settle()
with gr.Blocks() as page:
    pass
page.launch(prevent_thread_lock=True, quiet=True, ssr_mode=False)
"""
    own = os.environ | {"SYSTEM": "spaces", "SPACE_ID": "someone/head-to-head"}
    command = [sys.executable, "-c", code]
    done = subprocess.run(command, env=own, capture_output=True, text=True, check=True)
    assert ("watchfn_spaces" in done.stderr) != settles, done.stderr
