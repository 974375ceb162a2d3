"""Downloads for the page: each in a process of its own, which ends once nobody waits for it.

Where nobody may end the work (in Python and in the shell) a model is fetched in the process itself.
"""

import contextlib
import json
import os
import shutil
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Collection, Generator, Iterator
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import heads
from heads import interruption
from heads.backbone import hub
from heads.backbone.hub import Listing
from heads.caching import files_below, write
from heads.errors import LimitError, ModelError
from heads.events import Progress, result
from heads.hub import hub_folder, repo_folder, size
from heads.interruption import Interrupted
from heads.settings import Limits, current_limits, environment_with, use_limits

NOTES = ".head-to-head-visitors.json"  # in the Hub's cache
_noted = set[str]()  # what could not be written down
_noting = threading.Lock()
POLL = 0.25  # seconds between two looks at a process, and at whether anybody waits
BEAT = 0.5  # seconds between two pictures of progress
GRACE = 1.0  # seconds without anybody who waits: who asks something else may be back at once
TURN = 60.0  # seconds that one waits for others' downloads
ANSWERS = 12.0  # seconds in which the Hub must have said what there is
STALLED = 12.0  # seconds in which so many bytes must have arrived
FEWEST = 12_000
SLACK = 1_000_000  # bytes above what the Hub has listed, for the cache's own small files
LEFT = 3_600.0  # seconds after which what arrived of a file is what a killed process left


def fetch_own(model: str, say: Callable[[str], None] = lambda line: None) -> Path:
    """Download a model in this process, as the user's own; raise ModelError if that fails."""
    found = hub.fetch(model, say)
    _own(repo_folder(hub.full_id(model), "model"))
    return found


def fetch(model: str) -> Path:
    """Downloads a model into the Hub's cache, and waits for it.

    Raises:
        ModelError: The Hub does not answer, does not have it, or it is too large.
        LimitError: Too many others are being downloaded.
        Interrupted: Nobody waits for it any more.
    """
    return result(fetching(model))


def fetching(model: str) -> Generator[Progress, None, Path]:
    """The same, with how far it is meanwhile."""
    if not interruption.is_watched():
        return fetch_own(model)
    with DOWNLOADS.joined(hub.fetchable(model)) as download:
        while not download.wait(BEAT):
            yield Progress(says=download.says, share=0.0)
        return download.result()


@dataclass(kw_only=True, eq=False)
class Download:
    """A model on its way, and those who wait for it.

    Attributes:
        whose: Who asked for it first.
        over: Set at its end.
    """

    model: str
    limits: Limits
    says: str
    whose: str = ""
    total: int = 0
    over: threading.Event = field(default_factory=threading.Event)
    _waiting: int = 0
    _left: float = field(default_factory=time.monotonic)  # when the last who waited went
    _is_ending: bool = False
    _lock: threading.Lock = field(default_factory=threading.Lock)
    _folder: Path | None = None
    _error: Exception | None = None

    def wait(self, seconds: float) -> bool:
        """Wait so long at most and return True if it is over; raise Interrupted if nobody waits."""
        end = time.monotonic() + seconds
        with interruption.outside():
            while not self.over.wait(POLL):
                interruption.check()
                if time.monotonic() >= end:
                    return False
        return True

    def result(self) -> Path:
        """Return the model's folder once it is over, or raise the HeadsError that ended it."""
        if isinstance(self._error, ModelError | LimitError):
            raise type(self._error)(self._error.what, self._error.hint)
        if self._error is not None or self._folder is None:
            raise ModelError(f"The download of {self.model} broke off.", "Try again.")
        return self._folder

    def join(self) -> bool:
        """Counts one more who waits; not where it is being ended."""
        with self._lock:
            self._waiting += not self._is_ending
            return not self._is_ending

    def leave(self) -> None:
        """Counts one less."""
        with self._lock:
            self._waiting -= 1
            self._left = time.monotonic()

    def check(self) -> None:
        """End it and raise Interrupted once nobody has waited for it for a while."""
        with self._lock:
            if not self._waiting and time.monotonic() - self._left > GRACE:
                self._is_ending = True
                raise Interrupted

    def end(self, found: Path | Exception) -> None:
        """It is over."""
        if isinstance(found, Exception):
            self._error = found
        else:
            self._folder = found
        self.over.set()


