"""Slots go round by address, and calls end with their readers."""

import asyncio
import json
import time

import pytest
from fake_hub import Repository
from loops import finished
from served import API, served
from tiny_models import save_tiny

from heads.interfaces.web.location import Location
from heads.interfaces.web.places.answers import MOST_PENDING, PendingQuestions
from heads.interfaces.web.slots import Slots
from heads.interfaces.web.visitors import GRACE, LEFT, TICK, Visitors, address_of
from heads.interruption import Interrupted


def nothing():
    pass


async def worked(slots, key, done, seconds=0.01):
    await slots.acquire(key, nothing)
    await asyncio.sleep(seconds)
    done.append(key)
    slots.release(key)


def test_who_asks_once_goes_before_who_asks_fifty_times():
    async def all_of_them():
        slots, done = Slots(2), []
        hog = [asyncio.create_task(worked(slots, "hog", done)) for _ in range(50)]
        await asyncio.sleep(0)
        others = [asyncio.create_task(worked(slots, name, done)) for name in "abcde"]
        await asyncio.gather(*others)
        assert done.count("hog") <= 8
        await asyncio.gather(*hog)
        return done

    done = finished(all_of_them())
    assert len(done) == 55


def test_no_more_at_once_than_there_are_and_of_a_page_in_order():
    async def order():
        slots, begun, now, most = Slots(4, is_ordered=True), [], [0], [0]

        async def one(key, number):
            await slots.acquire(key, nothing)
            begun.append((key, number))
            now[0] += 1
            most[0] = max(most[0], now[0])
            await asyncio.sleep(0.001 * (10 - number))
            now[0] -= 1
            slots.release(key)

        await asyncio.gather(*(one(key, number) for number in range(5) for key in "abcdef"))
        for key in "abcdef":
            assert [number for name, number in begun if name == key] == list(range(5))
        return most[0]

    assert finished(order()) == 4


def test_who_leaves_the_line_holds_up_nobody():
    async def leaving():
        slots, done, gone = Slots(1), [], []
        await slots.acquire("first", nothing)

        def check():
            if gone:
                raise Interrupted

        waits = asyncio.create_task(slots.acquire("gone", check))
        later = asyncio.create_task(worked(slots, "later", done))
        await asyncio.sleep(0.01)
        gone.append(True)
        with pytest.raises(Interrupted):
            await waits
        assert done == []
        slots.release("first")
        await asyncio.wait_for(later, 1)
        cancelled = asyncio.create_task(slots.acquire("x", nothing))
        await asyncio.wait_for(cancelled, 1)
        waiting = asyncio.create_task(slots.acquire("y", nothing))
        await asyncio.sleep(0.01)
        waiting.cancel()
        slots.release("x")
        await asyncio.wait_for(worked(slots, "z", done), 1)
        return done

    assert finished(leaving()) == ["later", "z"]


def test_an_event_is_waited_for_while_it_is_read_and_a_moment_before():
    visitors = Visitors()
    assert visitors.is_waited_for("event", "session", 0.0)
    visitors.now = GRACE
    assert not visitors.is_waited_for("event", "session", 0.0)
    visitors.now = 100.0
    with visitors.reading("session"):
        assert visitors.is_waited_for("event", "session", 0.0)
        assert not visitors.is_waited_for("other", "somebody", 0.0)
    assert visitors.is_waited_for("event", "session", 0.0), "it may be read on at once"
    visitors.now += LEFT
    assert not visitors.is_waited_for("event", "session", 0.0)
    assert visitors.is_waited_for("next", "session", visitors.now), "a later one has time"


def test_the_clock_of_readers_stands_while_the_server_hears_nothing():
    async def busy():
        visitors = Visitors()
        clock = asyncio.create_task(visitors.keep_time())
        await asyncio.sleep(0)
        time.sleep(0.5)  # the loop itself is held up
        await asyncio.sleep(0.05)
        stood = visitors.now
        await asyncio.sleep(0.25)
        clock.cancel()
        return stood, visitors.now

    stood, gone = finished(busy())
    assert stood <= 2 * TICK
    assert gone > stood


def test_a_cancelled_event_ends_though_its_page_stays():
    visitors = Visitors()
    with visitors.reading("session"):
        visitors.cancel("event")
        with pytest.raises(Interrupted):
            visitors.check("event", "session", visitors.now)
        visitors.check("another", "session", visitors.now)


@pytest.mark.parametrize(
    ("client", "address"),
    [
        (("192.0.2.7", 80), "192.0.2.7"),
        (("2001:db8::7", 80), "2001:db8::/64"),
        (("::ffff:192.0.2.7", 80), "192.0.2.7"),
        (("unix", 0), "unix"),
        (None, ""),
    ],
)
def test_an_address_is_a_host_or_a_household(client, address):
    assert address_of(client) == address


def test_of_questions_a_bounded_number_is_known():
    questions = PendingQuestions()
    for number in range(MOST_PENDING + 50):
        question = questions.begin(f"v{number}", Location())
    assert len(questions._of) == MOST_PENDING
    other = questions.begin("v0", Location())
    questions.answered("v0", question)
    assert questions.of("v0") is other
    questions.answered("v0", other)
    assert questions.of("v0") is None


@pytest.mark.slow
def test_a_call_that_is_cancelled_while_it_only_waits_takes_no_slot_with_it(fake, tmp_path):
    fake.models["a/slow"] = Repository(folder=save_tiny(tmp_path / "tiny", "bert"), seconds=60)
    with served(tmp_path, public=False) as server:
        _, config = server.ask("GET", "/config")
        numbers = {one["api_name"]: one["id"] for one in json.loads(config)["dependencies"]}
        asked = ["A fine day.", "", ["mean+linear"]]
        for _ in range(3):  # there are two slots
            status, said = server.ask(
                "POST", f"{API}/call/compare", {"data": [*asked, "a/slow", "", "joint"]}
            )
            assert status == 200, said
            time.sleep(2)
            event = json.loads(said)["event_id"]
            wanted = {"session_hash": event, "event_id": event, "fn_index": numbers["compare"]}
            assert server.ask("POST", f"{API}/cancel", wanted)[0] == 200
        kind, value = server.call("compare", [*asked, "all-MiniLM-L6-v2", "", "joint"])
        assert kind == "complete", value


def test_who_has_no_address_stops_no_line():
    async def all_of_them():
        slots, done = Slots(1), []
        await slots.acquire("first", nothing)
        others = [asyncio.create_task(worked(slots, key, done)) for key in ("", "b", "c")]
        await asyncio.sleep(0)
        slots.release("first")
        await asyncio.wait_for(asyncio.gather(*others), 30)
        return done

    assert finished(all_of_them()) == ["", "b", "c"]


def test_of_slots_for_all_an_address_has_one_where_only_that_is_allowed():
    async def work():
        slots = Slots(3, each=1)
        await slots.acquire("a", lambda: None)
        second = asyncio.create_task(slots.acquire("a", lambda: None))
        await slots.acquire("b", lambda: None)
        await asyncio.sleep(0)
        assert not second.done()
        slots.release("a")
        await second

    finished(work())
