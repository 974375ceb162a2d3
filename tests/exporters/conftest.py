"""Heads that several tests of exports look at."""

from collections.abc import Callable
from functools import cache

import pytest
from quick_heads import QUICK, TUNED, classifiers

from heads.backbone.backbone import Backbone
from heads.classifier.classifier import Classifier
from heads.data.corpus import Corpus, build, numbered


@pytest.fixture(scope="session")
def trained(small: Backbone, rows: Corpus) -> Callable[..., Classifier]:
    """Heads on a tiny BERT by recipe and kind of labels, each trained once; never to be changed."""
    texts, second = rows.texts, [*rows.texts[7:], *rows.texts[:7]]
    corpora = {
        "classes": rows,
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
