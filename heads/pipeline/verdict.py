"""Who agrees on what, in a sentence or two."""

from collections import Counter
from collections.abc import Sequence

from heads.classifier.prediction import Prediction


def verdict(predictions: Sequence[Prediction]) -> str:
    """Who agrees on what; a random head and one with classes of its own are not counted."""
    known = _known(predictions)
    if not known:
        return f"{predictions[0].name} is a random head: what it says means nothing."
    first = kinds(next((p for p in known if p.scores), known[0]).classes)
    alike = [p for p in known if kinds(p.classes) == first and not p.numbers] or known[:1]
    if all(p.squash == "none" for p in known):
        return _each(known)
    others = [p for p in known if p not in alike]
    told = f" Of its own classes, {_each(others)}" if others else ""
    return _among(alike) + told


def is_unanimous(predictions: Sequence[Prediction]) -> bool:
    """Whether all heads give the same answer."""
    known = _known(predictions)
    if any(prediction.squash == "none" for prediction in known):
        return False  # numbers agree more or less
    return len({_key(prediction) for prediction in known}) <= 1


def _known(predictions: Sequence[Prediction]) -> list[Prediction]:
    return [prediction for prediction in predictions if not prediction.new]


def said(prediction: Prediction) -> str:
    """What a head answers, as a reader would say it: classes, or numbers."""
    if not prediction.numbers:
        return spoken(prediction.answer)
    return counted(prediction.classes, prediction.logits)


def counted(names: Sequence[str], numbers: Sequence[float]) -> str:
    """Numbers as a reader would say them, each with its name where there are several.

    >>> counted(["label"], [-1.5]), counted(["calm", "loud"], [0.25, 3])
    ('−1.50', 'calm +0.25, loud +3.00')
    """
    told = [f"{value:+.2f}".replace("-", "−") for value in numbers]
    if len(told) == 1:
        return told[0]
    return ", ".join(map(" ".join, zip(names, told, strict=True)))


def spoken(answer: Sequence[str]) -> str:
    """The classes of an answer as a reader would say them."""
    return ", ".join(answer) or "none of the classes"


def kinds(classes: Sequence[str]) -> frozenset[str]:
    """The classes, however they are written: POSITIVE is positive."""
    return frozenset(name.casefold() for name in classes)


def _among(predictions: Sequence[Prediction]) -> str:
    count = Counter(_key(prediction) for prediction in predictions)
    most, votes = count.most_common(1)[0]
    answer = next(p.answer for p in predictions if _key(p) == most)
    if len(predictions) == 1:
        return f"{predictions[0].name} says {said(predictions[0])}."
    if votes == len(predictions):
        everyone = "Both" if votes == 2 else f"All {votes}"
        return f"{everyone} heads agree: {spoken(answer)}."
    if votes == 1:
        number = "two" if len(predictions) == 2 else f"{len(predictions)}"
        return f"The {number} heads disagree: {_each(predictions)}"
    if list(count.values()).count(votes) > 1:
        return f"The heads are split: {_each(predictions)}"
    rest = [p for p in predictions if _key(p) != most]
    return f"{votes} of {len(predictions)} heads agree: {spoken(answer)}. {_each(rest)}"


def _key(prediction: Prediction) -> frozenset[str]:
    return kinds(prediction.answer)


def _each(predictions: Sequence[Prediction]) -> str:
    return "; ".join(f"{p.name} {_verb(p)} {said(p)}" for p in predictions) + "."


def _verb(prediction: Prediction) -> str:
    return "gives" if prediction.numbers else "says"
