"""What a pooling gives: one vector a text, and what it was read of.

Legend: n texts, t tokens, d width, w the pooling's width.
"""

from dataclasses import dataclass

from torch import Tensor

from heads.errors import RecipeError


@dataclass(frozen=True, slots=True)
class Pooled:
    """One vector a text, and the share of it that each token gave.

    Attributes:
        vectors: (n, w), w the pooling's width.
        reads: (n, t), at least 0, and 0 on padding.
    """

    vectors: Tensor
    reads: Tensor


def pooled(answer: Tensor | Pooled, states: Tensor | None) -> Pooled:
    """Apply weights (n, t) or (n, k, t) to states (n, t, d); raise RecipeError for others."""
    if isinstance(answer, Pooled):
        return answer
    if states is None:
        what = "A pooling that answers with weights must ask for the states."
        raise RecipeError(what, "Name them in its arguments: (mask, states).")
    weights = answer.to(states.dtype)
    weights = weights if weights.dim() == 3 else weights[:, None]  # (n, k, t)
    if weights.shape[::2] != states.shape[:2]:
        found, wanted = tuple(answer.shape), tuple(states.shape[:2])
        raise RecipeError(f"A pooling answered with weights of shape {found}, not {wanted}.")
    return Pooled((weights @ states).flatten(1), weights.mean(dim=1))
