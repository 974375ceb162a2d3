"""What adds up over shards: moments of the rows, and losses with their gradients.

Heads whose optimum follows from sums over rows are learned from any number of them: each worker
sums over its shards, a shard in memory at a time, and the sums are added.

Legend: n rows of a shard, w width, c classes, k problems.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import reduce
from typing import Any

import torch
from torch import Tensor
from torch.nn.functional import normalize, one_hot

from heads import interruption
from heads.extras.scale.pieces import Piece
from heads.extras.scale.pool import Pool
from heads.extras.scale.shards import Part, ShardReader, ShardRows
from heads.training.fitters.logistic import row_gradients
from heads.training.objective import Objective

Sums = dict[str, Tensor]
Statistic = Callable[[ShardRows], Sums]
GREATEST = "greatest"  # of this sum the greatest is kept
BLOCK = 4_096  # rows that are computed on together: in 64 bits no second copy of a shard is made
TOGETHER = 4  # shards whose sums come back together


def added(one: Sums, other: Sums) -> Sums:
    """The sums over the rows of both."""
    return {
        name: torch.maximum(value, other[name]) if name == GREATEST else value + other[name]
        for name, value in one.items()
    }


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class SumTask:
    """Sums over the rows of some pieces that belong to a part."""

    reader: ShardReader
    pieces: Sequence[Piece]
    part: Part
    statistic: Statistic

    def __str__(self) -> str:
        return f"{self.pieces[0]} and {len(self.pieces) - 1} more pieces"

    def __call__(self) -> Sums | None:
        """None where there are no such rows."""
        total: Sums | None = None
        for piece in self.pieces:
            interruption.check()
            rows = self.reader.read(piece, self.part)
            for start in range(0, len(rows), BLOCK):
                sums = self.statistic(rows.some(slice(start, start + BLOCK)))
                total = added(total, sums) if total else sums
        return total


@dataclass(kw_only=True, eq=False)
class Shards:
    """The rows of a part of a data set, over which workers sum.

    Attributes:
        reader: Reads them.
        pieces: In which they lie.
        pool: The workers.
        part: Which rows.
        passes: How often all shards were read so far.
    """

    reader: ShardReader
    pieces: Sequence[Piece]
    pool: Pool[Any, Any]
    part: Part = "train"
    passes: int = field(default=0)

    def sum(self, statistic: Statistic) -> Sums:
        """The sums over all rows; on several machines each over its shards, and then added.

        The order in which they are added is always the same, whoever was faster: so is the result.
        """
        self.passes += 1
        tasks = [
            SumTask(
                reader=self.reader, pieces=self.pieces[start : start + TOGETHER], part=self.part,
                statistic=statistic,
            )
            for start in range(0, len(self.pieces), TOGETHER)
        ]  # fmt: skip
        sums: dict[SumTask, Sums | None] = dict(filter(None, self.pool.map(tasks)))
        # There are rows to learn from, so that not all are None.
        return reduce(added, filter(None, (sums[task] for task in tasks)))

    def rows(self) -> Iterator[ShardRows]:
        """The rows themselves, a shard at a time, read in this process."""
        for piece in self.pieces:
            interruption.check()
            yield self.reader.read(piece, self.part)


# --- Moments, from which heads with a solution in closed form follow.


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class MomentSums:
    """Sums of rows, of their squares and of their products, class by class where that is needed.

    Attributes:
        origin: (w,), near the mean: what is summed are differences from it, so that no digits are
            lost to a mean that is far from 0.
        classes: c.
    """

    origin: Tensor
    classes: int

    def __call__(self, rows: ShardRows) -> Sums:
        vectors = rows.vectors.double()
        own = vectors - self.origin
        yes = one_hot(rows.targets, self.classes).double()
        return {
            "counts": yes.sum(dim=0),
            "sums": yes.T @ own,
            "products": own.T @ own,
            "directions": yes.T @ normalize(vectors, dim=-1),
            GREATEST: vectors.square().sum(dim=1).max(),
        }


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Moments:
    """What rows are on average.

    Attributes:
        counts: (c,), rows of each class.
        means: (c, w), of the classes; 0 where one has no rows.
        mean: (w,), of all rows.
        covariance: (w, w), of all rows.
        directions: (c, w), of each class the mean of its rows at length 1.
        furthest: The greatest squared length of a row.
    """

    counts: Tensor
    means: Tensor
    mean: Tensor
    covariance: Tensor
    directions: Tensor
    furthest: Tensor

    @classmethod
    def of(cls, sums: Mapping[str, Tensor], origin: Tensor) -> Moments:
        """From the sums."""
        counts, rows = sums["counts"], sums["counts"].sum()
        each = counts.clamp_min(1)[:, None]
        shift = sums["sums"].sum(dim=0) / rows
        covariance = sums["products"] / rows - torch.outer(shift, shift)
        means = torch.where(counts[:, None] > 0, sums["sums"] / each + origin, 0.0)
        return cls(
            counts=counts, means=means, mean=shift + origin, covariance=covariance,
            directions=sums["directions"] / each, furthest=sums[GREATEST],
        )  # fmt: skip

    @property
    def rows(self) -> int:
        """How many there are."""
        return round(float(self.counts.sum()))

    @property
    def spread(self) -> Tensor:
        """(w,), the standard deviations."""
        return self.covariance.diagonal().clamp_min(0).sqrt()

    @property
    def shares(self) -> Tensor:
        """(c,), of the rows."""
        return self.counts / self.counts.sum()


def moments(shards: Shards, classes: int) -> Moments:
    """The moments of all rows, in one pass over them."""
    first = next(rows for rows in shards.rows() if len(rows))
    origin = first.vectors.double().mean(dim=0)
    return Moments.of(shards.sum(MomentSums(origin=origin, classes=classes)), origin)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class FourthPowers:
    """The sum of the fourth powers of the lengths of rows, less their class's mean.

    Attributes:
        means: (c, w), of the classes.
        spread: (w,), by which numbers are divided.
    """

    means: Tensor
    spread: Tensor

    def __call__(self, rows: ShardRows) -> Sums:
        own = (rows.vectors.double() - self.means[rows.targets]) / self.spread
        return {"fourth": own.square().sum(dim=1).square().sum()}


# --- Losses and their gradients.


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class LossGradients:
    """The summed loss of k linear layers, and its gradients.

    Attributes:
        weight: (k, c, w), of differences from `shift`.
        bias: (k, c).
        shift: (w,).
        objective: The loss.
        dtype: Of the products; sums are in 64 bits.
    """

    weight: Tensor
    bias: Tensor
    shift: Tensor
    objective: Objective
    dtype: torch.dtype

    def __call__(self, rows: ShardRows) -> Sums:
        own = rows.vectors.to(self.dtype) - self.shift.to(self.dtype)
        weight = self.weight.to(self.dtype)
        logits = (own @ weight.flatten(0, 1).T).view(-1, *weight.shape[:2])  # (n, k, c)
        logits = logits.double() + self.bias
        losses, by_logits = row_gradients(self.objective, logits, rows.targets)
        products = by_logits.flatten(1).to(self.dtype).T @ own
        return {
            "loss": losses.double().sum(dim=0),
            "weight": products.double().view(weight.shape),
            "bias": by_logits.sum(dim=0),
        }
