"""What the peers' scripts share: the question on standard input, one line of JSON as the answer.

They are run as plain files by the Python of an environment of their own, where this project is
not installed; so they import nothing of it. Imports and the loading of the model are over
before a clock begins.
"""

import contextlib
import csv
import json
import os
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any


def asked() -> dict[str, Any]:
    """The question: `model` (a folder), `train` and `test` (CSV files), and what else there is."""
    return json.load(sys.stdin)


def rows(path: str) -> tuple[list[str], list[str]]:
    """The texts and the labels of a CSV file with a header."""
    with Path(path).open(encoding="utf-8", newline="") as file:
        read = list(csv.DictReader(file))
    return [row["text"] for row in read], [row["label"] for row in read]


def numbered(*labels: list[str]) -> tuple[list[list[int]], int]:
    """Labels as numbers of classes, and how many classes there are."""
    place = {name: number for number, name in enumerate(sorted(set().union(*labels)))}
    return [[place[name] for name in some] for some in labels], len(place)


class Clock:
    """Seconds and processor seconds of each phase of the work."""

    def __init__(self) -> None:
        self.phases: dict[str, float] = {}
        self.processor: dict[str, float] = {}

    @contextlib.contextmanager
    def phase(self, name: str) -> Iterator[None]:
        """Times what stands under it."""
        begun, used = time.perf_counter(), processor_seconds()
        yield
        self.phases[name] = time.perf_counter() - begun
        self.processor[name] = processor_seconds() - used

    def answer(self, **found: Any) -> None:
        """Prints what was found with the times, as the last line."""
        told = {
            "seconds": sum(self.phases.values()),
            "cpu_seconds": sum(self.processor.values()),
            "phases": self.phases,
        }
        print(json.dumps(told | found), flush=True)


def processor_seconds() -> float:
    """What this process and those that it started, and that have ended, have used."""
    return sum(os.times()[:4])


def share(given: Any, goals: list[Any]) -> float:
    """The share of answers that are right."""
    return sum(one == goal for one, goal in zip(given, goals, strict=True)) / len(goals)
