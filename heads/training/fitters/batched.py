"""Several copies of one head, trained side by side in the same matrix products.

The backward pass is written by hand. An autograd graph of k copies would be built and walked anew
at every step, for a handful of layers on a few hundred numbers, and would not write its gradients
into the one flat tensor that the optimizer takes in one step. `tests/training/test_batched.py`
holds every layer to torch's own.

Legend: k copies, b rows in a batch, w width, c classes.
"""

from collections.abc import Mapping, Sequence
from copy import deepcopy
from functools import lru_cache
from typing import Protocol

import torch
from torch import Tensor, nn
from torch.func import functional_call

from heads.backbone.device import HERE
from heads.errors import RecipeError
from heads.parts.modules import Normalise, Repeat, Scale, Traced, is_learned, is_plain, leaves
from heads.rng import IsolatedRng

# --- The layers of a stack, each with its way forward and its way back.

BANK = 2**22  # numbers that one bank of masks holds, whoever asks for them
LINE = 32  # numbers by which the places in a bank differ: whole lines of the cache


class BatchedLayer(Protocol):
    """A layer of k copies: values forward, gradients by its output back."""

    def forward(self, values: Tensor, *, training: bool) -> Tensor:
        """(k, b, i) to (k, b, o); keeps what the way back needs."""
        ...

    def learn(self, gradient: Tensor) -> None:
        """Writes the gradients of its own tensors, from (k, b, o)."""
        ...

    def back(self, gradient: Tensor) -> Tensor:
        """(k, b, o) to (k, b, i)."""
        ...


class BatchedLinear:
    """`nn.Linear`.

    Attributes:
        weight, bias: (k, o, i) and (k, o); there need be no bias.
        weight_gradient, bias_gradient: Where their gradients go.
    """

    def __init__(
        self,
        weight: Tensor,
        bias: Tensor | None,
        weight_gradient: Tensor,
        bias_gradient: Tensor | None,
    ) -> None:
        self.weight, self.bias = weight, bias
        self.weight_gradient, self.bias_gradient = weight_gradient, bias_gradient
        self._values = weight

    def forward(self, values: Tensor, *, training: bool) -> Tensor:
        self._values = values
        if self.bias is None:
            return torch.bmm(values, self.weight.mT)
        return torch.baddbmm(self.bias[:, None], values, self.weight.mT)

    def learn(self, gradient: Tensor) -> None:
        # y = x Wᵀ + b, so dL/dW = (dL/dy)ᵀ x: (k, o, b) @ (k, b, i) sums over the batch, in place.
        torch.bmm(gradient.mT, self._values, out=self.weight_gradient)
        if self.bias_gradient is not None:
            torch.sum(gradient, 1, out=self.bias_gradient)

    def back(self, gradient: Tensor) -> Tensor:
        return torch.bmm(gradient, self.weight)  # dL/dx = dL/dy W: (k, b, o) @ (k, o, i)


class BatchedLayerNorm:
    """`nn.LayerNorm`, its gain and shift (k, i) apart from what is the same for all copies."""

    def __init__(
        self,
        eps: float,
        gain: Tensor,
        shift: Tensor | None,
        gain_gradient: Tensor,
        shift_gradient: Tensor | None,
    ) -> None:
        self.eps, self.gain, self.shift = eps, gain, shift
        self.gain_gradient, self.shift_gradient = gain_gradient, shift_gradient
        self._values = self._even = self._mean = self._inverse = gain

    def forward(self, values: Tensor, *, training: bool) -> Tensor:
        self._values, shape = values, values.shape[-1:]
        self._even, self._mean, self._inverse = torch.native_layer_norm(
            values, shape, None, None, self.eps
        )
        if self.shift is None:
            return self._even * self.gain[:, None]
        return torch.addcmul(self.shift[:, None], self._even, self.gain[:, None])

    def learn(self, gradient: Tensor) -> None:
        # y = gain · x̂ + shift: what is the same for all copies, x̂, was kept by the way forward.
        torch.sum(gradient * self._even, 1, out=self.gain_gradient)
        if self.shift_gradient is not None:
            torch.sum(gradient, 1, out=self.shift_gradient)

    def back(self, gradient: Tensor) -> Tensor:
        values, shape = self._values, self._values.shape[-1:]
        # Mean and deviation hang on every number of the row, so torch's own kernel goes back
        # through them; it knows one gain for all rows, hence the product with ours before.
        return torch.ops.aten.native_layer_norm_backward(
            gradient * self.gain[:, None], values, shape, self._mean, self._inverse,
            None, None, [True, False, False],
        )[0]  # fmt: skip


