"""Labels of a run that were made wrong are found, and written so that one can mend them."""

import csv
import random
from dataclasses import replace

import numpy
import pytest
from shown_results import HOSTILE, check_shown

import heads
from heads.data.samples import SAMPLES
from heads.errors import DataError
from heads.extras.labels.doubtful_labels import ENDINGS, doubtful_labels, has_probabilities
from heads.runs import spec
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
        rows[row][label] = draw.choice([name for name in classes if name != rows[row][label]])
    last = list(rows[-1])
    last[label] = next(name for name in classes if name != last[label])
    file = written(place / "flipped.csv", head, [*rows, last])
    asked = {"recipes": ["mean+ridge", "cls+ridge"], "out": place / "run"}
    board = heads.train_grid(file, config=replace(QUICK, folds=3), **asked)
    return board, [row + 2 for row in wrong]  # lines: the header is the first


@pytest.fixture(scope="module")
def found(flipped):
    return heads.doubtful_labels(flipped[0])


def test_labels_that_were_made_wrong_are_found_by_far_more_often_than_by_chance(flipped, found):
    wrong, named = set(flipped[1]), [row.line for row in found.rows]
    assert len(found.tested) == 201
    right = len(wrong & set(named))
    assert right / len(named) > 5 * RATE
    assert right / len(wrong) > 0.6
    assert len(wrong & set(named[: len(wrong)])) / len(wrong) > 8 * RATE


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
    assert found.says.startswith(f"{len(found.rows)} of 201 ")


def test_texts_with_several_labels_are_told(found):
    (conflict,) = found.conflicts
    assert {line for line, _ in conflict.labels} == {201, 202}
    assert len({label for _, label in conflict.labels}) == 2
    assert any("lines 201 and 202" in note for note in found.notes)
    told = {row["line"]: row["conflicts"] for row in found.to_pandas(whole=True).to_dict("records")}
    assert (told[201], told[202], told[2]) == ("202", "201", "")


def test_a_head_by_itself_can_be_asked_and_one_that_is_not_there_cannot(flipped):
    board = flipped[0]
    one = heads.doubtful_labels(str(board.folder.path), recipes=["mean+ridge"])
    assert one.cells == ("mean+ridge",)
    rows, told = probabilities_of_cell(board.folder, 0)
    assert one.doubts.quality.equal(told.gather(1, one.spec.task.targets[rows][:, None])[:, 0])
    with pytest.raises(DataError):
        heads.doubtful_labels(board, recipes=["max+linear"])


def test_all_rows_are_read_again_as_they_were_and_mended(place, flipped, found):
    columns, rows = found.sheet(whole=True)
    for told in (dict(zip(columns, row, strict=True)) for row in rows):
        is_marked = told["doubtful"] == "yes"  # else nothing is suggested but what it has
        assert is_marked == (told["suggested"] != told["label"])
        assert is_marked == (None not in (told["suggested_probability"], told["agree"]))
    corpus, path = found.spec.corpus, found.save(place / "all.csv", whole=True)
    read = heads.read(path).corpus
    assert (read.texts, read.targets, read.classes) == (
        corpus.texts, corpus.targets, corpus.classes
    )  # fmt: skip
    mended = heads.read(path, heads.Columns(text="text", label="suggested")).corpus
    triples = zip(corpus.lines, corpus.targets, mended.targets, strict=True)
    changed = [line for line, old, new in triples if old != new]
    assert sorted(changed) == sorted(row.line for row in found.rows)
    assert len(rows) == 201
    with pytest.raises(DataError):
        found.save(path)  # it is never written over
    assert len(heads.read(found.save(place / "new" / "some.csv")).corpus) == len(found.rows)


@pytest.mark.parametrize("ending", ENDINGS)
def test_each_kind_of_file_is_read_again_and_run_by_no_spreadsheet(found, tmp_path, ending):
    corpus = found.spec.corpus
    texts = tuple(f'=1+"{row}",\n{text} é' for row, text in enumerate(corpus.texts))
    odd = replace(found, spec=replace(found.spec, corpus=replace(corpus, texts=texts)))
    path = odd.save(tmp_path / "new" / f"x{ending}", whole=True, excel_safe=True)
    assert (b"'=1+" in path.read_bytes()) == (ending in (".csv", ".tsv"))
    assert heads.read(path).corpus.texts == texts
    assert heads.read(path).corpus.targets == corpus.targets
    assert path.stat().st_mode & 0o444 == 0o444
    for name in (path, tmp_path / "x", tmp_path / "x.docx"):  # there already, or no such kind
        with pytest.raises(DataError):
            odd.save(name)


