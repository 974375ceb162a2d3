"""Calls of the app over HTTP, as programs and attackers make them, each from its own address."""

import contextlib
import json
import secrets
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx

API = "gradio_api"
REFUSED = (429, 503)  # too many, and no room


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """What came of a call.

    Attributes:
        status: Of HTTP; 0 where the connection broke or nothing came in time.
        event: The last one of the stream: complete or error; empty where none came.
        text: All that was sent, as it was sent.
        seconds: From asking to the last byte.
    """

    status: int
    event: str
    text: str
    seconds: float

    @property
    def is_done(self) -> bool:
        """Whether the call was answered and not refused."""
        return self.status == 200 and self.event == "complete"

    @property
    def said(self) -> str:
        """The error that its caller reads, or the last that came instead; at most a few lines."""
        lines = [line.removeprefix("data: ") for line in self.text.splitlines() if line.strip()]
        for line in reversed(lines):
            with contextlib.suppress(ValueError):
                found = json.loads(line)
                found = found.get("output", found) if isinstance(found, dict) else found
                if isinstance(found, dict) and {"error", "detail", "message"} & set(found):
                    told = found.get("error", found.get("detail", found.get("message")))
                    return str(told)[:1_000]
        return lines[-1][:500] if lines else ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Endpoint:
    """A function of the page as its configuration lists it, public or not.

    Attributes:
        inputs: The component that stands for each argument, as /config describes it.
        defaults: What these components hold, in the same order.
        is_load: Whether the page calls it as it opens.
    """

    index: int
    name: str
    is_public: bool
    has_queue: bool
    is_load: bool
    inputs: Sequence[Mapping[str, Any]]
    defaults: Sequence[Any]

    def arguments(self, **given: Any) -> list[Any]:
        """Its arguments in order: by the names of their components, else what these hold."""
        names = [str(one.get("props", {}).get("label", "")) for one in self.inputs]
        return [given.get(name, held) for name, held in zip(names, self.defaults, strict=True)]


class Caller:
    """One client of the app; on Linux every address of 127.0.0.0/8 is its own to call from."""

    def __init__(self, url: str, address: str = "127.0.0.1", timeout: float = 120.0) -> None:
        self.http = httpx.Client(
            base_url=url,
            transport=httpx.HTTPTransport(
                verify=False,  # of plain HTTP; it would read all certificates
                local_address=address,
                limits=httpx.Limits(max_connections=None),
            ),
            trust_env=False,
            timeout=timeout,
        )

    def __enter__(self) -> "Caller":
        return self

    def __exit__(self, *_: object) -> None:
        self.http.close()

    def begin(self, name: str, data: Sequence[Any], session: str = "") -> tuple[int, str]:
        """Posts a call and reads nothing of its answer; the status, and the id of the event."""
        asked: dict[str, Any] = {"data": list(data)}
        if session:
            asked["session_hash"] = session
        answer = self._post(f"/{API}/call/{name}", asked)
        with contextlib.suppress(ValueError, KeyError, TypeError):
            return answer.status_code, str(answer.json()["event_id"])
        return answer.status_code, answer.text

    def call(self, name: str, data: Sequence[Any], session: str = "") -> Answer:
        """A call of an endpoint, and its answer to the end."""
        begun = time.monotonic()
        try:
            status, event = self.begin(name, data, session)
            if status != 200:
                return _answer(status, event, begun)
            with self.http.stream("GET", f"/{API}/call/{name}/{event}") as stream:
                return _answer(stream.status_code, stream.read().decode(), begun)
        except httpx.HTTPError as error:
            return _answer(0, type(error).__name__, begun)

    def private(self, endpoint: Endpoint, data: Sequence[Any], session: str = "") -> Answer:
        """A call by index, as the page makes it; it reaches what has no public name too."""
        session = session or secrets.token_hex(8)
        asked = {"data": list(data), "fn_index": endpoint.index, "session_hash": session}
        begun = time.monotonic()
        try:
            if not endpoint.has_queue:
                answer = self._post(f"/{API}/run/predict", asked)
                return _answer(answer.status_code, answer.text, begun)
            joined = self._post(f"/{API}/queue/join", asked)
            if joined.status_code != 200:
                return _answer(joined.status_code, joined.text, begun)
            where = {"session_hash": session}
            with self.http.stream("GET", f"/{API}/queue/data", params=where) as stream:
                return _answer(stream.status_code, stream.read().decode(), begun)
        except httpx.HTTPError as error:
            return _answer(0, type(error).__name__, begun)

    def _post(self, path: str, asked: Mapping[str, Any]) -> httpx.Response:
        """Posts JSON as Python writes it: with NaN, and with halves of letters."""
        body = json.dumps(asked).encode("ascii")
        return self.http.post(path, content=body, headers={"Content-Type": "application/json"})

    def upload(self, *files: tuple[str, bytes]) -> tuple[int, list[str]]:
        """Uploads files in one request; the status, and where Gradio put them."""
        form = [("files", (name, content, "text/csv")) for name, content in files]
        answer = self.http.post(f"/{API}/upload", files=form)
        found = answer.json() if answer.status_code == 200 else []
        return answer.status_code, found

    def endpoints(self) -> list[Endpoint]:
        """Every function of the page, as anybody may read it in /config."""
        config = self.http.get("/config").json()
        components = {one["id"]: one for one in config["components"]}
        return [
            Endpoint(
                index=one["id"],
                name=one["api_name"] or "",
                is_public=one["api_visibility"] == "public",
                has_queue=one["queue"] is not False,
                is_load=any(event == "load" for _, event in one["targets"]),
                inputs=[components[at] for at in one["inputs"]],
                defaults=[components[at].get("props", {}).get("value") for at in one["inputs"]],
            )
            for one in config["dependencies"]
            if one["backend_fn"]
        ]

    def endpoint(self, name: str) -> Endpoint:
        """The function of a name."""
        return next(one for one in self.endpoints() if one.name == name)


def file_data(path: str) -> dict[str, Any]:
    """A file on the server as a client names it."""
    return {"path": path, "meta": {"_type": "gradio.FileData"}, "orig_name": Path(path).name}


def in_sequence(prefix: str) -> Iterator[str]:
    """Addresses of the loopback, one after the other; `prefix` is 127.x.y."""
    yield from (f"{prefix}.{last}" for last in range(1, 255))


def _answer(status: int, text: str, begun: float) -> Answer:
    """Reads the last event: of a stream of a call, or of one of the page's."""
    seconds = time.monotonic() - begun
    event = text.rpartition("event: ")[2].partition("\n")[0] if "event: " in text else ""
    if not event and "process_completed" in text:
        last = text[text.rindex("process_completed") :]
        event = "complete" if '"success":true' in last.replace(" ", "") else "error"
    elif not event and status == 200:
        event = "complete"
    return Answer(status=status, event=event, text=text, seconds=seconds)
