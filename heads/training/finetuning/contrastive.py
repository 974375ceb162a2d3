"""The fitter of recipes whose base model learns on pairs of texts before their head: SetFit.

First the base model learns that texts of one class lie near each other and texts of other classes
far, by the cosine of the vectors that the recipe pools; then the head learns on these vectors, as
it does on those of a frozen base model, by its own fitter. Every seed does so with each of a few
learning rates, and with the best once more on all its rows.

Source: SetFit (Tunstall et al. 2022, arXiv 2209.11055).
Legend: n rows, w width of the pooled vector, c classes.
"""

import math
from collections.abc import Generator, Mapping
from dataclasses import dataclass, replace
from typing import Any, ClassVar

import torch
from torch import Tensor

from heads.backbone.device import for_training
from heads.backbone.tuned import TunedBase
from heads.data.splits import Splits
from heads.errors import RecipeError
from heads.events import result
from heads.parts import registry
from heads.parts.resolved_recipe import ResolvedRecipe
from heads.rng import IsolatedRng
from heads.training.finetuning.base import Training, TuningFitter
from heads.training.finetuning.checkpoints import Checkpoints
from heads.training.finetuning.learning import TuningSettings
from heads.training.fitters.base import (
    Chosen,
    FittedHead,
    Fitter,
    SearchResult,
    TriedSettings,
)
from heads.training.task import TrainingTask
from heads.training.whitening import DerivedVectors

RATE, EPOCHS = "base_rate", "base_epochs"  # what is chosen beside the settings of the head


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class ContrastiveFitter(TuningFitter):
    """A base model on pairs of texts, and then a head on its vectors.

    A pass has as many pairs as there are rows.

    Attributes:
        head: Learns the head from vectors, as on a frozen base model.
    """

    head: Fitter
    # The two of a pair, unsorted by length and so with more padding: 3.3 to 3.8 times the time of
    # `full` were measured on questions and on film reviews (docs/tuning.md).
    texts_a_row: ClassVar[float] = 3.5

    @property
    def learning(self) -> ResolvedRecipe:
        """The reading alone, under a linear layer that learns nothing."""
        return replace(self.resolved, head=registry.head["linear"], head_options={}, without="")

    def tries(
        self, training: Training, splits: Splits, begin: Mapping[str, Tensor] | None
    ) -> Generator[TriedSettings, None, SearchResult]:
        reads, settings = splits.train[0], training.settings
        done = _FirstStage(self, training).learned(reads)
        on_vectors = _on_vectors(training.task, reads, done["vectors"])
        # Only of the development rows the base model has not seen the labels.
        held = replace(splits, folds=(), are_given=True)
        (one,) = result(self.head.search(on_vectors, held, [training.seed]))
        chosen = {**one.chosen, RATE: settings.learning_rate, EPOCHS: settings.epochs}
        point = replace(one.point, settings=chosen, seed=training.number)
        yield point
        return replace(one, chosen=chosen, point=point, state=None)

    def settings(self, chosen: Chosen) -> TuningSettings:
        return _parted(chosen)[0]

    def fits(self, training: Training, found: SearchResult, asked: Tensor) -> FittedHead:
        own, reads = training.rows, torch.cat([training.rows, asked])
        done = _FirstStage(self, training).learned(reads, is_kept=training.is_first)
        begin = SearchResult(chosen=_parted(found.chosen)[1], point=found.point)
        on_vectors = _on_vectors(training.task, reads, done["vectors"])
        (top,) = self.head.learn(on_vectors, [begin], [own], [asked], [training.seed])
        state = {f"head.{name}": tensor for name, tensor in top.state.items()}
        base = done["base"] and TunedBase(tune=self.resolved.tune, tensors=done["base"])
        return replace(top, state=state, base=base, peak_bytes=done["peak"])


class _FirstStage:
    """A base model that learns on pairs, in one training."""

    def __init__(self, fitter: ContrastiveFitter, training: Training) -> None:
        self._fitter, self._training = fitter, training
        self._kept = Checkpoints(training.task.workspace, str(fitter.resolved))

    def learned(self, reads: Tensor, *, is_kept: bool = False) -> Mapping[str, Any]:
        """Learns on the rows of the training and reads some; or finds what that came to.

        Args:
            is_kept: Whether the base model is wanted as well.

        Returns:
            `vectors` (n, w) of the rows that are read; the tensors of the `base` model that are
            other ones now, or None; and `peak`, how many bytes it took at most.

        Raises:
            RecipeError: The rows to learn from are all of one class.
        """
        own = self._training
        if len(own.task.targets[own.rows].unique()) < 2:
            what = f"{self._fitter.resolved.recipe} learns from pairs of texts of different "
            raise RecipeError(f"{what}classes, and its rows have one.", "Add rows of another.")
        key = (own.key(self._fitter.backbone), own.seed, reads.tolist(), is_kept)
        done = self._kept.load_result(*key)
        if done is None:
            done = self._learn(reads, is_kept)
            self._kept.save_result(done, *key)
        return done

    def _learn(self, reads: Tensor, is_kept: bool) -> dict[str, Any]:
        from heads.training.finetuning.setfit_trainer import PAIRS, learn_pairs

        own, settings = self._training, self._training.settings
        rng = IsolatedRng(own.seed, for_training())
        module = self._fitter.new(own.task, own.texts, rng)
        peak = learn_pairs(
            module,
            own.texts,
            own.task,
            own.rows,
            rate=settings.learning_rate,
            steps=settings.epochs * math.ceil(len(own.rows) / PAIRS),
            seed=own.seed,
            rng=rng,
        )
        return {
            "vectors": module.features(own.texts, reads, own.task.check),
            "base": dict(module.tuned_base().tensors) if is_kept else None,
            "peak": peak,
        }


def _on_vectors(task: TrainingTask, reads: Tensor, vectors: Tensor) -> TrainingTask:
    """The task of a head that learns from the vectors (n, w) of the rows that were read."""
    index = torch.zeros(len(task.targets), dtype=torch.long)
    index[reads] = torch.arange(len(reads))
    return replace(task, vectors=vectors, index=index, kept=DerivedVectors())


def _parted(chosen: Chosen) -> tuple[TuningSettings, Chosen]:
    """The settings of the base model, and those of the head."""
    values: Any = dict(chosen)
    base = TuningSettings(learning_rate=values.pop(RATE), epochs=values.pop(EPOCHS))
    return base, values
