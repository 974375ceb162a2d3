"""Pools of workers, in this process or as actors on Ray.

A worker is made once, which may load a base model, and then does one task after another. On Ray a
pool survives the loss of a worker or a node: another worker does the task again. So a task may be
started more than once, and must give the same result each time.

Ray Data is not used: it hangs where its actors take all processors (ray #44687), a dead actor can
hang a job without an error (#62746), and it holds several times the data (#65544).
"""

from __future__ import annotations

import contextlib
import os
import runpy
import tempfile
import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Generic, TypeVar

from heads import interruption
from heads.errors import HeadsError
from heads.settings import Limits, current_limits, parts_file, use_limits

Task = TypeVar("Task")
Result = TypeVar("Result")
Make = Callable[[], Callable[[Task], Result]]  # loads what a worker needs, and returns its work

HERE, RAY = "here", "ray"
ATTEMPTS = 4  # times that a task is started whose worker was lost, or that failed to read or write
STARTS = 8  # workers in a row that are lost before they are ready, until the pool gives up
BEAT = 1.0  # seconds between two checks for an interruption
NO_WORKER_SECONDS = 300.0  # without any worker, until the pool gives up
# A task is stalled after so many seconds, or so many times the longest one so far.
STALLED_SECONDS, STALLED = 900.0, 20
PAUSE = 1.0  # seconds before a task that failed to read or write is started again


def check_place(on: str) -> str:
    """Return the place to work normalised; raise HeadsError where nothing can work there.

    >>> check_place("here"), check_place("")
    ('here', 'here')
    """
    if on in ("", HERE):
        return HERE
    if on != RAY and not on.startswith(f"{RAY}:"):
        raise HeadsError(f"'{on:.40}' is no place to work.", "Say here, ray, or ray:HOST:PORT.")
    import_ray()
    return on


def import_ray() -> Any:
    """Import Ray without its statistics of use; raise HeadsError where it is not installed."""
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
    os.environ.setdefault("RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO", "0")  # else it prints a warning
    try:
        import ray
    except ImportError:
        what = "Working on Ray needs the library ray."
        raise HeadsError(what, "Run: pip install ray") from None
    return ray


def connect(on: str = RAY) -> Any:
    """Connect Ray to the cluster of `on`, unless it is connected, and return the library."""
    ray = import_ray()
    if ray.is_initialized():
        return ray
    address = on.removeprefix(RAY).removeprefix(":") or None
    try:
        ray.init(address=address, log_to_driver=False, logging_level="ERROR")
    except Exception as error:  # Ray raises a bare Exception where a node starts too slowly
        ray.shutdown()
        first = str(error).strip().split("\n", 1)[0][:160]
        what = f"The Ray cluster {address or ''} does not answer ({first})."
        hint = "Start one with ray start --head, and check its address."
        if "authenticat" in f"{type(error).__name__} {error}".lower():
            # Ray writes a token into ~/.ray/auth_token by itself, and asks for it from then on.
            hint = "Set RAY_AUTH_MODE=token here and where the cluster is started, with the same "
            hint += "token on all machines (~/.ray/auth_token or RAY_AUTH_TOKEN); or "
            hint += "RAY_AUTH_MODE=disabled."
        elif address is None:
            hint = "The machine may be busy: try again, or start a cluster with ray start --head."
        raise HeadsError(" ".join(what.split()), hint) from None
    return ray


def open_pool(make: Make[Task, Result], on: str = HERE, workers: int = 0) -> Pool[Task, Result]:
    """Return a pool of workers.

    Args:
        make: Loads what a worker needs and returns its work. On Ray it is pickled, as tasks are.
        on: here: one worker in this process; ray: on the cluster that this process is connected to,
            or that $RAY_ADDRESS names, else on the processors of this machine; ray:HOST:PORT.
        workers: The largest number of workers; 0: one per GPU, else one per processor.
    """
    if check_place(on) == HERE:
        return Pool(make=make)
    connect(on)
    return ActorPool(make=make, workers=workers)


def work_through(
    make: Make[Task, Result], tasks: Iterable[Task], on: str = HERE, workers: int = 0
) -> Iterator[tuple[Task, Result]]:
    """Yield each task with its result from a new pool; raises as `open_pool` and `Pool.map` do."""
    with contextlib.closing(open_pool(make, on, workers)) as pool:
        yield from filter(None, pool.map(tasks))


