"""Vectors of elsewhere, many of them: how long, and how much memory above the matrix itself.

    python studies/vectors.py FOLDER [--rows 1000000] [--width 384] [--format parquet|npy]

Writes a file of random vectors with ten classes that a linear head can tell apart about half of the
time, then in a process of its own reads it, begins a run with linear and logistic heads, and works
on it. Printed are seconds, by the clock and of all cores, and the peak of the process's memory, in
which what is mapped of a file counts as well, beside the size of the matrix in 32 bits.
"""

import argparse
import json
import resource
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np

CLASSES, BATCH, SEED = 10, 20_000, 0
RECIPES = ("vectors+linear", "vectors+logistic")


def blocks(rows: int, width: int):
    """Vectors and classes, some at a time."""
    rng = np.random.default_rng(SEED)
    centres = rng.standard_normal((CLASSES, width), np.float32) * 0.08
    for start in range(0, rows, BATCH):
        some = min(BATCH, rows - start)
        labels = rng.integers(CLASSES, size=some)
        yield rng.standard_normal((some, width), np.float32) + centres[labels], labels


def part(row: int, rows: int) -> str:
    """The last fifth of the rows is the test."""
    return "train" if row < 0.8 * rows else "test"


def write(folder: Path, rows: int, width: int, form: str) -> tuple[str, str]:
    """The file of vectors, and that of labels or ""."""
    if form == "npy":
        path = folder / "vectors.npy"
        matrix = np.lib.format.open_memmap(path, "w+", np.float32, (rows, width))
        labels, start = np.empty(rows, np.int64), 0
        for block, own in blocks(rows, width):
            matrix[start : start + len(block)] = block
            labels[start : start + len(block)] = own
            start += len(block)
        matrix.flush()
        with (folder / "labels.csv").open("w") as file:
            file.write("label,split\n")
            file.writelines(f"class {one},{part(at, rows)}\n" for at, one in enumerate(labels))
        return str(path), str(folder / "labels.csv")
    import pyarrow as pa
    import pyarrow.parquet as parquet

    path = folder / "vectors.parquet"
    kind = pa.list_(pa.float32(), width)
    schema = pa.schema([("embedding", kind), ("label", pa.string()), ("split", pa.string())])
    words: Any = ["label", "split"]  # its stubs know only a boolean
    at = 0
    with parquet.ParquetWriter(path, schema, compression="none", use_dictionary=words) as file:
        for block, own in blocks(rows, width):
            parts = [part(at + one, rows) for one in range(len(own))]
            at += len(own)
            arrays = [
                pa.FixedSizeListArray.from_arrays(pa.array(block.ravel()), width),
                pa.array([f"class {one}" for one in own]),
                pa.array(parts),
            ]
            file.write_table(pa.table(arrays, schema=schema))
    return str(path), ""


def memory() -> float:
    """The most memory that this process has ever had, in MB."""
    # Linux's ru_maxrss begins with that of the process which started this one.
    return _status("VmHWM") or resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1000


def own_memory() -> float:
    """What is this process's alone now, and in no file that the system could drop, in MB."""
    return _status("RssAnon")


def _status(name: str) -> float:
    """A line of what Linux tells of this process, in MB; 0 where there is none."""
    told = Path("/proc/self/status")
    lines = told.read_text().splitlines() if told.exists() else []
    return sum(int(one.split()[1]) for one in lines if one.startswith(f"{name}:")) / 1000


def work(data: str, labels: str, out: str) -> None:
    """Reads, begins and works; a line of JSON for each step."""
    import heads
    from heads.runs.runner import CellDone, begin, working
    from heads.runs.spec import RunRequest

    begun = time.perf_counter()

    def tell(what: str, **more) -> None:
        now = {"step": what, "seconds": round(time.perf_counter() - begun, 1)}
        now |= {"cpu_seconds": round(time.process_time(), 1)}
        now |= {"peak_mb": round(memory()), "anonymous_mb": round(own_memory())}
        print(json.dumps(now | more), flush=True)

    tell("started")
    rows = heads.read(data, labels=labels or None)
    tell("read", rows=len(rows.corpus))
    config = heads.ExperimentConfig(seeds=1, curve=False)
    request = RunRequest(data=rows, recipes=RECIPES, config=config)
    run = begin(request, out=Path(out))
    del rows, request
    tell("begun")
    for event in working(run):
        if isinstance(event, CellDone):
            tell(event.cell.name, score=round(event.cell.measures.score, 4))
    tell("finished")


def main() -> None:
    """Writes the file, and measures in a process of its own."""
    asked = argparse.ArgumentParser(description=__doc__)
    asked.add_argument("folder", type=Path)
    asked.add_argument("--rows", type=int, default=1_000_000)
    asked.add_argument("--width", type=int, default=384)
    asked.add_argument("--format", choices=("parquet", "npy"), default="parquet")
    asked.add_argument("--work", nargs=3, help=argparse.SUPPRESS)
    given = asked.parse_args()
    if given.work:
        work(*given.work)
        return
    given.folder.mkdir(parents=True, exist_ok=True)
    data, labels = write(given.folder, given.rows, given.width, given.format)
    print(f"matrix: {given.rows * given.width * 4 / 1e6:,.0f} MB", flush=True)
    out = given.folder / f"run-{given.format}-{given.rows}"
    own = [sys.executable, __file__, str(given.folder), "--work", data, labels, str(out)]
    subprocess.run(own, check=True)


if __name__ == "__main__":
    main()
