"""What docs/faq.md answers with, on a thousand rows a data set: `python -m studies.faq DATA`.

Each part is one run (or two) of the bundled base model, frozen. Heads learn from a thousand rows
that are drawn once, and are scored on the test rows, a thousand of them at most. Parts: readings,
heads, few, weights, and with the folder of a decoder decoder. ``--write`` puts the tables into the
page.
"""

import argparse
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import pandas
import torch

import heads
from benchmarks import stored
from benchmarks.stored import Cell, Table, figure
from heads.backbone.models import BUNDLED
from heads.runs.leaderboard import Leaderboard
from studies.task_types import COLUMNS, compared, scored

ROWS = 1000
READINGS = (
    "mean", "mean_content", "cls", "last", "max", "flatten", "weighted", "cls_mean", "mean_max",
    "pooler", "mean@mean4", "mean@cat4", "cls@mean4", "cls@cat4", "mean@3",
)  # fmt: skip
SHAPES = ("linear", "gpt2", "bert", "roberta", "distilbert", "electra", "modernbert")
DENSE = (*(f"{pooling}+{head}" for pooling in ("mean", "cls") for head in SHAPES),
         "mean+dense_linear", "cls+dense_linear")  # fmt: skip
FEW = ("linear", "logistic", "ridge", "lda", "centroid", "cosine", "knn", "roberta", "mlp")


def main() -> None:
    """Measures the parts that are named."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("data", type=Path, help="the folder of the data sets")
    parser.add_argument("--parts", default="readings,heads,few,weights")
    parser.add_argument("--decoder", type=Path, help="of the part decoder: the base model's folder")
    parser.add_argument("--seeds", type=int, default=3)
    asked = stored.parse_arguments(parser)
    rows = 100 if asked.quick else ROWS
    for name in asked.parts.split(","):
        sets, part = PARTS[name]
        folders = [asked.data / one for one in sets]
        tables = [table for folder in folders for table in part(folder, rows, asked)]
        command = f"python -m studies.faq DATA --parts {name} --seeds {asked.seeds}"
        command += f" --decoder {asked.decoder.name}" if name == "decoder" else ""
        stored.publish(f"faq-{name}", tables, asked, command=command, data=folders)


def _run(
    folder: Path, rows: int, recipes: Sequence[str], *, model: str = BUNDLED, **config: Any
) -> Leaderboard:
    """A run that learns from some rows of a data set and is scored on its test rows."""
    begun = time.perf_counter()
    train, test = (pandas.read_csv(folder / f"{part}.csv") for part in ("train", "test"))
    board = heads.train_grid(
        train.sample(n=rows, random_state=0),
        test=test.sample(n=min(rows, len(test)), random_state=0),
        recipes=list(recipes),
        model=model,
        config=heads.ExperimentConfig(**{"curve": False, "precision": "exact", **config}),
    )
    print(f"{folder.name}: {time.perf_counter() - begun:.0f} s, {board.run}", file=sys.stderr)
    return board


def _title(folder: Path, board: Leaderboard, learned: str) -> str:
    return f"{folder.name}: {learned}, {board.cells[0].measures.rows:,} tested"


def readings(folder: Path, rows: int, asked: argparse.Namespace) -> Iterator[Table]:
    """Which tokens and which layers are read, all under one linear layer; and a prompt."""
    recipes = [f"{reading}+linear" for reading in READINGS]
    board = _run(folder, rows, [*recipes, "mean+linear?prefix=query:_"], seeds=asked.seeds)
    yield Table(
        title=_title(folder, board, f"{rows:,} rows learned from"),
        columns=COLUMNS,
        rows=list(compared(board)),
    )


def shapes(folder: Path, rows: int, asked: argparse.Namespace) -> Iterator[Table]:
    """Heads of Transformers on the mean and on the first token."""
    board = _run(folder, rows, DENSE, seeds=asked.seeds)
    yield Table(
        title=_title(folder, board, f"{rows:,} rows learned from"),
        columns=COLUMNS,
        rows=list(compared(board)),
    )


def few(folder: Path, rows: int, asked: argparse.Namespace) -> Iterator[Table]:
    """Heads on the mean that learn from eight rows a class, drawn anew for each seed."""
    recipes = [f"mean+{head}" for head in FEW]
    board = _run(folder, rows, recipes, seeds=max(asked.seeds, 5), per_class=8)
    yield Table(
        title=_title(folder, board, "8 rows a class learned from"),
        columns=COLUMNS,
        rows=list(compared(board)),
    )


def weights(folder: Path, rows: int, asked: argparse.Namespace) -> Iterator[Table]:
    """The same heads without and with class weights, ranked by macro-F1."""
    lines = list[list[Cell]]()
    board = None
    for is_weighted in (False, True):
        board = _run(
            folder, rows, ("mean+linear", "mean+roberta"),
            seeds=asked.seeds, class_weights=is_weighted, metric="macro_f1",
        )  # fmt: skip
        for cell in board.cells:
            accuracy = figure(100 * cell.measures.values["accuracy"])
            lines.append([f"`{cell.name}`", "yes" if is_weighted else "no", scored(cell), accuracy])
    assert board is not None
    yield Table(
        title=_title(folder, board, f"{rows:,} rows learned from"),
        columns=("", "class weights", "macro-F1 (95 %)", "accuracy"),
        rows=lines,
    )


def decoder(folder: Path, rows: int, asked: argparse.Namespace) -> Iterator[Table]:
    """GPT-2's head on a decoder, which token it reads being what differs."""
    recipes = [f"{pooling}+gpt2" for pooling in ("last", "mean", "weighted", "max", "cls")]
    board = _run(folder, rows, recipes, model=str(asked.decoder), seeds=asked.seeds)
    yield Table(
        title=_title(folder, board, f"{asked.decoder.name}, {rows:,} rows learned from"),
        columns=COLUMNS,
        rows=list(compared(board)),
    )


# Each part, and the data sets that it is measured on.
PARTS: Mapping[
    str, tuple[Sequence[str], Callable[[Path, int, argparse.Namespace], Iterator[Table]]]
] = {
    "readings": (("trec6", "sst2"), readings),
    "heads": (("trec6", "sst2"), shapes),
    "few": (("trec6",), few),
    "weights": (("emotion",), weights),
    "decoder": (("trec6", "sst2"), decoder),
}

if __name__ == "__main__":
    torch.manual_seed(0)
    main()
