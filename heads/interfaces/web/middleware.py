"""What stands around Gradio's server: who may call what, how much, and how often.

One ASGI middleware, outermost, because Gradio's own adds headers for other origins to whatever
it is given. In the order in which a request meets it:

1. its Host, and in local mode its Origin: a page of somebody else's that the user has open must not
   drive the app, by DNS rebinding or by a form;
2. its route: those that the page and programs need are let through, the others do not exist;
3. how much its address has under way already, and how large its body is;
4. its answer: headers of safety, and a sentence in the place of what a server says of its faults.
"""

import contextlib
import ipaddress
import itertools
import json
import logging
import re
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from urllib.parse import parse_qs

from python_multipart.multipart import parse_options_header
from starlette.datastructures import Headers, MutableHeaders
from starlette.requests import ClientDisconnect
from starlette.responses import JSONResponse
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from heads.errors import HeadsError
from heads.interfaces.web.janitor import Room
from heads.interfaces.web.visitors import NAME, Visitors, address_of
from heads.settings import Limits, behind_proxies, frame_hosts, limits, server_hosts

API = "/gradio_api"
READS = re.compile(
    rf"/|/config/?|/theme\.css|/favicon\.ico|/manifest\.json|/pwa_icon(/\d+)?|/robots\.txt"
    rf"|/(assets|static|svelte)/.+|/login_check/?"
    rf"|{API}/(info|openapi\.json|theme\.css|startup-events|app_id|user|queue/(data|status))/?"
    # Of an address in the place of a file Gradio would fetch whatever lies there.
    rf"|{API}/(heartbeat|call)/.+|{API}/file=(?!https?://).+|{API}/upload_progress|{API}/mcp(/.*)?"
)
WRITES = re.compile(
    rf"{API}/(queue/join|upload|cancel|reset)/?|{API}/(call|run|api)/.+|{API}/mcp(/.*)?|/login/?"
)
CALLS = re.compile(rf"{API}/(queue/join|call/.+|run/.+|api/.+|mcp(/.*)?)")
HEARTBEAT = re.compile(rf"{API}/heartbeat/(?P<session>.+)")
STREAM = re.compile(rf"{API}/(?:queue/data|call/(?:v2/)?[^/]+/(?P<event>[^/]+))")
NAMED = ("session_hash", "upload_id")  # in queries
UPLOAD, CANCEL = f"{API}/upload", f"{API}/cancel"
FORM_BYTES = 20_000  # of an upload, around its files
SMALL = 20_000  # bytes of a body that is read here

# Gradio's page writes scripts and styles into itself, and makes functions of `js_on_load`. What
# this policy holds is that nothing is loaded from, sent to or framed by anybody else.
POLICY = (
    "default-src 'self'; script-src 'self' 'unsafe-inline' 'unsafe-eval'; "
    "style-src 'self' 'unsafe-inline'; img-src 'self' data: blob:; font-src 'self' data:; "
    "connect-src 'self' data: blob:; worker-src 'self' blob:; object-src 'none'; "
    "base-uri 'self'; form-action 'self'; frame-ancestors "
)
FAULT = "The server could not take this call: see its name and its arguments under “Use via API”."
log = logging.getLogger("heads")


class Refused(Exception):
    """A request that goes no further.

    Args:
        status: Its HTTP status.
        says: Why, in a sentence.
    """

    def __init__(self, status: int, says: str) -> None:
        super().__init__(says)
        self.status, self.says = status, says


