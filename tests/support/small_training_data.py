"""Training data of made-up vectors: what a grid learns from, without a base model's reading."""

from collections.abc import Generator, Sequence
from typing import Any

import torch
from loops import collect
from torch import Tensor

from heads.backbone.backbone import Backbone
from heads.data.splits import split
from heads.evaluation.predictions import EvaluationTask, strata
from heads.features.store import FeatureMatrices, FeatureStore
from heads.parts.resolve import resolve
from heads.problem import MULTI_LABEL, REGRESSION, SINGLE_LABEL, ProblemType
from heads.settings import ExperimentConfig
from heads.training.events import CurvePointTried, TrialResult
from heads.training.fitters.base import Chosen, SearchResult, TriedSettings
from heads.training.objective import Objective
from heads.training.scheduler import TrainingData, run_trials
from heads.training.search import trial_job
from heads.training.task import TrainingTask
from heads.training.trial import Trial, trials

WIDTH = 32
FOLDS = ExperimentConfig(folds=2)


def blobs(
    rows: int, classes: int = 3, *, apart: float = 1.0, width: int = WIDTH, seed: int = 0
) -> tuple[Tensor, Tensor]:
    """Vectors around a centre for each class, of unlike spread and far from 0; their classes."""
    rng = torch.Generator().manual_seed(seed)
    targets = torch.arange(rows) % classes
    targets = targets[torch.randperm(rows, generator=rng)]
    centres = apart * torch.randn(classes, width, generator=rng)
    vectors = centres[targets] + torch.randn(rows, width, generator=rng)
    spread = torch.logspace(-1, 1, width)
    return vectors * spread + 2 * spread, targets


def lesson_of(
    vectors: Tensor, targets: Tensor, classes: int, weights: Tensor | None = None
) -> TrainingTask:
    objective = Objective(problem=SINGLE_LABEL, outputs=classes)
    own = {} if weights is None else {"weights": weights, "counts": weights}
    return TrainingTask.of_rows(vectors, targets, objective, **own)


def training_data_of(
    vectors: Tensor,
    targets: Tensor,
    config: ExperimentConfig = FOLDS,
    *,
    readings: Sequence[str] = ("mean",),
    parts: Sequence[str] = (),
    problem: ProblemType = SINGLE_LABEL,
) -> TrainingData:
    """The same vectors under every reading."""
    rows = torch.arange(len(targets))
    many = {SINGLE_LABEL: int(targets.max()) + 1, MULTI_LABEL: targets.shape[-1], REGRESSION: 1}
    task = EvaluationTask(
        targets=targets, classes=tuple("abcdefghij"[: many[problem]]), groups=rows, problem=problem
    )
    features = FeatureMatrices.of_vectors(rows, dict.fromkeys(readings, vectors))
    return TrainingData(
        read=FeatureStore(joint=features, alone=None, siamese={}),
        task=task,
        splits=split(strata(task), rows, parts, config),
        config=config,
    )


def cells(recipes: Sequence[str], backbone: Backbone, training_data: TrainingData) -> list[Trial]:
    return trials(
        list(map(resolve, recipes)),
        backbone,
        len(training_data.task.classes),
        training_data.task.problem,
    )


def result(
    recipes: Sequence[str], backbone: Backbone, training_data: TrainingData, workers: int = 1
) -> dict[str, TrialResult]:
    """Every cell by its name."""
    jobs = [trial_job(trial, training_data) for trial in cells(recipes, backbone, training_data)]
    found = [
        event
        for event in run_trials(jobs, training_data, workers)
        if not isinstance(event, CurvePointTried)
    ]
    assert all(isinstance(event, TrialResult) for event in found)
    return {event.trial.name: event for event in found if isinstance(event, TrialResult)}


def found_of(chosen: Chosen) -> SearchResult:
    """As if a search had come to that, and a head had still to be learned."""
    point = TriedSettings(settings=chosen, step=0, score=0.0, loss=0.0)
    return SearchResult(chosen=chosen, point=point)


def ended(search: Generator[object, None, Any]) -> Any:
    """What a search comes to in the end."""
    return collect(search)[1]


def accuracy(one: TrialResult, training_data: TrainingData) -> float:
    """The mean over seeds on their test rows."""
    hits = [
        (learned.logits.argmax(dim=1) == training_data.task.targets[rows]).float().mean()
        for learned, rows in zip(one.learned, training_data.splits.test, strict=True)
    ]
    return float(torch.stack(hits).mean())
