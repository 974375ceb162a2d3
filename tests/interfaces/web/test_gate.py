"""What the gate lets through, by real requests to a real server."""

import asyncio
import contextlib
import gc
import json
import re
import time
from collections import Counter
from dataclasses import replace
from http.client import HTTPConnection
from types import CoroutineType

import httpx
import pytest
from loops import finished
from starlette.responses import JSONResponse

from heads.interfaces.web import call_queue, server
from heads.interfaces.web.middleware import Gate, is_known
from heads.interfaces.web.visitors import GRACE, Visitors
from heads.settings import PUBLIC

API = "/gradio_api"
RECIPES = ("mean+linear", "cls+linear", "cls+roberta", "max+linear")
UPLOAD = f"{API}/upload"


@pytest.fixture(scope="module")
def public_url(place, serve):
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("HEADS_PUBLIC", "1")
        patch.setenv("HEADS_PROXIES", "127.0.0.1")
        yield from serve()


def asked(text, recipes=("mean+linear",)):
    """The arguments of `compare`, and the first ones of `look`."""
    return [text, "", list(recipes), "all-MiniLM-L6-v2", "", "joint"]


def post(url, path, data, **headers):
    return httpx.post(url.rstrip("/") + path, json={"data": data}, headers=headers, timeout=60)


@pytest.mark.parametrize("path", ["/", "/config", f"{API}/info", f"{API}/queue/status"])
def test_a_foreign_host_is_refused(page_url, path):
    url = page_url.rstrip("/") + path
    headers = {"Host": "evil.example", "Origin": "http://evil.example"}
    for method in ("GET", "OPTIONS"):
        answer = httpx.request(method, url, headers=headers)
        assert answer.status_code == 403
        assert "access-control-allow-origin" not in answer.headers
    assert httpx.get(url).status_code == 200


def test_another_page_may_not_use_the_app(page_url):
    url = page_url.rstrip("/")
    cases = [
        {"Origin": "http://evil.example"},
        {"Origin": "null"},
        {"Origin": "http://localhost:1"},
        {"Sec-Fetch-Site": "cross-site", "Sec-Fetch-Mode": "no-cors"},
        {"Sec-Fetch-Site": "same-site", "Sec-Fetch-Mode": "cors"},
    ]
    for headers in cases:
        answers = [
            httpx.post(url + UPLOAD, files={"files": ("a.csv", b"text,label")}, headers=headers),
            post(page_url, f"{API}/call/parts", [], **headers),
            httpx.get(f"{url}/config", headers=headers),
        ]
        assert {answer.status_code for answer in answers} == {403}, headers
    own = {"Origin": url, "Sec-Fetch-Site": "same-origin", "Sec-Fetch-Mode": "cors"}
    assert httpx.get(f"{url}/config", headers=own).status_code == 200
    link = {"Sec-Fetch-Site": "cross-site", "Sec-Fetch-Mode": "navigate"}
    assert httpx.get(f"{url}/", headers=link).status_code == 200, "a link from elsewhere opens it"


def test_in_public_programs_of_other_pages_may_ask(public_url):
    answer = post(public_url, f"{API}/call/parts", [], Origin="http://other.example")
    assert answer.status_code == 200


@pytest.mark.parametrize(
    ("name", "known"),
    [
        ("localhost", True), ("app.localhost", True), ("127.0.0.1", True), ("[::1]", True),
        ("192.168.1.7", True), ("localhost.evil.example", False), ("", False), ("evil", False),
    ],
)  # fmt: skip
def test_names_that_the_app_goes_by(name, known, monkeypatch):
    assert is_known(name, is_public=False) == known
    monkeypatch.setenv("HEADS_HOSTS", "evil, other.example")
    assert is_known(name, is_public=False) == (known or name == "evil")
    assert is_known(name, is_public=True) == (known or name == "evil")


