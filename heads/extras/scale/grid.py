"""The cells of a run on several machines: a task for each reading and kind of head.

Within a task all seeds of a cell learn at once, as on one machine, with the same results. What a
task tells comes back by a mailbox beside whoever asked, and every cell as soon as it is done. So
the run's folder, events and leaderboard are those of any run, and a lost worker costs at most the
cell that it was working on.

Cells that learn from the states of tokens, or that learn the base model, need what lies on the disk
of the machine that began the run, and are trained there.
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
from heads.training.scheduler import Job, Scheduler, Tell, TrainingData, TrialFailed, run_trials
from heads.training.task import TrainingTask

EVERY = 1.0  # seconds between two looks at the validation curves of a worker


def schedule_on_ray(on: str = RAY, pool: Pool[Any, Any] | None = None) -> Scheduler:
    """Return a scheduler that trains cells on a Ray cluster, by an open pool if one is given."""
    connect(on)

    def schedule(
        jobs: Sequence[Job], training_data: TrainingData, here: int
    ) -> Generator[object, None, None]:
        if apart := [job for job in jobs if job.is_apart]:
            with contextlib.closing(_spread(apart, training_data, pool)) as events:
                yield from events
        if others := [job for job in jobs if not job.is_apart]:
            with contextlib.closing(run_trials(others, training_data, here)) as events:
                yield from events

    return schedule


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class JobDone:
    """The result of the job of a number."""

    number: int
    result: object


@dataclass(kw_only=True, eq=False)
class GridTask:
    """Some cells of one reading."""

    jobs: dict[int, Job]  # what is left to do, by number
    data: Any  # the training data, in Ray's object store
    mailbox: Any  # a queue of Ray's, which takes events

    def __str__(self) -> str:
        names = [job.name for job in self.jobs.values()]
        return f"The cell {names[0]}" if len(names) == 1 else f"The cells {', '.join(names[:3])} …"

    def __call__(self) -> None:
        """Train the cells in a worker, and tell of each at once."""
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
    """Yield what jobs tell and, as `JobDone`, their results, in one thread."""
    numbered = [
        replace(job, work=partial(_work_numbered, number, job)) for number, job in jobs.items()
    ]
    left = dict(jobs)
    for event in run_trials(numbered, training_data, 1):
        if isinstance(event, TrialFailed):
            number = next(number for number, job in left.items() if job.name == event.name)
            failed = replace(event, error=RuntimeError(str(event.error)))  # which can be pickled
            event = JobDone(number=number, result=failed)
        if isinstance(event, JobDone):
            del left[event.number]
        yield event


def _work_numbered(number: int, job: Job, task: TrainingTask, tell: Tell) -> JobDone:
    return JobDone(number=number, result=job.work(task, tell))


def _spread(
    jobs: Sequence[Job], training_data: TrainingData, shared: Pool[Any, Any] | None
) -> Generator[object, None, None]:
    """Do jobs on the cluster; yield what they tell, and the result of each once."""
    ray = connect()
    from ray.util.queue import Queue

    pool = shared or ActorPool[GridTask, None](make=make_caller)
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
            yield from select_new(mailbox.get_nowait_batch(len(mailbox)), tasks, done)
    finally:
        if shared is None:
            pool.close()
        with contextlib.suppress(Exception):
            mailbox.shutdown(force=True)


def group_jobs(jobs: Sequence[Job], training_data: TrainingData, workers: int) -> list[GridTask]:
    """Group jobs by reading and kind of head; one by one, where there are too few groups."""
    groups: dict[object, dict[int, Job]] = {}
    for number, job in enumerate(jobs):
        groups.setdefault((job.reading, job.kind), {})[number] = job
    if len(groups) < 2 * workers:
        groups = {number: {number: job} for number, job in enumerate(jobs)}
    readings = dict.fromkeys(job.reading for job in jobs)
    data = {reading: of_reading(training_data, reading) for reading in readings}
    return [
        GridTask(jobs=own, data=data[next(iter(own.values())).reading], mailbox=None)
        for own in groups.values()
    ]


def of_reading(training_data: TrainingData, reading: str) -> TrainingData:
    """Return the rows under one reading alone, in memory: they can be sent to another machine."""
    vectors, index = training_data.read.vectors(reading)
    matrices = FeatureMatrices.of_vectors(index, {reading: vectors})
    store = FeatureStore(joint=matrices, alone=None, siamese={})
    return replace(training_data.unread, read=store, workspace=None)


def select_new(
    events: Sequence[object], tasks: Sequence[GridTask], done: set[int]
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
