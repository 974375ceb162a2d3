"""What goes into a base model and what comes out: token numbers, token states.

Legend: n texts, t tokens, d width, l layers.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, fields, replace
from typing import Any

import torch
from torch import Tensor

from heads.backbone.device import HERE
from heads.catalog.forms import Side
from heads.errors import RecipeError


@dataclass(frozen=True, slots=True, kw_only=True)
class States:
    """What the base model makes of a batch of texts; padding stands on the right.

    Attributes:
        mask: (n, t), 1 on real tokens, 0 on padding.
        unpadded: (n, t), the mask less tokens at the end that the family's class takes for padding.
        content: (n, t), 1 on real tokens that are not special.
        hidden: l + 1 tensors (n, t, d), embeddings first, 0 on padding.
        pooler: (n, d) or None, the base model's own pooler output.
        eos: (n, t), 1 on end-of-text tokens.
        decoder: (n, t, d) or None, the last layer of a decoder that stands on the encoder.
        decoder_mask: (n, t) or None, 1 where the decoder was given something.
        vectors: (n, d) or None, vectors that came from elsewhere, in the place of all of it.
        counted: None, or where the n rows are the windows of one long text (n, t), 1 on tokens that
            count: what two windows share counts in one of them.
    """

    mask: Tensor
    unpadded: Tensor
    content: Tensor
    hidden: tuple[Tensor, ...]
    pooler: Tensor | None
    eos: Tensor
    decoder: Tensor | None = None
    decoder_mask: Tensor | None = None
    vectors: Tensor | None = None
    counted: Tensor | None = None

    def to(self, device: torch.device) -> "States":
        """Return the same states on a device; not copied if they are there."""
        return self._each(lambda values: values.to(device))

    def here(self) -> "States":
        """Return the same states on the processor."""
        return self.to(HERE)

    def in_32_bits(self) -> "States":
        """Return the same states as 32-bit floats; not copied if they are."""
        return self._each(Tensor.float)

    def row(self, number: int) -> "States":
        """The same of one text, or one window, (1, t)."""
        return self._each(lambda values: values[number : number + 1])

    def _each(self, change: Callable[[Tensor], Tensor]) -> "States":
        tensors = {
            field.name: change(value)
            for field in fields(self)
            if isinstance(value := getattr(self, field.name), Tensor)
        }
        return replace(self, **tensors, hidden=tuple(map(change, self.hidden)))

    @property
    def end_to_end(self) -> "States":
        """Join the tokens of windows that count, (1, T), leaving out what is of a window itself."""
        assert self.counted is not None
        is_read = self.counted.bool()

        def joined(values: Tensor) -> Tensor:  # a layer that was left out has one dimension
            return values[is_read][None] if values.dim() > 1 else values

        names = ("mask", "unpadded", "content", "eos")
        return States(
            **{name: joined(getattr(self, name)) for name in names},
            hidden=tuple(map(joined, self.hidden)),
            pooler=None,
        )

    def layer(self, number: int) -> Tensor:
        """Return the states (n, t, d) of one layer, 0 the embeddings, or raise RecipeError."""
        if number >= len(self.hidden):
            what = f"There is no layer {number}: this base model has 0 to {len(self.hidden) - 1}."
            raise RecipeError(what, "0 is the embeddings.")
        return self.hidden[number]


def states_of(vectors: Tensor) -> States:
    """Vectors (n, w) as what a base model would have made of n texts of one token."""
    one = torch.ones_like(vectors[:, :1])
    return States(
        mask=one,
        unpadded=one,
        content=one,
        hidden=(vectors[:, None],),
        pooler=None,
        eos=torch.zeros_like(one),
        vectors=vectors,
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Encoded:
    """One text as the base model takes it: its token numbers and what goes with them.

    Attributes:
        inputs: What the model takes, by name: one number a token each.
        special: 1 for each token that is no content, such as [CLS] and those of a prefix.
        whole_length: How many tokens it would have without a limit.
        unread: How many tokens at its beginning no pooling reads.
        windows: All windows of a text that is longer than the base model reads, where it is read in
            windows; the text itself is cut. Empty where it is not.
        counted: Of a window: 1 for each token that counts, 0 for one that counts in the window
            beside it. Empty where all count.
    """

    inputs: dict[str, list[int]]
    special: list[int]
    whole_length: int
    unread: int = 0
    windows: tuple["Encoded", ...] = ()
    counted: tuple[int, ...] = ()

    def __len__(self) -> int:
        return len(self.special)

    @property
    def tokens_read(self) -> int:
        """How many tokens the base model reads of it, those of all windows together."""
        return sum(map(len, self.windows)) if self.windows else len(self)


def layers_of(output: Any, mask: Tensor) -> tuple[Tensor, ...]:
    """Return the states of every layer of an encoder (n, t, d), embeddings first, 0 on padding.

    A model whose layers differ in size answers with its last one only. Where it shortens the
    text (Funnel), every token bears the state of the stretch that it went into.
    """
    beside_decoder = getattr(output, "encoder_last_hidden_state", None)
    last = output.last_hidden_state if beside_decoder is None else beside_decoder
    name = "hidden_states" if beside_decoder is None else "encoder_hidden_states"
    hidden = [*(getattr(output, name, None) or [last])]
    if any(states.shape != last.shape for states in hidden):
        hidden = [last]
    hidden[-1] = last
    tokens = mask.shape[1]
    if last.shape[1] != tokens:
        places = torch.arange(tokens, device=mask.device) * last.shape[1] // tokens
        hidden = [states[:, places] for states in hidden]
    padding = (mask == 0)[..., None]
    # Most batches hold texts of one length; what is being exported must not look at values.
    if not torch.compiler.is_compiling() and not padding.any():
        return tuple(hidden)
    return tuple(states.masked_fill(padding, 0.0) for states in hidden)


def filled_up(rows: Sequence[Sequence[int]], filling: int, side: Side) -> Tensor:
    """Rows filled up on one side to the longest of them, (n, t)."""
    longest = max(map(len, rows))
    gaps = [[filling] * (longest - len(row)) for row in rows]
    pairs = zip(rows, gaps, strict=True)
    return torch.tensor([[*r, *g] if side == "right" else [*g, *r] for r, g in pairs])


def like_length(
    lengths: Sequence[int], most: int, tokens: int, strictly: bool
) -> Iterator[list[int]]:
    """The rows of texts in batches, the longest first.

    Args:
        most: The most texts in a batch.
        tokens: The most tokens in a batch of several texts, padding included.
        strictly: Whether all texts in a batch must be of one length.
    """
    order = sorted(range(len(lengths)), key=lambda row: -lengths[row])
    start = 0
    while start < len(order):
        longest = lengths[order[start]]
        end = min(len(order), start + max(1, min(most, tokens // longest)))
        alike = next((n for n in range(start, end) if lengths[order[n]] < longest), end)
        # Texts of one length need no padding and no mask, so a batch of them is faster.
        if strictly or (alike - start) * longest >= tokens // 4:
            end = alike
        yield order[start:end]
        start = end
