"""What a promise says, and what was measured of it."""

import importlib
import random
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from types import SimpleNamespace
from typing import Any


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """One promise as it was measured.

    Attributes:
        promise: Its name, such as P1.
        says: What is promised, in a sentence.
        measured: What was found, with its numbers.
        target: What it must be.
        holds: Whether it is.
        seconds: How long it took; filled in by who asked for it, as the command is.
        command: What measures it again.
    """

    promise: str
    says: str
    measured: str
    target: str
    holds: bool
    seconds: float = 0.0
    command: str = ""


class Unmeasured(Exception):
    """A promise cannot be measured here: the message is one sentence that says why."""


_room = SimpleNamespace(times=1.0)


def is_within(measured: float, most: float) -> bool:
    """Whether seconds or bytes stay under a limit."""
    return measured < most * _room.times


@contextmanager
def roomy(times: float) -> Iterator[None]:
    """Makes limits of seconds and bytes wider, for tests: they run beside others."""
    before, _room.times = _room.times, times
    try:
        yield
    finally:
        _room.times = before


def quantile(values: Sequence[float], share: float) -> float:
    """The least of some values that so large a share of them does not surpass.

    >>> quantile([4.0, 1.0, 3.0, 2.0], 0.5), quantile([1.0, 2.0, 3.0], 0.95)
    (2.0, 3.0)
    """
    ordered = sorted(values)
    return ordered[max(0, min(len(ordered) - 1, -int(-share * len(ordered) // 1) - 1))]


def rng(promise: str) -> random.Random:
    """Random numbers of a promise: the same at every run."""
    return random.Random(promise)


def from_tests(name: str) -> Any:
    """A module that the tests share, of tests/support: its folder is no package."""
    folder = str(Path(__file__).parents[2] / "tests" / "support")
    if folder not in sys.path:
        sys.path.append(folder)
    return importlib.import_module(name)


def corpus() -> Path:
    """The corpus of hostile files, which lies beside the repository and is no part of it.

    Raises:
        Unmeasured: It does not.
    """
    folder = Path(__file__).parents[3] / "shared" / "data" / "hostile"
    if not folder.is_dir():
        raise Unmeasured("the corpus of hostile files does not lie beside the repository.")
    return folder
