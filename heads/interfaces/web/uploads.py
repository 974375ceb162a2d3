"""Files that visitors bring: kept privately for a while, under a name that nobody can guess.

Gradio's own folder of uploads is open to whoever knows a path in it, so nothing stays there.
The page knows a file by its random id alone.
"""

import contextlib
import os
import re
import secrets
import shutil
import stat
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import unquote

from heads import interruption
from heads.caching import used, writing
from heads.data.files import open_table
from heads.data.samples import SAMPLES
from heads.data.table import Table
from heads.errors import DataError
from heads.interfaces.web.temporary_files import admit
from heads.settings import cache_folder, current_limits, served_folder

ID = re.compile(r"[A-Za-z0-9_-]{22}")
SAMPLE = "sample:"
_brought: dict[str, str] = {}  # from which address each file came
FILE = "/gradio_api/file="  # of an address, before its path


def check_sent(inputs: Any) -> None:
    """Raise DataError if an argument of a call names a file that nobody has sent here.

    Gradio takes a file's path, or an address to fetch it from, in the place of every argument,
    whatever it asks for. Only a regular file will do that lies in the folder of uploads.
    """
    waiting = [inputs]
    while waiting:
        given = waiting.pop()
        if isinstance(given, list):
            waiting += given
        elif isinstance(given, dict):
            waiting += given.values()
            if isinstance(given.get("path"), str) and not _was_sent(given["path"]):
                what = "That is not a file that was sent to this page, or not any more."
                raise DataError(what, "Send the file itself, once more.")


def _was_sent(path: str) -> bool:
    given = Path(os.path.normpath(path))
    try:
        is_regular = stat.S_ISREG(given.lstat().st_mode)
    except (OSError, ValueError):
        return False
    return is_regular and given.is_relative_to(os.path.normpath(served_folder()))


def file_of(name: str, told: str) -> Any:
    """Return a file as an agent tells it: by its content, or by its address on this server.

    A data address is left as it is; what is neither raises DataError, which names the argument.
    """
    if told.startswith("data:"):
        return told
    path = unquote(told.partition(FILE)[2])
    if not path or not _was_sent(path):
        what = f"{name} is neither the content of a file nor one that was uploaded here."
        raise DataError(what, "Send it as data:text/csv;base64,… with the content in base64.")
    return {"path": path, "meta": {"_type": "gradio.FileData"}, "orig_name": Path(path).name}


def folder() -> Path:
    """Where the files lie: outside of all that is served."""
    return cache_folder() / "uploads"


def keep(path: str) -> str:
    """Move an upload into the private place and return its id; raise HeadsError if it cannot."""
    limits = current_limits()
    given = Path(path)
    if given.is_symlink() or not given.is_file():
        raise DataError("That is not a file.", "Choose a file.")
    if given.stat().st_size > limits.upload_bytes:
        forget(given)
        what = f"The file is larger than the {limits.upload_bytes // 1_000_000:,} MB allowed."
        raise DataError(what, "Choose a smaller file, or a part of the rows.")
    name, size = secrets.token_urlsafe(16), given.stat().st_size
    try:
        with writing("The file"):
            admit("upload", size, _brought_from(interruption.whose()))
            (folder() / name).mkdir(parents=True, mode=0o700)
            shutil.move(given, folder() / name / given.name[-120:])
            _brought[name] = interruption.whose()
    except DataError:
        shutil.rmtree(folder() / name, ignore_errors=True)  # half of it, perhaps
        raise
    finally:
        forget(given)
    return name


@contextlib.contextmanager
def lent(*files: str | None) -> Iterator[list[str]]:
    """Within it, uploads lie where nobody else finds them, by their ids; after it, nowhere."""
    names = list[str]()
    try:
        for file in files:
            names.append(keep(file) if file else "")
        yield names
    finally:
        for name in filter(None, names):
            shutil.rmtree(folder() / name, ignore_errors=True)


def _brought_from(address: str) -> list[Path]:
    """Return the folders of files that came from an address and are still there."""
    for name in list(_brought):
        if not (folder() / name).exists():
            _brought.pop(name, None)
    return [
        folder() / name for name, whose in list(_brought.items()) if address and whose == address
    ]


def forget(path: Path) -> None:
    """Delete an upload and the folder that Gradio made for it."""
    with contextlib.suppress(OSError):
        path.unlink(missing_ok=True)
        path.parent.rmdir()  # only where nothing else lies in it


def path_of(name: str) -> Path:
    """Return the file of an id, or of a sample; raise DataError if there is none (any more)."""
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


def opened(name: str, header: bool | None = None) -> Table:
    """Read the table of an id."""
    path = path_of(name)
    if not name.startswith(SAMPLE):
        used(path)
    return open_table(path, header)
