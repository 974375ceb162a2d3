"""Minimal pairs: a text, the same text with a word changed, and which heads change their answer.

Words are compared exactly in stretches of a hundred; longer texts are first cut at words that
stand once in each of them (patience diff), for an exact comparison takes the cube of their length.
"""

import difflib
from bisect import bisect_left
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from itertools import islice
from typing import Any, Literal

import torch

from heads import display, interruption
from heads.classifier.classifier import Classifier
from heads.errors import DataError, LimitError
from heads.interpret.budget import check_passes, products_of
from heads.interpret.outputs import HeadOutput, check_texts, head_output
from heads.problem import plain
from heads.settings import current_limits

COMPARED = 100  # words on each side that are compared exactly
SUGGESTED = 6
ENDS = ".,;:!?"
OPPOSITES = (
    ("not", ""), ("never", "always"), ("no", "some"), ("good", "bad"), ("best", "worst"),
    ("better", "worse"), ("great", "terrible"), ("love", "hate"), ("loved", "hated"),
    ("lovely", "ugly"), ("more", "less"), ("and", "but"), ("but", "and"), ("happy", "sad"),
    ("easy", "hard"), ("cheap", "expensive"), ("always", "never"), ("cancelled", "confirmed"),
)  # fmt: skip
BETWEEN = " ↔ "  # stands between two sentences that are written on one line
Kind = Literal["same", "added", "removed"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Counterfactual:
    """One sentence, or one pair, and what the heads say of it.

    Attributes:
        pieces: What has become of the words of the original, in order: "same", "added" or
            "removed", and the words.
        flips: For each head whether its answer is another one than on the original.
    """

    text: str
    pair: str
    pieces: tuple[tuple[Kind, str], ...]
    said: tuple[HeadOutput, ...]
    flips: tuple[bool, ...]

    @property
    def change(self) -> str:
        """What was changed, in a few words.

        >>> Counterfactual(text="", pair="", said=(), flips=(), pieces=(("removed", "good"),
        ...     ("added", "bad"), ("same", "at all."))).change
        '“good” → “bad”'
        """
        told = []
        for place, (kind, words) in enumerate(self.pieces):
            before = self.pieces[place - 1] if place else ("same", "")
            if kind == "added" and before[0] == "removed":
                told[-1] = f"“{before[1]}” → “{words}”"
            elif kind != "same":
                told.append(f"{'with' if kind == 'added' else 'without'} “{words}”")
        return ", ".join(told) or "nothing changed"


@dataclass(frozen=True, slots=True, kw_only=True)
class Counterfactuals(display.Displayed):
    """A sentence, its edits, and which of them change which head's answer."""

    original: Counterfactual
    edits: tuple[Counterfactual, ...]

    @property
    def summary(self) -> str:
        """Which head flips on what, a sentence each."""
        heads = [one.name for one in self.original.said]
        lines = [self._line(number, name) for number, name in enumerate(heads)]
        quiet = [name for name, line in zip(heads, lines, strict=True) if not line]
        told = [line for line in lines if line]
        if not told:
            return "No edit changes the answer of any head."
        if quiet:
            told.append(f"No edit changes the answer of {' or '.join(quiet)}.")
        return " ".join(told)

    def _line(self, number: int, name: str) -> str:
        before = self.original.said[number]
        if not before.problem.has_classes:
            most = max(self.edits, key=lambda e: abs(e.said[number].logits[0] - before.logits[0]))
            now = most.said[number].spoken
            return f"{name} moves most with {most.change}: from {before.spoken} to {now}."
        found = [edit for edit in self.edits if edit.flips[number]]
        each = "; ".join(f"{edit.change} ({edit.said[number].spoken})" for edit in found)
        return f"{name} says {before.spoken} and flips: {each}." if found else ""

    def as_json(self) -> dict[str, Any]:
        """All of it as plain values."""
        return asdict(self, dict_factory=plain) | {"summary": self.summary}


def compare_edits(
    classifiers: Sequence[Classifier],
    text: str,
    edits: Sequence[str | tuple[str, str]],
    pair: str = "",
) -> Counterfactuals:
    """Asks heads about a sentence and about edits of it.

    Args:
        edits: The edited sentences; repeats count once. Where there is a second sentence, an edit
            is of the first, or both as a tuple or with `` ↔ `` between them.

    Raises:
        DataError: A sentence is empty, or there is no edit.
        LimitError: There are too many edits, or they are too long.
    """
    limits = current_limits()
    if isinstance(edits, str):
        raise DataError("Edits are a list of sentences, not one sentence.", "Put it into a list.")
    if not edits:
        raise DataError("There is no edited sentence.", "Write at least one, with a word changed.")
    if len(edits) > limits.edits:
        what = f"There are {len(edits):,} edits; at most {limits.edits} fit here."
        raise LimitError(what, "Leave some out.")
    once = dict.fromkeys(_edited(edit, pair) for edit in edits)
    rows = [_check_row(text, pair), *once]
    texts, pairs = [first for first, _ in rows], [second for _, second in rows if second]
    _check_length(classifiers, texts, pairs)
    with torch.no_grad():
        logits = [one.logits(texts, pairs) for one in classifiers]
    answers = [
        tuple(head_output(one.head, own[row]) for one, own in zip(classifiers, logits, strict=True))
        for row in range(len(rows))
    ]
    original = BETWEEN.join(filter(None, rows[0]))
    found = [
        Counterfactual(
            text=row[0],
            pair=row[1],
            pieces=pieces(original, BETWEEN.join(filter(None, row))),
            said=said,
            flips=tuple(a.answer != b.answer for a, b in zip(answers[0], said, strict=True)),
        )
        for row, said in zip(rows, answers, strict=True)
    ]
    return Counterfactuals(original=found[0], edits=tuple(found[1:]))


def leave_out_each_word(text: str) -> list[str]:
    """Return the text without each of its words in turn, up to the most edits allowed."""
    words = text.split()
    edits = (" ".join((*words[:at], *words[at + 1 :])) for at in range(len(words)))
    return [edit for edit in islice(edits, current_limits().edits) if edit]


def _check_length(
    classifiers: Sequence[Classifier], texts: Sequence[str], pairs: Sequence[str]
) -> None:
    """Refuses edits that are too long for so many heads, each of which reads all of them."""
    backbones = {_key(one): one.backbone for one in classifiers}
    counts = {
        key: sum(text.tokens_read for text in backbone.encode(texts, pairs))
        for key, backbone in backbones.items()
    }
    passes = sum(counts[_key(one)] for one in classifiers)
    products = max((products_of(one.model) for one in backbones.values()), default=1)
    what = f"Reading {len(texts)} sentences under {len(classifiers)} heads"
    check_passes(passes, products, what, "Leave edits out, shorten them, or ask fewer heads.")


def _key(classifier: Classifier) -> tuple[object, ...]:
    """By what texts have as many tokens: the base model, and whether it cuts long ones."""
    return id(classifier.backbone.untuned), *classifier.backbone.way


def _check_row(text: str, pair: str) -> tuple[str, str]:
    text, *second = check_texts(text, pair)
    return text, "".join(second)


def _edited(edit: str | tuple[str, str], pair: str) -> tuple[str, str]:
    interruption.check()
    if isinstance(edit, str):
        first, between, second = edit.partition(BETWEEN) if pair.strip() else (edit, "", "")
        edit = (first, second if between else pair)
    if not isinstance(edit, tuple | list) or len(edit) != 2:
        what = f"An edit is a sentence, or two of them, not {type(edit).__name__}."
        raise DataError(what, "Write each as a text.")
    return _check_row(*edit)


def pieces(original: str, edited: str) -> tuple[tuple[Kind, str], ...]:
    """What has become of the words of a text.

    >>> pieces("Not bad at all.", "Not good at all.")
    (('same', 'Not'), ('removed', 'bad'), ('added', 'good'), ('same', 'at all.'))
    """
    before, after = original.split(), edited.split()
    found: list[tuple[Kind, list[str]]] = []

    def add(kind: Kind, words: list[str]) -> None:
        if found and found[-1][0] == kind:
            found[-1][1].extend(words)
        elif words:
            found.append((kind, words))

    start = other = 0
    for place, opposite in (*_shared(before, after), (len(before), len(after))):
        add("removed", before[start:place])
        add("added", after[other:opposite])
        add("same", before[place : place + 1])
        start, other = place + 1, opposite + 1
    return tuple((kind, " ".join(words)) for kind, words in found)


def _shared(before: Sequence[str], after: Sequence[str]) -> list[tuple[int, int]]:
    """Where the words that two texts share stand in each, in order."""
    interruption.check()
    if max(len(before), len(after)) <= COMPARED:
        blocks = difflib.SequenceMatcher(a=before, b=after, autojunk=False).get_matching_blocks()
        return [(one.a + n, one.b + n) for one in blocks for n in range(one.size)]
    found: list[tuple[int, int]] = []
    start = other = 0
    for place, opposite in (*_anchors(before, after), (len(before), len(after))):
        gap = before[start:place], after[other:opposite]
        if max(map(len, gap)) <= COMPARED:  # a longer one counts as changed as a whole
            found += ((start + one, other + two) for one, two in _shared(*gap))
        found += [(place, opposite)] * (place < len(before))
        start, other = place + 1, opposite + 1
    return found


def _anchors(before: Sequence[str], after: Sequence[str]) -> list[tuple[int, int]]:
    """Return the words that stand in both long texts once and in one order, and both ends."""
    least = min(len(before), len(after))
    pairs = zip(before, after, strict=False)
    start = next((n for n, (one, two) in enumerate(pairs) if one != two), least)
    ends = zip(reversed(before), reversed(after), strict=False)
    end = next((n for n, (one, two) in enumerate(ends) if one != two), least)
    end = min(end, least - start)
    inner = range(start, len(before) - end), range(start, len(after) - end)
    once = [
        {word for word, times in Counter(text[n] for n in numbers).items() if times == 1}
        for text, numbers in zip((before, after), inner, strict=True)
    ]
    both = once[0] & once[1]
    there = {after[n]: n for n in inner[1] if after[n] in both}
    unique = [(n, there[before[n]]) for n in inner[0] if before[n] in there]
    first = [(n, n) for n in range(start)]
    last = [(len(before) - n, len(after) - n) for n in range(end, 0, -1)]
    return [*first, *_rising(unique), *last]


def _rising(pairs: Sequence[tuple[int, int]]) -> list[tuple[int, int]]:
    """The most of some pairs, in the order of their firsts, whose seconds rise as well."""
    ends: list[int] = []  # the smallest second in which a row of each length ends
    numbers: list[int] = []  # by which pair it does
    before: list[int] = []  # which pair stands before each
    for number, (_, second) in enumerate(pairs):
        length = bisect_left(ends, second)
        before.append(numbers[length - 1] if length else -1)
        if length == len(ends):
            ends.append(second)
            numbers.append(number)
        ends[length], numbers[length] = second, number
    found: list[tuple[int, int]] = []
    number = numbers[-1] if numbers else -1
    while number >= 0:
        found.append(pairs[number])
        number = before[number]
    return found[::-1]


def suggest_edits(text: str) -> list[str]:
    """Some minimal pairs of a sentence: a word turned into its opposite, or left out.

    >>> suggest_edits("Not bad at all.")[:2], suggest_edits("Not bad at all.")[-1]
    (['Bad at all.', 'Not good at all.'], 'Not bad all.')
    >>> "Lovely." in suggest_edits("Lovely soup.")
    True
    """
    found: dict[str, None] = {}
    before, after = text[: -len(text.lstrip())], text[len(text.rstrip()) :]  # as they stand
    for words in islice(_pairs(text.split()), 10 * SUGGESTED):  # a text may repeat one word
        line = " ".join(words)
        if line and len(found) < SUGGESTED:
            line = line[:1].upper() + line[1:] if text.lstrip()[:1].isupper() else line
            found[f"{before}{line}{after}"] = None
    return list(found)


def _pairs(words: Sequence[str]) -> Iterator[list[str]]:
    """The words of a sentence with one of them turned into its opposite, or left out."""
    turned = dict(OPPOSITES)
    turned |= {other: word for word, other in OPPOSITES if other}
    for place, word in enumerate(words):
        bare = word.strip(".,;:!?\"'").casefold()
        if bare in turned:
            other = word.casefold().replace(bare, turned[bare])
            rest = [*words[:place], other, *words[place + 1 :]]
            yield rest if turned[bare] else _without(words, place)
    longest = sorted(range(len(words)), key=lambda place: (-len(words[place]), place))
    for place in longest:
        yield _without(words, place)


def _without(words: Sequence[str], place: int) -> list[str]:
    """The words but one; the sentence keeps its end."""
    rest, last = [*words[:place], *words[place + 1 :]], words[-1]
    if rest and place == len(words) - 1:
        rest[-1] = rest[-1].rstrip(ENDS) + last[len(last.rstrip(ENDS)) :]
    return rest
