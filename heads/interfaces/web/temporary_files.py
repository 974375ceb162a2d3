"""Files that are made for a visitor and served to him, and what clears away old ones."""

import contextlib
import logging
import os
import secrets
import shutil
import stat
import threading
import time
from collections.abc import Collection, Iterator
from pathlib import Path

from heads import plugins
from heads.caching import IN_USE_SECONDS, ORPHANS, UNFINISHED
from heads.settings import cache_folder, current_limits, kept_folder, runs_folder, served_folder

EVERY = 3600.0  # seconds between two looks
OLD = 6 * 3600.0  # seconds since a file was used
EXPORTS = "exports"
log = logging.getLogger("heads")


def admit(what: str, size: int = 0, owned: Collection[Path] = ()) -> None:
    """Raise LimitError if an extra has no room for a run, an upload or an export.

    Args:
        owned: What the same visitor has stored already.
    """
    for check in plugins.load_each("admission", required=True):
        check(what, size, owned)


@contextlib.contextmanager
def exporting(*, keeps: Collection[str] = (".zip",)) -> Iterator[Path]:
    """Make a folder from which files are served; after it only those with some endings stay.

    Nobody can guess its name. Raises LimitError if there is no room for one.
    """
    admit("export")
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


def start_cleaning() -> None:
    """Delete old files from now on, as long as this process lives; in public mode an extra does."""
    if not current_limits().public and "cleaning" not in {
        one.name for one in threading.enumerate()
    }:
        threading.Thread(target=_clean, name="cleaning", daemon=True).start()


def _clean() -> None:
    while True:
        try:
            delete_old()
            delete_orphans()
        except Exception as error:  # it must outlive whatever lies there
            log.error("old files were not deleted", exc_info=error)
        time.sleep(EVERY)


def delete_old(seconds: float = OLD) -> None:
    """Delete uploads and exports that were not used for so many seconds."""
    exports = served_folder() / EXPORTS
    for folder in (served_folder(), exports, cache_folder() / "uploads"):
        for path in folder.iterdir() if folder.is_dir() else ():
            if path != exports and age(path) > seconds:
                delete(path)


def delete_orphans(seconds: float = IN_USE_SECONDS) -> None:
    """Delete what killed processes were writing, in caches and runs: it has no name yet."""
    for home in {cache_folder(), kept_folder(), runs_folder()}:
        for path, facts in walk(home):
            is_orphan = path.name.startswith((UNFINISHED,) if is_folder(facts) else ORPHANS)
            if is_orphan and age(path) > seconds:
                delete(path)


def walk(folder: Path, apart: str = "") -> Iterator[tuple[Path, os.stat_result]]:
    """Yield all that lies below a folder but for one in it, and its facts; follow no link.

    Each folder comes before what it holds.
    """
    for place, folders, files in os.walk(folder):
        if apart in folders and Path(place) == folder:
            folders.remove(apart)
        for name in (*folders, *files):
            path = Path(place, name)
            with contextlib.suppress(OSError):  # another process may have been faster
                yield path, path.lstat()


def is_folder(facts: os.stat_result) -> bool:
    """Return True for a folder itself, not for a link to one."""
    return stat.S_ISDIR(facts.st_mode)


def age(path: Path) -> float:
    """Return the seconds since a file, or anything in a folder, was written; follow no link."""
    times = []
    with contextlib.suppress(OSError):  # another process may have been faster
        facts = path.lstat()
        times = [facts.st_mtime]
        if is_folder(facts):
            times += [facts.st_mtime for _, facts in walk(path)]
    return abs(time.time() - max(times, default=0.0))


def delete(path: Path) -> None:
    """Delete a file, a link or a folder with all in it, as far as that is possible."""
    with contextlib.suppress(OSError):  # another process may have been faster
        if path.is_dir() and not path.is_symlink():
            shutil.rmtree(path, ignore_errors=True)
        else:
            path.unlink()