class BatchedDropout:
    """`nn.Dropout`, its masks cut out of a bank: drawing anew costs more than learning.

    Attributes:
        probability: Of a number to become 0.
        rng: For each copy its own, so that its masks do not depend on who learns beside it.
    """

    def __init__(self, probability: float, rng: list[torch.Generator]) -> None:
        self.probability, self.rng = probability, rng
        self._masks: list[Tensor] = []

    def forward(self, values: Tensor, *, training: bool) -> Tensor:
        if not training:
            return values
        bank, size = mask_bank(self.probability, values.dtype, values.device), values[0].numel()
        places = (len(bank) - size) // LINE + 1
        if places < 1:  # more numbers than the bank has: it is laid down several times
            bank, places = bank.repeat(-(-size // len(bank)) + 1), BANK // LINE
        # One random number a copy and step, not b · i: where its mask begins in the bank.
        starts = [int(torch.randint(places, (1,), generator=one)) * LINE for one in self.rng]
        self._masks = [bank[start : start + size].view_as(values[0]) for start in starts]
        return self.back(values)

    def learn(self, gradient: Tensor) -> None:
        """It has no tensors."""

    def back(self, gradient: Tensor) -> Tensor:
        found = torch.empty_like(gradient)
        for one, mask, kept in zip(gradient, self._masks, found, strict=True):
            torch.mul(one, mask, out=kept)
        return found


@lru_cache(maxsize=8)
def mask_bank(probability: float, dtype: torch.dtype, device: torch.device = HERE) -> Tensor:
    """(BANK,), 0 or 1 / (1 - p): drawn once, the same for every stack."""
    drawn = torch.rand(BANK, generator=torch.Generator().manual_seed(0)) >= probability
    return drawn.to(device, dtype) / (1 - probability)


class BatchedRepeat:
    """`Repeat`: the batch several times, one below the other, so that each is dropped out anew."""

    def __init__(self, samples: int) -> None:
        self.samples = samples

    def forward(self, values: Tensor, *, training: bool) -> Tensor:
        return values.repeat(1, self.samples, 1) if training else values

    def learn(self, gradient: Tensor) -> None:
        """It has no tensors."""

    def back(self, gradient: Tensor) -> Tensor:
        return gradient.unflatten(1, (self.samples, -1)).sum(dim=1)


class BatchedElementwise:
    """Any layer without tensors that works on the last dimension, or on every number by itself."""

    def __init__(self, layer: nn.Module) -> None:
        self.layer = layer
        self._values = self._found = torch.empty(0)

    def forward(self, values: Tensor, *, training: bool) -> Tensor:
        # A copy each time: a layer may work in place, on a leaf or on vectors that stay.
        if not training:
            return self.layer(values.clone())
        with torch.enable_grad():  # one layer's way back is known to torch
            self._values = values.detach().requires_grad_()
            self._found = self.layer(self._values.clone())
        return self._found.detach()

    def learn(self, gradient: Tensor) -> None:
        """It has no tensors."""

    def back(self, gradient: Tensor) -> Tensor:
        return torch.autograd.grad(self._found, self._values, gradient)[0]


# --- A layer of a stack whose way back torch finds: what is not worth writing out by hand.


class BatchedTraced:
    """Any `Traced` layer of k copies.

    Attributes:
        layer: What computes it, from tensors that are handed to it.
        tensors: Its tensors, each with the copies in front, in the order of their names there.
        gradients: Where their gradients go.
    """

    def __init__(
        self, layer: Traced, tensors: Sequence[Tensor], gradients: Sequence[Tensor]
    ) -> None:
        self.layer, self.tensors, self.gradients = layer, tensors, gradients
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

    def learn(self, gradient: Tensor) -> None:
        """Writes the gradients of its own tensors, and finds that of what entered it."""
        self._back, *own = torch.autograd.grad(self._found, self._given, gradient)
        for place, found in zip(self.gradients, own, strict=True):
            place.copy_(found)

    def back(self, gradient: Tensor) -> Tensor:
        """(k, b, i), as the learning from the same gradient has found it."""
        return self._back


class BatchedModules:
    """k heads, each run by its own forward; buffers and frozen tensors stay in the heads."""

    def __init__(
        self,
        modules: Sequence[nn.Module],
        tensors: Mapping[str, Tensor],
        gradients: Mapping[str, Tensor],
        rng: list[torch.Generator],
    ) -> None:
        self.tensors, self._modules, self._rng = tensors, modules, rng
        self._gradients = [gradients[name] for name in tensors]
        self._runs, self._back = list[tuple[Tensor, list[Tensor]]](), list[Tensor]()

    def forward(self, values: Tensor, *, training: bool) -> Tensor:
        self._runs = []
        for number, module in enumerate(self._modules):
            kind = next((one.dtype for one in module.parameters()), torch.float32)
            given = [values[number], *(one[number] for one in self.tensors.values())]
            given = [one.detach().to(kind).requires_grad_(training) for one in given]
            tensors = dict(zip(self.tensors, given[1:], strict=True))
            draw = int(torch.randint(2**62, (1,), generator=self._rng[number])) if training else 0
            with IsolatedRng(draw).rolling(), torch.set_grad_enabled(training):
                logits = functional_call(module.train(training), tensors, (given[0].clone(),))
            if training and not logits.requires_grad:
                what = f"The forward of {type(module).__name__} gives logits without a gradient."
                raise RecipeError(what, "Leave out torch.no_grad and detach.")
            self._runs.append((logits.flatten(0, -2), given))  # several samples below each other
        return torch.stack([logits.detach().to(values.dtype) for logits, _ in self._runs])

    def learn(self, gradient: Tensor) -> None:
        """Writes the gradients of its tensors, and finds that of what entered it."""
        self._back = []
        for number, (found, given) in enumerate(self._runs):
            by_output = gradient[number].to(found.dtype)
            back, *own = torch.autograd.grad(found, given, by_output, materialize_grads=True)
            self._back.append(back)
            for place, one in zip(self._gradients, own, strict=True):
                place[number].copy_(one)

    def back(self, gradient: Tensor) -> Tensor:
        return torch.stack(self._back).to(gradient.dtype)


class BatchedHeads:
    """k heads of the same layers as one: `logits` maps (k, b, w) to (k, b, c).

    Heads with a layer that is not written out above are run by their own forward, copy by copy.

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
        named = [chain.named_parameters() for chain in chains]
        states = [{name: t.detach() for name, t in one if t.requires_grad} for one in named]
        written = all(name and _is_known(layer) for name, layer in leaves(chains[0]))
        self._is_written_out = written
        self._chains = [chains[0] if written else deepcopy(chain) for chain in chains]
        self._products = products
        self._rngs = [torch.Generator().manual_seed(seed) for seed in seeds]
        together = {name: torch.stack([one[name] for one in states]) for name in states[0]}
        self._lay({name: tensor.shape for name, tensor in together.items()}, _flat(together))

    def _lay(self, shapes: Mapping[str, torch.Size], numbers: Tensor) -> None:
        """Lays the layers out over numbers, of which each copy has its part of every tensor."""
        self._shapes = shapes
        self.numbers = nn.Parameter(numbers)
        self.numbers.grad = torch.zeros_like(self.numbers)
        self._used, self._gradients = self.numbers.data, self.numbers.grad
        if self._products != self.numbers.dtype:
            self._used, self._gradients = (
                one.to(self._products) for one in (self._used, self._gradients)
            )
        learned, gradients = self._views(self.numbers.data), self._views(self.numbers.grad)
        tensors, theirs = self._views(self._used), self._views(self._gradients)
        if self._is_written_out:
            arguments = (tensors, theirs, self._rngs)
            self._layers = [_layer(*layer, *arguments) for layer in leaves(self._chains[0])]
        else:
            self._layers = [BatchedModules(self._chains, tensors, theirs, self._rngs)]
        learning = BatchedLinear | BatchedLayerNorm | BatchedTraced | BatchedModules
        indices = (n for n, layer in enumerate(self._layers) if isinstance(layer, learning))
        self._first = next(indices, len(self._layers))
        self.copies = [
            [_parameter(learned[name][n], gradients[name][n]) for name in shapes]
            for n in range(len(self._rngs))
        ]

    def kept(self, numbers: Sequence[int]) -> "BatchedHeads":
        """Some of the copies as a stack of their own, which draws what they would have drawn."""
        found = object.__new__(BatchedHeads)
        found._chains = [self._chains[number] for number in numbers]
        found._products, found._is_written_out = self._products, self._is_written_out
        found._rngs = [self._rngs[number] for number in numbers]
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
    def learn(self, gradient: Tensor) -> None:
        """Finds the gradient of every number from that of the last logits, (k, b, c)."""
        # Before the first layer with tensors nothing is learned, so the way back ends there.
        layers = self._layers[self._first :]
        for layer in reversed(layers):
            layer.learn(gradient)
            if layer is not layers[0]:
                gradient = layer.back(gradient)
        if self._gradients is not self.numbers.grad and self.numbers.grad is not None:
            self.numbers.grad.copy_(self._gradients)

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
        learned, chain = {name: own[number] for name, own in views.items()}, self._chains[number]
        names = {id(tensor): name for name, tensor in chain.named_parameters()}
        # A shared tensor is there under all its names.
        state: dict[str, Tensor] = chain.state_dict(keep_vars=True)
        found = {name: learned.get(names.get(id(own), ""), own) for name, own in state.items()}
        return {name: tensor.detach().clone() for name, tensor in found.items()}


def _flat(tensors: Mapping[str, Tensor]) -> Tensor:
    flat = [tensor.flatten() for tensor in tensors.values()]
    return torch.cat(flat) if flat else torch.zeros(0)  # a head may have nothing to learn


def _parameter(values: Tensor, gradient: Tensor) -> nn.Parameter:
    found = nn.Parameter(values)
    found.grad = gradient
    return found


def _layer(
    name: str,
    layer: nn.Module,
    tensors: Mapping[str, Tensor],
    gradients: Mapping[str, Tensor],
    rng: list[torch.Generator],
) -> BatchedLayer:
    """The same layer for all copies, on their tensors and where the gradients of those go."""
    weight, bias = f"{name}.weight", f"{name}.bias"
    if isinstance(layer, nn.Linear):
        return BatchedLinear(
            tensors[weight], tensors.get(bias), gradients[weight], gradients.get(bias)
        )
    if isinstance(layer, nn.LayerNorm):
        given = (tensors[weight], tensors.get(bias), gradients[weight], gradients.get(bias))
        return BatchedLayerNorm(layer.eps, *given)
    if isinstance(layer, Traced):
        own = [f"{name}.{key}" for key, _ in layer.named_parameters()]
        return BatchedTraced(layer, [tensors[one] for one in own], [gradients[one] for one in own])
    if isinstance(layer, nn.Dropout) and layer.p:
        return BatchedDropout(layer.p, rng)
    return BatchedRepeat(layer.samples) if isinstance(layer, Repeat) else BatchedElementwise(layer)


def _is_known(layer: nn.Module) -> bool:
    """Return True if a layer need not be run by its own forward."""
    if not (is_plain(layer, type(layer)) and is_learned(layer)):
        return False
    if isinstance(layer, Traced):
        return type(layer).forward is Traced.forward
    if type(layer) in (nn.Linear, nn.Dropout, Repeat, Normalise, Scale, nn.Identity):
        return True
    if type(layer) is nn.LayerNorm:
        return layer.elementwise_affine
    home = type(layer).__module__
    pointwise = home == "torch.nn.modules.activation" or home == "transformers.activations"
    # Across dimensions, or with dice of their own; what has parameters is not shared out either.
    unlike = (nn.Softmax, nn.Softmin, nn.Softmax2d, nn.LogSoftmax, nn.GLU, nn.RReLU)
    return pointwise and not isinstance(layer, unlike) and not list(layer.parameters())
