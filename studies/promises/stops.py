"""P2: stop means stop, on the page and over the API, by the life of the process that trains.

A training is ended at a random moment of it. What counts are the seconds from the act until its
worker is gone, which is the last moment at which it can have computed anything.

By design, a training outlives its page: in local mode it goes on without one, and in public mode
for a few seconds, in which a reload or another tab finds it again. So a reload ends nothing, and
is measured by what goes on; and a tab that is closed ends a stranger's training a little later.
"""

import random
import statistics
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

from gradio_client import Client, handle_file

from heads.data.samples import SAMPLES
from studies.promises.browser import chromium, opened
from studies.promises.calls import API, Caller, file_data
from studies.promises.promise import Row, is_within, quantile, rng
from studies.promises.server import Server, served
from studies.promises.watching import (
    STEP,
    appeared,
    became,
    gone_at,
    is_gone,
    row,
    until_gone,
    workers,
)

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page

SHORT, WHOLE = (2, 1, 1), (20, 15, 17)  # by Stop; by closing and by reloading; each way of the API
AT_ONCE, UNREAD, SOON = 1.0, 5.0, 15.0  # seconds until a worker must be gone, by the kind of act
PATIENCE = 75.0  # seconds after which a training counts as one that was not ended
AFTER = 5.0  # seconds after which nothing may be alive
WATCHED = 6.0  # seconds in which a training has to go on
REOPENED = 4.0  # seconds in which a page is loaded anew, on a machine that is not too busy for it
DATA: Path = SAMPLES["sentiment"].path
# Playwright waits until a button stands still before it clicks, which a person does not.
NOTES_CLICKS = "addEventListener('click', () => { window.clickedAt = Date.now(); }, true)"
DATA_PLACE, STOP = "?place=data", "#job [data-do=stop]"
SEEN = 12.0  # seconds in which the worker of a call that nobody reads may yet be seen
End = tuple[float, int]  # seconds, and how many workers were alive after `AFTER`
Measured = TypeVar("Measured", End, bool)


def measure(short: bool) -> Iterator[Row]:
    """All ways to end a training, each at random moments."""
    pressed, each, calls = SHORT if short else WHOLE
    with served(public=False) as server, chromium() as browser:
        stops = Stops(server, browser, _moments(rng("P2"), _usual_seconds(server)))
        yield _row("Stop on the page", some(pressed, stops.pressed), AT_ONCE)
        closed = some(min(each, 3), lambda: stops.outlived(stops.close))
        yield _going_on("its tab is closed, local mode", closed)
        moments = stops.moments
    with served(public=True) as server, chromium() as browser:
        stops = Stops(server, browser, moments)
        reloaded = some(each, lambda: stops.outlived(stops.reload))
        yield _going_on("its page is loaded anew, public mode", reloaded)
        says = "By design not at once: somebody may look again."
        yield _row("its only tab closed, public mode", some(each, stops.left), SOON, says)
        for name, end, most in (
            ("cancelled by gradio_client", stops.cancelled, AT_ONCE),
            ("its stream closed", stops.disconnected, AT_ONCE),
            ("posted and never read", stops.unread, UNREAD),
        ):
            yield _row(f"/train_grid {name}", some(calls, end), most)


def some(count: int, act: "Callable[[], Measured | None]") -> "list[Measured]":
    """So many acts; those that measured nothing do not count: their training was over before."""
    found: list[Measured] = []
    for _ in range(3 * count):
        if len(found) < count and (one := act()) is not None:
            found.append(one)
    return found


