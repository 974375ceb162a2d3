"""What a killed process left in a folder goes with the next write; what one works on stays."""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from heads import caching
from heads.caching import UNFINISHED, replacing
from heads.exporters.export import new_folder

WRITES = """
import sys, time
from contextlib import ExitStack
from pathlib import Path
from heads.caching import replacing
from heads.exporters.export import new_folder

with ExitStack() as stack:
    for folder in map(Path, sys.argv[1:]):
        stack.enter_context(replacing(folder / "theirs-file")).write_text("half", "utf-8")
        place = stack.enter_context(new_folder(folder / "theirs-folder"))
        (place / "weights").write_text("half", "utf-8")
    print("writing", flush=True)
    time.sleep(600)
"""
pytestmark = pytest.mark.skipif(os.name == "nt", reason="Windows has no such locks")


@contextmanager
def another(*folders: Path) -> Iterator[subprocess.Popen[str]]:
    """A process that is in the middle of writing a file and a folder into each of these."""
    command = [sys.executable, "-c", WRITES, *map(str, folders)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "writing\n"
        for folder in folders:
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


def test_what_a_process_works_on_stays_and_what_a_killed_one_left_goes(tmp_path):
    folders = tmp_path / "a", tmp_path / "b"
    for folder in folders:
        folder.mkdir()
    with another(*folders) as process:
        write_file(folders[0])
        write_folder(folders[1])
        for folder in folders:
            assert len(list(folder.glob(f"{UNFINISHED}*"))) == 2
        process.send_signal(signal.SIGKILL)
        process.wait()
        write_file(folders[0])
        (folders[1] / "mine" / "README.md").unlink()
        (folders[1] / "mine").rmdir()
        write_folder(folders[1])
    for folder in folders:
        assert [path.stem for path in folder.iterdir()] == ["mine"]


def test_what_changed_a_moment_ago_stays(tmp_path):
    path = tmp_path / f"{UNFINISHED}x"
    path.touch()
    write_file(tmp_path)
    assert path.exists()
    os.utime(path, (time.time() - caching.QUIET_SECONDS - 1,) * 2)
    write_file(tmp_path)
    assert not path.exists()
