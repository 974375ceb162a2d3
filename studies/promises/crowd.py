"""P9: normal users beside a greedy one: their compares take less than 2 s, and none is refused.

Every user calls from an address of its own on the loopback, and asks a new sentence every second,
as one who types does. The greedy one calls from one address, in a process that yields the
processor to the others, as if it were on a machine of its own.
"""

import contextlib
import multiprocessing
import os
import statistics
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from heads.backbone.models import BUNDLED
from heads.data.samples import RECIPES, SAMPLES
from studies.promises.calls import REFUSED, Answer, Caller, file_data, in_sequence
from studies.promises.promise import Row, is_within, quantile
from studies.promises.server import Server, served
from studies.promises.slow_hub import online, slow_hub
from studies.promises.watching import row

USERS, PAUSE, GREEDY = 20, 1.0, "127.0.9.1"
MOST_SECONDS = 2.0  # of 95 of 100 compares
PATIENCE = 30.0  # seconds until a user gives up
FEW, MANY = 10.0, 45.0  # seconds beside each greedy one
LONG = " ".join(f"word{number}" for number in range(400))
SLOW = ("slow/one", "slow/two")  # models on the Hub that take their time
Told = Callable[[int], None]  # takes the status of every answer
Greedy = Callable[[str, Told], None]
STARTS = 120.0  # seconds until a process must have begun
ATTACK = 8.0  # seconds between two waves of what nobody reads


@dataclass(frozen=True, slots=True, kw_only=True)
class Load:
    """How the normal users fared.

    Attributes:
        seconds: Of each of their calls that was answered.
        refused: How many were turned away.
        failed: How many got an error, or nothing in `PATIENCE`.
        says: What the first of those that were not answered was told.
    """

    seconds: Sequence[float]
    refused: int
    failed: int
    says: str


def measure(short: bool) -> Iterator[Row]:
    """Compares beside nothing, and beside each kind of greed in turn."""
    seconds = FEW if short else MANY
    with slow_hub(SLOW) as hub, served(public=True, env=online(hub)) as server:
        used(server, 2.0)  # what the first ones wait for is made only once
        for name, greedy in GREED.items():
            with _beside(greedy, server.url) as fared:
                load = used(server, seconds)
                yield _row(name, load, seconds, "" if greedy is nothing else fared())
            if greedy is trains:
                yield _reading(server)
            time.sleep(3)  # the next one begins with a quiet server


def used(server: Server, seconds: float) -> Load:
    """What `USERS` get that compare for so long."""
    answers: list[list[Answer]] = [[] for _ in range(USERS)]
    users = [
        threading.Thread(target=_use, args=(server.url, address, seconds, kept))
        for address, kept in zip(in_sequence("127.0.8"), answers, strict=False)
    ]
    for user in users:
        user.start()
    for user in users:
        user.join()
    found = [answer for kept in answers for answer in kept]
    missed = [answer for answer in found if not answer.is_done]
    refused = sum(answer.status in REFUSED for answer in missed)
    return Load(
        seconds=[answer.seconds for answer in found if answer.is_done],
        refused=refused,
        failed=len(missed) - refused,
        says=missed[0].said[:120] if missed else "",
    )


def _use(url: str, address: str, seconds: float, kept: list[Answer]) -> None:
    """One user: a new sentence every second, or as soon as the last one is answered."""
    number, end = 0, time.monotonic() + seconds
    time.sleep(int(address.rpartition(".")[2]) / USERS * PAUSE)  # nobody types in step
    with Caller(url, address, PATIENCE) as caller:
        while time.monotonic() < end:
            begun, number = time.monotonic(), number + 1
            text = f"The kettle that {address} bought on day {number} was better than the last."
            kept.append(caller.call("compare", [text, "", list(RECIPES), BUNDLED, "", "joint"]))
            time.sleep(max(0.0, PAUSE - (time.monotonic() - begun)))


def _row(name: str, load: Load, seconds: float, fared: str) -> Row:
    total = len(load.seconds) + load.refused + load.failed
    middle = statistics.median(load.seconds) if load.seconds else float("inf")
    most = quantile(load.seconds, 0.95) if load.seconds else float("inf")
    return row(
        "P9",
        f"{USERS} users comparing for {seconds:g} s, beside {name}",
        f"p95 {most:.2f} s (p50 {middle:.2f} s), {load.refused} of {total} refused, "
        f"{load.failed} without an answer",
        f"p95 < {MOST_SECONDS:g} s, 0 refused",
        holds=is_within(most, MOST_SECONDS) and not load.refused and not load.failed,
        note="; ".join(filter(None, (fared, f"“{load.says}”" if load.says else ""))),
    )


