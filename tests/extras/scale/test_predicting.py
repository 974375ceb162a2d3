"""Rows answered piece by piece: what `heads.predict` answers, each row once."""

from dataclasses import replace

import pandas
import pytest
from quick_heads import classifiers
from shard_files import read_parts, texts_file, vectors_file
from shown_results import HOSTILE, check_shown

import heads
from heads.errors import DataError
from heads.extras.scale.predicting import ShardedAnswers
from heads.extras.scale.shards import FeatureShards
from heads.interfaces.cli.app import main


@pytest.fixture
def classifier(rows, small):
    return classifiers(["mean+linear"], rows, small)[0]


def test_answers_are_those_of_a_whole_file(classifier, tmp_path):
    path = texts_file(tmp_path / "a.parquet", 50, group=13)
    found = heads.predict_shards(
        path, tmp_path / "to", recipe=classifier, rows_each=16, probabilities=True
    )
    whole = heads.predict(path, recipe=classifier, probabilities=True)
    ours = read_parts(tmp_path / "to").to_pandas()
    assert ours["id"].tolist() == list(range(50))
    theirs = whole.to_pandas()
    assert [one or None for one in ours["answer"]] == [one or None for one in theirs["answer"]]
    for name in theirs.columns[1:]:
        left, right = ours[name].to_numpy(), theirs[name].to_numpy()
        pandas.testing.assert_series_equal(
            pandas.Series(left).astype(float), pandas.Series(right).astype(float), atol=1e-4
        )
    assert (found.rows, found.answered, found.parts) == (50, 49, 4)
    assert sum(found.unanswered.values()) == 1
    assert dict(found.counts) == dict(whole.counts)
    assert set(found.columns) == set(whole.columns)


def test_it_goes_on_where_it_was(classifier, rows, small, tmp_path):
    path, to = texts_file(tmp_path / "a.parquet", 40), tmp_path / "to"
    asked = {"recipe": classifier, "rows_each": 16}
    first = heads.predict_shards(path, to, **asked)
    again = heads.predict_shards(path, to, **asked)
    assert (first.fresh, again.fresh) == (40, 0)
    assert (again.answered, dict(again.counts)) == (first.answered, dict(first.counts))
    (other,) = classifiers(["cls+linear"], rows, small)
    with pytest.raises(DataError):
        heads.predict_shards(path, to, recipe=other, rows_each=16)


def test_vectors_of_any_engine_are_answered(tmp_path):
    path = vectors_file(tmp_path / "v.parquet", 900)
    best = (heads.fit_shards(path, recipes=("vectors+ridge",), rungs=(), keep=1)).best
    found = heads.predict_shards(path, tmp_path / "to", recipe=best)
    ours = read_parts(tmp_path / "to").to_pandas()
    assert found.vectors == "vector"
    assert (ours["answer"] == ours["label"]).mean() > 0.8


def test_from_the_shell(tmp_path, capsys):
    path = tmp_path / "a.csv"
    path.write_text("id,text\n" + "\n".join(f"{n},A fine day {n}" for n in range(9)))
    line = ["predict-shards", str(path), "--sample", "sentiment", "-r", "mean+centroid"]
    assert main([*line, "--to", str(tmp_path / "to")]) == 0
    assert "9 of 9 rows of a.csv answered" in capsys.readouterr().out
    assert len(read_parts(tmp_path / "to").to_pandas()) == 9
    assert main(line) == 2
    assert "--to" in capsys.readouterr().err


def test_results_are_shown_by_notebook_and_shell(tmp_path):
    shards = FeatureShards.load(vectors_file(tmp_path / "v.parquet", 400))
    shown = [
        replace(shards, readings={HOSTILE: 12}, model=HOSTILE, to=HOSTILE),
        ShardedAnswers(
            head=HOSTILE, model=HOSTILE, data=HOSTILE, to=HOSTILE, rows=2, answered=1,
            unanswered={HOSTILE: 1}, abstained=0, counts={HOSTILE: 1}, columns=(HOSTILE,),
            text=HOSTILE, pair="", vectors="", parts=1, fresh=2, seconds=1.0,
        ),
        replace(heads.fit_shards(shards, recipes=["vectors+ridge"]), label=HOSTILE),
    ]  # fmt: skip
    for result in shown:
        check_shown(result)
