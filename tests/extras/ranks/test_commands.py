"""The command `heads ranks`, run as a user runs it."""

import json
import shutil
from pathlib import Path

import pytest
from shell_runs import run

from heads.runs.folder import RunFolder

pytestmark = pytest.mark.usefixtures("place")


def test_recipes_are_ranked_over_the_data_sets_of_runs(capfd, tmp_path, trained):
    folder = Path(trained["folder"])
    other = tmp_path / "other"
    shutil.copytree(folder, other)
    facts = RunFolder(path=other).read("run.json")
    facts |= {"data": "other reviews", "fingerprint": "another"}
    RunFolder(path=other).write("run.json", facts)
    named = ["ranks", folder, other]
    code, out, _ = run(capfd, *named, "--json")
    assert code == 0
    found = json.loads(out)
    assert found["data"] == ["reviews", "other reviews"]
    scores = {cell["recipe"]: cell["score"] for cell in trained["cells"] if not cell["baseline"]}
    for row in found["scores"]:
        assert dict(zip(found["recipes"], row, strict=True)) == pytest.approx(scores)
    assert found["needed"] == 7
    code, out, _ = run(capfd, *named, "--groups", "nemenyi", "--to", tmp_path / "ranks.html")
    assert code == 0
    assert "Nemenyi's test" in out
    page = (tmp_path / "ranks.html").read_text("utf-8")
    assert "Plotly.newPlot" in page
    assert "cdn.plot.ly" not in page.partition("Plotly.newPlot")[0][:2000]
    for wrong, text in (
        ((*named, "--to", tmp_path / "ranks.png"), ".html"),
        (("ranks", folder), "Name runs"),
        ((*named, "--groups", "dunn"), "dunn"),
    ):
        code, _, err = run(capfd, *wrong)
        assert (code, text in err) == (2, True)
