"""Long computations ask here, between two steps, whether they are still wanted.

Who calls them says how that is found out, with `interruptible`; without that nobody does, and
they go on. The context belongs to a thread, or to a task of asyncio and the threads that it
starts, as every `contextvars` does; not to threads that a computation starts itself.
"""

import contextlib
from collections.abc import Callable, Iterator
from contextvars import ContextVar

_check: ContextVar[Callable[[], None] | None] = ContextVar("check", default=None)


class Interrupted(Exception):
    """Somebody asked the work to end; what is finished has been handed over."""


@contextlib.contextmanager
def interruptible(check: Callable[[], None]) -> Iterator[None]:
    """Within it, `check` is asked between two steps of whatever is computed.

    Args:
        check: Raises where the work is to end: `Interrupted`, or a `HeadsError` that says why.
    """
    before = _check.set(check)
    try:
        yield
    finally:
        _check.reset(before)


def check() -> None:
    """Ends the work where that was asked for.

    Raises:
        Interrupted: It was, or whatever else was given to `interruptible` as its reason.
    """
    asked = _check.get()
    if asked is not None:
        asked()


def is_watched() -> bool:
    """Whether anybody may end the work of this thread."""
    return _check.get() is not None
