"""What all commands share: how they say what does not fit, and how they are interrupted."""

import argparse
import contextlib
import os
import signal
import sys
import threading
import traceback
from collections.abc import Iterator
from pathlib import Path
from types import FrameType
from typing import NoReturn


class Parser(argparse.ArgumentParser):
    """One that says what is wrong in a sentence, without the list of all flags before it."""

    def error(self, message: str) -> NoReturn:
        self.exit(2, f"heads: {message}. See: {self.prog} --help\n")


@contextlib.contextmanager
def noted_interrupts() -> Iterator[list[int]]:
    """Within it, every Ctrl+C is noted: a library that catches one makes an error of it."""
    noted: list[int] = []
    usual = signal.getsignal(signal.SIGINT)
    if usual is not signal.default_int_handler or threading.current_thread().name != "MainThread":
        yield noted
        return

    def note(number: int, frame: FrameType | None) -> None:
        noted.append(number)
        signal.default_int_handler(number, frame)

    signal.signal(signal.SIGINT, note)
    try:
        yield noted
    finally:
        signal.signal(signal.SIGINT, usual)


def unforeseen(error: Exception) -> tuple[str, int]:
    """What to say of an error that nobody foresaw, and the exit code; a full disk is no bug."""
    from heads.caching import refusal  # only here: a command begins sooner without it

    if told := refusal(error):
        let_go_of_output()
        return f"heads: {told}", 2
    place = traceback.extract_tb(error.__traceback__)[-1]
    where = f"{Path(place.filename).name}:{place.lineno}"
    return f"heads: a bug of ours, {type(error).__name__} in {where}.", 1


def let_go_of_output() -> None:
    """Leaves nothing for Python to flush where nobody reads, or the disk is full."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
