"""What a head says of a text once it has been asked: logits, probabilities and the answer."""

import math
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from itertools import compress
from typing import Any

import torch
from torch import Tensor

from heads import display
from heads.classifier.classifier import Classifier
from heads.classifier.inputs import HeadInputs
from heads.classifier.module import TrainedHead
from heads.data.corpus import check_text
from heads.errors import DataError
from heads.problem import MULTI_LABEL, SINGLE_LABEL, ProblemType, plain

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


def spell_numbers(names: Sequence[str], numbers: Sequence[float]) -> str:
    """Return numbers as a reader would say them, each with its name where there are several.

    >>> spell_numbers(["label"], [-1.5]), spell_numbers(["calm", "loud"], [0.25, 3])
    ('−1.50', 'calm +0.25, loud +3.00')
    """
    told = [f"{value:+.2f}".replace("-", "−") for value in numbers]
    if len(told) == 1:
        return told[0]
    return ", ".join(map(" ".join, zip(names, told, strict=True)))


def spell_classes(answer: Sequence[str]) -> str:
    """Return the classes of an answer as a reader would say them."""
    return ", ".join(answer) or "none of the classes"


@dataclass(frozen=True, slots=True, kw_only=True)
class HeadOutput:
    """What one head says.

    Attributes:
        logits: One number a class.
        probabilities: One number a class; of a head that gives numbers, those.
        answer: The classes that it answers; none or several only where several may apply.
        temperature: The one at which it is as sure as it is right, found in its training; 1
            where nobody looked for it.
    """

    name: str
    classes: tuple[str, ...]
    logits: tuple[float, ...]
    probabilities: tuple[float, ...]
    answer: tuple[str, ...]
    problem: ProblemType
    temperature: float = 1.0

    @property
    def spoken(self) -> str:
        """The answer as a reader would say it."""
        if not self.problem.has_classes:
            return spell_numbers(self.classes, self.logits)
        return spell_classes(self.answer)

    @property
    def chance(self) -> float | None:
        """The probability of the answer; None where it is not one class."""
        if not self.problem.is_exclusive:
            return None
        return max(self.probabilities)


@torch.no_grad()
def head_output(head: TrainedHead, logits: Tensor) -> HeadOutput:
    """Return what a head says, given its logits (c,)."""
    shares = head.problem.probabilities(logits[None])[0]
    chosen = head.problem.chosen(logits[None], head.thresholds)[0].tolist()
    return HeadOutput(
        name=head.name,
        classes=head.classes,
        logits=tuple(logits.tolist()),
        probabilities=tuple(shares.tolist()),
        answer=() if head.problem.gives_number else tuple(compress(head.classes, chosen)),
        problem=head.problem,
        temperature=head.temperature,
    )


def check_texts(text: str, pair: str) -> list[str]:
    """Return one or two texts, cut to the longest that is read; raise DataError for blank ones."""
    second = [check_text(pair, "second sentence")] if pair.strip() else []
    return [check_text(text), *second]


def head_outputs(
    classifiers: Sequence[Classifier], text: str, pair: str = ""
) -> tuple[HeadOutput, ...]:
    """Return what each head says of a text and its pair; base models encode them once."""
    texts = check_texts(text, pair)
    inputs, outputs = dict[int, HeadInputs](), list[HeadOutput]()
    for head, base in ((one.head, one.backbone.untuned) for one in classifiers):
        shared = inputs.setdefault(id(base.model), HeadInputs(base, texts[:1], texts[1:]))
        shared.encode([head])
        outputs.append(head_output(head, shared.logits(head)[0]))
    return tuple(outputs)


def tempered_probabilities(
    logits: Sequence[float], temperature: float, problem: ProblemType = SINGLE_LABEL
) -> tuple[float, ...]:
    """Return the probabilities of logits divided by a temperature.

    Of one-versus-rest the logarithms of the sigmoids are divided; numbers stay what they are.

    >>> [round(share, 3) for share in tempered_probabilities([2.0, 0.0], 1)]
    [0.881, 0.119]
    >>> [round(share, 3) for share in tempered_probabilities([2.0, 0.0], 10)]
    [0.55, 0.45]

    Raises:
        DataError: The temperature is not between a tenth and ten.
    """
    if not (math.isfinite(temperature) and LOWEST <= temperature <= HIGHEST):
        what = f"The temperature must lie between {LOWEST:g} and {HIGHEST:g}."
        raise DataError(what, "1 leaves the logits as they are.")
    given = torch.tensor([list(logits)], dtype=torch.float64)
    return tuple(problem.probabilities(given, temperature)[0].tolist())


@dataclass(frozen=True, slots=True, kw_only=True)
class Reading(display.Displayed):
    """The same logits of one head read in several ways.

    Attributes:
        said: What the head says, read as it was trained.
        softmax: One probability a class where classes compete; none of a number.
        sigmoid: One probability a class where each is asked by itself; none of a number.
        temperature: What the logits were divided by for `tempered`.
        tempered: One probability a class, read as the head was trained, at that temperature.
    """

    said: HeadOutput
    softmax: tuple[float, ...]
    sigmoid: tuple[float, ...]
    temperature: float
    tempered: tuple[float, ...]

    def as_json(self) -> dict[str, Any]:
        """All of it as plain values."""
        facts = asdict(self, dict_factory=plain)
        return facts.pop("said") | facts


def read_output(said: HeadOutput, temperature: float = 1.0) -> Reading:
    """Read what a head has said by the softmax, by one sigmoid a class, and at a temperature.

    Raises:
        DataError: The temperature is not between a tenth and ten.
    """
    is_number = not said.problem.has_classes
    return Reading(
        said=said,
        softmax=() if is_number else tempered_probabilities(said.logits, 1.0),
        sigmoid=() if is_number else tempered_probabilities(said.logits, 1.0, MULTI_LABEL),
        temperature=temperature,
        tempered=tempered_probabilities(said.logits, temperature, said.problem),
    )
