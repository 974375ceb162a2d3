"""Heads trained for tests: by the one trainer, with a few steps where steps are taken."""

from collections.abc import Sequence
from dataclasses import replace

from heads.backbone.backbone import Backbone
from heads.classifier.classifier import Classifier
from heads.classifier.module import TrainedHead
from heads.data.corpus import Corpus
from heads.events import result
from heads.parts.resolve import resolve
from heads.recipe import Recipe
from heads.runs.trainer import train
from heads.settings import ExperimentConfig

QUICK = ExperimentConfig(learning_rate=0.02, steps=12, standardise="no")
# One pass for those that learn their base model as well, at a rate that changes it much.
TUNED = replace(QUICK, epochs=1, trials=1, tuning_rate=0.02)


def trained(
    recipes: Sequence[Recipe | str],
    corpus: Corpus,
    backbone: Backbone,
    config: ExperimentConfig = QUICK,
) -> list[TrainedHead]:
    """The heads of these recipes, in their order."""
    return result(train([resolve(one) for one in recipes], corpus, backbone, config=config))


def classifiers(
    recipes: Sequence[Recipe | str],
    corpus: Corpus,
    backbone: Backbone,
    config: ExperimentConfig = QUICK,
) -> list[Classifier]:
    """The same on their base model."""
    return [
        Classifier(backbone=backbone, head=head)
        for head in trained(recipes, corpus, backbone, config)
    ]
