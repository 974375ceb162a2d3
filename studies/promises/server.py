"""The real app in a process of its own, for those who measure from outside what it does."""

import contextlib
import os
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psutil
from gradio_client import Client

ROOT = Path(__file__).parents[2]
READY = 180.0  # seconds until it must answer
# Of whoever starts it none of these may reach it.
FOREIGN = ("SPACE_ID", "HEADS_PUBLIC", "HF_TOKEN", "HF_HOME", "HF_HUB_CACHE", "XDG_CACHE_HOME")


@dataclass(frozen=True, slots=True, kw_only=True)
class Server:
    """An app that runs.

    Attributes:
        url: Its address, without a slash at the end.
        home: The folder that holds all that it writes.
        process: Its process.
    """

    url: str
    home: Path
    process: "subprocess.Popen[bytes]"

    @property
    def pid(self) -> int:
        """Its process id."""
        return self.process.pid

    @property
    def uploads(self) -> Path:
        """Gradio's folder of uploads."""
        return self.home / "gradio"

    @property
    def runs(self) -> Path:
        """The folder of runs."""
        return self.home / "runs"

    @property
    def cache(self) -> Path:
        """Its cache, where private uploads lie too."""
        return self.home / "cache"

    def tree(self) -> list[psutil.Process]:
        """It and all processes that it has started and that live."""
        with contextlib.suppress(psutil.NoSuchProcess):
            this = psutil.Process(self.pid)
            return [this, *this.children(recursive=True)]
        return []

    def workers(self) -> list[psutil.Process]:
        """Its processes that train."""
        return self.tree()[1:]

    def memory(self) -> int:
        """Bytes that it and its workers hold."""
        held = 0
        for one in self.tree():
            with contextlib.suppress(psutil.NoSuchProcess):
                held += one.memory_info().rss
        return held

    def disk(self) -> int:
        """Bytes of all files that it has written."""
        held = 0
        for path in self.home.rglob("*"):
            with contextlib.suppress(OSError):
                held += path.stat().st_size if path.is_file() else 0
        return held

    def log(self) -> str:
        """All that it has printed so far."""
        return (self.home / "server.log").read_text("utf-8", "replace")

    def client(self) -> Client:
        """A client of its own session."""
        return Client(self.url, verbose=False)


@contextlib.contextmanager
def served(*, public: bool, env: Mapping[str, str] | None = None) -> Iterator[Server]:
    """The app, until the end of the block; it has answered a compare when the block begins.

    Args:
        public: Whether in public mode; else in local mode.
        env: More of its environment.

    Raises:
        RuntimeError: It did not answer in time; with the end of what it printed.
    """
    with tempfile.TemporaryDirectory(prefix="promises-", ignore_cleanup_errors=True) as place:
        home = Path(place)
        server = _started(home, public, env or {})
        try:
            _await_answer(server)
            yield server
        finally:
            _end(server)


def environment(home: Path) -> dict[str, str]:
    """The environment of a process of the app whose every file lies in a folder."""
    own = {name: value for name, value in os.environ.items() if name not in FOREIGN}
    path = os.pathsep.join(filter(None, (str(ROOT), own.get("PYTHONPATH"))))
    places = {
        "HOME": home,
        "HEADS_CACHE": home / "cache",
        "HEADS_RUNS": home / "runs",
        "GRADIO_TEMP_DIR": home / "gradio",
        "TMPDIR": home / "tmp",
    }
    (home / "tmp").mkdir(exist_ok=True)
    told = {"GRADIO_ANALYTICS_ENABLED": "False", "HF_HUB_OFFLINE": "1", "PYTHONUNBUFFERED": "1"}
    return {**own, **{name: str(place) for name, place in places.items()}, **told,
            "PYTHONPATH": path}  # fmt: skip


def _started(home: Path, public: bool, env: Mapping[str, str]) -> Server:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    command = [sys.executable, "-m", "heads", "app", "--port", str(port)]
    with (home / "server.log").open("wb") as log:
        process = subprocess.Popen(
            [*command, "--public"] if public else command,
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=subprocess.STDOUT,
            env={**environment(home), **env},
            cwd=home,
            start_new_session=True,
        )
    return Server(url=f"http://127.0.0.1:{port}", home=home, process=process)


def _await_answer(server: Server) -> None:
    end, last = time.monotonic() + READY, ""
    asked: dict[str, Any] = {"text": "a fine film", "recipes": ["mean+linear"]}
    while time.monotonic() < end and server.process.poll() is None:
        try:
            server.client().predict(**asked, api_name="/compare")
            return
        except Exception as error:  # not up yet, or not yet ready
            last = f"{type(error).__name__}: {error}"
            time.sleep(0.5)
    raise RuntimeError(f"the app did not answer ({last}):\n{server.log()[-2000:]}")


def _end(server: Server) -> None:
    """Ends it and all that it has started."""
    tree = server.tree()
    with contextlib.suppress(ProcessLookupError):
        os.killpg(server.pid, signal.SIGTERM)
    _, alive = psutil.wait_procs(tree, timeout=5)
    for one in alive:
        with contextlib.suppress(psutil.NoSuchProcess):
            one.kill()
    server.process.wait()