@dataclass(kw_only=True, eq=False)
class Gate:
    """The middleware.

    Attributes:
        app: Gradio's server.
        visitors: Who reads answers; noted here.
        under_way: Addresses of the calls that wait or run, for the limits of each.
        room: The folder of uploads, and who fills it.
        limits: What this place allows.
    """

    app: ASGIApp
    visitors: Visitors
    under_way: Callable[[], "Counter[str]"]
    room: Room = field(default_factory=Room)
    limits: Limits = field(default_factory=limits)
    _open: "Counter[str]" = field(default_factory=Counter)
    _uploads: "Counter[str]" = field(default_factory=Counter)
    _posted: "Counter[str]" = field(default_factory=Counter)  # calls that are being sent

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """As ASGI asks for."""
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        answer = GuardedResponse(scope, send, self._headers())
        try:
            headers, address = Headers(scope=scope), address_of(scope.get("client"))
            self._check_origin(scope, headers)
            _check_route(scope)
            _drop_names(scope, self.limits)
            self._check_share(scope, address)
            with self._counted(scope, address), self._reading(scope) as left:
                body = Body(receive, _most_bytes(scope, self.limits), _parts(scope, headers), left)
                body.check_length(headers)
                if scope["path"].rstrip("/") == CANCEL:
                    self._cancelled(await body.whole())
                answer.body = body
                try:
                    await self.app(scope, body.receive, answer.send)
                finally:
                    if _is_upload(scope):
                        self.room.took(address, body.read)
        except Refused as refused:
            await answer.refuse(refused)
        except ClientDisconnect:
            pass  # nobody is there to be answered
        except Exception as error:  # what Gradio raises has been answered with status 500
            log.error("a request failed", exc_info=error)
            await answer.refuse(Refused(500, FAULT))

    def _headers(self) -> dict[str, str]:
        return {
            "x-content-type-options": "nosniff",
            "referrer-policy": "same-origin",
            "cross-origin-opener-policy": "same-origin-allow-popups",
            "permissions-policy": "camera=(), microphone=(), geolocation=()",
            "content-security-policy": POLICY + " ".join(["'self'", *frame_hosts()]),
        }

    # --- Who asks.

    def _check_origin(self, scope: Scope, headers: Headers) -> None:
        """Raise Refused for names of other machines, and locally for pages of others."""
        host = headers.get("host", "")
        if not is_known(_name(host), is_public=self.limits.public):
            what = "This server does not answer to that name."
            local = "Open it as localhost, or start it with HEADS_HOSTS=NAME for another name."
            raise Refused(403, what if self.limits.public else f"{what} {local}")
        if self.limits.public:
            return
        origin, site = headers.get("origin"), headers.get("sec-fetch-site", "none")
        is_page = scope["path"] == "/" and scope["method"] in ("GET", "HEAD")
        is_page = is_page and headers.get("sec-fetch-mode", "navigate") == "navigate"
        is_own = origin is None or origin.partition("://")[2] == host
        if not is_own or (site not in ("same-origin", "none") and not is_page):
            hint = "Open it in a tab of its own, at localhost."
            raise Refused(403, f"Another page may not use this app. {hint}")

    # --- How much of it.

    def _check_share(self, scope: Scope, address: str) -> None:
        """Raise Refused if an address has more under way than it may."""
        here = self.limits
        if _is_call(scope):
            pending = self.under_way() + self._posted
            if here.calls_pending and pending.total() >= here.calls_pending:
                raise Refused(503, "Many ask here now. Try again in a moment.")
            if here.calls_each and pending[address] >= here.calls_each:
                raise Refused(429, "You have many calls under way already. Wait for some of them.")
        if here.streams_each and self._open[address] >= here.streams_each:
            raise Refused(429, "You have many connections open already. Close some of them.")
        if _is_upload(scope):
            if here.uploads_each and self._uploads[address] >= here.uploads_each:
                raise Refused(429, "You are sending files already. Wait for some of them.")
            try:
                self.room.check(address)
            except HeadsError as error:
                raise Refused(503, str(error)) from None

    @contextlib.contextmanager
    def _counted(self, scope: Scope, address: str) -> Iterator[None]:
        counts = [self._open]
        if _is_upload(scope):
            counts.append(self._uploads)
        if _is_call(scope):
            counts.append(self._posted)
        for count in counts:
            count[address] += 1
        try:
            yield
        finally:
            for count in counts:
                count[address] -= 1
                if not count[address]:
                    del count[address]

    # --- Who reads.

    @contextlib.contextmanager
    def _reading(self, scope: Scope) -> Iterator[Callable[[], None]]:
        """Notes for as long as that is so that an answer is read; what to call once it is not."""
        stream = STREAM.fullmatch(scope["path"])
        if scope["method"] != "GET" or not stream:
            yield lambda: None
            return
        session = parse_qs(scope["query_string"].decode("latin-1")).get("session_hash", [""])[0]
        with contextlib.ExitStack() as stack:
            stack.enter_context(self.visitors.reading(stream["event"] or session))
            yield stack.close

    def _cancelled(self, body: bytes) -> None:
        with contextlib.suppress(ValueError, AttributeError):
            event = json.loads(body).get("event_id")
            if isinstance(event, str) and NAME.fullmatch(event):
                self.visitors.cancel(event)


