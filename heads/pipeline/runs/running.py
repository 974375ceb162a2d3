"""A run from its question to its leaderboard; begun, or resumed where it was left.

Whatever is finished lies on disk at once, and a resumed run gives the numbers that it would
have given without a break.
"""

from collections.abc import Generator
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch

from heads.backbone.backbone import Backbone
from heads.backbone.loading import load
from heads.events import Progress, rising, within
from heads.features.token_states import check_states
from heads.pipeline.runs import asked as kept_question
from heads.pipeline.runs.asked import Asked, Question, ask
from heads.pipeline.runs.choosing import chosen_recipes
from heads.pipeline.runs.clock import Clock
from heads.pipeline.runs.expected import Expected, expected
from heads.pipeline.runs.filling import filled
from heads.pipeline.runs.folder import RunFolder, new_folder
from heads.pipeline.runs.heads_of import check_model, latencies
from heads.pipeline.runs.leaderboard import Leaderboard, leaderboard
from heads.pipeline.runs.learning_curve import learning_curve
from heads.pipeline.runs.preparing import (
    Done,
    board_of,
    counted,
    estimated,
    featured,
    scored_rows,
    stated,
)
from heads.settings import Contest, Limits
from heads.training.search import Trying
from heads.training.trial import Unit, units

Event = Progress | Trying | Done | Leaderboard


def begin(question: Question, *, limits: Limits, out: Path | None = None) -> RunFolder:
    """Checks a question whole and writes it into a new run; nothing is trained yet.

    Args:
        out: The run's folder, or None for the place where runs are kept.

    Raises:
        HeadsError: Anything that does not fit, in one sentence.
    """
    backbone = load(question.model, limits=limits)
    chosen, left_out = chosen_recipes(question, backbone, limits)
    corpus = question.data.corpus
    cells = units(chosen, backbone, len(corpus.classes), limits, corpus.kind)
    allowed = replace(question, contest=_bounded(question.contest, limits))
    asked = ask(allowed, backbone, [cell.name for cell in cells], left_out)
    _ = asked.splits  # which says it where there are too few rows
    learned = [cell.order for cell in cells if not cell.reading]
    check_states(learned, asked.corpus, backbone, limits, scored_rows(asked))
    run = new_folder(asked.corpus.name, out=out, is_public=limits.public)
    with run.beginning():
        kept_question.save(run, asked)
    return run


def cells_of(asked: Asked, backbone: Backbone, limits: Limits) -> list[Unit]:
    """The cells of a run."""
    corpus = asked.corpus
    return units(asked.recipes, backbone, len(corpus.classes), limits, corpus.kind)


def _bounded(contest: Contest, limits: Limits) -> Contest:
    """The settings with no more time than this place allows."""
    most = limits.run_seconds
    if not most or 0 < contest.budget_seconds <= most:
        return contest
    return replace(contest, budget_seconds=most)


def foreseen(run: RunFolder, limits: Limits) -> Expected:
    """How long a run will take from its beginning, roughly.

    Raises:
        HeadsError: The run is broken.
    """
    asked = kept_question.load(run)
    backbone = load(asked.model, limits=limits)
    cells = cells_of(asked, backbone, limits)
    return expected(asked, cells, backbone)


def working(run: RunFolder, limits: Limits) -> Generator[Event, None, None]:
    """Works on a run until it is finished; closing the iterator stops it, results kept.

    Yields:
        `Progress`, whose share never falls, `Trying` for every point of a validation curve,
        `Done` for every cell, and the `Leaderboard` at the end, also where the time allowed was
        used up.

    Raises:
        HeadsError: The run is broken, busy, or its base model has changed.
    """
    with run.held():
        if _is_whole(run):
            yield leaderboard(run)
            return
        clock = Clock(run)
        state = "stopped"
        try:
            asked = kept_question.load(run)
            yield Progress(says=f"Loading {asked.model}", share=0.0)
            backbone = load(asked.model, limits=limits)
            check_model(run, asked, backbone)
            for event in rising(_worked(run, asked, backbone, limits)):
                yield event
                if clock.is_over(asked.contest):
                    break
            else:
                state = "finished"
        finally:
            clock.stop(state)
        found = leaderboard(run)
        run.write("leaderboard.json", _without_tables(found.as_json()))
        yield found


def _is_whole(run: RunFolder) -> bool:
    """Whether a run has ended with every cell done: there is nothing to go on with."""
    asked = kept_question.load(run)
    is_over = (run.read("end.json") or {}).get("state") == "finished"
    return is_over and counted(run, asked) == len(asked.names)


def stopped(run: RunFolder) -> None:
    """Notes that a run was stopped from outside, if it had not ended by itself.

    Raises:
        DataError: Another process still works on it.
    """
    with run.held():
        if run.read("end.json") is None:
            Clock(run).stop("stopped")


def _without_tables(values: dict[str, Any]) -> dict[str, Any]:
    """A leaderboard less its confusion tables, which lie beside the cells and may be large."""
    for cell in values["cells"]:
        del cell["confusion"]
    return values


def _worked(
    run: RunFolder, asked: Asked, backbone: Backbone, limits: Limits
) -> Generator[Progress | Trying | Done, None, None]:
    cells = cells_of(asked, backbone, limits)
    # All texts are read twice where the states of their tokens are kept.
    once = 1.0 if all(cell.reading for cell in cells) else 0.5
    read = yield from within(featured(run, asked, cells, backbone), 0.0, once)
    states = yield from within(
        stated(run, asked, cells, read, backbone, limits), 0.4 * once, 0.4 * (1 - once)
    )
    board = board_of(run, asked, read, states)
    yield from estimated(run, asked, cells, board)
    yield from filled(run, asked, cells, board, backbone)
    if asked.contest.curve and run.read("curve.json") is None:
        yield Progress(says="Training the leaders on fewer rows", share=0.95)
        workers = max(1, torch.get_num_threads())
        yield from learning_curve(run, asked, cells, board, workers)
    yield Progress(says="Timing every head on one text", share=0.99)
    run.write("latency.json", latencies(run, asked, backbone, limits))
