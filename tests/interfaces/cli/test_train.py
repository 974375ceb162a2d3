"""`heads train`, `runs`, `work` and `export --run`, run as a user runs them."""

import csv
import io
import json
import os
import signal
import subprocess
import sys
import time
from dataclasses import fields

import pytest
from shell_runs import QUICK, RECIPES, ROWS, TRAIN, quiet, run

from heads.errors import ModelError
from heads.interfaces.cli.app import main
from heads.interfaces.docstrings import arguments, flag
from heads.runs.folder import RunFolder, find
from heads.settings import ExperimentConfig

pytestmark = pytest.mark.usefixtures("place")


@pytest.fixture(scope="module")
def trained(file, tiny):
    """What `heads train --json` printed of a small run on a tiny base model."""
    code, out, err = quiet("train", file, *TRAIN, *QUICK, "--model", tiny(), "--json")
    assert code == 0, err
    return json.loads(out)


# Training


def test_train_as_json_has_the_documented_keys(trained):
    assert {"best", "verdict", "cells", "seconds", "forward_seconds", "run"} <= set(trained)
    assert isinstance(trained["verdict"], str)
    assert trained["verdict"]
    assert trained["seconds"] > 0
    names = [cell["recipe"] for cell in trained["cells"]]
    assert sorted(names) == sorted([*RECIPES, "majority", "tfidf"])
    for cell in trained["cells"]:
        assert 0 <= cell["low"] <= cell["accuracy"] <= cell["high"] <= 1
        assert {"recipe", "macro_f1", "f1", "log_loss", "parameters", "chosen"} <= set(cell)
        assert (cell["metric"], cell["score"]) == ("accuracy", cell["accuracy"])
        assert len(cell["scores"]) == 1  # of one repetition
        assert len(cell["chosen_by_seed"]) == (0 if cell["baseline"] else 2)
    assert trained["best"] in RECIPES
    assert trained["state"] == "finished"
    assert trained["rows"] == ROWS


def test_stdout_holds_json_and_nothing_else(capfd, file):
    code, out, err = run(capfd, "train", file, "-r", "mean+ridge", *QUICK, "--json")
    assert code == 0
    assert json.loads(out)["best"] == "mean+ridge"
    assert "heads: 0/1 (always the commonest class):" in err
    assert "heads: 1/1 mean+ridge:" in err
    json.loads(out, parse_constant=lambda name: pytest.fail(f"{name} is no JSON"))


def test_train_prints_the_verdict_a_table_and_the_run(capfd, file):
    code, out, err = run(capfd, "train", file, *TRAIN, "--folds", "2")
    told = " ".join(out.split())
    assert code == 0
    for name in RECIPES:
        assert name in told
    assert "TF-IDF + logistic regression" in told
    assert "always the commonest class" in told
    assert "Split into 2 folds: each of" in told
    assert "95 %" in told
    assert "leads at every size" in told or "rows" in told
    assert "The run is reviews-" in told
    assert f"of {ROWS}" not in err


def test_out_names_the_folder_and_json_names_it_back(capfd, file, tmp_path):
    out_folder = tmp_path / "mine"
    code, out, _ = run(
        capfd, "train", file, "-r", "mean+ridge", *QUICK, "--out", out_folder, "--json"
    )
    assert code == 0
    assert json.loads(out)["folder"] == str(out_folder)
    assert (out_folder / "leaderboard.json").is_file()
    code, _, err = run(capfd, "train", file, "-r", "mean+ridge", "--out", out_folder)
    assert code == 2
    assert "is there already. Name a new folder." in err
    code, out, _ = run(capfd, "runs", out_folder, "--json")
    assert json.loads(out)["best"] == "mean+ridge"


def test_what_spoils_a_comparison_stands_below_the_verdict(capfd, file):
    given = ["-r", "mean+linear", "--folds", "2", "--no-curve", "--seeds", "1"]
    code, out, err = run(capfd, "train", file, "--test", file, *given)
    told = " ".join(out.split())
    assert code == 0, err
    assert "Note: 60 of the 60 texts of the test file stand in reviews as well" in told
    assert "Note: The setting folds has no effect here" in told
    assert told.count("stand in reviews as well") == 1
    assert not any(line.split(": ", 2)[-1] in out for line in err.splitlines() if "reviews" in line)


