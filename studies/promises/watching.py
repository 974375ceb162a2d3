"""What a server holds while it is attacked: its workers, its memory, its folders."""

import contextlib
import statistics
import time
from collections.abc import Callable, Sequence
from pathlib import Path

import psutil

from studies.promises.promise import Row

STEP = 0.02  # seconds between two looks
CALM, IDLE = 3, 20.0  # seconds in a row in which less of a core is used than this, in per cent


def row(promise: str, says: str, measured: str, target: str, *, holds: bool, note: str = "") -> Row:
    """A row whose words are a sentence, with what one must know of its numbers behind them."""
    says = f"{says[0].upper()}{says[1:]}."
    told = f"{measured} ({note})" if note else measured
    return Row(promise=promise, says=says, measured=told, target=target, holds=holds)


def workers(server: int) -> list[psutil.Process]:
    """The processes of a server that train: those of `heads work` and all that they started."""
    found: list[psutil.Process] = []
    with contextlib.suppress(psutil.Error):
        for child in psutil.Process(server).children(recursive=True):
            with contextlib.suppress(psutil.Error):
                if child.status() != psutil.STATUS_ZOMBIE and "work" in child.cmdline():
                    found.append(child)
    return found


def appeared(server: int, seconds: float = 60.0) -> psutil.Process:
    """The first worker of a server, once it is there.

    Raises:
        TimeoutError: None came.
    """
    found: list[psutil.Process] = []
    if not became(lambda: bool(found.extend(workers(server)) or found), seconds):
        raise TimeoutError(f"no training has begun within {seconds:g} s")
    return found[0]


def became(is_so: Callable[[], bool], seconds: float) -> bool:
    """Waits until something is so; whether it became so in that time."""
    end = time.monotonic() + seconds
    while not is_so():
        if time.monotonic() > end:
            return False
        time.sleep(STEP)
    return True


def is_gone(process: psutil.Process) -> bool:
    """Whether a process computes nothing any more, since it has ended."""
    try:
        return not process.is_running() or process.status() == psutil.STATUS_ZOMBIE
    except psutil.Error:
        return True


def gone_at(process: psutil.Process, most: float) -> float:
    """The moment at which a process is seen to have ended; infinite where it has not in `most`."""
    return time.monotonic() if became(lambda: is_gone(process), most) else float("inf")


def until_gone(process: psutil.Process, since: float, most: float) -> float:
    """Seconds from a moment until a process has ended; infinite where it has not in `most`."""
    return gone_at(process, most) - since


def resident(server: int) -> float:
    """The memory of a server without its workers, in kB."""
    return psutil.Process(server).memory_info().rss / 1024


def settled(server: int, seconds: float = 90.0) -> None:
    """Waits until a server has done for now all that it does without being asked."""
    process, end, calm = psutil.Process(server), time.monotonic() + seconds, 0
    while time.monotonic() < end and calm < CALM:
        calm = calm + 1 if process.cpu_percent(1.0) < IDLE else 0


def held(folder: Path) -> tuple[int, int]:
    """How many files lie in a folder, and their bytes."""
    count = size = 0
    for path in folder.rglob("*"):
        with contextlib.suppress(OSError):  # it may be deleted as one looks
            if path.is_file():
                count, size = count + 1, size + path.stat().st_size
    return count, size


def slope(values: Sequence[tuple[float, float]]) -> float:
    """By how much y grows with x, by least squares.

    >>> slope([(0, 1.0), (1, 3.0), (2, 5.0)])
    2.0
    """
    return statistics.linear_regression([x for x, _ in values], [y for _, y in values]).slope
