"""Labels of a run that were made wrong are found, and written so that one can mend them."""

import csv
import json
import random

import numpy
import pytest
import torch
from shown_results import HOSTILE, check_shown

import heads
from heads.data.samples import SAMPLES
from heads.errors import DataError
from heads.extras.labels.doubtful_labels import doubtful_labels, has_probabilities
from heads.runs import cells
from heads.runs.cells import probabilities_of_cell
from heads.runs.folder import RunFolder
from heads.runs.leaderboard import leaderboard
from heads.settings import PUBLIC, use_limits

QUICK = heads.ExperimentConfig(folds=2, curve=False)
RATE = 0.06


def sample(name, most=200):
    with SAMPLES[name].path.open(encoding="utf-8", newline="") as file:
        head, *rows = csv.reader(file)
    random.Random(0).shuffle(rows)
    return head, rows[:most]


def written(path, head, rows):
    with path.open("w", encoding="utf-8", newline="") as file:
        csv.writer(file).writerows([head, *rows])
    return path


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    return tmp_path_factory.mktemp("labels")


@pytest.fixture(scope="module")
def flipped(place):
    """A run on a sample 6 % of whose labels are another class, one text with two labels in it."""
    head, rows = sample("intents")
    label, draw = head.index("label"), random.Random(1)
    classes = sorted({row[label] for row in rows})
    wrong = sorted(draw.sample(range(len(rows) - 1), round(RATE * len(rows))))
    for row in wrong:
        rows[row][label] = draw.choice([one for one in classes if one != rows[row][label]])
    last = list(rows[-1])
    last[label] = next(one for one in classes if one != last[label])
    rows.append(last)
    file = written(place / "flipped.csv", head, rows)
    recipes = ["mean+ridge", "cls+ridge"]
    board = heads.train_grid(
        file,
        recipes=recipes,
        config=heads.ExperimentConfig(folds=3, curve=False),
        out=place / "run",
    )
    return board, [row + 2 for row in wrong]  # lines: the header is the first


@pytest.fixture(scope="module")
def found(flipped):
    return heads.doubtful_labels(flipped[0])


def test_labels_that_were_made_wrong_are_found_by_far_more_often_than_by_chance(flipped, found):
    wrong, named = set(flipped[1]), [one.line for one in found.rows]
    assert len(found.tested) == 201
    right = len(wrong & set(named))
    assert right / len(named) > 5 * RATE
    assert right / len(wrong) > 0.6
    first = named[: len(wrong)]
    assert len(wrong & set(first)) / len(first) > 8 * RATE


def test_a_row_tells_its_text_its_label_and_what_is_suggested(found):
    assert found.cells == ("mean+ridge", "cls+ridge", "tfidf")
    corpus = found.spec.corpus
    for one in found.rows:
        row = corpus.lines.index(one.line)
        assert one.text == corpus.texts[row]
        assert one.label == corpus.classes[corpus.targets[row][0]] != one.suggested
        assert one.suggested in corpus.classes
        assert 0 <= one.label_probability < one.suggested_probability <= 1
        assert 0 <= one.agree <= 3
    ranks = [one.label_probability for one in found.rows]
    assert ranks == sorted(ranks)
    assert found.says.startswith(f"{len(found.rows)} of 201 labels to review: 2 heads")


def test_texts_with_several_labels_are_told(found):
    (one,) = found.conflicts
    assert {line for line, _ in one.labels} == {201, 202}
    assert len({label for _, label in one.labels}) == 2
    assert any("1 text is labelled in several ways: lines 201 and 202." in n for n in found.notes)
    columns, rows = found.sheet(whole=True)
    told = {row[columns.index("line")]: row[columns.index("conflicts")] for row in rows}
    assert (told[201], told[202], told[2]) == ("202", "201", "")


def test_a_head_by_itself_can_be_asked_and_one_that_is_not_there_cannot(flipped, found):
    board = flipped[0]
    one = heads.doubtful_labels(str(board.folder.path), recipes=["mean+ridge"])
    assert one.cells == ("mean+ridge",)
    rows, told = probabilities_of_cell(board.folder, 0)
    assert one.doubts.quality.equal(told.gather(1, one.spec.task.targets[rows][:, None])[:, 0])
    assert repr(found) == f"<DoubtfulLabels of run: {len(found.rows)} of 201>"
    with pytest.raises(DataError, match=r"has no trained head max\+linear"):
        heads.doubtful_labels(board, recipes=["max+linear"])


