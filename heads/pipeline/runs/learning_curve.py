"""The leaders of a run once more, on a quarter and on half of the rows."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import partial
from statistics import fmean
from typing import Any

import torch
from torch import Tensor

from heads.pipeline.grid.jobs import learned_from, seeds_of
from heads.pipeline.grid.lesson import Lesson
from heads.pipeline.grid.play import Board, Job, Tell, play
from heads.pipeline.grid.teach import teaching
from heads.pipeline.grid.units import Unit
from heads.pipeline.measure.curve import SHARES, subsets
from heads.pipeline.measure.measures import score_interval
from heads.pipeline.measure.outcomes import BASELINES, Answers, Outcome, strata
from heads.pipeline.measure.outcomes import parts as of_rows
from heads.pipeline.measure.paired import compare
from heads.pipeline.runs.asked import Asked
from heads.pipeline.runs.cell import Cell, kept, said
from heads.pipeline.runs.folder import RunFolder
from heads.pipeline.runs.wording import reference_of
from heads.pipeline.training import Progress

LEADERS = 3  # and the reference, where it is not one of them


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class _Again:
    """A cell learned anew on a share of its rows."""

    share: float
    outcome: Outcome


def learning_curve(
    run: RunFolder, asked: Asked, cells: Sequence[Unit], board: Board, workers: int
) -> Iterator[Progress]:
    """Trains the leaders on nested parts of their rows and keeps the comparison at each size."""
    found = {name: cell for n, name in enumerate(asked.recipes) if (cell := kept(run, n))}
    if not found:
        return
    names = leaders(found)
    parts = _parts(board)
    jobs = [
        Job(
            name=unit.name,
            reading=unit.reading,
            work=partial(_learn, unit, found[unit.name].chosen, share, parts[share], board),
            cost=unit.cost(len(parts[share][0]), board.contest.seeds),
        )
        for unit in cells
        if unit.name in names
        for share in SHARES[:-1]
    ]
    answers: dict[float, list[Outcome | Answers]] = {share: [] for share in SHARES}
    for done, event in enumerate(play(jobs, board, workers), start=1):
        if isinstance(event, _Again):
            answers[event.share].append(event.outcome)
            share = 0.95 + 0.04 * done / len(jobs)
            yield Progress(says="Training the leaders on fewer rows", share=share)
    answers[SHARES[-1]] = [said(run, asked.recipes.index(name), name).answers for name in names]
    stages = [_stage(sorted(answers[share], key=_name), parts, share, board) for share in SHARES]
    run.write("curve.json", stages)


def leaders(found: Mapping[str, Cell]) -> list[str]:
    """The cells of highest score, and the reference."""
    ranked = sorted(found, key=lambda name: -found[name].measures.score)
    names = [name for name in ranked if name not in BASELINES][:LEADERS]
    return list(dict.fromkeys([*names, reference_of(list(found))]))


def _parts(board: Board) -> dict[float, list[Tensor]]:
    """For each share the rows of every seed, each share within the next."""
    alike, parts = strata(board.task).tolist(), {share: [] for share in SHARES}
    for rows, seed in zip(board.splits.train, seeds_of(board), strict=True):
        same = board.splits.is_fixed and parts[SHARES[0]]
        nested = None if same else subsets(alike, rows.tolist(), seed=seed)
        for place, share in enumerate(SHARES):
            parts[share].append(torch.tensor(nested[place]) if nested else parts[share][0])
    return parts


def _learn(
    unit: Unit, chosen: Any, share: float, rows: list[Tensor], board: Board, lesson: Lesson, _: Tell
) -> _Again:
    taught = teaching(unit, lesson, board.splits, board.contest)
    is_held = board.task.kind == "many"  # whose labels need thresholds
    outcome = learned_from(taught, chosen, board, rows, is_held=is_held)[1]
    return _Again(share=share, outcome=outcome)


def _name(answers: Outcome | Answers) -> str:
    return answers.name


def _stage(
    answers: Sequence[Outcome | Answers],
    parts: Mapping[float, list[Tensor]],
    share: float,
    board: Board,
) -> dict[str, Any]:
    reference = reference_of([one.name for one in answers])
    compared = compare(answers, board.task, reference=reference, seed=board.contest.seed)
    scores = {}
    for one in answers:
        low, high = score_interval(one, board.task)
        mean = fmean(float(seed.mean()) for seed in of_rows(one, board.task))
        scores[one.name] = {"score": mean, "low": low, "high": high}
    return {
        "rows": len(parts[share][0]),
        "scores": scores,
        "best": compared.best,
        "to_best": [asdict(difference) for difference in compared.to_best],
    }
