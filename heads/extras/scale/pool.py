"""Tasks worked through by a pool of workers, in this process or as actors on Ray.

A worker is made once, which may load a base model, and is then given one task after another. On Ray
the pool survives the loss of a worker or of a whole node: what was in its hands is given to another
one, and a new worker is begun where there is room. So a task may be begun more than once, and must
come to the same whenever it is.

Why not Ray Data: it hangs where its actors take all processors (ray #44687), a dead actor can hang
a job in silence (#62746), and it holds several times the data (#65544).
"""

from __future__ import annotations

import contextlib
import os
import runpy
import tempfile
import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Generic, Protocol, TypeVar

from heads import interruption
from heads.errors import HeadsError
from heads.settings import parts_file

Task = TypeVar("Task")
Result = TypeVar("Result", covariant=True)
Make = Callable[[], Callable[[Task], Result]]  # loads what a worker needs, and returns its work

HERE, RAY = "here", "ray"
INSTALL = "Run: pip install ray"
ATTEMPTS = 4  # times that a task is begun whose worker was lost, or which failed to read or write
STARTS = 8  # workers that are lost one after another before they are ready, until it is given up
BEAT = 1.0  # seconds between two looks at whether the work is still wanted
NO_WORKER_SECONDS = 300.0  # after which it is an error that no worker could be begun
STALLED_SECONDS = 900.0  # a task takes no longer than that, or than STALLED times the longest yet
STALLED = 20
PAUSE = 1.0  # seconds before a task that failed to read or write is begun again


# --- Where work is done.


def check_where(on: str) -> str:
    """Where work is to be done, here or on Ray; HeadsError where neither can be.

    >>> check_where("here"), check_where("")
    ('here', 'here')
    """
    if on in ("", HERE):
        return HERE
    if on != RAY and not on.startswith(f"{RAY}:"):
        raise HeadsError(f"'{on:.40}' is no place to work.", "Say here, ray, or ray:HOST:PORT.")
    ray_library()
    return on


def ray_library() -> Any:
    """Ray, where it is installed; HeadsError where it is not."""
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")  # no statistics over the network
    os.environ.setdefault("RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO", "0")  # what it does not warn of
    try:
        import ray
    except ImportError:
        raise HeadsError("Working on Ray needs the library ray.", INSTALL) from None
    return ray


def connect(on: str = RAY) -> Any:
    """Ray, connected to a cluster: that of `on`, the one in use, or one on this machine.

    Raises:
        HeadsError: Ray is not installed, or the cluster does not answer.
    """
    ray = ray_library()
    if ray.is_initialized():
        return ray
    address = on.removeprefix(RAY).removeprefix(":") or None
    try:
        ray.init(address=address, log_to_driver=False, logging_level="ERROR")
    except Exception as error:  # Ray raises a bare Exception where a node starts too slowly
        ray.shutdown()
        first = str(error).strip().split("\n", 1)[0][:160]
        what = f"The Ray cluster {address or ''} does not answer ({first})."
        raise HeadsError(" ".join(what.split()), _connection_hint(error, address)) from None
    return ray


def _connection_hint(error: Exception, address: str | None) -> str:
    """Return what to do about an error of `ray.init`."""
    if "authenticat" in f"{type(error).__name__} {error}".lower():
        # Ray writes a token into ~/.ray/auth_token by itself, and asks for it from then on.
        return (
            "Set RAY_AUTH_MODE=token here and where the cluster is started, with the same token "
            "on all machines (~/.ray/auth_token or RAY_AUTH_TOKEN); or RAY_AUTH_MODE=disabled."
        )
    if address is None:
        return "The machine may be busy: try again, or start a cluster with ray start --head."
    return "Start one with ray start --head, and check its address."


class Pool(Protocol[Task, Result]):
    """Workers that live until the pool is closed."""

    @property
    def size(self) -> int:
        """How many workers there may be."""
        ...

    def map(self, tasks: Iterable[Task]) -> Iterator[tuple[Task, Result] | None]:
        """Each task with what it came to, in the order in which they end; None at every beat.

        Args:
            tasks: Drawn as they are needed.

        Raises:
            HeadsError: A task cannot be done, or no worker can be begun.
        """
        ...

    def close(self) -> None:
        """Ends the workers."""
        ...


