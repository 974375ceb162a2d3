"""Whole files answered by one head: every row, as `Classifier.predict` answers it."""

import csv
import io
import json
import shutil
from pathlib import Path
from typing import Any

import pandas as pd
import pyarrow as pa
import pytest
import torch
from datasets import Dataset, DatasetDict
from hypothesis import given, settings
from hypothesis import strategies as st
from quick_heads import classifiers

import heads
from heads.classifier.answers import answer_columns
from heads.classifier.classifier import Classifier
from heads.data.files import open_table
from heads.data.samples import SAMPLES
from heads.errors import DataError, HeadsError
from heads.events import result
from heads.inference import predict
from heads.inference.predict import block_rows, iter_prediction
from heads.inference.selection import select_file_head
from heads.options import PredictOptions
from heads.settings import PUBLIC, use_limits

TEXT = st.text(st.characters(codec="utf-8", exclude_characters="\0"), max_size=12)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("files")


def head_of(run: str, recipe: str = "") -> Classifier:
    return result(select_file_head(PredictOptions(recipe=recipe, run=run))).classifier


def told(path: Path) -> list[dict[str, str]]:
    text = path.read_bytes().decode("utf-8-sig")
    return list(csv.DictReader(io.StringIO(text, newline="")))


def test_answers_are_those_of_predict(run, tmp_path):
    name, to = run("sentiment"), tmp_path / "out.csv"
    options = PredictOptions(run=name, logits=True, probabilities=True)
    found = result(iter_prediction("sentiment", options, to=to))
    classifier = head_of(name)
    rows = told(to)
    texts = [row["text"] for row in rows]
    assert texts == [row[0] for row in open_table(SAMPLES["sentiment"].path).rows]
    assert [row["answer"] for row in rows] == classifier.predict(texts)
    logits = torch.tensor([[float(row[f"logit_{c}"]) for c in classifier.classes] for row in rows])
    assert (logits - classifier.logits(texts)).abs().max() < 1e-5
    shares = classifier.probabilities(texts)
    assert [float(row["probability"]) for row in rows] == pytest.approx(shares.amax(dim=1).tolist())
    assert float(rows[3][f"probability_{classifier.classes[1]}"]) == pytest.approx(
        float(shares[3, 1])
    )
    assert (found.rows, found.answered, sum(found.counts.values())) == (len(rows),) * 3
    assert (found.text, found.to, found.answers) == ("text", to, ())
    assert found.head in ("mean+linear", "cls+linear")  # the recommended one, or the best


def test_without_a_place_the_answers_are_returned(run, tmp_path):
    path = tmp_path / "new.csv"
    path.write_text("opinion,when\nThe soup is warm.,1\n,2\nIt never came.,3\n", "utf-8")
    found = heads.predict(path, run=run("sentiment"), recipe="cls+linear", text="opinion")
    classifier = head_of(run("sentiment"), "cls+linear")
    first, last = classifier.predict(["The soup is warm.", "It never came."])
    assert [row["answer"] for row in found.answers] == [first, None, last]
    assert found.answers[1] == {"answer": None, "probability": None}
    assert (found.answered, found.unanswered) == (2, {"no text": (3,)})
    assert found.told[0] == "1 row got no answer, no text: line 3."
    json.dumps(found.as_json())
    assert found.as_json()["answers"] == list(found.answers)
    assert repr(found) == "<FileAnswers new.csv by cls+linear: 2 of 3>"


def test_it_abstains_as_predict_does(run, tmp_path):
    name = run("sentiment")
    classifier, to = head_of(name), tmp_path / "out.jsonl"
    sure = classifier.sureness(classifier.logits(["The soup is warm.", "It never came."]))
    limit = float(sure.mean())
    path = tmp_path / "two.csv"
    path.write_text("text,n\nThe soup is warm.,1\nIt never came.,2\n", "utf-8")
    found = heads.predict(path, run=name, to=to, abstain_below=limit)
    rows = [json.loads(line) for line in to.read_text("utf-8").splitlines()]
    expected = classifier.predict(["The soup is warm.", "It never came."], abstain_below=limit)
    assert [row["answer"] for row in rows] == [one or "" for one in expected]
    assert [row["abstained"] for row in rows] == [not one for one in expected]
    assert [row["calibrated_probability"] < limit for row in rows] == [not one for one in expected]
    assert found.abstained == sum(not one for one in expected) == 1
    for wrong in (1.5, -0.1):
        with pytest.raises(DataError):
            heads.predict(path, run=name, abstain_below=wrong)
    with pytest.raises(DataError):
        heads.predict(path, run=run("aspects"), abstain_below=0.5)


