"""A run as a folder: what lies where in it, and how it is written so that a kill loses nothing.

::

    run.json              what was asked: data, model, recipes, settings, versions
    rows.json             the texts and labels, so that the run needs no other file
    facts.json            what reading gave: seconds, instant estimates, and
                          which rows are too long for the base model, where some read them whole
    race/007.json         in a race, what searching the settings of a cell came to
    race/007.safetensors  in a race, each development row's part of its score
    race.json             who was stopped in the race, and how far behind
    cells/007.json        the measures of a cell; written last, so a cell is there whole or not
    cells/007.safetensors its answers on every row tested, for every seed
    cells/007.probabilities.safetensors
                          the probabilities of all classes on these rows, each row once
    heads/007.safetensors the head of the first seed
    curve.json            the learning curve
    latency.json          milliseconds that each head adds for one text
    clock.json            how long it has worked so far
    end.json              how it ended
    leaderboard.json      all of that compared, as `heads train --json` prints it
    comparisons.json      differences of cells and their intervals, each by a digest of what it
                          was computed from
    lock                  held by the process that works on it (filelock)

Files bear numbers, never names of labels or recipes.
"""

import contextlib
import re
import secrets
import shutil
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from filelock import FileLock, Timeout

from heads.caching import ORPHANS, place_told, why, write, writing
from heads.caching import ROOM as ROOM_ELSEWHERE
from heads.checked_files import json_text, read_json, read_tensors, write_tensors
from heads.errors import DataError
from heads.settings import ExperimentConfig, runs_folder

VERSION = 3
VECTORS = "vectors.npy"
ASKED = ("run.json", "rows.json", VECTORS)  # what cannot be computed anew
NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]{0,80}")
DATED = r"-\d{4}-\d{6}-[0-9a-f]{4}"
# 128 bits; others hold a date.
UNGUESSABLE = re.compile(rf"(?!.*{DATED}$)r[A-Za-z0-9_-]{{22}}")
HINT = "List them with: heads runs"
ROOM = "Make room on the disk; then resume the run: what is finished stays."
PATIENCE = 0.5  # seconds; who only looks whether a run is busy holds it for a moment


@dataclass(frozen=True, slots=True, kw_only=True)
class RunFolder:
    """One run on disk."""

    path: Path

    @property
    def id(self) -> str:
        """What the user calls it."""
        return self.path.name

    def read(self, name: str) -> Any:
        """Read a JSON file of the run; None if there is none; raise DataError if it is broken."""
        try:
            values = read_json(self.path / name)
        except FileNotFoundError:
            return None
        except OSError:
            raise self.broken(name) from None
        if not isinstance(values, _kind(name)):
            raise self.broken(name)
        return values

    def read_tensors(self, name: str) -> Mapping[str, Any]:
        """Read the tensors of a file of the run; raise DataError if missing or broken."""
        try:
            return read_tensors(self.path / name)[0]
        except OSError:
            raise self.broken(name) from None

    def broken(self, name: str, cell: str = "") -> DataError:
        """Return what to say of a file, of a cell if one is named, that is damaged or missing."""
        why = "is damaged" if (self.path / name).exists() else "is missing"
        what = f"The run {self.id} is broken: {name}{f' ({cell})' if cell else ''} {why}."
        if name in ASKED:
            return DataError(what, "Delete the run and train again.")
        name = self.id if self.path.parent == runs_folder() else place_told(self.path)
        return DataError(what, f"Resume the run to make it anew: heads train --resume {name}")

    def delete_damaged(self) -> bool:
        """Delete damaged files and the notes of their cells; return True if there were any."""
        is_any = False
        for path in [*self.path.rglob("*.json"), *self.path.rglob("*.safetensors")]:
            name = path.relative_to(self.path).as_posix()
            try:
                _ = self.read(name) if path.suffix == ".json" else self.read_tensors(name)
            except DataError:
                if name not in ASKED:
                    path.unlink(missing_ok=True)
                    path.with_name(f"{path.name[:3]}.json").unlink(missing_ok=True)
                    is_any = True
        return is_any

    def write(self, name: str, values: Any) -> None:
        """Write a JSON file of the run whole, or raise DataError and write nothing."""
        text = json_text(values)
        self.put(name, lambda place: place.write_text(text, "utf-8"))

    def write_tensors(self, name: str, tensors: Mapping[str, Any]) -> None:
        """Write tensors as a file of the run whole, or raise DataError and write nothing."""
        with writing(f"{name} of the run {self.id}", ROOM):
            write_tensors(self.path / name, tensors)

    def put(self, name: str, fill: Callable[[Path], object]) -> None:
        """Write any file of the run whole, or raise DataError and write nothing."""
        with writing(f"{name} of the run {self.id}", ROOM):
            write(self.path / name, fill)

    @contextlib.contextmanager
    def held(self) -> Iterator[None]:
        """Hold the run against other processes; raise DataError if one has it, or it is gone."""
        try:
            lock = self._lock.acquire(timeout=PATIENCE, poll_interval=0.02)
        except Timeout:
            what = f"The run {self.id} is being worked on by another process."
            raise DataError(what, "Wait for it, or stop it.") from None
        except OSError as error:
            what = f"The run {self.id} cannot be opened ({why(error)})."
            raise DataError(what, HINT if isinstance(error, FileNotFoundError) else ROOM) from None
        with lock:
            self._sweep()
            yield

    def _sweep(self) -> None:
        """Deletes what a killed process left unfinished; who holds the run has none of it yet."""
        for path in self.path.rglob(".*"):
            if path.name.startswith(ORPHANS):
                with contextlib.suppress(OSError):
                    path.unlink()

    @property
    def is_busy(self) -> bool:
        """Whether a process works on it now."""
        try:
            with self._lock.acquire(blocking=False):
                return False
        except Timeout:
            return True
        except OSError:
            return False

    @property
    def _lock(self) -> FileLock:
        """Return the lock of the run, freed when its process ends; raise OSError without a run."""
        self.path.stat()  # filelock would make the folder of a run that is gone
        # A stream of events may be closed by another thread than began it: the lock is both's.
        return FileLock(self.path / "lock", thread_local=False)

    @contextlib.contextmanager
    def beginning(self) -> Iterator[None]:
        """Write the question within it: if that fails, no folder stays behind."""
        try:
            yield
        except DataError as error:
            shutil.rmtree(self.path, ignore_errors=True)
            raise DataError(error.what, ROOM_ELSEWHERE) from error

    def delete(self) -> None:
        """Delete the run and all that it holds; raise DataError while a process works on it."""
        with self.held():
            shutil.rmtree(self.path, ignore_errors=True)
        shutil.rmtree(self.path, ignore_errors=True)  # Windows keeps a file that is held


