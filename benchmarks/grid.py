"""A grid of heads against one naive pass over the same texts.

``python -m benchmarks.grid DATA…``, where DATA are folders with train.csv and test.csv. For each
of them, in one run: the loop that everybody writes (batches of 32 in the order of the file) and a
bare forward pass over texts sorted by length (the floor), both before and after every grid;
reading for the small grid, the whole small grid with everything around it, and its scores
beside those of sentence-transformers with a logistic regression whose C is searched. ``--full``
adds the full grid. Every grid begins without any features kept, in a process of its own.
``--before FOLDER`` compares the small grid with that of a checkout of an earlier commit instead.
"""

import argparse
import subprocess
from collections.abc import Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import torch

import heads
from benchmarks import stored
from benchmarks.encoding import naive
from benchmarks.peers import SEARCHED, SENTENCE, peer
from benchmarks.rounds import CannotSayError, run_heads, write
from benchmarks.stored import Cell, Table, figure
from benchmarks.timing import seconds_of
from heads.backbone.loading import load
from heads.data.corpus import Corpus

COMMAND = "python -m benchmarks.grid DATA…"
TIMES = ("data", "rows", "grid", "naive", "floor", "reading", "in all", "× naive", "peak memory")
SCORES = (
    "data", "grid", "`mean+linear`", "the best head", "TF-IDF", "which is best",
    "sentence-transformers + LR",
)  # fmt: skip
BEFORE = (
    "data", "rows", "`mean+linear` before", "now", "the best head before", "now",
    "TF-IDF", "seconds before", "now", "ratio",
)  # fmt: skip
BASELINES = ("majority", "tfidf")


