"""Files written whole or not at all, folders pruned to a size, digests of the code behind them."""

import contextlib
import errno
import hashlib
import inspect
import os
import re
import secrets
import shutil
import stat
import time
from collections.abc import Callable, Iterator, Mapping
from functools import cache
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING, Any

from heads.errors import DataError, HeadsError
from heads.settings import current_limits

try:
    import fcntl
except ImportError:  # Windows, where nothing is deleted
    fcntl = None

if TYPE_CHECKING:
    from torch import Tensor

UNFINISHED = ".unfinished-"
ORPHANS = (UNFINISHED, ".tmp")  # ours, and those of safetensors
QUIET_SECONDS = 60
IN_USE_SECONDS = 3600  # what was used less than an hour ago may belong to work under way
ROOM = "Make room on the disk, or name another place."
ELSEWHERE = "Name a folder that can be written to, or set HEADS_CACHE to one."
FORBIDDEN = (errno.EROFS, errno.EACCES, errno.EPERM)  # room is of no use
# What a disk answers that is full, worn out, or not to be written to.
REFUSALS = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EROFS, errno.EIO)
NUMBER = re.compile(r"\(os error (\d+)\)")


@contextlib.contextmanager
def writing(what: str, hint: str = ROOM, kind: type[HeadsError] = DataError) -> Iterator[None]:
    """Raise whatever the disk refuses within a `with` block as one sentence, as `kind`.

    Args:
        what: What is written, as the beginning of a sentence.
    """
    try:
        yield
    except Exception as error:
        if not _is_of_disk(error):
            raise
        hint = ELSEWHERE if _plain(error).errno in FORBIDDEN else hint
        raise kind(f"{what} cannot be written ({why(error)}).", hint) from error


def place_told(path: Path) -> str:
    """Return how a file or folder is named to whoever asked for it; in public its name alone."""
    return path.name if current_limits().public else str(path)


def check_free(path: Path) -> None:
    """Raise DataError for a file that is there already: what a user has is never written over."""
    if path.exists():
        raise DataError(f"{place_told(path)} is there already.", "Name a new file.")


def why(error: Exception) -> str:
    """Return the reason that a disk gives, in its own words."""
    found = _plain(error)
    return found.strerror or str(found) or type(found).__name__


def refusal(error: Exception) -> DataError | None:
    """Return what to say where a disk has refused and nobody foresaw it; None for other errors.

    That is the net under `writing`: a bug is not blamed on the disk. Visitors of a public place
    are told of no path.
    """
    if not _is_of_disk(error):
        return None
    found = _plain(error)
    if found.errno not in REFUSALS:
        return None
    hint = ELSEWHERE if found.errno in FORBIDDEN else ROOM
    is_told = found.filename and not current_limits().public
    name = str(found.filename) if is_told else "The output or a file"
    return DataError(f"{name} cannot be written ({found.strerror}).", hint)


def _is_of_disk(error: Exception) -> bool:
    """Return True if a disk may be behind an error: tokenizers raise a bare one with its number."""
    is_bare = type(error) is Exception and NUMBER.search(str(error)) is not None
    return is_bare or isinstance(error, (OSError, _safetensor_error()))


def _plain(error: Exception) -> OSError:
    """Return an error of a disk as Python's own kind; that of Rust has the number in its words."""
    if isinstance(error, OSError):
        return error
    number = NUMBER.search(str(error))
    return OSError(int(number[1]), os.strerror(int(number[1]))) if number else OSError(str(error))


