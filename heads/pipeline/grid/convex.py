"""Linear heads, solved to their only optimum: several problems at once by L-BFGS.

With the focal loss, which is not convex, that is a point from which it falls no more.

One matrix of vectors serves every problem; they differ in C. Every number of a weight is measured
by how sharply the objective bends along it: where vectors lie along their principal axes, that
halves the steps.
Legend: k problems, n rows, w width, c outputs.

Source: the objective is scikit-learn's LogisticRegression, C · Σ loss + ½ ‖W‖². With one sigmoid a
class that is its OneVsRestClassifier; with half the squared error its Ridge, alpha = 1 / C.
"""

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor

from heads.backbone.unpadded.linear import product
from heads.pipeline.grid.lbfgs import Function, Stage, minimise
from heads.pipeline.objective import Objective

AT_ONCE = 2_000_000  # logits that are computed together: they should stay in the cache
BEND = 0.2  # of the bend at 0 of a softmax of c classes, 1 / c: less of it is left at the optimum
NEAR = 1e-3  # of the first gradient: what is left of it then moves no answer
ROUGH = 5e-3  # the same, down to which products in 16 bits serve as well
FEW = 8  # lengths of a step that are tried in 16 bits: of shorter ones rounding would decide


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
        iterations: The most in each precision; it ends earlier where the gradient has all but
            vanished.
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
    stages = list[Stage]()
    if products.itemsize < own.itemsize:
        rough = _objective(problems, scale, products, check)
        stages.append(Stage(function=rough, near=max(near, ROUGH), tries=FEW))
    if not stages or near < ROUGH:
        stages.append(Stage(function=_objective(problems, scale, own, check), near=near))
    found = minimise(stages, point.flatten(1), iterations).view(k, classes, width + 1) * scale
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