@pytest.mark.parametrize(
    "path",
    [
        f"{API}/deep_link?session_hash=x", "/monitoring", "/monitoring/summary", "/runs",
        f"{API}/proxy=http://127.0.0.1/", f"{API}/vibe-code/", f"{API}/custom_component/a/b/c/d",
        "/docs", "/redoc", "/openapi.json",
    ],
)  # fmt: skip
def test_what_neither_page_nor_program_needs_is_not_there(page_url, path):
    assert httpx.get(page_url.rstrip("/") + path).status_code == 404


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
    for count, refused in ((1, False), (2, True)):
        answer = httpx.post(
            public_url.rstrip("/") + UPLOAD,
            content=part * count + b"--bar--\r\n",
            headers={"Content-Type": kind, "X-Forwarded-For": "10.0.0.70"},
        )
        assert (answer.status_code != 200) == refused, answer.text
    assert "At most 1 file" in answer.text


def test_files_come_in_a_form_or_not_at_all(public_url):
    for kind in ("multipart/form-data", "text/plain", ""):
        answer = httpx.post(
            public_url.rstrip("/") + UPLOAD, content=b"x", headers={"Content-Type": kind}
        )
        assert answer.status_code == 400
        assert "as a form" in answer.text


@pytest.mark.parametrize("name", ["a" * 65, "a<gradio-sep>b", "a b"])
def test_names_that_callers_make_up_are_names(public_url, name):
    url = public_url.rstrip("/") + API
    body = {"data": [], "session_hash": name, "fn_index": 0}
    assert httpx.post(f"{url}/queue/join", json=body).status_code == 400
    assert httpx.get(f"{url}/queue/data", params={"session_hash": name}).status_code == 400
    assert httpx.get(f"{url}/upload_progress", params={"upload_id": name}).status_code == 400
    long = "a" * 65
    assert httpx.get(f"{url}/call/compare/{long}").status_code == 400


def test_answers_that_nobody_reads_count_as_calls_and_end(public_url):
    url = f"{public_url.rstrip('/')}{API}/call/parts"

    def asked_from(address):
        return httpx.post(url, json={"data": []}, headers={"X-Forwarded-For": address}).status_code

    statuses = [asked_from("10.0.0.80") for _ in range(PUBLIC.calls_each)]
    assert set(statuses) == {200}
    time.sleep(GRACE + 2)  # by then all of them are answered, or ended
    assert asked_from("10.0.0.80") == 429
    assert asked_from("10.0.0.81") == 200


def test_calls_that_are_being_sent_count_already():
    async def told():
        is_over = asyncio.Event()

        async def app(scope, receive, send):
            await is_over.wait()
            await JSONResponse({})(scope, receive, send)

        gate = Gate(
            app=app, visitors=Visitors(), under_way=Counter, limits=replace(PUBLIC, calls_each=2)
        )
        transport = httpx.ASGITransport(gate, client=("10.0.0.1", 1))
        async with httpx.AsyncClient(transport=transport, base_url="http://localhost") as line:
            posts = [
                asyncio.create_task(line.post(f"{API}/call/parts", json={"data": []}))
                for _ in range(3)
            ]
            done, _ = await asyncio.wait(posts, timeout=5, return_when=asyncio.FIRST_COMPLETED)
            refused = [post.result().status_code for post in done]
            is_over.set()
            answers = await asyncio.gather(*posts)
            again = await line.post(f"{API}/call/parts", json={"data": []})
            return refused, sorted(one.status_code for one in answers), again.status_code

    assert finished(told()) == ([429], [200, 200, 429], 200)


def test_two_equal_files_are_two(public_url):
    url = public_url.rstrip("/") + UPLOAD
    one, other = (httpx.post(url, files={"files": ("a.csv", b"a,b")}).json() for _ in range(2))
    assert one != other


@pytest.mark.parametrize("path", [f"{API}/component_server", f"{API}/process_recording"])
def test_nor_are_doors_into_components(page_url, path):
    assert httpx.post(page_url.rstrip("/") + path, json={}).status_code == 404


def test_answers_carry_headers_of_safety(page_url):
    for path in ("/", "/config", f"{API}/nonsense"):
        headers = httpx.get(page_url.rstrip("/") + path).headers
        assert headers["x-content-type-options"] == "nosniff"
        assert "default-src 'self'" in headers["content-security-policy"]
        assert "frame-ancestors 'self'" in headers["content-security-policy"]


