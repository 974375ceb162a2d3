"""What is pushed to a Space, and how its driver judges."""

import os
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path

import psutil
import pytest

from deploy import space
from deploy.space import ROOT, SpaceError, Start, Watch

FIRST = Start(
    ready=5.0,
    compared=12.0,
    worked=10.0,
    warm=[0.1],
    read=0.2,
    trained=9.0,
    peak_bytes=10**9,
    heads={"a": 1},
)
SECOND = replace(FIRST, compared=8.0, worked=6.0, read=0.0, trained=0.0)


def test_a_space_has_the_app_and_nothing_of_its_developers(tmp_path):
    place = space.assembled(tmp_path / "space")
    assert {path.name for path in place.iterdir()} == {
        "app.py", "requirements.txt", "README.md", "LICENSE", "heads", "assets",
    }  # fmt: skip
    assert (place / "assets" / "examples" / "sentiment.csv").is_file()
    assert not list(place.rglob("__pycache__"))
    assert len(list(place.rglob("*.py"))) == len(list((ROOT / "heads").rglob("*.py"))) + 1


def test_only_what_git_knows_is_pushed(tmp_path):
    git = ["git", "-c", "user.name=a", "-c", "user.email=a@example.org"]
    (tmp_path / "heads").mkdir()
    for name in ("app.py", "heads/known.py", "heads/secret.py", "notes.md"):
        (tmp_path / name).write_text(name, "utf-8")
    subprocess.run([*git, "init", "-q"], cwd=tmp_path, check=True)
    subprocess.run([*git, "add", "app.py", "heads/known.py", "notes.md"], cwd=tmp_path, check=True)
    assert space.pushed(tmp_path) == ["app.py", "heads/known.py"]


def test_the_front_matter_is_what_a_space_needs():
    front = space.front_matter(ROOT / "README.md")
    assert front["sdk"] == "gradio"
    assert (ROOT / front["app_file"]).is_file()
    assert front["python_version"] in ("3.10", "3.11", "3.12", "3.13")
    assert len(front["short_description"]) <= 60


def test_a_space_knows_nothing_of_who_runs_it(tmp_path, monkeypatch):
    monkeypatch.setenv("HF_TOKEN", "secret")
    monkeypatch.setenv("HEADS_CACHE", "/elsewhere")
    known = space.surroundings(tmp_path, Path("/env/bin/python"), 7861)
    assert not {"HF_TOKEN", "HEADS_CACHE", "PYTHONPATH"} & set(known)
    assert known["SPACE_ID"]
    assert known["PATH"].startswith("/env/bin:")


@pytest.mark.skipif(not hasattr(os, "sched_getaffinity"), reason="no affinity here")
def test_a_space_is_bounded_to_two_cores_and_16_gb():
    code = "import os, resource; print(len(os.sched_getaffinity(0)), *resource.getrlimit(9))"
    told = subprocess.check_output([sys.executable, "-c", code], preexec_fn=space.bounded)
    cores, *memory = map(int, told.split())
    assert cores <= 2
    assert memory == [16 * 2**30] * 2


def test_memory_is_counted_over_all_that_a_process_starts():
    child = "import time; ballast = b'1' * 100_000_000; print('ready', flush=True); time.sleep(60)"
    code = f"import subprocess, sys; subprocess.run([sys.executable, '-c', {child!r}])"
    with subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE) as process:
        started = psutil.Process(process.pid)
        try:
            assert process.stdout.readline() == b"ready\n"
            watch = Watch(process=started)
            with watch.watching():
                until = time.monotonic() + 20
                while not watch.peak_bytes and time.monotonic() < until:
                    time.sleep(0.01)
            assert watch.peak_bytes > 100_000_000 > started.memory_info().rss
        finally:
            for one in (*started.children(recursive=True), started):
                one.kill()


@pytest.mark.parametrize(
    ("first", "second", "why"),
    [
        (replace(FIRST, heads={}), SECOND, "kept no trained head"),
        (FIRST, replace(SECOND, heads={"a": 2}), "trained 1 heads once more"),
        (FIRST, replace(SECOND, heads={}), "trained 1 heads once more"),
        (FIRST, replace(SECOND, worked=10.0), "saved nothing: its first comparison took 10.0 s"),
    ],
)
def test_a_second_start_that_uses_nothing_of_the_first_is_a_failure(first, second, why):
    with pytest.raises(SpaceError, match=why):
        space.check_again(first, second)
    space.check_again(FIRST, SECOND)


def test_a_space_that_ends_at_once_is_a_failure(tmp_path):
    (tmp_path / "app.py").write_text("raise SystemExit(3)", "utf-8")
    with pytest.raises(SpaceError, match="ended with code 3"):
        space.start(tmp_path, tmp_path / "home", Path(sys.executable), 7897, trains=False)


def test_a_space_that_serves_more_than_its_page_is_a_failure():
    code = (
        "import socket, time; both = [socket.create_server(('127.0.0.1', 0)) for _ in range(2)]; "
        "print(*(one.getsockname()[1] for one in both), flush=True); time.sleep(60)"
    )
    with subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE) as process:
        try:
            ports = [int(port) for port in process.stdout.readline().split()]
            with pytest.raises(SpaceError, match=f"port {ports[1]} too"):
                space.check_ports(process.pid, ports[0])
        finally:
            process.kill()


def test_what_was_measured_has_a_row_each():
    rows = space.rows(FIRST, SECOND)
    assert [row.ours for row in rows] == [5.0, 12.0, 10.0, 5.0, 8.0, 6.0, 0.1, 0.2, 9.0, 1.0]
