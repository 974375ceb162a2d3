"""How this package speaks to the Hugging Face Hub: what goes wrong there, in one sentence each."""

import errno
import re
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from heads.caching import REFUSALS, ROOM, why
from heads.errors import HeadsError
from heads.settings import current_limits

HUB_ID = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,95}(/[A-Za-z0-9][A-Za-z0-9._-]{0,95})?")
MARGIN = 500_000_000  # bytes that a download leaves free
TIMEOUT = 10  # seconds without an answer of the Hub


def token() -> bool | None:
    """In public the server's own token must not open doors for its visitors."""
    return False if current_limits().public else None


@contextmanager
def asking(
    name: str, error: type[HeadsError], *, thing: str = "model", later: str, instead: str = ""
) -> Iterator[None]:
    """Raise within a `with` block what is wrong with the Hub, or what it is asked for, as `error`.

    Args:
        name: What it is asked for, such as owner/name.
        thing: What that is: a model or a data set.
        later: What to do where the Hub does not hand it out now.
        instead: What to do of those who can do nothing about it themselves.
    """
    from huggingface_hub import errors

    try:
        yield
    except errors.GatedRepoError:
        hint = instead or "Accept its terms on the Hub, log in and fetch again."
        raise error(f"{name} is gated.", hint) from None
    except errors.RepositoryNotFoundError:
        what = f"The Hub has no public {thing} called {name}."
        raise error(what, "Check the spelling of owner/name.") from None
    except HeadsError:
        raise
    except Exception as raised:
        if isinstance(raised, OSError) and raised.errno in (*REFUSALS, errno.EACCES):
            what = f"{name} cannot be written to the disk ({why(raised)})."
            raise error(what, instead or ROOM) from None
        # Whatever the network raises: the client has changed its HTTP library more than once.
        raise error(_unreachable(name, raised), later) from None


def _unreachable(name: str, error: Exception) -> str:
    status = getattr(getattr(error, "response", None), "status_code", 0)
    if status == 429:
        return f"The Hub takes no more questions for now (429), so {name} cannot be fetched."
    if status >= 500:
        return f"The Hub has a fault of its own ({status}), so {name} cannot be fetched."
    if status in (401, 403):
        return f"The Hub does not hand out {name} without a login ({status})."
    if status == 404:
        return f"The Hub does not have {name}, or not all that it lists of it (404)."
    if "Timeout" in type(error).__name__:
        return f"The Hub does not answer in time for {name}."
    # A name without an owner may have been meant for a folder.
    missing = "" if "/" in name else f"There is no folder {name} here, and "
    return f"{missing}{'t' if missing else 'T'}he Hub cannot be reached for {name}."


def free_bytes() -> int:
    """Return the bytes that are free where the Hub's client keeps what it downloads."""
    place = hub_folder()
    while not place.is_dir() and place != place.parent:
        place = place.parent
    return shutil.disk_usage(place).free


def hub_folder() -> Path:
    """Return where the Hub's client keeps what it downloads."""
    from huggingface_hub import constants

    return Path(constants.HF_HUB_CACHE)


def repo_folder(name: str, kind: str) -> Path:
    """Return where the Hub's client keeps all of a repository, of the kind model or dataset."""
    from huggingface_hub.file_download import repo_folder_name

    return hub_folder() / repo_folder_name(repo_id=name, repo_type=kind)


def size(count: int) -> str:
    """Bytes in words.

    >>> size(87_000_000), size(2_500_000_000)
    ('87 MB', '2.5 GB')
    """
    return f"{count / 1e9:.1f} GB" if count >= 1e9 else f"{count / 1e6:.0f} MB"
