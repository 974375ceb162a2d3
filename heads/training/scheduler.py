"""Jobs on all cores: one thread a core, a job at a time in each, linear heads first.

A piece's numbers depend on its seeds alone, not on what runs beside it or before it.
"""

import contextlib
import logging
import queue
import threading
from collections.abc import Callable, Generator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, fields, replace
from functools import lru_cache

import torch

from heads import interruption
from heads.data.splits import Splits
from heads.errors import HeadsError
from heads.evaluation.predictions import EvaluationTask
from heads.features.store import FeatureStore
from heads.settings import ExperimentConfig, current_limits, set_limits
from heads.training.events import TrialFailed
from heads.training.objective import Objective
from heads.training.task import TrainingInputs, TrainingTask, class_weights

Tell = Callable[[object], None]
BEAT = 0.25  # seconds between two looks at whether the work is still wanted
log = logging.getLogger("heads")


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class TrainingData(TrainingInputs):
    """What trials learn from: features, classes and splits, the same for all of them."""

    read: FeatureStore
    task: EvaluationTask
    splits: Splits
    config: ExperimentConfig

    @property
    def unread(self) -> "TrainingData":
        """The same without what was read: who learns what, and from which rows."""
        nothing = FeatureStore(joint=None, alone=None, siamese={})
        return replace(self, read=nothing, states=None, cut_states=None, texts=(), pairs=())

    def training_task(self, reading: str, stop: threading.Event) -> TrainingTask:
        """The rows under one reading."""
        targets, classes = self.task.targets, len(self.task.classes)
        weights = torch.ones(len(targets))
        if self.config.class_weights and self.task.problem.is_exclusive:
            weights = class_weights(targets, self.splits.learned, classes)
        vectors, index = self.read.vectors(reading)
        inputs = {each.name: getattr(self, each.name) for each in fields(TrainingInputs)}
        if reading:
            inputs["states"] = None
        return TrainingTask(
            vectors=vectors,
            index=index,
            targets=targets,
            objective=Objective(problem=self.task.problem, outputs=classes),
            weights=weights,
            counts=weights,
            stop=stop,
            config=self.config,
            metric=self.task.metric,
            **inputs,
        )


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Job:
    """A piece of work on the rows under one reading.

    Attributes:
        reading: Which one; none, where the states of all tokens are learned from.
        work: Is given the task and a way to tell of its progress, and returns the result.
        cost: How long it takes, by a yardstick of no unit.
        wants_all: Whether it computes on all cores, or on the GPU, and so by itself.
        kind: What kind of head it learns: those of one kind take about as long.
        is_apart: Whether all that it needs besides are the vectors of its reading, so that it can
            be done anywhere.
        is_first: Whether it begins before the others: a head of one linear layer, or a baseline,
            without which nothing is recommended.
    """

    name: str
    reading: str
    work: Callable[[TrainingTask, Tell], object]
    cost: float = 0.0
    wants_all: bool = False
    kind: str = ""
    is_apart: bool = False
    is_first: bool = False


# Does jobs on the rows of one training, and yields what they tell and return: `run_trials` on this
# machine, or others on several.
Scheduler = Callable[[Sequence[Job], TrainingData, int], Generator[object, None, None]]


def run_trials(
    jobs: Sequence[Job], training_data: TrainingData, workers: int
) -> Generator[object, None, None]:
    """Does all jobs and yields what they tell and return, in the order in which it happens.

    Baselines and linear heads begin first, then the longest, so that no core waits long for another
    at the end; those that want all cores come after the others, one by one. Closing the iterator
    ends them at their next step. A job that fails gives `TrialFailed`; the others go on.
    """
    alone = [job for job in jobs if job.wants_all]
    together = [job for job in jobs if not job.wants_all]
    for some, side_by_side in ((together, workers), (alone, 1)):
        if some:
            events = _run(some, training_data, side_by_side, max(1, workers // side_by_side))
            with contextlib.closing(events):
                yield from events


def _run(
    jobs: Sequence[Job], training_data: TrainingData, workers: int, threads_each: int
) -> Generator[object, None, None]:
    """Does some jobs, so many side by side, each on so many cores."""
    stop = threading.Event()
    told: queue.SimpleQueue[tuple[bool, object]] = queue.SimpleQueue()
    # The tasks used last, as many as there are threads; one let go lives while a job has it.
    task_of = lru_cache(workers)(lambda reading: training_data.training_task(reading, stop))
    loading = threading.Lock()

    def do(job: Job) -> None:
        torch.set_num_threads(threads_each)  # of this thread alone: jobs share the cores out
        try:
            with loading:
                task = task_of(job.reading)
            told.put((True, job.work(task, lambda event: told.put((False, event)))))
        except interruption.Interrupted:
            told.put((True, None))
        except Exception as error:
            told.put(
                (True, TrialFailed(name=job.name, says=_sentence(job.name, error), error=error))
            )
        except BaseException as error:
            told.put((True, error))

    threads = torch.get_num_threads()
    # Threads begin without the context of this one.
    limits = current_limits()
    with ThreadPoolExecutor(
        workers, thread_name_prefix="grid", initializer=set_limits, initargs=(limits,)
    ) as pool:
        try:
            for job in sorted(jobs, key=lambda job: (not job.is_first, -job.cost)):
                pool.submit(do, job)
            left = len(jobs)
            while left:
                ended, event = _next(told)
                if isinstance(event, BaseException):
                    raise event
                left -= ended
                yield event
        finally:
            stop.set()
            pool.shutdown(wait=True, cancel_futures=True)
            torch.set_num_threads(threads)


def _next(told: "queue.SimpleQueue[tuple[bool, object]]") -> tuple[bool, object]:
    """What a job tells next, as long as anybody wants it."""
    while True:
        interruption.check()
        with contextlib.suppress(queue.Empty):
            return told.get(timeout=BEAT)


def _sentence(name: str, error: Exception) -> str:
    """Why a cell could not be learned; what is no fault of the recipe's is logged whole."""
    if isinstance(error, HeadsError):
        return f"{name} could not be trained: {error}"
    log.error("a cell failed", exc_info=error)
    first = str(error).strip().split("\n", 1)[0][:120]
    return f"{name} could not be trained ({type(error).__name__}: {first})."
