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
from heads.training.finetuning.checkpoints import FINISHED, Checkpoints
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
        done = self._learn_pairs(training, reads)
        on_vectors = _on_vectors(training.task, reads, done["vectors"])
        # Only of the development rows the base model has not seen the labels.
        held = replace(splits, folds=(), are_given=True)
        (search,) = result(self.head.search(on_vectors, held, [training.seed]))
        chosen = {**search.chosen, RATE: settings.learning_rate, EPOCHS: settings.epochs}
        point = replace(search.point, settings=chosen, seed=training.number)
        yield point
        return replace(search, chosen=chosen, point=point, state=None)

    def settings(self, chosen: Chosen) -> TuningSettings:
        return _split_settings(chosen)[0]

    def fits(self, training: Training, found: SearchResult, asked: Tensor) -> FittedHead:
        reads = torch.cat([training.rows, asked])
        done = self._learn_pairs(training, reads, is_kept=training.is_first)
        begin = SearchResult(chosen=_split_settings(found.chosen)[1], point=found.point)
        on_vectors = _on_vectors(training.task, reads, done["vectors"])
        seeds = [training.seed]
        (top,) = self.head.learn(on_vectors, [begin], [training.rows], [asked], seeds)
        state = {f"head.{name}": tensor for name, tensor in top.state.items()}
        base = done["base"] and TunedBase(tune=self.resolved.tune, tensors=done["base"])
        return replace(top, state=state, base=base, peak_bytes=done["peak"])

    def _learn_pairs(
        self, training: Training, reads: Tensor, *, is_kept: bool = False
    ) -> Mapping[str, Any]:
        """Let a base model learn from the rows of a training, or load what that came to.

        Args:
            reads: (n,), the rows that it reads afterwards.
            is_kept: Whether the base model is wanted as well.

        Returns:
            `vectors` (n, w) of the rows that are read; the tensors of the `base` model that are
            other ones now, or None; and `peak`, how many bytes it took at most.

        Raises:
            RecipeError: The rows to learn from are all of one class.
        """
        task, texts, rows, seed = training.task, training.texts, training.rows, training.seed
        if len(task.targets[rows].unique()) < 2:
            what = f"{self.resolved.recipe} learns from pairs of texts of different "
            raise RecipeError(f"{what}classes, and its rows have one.", "Add rows of another.")
        checkpoints = Checkpoints(task.workspace, str(self.resolved))
        key = (training.key(self.backbone), seed, reads.tolist(), is_kept)
        if (done := checkpoints.load(FINISHED, *key)) is not None:
            return done
        from heads.training.finetuning.setfit_trainer import PAIRS, learn_pairs

        settings, rng = training.settings, IsolatedRng(seed, for_training())
        module, steps = self.new(task, texts, rng), settings.epochs * math.ceil(len(rows) / PAIRS)
        rate = settings.learning_rate
        peak = learn_pairs(module, texts, task, rows, rate=rate, steps=steps, seed=seed, rng=rng)
        done = {
            "vectors": module.features(texts, reads, task.check),
            "base": dict(module.tuned_base().tensors) if is_kept else None,
            "peak": peak,
        }
        checkpoints.save(FINISHED, done, *key)
        return done


def _on_vectors(task: TrainingTask, reads: Tensor, vectors: Tensor) -> TrainingTask:
    """The task of a head that learns from the vectors (n, w) of the rows that were read."""
    index = torch.zeros(len(task.targets), dtype=torch.long)
    index[reads] = torch.arange(len(reads))
    return replace(task, vectors=vectors, index=index, kept=DerivedVectors())


def _split_settings(chosen: Chosen) -> tuple[TuningSettings, Chosen]:
    """The settings of the base model, and those of the head."""
    values: Any = dict(chosen)
    base = TuningSettings(learning_rate=values.pop(RATE), epochs=values.pop(EPOCHS))
    return base, values
