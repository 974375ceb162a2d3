"""`heads train` on pairs, several labels and numbers: ways in, losses and layers."""

import json

import pytest
from shell_runs import QUICK, run, write_rows

pytestmark = pytest.mark.usefixtures("place")


@pytest.fixture(scope="module")
def some(place):
    """The first rows of a sample."""
    return lambda name: write_rows(name, place / f"{name}.csv")


def trained(capfd, *arguments):
    """The leaderboard as JSON, and its heads."""
    code, out, err = run(capfd, "train", *arguments, *QUICK, "--json")
    assert code == 0, err
    found = json.loads(out)
    assert found["state"] == "finished"
    return found, {cell["recipe"]: cell for cell in found["cells"] if not cell["baseline"]}


@pytest.mark.slow
def test_every_way_in_is_a_cell_of_its_own(capfd):
    arguments = ["pairs", "-r", "mean+linear", "--pairs", "joint, siamese", "--per-class", "8"]
    found, heads = trained(capfd, *arguments)
    assert found["data"] == "pairs"
    joint, siamese = heads["mean+linear"], heads["mean+linear?pair=uv_diff_prod"]
    assert len(heads) == 2
    assert siamese["parameters"] == 4 * (joint["parameters"] - 2) + 2


def test_features_are_seven_cells(capfd, some):
    _, heads = trained(capfd, some("pairs"), "-r", "mean+ridge", "--pairs", "features")
    assert len(heads) == 7
    assert all("?pair=" in name for name in heads)


def test_every_loss_is_a_cell_of_its_own(capfd, some):
    recipes = ["-r", "mean+linear", "-r", "mean+ridge"]
    _, heads = trained(capfd, some("sentiment"), *recipes, "--loss", "softmax", "--loss", "ovr")
    assert set(heads) == {"mean+linear", "mean+linear?loss=ovr", "mean+ridge"}


@pytest.mark.slow
def test_every_layer_is_a_cell(capfd, some):
    found, heads = trained(capfd, some("sentiment"), "--grid", "layers")
    assert set(heads) == {f"mean{layer}+linear" for layer in ("", *(f"@{n}" for n in range(6)))}
    assert found["best"] in heads
    _, heads = trained(capfd, some("sentiment"), "--grid", "layers:cls")
    assert "cls@0+linear" in heads


def test_several_labels_and_numbers_are_told_in_their_own_measure(capfd, some):
    found, heads = trained(capfd, some("aspects"), "-r", "mean+linear")
    assert (found["problem_type"], found["metric"]) == ("multi_label_classification", "micro_f1")
    cell = heads["mean+linear"]
    assert {"micro_f1", "macro_f1", "samples_f1", "hamming_loss"} <= set(cell)
    assert [one["name"] for one in cell["labels"]] == found["classes"]
    found, heads = trained(capfd, some("similarity"), "-r", "mean+linear", "--pairs", "uv_diff")
    assert (found["problem_type"], found["metric"]) == ("regression", "spearman")
    assert {"spearman", "pearson", "mean_squared_error", "r2"} <= set(
        heads["mean+linear?pair=uv_diff"]
    )
    code, out, _ = run(capfd, "runs", found["run"])
    assert code == 0
    assert "Spearman" in out


def test_settings_of_a_loss_are_flags(capfd, some):
    flags = ["--focal", "2", "--smoothing", "0.1", "--class-weights"]
    plain, heads = trained(capfd, some("sentiment"), "-r", "mean+linear", *flags)
    assert heads["mean+linear"]["score"] > 0
    assert plain["state"] == "finished"
