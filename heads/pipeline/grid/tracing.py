"""A layer of a stack whose way back torch finds: what is not worth writing out by hand.

Legend: k copies, b rows in a batch, i numbers into a layer, o numbers out of it.
"""

from collections.abc import Sequence

import torch
from torch import Tensor

from heads.parts.modules import Traced


class Tracing:
    """Any `Traced` layer of k copies.

    Attributes:
        layer: What computes it, from tensors that are handed to it.
        tensors: Its tensors, each with the copies in front, in the order of their names there.
        slopes: Where their gradients go.
    """

    def __init__(self, layer: Traced, tensors: Sequence[Tensor], slopes: Sequence[Tensor]) -> None:
        self.layer, self.tensors, self.slopes = layer, tensors, slopes
        self._given: list[Tensor] = []
        self._found = self._back = torch.empty(0)

    def forward(self, values: Tensor, *, training: bool) -> Tensor:
        """(k, b, i) to (k, b, o)."""
        if not training:
            return self.layer.compute(values, *self.tensors)
        with torch.enable_grad():
            self._given = [one.detach().requires_grad_() for one in (values, *self.tensors)]
            self._found = self.layer.compute(*self._given)
        return self._found.detach()

    def learn(self, slope: Tensor) -> None:
        """Writes the gradients of its own tensors, and finds that of what entered it."""
        self._back, *own = torch.autograd.grad(self._found, self._given, slope)
        for place, found in zip(self.slopes, own, strict=True):
            place.copy_(found)

    def back(self, slope: Tensor) -> Tensor:
        """(k, b, i), as the learning from the same slope has found it."""
        return self._back
