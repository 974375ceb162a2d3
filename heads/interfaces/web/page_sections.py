"""Page sections: what a place of the page is made of besides its own components.

The core's own topics under Learn are registered as those of extras are (`Extra.page_sections`).
"""

from __future__ import annotations

from contextlib import nullcontext
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

import gradio as gr

from heads import plugins
from heads.interfaces.views.html import failure, render

if TYPE_CHECKING:
    from heads.interfaces.web.lane_sections import LaneSection
    from heads.interfaces.web.startup import Opening


@dataclass(frozen=True, slots=True, kw_only=True)
class PageParts:
    """What a section is built on."""

    query: gr.Textbox  # what is asked, as the query of the address; see `Location`
    opening: Opening  # what the page shows before anybody asks


@dataclass(frozen=True, slots=True, kw_only=True)
class PageSection:
    """A part of a place.

    Attributes:
        place: Where it stands: below the answers of Try, or a topic under Learn.
        name: Its name.
        draw: Reference of a function that takes `PageParts` and draws the section.
        title: The question above a topic.
        summary: A sentence below the title.
        order: Sections stand by this number, the smallest first.
    """

    place: Literal["try", "learn"]
    name: str
    draw: str
    title: str = ""
    summary: str = ""
    order: int = 100


LEARN = "heads.interfaces.web.places.learn"
CORE_SECTIONS = (
    PageSection(
        place="learn",
        name="weights",
        draw=f"{LEARN}:draw_weights",
        title="Which weights are pretrained?",
        summary="The base model’s. Of a head, only what the checkpoint holds; everything else is "
        "new.",
        order=20,
    ),
    PageSection(
        place="learn",
        name="families",
        draw=f"{LEARN}:draw_families",
        title="What does BERT's head do that RoBERTa's does not?",
        summary="Choose any two families of Transformers, or two recipes, or two models.",
        order=30,
    ),
    PageSection(
        place="learn",
        name="padding",
        draw=f"{LEARN}:draw_padding",
        title="Why do my logits change with padding?",
        summary="Which harmless-looking changes of the input alter the logits, by how much, and "
        "what to do.",
        order=40,
    ),
)


def draw_page_sections(place: str, parts: PageParts) -> None:
    """Draw all sections of a place in their order."""
    sections = [*CORE_SECTIONS, *plugins.load_sections("page_sections")]
    for section in sorted(sections, key=lambda section: section.order):
        if section.place != place:
            continue
        with gr.Column(elem_classes="topic") if section.title else nullcontext():
            if section.title:
                gr.HTML(render("learn_title.html", title=section.title, says=section.summary))
            draw_section(section, parts, kind="page section", is_core=section in CORE_SECTIONS)


def draw_section(
    section: PageSection | LaneSection, *arguments: Any, kind: str, is_core: bool
) -> Any:
    """Call the `draw` of a section; where that of an extra fails, say so in its stead.

    Returns:
        What `draw` returns; None where it failed.
    """
    try:
        return plugins.load(section.draw)(*arguments)
    except Exception as error:
        if is_core:
            raise
        reason = plugins.describe_error(error)
        plugins.log_once(f"The {kind} '{section.name}' cannot be drawn ({reason}).")
        gr.HTML(failure("This section cannot be shown; the server's log says why."))
        return None
