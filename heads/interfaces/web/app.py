"""The page: a strip and three places."""

from heads.interfaces.web import gradio_internals  # before Gradio

# isort: split
import json
from collections.abc import Iterator
from typing import Any

import gradio as gr

from heads.interfaces.views.html import render
from heads.interfaces.web import endpoints, temporary_files
from heads.interfaces.web.guards import Values, by_name
from heads.interfaces.web.location import OPENING, Location
from heads.interfaces.web.page_sections import PageParts
from heads.interfaces.web.places import builder, learn, open_lane, try_it, your_data
from heads.interfaces.web.server import Page
from heads.interfaces.web.slots import QUIET, pool
from heads.interfaces.web.startup import Opening
from heads.interfaces.web.training_jobs import TrainingJobs
from heads.interfaces.web.training_process import TrainingSlots
from heads.settings import current_limits

gradio_internals.patch_gradio()

TITLE = "Head to Head"


def build() -> Page:
    """Build the page; its examples are computed once it is served.

    Raises:
        HeadsError: A setting of the server could never work, or strangers may open the page and
            nothing here protects it from them.
    """
    limits = current_limits()
    slots = TrainingSlots(most=1 if limits.public else 2, each=limits.trainings_each)
    jobs = TrainingJobs(slots)
    page = Page(title=TITLE, analytics_enabled=False, fill_width=False)
    with page.blocks as blocks:
        page.opening = opening = Opening()
        mine = gr.BrowserState([], storage_key="head-to-head-runs", secret="head-to-head")
        query = gr.Textbox(OPENING.query, visible="hidden", elem_id="query")
        router = gr.HTML("", elem_id="router", js_on_load="heads.route(trigger)")
        with gr.Column(elem_id="strip"):  # a row would come later, and push all down
            gr.HTML(render("strip.html"), js_on_load=try_it.CLICKS)
            job = gr.HTML("", elem_id="job", js_on_load=try_it.CLICKS)
            gr.HTML(render("theme.html"), elem_id="theme", js_on_load=try_it.CLICKS)
        with gr.Column(elem_id="place-try", elem_classes="place"):
            place = try_it.build(blocks, opening, query, mine)
            builder.build(place, mine)
            panel = open_lane.build(place)
        with gr.Column(elem_id="place-data", elem_classes="place"):
            arrival = your_data.build(blocks, opening, query, mine, jobs, job)
        with gr.Column(elem_id="place-learn", elem_classes="place"):
            learn.build(PageParts(query=query, opening=opening))
        blocks.unload(panel.left)
        blocks.load(**arrival.arrives).then(**arrival.rereads).then(**arrival.probes)
        router.focus(**arrival.shows)
        mine.change(None, mine, None, js="(mine) => { heads.tells(mine); }", **QUIET)
        router.input(None, mine, mine, js="(mine) => [heads.hears(mine)]", **QUIET).then(
            **arrival.shows
        )
        _routes(router, place, mine).then(**arrival.shows).then(**arrival.rereads)
        gr.HTML(render("mode.html", is_public=limits.public), elem_id="mode")
        endpoints.build(slots)
        opening.wire(blocks)
        remembers = f"{{ heads.remember(query); heads.restoreText({json.dumps(OPENING.text)}); }}"
        query.change(None, query, None, js=f"(query) => {remembers}", **QUIET)
    temporary_files.start_cleaning()
    return page


def _routes(router: gr.HTML, place: try_it.Try, mine: Any) -> Any:
    """Back, Forward and links within the page restore what was there."""

    def restored(left: str, there: str, mine: Any, request: gr.Request) -> Iterator[Values]:
        now = Location.of(there or "")
        if now.asks_the_same(Location.of(left or "")):
            yield {}
            return
        for values in place.handlers.with_settings(now, mine, request):
            # Where one is stands already, and may be elsewhere by now; but a run may be gone.
            if values.get("query") == now.query:
                values["query"] = gr.skip()
            yield values

    # At once, and in the browser: what is done next is done there, not where one was before.
    router.select(None, None, place.query, js="() => heads.search()", **QUIET)
    # Not in one queue with what asks heads: a change of place waits for nobody's training.
    settings: dict[str, Any] = {"trigger_mode": "always_last", **pool("infer"), **QUIET}
    # Two inputs stand for what the browser says of the address.
    settings["js"] = "(query, there, mine) => [...heads.fromTo(), mine]"
    inputs = [place.query, router, mine]
    return router.select(**by_name(restored, inputs, place.outputs), **settings)
