"""The page: a strip, three places, and what guards the handlers."""

from heads.interfaces.web import gradio_patches  # before Gradio

# isort: split
import json
from collections.abc import Iterator
from typing import Any

import gradio as gr
from gradio.events import api as publish

from heads import plugins
from heads.interfaces.views.html import render
from heads.interfaces.web import endpoints, janitor
from heads.interfaces.web.location import OPENING, Location
from heads.interfaces.web.page_sections import PageParts
from heads.interfaces.web.places import builder, learn, open_lane, try_it, your_data
from heads.interfaces.web.server import Page
from heads.interfaces.web.slots import pool
from heads.interfaces.web.startup import Opening
from heads.interfaces.web.theme import CSS, HEAD, THEME
from heads.interfaces.web.training_jobs import TrainingJobs
from heads.interfaces.web.training_process import TrainingSlots
from heads.settings import limits

gradio_patches.settle()

TITLE = "Head to Head"
# What `launch` needs besides: the same for app.py, the command and the tests.
LAUNCH = {
    "theme": THEME,
    "css": CSS,
    "head": HEAD,
    "footer_links": ["api", "settings"],
    "run_history": False,
    "ssr_mode": False,
    "max_file_size": limits().upload_bytes,
}
QUIET: dict[str, Any] = {"show_progress": "hidden", "api_visibility": "private"}


def build() -> Page:
    """Builds the page; its examples are made once it is served, and their heads at first."""
    here = limits()
    slots = TrainingSlots(most=1 if here.public else 2, each=here.trainings_each)
    jobs = TrainingJobs(slots)
    with Page(title=TITLE, analytics_enabled=False, fill_width=False) as page:
        page.opening = opening = Opening()
        mine = gr.BrowserState([], storage_key="head-to-head-runs", secret="head-to-head")
        query = gr.Textbox(OPENING.query, visible="hidden", elem_id="query")
        router = gr.HTML("", elem_id="router", js_on_load="heads.route(trigger)")
        with gr.Column(elem_id="strip"):  # a row would come later, and push all down
            gr.HTML(render("strip.html"), js_on_load=try_it.CLICKS)
            job = gr.HTML("", elem_id="job", js_on_load=try_it.CLICKS)
            gr.HTML(render("theme.html"), elem_id="theme", js_on_load=try_it.CLICKS)
        with gr.Column(elem_id="place-try", elem_classes="place"):
            place = try_it.build(page, opening, query, mine)
            builder.build(place, mine)
            panel = open_lane.build(place)
        with gr.Column(elem_id="place-data", elem_classes="place"):
            arrival = your_data.build(page, opening, query, mine, jobs, job)
        first = try_it.first_screen(opening, place)
        with gr.Column(elem_id="place-learn", elem_classes="place"):
            learn.build(PageParts(query=query, opening=opening))
        try_it.arriving(page, opening, first, place, mine)
        page.unload(panel.handlers.left)
        your_data.came(page, arrival, jobs)
        router.focus(**arrival.shows)
        mine.change(None, mine, None, js="(mine) => { heads.tells(mine); }", **QUIET)
        router.input(None, mine, mine, js="(mine) => [heads.hears(mine)]", **QUIET).then(
            **arrival.shows
        )
        _routes(router, place, mine).then(**arrival.shows).then(**arrival.rereads)
        gr.HTML(render("mode.html", is_public=limits().public), elem_id="mode")
        _publish(slots)
        opening.wire(page)
        remembers = f"{{ heads.remember(query); heads.restoreText({json.dumps(OPENING.text)}); }}"
        query.change(None, query, None, js=f"(query) => {remembers}", **QUIET)
    janitor.take_over(page)
    janitor.start()
    return page


def _routes(router: gr.HTML, place: try_it.Try, mine: Any) -> Any:
    """Back, Forward and links within the page restore what was there."""

    def restored(left: str, there: str, mine: Any, request: gr.Request) -> Iterator[list[Any]]:
        now, at = Location.of(there or ""), len(place.answers)
        if now.asks_the_same(Location.of(left or "")):
            yield [gr.skip()] * len(outputs)
            return
        for one in place.handlers.with_settings(now, mine, request):
            # Where one is stands already, and may be elsewhere by now; but a run may be gone.
            where = gr.skip() if one[at] == now.query else one[at]
            yield [*one[:at], where, *one[at + 1 :]]

    # At once, and in the browser: what is done next is done there, not where one was before.
    router.select(None, None, place.query, js="() => heads.search()", **QUIET)
    outputs = [*place.answers, place.query, *place.settings]
    # Not in one queue with what asks heads: a change of place waits for nobody's training.
    settings: dict[str, Any] = {"trigger_mode": "always_last", **pool("infer"), **QUIET}
    # Two inputs stand for what the browser says of the address.
    settings["js"] = "(query, there, mine) => [...heads.fromTo(), mine]"
    return router.select(restored, [place.query, router, mine], outputs, **settings)


def _publish(slots: TrainingSlots) -> None:
    """The endpoints, for programs and as MCP tools."""
    quick = (
        endpoints.compare,
        endpoints.explain,
        endpoints.difference,
        endpoints.families,
        endpoints.parts,
        endpoints.readings,
    )
    slow = endpoints.doctor, endpoints.look, endpoints.edit, endpoints.ablate
    for some, slots_of in ((quick, pool("infer")), (slow, pool("inspect"))):
        for endpoint in some:
            publish(endpoint, api_name=endpoint.__name__, **slots_of)
    for endpoint, slots_name in plugins.load_sections("endpoints"):
        publish(endpoint, api_name=endpoint.__name__, **pool(slots_name))
    endpoints.build(slots)
