"""What a public server lets through, by real requests to a real server."""

import asyncio
import contextlib
import gc
import time
from dataclasses import replace
from functools import partial
from http.client import HTTPConnection
from types import CoroutineType

import httpx
import pytest
from loops import finished
from starlette.responses import JSONResponse

from heads.extras.public.middleware import Bounds, protect_app
from heads.extras.public.settings import TRAFFIC
from heads.interfaces.web import visitors
from heads.settings import PUBLIC

API = "/gradio_api"
RECIPES = ("mean+linear", "cls+linear")
UPLOAD = f"{API}/upload"
HEARTBEAT = "queue_data_helper.<locals>.heartbeat"  # Gradio's task beside each stream


def asked(text, recipes=("mean+linear",)):
    """The arguments of `compare`."""
    return [text, "", list(recipes), "all-MiniLM-L6-v2", "", "joint"]


def looking(text, recipes=("mean+linear",)):
    """The arguments of `look`, whose answer needs one of the slots."""
    return [*asked(text, recipes)[:5], "", "", "others"]


def post(url, path, data, **headers):
    return httpx.post(url + path, json={"data": data}, headers=headers, timeout=60)


def test_in_public_programs_of_other_pages_may_ask(public_url):
    answer = post(public_url, f"{API}/call/parts", [], Origin="http://other.example")
    assert answer.status_code == 200


@pytest.mark.parametrize(
    "kind",
    [
        "multipart/form-data; boundary=bar", "multipart/form-data; Boundary=bar",
        "multipart/form-data; boundary =bar", 'multipart/form-data; boundary="bar"',
        "multipart/form-data; xboundary=a; boundary=bar", "Multipart/Form-Data; BOUNDARY=bar",
    ],
)  # fmt: skip
def test_two_files_are_two_however_the_form_says_so(public_url, kind):
    part = b'--bar\r\nContent-Disposition: form-data; name="files"; filename="a.csv"\r\n\r\na\r\n'
    headers = {"Content-Type": kind, "X-Forwarded-For": "10.0.0.70"}
    for content, status in ((part, 200), (part * 2, 413)):
        answer = httpx.post(public_url + UPLOAD, content=content + b"--bar--\r\n", headers=headers)
        assert answer.status_code == status, answer.text


@pytest.mark.parametrize("kind", ["multipart/form-data", "text/plain", ""])
def test_files_come_in_a_form_or_not_at_all(public_url, kind):
    answer = httpx.post(public_url + UPLOAD, content=b"x", headers={"Content-Type": kind})
    assert answer.status_code == 400


@pytest.fixture
def grace(monkeypatch):
    """Fewer seconds in which a call must find its reader."""
    monkeypatch.setattr(visitors, "GRACE", 1.5)
    return visitors.GRACE


def test_answers_that_nobody_reads_count_as_calls_and_end(public_url, grace):
    url = f"{public_url}{API}/call/parts"

    def asked_from(address):
        return httpx.post(url, json={"data": []}, headers={"X-Forwarded-For": address}).status_code

    assert {asked_from("10.0.0.80") for _ in range(TRAFFIC.calls_each)} == {200}
    time.sleep(grace + 1)  # by then all of them are answered, or ended
    assert asked_from("10.0.0.80") == 429
    assert asked_from("10.0.0.81") == 200


def test_calls_that_are_being_sent_count_already(monkeypatch):
    monkeypatch.setenv("HEADS_PUBLIC", "1")

    async def told():
        is_over = asyncio.Event()

        async def app(scope, receive, send):
            await is_over.wait()
            await JSONResponse({})(scope, receive, send)

        bounds = Bounds(app=app, traffic=replace(TRAFFIC, calls_each=2))
        transport = httpx.ASGITransport(bounds, client=("10.0.0.1", 1))
        async with httpx.AsyncClient(transport=transport, base_url="http://localhost") as line:
            asked = partial(line.post, f"{API}/call/parts", json={"data": []})
            posts = [asyncio.create_task(asked()) for _ in range(3)]
            done, _ = await asyncio.wait(posts, timeout=5, return_when=asyncio.FIRST_COMPLETED)
            refused = [post.result().status_code for post in done]
            is_over.set()
            answers = await asyncio.gather(*posts)
            again = await asked()
            return refused, sorted(one.status_code for one in answers), again.status_code

    assert finished(told()) == ([429], [200, 200, 429], 200)


def test_two_equal_files_are_two(public_url):
    url = public_url + UPLOAD
    one, other = (httpx.post(url, files={"files": ("a.csv", b"a,b")}).json() for _ in range(2))
    assert one != other


