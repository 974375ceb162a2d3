"""The baselines of a run, as cells of its leaderboard: the commonest answer, and counted words."""

import time
from dataclasses import dataclass

from torch import Tensor

from heads.pipeline.grid.lesson import Lesson
from heads.pipeline.grid.play import Board, Job, Tell
from heads.pipeline.grid.teach import without
from heads.pipeline.measure.baselines import majority, tfidf, tfidf_held, tfidf_strength
from heads.pipeline.measure.measures import measure
from heads.pipeline.measure.outcomes import BASELINES, MAJORITY, TFIDF, Outcome
from heads.pipeline.runs.asked import Asked
from heads.pipeline.runs.cell import Cell, keep, kept
from heads.pipeline.runs.folder import RunFolder
from heads.recipe import Value


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Baseline:
    """What needs no base model, and what it said.

    Attributes:
        outcome: Of the rows tested.
        chosen: The settings that were best on the development rows.
        seconds: How long it took, on one core.
    """

    outcome: Outcome
    chosen: dict[str, Value]
    seconds: float


def is_kept(run: RunFolder, asked: Asked, name: str) -> bool:
    """Whether a baseline is done."""
    return kept(run, number_of(asked, name)) is not None


def number_of(asked: Asked, name: str) -> int:
    """The number of a cell; the baselines come after the recipes."""
    return [*asked.recipes, *BASELINES].index(name)


def keep_baseline(run: RunFolder, asked: Asked, found: Baseline, board: Board) -> Cell:
    """Measures a baseline and keeps it.

    Raises:
        DataError: The disk does not take it.
    """
    cell = Cell(
        name=found.outcome.name,
        measures=measure(found.outcome, board.task),
        parameters=0,
        seconds=found.seconds,
        chosen=found.chosen,
    )
    keep(run, number_of(asked, cell.name), cell, found.outcome, board.task)
    return cell


def commonest(asked: Asked, board: Board) -> Baseline:
    """Always the same answer, for every seed that of the rows it learns from."""
    begun, splits = time.perf_counter(), board.splits
    found = [
        majority(asked.corpus, train.tolist(), test.tolist())
        for train, test in zip(splits.train, splits.test, strict=True)
    ]
    logits = tuple(one.logits for one in found)
    bar = found[0].thresholds
    outcome = Outcome(name=MAJORITY, rows=splits.test, logits=logits, thresholds=bar)
    return Baseline(outcome=outcome, chosen={}, seconds=time.perf_counter() - begun)


def words_job(asked: Asked, board: Board, reading: str) -> Job:
    """TF-IDF with a linear model on the same rows, beside the heads and begun before them.

    Args:
        reading: Any of the run: words need none.
    """

    def work(lesson: Lesson, tell: Tell) -> Baseline:
        begun = time.perf_counter()
        outcome, C = _counted_words(asked, board, lesson)
        return Baseline(outcome=outcome, chosen={"C": C}, seconds=time.perf_counter() - begun)

    return Job(name=TFIDF, reading=reading, work=work, cost=float("inf"))


def _counted_words(asked: Asked, board: Board, lesson: Lesson) -> tuple[Outcome, float]:
    splits, balanced, logits = board.splits, asked.contest.class_weights, list[Tensor]()
    rows = splits.search.tolist(), splits.development.tolist()
    C, bar = tfidf_strength(asked.corpus, *rows, balanced=balanced), None
    lesson.check()
    if board.task.kind == "many":
        rows = without(splits.train[0], splits.development).tolist(), rows[1]
        bar = tfidf_held(asked.corpus, *rows, C=C, balanced=balanced).thresholds
    for train, test in zip(splits.train, splits.test, strict=True):
        lesson.check()
        if logits and splits.is_fixed:  # nothing is drawn at random
            logits.append(logits[0])
            continue
        rows = train.tolist(), test.tolist()
        logits.append(tfidf(asked.corpus, *rows, C=C, balanced=balanced))
    return Outcome(name=TFIDF, rows=splits.test, logits=tuple(logits), thresholds=bar), C
