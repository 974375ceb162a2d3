"""The heads of a run: kept as files, and put back onto their base model."""

import contextlib
import time
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from statistics import fmean, median
from typing import Any

import torch

from heads.backbone.backbone import Backbone
from heads.backbone.loading import load
from heads.classifier import head_cache
from heads.classifier.classifier import Classifier
from heads.classifier.inputs import base_inputs, vector_inputs
from heads.classifier.module import RecipeModule, TrainedHead
from heads.errors import CheckpointError, DataError
from heads.evaluation.calibration import temperature
from heads.evaluation.details import Measures
from heads.evaluation.predictions import MAJORITY, EvaluationTask, first, scores
from heads.evaluation.statistics import Scores
from heads.parts.resolve import resolve, with_options
from heads.recipe import Recipe
from heads.rng import IsolatedRng
from heads.runs import spec
from heads.runs.cells import kept
from heads.runs.folder import RunFolder
from heads.runs.spec import RunSpec
from heads.settings import Limits
from heads.training.fitters import adamw
from heads.training.fitters.token_sgd import BATCH
from heads.training.search import TrialResult

ROUNDS = 15
FEW = 4  # heads, where none is named


def keep_head(
    run: RunFolder,
    number: int,
    result: TrialResult,
    asked: RunSpec,
    measures: Measures,
    backbone: Backbone,
) -> None:
    """Writes the head of the first seed.

    Raises:
        DataError: The disk does not take it.
    """
    scores = scores_of(result, asked, measures, majority_of(run, asked))
    head = trained_head(result, asked, scores, backbone)
    run.put(f"heads/{number:03}.safetensors", lambda place: head_cache.save(head, place))


def scores_of(result: TrialResult, asked: RunSpec, measures: Measures, majority: float) -> Scores:
    """What a cell came to on the rows held out.

    Args:
        majority: The score of the baseline that knows no text.
    """
    return Scores(
        rows=measures.rows,
        accuracy=measures.score,
        low=measures.low,
        high=measures.high,
        majority=majority,
        metric=measures.metric,
        among=len(asked.recipes),
        own=_own(result, asked.task),
    )


def trained_head(
    result: TrialResult, asked: RunSpec, scores: Scores | None, backbone: Backbone
) -> TrainedHead:
    """The head of the first seed, with what was chosen.

    Args:
        scores: Its scores; None where every row was learned from.
    """
    known = result.trial.resolved.head.options
    options = {name: value for name, value in result.chosen[0].items() if name in known}
    recipe = with_options(result.trial.resolved, options)
    with IsolatedRng().rolling():
        module = RecipeModule(recipe, backbone, len(asked.corpus.classes))
    whole = result.trial.is_whole  # its reading is learned as well
    (module if whole else module.head).load_state_dict(result.learned[0].state)
    settings: Mapping[str, Any] = result.chosen[0]
    cuts = result.outcome.thresholds
    thresholds = None if cuts is None else cuts[0]
    training = asdict(asked.config)
    if "epochs" in settings:
        by_vectors = not whole or result.trial.resolved.tuning.paired
        training["batch_size"] = adamw.batch_of(result.rows) if by_vectors else BATCH
    return TrainedHead(
        recipe=recipe.recipe,
        model=asked.model,
        classes=asked.corpus.classes,
        problem=asked.corpus.problem,
        paired=bool(asked.corpus.pairs),
        temperature=_temperature(result, asked),
        thresholds=() if thresholds is None else tuple(thresholds.tolist()),
        trained_on=asked.corpus.name,
        rows=result.rows,
        scores=scores,
        training=training,
        fingerprint=asked.corpus.fingerprint,
        trained_as=result.trial.resolved,
        module=module.eval().requires_grad_(False),
        chosen=dict(settings),
        base=result.learned[0].base,
    )


def _own(result: TrialResult, task: EvaluationTask) -> float | None:
    """What the head that is kept, the first seed's, reached by itself, where there are others."""
    if len(result.outcome.rows) == 1:
        return None
    return fmean(scores(first(result.outcome, 1, task), task))


def majority_of(run: RunFolder, asked: RunSpec) -> float:
    """The score of a run's baseline that knows no text."""
    cell = kept(run, asked.names.index(MAJORITY))
    return cell.measures.score if cell else 0.0


