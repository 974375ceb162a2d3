"""Several copies of one head in the same matrix products, and the settings that they try.

Each layer computes all copies at once from tensors with the copies in front, and autograd goes back
through it. A head with a layer that is not known here is run by its own forward, copy by copy.

Legend: k copies, b rows in a batch, w width, c classes, p numbers that are learned.
"""

import copy
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from functools import lru_cache
from typing import Any

import torch
from torch import Tensor, nn
from torch.func import functional_call, vmap
from torch.nn.functional import layer_norm

from heads.backbone.device import HERE
from heads.errors import RecipeError
from heads.parts.modules import (
    Cuts,
    Directions,
    Normalise,
    Repeat,
    Residual,
    Scale,
    is_learned,
    is_plain,
    leaves,
)
from heads.rng import IsolatedRng
from heads.settings import ExperimentConfig
from heads.training.fitters.base import Chosen

BANK = 2**22  # numbers that one bank of masks holds, whoever asks for them
MAPPED = (Directions, Residual, Cuts)  # layers of our own whose copies torch maps over
LINE = 32  # numbers by which the places in a bank differ: whole lines of the cache


class BatchedHeads:
    """k heads of the same layers as one: `logits` maps (k, b, w) to (k, b, c).

    All numbers that are learned lie in one tensor, their gradients in another. Where products are
    in 16 bits, they are of a copy of the numbers, which stay in 32.

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
        layers = list(leaves(chains[0]))
        # One by one, heads need buffers and a mode of their own.
        self._layers = layers if all(name and _is_known(layer) for name, layer in layers) else None
        self._chains = [chain if self._layers else copy.deepcopy(chain) for chain in chains]
        self._products = products
        self._rngs = [torch.Generator().manual_seed(seed) for seed in seeds]
        stacked = {name: torch.stack([state[name] for state in states]) for name in states[0]}
        self._lay_out({name: tensor.shape for name, tensor in stacked.items()}, _flat(stacked))

    def _lay_out(self, shapes: Mapping[str, torch.Size], numbers: Tensor) -> None:
        """Take numbers (p,) of which each copy has its part of every tensor."""
        self._shapes, self._logits = shapes, torch.empty(0)
        self._inputs = list[Tensor]()  # of the last logits: the tensors of the layers
        self.numbers = nn.Parameter(numbers)
        self.numbers.grad = torch.zeros_like(self.numbers)
        learned, self._gradients = (self._views(flat) for flat in (numbers, self.numbers.grad))
        self.copies = [
            [_parameter(learned[name][n], self._gradients[name][n]) for name in shapes]
            for n in range(len(self._rngs))
        ]

    def kept(self, numbers: Sequence[int]) -> "BatchedHeads":
        """Return some of the copies as a stack, which draws what they would have drawn."""
        fewer = copy.copy(self)
        fewer._chains = [self._chains[number] for number in numbers]
        fewer._rngs = [self._rngs[number] for number in numbers]
        shapes = {
            name: torch.Size((len(numbers), *shape[1:])) for name, shape in self._shapes.items()
        }
        fewer._lay_out(shapes, self.gathered(self.numbers.data, numbers))
        return fewer

    def gathered(self, flat: Tensor, numbers: Sequence[int]) -> Tensor:
        """Return those of some copies, of numbers that lie as those of the stack (p,)."""
        return _flat({name: view[list(numbers)] for name, view in self._views(flat).items()})

    def _views(self, flat: Tensor) -> dict[str, Tensor]:
        sizes = [shape.numel() for shape in self._shapes.values()]
        parts = zip(self._shapes.items(), flat.split(sizes), strict=True)
        return {name: part.view(shape) for (name, shape), part in parts}

    def logits(self, values: Tensor, *, training: bool) -> Tensor:
        """(k, b, w) to (k, b, c); several samples of dropout stand below each other in b."""
        with torch.set_grad_enabled(training):
            # Leaves of their own: their gradients need not be put together on the way back.
            tensors = {
                name: view.detach().to(self._products).requires_grad_(training)
                for name, view in self._views(self.numbers).items()
            }
            self._inputs = list(tensors.values())
            if self._layers is None:
                self._logits = self._by_own_forward(values, tensors, training)
                return self._logits.detach()
            for name, layer in self._layers:
                own = [tensors[f"{name}.{key}"] for key, _ in layer.named_parameters()]
                values = _layer_logits(layer, values, own, self._rngs if training else ())
            self._logits = values
        return self._logits.detach()

    def _by_own_forward(
        self, values: Tensor, tensors: Mapping[str, Tensor], training: bool
    ) -> Tensor:
        """Run each head by its own forward; its buffers and frozen tensors stay in it."""
        logits = list[Tensor]()
        for number, module in enumerate(self._chains):
            dtype = next((one.dtype for one in module.parameters()), torch.float32)
            own = {name: tensor[number].to(dtype) for name, tensor in tensors.items()}
            # A copy, since a layer may work in place; with a gradient, which tells a detached one.
            row_values = values[number].to(dtype, copy=True).requires_grad_(training)
            draw = int(torch.randint(2**62, (1,), generator=self._rngs[number])) if training else 0
            with IsolatedRng(draw).rolling():
                found = functional_call(module.train(training), own, (row_values.clone(),))
            if training and not found.requires_grad:
                what = f"The forward of {type(module).__name__} gives logits without a gradient."
                raise RecipeError(what, "Leave out torch.no_grad and detach.")
            logits.append(found.flatten(0, -2))  # several samples below each other
        return torch.stack(logits).to(values.dtype)

    def learn(self, gradient: Tensor) -> None:
        """Set the gradient of every number from that of the last logits, (k, b, c)."""
        if not self._inputs:
            return  # a head may have nothing to learn
        found = torch.autograd.grad(self._logits, self._inputs, gradient, materialize_grads=True)
        for view, own in zip(self._gradients.values(), found, strict=True):
            view.copy_(own)

    def state(self, number: int, flat: Tensor | None = None) -> dict[str, Tensor]:
        """Return the tensors of one copy, for `load_state_dict`.

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