def _name(host: str) -> str:
    """The name in a Host header, without its port."""
    return (
        host.rpartition("]")[0] + "]" if host.startswith("[") else host.partition(":")[0]
    ).lower()


def is_known(name: str, *, is_public: bool) -> bool:
    """Whether this app goes by that name.

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


def _check_route(scope: Scope) -> None:
    """Raise Refused for what neither the page nor a program needs."""
    path, method = scope["path"], scope["method"]
    if stream := STREAM.fullmatch(path):
        _check_name(stream["event"] or "")
    if heartbeat := HEARTBEAT.fullmatch(path):
        _check_name(heartbeat["session"])
    given = parse_qs(scope["query_string"].decode("latin-1"))
    for value in itertools.chain.from_iterable(given.get(name, ()) for name in NAMED):
        _check_name(value)
    known = WRITES if method in ("POST", "DELETE") else READS
    if method != "OPTIONS" and not known.fullmatch(path):
        raise Refused(404, "There is nothing here by that name.")


def _drop_names(scope: Scope, here: Limits) -> None:
    """Drop headers that rename this server (Gradio repeats them), where no proxy may send them."""
    drops = {b"x-gradio-server"}
    told = Headers(scope=scope).get("x-forwarded-host", "")
    if not (behind_proxies() and is_known(_name(told), is_public=here.public)):
        drops.add(b"x-forwarded-host")
    scope["headers"] = [one for one in scope["headers"] if one[0].lower() not in drops]


def _check_name(name: str) -> None:
    if name and not NAME.fullmatch(name):
        raise Refused(400, "The name of a session, a call or an upload has at most 64 letters.")


def _is_upload(scope: Scope) -> bool:
    return scope["method"] == "POST" and scope["path"].rstrip("/") == UPLOAD


def _is_call(scope: Scope) -> bool:
    return scope["method"] == "POST" and CALLS.fullmatch(scope["path"]) is not None


def _most_bytes(scope: Scope, here: Limits) -> int:
    """How large a body may be."""
    if scope["path"].rstrip("/") == CANCEL:
        return SMALL  # it is read here, and Gradio must not read more of it
    return here.upload_bytes + FORM_BYTES if _is_upload(scope) else here.body_bytes


def _parts(scope: Scope, headers: Headers) -> tuple[bytes, int]:
    """Return what stands before each part of a form and the most parts, or raise Refused."""
    if not _is_upload(scope):
        return b"", 0
    kind, more = parse_options_header(headers.get("content-type", ""))  # as Gradio reads it
    if kind != b"multipart/form-data" or not more.get(b"boundary"):
        raise Refused(400, "Files are sent as a form (multipart/form-data).")
    return b"--" + more[b"boundary"], limits().upload_files


class Body:
    """The body of a request as it comes in, no longer and in no more parts than is allowed.

    Args:
        receive: Where it comes from.
        most: How many bytes.
        parts: What stands before each part of a form, and how many there may be.
        left: Called when the other side has left.

    Attributes:
        read: Bytes so far.
        refused: Why no more of it is taken, where that is so.
    """

    def __init__(
        self, receive: Receive, most: int, parts: tuple[bytes, int], left: Callable[[], None]
    ) -> None:
        self._receive, self._most, self._left = receive, most, left
        (self._mark, self._parts), self.read, self._marks, self._tail = parts, 0, 0, b""
        self._held: list[Message] = []
        self.refused: Refused | None = None

    def check_length(self, headers: Headers) -> None:
        """Refuses what says itself that it is too long, before any of it is read."""
        length = headers.get("content-length", "0")
        if not length.isdecimal() or int(length) > self._most:
            raise self._too_large()

    async def receive(self) -> Message:
        """Return the next piece, or raise Refused if it goes beyond what is allowed."""
        message = self._held.pop(0) if self._held else await self._receive()
        if message["type"] == "http.disconnect":
            self._left()
        piece = message.get("body", b"")
        self.read += len(piece)
        if self.read > self._most:
            self.refused = self._too_large()
            raise self.refused
        if self._mark and self._parts and piece:
            self._count(piece)
        return message

    async def whole(self) -> bytes:
        """All of a small body, which stays to be read by others."""
        messages, read = [], 0
        while read <= SMALL:
            messages.append(await self._receive())
            read += len(messages[-1].get("body", b""))
            if not messages[-1].get("more_body"):
                break
        self._held = messages
        return b"".join(message.get("body", b"") for message in messages)

    def _count(self, piece: bytes) -> None:
        """Counts parts, also where one begins in a piece and goes on in the next."""
        seen = self._tail + piece
        self._marks += seen.count(self._mark)
        self._tail = seen[-len(self._mark) + 1 :]
        if self._marks > self._parts + 1:  # the last one closes the form
            files = "1 file" if self._parts == 1 else f"{self._parts} files"
            self.refused = Refused(413, f"At most {files} can be sent at a time.")
            raise self.refused

    def _too_large(self) -> Refused:
        size = f"{self._most // 1_000_000:,} MB" if self._most >= 1_000_000 else "20 kB"
        return Refused(413, f"That is more than the {size} that can be sent at a time.")


class GuardedResponse:
    """The answer to a request, with headers of safety and a sentence in the place of a fault."""

    def __init__(self, scope: Scope, send: Send, headers: dict[str, str]) -> None:
        self._scope, self._send, self._headers = scope, send, headers
        self._is_api = scope["path"].startswith(API)
        self._has_begun = self._is_replaced = False
        self.body: Body | None = None

    async def send(self, message: Message) -> None:
        """Passes a piece on."""
        if self._is_replaced:
            return
        if message["type"] == "http.response.start":
            refused = self.body.refused if self.body else None
            if refused or self._is_fault(message):
                self._is_replaced = True
                await self.refuse(refused or Refused(400 if self._is_api else 500, FAULT))
                return
            self._has_begun = True
            headers = MutableHeaders(scope=message)
            for name, value in self._headers.items():
                headers[name] = value
        await self._send(message)

    def _is_fault(self, message: Message) -> bool:
        """Whether it is the server's own word on a fault, or a list of what does not fit."""
        kind = Headers(raw=message["headers"]).get("content-type", "")
        is_bare = message["status"] == 500 and not kind.startswith("application/json")
        return is_bare or (message["status"] == 422 and self._is_api)

    async def refuse(self, refused: Refused) -> None:
        """Answers with a sentence, where nothing has been answered yet."""
        if self._has_begun:
            return
        self._has_begun = True
        content = {"detail": refused.says, "error": refused.says}
        answer = JSONResponse(content, refused.status, self._headers)
        await answer(self._scope, _nothing, self._send)


async def _nothing() -> Message:
    return {"type": "http.disconnect"}
