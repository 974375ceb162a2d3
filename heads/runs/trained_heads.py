"""The heads of a run: kept as files, and put back onto their base model."""

import contextlib
import time
from collections.abc import Collection, Mapping
from dataclasses import asdict, replace
from statistics import fmean, median
from typing import Any

import torch

from heads.backbone.backbone import Backbone
from heads.classifier import head_cache
from heads.classifier.calibration import calibrate
from heads.classifier.inputs import HeadInputs
from heads.classifier.label_names import rename_classes
from heads.classifier.module import RecipeModule, TrainedHead
from heads.classifier.pretrained import own_head
from heads.errors import CheckpointError, DataError, did_you_mean
from heads.evaluation.calibration import temperature
from heads.evaluation.details import Measures
from heads.evaluation.predictions import MAJORITY, OWN, first, scores
from heads.evaluation.statistics import Scores
from heads.parts.resolve import with_options
from heads.rng import IsolatedRng
from heads.runs.cells import kept, read_cells
from heads.runs.folder import RunFolder
from heads.runs.spec import RunSpec
from heads.training.events import TrialResult
from heads.training.fitters import adamw
from heads.training.fitters.token_heads import BATCH

ROUNDS = 15


def keep_head(
    run: RunFolder,
    number: int,
    result: TrialResult,
    asked: RunSpec,
    measures: Measures,
    backbone: Backbone,
) -> None:
    """Save the head of the first seed."""
    scores = scores_of(result, asked, measures, majority_of(run, asked))
    head = trained_head(result, asked, scores, backbone)
    run.put(head_file(number), lambda place: head_cache.save(head, place))


def scores_of(result: TrialResult, asked: RunSpec, measures: Measures, majority: float) -> Scores:
    """Return the scores of a cell, beside that of the baseline that knows no text."""
    return Scores(
        rows=measures.rows,
        accuracy=measures.score,
        low=measures.low,
        high=measures.high,
        majority=majority,
        metric=measures.metric,
        among=len(asked.recipes),
        # What the head that is kept, the first seed's, reached by itself, where there are others.
        own=fmean(scores(first(result.outcome, 1, asked.task), asked.task))
        if len(result.outcome.rows) > 1
        else None,
    )


def trained_head(
    result: TrialResult, asked: RunSpec, scores: Scores | None, backbone: Backbone
) -> TrainedHead:
    """Return the head of the first seed; it has no scores if every row was learned from."""
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
    # The leaderboard's temperature is of all seeds together; this head's thresholds stand beside
    # one that is found on its own development rows.
    scale = 1.0
    if result.outcome.held is not None:
        logits, rows = (held[: len(asked.splits.development[0])] for held in result.outcome.held)
        scale = temperature(logits, asked.task.targets[rows], asked.task.problem)
    return TrainedHead(
        recipe=recipe.recipe,
        model=asked.model,
        classes=asked.corpus.classes,
        problem=asked.corpus.problem,
        paired=bool(asked.corpus.pairs),
        temperature=scale,
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


def majority_of(run: RunFolder, asked: RunSpec) -> float:
    """The score of a run's baseline that knows no text."""
    cell = kept(run, asked.names.index(MAJORITY))
    return cell.measures.score if cell else 0.0


def head_of(run: RunFolder, asked: RunSpec, name: str, backbone: Backbone) -> TrainedHead:
    """Load a trained head of a run, calibrated; raise DataError if the run has none of the name."""
    if name == OWN and OWN in asked.baselines:
        return rename_classes(own_head(backbone), asked.account["own"])
    number = asked.recipes.index(name) if name in asked.recipes else -1
    file = head_file(number)
    if number >= 0 and ((run.path / file).is_file() or kept(run, number)):
        try:
            head = head_cache.load_again(run.path / file, backbone)
            return calibrate(_replace_interval(head, run, name))
        except CheckpointError as error:
            if isinstance(error.__cause__, OSError):
                raise run.broken(file, name) from error
            raise DataError(f"The run {run.id}: {error.what}", error.hint) from error
    trained = [r for n, r in enumerate(asked.recipes) if (run.path / head_file(n)).is_file()]
    what = f"The run {run.id} has no trained head {name[:80]}."
    raise DataError(what, did_you_mean(name, trained) if trained else "Resume the run.")


def _replace_interval(head: TrainedHead, run: RunFolder, name: str) -> TrainedHead:
    """Return a head with the interval of the leaderboard, which takes all cells together."""
    with contextlib.suppress(DataError):
        for cell in (run.read("leaderboard.json") or {}).get("cells", []):
            if cell["recipe"] == name and head.scores:
                scores = replace(head.scores, low=cell["low"], high=cell["high"])
                return replace(head, scores=scores)
    return head


def head_file(number: int) -> str:
    """Return the name of the file of a trained head in its run."""
    return f"heads/{number:03}.safetensors"


def missing_heads(run: RunFolder, asked: RunSpec, names: Collection[str]) -> list[DataError]:
    """Return what to say of each head that was trained, and whose file is gone."""
    files = {name: head_file(asked.recipes.index(name)) for name in asked.recipes if name in names}
    return [run.broken(file, n) for n, file in files.items() if not (run.path / file).is_file()]


def trained_names(run: RunFolder, asked: RunSpec) -> list[str]:
    """Return the recipes of a run whose heads were trained, the best first."""
    cells = read_cells(run, asked.names)
    names = [name for name in asked.recipes if name in cells]
    return sorted(names, key=lambda name: -cells[name].measures.score)


def check_model(run: RunFolder, asked: RunSpec, backbone: Backbone) -> None:
    """Raise DataError if the base model has changed since the run began."""
    if backbone.revision != asked.revision:
        what = f"{asked.model} is not the version that the run {run.id} began with."
        raise DataError(what, "Train again, or bring that version back.")


def latencies(run: RunFolder, asked: RunSpec, backbone: Backbone) -> dict[str, float]:
    """Return the milliseconds that reading and head add to the frozen base model for one text."""
    row = min(len(asked.corpus) - 1, len(asked.corpus) // 2)
    heads = {}
    for name in asked.recipes:
        with contextlib.suppress(DataError):
            heads[name] = replace(head_of(run, asked, name, backbone), base=None)
    if asked.corpus.vectors is not None:
        inputs = HeadInputs(backbone, asked.corpus.vectors.of([row]).tensor())
    else:
        pair = [asked.corpus.pairs[row]] if asked.corpus.pairs else []
        inputs = HeadInputs(backbone, [asked.corpus.texts[row]], pair)
    inputs.encode(list(heads.values()))
    milliseconds = {}
    for name, head in heads.items():
        times = []
        with torch.inference_mode():
            for _ in range(ROUNDS):
                begun = time.perf_counter()
                inputs.logits(head)
                times.append((time.perf_counter() - begun) * 1000)
        milliseconds[name] = median(times)
    return milliseconds
