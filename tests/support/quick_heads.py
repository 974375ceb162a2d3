"""Heads trained for tests: by the one trainer, with a few steps where steps are taken."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import cache

import pytest

from heads.backbone.backbone import Backbone
from heads.classifier.classifier import Classifier
from heads.classifier.module import TrainedHead
from heads.data.corpus import Corpus, build, numbered
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


@pytest.fixture(scope="session")
def trained_once(small: Backbone, rows: Corpus) -> Callable[..., Classifier]:
    """Heads on a tiny BERT by recipe and kind of labels, each trained once; never to be changed."""
    texts, second = rows.texts, [*rows.texts[7:], *rows.texts[:7]]
    corpora = {
        "classes": rows,
        "ordered": replace(rows, ordered=True),
        "pairs": build("pairs", texts, ["same", "other"] * 30, second),
        "labels": build("many", texts, ("a|b", "a", "", "b") * 15),
        "numbers": numbered("made up", texts, [float(len(text)) for text in texts]),
    }

    @cache
    def head(recipe: str, data: str = "classes") -> Classifier:
        config = TUNED if "tune=" in recipe else QUICK
        [found] = classifiers([recipe], corpora[data], small, config)
        return found

    return head
