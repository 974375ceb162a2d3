"""Lane sections: the tabs of an opened lane. Extras add their own by `Extra.lane_sections`."""

from __future__ import annotations

from collections.abc import Generator
from dataclasses import dataclass
from typing import Any

from heads import plugins

ANSWERED = ("what the head answers", "")  # the first class that can be explained
Stream = Generator[Any, None, None]  # of values for the outputs of a section


@dataclass(frozen=True, slots=True, kw_only=True)
class SectionParts:
    """The components of a section.

    Attributes:
        outputs: Those that are filled when the section is opened.
        inputs: Those whose values `LaneSection.load` gets when the tab is opened. What happens
            when they change is for `LaneSection.draw` to wire.
        keeps_inputs: Whether the inputs count also where another lane is opened.
    """

    outputs: list[Any]
    inputs: tuple[Any, ...] = ()
    keeps_inputs: bool = True


@dataclass(frozen=True, slots=True, kw_only=True)
class LaneSection:
    """A tab of an opened lane.

    Attributes:
        name: Its name in the address.
        title: The word on the tab.
        draw: Reference of a function that takes the place `Try` and the `PanelHandlers`, draws the
            section and returns its `SectionParts`.
        load: Reference of a generator function that takes the `Location` and the values of the
            inputs, and yields values of the outputs.
    """

    name: str
    title: str
    draw: str
    load: str


PLACES = "heads.interfaces.web.places"
CORE_SECTIONS = tuple(
    LaneSection(
        name=name,
        title=title,
        draw=f"{PLACES}.open_lane:draw_{name}",
        load=f"{PLACES}.lane_answers:{load}",
    )
    for name, title, load in (
        ("why", "Why", "why"),
        ("how", "How", "how"),
        ("numbers", "Numbers", "numbers"),
        ("compare", "Compare", "compare_lanes"),
        ("take", "Take it", "takes"),
    )
)


def lane_sections() -> tuple[LaneSection, ...]:
    """Return all tabs: the core's, then those of extras that have another name."""
    sections = {section.name: section for section in CORE_SECTIONS}
    for section in plugins.load_sections("lane_sections"):
        if sections.setdefault(section.name, section) is not section:
            plugins.log_once(f"There are two lane sections called '{section.name}'.")
    return tuple(sections.values())
