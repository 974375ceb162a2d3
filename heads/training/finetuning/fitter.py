"""The fitter of recipes that learn their base model as well: settings searched, then all rows.

Every seed trains once with each of a few learning rates on the rows that are not development rows,
and looks at those after every pass; with the best it trains once more, on all its rows. A training
that ends worse than an answer which is the same for every text has diverged: it is counted, and
begun anew with other random numbers.

Legend: n rows, m development rows, c outputs.
"""

import math
from collections.abc import Generator, Mapping, Sequence
from dataclasses import dataclass, replace
from statistics import fmean
from typing import Any

import torch
from torch import Tensor

from heads.backbone.device import for_training
from heads.backbone.tuned import TunedBase
from heads.data.splits import Splits
from heads.errors import RecipeError
from heads.events import result
from heads.rng import IsolatedRng
from heads.training.finetuning.base import Training, TuningFitter
from heads.training.finetuning.checkpoints import BEGUN, FINISHED, Checkpoints
from heads.training.finetuning.learning import TuningRun, TuningSettings
from heads.training.fitters import adamw
from heads.training.fitters.base import (
    Chosen,
    FittedHead,
    Fitter,
    SearchResult,
    Seeds,
    Source,
    TriedSettings,
    best_factor,
    judge_settings,
)
from heads.training.fitters.successive_halving import little
from heads.training.task import TrainingTask

PATIENCE = 3  # passes without a lower development loss, after which a training ends
ATTEMPTS = 3  # at a training that diverges
ANOTHER = 7_919  # is added to the seed of each further attempt
CLEARLY = 0.95  # of the loss of a constant answer: below it something was learned


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class FineTuningFitter(TuningFitter):
    """A recipe together with (some of) its base model, under AdamW.

    Attributes:
        probe: Learns the head on the frozen base model first; None where it begins anew.
    """

    probe: Fitter | None = None

    @property
    def learns_from(self) -> Source:
        """Texts; and what the frozen head learns from, where one is learned first."""
        return "texts" if self.probe is None else self.probe.learns_from

    def tries(
        self, training: Training, splits: Splits, begin: Mapping[str, Tensor] | None
    ) -> Generator[TriedSettings, None, SearchResult]:
        return (yield from _Work(self, training, begin).search(splits.development[0]))

    def settings(self, chosen: Chosen) -> TuningSettings:
        return TuningSettings.from_values(chosen)

    def fits(self, training: Training, found: SearchResult, asked: Tensor) -> FittedHead:
        work, epochs = _Work(self, training, found.state), int(found.chosen["epochs"])
        return work.fit(epochs, asked, found.point, is_kept=training.is_first)

    def begins(
        self, task: TrainingTask, splits: Splits, seeds: Seeds
    ) -> list[Mapping[str, Tensor] | None]:
        if self.probe is None:
            return [None] * len(seeds)
        found = result(self.probe.search(task, splits, seeds))
        rows = [splits.fitted(number) for number in range(len(seeds))]
        learned = self.probe.learn(task, found, rows, splits.development, seeds)
        before = "" if self.probe.learns_from == "states" else "head."
        return [{f"{before}{name}": t for name, t in one.state.items()} for one in learned]