class Downloads:
    """The downloads of this process: one of a model at a time, whoever asks for it."""

    def __init__(self) -> None:
        self._of: dict[tuple[str, Limits], Download] = {}
        self._lock = threading.Lock()
        self._running: list[Download] = []

    @contextlib.contextmanager
    def joined(self, model: str) -> Iterator[Download]:
        """Within it, the download of a model is waited for; it begins if it has not."""
        limits = current_limits()
        key = (model.lower(), limits)
        with self._lock:
            before = self._of.get(key)
            if before is not None and before.join():
                found = before
            else:
                says, whose = f"Asking the Hub for {model}", interruption.whose()
                found = Download(model=model, limits=limits, says=says, whose=whose)
                found.join()
                self._of[key] = found
                worker = threading.Thread(target=self._work, args=(found, before), daemon=True)
                worker.start()
        try:
            yield found
        finally:
            found.leave()

    def _work(self, one: Download, before: Download | None) -> None:
        """Fetches it, after one that is being ended."""
        try:
            if before is not None:
                before.over.wait()
            with use_limits(one.limits), self._turn(one):
                found: Path | Exception = self._fetched(one)
        except Exception as error:
            found = error
        with self._lock:
            self._of = {key: other for key, other in self._of.items() if other is not one}
        one.end(found)

    @contextlib.contextmanager
    def _turn(self, one: Download) -> Iterator[None]:
        """Waits until there is room for it."""
        end = time.monotonic() + TURN
        while not self._enter(one):
            one.says = "Waiting until other models have been fetched"
            one.check()
            if time.monotonic() > end:
                what = "Others are fetching models here."
                if one.whose and one.whose in self._whose():
                    what = "Another model is being fetched for you."
                raise LimitError(what, "Try again in a few minutes, or choose the bundled model.")
            time.sleep(POLL)
        try:
            yield
        finally:
            with self._lock:
                self._running.remove(one)

    def _enter(self, one: Download) -> bool:
        """Whether there is room, and who asks for it does not fetch another already."""
        with self._lock:
            most, others = one.limits.downloads, self._whose()
            free = not most or (len(others) < most and (not one.whose or one.whose not in others))
            if free:
                self._running.append(one)
            return free

    def _whose(self) -> list[str]:
        return [other.whose for other in self._running]

    def _fetched(self, one: Download) -> Path:
        one.says, began = f"Asking the Hub for {one.model}", time.monotonic()

        def waited() -> None:
            one.check()
            if time.monotonic() - began > ANSWERS:
                what = f"The Hub does not say in {ANSWERS:.0f} seconds what {one.model} is."
                raise ModelError(what, hub.fetch_later(one.model))

        listing = Listing(**_child("describe", one, waited))
        hub.judge_config(listing)
        held = visitors_bytes() if one.limits.hub_cache_bytes else 0
        with self._lock:  # who comes next counts this one
            others = sum(other.total for other in self._of.values() if other is not one)
            hub.judge_room(listing, held, others)
            one.total = listing.total
        folder = repo_folder(one.model, "model")
        if one.limits.public and not folder.exists():
            _note(folder)  # before it comes: a process that ends meanwhile leaves parts of it
        _sweep(folder, LEFT)
        arrival = _Arrival(one, folder)
        try:
            found = _child("download", one, arrival)["folder"]
            arrival.amount()  # what came between the last look and its end was not seen
            return Path(found)
        except Exception:
            _tidy(folder)
            raise


class _Arrival:
    """Watch what arrives of a download: too slowly, not at all, or more than was listed."""

    def __init__(self, one: Download, folder: Path) -> None:
        self._one, self._folder = one, folder
        self._began = self._looked = time.monotonic()
        self._before = self._seen = _bytes(folder)

    def __call__(self) -> None:
        one, now = self._one, time.monotonic()
        one.check()
        there = self.amount()
        seconds = one.limits.download_seconds
        if seconds and now - self._began > seconds:
            what = f"{one.model} has not arrived within {seconds} seconds."
            raise ModelError(what, "Choose a smaller one, or try again later.")
        if there - self._seen >= FEWEST:
            self._looked, self._seen = now, there
        elif now - self._looked > STALLED:
            what = f"The Hub has stopped sending {one.model}."
            raise ModelError(what, hub.fetch_later(one.model))

    def amount(self) -> int:
        """Return the bytes in its folder now; raise ModelError for more than was listed."""
        one, there = self._one, _bytes(self._folder)
        arrived = max(0, there - self._before)
        one.says = f"Fetching {one.model}: {arrived / 1e6:,.0f} of {size(one.total)}"
        if arrived > one.total + SLACK:
            what = f"The Hub sends more of {one.model} than it has listed."
            raise ModelError(what, hub.CHOOSE_ANOTHER)
        return there


