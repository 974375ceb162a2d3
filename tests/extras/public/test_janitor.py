"""What visitors send, make and leave behind stays within its bounds, whatever they send."""

import json
import os
import secrets
import shutil
import socket
import subprocess
import sys
import threading
import time
from dataclasses import replace
from pathlib import Path
from urllib.parse import urlsplit

import httpx
import huggingface_hub
import pytest
from gradio_client import Client, handle_file

from heads.backbone import downloads
from heads.errors import LimitError
from heads.extras.public import janitor, middleware
from heads.extras.public.janitor import Held, Place, start  # before tests turn it off
from heads.extras.public.settings import QUOTAS, Quota
from heads.interfaces.web import calls, temporary_files, uploads
from heads.interruption import interruptible
from heads.settings import served_folder

HOLD = """
import sys, time
from pathlib import Path
from heads.runs.folder import RunFolder
with RunFolder(path=Path(sys.argv[1])).held():
    print("held", flush=True)
    time.sleep(60)
"""
API = "/gradio_api"
UPLOADS = 40
NOT_SENT = "file that was sent to this page"  # in the answer to any other path


@pytest.fixture
def url(page):
    shutil.rmtree(served_folder(), ignore_errors=True)
    return page.url.rstrip("/")


def sent(url, *files):
    """The answer to an upload of files."""
    return httpx.post(url + API + "/upload", files=[("files", one) for one in files], timeout=60)


def file_of(path):
    return {"path": str(path), "meta": {"_type": "gradio.FileData"}}


def error_of(url, function, data):
    """The error that a function answers, by its number; None if it went well."""
    query = {"session_hash": secrets.token_hex(6)}
    asked = {"data": data, "fn_index": function, **query}
    httpx.post(f"{url}{API}/queue/join", json=asked, timeout=60).raise_for_status()
    with httpx.stream("GET", f"{url}{API}/queue/data", params=query, timeout=60) as lines:
        events = (json.loads(line.removeprefix("data: ")) for line in lines.iter_lines() if line)
        end = next(event for event in events if event.get("msg") == "process_completed")
        return None if end["success"] else end["output"]["error"]


def put(path, size=10, age=0.0):
    """A file of so many bytes that was used so long ago."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(b"x" * size)
    os.utime(path, (time.time() - age,) * 2)
    return path


def files_in(folder):
    return sorted(str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file())


def quota(**given):
    return Quota(**({"bytes": 10**9, "entries": 10**6, "seconds": 10**6, "spared": 0.0} | given))


@pytest.fixture
def disk(monkeypatch):
    """Sets quotas for the janitor."""
    monkeypatch.setenv("HEADS_PUBLIC", "1")

    def changed(free_bytes=0, **quotas):
        monkeypatch.setattr(janitor, "QUOTAS", QUOTAS | quotas)
        monkeypatch.setattr(janitor, "FREE_BYTES", free_bytes)

    return changed


@pytest.fixture
def own_place(monkeypatch, tmp_path):
    """Folders of this test alone."""
    monkeypatch.setenv("HEADS_PUBLIC", "1")
    monkeypatch.setenv("HEADS_CACHE", str(tmp_path / "cache"))
    monkeypatch.delenv("HEADS_RUNS", raising=False)
    monkeypatch.setenv("GRADIO_TEMP_DIR", str(tmp_path / "temp"))
    monkeypatch.setattr(huggingface_hub.constants, "HF_HUB_CACHE", str(tmp_path / "hub"))
    return tmp_path


@pytest.fixture
def linger(monkeypatch):
    """Fewer seconds for which an upload stays at Gradio's own path, too."""
    monkeypatch.setattr(middleware, "LINGER", 0.2)
    return middleware.LINGER


# --- Attacks over HTTP.


@pytest.mark.slow
def test_of_calls_that_were_cancelled_nothing_is_left(page, url, few):
    """A step goes on after its call was cancelled, and Gradio keeps what a step answers."""
    client = Client(url, verbose=False)
    for _ in range(3):
        job = client.submit(handle_file(str(few)), grid="small", seeds=3, api_name="/train_grid")
        while not job.outputs():
            assert not job.done()
            time.sleep(0.02)
        job.cancel()
    client.close()
    end = time.monotonic() + 30
    while (calls._tasks or page.blocks.pending_diff_streams) and time.monotonic() < end:
        time.sleep(0.1)
    assert not calls._tasks
    assert not page.blocks.pending_diff_streams


