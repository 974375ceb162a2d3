"""Trainings that outlive the page: each has a thread and a process of its own.

A page only looks at them: after a reload, in another tab or once a lid is opened again it finds
them by the id of their run. In public mode a training that nobody has looked at for a while ends,
and what it had finished is kept.
"""

import atexit
import math
import threading
import time
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from heads.errors import LimitError
from heads.evaluation.metrics import SCORES, MetricName
from heads.interfaces.web.guards import sentence
from heads.interfaces.web.training_process import TrainingSlots, waiting, worked
from heads.interfaces.web.visitors import Recent
from heads.runs.folder import RunFolder
from heads.settings import current_limits

if TYPE_CHECKING:
    from heads.parts.resolved_recipe import ResolvedRecipe

BEGUN, TRAINED = 0.43, 0.95  # shares of the bar: before the first head, after the last
ENCODED = 0.4  # fraction of the bar at which all texts are encoded
CALIBRATION = 3.0  # seconds as long as expected that are added to those measured
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
    """Progress of a training, from the events of its worker.

    The time left is what the worker expects before it begins, corrected by how much longer (or
    shorter) than expected encoding and the heads trained so far have taken.
    """

    says: str = "Starting"  # what is under way
    share: float = 0.0  # fraction of the work done (0 to 1)
    done: int = 0  # heads trained, or eliminated in a race
    planned: int = 0  # heads in all
    tuned: frozenset[str] = frozenset()  # recipes that fine-tune: each takes long, and comes last
    splits: int = 1  # seeds, or folds, of every head
    metric: MetricName = "accuracy"  # of the scores
    # Score and the ends of its interval, for each head trained so far.
    scores: dict[str, tuple[float, float, float]] = field(default_factory=dict)
    heads: dict[str, float] = field(default_factory=dict[str, float])  # expected seconds of each
    encoding: float = 0.0  # expected seconds of encoding the texts
    seconds: float = 0.0  # expected seconds of the whole training
    threads: int = 1  # heads that are trained at once
    _begun: float = 0.0  # when the expectation came, on the monotonic clock
    _ends: float = 0.0  # when the training is expected to end, on the same clock
    _encoded: tuple[float, float] = (0.0, 0.0)  # fraction of the texts, and the seconds it took
    _taken: dict[str, float] = field(default_factory=dict[str, float])  # seconds of each head

    def hear(self, event: dict[str, Any]) -> None:
        """Update the progress by an event of the worker."""
        self.metric = event.get("metric", self.metric)
        if event["event"] == "expected":
            self.heads, self.encoding = event["heads"], event["reading"]
            self.seconds, self.threads = event["seconds"], event["threads"]
            self._begun = time.monotonic()
            self._renew()
        elif event["event"] == "progress":
            self.says, self.share = event["says"], max(self.share, event["share"])
            if self._begun and not self.done and self.share <= ENCODED:
                self._encoded = self.share / ENCODED, time.monotonic() - self._begun
                self._renew()
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
        self._taken[event["recipe"]] = event.get("seconds", 0.0)
        self.says = f"{self.done} of {self.planned} heads trained"
        self._move()

    def _look_into(self, event: dict[str, Any]) -> None:
        """Say how far a fine-tuned head is, which takes minutes or hours."""
        seed, part = event["seed"], SEARCHED + (1 - SEARCHED) * event["seed"] / self.splits
        what = "with the settings chosen"
        if event["event"] == "trying":
            settings = event["settings"]
            passes = settings.get("epochs", settings.get("base_epochs", 1))
            planned = max(settings.get("planned", passes), 1)
            part = SEARCHED * (seed + min(passes / planned, 1.0)) / self.splits
            what = f"trying settings, pass {passes:g} of {planned:g}"
        where = f"training {seed + 1} of {self.splits}, {what}"
        self.says = f"{self.done} of {self.planned} heads trained; {event['recipe']}: {where}"
        self._move(event["recipe"], part)

    def _move(self, tuned: str = "", part: float = 0.0) -> None:
        """Move the bar, of which a race may have taken some before; renew the time left."""
        of_tuned = part * self.heads.get(tuned, 0.0)
        done = sum(self.heads.get(name, 0.0) for name in self.scores) + of_tuned
        counted = self.done / max(1, self.planned)
        if self.heads:
            # The cheap heads come first: bars of costs alone would hardly move at first.
            counted = max(done / sum(self.heads.values()), counted if counted >= 1 else counted / 2)
        self.share = max(self.share, BEGUN + (TRAINED - BEGUN) * min(1.0, counted))
        self._encoded = 1.0, self._encoded[1]
        self._renew(of_tuned)

    def _renew(self, of_tuned: float = 0.0) -> None:
        """Expect the end anew: the work left, times how much longer than expected the rest took.

        Args:
            of_tuned: Expected seconds of the fine-tuned head under way that are over.
        """
        if not self._begun:
            return
        fraction, encoding = self._encoded
        # A few seconds as expected steady the ratio while little is measured.
        expected, taken = CALIBRATION + fraction * self.encoding, CALIBRATION + encoding
        for name, seconds in self._taken.items():
            expected += self.heads.get(name, 0.0)
            # A fine-tuned head has all threads, any other head one of them.
            taken += seconds if name in self.tuned else seconds / self.threads
        left = [cost for name, cost in self.heads.items() if name not in self.scores]
        # Heads eliminated in a race are done, and have no score.
        still = (self.planned - self.done) / len(left) if self.planned and left else 1.0
        besides = max(0.0, self.seconds - self.encoding - sum(self.heads.values()))
        ahead = (1 - fraction) * self.encoding + still * sum(left) - of_tuned + besides
        self._ends = time.monotonic() + taken / expected * max(0.0, ahead)

    @property
    def left(self) -> float | None:
        """Seconds until the expected end; None if that is unknown or over."""
        left = self._ends - time.monotonic()
        return left if self._begun and left > 0 else None

    @property
    def brief(self) -> str:
        """The number of heads trained and the time left, in a few words."""
        from heads.interfaces.views.leaderboard import duration

        is_training = 0 < self.done < self.planned  # before and after, other work is under way
        told = f"{self.done} of {self.planned} heads" if is_training else self.says
        if not (left := self.left):
            return told
        seconds = max(1, round(left))
        return f"{told} · about {f'{seconds} s' if seconds < 60 else duration(seconds)} left"

    @property
    def best(self) -> str:
        """The head with the highest score so far, in words."""
        if not self.scores:
            return ""
        name = max(self.scores, key=lambda one: self.scores[one][0])
        return f"{name} leads with {SCORES[self.metric].told(self.scores[name][0])} so far"