def test_a_body_that_is_too_large_is_not_read(public_url):
    begun = time.perf_counter()
    line = HTTPConnection(httpx.URL(public_url).netloc.decode(), timeout=10)
    line.putrequest("POST", f"{API}/call/compare")
    line.putheader("Content-Length", "60000000")
    line.endheaders()
    answer = line.getresponse()
    assert (answer.status, "1 MB" in json.loads(answer.read())["detail"]) == (413, True)
    line.close()
    assert time.perf_counter() - begun < 1
    pieces = (b" " * 100_000 for _ in range(100))  # with no length said
    answer = httpx.post(public_url + "gradio_api/call/compare", content=pieces)
    assert answer.status_code == 413


def test_one_file_at_a_time_and_of_its_size(public_url):
    url = public_url + "gradio_api/upload"
    many = [("files", (f"{number}.csv", b"text,label\n")) for number in range(300)]
    answer = httpx.post(url, files=many)
    assert (answer.status_code, "1 file" in answer.text) == (413, True)
    large = httpx.post(url, files={"files": ("a.csv", b"x" * (PUBLIC.upload_bytes + 50_000))})
    assert large.status_code == 413
    assert httpx.post(url, files={"files": ("a.csv", b"text,label\n")}).status_code == 200


@pytest.mark.parametrize(
    "body",
    [
        {"fn_index": -1, "data": [], "session_hash": "x"},
        {"fn_index": 9999, "data": [], "session_hash": "x"},
        {"fn_index": "x", "data": []},
        {"data": 7, "session_hash": "x"},
        [],
    ],
)
def test_a_call_that_cannot_be_gets_a_sentence(page_url, body):
    answer = httpx.post(page_url + "gradio_api/queue/join", json=body)
    assert answer.status_code in (400, 422)
    assert answer.json()["detail"].endswith(".")
    assert not re.search(r"Traceback|null|/home|/tmp", answer.text)


def test_an_endpoint_that_is_not_there_gets_a_sentence(page_url):
    for path in ("call/nonsense", "call/v2/nonsense", "run/nonsense"):
        answer = post(page_url, f"{API}/{path}", [])
        assert answer.status_code == 400
        assert "Use via API" in answer.json()["detail"]


def test_nothing_is_called_past_the_queue_but_what_has_none(page_url):
    answer = post(page_url, f"{API}/run/compare", asked("Good."))
    assert answer.status_code == 404
    config = httpx.get(page_url + "config").json()["dependencies"]
    in_browser = next(one["id"] for one in config if one["js"] and not one["backend_fn"])
    answer = httpx.post(
        page_url + "gradio_api/run/predict", json={"fn_index": in_browser, "data": []}
    )
    assert "browser" in answer.json()["error"]


def test_who_floods_is_refused_and_nobody_else(public_url):
    """Also where a session's hash is another one each time: an address is the key."""
    url, refused = public_url + "gradio_api/call/look", []

    data = [*asked("A film of which one remembers every word, " * 40)[:5], "", "", "others"]
    with httpx.Client(headers={"X-Forwarded-For": "192.0.2.1"}, timeout=60) as client:
        for number in range(PUBLIC.calls_each + 20):
            answer = client.post(url, json={"data": data, "session_hash": f"s{number}"})
            refused.append(answer.status_code)
        other = {"X-Forwarded-For": "192.0.2.2"}
        event = post(public_url, f"{API}/call/parts", [], **other)
        assert event.status_code == 200
        event = event.json()["event_id"]
        found = httpx.get(f"{public_url}gradio_api/call/parts/{event}", timeout=60)
        assert "event: complete" in found.text
    assert refused.count(429) >= 1
    assert set(refused) == {200, 429}


def test_an_address_is_taken_from_a_named_proxy_alone(page_url, public_url):
    """`page_url` names none, though a request comes from this very machine."""
    import heads.interfaces.web.server as server

    seen = []
    original = server.address_of
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(
            server, "address_of", lambda client: seen.append(client[0]) or original(client)
        )
        for url in (page_url, public_url):
            post(url, f"{API}/call/parts", [], **{"X-Forwarded-For": "192.0.2.9"})
            time.sleep(1)
    assert "192.0.2.9" in seen
    assert "127.0.0.1" in seen