def pool(make: Make[Task, Result], on: str = HERE, workers: int = 0) -> Pool[Task, Result]:
    """A pool of workers.

    Args:
        make: Loads what a worker needs and returns its work. On Ray it is pickled, as tasks are.
        on: here: one after the other in this process; ray: on the cluster that this process is
            connected to, or that $RAY_ADDRESS names, or else on the processors of this machine;
            ray:HOST:PORT: on that cluster.
        workers: At most so many; as many as there are processors (or GPUs) if 0.

    Raises:
        HeadsError: Ray is not installed, or its cluster does not answer.
    """
    if check_where(on) == HERE:
        return OneWorker(make=make)
    connect(on)
    return ActorPool(make=make, workers=workers)


def work_through(
    make: Make[Task, Result], tasks: Iterable[Task], on: str = HERE, workers: int = 0
) -> Iterator[tuple[Task, Result]]:
    """Work through tasks with a pool of its own; raises as `pool` and its `map` do."""
    with contextlib.closing(pool(make, on, workers)) as own:
        yield from filter(None, own.map(tasks))


def applying() -> Callable[[Callable[[], Any]], Any]:
    """Makes a worker whose tasks are functions."""
    return lambda function: function()


@dataclass(kw_only=True, eq=False)
class OneWorker(Generic[Task, Result]):
    """A worker in this process, made as of `pool`."""

    make: Make[Task, Result]
    size: int = 1
    _work: Callable[[Task], Result] | None = None

    def map(self, tasks: Iterable[Task]) -> Iterator[tuple[Task, Result] | None]:
        """As of `Pool`."""
        for task in tasks:
            interruption.check()
            self._work = self._work or self.make()
            yield task, self._done(self._work, task)

    def _done(self, work: Callable[[Task], Result], task: Task) -> Result:
        for _ in range(ATTEMPTS - 1):
            try:
                return work(task)
            except OSError:
                time.sleep(PAUSE)
        return work(task)

    def close(self) -> None:
        """As of `Pool`."""
        self._work = None


# --- Actors of Ray.


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """What a task came to.

    Attributes:
        found: Its result; None where it failed.
        error: What is wrong, where the user can mend it; or what failed.
        may_pass: Whether it may succeed if it is begun again.
    """

    found: Any = None
    error: Exception | None = None
    may_pass: bool = False


class Worker:
    """What lives in an actor: made once, then given tasks.

    Args:
        make: As of `pool`.
        processors: On how many it computes.
        parts: The text of a file with the user's own poolings and heads, which whoever asked has
            run; "" without one.
    """

    def __init__(
        self, make: Callable[[], Callable[[Any], Any]], processors: int, parts: str = ""
    ) -> None:
        import torch

        torch.set_num_threads(processors)
        if parts:
            with tempfile.TemporaryDirectory() as folder:
                path = Path(folder) / "parts.py"
                path.write_text(parts, "utf-8")
                runpy.run_path(str(path))
        self._work: Callable[[Any], Any] | None = None
        self._broken: Exception | None = None
        try:
            self._work = make()
        except HeadsError as error:  # a base model that this node cannot load, for example
            self._broken = error

    def ready(self) -> Exception | None:
        """What the user can mend, where it could not be made."""
        return self._broken

    def do(self, task: Any) -> Answer:
        """Does one task. What goes wrong is an answer: Ray would wrap it in its own errors."""
        assert self._work is not None
        try:
            return Answer(found=self._work(task))
        except HeadsError as error:
            return Answer(error=error)
        except OSError as error:
            return Answer(error=OSError(str(error)), may_pass=True)


@dataclass(eq=False, slots=True)
class _Actor:
    """A worker on Ray.

    Attributes:
        handle: The actor.
        waited_for: What it is asked now: whether it is ready, or a task; None where it is idle.
        task: The task that it does, and how often that was begun; None while it starts.
        begun: Since when.
    """

    handle: Any
    waited_for: Any = None
    task: tuple[Any, int] | None = None
    begun: float = field(default_factory=time.monotonic)