class Stops:
    """Trainings of a server that are ended.

    Attributes:
        moments: When each one is ended, in seconds from the birth of its worker.
    """

    def __init__(self, server: Server, browser: "Browser", moments: Iterator[float]) -> None:
        self.server, self.browser, self.moments = server, browser, moments

    # --- On the page.

    def pressed(self) -> End | None:
        """Somebody presses Stop."""
        page = self._training()
        page.evaluate(NOTES_CLICKS)

        def press() -> float:
            page.locator(STOP).click()
            clicked = page.evaluate("window.clickedAt") / 1000
            return time.monotonic() - (time.time() - clicked)

        end = self._ended(press)
        page.context.close()
        return end

    def left(self) -> End | None:
        """Somebody closes the only tab."""
        return self._ended(self._training().context.close)

    def close(self, page: "Page") -> None:
        """Closes a tab."""
        page.context.close()

    def reload(self, page: "Page") -> None:
        """Loads a page anew."""
        page.reload()

    def outlived(self, act: "Callable[[Page], None]") -> bool | None:
        """Whether a training goes on for a while after an act; then it is ended.

        None where the machine was so busy that the act took as long as a training waits for it.
        """
        page = self._training()
        worker, began = appeared(self.server.pid), time.monotonic()
        act(page)
        is_slow = time.monotonic() - began > REOPENED
        went_on = not became(lambda: is_gone(worker), WATCHED)
        again = page if not page.is_closed() else opened(self.browser, self.server.url, DATA_PLACE)
        if went_on:
            again.locator(STOP).click()
        else:  # a training that has come to its end was not ended by the act
            newest = again.locator("#runs .run").first
            newest.wait_for()
            went_on = not newest.locator("[data-do=resume]").count()
        self._settle()
        again.context.close()
        return None if is_slow and not went_on else went_on

    def _training(self) -> "Page":
        """A page on which a training has just begun."""
        page = opened(self.browser, self.server.url, DATA_PLACE)
        page.get_by_role("button", name="Sentiment", exact=True).click()
        page.locator("#account .card-read").wait_for()
        page.locator("#start", has_text="about").wait_for(timeout=120_000)
        page.locator("#start").click()
        page.locator(STOP).wait_for(timeout=60_000)
        return page

    # --- Over the API.

    def cancelled(self) -> End | None:
        """A job of gradio_client is cancelled."""
        client = Client(self.server.url, verbose=False)
        job = client.submit(handle_file(str(DATA)), grid="small", seeds=3, api_name="/train_grid")
        end = self._ended(job.cancel)
        client.close()
        return end

    def disconnected(self) -> End | None:
        """The stream of a call is closed, while it is read."""
        with Caller(self.server.url, "127.0.2.1") as caller:
            _, event = caller.begin("train_grid", self._arguments(caller))
            with caller.http.stream("GET", f"/{API}/call/train_grid/{event}") as stream:
                return self._ended(stream.close)

    def unread(self) -> End:
        """A call is posted, and nobody ever reads: seconds until no worker is seen any more."""
        with Caller(self.server.url, "127.0.2.2") as caller:
            asked, posted = self._arguments(caller), time.monotonic()
            caller.begin("train_grid", asked)
            seen = posted
            while time.monotonic() < max(posted + SEEN, seen + 1.0):
                seen = time.monotonic() if workers(self.server.pid) else seen
                if seen > posted + PATIENCE:
                    return float("inf"), 1
                time.sleep(STEP)
            return seen - posted, 0

    def _arguments(self, caller: Caller) -> list[object]:
        _, paths = caller.upload((DATA.name, DATA.read_bytes()))
        return caller.endpoint("train_grid").arguments(file=file_data(paths[0]))

    # --- Both.

    def _ended(self, act: Callable[[], object]) -> End | None:
        """Ends a training by an act at a random moment; None where it was over before.

        Args:
            act: Returns when it was done, where that is not when it is called.
        """
        worker, born = appeared(self.server.pid), time.monotonic()
        time.sleep(max(0.0, next(self.moments) - (time.monotonic() - born)))
        was_over, acted = is_gone(worker), time.monotonic()
        with ThreadPoolExecutor(1) as watching:  # what acts may come back later than the end
            gone = watching.submit(gone_at, worker, PATIENCE)
            acted = done if isinstance(done := act(), float) else acted
            seconds = gone.result() - acted
        was_over = was_over or seconds < 0
        time.sleep(max(0.0, acted + AFTER - time.monotonic()))
        alive = len(workers(self.server.pid))
        self._settle()
        return None if was_over else (seconds, alive)

    def _settle(self) -> None:
        """The next training begins where nothing trains any more."""
        became(lambda: not workers(self.server.pid), PATIENCE)


def _usual_seconds(server: Server) -> float:
    """How long a worker lives that nobody ends."""
    with Caller(server.url, "127.0.2.3") as caller:
        _, paths = caller.upload((DATA.name, DATA.read_bytes()))
        asked = caller.endpoint("train_grid").arguments(file=file_data(paths[0]))
        thread = threading.Thread(target=caller.call, args=("train_grid", asked))
        thread.start()
        worker, born = appeared(server.pid), time.monotonic()
        thread.join()
        return until_gone(worker, born, PATIENCE)


def _moments(chance: random.Random, seconds: float) -> Iterator[float]:
    """Seconds from the birth of a worker, spread evenly over most of its life."""
    while True:
        yield chance.uniform(0, 0.6 * seconds)


def _row(what: str, ends: Sequence[End], most: float, note: str = "") -> Row:
    if not ends:
        return row("P2", what, "every training was over before its end", "", holds=False)
    seconds = [taken for taken, _ in ends]
    alive = sum(left for _, left in ends)
    measured = max(seconds) if most == UNREAD else quantile(seconds, 0.95)
    by = "longest" if most == UNREAD else "p95"
    is_met = is_within(measured, most) and (most == SOON or not alive)
    return row(
        "P2",
        f"{what}, {len(ends)} times",
        f"{by} {_told(measured)}, median {_told(statistics.median(seconds))}, "
        f"{alive} workers alive after {AFTER:g} s",
        f"{by} < {most:g} s" + (", 0 alive" if most != SOON else ""),
        holds=is_met,
        note=note,
    )


def _told(seconds: float) -> str:
    return f"{seconds:.2f} s" if seconds < PATIENCE else f"none in {PATIENCE:g} s"


def _going_on(what: str, went_on: Sequence[bool]) -> Row:
    return row(
        "P2",
        f"a training goes on when {what}",
        f"{sum(went_on)} of {len(went_on)} are alive {WATCHED:g} s later",
        "all",
        holds=bool(went_on) and all(went_on),
        note="By design: a training outlives its page.",
    )
