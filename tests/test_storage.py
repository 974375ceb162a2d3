"""Where caches, runs, kept heads and models of the Hub lie, here and on a Space."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from heads import settings
from heads.classifier import head_cache
from heads.settings import cache_folder, kept_folder, runs_folder, storage_folder


@pytest.fixture(autouse=True)
def place(tmp_path, monkeypatch):
    """A home of its own, and nothing said."""
    for name in ("HEADS_CACHE", "HEADS_RUNS", "HEADS_STORAGE", "SPACE_ID", "HF_HOME"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    monkeypatch.setattr(settings, "SPACE_STORAGE", str(tmp_path / "data"))
    settings._takes_files.cache_clear()
    yield tmp_path
    settings._takes_files.cache_clear()


def test_without_storage_that_lasts_what_is_kept_lies_with_the_caches(place):
    (place / "data").mkdir()  # no Space: this folder is nobody's business
    assert storage_folder() is None
    assert kept_folder() == cache_folder() == place / "home" / ".cache" / "head-to-head"


def test_a_space_keeps_heads_in_its_storage_and_nothing_of_its_visitors(place, monkeypatch):
    monkeypatch.setenv("SPACE_ID", "someone/head-to-head")
    assert storage_folder() is None  # nothing is mounted
    (place / "data").mkdir()
    settings._takes_files.cache_clear()  # it is asked once a process
    assert kept_folder() == place / "data" / "head-to-head"
    assert head_cache.path_of("key").is_relative_to(place / "data")
    for visitors in (cache_folder(), runs_folder()):
        assert not visitors.is_relative_to(place / "data")


def test_storage_may_be_mounted_elsewhere(place, monkeypatch):
    (place / "bucket").mkdir()
    monkeypatch.setenv("HEADS_STORAGE", str(place / "bucket"))
    assert kept_folder() == place / "bucket" / "head-to-head"


def test_storage_of_a_local_server_holds_its_runs_and_caches_too(place, monkeypatch):
    (place / "bucket").mkdir()
    monkeypatch.setenv("HEADS_STORAGE", str(place / "bucket"))
    assert runs_folder() == place / "bucket" / "head-to-head" / "runs"
    assert cache_folder() == place / "bucket" / "head-to-head"
    monkeypatch.setenv("HEADS_PUBLIC", "1")
    assert not runs_folder().is_relative_to(place / "bucket")  # runs of visitors
    assert not cache_folder().is_relative_to(place / "bucket")


def test_storage_that_takes_no_file_is_none(place, monkeypatch):
    (place / "file").write_text("no folder", "utf-8")
    monkeypatch.setenv("HEADS_STORAGE", str(place / "file"))
    assert kept_folder() == cache_folder()


@pytest.mark.skipif(not Path("/proc/self").is_dir(), reason="there is no such folder")
def test_a_folder_that_can_only_be_read_is_none(monkeypatch):
    monkeypatch.setenv("HEADS_STORAGE", "/proc/self")  # also for root
    assert storage_folder() is None


@pytest.mark.parametrize("who", ["web", "cli.app"])
@pytest.mark.parametrize("said", ["", "HF_HOME", "HF_HUB_CACHE"])
def test_models_of_the_hub_are_kept_in_storage_unless_told_otherwise(place, said, who):
    bucket = place / "bucket"
    bucket.mkdir()
    unset = ("HF_HOME", "HF_HUB_CACHE", "HUGGINGFACE_HUB_CACHE")
    own = {key: value for key, value in os.environ.items() if key not in unset}
    own |= {"HEADS_STORAGE": str(bucket), **({said: str(place / "said")} if said else {})}
    code = (
        f"import sys, heads.interfaces.{who}; assert 'huggingface_hub' not in sys.modules; "
        "from huggingface_hub.constants import HF_HUB_CACHE; print(HF_HUB_CACHE)"
    )
    told = subprocess.check_output([sys.executable, "-c", code], env=own, text=True)
    assert Path(told.strip()).is_relative_to(place / "said" if said else bucket)
