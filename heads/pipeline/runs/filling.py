"""The cells of a run, trained on all cores; each is measured and kept as it comes."""

import contextlib
from collections.abc import Generator, Mapping, Sequence

import torch

from heads.backbone.backbone import Backbone
from heads.errors import RecipeError
from heads.evaluation.details import measure
from heads.evaluation.predictions import MAJORITY, TFIDF
from heads.events import Progress
from heads.pipeline.runs.asked import Asked
from heads.pipeline.runs.baselines import (
    Baseline,
    commonest,
    is_kept,
    keep_baseline,
    words_job,
)
from heads.pipeline.runs.cell import Cell, keep, keep_failure, kept
from heads.pipeline.runs.folder import RunFolder
from heads.pipeline.runs.heads_of import keep_head
from heads.pipeline.runs.heats import heats, stopped_of
from heads.pipeline.runs.preparing import Done, counted
from heads.training.scheduler import Board, Failed, Job, play
from heads.training.search import Played, Searched, Trying, learn_job, unit_job
from heads.training.trial import Unit


def filled(
    run: RunFolder, asked: Asked, cells: Sequence[Unit], board: Board, backbone: Backbone
) -> Generator[Progress | Trying | Done, None, None]:
    """Trains what is still to be trained, the baselines too; of a race, whoever is left in it.

    Raises:
        DataError: The run is broken, or the disk does not take it.
    """
    workers = max(1, torch.get_num_threads())
    if not is_kept(run, asked, MAJORITY):  # the heads that are kept name its score
        yield _done(run, asked, keep_baseline(run, asked, commonest(asked, board), board))
    searched: Mapping[str, Searched | Failed] = {}
    if asked.contest.race:
        searched = yield from heats(run, asked, cells, board, workers)
    jobs = _left(run, asked, cells, board, searched)
    if not is_kept(run, asked, TFIDF):
        jobs.append(words_job(asked, board, cells[0].reading))
    with contextlib.closing(play(jobs, board, workers)) as events:
        for event in events:
            if told := _kept(run, asked, event, board, backbone):
                yield told


def _kept(
    run: RunFolder, asked: Asked, event: object, board: Board, backbone: Backbone
) -> Trying | Done | Progress | None:
    """Keeps what a core has made, and says so; None, where there is nothing to say."""
    if isinstance(event, Played):
        return _kept_cell(run, asked, event, board, backbone)
    if isinstance(event, Baseline):
        return _done(run, asked, keep_baseline(run, asked, event, board))
    if isinstance(event, Failed):
        return keep_failure(run, asked.names.index(event.name), event.says)
    return event if isinstance(event, Trying) else None


def _left(
    run: RunFolder,
    asked: Asked,
    cells: Sequence[Unit],
    board: Board,
    searched: Mapping[str, Searched | Failed],
) -> list[Job]:
    """What is still to be done; of a cell that has been searched, the second half."""
    out = {one.recipe for one in stopped_of(run)}
    jobs = list[Job]()
    for cell in cells:
        before = searched.get(cell.name)
        is_done = cell.name in out or kept(run, asked.recipes.index(cell.name)) is not None
        if isinstance(before, Searched) and not is_done:
            jobs.append(learn_job(cell, board, before))
        elif before is None and not is_done:
            jobs.append(unit_job(cell, board))
    return jobs


def _kept_cell(
    run: RunFolder, asked: Asked, played: Played, board: Board, backbone: Backbone
) -> Done | Progress:
    """Measures a cell and keeps it: head and answers first, the measures last.

    One that answers with no numbers does not stop the others.
    """
    name, number = played.unit.name, asked.recipes.index(played.unit.name)
    try:
        measures = measure(played.outcome, board.task)
    except RecipeError as error:
        return keep_failure(run, number, str(error))
    cell = Cell(
        name=name,
        measures=measures,
        parameters=played.unit.parameters,
        seconds=played.seconds,
        chosen=played.chosen[0],
        chosen_by_seed=played.chosen,
        tried=played.tried,
        development_score=played.development_score,
    )
    keep_head(run, number, played, asked, cell.measures, backbone)
    keep(run, number, cell, played.outcome, board.task)
    return _done(run, asked, cell)


def _done(run: RunFolder, asked: Asked, cell: Cell) -> Done:
    return Done(cell=cell, done=counted(run, asked), planned=len(asked.names))
