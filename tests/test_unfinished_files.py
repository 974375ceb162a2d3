"""What a killed process left in a folder goes with the next write; what one works on stays."""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from heads import caching
from heads.caching import UNFINISHED, replacing
from heads.exporters.export import new_folder

WRITES = """
import sys, time
from pathlib import Path
from heads.caching import replacing
from heads.exporters.export import new_folder

def stay(place):
    (place / "weights" if place.is_dir() else place).write_text("half", "utf-8")
    print("writing", flush=True)
    time.sleep(600)

if sys.argv[1] == "file":
    with replacing(Path(sys.argv[2])) as place:
        stay(place)
else:
    with new_folder(Path(sys.argv[2])) as place:
        stay(place)
"""
pytestmark = pytest.mark.skipif(os.name == "nt", reason="Windows has no such locks")


@contextmanager
def another(kind: str, folder: Path) -> Iterator[subprocess.Popen[str]]:
    """A process that is in the middle of writing into a folder."""
    command = [sys.executable, "-c", WRITES, kind, str(folder / f"theirs-{kind}")]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "writing\n"
        for path in folder.glob(f"{UNFINISHED}*"):
            os.utime(path, (0, 0))  # it wrote nothing for long
        yield process
        process.send_signal(signal.SIGKILL)


def write_file(folder: Path) -> None:
    with replacing(folder / "mine.csv") as place:
        place.write_text("whole", "utf-8")


def write_folder(folder: Path) -> None:
    with new_folder(folder / "mine") as place:
        (place / "README.md").write_text("whole", "utf-8")


@pytest.mark.parametrize("write", [write_file, write_folder])
@pytest.mark.parametrize("kind", ["file", "folder"])
def test_what_a_killed_process_left_goes(
    tmp_path: Path, kind: str, write: Callable[[Path], None]
) -> None:
    with another(kind, tmp_path) as process:
        process.send_signal(signal.SIGKILL)
        process.wait()
        assert len(list(tmp_path.glob(f"{UNFINISHED}*"))) == 1
        write(tmp_path)
    assert [path.stem for path in tmp_path.iterdir()] == ["mine"]


@pytest.mark.parametrize("kind", ["file", "folder"])
def test_what_a_process_works_on_stays(tmp_path: Path, kind: str) -> None:
    with another(kind, tmp_path):
        write_file(tmp_path)
        assert len(list(tmp_path.glob(f"{UNFINISHED}*"))) == 1


def test_what_changed_a_moment_ago_stays(tmp_path: Path) -> None:
    path = tmp_path / f"{UNFINISHED}x"
    path.touch()
    write_file(tmp_path)
    assert path.exists()
    os.utime(path, (time.time() - caching.QUIET_SECONDS - 1,) * 2)
    write_file(tmp_path)
    assert not path.exists()
