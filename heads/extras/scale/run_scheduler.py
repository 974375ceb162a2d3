"""The scheduler `ray` of runs: trains cells on several machines, a task per reading and head.

Within a task all seeds of a cell learn at once, as on one machine, with the same results. Events
come back by a mailbox on the machine that began the run, and every cell as soon as it is done. So
a lost worker costs at most the cell that it was working on. Cells that learn from the states of
tokens, or that learn the base model, need what lies on that machine's disk, and are trained there.
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Generator, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

from heads.extras.scale.pool import RAY, ActorPool, Pool, connect, make_caller
from heads.features.store import FeatureMatrices, FeatureStore
from heads.training.events import TrialFailed
from heads.training.scheduler import Job, Scheduler, Tell, TrainingData, run_trials
from heads.training.task import TrainingTask

EVERY = 1.0  # seconds between two looks at the validation curves of a worker


def schedule_on_ray(on: str = RAY, pool: Pool[Any, Any] | None = None) -> Scheduler:
    """Return a scheduler that trains cells on a Ray cluster, by an open pool if one is given."""
    connect(on)

    def schedule(
        jobs: Sequence[Job], training_data: TrainingData, threads: int
    ) -> Generator[object, None, None]:
        if apart := [job for job in jobs if job.is_apart]:
            yield from _train_on_cluster(apart, training_data, pool)
        if others := [job for job in jobs if not job.is_apart]:
            yield from run_trials(others, training_data, threads)

    return schedule


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class JobDone:
    """The result of the job of a number."""

    number: int
    result: object


@dataclass(kw_only=True, eq=False)
class CellsTask:
    """Some cells of one reading."""

    jobs: dict[int, Job]  # what is left to do, by number
    data: Any  # the training data, in Ray's object store once it is sent
    mailbox: Any = None  # a queue of Ray's, which takes events

    def __str__(self) -> str:
        names = [job.name for job in self.jobs.values()]
        return f"The cell {names[0]}" if len(names) == 1 else f"The cells {', '.join(names[:3])} …"

    def __call__(self) -> None:
        """Train the cells in a worker, and send the result of each at once."""
        import ray

        data: TrainingData = ray.get(self.data)
        events, last = list[object](), time.monotonic()
        for event in run_numbered(self.jobs, data):
            events.append(event)
            # A point of a curve can wait for others; a cell that is done is safe at once.
            if isinstance(event, JobDone) or time.monotonic() - last > EVERY:
                self.mailbox.put_nowait_batch(events)
                events, last = [], time.monotonic()


def run_numbered(jobs: Mapping[int, Job], training_data: TrainingData) -> Iterator[object]:
    """Yield the events of jobs and, as `JobDone`, their results, in one thread."""

    def work(number: int, job: Job, task: TrainingTask, tell: Tell) -> JobDone:
        return JobDone(number=number, result=job.work(task, tell))

    numbered = [replace(job, work=partial(work, number, job)) for number, job in jobs.items()]
    left = dict(jobs)
    for event in run_trials(numbered, training_data, 1):
        if isinstance(event, TrialFailed):
            number = next(number for number, job in left.items() if job.name == event.name)
            failed = replace(event, error=RuntimeError(str(event.error)))  # which can be pickled
            event = JobDone(number=number, result=failed)
        if isinstance(event, JobDone):
            del left[event.number]
        yield event


def _train_on_cluster(
    jobs: Sequence[Job], training_data: TrainingData, shared: Pool[Any, Any] | None
) -> Generator[object, None, None]:
    """Do jobs on the cluster; yield their events, and the result of each once."""
    ray = connect()
    from ray.util.queue import Queue

    pool = shared or ActorPool[CellsTask, None](make=make_caller)
    node = ray.get_runtime_context().get_node_id()
    near = ray.util.scheduling_strategies.NodeAffinitySchedulingStrategy(node, soft=False)
    mailbox = Queue(actor_options={"num_cpus": 0, "scheduling_strategy": near})
    tasks = group_jobs(jobs, training_data, pool.size)
    for task in tasks:
        task.mailbox = mailbox
        task.data = ray.put(task.data)
    done = set[int]()
    longest_first = sorted(tasks, key=lambda task: -sum(job.cost for job in task.jobs.values()))
    try:
        for _ in pool.map(longest_first):
            yield from iter_new(mailbox.get_nowait_batch(len(mailbox)), tasks, done)
    finally:
        if shared is None:
            pool.close()
        with contextlib.suppress(Exception):
            mailbox.shutdown(force=True)


def group_jobs(jobs: Sequence[Job], training_data: TrainingData, workers: int) -> list[CellsTask]:
    """Group jobs by reading and kind of head; one by one, where there are too few groups."""
    groups: dict[object, dict[int, Job]] = {}
    for number, job in enumerate(jobs):
        groups.setdefault((job.reading, job.kind), {})[number] = job
    if len(groups) < 2 * workers:
        groups = {number: {number: job} for number, job in enumerate(jobs)}
    readings = dict.fromkeys(job.reading for job in jobs)
    data = {reading: select_reading(training_data, reading) for reading in readings}
    return [
        CellsTask(jobs=group, data=data[next(iter(group.values())).reading])
        for group in groups.values()
    ]


def select_reading(training_data: TrainingData, reading: str) -> TrainingData:
    """Return the rows under one reading alone, in memory: they can be sent to another machine."""
    vectors, index = training_data.read.vectors(reading)
    matrices = FeatureMatrices.of_vectors(index, {reading: vectors})
    store = FeatureStore(joint=matrices, alone=None, siamese={})
    return replace(training_data.unread, read=store, workspace=None)


def iter_new(
    events: Sequence[object], tasks: Sequence[CellsTask], done: set[int]
) -> Iterator[object]:
    """Yield events but results that are done already, as a lost worker's jobs are done twice.

    A job that is done is removed from its task, so that nobody does it again.
    """
    for event in events:
        if not isinstance(event, JobDone):
            yield event
        elif event.number not in done:
            done.add(event.number)
            for task in tasks:
                task.jobs.pop(event.number, None)
            yield event.result
