"""The functions of the package that this extra adds."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from heads.caching import write_page
from heads.events import result

if TYPE_CHECKING:
    from heads.extras.talks.tour import Tour
    from heads.interpret.comparison import Comparison


def tour() -> Tour:
    """Answer five questions that people ask about heads, by measurements made here.

    Each compares two heads on the same rows of the sample `sentiment`. The first time their heads
    are trained, which takes a minute.

    Returns:
        The steps with their differences and intervals: `.steps`, `.board`, and
        `.save("tour.html")`, one file for a stage: guess first, then look.

    Raises:
        HeadsError: The disk is full.
    """
    from heads.extras.talks.tour import iter_tour

    return result(iter_tour())


def save_story(comparison: Comparison | Tour, to: str | Path, *, address: str = "") -> Path:
    """Write a comparison as one HTML file that needs no server: guess first, then look.

    Args:
        comparison: From `heads.compare`, or a tour.
        to: The file, such as story.html.
        address: The address of a page that others can open, for a link there and its QR code.

    Raises:
        DataError: The name does not end in .html, or the file cannot be written.
    """
    from heads.extras.talks.story import write_story

    write_page(path := Path(to), lambda: write_story(comparison, address))
    return path
