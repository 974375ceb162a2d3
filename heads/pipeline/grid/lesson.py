"""What every unit of the grid learns from: vectors, labels and weights of the rows."""

import threading
from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from heads.pipeline.objective import Objective
from heads.pipeline.token_states import TokenStates


class Stopped(Exception):
    """Somebody asked the work to end; what is finished has been handed over."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Lesson:
    """The rows of a corpus under one reading.

    Attributes:
        vectors: (u, w), one a different text; empty where the reading is learned.
        index: (n,), the number of each row's text.
        targets: (n,), the class of each row, or its number; (n, c) 1 at its labels, else 0.
        objective: What is to be learned of them.
        weights: (n,), how much each row counts in learning; 1 if all count alike.
        counts: (n,), how much each row counts where settings are judged: the same for every loss.
        stop: Set when the work is to end.
        states: The states of all tokens, where the reading is learned.
    """

    vectors: Tensor
    index: Tensor
    targets: Tensor
    objective: Objective
    weights: Tensor
    counts: Tensor
    stop: threading.Event
    states: TokenStates | None = None

    @property
    def classes(self) -> int:
        """c, how many outputs a head has."""
        return self.objective.outputs

    def of(self, rows: Tensor) -> Tensor:
        """The vectors of some rows, of any shape (…) to (…, w)."""
        return self.vectors[self.index[rows]]

    def check(self) -> None:
        """Ends the work where that was asked for.

        Raises:
            Stopped: It was.
        """
        if self.stop.is_set():
            raise Stopped


def class_weights(targets: Tensor, rows: Tensor, classes: int) -> Tensor:
    """(n,), one over how often a row's class stands among some rows, 1 on their average.

    Source: scikit-learn's `class_weight="balanced"`.
    """
    counts = torch.bincount(targets[rows], minlength=classes).clamp_min(1)
    present = int((torch.bincount(targets[rows], minlength=classes) > 0).sum())
    return (len(rows) / (present * counts.float()))[targets]


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Scaling:
    """A shift and a gain for every number of a vector, (w,) each: (x - shift) * gain."""

    shift: Tensor
    gain: Tensor


def scaling(lesson: Lesson, rows: Tensor, *, standardise: bool, centred: bool) -> Scaling:
    """The scaling that the rows learned from ask for.

    Args:
        rows: The rows learned from.
        standardise: Whether each number gets deviation 1; else all are left as they are.
        centred: Whether it also gets mean 0, which a layer without a bias could not undo.
    """
    width = lesson.vectors.shape[1]
    if not standardise:
        return Scaling(shift=torch.zeros(width), gain=torch.ones(width))
    vectors = lesson.of(rows)
    spread, centre = torch.std_mean(vectors, dim=0, correction=0)
    # What is the same in every text says nothing, and must not be blown up.
    flat = spread <= 1e-6 * spread.max().clamp_min(1e-12)
    gain = torch.where(flat, torch.zeros_like(spread), 1 / spread.clamp_min(1e-12))
    return Scaling(shift=centre if centred else torch.zeros(width), gain=gain)


def stacked(scalings: Sequence[Scaling]) -> Scaling:
    """K scalings as one for values of (k, b, w)."""
    return Scaling(
        shift=torch.stack([item.shift for item in scalings])[:, None],
        gain=torch.stack([item.gain for item in scalings])[:, None],
    )
