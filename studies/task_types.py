"""What the ways in, the losses and the kinds of labels are worth: `python -m studies.task_types`.

Each part is one run (or two) on real data with a test set, through the product's own functions;
its tables go to standard output, with ``--write`` into the docs as well. Parts: pairs, labels,
losses, calibration. Everything is scored on the test set; settings, thresholds and temperatures
come from development rows.
"""

import argparse
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path

import numpy as np
import torch
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import f1_score
from sklearn.multiclass import OneVsRestClassifier
from sklearn.preprocessing import StandardScaler

import heads
from benchmarks import stored
from benchmarks.stored import Cell, Table, figure, gap, score
from heads.backbone.loading import load
from heads.evaluation.metrics import SCORES
from heads.features.extraction import extract
from heads.features.store import FeatureMatrices
from heads.parts.resolve import pairing, resolve
from heads.runs import spec as question
from heads.runs.cells import Cell as BoardCell
from heads.runs.leaderboard import Leaderboard

PAIRED = ("mrpc", "rte", "sick_entailment", "stsb")
LABELLED = ("goemotions_ekman", "nlupp_banking")
STRENGTHS = (0.01, 0.03, 0.1, 0.3, 1.0, 3.0)


def main() -> None:
    """Measures the parts that are named."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("data", type=Path, help="the folder of the data sets")
    parser.add_argument("--parts", default="pairs,labels,losses,calibration")
    parser.add_argument("--seeds", type=int, default=3)
    asked = stored.parse_arguments(parser)
    for name in asked.parts.split(","):
        sets, part = PARTS[name]
        with stored.some_of([asked.data / one for one in sets], quick=asked.quick) as folders:
            tables = [table for folder in folders for table in part(folder, asked.seeds)]
            command = f"python -m studies.task_types DATA --parts {name} --seeds {asked.seeds}"
            stored.publish(name, tables, asked, command=command, data=folders)


def _run(
    folder: Path,
    recipes: Sequence[str],
    seeds: int,
    *,
    losses: Sequence[str] = ("softmax",),
) -> Leaderboard:
    """A run on a data set with a test set; its time goes to standard error."""
    begun = time.perf_counter()
    board = heads.train_grid(
        folder / "train.csv",
        test=folder / "test.csv",
        recipes=list(recipes),
        config=heads.ExperimentConfig(seeds=seeds, curve=False),
        losses=losses,
    )
    print(f"{folder.name}: {time.perf_counter() - begun:.0f} s, {board.run}", file=sys.stderr)
    return board


def scored(cell: BoardCell) -> Cell:
    """The score of a cell with its interval."""
    own = cell.measures
    return score(own.score, own.low, own.high)


def compared(board: Leaderboard) -> Iterator[list[Cell]]:
    """A row a cell: its score with interval, and its difference from the reference."""
    for cell in board.cells:
        own = cell.to_reference
        against = gap(own.difference, own.low, own.high, differs=own.differs) if own else ""
        yield [f"`{cell.name}`", scored(cell), against]


def pairs(folder: Path, seeds: int) -> Iterator[Table]:
    """Joint and siamese: `linear` with all seven pairings, and heads with a dense layer."""
    linear = ["mean+linear", *(f"mean+linear?pair={way}" for way in pairing)]
    ways = ("", "?pair=uv_diff", "?pair=diff_prod")
    dense = [f"mean+{top}{way}" for top in ("mlp", "modernbert") for way in ways]
    board = _run(folder, [*linear, *dense], seeds)
    title = f"{folder.name}, {SCORES[board.metric].title}"
    yield Table(title=title, columns=COLUMNS, rows=list(compared(board)))


def labels(folder: Path, seeds: int) -> Iterator[Table]:
    """Several labels a row, and scikit-learn's one-versus-rest on the same features."""
    board = _run(folder, ("mean+linear", "mean+mlp", "mean+ridge"), seeds)
    rows: list[list[Cell]] = [
        [f"`{cell.name}`", scored(cell), figure(100 * cell.measures.values["macro_f1"])]
        for cell in board.cells
    ]
    columns = ("", "micro-F1 (95 %)", "macro-F1")
    yield Table(title=folder.name, columns=columns, rows=[*rows, *_peer(board)])


