"""The package: builds wheel and source, checks them, tries the wheel where nothing else is.

``python -m deploy.package [--dist FOLDER] [--tag v1.2.3] [--only-build | --only-try]``, or
``make package``. Both are built by `build`, in an environment of its own, and `twine check` looks
at what an index would show. Then the wheel is installed with all that it needs into a fresh
environment of the Python that runs this, and asked from an empty folder with an empty home: for its
version, its catalogue, a comparison, and the page.

It needs nothing but Python, so that a workflow may run it before anything is installed.
"""

import argparse
import os
import re
import socket
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections.abc import Iterator, Sequence
from pathlib import Path

ROOT = Path(__file__).parents[1]
DIST = ROOT / "dist"
TOOLS = ("build==1.6.1", "twine==7.0.0", "readme-renderer[md]==46.0")
MOST_SECONDS = 1_800.0  # for an installation
READY_SECONDS = 180.0  # for the page
ASKED = (
    ("heads", "--version"),
    ("head-to-head", "--version"),
    ("python", "-c", "import heads; print(len(heads.catalogue()), 'families')"),
    ("heads", "compare", "Not bad at all.", "-r", "mean+linear"),
)


class PackageError(Exception):
    """The package is not as it must be, said in a sentence."""


def version() -> str:
    """The version that this tree says it is."""
    text = (ROOT / "heads" / "__init__.py").read_text("utf-8")
    return re.findall(r'^__version__ = "(.+)"$', text, re.M)[0]


def check_tag(tag: str) -> None:
    """Refuses a tag that names another version.

    Raises:
        PackageError: It does.
    """
    if tag != f"v{version()}":
        what = f"The tag {tag} is not v{version()}, which heads/__init__.py says."
        raise PackageError(f"{what} Change one of them.")


def environment(folder: Path, *packages: str) -> Path:
    """Makes an environment with some packages and what they need; the folder of its programs."""
    programs = folder / ("Scripts" if os.name == "nt" else "bin")
    run([sys.executable, "-m", "venv", "--clear", str(folder)])
    pip = [str(programs / "python"), "-m", "pip", "install", "--disable-pip-version-check"]
    run([*pip, "--quiet", *packages])
    return programs


def run(command: Sequence[str], **settings: object) -> str:
    """Runs a command; what it prints.

    Raises:
        PackageError: It failed.
    """
    settings = {"timeout": MOST_SECONDS, "stdout": subprocess.PIPE, **settings}
    done = subprocess.run(command, stderr=subprocess.STDOUT, text=True, **settings)  # type: ignore
    if done.returncode:
        told = done.stdout.strip()[-1_000:]
        raise PackageError(f"{' '.join(map(str, command[-3:]))} failed: {told}")
    return done.stdout


def build(dist: Path) -> list[Path]:
    """Builds source and wheel, the wheel from the source, and checks both.

    Raises:
        PackageError: One cannot be built, an index would not show it, or there is more in the
            folder.
    """
    if dist.is_dir() and any(dist.iterdir()):
        raise PackageError(f"There is something in {dist} already. Empty it first.")
    with tempfile.TemporaryDirectory() as place:
        python = environment(Path(place), *TOOLS) / "python"
        run([str(python), "-m", "build", "--outdir", str(dist), str(ROOT)])
        found = sorted(dist.iterdir())
        run([str(python), "-m", "twine", "check", "--strict", *map(str, found)])
    return found


def tried(wheel: Path) -> Iterator[str]:
    """Installs a wheel into a fresh environment and asks it; what it says, a line each.

    Raises:
        PackageError: It does not answer.
    """
    with tempfile.TemporaryDirectory() as place:
        home, elsewhere = Path(place) / "home", Path(place) / "elsewhere"
        home.mkdir()
        elsewhere.mkdir()
        programs = environment(Path(place) / "venv", str(wheel.absolute()))
        path = f"{programs}{os.pathsep}{os.environ.get('PATH', '')}"
        # A place of its own, and nothing of whoever runs this; Windows starts nothing without two.
        kept = {name: os.environ[name] for name in ("SYSTEMROOT", "TEMP") if name in os.environ}
        settings = {"cwd": elsewhere, "env": kept | {"PATH": path, "HOME": str(home)}}
        for program, *rest in ASKED:
            told = run([str(programs / program), *rest], **settings)
            yield f"{program} {' '.join(rest)}: {told.strip().splitlines()[0]}"
        yield served(programs / "heads", settings)


def served(program: Path, settings: dict) -> str:
    """Opens the page, and looks whether it answers.

    Raises:
        PackageError: It does not.
    """
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    begun = time.monotonic()
    command = [str(program), "app", "--port", str(port)]
    with subprocess.Popen(command, stdout=subprocess.DEVNULL, **settings) as process:
        try:
            while "Head to Head" not in (page := answer(port)):
                if process.poll() is not None or time.monotonic() - begun > READY_SECONDS:
                    raise PackageError("The page of the installed wheel does not answer.")
                time.sleep(0.2)
        finally:
            process.terminate()
    return f"heads app: a page of {len(page):,} letters"


def answer(port: int) -> str:
    """What is served at a port, or nothing."""
    try:
        with urllib.request.urlopen(f"http://127.0.0.1:{port}/", timeout=30) as told:
            return told.read().decode()
    except OSError:  # not yet
        return ""


def main() -> None:
    """Builds and tries the package."""
    parser = argparse.ArgumentParser(description="Builds the package and tries its wheel.")
    parser.add_argument("--dist", type=Path, default=DIST, help="where wheel and source lie")
    parser.add_argument("--tag", default="", help="the tag that is published, such as v0.1.0")
    steps = parser.add_mutually_exclusive_group()
    steps.add_argument("--only-build", action="store_true", help="do not try the wheel")
    steps.add_argument("--only-try", action="store_true", help="try the wheel that lies there")
    asked = parser.parse_args()
    try:
        if asked.tag:
            check_tag(asked.tag)
        if not asked.only_try:
            for path in build(asked.dist):
                print(f"built and checked: {path.name}, {path.stat().st_size:,} bytes", flush=True)
        if not asked.only_build:
            wheels = sorted(asked.dist.glob("*.whl"))
            if len(wheels) != 1:
                raise PackageError(f"{asked.dist} holds {len(wheels)} wheels, not one.")
            for line in tried(wheels[0]):
                print(line, flush=True)
    except PackageError as error:
        sys.exit(f"deploy.package: {error}")


if __name__ == "__main__":
    main()
