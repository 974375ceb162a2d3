"""A head scored on a file: the statistics of a leaderboard, and what flatters or spoils them."""

import csv
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from few_runs import ROWS
from quick_heads import classifiers
from sklearn.metrics import accuracy_score, f1_score, precision_recall_fscore_support

import heads
from heads.data.corpus import Corpus
from heads.data.samples import SAMPLES
from heads.errors import DataError
from heads.evaluation.statistics import wilson
from heads.inference import evaluate
from heads.problem import SINGLE_OUTPUT
from heads.runs.folder import RunFolder
from heads.runs.leaderboard import leaderboard


@pytest.fixture
def rest(tmp_path: Path) -> Callable[[str], Path]:
    """The rows of a sample that a run on its first ones has not seen."""

    def of(sample: str) -> Path:
        names, *lines = SAMPLES[sample].path.read_text("utf-8").splitlines()
        path = tmp_path / f"{sample}-rest.csv"
        path.write_text("\n".join([names, *lines[ROWS : 2 * ROWS]]), "utf-8")
        return path

    return of


def rows_of(path: Path) -> list[list[str]]:
    with path.open(encoding="utf-8", newline="") as file:
        return list(csv.reader(file))[1:]


def classifier_of(run: str) -> Any:
    return leaderboard(RunFolder(path=Path(run))).classifier()


def test_a_score_is_that_of_scikit_learn_with_wilsons_interval(run, rest):
    path = rest("sentiment")
    found = heads.evaluate(path, run=run("sentiment"))
    classifier, rows = classifier_of(run("sentiment")), rows_of(path)
    truth, given = [row[1] for row in rows], classifier.predict([row[0] for row in rows])
    assert found.score == pytest.approx(accuracy_score(truth, given))
    assert (found.measures.low, found.measures.high) == pytest.approx(wilson(found.score, ROWS))
    assert found.measures.values["macro_f1"] == pytest.approx(
        f1_score(truth, given, average="macro")
    )
    counted = precision_recall_fscore_support(truth, given, labels=found.classes, zero_division=0.0)
    for one, precision, recall, _, rows_of_class in zip(found.by_class, *counted, strict=True):
        assert (one.rows, one.precision or 0, one.recall or 0) == pytest.approx(
            (rows_of_class, precision, recall)
        )
        assert one.answered == given.count(one.name)
    assert int(found.measures.confusion.sum()) == ROWS
    assert found.commonest == max(map(truth.count, truth)) / ROWS
    assert found.held_out == classifier.head.scores
    json.dumps(found.as_json())
    assert repr(found).startswith("<FileScores sentiment-rest.csv by ")


def test_rows_that_it_learned_from_are_told_and_taken_out(run, rest):
    name, new = run("sentiment"), rest("sentiment")
    learned = rows_of(run.file("sentiment"))
    both = new.with_name("both.csv")
    with both.open("w", encoding="utf-8", newline="") as file:
        more = [[text.upper() + "  ", label] for text, label in learned]
        csv.writer(file).writerows([("text", "label"), *rows_of(new), *more])
    found, alone = heads.evaluate(both, run=name), heads.evaluate(new, run=name)
    # Of two folds the first is kept, which learned from half of the rows.
    assert 0.3 * ROWS < found.repeated < 0.7 * ROWS
    assert found.unrepeated.rows == 2 * ROWS - found.repeated
    assert "learned from, which flatters its score" in found.told[0]
    assert alone.repeated == 0
    assert not any("flatters" in one for one in alone.told)
    assert heads.evaluate(run.file("sentiment"), run=name).repeated == found.repeated


def test_unknown_labels_and_absent_classes_are_told(run, tmp_path):
    path = tmp_path / "odd.csv"
    rows = rows_of(run.file("sentiment"))
    kept = [row for row in rows if row[1] != "neutral"][:20]
    path.write_text(
        "text,label\n" + "".join(f'"{text}",{label}\n' for text, label in kept)
        + "It ran.,mixed\nIt sat.,mixed\nThe cat.,\n,positive\n", "utf-8",
    )  # fmt: skip
    found = heads.evaluate(path, run=run("sentiment"))
    assert (found.rows, found.measures.rows) == (24, len(set(map(tuple, kept))))
    assert found.unknown == {"mixed": 2}
    assert found.absent == ("neutral",)
    assert {why: len(lines) for why, lines in found.left_out.items()} == {
        evaluate.UNKNOWN: 2, "no label": 1, "no text": 1
    }  # fmt: skip
    told = " ".join(found.told)
    share = 100 * found.score * found.measures.rows / (found.measures.rows + 2)
    assert f"counted as wrong, they would make its accuracy {share:.1f} %" in told
    assert "1 class of the head has no row here: 'neutral'." in told
    path.write_text("text,label\n" + "It ran.,Positive\n" * 9, "utf-8")
    with pytest.raises(DataError):
        heads.evaluate(path, run=run("sentiment"))
    path.write_text("text,label\nIt ran.,positive\n", "utf-8")
    with pytest.raises(DataError):
        heads.evaluate(path, run=run("sentiment"))


