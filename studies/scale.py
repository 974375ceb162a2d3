"""What several machines gain, here two nodes of one processor each; and rows as fidelity.

``python -m studies.scale DATA…``, where DATA are folders with train.csv. The texts of all of
them, `--rows` at most, are read by one process on one thread, and by a Ray cluster of two nodes of
one processor each, on one of them and on both: seconds, ratios, and whether all wrote the same
bytes. Then made-up features, `--vectors` rows of 384 numbers in 8 classes of 3 clusters each, on
which a race of recipes is held against fitting all of them on all rows.
"""

import argparse
import hashlib
import resource
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as parquet
import torch

import heads
from benchmarks import stored
from benchmarks.stored import Table, figure
from heads.extras.scale.pool import import_ray
from heads.extras.scale.shards import FeatureShards

PARTS = ("extraction", "race")
WIDTH, CLASSES, CLUSTERS, GROUP = 384, 8, 3, 16_384
HEADS = (
    "linear", "ridge", "lda", "centroid", "cosine", "roberta", "distilbert", "mlp", "electra",
    "modernbert", "norm_linear",
)  # fmt: skip
RECIPES = tuple(f"vectors+{head}" for head in HEADS)


def main(arguments: Sequence[str] | None = None) -> int:
    """Measures both and prints the tables."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("data", nargs="+", type=Path, help="folders with train.csv")
    parser.add_argument("--only", choices=PARTS, help="measure this part alone")
    parser.add_argument("--rows", type=int, default=50_000, help="texts that are read")
    parser.add_argument("--vectors", type=int, default=1_000_000, help="made-up rows")
    asked = stored.parse_arguments(parser, arguments)
    rows, vectors = (1_500, 20_000) if asked.quick else (asked.rows, asked.vectors)
    for part in (asked.only,) if asked.only else PARTS:
        with tempfile.TemporaryDirectory() as folder:
            place = Path(folder)
            made_up = part == "race"
            table = fidelity(place, vectors) if made_up else extraction(asked.data, place, rows)
        command, data = f"python -m studies.scale --only {part} DATA…", asked.data
        stored.publish(f"scale-{part}", [table], asked, command=command, data=data)
    return 0


# --- Texts read.


def extraction(data: Sequence[Path], place: Path, most: int) -> Table:
    """One process, one worker, two workers."""
    path = place / "texts.parquet"
    frames = [pd.read_csv(folder / "train.csv") for folder in data]
    texts = pd.concat([frame[["text"]].astype(str) for frame in frames]).drop_duplicates()
    texts.sample(min(most, len(texts)), random_state=0).to_parquet(path, index=False)
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    found = {"one process, one thread": _timed(path, place / "plain", "here", 1)}
    torch.set_num_threads(threads)
    ray = import_ray()
    from ray.cluster_utils import Cluster

    cluster = Cluster(initialize_head=True, head_node_args={"num_cpus": 1})
    cluster.add_node(num_cpus=1)
    ray.init(address=cluster.address, log_to_driver=False, logging_level="ERROR")
    for workers, name in ((1, "Ray, one worker"), (2, "Ray, two workers")):
        found[name] = _timed(path, place / f"ray{workers}", "ray", workers)
    ray.shutdown()
    cluster.shutdown()
    first = found["one process, one thread"]
    lines = [
        [
            name, figure(rows, 0), figure(seconds, 0, "s"), figure(rows / seconds, 0),
            figure(first[1] / seconds, 2), "the same" if digest == first[2] else "others",
        ]
        for name, (rows, seconds, digest) in found.items()
    ]  # fmt: skip
    columns = (
        "read by",
        "texts",
        "time",
        "texts a second",
        "times as fast",
        "bytes of the vectors",
    )
    return Table(title="Extraction, two nodes of one processor", columns=columns, rows=lines)


def _timed(path: Path, to: Path, on: str, workers: int) -> tuple[int, float, str]:
    begun = time.perf_counter()
    found = heads.extract(path, to, on=on, workers=workers)
    return found.rows, time.perf_counter() - begun, _digest(found)


def _digest(found: FeatureShards) -> str:
    """Of all vectors and the numbers of their rows, in order."""
    digest = hashlib.sha256()
    for file in found.source.files:
        table = parquet.read_table(file)
        digest.update(np.ascontiguousarray(table.column("source_row").to_numpy()).tobytes())
        digest.update(table.column("mean").combine_chunks().values.to_numpy().tobytes())
    return digest.hexdigest()


# --- Rows as fidelity.


def fidelity(place: Path, rows: int) -> Table:
    """A race, and all recipes on all rows."""
    path, lines, scores = made(place / "vectors.parquet", rows), list[list[Any]](), {}
    for name, rungs in (("race", [rows // 100, rows // 10]), ("all recipes on all rows", [])):
        begun = time.perf_counter()
        found = heads.fit_shards(path, recipes=RECIPES, rungs=rungs)
        seconds = time.perf_counter() - begun
        top = found.cells[0]
        scores[name] = seconds
        own = top.measures
        on = ", ".join(f"{len(rung.scores)} on {rung.rows:,}" for rung in found.rungs)
        peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e3
        lines.append(
            [
                name, on, top.name, stored.score(own.score, own.low, own.high),
                figure(seconds, 0, "s"), figure(peak, 0, "MB"),
            ]
        )  # fmt: skip
    both = scores["race"] / scores["all recipes on all rows"]
    lines.append(["race, of the time of all", "", "", "", figure(both, 0, "%"), ""])
    columns = ("", "recipes on rows", "best", "accuracy, %", "time", "memory of the process so far")
    title = f"{len(RECIPES)} recipes on {rows:,} made-up rows of {WIDTH} numbers"
    return Table(title=title, columns=columns, rows=lines)


def made(path: Path, rows: int) -> Path:
    """Features of classes that have several clusters each, so that layers are worth something."""
    dice = np.random.default_rng(0)
    centres = dice.normal(size=(CLASSES, CLUSTERS, WIDTH)).astype(np.float32) * 0.16
    scale = np.exp(dice.normal(size=WIDTH) * 0.5).astype(np.float32)
    writer = None
    for start in range(0, rows, GROUP):
        size = min(GROUP, rows - start)
        labels, clusters = dice.integers(0, CLASSES, size), dice.integers(0, CLUSTERS, size)
        noise = dice.standard_normal(size=(size, WIDTH), dtype=np.float32)
        vectors = (centres[labels, clusters] + noise) * scale + 0.3
        columns = {
            "label": pa.array([f"class {label}" for label in labels]),
            "vector": pa.FixedSizeListArray.from_arrays(pa.array(vectors.reshape(-1)), WIDTH),
        }
        table = pa.table(columns)
        writer = writer or parquet.ParquetWriter(path, table.schema, compression="NONE")
        writer.write_table(table)
    assert writer is not None
    writer.close()
    return path


if __name__ == "__main__":
    raise SystemExit(main())
