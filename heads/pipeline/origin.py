"""The code that made a result: what has been rewritten makes another one."""

import hashlib
import inspect
import secrets
from functools import cache
from importlib.metadata import version
from pathlib import Path
from typing import Any


@cache
def own_code(*modules: str) -> str:
    """A digest of code of this package, and the versions that compute with it.

    Args:
        modules: Files of the pipeline that matter besides the parts; all, if none is named.
    """
    package = Path(__file__).parents[1]
    pipeline = [package / "pipeline" / f"{name}.py" for name in modules]
    files = sorted((package / "parts").glob("*.py"))
    files += pipeline or sorted((package / "pipeline").rglob("*.py"))
    digest = hashlib.sha256(b"".join(path.read_bytes() for path in files))
    return digest.hexdigest() + version("torch") + version("transformers")


def is_ours(part: Any) -> bool:
    """Whether a part is a built-in one, not a user's own."""
    return part.__module__.startswith("heads.")


@cache
def foreign_code(part: Any) -> str:
    """A digest of the file that a user's own part comes from; empty for the built-in ones."""
    if is_ours(part):
        return ""
    function = part.forward if isinstance(part, type) else part
    try:
        return hashlib.sha256(Path(inspect.getfile(function)).read_bytes()).hexdigest()
    except (OSError, TypeError):
        return secrets.token_hex(8)  # typed at a prompt: found again in this process only
