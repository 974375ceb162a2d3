"""What is done with a unit: its settings are searched, then it learns with every seed.

Either in one piece, or the search by itself, where a race decides who goes on.
Legend: m development rows.
"""

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from torch import Tensor

from heads.pipeline.grid.learner import Chosen, Learned, Tried
from heads.pipeline.grid.lesson import Lesson
from heads.pipeline.grid.play import Board, Job, Tell
from heads.pipeline.grid.teach import Teaching, teaching, without
from heads.pipeline.grid.units import Unit
from heads.pipeline.measure.calibration import thresholds
from heads.pipeline.measure.outcomes import Outcome


@dataclass(frozen=True, slots=True, kw_only=True)
class Trying:
    """A point of the validation curve of one cell."""

    name: str
    point: Tried


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Searched:
    """The settings of a cell have been chosen.

    Attributes:
        name: Which one.
        chosen: The settings that were best on the development rows.
        tried: All that was tried, in order.
        score: What the chosen ones came to on the development rows.
        parts: (m,), each development row's part of that.
        seconds: How long it took, on one core.
    """

    name: str
    chosen: Chosen
    tried: tuple[Tried, ...]
    score: float
    parts: Tensor
    seconds: float


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Played:
    """A cell is done.

    Attributes:
        unit: Which one.
        chosen: The settings that were best on the development rows.
        tried: All that was tried, in order.
        learned: For each seed the head, with its logits on that seed's test rows.
        outcome: What it said of those rows; of one class a row, logits for the softmax.
        rows: How many rows each of them learned from.
        seconds: How long it took, on one core.
    """

    unit: Unit
    chosen: Chosen
    tried: tuple[Tried, ...]
    learned: tuple[Learned, ...]
    outcome: Outcome
    rows: int
    seconds: float


def unit_job(unit: Unit, board: Board) -> Job:
    """The whole work on a unit: search the settings, then learn with every seed."""

    def work(lesson: Lesson, tell: Tell) -> Played:
        begun = time.perf_counter()
        taught = teaching(unit, lesson, board.splits, board.contest)
        return _learned(taught, _searched(taught, board, tell, begun), board)

    return _job(unit, board, work)


def search_job(unit: Unit, board: Board) -> Job:
    """The first half of the work on a unit: `Searched`."""

    def work(lesson: Lesson, tell: Tell) -> Searched:
        begun = time.perf_counter()
        taught = teaching(unit, lesson, board.splits, board.contest)
        return _searched(taught, board, tell, begun)

    return _job(unit, board, work)


def learn_job(unit: Unit, board: Board, searched: Searched) -> Job:
    """The second half: learn with every seed and the settings that were chosen."""

    def work(lesson: Lesson, tell: Tell) -> Played:
        return _learned(teaching(unit, lesson, board.splits, board.contest), searched, board)

    return _job(unit, board, work)


def _job(unit: Unit, board: Board, work: Callable[[Lesson, Tell], object]) -> Job:
    cost = unit.cost(len(board.splits.train[0]), board.contest.seeds)
    return Job(name=unit.name, reading=unit.reading, work=work, cost=cost)


def _searched(taught: Teaching, board: Board, tell: Tell, begun: float) -> Searched:
    """Tries settings on the development rows, and tells of every one of them."""
    name, search, tried = taught.unit.name, taught.search(board.splits), list[Tried]()
    while True:
        try:
            tried.append(next(search))
        except StopIteration as end:
            chosen: Chosen = end.value
            break
        tell(Trying(name=name, point=replace(tried[-1], parts=None)))
    found = next(point for point in tried if point.settings == chosen)
    assert found.parts is not None
    return Searched(
        name=name,
        chosen=chosen,
        tried=tuple(replace(point, parts=None) for point in tried),
        score=found.score,
        parts=found.parts,
        seconds=time.perf_counter() - begun,
    )


def _learned(taught: Teaching, searched: Searched, board: Board) -> Played:
    """Learns with every seed and the settings that were chosen."""
    begun, train = time.perf_counter(), board.splits.train
    is_held = board.task.kind != "number"
    learned, outcome = learned_from(taught, searched.chosen, board, train, is_held=is_held)
    return Played(
        unit=taught.unit,
        chosen=searched.chosen,
        tried=searched.tried,
        learned=learned,
        outcome=outcome,
        rows=len(train[0]),
        seconds=searched.seconds + time.perf_counter() - begun,
    )


def learned_from(
    taught: Teaching, chosen: Chosen, board: Board, train: Sequence[Tensor], *, is_held: bool
) -> tuple[tuple[Learned, ...], Outcome]:
    """The heads of all seeds, and what they said of the tested rows.

    Args:
        train: For each seed the rows that it learns from.
        is_held: Whether one more learns without the development rows, to answer those: how
            sure it is on rows that it has not seen, and from which logit it gives a label.
    """
    splits, seeds, held = board.splits, seeds_of(board), None
    rows, asked = list(train), list(splits.test)
    if is_held:
        rows, asked = [*rows, without(train[0], splits.development)], [*asked, splits.development]
        seeds = [*seeds, seeds[0]]
    found = taught.learn(chosen, rows, asked, seeds)
    learned = tuple(found[: len(train)])
    if is_held:
        held = (taught.competing(found[-1].logits), splits.development)
    many = board.task.kind == "many"
    outcome = Outcome(
        name=taught.unit.name,
        rows=splits.test,
        logits=tuple(taught.competing(one.logits) for one in learned),
        thresholds=thresholds(held[0], board.task.targets[held[1]]) if held and many else None,
        held=held,
        is_random=taught.unit.learner.is_random,
    )
    return learned, outcome


def seeds_of(board: Board) -> list[int]:
    """The seed of every repetition."""
    return [board.contest.seed + number for number in range(board.contest.seeds)]
