"""Each use of Gradio's internals is needed still: where one of these fails, take it out."""

import inspect
from pathlib import Path
from types import SimpleNamespace

import gradio as gr
import pytest
from fastapi import FastAPI
from served import alone
from starlette.testclient import TestClient

from heads.interfaces.web import gradio_internals as internals
from heads.interfaces.web.app import build

ROOT = Path(__file__).parents[3]


def test_gradio_is_imported_without_writing_stubs_and_garbage_is_collected_again():
    code = "import gc; import heads.interfaces.web.app; from gradio import component_meta as meta; "
    # Gradio's own function would not find the source of `object`.
    assert alone(f"{code}print(meta.create_or_modify_pyi(object, '', []), gc.isenabled())") == (
        "None True"
    )
    from gradio.component_meta import ComponentMeta

    assert internals.NAME in inspect.getsource(ComponentMeta.__new__)


def test_a_session_keeps_no_configurations_and_gradio_still_would():
    from gradio import route_utils, state_holder

    page = build().blocks
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
    assert len(usual(page).config_values) > 100


def test_gradio_gives_agents_python_and_takes_any_address_of_them():
    from gradio import mcp

    usual = mcp.GradioMCPServer.__mro__[1]
    assert "text=str(output)" in inspect.getsource(usual.postprocess_output_data)
    source = inspect.getsource(usual.convert_strings_to_filedata)
    assert "http" in source or "handle_file" in source


def test_what_launch_sets_is_no_argument_of_mount():
    given = inspect.signature(gr.mount_gradio_app).parameters
    assert not {"max_threads", "state_session_capacity", "local_url"} & set(given)
    assert {"max_threads", "state_session_capacity"} <= set(
        inspect.signature(gr.Blocks.launch).parameters
    )
    with gr.Blocks() as page:
        pass
    assert (page.max_threads, page.state_session_capacity) == (40, 10_000)
    internals.raise_limits(page, threads=7, sessions=8)
    page.queue()
    gr.mount_gradio_app(FastAPI(), page, "/")
    assert page._queue.max_thread_count == 7
    assert page.state_holder.capacity == 8
    page.mcp_server_obj = SimpleNamespace(_local_url=None)
    internals.tell_address(page, "http://here/")
    assert page.mcp_server_obj._local_url == "http://here/"


@pytest.mark.parametrize("keeps_notes", [True, False])
def test_gradio_notes_the_paths_of_files_for_ever(keeps_notes):
    with gr.Blocks() as page:
        file = gr.File()
    if not keeps_notes:
        internals.keep_no_file_notes(page)
    for notes in (page.upload_file_set, file.temp_files, *page.temp_file_sets):
        notes.update(["a"])
        notes.add("b")
        assert bool(notes) == keeps_notes


def shown_value(app):
    components = TestClient(app).get("/config").json()["components"]
    return next(one["props"]["value"] for one in components if one["type"] == "textbox")


def test_gradio_serves_the_values_that_a_page_was_built_with():
    with gr.Blocks() as page:
        box = gr.Textbox("built")
    app = gr.mount_gradio_app(FastAPI(), page, "/")
    box.value = "set"
    assert shown_value(app) == "built"
    internals.set_initial_value(box, "set")
    internals.renew_config(page)
    assert shown_value(app) == "set"


def test_gradio_documents_no_list_of_handlers():
    with gr.Blocks() as page:
        gr.Button().click(len, gr.Textbox())
    public = {name: value for name, value in vars(page).items() if name[0] != "_"}
    for handlers in (one for one in public.values() if isinstance(one, dict | list | set)):
        values = handlers.values() if isinstance(handlers, dict) else handlers
        assert not [handler for handler in values if getattr(handler, "fn", handler) is len]
    internals.wrap_handlers(page, lambda handler, inputs, slots: (handler, len(inputs), slots))
    ((handler, n_inputs, _),) = [event.fn for event in page.fns.values() if event.fn]
    assert (handler, n_inputs) == (len, 1)


def test_the_page_is_all_that_uses_what_gradio_does_not_document():
    internal = (
        "gradio.queueing", "gradio.route", "gradio.state_holder", "gradio.component_meta",
        "gradio.blocks", "gradio.mcp", "._queue", "event._data", ".fns",
    )  # fmt: skip
    for path in (ROOT / "heads").rglob("*.py"):
        if path.name != "gradio_internals.py":
            text = path.read_text("utf-8")
            assert not [one for one in internal if one in text], path
