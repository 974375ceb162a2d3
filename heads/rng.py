"""Randomness that belongs to one piece of work, though torch's layers know only a global one."""

import threading
from collections.abc import Iterator
from contextlib import contextmanager

import torch

_lock = threading.RLock()  # one piece of work may begin another within it


class IsolatedRng:
    """A seeded sequence of random numbers.

    The global state is borrowed for a stretch of work under a lock and given back, so that two
    pieces of work side by side do not disturb each other's numbers. Whatever draws weights
    draws them within it.
    """

    def __init__(self, seed: int = 0) -> None:
        self._state = torch.Generator().manual_seed(seed).get_state()

    @contextmanager
    def rolling(self) -> Iterator[None]:
        """Within it, torch's random numbers continue this sequence."""
        with _lock, torch.random.fork_rng(devices=[]):
            torch.set_rng_state(self._state)
            yield
            self._state = torch.get_rng_state()
