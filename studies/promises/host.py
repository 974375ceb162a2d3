"""P3, pages of others: in local mode no foreign name, origin or site gets anything of the app.

By calls, every route that changes or reveals something with every foreign header; and in Chromium
from a hostile page on another port, and from a hostile name that has come to mean this machine,
which is what DNS rebinding does.
"""

import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

import httpx

from studies.promises.browser import EVIL, chromium
from studies.promises.calls import API
from studies.promises.promise import Row
from studies.promises.server import Server, served
from studies.promises.watching import held, row

if TYPE_CHECKING:
    from playwright.sync_api import Browser

READS = ("/", "/config", f"/{API}/info", f"/{API}/openapi.json", f"/{API}/queue/status")
STREAMS = (f"/{API}/heartbeat/abc", f"/{API}/queue/data?session_hash=abc")
CALL: Mapping[str, Any] = {"data": ["A text."], "session_hash": "abc"}
JOINED: Mapping[str, Any] = {"data": [], "fn_index": 0, "session_hash": "abc"}
FILE = {"files": ("a.csv", b"text,label\n", "text/csv")}
WRITES: Mapping[str, Mapping[str, Any]] = {
    f"/{API}/queue/join": {"json": JOINED},
    f"/{API}/call/compare": {"json": CALL},
    f"/{API}/run/compare": {"json": CALL},
    f"/{API}/cancel": {"json": {"session_hash": "abc", "fn_index": 0, "event_id": "abc"}},
    f"/{API}/reset": {"json": {"event_id": "abc"}},
    f"/{API}/upload": {"files": FILE},
}
CORS = "access-control-allow-origin"
# What a hostile page tries on an address: to read, to read without leave, to send a file, a form.
TRIES = """async (base) => {
  const got = [], form = () => { const one = new FormData();
    one.append("files", new File(["text,label"], "a.csv")); return one; };
  const post = { method: "POST", headers: { "Content-Type": "application/json" },
    body: JSON.stringify({ data: ["A text."], session_hash: "abc" }) };
  const tries = [["/config", {}], ["/config", { mode: "no-cors" }], ["/", {}],
    ["/gradio_api/info", { credentials: "include" }], ["/gradio_api/call/compare", post],
    ["/gradio_api/call/compare", { ...post, mode: "no-cors", headers: {} }],
    ["/gradio_api/upload", { method: "POST", body: form() }],
    ["/gradio_api/upload", { method: "POST", body: form(), mode: "no-cors" }]];
  for (const [path, options] of tries) try {
    const answer = await fetch(base + path, options);
    if (answer.ok) got.push(`${path} ${answer.status} ${(await answer.text()).slice(0, 40)}`);
  } catch { }
  return got;
}"""


def measure(short: bool) -> Iterator[Row]:
    """The same in both forms: it is quick."""
    with served(public=False) as server:
        for what, headers in _foreign(server.url).items():
            yield _row(what, list(asked(server.url, headers)))
        yield from in_chromium(server)


def _foreign(url: str) -> Mapping[str, Mapping[str, str]]:
    """Headers that a page of somebody else makes a browser send."""
    port = urlsplit(url).port
    evil = f"{EVIL}:{port}"
    return {
        "a foreign Host": {"Host": evil},
        "a foreign Host, and its own Origin": {"Host": evil, "Origin": f"http://{evil}"},
        "a foreign Origin": {"Origin": f"http://{EVIL}"},
        "an Origin that is null": {"Origin": "null"},
        "an Origin on another port": {"Origin": "http://localhost:1"},
        "Sec-Fetch-Site: cross-site": {"Sec-Fetch-Site": "cross-site", "Sec-Fetch-Mode": "cors"},
        "Sec-Fetch-Site: same-site": {"Sec-Fetch-Site": "same-site", "Sec-Fetch-Mode": "no-cors"},
    }


def asked(url: str, headers: Mapping[str, str]) -> Iterator[tuple[str, bool, bool]]:
    """Every route with these headers: whether it was refused, and whether others may read it."""
    with httpx.Client(base_url=url, timeout=20, headers=dict(headers)) as http:
        for path in (*READS, *STREAMS):
            with http.stream("GET", path) as answer:
                yield path, answer.status_code == 403, CORS in answer.headers
        for path, body in WRITES.items():
            answer = http.post(path, **body)
            yield path, answer.status_code == 403, CORS in answer.headers
        preflight = {"Access-Control-Request-Method": "POST"}
        answer = http.options(f"/{API}/call/compare", headers=preflight)
        yield (
            "preflight",
            CORS not in answer.headers or answer.status_code == 403,
            (CORS in answer.headers),
        )


def _row(what: str, found: Sequence[tuple[str, bool, bool]]) -> Row:
    let_in = [path for path, is_refused, _ in found if not is_refused]
    readable = [path for path, _, is_readable in found if is_readable]
    return row(
        "P3",
        f"{len(found)} routes asked with {what}",
        f"{len(let_in)} not refused, {len(readable)} with an Allow-Origin",
        "0, 0",
        holds=not let_in and not readable,
        note=", ".join(let_in[:6] or readable[:6]),
    )


# --- In Chromium.


def in_chromium(server: Server) -> Iterator[Row]:
    """From a hostile page, and from a hostile name that means this machine."""
    app, own = urlsplit(server.url), server.url
    rules = f"--host-resolver-rules=MAP {EVIL} 127.0.0.1"
    with hostile() as port, chromium(rules) as browser:
        places = {
            f"a page of another origin (http://{EVIL}:{port})": (f"http://{EVIL}:{port}/", own),
            f"a page of another port (http://127.0.0.1:{port})": (f"http://127.0.0.1:{port}/", own),
            "a rebound name (the app's own port)": (f"http://{EVIL}:{app.port}/", ""),
        }
        usual, _ = _tried(browser, server, server.url, "")
        for what, (origin, base) in places.items():
            got, kept = _tried(browser, server, origin, base)
            yield row(
                "P3",
                f"what Chromium gets for {what}",
                f"{len(got)} answers read (of {len(usual)} that the app's own page reads), "
                f"{kept} files left",
                "0, 0",
                holds=bool(usual) and not got and not kept,
                note="; ".join(got)[:160],
            )


def _tried(browser: "Browser", server: Server, origin: str, base: str) -> tuple[list[str], int]:
    """What a page of an origin could read of the app, and how many files it left there."""
    before = held(server.uploads)[0]
    page = browser.new_page()
    page.goto(origin)
    got = page.evaluate(TRIES, base)
    page.close()
    return got, held(server.uploads)[0] - before


class Hostile(BaseHTTPRequestHandler):
    """A page of somebody else, with nothing on it yet."""

    def do_GET(self) -> None:
        self.send_response(200)
        self.send_header("Content-Type", "text/html")
        self.end_headers()
        self.wfile.write(b"<!doctype html><title>hostile</title>")

    def log_message(self, format: str, *args: object) -> None:
        pass


@contextmanager
def hostile() -> Iterator[int]:
    """A hostile server; its port."""
    server = ThreadingHTTPServer(("127.0.0.1", 0), Hostile)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield server.server_port
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