def _temperature(result: TrialResult, asked: RunSpec) -> float:
    """The temperature of the head that is kept, found on its own development rows.

    The leaderboard's is of all seeds together; this head's own thresholds stand beside it.
    """
    if result.outcome.held is None:
        return 1.0
    logits, rows = (held[: len(asked.splits.development[0])] for held in result.outcome.held)
    return temperature(logits, asked.task.targets[rows], asked.task.problem)


def classifier(run: RunFolder, name: str, limits: Limits) -> Classifier:
    """A head of a run on its base model: to ask, or to export.

    Args:
        name: The recipe, as the leaderboard names it.

    Raises:
        DataError: The run has no such head, or its base model is not what it was.
    """
    asked = spec.load(run)
    backbone = load(asked.model, limits=limits)
    check_model(run, asked, backbone)
    return Classifier(backbone=backbone, head=head_of(run, asked, name, backbone, limits))


def head_of(
    run: RunFolder, asked: RunSpec, name: str, backbone: Backbone, limits: Limits
) -> TrainedHead:
    """A trained head of a run.

    Raises:
        DataError: The run has no such head.
    """
    path = (
        run.path / f"heads/{asked.recipes.index(name):03}.safetensors"
        if name in asked.recipes
        else None
    )
    if path is None or not path.is_file():
        what = f"The run {run.id} has no trained head {name[:80]}."
        raise DataError(what, f"List those that it has with: heads runs {run.id}")
    try:
        return head_cache.load_again(path, backbone, limits)
    except CheckpointError as error:
        raise DataError(f"The run {run.id} is broken: {error.what}", "Train again.") from error


def heads_of(
    run: RunFolder, recipes: Sequence[Recipe | str], limits: Limits
) -> tuple[RunSpec, Backbone, dict[str, TrainedHead]]:
    """Heads of a run by their names in it, on one base model; where none is named, the best four.

    Raises:
        HeadsError: The run has no such head, or its base model is not what it was.
    """
    asked = spec.load(run)
    backbone = load(asked.model, limits=limits)
    check_model(run, asked, backbone)
    named = (str(one) if str(one) in asked.recipes else str(resolve(one)) for one in recipes)
    names = dict.fromkeys(named) or trained_names(run, asked)[:FEW]
    return asked, backbone, {name: head_of(run, asked, name, backbone, limits) for name in names}


def trained_names(run: RunFolder, asked: RunSpec) -> list[str]:
    """The recipes of a run whose heads are there, the best first."""
    scores = {
        name: cell.measures.score
        for number, name in enumerate(asked.recipes)
        if (run.path / f"heads/{number:03}.safetensors").is_file() and (cell := kept(run, number))
    }
    return sorted(scores, key=lambda name: -scores[name])


def check_model(run: RunFolder, asked: RunSpec, backbone: Backbone) -> None:
    """Refuses a base model that has changed since the run began.

    Raises:
        DataError: It has.
    """
    if backbone.revision != asked.revision:
        what = f"{asked.model} is not the version that the run {run.id} began with."
        raise DataError(what, "Train again, or bring that version back.")


def latencies(
    run: RunFolder, asked: RunSpec, backbone: Backbone, limits: Limits
) -> dict[str, float]:
    """For each head what reading and head add to the base model for one text, in ms.

    How long that takes does not depend on what a base model has learned: all are timed on the
    states that the frozen one gives.
    """
    row = min(len(asked.corpus) - 1, len(asked.corpus) // 2)
    pair = [asked.corpus.pairs[row]] if asked.corpus.pairs else []
    modules = {}
    for name in asked.recipes:
        with contextlib.suppress(DataError):
            modules[name] = head_of(run, asked, name, backbone, limits).module
    if asked.corpus.vectors is not None:
        given = vector_inputs(backbone, asked.corpus.vectors.of([row]).tensor())
    else:
        given = base_inputs(backbone, [asked.corpus.texts[row]], pair, list(modules.values()))
    found = {}
    for name, module in modules.items():
        times = []
        with torch.inference_mode():
            for _ in range(ROUNDS):
                begun = time.perf_counter()
                given.logits(module)
                times.append((time.perf_counter() - begun) * 1000)
        found[name] = median(times)
    return found
