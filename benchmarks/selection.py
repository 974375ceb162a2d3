"""What heads score and take before and after a change to how their settings are chosen.

``python -m benchmarks.selection DATA… --before TREE``, where DATA are folders with train.csv and
test.csv and TREE is a checkout of an earlier commit. Rows are drawn from train.csv several times;
each draw is one `heads train` in either checkout, in turn, on the same rows and at most
``--tests`` rows of test.csv. Texts that one checkout has encoded are encoded once. Without
``-r`` the small grid is trained, and its recommended head is scored; with ``-r`` each recipe is.
Differences are paired by draw; their intervals are Student's over draws.
"""

import argparse
import csv
import json
import os
import random
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import fmean, stdev
from typing import Any

from benchmarks import stored
from benchmarks.grid import commit_of
from benchmarks.stored import Cell, Table, figure, gap

COLUMNS = ("data", "rows", "head", "before", "now", "difference", "seconds before", "now")
RECOMMENDED, ALL = "recommended", "all"


@dataclass(frozen=True, slots=True, kw_only=True)
class Draw:
    """One training on drawn rows.

    Attributes:
        scores: By recipe, or of the recommended head.
        seconds: Of training, by recipe, or of the whole grid.
    """

    scores: Mapping[str, float]
    seconds: Mapping[str, float]


def main() -> None:
    """Measure the folders that are named and print, or store, the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("data", nargs="+", type=Path)
    parser.add_argument("--before", type=Path, required=True, help="a checkout to compare with")
    parser.add_argument("--rows", type=int, nargs="+", default=[300, 1_000])
    parser.add_argument("--draws", type=int, default=5)
    parser.add_argument("--seeds", type=int, default=1, help="of each training")
    parser.add_argument("--tests", type=int, default=1_500)
    parser.add_argument("-r", "--recipe", action="append", default=[])
    stored.add_flags(parser)
    asked = parser.parse_args()
    stored.check_flags(parser, asked)
    rows = list[list[Cell]]()
    with (
        tempfile.TemporaryDirectory() as cache,
        stored.some_of(asked.data, quick=asked.quick) as data,
    ):
        pairs = dict[tuple[str, int, str], list[tuple[Draw, Draw]]]()
        for folder in data:
            for size in asked.rows:
                drawn = [draw(folder, size, seed, asked, cache) for seed in range(asked.draws)]
                for name in drawn[0][1].scores:
                    pairs[folder.name, size, name] = drawn
                    rows.append(row(folder.name, size, name, drawn))
                    print(*map(stored.written, rows[-1]), sep=" | ", flush=True)
        for size in asked.rows:
            for name in dict.fromkeys(name for _, _, name in pairs):
                every = [
                    one for key, own in pairs.items() if key[1:] == (size, name) for one in own
                ]
                rows.append(row(ALL, size, name, every))
        command = f"python -m benchmarks.selection DATA… --before {commit_of(asked.before)}"
        command += "".join(f" -r {recipe}" for recipe in asked.recipe)
        tables = [Table(title="", columns=COLUMNS, rows=rows)]
        name = "selection-heads" if asked.recipe else "selection-grid"
        stored.publish(name, tables, asked, command=command, data=data)


def draw(
    folder: Path, size: int, seed: int, asked: argparse.Namespace, cache: str
) -> tuple[Draw, Draw]:
    """Train on some rows of a data set, before and now."""
    with tempfile.TemporaryDirectory() as place:
        write(folder / "train.csv", Path(place) / "train.csv", size, seed)
        write(folder / "test.csv", Path(place) / "test.csv", asked.tests, 0)
        before, now = (
            train(Path(place), tree, seed, asked, cache) for tree in (asked.before, stored.ROOT)
        )
    return before, now


def write(source: Path, target: Path, size: int, seed: int) -> None:
    """Write some rows of a file, drawn without replacement."""
    csv.field_size_limit(2**31 - 1)
    with source.open(encoding="utf-8", newline="") as file:
        head, *rows = csv.reader(file)
    some = random.Random(seed).sample(rows, min(size, len(rows)))
    with target.open("w", encoding="utf-8", newline="") as file:
        csv.writer(file).writerows([head, *some])


def train(place: Path, tree: Path, seed: int, asked: argparse.Namespace, cache: str) -> Draw:
    """Train a grid, or some recipes, by the code of a checkout in a process of its own."""
    command = [sys.executable, "-m", "heads", "train", str(place / "train.csv"), "--json"]
    command += ["--test", str(place / "test.csv"), "--no-curve", "--seed", str(seed)]
    command += ["--seeds", str(asked.seeds), *(f"--recipe={recipe}" for recipe in asked.recipe)]
    env = os.environ | {"HEADS_CACHE": cache, "PYTHONPATH": str(tree.resolve())}
    done = subprocess.run(
        command, env=env, cwd=tree.resolve(), capture_output=True, check=True, text=True
    )
    return scored(json.loads(done.stdout), is_grid=not asked.recipe)


def scored(board: Mapping[str, Any], *, is_grid: bool) -> Draw:
    """Read scores and seconds from a leaderboard."""
    cells = {cell["recipe"]: cell for cell in board["cells"] if not cell["baseline"]}
    seconds = {name: cell["train_seconds"] for name, cell in cells.items()}
    if is_grid:
        top = cells[board["recommended"] or board["best"]]
        return Draw(
            scores={RECOMMENDED: top["score"]}, seconds={RECOMMENDED: sum(seconds.values())}
        )
    return Draw(scores={name: cell["score"] for name, cell in cells.items()}, seconds=seconds)


def row(data: str, size: int, name: str, pairs: Sequence[tuple[Draw, Draw]]) -> list[Cell]:
    """Make a row of the table of the draws of one data set, or of all."""
    before, now = ([each[side].scores[name] for each in pairs] for side in (0, 1))
    seconds = [fmean(each[side].seconds[name] for each in pairs) for side in (0, 1)]
    times = [figure(value, 2) for value in seconds]
    means = [figure(fmean(values), 1, "%") for values in (before, now)]
    return [data, f"{size:,}", f"`{name}`", *means, difference(before, now), *times]


def difference(before: Sequence[float], now: Sequence[float]) -> Cell:
    """Return the mean paired difference with its 95 % interval."""
    from scipy.stats import t

    gaps = [new - old for old, new in zip(before, now, strict=True)]
    middle = fmean(gaps)
    half = float(t.ppf(0.975, len(gaps) - 1)) * stdev(gaps) / len(gaps) ** 0.5
    return gap(middle, middle - half, middle + half, differs=abs(middle) > half)


if __name__ == "__main__":
    main()
