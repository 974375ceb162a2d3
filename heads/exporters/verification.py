"""Verify an export by its logits on a few texts before it is offered."""

import re
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np
from torch import Tensor, nn

from heads.backbone.backbone import Backbone
from heads.classifier.calibration import CALIBRATED
from heads.classifier.classifier import Classifier
from heads.errors import CheckpointError, HeadsError, ModelError

SENTENCE = "We sat at the gate for two hours, and nobody told us why."
TEXTS = (
    "no",
    " The flight\x07 was  late.\r\n",  # an export must not clean texts
    "C\u0327a va? [SEP] it was late </s> and then it was cancelled <|endoftext|> 😀",
    " ".join([SENTENCE] * 20),
)
PAIRS = ("yes", "It was cancelled twice.", "a", "The dog ran home.")
MAX_TOKENS = 2_048  # of a text to try an export on: attention to many more fills memory
MOST_DIFFERENCE = 5e-5  # what rounding comes to where a logit of 1 is the sum of terms of 50 in all
USUAL_NORM = 25.0  # of a row of weights: 1e-6 in each vector then moves a logit by 2.5e-5 at most
Batch = tuple[Any, Sequence[str]]
Reads = Callable[[Any, Sequence[str]], Tensor]  # texts and second texts to logits (texts, classes)


def verify_logits(
    classifier: Classifier,
    theirs: Reads,
    *,
    most: float,
    padded: bool = True,
    takes_pairs: bool = True,
) -> tuple[int, float]:
    """Compare an export's logits with ours; return the number of texts and the largest difference.

    Args:
        theirs: Returns the export's logits of texts and second texts, or none.
        most: The largest difference of logits allowed; relative where they are above 1, or where
            the head multiplies rounding (`rounding_gain`).
        padded: Whether texts of different lengths may stand in one batch.
        takes_pairs: Whether the export encodes two texts as one sequence.

    Raises:
        CheckpointError: The export fails, or differs by more.
    """
    count, largest, gain = 0, 0.0, rounding_gain(classifier)
    takes_pairs &= classifier.head.module.reader.resolved.takes_pairs
    for texts, pairs in _iter_batches(classifier, padded):
        if pairs and not takes_pairs:
            continue
        try:
            ours = classifier.logits(texts, pairs)
        except ModelError:
            continue  # some base models cannot encode such texts: Funnel's a single word
        difference = (_run(classifier, theirs, texts, pairs) - ours).abs()
        worst = float(difference.max())
        # The comparison is negated because NaN must fail as well.
        if not (difference <= most * ours.abs().clamp(min=gain)).all():
            what = f"The export of {classifier.recipe} gives logits that differ by {worst:.2g}"
            raise CheckpointError(f"{what} from ours.", "It was not kept.")
        count, largest = count + len(texts), max(largest, worst)
    if not count:
        what = f"{classifier.backbone.id} reads none of the texts to try it on."
        raise CheckpointError(what, "Choose another base model.")
    return count, largest


def rounding_gain(classifier: Classifier) -> float:
    """Return how many times the rounding of usual heads a head's logits carry; 1 for usual heads.

    Large weights, of dimensions that hardly vary, multiply the rounding of the base model's
    vectors. A temperature below 1 in the last layer multiplies that of the logits.
    """
    head = classifier.head
    norms = [
        float(layer.weight.norm(dim=1).max()) / USUAL_NORM
        for layer in head.module.head.modules()
        if isinstance(layer, nn.Linear)
    ]
    return max(1.0, 1 / float(head.chosen.get(CALIBRATED, 1.0)), *norms)


def example(classifier: Classifier) -> Batch | None:
    """Return vectors, and no second ones, for a head trained on vectors; None for any other."""
    if not classifier.backbone.is_given:
        return None
    rng = np.random.default_rng(0)
    vectors = rng.standard_normal((len(TEXTS), classifier.backbone.width)).astype(np.float32)
    return vectors / np.linalg.norm(vectors, axis=1, keepdims=True), ()


def _run(classifier: Classifier, theirs: Reads, texts: Any, pairs: Sequence[str]) -> Tensor:
    try:
        logits = theirs(texts, pairs)
        if logits.shape != (len(texts), len(classifier.classes)):
            raise ValueError(f"logits of shape {tuple(logits.shape)}")
        return logits
    except HeadsError:
        raise
    except Exception as error:
        reason = f"{type(error).__name__}: {first_line(error)}"
        what = f"The export of {classifier.recipe} does not run ({reason})."
        raise CheckpointError(what, "It was not kept.") from error


def _iter_batches(classifier: Classifier, padded: bool) -> Iterator[Batch]:
    """Yield texts of several lengths: alone, in batches of one length, in padded ones, in pairs."""
    if batch := example(classifier):
        yield batch
        return
    needs_pairs = classifier.head.needs_pairs
    for text, pair in zip(TEXTS, PAIRS, strict=True):
        yield [text], [pair] * needs_pairs
        yield [text] * 3, [pair] * 3
    if padded:
        yield TEXTS[:2], PAIRS[:2] * needs_pairs
        yield TEXTS, PAIRS * needs_pairs
        yield TEXTS * 2, PAIRS * 2
    if text := long_text(classifier.backbone):
        yield [text], PAIRS[:1] * needs_pairs


def long_text(backbone: Backbone) -> str:
    """Return a text that the base model must cut or read in windows; "" if one of `TEXTS` is."""
    reach = min(backbone.reach, 2 * backbone.tokens, MAX_TOKENS)  # 64 windows would take minutes
    encoded = backbone.encode([TEXTS[-1], SENTENCE, f"{SENTENCE} {SENTENCE}"])
    longest, once, twice = (text.whole_length for text in encoded)
    return "" if longest > reach else " ".join([SENTENCE] * (reach // max(1, twice - once) + 1))


def first_line(error: BaseException) -> str:
    """Return the first line of an error's message as part of a sentence: short, without colours."""
    line = re.sub(r"\x1b\[[\d;]*m", "", str(error)).strip().split("\n", 1)[0]
    return "".join(letter for letter in line if letter.isprintable())[:160].rstrip(". ")
