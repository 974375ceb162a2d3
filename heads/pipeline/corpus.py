"""Texts and their labels as a `Corpus`, and fair splits of it.

Every text, wherever it comes from, passes `gate` before a tokenizer sees it.
"""

import hashlib
import random
import re
import unicodedata
from collections.abc import Sequence
from dataclasses import dataclass

from heads.errors import DataError
from heads.settings import Limits

SEPARATOR = "|"
# Control characters but for new line and tab, and lone surrogates, on which tokenizers fail.
CONTROLS = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\ud800-\udfff]")


@dataclass(frozen=True, slots=True, kw_only=True)
class Corpus:
    """Labelled texts.

    Attributes:
        name: How the user knows it.
        texts: One text a row.
        pairs: The second text of each row; empty where rows hold one text.
        classes: The names of the classes, in the order of the logits.
        targets: For each row the numbers of its classes: one, or any number for `many`.
        many: Whether a row may have any number of classes.
        fingerprint: A digest of all of it.
        lines: The line of the file on which each row begins; empty where there is no file.
        parts: "train", "validation" or "test" for each row; empty where no split is given.
    """

    name: str
    texts: tuple[str, ...]
    pairs: tuple[str, ...]
    classes: tuple[str, ...]
    targets: tuple[tuple[int, ...], ...]
    many: bool
    fingerprint: str
    lines: tuple[int, ...] = ()
    parts: tuple[str, ...] = ()

    def __len__(self) -> int:
        return len(self.texts)


def gate(text: object, limits: Limits, what: str = "sentence") -> str:
    r"""Lets a text in: cut to a stated length, in NFC, without control characters.

    >>> gate("  cafe\u0301 \x07 ", Limits())
    'café'

    Raises:
        DataError: It is no text, or nothing is left of it.
    """
    if not isinstance(text, str):
        raise DataError(f"The {what} must be a text, not {type(text).__name__}.", "Type it.")
    most = limits.text_characters
    text = unicodedata.normalize("NFC", text[:most])[:most]  # which can make a text longer
    text = CONTROLS.sub("", text).strip()
    if not text:
        raise DataError(f"The {what} is empty.", f"Type a {what} first.")
    return text


def folded(text: str, pair: str = "") -> str:
    r"""What two rows share that repeat each other: without case and spaces.

    >>> folded("Not  bad.\n") == folded("not bad. ")
    True
    """
    return " ".join(text.casefold().split()) + "\n" + " ".join(pair.casefold().split())


def build(
    name: str,
    texts: Sequence[str],
    labels: Sequence[str],
    pairs: Sequence[str] = (),
    separator: str = SEPARATOR,
    parts: Sequence[str] = (),
) -> Corpus:
    """Makes a corpus of gated texts and the cells of a label column.

    Args:
        separator: Where a label holds it, rows may have any number of labels, and an empty
            cell means none; "" means one label a row.

    Raises:
        DataError: Fewer than two classes, or a row without a label where rows have one.
    """
    many = bool(separator) and any(separator in label for label in labels)
    sets = [
        sorted({part.strip() for part in label.split(separator)} - {""}) if many
        else [label.strip()]
        for label in labels
    ]  # fmt: skip
    empty = next((n for n, names in enumerate(sets, start=2) if names == [""]), None)
    if empty:
        raise DataError(f"Row {empty} of {name} has no label.", "Give it one.", line=empty)
    classes = sorted({label for names in sets for label in names})
    if len(classes) < 2:
        found = f"found only '{classes[0]}'" if classes else "found none"
        raise DataError(f"{name} needs at least 2 classes; {found}.", "Add rows of another class.")
    number = {label: index for index, label in enumerate(classes)}
    told = (list(texts), list(pairs), sets, *([list(parts)] if parts else []))
    digest = hashlib.sha256(repr(told).encode())
    return Corpus(
        name=name,
        texts=tuple(texts),
        pairs=tuple(pairs),
        classes=tuple(classes),
        targets=tuple(tuple(number[label] for label in names) for names in sets),
        many=many,
        fingerprint=digest.hexdigest(),
        parts=tuple(parts),
    )


def twins(corpus: Corpus) -> list[int]:
    """For each row the number of the first row with the same texts, but for case and spaces."""
    first: dict[str, int] = {}
    seconds = corpus.pairs or [""] * len(corpus)
    keys = (folded(*pair) for pair in zip(corpus.texts, seconds, strict=True))
    return [first.setdefault(key, row) for row, key in enumerate(keys)]


def split(corpus: Corpus, share: float, seed: int) -> tuple[list[int], list[int]]:
    """Row numbers to train on and to hold out, every class in proportion.

    Rows are shuffled, laid out class by class, and every so-manieth one is held out. Rows that
    repeat each other stay together, so that no text is both trained on and scored.

    Args:
        share: The share that is held out, between 0 and 1.

    Returns:
        The rows to train on and the rows held out, each in ascending order.
    """
    groups: dict[int, list[int]] = {}
    for row, first in enumerate(twins(corpus)):
        groups.setdefault(first, []).append(row)
    order = list(groups)
    random.Random(seed).shuffle(order)
    order.sort(key=lambda row: corpus.targets[row])  # stable: shuffled within a class
    rows, held, seen = [], [], 0
    for first in order:
        group = groups[first]
        seen += len(group)
        fits = len(held) + len(group) <= int(seen * share)
        (held if fits else rows).extend(group)
    return sorted(rows), sorted(held)
