"""The cells of a run on several machines: a task for each reading and kind of head.

Within a task all seeds of a cell learn at once, as they do on one machine, and come to the same.
What a task tells, and every cell as it is done, comes back at once by a mailbox beside whoever
asked: so the run's folder, its events and its leaderboard are those of any run, and of a worker
that is lost no more than the cell in its hands is done again.

Cells that learn from the states of tokens, or that learn the base model, need what lies on the disk
of the machine that began the run, and are done there.
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from heads.extras.scale.pool import RAY, ActorPool, Pool, applying, connect
from heads.features.store import FeatureMatrices, FeatureStore
from heads.training.scheduler import Job, Scheduler, Tell, TrainingData, TrialFailed, run_trials
from heads.training.task import TrainingTask

EVERY = 1.0  # seconds between two looks at the validation curves of a worker


def on_ray(on: str = RAY, workers: int = 0, pool: Pool[Any, Any] | None = None) -> Scheduler:
    """What does the cells of a run on a Ray cluster.

    Args:
        on: ray, or ray:HOST:PORT, as of `heads.extras.scale.pool.pool`.
        workers: At most so many; as many as there are processors if 0.
        pool: One that is there already, of workers that apply functions.

    Raises:
        HeadsError: Ray is not installed, or the cluster does not answer.
    """
    connect(on)

    def scheduler(
        jobs: Sequence[Job], training_data: TrainingData, here: int
    ) -> Generator[object, None, None]:
        if apart := [job for job in jobs if job.is_apart]:
            with contextlib.closing(_spread(apart, training_data, workers, pool)) as events:
                yield from events
        if others := [job for job in jobs if not job.is_apart]:
            with contextlib.closing(run_trials(others, training_data, here)) as events:
                yield from events

    return scheduler


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class JobDone:
    """What the job of a number came to."""

    number: int
    found: object


@dataclass(kw_only=True, eq=False)
class GridTask:
    """Some cells of one reading.

    Attributes:
        jobs: What is left to do, by number.
        data: What they learn from, in Ray's store of objects.
        mailbox: Where what they tell is put.
    """

    jobs: dict[int, Job]
    data: Any
    mailbox: Any

    def __str__(self) -> str:
        names = [job.name for job in self.jobs.values()]
        return f"The cell {names[0]}" if len(names) == 1 else f"The cells {', '.join(names[:3])} …"

    @property
    def cost(self) -> float:
        """How long it takes, by a yardstick of no unit."""
        return sum(job.cost for job in self.jobs.values())

    def __call__(self) -> None:
        """Does the cells, one after the other, in a worker, and tells of each at once."""
        import ray

        data: TrainingData = ray.get(self.data)
        held, last = list[object](), time.monotonic()
        for event in numbered_events(self.jobs, data):
            held.append(event)
            # A point of a curve can wait for others; what a cell came to is safe at once.
            if isinstance(event, JobDone) or time.monotonic() - last > EVERY:
                ray.get(self.mailbox.put.remote(held))
                held, last = [], time.monotonic()


class Mailbox:
    """Keeps what workers tell until it is taken."""

    def __init__(self) -> None:
        self._told: list[object] = []

    def put(self, events: list[object]) -> None:
        """Some more events."""
        self._told += events

    def take(self) -> list[object]:
        """All that have come."""
        told, self._told = self._told, []
        return told


# --- In a worker.


def numbered_events(jobs: Mapping[int, Job], training_data: TrainingData) -> Iterator[object]:
    """What jobs tell and, as `JobDone`, what they come to, in one thread."""
    own = [replace(job, work=_Numbered(number, job.work)) for number, job in jobs.items()]
    left = dict(jobs)
    for event in run_trials(own, training_data, 1):
        if isinstance(event, TrialFailed):
            number = next(number for number, job in left.items() if job.name == event.name)
            told = replace(event, error=RuntimeError(str(event.error)))  # which can be pickled
            event = JobDone(number=number, found=told)
        if isinstance(event, JobDone):
            del left[event.number]
        yield event


@dataclass(frozen=True)
class _Numbered:
    """The work of a job, which says whose it is."""

    number: int
    work: Callable[[TrainingTask, Tell], object]

    def __call__(self, task: TrainingTask, tell: Tell) -> JobDone:
        return JobDone(number=self.number, found=self.work(task, tell))


# --- Beside whoever asked.


def _spread(
    jobs: Sequence[Job], training_data: TrainingData, workers: int, given: Pool[Any, Any] | None
) -> Generator[object, None, None]:
    """Does jobs on the cluster; what they tell, and what each came to, once."""
    ray = connect()
    pool = given or ActorPool[GridTask, None](make=applying, workers=workers)
    node = ray.get_runtime_context().get_node_id()
    near = ray.util.scheduling_strategies.NodeAffinitySchedulingStrategy(node, soft=False)
    mailbox = ray.remote(num_cpus=0, scheduling_strategy=near)(Mailbox).remote()
    tasks = grouped(jobs, training_data, pool.size)
    for task in tasks:
        task.mailbox = mailbox
        task.data = ray.put(task.data)
    told = Told(tasks)
    try:
        for _ in pool.map(sorted(tasks, key=lambda task: -task.cost)):
            yield from told.of(ray.get(mailbox.take.remote()))
    finally:
        if given is None:
            pool.close()
        with contextlib.suppress(Exception):
            ray.kill(mailbox)


def grouped(jobs: Sequence[Job], training_data: TrainingData, workers: int) -> list[GridTask]:
    """Jobs by reading and kind of head; one by one, where there are too few of these."""
    found: dict[object, dict[int, Job]] = {}
    for number, job in enumerate(jobs):
        found.setdefault((job.reading, job.kind), {})[number] = job
    if len(found) < 2 * workers:
        found = {number: {number: job} for number, job in enumerate(jobs)}
    readings = dict.fromkeys(job.reading for job in jobs)
    data = {one: of_reading(training_data, one) for one in readings}
    return [
        GridTask(jobs=own, data=data[next(iter(own.values())).reading], mailbox=None)
        for own in found.values()
    ]


def of_reading(training_data: TrainingData, reading: str) -> TrainingData:
    """The rows under one reading alone, in memory: what can be sent to another machine."""
    vectors, index = training_data.read.vectors(reading)
    matrices = FeatureMatrices.of_vectors(index, {reading: vectors})
    store = FeatureStore(joint=matrices, alone=None, siamese={})
    return replace(training_data.unread, read=store, workspace=None)


@dataclass(eq=False)
class Told:
    """What workers have told: a job that was done twice is told of once.

    Attributes:
        tasks: From which jobs that are done are taken away, so that nobody does them again.
    """

    tasks: Sequence[GridTask]
    done: set[int] = field(default_factory=set)

    def of(self, events: Sequence[object]) -> Iterator[object]:
        """Those of some events that are new."""
        for event in events:
            if not isinstance(event, JobDone):
                yield event
            elif event.number not in self.done:
                self.done.add(event.number)
                for task in self.tasks:
                    task.jobs.pop(event.number, None)
                yield event.found
