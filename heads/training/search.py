"""A trial: every seed searches its settings on its own development rows, and then fits with them.

Either in one piece, or the search by itself, where a race decides who goes on.
Legend: s seeds, m development rows of a seed.
"""

import math
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from statistics import fmean
from typing import Any

import torch
from torch import Tensor

from heads.evaluation.calibration import thresholds
from heads.evaluation.predictions import CellPredictions
from heads.training.events import CurvePointTried, SearchFinished, SeedFitting, TrialResult
from heads.training.finetuning.base import TuningFitter
from heads.training.finetuning.checkpoints import folder_of, spent
from heads.training.fitters.base import (
    BySeed,
    Chosen,
    FittedHead,
    Searches,
    SearchResult,
    Seeds,
    TriedSettings,
)
from heads.training.objective import TargetScaler, balance_of
from heads.training.scheduler import Job, Tell, TrainingData
from heads.training.task import TrainingTask
from heads.training.trial import Trial


def prepare_task(trial: Trial, task: TrainingTask, training_data: TrainingData) -> TrainingTask:
    """Return the rows under a trial's reading with its own loss, numbers scaled as they learn."""
    config, learned = training_data.config, training_data.splits.learned
    objective = replace(
        task.objective,
        loss=trial.resolved.loss,
        focal=config.focal,
        smoothing=config.smoothing,
        margin=trial.resolved.margin,
    )
    if config.class_weights and objective.by_class:
        balance = balance_of(task.targets[learned], objective.outputs)
        objective = replace(objective, balance=balance)
        # Each of its questions is balanced by itself, so the rows are not.
        task = replace(task, weights=torch.ones_like(task.weights))
    if objective.problem.has_classes:
        return replace(task, objective=objective)
    span = TargetScaler.of(task.targets[learned], centred=trial.biased)
    return replace(task, objective=objective, targets=span.narrowed(task.targets), span=span)


def learn(
    trial: Trial, task: TrainingTask, found: Searches, rows: BySeed, asked: BySeed, seeds: Seeds
) -> list[FittedHead]:
    """Learn with what searches came to on some rows, a seed each; answer others in their units."""
    learned = trial.fitter.learn(task, found, rows, asked, seeds)
    if (span := task.span) is None:
        return learned
    return [
        replace(
            head,
            logits=span.widened(head.logits),
            state=span.put_back(head.state, trial.last),
        )
        for head in learned
    ]


def trial_job(trial: Trial, training_data: TrainingData) -> Job:
    """Return the whole work on a trial: every seed searches its settings, then fits with them."""

    def work(task: TrainingTask, plan: TrainingData, tell: Tell) -> TrialResult:
        before = spent(folder_of(task.workspace, trial.name))  # by a process that is gone
        result = _fit(trial, task, _search(trial, task, plan, tell), plan, tell)
        return replace(result, seconds=result.seconds + before)

    return _job(trial, training_data, work)


def search_job(trial: Trial, training_data: TrainingData) -> Job:
    """Return the first half of the work on a trial: `SearchFinished`."""
    return _job(trial, training_data, partial(_search, trial))


def fit_job(trial: Trial, training_data: TrainingData, searched: SearchFinished) -> Job:
    """Return the second half: learn with every seed and the settings that it has chosen."""

    def work(task: TrainingTask, plan: TrainingData, tell: Tell) -> TrialResult:
        return _fit(trial, task, searched, plan, tell)

    return _job(trial, training_data, work)


def refit_job(
    trial: Trial, training_data: TrainingData, chosen: Chosen, *, has_learned: bool
) -> Job:
    """Return the work of learning once on all rows to learn from, with settings known before.

    Args:
        has_learned: Whether the settings are known to lead anywhere; else no training counts as
            diverged where it ends no better than a constant answer.
    """

    def work(task: TrainingTask, plan: TrainingData, tell: Tell) -> TrialResult:
        begin = None
        if isinstance(trial.fitter, TuningFitter):
            (begin,) = trial.fitter.begins(task, plan.splits, seeds_of(plan))
        loss = 0.0 if has_learned else math.inf
        point = TriedSettings(settings=chosen, step=0, score=0.0, loss=loss)
        known = SearchResult(chosen=chosen, point=point, state=begin)
        searched = SearchFinished(name=trial.name, found=(known,), tried=(), seconds=0.0)
        return _fit(trial, task, searched, plan, tell)

    return _job(trial, training_data, work)


