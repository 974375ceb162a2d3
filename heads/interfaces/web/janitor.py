"""Keeps every folder that the page fills within its bounds, in a thread that outlives any error.

Gradio has a clean-up too (`delete_cache`), which is not used: it deletes what it has taken note of,
and one note of a folder, which every input of a page takes from whoever sends it, ends it for good.
Nor does it know of uploads that broke off. This one looks at what lies there, whoever put it there.
What is old goes; of what is too much the oldest; what was used a moment ago stays.
"""

import contextlib
import logging
import os
import re
import secrets
import shutil
import stat
import threading
import time
from collections import deque
from collections.abc import Callable, Collection, Iterator
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

from heads.backbone import downloads
from heads.caching import IN_USE_SECONDS, ORPHANS, UNFINISHED
from heads.errors import LimitError
from heads.hub import hub_folder
from heads.runs.folder import UNGUESSABLE, RunFolder
from heads.settings import Quota, cache_folder, kept_folder, limits, runs_folder, served_folder

EVERY = 15.0  # seconds between two sweeps
ORPHANS_EVERY = 3600.0
EMPTY_SECONDS = 60.0  # Gradio makes the folder of an upload a moment before it fills it
REMEMBERED = 2.0  # seconds for which it is known how full the folder of uploads is
EXPORTS = "exports"
UNCOUNTED = "lock"  # a file that is written anew by whoever only looks at a run
log = logging.getLogger("heads")


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """A folder that fills up.

    Attributes:
        path: Where it lies.
        quota: How far it may.
        is_of_files: Whether each file in it, however deep, is one thing; else each of its
            entries is, with all that lies in it.
        pattern: What the names of entries begin with that count.
        apart: The name of a folder in it that does not count.
        is_used: Whether something works on an entry now.
        only: The names that count, where others are the user's own.
    """

    path: Path
    quota: Quota
    is_of_files: bool = False
    pattern: re.Pattern[str] = re.compile("")
    apart: str = ""
    is_used: Callable[[Path], bool] = lambda path: False
    only: frozenset[str] | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Held:
    """What lies in a folder.

    Attributes:
        bytes: How much in all.
        entries: How many things.
    """

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
    folders = list[tuple[float, Path]]()
    entries = list(_files_of(place, folders) if place.is_of_files else _entries_of(place))
    seen = held = count = 0
    for rank, entry in enumerate(sorted(entries, reverse=True), 1):
        seen += entry.size
        age = abs(now - entry.used)  # a time in the future is no reason to stay for ever
        is_much = seen > quota.bytes - room or rank > quota.entries - bool(room)
        if age > (quota.spared if is_much else quota.seconds) and _deleted(place, entry.path):
            continue
        held, count = held + entry.size, count + 1
    for changed, path in reversed(folders):  # the deepest first
        if now - changed > min(EMPTY_SECONDS, quota.spared):
            with contextlib.suppress(OSError):
                path.rmdir()  # only where it is empty
    return Held(bytes=held, entries=count)


def _deleted(place: Place, path: Path) -> bool:
    """Deletes an entry with all in it; no link is followed. Whether it is gone."""
    if place.is_used(path):
        return False
    with contextlib.suppress(OSError):  # another process may have been faster
        if path.is_dir() and not path.is_symlink():
            shutil.rmtree(path, ignore_errors=True)
        else:
            path.unlink()
    return not os.path.lexists(path)


def _files_of(place: Place, folders: list[tuple[float, Path]]) -> Iterator[_Entry]:
    """Every file in a folder, however deep; takes note of the folders in it, the highest first."""
    for entry, facts in _below(place.path, place.apart):
        if stat.S_ISDIR(facts.st_mode):
            folders.append((facts.st_mtime, Path(entry.path)))
        else:
            yield _Entry(used=facts.st_mtime, size=facts.st_size, path=Path(entry.path))


def _entries_of(place: Place) -> Iterator[_Entry]:
    """The entries of a folder; one that is a folder was used when anything in it was."""
    for entry, facts in _in(place.path):
        is_one = place.pattern.match(entry.name)
        if is_one and (place.only is None or entry.name in place.only):
            yield _whole(Path(entry.path), facts)


def _whole(path: Path, facts: os.stat_result) -> _Entry:
    used, size = facts.st_mtime, facts.st_size
    if stat.S_ISDIR(facts.st_mode):
        for inner, told in _below(path):
            size += told.st_size
            if inner.name != UNCOUNTED:
                used = max(used, told.st_mtime)
    return _Entry(used=used, size=size, path=path)


