"""What goes into a base model and what comes out: token numbers, token states.

Legend: n texts, t tokens, d width, l layers.
"""

from dataclasses import dataclass

from torch import Tensor

from heads.errors import RecipeError


@dataclass(frozen=True, slots=True, kw_only=True)
class States:
    """What the base model makes of a batch of texts; padding stands on the right.

    Attributes:
        mask: (n, t), 1 on real tokens, 0 on padding.
        content: (n, t), 1 on real tokens that are not special.
        hidden: l + 1 tensors (n, t, d), embeddings first, 0 on padding.
        pooler: (n, d) or None, the base model's own pooler output.
    """

    mask: Tensor
    content: Tensor
    hidden: tuple[Tensor, ...]
    pooler: Tensor | None

    def layer(self, number: int) -> Tensor:
        """The states of one layer: 0 the embeddings, -1 the last, (n, t, d).

        Raises:
            RecipeError: The model has no such layer.
        """
        if number >= len(self.hidden):
            what = f"There is no layer {number}: this base model has 0 to {len(self.hidden) - 1}."
            raise RecipeError(what, "0 is the embeddings.")
        return self.hidden[number]


@dataclass(frozen=True, slots=True, kw_only=True)
class Encoded:
    """One text as the base model takes it: its token numbers and what goes with them."""

    inputs: dict[str, list[int]]
    special: list[int]
    whole_length: int

    def __len__(self) -> int:
        return len(self.special)
