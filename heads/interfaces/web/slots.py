"""Slots in which handlers compute, handed out in turn to everybody who waits for one.

Gradio's queue has limits on what runs at once, and none on whose it is: one client that asks fifty
times would go before everybody who came later. So its limits are lifted, and a call waits here,
before each of its steps, in a line of its own address; the lines have their turns.
"""

import asyncio
from collections import Counter, OrderedDict, deque
from collections.abc import Callable
from typing import Any

from heads.settings import current_limits

# Of an event that is no endpoint, and shows nothing of Gradio's own while it is under way.
QUIET: dict[str, Any] = {"show_progress": "hidden", "api_visibility": "private"}
BEAT = 0.5  # seconds between two looks at whether who waits is still there


class Slots:
    """Slots of which nobody holds more than some, to be used from one event loop.

    Args:
        most: How many there are.
        is_ordered: Whether one key holds one at a time, so that its calls keep their order.
        each: How many one key may hold at once; all of them, if not given.
    """

    def __init__(self, most: int, *, is_ordered: bool = False, each: int = 0) -> None:
        self.is_ordered = is_ordered
        self._most, self._each = most, 1 if is_ordered else each or most
        self._held: Counter[str] = Counter()
        self._lines: OrderedDict[str, deque[asyncio.Future[None]]] = OrderedDict()

    async def acquire(self, key: str, check: Callable[[], None]) -> None:
        """Wait for a slot of a key; who waits under another key has a turn in between.

        Raises:
            Exception: What `check` raises once the slot is not wanted any more.
        """
        if key not in self._lines and self._is_free(key):
            self._held[key] += 1
            return
        turn: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._lines.setdefault(key, deque()).append(turn)
        self._give()
        try:
            while not turn.done():
                await asyncio.wait([turn], timeout=BEAT)
                check()
        except BaseException:
            self._give_up(key, turn)
            raise

    def release(self, key: str) -> None:
        """Give a slot back, and on to whose turn it is."""
        self._held[key] -= 1
        self._held += Counter()  # forgets who holds none
        self._give()

    def _is_free(self, key: str) -> bool:
        return self._held.total() < self._most and self._held[key] < self._each

    def _give(self) -> None:
        """Hand out what is free; who got one goes behind the others."""
        while (key := next(filter(self._is_free, self._lines), None)) is not None:
            line = self._lines.pop(key)
            turn = line.popleft()
            if line:
                self._lines[key] = line
            self._held[key] += 1
            turn.set_result(None)

    def _give_up(self, key: str, turn: "asyncio.Future[None]") -> None:
        if turn.done() and not turn.cancelled():
            self.release(key)
            return
        turn.cancel()
        line = self._lines[key]
        line.remove(turn)
        if not line:
            del self._lines[key]


def pools() -> dict[str, Slots]:
    """Return the slots of each `concurrency_id`: what is quick never waits behind what is slow."""
    few = 1 if current_limits().public else 2
    return {
        "infer": Slots(2),
        "looks": Slots(2),
        "inspect": Slots(few),
        "reads": Slots(3, each=few),
        "files": Slots(few),
        "estimates": Slots(few),
        "boards": Slots(2),
        "export": Slots(1),
        "builder": Slots(4, is_ordered=True),
    }


def pool(name: str) -> dict[str, Any]:
    """The arguments of an event that computes in these slots."""
    return {"concurrency_id": name, "concurrency_limit": None}
