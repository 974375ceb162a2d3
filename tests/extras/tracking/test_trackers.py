"""What a tracker keeps of a run is what its leaderboard says, and no text: read back from each."""

import importlib
import json
import re
import time
from dataclasses import replace
from importlib.util import find_spec
from pathlib import Path

import pandas as pd
import pytest
from shown_results import HOSTILE, check_shown
from tiny_models import WORDS

import heads
from heads.errors import DataError, HeadsError, LimitError
from heads.extras.tracking.trackers import (
    SECRETS,
    TITLES,
    Tracked,
    build_entries,
    group_name,
)
from heads.interfaces.cli.app import main

LABELS = ("qwertz", "asdfgh", "yxcvbn")
RECIPES = ["cls+bert", "mean+logistic"]


@pytest.fixture(scope="module")
def board(tiny, tmp_path_factory):
    """A run of two heads, in a folder of the user's; the tiny base model is a folder."""
    texts = [f"{WORDS[row % len(WORDS)]} uiop {row}" for row in range(60)]
    frame = pd.DataFrame({"text": texts, "label": [*LABELS] * 20})
    config = heads.ExperimentConfig(steps=3, learning_rate=0.01, curve=False)
    asked = {"recipes": RECIPES, "model": str(tiny()), "config": config}
    return heads.train_grid(frame, **asked, out=tmp_path_factory.mktemp("run") / "run")


@pytest.fixture
def library(request, tmp_path_factory, tmp_path, monkeypatch):
    """A tracker that is installed, and keeps what it is given in a folder."""
    name: str = request.param
    if find_spec(name) is None:
        pytest.skip(f"{name} is not installed (pip install {name})")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("MLFLOW_TRACKING_URI", f"sqlite:///{tmp_path}/mlflow.db")
    monkeypatch.setenv("WANDB_MODE", "offline")
    monkeypatch.setenv("WANDB_DIR", str(tmp_path))
    monkeypatch.setenv("WANDB_CONFIG_DIR", str(tmp_path))
    monkeypatch.setenv("NETRC", str(tmp_path / "netrc"))
    monkeypatch.delenv("WANDB_API_KEY", raising=False)
    trackio_dir = tmp_path_factory.getbasetemp() / "trackio"
    monkeypatch.setenv("TRACKIO_DIR", str(trackio_dir))  # which is read once, at the import
    found = importlib.import_module(name)
    if name == "wandb":
        found.teardown()  # what it has read of the environment
    yield found
    if name == "wandb":
        found.teardown()


def only(*names):
    return pytest.mark.parametrize("library", names, indirect=True)


# --- What is handed over.


def test_an_entry_says_of_a_cell_what_its_leaderboard_says(board):
    given = {entry.name: entry for entry in build_entries(board)}
    assert list(given) == [cell.name for cell in board.cells]
    table = board.to_pandas().set_index("recipe")
    for name, entry in given.items():
        cell, metrics = table.loc[name], entry.metrics
        assert metrics["accuracy"] == cell["score"]
        assert (metrics["accuracy_low"], metrics["accuracy_high"]) == (cell["low"], cell["high"])
        assert metrics["macro_f1"] == cell["macro_f1"]
        for fact in ("parameters", "train_seconds"):
            assert metrics[fact] == cell[fact]
        difference = None if name == board.reference else cell["to_reference"]
        assert metrics.get("to_reference") == difference
        assert ("recommended" in entry.tags) == cell["is_recommended"]
        assert ("baseline" in entry.tags) == cell["is_baseline"]
    params = given["cls+bert"].params
    said = {"pooling": "cls", "head": "bert", "loss": "softmax", "tune": "frozen", "rows": 60}
    said |= {"metric": "accuracy", "steps": 3, "folds": 5, "seed": 0, "run": "run", "classes": 3}
    assert said.items() <= params.items()
    assert params["chosen_learning_rate"] == 0.01
    assert "pooling" not in given["majority"].params


