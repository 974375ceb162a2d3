"""L-BFGS: smooth convex functions minimised side by side, as far as their precision tells.

Legend: k problems, p numbers of each.

Source: Liu and Nocedal 1989; a step that halves until it is good enough (Armijo 1966).
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

MEMORY = 10
TRIES = 12
ENOUGH = 1e-4  # of the slope at which a step must make the objective fall
NOISE = 8  # roundings of a value in its dtype: a difference below tells nothing
PATIENCE = 10  # steps that bring neither a lower value nor a smaller gradient
Function = Callable[[Tensor], tuple[Tensor, Tensor]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Precision:
    """A function to be minimised, in one precision.

    Attributes:
        function: Points (k, p) to values (k,) and gradients (k, p).
        near: The share of its first gradient at which a problem is solved.
        tries: How many lengths of a step are tried, each half the last.
    """

    function: Function
    near: float
    tries: int = TRIES


class CurvatureMemory:
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

    def empty(self, like: Tensor) -> Tensor:
        """Which of the problems know nothing yet, (k,)."""
        known = torch.zeros_like(like, dtype=torch.bool)
        for step in self.steps:
            known |= step.any(dim=1)
        return ~known

    def direction(self, gradient: Tensor) -> Tensor:
        """Downhill, bent by that curvature; (k, p)."""
        pairs = [
            (s, y, (s * y).sum(dim=1, keepdim=True))
            for s, y in zip(self.steps, self.changes, strict=True)
        ]
        # The two-loop recursion (Nocedal and Wright 2006, algorithm 7.4), for all k problems in the
        # same products; s and y are (k, p), what is summed over p is (k, 1). A problem that stood
        # still, or met no curvature, has nothing to tell: its 1 / s·y is 0, and the pair drops out
        # of both loops for it alone.
        told = [(s, y, torch.where(c > 1e-12, 1 / c, 0.0)) for s, y, c in pairs]
        direction, shares = -gradient, list[Tensor]()
        for s, y, inverse in told[::-1]:
            shares.append(inverse * (s * direction).sum(dim=1, keepdim=True))
            direction = direction - shares[-1] * y
        if told:
            # The first guess of the inverse curvature, s·y / y·y of the last pair (7.20): without
            # it the first step after every pair would be of the wrong length by orders.
            _, change, curvature = pairs[-1]
            scale = curvature / change.square().sum(dim=1, keepdim=True).clamp_min(1e-30)
            direction = torch.where(told[-1][2] > 0, scale, 1.0) * direction
        for (s, y, inverse), share in zip(told, shares[::-1], strict=True):
            direction = direction + (share - inverse * (y * direction).sum(dim=1, keepdim=True)) * s
        return direction


def minimise(stages: Sequence[Precision], start: Tensor, iterations: int) -> Tensor:
    """Minimises k smooth convex functions at once, (k, p) to (k, p).

    Args:
        stages: The functions, roughly computed and then exactly. What one has learned of the
            curvature serves the next.
    """
    here = stages[0].function(torch.zeros_like(start))
    first = here[1].norm(dim=1).clamp_min(1e-12)
    point, memory = start, CurvatureMemory()
    for number, stage in enumerate(stages):
        if number or bool(start.any()):
            here = stage.function(point)
        point = _descended(stage, point, here, stage.near * first, iterations, memory)
    return point


def _descended(
    stage: Precision,
    point: Tensor,
    here: tuple[Tensor, Tensor],
    tolerance: Tensor,
    iterations: int,
    memory: CurvatureMemory,
) -> Tensor:
    """Downhill from a point and what stands there, until every gradient is within its tolerance.

    A problem ends before where its precision tells no more: where it finds no lower point twice
    in a row, the second time straight down, or for some steps neither falls nor levels out.
    """
    value, gradient = here
    # Below that share of a value two of them cannot be told apart in this dtype. It is forgiven in
    # the test of a step (else a solved problem in bfloat16 would halve for ever) and does not count
    # as a fall (else noise would look like progress).
    noise = NOISE * torch.finfo(value.dtype).eps
    lowest, least = torch.full_like(value, torch.inf), torch.full_like(value, torch.inf)
    idle, (failed, ended) = torch.zeros_like(value), value.new_zeros(2, len(point)).bool()
    for _ in range(iterations):
        norm = gradient.norm(dim=1)
        moved = (norm < least) | (value < lowest - noise * value.abs())
        idle = torch.where(moved, 0, idle + 1)
        lowest, least = torch.minimum(value, lowest), torch.minimum(norm, least)
        ended |= idle >= PATIENCE
        solved = (norm <= tolerance) | ended
        if bool(solved.all()):
            break
        direction = memory.direction(gradient)
        slope = (gradient * direction).sum(dim=1)  # (k,), negative
        # A problem without memory goes straight down, and its gradient says nothing of how far: a
        # step of at most 1 in length. With memory the direction has its length.
        length = torch.where(memory.empty(norm), (1 / norm.clamp_min(1e-12)).clamp_max(1), 1.0)
        trial, next_value, next_gradient, good = point, value, gradient, length < 0
        # One call computes all problems, so each halves its own step and keeps it once it is good:
        # the others are computed again at the same point, which is cheaper than a call for each.
        for _ in range(stage.tries):
            trial = point + length[:, None] * direction
            next_value, next_gradient = stage.function(trial)
            good = next_value <= value + ENOUGH * length * slope + noise * value.abs()
            if bool((good | solved).all()):  # what is solved need not find a lower point
                break
            length = torch.where(good, length, length / 2)
        # Who found no lower point stays, forgets its curvature and goes straight down next time;
        # if that fails as well, its precision tells no more.
        trial = torch.where(good[:, None], trial, point)
        next_gradient = torch.where(good[:, None], next_gradient, gradient)
        memory.add(trial - point, next_gradient - gradient)
        lost = ~good & ~solved
        memory.forget(lost)
        failed, ended = lost, ended | (failed & lost)
        point, value, gradient = trial, torch.where(good, next_value, value), next_gradient
    return point
