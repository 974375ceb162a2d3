"""Leaderboards and measures that no training made, for what is said and drawn of them."""

from collections.abc import Sequence
from typing import Any

import torch

from heads.evaluation.calibration import Bin, Calibration, Coverage
from heads.evaluation.details import LabelDetails, Measures, measure
from heads.evaluation.predictions import BASELINES, CellPredictions, EvaluationTask, answers_of
from heads.evaluation.significance import compare
from heads.evaluation.verdict import recommend
from heads.parts.resolve import resolve
from heads.problem import SINGLE_LABEL
from heads.runs.cells import Cell
from heads.runs.folder import RunFolder
from heads.runs.leaderboard import Leaderboard
from heads.runs.ways_of_learning import WaysOfLearning, ways_of_learning
from heads.training.racing import Eliminated

# Which rows each head answers wrong; the first is the reference, and the second is near it.
CLOSE = {"mean+linear": (0, 300), "mean+mlp": (10, 306), "cls+linear": (0, 600)}
# One recipe in four ways of learning.
WAYS = {
    "mean+linear": (0, 300), "mean+linear?tune=last2": (0, 100), "mean+linear?tune=lora": (0, 100),
    "mean+linear?tune=full": (0, 500),
}  # fmt: skip
FAR = {"majority": (0, 1300), "tfidf": (0, 1000)}


def _task(rows: int) -> EvaluationTask:
    return EvaluationTask(
        targets=torch.zeros(rows).long(), classes=("x", "y"), groups=torch.arange(rows)
    )


def _predicted(name: str, rows: int, wrongs: Sequence[int]) -> CellPredictions:
    wrong = torch.zeros(rows)
    wrong[list(wrongs)] = 1
    logits = torch.stack([1 - wrong, wrong], dim=1)
    return CellPredictions(name=name, rows=(torch.arange(rows),) * 3, logits=(logits,) * 3)


def board_of(
    rows: int = 2000, stopped: Sequence[str] = (), **wrongs: tuple[int, int]
) -> Leaderboard:
    """A run in which heads answer these stretches of rows, (from, to), wrong."""
    task, outcomes = _task(rows), []
    for name, (start, end) in wrongs.items():
        outcomes.append(_predicted(name, rows, range(start, end)))
    measures = {one.name: measure(one, task) for one in outcomes}
    tuned = [name for name in wrongs if "tune=" in name]
    found = compare(outcomes, task, reference=outcomes[0].name, tuned=tuned)
    # A linear head is smaller than any other, as in truth.
    sizes = {name: 11_000 if "linear" in name else 80_000 for name in measures}
    use, by = recommend(measures, found, sizes), {d.name: d for d in found.to_best}
    cells = [
        Cell(
            name=name,
            measures=own,
            parameters=0 if name in BASELINES else sizes[name],
            seconds=1.0,
            chosen={},
            to_best=by.get(name),
            to_recommended=found.between(name, use.name),
        )
        for name, own in measures.items()
    ]
    names = [name for name in (*wrongs, *stopped) if name not in BASELINES]
    return Leaderboard(
        folder=RunFolder(path=None),
        data="data",
        model="model",
        revision="1",
        classes=("x", "y"),
        problem=SINGLE_LABEL,
        metric="accuracy",
        rows=rows,
        protocol="",
        cells=tuple(sorted(cells, key=lambda c: (c.is_baseline, -c.measures.score))),
        recipes={name: resolve(name) for name in names},
        stopped=tuple(
            Eliminated(recipe=name, development_score=0.5, behind=0.1, least=0.05)
            for name in stopped
        ),
        planned=len(names),
        best=found.best,
        reference=found.reference,
        verdict=use.sentences,
        recommendation=use,
        curve=(),
        curve_says="",
        estimates=(),
        agreements=(),
        notes=(),
        reading="",
        seconds=1.0,
        forward_seconds=1.0,
        precision="float32",
        state="finished",
    )


def in_ways(board: Leaderboard) -> tuple[WaysOfLearning, ...]:
    """What a board's recipes come to that were learned in several ways, of 2000 rows.

    Each answers as many rows wrong as its score says, the first ones.
    """
    rows, told = board.rows, {}
    for cell in board.cells:
        wrong = range(round(rows * (1 - cell.measures.score)))
        told[cell.name] = answers_of(_predicted(cell.name, rows, wrong), _task(rows))
    return ways_of_learning(board.cells, board.recipes, told, _task(rows))


def stages(**scores: tuple[float, float]) -> tuple[dict[str, Any], ...]:
    """A learning curve of two sizes."""
    return tuple(
        {
            "rows": rows,
            "best": next(iter(scores)),
            "to_best": [],
            "scores": {
                name: {"score": two[at], "low": two[at] - 0.04, "high": two[at] + 0.04}
                for name, two in scores.items()
            },
        }
        for at, rows in enumerate((500, 1000))
    )


def measures_of(**more: Any) -> Measures:
    usual = {
        "name": "mean+linear", "rows": 90, "metric": "accuracy", "score": 0.8, "low": 0.7,
        "high": 0.9, "scores": (0.8,), "values": {"calibration_error": 0.4},
        "bins": (Bin(rows=90, confidence=0.9, accuracy=0.5),),
    }  # fmt: skip
    return Measures(**usual | more)


POINTS = tuple(
    Coverage(threshold=threshold, coverage=share, accuracy=accuracy)
    for threshold, share, accuracy in ((0.3, 1.0, 0.8), (0.6, 0.9, 0.85), (0.8, 0.7, 0.96))
)
SCALED = Calibration(
    temperature=1.34,
    error_before=0.4,
    error_after=0.1,
    log_loss_before=0.5,
    log_loss_after=0.4,
    bins=(Bin(rows=90, confidence=0.6, accuracy=0.5),),
    coverage=POINTS,
)
NUMBERS = measures_of(metric="spearman")
CELL = Cell(name="mean+linear", measures=NUMBERS, parameters=1, seconds=1.0, chosen={})


def label(name: str, f1: float | None) -> LabelDetails:
    return LabelDetails(
        name=name, rows=3, precision=None, recall=0.5, f1=f1, average_precision=0.25, threshold=0.4
    )
