"""Linear heads, solved to their only optimum: several problems at once by L-BFGS.

With the focal loss, which is not convex, that is an optimum near the beginning.

One matrix of vectors serves every problem; they differ in C. Every number of a weight is measured
by how sharply the objective bends along it: where vectors lie along their principal axes, that
halves the steps.
Legend: k problems, n rows, w width, c outputs.

Source: L-BFGS (Liu and Nocedal 1989), a step that halves until it is good enough (Armijo 1966);
the objective is scikit-learn's LogisticRegression, C · Σ loss + ½ ‖W‖². With one sigmoid a class
that is its OneVsRestClassifier; with half the squared error its Ridge, alpha = 1 / C.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from heads.pipeline.objective import Objective
from heads.pipeline.packed.products import product

AT_ONCE = 2_000_000  # logits that are computed together: they should stay in the cache
MEMORY = 10
BEND = 0.2  # of the bend at 0 of a softmax of c classes, 1 / c: less of it is left at the optimum
NEAR = 1e-3  # of the first gradient: what is left of it then moves no answer
ROUGH = 5e-3  # the same, down to which products in 16 bits serve as well
HALVINGS = 12
ENOUGH = 1e-4  # of the slope at which a step must make the objective fall
Function = Callable[[Tensor], tuple[Tensor, Tensor]]


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Problems:
    """k regressions on the same rows.

    Attributes:
        vectors: (n, w), best along their principal axes; for heads without a bias not centred.
        targets: (n,) or (n, c).
        objective: What is to be learned of them.
        weights: (n,), how much each row counts.
        strength: (k,), C.
        bias: Whether there is one; it is never penalised.
    """

    vectors: Tensor
    targets: Tensor
    objective: Objective
    weights: Tensor
    strength: Tensor
    bias: bool

    @property
    def classes(self) -> int:
        """c, how many outputs there are."""
        return self.objective.outputs


def solve(
    problems: Problems,
    *,
    iterations: int,
    check: Callable[[], None],
    near: float,
    start: tuple[Tensor, Tensor] | None = None,
    products: torch.dtype = torch.float32,
) -> tuple[Tensor, Tensor]:
    """Solves all problems; weights (k, c, w) and biases (k, c) of the vectors.

    Args:
        iterations: The most; it ends earlier where the gradient has all but vanished.
        check: Called many times in every step; may raise to end the work.
        near: Down to which share of the first gradient.
        start: Weights and biases to begin with, near the optimum; 0 without them.
        products: What products are computed in down to `ROUGH`; beyond, as the vectors are.
    """
    k, classes, width = len(problems.strength), problems.classes, problems.vectors.shape[1]
    scale = _scale(problems)
    point = torch.zeros(k, classes, width + 1)
    if start is not None:
        point = torch.cat([start[0], start[1][..., None]], dim=2) / scale
    own = problems.vectors.dtype
    stages = [(products, max(near, ROUGH))] if products.itemsize < own.itemsize else []
    if not stages or near < ROUGH:
        stages.append((own, near))
    functions = [(_objective(problems, scale, kind, check), goal) for kind, goal in stages]
    found = minimise(functions, point.flatten(1), iterations).view(k, classes, width + 1) * scale
    return found[..., :-1], found[..., -1]


def _scale(problems: Problems) -> Tensor:
    """(k, 1, w + 1), the unit in which each number of a weight and the bias are measured.

    One over the root of the objective's bend along it, as it is between beginning and optimum.
    """
    total = problems.weights.sum()
    square = problems.weights / total @ problems.vectors.square()  # (w,)
    bend = 1.0 if problems.objective.kind == "number" else BEND / max(2, problems.classes)
    decay = 1 / (problems.strength * total)
    both = torch.cat([bend * square + decay[:, None], torch.full((len(decay), 1), bend)], dim=1)
    return both.rsqrt()[:, None]


def _objective(
    problems: Problems, scale: Tensor, products: torch.dtype, check: Callable[[], None]
) -> Function:
    """The mean loss and penalty of each problem, and its gradient, (k, p)."""
    k, classes = len(problems.strength), problems.classes
    total = problems.weights.sum()
    shares = problems.weights / total
    decay = (1 / (problems.strength * total))[:, None, None]
    most = max(1, AT_ONCE // (k * classes))
    vectors = problems.vectors.to(products)
    parts = list(
        zip(vectors.split(most), problems.targets.split(most), shares.split(most), strict=True)
    )

    def objective(point: Tensor) -> tuple[Tensor, Tensor]:
        both = point.view(k, classes, -1) * scale
        weight, bias = both[..., :-1], both[..., -1]
        multiplied = _product(weight.flatten(0, 1), products)  # one for all problems
        value = (weight.square() * decay).sum(dim=(1, 2)) / 2
        raw = torch.zeros(k * classes, weight.shape[2])
        gradient = torch.zeros_like(both)
        for vectors, targets, counts in parts:
            check()
            logits = multiplied(vectors).to(weight.dtype).view(-1, k, classes)
            logits = logits + bias if problems.bias else logits
            losses, slopes = _slopes(problems.objective, logits, targets)
            value = value + counts @ losses
            slopes *= counts[:, None, None]  # (n, k, c)
            raw += slopes.flatten(1).to(products).T @ vectors
            if problems.bias:
                gradient[..., -1] += slopes.sum(dim=0)
        gradient[..., :-1] = raw.view_as(weight) + weight * decay
        return value, (gradient * scale).flatten(1)

    return objective


def _product(weight: Tensor, products: torch.dtype) -> Callable[[Tensor], Tensor]:
    """Vectors (n, w) to their products with weights (p, w), by the fastest kernel there is."""
    if products == torch.float64:
        return lambda vectors: vectors @ weight.T
    # Of weights that lie apart, oneDNN's kernel is a thousand times as slow.
    return product(weight.contiguous(), None, products, prepacked=False)


def _slopes(objective: Objective, logits: Tensor, targets: Tensor) -> tuple[Tensor, Tensor]:
    """The loss of each row in each problem (n, k), and its gradient by the logits (n, k, c)."""
    if not objective.is_plain:
        return objective.slopes(logits, targets[:, None])
    logs = logits.log_softmax(dim=-1)
    own = targets[:, None, None].expand(-1, logs.shape[1], 1)
    losses = -logs.gather(2, own).squeeze(2)
    return losses, logs.exp_().scatter_add_(2, own, torch.full_like(own, -1, dtype=logs.dtype))


def minimise(stages: Sequence[tuple[Function, float]], start: Tensor, iterations: int) -> Tensor:
    """Minimises k smooth convex functions at once, (k, p) to (k, p).

    Args:
        stages: The functions, roughly computed and then exactly, and down to which share of the
            first gradient each will do. What one has learned of the curvature serves the next.
    """
    here = stages[0][0](torch.zeros_like(start))
    first = here[1].norm(dim=1).clamp_min(1e-12)
    point, memory = start, Memory()
    for number, (function, near) in enumerate(stages):
        if number or bool(start.any()):
            here = function(point)
        point = _descended(function, point, here, near * first, iterations, memory)
    return point


def _descended(
    objective: Function,
    point: Tensor,
    here: tuple[Tensor, Tensor],
    goal: Tensor,
    iterations: int,
    memory: "Memory",
) -> Tensor:
    """Downhill from a point and what stands there, until every gradient is as small as its goal."""
    value, gradient = here
    for _ in range(iterations):
        solved = gradient.norm(dim=1) <= goal
        if bool(solved.all()):
            break
        direction = memory.direction(gradient)
        slope = (gradient * direction).sum(dim=1)
        length = (
            torch.ones(len(point)) if memory.steps else 1 / gradient.norm(dim=1).clamp_min(1e-12)
        )
        trial, next_value, next_gradient, good = point, value, gradient, length < 0
        for _ in range(HALVINGS):
            trial = point + length[:, None] * direction
            next_value, next_gradient = objective(trial)
            good = next_value <= value + ENOUGH * length * slope
            if bool((good | solved).all()):  # what is solved need not find a lower point
                break
            length = torch.where(good, length, length / 2)
        # A problem that finds no lower point is at the end of what its precision can tell.
        trial = torch.where(good[:, None], trial, point)
        next_gradient = torch.where(good[:, None], next_gradient, gradient)
        memory.add(trial - point, next_gradient - gradient)
        point, value, gradient = trial, torch.where(good, next_value, value), next_gradient
        if not bool(good.any()):
            break
    return point


class Memory:
    """What the last steps (k, p) told of the curvature."""

    def __init__(self) -> None:
        self.steps: list[Tensor] = []
        self.changes: list[Tensor] = []

    def add(self, step: Tensor, change: Tensor) -> None:
        """One more step, and how it changed the gradient."""
        self.steps, self.changes = [*self.steps, step][-MEMORY:], [*self.changes, change][-MEMORY:]

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
