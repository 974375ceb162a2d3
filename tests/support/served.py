"""The real server in a process of its own, with all that it writes; and raw calls to it."""

import contextlib
import http.client
import json
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import torch

ROOT = Path(__file__).parents[2]
API = "/gradio_api"


@dataclass(frozen=True, kw_only=True)
class Served:
    """A server that runs."""

    port: int  # of loopback
    written: Path  # all that it writes, on stdout and stderr

    def ask(self, method: str, path: str, body: Any = None, seconds: float = 60) -> tuple[int, str]:
        """Status and text of an answer; a body that is no text is sent as JSON."""
        line = http.client.HTTPConnection("127.0.0.1", self.port, timeout=seconds)
        text = body if body is None or isinstance(body, (str, bytes)) else json.dumps(body)
        with contextlib.closing(line):
            try:
                line.request(method, path, text, {"Content-Type": "application/json"})
                answer = line.getresponse()
                return answer.status, answer.read().decode("utf-8", "replace")
            except (BrokenPipeError, ConnectionResetError):  # refused before it was read
                return 0, ""

    def call(self, name: str, data: Any, seconds: float = 60) -> tuple[str, Any]:
        """How a call of an endpoint ends, such as complete or error, and with what.

        On a machine that is busy enough its reader can come too late, and it is made again.
        """
        kind, value = self._call(name, data, seconds)
        for _ in range(3):
            if "Nobody waited for this" in str(value):
                kind, value = self._call(name, data, seconds)
        return kind, value

    def _call(self, name: str, data: Any, seconds: float) -> tuple[str, Any]:
        status, said = self.ask("POST", f"{API}/call/{name}", {"data": data}, seconds)
        if status != 200:
            return str(status), said
        event = json.loads(said)["event_id"]
        _, said = self.ask("GET", f"{API}/call/{name}/{event}", None, seconds)
        kind, _, value = said.strip().rpartition("\n\n")[2].partition("\n")
        return kind.removeprefix("event: "), json.loads(value.removeprefix("data: ") or "null")


@contextlib.contextmanager
def page_here() -> Iterator[Any]:
    """Serves the page on loopback, in this process."""
    from heads.interfaces.web.app import build

    page = build()
    page.launch(port=free_port())
    try:
        yield page
    finally:
        page.close()


@contextlib.contextmanager
def quick_runs(place: Path) -> Iterator[Path]:
    """Within it runs lie in a place of their own, and little is learned."""
    from heads.training.fitters import successive_halving

    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("HEADS_RUNS", str(place / "runs"))
        patch.setattr(successive_halving, "CAP", 24)
        yield place
    torch.set_num_threads(threads)


def alone(code: str) -> str:
    """What a fresh interpreter prints."""
    return subprocess.check_output([sys.executable, "-c", code], text=True, cwd=ROOT).strip()


def free_port() -> int:
    """A port of loopback: two servers that begin at once would find the same one free."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        return free.getsockname()[1]


@contextlib.contextmanager
def served(folder: Path, public: bool = True, **environment: str) -> Iterator[Served]:
    """Serves the page as the command does, from its start to Ctrl+C."""
    port = free_port()
    command = [sys.executable, "-m", "heads", "app", "--port", str(port)]
    own: Mapping[str, str] = {
        "HEADS_RUNS": str(folder / "runs"),
        "PYTHONPATH": str(ROOT),
        "HTTP_PROXY": "http://127.0.0.1:9",  # which does not reach the server itself
        "NO_PROXY": "",
        "no_proxy": "",
    }
    server = Served(port=port, written=folder / "written")
    with server.written.open("wb") as file:
        process = subprocess.Popen(
            [*command, *(["--public"] if public else [])],
            stdout=file, stderr=file, cwd=ROOT, env={**os.environ, **own, **environment},
        )  # fmt: skip
        try:
            _wait(server, process)
            yield server
        finally:
            process.send_signal(signal.SIGINT)
            try:
                process.wait(30)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()


def _wait(server: Served, process: "subprocess.Popen[bytes]") -> None:
    end = time.monotonic() + 120
    while time.monotonic() < end and process.poll() is None:
        if b"Head to Head is at" in server.written.read_bytes():
            return
        time.sleep(0.3)
    raise AssertionError(server.written.read_text("utf-8", "replace")[-2000:])