def test_labels_come_as_their_reader_takes_them(run, tmp_path):
    name, to = run("aspects"), tmp_path / "out.csv"
    heads.predict("aspects", run=name, to=to, logits=True)
    classifier, rows = head_of(name), told(to)
    expected = classifier.predict([row["text"] for row in rows])
    assert [tuple(filter(None, row["answer"].split("|"))) for row in rows] == expected
    chosen = classifier.head.problem.chosen(
        classifier.logits([row["text"] for row in rows]), classifier.head.thresholds
    )
    for row, one in zip(rows, chosen, strict=True):
        assert (row["probability"] == "") is not bool(one.any())
    parted = answer_columns(classifier, separator="")
    assert parted.columns[0].separator == "|"
    assert answer_columns(classifier, separator="[]").columns[0].separator == "[]"


def test_numbers_are_written_to_the_last_digit(run, tmp_path):
    name, to = run("similarity"), tmp_path / "out.csv"
    found = heads.predict("similarity", run=name, to=to, probabilities=True)
    classifier, rows = head_of(name), told(to)
    pairs = [row["text_b"] for row in rows]
    expected = classifier.predict([row["text_a"] for row in rows], pairs)
    told_numbers = torch.tensor([float(row["answer"]) for row in rows])
    assert torch.allclose(told_numbers, torch.tensor(expected), atol=1e-5)
    assert (found.text, found.pair, found.columns) == ("text_a", "text_b", ("answer",))
    assert found.spread[0] <= found.spread[1] <= found.spread[2]
    assert "has no probability" in found.told[-1]
    path = tmp_path / "one.csv"
    path.write_text("text_a\nfine\n", "utf-8")
    with pytest.raises(DataError):
        heads.predict(path, run=name)
    path.write_text("text_a,other\nfine,\nfine,good\n", "utf-8")
    half = heads.predict(path, run=name, pair="other")
    assert half.unanswered == {"no second text": (2,)}


def test_columns_of_the_file_keep_their_names_and_ours_give_way(run, tmp_path):
    path, to = tmp_path / "again.csv", tmp_path / "out.csv"
    path.write_text("text,answer,probability\nThe soup is warm.,=1+1,x\n", "utf-8")
    found = heads.predict(path, run=run("sentiment"), to=to)
    assert found.columns == ("answer_2", "probability_2")
    (row,) = told(to)
    assert (row["answer"], row["probability"]) == ("=1+1", "x")
    assert "ours is called 'answer_2'" in " ".join(found.told)
    heads.predict(path, run=run("sentiment"), to=tmp_path / "all.csv", probabilities=True)
    many = heads.predict(tmp_path / "all.csv", run=run("sentiment"), probabilities=True)
    assert any("columns called as ours are" in one for one in many.told)


def test_a_text_that_commas_parted_is_answered_whole(run, tmp_path):
    path = tmp_path / "commas.csv"
    rows = [f"{at},It was late" for at in range(30)]
    path.write_text("\n".join(["id,text", *rows, "31,late, twice, and cancelled"]), "utf-8")
    found = heads.predict(path, run=run("sentiment"), logits=True)
    logits = head_of(run("sentiment")).logits(["late, twice, and cancelled"])[0]
    # Of a random base model texts look alike, and a head on it takes every rounding for a word.
    assert list(found.answers[-1].values())[2:] == pytest.approx(logits.tolist(), rel=1e-2)
    assert found.answered == 31
    path.write_text("\n".join(["text,id", *("late,1" for _ in rows), "late, twice,3"]), "utf-8")
    found = heads.predict(path, run=run("sentiment"))
    assert found.unanswered == {"wrong number of cells": (32,)}


@settings(max_examples=15)
@given(rows=st.lists(st.tuples(TEXT, TEXT), min_size=1, max_size=8), header=st.booleans())
def test_as_many_answers_as_rows(run, folder, rows, header):
    path, to = folder / "in.csv", folder / "out.csv"
    to.unlink(missing_ok=True)  # of the example before
    file = io.StringIO(newline="")
    names = [("review", "n")] * header
    csv.writer(file, quoting=csv.QUOTE_ALL).writerows([*names, ("some words here", "x"), *rows])
    path.write_bytes(file.getvalue().encode())
    asked: dict[str, Any] = {"text": "review" if header else "column 1", "header": header}
    try:
        found = heads.predict(path, run=run("sentiment"), to=to, **asked)
    except HeadsError as error:
        said = str(error)
        assert "not a text table" in said or "title" in said
        return
    out = told(to)
    assert [list(row.values())[:2] for row in out] == [["some words here", "x"], *map(list, rows)]
    empty = sum(map(len, found.unanswered.values()))
    assert len(out) == found.rows == len(rows) + 1 == found.answered + empty
    assert sum(bool(row["answer"]) for row in out) == found.answered