class _Work:
    """One training on some rows with one seed and one set of settings."""

    def __init__(
        self, fitter: FineTuningFitter, training: Training, begin: Mapping[str, Tensor] | None
    ) -> None:
        self._fitter, self._training, self._begin = fitter, training, begin
        self._task, self._texts, self._rows = training.task, training.texts, training.rows
        self._kept = Checkpoints(training.task.workspace, str(fitter.resolved))
        self._key = training.key(fitter.backbone)

    def search(self, asked: Tensor) -> Generator[TriedSettings, None, SearchResult]:
        """Trains while the development loss falls, with a look after every pass."""
        key = (self._key, self._training.seed, "search")
        done = self._kept.load(FINISHED, *key)
        if done is not None:
            points = [TriedSettings(**one) for one in done["points"]]
            yield from points
            return self._found(points, done["best"], (done["parts"], done["held"]))
        run, points, best = self._begun(self._training.seed), list[TriedSettings](), 0
        kept = self._kept.load(BEGUN, *key)
        factor, top = 1.0, (Tensor(), Tensor())  # `top`: parts and logits of the best look
        if kept is not None:
            run.load_checkpoint(kept["run"])
            points = [TriedSettings(**one) for one in kept["points"]]
            best, factor, top = kept["best"], kept["factor"], tuple(kept["top"])
            yield from points
        while len(points) < self._training.settings.epochs:
            # A checkpoint may be from after the last step of a pass, before the look that ends it.
            for _ in run.learn() if run.epoch == len(points) else ():
                if self._kept.is_due():
                    told = [one.as_json() for one in points]
                    state = {"points": told, "best": best, "factor": factor, "top": list(top)}
                    self._kept.save(BEGUN, {**state, "run": run.checkpoint()}, *key)
            logits = run.module.answers(self._texts, asked, self._task.check)
            factor = best_factor(logits, self._task, asked, factor)
            settings = self._training.settings.as_values(run.epoch)
            point = judge_settings(settings, run.steps, logits * factor, self._task, asked)
            points.append(replace(point, seed=self._training.number, parts=None))
            if len(points) == 1 or point.finite_loss < points[best].finite_loss:
                best, top = len(points) - 1, (point.parts, logits)
            yield points[-1]
            if len(points) - 1 - best >= PATIENCE or not math.isfinite(point.finite_loss):
                break
        told = [one.as_json() for one in points]
        done = {"points": told, "best": best, "parts": top[0], "held": top[1]}
        self._kept.save(FINISHED, done, *key)
        return self._found(points, best, top)

    def _found(
        self, points: Sequence[TriedSettings], best: int, top: tuple[Tensor | None, Tensor]
    ) -> SearchResult:
        """What the training came to in its best look, with each development row's part there."""
        parts, held = top
        chosen = {**points[best].settings, "converged": not is_falling(points)}
        point = replace(points[best], settings=chosen, parts=parts)
        return SearchResult(chosen=chosen, point=point, held=held, state=self._begin)

    def fit(self, epochs: int, asked: Tensor, point: TriedSettings, *, is_kept: bool) -> FittedHead:
        """Trains as the search did, on all rows of the seed, and answers others.

        Raises:
            RecipeError: Every attempt ended no better than a constant answer.
        """
        diverged = 0
        for attempt in range(ATTEMPTS):
            done = self._fit(self._training.seed + ANOTHER * attempt, epochs, asked, point, is_kept)
            if not done["diverged"]:
                tuned = done["base"] and TunedBase(tune=self._fitter.resolved.tune, **done["base"])
                return FittedHead(
                    logits=done["logits"],
                    state=done["state"],
                    base=tuned,
                    diverged=diverged,
                    peak_bytes=done["peak"],
                )
            diverged += done["rose"]
        rate = f"{self._training.settings.learning_rate:.2g}"
        if diverged:
            what = f"Its training diverged: the loss rose in {diverged} of {ATTEMPTS} attempts."
            raise RecipeError(what, f"Choose a tuning rate below {rate}.")
        what = f"It has not learned yet: after {epochs} epochs it answers every text alike."
        raise RecipeError(what, f"Choose more epochs, or a tuning rate above {rate}.")

    def _fit(
        self, seed: int, epochs: int, asked: Tensor, point: TriedSettings, is_kept: bool
    ) -> dict[str, Any]:
        """Trains so many passes, and answers if it has not diverged; or finds what was kept."""
        key = (self._key, seed, "fit", epochs, asked.tolist(), is_kept)
        before = self._kept.load(FINISHED, *key)
        if before is not None:
            return before
        run, kept = self._begun(seed), self._kept.load(BEGUN, *key)
        if kept is not None:
            run.load_checkpoint(kept)
        losses = list[float]()
        while run.epoch < epochs:
            for loss in run.learn():
                losses.append(loss)
                if self._kept.is_due():
                    self._kept.save(BEGUN, run.checkpoint(), *key)
        logits = run.module.answers(self._texts, self._rows, self._task.check)
        loss = scaled_loss(self._task, self._rows, logits)
        constant = constant_loss(self._task, self._rows)
        done: dict[str, Any] = {"diverged": _has_diverged(loss, point, constant)}
        if done["diverged"]:
            done["rose"] = _rose(losses, constant)
        else:
            base = run.module.tuned_base() if is_kept else None
            done |= {
                "logits": run.module.answers(self._texts, asked, self._task.check),
                "state": run.module.state_of_recipe(),
                "base": base and {"tensors": base.tensors, "adapter": base.adapter},
                "peak": run.memory.peak,
            }
        self._kept.save(FINISHED, done, *key)
        return done

    def _begun(self, seed: int) -> TuningRun:
        """A copy of the base model and a new head, or the one learned before."""
        task, rng = self._task, IsolatedRng(seed, for_training())
        module = self._fitter.new(task, self._texts, rng)
        if self._begin is None:
            adamw.at_base_rates(module.recipe.head, task, self._rows)
        else:
            # What the recipe reads may be new yet, but never the head that was learned first.
            missing, unknown = module.recipe.load_state_dict(dict(self._begin), strict=False)
            if odd := [*unknown, *(name for name in missing if name.startswith("head."))]:
                raise ValueError(f"the probed head is of another recipe: {odd[:3]}")
        return TuningRun(module, self._texts, task, self._rows, self._training.settings, rng, seed)