def test_race_precision_and_metric_are_kept_with_the_run(capfd, file):
    flags = ["--folds", "2", "--no-curve", "--race", "--precision", "exact"]
    flags += ["--metric", "macro_f1", "--class-weights"]
    code, out, _ = run(capfd, "train", str(file), "-r", "mean+ridge", *flags, "--json")
    assert code == 0
    found = json.loads(out)
    config = find(found["run"]).read("run.json")["contest"]
    assert (config["race"], config["precision"], config["class_weights"]) == (True, "exact", True)
    assert (config["metric"], found["metric"]) == ("macro_f1", "macro_f1")
    assert found["cells"][0]["score"] == found["cells"][0]["macro_f1"]
    assert run(capfd, "runs", found["run"])[0] == 0


def test_columns_are_named_and_a_sample_is_data_too(capfd, file, tmp_path):
    rows = list(csv.reader(io.StringIO(file.read_text("utf-8"))))
    path = tmp_path / "turned.csv"
    with path.open("w", encoding="utf-8", newline="") as turned:
        csv.writer(turned).writerows([["a", "b"], *([label, text] for text, label in rows[1:])])
    named = ["--text", "b", "--label", "a"]
    code, out, _ = run(capfd, "train", path, *named, "-r", "mean+ridge", *QUICK, "--json")
    assert code == 0
    assert sorted(json.loads(out)["classes"]) == ["negative", "neutral", "positive"]
    code, _, err = run(capfd, "train", path, "--text", "zzz", "-r", "mean+ridge")
    assert code == 2
    assert "zzz" in err


# Runs


def test_runs_are_listed_shown_and_compared(capfd, trained):
    code, out, _ = run(capfd, "runs", "--json")
    listed = {one["run"]: one for one in json.loads(out)}
    assert code == 0
    own = listed[trained["run"]]
    keys = "run data model created cells planned state best score metric"
    assert set(keys.split()) <= set(own)
    assert (own["data"], own["cells"], own["planned"]) == ("reviews", 3, 3)
    assert (own["state"], own["best"]) == ("finished", trained["best"])
    code, out, _ = run(capfd, "runs", trained["run"], "--json")
    assert code == 0
    shown = json.loads(out)
    assert shown.pop("answers")["rows"] == trained["answers"]["rows"]
    assert shown == {key: trained[key] for key in shown}
    code, out, _ = run(capfd, "runs", trained["run"], "--show", "numbers,disagreements")
    assert code == 0
    assert "Where do heads disagree?" in out
    code, out, _ = run(capfd, "runs", trained["run"], "--show", "numbers", "--json")
    (table,) = json.loads(out)["answers"]["numbers"]["tables"]
    assert len(table["rows"]) == len(trained["cells"])
    code, out, _ = run(capfd, "runs", trained["run"], "--show", "tuning")
    assert (code, "no answer to that" in out) == (0, True)
    code, _, err = run(capfd, "runs", trained["run"], "--show", "number")
    assert (code, "Did you mean 'numbers'?" in err) == (2, True)
    code, out, _ = run(capfd, "runs", trained["run"][:-1], trained["run"], "--json")
    assert [one["run"] for one in json.loads(out)] == [trained["run"]] * 2
    for named in ([], [trained["run"]], [trained["run"]] * 2):
        code, out, _ = run(capfd, "runs", *named)
        assert code == 0
        assert "reviews" in out or "mean+linear" in out


def test_runs_that_were_not_scored_alike_are_said_not_to_compare(capfd, file, trained):
    warning = "These runs were not scored alike"
    _, out, _ = run(capfd, "runs", trained["run"], trained["run"])
    assert warning not in out
    _, out, _ = run(
        capfd, "train", file, "-r", "mean+ridge", "--folds", "3", "--no-curve", "--json"
    )
    other = json.loads(out)
    _, out, _ = run(capfd, "runs", trained["run"], other["run"])
    assert warning in out
    told = " ".join(out.split())
    assert trained["protocol"] in told
    assert other["protocol"] in told


def test_a_run_is_deleted_and_then_unknown(capfd, file):
    _, out, _ = run(capfd, "train", file, "-r", "mean+ridge", *QUICK, "--json")
    name = json.loads(out)["run"]
    code, _, err = run(capfd, "runs", name[:-1], "--delete")
    assert code == 2
    assert f"Write {name} to delete it." in err
    code, out, _ = run(capfd, "runs", name, "--delete")
    assert (code, out) == (0, f"{name} is deleted.\n")
    code, _, err = run(capfd, "runs", name)
    assert code == 2
    assert f"There is no run called '{name}'" in err
    code, _, err = run(capfd, "runs", "--delete")
    assert code == 2
    assert "No run is named" in err


