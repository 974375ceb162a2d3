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

    Attributes:
        states: Where the sequence is: on the processor, and on another device if it draws there.
    """

    def __init__(self, seed: int = 0, device: torch.device | None = None) -> None:
        self._elsewhere = device if device is not None and device.type != "cpu" else None
        self.states = [torch.Generator().manual_seed(seed).get_state()]
        if self._elsewhere is not None:
            self.states.append(torch.Generator(self._elsewhere).manual_seed(seed).get_state())

    @contextmanager
    def rolling(self) -> Iterator[None]:
        """Within it, torch's random numbers continue this sequence."""
        with _lock, torch.random.fork_rng(devices=[]), self._borrowed():
            torch.set_rng_state(self.states[0])
            yield
            self.states[0] = torch.get_rng_state()

    @contextmanager
    def _borrowed(self) -> Iterator[None]:
        """The same for the numbers that are drawn on another device, where layers compute there."""
        if self._elsewhere is None:
            yield
            return
        module = torch.get_device_module(self._elsewhere)
        before = module.get_rng_state()
        module.set_rng_state(self.states[1])
        try:
            yield
            self.states[1] = module.get_rng_state()
        finally:
            module.set_rng_state(before)
