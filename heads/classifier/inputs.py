"""The states that base models make of texts, shared by all heads that are applied to them.

Heads that read by the same base model in the same way share its pass; one that has learned its base
model as well has a pass of its own.
Legend: n texts, c classes, t tokens, w width of the pooled vector.
"""

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from itertools import chain

import torch
from torch import Tensor

from heads import interruption
from heads.backbone.backbone import Backbone
from heads.backbone.states import Encoded, States, states_of
from heads.classifier.module import RecipeModule, TrainedHead
from heads.errors import DataError, RecipeError
from heads.parts.registry import pairing
from heads.parts.resolved_recipe import PAIR, ResolvedRecipe

# Numbers of texts, and their states (len(numbers), t); of a text in windows, its number alone and
# the states of its windows. That comes behind the batch in which the text is cut.
Batch = tuple[Sequence[int], States]


@dataclass(frozen=True, slots=True, kw_only=True)
class TextStates:
    """Texts, or pairs as one sequence, with their states; vectors have no tokens."""

    encoded: tuple[Encoded, ...]
    batches: tuple[Batch, ...]

    @classmethod
    def encode(
        cls,
        backbone: Backbone,
        texts: Sequence[str],
        pairs: Sequence[str] = (),
        layers: Collection[int] | None = None,
    ) -> "TextStates":
        """Encode texts; of windows only these layers are kept, or all if None."""
        encoded = tuple(backbone.encode(texts, pairs))
        return cls(encoded=encoded, batches=tuple(backbone.passes(encoded, layers=layers)))

    @property
    def first(self) -> States:
        """The states of the first text, (1, t), or of its windows, (k, t)."""
        rows, states = [batch for batch in self.batches if 0 in batch[0]][-1]
        has_windows = bool(self.encoded) and bool(self.encoded[0].windows)
        return states if has_windows else states.row(rows.index(0))

    def words(self, backbone: Backbone) -> list[str]:
        """Return the tokens of the first text that are read, as a reader would write them."""
        first = self.encoded[0]
        if not first.windows:
            return backbone.words(first)
        return [
            word
            for window in first.windows
            for place, word in enumerate(backbone.words(window))
            if window.counted[place] and place >= window.unread
        ]


def sides_of(
    module: RecipeModule, texts: Sequence[str], pairs: Sequence[str]
) -> list[tuple[Sequence[str], Sequence[str]]]:
    """Return what a module has encoded by itself: texts with their pairs, or one side each."""
    return [(texts, ()), (pairs, ())] if module.is_siamese else [(texts, pairs)]


def apply_module(module: RecipeModule, sides: Sequence[Iterable[Batch]], texts: int) -> Tensor:
    """Return the logits (n, c) of texts, given their states.

    Args:
        sides: The states of the texts; of a siamese module, of first and of second texts.
        texts: n, at least 1.
    """
    if not module.is_siamese:
        (batches,) = sides
        return _gather(((rows, module(states)) for rows, states in batches), texts)
    vectors = (
        _gather(((rows, module.reader(states).vectors) for rows, states in batches), texts)
        for batches in sides
    )
    return module.head(module.reader.resolved.joined(*vectors))


def _gather(parts: Iterable[tuple[Sequence[int], Tensor]], texts: int) -> Tensor:
    gathered = torch.zeros(0)
    for rows, part in parts:
        if not len(gathered):
            gathered = torch.zeros(texts, part.shape[1])
        gathered[list(rows)] = part
    return gathered


class HeadInputs:
    """Texts, or pairs, for any number of heads: each way of reading them is encoded once."""

    def __init__(
        self, backbone: Backbone, texts: Sequence[str] | Tensor, pairs: Sequence[str] = ()
    ) -> None:
        """Encode nothing yet; of heads that learned from vectors `texts` are those, (n, w)."""
        self._backbone, self._texts, self._pairs = backbone, texts, pairs
        self._states: dict[object, tuple[frozenset[int], tuple[TextStates, ...]]] = {}
        self._layers = frozenset[int]()  # of windows only those are kept that a head reads

    def encode(self, heads: Sequence[TrainedHead]) -> None:
        """Encode the texts as these heads read them.

        Raises:
            DataError: A head needs second texts, and there are none.
            CheckpointError: What a head's base model has learned does not fit this one.
        """
        for head in heads:
            check_second(head, self._pairs)
        self._layers = self._layers.union(*(head.module.reader.depths for head in heads))
        for head in heads:
            self._states_for(head)

    @torch.no_grad()
    def logits(self, head: TrainedHead) -> Tensor:
        """Return what a head gives, (n, c)."""
        sides = [states.batches for states in self._states_for(head)]
        return apply_module(head.module, sides, len(self._texts))

    def states(self, head: TrainedHead) -> list[States]:
        """Return the states of the first text that a module takes: one, or both sides."""
        return [side.first for side in self._states_for(head)]

    def reads(self, head: TrainedHead) -> tuple[tuple[str, float], ...]:
        """Return each token of the first text with the share of the pooled vector that it gives.

        A siamese head gives both texts, one after the other, each summing to 1.
        """
        return tuple(
            chain.from_iterable(
                zip(
                    states.words(self._backbone),
                    head.module.reader.shares(states.first)[0].tolist(),
                    strict=False,
                )
                for states in self._states_for(head)
            )
        )

    @property
    def sequence(self) -> Encoded:
        """The first text, or both texts as one sequence, with as little written around it as is."""
        joint = [states[0].encoded[0] for _, states in self._states.values() if len(states) == 1]
        if not joint:
            assert not isinstance(self._texts, Tensor)
            return self._backbone.encode(self._texts[:1], self._pairs[:1])[0]
        return min(joint, key=lambda text: text.whole_length)

    def _states_for(self, head: TrainedHead) -> tuple[TextStates, ...]:
        """Return the states that a head reads, of one sequence or of two."""
        interruption.check()
        backbone, reader = head.backbone_for(self._backbone), head.module.reader
        if isinstance(self._texts, Tensor):
            batch = range(len(self._texts)), states_of(self._texts)
            return (TextStates(encoded=(), batches=(batch,)),)
        backbone = backbone.for_recipe(reader.resolved)
        key = head.base and head.base.digest, backbone.way, head.module.is_siamese
        if key in self._states:
            layers, states = self._states[key]
            is_cut = not any(text.windows for side in states for text in side.encoded)
            if is_cut or reader.depths <= layers:
                return states
        self._layers |= reader.depths
        sides = sides_of(head.module, self._texts, self._pairs)
        states = tuple(TextStates.encode(backbone, *side, layers=self._layers) for side in sides)
        self._states[key] = self._layers, states
        return states


def check_pairs(resolved: ResolvedRecipe, pairs: Sequence[str]) -> None:
    """Refuse a siamese recipe where there is one text only, and windows of two in one sequence.

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