def test_a_run_is_resumed_by_its_name(capfd, trained):
    code, out, _ = run(capfd, "train", "--resume", trained["run"], "--json")
    again = json.loads(out)
    assert code == 0
    for one, other in zip(trained["cells"], again["cells"], strict=True):
        assert (one["recipe"], one["accuracy"]) == (other["recipe"], other["accuracy"])


# A head of a run


def test_a_head_of_a_run_is_exported_with_its_scores(capfd, trained, tmp_path):
    code, out, _ = run(
        capfd, "export", "cls+ridge", tmp_path / "mine", "--run", trained["run"], "--json"
    )
    found = json.loads(out)
    assert code == 0
    assert found["difference"] < 1e-4
    assert {"config.json", "model.safetensors", "README.md"} <= set(found["files"])
    cell = next(cell for cell in trained["cells"] if cell["recipe"] == "cls+ridge")
    card = (tmp_path / "mine" / "README.md").read_text("utf-8")
    assert f"Accuracy {100 * cell['accuracy']:.1f} %" in card
    heads = sum(not cell["baseline"] for cell in trained["cells"])
    assert f"{heads} heads were scored on these rows. If this one was chosen" in card


def test_heads_of_a_run_are_asked(capfd, trained):
    text = ["compare", "I want my money back."]
    code, out, _ = run(capfd, *text, "--run", trained["run"], "--json")
    found = json.loads(out)
    assert code == 0
    heads = [cell["recipe"] for cell in trained["cells"] if not cell["baseline"]]
    assert {one["recipe"] for one in found["recipes"]} <= {*heads}
    code, out, _ = run(capfd, *text, "--run", trained["run"], "-r", "cls+ridge", "--json")
    assert code == 0
    assert [one["recipe"] for one in json.loads(out)["recipes"]] == ["cls+ridge"]


def test_an_export_of_what_a_run_has_not_is_a_sentence(capfd, trained, tmp_path):
    for recipe, name, sentence in (
        ("mean+gpt2", trained["run"], "has no trained head mean+gpt2"),
        ("majority", trained["run"], "has no trained head majority"),
        ("mean+linear", "nothing-here", "There is no run called 'nothing-here'"),
    ):
        code, out, err = run(capfd, "export", recipe, tmp_path / "x", "--run", name)
        assert (code, out) == (2, "")
        assert sentence in err
        assert not (tmp_path / "x").exists()


def test_an_export_of_a_run_takes_no_data(capfd, trained, tmp_path):
    asked = ["export", "cls+ridge", tmp_path / "x", "--run", trained["run"], "--data", "intents"]
    code, _, err = run(capfd, *asked)
    assert code == 2
    assert "A run has its own data, and its heads are trained. Leave out --data, or --run." in err


# The worker process of the page


def lines(out):
    return [json.loads(line) for line in out.splitlines()]


def test_work_prints_an_event_a_line(capfd, file, trained):
    from heads.data.dataset import read
    from heads.runs.runner import begin
    from heads.runs.spec import RunRequest

    config = ExperimentConfig(folds=2, curve=False)
    request = RunRequest(
        data=read(file), recipes=RECIPES[:2], model=trained["model"], config=config
    )
    asked = begin(request)
    code, out, _ = run(capfd, "work", asked.path)
    events = lines(out)
    assert code == 0
    kinds = [event["event"] for event in events]
    assert set(kinds) == {"expected", "progress", "trying", "cell", "end"}
    assert kinds.count("end") == 1
    assert kinds[-1] == "end"
    of_cell = "recipe metric score accuracy low high done planned seconds"
    keys = {
        "expected": {"heads", "reading", "seconds", "threads"},
        "progress": {"says", "share"},
        "trying": {"recipe", "metric", "settings", "step", "score", "accuracy", "loss", "seed"},
        "cell": set(of_cell.split()),
        "end": {"state", "seconds"},
    }
    for event in events:
        assert set(event) == {"event"} | keys[event["event"]]
    cells = [event for event in events if event["event"] == "cell"]
    assert sorted(cell["done"] for cell in cells) == [0, 0, 1, 2]
    assert events[-1]["state"] == "finished"
    mine = {cell["recipe"]: cell["accuracy"] for cell in trained["cells"]}
    assert all(cell["accuracy"] == mine[cell["recipe"]] for cell in cells)


