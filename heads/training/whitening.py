"""The axes along which a head sees its input while it learns: those along which it varies.

AdamW has a step size for every number by itself, so it matters what the numbers are. Along the
principal axes of the input, those that vary little learn as fast as those that vary much, and a
few dozen steps do what took hundreds. Any linear layer takes such a change of axes up: a head
that is kept reads vectors as they are.

Legend: n rows, w width, o numbers out of the first layer.

Source: SOAP (Vyas et al. 2024, arXiv 2409.11321): Adam in the eigenbasis of Shampoo. On the input's
side of a first layer Shampoo sums ‖δ‖² x xᵀ over rows, δ what comes back through the layer; here
all rows count alike, so the axes are those of the vectors and need be found only once.
"""

import threading
from collections import OrderedDict
from collections.abc import Callable, Mapping
from dataclasses import dataclass

import torch
from torch import Tensor

from heads.parts.solvers import divisor

WIDEST = 2048  # beyond, principal axes take longer to find than they save: they are not tried
MOST_ROWS = 4096  # from which they are found
MANY_ROWS = 100_000
KEPT_BYTES = 256 * 2**20


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class InputBasis:
    """A change of axes: x to (x - shift) @ turn.

    Attributes:
        shift: (w,).
        turn: (w, w), or (w,) where each number keeps its axis.
        back: Of the same shape; its transpose undoes the turn.
    """

    shift: Tensor
    turn: Tensor
    back: Tensor

    def turned(self, axes: Tensor) -> "InputBasis":
        """Return scaled axes, one gain (w,) each, turned to others (w, w)."""
        turn, back = self.turn[:, None] * axes, self.back[:, None] * axes
        return InputBasis(shift=self.shift, turn=turn, back=back)

    def seen(self, vectors: Tensor, products: torch.dtype) -> Tensor:
        """The vectors along these axes, (n, w) to (n, w)."""
        if len(vectors) > MANY_ROWS:  # beside so many no second copy of them should lie
            found = torch.empty(vectors.shape, dtype=products, device=vectors.device)
            for some, part in zip(vectors.split(MANY_ROWS), found.split(MANY_ROWS), strict=True):
                part.copy_(self.seen(some, products))
            return found
        centred, turn = (vectors - self.shift).to(products), self.turn.to(products)
        return _turned(centred, turn)

    def folded(self, state: dict[str, Tensor], layer: str) -> dict[str, Tensor]:
        """The same function of vectors as they are: the layer takes up shift and turn."""
        weight = _turned(
            state[f"{layer}.weight"], self.turn.mT if self.turn.dim() == 2 else self.turn
        )
        new = state | {f"{layer}.weight": weight}
        if f"{layer}.bias" in state:
            new[f"{layer}.bias"] = state[f"{layer}.bias"] - weight @ self.shift
        return new

    def unfolded(self, state: Mapping[str, Tensor], layer: str) -> dict[str, Tensor]:
        """The other way round: what a layer that reads vectors as they are is along these axes."""
        weight = state[f"{layer}.weight"]
        new = {**state, f"{layer}.weight": _turned(weight, self.back)}
        if f"{layer}.bias" in state:
            new[f"{layer}.bias"] = state[f"{layer}.bias"] + weight @ self.shift
        return new


def _turned(values: Tensor, turn: Tensor) -> Tensor:
    return values * turn if turn.dim() == 1 else values @ turn


def basis(vectors: Tensor, *, standardise: bool, centred: bool, turned: bool = True) -> InputBasis:
    """The axes that some vectors (n, w) are seen along.

    Axes are not shortened until all vary alike: that learns as fast, and blows noise up.

    Args:
        turned: Whether to the principal axes; of vectors wider than `WIDEST` they are not found.
        standardise: Whether numbers get deviation 1 first; else axes are only turned.
        centred: Whether the mean becomes 0, which a layer without a bias could not undo.
    """
    spread, centre = torch.std_mean(vectors, dim=0, correction=0)
    scaled = scaled_axes(centre, spread, standardise=standardise, centred=centred)
    if not turned or vectors.shape[1] > WIDEST:
        return scaled
    some = (vectors[:: -(-len(vectors) // MOST_ROWS)] - scaled.shift) * scaled.turn
    _, axes = torch.linalg.eigh(some.T @ some / len(some))
    return scaled.turned(axes)


def scaled_axes(centre: Tensor, spread: Tensor, *, standardise: bool, centred: bool) -> InputBasis:
    """Return the axes as they are, shifted and scaled as of `basis`, from mean and deviation."""
    shift, gain = centre if centred else torch.zeros_like(centre), torch.ones_like(spread)
    if standardise:
        # What is the same in every text says nothing, and must not be blown up.
        flat = spread <= 1e-6 * spread.max().clamp_min(1e-12)
        gain = torch.where(flat, 0.0, 1 / divisor(centre, spread))
    undone = torch.where(gain > 0, 1 / gain.clamp_min(1e-12), torch.zeros_like(gain))
    return InputBasis(shift=shift, turn=gain, back=undone)


class DerivedVectors:
    """What was made of the vectors of a reading and its heads ask for again, within a bound."""

    def __init__(self) -> None:
        self._found: OrderedDict[object, tuple[InputBasis, Tensor]] = OrderedDict()
        self._lock = threading.Lock()

    def of(
        self, key: object, make: Callable[[], tuple[InputBasis, Tensor]]
    ) -> tuple[InputBasis, Tensor]:
        """What stands under the key, made now if it is not there."""
        with self._lock:
            if key not in self._found:
                self._found[key] = make()
            self._found.move_to_end(key)
            found = self._found[key]
            while sum(vectors.nbytes for _, vectors in self._found.values()) > KEPT_BYTES:
                self._found.popitem(last=False)
            return found
