"""Cells and tasks of tests of the evaluation."""

from typing import Any

import torch
from torch import Tensor

from heads.evaluation.predictions import CellPredictions, EvaluationTask
from heads.problem import SINGLE_LABEL, ProblemType


def task_of(
    targets: Tensor, classes: int = 2, problem: ProblemType = SINGLE_LABEL, **more: Any
) -> EvaluationTask:
    """Return what is true of rows, each of a text of its own unless `groups` says otherwise."""
    names = tuple("abcdefgh"[:classes])
    usual = {"groups": torch.arange(len(targets))} | more
    return EvaluationTask(targets=targets, classes=names, problem=problem, **usual)


def cell_of(*logits: Tensor, name: str = "x", **more: Any) -> CellPredictions:
    """Return a cell with these logits in each seed, of all rows in order unless `rows` is given."""
    usual = {"rows": tuple(torch.arange(len(each)) for each in logits)} | more
    return CellPredictions(name=name, logits=logits, **usual)
