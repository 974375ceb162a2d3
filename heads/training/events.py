"""The events of training: what a grid tells while its cells search and learn.

Legend: s seeds, m development rows of a seed.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field

import torch
from torch import Tensor

from heads.evaluation.predictions import CellPredictions
from heads.training.fitters.base import Chosen, FittedHead, SearchResult, TriedSettings
from heads.training.trial import Trial


@dataclass(frozen=True, slots=True, kw_only=True)
class CurvePointTried:
    """A point of the validation curve of one cell."""

    name: str
    point: TriedSettings


@dataclass(frozen=True, slots=True, kw_only=True)
class SeedFitting:
    """A seed of a cell that learns its base model begins to learn with what its search chose."""

    name: str
    seed: int


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class SearchFinished:
    """Every seed of a cell has chosen its settings.

    Attributes:
        found: For each seed what it has chosen, with its development rows' part of the score.
        seconds: How long it took, on one core.
    """

    name: str
    found: tuple[SearchResult, ...]
    tried: tuple[TriedSettings, ...]
    seconds: float

    @property
    def parts(self) -> Tensor:
        """(s · m,), each development row's part of the score, which is their mean."""
        return alike([one.point.parts for one in self.found if one.point.parts is not None])


def alike(parts: Sequence[Tensor]) -> Tensor:
    """(s · m,), parts (m,) of every seed, all of which count alike, however many rows they have."""
    rows = sum(map(len, parts))
    return torch.cat([part * (rows / len(parts) / len(part)) for part in parts])


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class TrialResult:
    """A cell is done.

    Attributes:
        chosen: For each seed the settings that were best on its development rows.
        development_score: What the chosen settings came to there, mean over seeds.
        learned: For each seed the head, with its logits on that seed's test rows.
        outcome: What it said of those rows; of one class a row, logits for the softmax.
        rows: How many rows the first of them learned from.
        seconds: How long it took, on one core.
    """

    trial: Trial
    chosen: tuple[Chosen, ...]
    tried: tuple[TriedSettings, ...]
    development_score: float
    learned: tuple[FittedHead, ...]
    outcome: CellPredictions
    rows: int
    seconds: float


@dataclass(frozen=True, slots=True, kw_only=True)
class TrialFailed:
    """A cell could not be learned: why, in a sentence; the others go on."""

    name: str
    says: str
    error: Exception = field(compare=False, repr=False)