@dataclass(frozen=True, slots=True, eq=False)
class NamedTask:
    """A function without arguments as a task, with a name for messages."""

    name: str
    function: Callable[[], Any]

    def __str__(self) -> str:
        return self.name

    def __call__(self) -> Any:
        return self.function()


def make_caller() -> Callable[[Callable[[], Any]], Any]:
    """Make a worker whose tasks are functions without arguments."""
    return lambda function: function()


@dataclass(kw_only=True, eq=False)
class Pool(Generic[Task, Result]):
    """One worker in this process, made for the first task. Close it in the end."""

    make: Make[Task, Result]
    _work: Callable[[Task], Result] | None = field(default=None, init=False)

    @property
    def size(self) -> int:
        """The largest number of workers at present."""
        return 1

    def map(self, tasks: Iterable[Task]) -> Iterator[tuple[Task, Result] | None]:
        """Yield each task with its result as it ends, and None at least once per beat."""
        for task in tasks:  # drawn as they are needed
            interruption.check()
            self._work = self._work or self.make()
            yield task, self._attempt(self._work, task)

    def results(self, tasks: Sequence[Task]) -> list[Result]:
        """Return the result of each task, in their order."""
        results = dict(filter(None, self.map(tasks)))
        return [results[task] for task in tasks]

    def _attempt(self, work: Callable[[Task], Result], task: Task) -> Result:
        for _ in range(ATTEMPTS - 1):
            try:
                return work(task)
            except OSError:
                time.sleep(PAUSE)
        return work(task)

    def close(self) -> None:
        """End the workers."""
        self._work = None


# --- Actors of Ray.


class Worker:
    """An actor: made once, then given tasks."""

    def __init__(self, make: Make[Any, Any], parts: str, limits: Limits) -> None:
        import torch

        torch.set_num_threads(1)
        self._limits = limits
        if parts:  # the text of a file with the user's own poolings and heads
            with tempfile.TemporaryDirectory() as folder:
                path = Path(folder) / "parts.py"
                path.write_text(parts, "utf-8")
                runpy.run_path(str(path))
        self._work: Callable[[Any], Any] | None = None
        self._error: Exception | None = None
        try:
            with use_limits(limits):
                self._work = make()
        except HeadsError as error:  # a base model that this node cannot load, for example
            self._error = error

    def start(self) -> Exception | None:
        """Return the error that the user can mend, if the worker could not be made."""
        return self._error

    def do(self, task: Any) -> tuple[Any, Exception | None]:
        """Return the result of a task and its error, which Ray would wrap in its own if raised."""
        assert self._work is not None
        try:
            with use_limits(self._limits):
                return self._work(task), None
        except HeadsError as error:
            return None, error
        except OSError as error:
            return None, OSError(str(error))


@dataclass(eq=False, slots=True)
class _Actor:
    handle: Any
    call: Any = None  # its start, or a task; None where it is idle
    task: tuple[Any, int] | None = None  # with how often it was started; None while idle
    begun: float = field(default_factory=time.monotonic)  # when the task was given to it


