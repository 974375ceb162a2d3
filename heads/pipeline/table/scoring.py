"""How well a column would do as the texts, or as the labels: what is in it, then what it is called.

Both are sums of points, each line of which says one thing that texts or labels are. Contents weigh
more than names, so that a date called `tweet_at` is no tweet and a constant called `type` no label;
names decide between columns that look alike. The numbers say what counts for more than what; the
tests hold them to the columns of well-known data sets.
"""

import math
from collections.abc import Mapping, Sequence

from heads.pipeline.table.looks import Look
from heads.pipeline.table.names import (
    ABOUT,
    LABELS,
    OPINIONS,
    PERSONS,
    SURELY,
    TEXTS,
    WEAK,
    plain,
    words,
)

NEVER = -15.0  # for cells that are all the same: a label only where nothing else can be,
CALLED = 5.0  # or where the column is called one: then it is that which lacks a second class
_LONG = 60  # letters: no label is as long


def text_points(name: str, seen: Look) -> float:
    """How well a column would do as the texts: its cells are long, varied, unlike each other."""
    # Twice as long is one point: a title of 30 letters has 5, a review of 500 has 9.
    points = math.log2(1 + min(seen.letters, 2_000))
    points *= 0.4 + 0.6 * seen.sentences  # single words are keywords, names of things
    points *= seen.variety**0.5  # what comes again and again is a label, or an answer to all
    points *= 0.3 + 0.7 * seen.full
    points -= 6 * max(seen.dates, seen.codes) + 3 * seen.markup + 2 * seen.people
    if seen.numbers or seen.lists:
        points -= 6
    if seen.constant:
        points -= 6
    return points + _text_name(name)


def _text_name(name: str) -> float:
    """Up to two and a half points for a name that texts often have."""
    key, parts = plain(name), words(name)
    if key in TEXTS:
        return 2.5 - 1.5 * TEXTS.index(key) / len(TEXTS)
    about = ABOUT & set(parts) or PERSONS & set(parts)
    if about:
        return -1.5
    if any(part in TEXTS for part in parts):
        return 1.2 - 0.7 * next(at for at, known in enumerate(TEXTS) if known in parts) / len(TEXTS)
    return 0.0


def label_points(name: str, seen: Look, *, paired: bool = False, opinion: bool = False) -> float:
    """How well a column would do as the labels: its cells come again, few of them, in few words.

    Args:
        paired: Whether the rows have two texts, which are often labelled by how alike they are.
        opinion: Whether the texts are reviews, which are often labelled with stars.
    """
    if seen.constant and seen.filled and plain(name) in SURELY:
        return CALLED
    points = label_contents(seen)
    named = _label_name(name)
    if paired and seen.fractions:
        points += 6.0
    elif seen.fractions and plain(name) in SURELY:
        points += 3.0  # called the target, it is one that is measured
    if opinion and OPINIONS & set(words(name)) and seen.numbers:
        named += 2.0
    return points + named


def label_contents(seen: Look) -> float:
    """The points for what is in a column of labels."""
    if seen.constant:
        return NEVER
    many = 5 if seen.numbers else 1  # numbers count things as often as they name classes
    # Two labels have 1.7 points, twenty 0.7, two hundred none: the fewer, the clearer.
    points = 2.0 - min(math.log10(many * seen.distinct), 3.0)
    points += 4.0 * (1 - seen.variety) if seen.repeats else 1.0 * (1 - seen.variety)
    points += 0.0 if seen.numbers else 1.0
    points += 2.0 * seen.answers
    points -= 3.0 * (1 - seen.full)
    points -= 6.0 * seen.dates + 2.0 * seen.codes + 1.0 * seen.people * seen.variety
    points -= 5.0 * min(seen.letters / _LONG, 1.0) ** 2
    points -= 2.0 * seen.sentences + 3.0 * seen.markup
    return points


def _label_name(name: str) -> float:
    """Up to six points for a name that labels often have, the clearer the more."""
    key, parts = plain(name), words(name)
    clear = 6.0 - 2.5 / len(LABELS) * LABELS.index(key) if key in LABELS else 0.0
    if key in WEAK:
        return 2.0
    if clear:
        return clear
    about = (ABOUT | PERSONS) & set(parts)
    held = next((known for known in LABELS if known in parts), "")
    if held and about <= {"name"}:  # "Intent Name"
        return 4.5 - 2.5 / len(LABELS) * LABELS.index(held)
    if about:
        return -3.0 if not held else -1.0
    if parts and (parts[0] in ("is", "has") or any(part in WEAK for part in parts)):
        return 1.0
    return 0.0


def is_named(name: str) -> bool:
    """Whether a column is called as labels are."""
    return _label_name(name) > 0


def ranked(points: Mapping[str, float]) -> list[str]:
    """Names by their points, the most first; the first of equals."""
    order: Sequence[str] = list(points)
    return sorted(order, key=lambda name: -points[name])
