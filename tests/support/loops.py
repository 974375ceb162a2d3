"""Work run to its end: a generator's, or a coroutine's in a thread of its own.

A browser's tests leave a loop of theirs in the main thread.
"""

import asyncio
from collections.abc import Callable, Coroutine, Generator
from concurrent.futures import ThreadPoolExecutor
from typing import Any, TypeVar

Found = TypeVar("Found")
Event = TypeVar("Event")


def collect(work: Generator[Event, None, Found]) -> tuple[list[Event], Found]:
    """Return the events of some work, and what it returns."""
    returned = list[Found]()

    def run() -> Generator[Event, None, None]:
        returned.append((yield from work))

    return list(run()), returned[0]


def finished(work: Coroutine[Any, Any, Found]) -> Found:
    """What a coroutine comes to, in a thread of its own."""
    return alone(asyncio.run, work)


def alone(call: Callable[..., Found], *args: Any) -> Found:
    """What a call comes to, in a thread of its own."""
    with ThreadPoolExecutor(1) as pool:
        return pool.submit(call, *args).result()
