"""A thread for what runs a loop: a browser's tests leave one of theirs in the main thread."""

import asyncio
from collections.abc import Callable, Coroutine
from concurrent.futures import ThreadPoolExecutor
from typing import Any, TypeVar

Found = TypeVar("Found")


def finished(work: Coroutine[Any, Any, Found]) -> Found:
    """What a coroutine comes to, in a thread of its own."""
    return alone(asyncio.run, work)


def alone(call: Callable[..., Found], *args: Any) -> Found:
    """What a call comes to, in a thread of its own."""
    with ThreadPoolExecutor(1) as pool:
        return pool.submit(call, *args).result()