def test_a_body_that_is_too_large_is_not_read(public_url):
    begun = time.perf_counter()
    line = HTTPConnection(httpx.URL(public_url).netloc.decode(), timeout=10)
    line.putrequest("POST", f"{API}/call/compare")
    line.putheader("Content-Length", "60000000")
    line.endheaders()
    answer = line.getresponse()
    assert answer.status == 413
    line.close()
    assert time.perf_counter() - begun < 1
    large = {"files": ("a.csv", b"x" * (PUBLIC.upload_bytes + 50_000))}
    assert httpx.post(public_url + UPLOAD, files=large).status_code == 413
    pieces = (b" " * 100_000 for _ in range(100))  # with no length said
    answer = httpx.post(f"{public_url}{API}/call/compare", content=pieces)
    assert answer.status_code == 413


def test_who_floods_is_refused_and_nobody_else(public_url):
    """Also where a session's hash is another one each time: an address is the key."""
    url, refused = f"{public_url}{API}/call/inspect", []
    data = looking("A film of which one remembers every word, " * 20)
    with httpx.Client(headers={"X-Forwarded-For": "192.0.2.1"}, timeout=60) as client:
        for number in range(TRAFFIC.calls_each + 20):
            answer = client.post(url, json={"data": data, "session_hash": f"s{number}"})
            refused.append(answer.status_code)
        answered(public_url, "parts", [], **{"X-Forwarded-For": "192.0.2.2"})
    assert set(refused) == {200, 429}


def test_an_address_is_taken_from_a_named_proxy_alone(public_url, monkeypatch):
    monkeypatch.setenv("HEADS_PUBLIC", "1")
    asked = {"X-Forwarded-For": "192.0.2.9"}
    for proxies, address in (("127.0.0.1", "192.0.2.9"), ("", "127.0.0.1")):
        monkeypatch.setenv("HEADS_PROXIES", proxies)
        seen = []

        async def app(scope, receive, send, seen=seen):
            seen.append(scope["client"][0])
            await JSONResponse({})(scope, receive, send)

        async def ask(app):
            transport = httpx.ASGITransport(protect_app(app, None), client=("127.0.0.1", 1))
            async with httpx.AsyncClient(transport=transport, base_url="http://localhost") as line:
                await line.get("/", headers=asked)

        finished(ask(app))
        assert seen == [address]


def test_what_nobody_reads_ends_and_holds_up_nobody(public_url, grace):
    """A call that is posted and never read keeps no core longer than a reader may take to come."""
    answered(public_url, "compare", asked("All heads are trained now.", RECIPES))
    alone = answered(public_url, "inspect", looking("Bad."))
    begun = time.perf_counter()
    for _ in range(2):
        data = looking("A film of which one remembers every word, " * 20, RECIPES)
        assert post(public_url, f"{API}/call/inspect", data).status_code == 200
    took = []
    while time.perf_counter() - begun < grace + 3:
        took.append(answered(public_url, "compare", asked(f"Number {len(took)}.", RECIPES)))
    assert max(took) < 5, took
    # What nobody reads has given its slot back; on a busy machine both take longer.
    assert answered(public_url, "inspect", looking("Good.")) < 3 * alone + 3


def answered(url, name, data, **headers):
    """The seconds that an answer takes."""
    first = time.perf_counter()
    event = post(url, f"{API}/call/{name}", data, **headers).json()["event_id"]
    found = httpx.get(f"{url}{API}/call/{name}/{event}", timeout=120)
    assert "event: complete" in found.text, found.text
    return time.perf_counter() - first


def heartbeats(session):
    """Gradio's tasks beside the streams of a session that go on."""
    found = [one for one in gc.get_objects() if isinstance(one, CoroutineType) and one.cr_frame]
    named = [one for one in found if one.__qualname__.endswith(HEARTBEAT)]
    frames = [(one, one.cr_frame) for one in named]  # without a frame it has ended since
    return [one for one, frame in frames if frame and frame.f_locals.get("session_hash") == session]


@pytest.mark.slow
def test_heartbeats_of_closed_streams_end(public_url):
    url, session = public_url + API, "of-many-readers"
    body = {"data": asked("Not bad at all."), "session_hash": session}
    httpx.post(f"{url}/call/compare", json=body, timeout=60).raise_for_status()
    with contextlib.ExitStack() as streams:
        for _ in range(6):
            query = {"session_hash": session}
            streams.enter_context(httpx.stream("GET", f"{url}/queue/data", params=query))
        assert heartbeats(session)
    end = time.monotonic() + 15  # the last of several finds out by itself
    while heartbeats(session) and time.monotonic() < end:
        time.sleep(0.2)
    assert not heartbeats(session)
