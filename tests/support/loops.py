"""Coroutines in tests: a browser's tests leave a loop of theirs in the main thread."""

import asyncio
from collections.abc import Coroutine
from concurrent.futures import ThreadPoolExecutor
from typing import Any, TypeVar

Found = TypeVar("Found")


def finished(work: Coroutine[Any, Any, Found]) -> Found:
    """What a coroutine comes to, in a thread of its own."""
    with ThreadPoolExecutor(1) as pool:
        return pool.submit(asyncio.run, work).result()
