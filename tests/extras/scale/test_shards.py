"""Which rows are learned from, chosen on and scored on; and labels counted without vectors."""

from dataclasses import replace

import numpy as np
import pyarrow as pa
import pyarrow.parquet as parquet
import pytest
from hypothesis import given
from hypothesis import strategies as st
from shard_files import shards_of, vectors_file, whole

from heads.errors import DataError, LimitError
from heads.extras.scale.pool import make_caller, open_pool
from heads.extras.scale.shards import (
    FeatureShards,
    ShardReader,
    ShardSample,
    count_labels,
    draw_uniform,
    find_label_column,
)
from heads.settings import Limits

READER = ShardReader(
    column="vector", width=2, label="label", classes=("a", "b"),
    sample=ShardSample(test=0, development=0), has_hash=False,
)  # fmt: skip


def test_numbers_are_spread_evenly_and_always_the_same():
    keys = np.arange(100_000, dtype=np.uint64)
    drawn = draw_uniform(keys, 0)
    assert drawn.min() >= 0
    assert drawn.max() < 1
    counts = np.histogram(drawn, 20, (0, 1))[0]
    assert abs(counts / 5_000 - 1).max() < 0.05
    assert (draw_uniform(keys[::-1], 0) == drawn[::-1]).all()
    assert abs(np.corrcoef(drawn, draw_uniform(keys, 1))[0, 1]) < 0.02


@given(
    seed=st.integers(0, 2**32 - 1), share=st.floats(0.01, 1), test=st.floats(0, 0.4),
    development=st.floats(0, 0.4),
)  # fmt: skip
def test_every_row_has_one_part_at_most_and_shares_are_nested(seed, share, test, development):
    keys = np.arange(2_000, dtype=np.uint64)
    every = ShardSample(seed=seed, test=test, development=development)
    some = ShardSample(seed=seed, test=test, development=development, share=share)
    all_of, part = every.masks(keys), some.masks(keys)
    assert (sum(one.astype(int) for one in all_of.values()) == 1).all()
    for name in ("test", "development"):
        assert (all_of[name] == part[name]).all()
    assert not (part["train"] & ~all_of["train"]).any()
    fewer = ShardSample(seed=seed, test=test, development=development, share=share / 2)
    assert not (fewer.masks(keys)["train"] & ~part["train"]).any()


def test_a_split_that_the_data_say_is_used():
    said = ["train", "TEST ", "val", "validation", "train", "test"]
    parts = ShardSample(split="split").masks(np.arange(6, dtype=np.uint64), said)
    assert parts["test"].tolist() == [False, True, False, False, False, True]
    assert parts["development"].tolist() == [False, False, True, True, False, False]
    assert parts["train"].tolist() == [True, False, False, False, True, False]
    drawn = ShardSample(split="split").masks(
        np.arange(600, dtype=np.uint64), ["train", "test"] * 300
    )
    assert 10 < drawn["development"].sum() < 60  # none is said, so some are drawn
    assert not (drawn["development"] & drawn["test"]).any()


def test_of_many_rows_fewer_are_held_out():
    assert ShardSample.of_rows(1_000).test == ShardSample.of_rows(1_000).development == 0.1
    assert ShardSample.of_rows(10_000_000).test * 10_000_000 == pytest.approx(50_000)
    assert ShardSample.of_rows(10_000_000).development * 10_000_000 == pytest.approx(10_000)


def test_shards_hold_every_row_of_a_part_once(tmp_path):
    shards = shards_of(vectors_file(tmp_path / "v.parquet", 3_000))
    found = {}
    for part in ("train", "development", "test"):
        shards.subset = part
        vectors, targets, rows = whole(shards)
        assert len(vectors) == len(targets) == len(rows) == len(set(rows.tolist()))
        found[part] = set(rows.tolist())
    assert sum(map(len, found.values())) == len(set.union(*found.values())) == 3_000


def test_rows_without_a_vector_or_a_label_are_left_out(tmp_path):
    vectors = pa.array([[1.0, 2.0], None, [3.0, 4.0], [5.0, 6.0]], pa.list_(pa.float32()))
    table = pa.table({"vector": vectors, "label": ["a", "b", None, "b"]})
    parquet.write_table(table, tmp_path / "v.parquet")
    found = FeatureShards.load(tmp_path / "v.parquet")
    assert found.readings == {"vector": 2}
    (piece,) = found.pieces("vector")
    rows = READER.read(piece, "train")
    assert rows.keys.tolist() == [0, 3]
    assert rows.targets.tolist() == [0, 1]


@pytest.mark.parametrize("second", [[1.0, float("nan")], [1.0, 2.0, 3.0]])
def test_vectors_that_are_none_are_refused(tmp_path, second):
    vectors = pa.array([[1.0, 2.0], second], pa.list_(pa.float32()))
    parquet.write_table(pa.table({"vector": vectors, "label": ["a", "b"]}), tmp_path / "v.parquet")
    found = FeatureShards.load(tmp_path / "v.parquet")
    with pytest.raises(DataError):
        READER.read(found.pieces("vector")[0], "train")
    parquet.write_table(pa.table({"text": ["a"]}), tmp_path / "t.parquet")
    with pytest.raises(DataError):
        FeatureShards.load(tmp_path / "t.parquet")


# --- Labels.

# Of which no row has the last one.
CATEGORIES = pa.DictionaryArray.from_arrays(pa.array([0, 1, 0, None]), ["a", "b", "nobody"])


def labelled(path, labels, name="label"):
    vectors = pa.array([[n, 1] for n in range(len(labels))], pa.list_(pa.float32(), 2))
    parquet.write_table(pa.table({"vector": vectors, name: labels}), path)
    return FeatureShards.load(path)


@pytest.mark.parametrize(
    ("labels", "classes", "counts"),
    [
        (["b", "a", "b", None, ""], ("a", "b"), [1, 2]),
        ([10, 9, 10, 2], ("2", "9", "10"), [1, 1, 2]),
        ([1.0, 0.0, 1.0, float("nan")], ("0", "1"), [1, 2]),
        (["a ", "a", " ", "b"], ("a", "b"), [2, 1]),
        ([True, False, True], ("false", "true"), [1, 2]),
        (CATEGORIES, ("a", "b"), [2, 1]),
    ],
)
def test_labels_are_counted(tmp_path, labels, classes, counts):
    shards = labelled(tmp_path / "v.parquet", labels)
    found, names = count_labels(shards.source, "label", open_pool(make_caller))
    assert names == classes
    (piece,) = shards.pieces("vector")
    targets = replace(READER, classes=classes).read(piece, "train").targets
    assert targets.bincount().tolist() == counts
    assert [found[name] for name in names] == counts


def test_labels_that_are_no_classes_are_refused(tmp_path):
    many = list(range(Limits().classes + 1))
    for labels, kind in ((many, LimitError), (["a", "a"], DataError), ([["a"], ["b"]], DataError)):
        shards = labelled(tmp_path / "v.parquet", labels)
        with pytest.raises(kind):
            count_labels(shards.source, "label", open_pool(make_caller))


def test_the_column_of_the_labels_is_found_or_named(tmp_path):
    shards = labelled(tmp_path / "v.parquet", ["a", "b"], "Target")
    assert find_label_column(shards, "") == find_label_column(shards, "Target") == "Target"
    with pytest.raises(DataError) as refused:
        find_label_column(shards, "target2")
    assert refused.value.column == "target2"
    shards = labelled(tmp_path / "w.parquet", ["a", "b"], "sentiment")
    with pytest.raises(DataError):
        find_label_column(shards, "")