def test_the_labels_are_found_by_what_they_are(run, tmp_path):
    path = tmp_path / "other.csv"
    rows = rows_of(run.file("sentiment"))[:30]
    with path.open("w", encoding="utf-8", newline="") as file:
        told = [[at % 2, text, "positive or so", label] for at, (text, label) in enumerate(rows)]
        csv.writer(file).writerows([("id", "review", "remark", "mood"), *told])
    found = heads.evaluate(path, run=run("sentiment"))
    assert (found.text, found.label) == ("review", "mood")
    with pytest.raises(DataError):
        heads.evaluate(path, run=run("aspects"))
    both = {"label": "mood", "labels": ["id"]}
    for asked in ({"label": "moood"}, both, {"metric": "spearman"}):
        with pytest.raises(DataError):
            heads.evaluate(path, run=run("sentiment"), **asked)
    assert (
        heads.evaluate(path, run=run("sentiment"), metric="macro_f1").measures.metric == "macro_f1"
    )


def test_several_labels_in_cells_or_in_columns_are_the_same(run, rest, tmp_path):
    name, path = run("aspects"), rest("aspects")
    found = heads.evaluate(path, run=name)
    rows, wide = rows_of(path), tmp_path / "wide.csv"
    with wide.open("w", encoding="utf-8", newline="") as file:
        flags = [[t, *(int(c in own.split("|")) for c in found.classes)] for t, own in rows]
        csv.writer(file).writerows([("text", *found.classes), *flags])
    again = heads.evaluate(wide, run=name)
    assert again.label == ", ".join(found.classes)
    assert again.measures.values == found.measures.values
    assert [one.f1 for one in again.measures.labels] == [one.f1 for one in found.measures.labels]
    classifier = classifier_of(name)
    given = classifier.predict([row[0] for row in rows])
    truth = [tuple(sorted(own.split("|"))) for _, own in rows]
    exact = sum(set(one) == set(other) for one, other in zip(given, truth, strict=True)) / len(rows)
    assert found.measures.values["exact_match"] == pytest.approx(exact)
    assert found.by_class == ()
    assert heads.evaluate(path, run=name, label="label", separator="|").score == found.score


def test_numbers_are_scored_as_a_run_scores_them(run, rest):
    path = rest("similarity")
    found = heads.evaluate(path, run=run("similarity"), metric="pearson")
    rows = rows_of(path)
    given = classifier_of(run("similarity")).predict([r[0] for r in rows], [r[1] for r in rows])
    truth = torch.tensor([float(row[2]) for row in rows])
    both = torch.stack([torch.tensor(given), truth])
    assert found.score == pytest.approx(float(torch.corrcoef(both)[0, 1]), abs=1e-4)
    assert found.measures.low < found.score < found.measures.high
    assert (found.calibrated_error, found.commonest, found.by_class) == (None, None, ())


def test_groups_make_intervals_wider_and_a_temperature_mends_confidence(run, rest):
    path = rest("sentiment")
    rows = rows_of(path)
    with path.open("w", encoding="utf-8", newline="") as file:
        told = [[*row, f"author {at // 30}"] for at, row in enumerate(rows)]
        csv.writer(file).writerows([("text", "label", "author"), *told])
    plain = heads.evaluate(path, run=run("sentiment"))
    grouped = heads.evaluate(path, run=run("sentiment"), group="author")
    assert grouped.score == plain.score
    assert grouped.measures.high - grouped.measures.low != plain.measures.high - plain.measures.low
    scaled = heads.evaluate(path, recipe=classifier_of(run("sentiment")))
    assert scaled.temperature == classifier_of(run("sentiment")).head.temperature
    assert 0 <= scaled.calibrated_error <= 1
    # What a head that is given learned from nobody knows.
    assert scaled.repeated is None
    assert "is not known here" in scaled.told[0]


def test_one_versus_rest_and_spelled_numbers(rows: Corpus, small, tmp_path):
    (head,) = classifiers(["mean+linear?loss=ovr"], rows, small)
    path = tmp_path / "ovr.csv"
    labels = [rows.classes[one] for (one,) in rows.targets]
    told = zip(rows.texts, labels, strict=True)
    path.write_text("text,label\n" + "".join(f"{t},{c}\n" for t, c in told), "utf-8")
    found = heads.evaluate(path, recipe=head)
    given = head.predict(rows.texts)
    assert found.score == pytest.approx(accuracy_score(labels, given))
    known = evaluate._Known(problem=SINGLE_OUTPUT, classes={"1": 0, "2": 1, "x" * 9: 2},
                           plain={"1": "1", "2": "2"}, most=9)  # fmt: skip
    assert [known.place(one) for one in ("1", "2.0", "x" * 12, "3")] == [0, 1, 2, None]
