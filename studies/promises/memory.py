"""P7: what a new session costs in memory, what an unchanged one does, and a ceiling of many.

A session is told by its hash, which a client makes up. It opens as a browser's does, with the page
and the calls that the page makes as it loads; or it is a program's, which compares a sentence.
"""

import itertools
import secrets
import time
from collections.abc import Callable, Iterator
from functools import partial

from studies.promises.calls import Caller, in_sequence
from studies.promises.promise import Row, is_within
from studies.promises.server import Server, served
from studies.promises.watching import resident, row, settled, slope

MOST = 50.0  # kB a session
SHORT, WHOLE = (40, 60, 150), (200, 400, 2_000)  # to warm up, to measure, and in all
TEXT = "The battery lasts two days."
EVERY = 5  # sessions between two looks at the memory
QUIET = 2.0  # seconds for what goes on after the last answer


def measure(short: bool) -> Iterator[Row]:
    """The slope of each kind on a server of its own, and what many of them come to."""
    warm, count, whole = SHORT if short else WHOLE
    with served(public=True) as server:
        visits = Visits(server)
        settled(server.pid)
        points = _measure_points(visits.program, server, warm, count)
        yield _row("new session of a program that compares", points, warm, count)
        points = _measure_points(partial(visits.program, secrets.token_hex(8)), server, warm, count)
        yield _row("call in an unchanged session", points, warm, count)
    with served(public=True) as server:
        visits = Visits(server)
        settled(server.pid)
        points = _measure_points(visits.page, server, warm, count)
        yield _row("new session that opens the page", points, warm, count)
        # The server returns freed memory now and then and soon takes it again, so that one look
        # may be 14 MB too low: later memory is compared with the highest look so far.
        yield _ceiling(visits, server, max(size for _, size in points), warm + count, whole)


class Visits:
    """Visitors of a server, each from another address."""

    def __init__(self, server: Server) -> None:
        self.url, self._addresses = server.url, itertools.cycle(in_sequence("127.0.7"))
        with Caller(server.url) as caller:
            known = caller.endpoints()
            self._opens = [one for one in known if one.is_load]
            self._compare = next(one for one in known if one.name == "compare")

    def program(self, session: str = "") -> None:
        """A compare of the same sentence, in a session."""
        with Caller(self.url, next(self._addresses)) as caller:
            asked = self._compare.arguments(text=TEXT)
            caller.private(self._compare, asked, session or secrets.token_hex(8))

    def page(self, session: str = "") -> None:
        """The page, and what it calls as it loads."""
        session = session or secrets.token_hex(8)
        with Caller(self.url, next(self._addresses)) as caller:
            caller.http.get("/")
            for one in self._opens:
                caller.private(one, one.defaults, session)


def _measure_points(
    visit: Callable[[], None], server: Server, warm: int, count: int
) -> list[tuple[float, float]]:
    """Return visits made and the memory of the server in kB, after every few visits."""
    for _ in range(warm):
        visit()
    points = [(0.0, resident(server.pid))]
    for number in range(1, count + 1):
        visit()
        if number % EVERY == 0:
            points.append((number, resident(server.pid)))
    return points


def _row(what: str, points: list[tuple[float, float]], warm: int, count: int) -> Row:
    grown = slope(points)
    return row(
        "P7",
        f"memory by {what}, over {count} after {warm}",
        f"{grown:.0f} kB each (from {points[0][1] / 1024:.0f} to {points[-1][1] / 1024:.0f} MB)",
        f"< {MOST:g} kB",
        holds=is_within(grown, MOST),
    )


def _ceiling(visits: Visits, server: Server, before: float, done: int, whole: int) -> Row:
    """Measure the most memory of many sessions; the first `done` took `before` kB at most."""
    most = before
    for _ in range(max(0, whole - done)):
        visits.page()
        most = max(most, resident(server.pid))
    time.sleep(QUIET)
    grown, allowed = (most - before) / 1024, MOST * (whole - done) / 1024
    return row(
        "P7",
        f"the most memory at any of {whole} sessions",
        f"{most / 1024:.0f} MB, {grown:.0f} MB above what {done} took",
        f"at most {allowed:.0f} MB above",
        holds=is_within(grown, allowed),
    )