def _child(does: str, one: Download, watch: Callable[[], None]) -> dict[str, Any]:
    """What a process finds that asks the Hub; it ends when `watch` raises, or this process ends."""
    asked = json.dumps({"does": does, "model": one.model, "limits": asdict(one.limits)})
    reading, writing = os.pipe()  # it closes with this process
    try:
        process = subprocess.Popen(
            [sys.executable, "-m", "heads.backbone.hub_process", asked],
            stdin=reading,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            # Files come by plain HTTP: Xet keeps what has arrived elsewhere, and more of it.
            env=environment_with(Path(heads.__file__).parents[1]) | {"HF_HUB_DISABLE_XET": "1"},
            start_new_session=True,
        )
        try:
            told = _told(process, watch)
        finally:
            end_process(process)
    finally:
        os.close(reading)
        os.close(writing)
    try:
        found = json.loads(told)
    except ValueError:
        raise ModelError(f"The download of {one.model} broke off.", "Try again.") from None
    if wrong := found.get("wrong"):
        raise ModelError(*wrong)
    return found


def _told(process: subprocess.Popen[bytes], watch: Callable[[], None]) -> bytes:
    """What a process prints until its end."""
    while True:
        try:
            return process.communicate(timeout=POLL)[0]
        except subprocess.TimeoutExpired:
            watch()


def end_process(process: subprocess.Popen[bytes]) -> None:
    """Ends a process with all that it started, and waits until it is gone."""
    if process.poll() is None:
        with contextlib.suppress(ProcessLookupError, PermissionError):
            if hasattr(os, "killpg"):
                os.killpg(process.pid, signal.SIGKILL)
            else:
                process.kill()
    with process:  # closes its pipe
        process.wait()


# --- Whose the models are that are here: the user's own are neither deleted nor counted.


def for_visitors() -> frozenset[str]:
    """The folders in the Hub's cache that were fetched for visitors, in public mode, by name."""
    try:
        found = json.loads((hub_folder() / NOTES).read_text("utf-8"))
        return frozenset(map(str, found)) | _noted
    except (OSError, ValueError, TypeError):
        return frozenset(_noted)


def visitors_bytes() -> int:
    """The bytes of all models that were fetched for visitors."""
    return sum(_bytes(hub_folder() / name) for name in for_visitors())


def _note(folder: Path) -> None:
    """Makes a folder for a visitors' model, and writes down, for the next start too, that it is."""
    with _noting, contextlib.suppress(OSError):  # a full disk: the download will say so
        folder.mkdir(parents=True, exist_ok=True)
        _noted.add(folder.name)  # until it is written
        there = {name for name in for_visitors() if (folder.parent / name).exists()}
        _write_notes(there)
        _noted.clear()


def _own(folder: Path) -> None:
    """Writes down that a model is the user's own, where visitors had fetched it before."""
    with _noting, contextlib.suppress(OSError):
        if folder.name in (theirs := for_visitors()):
            _write_notes(theirs - {folder.name})
            _noted.discard(folder.name)


def _write_notes(names: Collection[str]) -> None:
    text = json.dumps(sorted(names))
    write(hub_folder() / NOTES, lambda path: path.write_text(text, "utf-8"))


def _bytes(folder: Path) -> int:
    """The bytes of the files in a folder, of which some may come and go."""
    return sum(facts.st_size for _, facts in files_below(folder))


def _tidy(folder: Path) -> None:
    """Takes away what has arrived of a model: parts of files are of no use to anybody."""
    if folder.name in for_visitors():
        shutil.rmtree(folder, ignore_errors=True)
    else:
        _sweep(folder, 0.0)  # whole files stay: they are not fetched again


def _sweep(folder: Path, seconds: float) -> None:
    """Takes away parts of files of a model that nothing has been added to for so long."""
    for path in folder.glob("blobs/*.incomplete"):
        with contextlib.suppress(OSError):
            if time.time() - path.stat().st_mtime >= seconds:
                path.unlink()


DOWNLOADS = Downloads()
