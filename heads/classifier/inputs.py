"""What base models make of texts for heads of either kind: pairs as one sequence, or apart.

Heads that read by the same base model share its pass; one that has learned its base model as well
has a pass of its own.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from torch import Tensor

from heads import interruption
from heads.backbone.backbone import Backbone
from heads.backbone.states import Encoded, States, states_of
from heads.classifier.module import RecipeModule, TrainedHead
from heads.errors import DataError
from heads.parts.resolved_recipe import ResolvedRecipe

Written = tuple[object, ...]  # what a base model writes around a text; () for nothing


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadTexts:
    """Texts, or pairs as one sequence, as a base model has read them in one batch.

    Attributes:
        encoded: Their tokens.
        states: What it made of them.
    """

    encoded: tuple[Encoded, ...]
    states: States

    @classmethod
    def by(cls, backbone: Backbone, texts: Sequence[str], pairs: Sequence[str] = ()) -> "ReadTexts":
        """Lets a base model read gated texts."""
        encoded = tuple(backbone.encode(texts, pairs))
        return cls(encoded=encoded, states=backbone.states(encoded))


@dataclass(frozen=True, slots=True, kw_only=True)
class BaseInputs:
    """What one base model makes of some texts, for heads of either kind.

    Attributes:
        backbone: The base model.
        joint: By what is written around a text: the texts, or pairs as one sequence.
        sides: The same of first and second texts, each by itself, as siamese heads ask for them.
    """

    backbone: Backbone
    joint: Mapping[Written, ReadTexts]
    sides: Mapping[Written, tuple[ReadTexts, ReadTexts]]

    def logits(self, module: RecipeModule) -> Tensor:
        """What a head says, (n, c)."""
        return module(*(one.states for one in self._of(module)))

    def reads(self, module: RecipeModule) -> tuple[tuple[str, float], ...]:
        """Each token of the first text with the share of the pooled vector that it gives.

        A siamese head gives both texts, one after the other, each summing to 1.
        """
        found: list[tuple[str, float]] = []
        for read in self._of(module):
            shares = module.reader.shares(read.states)[0].tolist()
            found += zip(self.backbone.words(read.encoded[0]), shares, strict=False)
        return tuple(found)

    def _of(self, module: RecipeModule) -> tuple[ReadTexts, ...]:
        """What a head reads: one sequence, or two."""
        written = self.backbone.for_recipe(module.reader.resolved).written
        return self.sides[written] if module.is_siamese else (self.joint[written],)


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
    """Lets every base model that these heads read by read gated texts once.

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
    """Lets one base model read gated texts in the ways that these heads ask for, in one batch.

    Raises:
        DataError: A siamese head has no second texts.
    """
    interruption.check()
    siamese = [head for head in heads if head.is_siamese]
    if siamese:
        check_pairs(siamese[0].reader.resolved, pairs)
    apart = _different(backbone, siamese)
    together = _different(backbone, [head for head in heads if not head.is_siamese])
    return BaseInputs(
        backbone=backbone,
        joint={one: ReadTexts.by(base, texts, pairs) for one, base in together.items()},
        sides={
            one: (ReadTexts.by(base, texts), ReadTexts.by(base, pairs))
            for one, base in apart.items()
        },
    )


def vector_inputs(backbone: Backbone, vectors: Tensor) -> BaseInputs:
    """Vectors (n, w) as heads take what a base model makes of texts."""
    read = ReadTexts(encoded=(), states=states_of(vectors))
    return BaseInputs(backbone=backbone, joint={backbone.written: read}, sides={})


def _different(backbone: Backbone, heads: Sequence[RecipeModule]) -> dict[Written, Backbone]:
    """The base model in each way that these heads want something written; with nothing first."""
    found = [backbone.for_recipe(head.reader.resolved) for head in heads]
    return {one.written: one for one in sorted(found, key=lambda one: len(one.written))}


def check_pairs(resolved: ResolvedRecipe, pairs: Sequence[str]) -> None:
    """Refuses a siamese recipe where there is one text only.

    Raises:
        DataError: There are no second texts.
    """
    if resolved.pair and not pairs:
        what = f"{resolved.recipe} compares two texts, and there is one."
        raise DataError(what, f"Give a second text, or take pair={resolved.pair} away.")


def check_second(head: TrainedHead, pairs: Sequence[str]) -> None:
    """Refuses one text where a head needs two.

    Raises:
        DataError: There are no second texts.
    """
    check_pairs(head.module.reader.resolved, pairs)
    if head.paired and not pairs:
        what = f"{head.recipe} was trained on two texts, and there is one."
        raise DataError(what, "Give a second text.")
