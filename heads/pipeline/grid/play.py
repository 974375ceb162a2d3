"""All units of a grid on all cores: one thread a core, a unit at a time in each.

A unit's numbers depend on its seeds alone, not on what runs beside it.
"""

import logging
import queue
import threading
import time
from collections import OrderedDict
from collections.abc import Callable, Generator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

import torch
from torch import Tensor

from heads.errors import HeadsError
from heads.pipeline.grid.learner import Chosen, Learned, Tried
from heads.pipeline.grid.lesson import Lesson, Stopped, class_weights
from heads.pipeline.grid.splits import Splits
from heads.pipeline.grid.teach import Teaching, teaching, without
from heads.pipeline.grid.units import Unit
from heads.pipeline.measure.calibration import thresholds
from heads.pipeline.measure.outcomes import Outcome, Task
from heads.pipeline.objective import Objective
from heads.pipeline.token_states import TokenStates
from heads.pipeline.vectors import Read
from heads.settings import Contest

Tell = Callable[[object], None]
log = logging.getLogger("heads")


@dataclass(frozen=True, slots=True, kw_only=True)
class Trying:
    """A point of the validation curve of one cell."""

    name: str
    point: Tried


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


@dataclass(frozen=True, slots=True, kw_only=True)
class Failed:
    """A cell could not be learned: why, in a sentence; the others go on."""

    name: str
    says: str


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Board:
    """What is played on: features, classes and splits, the same for every unit.

    Attributes:
        read: What the base model made of all rows.
        task: The class and the text of each row.
        splits: Who learns from what.
        contest: The settings.
        states: The states of all tokens, where a reading is learned.
    """

    read: Read
    task: Task
    splits: Splits
    contest: Contest
    states: TokenStates | None = None

    def lesson(self, reading: str, stop: threading.Event) -> Lesson:
        """The rows under one reading."""
        targets, classes = self.task.targets, len(self.task.classes)
        weights = torch.ones(len(targets))
        if self.contest.class_weights and self.task.kind == "one":
            weights = class_weights(targets, self.splits.train[0], classes)
        vectors, index = self.read.vectors(reading)
        return Lesson(
            vectors=vectors,
            index=index,
            targets=targets,
            objective=Objective(kind=self.task.kind, outputs=classes),
            weights=weights,
            counts=weights,
            stop=stop,
            states=None if reading else self.states,
        )


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Job:
    """A piece of work on the rows under one reading.

    Attributes:
        name: Of the cell.
        reading: Which one; none, where the states of all tokens are learned from.
        work: Is given the lesson and a way to tell of its progress, and returns the result.
    """

    name: str
    reading: str
    work: Callable[[Lesson, Tell], object]


def unit_job(unit: Unit, board: Board) -> Job:
    """The whole work on a unit: search the settings, then learn with every seed."""

    def work(lesson: Lesson, tell: Tell) -> Played:
        begun, splits = time.perf_counter(), board.splits
        taught = teaching(unit, lesson, splits, board.contest)
        search, tried = taught.search(splits), []
        while True:
            try:
                tried.append(next(search))
            except StopIteration as end:
                chosen: Chosen = end.value
                break
            tell(Trying(name=unit.name, point=tried[-1]))
        is_held = board.task.kind != "number"
        learned, outcome = learned_from(taught, chosen, board, splits.train, is_held=is_held)
        return Played(
            unit=unit,
            chosen=chosen,
            tried=tuple(tried),
            learned=learned,
            outcome=outcome,
            rows=len(splits.train[0]),
            seconds=time.perf_counter() - begun,
        )

    return Job(name=unit.name, reading=unit.reading, work=work)


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
    )
    return learned, outcome


def seeds_of(board: Board) -> list[int]:
    """The seed of every repetition."""
    return [board.contest.seed + number for number in range(board.contest.seeds)]


def play(jobs: Sequence[Job], board: Board, workers: int) -> Generator[object, None, None]:
    """Does all jobs and yields what they tell and return, in the order in which it happens.

    Closing the iterator ends them at their next step. A job that fails gives `Failed`, and the
    others go on.
    """
    stop = threading.Event()
    told: queue.SimpleQueue[tuple[bool, object]] = queue.SimpleQueue()
    lessons = _Lessons(board, stop, workers)

    def one(job: Job) -> None:
        torch.set_num_threads(1)  # of this thread alone: cores are shared out by jobs
        try:
            told.put(
                (True, job.work(lessons.of(job.reading), lambda event: told.put((False, event))))
            )
        except Stopped:
            told.put((True, None))
        except Exception as error:
            told.put((True, Failed(name=job.name, says=_sentence(job.name, error))))
        except BaseException as error:
            told.put((True, error))

    threads = torch.get_num_threads()
    with ThreadPoolExecutor(workers, thread_name_prefix="grid") as pool:
        try:
            for job in jobs:
                pool.submit(one, job)
            left = len(jobs)
            while left:
                ended, event = told.get()
                if isinstance(event, BaseException):
                    raise event
                left -= ended
                yield event
        finally:
            stop.set()
            pool.shutdown(wait=True, cancel_futures=True)
            torch.set_num_threads(threads)


def _sentence(name: str, error: Exception) -> str:
    """Why a cell could not be learned; what is no fault of the recipe's is logged whole."""
    if isinstance(error, HeadsError):
        return f"{name} could not be trained: {error}"
    log.error("a cell failed", exc_info=error)
    first = str(error).strip().split("\n", 1)[0][:120]
    return f"{name} could not be trained ({type(error).__name__}: {first})."


class _Lessons:
    """The lessons in use, each loaded once; only as many in memory as there are threads."""

    def __init__(self, board: Board, stop: threading.Event, most: int) -> None:
        self._board, self._stop, self._most = board, stop, most
        self._held: OrderedDict[str, Lesson] = OrderedDict()
        self._lock = threading.Lock()

    def of(self, reading: str) -> Lesson:
        with self._lock:
            if reading not in self._held:
                self._held[reading] = self._board.lesson(reading, self._stop)
            self._held.move_to_end(reading)
            while len(self._held) > self._most:
                self._held.popitem(last=False)
            return self._held[reading]
