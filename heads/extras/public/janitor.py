"""Keeps every folder that visitors can fill within its quota, in a thread that outlives any error.

Gradio has a clean-up too (`delete_cache`), which is not used: it deletes what it has taken note of,
and one note of a folder, which every input of a page takes from whoever sends it, ends it for good.
Nor does it know of uploads that broke off. This one looks at what lies there, whoever put it there.
What is old goes; of what is too much the oldest; what was used a moment ago stays.
"""

import contextlib
import logging
import os
import re
import shutil
import threading
import time
from collections import deque
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from heads.backbone import downloads
from heads.errors import LimitError
from heads.extras.public.settings import FREE_BYTES, QUOTAS, Quota
from heads.hub import hub_folder
from heads.interfaces.web.temporary_files import EXPORTS, delete, delete_orphans, is_folder, walk
from heads.runs.folder import UNGUESSABLE, RunFolder
from heads.settings import cache_folder, current_limits, kept_folder, runs_folder, served_folder

EVERY = 15.0  # seconds between two sweeps
ORPHANS_EVERY = 3600.0
EMPTY_SECONDS = 60.0  # Gradio makes the folder of an upload a moment before it fills it
REMEMBERED = 2.0  # seconds for which it is known how full the folder of uploads is
UNCOUNTED = "lock"  # a file that is written anew by whoever only looks at a run
log = logging.getLogger("heads")


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """A folder that fills up."""

    path: Path
    quota: Quota  # how much may lie in it
    # whether each file in it, however deep, is an entry; else whatever lies in it directly is
    is_of_files: bool = False
    pattern: re.Pattern[str] = re.compile("")  # of the beginning of names of entries
    apart: str = ""  # the name of a folder in it that does not count
    is_used: Callable[[Path], bool] = lambda path: False  # whether something works on an entry
    only: frozenset[str] | None = None  # the names that count, where others are the user's own


@dataclass(frozen=True, slots=True, kw_only=True)
class Held:
    """The contents of a folder."""

    bytes: int
    entries: int


@dataclass(frozen=True, slots=True, kw_only=True, order=True)
class _Entry:
    used: float
    size: int
    path: Path


# --- One folder.


def sweep(place: Place, room: int = 0) -> Held:
    """Delete what is old, and the oldest where it is too much with `room` bytes more to come."""
    now, quota = time.time(), place.quota
    entries, folders = _list_entries(place)
    seen = held = count = 0
    for rank, entry in enumerate(sorted(entries, reverse=True), 1):
        seen += entry.size
        age = abs(now - entry.used)  # a time in the future is no reason to stay for ever
        is_much = seen > quota.bytes - room or rank > quota.entries - bool(room)
        if age > (quota.spared if is_much else quota.seconds) and not place.is_used(entry.path):
            delete(entry.path)
            if not os.path.lexists(entry.path):
                continue
        held, count = held + entry.size, count + 1
    for changed, path in reversed(folders):  # the deepest first
        if now - changed > min(EMPTY_SECONDS, quota.spared):
            with contextlib.suppress(OSError):
                path.rmdir()  # only where it is empty
    return Held(bytes=held, entries=count)


def _list_entries(place: Place) -> tuple[list[_Entry], list[tuple[float, Path]]]:
    """Return what lies in a folder; of files also the folders around them, the highest first."""
    if not place.is_of_files:
        _, folder_names, file_names = next(os.walk(place.path), ("", [], []))
        counted = [
            place.path / name
            for name in (*folder_names, *file_names)
            if place.pattern.match(name) and (place.only is None or name in place.only)
        ]
        return [entry for path in counted if (entry := _whole(path))], []
    entries, folders = list[_Entry](), list[tuple[float, Path]]()
    for path, facts in walk(place.path, place.apart):
        if is_folder(facts):
            folders.append((facts.st_mtime, path))
        else:
            entries.append(_Entry(used=facts.st_mtime, size=facts.st_size, path=path))
    return entries, folders


def _whole(path: Path) -> _Entry | None:
    """Return an entry, used when anything in it was; None if another process was faster."""
    try:
        facts = path.lstat()
    except OSError:
        return None
    used, size = facts.st_mtime, facts.st_size
    for inner, inner_facts in walk(path) if is_folder(facts) else ():
        size += inner_facts.st_size
        if inner.name != UNCOUNTED:
            used = max(used, inner_facts.st_mtime)
    return _Entry(used=used, size=size, path=path)


# --- All of them.


def place_of(name: str) -> Place:
    """Return a folder that visitors fill by its name in `QUOTAS`."""
    served, cache, kept = served_folder(), cache_folder(), kept_folder()
    places: dict[str, dict[str, Any]] = {
        "served": {"path": served, "is_of_files": True, "apart": EXPORTS},
        # Gradio writes an upload into a file of such a name until it is whole, and leaves it there.
        "parts": {"path": served, "pattern": re.compile("tmp")},
        "exports": {"path": served / EXPORTS},
        "uploads": {"path": cache / "uploads"},
        # Others were begun by who has this machine.
        "runs": {
            "path": runs_folder(), "pattern": UNGUESSABLE,
            "is_used": lambda path: RunFolder(path=path).is_busy,
        },
        "heads": {"path": kept / "heads", "is_of_files": True},
        "twins": {"path": kept / "twins"},
        # What the owner of the machine has fetched is neither deleted nor counted.
        "models": {"path": hub_folder(), "only": downloads.for_visitors()},
    }  # fmt: skip
    usual = {"path": cache / name, "is_of_files": True}
    return Place(quota=QUOTAS[name], **places.get(name, usual))