def _peer(board: Leaderboard) -> Iterator[list[Cell]]:
    """OneVsRestClassifier(LogisticRegression) on standardised mean vectors; C by micro-F1 on the
    development rows; answers at one half, and at thresholds chosen on the development rows.
    """
    asked = question.load(board.folder)
    splits, targets = asked.splits, asked.task.targets.numpy().astype(int)
    recipes, texts = [resolve("mean+linear")], asked.corpus.texts
    *_, found = extract(recipes, texts, (), load(asked.model))
    assert isinstance(found, FeatureMatrices)
    vectors = found.matrix("mean")[found.index].numpy()
    train, test = splits.train[0].numpy(), splits.test[0].numpy()
    held = splits.development[0].numpy()
    learned = np.setdiff1d(train, held)

    def fitted(rows: np.ndarray, C: float) -> tuple[StandardScaler, OneVsRestClassifier]:
        scale = StandardScaler().fit(vectors[rows])
        model = OneVsRestClassifier(LogisticRegression(C=C, max_iter=1000))
        return scale, model.fit(scale.transform(vectors[rows]), targets[rows])

    def chances(both: tuple[StandardScaler, OneVsRestClassifier], rows: np.ndarray) -> np.ndarray:
        return both[1].predict_proba(both[0].transform(vectors[rows]))

    tried = {C: chances(fitted(learned, C), held) for C in STRENGTHS}
    best = max(tried, key=lambda C: f1_score(targets[held], tried[C] > 0.5, average="micro"))
    given = chances(fitted(train, best), test)
    grid = np.linspace(0.05, 0.95, 19)
    bars = np.array(
        [
            max(grid, key=lambda bar, k=k: f1_score(targets[held, k], tried[best][:, k] > bar))
            for k in range(targets.shape[1])
        ]
    )
    for says, bar in (("at one half", 0.5), ("thresholds by label", bars)):
        micro = f1_score(targets[test], given > bar, average="micro")
        macro = f1_score(targets[test], given > bar, average="macro")
        yield [f"scikit-learn, C = {best:g}, {says}", figure(100 * micro), figure(100 * macro)]


def losses(folder: Path, seeds: int) -> Iterator[Table]:
    """Softmax against one versus the rest, on the same rows and seeds."""
    board = _run(folder, ("mean+linear", "mean+roberta"), seeds, losses=("softmax", "ovr"))
    rows = list[list[Cell]]()
    for row, cell in zip(compared(board), board.cells, strict=True):
        values = cell.measures.values
        error, loss = figure(100 * values["calibration_error"]), figure(values["log_loss"], 3)
        rows.append([*row, error, loss])
    columns = (*COLUMNS, "calibration error", "log loss")
    yield Table(title=f"{folder.name}, {SCORES[board.metric].title}", columns=columns, rows=rows)


def calibration(folder: Path, seeds: int) -> Iterator[Table]:
    """The calibration error before and after temperature scaling, and what abstaining gives."""
    board = _run(folder, ("mean+linear", "mean+roberta", "mean+modernbert"), seeds)
    scaled = [(cell, own) for cell in board.cells if (own := cell.measures.calibration)]
    rows: list[list[Cell]] = [
        [
            f"`{cell.name}`",
            scored(cell),
            figure(own.temperature, 2),
            figure(100 * own.error_before),
            figure(100 * own.error_after),
        ]
        for cell, own in scaled
    ]
    columns = ("", "accuracy (95 %)", "temperature", "error before", "after")
    yield Table(title=folder.name, columns=columns, rows=rows)
    own = board.cell(board.best).measures.calibration
    assert own is not None
    points: list[list[Cell]] = [
        [figure(one.threshold, 0, "%"), figure(one.coverage, 0, "%"), figure(one.accuracy, 1, "%")]
        for one in own.coverage[::4]
    ]
    columns = ("surer than", "answers", "right of those")
    yield Table(
        title=f"{folder.name}, `{board.best}` where it abstains", columns=columns, rows=points
    )


COLUMNS = ("", "score (95 %)", "against the reference")
# Each part, and the data sets that it is measured on.
PARTS: Mapping[str, tuple[Sequence[str], Callable[[Path, int], Iterator[Table]]]] = {
    "pairs": (PAIRED, pairs),
    "labels": (LABELLED, labels),
    "losses": (("trec6", "banking77"), losses),
    "calibration": (("emotion",), calibration),
}

if __name__ == "__main__":
    torch.manual_seed(0)
    main()
