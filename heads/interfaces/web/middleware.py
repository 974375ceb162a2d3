"""The ASGI middleware around Gradio: who may call what, and what an answer may say.

A request meets, in this order:

1. a check of its Host, and in local mode of its Origin: neither DNS rebinding nor a form on a page
   of somebody else's may drive the app;
2. a list of routes: those that the page and programs need exist, and no others;
3. for a call of a handler, a check of its arguments; who reads its answer is noted;
4. its answer gets headers of safety, and a sentence in the place of a server's words on its faults.

It is outside of Gradio's own middleware, which adds headers for other origins to every answer.
Limits for strangers are the work of an extra (`Extra.middleware`).
"""

import contextlib
import ipaddress
import json
import logging
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from starlette.datastructures import Headers, MutableHeaders, QueryParams
from starlette.requests import ClientDisconnect
from starlette.responses import JSONResponse
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from heads.errors import DataError
from heads.interfaces.web.calls import Call
from heads.interfaces.web.guards import as_text
from heads.interfaces.web.uploads import check_sent
from heads.interfaces.web.visitors import NAME, Recent, Visitors, address_of
from heads.settings import current_limits, server_hosts

API = "/gradio_api"
READS = re.compile(
    rf"/|/config/?|/theme\.css|/favicon\.ico|/manifest\.json|/pwa_icon(/\d+)?|/robots\.txt"
    rf"|/(assets|static|svelte)/.+|/login_check/?"
    rf"|{API}/(info|openapi\.json|theme\.css|startup-events|app_id|user|queue/(data|status))/?"
    # Of an address in the place of a file Gradio would fetch whatever lies there.
    rf"|{API}/(heartbeat|call)/.+|{API}/file=(?!https?://).+|{API}/upload_progress|{API}/mcp(/.*)?"
)
WRITES = re.compile(
    rf"{API}/(queue/join|upload|cancel|reset|run/predict)/?|{API}/(call|api)/.+|{API}/mcp(/.*)?"
    rf"|/login/?"
)
CALLS = re.compile(rf"{API}/(queue/join|run/predict|call/(?P<v2>v2/)?(?P<name>[^/]+))/?")
HEARTBEAT = re.compile(rf"{API}/heartbeat/(?P<session>.+)")
STREAM = re.compile(rf"{API}/(?:queue/data|call/(?:v2/)?[^/]+/(?P<event>[^/]+))")
UPLOAD, CANCEL = f"{API}/upload", f"{API}/cancel"
NAMED = ("session_hash", "upload_id")  # in queries
SMALL = 20_000  # bytes of a cancel
MOST_NOTED = 5_000  # calls whose sentence for a fault is remembered

# Gradio's page writes scripts and styles into itself, and makes functions of `js_on_load`. What
# this policy holds is that nothing is loaded from, sent to or framed by anybody else.
FRAMES = "frame-ancestors 'self'"
POLICY = (
    "default-src 'self'; script-src 'self' 'unsafe-inline' 'unsafe-eval'; "
    "style-src 'self' 'unsafe-inline'; img-src 'self' data: blob:; font-src 'self' data:; "
    "connect-src 'self' data: blob:; worker-src 'self' blob:; object-src 'none'; "
    f"base-uri 'self'; form-action 'self'; {FRAMES}"
)
SAFE = {
    "x-content-type-options": "nosniff",
    "referrer-policy": "same-origin",
    "cross-origin-opener-policy": "same-origin-allow-popups",
    "permissions-policy": "camera=(), microphone=(), geolocation=()",
    "content-security-policy": POLICY,
}
FAULT = "The server could not take this call: see its name and its arguments under “Use via API”."
Endpoints = Mapping[str, list[dict[str, Any]]]  # the parameters of each endpoint by its name
log = logging.getLogger("heads")


class Refused(Exception):
    """A request that goes no further, with its HTTP status and the reason in a sentence."""

    def __init__(self, status: int, reason: str) -> None:
        super().__init__(reason)
        self.status, self.reason = status, reason


