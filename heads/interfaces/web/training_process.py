"""Training in a process of its own, so that it can be ended at any moment.

A generator stands in front of it and passes its events on. Whatever ends the generator (Stop, a
cancelled call, the end) ends the process and all that it started; what it had finished lies in the
run's folder by then. Trainings of the page have a thread that reads theirs: `training_jobs`.
"""

import contextlib
import json
import os
import queue
import signal
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Generator, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import heads
from heads.errors import DataError, LimitError
from heads.runs.folder import RunFolder
from heads.settings import environment_with

BEAT = 0.25  # seconds within which something is passed on
NOTICE = 0.05  # seconds within which a Stop is seen
GRACE = 0.3  # seconds between asking a worker to end and ending it
NICE = 10  # how much a training stands behind answers, and behind Stop
WAIT = 300.0  # seconds that one waits for somebody else's training to end
Event = dict[str, Any]


class AlreadyTraining(LimitError):
    """Of one address no more trainings run or wait than it may have."""


@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class TrainingPlace:
    """A training that runs or waits."""

    address: str  # whose it is
    stop: threading.Event  # ends it when set


@dataclass(kw_only=True, slots=True)
class TrainingSlots:
    """Who trains now, and who waits: first come, first served, and the second of one address after
    the first of all others.
    """

    most: int  # how many train at once
    each: int = 0  # how many of one address run or wait; 0 for any number
    _places: list[TrainingPlace] = field(default_factory=list)  # in the order in which they came
    _training: set[TrainingPlace] = field(default_factory=set)
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def check(self, address: str) -> None:
        """Raise AlreadyTraining if an address has as many trainings as it may."""
        if self.each and sum(one.address == address for one in self._places) >= self.each:
            hint = "Stop one of them first, or wait for its end."
            raise AlreadyTraining(f"{self.each} trainings from your address run or wait.", hint)

    @contextlib.contextmanager
    def taken(self, address: str, stop: threading.Event | None = None) -> Iterator[TrainingPlace]:
        """Hold a place for a training of an address, ended by `stop`; raise AlreadyTraining."""
        place = TrainingPlace(address=address, stop=stop or threading.Event())
        with self._lock:
            self.check(address)
            self._places.append(place)
        try:
            yield place
        finally:
            with self._lock:
                self._places.remove(place)
                self._training.discard(place)

    def enter(self, place: TrainingPlace) -> bool:
        """Whether it is this training's turn."""
        with self._lock:
            if len(self._training) < self.most and place is self._next():
                self._training.add(place)
            return place in self._training

    def _next(self) -> TrainingPlace | None:
        """Return the one whose turn it is among those that wait."""
        seen, found = Counter[str](), []
        for number, place in enumerate(self._places):
            found.append((seen[place.address], number, place))
            seen[place.address] += 1
        waiting = [one for one in found if one[2] not in self._training]
        return min(waiting, key=lambda one: one[:2])[2] if waiting else None


def waiting(slots: TrainingSlots, place: TrainingPlace, seconds: float = WAIT) -> Iterator[Event]:
    """Yield beats until there is room or one is stopped; raise LimitError after so many seconds."""
    end = time.monotonic() + seconds
    while not place.stop.is_set() and not slots.enter(place):
        if time.monotonic() > end:
            raise LimitError("Others are training here.", "Try again in a few minutes.")
        yield {"event": "progress", "says": "Waiting until others have trained", "share": 0.0}
        place.stop.wait(BEAT)


def worked(
    run: RunFolder, stop: threading.Event, seconds: float = 0.0
) -> Generator[list[Event], None, None]:
    """Yield the events of a run's worker at every beat; raise DataError if it fails or dies."""
    from heads.runs.runner import stopped

    process = _started(run)
    lines: queue.SimpleQueue[str | None] = queue.SimpleQueue()
    threading.Thread(target=_read, args=(process, lines), daemon=True).start()
    end = time.monotonic() + seconds if seconds else float("inf")
    is_over = has_ended = False
    try:
        while not is_over and not stop.is_set() and time.monotonic() < end:
            events, is_over = _beat(lines, stop)
            has_ended = has_ended or any(event["event"] == "end" for event in events)
            for event in events:
                if event["event"] == "error":
                    raise DataError(event["says"])
            yield events
        if is_over and not has_ended:
            raise DataError("The training ended before its time.", "What was done is kept.")
    finally:
        _end(process)
        with contextlib.suppress(DataError, OSError):
            stopped(run)


def _started(run: RunFolder) -> subprocess.Popen[str]:
    process = subprocess.Popen(
        [sys.executable, "-m", "heads", "work", str(run.path)],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=None,  # a bug of ours belongs into the server's own log
        text=True,
        encoding="utf-8",
        env=environment_with(Path(heads.__file__).parents[1]),
        start_new_session=True,
    )
    if hasattr(os, "setpriority"):  # what is asked on the page goes before it
        with contextlib.suppress(OSError):
            os.setpriority(os.PRIO_PROCESS, process.pid, NICE)
    return process


def _read(process: subprocess.Popen[str], lines: "queue.SimpleQueue[str | None]") -> None:
    assert process.stdout is not None
    with contextlib.suppress(ValueError, OSError), process.stdout as told:
        for line in told:
            lines.put(line)
    lines.put(None)


def _beat(
    lines: "queue.SimpleQueue[str | None]", stop: threading.Event
) -> tuple[list[Event], bool]:
    """Return what came within a beat, or until a Stop, and whether that was all."""
    events: list[Event] = []
    end = time.monotonic() + BEAT
    while (left := end - time.monotonic()) > 0 and not stop.is_set():
        try:
            line = lines.get(timeout=min(left, NOTICE))
        except queue.Empty:
            continue
        if line is None:
            return events, True
        with contextlib.suppress(ValueError):  # a library may have printed a line of its own
            event = json.loads(line)
            if isinstance(event, dict) and "event" in event:
                events.append(event)
    return events, False


def _end(process: subprocess.Popen[str]) -> None:
    """End a worker and all that it started."""
    _signal(process, signal.SIGTERM)
    try:
        process.wait(GRACE)
    except subprocess.TimeoutExpired:
        _signal(process, getattr(signal, "SIGKILL", signal.SIGTERM))
        try:
            process.wait(1.0)
        except subprocess.TimeoutExpired:  # a busy machine; nobody else waits for its end
            threading.Thread(target=process.wait, name="last of a training", daemon=True).start()


def _signal(process: subprocess.Popen[str], number: int) -> None:
    with contextlib.suppress(ProcessLookupError, PermissionError):
        if hasattr(os, "killpg"):
            os.killpg(process.pid, number)
        else:
            process.send_signal(number)