def test_a_table_in_memory_is_answered_as_its_file_is(run, tmp_path):
    asked = {"run": run("sentiment"), "recipe": "cls+linear", "logits": True}
    frame = pd.read_csv(run.file("sentiment")).head(20)
    frame.index = range(100, 120)
    of_file = tmp_path / "same.csv"
    frame.to_csv(of_file, index=False)
    found, same = heads.predict(frame, **asked), heads.predict(of_file, **asked)
    assert found.answers == same.answers
    assert list(found.to_pandas()["answer"]) == [one["answer"] for one in same.answers]
    turned = frame[::-1].assign(answer=heads.predict(frame, **asked).to_pandas()["answer"])
    assert list(turned["answer"])[::-1] == [one["answer"] for one in same.answers]
    assert found.notes[0].startswith("Read from memory: a DataFrame")
    heads.predict(frame, to=tmp_path / "out.parquet", **asked)
    written = pd.read_parquet(tmp_path / "out.parquet")
    assert list(written["text"]) == list(frame["text"])
    rows = Dataset.from_pandas(frame, preserve_index=False)
    with pytest.raises(DataError):
        heads.predict(DatasetDict({"test": rows}), **asked)
    for odd in (["fine"], {"text": ["fine"]}, 7):
        with pytest.raises(DataError):
            heads.predict(odd, run=run("sentiment"))


def test_nothing_is_left_where_it_ends_early(run, tmp_path, monkeypatch):
    monkeypatch.setattr(predict, "FEWEST", 10)
    monkeypatch.setattr(predict, "MOST", 10)
    to = tmp_path / "out.csv"
    work = iter_prediction("sentiment", PredictOptions(run=run("sentiment")), to=to)
    steps = [next(work) for _ in range(5)]
    assert steps[-1].says.startswith("Answered 30 of ")
    assert " a second, " in steps[-1].says
    assert len(list(tmp_path.iterdir())) == 1
    work.close()
    assert not list(tmp_path.iterdir())


def test_a_place_that_cannot_be_written_to_is_refused_before_the_work(run, tmp_path):
    path = tmp_path / "in.csv"
    path.write_text("text\nfine\n", "utf-8")
    (other := tmp_path / "other.csv").write_text("mine", "utf-8")
    (folder := tmp_path / "out.csv").mkdir()
    for to in (
        path,
        other,
        tmp_path / "out.doc",
        tmp_path / "nowhere" / "out.csv",
        tmp_path,
        folder,
    ):
        with pytest.raises(DataError):
            heads.predict(path, run=run("sentiment"), to=to)
    assert other.read_text("utf-8") == "mine"
    with pytest.raises(DataError):
        heads.predict(tmp_path / "none.csv", run=run("sentiment"))


@pytest.mark.parametrize("has_links", [True, False])
def test_what_came_to_lie_there_meanwhile_stays(has_links, run, tmp_path, monkeypatch):
    def refused(*names):
        raise PermissionError(1, "Operation not permitted")

    if not has_links:  # as on a memory stick
        monkeypatch.setattr("os.link", refused)
    to = tmp_path / "out.csv"
    work = iter_prediction("sentiment", PredictOptions(run=run("sentiment")), to=to)
    for told in work:
        if told.says.startswith("Answered"):
            break
    to.write_text("precious", "utf-8")
    with pytest.raises(DataError):
        for _ in work:
            pass
    assert [path.read_text("utf-8") for path in tmp_path.iterdir()] == ["precious"]
    to.unlink()
    heads.predict("sentiment", run=run("sentiment"), to=to)
    assert list(tmp_path.iterdir()) == [to]


ODD = {
    "a record without fields": pa.array([{}, {}], pa.struct([])),
    "runs": pa.RunEndEncodedArray.from_arrays([1, 2], ["x", "y"]),
    "lists by number": pa.DictionaryArray.from_arrays([0, 0], pa.array([[1, 2]])),
    "several types": pa.UnionArray.from_sparse(
        pa.array([0, 1], pa.int8()), [pa.array(["x", "y"]), pa.array([1, 2])]
    ),
    "a span of months": pa.array([(1, 2, 3), None], pa.month_day_nano_interval()),
}


