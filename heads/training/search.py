"""What is done with a unit: every seed searches its settings, and then learns with them.

Either in one piece, or the search by itself, where a race decides who goes on.
Legend: s seeds, m development rows of a seed.
"""

import time
from collections.abc import Callable, Generator, Sequence
from dataclasses import dataclass, replace
from statistics import fmean
from typing import Any

import torch
from torch import Tensor

from heads.data.splits import Splits
from heads.evaluation.calibration import thresholds
from heads.evaluation.predictions import Outcome
from heads.evaluation.statistics import competing
from heads.settings import Contest
from heads.training.fitters.base import Chosen, Found, Learned, Tried
from heads.training.objective import OVR, Span, balance_of
from heads.training.scheduler import Board, Job, Tell
from heads.training.task import Lesson
from heads.training.trial import Unit

# --- Teaching one unit: its own loss, numbers brought to a common span, and rows kept apart.


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Teaching:
    """A unit with the lesson that suits it.

    Attributes:
        unit: What is taught.
        lesson: The rows under its reading, with its own loss.
        span: Where the numbers lay before they were narrowed; None for classes.
    """

    unit: Unit
    lesson: Lesson
    span: Span | None

    def search(self, splits: Splits, seeds: Sequence[int]) -> Generator[Tried, None, list[Found]]:
        """Every seed tries settings on its own development rows; the last answer is the best."""
        return self.unit.learner.search(self.lesson, splits, seeds)

    def learn(
        self,
        found: Sequence[Found],
        rows: Sequence[Tensor],
        asked: Sequence[Tensor],
        seeds: Sequence[int],
    ) -> list[Learned]:
        """Learns with what searches came to on some rows, a seed each, and answers others."""
        learned = self.unit.learner.learn(self.lesson, found, rows, asked, seeds)
        if self.span is None:
            return learned
        return [
            Learned(
                logits=self.span.widened(one.logits),
                state=self.span.put_back(one.state, self.unit.last),
            )
            for one in learned
        ]

    def competing(self, logits: Tensor) -> Tensor:
        """Logits (n, c) whose softmax are the probabilities, where one class applies."""
        return competing(logits, "votes" if self.unit.order.loss == OVR else "softmax")


def teaching(unit: Unit, lesson: Lesson, splits: Splits, contest: Contest) -> Teaching:
    """Prepares a lesson for a unit."""
    objective = replace(
        lesson.objective,
        loss=unit.order.loss,
        focal=contest.focal,
        smoothing=contest.smoothing,
        margin=unit.order.margin,
    )
    if contest.class_weights and objective.by_class:
        balance = balance_of(lesson.targets[splits.learned], objective.outputs)
        objective = replace(objective, balance=balance)
        # Each of its questions is balanced by itself, so the rows are not.
        lesson = replace(lesson, weights=torch.ones_like(lesson.weights))
    lesson = replace(lesson, objective=objective)
    if objective.kind != "number":
        return Teaching(unit=unit, lesson=lesson, span=None)
    span = Span.of(lesson.targets[splits.learned], centred=unit.biased)
    lesson = replace(lesson, targets=span.narrowed(lesson.targets), span=span)
    return Teaching(unit=unit, lesson=lesson, span=span)


@dataclass(frozen=True, slots=True, kw_only=True)
class Trying:
    """A point of the validation curve of one cell."""

    name: str
    point: Tried


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Searched:
    """Every seed of a cell has chosen its settings.

    Attributes:
        name: Which cell.
        found: For each seed what it has chosen, with its development rows' part of the score.
        tried: All that was tried, in order.
        seconds: How long it took, on one core.
    """

    name: str
    found: tuple[Found, ...]
    tried: tuple[Tried, ...]
    seconds: float

    @property
    def parts(self) -> Tensor:
        """(s · m,), each development row's part of the score, which is their mean."""
        return alike([one.point.parts for one in self.found if one.point.parts is not None])


def alike(parts: Sequence[Tensor]) -> Tensor:
    """(s · m,), parts (m,) of every seed, all of which count alike, however many rows they have."""
    rows = sum(map(len, parts))
    return torch.cat([part * (rows / len(parts) / len(part)) for part in parts])


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Played:
    """A cell is done.

    Attributes:
        unit: Which one.
        chosen: For each seed the settings that were best on its development rows.
        tried: All that was tried, in order.
        development_score: What the chosen settings came to there, mean over seeds.
        learned: For each seed the head, with its logits on that seed's test rows.
        outcome: What it said of those rows; of one class a row, logits for the softmax.
        rows: How many rows the first of them learned from.
        seconds: How long it took, on one core.
    """

    unit: Unit
    chosen: tuple[Chosen, ...]
    tried: tuple[Tried, ...]
    development_score: float
    learned: tuple[Learned, ...]
    outcome: Outcome
    rows: int
    seconds: float


