"""`heads train` on pairs, several labels and numbers: ways in, losses and layers."""

import json

import pytest
from shell_runs import QUICK, run, write_rows

pytestmark = pytest.mark.usefixtures("place")


@pytest.fixture(scope="module")
def some(place):
    """The first rows of a sample."""
    return lambda name: write_rows(name, place / f"{name}.csv")


@pytest.fixture
def trained(capfd, tiny):
    """Trains on a tiny base model; the leaderboard as JSON, and its heads."""

    def train(*arguments):
        code, out, err = run(capfd, "train", *arguments, "--model", tiny(), *QUICK, "--json")
        assert code == 0, err
        found = json.loads(out)
        assert found["state"] == "finished"
        return found, {cell["recipe"]: cell for cell in found["cells"] if not cell["baseline"]}

    return train


def test_features_are_seven_cells(trained, some):
    _, heads = trained(some("pairs"), "-r", "mean+ridge", "--pairs", "features")
    assert len(heads) == 7
    assert all("?pair=" in name for name in heads)


def test_every_loss_is_a_cell_of_its_own(trained, some):
    recipes = ["-r", "mean+linear", "-r", "mean+ridge"]
    _, heads = trained(some("sentiment"), *recipes, "--loss", "softmax", "--loss", "ovr")
    assert set(heads) == {"mean+linear", "mean+linear?loss=ovr", "mean+ridge"}


def test_several_labels_and_numbers_are_told_in_their_own_measure(capfd, trained, some):
    found, heads = trained(some("aspects"), "-r", "mean+linear")
    assert (found["problem_type"], found["metric"]) == ("multi_label_classification", "micro_f1")
    cell = heads["mean+linear"]
    assert {"micro_f1", "macro_f1", "samples_f1", "hamming_loss"} <= set(cell)
    assert [one["name"] for one in cell["labels"]] == found["classes"]
    found, heads = trained(some("similarity"), "-r", "mean+linear", "--pairs", "uv_diff")
    assert (found["problem_type"], found["metric"]) == ("regression", "spearman")
    assert {"spearman", "pearson", "mean_squared_error", "r2"} <= set(
        heads["mean+linear?pair=uv_diff"]
    )
    code, out, _ = run(capfd, "runs", found["run"])
    assert code == 0
    assert "Spearman" in out
