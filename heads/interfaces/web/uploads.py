"""Files that visitors bring: kept privately for a while, under a name that nobody can guess.

Gradio's own folder of uploads is open to whoever knows a path in it, so nothing stays there.
The page knows a file by its random id alone.
"""

import contextlib
import logging
import re
import secrets
import shutil
import threading
import time
from pathlib import Path
from typing import Any

from gradio.utils import get_upload_folder

from heads.caching import writing
from heads.data.dataset import Data, data_of
from heads.data.files import open_table
from heads.data.samples import SAMPLES
from heads.data.table import Columns, Table
from heads.errors import DataError
from heads.settings import Limits, cache_folder, runs_folder
from heads.settings import limits as limits_here

MOST, MOST_SECONDS = 100, 6 * 3600.0
MOST_RUNS, MOST_RUN_SECONDS = 300, 24 * 3600.0  # of visitors, in public mode
MOST_FEATURES = 5_000  # chunks of texts
MOST_BYTES = 4_000_000_000
SWEEP = 300.0  # seconds
STALE_SECONDS = 3600.0
ID = re.compile(r"[A-Za-z0-9_-]{22}")
SAMPLE = "sample:"
ENDINGS = [".csv", ".tsv", ".txt", ".jsonl", ".json", ".parquet", ".xlsx"]
log = logging.getLogger("heads")


class RegularFiles(set[str]):
    """What Gradio's clean-up may delete: a folder among it would end the clean-up for good."""

    def add(self, path: str, /) -> None:
        """Takes note of a file, and of nothing else."""
        if Path(path).is_file():
            super().add(path)


def protect(page: Any, component: Any) -> None:
    """Lets a component of a page take note of regular files only."""
    files = RegularFiles()
    page.temp_file_sets = [
        files if known is component.temp_files else known for known in page.temp_file_sets
    ]
    component.temp_files = files


def folder() -> Path:
    """Where the files lie: outside of all that is served."""
    return cache_folder() / "uploads"


def keep(path: str, limits: Limits) -> str:
    """Moves an upload into the private place and returns its id.

    Raises:
        DataError: It is no file, or the disk does not take it.
    """
    given = Path(path)
    if given.is_symlink() or not given.is_file():
        raise DataError("That is not a file.", "Choose a file.")
    if given.stat().st_size > limits.upload_bytes:
        forget(given)
        what = f"The file is larger than the {limits.upload_bytes // 1_000_000:,} MB allowed."
        raise DataError(what, "Choose a smaller file, or a part of the rows.")
    name = secrets.token_urlsafe(16)
    try:
        with writing("The file"):
            sweep()
            (folder() / name).mkdir(parents=True, mode=0o700)
            shutil.move(given, folder() / name / given.name[-120:])
    except DataError:
        shutil.rmtree(folder() / name, ignore_errors=True)  # half of it, perhaps
        raise
    finally:
        forget(given)
    return name


def forget(path: Path) -> None:
    """Deletes an upload and the folder that Gradio made for it."""
    with contextlib.suppress(OSError):
        path.unlink(missing_ok=True)
        path.parent.rmdir()  # only where nothing else lies in it


def path_of(name: str) -> Path:
    """The file of an id, or of a sample.

    Raises:
        DataError: There is none (any more).
    """
    if name.removeprefix(SAMPLE) in SAMPLES and name.startswith(SAMPLE):
        return SAMPLES[name.removeprefix(SAMPLE)].path
    if not name:
        raise DataError("There are no data yet.", "Choose a file or a sample.")
    if ID.fullmatch(name) and (folder() / name).is_dir():
        for path in (folder() / name).iterdir():
            return path
    raise DataError("The file is not kept any more.", "Choose it once more.")


def is_kept(name: str) -> bool:
    """Whether there is such a file still, or such a sample."""
    try:
        return path_of(name).exists()
    except DataError:
        return False


def opened(name: str, limits: Limits, header: bool | None = None) -> Table:
    """The table of an id.

    Raises:
        HeadsError: There is none, or it cannot be used.
    """
    return open_table(path_of(name), limits, header)


def data(name: str, limits: Limits, columns: Columns | None, header: bool | None = None) -> Data:
    """The data of an id, with the columns as the user confirmed them.

    Raises:
        HeadsError: They cannot be used.
    """
    return data_of(opened(name, limits, header), limits, columns, name=path_of(name).stem)


def sweep() -> None:
    """Deletes what is old, and the oldest where it is too much; also runs, in public mode."""
    _sweep(folder(), MOST, MOST_SECONDS)
    _sweep_gradio()
    if limits_here().public:
        _sweep(runs_folder(), MOST_RUNS, MOST_RUN_SECONDS)
        for kind in ("features", "states"):  # what the base model made of visitors' texts
            _sweep(cache_folder() / kind, MOST_FEATURES, MOST_RUN_SECONDS)


def _sweep(home: Path, most: int, most_seconds: float) -> None:
    now, count, size = time.time(), 0, 0
    found = []
    for path in home.iterdir() if home.is_dir() else ():
        with contextlib.suppress(OSError):  # another process may have been faster
            files = [path] if path.is_file() else path.rglob("*")
            held = sum(file.stat().st_size for file in files if file.is_file())
            found.append((path.stat().st_mtime, held, path))
    for changed, held, path in sorted(found, reverse=True):
        count, size = count + 1, size + held
        if now - changed > most_seconds or count > most or size > MOST_BYTES:
            with contextlib.suppress(OSError):
                path.unlink() if path.is_file() else shutil.rmtree(path)


def _sweep_gradio() -> None:
    """What Gradio's own clean-up leaves: parts of aborted uploads, and states behind links."""
    home = Path(get_upload_folder())
    for path in [*home.glob("tmp*"), *home.glob("deep_links/*/*")]:
        with contextlib.suppress(OSError):
            if path.is_file() and time.time() - path.stat().st_mtime > STALE_SECONDS:
                path.unlink()


def start_sweeping() -> None:
    """Sweeps every few minutes for as long as this process lives."""
    if not any(thread.name == "uploads" for thread in threading.enumerate()):
        threading.Thread(target=_sweeping, name="uploads", daemon=True).start()


def _sweeping() -> None:
    while True:
        try:
            sweep()
        except Exception as error:  # the sweeper must outlive whatever it meets
            log.error("sweeping uploads failed: %s", type(error).__name__)
        time.sleep(SWEEP)
