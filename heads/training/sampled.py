"""Heads trained on the samples: found where they are kept, or trained then and there."""

from collections.abc import Generator, Sequence
from functools import cache

from heads.backbone.backbone import Backbone
from heads.classifier import head_cache
from heads.classifier.module import TrainedHead
from heads.data.corpus import SEPARATOR, Corpus
from heads.data.dataset import read
from heads.data.samples import Sample, sample
from heads.data.table import Columns
from heads.errors import DataError
from heads.events import Progress
from heads.recipe import Recipe
from heads.settings import Limits, TrainingConfig
from heads.training.trainer import Trained, train


def sample_for(name: str, pair: str) -> Sample:
    """The sample of that name, or the one that suits one or two sentences.

    Raises:
        DataError: There is none of that name, or it does not suit.
    """
    data = sample(name or ("pairs" if pair.strip() else "sentiment"))
    if data.pair and not pair.strip():
        what = f"The sample '{data.name}' compares two sentences; the second one is empty."
        raise DataError(what, "Type a second sentence, or choose another sample.")
    if pair.strip() and not data.pair:
        what = f"The sample '{data.name}' is about one sentence, and there are two."
        hint = "Empty the second sentence, or choose the sample pairs or similarity."
        raise DataError(what, hint)
    return data


@cache
def corpus_of(data: Sample, limits: Limits) -> Corpus:
    """The rows of a sample, read once; in the samples `|` stands between labels."""
    columns = Columns(
        text="text_a" if data.pair else "text",
        label="label",
        pair="text_b" if data.pair else "",
        separator="" if data.number else SEPARATOR,
        number=data.number,
    )
    return read(data.path, limits, columns).corpus


def trained(
    recipes: Sequence[Recipe],
    corpus: Corpus,
    backbone: Backbone,
    limits: Limits,
    settings: TrainingConfig | None = None,
) -> Generator[Progress, None, list[TrainedHead]]:
    """Finds heads that were trained on these texts before, and trains those that were not.

    Yields:
        Progress while it trains.

    Returns:
        The heads, in the order of the recipes.
    """
    settings = settings or TrainingConfig()
    keys = {
        recipe: head_cache.fingerprint(recipe, corpus, backbone, settings) for recipe in recipes
    }
    recalled = {recipe: head_cache.recall(key, backbone, limits) for recipe, key in keys.items()}
    found = {recipe: head for recipe, head in recalled.items() if head}
    missing = [recipe for recipe in recipes if recipe not in found]
    if missing:
        for event in train(missing, corpus, backbone, training=settings, limits=limits):
            if isinstance(event, Trained):
                found[event.head.recipe] = event.head
                head_cache.keep(keys[event.head.recipe], event.head)
            else:
                yield event
    return [found[recipe] for recipe in recipes]
