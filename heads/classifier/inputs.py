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
        sides: Of first and second texts, each by itself; None where nobody asked for it.
        read: The tokens of what was read jointly.
        prompted: Of the texts with a prompt behind them, by the prompt.
    """

    joint: States | None
    sides: tuple[States, States] | None = None
    read: tuple[Encoded, ...] = ()
    prompted: Mapping[str, States] = field(default_factory=dict)

    def logits(self, module: RecipeModule) -> Tensor:
        """What a head says, (n, c)."""
        joint = self.prompted.get(module.reader.resolved.prompt, self.joint)
        given = self.sides if module.is_siamese else (joint,)
        assert given is not None
        assert given[0] is not None
        return module(*given)


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
    sides = [backbone.states(backbone.encode(side)) for side in (texts, pairs) if siamese]
    others = {prompt: backbone.prompted(prompt) for prompt in sorted(prompts - {""})}
    return HeadInputs(
        joint=joint,
        sides=(sides[0], sides[1]) if sides else None,
        read=tuple(read),
        prompted={prompt: one.states(one.encode(texts, pairs)) for prompt, one in others.items()},
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
