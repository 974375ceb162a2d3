"""How much memory a training holds: counted, since what a process grows by hangs on its past."""

from collections.abc import Iterable, Iterator
from contextlib import contextmanager

from torch import Tensor, nn
from torch.autograd.graph import saved_tensors_hooks

KEPT = 3  # besides a number that is learned: its gradient and two moments of AdamW


class TrainingMemory:
    """The bytes of a training: weights, gradients, moments, and what autograd keeps of a step."""

    def __init__(self, module: nn.Module, learned: Iterable[Tensor]) -> None:
        weights = list(module.state_dict().values())
        self._weights = {own.untyped_storage().data_ptr() for own in weights}
        self._always = _bytes(weights) + KEPT * _bytes(learned)
        self.peak = 0
        self.begin()

    def begin(self) -> None:
        """A graph begins: what an earlier one kept has been given back."""
        self._seen, self._kept = set(self._weights), 0

    @contextmanager
    def counting(self) -> Iterator[None]:
        """Within it, what autograd keeps for the backward pass is counted."""
        with saved_tensors_hooks(self._keep, lambda tensor: tensor):
            yield
        self.peak = max(self.peak, self._always + self._kept)

    def _keep(self, tensor: Tensor) -> Tensor:
        """Counts a tensor that is kept; those that share their memory once.

        What is kept is an alias: a graph that keeps its own outputs themselves is never freed.
        """
        storage = tensor.untyped_storage()
        if storage.data_ptr() not in self._seen:
            self._seen.add(storage.data_ptr())
            self._kept += storage.nbytes()
        return tensor.detach()


def _bytes(tensors: Iterable[Tensor]) -> int:
    return sum(own.nbytes for own in tensors)
