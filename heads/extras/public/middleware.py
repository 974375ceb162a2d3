"""The limits of a server for strangers, as ASGI middleware around the whole page.

It believes proxies that the owner names, lets pages that the owner names frame the page, and in
public mode bounds what an address has under way, how much it sends, and what it leaves unread.
An address is what limits go by; the name of a session is free to invent.
"""

import asyncio
import contextlib
import ctypes
import json
import secrets
import sys
import time
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

from python_multipart.multipart import parse_options_header
from starlette.datastructures import Headers, MutableHeaders
from starlette.requests import ClientDisconnect
from starlette.types import ASGIApp, Message, Receive, Scope, Send
from uvicorn.middleware.proxy_headers import ProxyHeadersMiddleware

from heads.errors import HeadsError
from heads.extras.public import janitor
from heads.extras.public.settings import TRAFFIC, Traffic, frame_hosts, proxies
from heads.interfaces.web.middleware import (
    API,
    CALLS,
    FRAMES,
    UPLOAD,
    Refused,
    Response,
    drop_names,
    is_known,
    name_of,
    parse_object,
    read_body,
    replayed,
    stream_of,
    too_large,
)
from heads.interfaces.web.uploads import forget
from heads.interfaces.web.visitors import address_of
from heads.settings import current_limits

FORM_BYTES = 20_000  # of an upload, around its files
UNREAD = 60.0  # seconds for which an answer waits for its reader
EVERY = 10.0  # seconds between two looks at what nobody reads
LINGER = 1.0  # seconds for which an upload stays at the place that Gradio gives it, too


def protect_app(app: ASGIApp, page: Any) -> ASGIApp:
    """Return an application behind the proxies, and in public mode the limits, of this server."""
    if current_limits().public:
        janitor.start()
        app = Bounds(app=app)
    app = let_frame(app, frame_hosts()) if frame_hosts() else app
    return believe(app, proxies()) if proxies() else app


def believe(app: ASGIApp, trusted: list[str]) -> ASGIApp:
    """Take address, scheme and name of the server from headers of trusted proxies."""
    behind: Any = ProxyHeadersMiddleware  # Uvicorn has other names for the types of ASGI

    async def rename(scope: Scope, receive: Receive, send: Send) -> None:
        name = Headers(scope=scope).get("x-forwarded-host", "") if scope["type"] == "http" else ""
        if name and is_known(name_of(name), is_public=current_limits().public):
            drop_names(scope)
            MutableHeaders(scope=scope)["host"] = name
        await app(scope, receive, send)

    return behind(rename, trusted)


def let_frame(app: ASGIApp, pages: tuple[str, ...]) -> ASGIApp:
    """Let other pages show this one in a frame."""
    framed = " ".join((FRAMES, *pages))

    async def answer(scope: Scope, receive: Receive, send: Send) -> None:
        async def send_framed(message: Message) -> None:
            if message["type"] == "http.response.start":
                headers = MutableHeaders(scope=message)
                if policy := headers.get("content-security-policy"):
                    headers["content-security-policy"] = policy.replace(FRAMES, framed)
            await send(message)

        await app(scope, receive, send_framed)

    return answer


@dataclass(slots=True, kw_only=True)
class Pending:
    """A call whose answer nobody has read to its end."""

    address: str
    session: str  # whose stream holds its answer: of its page, or its own id
    path: str  # of that stream
    since: float = field(default_factory=time.monotonic)  # when it was posted, or last read


