"""What all commands share: how they say what does not fit, and how they are interrupted."""

import argparse
import contextlib
import signal
import threading
from collections.abc import Iterator
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
