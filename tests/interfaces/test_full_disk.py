"""A disk that is full, for real: one sentence, exit code 2, and what was finished stays."""

import copy
import csv
import errno
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
import slow
from full_disk import full_disk

from heads.data.samples import SAMPLES
from heads.errors import CheckpointError, DataError
from heads.exporters.export import export, export_onnx
from heads.interfaces.cli.app import main
from heads.runs.folder import RunFolder, all_runs
from heads.runs.refit import run_classifier as classifier
from heads.settings import runs_folder

ROOT = Path(__file__).parents[2]
ROWS = 60
RECIPES = ("-r", "mean+linear", "-r", "cls+bert")


@pytest.fixture(autouse=True)
def _own_place(monkeypatch, tmp_path):
    monkeypatch.setenv("HEADS_RUNS", str(tmp_path / "runs"))


@pytest.fixture(scope="module")
def numbers(tmp_path_factory):
    """Numbers to learn, and numbers to be tested on."""
    place = tmp_path_factory.mktemp("numbers")
    with SAMPLES["similarity"].path.open(encoding="utf-8", newline="") as file:
        head, *rows = csv.reader(file)
    for name, part in (("train", rows[:ROWS]), ("test", rows[ROWS : 2 * ROWS])):
        with (place / f"{name}.csv").open("w", encoding="utf-8", newline="") as file:
            csv.writer(file).writerows([head, *part])
    return place / "train.csv", place / "test.csv"


@pytest.fixture
def train(numbers, capfd):
    """Trains on numbers with a test set and three seeds; exit code, leaderboard, stderr."""

    def trained(*arguments):
        data, test = numbers
        asked = arguments or (str(data), "--number", "--test", str(test), "--seeds", "3", *RECIPES)
        capfd.readouterr()
        code = main(["train", *asked, "--json", *(() if arguments else ("--no-curve",))])
        out, err = capfd.readouterr()
        return code, json.loads(out) if out else None, err

    return trained


def scores(board):
    return {cell["recipe"]: cell["scores"] for cell in board["cells"]}


def test_a_run_that_cannot_begin_leaves_nothing(train):
    with full_disk(1_000):  # bytes a file: the rows alone are more
        code, board, err = train()
    assert (code, board) == (2, None)
    assert "rows.json of the run" in err
    assert "cannot be written (File too large). Make room on the disk, or name another" in err
    assert not any(runs_folder().iterdir())


@pytest.mark.slow
def test_a_disk_that_is_full_is_a_sentence_and_the_run_goes_on_when_it_is_not(train):
    _, wanted, _ = train()
    with full_disk(30_000):  # enough for all but the head with a dense layer
        code, board, err = train()
    assert code == 2
    assert board is None
    *_, last = err.strip().split("\n")
    assert "cannot be written (File too large). Make room on the disk" in last
    assert last.startswith("heads: ")
    assert "heads/" in last
    run = all_runs()[0]
    assert not list(run.path.rglob(".unfinished*"))
    before = {path: path.read_bytes() for path in (run.path / "cells").glob("*.json")}
    assert before
    code, board, err = train("--resume", run.id)
    assert code == 0, err
    assert scores(board) == scores(wanted)
    assert all(path.read_bytes() == bytes for path, bytes in before.items())


@pytest.mark.slow
def test_an_export_that_the_disk_refuses_is_a_sentence_and_leaves_nothing(train, tmp_path, capfd):
    run = RunFolder(path=Path(train()[1]["folder"]))
    native, other = (classifier(run, name) for name in ("cls+bert", "mean+linear"))
    place = tmp_path / "exports"
    place.mkdir()
    with full_disk(100_000):
        with pytest.raises(
            CheckpointError, match=r"one cannot be written \(File too large\)\. Make"
        ):
            export(native, place / "one")
        with pytest.raises(
            CheckpointError, match=r"two cannot be written \(File too large\)\. Make"
        ):
            export(other, place / "two")
        with pytest.raises(DataError, match=r"three\.onnx cannot be written \(.*large"):
            export_onnx(other, place / "three.onnx")
        capfd.readouterr()
        code = main(["export", "mean+linear", str(place / "four"), "--run", run.id])
    assert code == 2
    assert "four cannot be written (File too large)" in capfd.readouterr().err
    assert list(place.iterdir()) == []


@pytest.mark.parametrize(
    ("written", "most"),
    [("model", 300_000), ("tokenizer", 100), ("tokenizer", 5_000), ("adapter", 5_000)],
)
def test_what_libraries_write_onto_a_full_disk_is_a_sentence(
    written, most, backbone, tmp_path, monkeypatch
):
    """Tokenizers raise a bare exception, safetensors one of its own, Python an OSError."""
    from peft import LoraConfig, get_peft_model

    from heads.caching import refusal, writing

    thing = getattr(backbone, written, None)
    if thing is None:
        rank = LoraConfig(r=64, target_modules=["query"])
        thing = get_peft_model(copy.deepcopy(backbone.model), rank)
    refused = pytest.raises(DataError, match=r"^It cannot be written \(File too large\)\. Make")
    with full_disk(most), refused as told, writing("It"):
        thing.save_pretrained(tmp_path / "place")
    error = told.value.__cause__
    monkeypatch.setenv("HEADS_PUBLIC", "1")
    assert str(refusal(error)).startswith("The output or a file cannot be written (File too large)")


def test_a_bug_is_not_blamed_on_the_disk():
    from heads.caching import refusal, writing

    with pytest.raises(RuntimeError, match="os error 27"), writing("It"):
        raise RuntimeError("of another kind (os error 27)")
    assert refusal(Exception("no number")) is None


def test_an_upload_that_the_disk_refuses_leaves_nothing(monkeypatch, tmp_path):
    from heads.interfaces.web import uploads

    monkeypatch.setattr(uploads, "folder", lambda: tmp_path / "private")
    monkeypatch.setattr(uploads.shutil, "move", uploads.shutil.copy)  # as between two disks
    given = tmp_path / "mine.csv"
    given.write_text("text,label\n" * 1000)
    with full_disk(500), pytest.raises(DataError, match=r"The file cannot be written \(File too"):
        uploads.keep(str(given))
    assert list((tmp_path / "private").iterdir()) == []


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="this system has no /dev/full")
@pytest.mark.parametrize(
    "asked", slow.but([["--version"], ["parts"], ["parts", "--json"]], ["--version"])
)
def test_output_that_finds_no_room_is_a_sentence(asked):
    with Path("/dev/full").open("w") as full:
        done = subprocess.run(
            [sys.executable, "-m", "heads", *asked],
            stdout=full,
            stderr=subprocess.PIPE,
            text=True,
            cwd=ROOT,
        )
    assert done.returncode == 2
    assert done.stderr == (
        "heads: The output or a file cannot be written (No space left on device). "
        "Make room on the disk, or name another place.\n"
    )


@pytest.mark.parametrize("number", [errno.EROFS, errno.EACCES])
def test_nobody_is_told_to_make_room_where_nothing_may_be_written(number):
    from heads.caching import ROOM, refusal, writing

    error = OSError(number, os.strerror(number))
    with pytest.raises(DataError) as refused, writing("It"):
        raise error
    assert refused.value.hint != ROOM
    full = OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
    assert refusal(full).hint == ROOM
    assert number == errno.EACCES or refusal(error).hint == refused.value.hint