def test_no_text_no_label_and_no_path_is_handed_over(board, tiny):
    told = str(build_entries(board))
    assert tiny().name in told
    assert str(tiny().parent) not in told
    assert str(board.folder.path.parent) not in told
    assert not any(word in told for word in (*LABELS, "uiop"))


def test_a_cell_is_known_again_and_two_runs_of_one_name_are_told_apart(board):
    ids = [entry.id for entry in build_entries(board)]
    assert ids == [entry.id for entry in build_entries(board)]
    assert len(set(ids)) == len(ids)
    assert re.fullmatch(r"run-\d{4}-\d{6}", build_entries(board)[0].group)
    assert group_name("run", 1.6e9) != group_name("run", 1.7e9)
    assert group_name("my-1126-182443-7e2a", 1.6e9) == "my-1126-182443-7e2a"
    assert len(group_name("x" * 200, 1.6e9)) <= 64  # as long as a tag of W&B's may be


def test_addresses_are_shown_without_secrets():
    given = "postgresql://me:secret@host/db a?write_token=x&b=1"
    assert SECRETS.sub("", given) == "postgresql://host/db a?write_token=&b=1"


# --- What cannot be.


@pytest.mark.parametrize("name", TITLES)
def test_a_tracker_that_is_not_installed_is_refused(board, name, monkeypatch):
    monkeypatch.setattr("importlib.util.find_spec", lambda _: None)
    with pytest.raises(HeadsError) as refused:
        heads.track(board, name)
    assert refused.value.hint == f"Run: pip install {name}"


def test_what_cannot_be_logged_is_refused_before_anything_is_read(board, monkeypatch):
    with pytest.raises(HeadsError) as refused:
        heads.track("no-such-run", "wandv")
    assert "'wandb'" in refused.value.hint
    with pytest.raises(HeadsError):
        heads.track(board, "trackio", project=" ")
    monkeypatch.setenv("HEADS_PUBLIC", "1")
    with pytest.raises(LimitError):
        heads.track(board, "mlflow")


# --- What is kept.


def kept_by_trackio(project):
    import trackio
    from trackio.sqlite_storage import SQLiteStorage

    runs = list(trackio.Api().runs(project))
    logs = {run.name: SQLiteStorage.get_logs(project, run.name)[-1] for run in runs}
    return {run.name.split()[0]: (run.config, logs[run.name]) for run in runs}


def kept_by_mlflow(project, name):
    import mlflow

    (experiment,) = [one for one in mlflow.search_experiments() if one.name == project]
    query = f"attributes.run_name = '{name}'"
    (run,) = mlflow.MlflowClient().search_runs([experiment.experiment_id], query)
    assert run.info.status == "FINISHED"
    return run.data.params | run.data.tags, run.data.metrics


def check_kept(entry, params, metrics):
    told, kept = ({name: str(it[name]) for name in it} for it in (entry.params, params))
    assert told.items() <= kept.items()
    assert {name: metrics[name] for name in entry.metrics} == pytest.approx(dict(entry.metrics))


@only("trackio")
def test_trackio_keeps_a_run_a_cell_and_logs_it_again_into_the_same(library, board):
    outer = library.init(project="mine", name="a run of the user's", embed=False)
    for _ in range(2):
        found = heads.track(board.folder.path, "trackio", project="compared")
        assert found.logged == tuple(cell.name for cell in board.cells)
        assert found.place == str(library.TRACKIO_DIR)
    kept = kept_by_trackio("compared")
    assert set(kept) == {cell.name for cell in board.cells}
    for entry in build_entries(board):
        params, metrics = kept[entry.name]
        check_kept(entry, params, metrics)
        assert params["_Group"] == entry.group
        assert params["is_recommended"] == ("recommended" in entry.tags)
    outer.log({"still": 1})
    outer.finish()
    assert library.sqlite_storage.SQLiteStorage.get_logs("mine", outer.name)[0]["still"] == 1
    with pytest.raises(HeadsError):
        heads.track(board, "trackio", project="registry-x")