@dataclass(eq=False, kw_only=True)
class ActorPool(Generic[Task, Result]):
    """A pool of actors that survives the loss of some of them.

    Attributes:
        make: As of `pool`.
        workers: At most so many; as many as there are processors (or GPUs) if 0.
        processors: How many each of them takes, and computes on.
    """

    make: Make[Task, Result]
    workers: int = 0
    processors: int = 1

    def __post_init__(self) -> None:
        self._ray = ray_library()
        self._actors = list[_Actor]()
        self._tasks: Iterator[Task] = iter(())
        self._again = deque[tuple[Task, int]]()  # with how often they were begun
        self._left = False  # whether there may be tasks that were never begun
        self._longest = 0.0  # seconds of a task
        self._failed = 0  # workers that were lost before they were ready, one after another
        self._seen_worker = time.monotonic()

    @property
    def size(self) -> int:
        """How many workers the cluster has room for, as it is now: nodes come and go."""
        there = self._ray.cluster_resources()
        room = int(there.get("GPU", 0)) or int(there.get("CPU", 0)) // self.processors
        return min(room, self.workers) if self.workers else room

    def map(self, tasks: Iterable[Task]) -> Iterator[tuple[Task, Result] | None]:
        """As of `Pool`."""
        self._tasks, self._left, self._seen_worker = iter(tasks), True, time.monotonic()
        self._again.clear()
        while True:
            self._fill()
            if not (self._left or self._again or any(one.task for one in self._actors)):
                return
            yield from self._ended()
            yield None
            self._look_after()

    def close(self) -> None:
        """As of `Pool`."""
        for actor in self._actors:
            with contextlib.suppress(Exception):  # the cluster may be gone
                self._ray.kill(actor.handle)
        self._actors = []

    def _next(self) -> tuple[Task, int] | None:
        """A task to begin, and how often it was begun before."""
        if self._again:
            return self._again.popleft()
        task = next(self._tasks, None) if self._left else None
        self._left = task is not None
        return None if task is None else (task, 0)

    def _fill(self) -> None:
        """Begins as many workers as there is room for, and gives each of them something to do."""
        while (self._again or self._left) and len(self._actors) < self.size:
            self._begin()
        for actor in self._actors:
            if actor.waited_for is None and (found := self._next()):
                task, before = found
                actor.task, actor.begun = (task, before + 1), time.monotonic()
                actor.waited_for = actor.handle.do.remote(task)

    def _begin(self) -> None:
        on_gpu = self._ray.cluster_resources().get("GPU", 0) >= 1
        kind = self._ray.remote(
            num_cpus=self.processors,
            num_gpus=1 if on_gpu else 0,
            max_restarts=0,  # a lost one is replaced here, wherever there is room
            max_task_retries=0,
            scheduling_strategy="SPREAD",
        )(Worker)
        own = parts_file()
        parts = own.read_text("utf-8") if own else ""
        actor = _Actor(kind.remote(self.make, self.processors, parts))
        actor.waited_for = actor.handle.ready.remote()
        self._actors.append(actor)

    def _ended(self) -> Iterator[tuple[Task, Result]]:
        """What has ended within a beat."""
        waited = {one.waited_for: one for one in self._actors if one.waited_for is not None}
        if not waited:
            time.sleep(BEAT)
            return
        for reference in self._ray.wait(list(waited), num_returns=1, timeout=BEAT)[0]:
            actor = waited[reference]
            try:
                found = self._ray.get(reference)
            except self._ray.exceptions.RayTaskError:
                raise  # a bug of ours
            except self._ray.exceptions.RayError as error:
                self._lose(actor, error)
                continue
            actor.waited_for = None
            if actor.task is not None:
                yield from self._answered(actor, found)
            elif found is not None:  # the worker could not be made
                raise found
            else:
                self._seen_worker, self._failed = time.monotonic(), 0

    def _answered(self, actor: _Actor, answer: Answer) -> Iterator[tuple[Task, Result]]:
        assert actor.task is not None
        (task, begun), actor.task = actor.task, None
        self._longest = max(self._longest, time.monotonic() - actor.begun)
        if answer.error is None:
            yield task, answer.found
        elif answer.may_pass and begun < ATTEMPTS:
            time.sleep(PAUSE)
            self._again.append((task, begun))
        else:
            raise answer.error

    def _lose(self, actor: _Actor, error: Exception | None = None) -> None:
        """A worker is gone: another one does what it had in its hands."""
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

    def _look_after(self) -> None:
        """Gives up workers that stand still, and the work where none can be begun."""
        interruption.check()
        now = time.monotonic()
        most = max(STALLED_SECONDS, STALLED * self._longest)
        for actor in list(self._actors):
            if actor.task and now - actor.begun > most:
                self._lose(actor)
        if any(actor.task for actor in self._actors):
            self._seen_worker = now
        elif now - self._seen_worker > NO_WORKER_SECONDS:
            there = self._ray.cluster_resources()
            what = (
                f"No worker could be begun within {NO_WORKER_SECONDS:.0f} s: the cluster has "
                f"{there.get('CPU', 0):.0f} processors, and other work may hold them."
            )
            raise HeadsError(what, "Wait for the other work to end, or add a node.")