def test_work_on_what_is_no_run_or_is_busy_is_an_event_and_exit_code_2(capfd, trained, tmp_path):
    for folder in (tmp_path, tmp_path / "nowhere"):
        code, out, err = run(capfd, "work", folder)
        assert code == 2
        assert lines(out)[-1]["event"] == "error"
        assert err == ""  # a server's log holds nothing that a file may have said
    held = find(trained["run"])
    with held.held():
        code, out, _ = run(capfd, "work", held.path)
    assert code == 2
    assert "being worked on by another process" in lines(out)[-1]["says"]


# Settings


def beyond():
    for one in fields(ExperimentConfig):
        if isinstance(one.default, bool):
            continue
        if one.metadata.get("among"):
            yield one.name, "many"
            continue
        step = 1 if isinstance(one.default, int) else 0.01
        yield one.name, str(one.metadata["low"] - step)
        if one.metadata.get("high") is not None:
            yield one.name, str(one.metadata["high"] + step)
        yield one.name, "many"
        if isinstance(one.default, float):
            yield one.name, "nan"


@pytest.mark.parametrize(("name", "value"), list(beyond()))
def test_settings_beyond_their_range_are_refused_before_any_work(capfd, file, name, value):
    flag = f"--{name.replace('_', '-')}"
    code, out, err = run(capfd, "train", file, f"{flag}={value}")
    assert (code, out) == (2, "")
    [line] = err.strip().splitlines()
    assert f"{name} must be " in line or f"Invalid value for '{flag}': " in line


def test_every_setting_has_a_flag_with_its_sentence(capsys):
    assert main(["train", "--help"]) == 0
    told = " ".join(capsys.readouterr().out.split())
    for one in fields(ExperimentConfig):
        assert f"--{one.name.replace('_', '-')} " in told
        assert flag(arguments(ExperimentConfig)[one.name]) in told


def test_the_live_table_ends_in_the_leaderboard(capfd, trained):
    from heads.interfaces.cli import tables
    from heads.runs.runner import working
    from heads.runs.spec import load

    run = find(trained["run"])
    found = tables.follow_run(working(run), load(run))
    assert [cell.name for cell in found.cells] == [cell["recipe"] for cell in trained["cells"]]


@pytest.mark.skipif(os.name == "nt", reason="signals are of Unix")
def test_ctrl_c_that_a_library_swallows_is_no_fault_of_the_model(capfd, file, monkeypatch):
    def loading(*_, **__):
        try:
            signal.raise_signal(signal.SIGINT)
        except KeyboardInterrupt:
            raise ModelError("It cannot be loaded.") from None

    usual = signal.getsignal(signal.SIGINT)
    monkeypatch.setattr("heads.backbone.loading.load", loading)
    try:
        assert run(capfd, "read", file) == (130, "", "")
    finally:
        signal.signal(signal.SIGINT, usual)


@pytest.mark.skipif(os.name == "nt", reason="signals are of Unix")
@pytest.mark.slow
def test_ctrl_c_keeps_what_is_done_and_the_run_goes_on_later(capfd, file, tmp_path):
    folder = tmp_path / "stopped"
    command = [sys.executable, "-m", "heads", "train", str(file), *TRAIN, "-r", "mean+distilbert"]
    command += ["-r", "mean+bert", "--no-curve", "--seeds", "3", "--json", "--out", str(folder)]
    worker = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    assert worker.stderr is not None
    assert worker.stdout is not None
    try:
        for line in worker.stderr:
            if line.startswith("heads: 1/5 "):  # both baselines and the first head are done
                break
        begun = time.perf_counter()
        worker.send_signal(signal.SIGINT)
        out, err = worker.communicate(timeout=20)
        seconds = time.perf_counter() - begun
    finally:
        worker.kill()
        worker.wait()
    assert worker.returncode == 130
    assert "Traceback" not in err
    assert err.strip().endswith(f"heads train --resume {folder}")
    assert seconds < 5  # a second on a machine that has nothing else to do
    assert json.loads(out)["state"] == "stopped"
    assert 3 <= len(json.loads(out)["cells"]) < 7
    stopped = RunFolder(path=folder)
    assert stopped.read("end.json")["state"] == "stopped"
    assert not stopped.is_busy
    done = {path.name: path.read_bytes() for path in folder.glob("cells/*.json")}
    assert len(done) >= 3
    code, out, _ = run(capfd, "runs", folder, "--json")
    assert len(json.loads(out)["cells"]) == len(done)
    code, out, _ = run(capfd, "train", "--resume", folder, "--json")
    assert code == 0
    assert len(json.loads(out)["cells"]) == 7
    for name, content in done.items():
        assert (folder / "cells" / name).read_bytes() == content
