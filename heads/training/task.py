"""What every trial of the grid learns from: vectors, labels and weights of the rows."""

import threading
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from heads import interruption
from heads.backbone.device import EXACT, HERE, products
from heads.evaluation.metrics import AUTO, SCORES, Metric, MetricName, metric_of
from heads.features.token_states import TokenStates
from heads.settings import ExperimentConfig
from heads.training.objective import Objective, TargetScaler
from heads.training.whitening import DerivedVectors, InputBasis, basis


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class TrainingInputs:
    """What some heads learn from beside the vectors of a reading.

    Attributes:
        states: The states of all tokens, where the reading is learned.
        products: What matrix products are computed in, in learning; what is learned and the
            answers to what is asked are in 32 bits.
        texts: (n,), the text of each row, for whoever lets the base model read it anew.
        pairs: (n,), the second text of each row, or none.
        cut_states: The states of all tokens at and below the lowest cut, in 32 bits.
        workspace: Where unfinished work may be kept; None where it is not.
    """

    states: TokenStates | None = None
    products: torch.dtype = torch.float32
    texts: Sequence[str] = ()
    pairs: Sequence[str] = ()
    cut_states: TokenStates | None = None
    workspace: Path | None = None


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class TrainingTask(TrainingInputs):
    """The rows of a corpus under one reading.

    Attributes:
        vectors: (u, w), one a different text; empty where the reading is learned.
        index: (n,), the number of each row's text.
        targets: (n,), the class of each row, or its number; (n, c) 1 at its labels, else 0.
        weights: (n,), how much each row counts in learning; 1 if all count alike.
        counts: (n,), how much each row counts in the loss by which settings are judged: the same
            for every loss.
        config: The settings of the run; what it fixes no head searches.
        kept: What several heads of the reading ask for.
        metric: What settings are chosen by; that of the kind of labels if None.
        span: Where the numbers lay before they were narrowed; None for classes.
    """

    vectors: Tensor
    index: Tensor
    targets: Tensor
    objective: Objective
    weights: Tensor
    counts: Tensor
    stop: threading.Event
    config: ExperimentConfig = field(default_factory=partial(ExperimentConfig, precision=EXACT))
    kept: DerivedVectors = field(default_factory=DerivedVectors)
    metric: MetricName | None = None
    span: TargetScaler | None = None

    @classmethod
    def of_rows(
        cls, vectors: Tensor, targets: Tensor, objective: Objective, **facts: Any
    ) -> "TrainingTask":
        """Return a task whose rows are of different texts and count alike, but for some facts."""
        ones = torch.ones(len(targets), dtype=vectors.dtype)
        usual: dict[str, Any] = {"index": torch.arange(len(targets)), "weights": ones}
        usual |= {"counts": ones, "stop": threading.Event()}
        return cls(vectors=vectors, targets=targets, objective=objective, **usual | facts)

    @property
    def classes(self) -> int:
        """c, how many outputs a head has."""
        return self.objective.outputs

    @property
    def score(self) -> Metric:
        """The metric that settings are chosen by."""
        return SCORES[metric_of(self.metric or AUTO, self.objective.problem, ordered=True)]

    @property
    def standardise(self) -> bool | None:
        """Return True if the run standardises every input, None if heads search that."""
        return {"yes": True, "no": False}.get(self.config.standardise)

    def products_on(self, device: torch.device) -> torch.dtype:
        """What matrix products are computed in on a device: of a GPU its own probe says it."""
        return self.products if device == HERE else products(self.config.precision, device)

    def of(self, rows: Tensor) -> Tensor:
        """The vectors of some rows, of any shape (…) to (…, w)."""
        return self.vectors[self.index[rows]]

    def seen(
        self, rows: Tensor, *, standardise: bool, centred: bool, turned: bool = True
    ) -> tuple[InputBasis, Tensor]:
        """The axes that some rows ask for, and the vectors of those rows along them, (n, w)."""

        def make() -> tuple[InputBasis, Tensor]:
            vectors = self.of(rows)
            found = basis(vectors, standardise=standardise, centred=centred, turned=turned)
            return found, found.seen(vectors, self.products)

        return self.kept.of((rows.numpy().tobytes(), standardise, centred, turned), make)

    def check(self) -> None:
        """Raise Interrupted if the work is to end."""
        interruption.check()
        if self.stop.is_set():
            raise interruption.Interrupted


def class_weights(targets: Tensor, rows: Tensor, classes: int) -> Tensor:
    """(n,), one over how often a row's class stands among some rows, 1 on their average.

    Source: scikit-learn's `class_weight="balanced"`.
    """
    counts = torch.bincount(targets[rows], minlength=classes).clamp_min(1)
    present = int((torch.bincount(targets[rows], minlength=classes) > 0).sum())
    return (len(rows) / (present * counts.float()))[targets]
