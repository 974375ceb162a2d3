"""Standardised vectors, and a head's first layer that takes the standardising up.

Legend: n rows, w width.

Source: the batch norm without parameters before the linear layer in Masked Autoencoders' probe
(He et al. 2022, appendix A.1), which can be absorbed into that layer; here its mean and deviation
are those of all rows that are learned from, not running averages over batches.
"""

from dataclasses import dataclass

import torch
from torch import Tensor, nn


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Standard:
    """Where vectors lie, number by number.

    Attributes:
        centre: (w,), their mean.
        spread: (w,), their deviation; 1 where all are equal.
    """

    centre: Tensor
    spread: Tensor

    @classmethod
    def of(cls, vectors: Tensor) -> "Standard":
        """Of some vectors (n, w)."""
        spread, centre = torch.std_mean(vectors, dim=0, correction=0)
        flat = spread <= 1e-6 * spread.max().clamp_min(1e-12)
        return cls(centre=centre, spread=torch.where(flat, torch.ones_like(spread), spread))

    def seen(self, vectors: Tensor) -> Tensor:
        """The vectors with mean 0 and deviation 1, (n, w)."""
        return (vectors - self.centre) / self.spread

    @torch.no_grad()
    def fold(self, chain: nn.Sequential) -> None:
        """Makes a head that has learned from standardised vectors read them as they are."""
        first = _first(chain)
        first.weight.div_(self.spread)
        first.bias.sub_(first.weight @ self.centre)

    @torch.no_grad()
    def unfold(self, chain: nn.Sequential) -> None:
        """Makes a head that reads vectors as they are read standardised ones."""
        first = _first(chain)
        first.bias.add_(first.weight @ self.centre)
        first.weight.mul_(self.spread)


def _first(chain: nn.Sequential) -> nn.Linear:
    """The first linear layer; a recipe is refused whose head does not begin with one."""
    return next(layer for layer in chain.modules() if isinstance(layer, nn.Linear))
