"""What a server writes: JSON lines, bounded, without a word that somebody sent."""

import ast
import contextlib
import io
import json
import logging
import sys
import threading
import warnings
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from served import API, served

from heads.extras.public import logs

ROOT = Path(__file__).parents[3]
CANARY = "qcanaryq"
FORGED = f'{CANARY}\n{{"time": "now", "level": "ERROR", "event": "{CANARY}"}}\r\nTraceback'
VALUES = [
    FORGED, None, True, 7, -1, 1e999, float("nan"), 10**40, "", [FORGED], {CANARY: FORGED},
    [[FORGED]], {"path": f"/tmp/{CANARY}", "meta": {"_type": "gradio.FileData"}},
]  # fmt: skip


@contextlib.contextmanager
def written():
    """The events that are written within it; what is printed otherwise is lost."""
    stream, events = io.StringIO(), []
    with contextlib.redirect_stderr(stream), contextlib.redirect_stdout(stream), logs.begin():
        yield events
    events += [json.loads(line) for line in stream.getvalue().splitlines()]


def fails(depth=0):
    try:
        raise ValueError(FORGED)
    except ValueError as error:
        raise KeyError(CANARY) from error


def test_an_error_is_told_by_its_type_and_place():
    with written() as events:
        log = logging.getLogger("heads")
        try:
            fails()
        except KeyError as error:
            log.error("bug %s", "AB12", exc_info=error, extra={"code": "AB12"})
    (told,) = events
    assert (told["event"], told["code"], told["type"]) == ("bug %s", "AB12", "KeyError")
    functions = [place.split(":")[-2] for place in told["where"]]
    assert functions == ["test_an_error_is_told_by_its_type_and_place", "fails"]
    assert told["causes"][0]["type"] == "ValueError"
    assert CANARY not in json.dumps(told)


def test_whatever_writes_is_told_of_without_its_words():
    with written() as events:
        other = logging.getLogger("some.library")
        other.warning(f"{FORGED} %s", FORGED)
        own = logging.StreamHandler()  # as Transformers has one
        chatty = logging.getLogger("chatty.library")
        chatty.addHandler(own)
        chatty.propagate = False
        chatty.warning(FORGED)
        chatty.removeHandler(own)
        warnings.showwarning(UserWarning(FORGED), UserWarning, __file__, 3)
        print(FORGED)  # noqa: T201
        print(FORGED, file=sys.stderr)  # noqa: T201
        thread = threading.Thread(target=fails)
        thread.start()
        thread.join()
    assert CANARY not in json.dumps(events)
    assert {event["logger"] for event in events} == {"some.library", "print", "warnings", "heads"}
    assert [event["type"] for event in events if "type" in event] == ["UserWarning", "KeyError"]
    assert len(events) == 6


def test_what_repeats_is_counted():
    with written() as events:
        log = logging.getLogger("heads")
        for number in range(100):
            try:
                fails()
            except KeyError as error:
                log.error("bug %s", number, exc_info=error, extra={"code": str(number)})
    assert len(events) == logs.MOST_EACH + 1
    assert events[-1]["repeated"] == 100 - logs.MOST_EACH


def test_no_line_is_longer_than_said():
    long = logs.encode_line({"says": "é\n" * 100_000, "where": ["m:f:1" * 50] * 500})
    assert len(long) <= logs.MOST
    assert "\n" not in long
    json.loads(long)


def test_tracebacks_are_for_debugging_at_home_alone(monkeypatch):
    with written() as events:
        monkeypatch.setenv("HEADS_DEBUG", "1")
        monkeypatch.setenv("HEADS_PUBLIC", "1")
        try:
            fails()
        except KeyError as error:
            logging.getLogger("heads").error("bug", exc_info=error)
    assert len(events) == 1


def test_what_is_logged_is_a_text_of_the_code():
    """A message that is put together holds whatever it is put together of."""
    calls = []
    for path in (ROOT / "heads").rglob("*.py"):
        text = path.read_text("utf-8")
        for node in ast.walk(ast.parse(text)) if "log." in text else ():
            function = node.func if isinstance(node, ast.Call) else None
            if isinstance(function, ast.Attribute) and getattr(function.value, "id", "") == "log":
                calls.append(node)
    assert len(calls) > 5
    assert all(isinstance(one.args[0], ast.Constant) for one in calls)


def joined(server, number, data, session):
    """A call of any function of the page by its number, read to its end or for a while."""
    body = {"data": data, "fn_index": number, "session_hash": session}
    if server.ask("POST", f"{API}/queue/join", body)[0] == 200:
        with contextlib.suppress(TimeoutError):
            server.ask("GET", f"{API}/queue/data?session_hash={session}", None, 3)


@pytest.fixture(scope="module")
def attacked(tmp_path_factory):
    """All that a public server writes whose functions get what they do not take."""
    folder = tmp_path_factory.mktemp("attacked")
    with served(folder) as server:
        config = json.loads(server.ask("GET", "/config")[1])
        calls = []
        for one in config["dependencies"]:
            width = len(one["inputs"])
            some = VALUES[one["id"] % 7 :: 2 if one["api_visibility"] == "public" else 7]
            calls += [(one["id"], [value] * width) for value in some]
        with ThreadPoolExecutor(8) as pool:
            list(pool.map(lambda at: joined(server, *at[1], f"{CANARY}{at[0]}"), enumerate(calls)))
        for path in (f"/{CANARY}", f"{API}/call/{CANARY}", f"{API}/file={CANARY}%0a{{}}"):
            server.ask("GET", path)
            server.ask("POST", path, FORGED)
        for size in (900_000, 2_000_000):
            server.call("compare", [CANARY * (size // 8)] * 6)
    return server.written.read_bytes(), len(calls)


@pytest.mark.slow
def test_a_server_writes_lines_and_no_text_of_a_visitor(attacked):
    written, calls = attacked
    assert calls > 100
    assert CANARY.encode() not in written
    # What C++ writes, past Python, of a server that is stopped while it computes.
    written = written.replace(b"terminate called without an active exception\n", b"")
    said = ("Starting.", "Public mode", "  ", "Head to Head is at")  # to whoever started it
    told = [line for line in written.decode("ascii").splitlines() if not line.startswith(said)]
    assert [line for line in told if not line.startswith("{")] == []
    lines = [json.loads(line) for line in told]
    assert all({"time", "level", "logger", "event"} <= set(line) for line in lines)
    assert len(written) < 100_000


@pytest.mark.slow
def test_a_large_body_makes_no_large_log(tmp_path):
    """At home, where it is not refused for its size: Gradio would print all of it."""
    with served(tmp_path, public=False) as server:
        config = json.loads(server.ask("GET", "/config")[1])
        chosen = {one["id"] for one in config["components"] if one["type"] in ("dropdown", "radio")}
        call = next(one for one in config["dependencies"] if chosen & set(one["inputs"]))
        before = server.written.stat().st_size
        some = [FORGED + CANARY * 250_000 if one in chosen else None for one in call["inputs"]]
        joined(server, call["id"], some, CANARY)
        server.call("compare", [FORGED, {CANARY: CANARY * 2_000_000}])
    assert server.written.stat().st_size - before < 4_000
    assert CANARY.encode() not in server.written.read_bytes()
