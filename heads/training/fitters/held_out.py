"""Held-out logits of ridge and LDA: from one fit to all rows, as if without each row's group.

Exact but for what is taken from all rows: the deviations that vectors are divided by, and Ledoit
and Wolf's shrinkage.

Legend: n rows, w width, c classes; g groups of s rows each; `groups` (n,), at least two.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import torch
from torch import Tensor

from heads.parts import solvers
from heads.parts.solvers import class_means, ledoit_wolf, one_class, standardised

GROUPS_AT_ONCE = 1024


def ridge_held_out(
    vectors: Tensor, targets: Tensor, groups: Tensor, alphas: Sequence[float], *, many: bool = False
) -> Iterator[Tensor]:
    """Yield for each alpha every row's logits (n, c) by the ridge head of the other groups.

    Source: PRESS (Allen 1974), by groups: the residuals are (I - H)⁻¹ (y - ŷ), H the groups' block
        of the hat matrix.
    """
    rows, signs = standardised(vectors)[0], targets.double() * 2 - 1
    left, squares = _left_singular(rows)
    centred = signs - signs.mean(dim=0)
    for alpha in alphas:
        gain = squares / (squares + alpha)
        errors, logits = centred - left @ (gain[:, None] * (left.T @ centred)), signs.clone()
        for block in _rows_by_group_size(groups, rows.device):
            hat = 1 / len(rows) + (left[block] * gain) @ left[block].mT  # (g, s, s)
            eye = torch.eye(block.shape[1]).to(hat)
            logits[block] -= torch.linalg.solve(eye - hat, errors[block])
        yield logits


def lda_held_out(
    vectors: Tensor, targets: Tensor, groups: Tensor, shares: Sequence[float], *, many: bool = False
) -> Iterator[Tensor]:
    """Yield for each shrinkage every row's logits (n, c) by the LDA of the other groups."""
    rows = standardised(vectors)[0]
    problems = one_class(targets, many=many)
    by_problem = [_discriminants_held_out(rows, problem, groups, shares) for problem in problems]
    for labels in zip(*by_problem, strict=True):
        if many:
            yield torch.cat([logits[:, 1:] - logits[:, :1] for logits in labels], dim=1)
        else:
            yield labels[0]


def _discriminants_held_out(
    rows: Tensor, target_matrix: Tensor, groups: Tensor, shares: Sequence[float]
) -> Iterator[Tensor]:
    """Yield for each shrinkage the logits (n, c) for one class a row.

    Without the rows d (s, w) of a group, less the means of their classes, the scatter S within
    classes is S - dᵀ p d. With k = 1 - share, its shrunk inverse follows from b, shrunk S, which is
    diagonal along the axes of S (Woodbury): (b - k dᵀ p d)⁻¹ = b⁻¹ + b⁻¹ dᵀ Q d b⁻¹, where
    Q = k (I - k p dd)⁻¹ p, dd = d b⁻¹ dᵀ, dm = d b⁻¹ meansᵀ and raised = Q dm.
    """
    width, means = rows.shape[1], class_means(rows, target_matrix)
    shares = [share or ledoit_wolf(rows - target_matrix @ means) for share in shares]
    if width > len(rows):  # along an axis that no row has nothing is answered
        left, squares = _left_singular(rows)
        rows = left * squares.sqrt()
    within = rows - target_matrix @ class_means(rows, target_matrix)
    scatter, axes = torch.linalg.eigh(within.T @ within)
    rows, within, scatter = rows @ axes, within @ axes, scatter.clamp_min(0)
    means, totals = class_means(rows, target_matrix), target_matrix.sum(dim=0)

    def held_out(block: Tensor, share: float) -> Tensor:
        x, d, targets = rows[block], within[block], target_matrix[block]  # (g, s, w or c)
        left, eye = len(rows) - block.shape[1], torch.eye(block.shape[1]).to(rows)
        counts = totals - targets.sum(dim=1, keepdim=True)  # (g, 1, c)
        moves = targets / counts.clamp_min(1)  # the means are less by moves @ D
        p = eye + targets @ moves.mT  # (g, s, s)
        trace = scatter.sum() - (p * (d @ d.mT)).sum(dim=(1, 2), keepdim=True)
        size = torch.where(trace > 1e-12 * width * left, trace / width, float(left))
        b = (1 - share) * scatter + max(share, 1e-6) * size  # (g, 1, w)
        dd, dm = (d / b) @ d.mT, (d / b) @ means.T
        norms = b.reciprocal() @ means.square().T  # (g, 1, c), of the means by B⁻¹
        norms = norms + (moves * (dd @ moves - 2 * dm)).sum(dim=1, keepdim=True)
        dm = dm - dd @ moves
        raised = torch.linalg.solve(eye - (1 - share) * p @ dd, (1 - share) * p @ dm)  # (g, s, c)
        logits = (x / b) @ means.T + ((x / b) @ d.mT) @ (raised - moves)
        logits = left * (logits - (norms + (dm * raised).sum(dim=1, keepdim=True)) / 2)
        return torch.where(counts > 0, logits, 0.0) + (counts.clamp_min(0.5) / left).log()

    parts = _rows_by_group_size(groups, rows.device)
    for share in shares:
        logits = torch.empty_like(target_matrix)
        for block in parts:
            logits[block] = held_out(block, share)
        yield logits


def _left_singular(rows: Tensor) -> tuple[Tensor, Tensor]:
    """Return left singular vectors (n, r) of rows (n, w), and squared singular values (r,)."""
    if rows.shape[1] > len(rows):
        squares, left = torch.linalg.eigh(rows @ rows.T)
        return left, squares.clamp_min(0)
    squares, right = torch.linalg.eigh(rows.T @ rows)
    some = squares > 1e-12 * squares.max().clamp_min(1e-12)
    return rows @ right[:, some] / squares[some].sqrt(), squares[some]


def _rows_by_group_size(groups: Tensor, device: torch.device) -> list[Tensor]:
    """Return the rows (g, s) of the groups of s rows each, for every s, in parts."""
    _, number, counts = groups.unique(return_inverse=True, return_counts=True)
    order = number.argsort(stable=True)
    sizes = counts[number[order]]
    by_size = [order[sizes == size].view(-1, size) for size in counts.unique().tolist()]
    return [part for same_size in by_size for part in same_size.to(device).split(GROUPS_AT_ONCE)]


# From vectors, targets, groups and settings to held-out logits, by the solver of a head.
HELD_OUT: Mapping[Any, Callable[..., Iterator[Tensor]]] = {
    solvers.ridge: ridge_held_out,
    solvers.lda: lda_held_out,
}
