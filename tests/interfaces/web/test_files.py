"""Whole files over the API and in the page's fold: answered, scored, bounded, and gone after it."""

import csv
import json
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from few_runs import FewRuns
from gradio_client import handle_file
from gradio_client.exceptions import AppError

import heads
from heads.data.samples import SAMPLES
from heads.interfaces.web import endpoints, temporary_files
from heads.interfaces.web.places import answer_file, result_folds
from heads.interfaces.web.places.your_data import Visit, draw_place
from heads.interfaces.web.training_jobs import TrainingJobs
from heads.interfaces.web.training_process import TrainingSlots
from heads.settings import cache_folder, served_folder


@pytest.fixture(scope="module")
def run(tiny: Callable[..., Path], tmp_path_factory: pytest.TempPathFactory) -> FewRuns:
    return FewRuns(tmp_path_factory.mktemp("runs"), tiny())


@pytest.fixture
def table(tmp_path: Path) -> Path:
    lines = SAMPLES["sentiment"].path.read_text("utf-8").splitlines()[:41]
    path = tmp_path / "reviews.csv"
    path.write_text("\n".join([*lines, ",positive"]) + "\n", "utf-8")
    return path


def uploads() -> set[Path]:
    """Uploads that lie anywhere."""
    return {path for path in (cache_folder() / "uploads").rglob("*") if path.is_file()}


@pytest.fixture(autouse=True)
def nothing_stays() -> Iterator[None]:
    """The server is that of all tests: what others sent it may lie there still."""
    before = uploads()
    yield
    assert uploads() - before == set()


def test_a_file_is_answered_over_the_api(client, table, run):
    asked = {"run": run("sentiment"), "recipe": "cls+linear", "probabilities": True}
    account, rows = client.predict(handle_file(str(table)), **asked, api_name="/predict")
    found = heads.predict(table, **asked)
    with Path(rows).open(encoding="utf-8", newline="") as file:
        told = list(csv.DictReader(file))
    assert [row["answer"] or None for row in told] == [row["answer"] for row in found.answers]
    assert account["to"] == "reviews-answers.csv"
    assert (account["rows"], account["unanswered"]["no text"]["count"]) == (41, 1)
    _, rows = client.predict(handle_file(str(table)), **asked, to="jsonl", api_name="/predict")
    with Path(rows).open(encoding="utf-8") as file:
        assert len([json.loads(line) for line in file]) == 41


def test_a_file_is_scored_over_the_api(client, table, run):
    asked = {"run": run("sentiment"), "metric": "macro_f1"}
    found = client.predict(handle_file(str(table)), **asked, api_name="/evaluate")
    known = heads.evaluate(table, **asked).as_json()
    same = {name for name in known if name != "seconds"}
    assert {name: found[name] for name in same} == json.loads(
        json.dumps({name: known[name] for name in same})
    )


@pytest.mark.parametrize(
    ("given", "says"),
    [
        ({"to": "doc"}, "The format 'doc' is not written here"),
        ({"abstain_below": 2}, "between 0 and 1"),
        ({"text": "reviw"}, "no column 'reviw'"),
        ({"recipe": "mean+nothing"}, "nothing"),
        ({"logits": "yes"}, "logits must be true or false"),
    ],
)
def test_what_does_not_fit_is_a_sentence(client, table, run, given, says):
    with pytest.raises(AppError, match=says):
        client.predict(handle_file(str(table)), run=run("sentiment"), **given, api_name="/predict")


def sent(name: str, text: str) -> Path:
    """A file as Gradio takes one in."""
    path = served_folder() / "sent" / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, "utf-8")
    return path


def test_in_public_nobody_asks_heads_of_this_machine(monkeypatch, run):
    monkeypatch.setenv("HEADS_PUBLIC", "1")
    monkeypatch.setenv("HEADS_RUNS", str(run.place))
    run("sentiment")
    for asked in ({"run": "sentiment"}, {"run": run("sentiment")}, {"model": str(run.model)}):
        for endpoint in (endpoints.predict, endpoints.evaluate):
            path = sent("long.csv", "text,label\na cat,x\n")
            with pytest.raises(Exception, match=r"no such run|is not a model id"):
                list(endpoint(str(path), **asked))
            assert not path.exists()
    exports = served_folder() / temporary_files.EXPORTS
    assert [one for one in exports.rglob("*") if one.is_file() and "long" in one.name] == []


def test_the_fold_answers_scores_and_keeps_nothing(monkeypatch, table, run):
    monkeypatch.setenv("HEADS_RUNS", str(run.place))
    run("sentiment")
    query = "?place=data&result=sentiment"
    path = sent("<b>mine<b>.csv", table.read_text("utf-8"))
    steps = list(answer_file.answered(str(path), query))
    assert "Looking through the file" in steps[0][1]
    *_, (_, told, take) = steps
    assert take["visible"]
    with Path(take["value"]).open(encoding="utf-8", newline="") as file:
        assert len(list(csv.DictReader(file))) == 41
    assert "40 of 41 rows answered by " in told
    assert "With the labels in “label” it answers " in told
    assert "flatters its score" in told
    assert not path.exists()
    # Labels of another kind are no reason not to answer.
    path = sent("other.csv", "text,mood\n<script>x</script> it ran,up\n")
    *_, (_, told, take) = answer_file.answered(str(path), query)
    assert "With the labels" not in told
    assert "<script>" not in told
    assert take["visible"]
    *_, (_, told, take) = answer_file.answered(str(path), query)
    assert "is not a file" in told
    assert not take["visible"]


def test_a_finished_run_is_shown_once_and_its_heads_open(monkeypatch, run):
    monkeypatch.setenv("HEADS_RUNS", str(run.place))
    run("sentiment")
    visit, jobs = Visit("?place=data&result=sentiment"), TrainingJobs(TrainingSlots(most=1))
    shown = draw_place(visit, jobs)
    assert shown["result_area"]["visible"]
    assert "<dt>Use</dt>" in shown["result"]
    assert "mean+linear" in str(shown["plot"])
    assert set(shown) > set(result_folds.names())
    visit = replace(visit, last=shown["last"])
    assert set(draw_place(visit, jobs)) == {"rail", "job", "timer"}  # the rest stands there
    opened = draw_place(replace(visit, query=f"{visit.query}&head=cls%2Blinear"), jobs)
    assert "cls+linear" in opened["head"]
    assert not set(opened) & set(result_folds.names())


def test_what_comes_back_ends_as_what_was_sent():
    for name, asked, ending in (
        ("a.TSV", "", ".tsv"),
        ("a.xlsx", "", ".xlsx"),
        ("a", "", ".csv"),
        ("a.csv", "Parquet", ".parquet"),
    ):
        assert endpoints.answered_ending(Path(name), asked) == ending
