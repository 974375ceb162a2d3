"""Check whether all is ready for a stage: here, trained, warm, and needing no network."""

import contextlib
import socket
import time
from collections import deque
from collections.abc import Generator, Iterator
from dataclasses import asdict, dataclass
from itertools import starmap
from typing import Any

from heads import display
from heads.backbone.loading import load
from heads.backbone.models import BUNDLED
from heads.events import Progress
from heads.extras.talks.tour import QUESTIONS, SAMPLE, Tour, iter_tour
from heads.interpret.comparison import iter_comparison
from heads.options import CompareOptions

WARM_SECONDS = 1.0  # a question of the tour, asked again; a room waits no longer
PAGE = 7860


@dataclass(frozen=True, slots=True)
class Checked:
    """One thing that has to hold on a stage."""

    what: str  # the condition
    is_ready: bool  # whether it holds
    says: str  # what was found, and what to do where it does not hold


@dataclass(frozen=True, slots=True, kw_only=True)
class StageCheck(display.Displayed):
    """All that has to hold on a stage, with the tour that was made while it was looked at."""

    checks: tuple[Checked, ...]
    tour: Tour

    @property
    def is_ready(self) -> bool:
        """Whether all of it holds."""
        return all(check.is_ready for check in self.checks)

    def describe(self) -> display.Description:
        """Return what the shell shows: every check and whether it is ready."""
        states = {True: "ready", False: "NOT READY"}
        rows = tuple((states[check.is_ready], check.what, check.says) for check in self.checks)
        table = display.Table(headers=("", "check", "result"), rows=rows)
        title = "All is ready for a stage." if self.is_ready else "Not all is ready for a stage."
        return display.Description(title=title, blocks=(table,))

    def as_json(self) -> dict[str, Any]:
        """Return the checks and the tour as plain values."""
        checks = [asdict(check) for check in self.checks]
        return {"ready": self.is_ready, "checks": checks, "tour": self.tour.as_json()}


@contextlib.contextmanager
def no_network() -> Iterator[list[str]]:
    """Refuse every connection of this process to another machine; give the hosts it tried."""
    tried = list[str]()
    connect, look_up = socket.socket.connect, socket.getaddrinfo

    def refused(self: socket.socket, address: Any) -> None:
        if self.family in (socket.AF_INET, socket.AF_INET6) and not _is_here(address[0]):
            tried.append(str(address[0]))
            raise OSError("the network is cut for this check")
        connect(self, address)

    def unknown(host: Any, *rest: Any, **more: Any) -> Any:
        if host and not _is_here(host):
            tried.append(str(host))
            raise socket.gaierror("the network is cut for this check")
        return look_up(host, *rest, **more)

    socket.socket.connect, socket.getaddrinfo = refused, unknown
    try:
        yield tried
    finally:
        socket.socket.connect, socket.getaddrinfo = connect, look_up


def _is_here(host: Any) -> bool:
    return str(host) in ("localhost", "::1") or str(host).startswith("127.")


def iter_stage_check() -> Generator[Progress, None, StageCheck]:
    """Check what a stage needs with the network cut: yield progress, and return the result."""
    with no_network() as tried:
        began = time.perf_counter()
        backbone = load(BUNDLED)
        model = f"{backbone.id}, loaded in {time.perf_counter() - began:.1f} s"
        began = time.perf_counter()
        tour = yield from iter_tour()
        seconds = time.perf_counter() - began
        cells = f"{len(tour.board.cells)} cells; made or found in {seconds:.1f} s"
        slowest = 0.0
        for question in QUESTIONS:
            options = CompareOptions(recipes=question.heads, sample=SAMPLE)
            began = time.perf_counter()
            deque(iter_comparison(question.text, options=options), maxlen=0)
            slowest = max(slowest, time.perf_counter() - began)
    warm = f"the slowest of {len(QUESTIONS)} questions took {slowest:.2f} s when it was asked again"
    is_warm = slowest <= WARM_SECONDS
    hosts = f"asked for: {', '.join(dict.fromkeys(tried))}" if tried else ""
    with socket.socket() as probe:
        is_taken = probe.connect_ex(("127.0.0.1", PAGE)) == 0
    page = f"heads app will be at http://127.0.0.1:{PAGE}/"
    if is_taken:
        page = "something answers there: the page itself, or the page will take the next free one"
    checks = (
        ("The base model is on this machine", True, model),
        ("The heads of the tour are trained", True, cells),
        ("Questions are answered at once", is_warm,
         warm if is_warm else f"{warm}: end what else computes"),
        ("It works with the network cut", not tried, hosts or "nothing asked for it while it was"),
        (f"Port {PAGE} is free", True, page),
    )  # fmt: skip
    return StageCheck(checks=tuple(starmap(Checked, checks)), tour=tour)
