"""What all fitters that learn a base model share: the copy that learns, and the settings tried."""

import math
from abc import abstractmethod
from collections.abc import Generator, Mapping
from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor

from heads.backbone.backbone import Backbone
from heads.backbone.device import for_training
from heads.data.splits import Splits
from heads.parts.resolved_recipe import ResolvedRecipe
from heads.rng import IsolatedRng
from heads.training.finetuning.checkpoints import named
from heads.training.finetuning.learning import BATCH, TuningSettings
from heads.training.finetuning.module import Texts, TunedRecipe
from heads.training.finetuning.plan import TuningPlan
from heads.training.fitters.base import (
    BySeed,
    Chosen,
    FittedHead,
    Searches,
    Searching,
    SearchResult,
    Seeds,
    Source,
    TriedSettings,
    select_one_se,
)
from heads.training.task import TrainingTask

RATES = (1e-5, 3e-5, 1e-4)  # of the base model's last layer, where everything is learned
STEPS = 300  # that a training should take, within the numbers of passes
FEWEST, MOST = 3, 10  # passes over the rows


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Training:
    """One training of a base model.

    Attributes:
        rows: (n,), those that are learned from.
        seed: Of new weights, dropout and the order of the rows.
        number: Of that seed among those of the cell, from 0.
    """

    task: TrainingTask
    texts: Texts
    rows: Tensor
    settings: TuningSettings
    seed: int
    number: int

    @property
    def is_first(self) -> bool:
        """Whether it is of the first seed, whose head and base model are kept."""
        return self.number == 0

    def key(self, backbone: Backbone) -> str:
        """A name of all that it depends on, but its seed."""
        task = self.task
        told = (self.rows.tolist(), task.targets[self.rows].tolist(), str(task.objective))
        own = (str(task.products), self.settings, backbone.revision, torch.get_num_threads())
        return named(*told, *own)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class TuningFitter:
    """A way to learn a recipe together with (some of) its base model.

    Attributes:
        texts_a_row: How many texts a pass takes the time of, for each row.
    """

    resolved: ResolvedRecipe
    backbone: Backbone
    classes: int
    plan: TuningPlan
    is_random: ClassVar[bool] = True
    pace: ClassVar[float] = 1e6
    texts_a_row: ClassVar[float] = 1

    @property
    def learns_from(self) -> Source:
        """Texts."""
        return "texts"

    @property
    def learning(self) -> ResolvedRecipe:
        """The recipe on the copy of the base model."""
        return self.resolved

    def new(self, task: TrainingTask, texts: Texts, rng: IsolatedRng) -> TunedRecipe:
        """A copy of the base model and a new head, where base models are tuned."""
        with rng.rolling():
            return TunedRecipe(
                self.learning,
                self.backbone,
                self.classes,
                self.plan,
                device=for_training(),
                spares_memory=task.config.gradient_checkpointing,
                begins_at_cut=texts.kept is not None,
            )

    def table(self, task: TrainingTask, rows: int) -> list[TuningSettings]:
        """The settings that are tried: as many as of any other way of learning."""
        steps = math.ceil(rows / BATCH)
        epochs = task.config.epochs or min(MOST, max(FEWEST, math.ceil(STEPS / steps)))
        rates = [task.config.tuning_rate] if task.config.tuning_rate else None
        if rates is None:
            most = task.config.trials or len(RATES)
            rates = [rate * self.resolved.tuning.rate for rate in RATES[-most:]]
        return [TuningSettings(learning_rate=rate, epochs=epochs) for rate in rates]

    def search(self, task: TrainingTask, splits: Splits, seeds: Seeds) -> Searching:
        """Train every seed once with each of the settings of `table`; return the best."""
        texts, found = Texts.of(task, self.resolved, self.backbone), list[SearchResult]()
        for number, begin in enumerate(self.begins(task, splits, seeds)):
            own, tried = splits.only(number), list[SearchResult]()
            rows = own.fitted(0)
            for settings in self.table(task, len(rows)):
                training = Training(
                    task=task,
                    texts=texts,
                    rows=rows,
                    settings=settings,
                    seed=seeds[number],
                    number=number,
                )
                tried.append((yield from self.tries(training, own, begin)))
            best = select_one_se([one.point for one in tried], task)
            found.append(next(one for one in tried if one.point is best))
        return found

    def begins(
        self, task: TrainingTask, splits: Splits, seeds: Seeds
    ) -> list[Mapping[str, Tensor] | None]:
        """For each seed the head that begins: learned on the frozen base model, or none."""
        return [None] * len(seeds)

    def learn(
        self, task: TrainingTask, found: Searches, rows: BySeed, asked: BySeed, seeds: Seeds
    ) -> list[FittedHead]:
        """Every seed learns with what its search came to, on its own rows, and answers others."""
        texts, learned = Texts.of(task, self.resolved, self.backbone), list[FittedHead]()
        for one, own, others, seed in zip(found, rows, asked, seeds, strict=True):
            training = Training(
                task=task,
                texts=texts,
                rows=own,
                settings=self.settings(one.chosen),
                seed=seed,
                number=one.point.seed,
            )
            learned.append(self.fits(training, one, others))
        return learned

    @abstractmethod
    def settings(self, chosen: Chosen) -> TuningSettings:
        """How the base model learns, of what a search has chosen."""

    @abstractmethod
    def fits(self, training: Training, found: SearchResult, asked: Tensor) -> FittedHead:
        """Learns for good, with what a search came to.

        Args:
            asked: (m,), the rows that are answered.
        """

    @abstractmethod
    def tries(
        self, training: Training, splits: Splits, begin: Mapping[str, Tensor] | None
    ) -> Generator[TriedSettings, None, SearchResult]:
        """What one training of a search comes to on the development rows.

        Args:
            splits: Those of its seed alone.
            begin: The head that begins, or none.
        """