def test_all_rows_are_read_again_as_they_were_and_mended(place, flipped, found):
    columns, rows = found.sheet(whole=True)
    for told in (dict(zip(columns, row, strict=True)) for row in rows):
        is_marked = told["doubtful"] == "yes"  # else nothing is suggested but what it has
        assert is_marked == (told["suggested"] != told["label"])
        assert is_marked == (None not in (told["suggested_probability"], told["agree"]))
    for kind in ("csv", "tsv", "jsonl", "parquet"):
        path = found.save(place / f"all.{kind}", whole=True)
        read = heads.read(path)
        assert read.corpus.texts == found.spec.corpus.texts
        assert read.corpus.targets == found.spec.corpus.targets
        assert read.corpus.classes == found.spec.corpus.classes
    mended = heads.read(place / "all.csv", heads.Columns(text="text", label="suggested"))
    changed = [
        line
        for line, old, new in zip(
            found.spec.corpus.lines, found.spec.corpus.targets, mended.corpus.targets, strict=True
        )
        if old != new
    ]
    assert sorted(changed) == sorted(one.line for one in found.rows)
    assert len(rows) == 201
    assert [row[columns.index("doubtful")] for row in rows].count("yes") == len(found.rows)


def test_a_file_that_is_there_is_never_written_over(place, found):
    path = place / "mine.csv"
    path.write_text("text,label\n", "utf-8")
    with pytest.raises(DataError, match="is there already"):
        found.save(path)
    assert path.read_text("utf-8") == "text,label\n"
    with pytest.raises(DataError, match=r"says no kind of file.*\.parquet"):
        found.save(place / "labels.docx")
    assert len(heads.read(found.save(place / "new" / "some.csv")).corpus) == len(found.rows)


def test_a_run_without_probabilities_says_so(flipped, found, monkeypatch):
    run = flipped[0].folder
    kept = run.path / "cells" / "001.probabilities.safetensors"
    content = kept.read_bytes()
    try:
        kept.write_bytes(b"broken")
        with pytest.raises(DataError, match=r"is broken: cells/001\.probabilities"):
            doubtful_labels(run)
        kept.unlink()
        with pytest.raises(DataError, match="before probabilities of all classes were kept"):
            doubtful_labels(run, ["cls+ridge"])
        assert has_probabilities(leaderboard(run))  # of the first
        monkeypatch.setattr("heads.extras.labels.doubtful_labels.MOST_PROBABILITIES", 10)
        with pytest.raises(DataError, match="are not kept of so many rows"):
            doubtful_labels(run, ["cls+ridge"])
    finally:
        kept.write_bytes(content)


def test_too_many_probabilities_are_not_kept(tmp_path, flipped, monkeypatch):
    board, run = flipped[0], RunFolder(path=tmp_path)
    (tmp_path / "cells").mkdir()
    outcome = cells.CellPredictions(
        name="mean+ridge", rows=(torch.arange(4),), logits=(torch.zeros(4, 3),)
    )
    task = doubtful_labels(board.folder).spec.task
    cell = board.cell("mean+ridge")
    cells._keep_probabilities(run, 0, cell, outcome, task)
    rows, told = probabilities_of_cell(run, 0)
    assert rows.tolist() == [0, 1, 2, 3]
    assert told.flatten().tolist() == pytest.approx([1 / 3] * 12, abs=1e-3)
    monkeypatch.setattr(cells, "MOST_PROBABILITIES", 11)
    cells._keep_probabilities(run, 1, cell, outcome, task)
    assert probabilities_of_cell(run, 1) is None


def test_a_run_of_which_nothing_is_done_has_none(tmp_path, flipped):
    from heads.runs import spec

    run = RunFolder(path=tmp_path)
    spec.save(run, spec.load(flipped[0].folder))
    with pytest.raises(DataError, match=r"No head of the run .* is done yet"):
        doubtful_labels(run)
    assert not has_probabilities(leaderboard(run))
    assert leaderboard(run).cells == ()


