"""Whether all is ready for a stage: here, trained, warm, and needing no network."""

import contextlib
import socket
import time
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from typing import Any

from heads import display
from heads.analysis.comparison import comparing
from heads.backbone.loading import load
from heads.backbone.models import BUNDLED
from heads.events import Progress
from heads.extras.talks.tour import QUESTIONS, SAMPLE, Tour, touring
from heads.settings import Limits

WARM_SECONDS = 1.0  # a question of the tour, asked again; a room waits no longer
PAGE = 7860


@dataclass(frozen=True, slots=True, kw_only=True)
class Checked:
    """One thing that has to hold on a stage.

    Attributes:
        what: What was looked at.
        is_ready: Whether it holds.
        says: What was found, and what to do where it does not hold.
    """

    what: str
    is_ready: bool
    says: str


@dataclass(frozen=True, slots=True, kw_only=True)
class StageCheck(display.Displayed):
    """All that has to hold on a stage, with the tour that was made while it was looked at."""

    checks: tuple[Checked, ...]
    tour: Tour

    @property
    def is_ready(self) -> bool:
        """Whether all of it holds."""
        return all(one.is_ready for one in self.checks)

    def describe(self) -> display.Description:
        """Return what the shell shows: every check and whether it is ready."""
        rows = [
            ("ready" if one.is_ready else "NOT READY", one.what, one.says) for one in self.checks
        ]
        table = display.Table(headers=("", "check", "result"), rows=tuple(rows))
        title = "All is ready for a stage." if self.is_ready else "Not all is ready for a stage."
        return display.Description(title=title, blocks=(table,))

    def as_json(self) -> dict[str, Any]:
        """The checks and the tour, as plain values."""
        checks = [asdict(one) for one in self.checks]
        return {"ready": self.is_ready, "checks": checks, "tour": self.tour.as_json()}


@contextlib.contextmanager
def no_network() -> Iterator[list[str]]:
    """Within it every connection to another machine is refused; gives what was asked for.

    For the whole process, so for a command and not for a server.
    """
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


def checking(limits: Limits) -> Iterator[Progress | StageCheck]:
    """Checks what is needed on a stage, the network cut meanwhile; trains what is not trained yet.

    Yields:
        `Progress`, then the `StageCheck`.

    Raises:
        HeadsError: The bundled model or the disk is not as it should be.
    """
    with no_network() as tried:
        began = time.perf_counter()
        backbone = load(BUNDLED, limits=limits)
        here = f"{backbone.id}, loaded in {time.perf_counter() - began:.1f} s"
        began, tour = time.perf_counter(), None
        for event in touring(limits):
            if isinstance(event, Tour):
                tour = event
            else:
                yield event
        assert tour is not None
        made = (
            f"{len(tour.board.cells)} cells; made or found in {time.perf_counter() - began:.1f} s"
        )
        slowest = max(_seconds(number, limits) for number in range(len(QUESTIONS)))
    warm = f"the slowest of {len(QUESTIONS)} questions took {slowest:.2f} s when it was asked again"
    yield StageCheck(
        checks=(
            Checked(what="The base model is on this machine", is_ready=True, says=here),
            Checked(what="The heads of the tour are trained", is_ready=True, says=made),
            Checked(what="Questions are answered at once", is_ready=slowest <= WARM_SECONDS,
                    says=warm if slowest <= WARM_SECONDS else f"{warm}: end what else computes"),
            Checked(what="It works with the network cut", is_ready=not tried,
                    says=f"asked for: {', '.join(dict.fromkeys(tried))}" if tried else
                    "nothing asked for it while it was"),
            _port(),
        ),
        tour=tour,
    )  # fmt: skip


def _seconds(number: int, limits: Limits) -> float:
    """How long a question of the tour takes that was asked before."""
    question, began = QUESTIONS[number], time.perf_counter()
    asked = {"recipes": question.heads, "sample": SAMPLE, "limits": limits}
    for _ in comparing(question.text, **asked):
        pass
    return time.perf_counter() - began


def _port() -> Checked:
    """Whether the page can have its usual address."""
    with socket.socket() as tried:
        is_taken = tried.connect_ex(("127.0.0.1", PAGE)) == 0
    told = "something answers there: the page itself, or the page will take the next free one"
    says = told if is_taken else f"heads app will be at http://127.0.0.1:{PAGE}/"
    return Checked(what=f"Port {PAGE} is free", is_ready=True, says=says)