def main() -> None:
    """Measures the folders that are named."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("data", nargs="+", type=Path)
    parser.add_argument("--full", action="store_true", help="the full grid as well")
    parser.add_argument("--before", type=Path, help="a checkout of an earlier commit")
    asked = stored.parse_arguments(parser)
    with stored.some_of(asked.data, quick=asked.quick) as folders:
        if asked.before:
            command, rows = f"{COMMAND} --before {commit_of(asked.before)}", list[list[Cell]]()
            for folder in folders:  # after each, since one that takes hours may be cut off
                rows.append(since(folder, asked.before))
                tables = [Table(title="", columns=BEFORE, rows=rows)]
                done = folders[: len(rows)]
                stored.publish("grid-before", tables, asked, command=command, data=done)
            return
        pairs = [measured(folder, asked.full) for folder in folders]
        times, scores = ([row for pair in pairs for row in pair[kind]] for kind in (0, 1))
        command = f"{COMMAND}{' --full' * asked.full}"
        for name, columns, rows in (
            ("grid-seconds", TIMES, times),
            ("grid-scores", SCORES, scores),
        ):
            tables = [Table(title="", columns=columns, rows=rows)]
            stored.publish(name, tables, asked, command=command, data=folders)


def measured(folder: Path, full: bool) -> tuple[list[list[Cell]], list[list[Cell]]]:
    """Prints what one data set takes and gives; the rows of the tables of times and of scores."""
    train, test = heads.read(folder / "train.csv").corpus, heads.read(folder / "test.csv").corpus
    texts = [*train.texts, *test.texts]
    pairs = [*train.pairs, *test.pairs]
    print(f"\n{folder.name}: {len(train):,} + {len(test):,} rows, {len(train.classes)} classes")
    before = passes(texts, pairs)
    times, scores = list[list[Cell]](), list[list[Cell]]()
    for grid in ("small", "full") if full else ("small",):
        found = run(folder, grid)
        after = passes(texts, pairs)  # a machine that is shared changes its pace in minutes
        naive, floor = ((one + other) / 2 for one, other in zip(before, after, strict=True))
        before = after
        print(f"  naive HF loop {naive:.1f} s; bare sorted pass (floor) {floor:.1f} s")
        seconds, reading = found["seconds"], found["forward_seconds"]
        cells = {cell["recipe"]: cell["score"] for cell in found["cells"]}
        heads_only = [c["score"] for c in found["cells"] if not c["baseline"]]
        print(
            f"  {grid} grid: {seconds:.1f} s = {seconds / naive:.2f} naive passes, "
            f"{seconds / floor:.2f} floors; reading {reading:.1f} s = {naive / reading:.2f} x "
            f"faster than naive; peak {found['peak_bytes'] / 1e9:.2f} GB"
        )
        print(
            f"    best {found['best']} {cells[found['best']]:.4f} (highest {max(heads_only):.4f}), "
            f"mean+linear {cells['mean+linear']:.4f}, tfidf {cells['tfidf']:.4f}"
        )
        print(f"    {found['verdict']}")
        rows = f"{len(train):,} + {len(test):,}"
        told: list[Cell] = [figure(naive, 0), figure(floor, 0), figure(reading, 0)]
        share = [
            figure(seconds, 0),
            figure(seconds / naive, 2),
            figure(found["peak_bytes"] / 1e9, 1, "GB"),
        ]
        times.append([folder.name, rows, grid, *told, *share])
        own: list[Cell] = [
            figure(cells[name], 1, "%") for name in ("mean+linear", found["best"], "tfidf")
        ]
        scores.append([folder.name, grid, *own, f"`{found['best']}`"])
    theirs = peer_accuracy(train, test)
    cell: Cell = "not installed" if theirs is None else figure(theirs, 1, "%")
    return times, [[*row, cell] for row in scores]


def since(folder: Path, tree: Path) -> list[Cell]:
    """What the small grid of a data set gives and takes, in another checkout and here, in turn."""
    was, is_now = attempted(folder, tree), run(folder, "small")
    told, words = list[Cell](), 0.0
    for found in (was, is_now):
        if found is None:
            told += ["fails", "fails"]
            print(f"{folder.name}: the earlier commit fails", flush=True)
            continue
        scores = {cell["recipe"]: cell["score"] for cell in found["cells"]}
        best = max((name for name in scores if name not in BASELINES), key=scores.__getitem__)
        words = scores["tfidf"]
        told += [figure(scores["mean+linear"], 1, "%"), figure(scores[best], 1, "%")]
        print(f"{folder.name}: {found['seconds']:.0f} s, mean+linear {scores['mean+linear']:.4f}, "
              f"{best} {scores[best]:.4f}", flush=True)  # fmt: skip
    rows, now = f"{is_now['rows']:,}", is_now["seconds"]
    times: list[Cell] = ["fails", figure(now, 0), "–"]
    if was is not None:
        times = [figure(was["seconds"], 0), figure(now, 0), figure(now / was["seconds"], 1)]
    return [folder.name, rows, told[0], told[2], told[1], told[3], figure(words, 1, "%"), *times]


def attempted(folder: Path, tree: Path) -> dict[str, Any] | None:
    """The small grid in another checkout; None where that commit cannot train these data."""
    try:
        return run(folder, "small", tree=tree)
    except CannotSayError as error:
        print(error, flush=True)
        return None


def commit_of(tree: Path) -> str:
    """The commit of a checkout."""
    asked = ["git", "-C", str(tree), "rev-parse", "--short", "HEAD"]
    return subprocess.run(asked, capture_output=True, check=True, text=True).stdout.strip()


def passes(texts: Sequence[str], pairs: Sequence[str]) -> tuple[float, float]:
    """Seconds of the naive loop and of the floor over all texts."""
    backbone = load()

    def floor() -> None:
        encoded = backbone.encode(texts, pairs)
        order = sorted(range(len(encoded)), key=lambda row: -len(encoded[row]))
        while order:
            count = max(1, 2048 // len(encoded[order[0]]))
            backbone.model(**backbone.filled([encoded[row] for row in order[:count]]))
            order = order[count:]

    with torch.inference_mode():
        return seconds_of(lambda: naive(texts, backbone, pairs)), seconds_of(floor)


def run(folder: Path, grid: str, tree: Path = stored.ROOT) -> dict[str, Any]:
    """A grid in a process of its own, nothing kept from before; its JSON and its peak memory.

    Args:
        tree: The checkout that runs it.
    """
    folder, seeds = folder.resolve(), 3 if grid == "small" else 5
    data = [str(folder / "train.csv"), "--test", str(folder / "test.csv")]
    asked = ["train", *data, "--grid", grid, "--seeds", str(seeds), "--json"]
    return run_heads(asked, {}, tree)


def peer_accuracy(train: Corpus, test: Corpus) -> float | None:
    """Return the accuracy of sentence-transformers with a logistic regression, C searched.

    Pairs are joined to one text. None if it cannot be installed.
    """
    with TemporaryDirectory() as folder:
        files = dict[str, str]()
        for name, corpus in (("train", train), ("test", test)):
            texts = corpus.texts
            if corpus.pairs:
                texts = [" ".join(pair) for pair in zip(texts, corpus.pairs, strict=True)]
            labels = [corpus.classes[target] for (target,) in corpus.targets]
            path = write(Path(folder) / f"{name}.csv", list(zip(texts, labels, strict=True)))
            files[name] = str(path)
        try:
            answer = peer(SENTENCE, files, search=True)()
        except CannotSayError as error:
            print(f"    {SENTENCE}: {error}")
            return None
    print(f"    {SEARCHED}: {answer['searched']:.4f}, {answer['seconds']:.0f} s")
    return answer["searched"]


if __name__ == "__main__":
    main()
