"""What the ways in, the losses and the kinds of labels are worth: `python -m benchmarks.kinds`.

Each part is one run (or two) on real data with a test set, through the product's own functions;
its table goes to standard output. Parts: pairs, labels, losses, calibration. Everything is scored
on the test set; settings, thresholds and temperatures come from development rows.
"""

import argparse
import sys
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np
import torch
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import f1_score
from sklearn.multiclass import OneVsRestClassifier
from sklearn.preprocessing import StandardScaler

import heads
from heads.parts.menu import pairing, resolve
from heads.pipeline.extraction import extract
from heads.pipeline.loading import load
from heads.pipeline.runs import asked as question
from heads.pipeline.runs.leaderboard import Leaderboard
from heads.pipeline.vectors import Features
from heads.settings import limits

PAIRED = ("mrpc", "rte", "sick_entailment", "stsb")
LABELLED = ("goemotions_ekman", "nlupp_banking")
STRENGTHS = (0.01, 0.03, 0.1, 0.3, 1.0, 3.0)


def main() -> None:
    """Measures the parts that are named."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("data", type=Path, help="the folder of the data sets")
    parser.add_argument("--parts", default="pairs,labels,losses,calibration")
    parser.add_argument("--seeds", type=int, default=3)
    asked = parser.parse_args()
    parts = {"pairs": pairs, "labels": labels, "losses": losses, "calibration": calibration}
    for name in asked.parts.split(","):
        for line in parts[name](asked.data, asked.seeds):
            print(line, flush=True)


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
        contest=heads.Contest(seeds=seeds, curve=False),
        losses=losses,
    )
    print(f"{folder.name}: {time.perf_counter() - begun:.0f} s, {board.run}", file=sys.stderr)
    return board


def _rows(board: Leaderboard) -> Iterator[str]:
    """A row a cell: its score with interval, and its difference from the reference."""
    for cell in board.cells:
        own, gap = cell.measures, cell.to_reference
        told = f"{100 * own.score:.1f} ({100 * own.low:.1f} to {100 * own.high:.1f})"
        against = ""
        if gap:
            ends = f"{100 * gap.low:+.1f} to {100 * gap.high:+.1f}"
            against = f"{100 * gap.difference:+.1f} ({ends}){' *' if gap.differs else ''}"
        yield f"| `{cell.name}` | {told} | {against} |"


def pairs(data: Path, seeds: int) -> Iterator[str]:
    """Joint and siamese: `linear` with all seven pairings, and heads with a dense layer."""
    for name in PAIRED:
        linear = ["mean+linear", *(f"mean+linear?pair={way}" for way in pairing)]
        ways = ("", "?pair=uv_diff", "?pair=diff_prod")
        dense = [f"mean+{top}{way}" for top in ("mlp", "modernbert") for way in ways]
        board = _run(data / name, [*linear, *dense], seeds)
        yield from (f"\n{name}, {board.metric}", "", *HEAD, *_rows(board))


def labels(data: Path, seeds: int) -> Iterator[str]:
    """Several labels a row, and scikit-learn's one-versus-rest on the same features."""
    for name in LABELLED:
        board = _run(data / name, ("mean+linear", "mean+mlp", "mean+ridge"), seeds)
        yield from (f"\n{name}, {board.metric}", "", "| | micro-F1 | macro-F1 |", "|---|---|---|")
        for cell in board.cells:
            own = cell.measures
            yield (
                f"| `{cell.name}` | {100 * own.score:.1f} ({100 * own.low:.1f} to "
                f"{100 * own.high:.1f}) | {100 * own.values['macro_f1']:.1f} |"
            )
        yield from _peer(board)


def _peer(board: Leaderboard) -> Iterator[str]:
    """OneVsRestClassifier(LogisticRegression) on standardised mean vectors; C by micro-F1 on the
    development rows; answers at one half, and at thresholds chosen on the development rows.
    """
    asked = question.load(board.folder)
    splits, targets = asked.splits, asked.targets.numpy().astype(int)
    orders, texts = [resolve("mean+linear")], asked.corpus.texts
    *_, found = extract(orders, texts, (), load(asked.model, limits=limits()))
    assert isinstance(found, Features)
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
        yield f"| scikit-learn, C = {best:g}, {says} | {100 * micro:.1f} | {100 * macro:.1f} |"


def losses(data: Path, seeds: int) -> Iterator[str]:
    """Softmax against one versus the rest, on the same rows and seeds."""
    for name in ("trec6", "banking77"):
        recipes = ("mean+linear", "mean+roberta")
        board = _run(data / name, recipes, seeds, losses=("softmax", "ovr"))
        yield from (f"\n{name}, {board.metric}", "", *HEAD, *_rows(board))
        for cell in board.cells:
            values = cell.measures.values
            yield (
                f"  {cell.name}: log loss {values['log_loss']:.3f}, calibration error "
                f"{100 * values['calibration_error']:.1f}, macro-F1 {100 * values['macro_f1']:.1f}"
            )


def calibration(data: Path, seeds: int) -> Iterator[str]:
    """The calibration error before and after temperature scaling, and what abstaining gives."""
    board = _run(data / "emotion", ("mean+linear", "mean+roberta", "mean+modernbert"), seeds)
    yield from ("\nemotion", "", "| | accuracy | temperature | error before | after |")
    yield "|---|---|---|---|---|"
    for cell in board.cells:
        own = cell.measures.calibration
        if own:
            yield (
                f"| `{cell.name}` | {100 * cell.measures.score:.1f} | {own.temperature:.2f} | "
                f"{100 * own.error_before:.1f} | {100 * own.error_after:.1f} |"
            )
    own = board.cell(board.best).measures.calibration
    assert own is not None
    yield f"\n{board.best}: coverage and accuracy where it may abstain"
    for point in own.coverage[::4]:
        yield (
            f"  sure to {100 * point.threshold:.0f} %: answers {100 * point.coverage:.0f} %, "
            f"{100 * point.accuracy:.1f} % of those right"
        )


HEAD = ("| | score (95 %) | against the reference |", "|---|---|---|")

if __name__ == "__main__":
    torch.manual_seed(0)
    main()