def _job(
    trial: Trial,
    training_data: TrainingData,
    work: Callable[[TrainingTask, TrainingData, Tell], object],
) -> Job:
    plan = training_data.unread
    return Job(
        name=trial.name,
        reading=trial.reading,
        work=lambda task, tell: work(prepare_task(trial, task, plan), plan, tell),
        cost=trial.cost(len(training_data.splits.train[0]), len(training_data.splits)),
        wants_all=trial.is_tuned,
        kind=type(trial.fitter).__name__,
        is_apart=trial.fitter.learns_from == "vectors",
        is_first=trial.resolved.is_quick,
    )


def _search(
    trial: Trial, task: TrainingTask, training_data: TrainingData, tell: Tell
) -> SearchFinished:
    """Let every seed try settings on its development rows; tell of every one of them."""
    begun, tried = time.perf_counter(), list[TriedSettings]()
    search = trial.fitter.search(task, training_data.splits, seeds_of(training_data))
    while True:
        try:
            tried.append(replace(next(search), parts=None))
        except StopIteration as end:
            return SearchFinished(
                name=trial.name,
                found=tuple(end.value),
                tried=tuple(tried),
                seconds=time.perf_counter() - begun,
            )
        tell(CurvePointTried(name=trial.name, point=tried[-1]))


def _fit(
    trial: Trial,
    task: TrainingTask,
    searched: SearchFinished,
    training_data: TrainingData,
    tell: Tell,
) -> TrialResult:
    """Learn with every seed and the settings that it has chosen."""
    begun, objective, splits = time.perf_counter(), task.objective, training_data.splits
    found, seeds, learned = searched.found, seeds_of(training_data), list[FittedHead]()
    if not trial.is_tuned:
        learned = learn(trial, task, found, splits.train, splits.test, seeds)
    else:  # each takes long: one by one, and told of
        each = zip(found, splits.train, splits.test, seeds, strict=True)
        for number, (search, rows, asked, seed) in enumerate(each):
            tell(SeedFitting(name=trial.name, seed=number))
            learned += learn(trial, task, [search], [rows], [asked], [seed])
    # Where one class applies, logits whose softmax are the probabilities.
    competing = objective.problem.learned_by(objective.loss).competing
    held_out = [competing(search.held) for search in found if search.held is not None]
    return TrialResult(
        trial=trial,
        chosen=tuple(search.chosen for search in found),
        tried=searched.tried,
        development_score=fmean(search.point.score for search in found),
        learned=tuple(learned),
        outcome=CellPredictions(
            name=trial.name,
            rows=splits.test,
            logits=tuple(competing(head.logits) for head in learned),
            is_random=trial.fitter.is_random,
            repetition=splits.repetition,
            **_held(held_out, training_data),
        ),
        rows=len(splits.train[0]),
        seconds=searched.seconds + time.perf_counter() - begun,
    )


def _held(held_out: Sequence[Tensor], training_data: TrainingData) -> dict[str, Any]:
    """Return what `CellPredictions` holds of the development rows of all seeds.

    Heads that learned from the other rows answered them: how sure they are, and from which logit
    they give a label.
    """
    problem, development = training_data.task.problem, training_data.splits.development
    if not problem.has_classes or not held_out:  # none of known settings
        return {}
    held = {"held": (torch.cat([*held_out]), torch.cat(development))}
    if problem.is_exclusive:
        return held
    pairs = zip(held_out, development, strict=True)
    cuts = [thresholds(own, training_data.task.targets[rows]) for own, rows in pairs]
    return held | {"thresholds": torch.stack(cuts)}


def seeds_of(training_data: TrainingData) -> list[int]:
    """The seed of every repetition, or of every fold of all of them."""
    return [training_data.config.seed + number for number in range(len(training_data.splits))]
