"""How far a run is, put together from how far each of its stages is."""

import contextlib
from collections.abc import Generator
from dataclasses import dataclass, replace
from typing import TypeVar

Other = TypeVar("Other")  # what else a run tells
Found = TypeVar("Found")  # what a stage ends in


@dataclass(frozen=True, slots=True, kw_only=True)
class Progress:
    """Something is under way: a sentence, and how far it is (0 to 1)."""

    says: str
    share: float


def rising(
    events: Generator[Progress | Other, None, None],
) -> Generator[Progress | Other, None, None]:
    """The same events, no share below an earlier one: not all runs go through the same stages."""
    share = 0.0
    with contextlib.closing(events):
        for event in events:
            if isinstance(event, Progress):
                share = max(share, event.share)
                event = replace(event, share=share)
            yield event


def within(
    events: Generator[Progress, None, Found], start: float, width: float
) -> Generator[Progress, None, Found]:
    """The same progress, as a part of the whole; what it ends in."""
    with contextlib.closing(events):
        while True:
            try:
                event = next(events)
            except StopIteration as end:
                return end.value
            yield replace(event, share=start + width * event.share)


def result(events: Generator[object, None, Found]) -> Found:
    """What some work ends in, its progress passed over."""
    while True:
        try:
            next(events)
        except StopIteration as end:
            return end.value