def _below(folder: Path, apart: str = "") -> Iterator[tuple["os.DirEntry[str]", os.stat_result]]:
    """All that lies in a folder and in those in it, each folder before what it holds."""
    waiting = [folder]
    while waiting:
        here = waiting.pop()
        for entry, facts in _in(here):
            if here == folder and entry.name == apart:
                continue
            yield entry, facts
            if stat.S_ISDIR(facts.st_mode):
                waiting.append(Path(entry.path))


def _in(folder: Path) -> Iterator[tuple["os.DirEntry[str]", os.stat_result]]:
    """What lies in a folder, and facts of each; of a link those of the link itself."""
    with contextlib.suppress(OSError), os.scandir(folder) as found:
        for entry in found:
            with contextlib.suppress(OSError):  # another process may have been faster
                yield entry, entry.stat(follow_symlinks=False)


# --- All of them.


def served() -> Place:
    """Uploads as Gradio takes them, by file: one that is never read is nobody's."""
    quota = limits().disk.served
    return Place(path=served_folder(), quota=quota, is_of_files=True, apart=EXPORTS)


def uploads() -> Place:
    """Files that were read, which wait for their training."""
    return Place(path=cache_folder() / "uploads", quota=limits().disk.uploads)


def _exports() -> Place:
    return Place(path=served_folder() / EXPORTS, quota=limits().disk.exports)


def places() -> list[Place]:
    """All folders that are swept here: in local mode not those that are the user's own."""
    disk, cache = limits().disk, cache_folder()
    always = [
        # Gradio writes an upload into a file of such a name until it is whole, and leaves it there.
        Place(path=served_folder(), quota=disk.parts, pattern=re.compile("tmp")),
        served(),
        _exports(),
        uploads(),
    ]
    caches = {
        cache / "features": disk.features, cache / "states": disk.states,
        cache / "words": disk.baselines, kept_folder() / "heads": disk.heads,
    }  # fmt: skip
    more = [
        Place(path=path, quota=quota, is_of_files=True) for path, quota in caches.items() if quota
    ]
    if disk.twins:
        more.append(Place(path=kept_folder() / "twins", quota=disk.twins))
    if disk.runs:
        more.append(_runs(disk.runs))
    if disk.models:
        # What the owner of the machine has fetched is neither deleted nor counted.
        path, only = hub_folder(), downloads.for_visitors()
        more.append(Place(path=path, quota=disk.models, only=only))
    return always + more


def _runs(quota: Quota) -> Place:
    """Runs of a public page alone: others were begun by who has this machine."""
    runs = runs_folder()
    return Place(
        path=runs,
        quota=quota,
        pattern=UNGUESSABLE,
        is_used=lambda path: RunFolder(path=path).is_busy,
    )


def sweep_orphans(seconds: float = IN_USE_SECONDS) -> None:
    """Deletes what killed processes were writing, in caches and runs: no name was given to it."""
    now = time.time()
    for home in {cache_folder(), kept_folder(), runs_folder()}:
        for entry, facts in _below(home):
            is_folder = stat.S_ISDIR(facts.st_mode)
            if not entry.name.startswith((UNFINISHED,) if is_folder else ORPHANS):
                continue
            times = [told.st_mtime for _, told in _below(Path(entry.path))] if is_folder else []
            if now - max([facts.st_mtime, *times]) > seconds:
                with contextlib.suppress(OSError):
                    shutil.rmtree(entry.path) if is_folder else Path(entry.path).unlink()


@dataclass(kw_only=True)
class Janitor:
    """Sweeps all folders again and again.

    Attributes:
        every: Seconds between two sweeps.
        ended: Ends it when set.
    """

    every: float = EVERY
    ended: threading.Event = field(default_factory=threading.Event)
    _next_orphans: float = 0.0

    def sweep(self) -> None:
        """Sweeps every folder once; one that cannot be swept keeps no other from it."""
        works: list[Callable[[], object]] = [partial(sweep, place) for place in places()]
        if time.monotonic() >= self._next_orphans:
            self._next_orphans = time.monotonic() + ORPHANS_EVERY
            works.append(sweep_orphans)
        for work in works:
            try:
                work()
            except Exception as error:  # it must outlive whatever lies there
                log.error("a folder was not swept", exc_info=error)

    def work(self) -> None:
        """Sweeps until it is told to end."""
        while not self.ended.wait(self.every):
            try:
                self.sweep()
            except Exception as error:  # a wrong setting, or no memory
                log.error("no folder was swept", exc_info=error)


def start() -> None:
    """Sweeps from now on, for as long as this process lives; a second page needs no other."""
    if not any(thread.name == "janitor" for thread in threading.enumerate()):
        threading.Thread(target=Janitor().work, name="janitor", daemon=True).start()


