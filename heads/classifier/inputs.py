"""What base models make of texts for heads of either kind: pairs as one sequence, or apart.

Heads that read by the same base model share its pass; one that has learned its base model as well
has a pass of its own.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from torch import Tensor

from heads import interruption
from heads.backbone.backbone import Backbone
from heads.backbone.states import Encoded, States
from heads.classifier.module import RecipeModule, TrainedHead
from heads.errors import DataError
from heads.parts.resolved_recipe import ResolvedRecipe


@dataclass(frozen=True, slots=True, kw_only=True)
class BaseInputs:
    """What one base model makes of some texts, for heads of either kind.

    Attributes:
        backbone: The base model.
        joint: Of the texts, or of pairs as one sequence; None where nobody asked for it.
        sides: Of first and second texts, each by itself; empty where nobody asked for it.
        prompted: Of the texts with a prompt behind them, by the prompt.
        read: The tokens of what was read jointly.
        read_sides: Those of first and second texts.
        read_prompted: Those with a prompt behind them, by the prompt.
    """

    backbone: Backbone
    joint: States | None
    sides: tuple[States, ...] = ()
    prompted: Mapping[str, States] = field(default_factory=dict)
    read: tuple[Encoded, ...] = ()
    read_sides: tuple[tuple[Encoded, ...], ...] = ()
    read_prompted: Mapping[str, tuple[Encoded, ...]] = field(default_factory=dict)

    def logits(self, module: RecipeModule) -> Tensor:
        """What a head says, (n, c)."""
        return module(*self._of(module))

    def reads(self, module: RecipeModule) -> tuple[tuple[str, float], ...]:
        """Each token of the first text with the share of the pooled vector that it gives.

        A siamese head gives both texts, one after the other, each summing to 1.
        """
        prompt = module.reader.resolved.prompt
        encoded = (self.read_prompted.get(prompt, self.read),)
        found: list[tuple[str, float]] = []
        for states, texts in zip(
            self._of(module), self.read_sides if module.is_siamese else encoded, strict=True
        ):
            shares = module.reader.shares(states)[0].tolist()
            found += zip(self.backbone.words(texts[0]), shares, strict=False)
        return tuple(found)

    def _of(self, module: RecipeModule) -> tuple[States, ...]:
        """What a head reads: the states of one sequence, or of two."""
        if module.is_siamese:
            return self.sides
        joint = self.prompted.get(module.reader.resolved.prompt, self.joint)
        assert joint is not None
        return (joint,)


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
        return next((own.read for own in self.by_base.values() if own.read), ())

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
    prompts = {head.reader.resolved.prompt for head in heads if not head.is_siamese}
    read = backbone.encode(texts, pairs) if "" in prompts else []
    joint = backbone.states(read) if read else None
    sides = [tuple(backbone.encode(side)) for side in (texts, pairs) if siamese]
    others = {prompt: backbone.prompted(prompt) for prompt in sorted(prompts - {""})}
    prompted = {prompt: tuple(one.encode(texts, pairs)) for prompt, one in others.items()}
    return BaseInputs(
        backbone=backbone,
        joint=joint,
        sides=tuple(backbone.states(side) for side in sides),
        prompted={prompt: one.states(prompted[prompt]) for prompt, one in others.items()},
        read=tuple(read),
        read_sides=tuple(sides),
        read_prompted=prompted,
    )


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