@dataclass(kw_only=True)
class Janitor:
    """Sweep all folders again and again."""

    every: float = EVERY  # seconds between two sweeps
    ended: threading.Event = field(default_factory=threading.Event)  # ends it when set
    _next_orphans: float = 0.0

    def sweep(self) -> None:
        """Sweep every folder once; one that cannot be swept keeps no other from it."""
        works: list[Callable[[], object]] = [lambda n=name: sweep(place_of(n)) for name in QUOTAS]
        if time.monotonic() >= self._next_orphans:
            self._next_orphans = time.monotonic() + ORPHANS_EVERY
            works.append(delete_orphans)
        for work in works:
            try:
                work()
            except Exception as error:  # it must outlive whatever lies there
                log.error("a folder was not swept", exc_info=error)

    def work(self) -> None:
        """Sweep until `ended` is set."""
        while not self.ended.wait(self.every):
            try:
                self.sweep()
            except Exception as error:  # a wrong setting, or no memory
                log.error("no folder was swept", exc_info=error)


def start() -> None:
    """Sweep from now on, for as long as this process lives; a second page needs no other."""
    if not any(thread.name == "janitor" for thread in threading.enumerate()):
        threading.Thread(target=Janitor().work, name="janitor", daemon=True).start()


# --- What is asked before a folder is filled.


def admit(what: str, size: int = 0, owned: Collection[Path] = ()) -> None:
    """Raise LimitError in public mode if there is no room, or if a visitor has half of all.

    Args:
        what: run, upload or export.
        size: Its bytes, if they are known.
        owned: What the same visitor has stored.
    """
    if not current_limits().public:
        return
    place = place_of(f"{what}s")
    sizes = [entry.size for path in owned if path.is_dir() and (entry := _whole(path))]
    if sizes and is_over_half(place.quota, sizes, size):
        raise LimitError(*OWN_SHARE[what])
    _check_room(place, size, ROOM[what])


OWN_SHARE = {
    "run": (
        "As many trainings from your address are kept here as one may have.",
        "Delete some of them, or try again tomorrow.",
    ),
    "upload": (
        "You have brought many files that are kept here still.", "Try again in a few hours."
    ),
}  # fmt: skip
ROOM = {
    "run": "Many trainings are kept here now.",
    "upload": "Many files are kept here now.",
    "export": "Many files are being made here now.",
}


def is_over_half(quota: Quota, sizes: Sequence[int], size: int) -> bool:
    """Return True if one address would hold over half of a folder with another entry."""
    return sum(sizes) + size > quota.bytes // 2 or len(sizes) >= quota.entries // 2


def _check_room(place: Place, size: int, what: str) -> None:
    """Raise LimitError if a folder is full after a sweep, or the disk is."""
    held = sweep(place, size)
    is_full = held.bytes >= place.quota.bytes or held.bytes + size > place.quota.bytes
    if is_full or held.entries >= place.quota.entries:
        raise LimitError(what, "Try again in a few minutes.")
    # The folder itself may not be there yet.
    folder = next(path for path in (place.path, *place.path.parents) if path.is_dir())
    if shutil.disk_usage(folder).free < FREE_BYTES:
        raise LimitError("The disk of this place is almost full.", "Try again in a minute.")


class Room:
    """The room for uploads; how full their folder is is remembered for a moment."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._held, self._until = 0, 0.0
        self._refusal: LimitError | None = None
        self._taken: deque[tuple[float, str, int]] = deque()  # when, from where, how many bytes

    def note_upload(self, address: str, size: int) -> None:
        """Note an upload, whole or not, of so many bytes."""
        with self._lock:
            self._taken.append((time.monotonic(), address, size))

    def check(self, address: str = "") -> None:
        """Raise LimitError if there is no room for an upload, even after a sweep that may help."""
        with self._lock:
            most, now, place = current_limits().upload_bytes, time.monotonic(), place_of("served")
            self._check_share(address, place.quota, most, now)
            is_much = not self._refusal and self._held + most > place.quota.bytes
            if now >= self._until or is_much:
                self._refusal, self._until = None, now + REMEMBERED
                try:
                    _check_room(place, most, "Many files are being sent here now.")
                except LimitError as error:
                    self._refusal = error
                self._held = sweep(place).bytes
            if self._refusal:
                raise self._refusal
            self._held += most  # it may be as large as that

    def _check_share(self, address: str, quota: Quota, most: int, now: float) -> None:
        while self._taken and now - self._taken[0][0] > quota.spared:
            self._taken.popleft()
        if is_over_half(quota, [size for _, whose, size in self._taken if whose == address], most):
            what = "You have sent many files within a few seconds."
            raise LimitError(what, "Try again in a minute.")
