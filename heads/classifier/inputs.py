"""What the base model makes of texts for heads of either kind: pairs as one sequence, or apart."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from torch import Tensor

from heads.backbone.backbone import Backbone
from heads.backbone.states import Encoded, States
from heads.classifier.module import RecipeModule, TrainedHead
from heads.errors import DataError
from heads.parts.resolved_recipe import ResolvedRecipe


@dataclass(frozen=True, slots=True, kw_only=True)
class HeadInputs:
    """What the base model makes of some texts, for heads of either kind.

    Attributes:
        joint: Of the texts, or of pairs as one sequence; None where nobody asked for it.
        sides: Of first and second texts, each by itself; empty where nobody asked for it.
        prompted: Of the texts with a prompt behind them, by the prompt.
        read: The tokens of what was read jointly.
        read_sides: Those of first and second texts.
        read_prompted: Those with a prompt behind them, by the prompt.
    """

    joint: States | None
    sides: tuple[States, ...] = ()
    prompted: Mapping[str, States] = field(default_factory=dict)
    read: tuple[Encoded, ...] = ()
    read_sides: tuple[tuple[Encoded, ...], ...] = ()
    read_prompted: Mapping[str, tuple[Encoded, ...]] = field(default_factory=dict)

    def logits(self, module: RecipeModule) -> Tensor:
        """What a head says, (n, c)."""
        return module(*self._of(module))

    def reads(self, module: RecipeModule, backbone: Backbone) -> tuple[tuple[str, float], ...]:
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
            found += zip(backbone.words(texts[0]), shares, strict=False)
        return tuple(found)

    def _of(self, module: RecipeModule) -> tuple[States, ...]:
        """What a head reads: the states of one sequence, or of two."""
        if module.is_siamese:
            return self.sides
        joint = self.prompted.get(module.reader.resolved.prompt, self.joint)
        assert joint is not None
        return (joint,)


def head_inputs(
    backbone: Backbone, texts: Sequence[str], pairs: Sequence[str], heads: Sequence[RecipeModule]
) -> HeadInputs:
    """Lets the base model read gated texts in the ways that these heads ask for, in one batch.

    Raises:
        DataError: A siamese head has no second texts.
    """
    siamese = [head for head in heads if head.is_siamese]
    if siamese:
        check_pairs(siamese[0].reader.resolved, pairs)
    prompts = {head.reader.resolved.prompt for head in heads if not head.is_siamese}
    read = backbone.encode(texts, pairs) if "" in prompts else []
    joint = backbone.states(read) if read else None
    sides = [tuple(backbone.encode(side)) for side in (texts, pairs) if siamese]
    others = {prompt: backbone.prompted(prompt) for prompt in sorted(prompts - {""})}
    prompted = {prompt: tuple(one.encode(texts, pairs)) for prompt, one in others.items()}
    return HeadInputs(
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
