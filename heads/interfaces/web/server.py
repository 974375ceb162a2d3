"""The page as an ASGI application, and the server that serves it."""

import asyncio
import contextlib
import socket
import threading
import time
from collections.abc import AsyncIterator
from functools import cache, partial
from typing import Any

import gradio as gr
import uvicorn
from anyio.to_thread import current_default_thread_limiter
from fastapi import FastAPI

from heads import plugins
from heads.errors import DataError, HeadsError
from heads.interfaces.web import gradio_internals
from heads.interfaces.web.calls import wrap_handler
from heads.interfaces.web.middleware import Gate, find_endpoints
from heads.interfaces.web.slots import pools
from heads.interfaces.web.startup import Opening
from heads.interfaces.web.theme import CSS, HEAD, THEME
from heads.interfaces.web.visitors import Visitors
from heads.settings import current_limits, prepare_server, server_address

THREADS = 512  # most of them wait, for a training or a download
PORTS = range(7860, 7960)  # tried in this order if no port is given
STARTING = 30.0  # seconds that a server may take to start
CLOSING = 1  # seconds that answers have to end as the server stops
# Seconds; longer than httpx keeps an idle connection (5), which else may send into a closed one.
KEEP_ALIVE = 20


class _Blocks(gr.Blocks):
    def queue(self, *arguments: Any, **settings: Any) -> Any:
        """Set up the queue when the page is created; a later call would build the server twice."""
        # Not open: what is called past the queue has no slot, no reader and no limits.
        usual: dict[str, Any] = {"api_open": False, "default_concurrency_limit": None}
        return super().queue(*arguments, **{**usual, **settings})


class Page:
    """The page, and its server once it is launched."""

    opening: Opening  # what is filled in after the page is served

    def __init__(self, **settings: Any) -> None:
        """Prepare the environment, and begin a page with settings of `gradio.Blocks`."""
        prepare_server()
        if current_limits().public and not plugins.load_each("admission", required=True):
            what = "This installation lacks the extra that protects a page from strangers."
            raise HeadsError(what, "Start the page without --public, HEADS_PUBLIC and SPACE_ID.")
        self.blocks, self.visitors = _Blocks(**settings), Visitors()
        self.url = ""
        self._server: uvicorn.Server | None = None
        self._thread: threading.Thread | None = None

    def asgi(self) -> Any:
        """Return the finished page as an ASGI application behind its middleware."""
        limits = current_limits()
        slots = pools()
        wrap = lambda handler, inputs, name: wrap_handler(handler, inputs, slots.get(name))  # noqa: E731
        gradio_internals.wrap_handlers(self.blocks, wrap)
        gradio_internals.keep_no_file_notes(self.blocks)
        gradio_internals.raise_limits(self.blocks, threads=THREADS, sessions=limits.sessions)
        app: Any = gr.mount_gradio_app(
            FastAPI(lifespan=self._live, openapi_url=None), self.blocks, "/",
            max_file_size=limits.upload_bytes, show_error=False, ssr_mode=False, run_history=False,
            theme=THEME, css=CSS, head=HEAD, footer_links=["api", "settings"],
        )  # fmt: skip
        endpoints = cache(partial(find_endpoints, self.blocks))
        app = Gate(app=app, visitors=self.visitors, endpoints=endpoints)
        for wrap_app in plugins.load_each("middleware", required=True):
            app = wrap_app(app, self)
        return app

    def launch(self, host: str = "", port: int | None = None) -> str:
        """Serve the page in a thread, and return its address.

        Args:
            host: $GRADIO_SERVER_NAME or 127.0.0.1, if not given.
            port: $GRADIO_SERVER_PORT or the first one from 7860 that is free, if not given.

        Raises:
            DataError: It cannot be served there.
            OSError: The server did not start.
        """
        app, (usual_host, usual_port) = self.asgi(), server_address()
        host = host or usual_host
        bound = _bind(host, port or usual_port)
        name = "localhost" if host == "0.0.0.0" else f"[{host}]" if ":" in host else host
        self.url = f"http://{name}:{bound.getsockname()[1]}/"
        gradio_internals.tell_address(self.blocks, self.url)
        self._server = uvicorn.Server(
            uvicorn.Config(
                app, log_config=None, log_level="critical", access_log=False, proxy_headers=False,
                timeout_graceful_shutdown=CLOSING, timeout_keep_alive=KEEP_ALIVE, lifespan="on",
            )
        )  # fmt: skip
        run = partial(self._server.run, sockets=[bound])
        self._thread = threading.Thread(target=run, name="server", daemon=True)
        self._thread.start()
        end = time.monotonic() + STARTING
        while not self._server.started:
            if not self._thread.is_alive() or time.monotonic() > end:
                raise OSError(f"The server did not start at {self.url}.")
            time.sleep(0.001)
        self.opening.begin(self.blocks)
        return self.url

    def wait(self) -> None:
        """Wait until the server ends, or Ctrl+C ends it."""
        try:
            while self._thread and self._thread.is_alive():
                self._thread.join(0.5)
        except KeyboardInterrupt:
            self.close()

    def close(self) -> None:
        """Stop the server."""
        if self._server and self._thread:
            self._server.should_exit = True
            self._thread.join(5)

    @contextlib.asynccontextmanager
    async def _live(self, app: Any) -> AsyncIterator[None]:
        """Run what lives as long as the server."""
        # Threads beside those of handlers must not wait for handlers that wait.
        current_default_thread_limiter().total_tokens = THREADS
        clock = asyncio.create_task(self.visitors.keep_time())
        try:
            yield
        finally:
            clock.cancel()


def _bind(host: str, port: int | None) -> socket.socket:
    """Return a socket that listens at a host, at the given port or the first one that is free."""
    family, *_ = socket.getaddrinfo(host, port or 0, type=socket.SOCK_STREAM)[0]
    problem: OSError | OverflowError | None = None
    for number in [port] if port else PORTS:
        bound = socket.socket(family)
        try:
            bound.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            bound.bind((host, number))
            bound.listen(2048)
        except (OSError, OverflowError) as error:
            bound.close()
            problem = error
        else:
            return bound
    place = f"port {port} of {host}" if port else f"any port of {host}"
    what = f"The page cannot be served on {place}: it is taken, or not to be had."
    raise DataError(what, "Choose another with --port.") from problem