def test_what_nobody_may_name_in_public_is_refused(flipped):
    with use_limits(PUBLIC), pytest.raises(DataError, match="There is no such run"):
        heads.doubtful_labels(str(flipped[0].folder.path))


# Other labels, and rows for scoring


def test_only_the_rows_of_a_test_file_are_looked_at_by_its_own_lines(place):
    head, rows = sample("sentiment", 120)
    train = written(place / "learn.csv", head, rows[:80])
    test = written(place / "score.csv", head, rows[80:])
    config = heads.ExperimentConfig(seeds=2, curve=False)
    board = heads.train_grid(
        train, test=test, recipes=["mean+ridge"], config=config, out=place / "tested"
    )
    found = heads.doubtful_labels(board)
    assert (found.file, found.unit, len(found.tested)) == ("score", "line", 40)
    assert all(2 <= one.line <= 41 for one in found.rows)
    assert any("Only the 40 rows for scoring were looked at" in note for note in found.notes)
    columns, told = found.sheet(whole=True)
    assert len(told) == 120
    assert [row[columns.index("split")] for row in told].count("test") == 40
    assert told[0][columns.index("agree")] is None
    assert heads.read(found.save(place / "both.csv", whole=True)).corpus.parts[-1] == "test"


def test_several_labels_are_told_as_sets_and_read_again(place):
    head, rows = sample("aspects", 80)
    file = written(place / "sets.csv", head, rows)
    board = heads.train_grid(file, recipes=["mean+ridge"], config=QUICK, out=place / "sets")
    found = heads.doubtful_labels(board)
    assert found.as_json()["problem_type"] == "multi_label_classification"
    for one in found.rows:
        assert one.label != one.suggested
        assert one.label_probability + one.suggested_probability == pytest.approx(1)
    read = heads.read(found.save(place / "again.csv", whole=True))
    assert read.corpus.targets == found.spec.corpus.targets


def test_numbers_far_from_the_prediction_are_told_without_probabilities(place):
    head, rows = sample("similarity", 80)
    label = next(at for at, name in enumerate(head) if name in ("label", "score", "similarity"))
    wrong = max(range(len(rows)), key=lambda row: float(rows[row][label]))
    rows[wrong][label] = str(-40.0)
    file = written(place / "numbers.csv", head, rows)
    board = heads.train_grid(file, recipes=["mean+ridge"], config=QUICK, out=place / "numbers")
    found = heads.doubtful_labels(board)
    assert has_probabilities(board)
    assert found.rows[0].line == wrong + 2
    assert found.rows[0].label_probability is None
    assert "three robust standard deviations" in found.notes[0]
    read = heads.read(found.save(place / "numbers-again.csv", whole=True))
    assert read.corpus.numbers == pytest.approx(found.spec.corpus.numbers)
    assert read.corpus.pairs == found.spec.corpus.pairs


def test_labels_are_shown_by_notebook_and_shell(tiny, tmp_path):
    words = {"good": ["fine", "great", "lovely"], "bad": ["awful", "poor", "dull"]}
    lines = [
        {"text": f"{HOSTILE} {word} {n}", "label": label if n else other}
        for (label, own), other in zip(words.items(), ("bad", "good"), strict=True)
        for word in own
        for n in range(12)
    ]
    path = tmp_path / "few.jsonl"
    path.write_text("\n".join(map(json.dumps, lines)), "utf-8")
    once = heads.ExperimentConfig(seeds=1, curve=False)
    board = heads.train_grid(path, recipes=["mean+ridge"], model=str(tiny()), config=once)
    check_shown(heads.doubtful_labels(board))


def test_a_run_on_vectors_has_doubtful_labels_without_a_bag_of_words(tmp_path):
    rng = numpy.random.default_rng(0)
    classes = rng.integers(3, size=90)
    X = rng.standard_normal((90, 6))
    X[numpy.arange(90), classes] += 1.5
    data = heads.read(X, labels=[f"class {number}" for number in classes])
    config = heads.ExperimentConfig(curve=False, steps=30, trials=2, folds=3)
    board = heads.train_grid(
        data, recipes=["vectors+linear", "vectors+knn"], config=config, out=tmp_path / "run"
    )
    labels = heads.doubtful_labels(board)
    assert labels.rows
    assert labels.rows[0].text.startswith("vector ")
    assert "counted words" not in labels.says
