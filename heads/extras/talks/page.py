"""What this extra adds to the page: the tour under Learn, a vote and a file under Try."""

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import gradio as gr
from markupsafe import Markup

from heads.interfaces.views.html import busy
from heads.interfaces.web.guards import failed, saves
from heads.interfaces.web.location import Location
from heads.interfaces.web.page_sections import PageParts, PageSection
from heads.interfaces.web.places.answers import compared
from heads.interfaces.web.places.try_it import QUIET
from heads.interfaces.web.slots import pool

FOLDER = Path(__file__).parent
SECTIONS = (
    PageSection(
        place="learn",
        name="tour",
        draw="heads.extras.talks.page:draw_tour",
        title="Five questions that people ask about heads",
        summary="Each is answered by a measurement made here: two heads on the same rows.",
        order=10,
    ),
    PageSection(place="try", name="talk", draw="heads.extras.talks.page:draw_talk"),
)


def draw_tour(parts: PageParts) -> None:
    """Draw the tour, folded."""
    gr.HTML(Markup("<style>{}</style>").format(_read("steps.css") + _read("page.css")))
    with gr.Accordion("Guess, then see", open=False, elem_id="tour", elem_classes="fold") as fold:
        steps = gr.HTML("")
        save = gr.Button("Save as one HTML file", size="sm", visible=False)
        saves(save, _write_tour, [], "tour.html", "looks")
    fold.expand(_open_tour, None, [steps, save], **pool("looks"), **QUIET)


def _read(name: str) -> Markup:
    return Markup((FOLDER / name).read_text("utf-8"))  # our own file


def _open_tour() -> Iterator[list[Any]]:
    """Yield progress, for the first time heads are trained, and then the five steps."""
    from heads.extras.talks import story
    from heads.extras.talks.tour import iter_tour

    work = iter_tour()
    try:
        while True:
            event = next(work)
            yield [busy(event.says, event.share), gr.skip()]
    except StopIteration as end:
        yield [story.draw_steps(end.value), gr.update(visible=True)]
    except Exception as error:
        yield [failed(error), gr.skip()]


def _write_tour(request: gr.Request) -> str:
    from heads.extras.talks.story import write_story
    from heads.extras.talks.verbs import tour

    return write_story(tour(), shared_address(request))


def shared_address(request: gr.Request) -> str:
    """Return the address of this page as a browser names it; empty if nobody else can open it."""
    origin = str(request.headers.get("origin", ""))
    return "" if re.match(r"https?://(localhost|127\.|\[)", origin) else origin


def draw_talk(parts: PageParts) -> None:
    """Draw the button that saves a comparison, and the vote, seen with ``?present=1&vote=1``."""
    save = gr.Button("Save as a file for a talk", size="sm", elem_id="save-story")
    saves(save, _write_comparison, [parts.query], "story.html", "infer")
    gr.HTML("", js_on_load=_read("vote.js"))


def _write_comparison(query: str, request: gr.Request) -> str:
    """Return the comparison as one HTML file, with a link where others can open this page."""
    from heads.extras.talks.story import write_story

    return write_story(compared(Location.of(query).suited()), shared_address(request))
