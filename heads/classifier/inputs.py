"""What base models make of texts for heads of either kind: pairs as one sequence, or apart.

Heads that read by the same base model share its pass; one that has learned its base model as well
has a pass of its own.
"""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial

import torch
from torch import Tensor

from heads import interruption
from heads.backbone.backbone import Backbone
from heads.backbone.states import Encoded, States, states_of
from heads.classifier.module import RecipeModule, TrainedHead
from heads.errors import DataError, RecipeError
from heads.parts.registry import pairing
from heads.parts.resolved_recipe import PAIR, ResolvedRecipe

# How a base model reads a text: what it writes around it, and whether it cuts a long one.
Way = tuple[object, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadTexts:
    """Texts, or pairs as one sequence, as a base model has read them in one batch.

    Attributes:
        encoded: Their tokens.
        states: What it made of them.
        windows: By the number of a text that is read in several windows: what it made of those.
    """

    encoded: tuple[Encoded, ...]
    states: States
    windows: Mapping[int, States] = field(default_factory=dict)

    @classmethod
    def by(
        cls,
        backbone: Backbone,
        texts: Sequence[str],
        pairs: Sequence[str] = (),
        layers: Collection[int] | None = None,
    ) -> "ReadTexts":
        """Lets a base model read texts.

        Args:
            layers: The numbers of those that are kept of windows; None for all.
        """
        encoded = tuple(backbone.encode(texts, pairs))
        states = backbone.states(encoded)
        windows = {
            number: backbone.whole_text(text, states.row(number), layers)
            for number, text in enumerate(encoded)
            if text.windows
        }
        return cls(encoded=encoded, states=states, windows=windows)

    def of(self, number: int) -> States:
        """What the base model made of one text: as a batch of one, or of its windows."""
        return self.windows[number] if number in self.windows else self.states.row(number)

    def words(self, backbone: Backbone) -> list[str]:
        """The tokens of the first text that are read, as a reader would write them."""
        first = self.encoded[0]
        if not first.windows:
            return backbone.words(first)
        return [
            word
            for window in first.windows
            for place, word in enumerate(backbone.words(window))
            if window.counted[place] and place >= window.unread
        ]


@dataclass(frozen=True, slots=True, kw_only=True)
class BaseInputs:
    """What one base model makes of some texts, for heads of either kind.

    Attributes:
        backbone: The base model.
        joint: By the way in which a text is read: the texts, or pairs as one sequence.
        sides: The same of first and second texts, each by itself, as siamese heads ask for them.
    """

    backbone: Backbone
    joint: Mapping[Way, ReadTexts]
    sides: Mapping[Way, tuple[ReadTexts, ReadTexts]]

    def logits(self, module: RecipeModule) -> Tensor:
        """What a head says, (n, c)."""
        read = self._of(module)
        logits = module(*(one.states for one in read))
        long = {number for one in read for number in one.windows}
        whole = {number: module(*(one.of(number) for one in read)) for number in sorted(long)}
        rows = [whole.get(number, row[None]) for number, row in enumerate(logits)]
        return torch.cat(rows) if whole else logits

    def reads(self, module: RecipeModule) -> tuple[tuple[str, float], ...]:
        """Each token of the first text with the share of the pooled vector that it gives.

        A siamese head gives both texts, one after the other, each summing to 1.
        """
        found: list[tuple[str, float]] = []
        for read in self._of(module):
            shares = module.reader.shares(read.of(0))[0].tolist()
            found += zip(read.words(self.backbone), shares, strict=False)
        return tuple(found)

    def _of(self, module: RecipeModule) -> tuple[ReadTexts, ...]:
        """What a head reads: one sequence, or two."""
        way = self.backbone.for_recipe(module.reader.resolved).way
        return self.sides[way] if module.is_siamese else (self.joint[way],)


@dataclass(frozen=True, slots=True, kw_only=True)
class HeadInputs:
    """What some texts are to trained heads, each of which reads by its own base model.

    Attributes:
        by_base: For each base model what it makes of them, by what it has learned with a head:
            the digest of that, "" for nothing.
    """

    by_base: Mapping[str, BaseInputs]

    @property
    def read(self) -> tuple[Encoded, ...]:
        """The tokens of what was read jointly; none where nobody asked for it."""
        joint = (own.joint for own in self.by_base.values())
        return next((read.encoded for own in joint for read in own.values()), ())

    def logits(self, head: TrainedHead) -> Tensor:
        """What a head says, (n, c)."""
        return self.by_base[_base_of(head)].logits(head.module)

    def reads(self, head: TrainedHead) -> tuple[tuple[str, float], ...]:
        """Each token of the first text with the share of the pooled vector that it gives."""
        return self.by_base[_base_of(head)].reads(head.module)


def _base_of(head: TrainedHead) -> str:
    return head.base.digest if head.base else ""


def head_inputs(
    backbone: Backbone, texts: Sequence[str], pairs: Sequence[str], heads: Sequence[TrainedHead]
) -> HeadInputs:
    """Lets every base model that these heads read by read texts once.

    Raises:
        DataError: A siamese head has no second texts.
        CheckpointError: What a head's base model has learned does not fit this one.
    """
    groups: dict[str, list[TrainedHead]] = {}
    for head in heads:
        groups.setdefault(_base_of(head), []).append(head)
    return HeadInputs(
        by_base={
            base: base_inputs(
                own[0].backbone_for(backbone), texts, pairs, [head.module for head in own]
            )
            for base, own in groups.items()
        }
    )


def base_inputs(
    backbone: Backbone, texts: Sequence[str], pairs: Sequence[str], heads: Sequence[RecipeModule]
) -> BaseInputs:
    """Let one base model read texts in the ways that these heads ask for, in one batch."""
    interruption.check()
    siamese = [head for head in heads if head.is_siamese]
    if siamese:
        check_pairs(siamese[0].reader.resolved, pairs)
    apart = _different(backbone, siamese)
    together = _different(backbone, [head for head in heads if not head.is_siamese])
    depths = frozenset[int]().union(*(head.reader.depths for head in heads))
    read = partial(ReadTexts.by, layers=depths)
    return BaseInputs(
        backbone=backbone,
        joint={one: read(base, texts, pairs) for one, base in together.items()},
        sides={one: (read(base, texts), read(base, pairs)) for one, base in apart.items()},
    )


def vector_inputs(backbone: Backbone, vectors: Tensor) -> BaseInputs:
    """Vectors (n, w) as heads take what a base model makes of texts."""
    read = ReadTexts(encoded=(), states=states_of(vectors))
    return BaseInputs(backbone=backbone, joint={backbone.way: read}, sides={})


def _different(backbone: Backbone, heads: Sequence[RecipeModule]) -> dict[Way, Backbone]:
    """The base model in each way that these heads read; with nothing written first, and cut."""
    found = [backbone.for_recipe(head.reader.resolved) for head in heads]
    plain_first = sorted(found, key=lambda one: (len(one.written), one.stride is not None))
    return {one.way: one for one in plain_first}


def check_pairs(resolved: ResolvedRecipe, pairs: Sequence[str]) -> None:
    """Refuses a siamese recipe where there is one text only, and windows of two in one sequence.

    Raises:
        DataError: There are no second texts.
        RecipeError: A window would have to hold parts of both.
    """
    if resolved.pair and not pairs:
        what = f"{resolved.recipe} compares two texts, and there is one."
        raise DataError(what, f"Give a second text, or take pair={resolved.pair} away.")
    if pairs and not resolved.takes_pairs:
        what = f"{resolved.recipe} reads windows of one text, and here two are one sequence."
        raise RecipeError(what, f"Add {PAIR}={pairing.usual}, which reads each by itself.")


def check_second(head: TrainedHead, pairs: Sequence[str]) -> None:
    """Raise DataError if a head needs two texts and there is one."""
    check_pairs(head.module.reader.resolved, pairs)
    if head.paired and not pairs:
        what = f"{head.recipe} was trained on two texts, and there is one."
        raise DataError(what, "Give a second text.")