@dataclass(kw_only=True, eq=False)
class Gate:
    """The middleware."""

    app: ASGIApp  # Gradio's
    visitors: Visitors  # who read answers; noted here
    endpoints: Callable[[], Endpoints]
    most: int = field(default_factory=lambda: current_limits().body_bytes)  # of a call's arguments
    _faults: Recent[str] = field(default_factory=lambda: Recent(MOST_NOTED))  # by event

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request, as ASGI asks for."""
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        answer = SafeResponse(scope, send, self._faults)
        try:
            headers = Headers(scope=scope)
            check_origin(scope, headers)
            check_route(scope)
            drop_names(scope)
            if (route := CALLS.fullmatch(scope["path"])) and scope["method"] == "POST":
                receive = await self._note_call(scope, receive, route, answer)
            elif scope["path"].rstrip("/") == CANCEL:
                receive = await self._note_cancel(receive)
            with contextlib.ExitStack() as reader:
                if (stream := stream_of(scope)) is not None:
                    reader.enter_context(self.visitors.reading(stream))
                await self.app(scope, _watched(receive, reader.close), answer.send)
        except Refused as refused:
            await answer.refuse(refused)
        except ClientDisconnect:
            pass  # nobody is there to be answered
        except Exception as error:  # what Gradio raises has been answered with status 500
            log.error("a request failed", exc_info=error)
            await answer.refuse(Refused(500, FAULT))

    async def _note_call(
        self, scope: Scope, receive: Receive, route: "re.Match[str]", answer: "SafeResponse"
    ) -> Receive:
        """Check and complete the arguments of a call, and put a `Call` into its request."""
        body = await read_body(receive, self.most)
        call = Call(
            address=address_of(scope.get("client")), since=self.visitors.now, visitors=self.visitors
        )
        if not scope["path"].startswith(f"{API}/run"):  # which passes the queue by
            scope.setdefault("state", {})["call"] = call
        sent, answer.fault = self._complete(parse_object(body), route)
        if sent:  # else Gradio refuses the body as it came
            # JSON may hold half a surrogate pair, with which no answer could be encoded.
            body = json.dumps(sent, ensure_ascii=False).encode("utf-8", "replace")

        def note(event: str) -> None:
            call.event, self._faults[event] = event, answer.fault

        answer.note_event = note
        MutableHeaders(scope=scope)["content-length"] = str(len(body))
        return replayed(body, receive)

    def _complete(self, sent: dict[str, Any], route: "re.Match[str]") -> tuple[dict[str, Any], str]:
        """Return a call with what was left out at the end of its arguments, and its fault sentence.

        A call whose arguments name files that were not sent goes on without any argument: Gradio
        then refuses it by itself, and its caller reads the sentence like that of any other fault.
        """
        check_name(sent.get("session_hash"))
        name = f"/{route['name']}" if route["name"] else str(sent.get("fn_index"))
        given, parameters = sent.get("data"), self.endpoints().get(name)
        if route["name"] and parameters is None:
            raise Refused(404, FAULT)
        try:
            check_sent(sent if route["v2"] else given)
        except DataError as error:
            return {**sent, "data": []}, as_text(str(error))
        if route["v2"] or parameters is None or not isinstance(given, list):
            return sent, FAULT
        left_out = parameters[len(given) :]
        if left_out and all(one["parameter_has_default"] for one in left_out):
            given = [*given, *(one["parameter_default"] for one in left_out)]
        return {**sent, "data": given}, as_text(_explain(parameters, given))

    async def _note_cancel(self, receive: Receive) -> Receive:
        body = await read_body(receive, SMALL)
        event = parse_object(body).get("event_id")
        if isinstance(event, str) and NAME.fullmatch(event):
            self.visitors.cancel(event)
        return replayed(body, receive)


def find_endpoints(page: Any) -> Endpoints:
    """Return the parameters of each named endpoint of a page, by its name and by its number."""
    named = page.get_api_info()["named_endpoints"]
    known = {name: endpoint["parameters"] for name, endpoint in named.items()}
    events = page.get_config_file()["dependencies"]
    numbered = {f"{one['id']}": known.get(f"/{one['api_name']}") for one in events}
    return known | {number: found for number, found in numbered.items() if found is not None}


def stream_of(scope: Scope) -> str | None:
    """Return the session, or the event, whose answers a request reads; None if it reads none."""
    stream = STREAM.fullmatch(scope["path"])
    if scope["method"] != "GET" or not stream:
        return None
    return stream["event"] or QueryParams(scope["query_string"]).get("session_hash", "")


# --- Who asks, and for what.


def check_origin(scope: Scope, headers: Headers) -> None:
    """Raise Refused for names of other machines, and in local mode for pages of others."""
    host, is_public = headers.get("host", ""), current_limits().public
    if not is_known(name_of(host), is_public=is_public):
        what = "This server does not answer to that name."
        local = "Open it as localhost, or start it with HEADS_HOSTS=NAME for another name."
        raise Refused(403, what if is_public else f"{what} {local}")
    if is_public:
        return
    origin, site = headers.get("origin"), headers.get("sec-fetch-site", "none")
    is_page = scope["path"] == "/" and scope["method"] in ("GET", "HEAD")
    is_page = is_page and headers.get("sec-fetch-mode", "navigate") == "navigate"
    is_own = origin is None or origin.partition("://")[2] == host
    if not is_own or (site not in ("same-origin", "none") and not is_page):
        hint = "Open it in a tab of its own, at localhost."
        raise Refused(403, f"Another page may not use this app. {hint}")


def name_of(host: str) -> str:
    """Return the name in a Host header, without its port."""
    return (
        host.rpartition("]")[0] + "]" if host.startswith("[") else host.partition(":")[0]
    ).lower()


def is_known(name: str, *, is_public: bool) -> bool:
    """Return True if this app goes by that name.

    An address is not looked up, so nobody can make it stand for another machine. In local mode
    0.0.0.0 is none: browsers take it for this machine, and tell no server which page asks there.

    >>> is_known("localhost", is_public=False), is_known("evil.example", is_public=False)
    (True, False)
    """
    named = server_hosts()
    if name in named or (is_public and not named):
        return True
    if name == "localhost" or name.endswith(".localhost"):
        return True
    try:
        found = ipaddress.ip_address(name.strip("[]"))
    except ValueError:
        return False
    return is_public or not found.is_unspecified


def check_route(scope: Scope) -> None:
    """Raise Refused for what neither the page nor a program needs."""
    path, method = scope["path"], scope["method"]
    if stream := STREAM.fullmatch(path):
        check_name(stream["event"] or "")
    if heartbeat := HEARTBEAT.fullmatch(path):
        check_name(heartbeat["session"])
    for name, value in QueryParams(scope["query_string"]).multi_items():
        if name in NAMED:
            check_name(value)
    known = WRITES if method in ("POST", "DELETE") else READS
    if method != "OPTIONS" and not known.fullmatch(path):
        raise Refused(404, "There is nothing here by that name.")


def check_name(name: Any) -> None:
    """Raise Refused for the name of a session, a call or an upload by which nothing is kept."""
    if name and not (isinstance(name, str) and NAME.fullmatch(name)):
        raise Refused(400, "The name of a session, a call or an upload has at most 64 letters.")


def drop_names(scope: Scope) -> None:
    """Drop headers that rename this server, which Gradio repeats in its answers."""
    headers = MutableHeaders(scope=scope)
    del headers["x-gradio-server"], headers["x-forwarded-host"]


# --- What is sent.


async def read_body(receive: Receive, most: int) -> bytes:
    """Read a body of at most so many bytes, or raise Refused."""
    body, more = b"", True
    while more:
        message = await receive()
        if message["type"] == "http.disconnect":
            raise ClientDisconnect
        body += message.get("body", b"")
        if len(body) > most:
            raise too_large(most)
        more = message.get("more_body", False)
    return body


def too_large(most: int) -> Refused:
    """Return the refusal of a body of more than so many bytes."""
    size = f"{most // 1_000_000:,} MB" if most >= 1_000_000 else f"{most // 1_000:,} kB"
    return Refused(413, f"That is more than the {size} that can be sent at a time.")


def replayed(body: bytes, receive: Receive) -> Receive:
    """Return a `receive` that gives a body that was read already, then what comes after it."""
    messages = [{"type": "http.request", "body": body, "more_body": False}]

    async def replay() -> Message:
        return messages.pop() if messages else await receive()

    return replay


def _watched(receive: Receive, left: Callable[[], None]) -> Receive:
    """Return a `receive` that calls `left` once the other side has left."""

    async def watch() -> Message:
        message = await receive()
        if message["type"] == "http.disconnect":
            left()
        return message

    return watch


def parse_object(body: bytes) -> dict[str, Any]:
    """Return the JSON object in a body; an empty one if there is none."""
    try:
        content = json.loads(body)
    except (ValueError, RecursionError):
        return {}
    return content if isinstance(content, dict) else {}


def _explain(parameters: list[dict[str, Any]], given: list[Any]) -> str:
    """Return what to say of arguments that an endpoint does not take."""
    names = [one["parameter_name"] for one in parameters]
    if len(given) != len(names):
        what = f"This call takes {len(names)} arguments and got {len(given)}."
    else:
        what = "An argument of this call is of another kind than it takes."
    for one, value in zip(parameters, given, strict=False):
        if one["component"] == "File" and isinstance(value, str):
            name = one["parameter_name"]
            return (
                f"{name} must be a file that is sent, not a path. "
                f'In Python: {name}=gradio_client.handle_file("my.csv").'
            )
    return f"{what} In this order: {', '.join(names) or 'none'}."


# --- What is answered.


class Response:
    """The answer to a request, which may be a refusal until it has begun."""

    def __init__(self, scope: Scope, send: Send) -> None:
        self._scope, self._send, self._has_begun = scope, send, False

    async def send(self, message: Message) -> None:
        """Pass a piece of the answer on."""
        self._has_begun = True
        await self._send(message)

    async def refuse(self, refused: Refused) -> None:
        """Answer with a sentence, where nothing has been answered yet."""
        if not self._has_begun:
            self._has_begun = True
            content = {"detail": refused.reason, "error": refused.reason}
            response = JSONResponse(content, refused.status, SAFE)
            await response(self._scope, _nothing, self._send)


class SafeResponse(Response):
    """The answer to a request, with headers of safety and a sentence in the place of a fault."""

    def __init__(self, scope: Scope, send: Send, faults: Recent[str]) -> None:
        super().__init__(scope, send)
        self._faults, self._is_replaced = faults, False
        self._is_api, self._stream = scope["path"].startswith(API), stream_of(scope)
        self._start: Message = {}  # of the answer to a call, until its body is known
        self.fault = FAULT  # sentence for a fault of this very request
        # Called with the id of the event that Gradio makes of a call; None for what is no call.
        self.note_event: Callable[[str], None] | None = None

    async def send(self, message: Message) -> None:
        """Pass a piece of the answer on."""
        if self._is_replaced:
            return
        if message["type"] == "http.response.start":
            if self._is_fault(message):
                self._is_replaced = True
                await self.refuse(Refused(400 if self._is_api else 500, self.fault))
                return
            self._has_begun = True
            MutableHeaders(scope=message).update(SAFE)
            if self.note_event:
                self._start = message
                return
        elif self._start:
            message, start, self._start = self._note(message), self._start, {}
            MutableHeaders(scope=start)["content-length"] = str(len(message.get("body", b"")))
            await self._send(start)
        elif self._stream is not None and b"error" in message.get("body", b""):
            message = {**message, "body": self._mend(message["body"])}
        await self._send(message)

    def _note(self, message: Message) -> Message:
        """Note the event in the answer to a call, or give the answer its sentence."""
        content = parse_object(message.get("body", b""))
        if isinstance(event := content.get("event_id"), str) and self.note_event:
            self.note_event(event)
        if "error" in content:
            content["error"] = as_text(content["error"] or self.fault)
            return {**message, "body": json.dumps(content).encode()}
        return message

    def _mend(self, piece: bytes) -> bytes:
        """Give the message that a call has failed its sentence, in which nothing is markup."""
        before, _, data = piece.partition(b"data: ")
        content = parse_object(data)
        output = content.get("output", content)
        has_failed = content.get("success") is False or b"event: error" in before
        if not has_failed or not isinstance(output, dict) or "error" not in output:
            return piece
        fault = self._faults.pop(content.get("event_id") or self._stream or "", FAULT)
        output["error"] = as_text(output["error"] or fault)
        return before + b"data: " + json.dumps(content).encode() + b"\n\n"

    def _is_fault(self, message: Message) -> bool:
        """Return True for the server's own words on a fault, or a list of what does not fit."""
        kind = Headers(raw=message["headers"]).get("content-type", "")
        is_bare = message["status"] == 500 and not kind.startswith("application/json")
        return is_bare or (message["status"] == 422 and self._is_api)


async def _nothing() -> Message:
    return {"type": "http.disconnect"}
