"""Long computations ask here, between two steps, whether they are still wanted.

Who calls them says how that is found out, with `interruptible`; without that nobody does, and
they go on. Those that wait for the network say so with `outside`, and need no core meanwhile.
The context belongs to a thread, or to a task of asyncio and the threads that it starts, as all of
`contextvars` does; not to threads that a computation starts itself.
"""

import contextlib
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from contextvars import ContextVar

Outside = Callable[[], AbstractContextManager[None]]
_check: ContextVar[Callable[[], None] | None] = ContextVar("check", default=None)
_outside: ContextVar[Outside] = ContextVar("outside", default=contextlib.nullcontext)
_whose: ContextVar[str] = ContextVar("whose", default="")


class Interrupted(Exception):
    """Somebody asked the work to end; what is finished has been handed over."""


@contextlib.contextmanager
def interruptible(
    check: Callable[[], None], outside: Outside = contextlib.nullcontext, whose: str = ""
) -> Iterator[None]:
    """Within it, `check` is asked between two steps of whatever is computed.

    Args:
        check: Raises where the work is to end: `Interrupted`, or a `HeadsError` that says why.
        outside: Within what it gives, the work only waits.
        whose: Who asks for it, such as an address; nobody in particular, if not given.
    """
    before, around, asks = _check.set(check), _outside.set(outside), _whose.set(whose)
    try:
        yield
    finally:
        _check.reset(before)
        _outside.reset(around)
        _whose.reset(asks)


def check() -> None:
    """Raise Interrupted, or what `interruptible` was given, if the work is to end."""
    asked = _check.get()
    if asked is not None:
        asked()


def outside() -> AbstractContextManager[None]:
    """Return a context in which the work of this thread only waits, and needs no core."""
    return _outside.get()()


def whose() -> str:
    """Who asks for the work of this thread; empty where nobody in particular does."""
    return _whose.get()


def is_watched() -> bool:
    """Whether anybody may end the work of this thread."""
    return _check.get() is not None