def test_a_folder_in_the_place_of_a_file_ends_no_clean_up(page, url, disk):
    (path,) = sent(url, ("a.csv", b"text,label")).json()
    folder, kinds = Path(path).parents[1], set()
    assert folder == served_folder()
    for number, function in page.blocks.fns.items():
        for at, component in enumerate(function.inputs):
            if type(component) not in kinds and not component.stateful:
                kinds.add(type(component))
                data = [None] * len(function.inputs)
                data[at] = file_of(folder)
                assert NOT_SENT in error_of(url, number, data), component
    assert len(kinds) > 10
    assert not any(page.blocks.temp_file_sets)
    assert not any(block.temp_files for block in page.blocks.blocks.values())
    assert Path(path).is_file()
    disk(served=quota(seconds=0))
    janitor.Janitor().sweep()
    assert not files_in(folder)


def test_what_was_not_sent_is_no_file(page, url):
    link = put(served_folder() / "0123" / "file").with_name("link")
    link.symlink_to("/etc/passwd")
    (read,) = (number for number, one in page.blocks.fns.items() if one.api_name == "read")
    odd = ["/etc/passwd", "http://127.0.0.1:1/a.csv", "x\0y", "", ".", "0123/file"]
    odd += [str(link), str(served_folder() / "absent"), f"{served_folder()}/../x"]
    for what in odd:
        data = [file_of(what), *[""] * (len(page.blocks.fns[read].inputs) - 1)]
        assert NOT_SENT in error_of(url, read, data), what


def test_a_file_that_was_sent_is_read_and_leaves_nothing_but_a_mark(url, disk, tmp_path, linger):
    given = tmp_path / "mine.csv"
    given.write_text("text,label\n" + "good,yes\nbad,no\n" * 20)
    client = Client(url, verbose=False)
    found = client.predict(handle_file(str(given)), "", "", "", "", api_name="/read")
    assert found["rows_in"] == 40
    client.close()
    time.sleep(2 * linger)  # Gradio's own path to an upload goes a moment later
    left = files_in(served_folder())
    assert all(Path(name).name.startswith("tmp") for name in left)  # Gradio's, and empty
    disk(parts=quota(seconds=0))
    janitor.Janitor().sweep()
    assert not files_in(served_folder())


def test_of_many_uploads_and_broken_ones_nothing_remains(url, disk, linger):
    many = [(f"{number}.csv", b"text,label\n") for number in range(300)]
    assert 400 <= sent(url, *many).status_code < 500
    statuses = []
    with httpx.Client(timeout=60) as line:
        for n in range(UPLOADS):
            files = {"files": (f"{n}.csv", f"text,label\n{n}".encode())}
            headers = {"X-Forwarded-For": f"10.1.0.{n % 10}"}
            answer = line.post(f"{url}{API}/upload", files=files, headers=headers)
            statuses.append(answer.status_code)
    assert statuses.count(200) > 0.9 * UPLOADS
    where = urlsplit(url)
    head = f"POST {API}/upload HTTP/1.1\r\nHost: {where.netloc}\r\nContent-Length: 3000000\r\n"
    head += "Content-Type: multipart/form-data; boundary=x\r\n\r\n--x\r\nContent-Disposition: "
    head += 'form-data; name="files"; filename="a.csv"\r\n\r\n'
    with socket.create_connection((where.hostname, where.port)) as broken:
        broken.sendall(head.encode() + b"x" * 1_000_000)
        time.sleep(2 * linger)
    left = files_in(served_folder())
    assert any(name.startswith("tmp") for name in left)
    assert len(left) > 0.9 * UPLOADS
    disk(served=quota(entries=10, bytes=100))
    janitor.Janitor().sweep()
    assert len(files_in(served_folder())) <= 10
    disk(served=quota(seconds=0))
    janitor.Janitor().sweep()
    assert not list(served_folder().iterdir())


# --- One folder.


def test_the_oldest_go_first_and_what_was_just_used_stays(tmp_path):
    for number in range(10):
        put(tmp_path / f"d{number}" / "x", 100, age=100 * number)
    place = Place(path=tmp_path, quota=quota(bytes=550), is_of_files=True)
    assert janitor.sweep(place) == Held(bytes=500, entries=5)
    assert janitor.sweep(replace(place, quota=quota(entries=4))).entries == 4
    assert janitor.sweep(replace(place, quota=quota(bytes=0, spared=250))).entries == 3
    assert janitor.sweep(replace(place, quota=quota(seconds=150))).entries == 2
    assert janitor.sweep(replace(place, quota=quota(bytes=200)), room=100).entries == 1
    assert files_in(tmp_path) == ["d0/x"]


def test_a_folder_is_one_thing_and_as_young_as_what_was_used_in_it(tmp_path):
    put(tmp_path / "old" / "deep" / "x", age=1000)
    put(tmp_path / "new" / "deep" / "x", age=10)
    for name in ("old", "new"):
        put(tmp_path / name / "lock")  # whoever looks at a run makes it anew
        os.utime(tmp_path / name / "deep", (0, 0))
        os.utime(tmp_path / name, (0, 0))
    assert janitor.sweep(Place(path=tmp_path, quota=quota(seconds=100))).entries == 1
    assert files_in(tmp_path) == ["new/deep/x", "new/lock"]