@dataclass(eq=False, kw_only=True)
class ActorPool(Pool[Task, Result]):
    """A pool of actors that survives the loss of some of them."""

    workers: int = 0  # at most; 0: one per GPU, else one per processor

    def __post_init__(self) -> None:
        self._ray = import_ray()
        self._actors = list[_Actor]()
        self._tasks: Iterator[Task] = iter(())
        self._again = deque[tuple[Task, int]]()  # with how often they were started
        self._left = False  # whether there may be tasks that were never started
        self._longest = 0.0  # seconds of a task
        self._failed = 0  # workers in a row that were lost before they were ready
        self._seen_worker = time.monotonic()

    @property
    def size(self) -> int:
        """The number of workers that the cluster has room for; nodes come and go."""
        resources = self._ray.cluster_resources()
        room = int(resources.get("GPU", 0)) or int(resources.get("CPU", 0))
        return min(room, self.workers) if self.workers else room

    def map(self, tasks: Iterable[Task]) -> Iterator[tuple[Task, Result] | None]:
        self._tasks, self._left, self._seen_worker = iter(tasks), True, time.monotonic()
        self._again.clear()
        while True:
            self._fill()
            if not (self._left or self._again or any(actor.task for actor in self._actors)):
                return
            yield from self._collect()
            yield None
            self._check_progress()

    def close(self) -> None:
        for actor in self._actors:
            with contextlib.suppress(Exception):  # the cluster may be gone
                self._ray.kill(actor.handle)
        self._actors = []

    def _fill(self) -> None:
        """Start as many workers as there is room for, and give each idle one a task."""
        while (self._again or self._left) and len(self._actors) < self.size:
            self._start()
        for actor in self._actors:
            if actor.call is not None:
                continue
            if not self._again and self._left:
                fresh = next(self._tasks, None)
                self._left = fresh is not None
                self._again += [(fresh, 0)] if fresh is not None else []
            if self._again:
                task, before = self._again.popleft()
                actor.task, actor.begun = (task, before + 1), time.monotonic()
                actor.call = actor.handle.do.remote(task)

    def _start(self) -> None:
        on_gpu = self._ray.cluster_resources().get("GPU", 0) >= 1
        kind = self._ray.remote(
            num_cpus=1,
            num_gpus=1 if on_gpu else 0,
            max_restarts=0,  # a lost one is replaced here, wherever there is room
            max_task_retries=0,
            scheduling_strategy="SPREAD",
        )(Worker)
        path = parts_file()
        parts = path.read_text("utf-8") if path else ""
        actor = _Actor(kind.remote(self.make, parts, current_limits()))
        actor.call = actor.handle.start.remote()
        self._actors.append(actor)

    def _collect(self) -> Iterator[tuple[Task, Result]]:
        """Yield the tasks that end within a beat."""
        calls = {actor.call: actor for actor in self._actors if actor.call is not None}
        if not calls:
            time.sleep(BEAT)
            return
        for call in self._ray.wait(list(calls), num_returns=1, timeout=BEAT)[0]:
            actor = calls[call]
            try:
                answer = self._ray.get(call)
            except self._ray.exceptions.RayTaskError:
                raise  # a bug of ours
            except self._ray.exceptions.RayError as error:
                self._lose(actor, error)
                continue
            actor.call = None
            if actor.task is not None:
                yield from self._end_task(actor, answer)
            elif answer is not None:  # the worker could not be made
                raise answer
            else:
                self._seen_worker, self._failed = time.monotonic(), 0

    def _end_task(self, actor: _Actor, answer: Any) -> Iterator[tuple[Task, Result]]:
        assert actor.task is not None
        (outcome, error), (task, begun), actor.task = answer, actor.task, None
        self._longest = max(self._longest, time.monotonic() - actor.begun)
        if error is None:
            yield task, outcome
        elif isinstance(error, OSError) and begun < ATTEMPTS:
            time.sleep(PAUSE)
            self._again.append((task, begun))
        else:
            raise error

    def _lose(self, actor: _Actor, error: Exception | None = None) -> None:
        """Forget a lost worker, and let another one do its task."""
        self._actors.remove(actor)
        with contextlib.suppress(Exception):
            self._ray.kill(actor.handle)
        if actor.task is None:
            self._failed += 1
            if self._failed >= STARTS:
                *_, last = [line.strip() for line in str(error).splitlines() if line.strip()]
                what = f"Workers cannot be begun ({last[:160]})."
                raise HeadsError(what, "Is head-to-head installed on all nodes, in this version?")
            return
        task, begun = actor.task
        if begun >= ATTEMPTS:
            what = f"{task} was begun {begun} times, and each time its worker was lost."
            raise HeadsError(what, "It may need more memory than a worker has.")
        self._again.appendleft((task, begun))

    def _check_progress(self) -> None:
        """Replace stalled workers; raise HeadsError where none can be started."""
        interruption.check()
        now = time.monotonic()
        longest = max(STALLED_SECONDS, STALLED * self._longest)
        for actor in list(self._actors):
            if actor.task and now - actor.begun > longest:
                self._lose(actor)
        if any(actor.task for actor in self._actors):
            self._seen_worker = now
        elif now - self._seen_worker > NO_WORKER_SECONDS:
            processors = self._ray.cluster_resources().get("CPU", 0)
            what = (
                f"No worker could be begun within {NO_WORKER_SECONDS:.0f} s: the cluster has "
                f"{processors:.0f} processors, and other work may hold them."
            )
            raise HeadsError(what, "Wait for the other work to end, or add a node.")
