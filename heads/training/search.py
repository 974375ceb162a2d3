"""A trial: every seed searches its settings on its own development rows, and then fits with them.

Either in one piece, or the search by itself, where a race decides who goes on.
Legend: s seeds, m development rows of a seed.
"""

import math
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from statistics import fmean
from typing import Any

import torch
from torch import Tensor

from heads.data.splits import Splits
from heads.evaluation.calibration import thresholds
from heads.evaluation.predictions import CellPredictions
from heads.settings import ExperimentConfig
from heads.training.events import CurvePointTried, SearchFinished, SeedFitting, TrialResult
from heads.training.finetuning.base import TuningFitter
from heads.training.finetuning.checkpoints import folder_of, spent
from heads.training.fitters.base import (
    BySeed,
    Chosen,
    FittedHead,
    Searches,
    Searching,
    SearchResult,
    Seeds,
    TriedSettings,
)
from heads.training.objective import TargetScaler, balance_of
from heads.training.scheduler import Job, Tell, TrainingData
from heads.training.task import TrainingTask
from heads.training.trial import Trial

# --- A trial on its task: its own loss, numbers scaled, and rows kept apart.


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class TrialOnTask:
    """A trial with the task that suits it.

    Attributes:
        trial: What is taught.
        training_task: The rows under its reading, with its own loss.
        span: Where the numbers lay before they were narrowed; None for classes.
    """

    trial: Trial
    training_task: TrainingTask
    span: TargetScaler | None

    def search(self, splits: Splits, seeds: Seeds) -> Searching:
        """Every seed tries settings on its own development rows; the last answer is the best."""
        return self.trial.fitter.search(self.training_task, splits, seeds)

    def learn(self, found: Searches, rows: BySeed, asked: BySeed, seeds: Seeds) -> list[FittedHead]:
        """Learns with what searches came to on some rows, a seed each, and answers others."""
        learned = self.trial.fitter.learn(self.training_task, found, rows, asked, seeds)
        if self.span is None:
            return learned
        return [
            replace(
                one,
                logits=self.span.widened(one.logits),
                state=self.span.put_back(one.state, self.trial.last),
            )
            for one in learned
        ]

    def competing(self, logits: Tensor) -> Tensor:
        """Logits (n, c) whose softmax are the probabilities, where one class applies."""
        objective = self.training_task.objective
        return objective.problem.learned_by(objective.loss).competing(logits)


def on_task(
    trial: Trial, training_task: TrainingTask, splits: Splits, config: ExperimentConfig
) -> TrialOnTask:
    """Prepares a task for a trial."""
    objective = replace(
        training_task.objective,
        loss=trial.resolved.loss,
        focal=config.focal,
        smoothing=config.smoothing,
        margin=trial.resolved.margin,
    )
    if config.class_weights and objective.by_class:
        balance = balance_of(training_task.targets[splits.learned], objective.outputs)
        objective = replace(objective, balance=balance)
        # Each of its questions is balanced by itself, so the rows are not.
        training_task = replace(training_task, weights=torch.ones_like(training_task.weights))
    training_task = replace(training_task, objective=objective)
    if objective.problem.has_classes:
        return TrialOnTask(trial=trial, training_task=training_task, span=None)
    span = TargetScaler.of(training_task.targets[splits.learned], centred=trial.biased)
    training_task = replace(training_task, targets=span.narrowed(training_task.targets), span=span)
    return TrialOnTask(trial=trial, training_task=training_task, span=span)


def trial_job(trial: Trial, training_data: TrainingData) -> Job:
    """Return the whole work on a trial: every seed searches its settings, then fits with them."""

    def work(taught: TrialOnTask, plan: TrainingData, tell: Tell) -> TrialResult:
        # What a process that is gone took.
        before = spent(folder_of(taught.training_task.workspace, trial.name))
        result = _learned(taught, _searched(taught, plan, tell), plan, tell)
        return replace(result, seconds=result.seconds + before)

    return _job(trial, training_data, work)


def search_job(trial: Trial, training_data: TrainingData) -> Job:
    """Return the first half of the work on a trial: `SearchFinished`."""
    return _job(trial, training_data, _searched)


def fit_job(trial: Trial, training_data: TrainingData, searched: SearchFinished) -> Job:
    """Return the second half: learn with every seed and the settings that it has chosen."""

    def work(taught: TrialOnTask, plan: TrainingData, tell: Tell) -> TrialResult:
        return _learned(taught, searched, plan, tell)

    return _job(trial, training_data, work)


