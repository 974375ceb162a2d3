"""One text and trained heads to what each of them says.

Legend: c classes, t tokens.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import compress

import torch

from heads.classifier.inputs import HeadInputs
from heads.classifier.module import TrainedHead
from heads.evaluation.statistics import Scores
from heads.parts.modules import is_idle, last_linear, words
from heads.problem import ProblemType
from heads.recipe import Recipe

UNDECIDED = "undecided"
NEAR = 0.05  # points of probability that are too close where no accuracy is known


@dataclass(frozen=True, slots=True, kw_only=True)
class Prediction:
    """What one head says of one text.

    Attributes:
        recipe: Which head, as it was asked for.
        name: What it is called beside others: the recipe, or that it came with the checkpoint.
        classes: The names of its classes, in the order of its logits.
        problem: What it was trained for: by it logits become probabilities and answers.
        logits: One number a class, before softmax or sigmoid.
        probabilities: One number a class, after it.
        answer: The classes it decides for; none or several only where several may apply, and
            none where it gives a number.
        thresholds: The probability from which each class is given, where several may apply.
        margin: How far the answer's probability lies above the next (0 to 1); where several
            classes may apply, how far the least certain one lies from its threshold (0 to 1).
        parameters: How many numbers the head has learned.
        base_parameters: How many of the base model it has learned besides.
        trained_on: The name of the data, and on how many of its rows.
        rows: On how many rows.
        scores: Its scores on the rows held out, or None where nobody here knows.
        new: Those of its tensors that are random, since the checkpoint lacks them.
        reads: Each token with the share of the pooled vector that it gives; two texts that are
            read each by itself stand one after the other.
        layers: What the head does with the pooled vector, a few words a layer.
    """

    recipe: Recipe
    name: str
    classes: tuple[str, ...]
    problem: ProblemType
    logits: tuple[float, ...]
    probabilities: tuple[float, ...]
    answer: tuple[str, ...]
    thresholds: tuple[float, ...] = ()
    margin: float
    parameters: int
    trained_on: str
    rows: int
    scores: Scores | None
    new: tuple[str, ...]
    base_parameters: int = 0
    reads: tuple[tuple[str, float], ...] = ()
    layers: tuple[str, ...] = ()

    @property
    def is_undecided(self) -> bool:
        """Whether its answer is too close to call; see `is_close`."""
        return is_close(self.probabilities, self)


def is_close(probabilities: Sequence[float], head: TrainedHead | Prediction) -> bool:
    """Return whether the two highest probabilities are too close for an answer.

    By convention they are where they differ by less than half the 95 % interval of the head's
    accuracy on held-out rows, or by less than 5 points where no accuracy is known. The answer of a
    random head means nothing, so it is never too close.
    """
    if head.new or not head.problem.is_exclusive or len(probabilities) < 2:
        return False
    scores = head.scores
    first, second = sorted(probabilities, reverse=True)[:2]
    if scores is None or scores.metric != "accuracy":
        return first - second < NEAR
    return first - second < (scores.high - scores.low) / 2


@torch.no_grad()
def predict(inputs: HeadInputs, head: TrainedHead) -> Prediction:
    """Return what a head says of one text, or of one pair."""
    logits = inputs.logits(head)  # (1, c)
    probabilities = head.problem.probabilities(logits)[0].tolist()
    chosen = head.problem.chosen(logits, head.thresholds)[0].tolist()
    cuts, last = cuts_of(head), last_linear(head.module.head)
    layers = [(name, layer) for name, layer in head.layers if not is_idle(layer)]
    return Prediction(
        recipe=head.asked.recipe,
        name=head.name,
        classes=head.classes,
        problem=head.problem,
        logits=tuple(logits[0].tolist()),
        probabilities=tuple(probabilities),
        answer=tuple(compress(head.classes, chosen)) if head.problem.has_classes else (),
        thresholds=cuts,
        margin=_margin(cuts, probabilities),
        parameters=head.parameters,
        base_parameters=head.base_parameters,
        trained_on=head.trained_on,
        rows=head.rows,
        scores=head.scores,
        new=head.new,
        reads=inputs.reads(head),
        layers=tuple(words(layer, is_last=name == last) for name, layer in layers),
    )


def cuts_of(head: TrainedHead) -> tuple[float, ...]:
    """The probability from which each class is given; nothing where one of them applies."""
    if not head.problem.has_label_sets:
        return ()
    logits = torch.tensor(head.thresholds or [0.0] * len(head.classes))
    return tuple(logits.sigmoid().tolist())


def _margin(cuts: Sequence[float], shares: Sequence[float]) -> float:
    if cuts:
        return min(
            (share - cut) / (1 - cut) if share > cut else (cut - share) / cut
            for share, cut in zip(shares, cuts, strict=True)
        )
    best = sorted(shares, reverse=True)
    return best[0] - best[1] if len(best) > 1 else 0.0
