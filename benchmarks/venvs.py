"""Virtual environments of the peers: made once, in the user's cache, and found again after.

Every environment pins the torch that this project pins, so that one build serves all. Where pip
would take one with libraries for GPUs and there is none, set PIP_EXTRA_INDEX_URL to PyTorch's
index of CPU builds; all of pip's own settings hold here. (One that needs torchvision needs it of
the same build: PyPI's does not load beside a torch without CUDA.)
"""

import os
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

TORCH = "torch==2.13.0"
ENVIRONMENTS: Mapping[str, tuple[str, ...]] = {
    "sentence-transformers": (
        TORCH,
        "transformers==5.23.0",
        "sentence-transformers==6.2.0",
        "scikit-learn==1.9.1",
        "accelerate",
    ),
    "setfit": (TORCH, "transformers==5.23.0", "setfit==1.2.0"),
    "adapters": (TORCH, "adapters==1.3.0", "accelerate"),
    "transformer-ranker": (TORCH, "transformers==5.23.0", "transformer-ranker==0.2.0"),
}
HOME = Path.home() / ".cache" / "head-to-head" / "peers"
MARK = "installed.txt"  # what an environment holds; written last
MOST_SECONDS = 1_800


@dataclass(frozen=True, slots=True, kw_only=True)
class Environment:
    """A peer's environment, or why there is none.

    Attributes:
        python: Its Python; None where it could not be installed.
        reason: Why not, in a line.
    """

    name: str
    python: Path | None
    reason: str = ""


def environment(
    name: str, home: Path = HOME, required: Mapping[str, tuple[str, ...]] = ENVIRONMENTS
) -> Environment:
    """The environment of that name, installed now if it is not there as it should be."""
    folder = home / name
    python = folder / ("Scripts/python.exe" if os.name == "nt" else "bin/python")
    wanted, mark = "\n".join((sys.version.split()[0], *required[name])), folder / MARK
    if mark.is_file() and mark.read_text("utf-8") == wanted and python.exists():
        return Environment(name=name, python=python)
    print(f"Installing {name} into {folder}; once, it takes minutes.", flush=True)
    mark.unlink(missing_ok=True)
    install = [str(python), "-m", "pip", "install", "--quiet", "--no-compile", *required[name]]
    for command in ([sys.executable, "-m", "venv", "--clear", str(folder)], install):
        if reason := failed(command):
            return Environment(name=name, python=None, reason=reason)
    mark.write_text(wanted, "utf-8")
    return Environment(name=name, python=python)


def failed(command: list[str]) -> str:
    """Runs a command; the line that says why it failed, or nothing."""
    try:
        done = subprocess.run(
            command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, timeout=MOST_SECONDS
        )
    except subprocess.TimeoutExpired:
        return f"it took more than {MOST_SECONDS // 60} minutes"
    except OSError as error:
        return str(error)
    return last_error(done.stderr.decode(errors="replace")) if done.returncode else ""


def last_error(told: str) -> str:
    r"""The line that says what went wrong.

    >>> last_error("WARNING: a\nERROR: No matching distribution found for nonsense\nnotice: b")
    'No matching distribution found for nonsense'
    >>> last_error("Traceback\n  File x\nValueError: one\n\n")
    'ValueError: one'
    """
    lines = [line.strip() for line in told.splitlines() if line.strip()]
    errors = [line.removeprefix("ERROR: ") for line in lines if line.startswith("ERROR: ")]
    return ([*lines[-1:], *errors[-1:]] or ["it said nothing"])[-1][:200]
