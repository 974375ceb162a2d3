"""A race: the settings of all cells are searched, then those that can still win go on.

What was searched and who was stopped lies in the run's folder, so that a resumed run decides
alike, and no number depends on the clock.
"""

import contextlib
from collections.abc import Collection, Generator, Mapping, Sequence
from dataclasses import asdict
from typing import Any

import torch
from torch import Tensor

from heads.events import Progress
from heads.runs.cells import keep_failure
from heads.runs.folder import RunFolder
from heads.runs.notes import reference_of
from heads.runs.spec import RunSpec
from heads.training.events import CurvePointTried, SearchFinished, TrialFailed, alike
from heads.training.fitters.base import SearchResult, TriedSettings, decode
from heads.training.racing import Eliminated, eliminated
from heads.training.scheduler import Scheduler, TrainingData, run_trials
from heads.training.search import search_job
from heads.training.trial import Trial

DECISION = "race.json"
BEGUN, SHARE = 0.43, 0.15  # of the bar: where the first heat begins, and how much it takes


def race(
    run: RunFolder,
    asked: RunSpec,
    cells: Sequence[Trial],
    training_data: TrainingData,
    workers: int,
    scheduler: Scheduler = run_trials,
) -> Generator[Progress | CurvePointTried, None, Mapping[str, SearchFinished | TrialFailed]]:
    """Search the settings of all cells; return what those came to that go on, or failed."""
    numbered = enumerate(asked.recipes)
    found = {name: one for number, name in numbered if (one := _kept(run, number))}
    failed: dict[str, TrialFailed] = {}
    if run.read(DECISION) is None:
        left = [search_job(cell, training_data) for cell in cells if cell.name not in found]
        with contextlib.closing(scheduler(left, training_data, workers)) as events:
            for event in events:
                if isinstance(event, SearchFinished):
                    _keep(run, asked.recipes.index(event.name), event)
                    found[event.name] = event
                    says = "Race, first heat: the settings of "
                    says += f"{len(found)} of {len(cells)} recipes are chosen"
                    share = BEGUN + SHARE * len(found) / max(len(cells), 1)
                    yield Progress(says=says, share=share)
                elif isinstance(event, TrialFailed):
                    failed[event.name] = event
                    yield keep_failure(run, asked.recipes.index(event.name), event.says)
                elif isinstance(event, CurvePointTried):
                    yield event
        # Cells that could not be searched take no part.
        ordered = {name: found[name] for name in asked.recipes if name in found}
        each = zip(asked.recipes, asked.resolved, strict=True)
        tuned = [name for name, resolved in each if resolved.is_tuned]
        stopped = [asdict(one) for one in behind(ordered, training_data, tuned)]
        run.write(DECISION, {"cells": len(ordered), "stopped": stopped})
    out = {one.recipe for one in stopped_of(run)}
    says = f"Race: {len(out)} of {len(cells)} recipes cannot win any more and are stopped"
    yield Progress(says=says, share=BEGUN + SHARE)
    return failed | {name: one for name, one in found.items() if name not in out}


def stopped_of(run: RunFolder) -> tuple[Eliminated, ...]:
    """Return the cells that the race of a run stopped, the nearest first; without one, none."""
    try:
        return tuple(
            Eliminated(**one) for one in (run.read(DECISION) or {"stopped": []})["stopped"]
        )
    except (KeyError, TypeError) as error:
        raise run.broken(DECISION) from error


def behind(
    found: Mapping[str, SearchFinished],
    training_data: TrainingData,
    tuned: Collection[str] = (),
) -> tuple[Eliminated, ...]:
    """The cells that a race stops, of those that have been searched, the nearest first.

    Heads on the frozen base model race among themselves: the best of them is what one that learns
    it as well has to beat, and what is wanted where no task may have a base model of its own.

    Args:
        tuned: The names of heads that learn their base model as well; they race against all.
    """
    frozen = {name: one for name, one in found.items() if name not in tuned}
    out = _behind(frozen, training_data, ())
    if len(frozen) < len(found):
        every = _behind(found, training_data, tuned)
        out = (*out, *(one for one in every if one.recipe in tuned))
    return tuple(sorted(out, key=lambda one: one.behind))


def _behind(
    found: Mapping[str, SearchFinished], training_data: TrainingData, tuned: Collection[str]
) -> tuple[Eliminated, ...]:
    """The cells that are surely behind the leader of these."""
    if not found:
        return ()
    names, development = list(found), torch.cat(training_data.splits.development)
    texts = training_data.task.groups[development]
    parts = torch.stack([one.parts for one in found.values()], dim=1)
    sure = torch.stack([_evidence(one, training_data) for one in found.values()], dim=1)
    return eliminated(names, parts, texts, always=[reference_of(names, tuned)], evidence=sure)


def _evidence(one: SearchFinished, training_data: TrainingData) -> Tensor:
    """(m,), the parts from which the variance of a development score is made, seed by seed."""
    count, task = training_data.task.score.evidence, training_data.task
    if count is None:
        return one.parts
    found = list[Tensor]()
    for each, rows in zip(one.found, training_data.splits.development, strict=True):
        assert each.held is not None
        given = decode(each.held, task.targets[rows], task.problem)
        found.append(count(given, task.targets[rows], len(task.classes), task.groups[rows]))
    return alike(found)


def _keep(run: RunFolder, number: int, one: SearchFinished) -> None:
    """Writes what a search came to; the JSON last, so that it vouches for the rest."""
    tensors = dict[str, Tensor]()
    for seed, each in enumerate(one.found):
        assert each.point.parts is not None
        tensors[f"parts.{seed}"] = each.point.parts
        if each.held is not None:
            tensors[f"held.{seed}"] = each.held
        tensors |= {f"state.{seed}.{name}": own for name, own in (each.state or {}).items()}
    run.write_tensors(f"race/{number:03}.safetensors", tensors)
    values = {
        "recipe": one.name,
        "found": [each.point.as_json() for each in one.found],
        "tried": [point.as_json() for point in one.tried],
        "seconds": one.seconds,
    }
    run.write(f"race/{number:03}.json", values)


def _kept(run: RunFolder, number: int) -> SearchFinished | None:
    """Reads that back; None where the cell has not been searched."""
    values: Mapping[str, Any] | None = run.read(f"race/{number:03}.json")
    if values is None:
        return None
    try:
        read, found = run.read_tensors(f"race/{number:03}.safetensors"), []
        # In a file they lie anywhere, and the last bits of a product depend on where.
        tensors = {name: one.clone() for name, one in read.items()}
        for seed, told in enumerate(values["found"]):
            point = TriedSettings(**told, parts=tensors[f"parts.{seed}"])
            held, begin = tensors.get(f"held.{seed}"), f"state.{seed}."
            if held is None:  # of a race that was begun before this was kept: searched anew
                return None
            names = [name for name in tensors if name.startswith(begin)]
            state = {name.removeprefix(begin): tensors[name] for name in names} or None
            found.append(SearchResult(chosen=point.settings, point=point, held=held, state=state))
        return SearchFinished(
            name=values["recipe"],
            found=tuple(found),
            tried=tuple(TriedSettings(**point) for point in values["tried"]),
            seconds=values["seconds"],
        )
    except (KeyError, TypeError, ValueError) as error:
        raise run.broken(f"race/{number:03}.json") from error