def write(path: Path, fill: Callable[[Path], object]) -> None:
    """Write a file whole or not at all; if the disk refuses (OSError), what was there stays."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with replacing(path, mode=0o600) as place:
        fill(place)


def write_page(path: Path, make: Callable[[], str]) -> None:
    """Write the HTML file that `make` gives; raise DataError for another name or a full disk."""
    if path.suffix.lower() not in (".html", ".htm"):
        raise DataError(f"{path.name} is no HTML file.", "Let its name end in .html.")
    page = make()

    def fill(place: Path) -> None:
        place.write_text(page, "utf-8")
        place.chmod(0o644)

    with writing(place_told(path)):
        write(path, fill)


@contextlib.contextmanager
def replacing(path: Path, mode: int = 0o666, *, is_new: bool = False) -> Iterator[Path]:
    """Yield another place to write a file in, which stands in its own, whole, after the block.

    Args:
        mode: Who may read and write it, less what the user's mask takes away.
        is_new: Whether what is there by then stays, and DataError is raised.

    Raises:
        OSError: The disk refuses, whoever it was that wrote; what was there before stays.
    """
    delete_stale(path.parent)
    place = path.parent / f"{UNFINISHED}{secrets.token_hex(8)}"
    os.close(os.open(place, os.O_CREAT | os.O_EXCL | os.O_WRONLY, mode))
    try:
        with in_use(place):
            yield place
        _link_new(place, path) if is_new else place.replace(path)
    except _safetensor_error() as error:
        place.unlink(missing_ok=True)
        raise _plain(error) from error
    except BaseException:
        place.unlink(missing_ok=True)
        raise


@contextlib.contextmanager
def in_use(path: Path) -> Iterator[None]:
    """Lock an unfinished file or folder, so that `delete_stale` knows that its process lives."""
    handle = _lock(path)
    try:
        yield
    finally:
        if handle is not None:
            os.close(handle)


def delete_stale(folder: Path) -> None:
    """Delete what processes that have ended left unfinished in a folder."""
    for path in folder.glob(f"{UNFINISHED}*"):
        with contextlib.suppress(OSError):  # another process may have been faster
            # A library may just have put a file of its own, without the lock, in the place.
            is_old = time.time() - path.lstat().st_mtime > QUIET_SECONDS
            if is_old and (handle := _lock(path)) is not None:
                shutil.rmtree(path) if path.is_dir() else path.unlink()
                os.close(handle)


def _lock(path: Path) -> int | None:
    """Return a handle that holds a lock until it is closed; None where there is none to be had."""
    if fcntl is None:
        return None
    handle = os.open(path, os.O_RDONLY)
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:  # another process holds it, or the disk knows no locks
        os.close(handle)
        return None
    return handle


def _link_new(place: Path, path: Path) -> None:
    """Give a file a name that no other has, or raise DataError."""
    try:
        os.link(place, path)  # unlike a renaming, this takes nobody's place
    except OSError:
        if path.exists():
            what = f"{place_told(path)} came to be there while this was written, and stays."
            raise DataError(what, "Name a new file.") from None
        place.replace(path)  # a disk without links, on which the look before must do
    else:
        place.unlink()


def save_tensors(
    path: Path, tensors: Mapping[str, "Tensor"], facts: Mapping[str, str] | None = None
) -> None:
    """Write tensors as a safetensors file, or raise OSError; see `checked_files.write_tensors`."""
    from safetensors.torch import save_file

    try:
        save_file(_apart(tensors), path, None if facts is None else dict(facts))
    except _safetensor_error() as error:
        raise _plain(error) from error


def _apart(tensors: Mapping[str, "Tensor"]) -> dict[str, "Tensor"]:
    """Return each in memory of its own: safetensors refuses to keep one part of it twice."""
    seen, found = set[int](), dict[str, "Tensor"]()
    for name, tensor in tensors.items():
        own = tensor.detach().contiguous()
        place = own.untyped_storage().data_ptr()
        found[name] = own.clone() if place in seen else own
        seen.add(place)
    return found


def used(path: Path) -> None:
    """Note that a file has been used, so that it is among the last to go."""
    with contextlib.suppress(OSError):
        os.utime(path)


def make_room(folder: Path, most_bytes: int, spared_seconds: float = 0.0) -> None:
    """Delete the files that have not been used for longest, where they are too many.

    Args:
        folder: All files below it count, and what a killed process left unfinished goes.
        most_bytes: How much may stay.
        spared_seconds: What was used more recently than that stays in any case.
    """
    now, kept = time.time(), 0
    found = [(facts.st_mtime, facts.st_size, path) for path, facts in files_below(folder)]
    for used_at, size, path in sorted(found, reverse=True):
        orphan = path.name.startswith(ORPHANS) and now - used_at > IN_USE_SECONDS
        kept += size
        if orphan or (kept > most_bytes and now - used_at >= spared_seconds):
            with contextlib.suppress(OSError):  # another process may have been faster
                path.unlink()


def files_below(folder: Path) -> Iterator[tuple[Path, os.stat_result]]:
    """Yield all files below a folder, some of which may come and go; no link is followed."""
    for place, _, names in os.walk(folder):  # Path.rglob raises where a folder has just gone
        for name in names:
            with contextlib.suppress(OSError):
                facts = (path := Path(place) / name).lstat()
                if stat.S_ISREG(facts.st_mode):
                    yield path, facts


def _safetensor_error() -> type[Exception]:
    """Return what safetensors raises, only where something failed: this imports torch."""
    from safetensors import SafetensorError

    return SafetensorError


# --- The code that made a result: what has been rewritten makes another one.


@cache
def own_code(*modules: str) -> str:
    """Return a digest of code of this package, and the versions that compute with it.

    Args:
        modules: Files that matter besides the parts, such as ``features/store``; all that do not
            only show results, if none is named.
    """
    package = Path(__file__).parent
    shown = package / "interfaces"
    files = sorted((package / "parts").glob("*.py"))
    files += [package / f"{name}.py" for name in modules] or [
        path for path in sorted(package.rglob("*.py")) if shown not in path.parents
    ]
    digest = hashlib.sha256(b"".join(path.read_bytes() for path in files))
    return digest.hexdigest() + version("torch") + version("transformers")


def is_ours(part: Any) -> bool:
    """Return True if a part is a built-in one, not a user's own."""
    return part.__module__.startswith("heads.")


@cache
def foreign_code(part: Any) -> str:
    """Return a digest of the file of a user's own part; "" for the built-in ones."""
    if is_ours(part):
        return ""
    function = part.forward if isinstance(part, type) else part
    try:
        return hashlib.sha256(Path(inspect.getfile(function)).read_bytes()).hexdigest()
    except (OSError, TypeError):
        return secrets.token_hex(8)  # typed at a prompt: found again in this process only
