"""On one's own machine old uploads and exports go, and nothing else does."""

import os
import time

import pytest

from heads.errors import CheckpointError
from heads.interfaces.web import temporary_files
from heads.settings import served_folder


@pytest.fixture
def own_place(monkeypatch, tmp_path):
    monkeypatch.setenv("HEADS_CACHE", str(tmp_path / "cache"))
    monkeypatch.delenv("HEADS_RUNS", raising=False)
    monkeypatch.setenv("GRADIO_TEMP_DIR", str(tmp_path / "temp"))
    return tmp_path / "cache"


def put(path, age=0.0):
    """A file that was used so long ago, and its folder."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(b"x")
    for one in (path, path.parent):
        os.utime(one, (time.time() - age,) * 2)
    return path


def test_old_uploads_and_exports_go_and_runs_and_models_stay(own_place):
    mine = [
        put(own_place / "runs" / "r1" / "run.json", age=10**8),
        put(own_place / "features" / "ab" / "cd.safetensors", age=10**8),
        put(served_folder() / "new" / "mine.csv", age=60),
    ]
    old = [
        put(served_folder() / "ab" / "mine.csv", age=10**8),
        put(served_folder() / "exports" / "ab" / "head.zip", age=10**8),
        put(own_place / "uploads" / "ab" / "mine.csv", age=10**8),
    ]
    temporary_files.delete_old()
    assert all(path.is_file() for path in mine)
    assert not any(path.parent.exists() for path in old)


def test_no_link_leads_out(own_place, tmp_path):
    outside = put(tmp_path / "outside" / "mine", age=10**8)
    served_folder().mkdir(parents=True)
    (served_folder() / "link").symlink_to(outside.parent)
    os.utime(served_folder() / "link", (0, 0), follow_symlinks=False)
    temporary_files.delete_old()
    assert not list(served_folder().iterdir())
    assert outside.is_file()


def test_what_killed_processes_were_writing_goes(own_place):
    runs = own_place / "runs"
    old = [runs / "r1" / "cells" / ".unfinished-a", own_place / "heads" / ".tmpAb12",
           own_place / "twins" / ".unfinished-b" / "x"]  # fmt: skip
    new = [runs / "r1" / "run.json", runs / "r1" / "cells" / ".unfinished-c"]
    for path in old:
        put(path, age=2 * 3600)
    for path in new:
        put(path, age=60)
    temporary_files.delete_orphans()
    assert not any(path.exists() for path in old)
    assert all(path.is_file() for path in new)


def test_a_half_made_export_goes_and_a_whole_one_stays(own_place):
    with temporary_files.exporting() as place:
        put(place / "head" / "model.safetensors")
        put(place / "head.zip")
    assert [path.name for path in place.iterdir()] == ["head.zip"]

    def broken():
        with temporary_files.exporting() as other:
            put(other / "head.zip")
            raise CheckpointError("It cannot be written.")

    with pytest.raises(CheckpointError):
        broken()
    assert [path.name for path in (served_folder() / "exports").iterdir()] == [place.name]


def test_without_an_extra_for_it_no_server_takes_strangers(monkeypatch):
    from heads import plugins
    from heads.errors import HeadsError
    from heads.interfaces.web.app import build

    monkeypatch.setenv("HEADS_PUBLIC", "1")
    monkeypatch.setattr(plugins, "extras", tuple)
    with pytest.raises(HeadsError, match="lacks the extra"):
        build()
