"""What a head says of a text once it has been asked: the values that what-ifs compare.

Legend: c classes.
"""

import math
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from itertools import compress
from typing import Any

import torch
from torch import Tensor

from heads.classifier.module import TrainedHead
from heads.errors import DataError
from heads.evaluation.statistics import Squash, answers, competing, probabilities
from heads.pipeline.verdict import counted

LOWEST, HIGHEST = 0.1, 10.0
SOFTMAX = (
    "Softmax lets the classes compete: the numbers add up to 100 %, so one class can only gain "
    "what the others lose. It answers: which one class is it?"
)
SIGMOID = (
    "Sigmoid asks each class by itself: the numbers need not add up to anything, so none of the "
    "classes may apply, or several. It answers: does this class apply, yes or no?"
)
TEMPERATURE = (
    "Every logit is divided by the temperature before it becomes a probability. Above 1 the head "
    "becomes less sure, below 1 more sure; the order of the classes, and so the answer, stays."
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Said:
    """What one head says.

    Attributes:
        name: The head.
        classes: The names of its classes.
        logits: One number a class.
        probabilities: One number a class; of a head that gives numbers, those.
        answer: The classes that it answers; none or several only where several may apply.
        squash: How its logits become probabilities.
        temperature: The one at which it is as sure as it is right, found in its training; 1
            where nobody looked for it.
    """

    name: str
    classes: tuple[str, ...]
    logits: tuple[float, ...]
    probabilities: tuple[float, ...]
    answer: tuple[str, ...]
    squash: Squash
    temperature: float = 1.0

    @property
    def spoken(self) -> str:
        """The answer as a reader would say it."""
        if self.squash == "none":
            return counted(self.classes, self.logits)
        return ", ".join(self.answer) or "none of the classes"

    @property
    def chance(self) -> float | None:
        """The probability of the answer; None where it is not one class."""
        if self.squash in ("none", "sigmoid"):
            return None
        return max(self.probabilities)


@torch.no_grad()
def said(head: TrainedHead, logits: Tensor) -> Said:
    """What a head says, given its logits (c,)."""
    shares = probabilities(logits[None], head.squash)[0]
    chosen = answers(logits[None], head.squash, head.thresholds)[0].tolist()
    return Said(
        name=f"own ({head.recipe})" if head.is_own else str(head.recipe),
        classes=head.classes,
        logits=tuple(logits.tolist()),
        probabilities=tuple(shares.tolist()),
        answer=() if head.numbers else tuple(compress(head.classes, chosen)),
        squash=head.squash,
        temperature=head.temperature,
    )


def tempered(
    logits: Sequence[float], temperature: float, squash: Squash = "softmax"
) -> tuple[float, ...]:
    """Probabilities of logits that are divided by a temperature; no forward pass.

    Of one-versus-rest the logarithms of the sigmoids are divided; numbers stay what they are.

    >>> [round(share, 3) for share in tempered([2.0, 0.0], 1)]
    [0.881, 0.119]
    >>> [round(share, 3) for share in tempered([2.0, 0.0], 10)]
    [0.55, 0.45]

    Raises:
        DataError: The temperature is not between a tenth and ten.
    """
    if not (math.isfinite(temperature) and LOWEST <= temperature <= HIGHEST):
        what = f"The temperature must lie between {LOWEST:g} and {HIGHEST:g}."
        raise DataError(what, "1 leaves the logits as they are.")
    given = torch.tensor([list(logits)], dtype=torch.float64)
    if squash == "none":
        return tuple(logits)
    if squash == "sigmoid":
        return tuple((given / temperature).sigmoid()[0].tolist())
    return tuple((competing(given, squash) / temperature).softmax(dim=1)[0].tolist())


@dataclass(frozen=True, slots=True, kw_only=True)
class Reading:
    """The same logits of one head read in several ways.

    Attributes:
        said: What the head says, read as it was trained.
        softmax: One probability a class where classes compete; none of a number.
        sigmoid: One probability a class where each is asked by itself; none of a number.
        temperature: What the logits were divided by for `tempered`.
        tempered: One probability a class, read as the head was trained, at that temperature.
    """

    said: Said
    softmax: tuple[float, ...]
    sigmoid: tuple[float, ...]
    temperature: float
    tempered: tuple[float, ...]

    def as_json(self) -> dict[str, Any]:
        """All of it as plain values."""
        facts = asdict(self)
        return facts.pop("said") | facts


def reading(said: Said, temperature: float = 1.0) -> Reading:
    """Reads what a head has said by the softmax, by one sigmoid a class, and at a temperature.

    Raises:
        DataError: The temperature is not between a tenth and ten.
    """
    is_number = said.squash == "none"
    return Reading(
        said=said,
        softmax=() if is_number else tempered(said.logits, 1.0),
        sigmoid=() if is_number else tempered(said.logits, 1.0, "sigmoid"),
        temperature=temperature,
        tempered=tempered(said.logits, temperature, said.squash),
    )
