"""The layers of a stack, each with its way forward and its way back.

Written out rather than left to autograd: nothing is computed that nobody asks for (the loss, the
gradient of the input), and every gradient lands at once where the optimizer reads it.
Legend: k copies, b rows in a batch, i numbers into a layer, o numbers out of it.
"""

from functools import lru_cache
from typing import Protocol

import torch
from torch import Tensor, nn

BANK = 2**22  # numbers that one bank of masks holds, whoever asks for them
LINE = 32  # numbers by which the places in a bank differ: whole lines of the cache


class Layer(Protocol):
    """A layer of k copies: values forward, slopes (the gradients by its output) back."""

    def forward(self, values: Tensor, *, training: bool) -> Tensor:
        """(k, b, i) to (k, b, o); keeps what the way back needs."""
        ...

    def learn(self, slope: Tensor) -> None:
        """Writes the gradients of its own tensors, from (k, b, o)."""
        ...

    def back(self, slope: Tensor) -> Tensor:
        """(k, b, o) to (k, b, i)."""
        ...


class Product:
    """`nn.Linear`.

    Attributes:
        weight, bias: (k, o, i) and (k, o); there need be no bias.
        weight_slope, bias_slope: Where their gradients go.
    """

    def __init__(
        self, weight: Tensor, bias: Tensor | None, weight_slope: Tensor, bias_slope: Tensor | None
    ) -> None:
        self.weight, self.bias = weight, bias
        self.weight_slope, self.bias_slope = weight_slope, bias_slope
        self._values = weight

    def forward(self, values: Tensor, *, training: bool) -> Tensor:
        self._values = values
        if self.bias is None:
            return torch.bmm(values, self.weight.mT)
        return torch.baddbmm(self.bias[:, None], values, self.weight.mT)

    def learn(self, slope: Tensor) -> None:
        torch.bmm(slope.mT, self._values, out=self.weight_slope)
        if self.bias_slope is not None:
            torch.sum(slope, 1, out=self.bias_slope)

    def back(self, slope: Tensor) -> Tensor:
        return torch.bmm(slope, self.weight)


class Norm:
    """`nn.LayerNorm`, its gain and shift (k, i) apart from what is the same for all copies."""

    def __init__(
        self,
        eps: float,
        gain: Tensor,
        shift: Tensor | None,
        gain_slope: Tensor,
        shift_slope: Tensor | None,
    ) -> None:
        self.eps, self.gain, self.shift = eps, gain, shift
        self.gain_slope, self.shift_slope = gain_slope, shift_slope
        self._values = self._even = self._mean = self._inverse = gain

    def forward(self, values: Tensor, *, training: bool) -> Tensor:
        self._values, shape = values, values.shape[-1:]
        self._even, self._mean, self._inverse = torch.native_layer_norm(
            values, shape, None, None, self.eps
        )
        if self.shift is None:
            return self._even * self.gain[:, None]
        return torch.addcmul(self.shift[:, None], self._even, self.gain[:, None])

    def learn(self, slope: Tensor) -> None:
        torch.sum(slope * self._even, 1, out=self.gain_slope)
        if self.shift_slope is not None:
            torch.sum(slope, 1, out=self.shift_slope)

    def back(self, slope: Tensor) -> Tensor:
        values, shape = self._values, self._values.shape[-1:]
        return torch.ops.aten.native_layer_norm_backward(
            slope * self.gain[:, None], values, shape, self._mean, self._inverse,
            None, None, [True, False, False],
        )[0]  # fmt: skip


class Drop:
    """`nn.Dropout`, its masks cut out of a bank: drawing anew costs more than learning.

    Attributes:
        probability: Of a number to become 0.
        dice: For each copy its own, so that its masks do not depend on who learns beside it.
    """

    def __init__(self, probability: float, dice: list[torch.Generator]) -> None:
        self.probability, self.dice = probability, dice
        self._masks: list[Tensor] = []

    def forward(self, values: Tensor, *, training: bool) -> Tensor:
        if not training:
            return values
        bank, size = mask_bank(self.probability, values.dtype), values[0].numel()
        places = (len(bank) - size) // LINE + 1
        if places < 1:  # more numbers than the bank has: it is laid down several times
            bank, places = bank.repeat(-(-size // len(bank)) + 1), BANK // LINE
        starts = [int(torch.randint(places, (1,), generator=one)) * LINE for one in self.dice]
        self._masks = [bank[start : start + size].view_as(values[0]) for start in starts]
        return self.back(values)

    def learn(self, slope: Tensor) -> None:
        """It has no tensors."""

    def back(self, slope: Tensor) -> Tensor:
        found = torch.empty_like(slope)
        for one, mask, kept in zip(slope, self._masks, found, strict=True):
            torch.mul(one, mask, out=kept)
        return found


@lru_cache(maxsize=8)
def mask_bank(probability: float, dtype: torch.dtype) -> Tensor:
    """(BANK,), 0 or 1 / (1 - p): drawn once, the same for every stack."""
    drawn = torch.rand(BANK, generator=torch.Generator().manual_seed(0)) >= probability
    return drawn.to(dtype) / (1 - probability)


class Copies:
    """`Repeat`: the batch several times, one below the other, so that each is dropped out anew."""

    def __init__(self, samples: int) -> None:
        self.samples = samples

    def forward(self, values: Tensor, *, training: bool) -> Tensor:
        return values.repeat(1, self.samples, 1) if training else values

    def learn(self, slope: Tensor) -> None:
        """It has no tensors."""

    def back(self, slope: Tensor) -> Tensor:
        return slope.unflatten(1, (self.samples, -1)).sum(dim=1)


class Plain:
    """Any layer without tensors that works on the last dimension, or on every number by itself."""

    def __init__(self, layer: nn.Module) -> None:
        self.layer = layer
        self._values = self._found = torch.empty(0)

    def forward(self, values: Tensor, *, training: bool) -> Tensor:
        if not training:
            return self.layer(values)
        with torch.enable_grad():  # one layer's way back is known to torch
            self._values = values.detach().requires_grad_()
            self._found = self.layer(self._values)
        return self._found.detach()

    def learn(self, slope: Tensor) -> None:
        """It has no tensors."""

    def back(self, slope: Tensor) -> Tensor:
        return torch.autograd.grad(self._found, self._values, slope)[0]
