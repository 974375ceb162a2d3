"""Texts on which an export is tried before it is offered, with the logits that we give them.

Legend: n texts, c classes.
"""

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
MOST_DIFFERENCE = 5e-5  # what rounding comes to where a logit of 1 is the sum of terms of 50 in all
USUAL_NORM = 25.0  # of a row of weights: 1e-6 in each vector then moves a logit by 2.5e-5 at most
PAIRS = ("yes", "It was cancelled twice.", "a", "The dog ran home.")
MOST_TOKENS = 2_048  # of a text to try an export on: attention to many more fills memory
Batch = tuple[Any, Sequence[str]]
Reads = Callable[[Any, Sequence[str]], Tensor]


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
        theirs: Texts and second texts, or none, to the export's logits (n, c).
        most: The most by which logits may differ; in proportion where they are above 1, or where
            the head multiplies rounding (`rounding_gain`).
        padded: Whether texts of different lengths may stand in one batch.
        takes_pairs: Whether two texts may be read as one sequence.

    Raises:
        CheckpointError: The export fails, or differs by more.
    """
    count, largest = 0, 0.0
    least = rounding_gain(classifier)
    given = example(classifier)
    for texts, pairs in [given] if given else _batches(classifier, padded):
        if pairs and not (takes_pairs and classifier.head.module.reader.resolved.takes_pairs):
            continue
        try:
            ours = classifier.logits(texts, pairs)
        except ModelError:
            continue  # a base model that cannot read such texts at all: Funnel's a single word
        difference = (_read(classifier, theirs, (texts, pairs)) - ours).abs()
        worst = float(difference.max())
        # The comparison is negated because NaN must fail as well.
        if not bool((difference <= most * ours.abs().clamp(min=least)).all()):
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
    """Vectors, and no second ones, for a head that learned from vectors; None for any other."""
    if not classifier.backbone.is_given:
        return None
    rng = np.random.default_rng(0)
    drawn = rng.standard_normal((len(TEXTS), classifier.backbone.width)).astype(np.float32)
    return drawn / np.linalg.norm(drawn, axis=1, keepdims=True), ()


def _read(classifier: Classifier, theirs: Reads, batch: Batch) -> Tensor:
    try:
        logits = theirs(*batch)
        if logits.shape != (len(batch[0]), len(classifier.classes)):
            raise ValueError(f"logits of shape {tuple(logits.shape)}")
        return logits
    except HeadsError:
        raise
    except Exception as error:
        said = f"{type(error).__name__}: {first_line(error)}"
        what = f"The export of {classifier.recipe} does not run ({said})."
        raise CheckpointError(what, "It was not kept.") from error


def _batches(classifier: Classifier, padded: bool) -> Iterator[Batch]:
    """Texts of several lengths: alone, in batches of one length, in padded ones, in pairs."""
    paired = classifier.head.needs_pairs  # whether there are always two texts
    for text, pair in zip(TEXTS, PAIRS, strict=True):
        yield [text], [pair] * paired
        yield [text] * 3, [pair] * 3
    if padded:
        yield TEXTS[:2], PAIRS[:2] * paired
        yield TEXTS, PAIRS * paired
        yield TEXTS * 2, PAIRS * 2
    if text := longer(classifier.backbone):
        yield [text], list(PAIRS[:1] * paired)


def longer(backbone: Backbone) -> str:
    """A text that the base model does not read to its end at once; "" where one of `TEXTS` is it.

    An export must cut it where we do, or read it in as many windows. That takes a text that goes
    beyond `Backbone.reach`, or beyond two windows, for 64 of them would take minutes.
    """
    *_, longest = TEXTS
    reach = min(backbone.reach, 2 * backbone.tokens, MOST_TOKENS)
    have, one, two = (
        text.whole_length for text in backbone.encode([longest, SENTENCE, f"{SENTENCE} {SENTENCE}"])
    )
    if have > reach:
        return ""
    return " ".join([SENTENCE] * (reach // max(1, two - one) + 1))


def first_line(error: BaseException, most: int = 160) -> str:
    """What an error says, as far as it belongs into a sentence."""
    said = re.sub(r"\x1b\[[\d;]*m", "", str(error)).strip().split("\n", 1)[0]  # without colours
    return "".join(letter for letter in said if letter.isprintable())[:most].rstrip(". ")