def _layer_logits(
    layer: nn.Module, values: Tensor, tensors: Sequence[Tensor], rngs: Sequence[torch.Generator]
) -> Tensor:
    """Return what a layer of k copies makes of (k, b, i).

    Args:
        tensors: Its tensors, each with the copies in front.
        rngs: The random numbers of each copy while it learns; empty in use.
    """
    if isinstance(layer, nn.Linear):
        weight, *bias = tensors  # (k, o, i) and, if any, (k, o)
        if not bias:
            return torch.bmm(values, weight.mT)
        return torch.baddbmm(bias[0][:, None], values, weight.mT)
    if isinstance(layer, nn.LayerNorm):
        gain, *shift = tensors  # (k, i)
        even = layer_norm(values, values.shape[-1:], eps=layer.eps)
        if not shift:
            return even * gain[:, None]
        return torch.addcmul(shift[0][:, None], even, gain[:, None])
    if isinstance(layer, MAPPED):
        names = [name for name, _ in layer.named_parameters()]
        own = dict(zip(names, tensors, strict=True))
        return vmap(lambda own, rows: functional_call(layer, own, (rows,)))(own, values)
    if isinstance(layer, nn.Dropout):
        return drop_out(values, layer.p, rngs) if rngs and layer.p else values
    if isinstance(layer, Repeat):
        return values.repeat(1, layer.samples, 1) if rngs else values
    # What works in place would change vectors that stay, or what the way back needs.
    return layer(values.clone() if getattr(layer, "inplace", False) else values)


