"""Several copies of one head, trained side by side in the same matrix products.

Legend: k copies, b rows in a batch, w width, c classes.
"""

from collections.abc import Iterator, Sequence

import torch
from torch import Tensor, nn
from torch.nn.functional import layer_norm

from heads.parts.blocks import Normalise, Repeat, Scale

BANK = 4  # times the numbers that one draw needs


class Noise:
    """Dropout masks cut out of a bank that is drawn once: drawing anew costs more than learning."""

    def __init__(self, seed: int) -> None:
        self._generator = torch.Generator().manual_seed(seed)
        self._banks: dict[float, Tensor] = {}

    def drop(self, values: Tensor, probability: float) -> Tensor:
        """The values with some set to 0 and the others scaled up, as `nn.Dropout` does."""
        size = values.numel()
        bank = self._banks.get(probability)
        if bank is None or len(bank) < BANK * size:
            kept = torch.rand(BANK * size, generator=self._generator) >= probability
            bank = self._banks[probability] = kept.float() / (1 - probability)
        start = int(torch.randint(len(bank) - size + 1, (1,), generator=self._generator))
        return values * bank[start : start + size].view(values.shape)


class Stack:
    """k chains of the same layers as one: `logits` maps (k, b, w) to (k, b, c).

    Attributes:
        tensors: Every tensor of the chain by name, the k copies along the first dimension. The
            weights of linear layers lie as (k, in, out), which spares copies in every step.
    """

    def __init__(self, chains: Sequence[nn.Sequential], seed: int) -> None:
        first, *_ = states = [chain.state_dict() for chain in chains]
        self._leaves = list(leaves(chains[0]))
        linear = [f"{name}.weight" for name, layer in self._leaves if isinstance(layer, nn.Linear)]
        self._turned = frozenset(linear)
        self.tensors = {
            name: torch.stack([self._lies(name, state[name]) for state in states]).requires_grad_()
            for name in first
        }
        self._noise = Noise(seed)
        # The optimizer gets each copy apart, as a view, since each may have its own step size.
        self.copies = [
            [nn.Parameter(tensor.data[number]) for tensor in self.tensors.values()]
            for number in range(len(chains))
        ]

    def logits(self, values: Tensor, *, training: bool) -> Tensor:
        """(k, b, w) to (k, b, c); with several samples of dropout to (samples, k, b, c)."""
        for name, layer in self._leaves:
            values = self._applied(name, layer, values, training)
        return values

    def _applied(self, name: str, layer: nn.Module, values: Tensor, training: bool) -> Tensor:
        if isinstance(layer, nn.Linear):
            weight = self.tensors[f"{name}.weight"]  # (k, in, out)
            if layer.bias is None:
                return values @ weight
            bias = self.tensors[f"{name}.bias"][:, None]
            return (
                torch.baddbmm(bias, values, weight) if values.dim() == 3 else values @ weight + bias
            )
        if isinstance(layer, nn.LayerNorm):
            values = layer_norm(values, layer.normalized_shape, eps=layer.eps)
            values = values * self.tensors[f"{name}.weight"][:, None]
            return values if layer.bias is None else values + self.tensors[f"{name}.bias"][:, None]
        if isinstance(layer, nn.Dropout):
            return self._noise.drop(values, layer.p) if training and layer.p else values
        if isinstance(layer, Repeat):
            return values.expand(layer.samples, *values.shape) if training else values
        return layer(values)  # works on the last dimension or on every number by itself

    def collect(self) -> None:
        """Hands each copy its share of the gradient, after `backward`."""
        for copy_number, copy in enumerate(self.copies):
            for parameter, tensor in zip(copy, self.tensors.values(), strict=True):
                parameter.grad = None if tensor.grad is None else tensor.grad[copy_number]

    def clear(self) -> None:
        """Forgets the gradients."""
        for tensor in self.tensors.values():
            tensor.grad = None

    def state(self, number: int) -> dict[str, Tensor]:
        """The tensors of one copy, for `load_state_dict`."""
        return {
            name: self._lies(name, tensor.detach()[number]).contiguous().clone()
            for name, tensor in self.tensors.items()
        }

    def _lies(self, name: str, tensor: Tensor) -> Tensor:
        return tensor.T if name in self._turned else tensor


def leaves(chain: nn.Sequential, prefix: str = "") -> Iterator[tuple[str, nn.Module]]:
    """The layers of a chain in their order, inner chains opened, by full name."""
    for name, layer in chain.named_children():
        if type(layer) is nn.Sequential:
            yield from leaves(layer, f"{prefix}{name}.")
        else:
            yield prefix + name, layer


def can_stack(chain: nn.Sequential) -> bool:
    """Whether every layer is one that a `Stack` knows how to compute."""
    return all(_is_known(layer) for _, layer in leaves(chain))


def _is_known(layer: nn.Module) -> bool:
    known = (nn.Linear, nn.LayerNorm, nn.Dropout, Repeat, Normalise, Scale, nn.Identity)
    if type(layer) in known:
        return not isinstance(layer, nn.LayerNorm) or layer.elementwise_affine
    home = type(layer).__module__
    pointwise = home == "torch.nn.modules.activation" or home == "transformers.activations"
    # Across dimensions, or with dice of their own; what has parameters is not shared out either.
    unlike = (nn.Softmax, nn.Softmin, nn.Softmax2d, nn.LogSoftmax, nn.GLU, nn.RReLU)
    return pointwise and not isinstance(layer, unlike) and not list(layer.parameters())