def test_no_link_leads_out_and_odd_things_go(tmp_path):
    home, outside = tmp_path / "home", put(tmp_path / "outside" / "mine", 10**6, age=10**7)
    home.mkdir()
    (home / "to a folder").symlink_to(outside.parent)
    (home / "to itself").symlink_to(home)
    (home / "to nothing").symlink_to(home / "nowhere")
    os.mkfifo(home / "fifo")
    put(home / "deep" / "er" / "x\n\u202e", age=9)
    put(home / "future", age=-(10**6))
    time.sleep(0.05)
    for of_files in (True, False):
        place = Place(path=home, quota=quota(seconds=0.01), is_of_files=of_files)
        assert janitor.sweep(place) == Held(bytes=0, entries=0)
    assert not list(home.iterdir())
    assert outside.is_file()
    assert janitor.sweep(Place(path=home / "absent", quota=quota())) == Held(bytes=0, entries=0)


@pytest.mark.slow
def test_five_thousand_files_are_swept_in_no_time(tmp_path, seconds):
    for number in range(5_000):
        put(tmp_path / f"{number % 500:03}" / f"{number}", age=number)
    place = Place(path=tmp_path, quota=quota(), is_of_files=True)
    before = seconds()
    assert janitor.sweep(place).entries == 5_000
    assert seconds() - before < 1
    assert janitor.sweep(replace(place, quota=quota(entries=100))).entries == 100
    assert seconds() - before < 4


# --- All of them.


def test_in_public_every_folder_is_swept(own_place, disk):
    cache, old = own_place / "cache", 10**7
    run = "r" + "1" * 22
    lies = [
        served_folder() / "ab" / "mine.csv", served_folder() / "tmpx1",
        served_folder() / "deep_links" / "ab" / "state.json",
        served_folder() / "exports" / "ab" / "head.zip", cache / "uploads" / "ab" / "mine.csv",
        cache / "runs" / run / "run.json", cache / "features" / "ab" / "cd.safetensors",
        cache / "states" / "ab.f16", cache / "heads" / "ab.safetensors",
        cache / "words" / "ab.safetensors", cache / "twins" / "bert-ab" / "config.json",
    ]  # fmt: skip
    for path in lies:
        put(path, age=old)
        put(path.with_name("new" + path.name), age=1)
        for folder in [path.parent, path.parent.parent]:
            os.utime(folder, (0, 0))
    past = cache / "runs" / ("r" + "2" * 22)
    put(past / "run.json", age=old)
    os.utime(past, (0, 0))
    janitor.Janitor().sweep()
    whole = ("exports", "uploads", run, "bert-ab")  # one thing, used a moment ago
    for path in lies:
        assert path.exists() == any(part in path.parts for part in whole), path
        assert path.with_name("new" + path.name).exists()
    assert not past.exists()
    total = sum(one.bytes for name, one in QUOTAS.items() if name != "parts")
    assert total < 25_000_000_000  # a Space has 50 GB