def drop_out(values: Tensor, probability: float, rngs: Sequence[torch.Generator]) -> Tensor:
    """`nn.Dropout` of k copies, (k, b, i), each by its own random numbers.

    Masks are cut out of a bank: drawing anew costs more than learning.
    """
    bank, size = mask_bank(probability, values.dtype, values.device), values[0].numel()
    places = (len(bank) - size) // LINE + 1
    if places < 1:  # more numbers than the bank has: it is laid down several times
        bank, places = bank.repeat(-(-size // len(bank)) + 1), BANK // LINE
    # One random number a copy and step, not b · i: where its mask begins in the bank.
    starts = [int(torch.randint(places, (1,), generator=rng)) * LINE for rng in rngs]
    masks = [bank[start : start + size].view_as(values[0]) for start in starts]
    return torch.stack([own * mask for own, mask in zip(values, masks, strict=True)])


@lru_cache(maxsize=8)
def mask_bank(probability: float, dtype: torch.dtype, device: torch.device = HERE) -> Tensor:
    """(BANK,), 0 or 1 / (1 - p): drawn once, the same for every stack."""
    drawn = torch.rand(BANK, generator=torch.Generator().manual_seed(0)) >= probability
    return drawn.to(device, dtype) / (1 - probability)


def _is_known(layer: nn.Module) -> bool:
    """Return True if a layer need not be run by its own forward."""
    if not (is_plain(layer, type(layer)) and is_learned(layer)):
        return False
    if type(layer) in (*MAPPED, nn.Linear, nn.Dropout, Repeat, Normalise, Scale, nn.Identity):
        return True
    if type(layer) is nn.LayerNorm:
        return layer.elementwise_affine
    home = type(layer).__module__
    pointwise = home == "torch.nn.modules.activation" or home == "transformers.activations"
    # Across dimensions, or with dice of their own; what has parameters is not shared out either.
    unlike = (nn.Softmax, nn.Softmin, nn.Softmax2d, nn.LogSoftmax, nn.GLU, nn.RReLU)
    return pointwise and not isinstance(layer, unlike) and not list(layer.parameters())


@dataclass(frozen=True, slots=True, kw_only=True)
class CopySettings:
    """The settings of one copy of a head.

    Attributes:
        learning_rate: Of AdamW, the same in all steps but the first few.
        standardise: Whether its input is standardised; folded into the head afterwards.
        principal_axes: Whether it sees its input along its principal axes; folded in likewise.
        epochs: How many passes over its rows it learns; 0 until that is known.
        converged: Whether its development loss had stopped falling by then, or the cap was hit.
    """

    learning_rate: float
    weight_decay: float = 0.01
    standardise: bool = False
    principal_axes: bool = False
    epochs: float = 0.0
    converged: bool = True

    @classmethod
    def from_values(cls, chosen: Chosen) -> "CopySettings":
        """Return the settings from plain values."""
        values: Any = dict(chosen)
        return cls(**values)

    def as_values(self) -> Chosen:
        """Return the settings as plain values."""
        return asdict(self)


# Heads on one vector a text. Along principal axes what varies little is learned as fast as what
# varies much: of trec6's [CLS] that is worth 4 points, of its mean -0.5.
NEW_HEADS = (
    CopySettings(learning_rate=4e-3, weight_decay=0.3, standardise=True),
    CopySettings(learning_rate=4e-3, weight_decay=1.0, standardise=True),
    CopySettings(learning_rate=4e-3, weight_decay=1.0, standardise=True, principal_axes=True),
)
# The same for heads that begin with pretrained weights, which know their input as it is.
PRETRAINED_HEADS = (
    CopySettings(learning_rate=1e-3),
    CopySettings(learning_rate=4e-3, weight_decay=0.3),
    CopySettings(learning_rate=4e-3, weight_decay=1.0, principal_axes=True),
)
# Heads on the states of all tokens, where nothing could undo a change of the input.
TOKEN_HEADS = (
    CopySettings(learning_rate=1e-3, weight_decay=0.3),
    CopySettings(learning_rate=4e-3, weight_decay=0.3),
    CopySettings(learning_rate=4e-3, weight_decay=1.0),
)


def narrow_table(
    table: Sequence[CopySettings], config: ExperimentConfig, standardise: bool | None = None
) -> list[CopySettings]:
    """Return the settings to try that are left where a run fixes some of them."""
    fixed: dict[str, Any] = {"learning_rate": config.learning_rate} if config.learning_rate else {}
    fixed |= {} if standardise is None else {"standardise": standardise}
    return list(dict.fromkeys(replace(one, **fixed) for one in table))[: config.trials or None]
