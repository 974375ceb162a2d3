"""The baselines of a run, as cells of its leaderboard; none is a head trained here."""

import contextlib
import hashlib
import time
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path

import torch
from torch import Tensor

from heads.backbone.backbone import Backbone
from heads.caching import make_room, own_code, used
from heads.checked_files import read_tensors, write_tensors
from heads.classifier.classifier import Classifier
from heads.classifier.label_names import rename_classes
from heads.classifier.pretrained import own_head
from heads.data.splits import Splits
from heads.evaluation.baselines import majority, tfidf, tfidf_held, tfidf_strength
from heads.evaluation.details import measure
from heads.evaluation.predictions import MAJORITY, OWN, TFIDF, CellPredictions
from heads.features.store import home_of
from heads.problem import ONE_VERSUS_REST
from heads.recipe import Value
from heads.runs.cells import Cell, keep, kept
from heads.runs.folder import RunFolder
from heads.runs.spec import RunSpec
from heads.training.scheduler import Job, Tell, TrainingData
from heads.training.task import TrainingTask

ON_DISK_BYTES = 500_000_000


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Baseline:
    """What needs no base model: its predictions, chosen settings, and seconds on one core."""

    outcome: CellPredictions
    chosen: dict[str, Value]
    seconds: float


def is_kept(run: RunFolder, asked: RunSpec, name: str) -> bool:
    """Whether a baseline is done."""
    return kept(run, asked.names.index(name)) is not None


def keep_baseline(
    run: RunFolder, asked: RunSpec, found: Baseline, training_data: TrainingData
) -> Cell:
    """Measure a baseline and save its cell."""
    cell = Cell(
        name=found.outcome.name,
        measures=measure(found.outcome, training_data.task),
        parameters=0,
        seconds=found.seconds,
        chosen=found.chosen,
    )
    keep(run, asked.names.index(cell.name), cell, found.outcome, training_data.task)
    return cell


def commonest(asked: RunSpec, training_data: TrainingData) -> Baseline:
    """Always the same answer, for every seed that of the rows it learns from."""
    begun, splits = time.perf_counter(), training_data.splits
    found = [
        majority(asked.corpus, train.tolist(), test.tolist())
        for train, test in zip(splits.train, splits.test, strict=True)
    ]
    logits = tuple(one.logits for one in found)
    cuts = [one.thresholds for one in found if one.thresholds is not None]
    outcome = _predictions(MAJORITY, splits, logits, torch.stack(cuts) if cuts else None)
    return Baseline(outcome=outcome, chosen={}, seconds=time.perf_counter() - begun)


def own_answers(asked: RunSpec, training_data: TrainingData, backbone: Backbone) -> Baseline:
    """Return what the head that the checkpoint came with answers on the rows tested."""
    begun, splits, corpus = time.perf_counter(), training_data.splits, asked.corpus
    head = rename_classes(own_head(backbone), asked.account["own"])
    rows = torch.cat(splits.test).unique()
    texts = [corpus.texts[row] for row in rows]
    pairs = [corpus.pairs[row] for row in rows] if corpus.pairs else []
    logits = Classifier(backbone=backbone, head=head).kept_logits(texts, pairs)
    if head.problem is ONE_VERSUS_REST:
        logits = head.problem.competing(logits)
    order = [head.classes.index(name) for name in corpus.classes if name in head.classes] or [0]
    by_seed = tuple(logits[torch.searchsorted(rows, test)][:, order] for test in splits.test)
    thresholds = torch.tensor(head.thresholds)[order] if head.thresholds else None
    outcome = _predictions(OWN, splits, by_seed, thresholds)
    return Baseline(outcome=outcome, chosen={}, seconds=time.perf_counter() - begun)


def _predictions(
    name: str, splits: Splits, logits: tuple[Tensor, ...], thresholds: Tensor | None
) -> CellPredictions:
    return CellPredictions(
        name=name, rows=splits.test, logits=logits, thresholds=thresholds,
        is_random=False, repetition=splits.repetition,
    )  # fmt: skip


