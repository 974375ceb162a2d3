"""Trainings that a kill must not lose: what is over, and the one that is under way.

They lie in a folder of their cell until it is done. Numbers do not depend on when they were
written: a training goes on from a checkpoint to the numbers that it would have had.
"""

import contextlib
import hashlib
import shutil
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch

from heads.caching import write, writing

EVERY = 20.0  # seconds of training that a kill may cost
WHAT = "A checkpoint of a training"


class Checkpoints:
    """The trainings of one cell on disk; nowhere, where no folder is named.

    A file is named by all that a training depends on, so that one of other rows or settings is
    another one.
    """

    def __init__(self, workspace: Path | None, cell: str) -> None:
        self._folder = None if workspace is None else workspace / named(cell)
        self._written = time.monotonic()

    def finished(self, *key: object) -> dict[str, Any] | None:
        """What a training came to, if it is over."""
        return self._read("finished", key)

    def finish(self, values: Mapping[str, Any], *key: object) -> None:
        """Keeps what a training came to; its checkpoint is not needed any more."""
        self._write("finished", key, values)
        if self._folder is not None:
            self._path("begun", key).unlink(missing_ok=True)

    def begun(self, *key: object) -> dict[str, Any] | None:
        """The last checkpoint of a training, if there is one."""
        return self._read("begun", key)

    def is_due(self) -> bool:
        """Whether a kill would now cost more than it should."""
        return self._folder is not None and time.monotonic() - self._written >= EVERY

    def keep(self, values: Mapping[str, Any], *key: object) -> None:
        """Writes a checkpoint in the place of the one before."""
        self._write("begun", key, values)
        self._written = time.monotonic()

    def _path(self, kind: str, key: tuple[object, ...]) -> Path:
        assert self._folder is not None
        return self._folder / f"{named(*key)}.{kind}.pt"

    def _read(self, kind: str, key: tuple[object, ...]) -> dict[str, Any] | None:
        if self._folder is None or not (path := self._path(kind, key)).is_file():
            return None
        try:
            return torch.load(path, weights_only=True)
        except (RuntimeError, OSError, EOFError, ValueError):  # not whole: trained again
            return None

    def _write(self, kind: str, key: tuple[object, ...], values: Mapping[str, Any]) -> None:
        if self._folder is None:
            return

        def fill(place: Path) -> None:
            with place.open("wb") as file:  # torch refuses names that begin with a dot
                torch.save(dict(values), file)

        with writing(WHAT):
            write(self._path(kind, key), fill)


def named(*key: object) -> str:
    """A name of 20 hexadecimal digits for whatever has a text of its own."""
    return hashlib.sha256(repr(key).encode()).hexdigest()[:20]


def forget(workspace: Path, cell: str) -> None:
    """Deletes what was kept of a cell that is done."""
    with contextlib.suppress(OSError):
        shutil.rmtree(workspace / named(cell))
        workspace.rmdir()  # if it was the last one