@dataclass(kw_only=True, eq=False)
class Bounds:
    """The limits."""

    app: ASGIApp  # the page behind its own middleware
    traffic: Traffic = TRAFFIC  # how much may be under way
    room: janitor.Room = field(default_factory=janitor.Room)  # who has sent how much
    _open: "Counter[str]" = field(default_factory=Counter)  # connections, by address
    _uploads: "Counter[str]" = field(default_factory=Counter)
    _posted: "Counter[str]" = field(default_factory=Counter)  # calls that are being sent
    _pending: dict[str, Pending] = field(default_factory=dict)  # by event
    _readers: "Counter[str]" = field(default_factory=Counter)  # of each session
    _has_computed: bool = False  # since memory was returned

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request, if its address has not too much under way."""
        if scope["type"] != "http":
            await self._live(scope, receive, send)
            return
        address, body = address_of(scope.get("client")), Body(receive, self.traffic.files)
        answer = Answer(scope, send, body)
        try:
            if scope["path"] == f"{API}/upload_progress":
                raise Refused(404, "There is nothing here by that name.")
            self._check_share(scope, address)
            body.check(scope)
            with self._counted(scope, address):
                if is_upload(scope):
                    await self._upload(scope, body, answer.send, address)
                elif (session := stream_of(scope)) is not None:
                    await self._read(scope, receive, answer.send, session)
                elif is_call(scope):
                    await self._post(scope, body, answer.send, address)
                else:
                    await self.app(scope, body.receive, answer.send)
        except Refused as refused:
            await answer.refuse(refused)
        except ClientDisconnect:
            pass  # nobody is there to be answered

    # --- How much is under way.

    def _check_share(self, scope: Scope, address: str) -> None:
        """Raise Refused if an address has more under way than it may."""
        most = self.traffic
        if is_call(scope):
            under_way = Counter(one.address for one in self._pending.values()) + self._posted
            if under_way.total() >= most.calls:
                raise Refused(503, "Many ask here now. Try again in a moment.")
            if under_way[address] >= most.calls_each:
                raise Refused(429, "You have many calls under way already. Wait for some of them.")
        if self._open[address] >= most.streams_each:
            raise Refused(429, "You have many connections open already. Close some of them.")
        if is_upload(scope):
            if self._uploads[address] >= most.uploads_each:
                raise Refused(429, "You are sending files already. Wait for some of them.")
            try:
                self.room.check(address)
            except HeadsError as error:
                raise Refused(503, str(error)) from None

    @contextlib.contextmanager
    def _counted(self, scope: Scope, address: str) -> Iterator[None]:
        counts = [self._open]
        counts += [self._uploads] * is_upload(scope) + [self._posted] * is_call(scope)
        for count in counts:
            count[address] += 1
        try:
            yield
        finally:
            for count in counts:
                count.subtract([address])
                count += Counter()  # forgets who has nothing under way

    async def _upload(self, scope: Scope, body: "Body", send: Send, address: str) -> None:
        """Take an upload in, and answer with a path that nobody can guess.

        Gradio names the folder of an upload by its content, so that whoever knows a file could ask
        for it, and two visitors who send equal files would share one.
        """
        start: Message = {}

        async def send_hidden(message: Message) -> None:
            if message["type"] == "http.response.start":
                start.update(message)
                return
            if start:
                if start["status"] == 200:
                    message = {**message, "body": hide_files(message.get("body", b""))}
                MutableHeaders(scope=start)["content-length"] = str(len(message["body"]))
                await send(dict(start))
                start.clear()
            await send(message)

        scope["query_string"] = b""  # progress of 10 MB, which Gradio keeps until somebody asks
        try:
            await self.app(scope, body.receive, send_hidden)
        finally:
            self.room.note_upload(address, body.read)

    # --- What is read, and what is not.

    async def _post(self, scope: Scope, body: "Body", send: Send, address: str) -> None:
        """Pass a call on, and note which event Gradio makes of it."""
        content = await read_body(body.receive, current_limits().body_bytes)
        name = parse_object(content).get("session_hash")
        session = name if isinstance(name, str) else ""

        async def send_noted(message: Message) -> None:
            answer = parse_object(message.get("body", b""))
            if isinstance(event := answer.get("event_id"), str):
                path = f"{API}/queue/data" if session else f"{API}/call/x/{event}"
                self._pending[event] = Pending(address=address, session=session or event, path=path)
            await send(message)

        await self.app(scope, replayed(content, body.receive), send_noted)

    async def _read(self, scope: Scope, receive: Receive, send: Send, session: str) -> None:
        """Pass on a stream of answers, note which calls are over, and end it with its reader.

        A stream that is not ended like this goes on beating in Gradio for ever. It is cancelled as
        soon as its reader leaves; where a session has several, Gradio could not bear that, and the
        stream finds out by itself within ten seconds.
        """
        event, left = "" if scope["path"].endswith("/queue/data") else session, asyncio.Event()

        async def send_noted(message: Message) -> None:
            self._note(message.get("body", b""), event)
            await send(message)

        async def receive_end() -> Message:
            await left.wait()
            return {"type": "http.disconnect"}

        scope["asgi"] = {**scope["asgi"], "spec_version": "2.4"}  # Starlette does not listen then
        self._readers[session] += 1
        reading = asyncio.ensure_future(self.app(scope, receive_end, send_noted))
        listening = asyncio.ensure_future(self._end_with_reader(receive, left, reading, session))
        try:
            await asyncio.wait([reading])
        finally:
            for task in (reading, listening):
                task.cancel()
            self._readers[session] -= 1
            self._readers += Counter()  # forgets who reads nothing
            for one in self._pending.values():
                if one.session == session:
                    one.since = time.monotonic()
        await self._forget(session)

    async def _end_with_reader(
        self, receive: Receive, left: asyncio.Event, reading: "asyncio.Future[None]", session: str
    ) -> None:
        while (await receive())["type"] != "http.disconnect":
            pass
        left.set()
        if self._readers[session] == 1:
            reading.cancel()

    def _note(self, piece: bytes, event: str) -> None:
        """Note which call has its whole answer."""
        if event and piece.startswith((b"event: complete", b"event: error")):
            self._pending.pop(event, None)
            self._has_computed = True
        elif b'"process_completed"' in piece:
            content = parse_object(piece.partition(b"data: ")[2])
            self._pending.pop(content.get("event_id") or event, None)
            self._has_computed = True

    async def _forget(self, session: str) -> None:
        """Let Gradio forget a session of which nothing is under way, as of one who has left."""
        if not any(one.session == session for one in self._pending.values()):
            await self._ask(f"{API}/queue/data", session, is_there=False)

    async def _ask(self, path: str, session: str, *, is_there: bool) -> None:
        """Read a stream in the place of its reader, for a moment, or say that he has left."""
        scope = {
            "type": "http", "method": "GET", "path": path, "raw_path": path.encode(),
            "query_string": urlencode({"session_hash": session}).encode(), "root_path": "",
            "headers": [(b"host", b"localhost")], "scheme": "http", "http_version": "1.1",
            "client": ("127.0.0.1", 0), "server": ("127.0.0.1", 80), "state": {},
            "asgi": {"version": "3.0", "spec_version": "2.4"},
        }  # fmt: skip

        async def receive() -> Message:
            if is_there:
                await asyncio.sleep(EVERY)
            return {"type": "http.disconnect"}

        async def send(message: Message) -> None:
            self._note(message.get("body", b""), session if "/call/" in path else "")

        with contextlib.suppress(Exception):
            await asyncio.wait_for(self.app(scope, receive, send), EVERY)

    async def _live(self, scope: Scope, receive: Receive, send: Send) -> None:
        tidying = asyncio.create_task(self._tidy())
        try:
            await self.app(scope, receive, send)
        finally:
            tidying.cancel()

    async def _tidy(self) -> None:
        """Read what nobody reads, so that Gradio forgets it; return memory to the system."""
        library = ctypes.CDLL(None) if sys.platform == "linux" else None
        trim = getattr(library, "malloc_trim", None)  # glibc keeps what large files have taken
        while True:
            await asyncio.sleep(EVERY)
            await self.forget_unread()
            if self._has_computed and trim:
                self._has_computed = False
                await asyncio.to_thread(trim, 0)

    async def forget_unread(self) -> None:
        """Forget calls that nobody has read for a while."""
        before = time.monotonic() - UNREAD
        for event, one in list(self._pending.items()):
            if one.since <= before and not self._readers[one.session]:
                await self._ask(one.path, one.session, is_there=True)
                if self._pending.pop(event, None):
                    await self._forget(one.session)


def is_upload(scope: Scope) -> bool:
    """Return True for a request that sends files."""
    return scope["method"] == "POST" and scope["path"].rstrip("/") == UPLOAD


def is_call(scope: Scope) -> bool:
    """Return True for a request that asks for a handler."""
    is_agent = scope["path"].startswith(f"{API}/mcp")
    return scope["method"] == "POST" and bool(is_agent or CALLS.fullmatch(scope["path"]))


def hide_files(answer: bytes) -> bytes:
    """Give uploads names that nobody can guess; answer and result are lists of paths as JSON."""
    hidden = list[str]()
    for name in json.loads(answer):
        path = Path(name)
        place = path.parents[1] / secrets.token_hex(16)
        place.mkdir(mode=0o700)
        (place / path.name).hardlink_to(path)
        # An equal file may arrive at this very moment: its own answer needs a file there still.
        asyncio.get_running_loop().call_later(LINGER, forget, path)
        hidden.append(str(place / path.name))
    return json.dumps(hidden).encode()


class Body:
    """The body of a request as it comes in, no longer and in no more parts than is allowed."""

    def __init__(self, receive: Receive, files: int) -> None:
        self._receive, self._files, self._most = receive, files, 0
        self._mark, self._marks, self._tail = b"", 0, b""
        self.read = 0  # bytes so far
        self.refused: Refused | None = None  # why no more of it is taken

    def check(self, scope: Scope) -> None:
        """Raise Refused for what says itself that it is too long, or is no form of files."""
        limits = current_limits()
        headers = Headers(scope=scope)
        self._most = limits.upload_bytes + FORM_BYTES if is_upload(scope) else limits.body_bytes
        length = headers.get("content-length", "0")
        if not length.isdecimal() or int(length) > self._most:
            raise too_large(self._most)
        if is_upload(scope):
            kind, more = parse_options_header(headers.get("content-type", ""))  # as Gradio does
            if kind != b"multipart/form-data" or not more.get(b"boundary"):
                raise Refused(400, "Files are sent as a form (multipart/form-data).")
            self._mark = b"--" + more[b"boundary"]

    async def receive(self) -> Message:
        """Return the next piece, or raise Refused if it goes beyond what is allowed."""
        message = await self._receive()
        piece = message.get("body", b"")
        self.read += len(piece)
        if self.read > self._most:
            self.refused = too_large(self._most)
        elif self._mark:
            self._count(piece)
        if self.refused:
            raise self.refused
        return message

    def _count(self, piece: bytes) -> None:
        """Count parts, also where one begins in a piece and goes on in the next."""
        seen = self._tail + piece
        self._marks += seen.count(self._mark)
        self._tail = seen[-len(self._mark) + 1 :]
        if self._marks > self._files + 1:  # the last one closes the form
            files = "1 file" if self._files == 1 else f"{self._files} files"
            self.refused = Refused(413, f"At most {files} can be sent at a time.")


class Answer(Response):
    """The answer to a request, which is a refusal if no more of its body was taken."""

    def __init__(self, scope: Scope, send: Send, body: Body) -> None:
        super().__init__(scope, send)
        self._body = body

    async def send(self, message: Message) -> None:
        """Pass a piece of the answer on."""
        if self._body.refused:
            await self.refuse(self._body.refused)
        else:
            await super().send(message)
