"""The fitter of recipes whose base model learns on pairs of texts before their head: SetFit.

First the base model learns that texts of one class lie near each other and texts of other classes
far, by the cosine of the vectors that the recipe pools; then the head learns on these vectors, as
it does on those of a frozen base model, by its own fitter. Every seed does so with each of a few
learning rates, and with the best once more on all its rows.

Source: SetFit (Tunstall et al. 2022, arXiv 2209.11055).
Legend: n rows, w width of the pooled vector, c classes.
"""

import math
from collections.abc import Generator, Mapping, Sequence
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
from heads.training.finetuning.base import TuningFitter
from heads.training.finetuning.checkpoints import Checkpoints
from heads.training.finetuning.learning import TuningSettings
from heads.training.finetuning.module import Texts
from heads.training.fitters.base import (
    Chosen,
    FittedHead,
    Fitter,
    SearchResult,
    TriedSettings,
    surest,
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
    texts_a_row: ClassVar[int] = 2

    @property
    def learning(self) -> ResolvedRecipe:
        """The reading alone, under a linear layer that learns nothing."""
        return replace(self.resolved, head=registry.head["linear"], head_options={}, without="")

    def search(
        self, task: TrainingTask, splits: Splits, seeds: Sequence[int]
    ) -> Generator[TriedSettings, None, list[SearchResult]]:
        texts, found = Texts.of(task, self.resolved, self.backbone), list[SearchResult]()
        for number, seed in enumerate(seeds):
            tried = list[SearchResult]()
            for settings in self.table(task, len(splits.fitted(number))):
                tried.append(self._tried(task, texts, splits.only(number), settings, seed))
                tried[-1] = replace(tried[-1], point=replace(tried[-1].point, seed=number))
                yield tried[-1].point
            best = surest([one.point for one in tried], task)
            found.append(next(one for one in tried if one.point is best))
        return found

    def learn(
        self,
        task: TrainingTask,
        found: Sequence[SearchResult],
        rows: Sequence[Tensor],
        asked: Sequence[Tensor],
        seeds: Sequence[int],
    ) -> list[FittedHead]:
        texts, learned = Texts.of(task, self.resolved, self.backbone), list[FittedHead]()
        for number, (one, own, others) in enumerate(zip(found, rows, asked, strict=True)):
            settings, chosen = _parted(one.chosen)
            reads, seed = torch.cat([own, others]), seeds[number]
            tuned = self._tuned(task, texts, own, reads, settings, seed)
            begin = [SearchResult(chosen=chosen, point=one.point)]
            on_vectors = _on_vectors(task, reads, tuned["vectors"])
            (head,) = self.head.learn(on_vectors, begin, [own], [others], [seed])
            base = TunedBase(tune=self.resolved.tune, tensors=tuned["base"])
            learned.append(
                replace(
                    head,
                    state={f"head.{name}": tensor for name, tensor in head.state.items()},
                    base=base if number == 0 else None,
                    peak_bytes=tuned["peak"],
                )
            )
        return learned

    def _tried(
        self, task: TrainingTask, texts: Texts, splits: Splits, settings: TuningSettings, seed: int
    ) -> SearchResult:
        """What the best head comes to on the development rows of the one seed of some splits."""
        rows, reads = splits.fitted(0), splits.train[0]
        tuned = self._tuned(task, texts, rows, reads, settings, seed)
        on_vectors = _on_vectors(task, reads, tuned["vectors"])
        (one,) = result(self.head.search(on_vectors, splits, [seed]))
        chosen = {**one.chosen, RATE: settings.learning_rate, EPOCHS: settings.epochs}
        return replace(one, chosen=chosen, point=replace(one.point, settings=chosen), state=None)

    def _tuned(
        self,
        task: TrainingTask,
        texts: Texts,
        rows: Tensor,
        reads: Tensor,
        settings: TuningSettings,
        seed: int,
    ) -> Mapping[str, Any]:
        """Learns the base model on some rows, and reads some with it; or finds what that came to.

        Returns:
            `vectors` (n, w) of the rows to read, the tensors of the `base` model that are other
            ones now, and `peak`, the bytes that it took.

        Raises:
            RecipeError: The rows to learn from are all of one class.
        """
        if len(task.targets[rows].unique()) < 2:
            what = f"{self.resolved.recipe} learns from pairs of texts of different classes, and "
            raise RecipeError(what + "its rows have one class.", "Add rows of another class.")
        kept = Checkpoints(task.workspace, str(self.resolved))
        key = (self.key(task, rows, settings), seed, reads.tolist())
        if (done := kept.finished(*key)) is not None:
            return done
        from heads.training.finetuning.setfit_trainer import PAIRS, learn_pairs

        rng = IsolatedRng(seed, for_training())
        module = self.new(task, texts, rng)
        steps = settings.epochs * math.ceil(len(rows) / PAIRS)
        rate = settings.learning_rate
        peak = learn_pairs(module, texts, task, rows, rate=rate, steps=steps, seed=seed, rng=rng)
        done = {
            "vectors": module.features(texts, reads, task.check),
            "base": dict(module.tuned_base().tensors),
            "peak": peak,
        }
        kept.finish(done, *key)
        return done


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