def test_what_nobody_reads_ends_and_holds_up_nobody(public_url):
    """A call that is posted and never read keeps no core longer than a reader may take to come."""
    long = "A film of which one remembers every word, " * 40
    compared(public_url, "All heads are trained now.", RECIPES)
    alone = looked(public_url, "Bad.")
    begun = time.perf_counter()
    for _ in range(2):
        data = [*asked(long, RECIPES)[:5], "", "", "others"]
        assert post(public_url, f"{API}/call/look", data).status_code == 200
    took = []
    while time.perf_counter() - begun < GRACE + 6:
        first = time.perf_counter()
        compared(public_url, f"Number {len(took)}.", RECIPES)
        took.append(time.perf_counter() - first)
    assert max(took) < 5, took
    told = "what nobody reads has given its slot back"
    assert looked(public_url, "Good.") < 3 * alone + 3, told  # on a busy machine both take longer


def looked(url, text):
    """Seconds that an answer takes which needs one of the slots."""
    first = time.perf_counter()
    answered(url, "look", [*asked(text, RECIPES[:1])[:5], "", "", "others"])
    return time.perf_counter() - first


def compared(url, text, recipes):
    answered(url, "compare", asked(text, recipes))


def answered(url, name, data):
    event = post(url, f"{API}/call/{name}", data).json()["event_id"]
    found = httpx.get(f"{url}gradio_api/call/{name}/{event}", timeout=120)
    assert "event: complete" in found.text, found.text


def test_nobody_has_the_server_fetch_an_address(public_url):
    url = public_url.rstrip("/")
    for path in ("file=https://example.org/x.png", "file=http://127.0.0.1:1/x"):
        assert httpx.get(f"{url}{API}/{path}").status_code == 404


def test_a_cancel_is_small_enough_to_be_read(public_url):
    asked = {"event_id": "a", "session_hash": "b", "fn_index": 0}
    url = f"{public_url.rstrip('/')}{API}/cancel"
    assert httpx.post(url, json=asked | {"more": "x" * 30_000}).status_code == 413


def test_heartbeats_go_by_names_of_sessions(public_url):
    url = f"{public_url.rstrip('/')}{API}/heartbeat/"
    assert httpx.get(url + "x" * 10_000).status_code == 400
    with httpx.stream("GET", url + "session") as answer:
        assert answer.status_code == 200


def test_nobody_says_what_the_server_is_called(page_url, public_url):
    for url in (page_url, public_url):
        claims = {"X-Gradio-Server": "http://evil.example"}
        if url == page_url:  # where no proxy is named, none may say it either
            claims["X-Forwarded-Host"] = "evil.example"
        for headers in (claims, {}):
            answer = httpx.get(f"{url.rstrip('/')}{API}/info", headers=headers)
            assert answer.status_code == 200
            assert "evil.example" not in answer.text


def heartbeats(session):
    """Gradio's tasks beside the streams of a session that go on."""
    found = [one for one in gc.get_objects() if isinstance(one, CoroutineType) and one.cr_frame]
    named = [one for one in found if one.__qualname__.endswith(call_queue.HEARTBEAT)]
    frames = [(one, one.cr_frame) for one in named]  # without a frame it has ended since
    return [one for one, frame in frames if frame and frame.f_locals.get("session_hash") == session]


@pytest.mark.slow  # it waits until what nobody reads is looked at
def test_heartbeats_of_closed_streams_end(public_url):
    url, session = public_url.rstrip("/") + API, "of-many-readers"
    body = {"data": asked("Not bad at all."), "session_hash": session}
    httpx.post(f"{url}/call/compare", json=body, timeout=60).raise_for_status()
    with contextlib.ExitStack() as streams:
        for _ in range(6):
            query = {"session_hash": session}
            streams.enter_context(httpx.stream("GET", f"{url}/queue/data", params=query))
        assert heartbeats(session)
    end = time.monotonic() + 3 * server.FORGETS
    while heartbeats(session) and time.monotonic() < end:
        time.sleep(0.2)
    assert not heartbeats(session)


def test_handlers_of_the_page_alone_have_no_names_by_which_others_call_them(page_url):
    handlers = httpx.get(page_url + "config").json()["dependencies"]
    names = {one["api_name"] for one in handlers if one["api_visibility"] == "private"}
    assert names
    for name in names:
        assert post(page_url, f"{API}/call/{name}", []).status_code in (404, 405), name
        assert post(page_url, f"{API}/call/v2/{name}", []).status_code >= 400, name
    assert post(page_url, f"{API}/call/parts", []).status_code == 200