def refit_job(
    trial: Trial, training_data: TrainingData, chosen: Chosen, *, has_learned: bool
) -> Job:
    """Return the work of learning once on all rows to learn from, with settings known before.

    Args:
        has_learned: Whether the settings are known to lead anywhere; else no training counts as
            diverged where it ends no better than a constant answer.
    """

    def work(taught: TrialOnTask, plan: TrainingData, tell: Tell) -> TrialResult:
        begin = None
        if isinstance(trial.fitter, TuningFitter):
            (begin,) = trial.fitter.begins(taught.training_task, plan.splits, seeds_of(plan))
        loss = 0.0 if has_learned else math.inf
        point = TriedSettings(settings=chosen, step=0, score=0.0, loss=loss)
        known = SearchResult(chosen=chosen, point=point, state=begin)
        searched = SearchFinished(name=trial.name, found=(known,), tried=(), seconds=0.0)
        return _learned(taught, searched, plan, tell)

    return _job(trial, training_data, work)


def _job(
    trial: Trial,
    training_data: TrainingData,
    work: Callable[[TrialOnTask, TrainingData, Tell], object],
) -> Job:
    plan = training_data.unread

    def on_its_task(training_task: TrainingTask, tell: Tell) -> object:
        return work(on_task(trial, training_task, plan.splits, plan.config), plan, tell)

    return Job(
        name=trial.name,
        reading=trial.reading,
        work=on_its_task,
        cost=trial.cost(len(training_data.splits.train[0]), len(training_data.splits)),
        wants_all=trial.is_tuned,
        kind=type(trial.fitter).__name__,
        is_apart=trial.fitter.learns_from == "vectors",
        is_first=trial.resolved.is_quick,
    )


def _searched(taught: TrialOnTask, training_data: TrainingData, tell: Tell) -> SearchFinished:
    """Every seed tries settings on its development rows, and tells of every one of them."""
    begun, name, tried = time.perf_counter(), taught.trial.name, list[TriedSettings]()
    search = taught.search(training_data.splits, seeds_of(training_data))
    while True:
        try:
            tried.append(replace(next(search), parts=None))
        except StopIteration as end:
            return SearchFinished(
                name=name,
                found=tuple(end.value),
                tried=tuple(tried),
                seconds=time.perf_counter() - begun,
            )
        tell(CurvePointTried(name=name, point=tried[-1]))


def _learned(
    taught: TrialOnTask, searched: SearchFinished, training_data: TrainingData, tell: Tell
) -> TrialResult:
    """Learn with every seed and the settings that it has chosen."""
    begun, trial = time.perf_counter(), taught.trial
    learned = _fitted(taught, searched, training_data, tell)
    return TrialResult(
        trial=trial,
        chosen=tuple(one.chosen for one in searched.found),
        tried=searched.tried,
        development_score=fmean(one.point.score for one in searched.found),
        learned=tuple(learned),
        outcome=CellPredictions(
            name=trial.name,
            rows=training_data.splits.test,
            logits=tuple(taught.competing(one.logits) for one in learned),
            is_random=trial.fitter.is_random,
            repetition=training_data.splits.repetition,
            **_held(taught, searched.found, training_data),
        ),
        rows=len(training_data.splits.train[0]),
        seconds=searched.seconds + time.perf_counter() - begun,
    )


def _fitted(
    taught: TrialOnTask, searched: SearchFinished, training_data: TrainingData, tell: Tell
) -> list[FittedHead]:
    """The heads of all seeds: side by side, or one by one where each takes long, and told of."""
    splits, seeds = training_data.splits, seeds_of(training_data)
    if not taught.trial.is_tuned:
        return taught.learn(searched.found, splits.train, splits.test, seeds)
    learned = list[FittedHead]()
    for number, one in enumerate(
        zip(searched.found, splits.train, splits.test, seeds, strict=True)
    ):
        tell(SeedFitting(name=taught.trial.name, seed=number))
        found, rows, asked, seed = one
        learned += taught.learn([found], [rows], [asked], [seed])
    return learned


def _held(
    taught: TrialOnTask, found: Sequence[SearchResult], training_data: TrainingData
) -> dict[str, Any]:
    """Return what `CellPredictions` holds of the development rows of all seeds.

    Heads that learned from the other rows answered them: how sure they are, and from which logit
    they give a label.
    """
    held_out = [one.held for one in found if one.held is not None]  # none of known settings
    if not training_data.task.problem.has_classes or not held_out:
        return {}
    development = training_data.splits.development
    answered = list(map(taught.competing, held_out))
    held = {"held": (torch.cat(answered), torch.cat(development))}
    if training_data.task.problem.is_exclusive:
        return held
    pairs = zip(answered, development, strict=True)
    cuts = [thresholds(own, training_data.task.targets[rows]) for own, rows in pairs]
    return held | {"thresholds": torch.stack(cuts)}


def seeds_of(training_data: TrainingData) -> list[int]:
    """The seed of every repetition, or of every fold of all of them."""
    return [training_data.config.seed + number for number in range(len(training_data.splits))]
