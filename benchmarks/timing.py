"""Clocks and empty caches that the benchmarks and the studies share."""

import os
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from tempfile import TemporaryDirectory
from unittest.mock import patch

Work = Callable[[], object]


def seconds_of(work: Work) -> float:
    """Return the seconds that one call takes."""
    begun = time.perf_counter()
    work()
    return time.perf_counter() - begun


def time_in_turn(
    works: Mapping[str, Work], rounds: int, *, is_printed: bool = False
) -> dict[str, list[float]]:
    """Return the seconds of each work in each round, one after the other.

    A first round is run and not counted. Every other round runs backwards, so that no work
    always follows the same one.
    """
    seconds: dict[str, list[float]] = {name: [] for name in works}
    for number in range(rounds + 1):
        for name in list(works)[:: -1 if number % 2 else 1]:
            seconds[name].append(seconds_of(works[name]))
            if is_printed:
                print(f"  round {number}, {name}: {seconds[name][-1]:.1f} s", flush=True)
    return {name: times[1:] for name, times in seconds.items()}


@contextmanager
def fresh_cache(**variables: str) -> Iterator[None]:
    """Within it nothing is cached from before, and some variables of the environment are set."""
    with TemporaryDirectory() as place, patch.dict(os.environ, HEADS_CACHE=place, **variables):
        yield