# --- What others ask before they fill a folder.


def share_of(quota: Quota) -> tuple[int, int]:
    """How many bytes and entries of a folder one address may hold: half."""
    return quota.bytes // 2, quota.entries // 2


def check_runs(mine: Collection[Path]) -> None:
    """Raise LimitError if there is no room for one more run in public mode, even after a sweep."""
    quota = limits().disk.runs
    if quota is None:
        return
    held = [_whole(path, path.lstat()).size for path in mine if path.is_dir()]
    bytes_, entries = share_of(quota)
    if sum(held) >= bytes_ or len(held) >= entries:
        what = f"{len(held):,} trainings from your address are kept here, as many as one may have."
        raise LimitError(what, "Delete some of them, or try again tomorrow.")
    _check_room(_runs(quota), "Many trainings are kept here now.")


def _check_room(place: Place, what: str) -> None:
    """Raise LimitError if a folder is full after a sweep, or the disk is."""
    held = sweep(place)
    if held.bytes >= place.quota.bytes or held.entries >= place.quota.entries:
        raise LimitError(what, "Try again in a few minutes.")
    if _free_bytes(place.path) < limits().disk.free_bytes:
        raise LimitError("The disk of this place is almost full.", "Try again in a minute.")


class Room:
    """Whether there is room for one more upload; how full its folder is is known for a moment."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._held, self._until, self._refusal = 0, 0.0, ""
        self._taken: deque[tuple[float, str, int]] = deque()  # when, from where, how many bytes

    def took(self, address: str, size: int) -> None:
        """Notes an upload, or what has come of it."""
        with self._lock:
            self._taken.append((time.monotonic(), address, size))

    def check(self, address: str = "") -> None:
        """Raise LimitError if there is no room for an upload, even after a sweep that may help."""
        with self._lock:
            here, now = limits(), time.monotonic()
            most = here.upload_bytes
            self._check_share(address, here.disk.served, most, now)
            if now >= self._until or (
                not self._refusal and self._held + most > here.disk.served.bytes
            ):
                self._look(most)
                self._until = now + REMEMBERED
            if self._refusal:
                raise LimitError(self._refusal, "Try again in a minute.")
            self._held += most  # it may be as large as that

    def _check_share(self, address: str, quota: Quota, most: int, now: float) -> None:
        while self._taken and now - self._taken[0][0] > quota.spared:
            self._taken.popleft()
        sizes = [size for _, whose, size in self._taken if whose == address]
        bytes_, entries = share_of(quota)
        if sum(sizes) + most > bytes_ or len(sizes) >= entries:
            what = "You have sent many files within a few seconds."
            raise LimitError(what, "Try again in a minute.")

    def _look(self, most: int) -> None:
        place, self._refusal = served(), ""
        held = sweep(place, most)
        self._held = held.bytes
        if held.bytes + most > place.quota.bytes or held.entries >= place.quota.entries:
            self._refusal = "Many files are being sent here now."
        elif _free_bytes(place.path) < limits().disk.free_bytes:
            self._refusal = "The disk of this place is almost full."


def _free_bytes(folder: Path) -> int:
    """The bytes that are free where a folder lies, or is going to."""
    while not folder.is_dir() and folder != folder.parent:
        folder = folder.parent
    return shutil.disk_usage(folder).free


@contextlib.contextmanager
def exporting(*, keeps: Collection[str] = (".zip",)) -> Iterator[Path]:
    """Within it, a new folder from which files are served; after it only the files to take along.

    Its name cannot be guessed, and a process that is killed within it leaves nothing that is not
    swept.

    Args:
        keeps: How the names of files end that stay.

    Raises:
        LimitError: There is no room for one.
    """
    _check_room(_exports(), "Many files are being made here now.")
    place = served_folder() / EXPORTS / secrets.token_urlsafe(16)
    place.mkdir(parents=True, mode=0o700)
    try:
        yield place
        for path in place.iterdir():
            if path.suffix not in keeps:
                shutil.rmtree(path) if path.is_dir() else path.unlink()
    except BaseException:
        shutil.rmtree(place, ignore_errors=True)
        raise


# --- Gradio's own notes.


class NoNotes(set[str]):
    """Take no note of files for Gradio, which would keep all their paths in memory for ever."""

    def add(self, path: str, /) -> None:
        """Notes nothing."""

    def update(self, *paths: Any) -> None:
        """Notes nothing."""


def take_over(page: Any) -> None:
    """Lets nothing of a finished page take note of files."""
    nothing = NoNotes()
    page.upload_file_set, page.temp_file_sets = nothing, [nothing]
    for block in page.blocks.values():
        block.temp_files = nothing
