"""Minimal pairs: a text, the same text with a word changed, and which heads change their answer."""

import difflib
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any, Literal

import torch

from heads.analysis.selection import HeadOutput, head_output
from heads.classifier.classifier import Classifier
from heads.data.corpus import gate
from heads.errors import DataError, LimitError
from heads.problem import plain
from heads.settings import Limits
from heads.settings import limits as limits_here

MOST = 100
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
        text: The sentence.
        pair: The second sentence, or nothing.
        pieces: What has become of the words of the original, in order: "same", "added" or
            "removed", and the words.
        said: What each head says.
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
class Counterfactuals:
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


def flipped(
    classifiers: Sequence[Classifier],
    text: str,
    edits: Sequence[str | tuple[str, str]],
    pair: str = "",
) -> Counterfactuals:
    """Asks heads about a sentence and about edits of it.

    Args:
        text: The sentence.
        edits: The edited sentences; repeats count once. Where there is a second sentence, an edit
            is of the first, or both as a tuple or with `` ↔ `` between them.
        pair: The second sentence.

    Raises:
        DataError: A sentence is empty, or there is no edit.
        LimitError: There are too many edits.
    """
    if isinstance(edits, str):
        raise DataError("Edits are a list of sentences, not one sentence.", "Put it into a list.")
    if not edits:
        raise DataError("There is no edited sentence.", "Write at least one, with a word changed.")
    if len(edits) > MOST:
        raise LimitError(f"There are {len(edits)} edits; at most {MOST} fit.", "Leave some out.")
    limits = limits_here()
    once = dict.fromkeys(_edited(edit, pair, limits) for edit in edits)
    rows = [_gated((text, pair), limits), *once]
    texts, pairs = [first for first, _ in rows], [second for _, second in rows if second]
    with torch.no_grad():
        logits = [one.logits(texts, pairs) for one in classifiers]
    answers = [
        tuple(head_output(one.head, own[row]) for one, own in zip(classifiers, logits, strict=True))
        for row in range(len(rows))
    ]
    found = [_edit(rows[0], row, answers[0], own) for row, own in zip(rows, answers, strict=True)]
    return Counterfactuals(original=found[0], edits=tuple(found[1:]))


def _gated(row: tuple[str, str], limits: Limits) -> tuple[str, str]:
    text, pair = row
    second = gate(pair, limits, "second sentence") if pair.strip() else ""
    return gate(text, limits), second


def _edited(edit: str | tuple[str, str], pair: str, limits: Limits) -> tuple[str, str]:
    if isinstance(edit, str):
        first, between, second = edit.partition(BETWEEN) if pair.strip() else (edit, "", "")
        edit = (first, second if between else pair)
    return _gated(edit, limits)


def _edit(
    original: tuple[str, str],
    row: tuple[str, str],
    before: Sequence[HeadOutput],
    after: Sequence[HeadOutput],
) -> Counterfactual:
    return Counterfactual(
        text=row[0],
        pair=row[1],
        pieces=pieces(BETWEEN.join(filter(None, original)), BETWEEN.join(filter(None, row))),
        said=tuple(after),
        flips=tuple(one.answer != other.answer for one, other in zip(before, after, strict=True)),
    )


def pieces(original: str, edited: str) -> tuple[tuple[Kind, str], ...]:
    """What has become of the words of a text.

    >>> pieces("Not bad at all.", "Not good at all.")
    (('same', 'Not'), ('removed', 'bad'), ('added', 'good'), ('same', 'at all.'))
    """
    before, after = original.split(), edited.split()
    found: list[tuple[Kind, str]] = []
    matcher = difflib.SequenceMatcher(a=before, b=after, autojunk=False)
    for kind, start, end, other, last in matcher.get_opcodes():
        if kind == "equal":
            found.append(("same", " ".join(before[start:end])))
            continue
        if end > start:
            found.append(("removed", " ".join(before[start:end])))
        if last > other:
            found.append(("added", " ".join(after[other:last])))
    return tuple(found)


def suggested(text: str) -> list[str]:
    """Some minimal pairs of a sentence: a word turned into its opposite, or left out.

    >>> suggested("Not bad at all.")[:2], suggested("Not bad at all.")[-1]
    (['Bad at all.', 'Not good at all.'], 'Not bad all.')
    >>> "Lovely." in suggested("Lovely soup.")
    True
    """
    words = text.split()
    turned = dict(OPPOSITES)
    turned |= {other: word for word, other in OPPOSITES if other}
    found = []
    for place, word in enumerate(words):
        bare = word.strip(".,;:!?\"'").casefold()
        if bare in turned:
            other = word.casefold().replace(bare, turned[bare])
            rest = [*words[:place], other, *words[place + 1 :]]
            found.append(rest if turned[bare] else _without(words, place))
    longest = sorted(range(len(words)), key=lambda place: (-len(words[place]), place))
    found += [_without(words, place) for place in longest]
    lines = [" ".join(each) for each in found if each]
    if text[:1].isupper():
        lines = [line[:1].upper() + line[1:] for line in lines]
    return list(dict.fromkeys(lines))[:SUGGESTED]


def _without(words: Sequence[str], place: int) -> list[str]:
    """The words but one; the sentence keeps its end."""
    rest, last = [*words[:place], *words[place + 1 :]], words[-1]
    if rest and place == len(words) - 1:
        rest[-1] = rest[-1].rstrip(ENDS) + last[len(last.rstrip(ENDS)) :]
    return rest