@only("trackio")
def test_what_trackio_only_warns_of_is_an_error(library, board):
    (Path(library.TRACKIO_DIR) / "blocked.db").mkdir(parents=True)
    with pytest.raises(HeadsError):
        heads.track(board, "trackio", project="blocked")


@only("trackio")
def test_what_is_not_done_is_said(library, board):
    found = heads.track(replace(board, planned=6), "trackio", project="half")
    assert found.notes[0].startswith("4 of 6 heads")
    with pytest.raises(DataError):
        heads.track(replace(board, cells=()), "trackio", project="none")


@only("mlflow")
def test_mlflow_keeps_a_run_a_cell_and_logs_it_again_into_the_same(library, board, tmp_path):
    active = library.active_run()
    for _ in range(2):
        found = heads.track(board, "mlflow", project="compared")
    assert found.place == f"sqlite:///{tmp_path}/mlflow.db"
    assert found.see == f"mlflow ui --backend-store-uri {found.place}"
    for entry in build_entries(board):
        params, metrics = kept_by_mlflow("compared", entry.name)
        check_kept(entry, params, metrics)
        assert params["recommended"] == str("recommended" in entry.tags).lower()
    assert library.active_run() is active
    stored = (tmp_path / "mlflow.db").read_bytes()
    assert not any(word.encode() in stored for word in (*LABELS, "uiop"))


@only("mlflow")
def test_a_server_that_is_not_there_is_an_error_soon(library, board, monkeypatch):
    begun = time.monotonic()
    monkeypatch.setenv("MLFLOW_TRACKING_URI", "http://me:secret@127.0.0.1:9")
    with pytest.raises(HeadsError) as refused:
        heads.track(board, "mlflow")
    assert "secret" not in str(refused.value)
    assert "\n" not in str(refused.value)
    assert time.monotonic() - begun < 30  # of its own accord it goes on for minutes
    assert not library.environment_variables.MLFLOW_HTTP_REQUEST_MAX_RETRIES.is_set()


@only("wandb")
def test_wandb_keeps_a_run_a_cell_and_nothing_of_the_machine(library, board, tmp_path):
    outer = library.init(project="mine", settings=library.Settings(silent=True))
    found = heads.track(board, "wandb", project="compared")
    assert library.run is outer
    outer.finish()
    assert found.see == f"wandb sync {tmp_path}/wandb/offline-run-*"
    for entry in build_entries(board):
        (folder,) = Path(found.place).glob(f"offline-run-*-{entry.id}")
        assert not [path for path in (folder / "files").rglob("*") if path.is_file()]
        log = (folder / f"run-{entry.id}.wandb").read_bytes()
        named = (entry.name, entry.group, *entry.tags, *entry.params, *entry.metrics)
        assert all(name.encode() in log for name in named)
        assert not any(word.encode() in log for word in (*LABELS, "uiop", str(tmp_path)))


@only("wandb")
def test_wandb_without_a_key_or_switched_off_is_refused(library, board, monkeypatch):
    monkeypatch.setenv("WANDB_MODE", "disabled")
    with pytest.raises(HeadsError):
        heads.track(board, "wandb")
    library.teardown()
    monkeypatch.delenv("WANDB_MODE")
    with pytest.raises(HeadsError) as refused:
        heads.track(board, "wandb")
    assert "wandb login" in refused.value.hint


@only("trackio")
def test_the_shell_logs_a_run_and_prints_json_alone(library, board, capsys):
    assert main(["track", str(board.folder.path), "trackio", "--project", "of mine", "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["logged"] == [cell.name for cell in board.cells]
    assert found["see"] == "trackio show --project 'of mine'"
    assert main(["track", str(board.folder.path), "trackio", "--project", "of mine"]) == 0
    assert found["see"] in capsys.readouterr().out


def test_a_result_is_shown_by_notebook_and_shell():
    facts = {"project": HOSTILE, "group": "run-1", "place": "here", "logged": ("a", "b")}
    check_shown(Tracked(tracker="trackio", see="trackio show", notes=("2 are left.",), **facts))
