"""Classifiers whose head can be trained again on all rows, before it is taken elsewhere.

What is compared and explained is the head that was scored, which without a test set has learned
from part of the rows. What is exported has learned from all of them.
"""

from collections.abc import Generator
from contextlib import suppress
from dataclasses import replace
from functools import partial
from pathlib import Path

from heads.backbone.backbone import Backbone
from heads.backbone.loading import load
from heads.caching import write
from heads.classifier import head_cache
from heads.classifier.calibration import calibrate
from heads.classifier.classifier import Classifier
from heads.classifier.module import TrainedHead
from heads.data.corpus import Corpus
from heads.errors import CheckpointError
from heads.events import Progress
from heads.parts.resolve import resolve
from heads.recipe import Recipe
from heads.runs import trainer
from heads.runs.folder import RunFolder
from heads.runs.spec import RunSpec
from heads.runs.spec import load as load_spec
from heads.runs.trained_heads import check_model, head_of
from heads.settings import ExperimentConfig


def open_run(run: RunFolder) -> tuple[RunSpec, Backbone]:
    """Load the spec and the base model of a run; raise HeadsError if that is not what it was."""
    spec = load_spec(run)
    backbone = load(spec.model)
    check_model(run, spec, backbone)
    return spec, backbone


def run_classifier(run: RunFolder, name: str) -> Classifier:
    """Load a scored head of a run, ready to be trained again; raise DataError if it has none."""
    spec, backbone = open_run(run)
    return load_classifier(run, spec, run_name(spec, name), backbone)


def run_name(spec: RunSpec, recipe: Recipe | str) -> str:
    """Return the name that a run has for a recipe."""
    return str(recipe) if str(recipe) in spec.names else str(resolve(recipe))


def load_classifier(run: RunFolder, spec: RunSpec, name: str, backbone: Backbone) -> Classifier:
    """Load a scored head of a run by its name there, as `run_classifier` does."""
    classifier = Classifier(backbone=backbone, head=head_of(run, spec, name, backbone))
    # What training it again gives is kept in the run.
    path = run.path / f"heads/{spec.names.index(name):03}.refit.safetensors"
    return with_refit(classifier, spec.corpus, spec.config, path)


def with_refit(
    classifier: Classifier,
    corpus: Corpus,
    config: ExperimentConfig,
    path: Path | None = None,
) -> Classifier:
    """Return a classifier with its rows, to be trained again if it was scored on a fold of them.

    With a test set it has learned from all other rows. Settings that were chosen for few rows a
    class do not suit all rows.

    Args:
        path: The file of what that gives; in the cache, if None.
    """
    head, backbone = classifier.head, classifier.backbone.untuned
    classifier = replace(classifier, corpus=corpus)
    if head.is_own or config.per_class or "test" in corpus.parts:
        return classifier
    refit = partial(_recall_or_train, head, corpus, backbone, config, path)
    return replace(classifier, refit=refit)


def _recall_or_train(
    head: TrainedHead,
    corpus: Corpus,
    backbone: Backbone,
    config: ExperimentConfig,
    path: Path | None,
) -> Generator[Progress, None, Classifier]:
    trainings = config.folds * config.repetitions if path else 1
    if path is None:
        key = head_cache.fingerprint(head.asked, corpus, backbone, config)
        path = head_cache.path_of(f"{key}-refit")
    with suppress(CheckpointError):  # there is none yet, or a broken one
        saved = head_cache.load_again(path, backbone)
        return Classifier(backbone=backbone, head=calibrate(saved), corpus=corpus)
    scored = head.raw or head  # files hold heads as trained
    refitted = yield from trainer.refit(scored, corpus, backbone, config, trainings)
    with suppress(OSError):  # a full disk costs the next export its time, nothing else
        write(path, lambda place: head_cache.save(refitted, place))
    return Classifier(backbone=backbone, head=calibrate(refitted), corpus=corpus)
