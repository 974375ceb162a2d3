"""Classifiers whose head can be trained again on all rows, before it is taken elsewhere.

What is compared and explained is the head that was scored, which without a test set has learned
from part of the rows. What is exported has learned from all of them.
"""

from collections.abc import Generator, Sequence
from contextlib import suppress
from dataclasses import replace
from functools import partial
from pathlib import Path

from heads.backbone.backbone import Backbone
from heads.caching import write
from heads.classifier import head_cache
from heads.classifier.calibration import calibrate
from heads.classifier.classifier import Classifier
from heads.classifier.module import TrainedHead
from heads.data.corpus import Corpus
from heads.errors import CheckpointError
from heads.events import Progress
from heads.recipe import Recipe
from heads.runs import trainer
from heads.runs.folder import RunFolder
from heads.runs.spec import RunSpec
from heads.runs.trained_heads import heads_of
from heads.settings import ExperimentConfig


def run_classifiers(
    run: RunFolder, recipes: Sequence[Recipe | str]
) -> tuple[RunSpec, dict[str, Classifier]]:
    """Load scored heads of a run by their names in it, each ready to be trained again.

    Args:
        recipes: The heads; without any, the best four.

    Raises:
        HeadsError: The run has no such head, or its base model is not what it was.
    """
    asked, backbone, heads = heads_of(run, recipes)
    classifiers = dict[str, Classifier]()
    for name, head in heads.items():
        # What training it again gives is kept in the run.
        path = run.path / f"heads/{asked.names.index(name):03}.refit.safetensors"
        classifier = Classifier(backbone=backbone, head=head)
        classifiers[name] = with_refit(classifier, asked.corpus, asked.config, path)
    return asked, classifiers


def run_classifier(run: RunFolder, name: str) -> Classifier:
    """Load one head of a run; see `run_classifiers`."""
    (classifier,) = run_classifiers(run, [name])[1].values()
    return classifier


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