def _kind(name: str) -> type:
    """What a JSON file of a run holds: names and values, but for two."""
    if name.endswith(".failed.json"):
        return str
    return list if name == "curve.json" else dict


def new_folder(name: str, *, out: Path | None, is_public: bool, run: str = "") -> RunFolder:
    """Make a folder for a new run; raise DataError if the path is taken or not writable.

    Args:
        name: The name of the data, which becomes part of the run's.
        out: Where, or None for the place where runs are kept.
        is_public: Whether the name must be one that nobody can guess.
        run: The run's id, where it is known already.
    """
    if out is not None:
        if out.exists() and (not out.is_dir() or any(out.iterdir())):
            raise DataError(f"{out} is there already.", "Name a new folder.")
        path = out
    else:
        plain = re.sub(r"[^a-z0-9]+", "-", name.lower()).strip("-")[:24].strip("-") or "run"
        made = f"{plain}-{time.strftime('%m%d-%H%M%S')}-{secrets.token_hex(2)}"
        made = f"r{secrets.token_urlsafe(16)}" if is_public else made
        path = runs_folder() / (run or made)
    with writing(place_told(path)):
        path.mkdir(parents=True, exist_ok=True)
    return RunFolder(path=path)


def all_runs() -> list[RunFolder]:
    """Every run that is kept, the newest first."""
    notes = [path for path in runs_folder().glob("*/run.json") if path.is_file()]
    notes.sort(key=lambda path: -path.stat().st_mtime)
    return [RunFolder(path=path.parent) for path in notes]


def find(name: str, *, is_public: bool = False) -> RunFolder:
    """Return the run of that id, prefix, or folder; in public mode of a whole unguessable id.

    Raises:
        DataError: There is none, or there are several.
    """
    if is_public:
        return named(name, is_public=True)
    fits = isinstance(name, str) and NAME.fullmatch(name) is not None
    if fits and (runs_folder() / name / "run.json").is_file():
        return RunFolder(path=runs_folder() / name)
    if _is_run(name):
        return RunFolder(path=Path(name))
    near = [run for run in all_runs() if fits and run.id.startswith(name)]
    if len(near) > 1:
        raise DataError(f"{len(near)} runs begin with '{name}'.", "Write more of the name.")
    if not near:
        raise DataError(f"There is no run called '{str(name)[:80]}'.", HINT)
    return near[0]


def _is_run(name: object) -> bool:
    """Whether it is the path of a run's folder."""
    try:
        return isinstance(name, str | Path) and (Path(name) / "run.json").is_file()
    except (OSError, ValueError):  # no name that a file can have
        return False


def named(name: str, *, is_public: bool) -> RunFolder:
    """Return the run of that whole id, or raise DataError.

    In public mode nobody must be able to guess it: what was trained in local mode is not shown.
    """
    form = UNGUESSABLE if is_public else NAME
    fits = isinstance(name, str) and form.fullmatch(name)
    if not fits or not (runs_folder() / name / "run.json").is_file():
        raise DataError("There is no such run (any more).", "Train again.")
    return RunFolder(path=runs_folder() / name)


# --- How long a run works.


class Clock:
    """How long a run has worked, over all its resumptions; the time allowed is of each one."""

    def __init__(self, run: RunFolder) -> None:
        self._run = run
        before = run.read("end.json") or run.read("clock.json") or {"seconds": 0.0}
        self._before = before["seconds"]
        self._begun = time.perf_counter()
        for name in ("end.json", "leaderboard.json"):  # what they say is of before
            (run.path / name).unlink(missing_ok=True)

    @property
    def seconds(self) -> float:
        """So far."""
        return self._before + time.perf_counter() - self._begun

    def is_over(self, config: ExperimentConfig) -> bool:
        """Whether the time allowed is used up; notes on disk how long it has worked."""
        self._run.write("clock.json", {"seconds": self.seconds})
        spent = self.seconds - self._before
        return bool(config.budget_seconds) and spent > config.budget_seconds

    def stop(self, state: str) -> None:
        """Notes how it ended."""
        self._run.write("end.json", {"state": state, "seconds": self.seconds})
