"""Linear heads, solved to their only optimum: several problems at once by L-BFGS.

With the focal loss, which is not convex, that is an optimum near the beginning.

One matrix of standardised vectors serves every problem. Problems differ in the rows that count,
in C, and in the gain that every number of the vectors gets once more: 1, or its deviation, which
is the same as not standardising.
Legend: k problems, n rows, w width, c outputs.

Source: L-BFGS (Liu and Nocedal 1989), a step that halves until it is good enough (Armijo 1966);
the objective is scikit-learn's LogisticRegression, C · Σ loss + ½ ‖W‖². With one sigmoid a class
that is its OneVsRestClassifier; with half the squared error its Ridge, alpha = 1 / C.
"""

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor

from heads.pipeline.objective import Objective

AT_ONCE = 2_000_000  # logits that are computed together: they should stay in the cache
MEMORY = 10
NEAR = 1e-3  # of the first gradient: what is left of it then moves no answer
HALVINGS = 12
ENOUGH = 1e-4  # of the slope at which a step must make the objective fall
Function = Callable[[Tensor], tuple[Tensor, Tensor]]


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Problems:
    """k regressions on the same rows.

    Attributes:
        vectors: (n, w), standardised; for heads without a bias only scaled.
        targets: (n,) or (n, c).
        objective: What is to be learned of them.
        weights: (n, k), how much each row counts in each problem.
        strength: (k,), C.
        gain: (k, w), what each number of the vectors is multiplied by in each problem.
        bias: Whether there is one; it is never penalised.
    """

    vectors: Tensor
    targets: Tensor
    objective: Objective
    weights: Tensor
    strength: Tensor
    gain: Tensor
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
    start: tuple[Tensor, Tensor] | None = None,
) -> tuple[Tensor, Tensor]:
    """Solves all problems; weights (k, c, w) and biases (k, c) of the standardised vectors.

    Args:
        iterations: The most; it ends earlier where the gradient has all but vanished.
        check: Called many times in every step; may raise to end the work.
        start: Weights and biases to begin with, near the optimum; 0 without them.
    """
    k, classes, width = len(problems.strength), problems.classes, problems.vectors.shape[1]
    point = torch.zeros(k, classes, width + 1)
    if start is not None:
        gain = problems.gain[:, None]
        point[..., :-1] = torch.where(gain > 0, start[0] / gain.clamp_min(1e-12), 0.0)
        point[..., -1] = start[1]
    found = minimise(_objective(problems, check), point.flatten(1), iterations)
    found = found.view(k, classes, width + 1)
    return found[..., :-1] * problems.gain[:, None], found[..., -1]


def _objective(problems: Problems, check: Callable[[], None]) -> Function:
    """The mean loss and penalty of each problem, and its gradient."""
    k, classes = len(problems.strength), problems.classes
    totals = problems.weights.sum(dim=0)  # (k,)
    shares = problems.weights / totals  # (n, k)
    decay = (1 / (problems.strength * totals))[:, None, None]
    gain = problems.gain[:, None]
    most = max(1, AT_ONCE // (k * classes))
    parts = list(
        zip(
            problems.vectors.split(most), problems.targets.split(most), shares.split(most),
            strict=True,
        )
    )  # fmt: skip

    def objective(point: Tensor) -> tuple[Tensor, Tensor]:
        both = point.view(k, classes, -1)
        weight, bias = both[..., :-1], both[..., -1]
        folded = (weight * gain).flatten(0, 1)  # (k c, w)
        value = (weight.square() * decay).sum(dim=(1, 2)) / 2
        raw = torch.zeros_like(folded)
        gradient = torch.zeros_like(both)
        for vectors, targets, counts in parts:
            check()
            logits = (vectors @ folded.T).view(-1, k, classes)  # one product for all problems
            logits = logits + bias if problems.bias else logits
            losses, slopes = _slopes(problems.objective, logits, targets)
            value = value + (losses * counts).sum(dim=0)
            slopes *= counts[..., None]  # (n, k, c)
            raw += slopes.flatten(1).T @ vectors
            if problems.bias:
                gradient[..., -1] += slopes.sum(dim=0)
        gradient[..., :-1] = raw.view_as(weight) * gain + weight * decay
        return value, gradient.flatten(1)

    return objective


def _slopes(objective: Objective, logits: Tensor, targets: Tensor) -> tuple[Tensor, Tensor]:
    """The loss of each row in each problem (n, k), and its gradient by the logits (n, k, c)."""
    if not objective.is_plain:
        return objective.slopes(logits, targets[:, None])
    logs = logits.log_softmax(dim=-1)
    own = targets[:, None, None].expand(-1, logs.shape[1], 1)
    losses = -logs.gather(2, own).squeeze(2)
    return losses, logs.exp_().scatter_add_(2, own, torch.full_like(own, -1, dtype=logs.dtype))


def minimise(objective: Function, start: Tensor, iterations: int) -> Tensor:
    """Minimises k smooth convex functions at once, (k, p) to (k, p)."""
    point = start
    value, gradient = objective(torch.zeros_like(start))
    goal = NEAR * gradient.norm(dim=1).clamp_min(1e-12)
    if bool(start.any()):
        value, gradient = objective(point)
    steps: list[Tensor] = []
    changes: list[Tensor] = []
    for _ in range(iterations):
        solved = gradient.norm(dim=1) <= goal
        if bool(solved.all()):
            break
        direction = _direction(gradient, steps, changes)
        slope = (gradient * direction).sum(dim=1)
        length = torch.ones(len(point)) if steps else 1 / gradient.norm(dim=1).clamp_min(1e-12)
        trial, next_value, next_gradient, good = point, value, gradient, length < 0
        for _ in range(HALVINGS):
            trial = point + length[:, None] * direction
            next_value, next_gradient = objective(trial)
            good = next_value <= value + ENOUGH * length * slope
            if bool((good | solved).all()):  # what is solved need not find a lower point
                break
            length = torch.where(good, length, length / 2)
        # A problem that finds no lower point is at the end of what single precision can tell.
        trial = torch.where(good[:, None], trial, point)
        next_gradient = torch.where(good[:, None], next_gradient, gradient)
        steps, changes = [*steps, trial - point], [*changes, next_gradient - gradient]
        steps, changes = steps[-MEMORY:], changes[-MEMORY:]
        point, value, gradient = trial, torch.where(good, next_value, value), next_gradient
        if not bool(good.any()):
            break
    return point


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
