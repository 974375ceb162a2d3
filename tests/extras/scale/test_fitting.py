"""Heads compared on shards: raced on few rows, fitted on all, asked and exported."""

import json

import pyarrow as pa
import pyarrow.parquet as parquet
import pytest
import torch
from shard_files import vectors_file

import heads
from heads.errors import DataError, HeadsError, RecipeError
from heads.extras.scale import fitting as module
from heads.interfaces.cli.app import main

FEW = ("vectors+linear", "vectors+ridge", "vectors+lda", "vectors+centroid", "vectors+mlp")


def fitted(path, **given):
    asked = {"recipes": FEW, "rungs": (), "keep": 3} | given
    return heads.fit_shards(path, **asked)


@pytest.fixture
def path(tmp_path):
    return vectors_file(tmp_path / "v.parquet", 3_000, group=400)


def test_few_rows_are_compared_in_memory(path):
    found = fitted(path)
    assert {cell.name for cell in found.cells} == set(FEW)
    rows = found.rows
    assert rows["train"] + rows["development"] + rows["test"] == 3_000
    assert found.classes == ("class 0", "class 1", "class 2")
    assert all(cell.measures.score > 0.8 for cell in found.cells if "centroid" not in cell.name)
    assert found.cells[0].to_best is None
    assert all(cell.to_best for cell in found.cells[1:])
    assert found.verdict.startswith(f"{found.cells[0].name} has the highest accuracy")
    told = json.loads(json.dumps(found.as_json()))
    assert [one["recipe"] for one in told["cells"]] == [cell.name for cell in found.cells]


def test_from_shards_comes_what_comes_in_memory(path, monkeypatch):
    solved = [one for one in FEW if "mlp" not in one]
    before = fitted(path, recipes=solved)
    monkeypatch.setattr(module, "IN_MEMORY", 0)
    after = fitted(path, recipes=solved)
    assert [rung.stopped for rung in after.rungs] == [{}]
    for cell in before.cells:
        other = next(one for one in after.cells if one.name == cell.name)
        assert other.measures.score == pytest.approx(cell.measures.score, abs=0.015), cell.name


@pytest.mark.parametrize("in_memory", [250_000, 1_500])
def test_a_race_on_few_rows_ends_in_heads_of_all_rows(path, monkeypatch, in_memory):
    monkeypatch.setattr(module, "IN_MEMORY", in_memory)
    found = fitted(path, rungs=(1_800, 600), keep=2)
    first, second, last = found.rungs
    assert 500 < first.rows < 700
    assert 1_600 < second.rows < 2_000
    assert set(first.scores) == set(FEW)
    assert set(second.scores) == set(FEW) - set(first.stopped)
    assert set(last.scores) == {cell.name for cell in found.cells}
    assert len(found.cells) == 2
    assert found.rows["train"] > 2_300
    assert {cell.name for cell in found.cells} == set(second.scores) - set(second.stopped)
    best = found.best
    assert best.classes == found.classes
    assert best.head.rows == found.rows["train"]


def test_rows_that_are_scored_were_never_learned_from(path):
    """A head that knows the rows by heart is no better than chance on labels without sense."""
    table = parquet.read_table(path)
    labels = ["class 0" if number % 3 else "class 1" for number in range(len(table))]
    parquet.write_table(table.set_column(1, "label", pa.array(labels)), path)
    found = fitted(path, recipes=("vectors+mlp", "vectors+linear"))
    assert all(abs(cell.measures.score - 2 / 3) < 0.1 for cell in found.cells)


def test_a_split_of_the_data_is_used(path):
    table = parquet.read_table(path)
    said = ["test" if number < 700 else "train" for number in range(len(table))]
    parquet.write_table(table.append_column("part", pa.array(said)), path)
    found = fitted(path, split="part", recipes=("vectors+ridge",))
    assert found.rows["test"] == 700


def test_a_head_answers_and_is_exported(tiny, tmp_path, monkeypatch):
    texts = [f"{'cat' if n % 2 else 'train'} and paper {n}" for n in range(400)]
    table = pa.table({"text": texts, "label": ["cat" if n % 2 else "train" for n in range(400)]})
    parquet.write_table(table, tmp_path / "t.parquet")
    asked = {"model": str(tiny()), "readings": ("mean", "cls")}
    shards = heads.extract(tmp_path / "t.parquet", tmp_path / "f", **asked)
    monkeypatch.setattr(module, "IN_MEMORY", 0)
    found = heads.fit_shards(shards, recipes=(), rungs=(), keep=3)
    assert len(found.cells) == 2 * len(module.HEADS)
    best = found.best
    assert set(best.predict(["a cat", "the train"])) <= {"cat", "train"}
    folder = tmp_path / "export"
    heads.export(best, folder)
    again = heads.load(folder)
    assert torch.allclose(again.logits(texts[:5]), best.logits(texts[:5]), atol=1e-4)
    with pytest.raises(RecipeError):
        found.classifier("max+linear")


@pytest.mark.parametrize(
    ("given", "kind", "column"),
    [
        ({"recipes": ("vectors+knn",)}, RecipeError, None),  # needs all rows in memory
        ({"recipes": ("mean+linear",)}, RecipeError, None),
        ({"label": "nothing"}, DataError, "nothing"),
        ({"split": "nothing"}, DataError, "nothing"),
        ({"vectors": "nothing"}, DataError, None),
        ({"on": "mars"}, HeadsError, None),
    ],
)
def test_options_that_do_not_fit_are_refused(path, given, kind, column):
    with pytest.raises(kind) as refused:
        fitted(path, **given)
    assert getattr(refused.value, "column", None) == column


def test_too_few_rows_are_told_of(tmp_path):
    path = vectors_file(tmp_path / "v.parquet", 150)
    with pytest.raises(DataError):
        fitted(path)


def test_heads_that_draw_lots_are_never_told_apart_after_one_training(path):
    found = fitted(path, recipes=("vectors+mlp", "vectors+centroid", "vectors+linear"))
    by_name = {cell.name: cell for cell in found.cells}
    assert by_name["vectors+mlp"].to_best is None or not by_name["vectors+mlp"].to_best.differs
    if found.cells[0].name == "vectors+mlp":
        assert not any(cell.to_best.differs for cell in found.cells[1:] if cell.to_best)


def test_from_the_shell(path, capsys):
    line = ["fit-shards", str(path), "-r", "vectors+ridge", "-r", "vectors+centroid"]
    assert main([*line, "--rungs", "1e3"]) == 0
    told = capsys.readouterr().out
    assert "has the highest accuracy" in told
    assert main([*line, "--rungs", "0", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["rungs"][0]["rows"] > 2_000
    assert main([*line, "--rungs", "many"]) == 2
    assert "'many'" in capsys.readouterr().err
