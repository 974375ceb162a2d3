"""Trainings that a kill must not lose: what is over, and the one that is under way.

They lie in a folder of their cell until it is done. Numbers do not depend on when they were
written: a training goes on from a checkpoint to the numbers that it would have had.
"""

import contextlib
import hashlib
import shutil
import time
import zipfile
from collections.abc import Mapping
from pathlib import Path
from pickle import UnpicklingError
from typing import Any, Literal

import torch

from heads.caching import write, writing
from heads.checked_files import read_json, write_json
from heads.errors import DataError

EVERY = 20.0  # seconds of training that a kill may cost
SHARE = 20  # times as long as writing the last one took: large base models are written less often
WHAT = "A checkpoint of a training"
CLOCK = "seconds"
Kind = Literal["begun", "finished"]
BEGUN: Kind = "begun"  # a checkpoint of a training that is under way
FINISHED: Kind = "finished"  # what a training came to
UNREADABLE = (
    RuntimeError, OSError, EOFError, ValueError, LookupError, UnpicklingError, zipfile.BadZipFile,
)  # fmt: skip  # what reading a broken file raises


class Checkpoints:
    """The trainings of one cell on disk; nowhere, where no folder is named.

    A file is named by all that a training depends on, so that one of other rows or settings is
    another one.
    """

    def __init__(self, workspace: Path | None, cell: str) -> None:
        self._folder = folder_of(workspace, cell)
        self._written = self._told = time.monotonic()
        self._took = 0.0

    def load(self, kind: Kind, *key: object) -> dict[str, Any] | None:
        """Return what was saved of a training; None where nothing whole is there."""
        if self._folder is None or not (path := self._path(kind, key)).is_file():
            return None
        try:
            with zipfile.ZipFile(path) as archive:
                if (
                    archive.testzip() is not None
                ):  # torch does not look at the checksums that it writes
                    return None
            return torch.load(path, weights_only=True)
        except UNREADABLE:
            return None  # not whole: trained again

    def save(self, kind: Kind, values: Mapping[str, Any], *key: object) -> None:
        """Save a checkpoint in the place of the one before, or the result in place of both.

        How long it took to come there is saved beside it. A full disk costs no training.
        """
        if self._folder is None:
            return
        begun = time.monotonic()
        seconds = spent(self._folder) + begun - self._told
        self._told = begun

        def fill(place: Path) -> None:
            with place.open("wb") as file:  # torch refuses names that begin with a dot
                torch.save(dict(values), file)

        with contextlib.suppress(DataError), writing(WHAT):
            write(self._path(kind, key), fill)
            write_json(self._folder / CLOCK, round(seconds, 3))
        if kind == FINISHED:
            self._path(BEGUN, key).unlink(missing_ok=True)
        self._written = time.monotonic()
        self._took = self._written - begun

    def is_due(self) -> bool:
        """Return True if a kill would now cost more than it should."""
        since = time.monotonic() - self._written
        return self._folder is not None and since >= max(EVERY, SHARE * self._took)

    def _path(self, kind: Kind, key: tuple[object, ...]) -> Path:
        assert self._folder is not None
        return self._folder / f"{named(*key)}.{kind}.pt"


def folder_of(workspace: Path | None, cell: str) -> Path | None:
    """Where the trainings of a cell lie."""
    return None if workspace is None else workspace / named(cell)


def spent(folder: Path | None) -> float:
    """How many seconds went into what is kept of a cell, before a kill as well."""
    if folder is None:
        return 0.0
    try:
        return float(read_json(folder / CLOCK))
    except (OSError, ValueError):
        return 0.0


def named(*key: object) -> str:
    """A name of 20 hexadecimal digits for whatever has a text of its own."""
    return hashlib.sha256(repr(key).encode()).hexdigest()[:20]


def forget(workspace: Path, cell: str) -> None:
    """Deletes what was kept of a cell that is done."""
    with contextlib.suppress(OSError):
        shutil.rmtree(workspace / named(cell))
        workspace.rmdir()  # if it was the last one
