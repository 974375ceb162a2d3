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
    assert " 1 head" in " ".join(out.split())
    code, out, err = run(capfd, "labels", trained["run"], "--most", "0", "--to", tmp_path / "x.csv")
    assert f" {len(found['labels'])} rows" in err
    whole = tmp_path / "all.jsonl"
    assert run(capfd, "labels", trained["run"], "--to", whole, "--all")[0] == 0
    assert len(whole.read_text("utf-8").splitlines()) == ROWS
    assert run(capfd, "read", whole)[0] == 0


@pytest.mark.parametrize(
    ("arguments", "named"),
    [(["--all"], "--to FILE"), (["--to", "x.docx"], ".csv"), (["-r", "max+linear"], "max+linear")],
)
def test_options_that_do_not_fit_are_refused(capfd, trained, arguments, named):
    code, out, err = run(capfd, "labels", trained["run"], *arguments)
    assert (code, out) == (2, "")
    assert named in err