def test_a_run_that_is_trained_stays(own_place, disk):
    runs = own_place / "cache" / "runs"
    busy, idle = "r" + "b" * 22, "r" + "i" * 22
    own = "rating-1125-173000-ab12"  # of local mode, and as long as the others
    for name in (busy, idle, own):
        put(runs / name / "run.json", age=10**7)
        os.utime(runs / name, (0, 0))
    command = [sys.executable, "-c", HOLD, str(runs / busy)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as ready:
        assert ready.stdout.readline() == "held\n"
        for path in (runs / busy / "lock", runs / busy):
            os.utime(path, (0, 0))
        janitor.Janitor().sweep()
        ready.kill()
    assert {path.name for path in runs.iterdir()} == {busy, own}


def test_only_models_that_visitors_fetched_may_go(own_place, disk):
    hub = own_place / "hub"
    put(hub / "models--mine--old" / "blobs" / "x", 1_000, age=10**8)
    put(hub / "models--mine--new" / "blobs" / "x", 10**6, age=10**8)  # by another program
    for number in range(4):
        put(hub / f"models--theirs--{number}" / "blobs" / "x", 1_000, age=1_000 * (number + 1))
        for folder in ("blobs", "."):
            os.utime(hub / f"models--theirs--{number}" / folder, (0, 0))
        downloads._note(hub / f"models--theirs--{number}")
    downloads._noted.clear()  # as the next start does
    disk(models=quota(bytes=2_000 + 2 * 2 * 4096))  # folders have sizes too
    janitor.Janitor().sweep()
    left = {path.name for path in hub.glob("models--*")}
    mine = {"models--mine--old", "models--mine--new"}
    assert left == mine | {"models--theirs--0", "models--theirs--1"}


def test_the_thread_outlives_what_it_meets(own_place, disk, monkeypatch):
    path = put(served_folder() / "ab" / "mine.csv", age=10**7)
    real, met = janitor.sweep, threading.Event()

    def fails_at_first(place, room=0):
        if not met.is_set():
            met.set()
            raise IsADirectoryError(place.path)
        return real(place, room)

    monkeypatch.setattr(janitor, "sweep", fails_at_first)
    worker = janitor.Janitor(every=0.02)
    monkeypatch.setattr(janitor, "Janitor", lambda: worker)
    start(), start()  # one for every page
    (thread,) = (one for one in threading.enumerate() if one.name == "janitor")
    assert thread.daemon  # it keeps no process that is to end
    end = time.monotonic() + 20
    while path.exists() and time.monotonic() < end:
        time.sleep(0.02)
    assert met.is_set()
    assert not path.exists()
    assert thread.is_alive()
    worker.ended.set()
    thread.join(5)
    assert not thread.is_alive()


# --- Room for one more.


def keep(folder, whose=""):
    with interruptible(lambda: None, whose=whose):
        return uploads.keep(str(put(folder / "mine.csv", 1_000)))


def test_an_upload_without_room_is_refused_and_old_ones_make_room(own_place, disk, monkeypatch):
    disk(served=quota(bytes=25_000_000, spared=100))
    put(served_folder() / "a" / "x", 20_000_000)
    room = janitor.Room()
    for _ in range(2):
        with pytest.raises(LimitError):
            room.check()
    os.utime(served_folder() / "a" / "x", (0, 0))
    janitor.Room().check()
    assert files_in(served_folder()) == []
    disk(free_bytes=10**18)
    with pytest.raises(LimitError):
        janitor.Room().check()


def test_nobody_fills_the_room_of_others(own_place, disk):
    disk(served=quota(bytes=100_000_000, entries=10, spared=100))
    room = janitor.Room()
    for _ in range(3):
        room.check("large files")
        room.note_upload("large files", 14_000_000)
    room.check("many files")
    for _ in range(5):
        room.note_upload("many files", 1)
    for visitor in ("large files", "many files"):
        with pytest.raises(LimitError):
            room.check(visitor)
    room.check("another one")


def test_room_is_asked_for_without_a_sweep_each_time(own_place, disk, monkeypatch):
    sweep, sweeps = janitor.sweep, []
    monkeypatch.setattr(janitor, "sweep", lambda *given: sweeps.append(given) or sweep(*given))
    room = janitor.Room()
    for _ in range(1_000):
        room.check()
    assert 1 <= len(sweeps) < 200  # two whenever what was promised would fill the folder


def test_kept_files_are_bounded_and_a_file_in_use_is_spared(own_place, disk, tmp_path):
    disk(uploads=quota(entries=3, spared=100))
    names = [keep(tmp_path, f"{number}") for number in range(3)]
    with pytest.raises(LimitError):
        keep(tmp_path)
    for at, name in enumerate(names):
        path = uploads.path_of(name)
        for changed in (path, path.parent):
            os.utime(changed, (time.time() - 1000 + at,) * 2)
    uploads.opened(names[0])  # it is used
    keep(tmp_path)
    assert [uploads.is_kept(name) for name in names] == [True, False, True]


def test_nobody_keeps_the_runs_of_all_and_full_is_said(own_place, disk):
    disk(runs=quota(bytes=10**6, entries=6, spared=100))
    runs = own_place / "cache" / "runs"
    mine = [runs / ("r" + secrets.token_urlsafe(16)) for _ in range(3)]
    for path in mine:
        put(path / "rows.json", 1_000)
    janitor.admit("run", owned=mine[:2])
    with pytest.raises(LimitError):
        janitor.admit("run", owned=mine)
    for _ in range(3):
        put(runs / ("r" + secrets.token_urlsafe(16)) / "rows.json", 1_000)
    with pytest.raises(LimitError):
        janitor.admit("run")
    disk(runs=quota(bytes=10**6, entries=9), free_bytes=10**18)
    with pytest.raises(LimitError):
        janitor.admit("run")


def test_exports_have_room_or_are_not_begun(own_place, disk):
    disk(exports=quota(bytes=10**6, entries=2, spared=100))
    for _ in range(2):
        with temporary_files.exporting() as place:
            put(place / "head.zip")
    with pytest.raises(LimitError), temporary_files.exporting():
        pass
