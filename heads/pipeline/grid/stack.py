"""Several copies of one head, trained side by side in the same matrix products.

Legend: k copies, b rows in a batch, w width, c classes.
"""

from collections.abc import Iterator, Mapping, Sequence

import torch
from torch import Tensor, nn

from heads.parts.modules import Normalise, Repeat, Scale, Traced
from heads.pipeline.grid.passes import Copies, Drop, Layer, Norm, Plain, Product
from heads.pipeline.grid.tracing import Tracing


class Stack:
    """k chains of the same layers as one: `logits` maps (k, b, w) to (k, b, c).

    All numbers that are learned lie in one tensor, their gradients in another, so that a step of
    the optimizer is one call. Where products are in 16 bits, they are of a copy that `refresh`
    makes anew; what is learned stays in 32.

    Attributes:
        numbers: All that is learned, (p,), with its gradient.
        copies: The same as views, copy by copy, since each may have its own step size.
    """

    def __init__(
        self,
        chains: Sequence[nn.Sequential],
        seeds: Sequence[int],
        products: torch.dtype = torch.float32,
    ) -> None:
        states = [chain.state_dict() for chain in chains]
        self._chain, self._products = chains[0], products
        self._dice = [torch.Generator().manual_seed(seed) for seed in seeds]
        together = {name: torch.stack([one[name] for one in states]) for name in states[0]}
        self._lay({name: tensor.shape for name, tensor in together.items()}, _flat(together))

    def _lay(self, shapes: Mapping[str, torch.Size], numbers: Tensor) -> None:
        """Lays the layers out over numbers, of which each copy has its part of every tensor."""
        self._shapes = shapes
        self.numbers = nn.Parameter(numbers)
        self.numbers.grad = torch.zeros_like(self.numbers)
        self._used, self._slopes = self.numbers.data, self.numbers.grad
        if self._products != self.numbers.dtype:
            self._used, self._slopes = (
                one.to(self._products) for one in (self._used, self._slopes)
            )
        learned, gradients = self._views(self.numbers.data), self._views(self.numbers.grad)
        tensors, slopes = self._views(self._used), self._views(self._slopes)
        self._layers = [
            _layer(name, layer, tensors, slopes, self._dice) for name, layer in leaves(self._chain)
        ]
        own = (n for n, one in enumerate(self._layers) if isinstance(one, Product | Norm | Tracing))
        self._first = next(own, len(self._layers))
        self.copies = [
            [_parameter(learned[name][n], gradients[name][n]) for name in shapes]
            for n in range(len(self._dice))
        ]

    def kept(self, numbers: Sequence[int]) -> "Stack":
        """Some of the copies as a stack of their own, which draws what they would have drawn."""
        found = object.__new__(Stack)
        found._chain, found._products = self._chain, self._products
        found._dice = [self._dice[number] for number in numbers]
        shapes = {
            name: torch.Size((len(numbers), *shape[1:])) for name, shape in self._shapes.items()
        }
        found._lay(shapes, self.gathered(self.numbers.data, numbers))
        return found

    def gathered(self, flat: Tensor, numbers: Sequence[int]) -> Tensor:
        """Of numbers that lie as those of the stack (p,), those of some copies."""
        chosen = list(numbers)
        return _flat({name: view[chosen] for name, view in self._views(flat).items()})

    def _views(self, flat: Tensor) -> dict[str, Tensor]:
        sizes = [shape.numel() for shape in self._shapes.values()]
        parts = zip(self._shapes.items(), flat.split(sizes), strict=True)
        return {name: part.view(shape) for (name, shape), part in parts}

    @torch.no_grad()
    def logits(self, values: Tensor, *, training: bool) -> Tensor:
        """(k, b, w) to (k, b, c); several samples of dropout stand below each other in b."""
        for layer in self._layers:
            values = layer.forward(values, training=training)
        return values

    @torch.no_grad()
    def learn(self, slope: Tensor) -> None:
        """Finds the gradient of every number from that of the last logits, (k, b, c)."""
        layers = self._layers[self._first :]
        for layer in reversed(layers):
            layer.learn(slope)
            if layer is not layers[0]:
                slope = layer.back(slope)
        if self._slopes is not self.numbers.grad and self.numbers.grad is not None:
            self.numbers.grad.copy_(self._slopes)

    @torch.no_grad()
    def refresh(self) -> None:
        """Lets the products know what the optimizer has changed."""
        if self._used.dtype != self.numbers.dtype:
            self._used.copy_(self.numbers)

    def state(self, number: int, flat: Tensor | None = None) -> dict[str, Tensor]:
        """The tensors of one copy, for `load_state_dict`.

        Args:
            flat: Other numbers that lie as those of the stack, such as their average.
        """
        views = self._views(self.numbers.data if flat is None else flat)
        return {name: tensor[number].clone() for name, tensor in views.items()}


def _flat(tensors: Mapping[str, Tensor]) -> Tensor:
    return torch.cat([tensor.flatten() for tensor in tensors.values()])


def _parameter(values: Tensor, gradient: Tensor) -> nn.Parameter:
    found = nn.Parameter(values)
    found.grad = gradient
    return found


def _layer(
    name: str,
    layer: nn.Module,
    tensors: Mapping[str, Tensor],
    slopes: Mapping[str, Tensor],
    dice: list[torch.Generator],
) -> Layer:
    """The same layer for all copies, on their tensors and where the gradients of those go."""
    weight, bias = f"{name}.weight", f"{name}.bias"
    if isinstance(layer, nn.Linear):
        return Product(tensors[weight], tensors.get(bias), slopes[weight], slopes.get(bias))
    if isinstance(layer, nn.LayerNorm):
        given = (tensors[weight], tensors.get(bias), slopes[weight], slopes.get(bias))
        return Norm(layer.eps, *given)
    if isinstance(layer, Traced):
        own = [f"{name}.{key}" for key, _ in layer.named_parameters()]
        return Tracing(layer, [tensors[one] for one in own], [slopes[one] for one in own])
    if isinstance(layer, nn.Dropout) and layer.p:
        return Drop(layer.p, dice)
    return Copies(layer.samples) if isinstance(layer, Repeat) else Plain(layer)


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
    if isinstance(layer, Traced):
        return True
    if type(layer) in known:
        return not isinstance(layer, nn.LayerNorm) or layer.elementwise_affine
    home = type(layer).__module__
    pointwise = home == "torch.nn.modules.activation" or home == "transformers.activations"
    # Across dimensions, or with dice of their own; what has parameters is not shared out either.
    unlike = (nn.Softmax, nn.Softmin, nn.Softmax2d, nn.LogSoftmax, nn.GLU, nn.RReLU)
    return pointwise and not isinstance(layer, unlike) and not list(layer.parameters())
