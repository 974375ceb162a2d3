"""Who is here: from which address a call comes, and whether anybody still waits for its answer.

Gradio computes what nobody reads: a call that was posted and never read runs to its end, and so
does a plain function whose tab is closed. Answers are read from streams, so the middleware notes
here which streams are open, and long computations ask (`heads.interruption`) whether theirs is.

An address is what limits go by; a session's hash is free to invent.
"""

import asyncio
import contextlib
import ipaddress
import re
import time
from collections import Counter, OrderedDict
from collections.abc import Iterator
from typing import TypeVar

from heads.interruption import Interrupted

GRACE = 3.5  # seconds in which a call that was posted must find a reader
LEFT = 0.5  # seconds after which a reader who is gone is taken to be gone
TICK = 0.1  # seconds
MOST_NOTED = 20_000  # readers that are remembered after they left
# What callers make up to name sessions, calls and uploads, by which things are kept.
NAME = re.compile(r"[\w-]{1,64}", re.ASCII)
Value = TypeVar("Value")


class Recent(OrderedDict[str, Value]):
    """The entries that were set last; of names that are free to invent the oldest are forgotten.

    Args:
        most: How many entries there are at most.
    """

    def __init__(self, most: int) -> None:
        super().__init__()
        self._most = most

    def __setitem__(self, name: str, value: Value) -> None:
        """Set an entry, which is the newest one then."""
        self.pop(name, None)  # another thread may remove it between two steps
        super().__setitem__(name, value)
        while len(self) > self._most:
            self.popitem(last=False)


class Visitors:
    """Who reads answers at this moment, and who has left.

    Attributes:
        now: A clock of the seconds in which the server could have heard of a reader. It stands
            while the server's loop does, as on a machine that is busy: nobody is late because of
            that.
    """

    def __init__(self) -> None:
        self.now = 0.0
        self._reading: Counter[str] = Counter()
        self._left, self._cancelled = Recent[float](MOST_NOTED), Recent[float](MOST_NOTED)  # when

    async def keep_time(self) -> None:
        """Move the clock on, for ever."""
        while True:
            begun = time.monotonic()
            await asyncio.sleep(TICK)
            self.now += min(time.monotonic() - begun, 2 * TICK)

    @contextlib.contextmanager
    def reading(self, key: str) -> Iterator[None]:
        """Within it somebody reads the stream of a session, or of an event."""
        self._reading[key] += 1
        try:
            yield
        finally:
            self._reading[key] -= 1
            if not self._reading[key]:
                del self._reading[key]
                self._left[key] = self.now

    def cancel(self, event: str) -> None:
        """Note that somebody asks an event to end."""
        self._cancelled[event] = self.now

    def is_waited_for(self, event: str, session: str, since: float) -> bool:
        """Whether an event has a reader, or may get one yet.

        Args:
            since: When it was posted, by `now`.
        """
        if event in self._cancelled:
            return False
        if self._reading[event] or self._reading[session]:
            return True
        left = max(self._left.get(event, -1.0), self._left.get(session, -1.0))
        return self.now - left < LEFT if left > since else self.now - since < GRACE

    def check(self, event: str, session: str, since: float) -> None:
        """Raise Interrupted if nobody waits for an event."""
        if not self.is_waited_for(event, session, since):
            raise Interrupted


def address_of(client: "tuple[str, int] | list[object] | None") -> str:
    """Return the address that limits go by: of IPv6 the network, in which hosts are free.

    >>> address_of(("2001:db8::1", 1)) == address_of(("2001:db8::2", 2))
    True
    """
    host = str(client[0]) if client else ""
    try:
        found = ipaddress.ip_address(host)
    except ValueError:
        return host
    if found.version == 4:
        return host
    if mapped := getattr(found, "ipv4_mapped", None):
        return str(mapped)
    return str(ipaddress.ip_network((found, 64), strict=False))
