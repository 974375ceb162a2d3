"""Parquet files for tests of `heads.extras.scale`: texts with labels, and vectors with labels."""

import json
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as parquet
from small_training_data import blobs
from torch import Tensor

from heads.extras.scale.pool import make_caller, open_pool
from heads.extras.scale.shards import FeatureShards, ShardReader, ShardRows, ShardSample
from heads.extras.scale.sums import Shards
from heads.problem import SINGLE_LABEL
from heads.training.objective import Objective

WORDS = ("river", "stone", "bright", "quiet", "train", "paper", "garden", "window", "seven", "cold")


def texts_file(path: Path, rows: int, *, group: int = 0, start: int = 0) -> Path:
    """Rows with an id, a text (some of which come twice, one is missing) and a label."""
    texts = [
        " ".join(WORDS[(number * step + step) % len(WORDS)] for step in range(1, 2 + number % 7))
        + f" {number % (rows - 3)}"
        for number in range(rows)
    ]
    texts[1] = None  # type: ignore[call-overload]
    table = pa.table(
        {
            "id": pa.array(range(start, start + rows)),
            "text": pa.array(texts, pa.string()),
            "label": pa.array(["even" if number % 2 else "odd" for number in range(rows)]),
        }
    )
    parquet.write_table(table, path, row_group_size=group or rows)
    return path


def vectors_file(
    path: Path, rows: int, *, width: int = 12, classes: int = 3, group: int = 500, seed: int = 0
) -> Path:
    """Made-up vectors in a column called vector, and the names of their classes."""
    vectors, targets = blobs(rows, classes, width=width, seed=seed)
    flat = pa.array(vectors.numpy().reshape(-1))
    table = pa.table(
        {
            "vector": pa.FixedSizeListArray.from_arrays(flat, width),
            "label": pa.array([f"class {one}" for one in targets.tolist()]),
        }
    )
    parquet.write_table(table, path, row_group_size=group, compression="NONE")
    return path


def read_parts(to: Path) -> pa.Table:
    """The rows that were written into a folder, in their order."""
    manifest = json.loads((to / "manifest.json").read_text())
    return pa.concat_tables(
        [parquet.read_table(to / "parts" / p["name"]) for p in manifest["parts"]]
    )


def shards_of(path: Path, classes: int = 3, sample: ShardSample | None = None) -> Shards:
    """The rows of such a file, to be summed over."""
    found = FeatureShards.load(path)
    reader = ShardReader(
        column="vector",
        width=found.readings["vector"],
        label="label",
        classes=tuple(f"class {number}" for number in range(classes)),
        sample=sample or ShardSample(),
        has_hash=False,
    )
    return Shards(reader=reader, pieces=found.pieces("vector"), pool=open_pool(make_caller))


def whole(shards: Shards) -> tuple[Tensor, Tensor, np.ndarray]:
    """All vectors that are learned from, their targets, and the numbers of their rows."""
    rows = ShardRows.concatenate(list(shards.rows()))
    return rows.vectors, rows.targets, rows.keys


def objective(classes: int = 3, **given: object) -> Objective:
    return Objective(problem=SINGLE_LABEL, outputs=classes, **given)  # type: ignore[arg-type]
