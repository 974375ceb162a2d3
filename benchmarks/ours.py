"""The side of this project in a comparison: asked and answering like the peers' scripts.

``python -m benchmarks.ours`` with the question as JSON on standard input; HEADS_CACHE says where
features are kept. The base model is in memory before a clock begins, and for whole runs
scikit-learn; so are a peer's imports.
"""

import importlib
import json
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch

import heads
from benchmarks.memory import peak_bytes
from heads.backbone.backbone import Backbone
from heads.backbone.loading import load
from heads.evaluation.transferability import estimate
from heads.features.extraction import extract
from heads.features.store import FeatureMatrices
from heads.parts.resolve import resolve
from heads.settings import current_limits, use_limits

Question = Mapping[str, Any]
Found = dict[str, Any]
LAYERS = tuple(range(1, 6))  # of six; the last has no number


class Clock:
    """Seconds and processor seconds of what stands under it."""

    def __init__(self) -> None:
        self.seconds = self.cpu_seconds = 0.0

    @contextmanager
    def running(self) -> Iterator[None]:
        begun, used = time.perf_counter(), time.process_time()
        yield
        self.seconds += time.perf_counter() - begun
        self.cpu_seconds += time.process_time() - used


Job = Callable[[Question, Clock, Backbone], Found]


def head(question: Question, clock: Clock, backbone: Backbone) -> Found:
    """One head, as a whole run: settings searched, baselines, intervals, what is kept on disk."""
    with tempfile.TemporaryDirectory() as place, clock.running():
        board = heads.train_grid(
            question["train"],
            test=question["test"],
            recipes=[question["recipe"]],
            config=heads.ExperimentConfig(seeds=1, curve=False, precision=question["precision"]),
            out=Path(place) / "run",
        )
    cell = board.cell(question["recipe"])
    phases = {"read": board.forward_seconds, "train": cell.seconds}
    return {"accuracy": cell.measures.score, "phases": phases, "precision": board.precision}


def layers(question: Question, clock: Clock, backbone: Backbone) -> Found:
    """A linear head on the mean of every layer: what training finds, and was foretold."""
    with tempfile.TemporaryDirectory() as place, clock.running():
        board = heads.train_grid(
            question["train"],
            test=question["test"],
            grid="layers",
            config=heads.ExperimentConfig(seeds=1, curve=False, precision="exact"),
            out=Path(place) / "run",
        )
    scores = [board.cell(f"{name}+linear").measures.score for name in _readings()]
    told = {one.name: one for one in board.estimates}
    measures = {"logme": "log_me", "hscore": "h_score", "knn": "neighbours"}
    found = {
        theirs: [getattr(told[name], own) for name in _readings()]
        for theirs, own in measures.items()
    }
    return {"scores": scores, "layers": found}


def rank(question: Question, clock: Clock, backbone: Backbone) -> Found:
    """The mean of every layer of each text in one pass, and three estimates of each layer."""
    corpus = heads.read(question["train"]).corpus
    recipes = [resolve(f"{name}+linear") for name in _readings()]
    with clock.running():
        *_, given = extract(recipes, corpus.texts, (), backbone, question["precision"])
    assert isinstance(given, FeatureMatrices)
    reading, targets = clock.seconds, torch.tensor([target[0] for target in corpus.targets])
    with clock.running():
        for name in _readings():
            estimate(name, given.matrix(name)[given.index], targets)
    phases = {"read": reading, "estimate": clock.seconds - reading}
    return {"phases": phases, "precision": given.precision}


def read(question: Question, clock: Clock, backbone: Backbone) -> Found:
    """Texts read for some poolings in one pass, up to so many tokens of each."""
    with use_limits(replace(current_limits(), tokens=question["tokens"])):
        backbone = load()
    recipes = [resolve(f"{name}+linear") for name in question["poolings"]]
    texts, precision = question["texts"], question["precision"]
    *_, _ = extract(recipes, texts[-1:], (), backbone, precision)  # what is slow only once
    with clock.running():
        *_, given = extract(recipes, texts[:-1], (), backbone, precision)
    assert isinstance(given, FeatureMatrices)
    return {"precision": given.precision}


def _readings() -> tuple[str, ...]:
    """The mean at every layer above the embeddings, as readings are named."""
    return (*(f"mean@{layer}" for layer in LAYERS), "mean")


JOBS: Mapping[str, Job] = {
    "head": head,
    "layers": layers,
    "rank": rank,
    "read": read,
}


def main(jobs: Mapping[str, Job] = JOBS) -> None:
    """Answer the question on standard input by the job that it names."""
    question, clock = json.load(sys.stdin), Clock()
    if question["job"] not in ("rank", "read"):  # whole runs, whose baseline needs it
        importlib.import_module("sklearn.linear_model")
    found = jobs[question["job"]](question, clock, load())
    told = {"seconds": clock.seconds, "cpu_seconds": clock.cpu_seconds, "peak_bytes": peak_bytes()}
    print(json.dumps(told | found))


if __name__ == "__main__":
    main()