@dataclass(kw_only=True, slots=True, eq=False)
class TrainingJob:
    """One training."""

    run: RunFolder
    course: Course = field(default_factory=Course)  # how far it is
    address: str = ""  # from where it was begun
    stop: threading.Event = field(default_factory=threading.Event)  # ends it when set
    pages: set[str] = field(default_factory=set)  # those that show it, by their sessions
    seen: float = field(default_factory=time.monotonic)  # when a page looked at it last
    error: str = ""  # why it failed, in a sentence
    is_over: bool = False  # one way or another
    recipes: "Sequence[ResolvedRecipe]" = ()  # all that are planned, once that is known


class TrainingJobs:
    """All trainings that this server has begun."""

    def __init__(self, slots: TrainingSlots) -> None:
        self._slots = slots
        self._jobs: dict[str, TrainingJob] = {}
        self._closed = Recent[bool](MOST_CLOSED)
        self._lock = threading.Lock()
        self.starting = STARTING  # seconds that a worker took until it worked, the last time
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
        if current_limits().public and under_way >= MOST_PUBLIC:
            raise LimitError("Many are training here now.", "Try again in a few minutes.")
        self._slots.check(address)

    def begun(self, address: str) -> list[Path]:
        """List the folders of the runs that an address has begun, the last ones."""
        return [job.run.path for job in list(self._jobs.values()) if job.address == address]

    def known(self, run: str) -> TrainingJob | None:
        """Return the training of a run, if this server began it; by that nobody looked at it."""
        return self._jobs.get(run)

    def of(self, run: str, page: str = "") -> TrainingJob | None:
        """Return the training of a run that this server began, and note that the page saw it."""
        if job := self._jobs.get(run):
            with self._lock:
                self._look(job, page)
        return job

    def _look(self, job: TrainingJob, page: str) -> None:
        """Note that somebody looks; not what a page had asked before it was closed."""
        if page not in self._closed:
            job.seen = time.monotonic()
            if page and not job.is_over:
                job.pages.add(page)

    def running(self, runs: Iterable[str], page: str = "") -> list[TrainingJob]:
        """Return those under way among some runs."""
        found = (self.of(run, page) for run in runs)
        return [job for job in found if job and not job.is_over]

    def left(self, page: str) -> None:
        """Note that a page has closed: what no other shows may soon end, unless it opens anew."""
        with self._lock:
            if page:
                self._closed[page] = True
            for job in self._jobs.values():
                if page in job.pages:
                    job.pages.discard(page)
                    if not job.pages:
                        job.seen = time.monotonic() - LEASE + SOON

    def stop(self, run: str) -> None:
        """Ask a training to end; what it has finished is kept."""
        if job := self._jobs.get(run):
            job.stop.set()

    def end(self) -> None:
        """End all of them, and wait a moment until they have."""
        jobs = [job for job in self._jobs.values() if not job.is_over]
        for job in jobs:
            job.stop.set()
        end = time.monotonic() + 3
        while not all(job.is_over for job in jobs) and time.monotonic() < end:
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
                spec = load(job.run)
                both = zip(spec.recipes, spec.resolved, strict=True)
                job.course = Course(
                    metric=spec.metric, planned=len(spec.recipes), splits=len(spec.splits),
                    tuned=frozenset(name for name, one in both if one.is_tuned),
                )  # fmt: skip
                job.recipes = spec.resolved
                budget = spec.config.budget_seconds or current_limits().run_seconds
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
        """End a stranger's training that nobody looks at any more."""
        if current_limits().public and time.monotonic() - job.seen > LEASE:
            job.stop.set()
