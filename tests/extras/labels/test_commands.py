"""The command `heads labels`, run as a user runs it."""

import json

import pytest
from shell_runs import RECIPES, ROWS, run

pytestmark = pytest.mark.usefixtures("place")


def test_labels_that_may_be_wrong_are_listed_and_written(capfd, trained, tmp_path):
    code, out, _ = run(capfd, "labels", trained["run"], "--json")
    found = json.loads(out)
    assert code == 0
    assert (found["tested"], found["file"], found["unit"]) == (ROWS, "reviews", "line")
    assert sorted(found["cells"]) == sorted([*RECIPES, "tfidf"])
    assert found["labels"]
    assert {"line", "text", "label", "suggested", "agree"} <= set(found["labels"][0])
    code, out, _ = run(capfd, "labels", trained["run"], "--most", "1", "-r", "mean+linear")
    assert "labels to review: 1 head, none" in " ".join(out.split())
    assert "A label that is named may be right" in out
    code, out, err = run(capfd, "labels", trained["run"], "--most", "0", "--to", tmp_path / "x.csv")
    assert f"wrote {len(found['labels'])} rows" in err
    whole = tmp_path / "all.jsonl"
    assert run(capfd, "labels", trained["run"], "--to", whole, "--all")[0] == 0
    assert len(whole.read_text("utf-8").splitlines()) == ROWS
    assert run(capfd, "read", whole)[0] == 0


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (["--all"], "none is named. Add --to FILE."),
        (["--to", "x.docx"], "End it in .csv, .tsv, .jsonl, .parquet."),
        (["-r", "max+linear"], "has no trained head max+linear."),
    ],
)
def test_labels_asked_for_in_a_way_that_does_not_fit(capfd, trained, arguments, sentence):
    code, out, err = run(capfd, "labels", trained["run"], *arguments)
    assert (code, out) == (2, "")
    assert sentence in err


def test_labels_are_never_written_over_a_file(capfd, trained, file):
    before = file.read_bytes()
    code, _, err = run(capfd, "labels", trained["run"], "--to", file, "--all")
    assert (code, "is there already" in err) == (2, True)
    assert file.read_bytes() == before
