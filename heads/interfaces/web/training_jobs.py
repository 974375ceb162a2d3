"""Trainings that outlive the page: each has a thread and a process of its own.

A page only looks at them: after a reload, in another tab or once a lid is opened again it finds
them by the id of their run. In public mode a training that nobody has looked at for a while ends,
and what it had finished is kept.
"""

import atexit
import math
import threading
import time
from collections import OrderedDict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from heads.errors import LimitError
from heads.evaluation.metrics import SCORES, MetricName
from heads.interfaces.web.guards import sentence
from heads.interfaces.web.training_process import TrainingSlots, waiting, worked
from heads.runs.folder import RunFolder
from heads.settings import limits

if TYPE_CHECKING:
    from heads.parts.resolved_recipe import ResolvedRecipe

BEGUN, TRAINED = 0.43, 0.95  # shares of the bar: before the first head, after the last
AS_LONG = 30  # times as long as a frozen one, roughly, a tuned head takes
SEARCHED = 0.7  # of the time of a tuned head, roughly, goes into its search
PATIENCE = 30.0  # seconds that a worker may take beyond its time
LEASE = 60.0  # seconds that a training goes on in public mode with nobody looking
SOON = 5.0  # the same once the last page that showed it is closed: a reload takes less
STARTING = 6.0  # seconds until a worker has imported torch and Transformers, usually
MOST_CLOSED = 2_000  # pages that are remembered as closed
MOST_KEPT = 200  # jobs that are remembered
MOST_PUBLIC = 8  # trainings that run or wait at a time in public mode


@dataclass(kw_only=True, slots=True)
class Course:
    """How far a training is, as its worker tells it.

    Attributes:
        says: What is under way.
        share: How far it is (0 to 1).
        done: How many cells are done, baselines too.
        planned: How many there are.
        tuned: The heads that learn their base model as well: each takes long, and comes last.
        splits: How many seeds, or folds, every head has.
        metric: What the scores are.
        scores: Of the heads that are done: score and the ends of its interval.
        left: Seconds that it takes yet; None where that cannot be told.
    """

    says: str = "Starting"
    share: float = 0.0
    done: int = 0
    planned: int = 0
    tuned: frozenset[str] = frozenset()
    splits: int = 1
    metric: MetricName = "accuracy"
    scores: dict[str, tuple[float, float, float]] = field(default_factory=dict)
    left: float | None = None
    _times: list[tuple[float, float]] = field(default_factory=list)
    _tuned_done: set[str] = field(default_factory=set)

    def hear(self, event: dict[str, Any]) -> None:
        """Takes in an event of the worker."""
        self.metric = event.get("metric", self.metric)
        if event["event"] == "progress":
            self.says, self.share = event["says"], max(self.share, event["share"])
        elif event["event"] == "cell":
            self._take(event)
        elif event["event"] in ("trying", "fitting") and event["recipe"] in self.tuned:
            self._look_into(event)

    def _take(self, event: dict[str, Any]) -> None:
        from heads.evaluation.predictions import BASELINES

        self.done, self.planned = event["done"], event["planned"]
        if event["recipe"] in BASELINES:
            return
        # A new dictionary: pages read the old one meanwhile.
        score = event["score"], event["low"], event["high"]
        self.scores = self.scores | {event["recipe"]: score}
        self._tuned_done |= self.tuned & {event["recipe"]}
        self.says = f"Training heads: {self.done} of {self.planned}"
        self._move(0.0)

    def _look_into(self, event: dict[str, Any]) -> None:
        """How far a tuned head is, which takes minutes or hours."""
        seed, part = event["seed"], SEARCHED + (1 - SEARCHED) * event["seed"] / self.splits
        what = "with the settings chosen"
        if event["event"] == "trying":
            settings = event["settings"]
            passes = settings.get("epochs", settings.get("base_epochs", 1))
            planned = max(settings.get("planned", passes), 1)
            part = SEARCHED * (seed + min(passes / planned, 1.0)) / self.splits
            what = f"trying settings, pass {passes:g} of {planned:g}"
        where = f"training {seed + 1} of {self.splits}, {what}"
        self.says = f"{self.done} of {self.planned} done; {event['recipe']}: {where}"
        self._move(part)

    def _move(self, part: float) -> None:
        """Move the bar and tell the time left; `part` is how far the tuned head under way is."""
        tuned, known = len(self.tuned), len(self._tuned_done)
        whole = self.planned - tuned + AS_LONG * tuned
        now = self.done - known + AS_LONG * (known + part)
        # A race has taken some of the bar before.
        self.share = max(self.share, BEGUN + (TRAINED - BEGUN) * min(1.0, now / max(whole, 1)))
        is_frozen = self.done - known < self.planned - tuned  # of these nothing tells of tuned ones
        if is_frozen and tuned:
            return
        if self._times and now < self._times[-1][1]:
            return  # another setting is tried
        self._times.append((time.monotonic(), now))
        (first, before), (last, now) = self._times[0], self._times[-1]
        if now > before:
            self.left = (last - first) / (now - before) * (whole - now)

    @property
    def brief(self) -> str:
        """The same in a few words."""
        from heads.interfaces.views.leaderboard import duration

        if not self.planned:
            return self.says
        seconds = None if self.left is None else max(1, round(self.left))
        told = f"{seconds} s" if seconds and seconds < 10 else duration(seconds or 0)
        left = f" · {told} left" if seconds else ""
        return f"{self.done} of {self.planned}{left}"

    @property
    def best(self) -> str:
        """The head that leads so far, in words."""
        if not self.scores:
            return ""
        name = max(self.scores, key=lambda one: self.scores[one][0])
        return f"{name} leads with {SCORES[self.metric].told(self.scores[name][0])} so far"


