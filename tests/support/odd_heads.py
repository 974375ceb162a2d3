"""Heads that are no plain sequence of layers, as users write them."""

from collections import OrderedDict
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import torch
from torch import Tensor, nn

from heads.parts.registry import head

Maker = Callable[[int, int], nn.Module]


class Flip(nn.Module):
    """One linear layer, and a forward that is not that of its child."""

    def __init__(self, width: int, classes: int) -> None:
        super().__init__()
        self.linear = nn.Linear(width, classes)

    def forward(self, values: Tensor) -> Tensor:
        return self.linear(-values)


class Branches(nn.Module):
    def __init__(self, width: int, classes: int) -> None:
        super().__init__()
        self.left, self.right = nn.Linear(width, 8), nn.Linear(width, 8)
        self.out = nn.Linear(16, classes)

    def forward(self, values: Tensor) -> Tensor:
        return self.out(torch.cat([self.left(values).tanh(), self.right(values)], dim=1))


class Skip(nn.Sequential):
    """What enters its layers, and what leaves them added: not a sequence, though it looks so."""

    def forward(self, input: Tensor) -> Tensor:
        return input + super().forward(input)


class Shifted(nn.Module):
    """A norm with running means, and a buffer that the forward needs."""

    shift: Tensor

    def __init__(self, width: int, classes: int) -> None:
        super().__init__()
        self.norm, self.out = nn.BatchNorm1d(width), nn.Linear(width, classes)
        self.register_buffer("shift", torch.arange(classes) / 4)

    def forward(self, values: Tensor) -> Tensor:
        return self.out(self.norm(values)) - self.shift


class Projected(nn.Module):
    """Fixed directions of a vector in another order: buffers, of which one is an index."""

    order: Tensor
    directions: Tensor

    def __init__(self, width: int) -> None:
        super().__init__()
        self.register_buffer("order", torch.arange(width).flip(0))
        self.register_buffer("directions", torch.eye(width) * 2)

    def forward(self, values: Tensor) -> Tensor:
        return values[:, self.order] @ self.directions


def projected(width: int, classes: int) -> nn.Module:
    """Fixed directions, then linear."""
    return nn.Sequential(OrderedDict(projected=Projected(width), out=nn.Linear(width, classes)))


def sliced(width: int, classes: int) -> nn.Module:
    """The same dense layer for each half of the vector, tanh, linear."""
    half = width // 2
    layers = {
        "halves": nn.Unflatten(1, (2, half)),
        "dense": nn.Linear(half, half),
        "tanh": nn.Tanh(),
        "whole": nn.Flatten(),
        "out": nn.Linear(width, classes),
    }
    return nn.Sequential(OrderedDict(layers))


def flip(width: int, classes: int) -> nn.Module:
    """One linear layer of the negated vector."""
    return Flip(width, classes)


def branches(width: int, classes: int) -> nn.Module:
    """Two branches side by side."""
    return Branches(width, classes)


def skip(width: int, classes: int) -> nn.Module:
    """Two layers past which their input goes, then linear."""
    inner = Skip(nn.Linear(width, width), nn.Tanh())
    return nn.Sequential(OrderedDict(skip=inner, out=nn.Linear(width, classes)))


def twice(width: int, classes: int) -> nn.Module:
    """The same dense layer and the same activation twice, then linear."""
    dense, tanh = nn.Linear(width, width), nn.Tanh()
    layers = {"a": dense, "b": tanh, "c": dense, "d": tanh, "out": nn.Linear(width, classes)}
    return nn.Sequential(OrderedDict(layers))


def shifted(width: int, classes: int) -> nn.Module:
    """A norm with running means, linear, and a fixed number taken from each logit."""
    return Shifted(width, classes)


def hooked(width: int, classes: int) -> nn.Module:
    """One linear layer with a hook that doubles its numbers."""
    linear = nn.Linear(width, classes)
    linear.register_forward_hook(lambda _layer, _given, output: 2 * output)
    return nn.Sequential(OrderedDict(out=linear))


def held(width: int, classes: int) -> nn.Module:
    """A dense layer that is held fixed, ReLU, linear."""
    dense = nn.Linear(width, width).requires_grad_(False)
    layers = {"dense": dense, "relu": nn.ReLU(), "out": nn.Linear(width, classes)}
    return nn.Sequential(OrderedDict(layers))


def bare(width: int, classes: int) -> nn.Module:
    """One linear layer that stands in no sequence."""
    return nn.Linear(width, classes)


class Doubled(nn.Module):
    """One linear layer, and a forward that changes what it is given."""

    def __init__(self, width: int, classes: int) -> None:
        super().__init__()
        self.linear = nn.Linear(width, classes)

    def forward(self, values: Tensor) -> Tensor:
        return self.linear(values.mul_(2))


def doubled(width: int, classes: int) -> nn.Module:
    """One linear layer of the doubled vector, doubled in place."""
    return Doubled(width, classes)


def in_place(width: int, classes: int) -> nn.Module:
    """ReLU in place, linear, ReLU in place, linear."""
    layers = {
        "first": nn.ReLU(inplace=True),
        "dense": nn.Linear(width, width),
        "relu": nn.ReLU(inplace=True),
        "out": nn.Linear(width, classes),
    }
    return nn.Sequential(OrderedDict(layers))


ODD: dict[str, Maker] = {
    make.__name__: make
    for make in (
        flip, branches, skip, twice, shifted, hooked, held, bare, doubled, in_place, projected,
        sliced,
    )
}  # fmt: skip


@contextmanager
def registered() -> Iterator[None]:
    """Within it they have names in recipes."""
    for one in ODD.values():
        head(one)
    try:
        yield
    finally:
        for name in ODD:
            del head._parts[name]
