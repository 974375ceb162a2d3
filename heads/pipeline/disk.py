"""Files that are there whole or not at all, and folders that do not grow without end."""

import contextlib
import os
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path

UNFINISHED = ".unfinished-"
ORPHANS = (UNFINISHED, ".tmp")  # ours, and those of safetensors
IN_USE_SECONDS = 3600  # what was used less than an hour ago may belong to work under way


def write(path: Path, fill: Callable[[Path], object]) -> None:
    """Writes a file so that it is there whole or not at all."""
    path.parent.mkdir(parents=True, exist_ok=True)
    handle, name = tempfile.mkstemp(dir=path.parent, prefix=UNFINISHED)
    os.close(handle)
    try:
        fill(Path(name))
        Path(name).replace(path)
    except BaseException:
        Path(name).unlink(missing_ok=True)
        raise


def used(path: Path) -> None:
    """Notes that a file has been used, so that it is among the last to go."""
    with contextlib.suppress(OSError):
        os.utime(path)


def make_room(folder: Path, most_bytes: int, spared_seconds: float = 0.0) -> None:
    """Deletes the files that have not been used for longest, where they are too many.

    Args:
        folder: All files below it count, and what a killed process left unfinished goes.
        most_bytes: How much may stay.
        spared_seconds: What was used more recently than that stays in any case.
    """
    now, kept = time.time(), 0
    for used_at, size, path in sorted(_files(folder), reverse=True):
        orphan = path.name.startswith(ORPHANS) and now - used_at > IN_USE_SECONDS
        kept += size
        if orphan or (kept > most_bytes and now - used_at >= spared_seconds):
            with contextlib.suppress(OSError):  # another process may have been faster
                path.unlink()


def _files(folder: Path) -> Iterator[tuple[float, int, Path]]:
    for path in folder.rglob("*"):
        with contextlib.suppress(OSError):
            facts = path.stat()
            if path.is_file():
                yield facts.st_mtime, facts.st_size, path
