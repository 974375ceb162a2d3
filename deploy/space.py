"""The Space: puts together what is pushed, and runs it here as a Space does; ``make space``.

``python -m deploy.space [--build FOLDER] [--port PORT] [--again] [--only-files]``. What is pushed
comes from the files that git knows. It runs in an environment that was made for it from its
requirements.txt and the Gradio of its front matter, in public mode, with a home of its own, on as
many cores and with as much memory as CPU basic has. It is asked as a program would: a comparison, a
file, a small training; then it is started once more, and must find what it kept.

How it is bounded: two cores by affinity (taskset's way) where there are more; every process at
most 16 GB of address space; and the memory that all of them hold together is watched, and more than
16 GB is a failure. No Space of Hugging Face was asked: its disk, its network and its builder are
not here.
"""

import argparse
import contextlib
import os
import re
import shutil
import signal
import subprocess
import sys
import threading
import time
import urllib.request
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import psutil
from gradio_client import Client, handle_file

from benchmarks.reports import Row, line, measured

ROOT = Path(__file__).parents[1]
BUILD = ROOT / "build"
PUSHED = ("app.py", "requirements.txt", "README.md", "LICENSE", "heads/", "assets/")
NAME = "someone/head-to-head"
CORES, BYTES = 2, 16 * 2**30
MOST_SECONDS = 300.0  # until it is ready, and for each thing that it is asked
BEAT = 0.05
WARM = 5  # comparisons after the first
TEXT, RECIPES = "Not bad at all.", ["mean+linear", "cls+roberta"]