def words_job(asked: RunSpec, training_data: TrainingData, reading: str) -> Job:
    """Return the job of TF-IDF with a linear model, begun before the heads.

    What it comes to is cached: a later run with the same rows finds it. It needs no reading: any
    of the run will do.
    """

    def work(training_task: TrainingTask, tell: Tell) -> Baseline:
        path = _words_file(asked, training_data)
        words = _load_words(path)
        if words is None:
            words = _fit_words(asked, training_data, training_task)
            _save_words(path, words)
        outcome = _predictions(TFIDF, training_data.splits, words.logits, words.thresholds)
        return Baseline(outcome=outcome, chosen={"C": words.C[0]}, seconds=words.seconds)

    return Job(name=TFIDF, reading=reading, work=work, cost=float("inf"), is_first=True)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Words:
    """What counted words came to.

    Attributes:
        logits: For each seed (n, c), of its tested rows.
        thresholds: (s, c), where there are labels.
        C: For each seed the strength of the fit.
    """

    logits: tuple[Tensor, ...]
    thresholds: Tensor | None
    C: tuple[float, ...]
    seconds: float


def _fit_words(asked: RunSpec, training_data: TrainingData, training_task: TrainingTask) -> Words:
    """Fit TF-IDF with a linear model, each seed with the C of its own development rows."""
    begun = time.perf_counter()
    splits, balanced = training_data.splits, asked.config.class_weights
    strengths, cuts, logits = list[float](), list[Tensor](), dict[object, Tensor]()
    by_seed = list[Tensor]()
    for seed in range(len(splits)):
        training_task.check()
        rows = splits.search[seed].tolist(), splits.development[seed].tolist()
        C = tfidf_strength(asked.corpus, *rows, balanced=balanced, metric=asked.metric)
        strengths.append(C)
        if training_data.task.problem.has_label_sets:
            rows = splits.fitted(seed).tolist(), rows[1]
            bar = tfidf_held(asked.corpus, *rows, C=C, balanced=balanced).thresholds
            assert bar is not None
            cuts.append(bar)
        training_task.check()
        # Nothing is drawn at random: the same rows and C come to the same.
        key = C, id(splits.train[seed]), id(splits.test[seed])
        if key not in logits:
            rows = splits.train[seed].tolist(), splits.test[seed].tolist()
            logits[key] = tfidf(asked.corpus, *rows, C=C, balanced=balanced)
        by_seed.append(logits[key])
    bars, seconds = torch.stack(cuts) if cuts else None, time.perf_counter() - begun
    return Words(logits=tuple(by_seed), thresholds=bars, C=tuple(strengths), seconds=seconds)


def _words_file(asked: RunSpec, training_data: TrainingData) -> Path:
    """Return the file of what these rows come to."""
    code = own_code("evaluation/baselines", "evaluation/calibration"), version("scikit-learn")
    facts = asked.corpus.fingerprint, asked.config.class_weights, asked.metric, code
    digest = hashlib.sha256(repr(facts).encode())
    splits = training_data.splits
    for rows in (*splits.search, *splits.development, *splits.train, *splits.test):
        digest.update(repr(rows.shape).encode() + rows.numpy().tobytes())
    return home_of("words") / f"{digest.hexdigest()[:40]}.safetensors"


def _save_words(path: Path, words: Words) -> None:
    """Save words, where the disk takes them."""
    tensors = {f"logits.{place:03}": one for place, one in enumerate(words.logits)}
    if words.thresholds is not None:
        tensors["thresholds"] = words.thresholds
    facts = {"C": " ".join(map(repr, words.C)), "seconds": repr(words.seconds)}
    with contextlib.suppress(OSError):
        write_tensors(path, tensors, facts)
        make_room(path.parent, ON_DISK_BYTES)


def _load_words(path: Path) -> Words | None:
    """Return what a file holds, or None if it is missing or broken."""
    try:
        tensors, facts = read_tensors(path)
        used(path)
        bars = tensors.pop("thresholds", None)
        C, seconds = tuple(map(float, facts["C"].split())), float(facts["seconds"])
        return Words(logits=tuple(tensors.values()), thresholds=bars, C=C, seconds=seconds)
    except (OSError, KeyError, ValueError):
        return None