@dataclass(kw_only=True, slots=True, eq=False)
class TrainingJob:
    """One training.

    Attributes:
        run: What is trained.
        course: How far it is.
        stop: Ends it when set.
        address: From where it was begun.
        seen: When a page looked at it last.
        pages: Those that show it, by their sessions.
        error: Why it failed, in a sentence.
        is_over: Whether it has ended, one way or another.
        recipes: All that are planned, once that is known.
    """

    run: RunFolder
    course: Course = field(default_factory=Course)
    address: str = ""
    stop: threading.Event = field(default_factory=threading.Event)
    pages: set[str] = field(default_factory=set)
    seen: float = field(default_factory=time.monotonic)
    error: str = ""
    is_over: bool = False
    recipes: "Sequence[ResolvedRecipe]" = ()


class TrainingJobs:
    """All trainings that this server has begun.

    Attributes:
        starting: Seconds that a worker takes until it works, by the last one.
    """

    def __init__(self, slots: TrainingSlots) -> None:
        self._slots = slots
        self._jobs: dict[str, TrainingJob] = {}
        self._closed: OrderedDict[str, None] = OrderedDict()  # pages, the last ones
        self._lock = threading.Lock()
        self.starting = STARTING
        atexit.register(self.end)

    def begin(self, run: RunFolder, address: str = "", page: str = "") -> TrainingJob:
        """Begin a training, or return the one under way; raise LimitError if too many train."""
        with self._lock:
            known = self._jobs.get(run.id)
            if known and not known.is_over:
                self._look(known, page)
                return known
            self.admit(address)
            self._jobs[run.id] = job = TrainingJob(run=run, address=address)
            job.seen = time.monotonic() - LEASE + SOON  # where that page is closed already
            self._look(job, page)
            for old in [one for one, job in self._jobs.items() if job.is_over][:-MOST_KEPT]:
                del self._jobs[old]
        threading.Thread(target=self._work, args=(job,), name=f"run {run.id}", daemon=True).start()
        return job

    def admit(self, address: str = "") -> None:
        """Raise LimitError if too many trainings run or wait, here or of that address."""
        under_way = sum(not job.is_over for job in self._jobs.values())
        if limits().public and under_way >= MOST_PUBLIC:
            raise LimitError("Many are training here now.", "Try again in a few minutes.")
        self._slots.check(address)

    def begun(self, address: str) -> list[Path]:
        """The folders of the runs that an address has begun, the last ones."""
        return [job.run.path for job in list(self._jobs.values()) if job.address == address]

    def known(self, run: str) -> TrainingJob | None:
        """The training of a run, if this server has begun it; by that nobody has looked at it."""
        return self._jobs.get(run)

    def of(self, run: str, page: str = "") -> TrainingJob | None:
        """Return the training of a run that this server began, and note that the page saw it."""
        job = self._jobs.get(run)
        if job:
            with self._lock:
                self._look(job, page)
        return job

    def _look(self, job: TrainingJob, page: str) -> None:
        """Notes that somebody looks; not what a page had asked before it was closed."""
        if page not in self._closed:
            job.seen = time.monotonic()
            if page and not job.is_over:
                job.pages.add(page)

    def running(self, runs: Iterable[str], page: str = "") -> list[TrainingJob]:
        """Those under way among some runs."""
        found = (self.of(run, page) for run in runs)
        return [job for job in found if job and not job.is_over]

    def left(self, page: str) -> None:
        """A page is closed: what no other shows may soon end, unless it is opened anew."""
        with self._lock:
            if page:
                self._closed[page] = None
            if len(self._closed) > MOST_CLOSED:
                self._closed.popitem(last=False)
            for job in self._jobs.values():
                if page in job.pages:
                    job.pages.discard(page)
                    if not job.pages:
                        job.seen = time.monotonic() - LEASE + SOON

    def stop(self, run: str) -> None:
        """Asks a training to end; what it has finished is kept."""
        if job := self._jobs.get(run):
            job.stop.set()

    def end(self) -> None:
        """Ends all of them, and waits a moment until they have."""
        jobs: Sequence[TrainingJob] = [job for job in self._jobs.values() if not job.is_over]
        for job in jobs:
            job.stop.set()
        end = time.monotonic() + 3
        while any(not job.is_over for job in jobs) and time.monotonic() < end:
            time.sleep(0.05)

    def _work(self, job: TrainingJob) -> None:
        from heads.runs.spec import load

        try:
            with self._slots.taken(job.address, job.stop) as place:
                for event in waiting(self._slots, place, math.inf):
                    job.course.hear(event)
                    self._leave_unread(job)
                if job.stop.is_set():
                    return
                asked = load(job.run)
                job.course.metric, job.course.planned = asked.metric, len(asked.names)
                job.course.splits = len(asked.splits)
                both = zip(asked.recipes, asked.resolved, strict=True)
                job.course.tuned = frozenset(name for name, one in both if one.is_tuned)
                job.course.says, job.recipes = "Starting", asked.resolved
                budget = asked.config.budget_seconds or limits().run_seconds
                begun, has_started = time.monotonic(), False
                for events in worked(job.run, job.stop, budget + PATIENCE if budget else 0.0):
                    if events and not has_started:
                        has_started, self.starting = True, time.monotonic() - begun
                    for event in events:
                        job.course.hear(event)
                    self._leave_unread(job)
        except Exception as error:
            job.error = sentence(error)
        finally:
            job.is_over = True

    def _leave_unread(self, job: TrainingJob) -> None:
        """A stranger's training that nobody looks at any more ends."""
        if limits().public and time.monotonic() - job.seen > LEASE:
            job.stop.set()
