"""L-BFGS: smooth convex functions minimised side by side, as far as their precision tells.

Legend: k problems, p numbers of each.

Source: Liu and Nocedal 1989; a step that halves until it is good enough (Armijo 1966).
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

MEMORY = 10
HALVINGS = 12
ENOUGH = 1e-4  # of the slope at which a step must make the objective fall
NOISE = 8  # roundings of a value: a difference below tells nothing
PATIENCE = 10  # steps in which a gradient may fail to shrink
Function = Callable[[Tensor], tuple[Tensor, Tensor]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Stage:
    """A function to be minimised, in one precision.

    Attributes:
        function: Points (k, p) to values (k,) and gradients (k, p).
        near: Down to which share of the first gradient it will do.
        halvings: How often a step may be halved.
    """

    function: Function
    near: float
    halvings: int = HALVINGS


def minimise(stages: Sequence[Stage], start: Tensor, iterations: int) -> Tensor:
    """Minimises k smooth convex functions at once, (k, p) to (k, p).

    Args:
        stages: The functions, roughly computed and then exactly. What one has learned of the
            curvature serves the next.
    """
    here = stages[0].function(torch.zeros_like(start))
    first = here[1].norm(dim=1).clamp_min(1e-12)
    point, memory = start, Memory()
    for number, stage in enumerate(stages):
        if number or bool(start.any()):
            here = stage.function(point)
        point = _descended(stage, point, here, stage.near * first, iterations, memory)
    return point


def _descended(
    stage: Stage,
    point: Tensor,
    here: tuple[Tensor, Tensor],
    goal: Tensor,
    iterations: int,
    memory: "Memory",
) -> Tensor:
    """Downhill from a point and what stands there, until every gradient is as small as its goal.

    A problem ends before where its precision tells no more: where it twice finds no lower point,
    the second time straight down, or its gradient shrinks no more.
    """
    value, gradient = here
    noise = NOISE * torch.finfo(value.dtype).eps
    least, since = gradient.norm(dim=1), torch.zeros(len(point))
    failed, ended = torch.zeros(2, len(point), dtype=torch.bool)
    for _ in range(iterations):
        norm = gradient.norm(dim=1)
        since = torch.where(norm < least, 0, since + 1)
        least = torch.minimum(norm, least)
        solved = (norm <= goal) | (since > PATIENCE) | ended
        if bool(solved.all()):
            break
        direction = memory.direction(gradient)
        slope = (gradient * direction).sum(dim=1)
        length = torch.ones(len(point)) if memory.steps else 1 / norm.clamp_min(1e-12)
        trial, next_value, next_gradient, good = point, value, gradient, length < 0
        for _ in range(stage.halvings):
            trial = point + length[:, None] * direction
            next_value, next_gradient = stage.function(trial)
            good = next_value <= value + ENOUGH * length * slope + noise * value.abs()
            if bool((good | solved).all()):  # what is solved need not find a lower point
                break
            length = torch.where(good, length, length / 2)
        trial = torch.where(good[:, None], trial, point)
        next_gradient = torch.where(good[:, None], next_gradient, gradient)
        memory.add(trial - point, next_gradient - gradient)
        memory.forget(~good)
        failed, ended = ~good, ended | (failed & ~good)
        point, value, gradient = trial, torch.where(good, next_value, value), next_gradient
    return point


class Memory:
    """What the last steps (k, p) told of the curvature."""

    def __init__(self) -> None:
        self.steps: list[Tensor] = []
        self.changes: list[Tensor] = []

    def add(self, step: Tensor, change: Tensor) -> None:
        """One more step, and how it changed the gradient."""
        self.steps, self.changes = [*self.steps, step][-MEMORY:], [*self.changes, change][-MEMORY:]

    def forget(self, which: Tensor) -> None:
        """All that some of the problems (k,) have learned."""
        for kept in (*self.steps, *self.changes):
            kept[which] = 0

    def direction(self, gradient: Tensor) -> Tensor:
        """Downhill, bent by that curvature; (k, p)."""
        return _direction(gradient, self.steps, self.changes)


def _direction(gradient: Tensor, steps: list[Tensor], changes: list[Tensor]) -> Tensor:
    """Downhill, bent by the curvature that the last steps met; (k, p)."""
    direction = -gradient
    curvatures = [(s * y).sum(dim=1, keepdim=True) for s, y in zip(steps, changes, strict=True)]
    # A problem that stood still, or met no curvature, has nothing to tell.
    inverse = [torch.where(c > 1e-12, 1 / c, torch.zeros_like(c)) for c in curvatures]
    shares = []
    for s, y, rho in zip(steps[::-1], changes[::-1], inverse[::-1], strict=True):
        share = rho * (s * direction).sum(dim=1, keepdim=True)
        direction = direction - share * y
        shares.append(share)
    if steps:
        size = changes[-1].square().sum(dim=1, keepdim=True)
        scale = curvatures[-1] / size.clamp_min(1e-30)
        direction = torch.where(inverse[-1] > 0, scale, torch.ones_like(scale)) * direction
    for s, y, rho, share in zip(steps, changes, inverse, shares[::-1], strict=True):
        direction = direction + (share - rho * (y * direction).sum(dim=1, keepdim=True)) * s
    return direction