def unit_job(unit: Unit, board: Board) -> Job:
    """The whole work on a unit: every seed searches its settings, then learns with them."""

    def work(lesson: Lesson, tell: Tell) -> Played:
        taught = teaching(unit, lesson, board.splits, board.contest)
        return _learned(taught, _searched(taught, board, tell), board)

    return _job(unit, board, work)


def search_job(unit: Unit, board: Board) -> Job:
    """The first half of the work on a unit: `Searched`."""

    def work(lesson: Lesson, tell: Tell) -> Searched:
        return _searched(teaching(unit, lesson, board.splits, board.contest), board, tell)

    return _job(unit, board, work)


def learn_job(unit: Unit, board: Board, searched: Searched) -> Job:
    """The second half: learn with every seed and the settings that it has chosen."""

    def work(lesson: Lesson, tell: Tell) -> Played:
        return _learned(teaching(unit, lesson, board.splits, board.contest), searched, board)

    return _job(unit, board, work)


def _job(unit: Unit, board: Board, work: Callable[[Lesson, Tell], object]) -> Job:
    cost = unit.cost(len(board.splits.train[0]), len(board.splits))
    return Job(name=unit.name, reading=unit.reading, work=work, cost=cost)


def _searched(taught: Teaching, board: Board, tell: Tell) -> Searched:
    """Every seed tries settings on its development rows, and tells of every one of them."""
    begun, name, tried = time.perf_counter(), taught.unit.name, list[Tried]()
    search = taught.search(board.splits, seeds_of(board))
    while True:
        try:
            tried.append(replace(next(search), parts=None))
        except StopIteration as end:
            return Searched(
                name=name,
                found=tuple(end.value),
                tried=tuple(tried),
                seconds=time.perf_counter() - begun,
            )
        tell(Trying(name=name, point=tried[-1]))


def _learned(taught: Teaching, searched: Searched, board: Board) -> Played:
    """Learns with every seed and the settings that it has chosen."""
    begun = time.perf_counter()
    learned = taught.learn(searched.found, board.splits.train, board.splits.test, seeds_of(board))
    return Played(
        unit=taught.unit,
        chosen=tuple(one.chosen for one in searched.found),
        tried=searched.tried,
        development_score=fmean(one.point.score for one in searched.found),
        learned=tuple(learned),
        outcome=_outcome(taught, searched.found, learned, board),
        rows=len(board.splits.train[0]),
        seconds=searched.seconds + time.perf_counter() - begun,
    )


def _outcome(
    taught: Teaching, found: Sequence[Found], learned: Sequence[Learned], board: Board
) -> Outcome:
    """What the heads of all seeds said of the tested rows.

    What a head says of rows that it has not seen is also asked of the development rows, by one
    that has learned from the others: how sure it is, and from which logit it gives a label.
    """
    return Outcome(
        name=taught.unit.name,
        rows=board.splits.test,
        logits=tuple(taught.competing(one.logits) for one in learned),
        is_random=taught.unit.learner.is_random,
        repetition=board.splits.repetition,
        **_held(taught, found, board),
    )


def _held(taught: Teaching, found: Sequence[Found], board: Board) -> dict[str, Any]:
    """What an `Outcome` holds of the development rows of all seeds."""
    if board.task.kind == "number":
        return {}
    development = board.splits.development
    answered = list[Tensor]()
    for one in found:
        assert one.held is not None  # every search answers its development rows
        answered.append(taught.competing(one.held))
    held = {"held": (torch.cat(answered), torch.cat(development))}
    if board.task.kind == "one":
        return held
    pairs = zip(answered, development, strict=True)
    cuts = [thresholds(own, board.task.targets[rows]) for own, rows in pairs]
    return held | {"thresholds": torch.stack(cuts)}


def seeds_of(board: Board) -> list[int]:
    """The seed of every repetition, or of every fold of all of them."""
    return [board.contest.seed + number for number in range(len(board.splits))]