def is_falling(points: Sequence[TriedSettings]) -> bool:
    """Whether a training took all passes that it was given, and its loss fell to the last."""
    if points[-1].settings["epochs"] != points[-1].settings["planned"]:
        return False
    before = min((point.finite_loss for point in points[:-1]), default=math.inf)
    return len(points) == 1 or points[-1].finite_loss < before - little(before)


def _has_diverged(loss: float, point: TriedSettings, constant: float) -> bool:
    """Return True if a training ends no better than a constant answer, though its search did.

    Losses on the way do not tell: those of a short training are mostly from before it learned.
    """
    return not math.isfinite(loss) or loss > CLEARLY * constant > point.finite_loss


def _rose(losses: Sequence[float], constant: float) -> bool:
    """Return True if a training that failed had learned before, or ended above its first loss.

    Else it has hardly begun. What is compared are means over a quarter of its steps.
    """
    size = max(1, len(losses) // 4)
    means = [fmean(losses[n : n + size]) for n in range(0, len(losses) - size + 1, size)]
    if not means or not math.isfinite(means[-1]):
        return True
    return means[-1] > means[0] / CLEARLY or min(means) < CLEARLY * min(means[0], constant)


def scaled_loss(task: TrainingTask, rows: Tensor, logits: Tensor) -> float:
    """The mean loss of some rows, their logits (n, c) divided by the temperature that suits them.

    A short training may be right about its rows and too sure or too unsure of them all.
    """
    if not logits.isfinite().all():
        return math.inf
    return float(_weighted(task, rows, best_factor(logits, task, rows) * logits).mean())


def _weighted(task: TrainingTask, rows: Tensor, logits: Tensor) -> Tensor:
    """The loss of each of some rows by its weight, (n,)."""
    return task.objective.rows(logits, task.targets[rows]) * task.weights[rows]


def constant_loss(task: TrainingTask, rows: Tensor) -> float:
    """The mean loss of the best answers that do not depend on the text."""
    objective, weights = task.objective, task.weights[rows]
    target_matrix = objective.target_matrix(task.targets[rows])
    mean = (target_matrix * weights[:, None]).sum(dim=0) / weights.sum()
    if not objective.problem.has_classes:
        logits = mean
    elif objective.by_class:
        logits = mean.clamp(1e-4, 1 - 1e-4).logit()
    else:
        logits = mean.clamp_min(1e-6).log()
    constant = (logits, torch.zeros_like(logits))
    return min(float(_weighted(task, rows, one.expand(len(rows), -1)).mean()) for one in constant)
