"""Labels that may be wrong on the page and over the API, to whom the run may be shown."""

import csv
import io
import json
import shutil

import pytest

import heads
from heads.data.dataset import read
from heads.errors import HeadsError
from heads.extras.labels import doubtful_labels as labels
from heads.extras.labels import endpoints, sections
from heads.interfaces.views.sections import find_sections, find_subject
from heads.interfaces.web import run_access
from heads.interfaces.web.places import result_folds
from heads.runs.leaderboard import leaderboard
from heads.runs.runner import begin, working
from heads.runs.spec import RunRequest
from heads.settings import ExperimentConfig

SECTION = sections.SECTIONS[0]
EVIL = "<img src=x onerror=x>"


@pytest.fixture(scope="module")
def trained(few, place):
    """A run with an id that nobody can guess; some labels are wrong, and one text attacks."""
    lines = few.read_text("utf-8").splitlines()
    head = lines[0].split(",")
    rows = [dict(zip(head, row, strict=True)) for row in csv.reader(lines[1:])]
    classes = sorted({row["label"] for row in rows})
    for row in rows[:6]:
        row["label"] = classes[(classes.index(row["label"]) + 1) % len(classes)]
    rows[0]["text"] += f" {EVIL}"
    path = place / "wrong.jsonl"
    path.write_text("\n".join(map(json.dumps, rows)), "utf-8")
    config = ExperimentConfig(folds=2, curve=False)
    request = RunRequest(data=read(path), recipes=["mean+ridge"], config=config)
    run = begin(request, run=run_access.run_of(run_access.new_secret()))
    for _ in working(run):
        pass
    yield run
    shutil.rmtree(run.path, ignore_errors=True)


def query(run):
    return f"?place=data&result={run.id}"


def drawn(run):
    return str(result_folds._open_section(SECTION)(query(run), None)[-1])


def test_the_fold_says_how_many_and_lists_the_first(trained):
    board, found = leaderboard(trained), heads.doubtful_labels(trained.path)
    assert SECTION in find_sections(["labels"])
    assert SECTION.has_answer(board)
    answer = SECTION.find_answer(find_subject(board))
    assert answer.phrase.startswith(f"{len(found.rows)} of {len(found.tested)} ")
    assert len(answer.tables[0].rows) == min(len(found.rows), labels.MOST_SHOWN)
    html = drawn(trained)
    assert found.rows[0].suggested in html
    assert labels.LOOK in html


def test_a_text_stays_a_text_and_rows_left_out_are_counted(trained, monkeypatch):
    monkeypatch.setattr(labels, "MOST_SHOWN", 1000)
    html, rows = drawn(trained), heads.doubtful_labels(trained.path).rows
    assert EVIL not in html
    assert ("&lt;img" in html) == any(EVIL in row.text for row in rows)
    monkeypatch.setattr(labels, "MOST_SHOWN", 2)
    assert f" {len(rows) - 2} more" in drawn(trained)


def test_both_files_are_saved_and_too_many_rows_are_not(trained, monkeypatch):
    files = [result_folds._write_csv(one, query(trained)) for one in SECTION.downloads]
    some, whole = (list(csv.DictReader(io.StringIO(file[1:]))) for file in files)
    assert len(whole) == 100
    assert [row["text"] for row in whole if row["doubtful"]] == sorted(
        (row["text"] for row in some), key=[row["text"] for row in whole].index
    )
    monkeypatch.setattr(result_folds, "MAX_CELLS", 10)
    with pytest.raises(HeadsError):
        result_folds._write_csv(SECTION.downloads[1], query(trained))


def test_the_endpoint_answers_as_python_does_and_refuses_what_is_no_run(trained, monkeypatch):
    found = endpoints.labels(trained.id)
    assert found == heads.doubtful_labels(trained.path).as_json()
    json.dumps(found, allow_nan=False)
    with pytest.raises(HeadsError):
        endpoints.labels(None)
    monkeypatch.setenv("HEADS_PUBLIC", "1")
    assert endpoints.labels(trained.id)["run"] == trained.id  # who has the id may see it
    for name in ("", trained.id[:-1], str(trained.path), "../" + trained.id):
        with pytest.raises(HeadsError):
            endpoints.labels(name)
