"""Sums over shards: moments of the rows, and losses with their gradients.

Heads whose optimum follows from sums over rows are learned from any number of them: each worker
sums over its shards, with one shard in memory at a time, and the sums are added.

Legend: n rows of a shard, w width, c classes, k problems.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial, reduce
from typing import Any

import torch
from torch import Tensor
from torch.nn.functional import normalize, one_hot

from heads import interruption
from heads.extras.scale.pieces import Piece
from heads.extras.scale.pool import NamedTask, Pool
from heads.extras.scale.shards import ShardReader, ShardRows, Subset
from heads.training.objective import Objective

Sums = dict[str, Tensor]
Statistic = Callable[[ShardRows], Sums]
GREATEST = "greatest"  # of this sum the greatest is kept
BLOCK = 4_096  # rows that are computed on together: in 64 bits no second copy of a shard is made
TOGETHER = 4  # shards whose sums come back together


def add(left: Sums, right: Sums) -> Sums:
    """Return the sums over the rows of both."""
    return {
        name: torch.maximum(value, right[name]) if name == GREATEST else value + right[name]
        for name, value in left.items()
    }


def sum_pieces(
    reader: ShardReader, pieces: Sequence[Piece], subset: Subset, statistic: Statistic
) -> Sums | None:
    """Return the sums over the rows of pieces in a subset, or None where there are none."""
    total: Sums | None = None
    for piece in pieces:
        interruption.check()
        rows = reader.read(piece, subset)
        for start in range(0, len(rows), BLOCK):
            sums = statistic(rows.select(slice(start, start + BLOCK)))
            total = add(total, sums) if total else sums
    return total


@dataclass(kw_only=True, eq=False)
class Shards:
    """The rows of a subset of a data set, over which workers sum."""

    reader: ShardReader  # reads them
    pieces: Sequence[Piece]  # the pieces that hold them
    pool: Pool[Any, Any]  # the workers
    subset: Subset = "train"  # which rows

    def sum(self, statistic: Statistic) -> Sums:
        """Return the sums over all rows, added in the same order whichever worker is faster."""
        tasks = []
        for start in range(0, len(self.pieces), TOGETHER):
            pieces = self.pieces[start : start + TOGETHER]
            name = f"{pieces[0]} and {len(pieces) - 1} more pieces"
            work = partial(sum_pieces, self.reader, pieces, self.subset, statistic)
            tasks.append(NamedTask(name, work))
        # There are training rows, so that not all are None.
        return reduce(add, filter(None, self.pool.results(tasks)))

    def rows(self) -> Iterator[ShardRows]:
        """Yield the rows a shard at a time, read in this process."""
        for piece in self.pieces:
            interruption.check()
            yield self.reader.read(piece, self.subset)


# --- Moments, from which heads with a solution in closed form follow.


def moment_sums(origin: Tensor, classes: int, rows: ShardRows) -> Sums:
    """Return sums of rows, of their squares and of their products, by class where needed.

    Args:
        origin: (w,), near the mean, subtracted first: so no digits are lost to a mean far from 0.
    """
    vectors = rows.vectors.double()
    centred = vectors - origin
    targets = one_hot(rows.targets, classes).double()
    return {
        "counts": targets.sum(dim=0),
        "sums": targets.T @ centred,
        "products": centred.T @ centred,
        "directions": targets.T @ normalize(vectors, dim=-1),
        GREATEST: vectors.square().sum(dim=1).max(),
    }


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Moments:
    """Moments of rows."""

    counts: Tensor  # (c,), rows of each class
    means: Tensor  # (c, w), of the classes; 0 where one has no rows
    mean: Tensor  # (w,), of all rows
    covariance: Tensor  # (w, w), of all rows
    directions: Tensor  # (c, w), of each class the mean of its rows at length 1
    furthest: Tensor  # the greatest squared length of a row

    @classmethod
    def of_sums(cls, sums: Mapping[str, Tensor], origin: Tensor) -> Moments:
        """Return the moments that follow from `moment_sums`."""
        counts, rows = sums["counts"], sums["counts"].sum()
        each = counts.clamp_min(1)[:, None]
        shift = sums["sums"].sum(dim=0) / rows
        return cls(
            counts=counts,
            means=torch.where(counts[:, None] > 0, sums["sums"] / each + origin, 0.0),
            mean=shift + origin,
            covariance=sums["products"] / rows - torch.outer(shift, shift),
            directions=sums["directions"] / each,
            furthest=sums[GREATEST],
        )

    @property
    def rows(self) -> int:
        """The number of rows."""
        return round(float(self.counts.sum()))

    @property
    def spread(self) -> Tensor:
        """The standard deviations, (w,)."""
        return self.covariance.diagonal().clamp_min(0).sqrt()

    @property
    def shares(self) -> Tensor:
        """The fraction of the rows that each class has, (c,)."""
        return self.counts / self.counts.sum()


def compute_moments(shards: Shards, classes: int) -> Moments:
    """Return the moments of all rows, in one pass over them."""
    first = next(rows for rows in shards.rows() if len(rows))
    origin = first.vectors.double().mean(dim=0)
    return Moments.of_sums(shards.sum(partial(moment_sums, origin, classes)), origin)


def fourth_powers(means: Tensor, spread: Tensor, rows: ShardRows) -> Sums:
    """Return the sum of the fourth powers of the lengths of rows, less their class's mean (c, w).

    Args:
        spread: (w,), by which numbers are divided.
    """
    centred = (rows.vectors.double() - means[rows.targets]) / spread
    return {"fourth": centred.square().sum(dim=1).square().sum()}


def loss_gradients(
    weight: Tensor,
    bias: Tensor,
    shift: Tensor,
    objective: Objective,
    dtype: torch.dtype,
    rows: ShardRows,
) -> Sums:
    """Return the summed loss of k linear layers, and its gradients.

    Args:
        weight: (k, c, w), of differences from `shift`.
        bias: (k, c).
        shift: (w,).
        dtype: Of the products; sums are in 64 bits.
    """
    shifted, weight = rows.vectors.to(dtype) - shift.to(dtype), weight.to(dtype)
    logits = (shifted @ weight.flatten(0, 1).T).view(-1, *weight.shape[:2])  # (n, k, c)
    losses, by_logits = objective.gradients(logits.double() + bias, rows.targets[:, None])
    products = by_logits.flatten(1).to(dtype).T @ shifted
    return {
        "loss": losses.double().sum(dim=0),
        "weight": products.double().view(weight.shape),
        "bias": by_logits.sum(dim=0),
    }