@pytest.mark.parametrize("odd", ODD)
def test_columns_of_every_type_stand_beside_answers(odd, run, tmp_path):
    table = pa.table({"text": ["fine", "bad"], "odd": ODD[odd]})
    for ending in ("csv", "jsonl", "xlsx"):
        found = heads.predict(table, run=run("sentiment"), to=tmp_path / f"out.{ending}")
        assert found.answered == 2
    if odd == "runs":  # which are no type of their own once they are read
        heads.predict(table, run=run("sentiment"), to=tmp_path / "out.parquet")
    else:
        with pytest.raises(DataError):
            heads.predict(table, run=run("sentiment"), to=tmp_path / "out.parquet")
    assert not list(tmp_path.glob(".*"))


def test_what_memory_holds_is_called_by_its_name(run):
    months = pd.DataFrame(
        {"text": ["a", "b"], "m": pd.period_range("2020-01", periods=2, freq="M")}
    )
    assert heads.predict(months, run=run("sentiment")).first[1][1] == "2020-01"
    with pytest.raises(DataError):
        heads.predict(months[:0], run=run("sentiment"))
    twice = pa.table([pa.array(["a", "b"]), pa.array(["c", "d"])], names=["text", "text"])
    with pytest.raises(DataError):
        heads.predict(twice, run=run("sentiment"))


def test_columns_that_are_not_there_are_named(run, tmp_path):
    path = tmp_path / "in.jsonl"
    path.write_text('{"review": "fine", "tags": ["a"]}\n{"review": "bad", "tags": []}\n', "utf-8")
    for asked, column in (
        ({"text": "reviw"}, "reviw"), ({"text": "tags"}, "tags"),
        ({"text": "review", "pair": "review"}, ""),
    ):  # fmt: skip
        with pytest.raises(DataError) as refused:
            heads.predict(path, run=run("sentiment"), **asked)
        assert (refused.value.column or "") == column
    assert heads.predict(path, run=run("sentiment")).text == "review"


def test_the_head_is_of_a_run_a_folder_or_given(run, rows, small, tmp_path, monkeypatch):
    path = tmp_path / "in.csv"
    path.write_text("text\nThe soup is warm.\n", "utf-8")
    classifier = head_of(run("sentiment"), "cls+linear")
    given = heads.predict(path, recipe=classifier, logits=True)
    same = heads.predict(path, run=run("sentiment"), recipe="cls+linear", logits=True)
    assert given.answers == same.answers
    (quick,) = classifiers(["cls+bert"], rows, small)
    heads.export(quick, tmp_path / "exported")
    own = heads.predict(path, model=str(tmp_path / "exported"), logits=True)
    logits = quick.logits(["The soup is warm."])[0].tolist()
    assert list(own.answers[0].values())[2:] == pytest.approx(logits, abs=1e-5)
    assert own.head == "own (cls+bert)"
    monkeypatch.setenv("HEADS_RUNS", str(tmp_path / "runs"))
    with pytest.raises(DataError):
        heads.predict(path)
    shutil.copytree(run("sentiment"), tmp_path / "runs" / "mine")
    with pytest.raises(DataError):
        heads.predict(path)
    with pytest.raises(DataError):
        heads.predict(path, run=run("sentiment"), sample="sentiment")
    with use_limits(PUBLIC), pytest.raises(DataError):
        heads.predict(path, run=run("sentiment"))


def test_a_head_of_a_sample_is_trained_first(tiny, tmp_path):
    path = tmp_path / "in.csv"
    path.write_text("text_a,text_b\nA dog ran.,The dog was running.\n", "utf-8")
    asked: dict[str, Any] = {"sample": "pairs", "model": str(tiny())}
    found = heads.predict(path, recipe="mean+knn", **asked)
    assert (found.head, found.text, found.pair) == ("mean+knn", "text_a", "text_b")
    assert found.answers[0]["answer"] in {row[-1] for row in open_table(SAMPLES["pairs"].path).rows}


def test_large_base_models_are_asked_about_fewer_rows_at_once(small, backbone):
    class Of:
        def __init__(self, parameters):
            self.backbone = type("", (), {"parameters": parameters})

    assert [block_rows(Of(size)) for size in (10**5, 10**8, 10**10)] == [1024, 256, 64]