class SpaceError(Exception):
    """The Space did not do what it must, said in a sentence."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Start:
    """What was measured of one start, in seconds from the start of the process.

    Attributes:
        ready: Until the page answered.
        compared: Until the first comparison was there.
        worked: What it had computed by then, in seconds of a core: what else runs does not count.
        warm: How long each comparison took that came after.
        read: How long it took to read a file; 0 where none was.
        trained: How long a small training took; 0 where none was.
        peak_bytes: The most that all its processes held together; memory that they share counts
            once for each.
        heads: The trained heads that it keeps, each with its inode.
    """

    ready: float
    compared: float
    worked: float
    warm: Sequence[float]
    read: float
    trained: float
    peak_bytes: int
    heads: Mapping[str, int]


@dataclass(kw_only=True)
class Watch:
    """Looks at a process and all that it has started until it is told to stop."""

    process: psutil.Process
    peak_bytes: int = 0
    _stop: threading.Event = field(default_factory=threading.Event)

    def run(self) -> None:
        """Takes note of the most that they hold."""
        while not self._stop.wait(BEAT):
            self.peak_bytes = max(self.peak_bytes, self.held())

    def held(self) -> int:
        """What they hold now, in bytes."""
        total = 0
        with contextlib.suppress(psutil.Error):
            for one in (self.process, *self.process.children(recursive=True)):
                with contextlib.suppress(psutil.Error):
                    total += one.memory_info().rss
        return total

    def worked(self) -> float:
        """What the process has computed so far, in seconds of a core."""
        times = self.process.cpu_times()
        return times.user + times.system

    @contextlib.contextmanager
    def watching(self) -> Iterator[None]:
        """Looks on in a thread."""
        thread = threading.Thread(target=self.run, name="watch")
        thread.start()
        try:
            yield
        finally:
            self._stop.set()
            thread.join()


def pushed(root: Path = ROOT) -> list[str]:
    """The files of a Space, as git knows them."""
    command = ["git", "ls-files", "-z", "--", *PUSHED]
    told = subprocess.run(command, cwd=root, capture_output=True, check=True).stdout.decode()
    return sorted(filter(None, told.split("\0")))


def assembled(place: Path, root: Path = ROOT) -> Path:
    """Copies the files of a Space into a folder of their own, and nothing else."""
    shutil.rmtree(place, ignore_errors=True)
    for name in pushed(root):
        (place / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy2(root / name, place / name)
    return place


def front_matter(readme: Path) -> dict[str, str]:
    """The plain values of the settings of a Space, by name."""
    head = readme.read_text("utf-8").split("---\n")[1]
    return {key: value.strip('"') for key, value in re.findall(r"^(\w+): (.*)$", head, re.M)}


def environment(place: Path, space: Path) -> Path:
    """Makes an environment anew, as a Space does, and returns its Python."""
    python = place / "bin" / "python"
    gradio = f"gradio[oauth]=={front_matter(space / 'README.md')['sdk_version']}"
    install = [str(python), "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
    for command in (
        [sys.executable, "-m", "venv", "--clear", str(place)],
        [*install, "-r", str(space / "requirements.txt")],
        [*install, gradio, "spaces"],  # by themselves, as logs of builds have it
        [str(python), "-m", "pip", "check"],
    ):
        done = subprocess.run(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
        if done.returncode:
            raise SpaceError(f"{' '.join(command[1:4])} failed: {done.stderr.strip()[-500:]}")
    return python


def surroundings(home: Path, python: Path, port: int) -> dict[str, str]:
    """What a Space sets; nothing of who runs this comes in but the search path of programs."""
    return {
        "PATH": f"{python.parent}:{os.environ.get('PATH', '')}",
        "HOME": str(home),
        "LANG": "C.UTF-8",
        "PYTHONUNBUFFERED": "1",
        "SYSTEM": "spaces",
        "SPACE_ID": NAME,
        "SPACE_HOST": f"{NAME.replace('/', '-')}.hf.space",
        "GRADIO_SERVER_NAME": "0.0.0.0",
        "GRADIO_SERVER_PORT": str(port),
        "GRADIO_ANALYTICS_ENABLED": "False",
        "HEADS_STORAGE": str(home / "storage"),
    }


def bounded() -> None:
    """Bounds the process that calls it, and all that it starts, to CPU basic."""
    with contextlib.suppress(ImportError, ValueError, OSError):  # macOS knows no such limit
        import resource

        resource.setrlimit(resource.RLIMIT_AS, (BYTES, BYTES))
    if hasattr(os, "sched_setaffinity"):
        os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[:CORES])


@contextlib.contextmanager
def running(space: Path, home: Path, python: Path, port: int) -> Iterator[subprocess.Popen[bytes]]:
    """The Space while it runs; it is ended as a Space ends it, with all that it started."""
    if answers(port):
        raise SpaceError(f"Port {port} is taken: choose another with --port.")
    (home / "storage").mkdir(parents=True, exist_ok=True)  # where a bucket would be mounted
    with (home / "log.txt").open("ab") as log:
        process = subprocess.Popen(
            [str(python), "app.py"],
            cwd=space,
            env=surroundings(home, python, port),
            stdout=log,
            stderr=log,
            start_new_session=True,
            preexec_fn=bounded,
        )
        try:
            yield process
        finally:
            process.terminate()
            try:
                process.wait(10)
            except subprocess.TimeoutExpired:
                process.kill()
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            process.wait()


def answers(port: int) -> bool:
    """Whether the page is served."""
    try:
        with urllib.request.urlopen(f"http://127.0.0.1:{port}/", timeout=30) as answer:
            return answer.status == 200
    except OSError:
        return False


def ready(process: subprocess.Popen[bytes], port: int, begun: float) -> float:
    """Waits until the page is served; the seconds since a moment."""
    while not answers(port):
        if process.poll() is not None:
            raise SpaceError(f"The Space ended with code {process.returncode}.")
        if time.monotonic() - begun > MOST_SECONDS:
            raise SpaceError(f"The Space was not ready after {MOST_SECONDS:.0f} s.")
        time.sleep(BEAT)
    return time.monotonic() - begun


def start(space: Path, home: Path, python: Path, port: int, *, trains: bool) -> Start:
    """Starts the Space, asks it, and ends it.

    Raises:
        SpaceError: It did not start or answer as it must, or held too much memory.
    """
    begun = time.monotonic()
    with running(space, home, python, port) as process:
        watch = Watch(process=psutil.Process(process.pid))
        with watch.watching():
            served = ready(process, port, begun)
            client = Client(f"http://127.0.0.1:{port}", verbose=False)
            try:
                compare(client)
                compared, worked = time.monotonic() - begun, watch.worked()
                warm = [timed(compare, client) for _ in range(WARM)]
                sample = space / "assets" / "examples" / "sentiment.csv"
                read = timed(read_file, client, sample) if trains else 0.0
                trained = timed(train, client, sample) if trains else 0.0
            finally:
                client.close()
        check_ports(process.pid, port)
    if watch.peak_bytes > BYTES:
        raise SpaceError(f"It held {watch.peak_bytes / 2**30:.1f} GB of the 16 GB of CPU basic.")
    return Start(
        ready=served,
        compared=compared,
        worked=worked,
        warm=warm,
        read=read,
        trained=trained,
        peak_bytes=watch.peak_bytes,
        heads=kept(home),
    )


def check_ports(pid: int, port: int) -> None:
    """Looks whether anything but the page is served.

    Raises:
        SpaceError: Something is.
    """
    found = psutil.Process(pid).net_connections(kind="inet")
    served = {one.laddr.port for one in found if one.status == psutil.CONN_LISTEN}
    if more := served - {port}:
        raise SpaceError(f"It serves more than the page: port {min(more)} too.")


def timed(work: Any, *given: Any) -> float:
    """How long something takes."""
    begun = time.monotonic()
    work(*given)
    return time.monotonic() - begun


def compare(client: Client) -> None:
    """Asks two heads, and looks at what they answer."""
    told = client.submit(TEXT, "", RECIPES, api_name="/compare").result(MOST_SECONDS)
    shares = [sum(one["probabilities"]) for one in told["recipes"]]
    if len(shares) != len(RECIPES) or any(abs(share - 1) > 1e-3 for share in shares):
        raise SpaceError(f"A comparison of {RECIPES} gave probabilities that add up to {shares}.")


def read_file(client: Client, path: Path) -> None:
    """Sends a file and looks at how many rows were read."""
    sent = (handle_file(str(path)), "", "", "", "")
    told = client.submit(*sent, api_name="/read").result(MOST_SECONDS)
    rows = len(path.read_text("utf-8").splitlines()) - 1
    if told["rows_in"] != rows:
        raise SpaceError(f"{told['rows_in']} rows of {path.name} were read, not {rows}.")


def train(client: Client, path: Path) -> None:
    """Trains two heads on a file, and looks at the verdict."""
    asked = {"recipes": " ".join(RECIPES), "seeds": 1, "api_name": "/train_grid"}
    told = client.submit(handle_file(str(path)), **asked).result(MOST_SECONDS)
    names = {cell["recipe"] for cell in told["cells"]}
    if not set(RECIPES) <= names:
        raise SpaceError(f"A training of {RECIPES} ended with {sorted(names)}.")


def kept(home: Path) -> dict[str, int]:
    """The heads in storage, each with its inode: one that is written anew has another."""
    files = (home / "storage").rglob("heads/*.safetensors")
    return {path.name: path.stat().st_ino for path in files}


def check_again(first: Start, second: Start) -> None:
    """What a second start must hold to.

    Raises:
        SpaceError: It did not use what the first one kept.
    """
    if not first.heads:
        raise SpaceError("The first start kept no trained head.")
    if changed := [name for name, at in first.heads.items() if second.heads.get(name) != at]:
        raise SpaceError(f"The second start trained {len(changed)} heads once more.")
    if second.worked >= first.worked:
        times = f"{second.worked:.1f} s of a core, the first {first.worked:.1f} s"
        raise SpaceError(f"The second start saved nothing: its first comparison took {times}.")


def rows(first: Start, second: Start) -> list[Row]:
    """What was measured, for a report."""
    peak = max(first.peak_bytes, second.peak_bytes) / 1e9
    return [
        measured("Space: process start to the page", [first.ready]),
        measured("Space: process start to the first comparison", [first.compared]),
        measured("Space: computed by then", [first.worked], unit="core-s"),
        measured("Space: second start to the page", [second.ready]),
        measured("Space: second start to the first comparison", [second.compared]),
        measured("Space: computed by then, second start", [second.worked], unit="core-s"),
        measured("Space: a comparison over the API", [*first.warm, *second.warm]),
        measured("Space: reading 420 rows over the API", [first.read]),
        measured("Space: training two heads on 420 rows over the API", [first.trained]),
        measured("Space: most memory of all its processes", [peak], unit="GB"),
    ]


def main_rows(build: Path = BUILD, port: int = 7860, *, again: bool = False) -> list[Row]:
    """Puts the Space together, runs it twice, and returns what was measured.

    Args:
        again: Keep the environment of the time before, if there is one.

    Raises:
        SpaceError: Something is not as it must be.
    """
    space = assembled(build / "space")
    python, home = build / "space-environment" / "bin" / "python", build / "space-home"
    if not (again and python.exists()):
        begun = time.monotonic()
        python = environment(build / "space-environment", space)
        print(f"Its environment took {time.monotonic() - begun:.0f} s to install.", flush=True)
    shutil.rmtree(home, ignore_errors=True)
    try:
        first = start(space, home, python, port, trains=True)
        second = start(space, home, python, port, trains=False)
        check_again(first, second)
    except Exception:
        sys.stderr.write((home / "log.txt").read_text("utf-8", "replace")[-4000:])
        raise
    assembled(space)  # anew: nothing that the runs left in it is pushed
    return rows(first, second)


def main(arguments: Sequence[str] | None = None) -> int:
    """Does what is asked; 1 where the Space is not as it must be."""
    parser = argparse.ArgumentParser(prog="python -m deploy.space", description=__doc__)
    parser.add_argument("--build", type=Path, default=BUILD, help="where it is put together")
    parser.add_argument("--port", type=int, default=7860)
    parser.add_argument("--again", action="store_true", help="keep the environment of before")
    parser.add_argument("--only-files", action="store_true", help="put it together, no more")
    asked = parser.parse_args(arguments)
    if asked.only_files:
        print(assembled(asked.build / "space"))
        return 0
    try:
        found = main_rows(asked.build, asked.port, again=asked.again)
    except SpaceError as error:
        print(f"make space: {error}", file=sys.stderr)
        return 1
    for row in found:
        print(line(row))
    return 0


if __name__ == "__main__":
    sys.exit(main())
