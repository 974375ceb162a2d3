"""Training one head on one's own texts, from the outside: by name, in one call."""

from collections.abc import Iterator
from pathlib import Path

from heads.backbone.loading import load
from heads.backbone.models import BUNDLED
from heads.classifier import pretrained
from heads.classifier.classifier import Classifier
from heads.classifier.pretrained import OWN
from heads.data.corpus import Corpus
from heads.data.dataset import read as read_file
from heads.data.files import place_of
from heads.data.samples import SAMPLES
from heads.errors import LimitError
from heads.events import Progress
from heads.parts.resolve import resolve
from heads.recipe import Recipe
from heads.settings import Limits
from heads.settings import limits as limits_here
from heads.training.sampled import corpus_of, trained


def train(
    recipe: Recipe | str,
    data: str | Path,
    *,
    model: str = BUNDLED,
    limits: Limits | None = None,
) -> Classifier:
    """Trains a head on a frozen base model, or finds it where it was trained before.

    Args:
        recipe: For example ``"cls+roberta"``.
        data: A sample (sentiment, intents, pairs, aspects), or a CSV, TSV, JSONL or Parquet
            file, or a folder saved by `datasets`, with a column of texts and one of labels.
        model: The bundled base model, a Hub id, or a folder.

    Returns:
        A classifier, with its scores on a quarter of the rows that were held out.

    Raises:
        HeadsError: Anything that does not fit, in one sentence.
    """
    for event in training(recipe, data, model=model, limits=limits):
        if isinstance(event, Classifier):
            return event
    raise AssertionError("training ends in its result")


def training(
    recipe: Recipe | str,
    data: str | Path,
    *,
    model: str = BUNDLED,
    limits: Limits | None = None,
) -> Iterator[Progress | Classifier]:
    """The same as `train`, as a stream; the recipe may be "own", which needs no data."""
    limits = limits or limits_here()
    own = isinstance(recipe, str) and recipe.strip().lower() == OWN
    order = None if own else resolve(recipe)
    corpus = None if own else corpus_named(data, limits)
    yield Progress(says=f"Loading {model}", share=0.0)
    if order is None or corpus is None:
        yield pretrained.load(model, limits=limits)
        return
    backbone = load(model, limits=limits)
    head = (yield from trained([order.recipe], corpus, backbone, limits))[0]
    yield Classifier(backbone=backbone, head=head)


def corpus_named(data: str | Path, limits: Limits) -> Corpus:
    """The texts of a sample or of a file.

    Raises:
        DataError: There is neither, or the file cannot be used.
        LimitError: A file, where only samples are allowed.
    """
    if str(data) in SAMPLES:
        return corpus_of(SAMPLES[str(data)], limits)
    if limits.public:
        raise LimitError("Files are for local use.", f"Choose a sample: {', '.join(SAMPLES)}.")
    return read_file(place_of(data), limits).corpus