def _reading(server: Server) -> Row:
    """How long a normal `read` waits beside the trainings of one client."""
    with _beside(trains, server.url), Caller(server.url, "127.0.8.250", PATIENCE) as caller:
        _, paths = caller.upload(("mine.csv", SAMPLES["sentiment"].path.read_bytes()))
        answer = caller.call("read", [file_data(paths[0]), *[""] * 8])
    return row(
        "P9",
        "a read of a normal user beside 16 trainings of one client",
        f"{answer.seconds:.2f} s" if answer.is_done else f"none: {answer.said[:80]}",
        f"< {MOST_SECONDS:g} s",
        holds=answer.is_done and is_within(answer.seconds, MOST_SECONDS),
    )


# --- Those who want more than others. Each runs until it is ended.


def nothing(url: str, told: Told) -> None:
    """Nobody else."""


def floods(url: str, told: Told) -> None:
    """Fifty compares at a time, again and again."""

    def flood(number: int) -> None:
        with Caller(url, GREEDY) as caller:
            for turn in range(1_000_000):
                text = f"Greed has the number {number} and the turn {turn}."
                told(caller.call("compare", [text, "", list(RECIPES), BUNDLED, "", "joint"]).status)
                time.sleep(0.25)

    _at_once(flood, 50)


def looks(url: str, told: Told) -> None:
    """Two looks at four hundred words and four recipes, which nobody reads, and two more."""
    with Caller(url, GREEDY) as caller:
        while True:
            for number in range(2):
                text = f"{LONG} {number} {time.monotonic()}"
                asked = [text, "", list(RECIPES), BUNDLED, "", "", "", "others"]
                told(caller.begin("look", asked)[0])
            time.sleep(ATTACK)


def trains(url: str, told: Told) -> None:
    """Sixteen trainings at a time, which are read."""

    def train(number: int) -> None:
        content = SAMPLES["sentiment"].path.read_bytes()
        with Caller(url, GREEDY) as caller:
            function = caller.endpoint("train_grid")
            while True:
                status, paths = caller.upload((f"greed{number}.csv", content))
                if status == 200:
                    asked = function.arguments(file=file_data(paths[0]))
                    told(caller.call("train_grid", asked, session=f"greed{number}").status)
                else:
                    told(status)
                time.sleep(1)

    _at_once(train, 16)


def downloads(url: str, told: Told) -> None:
    """Compares with two models that the Hub takes long to give."""

    def download(number: int) -> None:
        with Caller(url, GREEDY) as caller:
            while True:
                model = SLOW[number]
                asked = ["A text.", "", list(RECIPES), model, "", "joint"]
                told(caller.call("compare", asked).status)
                time.sleep(0.5)

    _at_once(download, len(SLOW))


GREED: Mapping[str, Greedy] = {
    "nobody": nothing,
    "50 parallel compares of one client": floods,
    "two unread looks of 400 words and four recipes, every 8 s": looks,
    "16 trainings of one client": trains,
    "two downloads that take long": downloads,
}


@contextlib.contextmanager
def _beside(greedy: Greedy, url: str) -> Iterator[Callable[[], str]]:
    """Somebody greedy in a process of its own, which has had a moment to begin.

    Yields:
        What tells how many of its calls were taken and how many refused so far.
    """
    context = multiprocessing.get_context("spawn")
    taken, refused, ready = context.Value("i", 0), context.Value("i", 0), context.Event()
    process = context.Process(target=_run, args=(greedy, url, taken, refused, ready), daemon=True)
    process.start()
    try:
        if not ready.wait(STARTS):
            raise TimeoutError("the greedy one did not begin")
        time.sleep(3.0)
        yield lambda: f"of the greedy one's {taken.value} taken and {refused.value} refused"
    finally:
        process.kill()
        process.join()


def _run(greedy: Greedy, url: str, taken: Any, refused: Any, ready: Any) -> None:
    os.nice(10)
    ready.set()

    def told(status: int) -> None:
        count = taken if status == 200 else refused
        with count.get_lock():
            count.value += 1

    greedy(url, told)


def _at_once(work: Callable[[int], None], count: int) -> None:
    threads = [
        threading.Thread(target=work, args=(number,), daemon=True) for number in range(count)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
