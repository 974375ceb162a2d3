"""The leaders of a run once more, on a quarter and on half of the rows."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from statistics import fmean
from typing import Any

import torch
from torch import Tensor

from heads.data.splits import FEWEST_DEVELOPMENT, on_fewer_rows
from heads.evaluation.intervals import score_intervals
from heads.evaluation.learning_curve import SHARES, subsets
from heads.evaluation.predictions import BASELINES, Answers, CellPredictions, scores, strata
from heads.evaluation.significance import compare
from heads.events import Progress
from heads.runs.cells import Cell, answers_of_cell, kept
from heads.runs.folder import RunFolder
from heads.runs.notes import reference_of
from heads.runs.spec import RunSpec
from heads.training.events import TrialResult
from heads.training.scheduler import Job, Scheduler, Tell, TrainingData, run_trials
from heads.training.search import seeds_of, trial_job
from heads.training.task import TrainingTask
from heads.training.trial import Trial

LEADERS = 3  # and the reference, where it is not one of them
FEWEST = 100  # rows to learn from: on fewer the curve shows little but luck


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class _Again:
    """A cell learned anew on a share of its rows."""

    share: float
    outcome: CellPredictions


def learning_curve(
    run: RunFolder,
    asked: RunSpec,
    cells: Sequence[Trial],
    training_data: TrainingData,
    workers: int,
    scheduler: Scheduler = run_trials,
) -> Iterator[Progress]:
    """Trains the leaders on nested parts of their rows and keeps the comparison at each size.

    Every seed searches its settings anew on its part: what suits few rows is not what suits many.
    Heads that learn their base model as well are no part of it: training them on fewer rows twice
    more would take longer than all the rest of a run.
    """
    numbered = enumerate(asked.recipes)
    found = {name: cell for n, name in numbered if (cell := kept(run, n)) and cell.tuning is None}
    by_share = _by_share(training_data)
    if not found or len(by_share) < 2:
        return
    names = leaders(found)
    chosen = [trial for trial in cells if trial.name in names]
    jobs = [
        _job(trial, share, by_share[share]) for trial in chosen for share in by_share if share < 1
    ]
    answers: dict[float, list[CellPredictions | Answers]] = {share: [] for share in by_share}
    done = 0
    for event in scheduler(jobs, training_data, workers):
        if isinstance(event, _Again):
            answers[event.share].append(event.outcome)
            done += 1
            share = 0.95 + 0.04 * done / len(jobs)
            yield Progress(says="Training the leaders on fewer rows", share=share)
    answers[SHARES[-1]] = [
        answers_of_cell(run, asked.recipes.index(name), name).answers for name in names
    ]
    # One that could not be learned from fewer rows stands at no size.
    whole = set.intersection(*({one.name for one in answers[share]} for share in by_share))
    if whole:
        for own in answers.values():
            own[:] = sorted((one for one in own if one.name in whole), key=lambda one: one.name)
        run.write("curve.json", [_stage(answers[share], by_share[share]) for share in by_share])


def leaders(found: Mapping[str, Cell]) -> list[str]:
    """The cells of highest score on the development rows, and the reference.

    By the rows that are scored, the leads of those that were lucky there would seem to grow.
    """
    ranked = sorted(found, key=lambda name: -found[name].development_score)
    names = [name for name in ranked if name not in BASELINES][:LEADERS]
    return list(dict.fromkeys([*names, reference_of(list(found))]))


def _by_share(training_data: TrainingData) -> dict[float, TrainingData]:
    """For each share the same with fewer rows to learn from, each share within the next."""
    alike, splits = strata(training_data.task), training_data.splits
    rows: dict[float, list[Tensor]] = {share: [] for share in SHARES}
    for own, seed in zip(splits.train, seeds_of(training_data), strict=True):
        same = splits.is_fixed and rows[SHARES[0]]
        nested = None if same else subsets(alike.tolist(), own.tolist(), seed=seed)
        for place, share in enumerate(SHARES):
            rows[share].append(torch.tensor(nested[place]) if nested else rows[share][0])
    found = {
        share: _fewer(training_data, own, alike)
        for share, own in rows.items()
        if share == 1 or min(map(len, own)) >= FEWEST
    }
    # Of rows that all are of classes of their own, none is left to choose settings on.
    return {share: one for share, one in found.items() if _chooses(one)}


def _chooses(training_data: TrainingData) -> bool:
    """Whether every seed has rows to choose on, and two answers to try settings on."""
    enough = min(map(len, training_data.splits.development)) >= FEWEST_DEVELOPMENT
    targets = training_data.task.targets
    return enough and all(
        len(targets[rows].unique(dim=0)) > 1 for rows in training_data.splits.search
    )


def _fewer(training_data: TrainingData, rows: Sequence[Tensor], alike: Tensor) -> TrainingData:
    if all(map(torch.equal, rows, training_data.splits.train)):
        return training_data
    splits = on_fewer_rows(
        training_data.splits, rows, alike, training_data.task.groups, training_data.config
    )
    return replace(training_data, splits=splits)


def _job(trial: Trial, share: float, training_data: TrainingData) -> Job:
    whole = trial_job(trial, training_data)

    def work(training_task: TrainingTask, tell: Tell) -> _Again:
        result = whole.work(training_task, lambda event: None)
        assert isinstance(result, TrialResult)
        return _Again(share=share, outcome=result.outcome)

    return replace(whole, work=work)


def _stage(
    answers: Sequence[CellPredictions | Answers], training_data: TrainingData
) -> dict[str, Any]:
    reference = reference_of([one.name for one in answers])
    seed = training_data.config.seed
    compared = compare(answers, training_data.task, reference=reference, seed=seed)
    task = training_data.task
    told = {
        one.name: {"score": fmean(scores(one, task)), "low": low, "high": high}
        for one, (low, high) in zip(answers, score_intervals(answers, task), strict=True)
    }
    return {
        "rows": len(training_data.splits.train[0]),
        "scores": told,
        "best": compared.best,
        "to_best": [asdict(difference) for difference in compared.to_best],
    }