def test_a_run_without_probabilities_says_so(flipped, found, monkeypatch):
    run = flipped[0].folder
    kept = run.path / "cells" / "001.probabilities.safetensors"
    content = kept.read_bytes()
    try:
        kept.write_bytes(b"broken")
        with pytest.raises(DataError) as broken:
            doubtful_labels(run)
        assert "cells/001.probabilities" in broken.value.what
        kept.unlink()
        with pytest.raises(DataError):
            doubtful_labels(run, ["cls+ridge"])
        assert has_probabilities(leaderboard(run))  # of the first
        monkeypatch.setattr("heads.extras.labels.doubtful_labels.MOST_PROBABILITIES", 10)
        with pytest.raises(DataError):
            doubtful_labels(run, ["cls+ridge"])
    finally:
        kept.write_bytes(content)


def test_a_run_of_which_nothing_is_done_has_none(tmp_path, flipped):

    run = RunFolder(path=tmp_path)
    spec.save(run, spec.load(flipped[0].folder))
    with pytest.raises(DataError):
        doubtful_labels(run)
    assert not has_probabilities(leaderboard(run))


def test_what_nobody_may_name_in_public_is_refused(flipped):
    with use_limits(PUBLIC), pytest.raises(DataError):
        heads.doubtful_labels(str(flipped[0].folder.path))


def test_labels_are_shown_by_notebook_and_shell(found):
    spec = found.spec
    corpus = replace(spec.corpus, texts=tuple(HOSTILE + text for text in spec.corpus.texts))
    check_shown(replace(found, spec=replace(spec, corpus=corpus)))


# Other labels, and rows for scoring


def test_only_the_rows_of_a_test_file_are_looked_at_by_its_own_lines(place):
    head, rows = sample("sentiment", 80)
    train = written(place / "learn.csv", head, rows[:40])
    test = written(place / "score.csv", head, rows[40:])
    config = heads.ExperimentConfig(seeds=1, curve=False)
    asked = {"recipes": ["mean+ridge"], "config": config, "out": place / "tested"}
    found = heads.doubtful_labels(heads.train_grid(train, test=test, **asked))
    assert (found.file, found.unit, len(found.tested)) == ("score", "line", 40)
    assert all(2 <= row.line <= 41 for row in found.rows)
    assert any("40 rows" in note for note in found.notes)
    table = found.to_pandas(whole=True)
    assert (len(table), (table["split"] == "test").sum()) == (80, 40)
    assert table["agree"].isna()[0]
    assert heads.read(found.save(place / "both.csv", whole=True)).corpus.parts[-1] == "test"


def test_several_labels_are_told_as_sets_and_read_again(place):
    head, rows = sample("aspects", 50)
    file = written(place / "sets.csv", head, rows)
    board = heads.train_grid(file, recipes=["mean+ridge"], config=QUICK, out=place / "sets")
    found = heads.doubtful_labels(board)
    for one in found.rows:
        assert one.label != one.suggested
        assert one.label_probability + one.suggested_probability == pytest.approx(1)
    read = heads.read(found.save(place / "again.csv", whole=True))
    assert read.corpus.targets == found.spec.corpus.targets


def test_numbers_far_from_the_prediction_are_told_without_probabilities(place):
    head, rows = sample("similarity", 50)
    label = next(at for at, name in enumerate(head) if name in ("label", "score", "similarity"))
    wrong = max(range(len(rows)), key=lambda row: float(rows[row][label]))
    rows[wrong][label] = str(-40.0)
    file = written(place / "numbers.csv", head, rows)
    board = heads.train_grid(file, recipes=["mean+ridge"], config=QUICK, out=place / "numbers")
    found = heads.doubtful_labels(board)
    assert has_probabilities(board)
    assert found.rows[0].line == wrong + 2
    assert found.rows[0].label_probability is None
    read = heads.read(found.save(place / "numbers-again.csv", whole=True))
    assert read.corpus.numbers == pytest.approx(found.spec.corpus.numbers)
    assert read.corpus.pairs == found.spec.corpus.pairs


def test_a_run_on_vectors_has_doubtful_labels_without_a_bag_of_words(tmp_path, monkeypatch):
    rng = numpy.random.default_rng(0)
    classes = rng.integers(3, size=90)
    X = rng.standard_normal((90, 6))
    X[numpy.arange(90), classes] += 1.5
    data = heads.read(X, labels=[f"class {number}" for number in classes])
    asked = {"recipes": ["vectors+ridge", "vectors+knn"], "config": QUICK}
    labels = heads.doubtful_labels(heads.train_grid(data, **asked, out=tmp_path / "run"))
    assert labels.rows[0].text.startswith("vector ")
    assert labels.cells == ("vectors+ridge", "vectors+knn")
    monkeypatch.setattr("heads.runs.cells.MOST_PROBABILITIES", 10)  # then they are not saved
    assert not has_probabilities(heads.train_grid(data, **asked, out=tmp_path / "large"))
