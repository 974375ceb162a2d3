"""What the gate lets through, by real requests to a real server."""

import json
import re

import httpx
import pytest

from heads.interfaces.web.middleware import is_known

API = "/gradio_api"
UPLOAD = f"{API}/upload"


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
        "/docs", "/redoc", "/openapi.json", f"{API}/component_server", f"{API}/process_recording",
        f"{API}/file=https://example.org/x.png", f"{API}/file=http://127.0.0.1:1/x",
    ],
)  # fmt: skip
def test_what_neither_page_nor_program_needs_is_not_there(page_url, path):
    url = page_url.rstrip("/") + path
    assert (httpx.get(url).status_code, httpx.post(url, json={}).status_code) == (404, 404)


@pytest.mark.parametrize("name", ["a" * 65, "a<gradio-sep>b", "a b"])
def test_names_that_callers_make_up_are_names(page_url, name):
    url = page_url.rstrip("/") + API
    body = {"data": [], "session_hash": name, "fn_index": 0}
    assert httpx.post(f"{url}/queue/join", json=body).status_code == 400
    assert httpx.get(f"{url}/queue/data", params={"session_hash": name}).status_code == 400
    assert httpx.get(f"{url}/upload_progress", params={"upload_id": name}).status_code == 400
    long = "a" * 65
    assert httpx.get(f"{url}/call/compare/{long}").status_code == 400


def test_answers_carry_headers_of_safety(page_url):
    for path in ("/", "/config", f"{API}/nonsense"):
        headers = httpx.get(page_url.rstrip("/") + path).headers
        assert headers["x-content-type-options"] == "nosniff"
        assert "default-src 'self'" in headers["content-security-policy"]
        assert "frame-ancestors 'self'" in headers["content-security-policy"]


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


def test_half_a_surrogate_pair_is_answered(page_url):
    call = page_url + "gradio_api/call/compare"
    body = json.dumps({"data": asked("Fine \ud83d.")})  # a text that no encoding has
    event = httpx.post(call, content=body, headers={"Content-Type": "application/json"}).json()
    answer = httpx.get(f"{call}/{event['event_id']}", timeout=120)
    assert "event: complete" in answer.text
    assert "Fine ?." in answer.text


def test_what_is_no_call_of_an_endpoint_gets_a_sentence(page_url):
    for path in ("call/nonsense", "call/v2/nonsense", "run/nonsense"):
        answer = post(page_url, f"{API}/{path}", [])
        assert answer.status_code == 404
        assert answer.json()["detail"].endswith(".")
    for text in ("[]", "{", "7"):  # no object at all
        answer = httpx.post(page_url + "gradio_api/call/v2/families", content=text)
        assert answer.status_code in (400, 422), text


def test_nothing_is_called_past_the_queue_but_what_has_none(page_url):
    answer = post(page_url, f"{API}/run/compare", asked("Good."))
    assert answer.status_code == 404
    config = httpx.get(page_url + "config").json()["dependencies"]
    in_browser = next(one["id"] for one in config if one["js"] and not one["backend_fn"])
    answer = httpx.post(
        page_url + "gradio_api/run/predict", json={"fn_index": in_browser, "data": []}
    )
    assert "could not take this call" in answer.json()["error"]


def test_a_cancel_is_small_enough_to_be_read(page_url):
    asked = {"event_id": "a", "session_hash": "b", "fn_index": 0}
    url = f"{page_url.rstrip('/')}{API}/cancel"
    assert httpx.post(url, json=asked | {"more": "x" * 30_000}).status_code == 413


def test_heartbeats_go_by_names_of_sessions(page_url):
    url = f"{page_url.rstrip('/')}{API}/heartbeat/"
    assert httpx.get(url + "x" * 10_000).status_code == 400
    with httpx.stream("GET", url + "session") as answer:
        assert answer.status_code == 200


def test_handlers_of_the_page_alone_have_no_names_by_which_others_call_them(page_url):
    handlers = httpx.get(page_url + "config").json()["dependencies"]
    names = {one["api_name"] for one in handlers if one["api_visibility"] == "private"}
    assert len(names) > 50
    for name in sorted(names)[::8]:
        assert post(page_url, f"{API}/call/{name}", []).status_code in (404, 405), name
        assert post(page_url, f"{API}/call/v2/{name}", []).status_code >= 400, name
    assert post(page_url, f"{API}/call/parts", []).status_code == 200


def test_nobody_says_what_the_server_is_called(page_url):
    claims = {"X-Gradio-Server": "http://evil.example", "X-Forwarded-Host": "evil.example"}
    answer = httpx.get(f"{page_url.rstrip('/')}{API}/info", headers=claims)
    assert answer.status_code == 200
    assert "evil.example" not in answer.text
