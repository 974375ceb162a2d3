"""Features of texts piece by piece: those that the base model gives, each row once."""

from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as parquet
import pytest
import torch
from shard_files import read_parts, texts_file

import heads
from heads.errors import DataError, HeadsError, RecipeError
from heads.extras.scale.extraction import hash_texts
from heads.features.extraction import extract
from heads.features.store import FeatureMatrices
from heads.parts.resolve import resolve

ROWS = 40


def plain(backbone, texts, pairs, reading):
    """The same by the pass of any run, (n, w)."""
    *_, found = extract([resolve(f"{reading}+linear")], texts, pairs, backbone)
    assert isinstance(found, FeatureMatrices)
    return found.matrix(reading)[found.index]


@pytest.fixture
def made(tiny, tmp_path):
    def make(path, to="to", **given):
        asked = {"model": str(tiny()), "rows_each": 16} | given
        return heads.extract(path, tmp_path / to, **asked)

    return make


def test_features_are_those_of_any_run_and_every_row_is_there_once(made, small, tmp_path):
    path = texts_file(tmp_path / "a.parquet", ROWS, start=100)
    found = made(path, readings=("mean", "cls@cat4", "max"))
    assert (found.rows, found.fresh, found.text) == (ROWS, ROWS, "text")
    table = read_parts(Path(found.to))
    assert table.column("source_row").to_pylist() == list(range(ROWS))
    assert table.column("id").to_pylist() == list(range(100, 100 + ROWS))
    assert "text" not in table.column_names
    rows = parquet.read_table(path).column("text").to_pylist()
    for reading, width in found.readings.items():
        ours = table.column(reading).to_pylist()
        assert ours[1] is None  # the row without a text
        own = [one for one in ours if one]
        theirs = plain(small, [text for text in rows if text], [], reading)
        assert theirs.shape[1] == width
        assert torch.allclose(torch.tensor(own), theirs, atol=2e-6)
    hashes = table.column("text_hash").to_pylist()
    same = [(a, b) for a in range(ROWS) for b in range(a) if rows[a] and rows[a] == rows[b]]
    assert all(hashes[a] == hashes[b] for a, b in same)
    assert len(set(hashes)) == len(set(rows))
    told = found.as_json()
    assert (told["rows"], told["files"], told["fresh"]) == (ROWS, len(found.source.files), ROWS)
    assert told["columns"] == ["id", "label", "source_row", "text_hash"]


def test_pairs_are_read_jointly_or_each_by_itself(made, small, tmp_path):
    texts, pairs = [f"text {n}" for n in range(9)], [f"pair {n % 4}" for n in range(9)]
    parquet.write_table(pa.table({"one": texts, "two": pairs}), tmp_path / "p.parquet")
    found = made(
        tmp_path / "p.parquet", text="one", pair="two", readings=("cls", "mean+linear?pair=uv_diff")
    )
    table = read_parts(Path(found.to))
    joint = torch.tensor(table.column("cls").to_pylist())
    assert torch.allclose(joint, plain(small, texts, pairs, "cls"), atol=2e-6)
    recipe = resolve("mean+linear?pair=uv_diff")
    siamese = torch.tensor(table.column(recipe.reading).to_pylist())
    both = plain(small, [*texts, *pairs], [], "mean")
    assert torch.allclose(siamese, recipe.joined(*both.chunk(2)), atol=2e-6)


def test_half_the_size_in_16_bits(made, tmp_path):
    path = texts_file(tmp_path / "a.parquet", ROWS)
    whole, half = made(path, "whole"), made(path, "half", dtype="float16")
    one, other = read_parts(Path(whole.to)).column("mean"), read_parts(Path(half.to)).column("mean")
    assert other.type.value_type == pa.float16()
    pairs = zip(one.to_pylist(), other.to_pylist(), strict=True)
    assert all(np.allclose(a, b, atol=2e-3) for a, b in pairs if a)


def test_it_goes_on_where_it_was(made, tmp_path):
    path = texts_file(tmp_path / "a.parquet", ROWS)
    first = made(path)
    assert made(path).fresh == 0
    Path(first.source.files[1]).unlink()
    again = made(path)
    assert (again.fresh, again.rows) == (16, ROWS)
    with pytest.raises(DataError):
        made(path, readings=("cls",))


@pytest.mark.parametrize(
    ("given", "kind", "column"),
    [
        ({"readings": ("attention",)}, RecipeError, None),
        ({"readings": ("nothing",)}, RecipeError, None),
        ({"text": "txt"}, DataError, "txt"),
        ({"text": "text", "pair": "text"}, DataError, None),
        ({"dtype": "int8"}, DataError, None),
        ({"on": "mars"}, HeadsError, None),
        ({"model": "vectors:12"}, HeadsError, None),
    ],
)
def test_options_that_do_not_fit_are_refused(made, tmp_path, given, kind, column):
    path = texts_file(tmp_path / "a.parquet", 5)
    with pytest.raises(kind) as refused:
        made(path, **given)
    assert getattr(refused.value, "column", None) == column


@pytest.mark.parametrize(
    ("columns", "text"),
    [
        ({"id": [1, 2], "note": ["a b", "c d"]}, "note"),
        ({"text": ["a b", "c d"], "lang": ["en", "de"]}, "text"),
    ],
)
def test_the_column_of_the_texts_is_detected_without_labels(made, tmp_path, columns, text):
    parquet.write_table(pa.table(columns), tmp_path / "a.parquet")
    assert made(tmp_path / "a.parquet").text == text


def test_a_column_called_as_a_reading_is_refused(made, tmp_path):
    parquet.write_table(pa.table({"text": ["a b"], "mean": [1]}), tmp_path / "a.parquet")
    with pytest.raises(DataError):
        made(tmp_path / "a.parquet", text="text")


def test_rows_without_any_text_are_kept(made, tmp_path):
    texts = pa.array([None, " "], pa.string())
    parquet.write_table(pa.table({"text": texts}), tmp_path / "a.parquet")
    found = made(tmp_path / "a.parquet", text="text")
    assert read_parts(Path(found.to)).column("mean").to_pylist() == [None, None]


def test_a_folder_is_named_from_the_root(tiny, tmp_path, monkeypatch):
    """Workers elsewhere have another working directory."""
    texts_file(tmp_path / "a.parquet", 5)
    monkeypatch.chdir(tmp_path)
    found = heads.extract("a.parquet", "to", model=str(tiny()))
    (file,) = map(Path, found.source.files)
    assert (found.to, file.parent) == (str(tmp_path / "to"), tmp_path / "to" / "parts")


def test_copies_that_differ_in_spaces_and_spelling_stay_in_one_split():
    one, other = hash_texts((" cafe\u0301\r\n",)), hash_texts(("caf\u00e9",))
    assert one == other != hash_texts(("Caf\u00e9",))
