"""The pass itself: the tokens of many texts end to end, no padding between them.

All products see one long row of tokens. Only attention goes by texts, those of one length at a
time, so that it needs no mask.
Legend: n texts of t tokens each in a run, N tokens of all runs, d width, h attention heads.
"""

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn.functional import scaled_dot_product_attention

from heads.backbone.device import HERE, tokens_at_once
from heads.backbone.states import Encoded, States
from heads.backbone.unpadded.bert import BertEmbedding, BertEncoder, BertLayer

NOT_KEPT = torch.empty(0)
SHORT = 128  # tokens of a text, up to which a processor lays out all its attention in 16 bits


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class SameLength:
    """Texts of one length.

    Attributes:
        rows: Which texts they are.
        numbers: (n, t), their tokens.
        sides: (n, t), 0 in the first text and 1 in the second; None where there is one.
        special: (n, t), 1 on special tokens.
        unread: How many tokens at the beginning of each text no pooling reads.
    """

    rows: tuple[int, ...]
    numbers: Tensor
    sides: Tensor | None
    special: Tensor
    unread: tuple[int, ...] = ()

    def states(self, hidden: tuple[Tensor, ...], block: BertEncoder, ends: Tensor) -> States:
        """Return the `States` of these texts, given those by layer and the end tokens."""
        mask = torch.ones(self.numbers.shape, device=self.numbers.device)
        for row, unread in enumerate(self.unread):
            mask[row, :unread] = 0
        is_pooled = block.pooler is not None and hidden[-1] is not NOT_KEPT
        return States(
            mask=mask,
            unpadded=mask,
            content=mask * (self.special == 0),
            hidden=hidden,
            pooler=block.pooler(hidden[-1]) if block.pooler and is_pooled else None,
            eos=torch.isin(self.numbers, ends).float(),
        )


def batches(
    texts: Sequence[Encoded], most: int | None = None, device: torch.device = HERE
) -> Iterator[list[SameLength]]:
    """All texts, the longest first, in batches of about so many tokens."""
    most = most or tokens_at_once(device)
    # Sorted, texts of one length stand together and need no mask among themselves; the longest
    # first, so that the largest batch comes before memory is in pieces.
    order = sorted(range(len(texts)), key=lambda row: -len(texts[row]))
    batch: list[list[int]] = []
    tokens = 0
    for row in order:
        length = len(texts[row])
        if batch and tokens + length > most:
            yield [_run(rows, texts, device) for rows in batch]
            batch, tokens = [], 0
        if not batch or len(texts[batch[-1][0]]) != length:
            batch.append([])
        batch[-1].append(row)
        tokens += length
    if batch:
        yield [_run(rows, texts, device) for rows in batch]


def _run(rows: Sequence[int], texts: Sequence[Encoded], device: torch.device) -> SameLength:
    given = [texts[row].inputs for row in rows]
    sides = [one["token_type_ids"] for one in given if "token_type_ids" in one]
    return SameLength(
        rows=tuple(rows),
        numbers=torch.tensor([one["input_ids"] for one in given], device=device),
        sides=torch.tensor(sides, device=device) if any(map(any, sides)) else None,
        special=torch.tensor([texts[row].special for row in rows], device=device),
        unread=tuple(unread) if any(unread := [texts[row].unread for row in rows]) else (),
    )


@torch.no_grad()
def run(
    block: BertEncoder, runs: Sequence[SameLength], kept: Collection[int]
) -> list[tuple[Tensor, ...]]:
    """For each run the states of its texts by layer, (n, t, d) in 32 bits, embeddings first.

    Args:
        kept: The numbers of the layers that are asked for; in the place of others stands nothing.
    """
    # Everything but attention works on each token by itself, so all texts are one long row (N, d):
    # one large product a layer in the place of one a length, and not a number of padding in it.
    shapes = [one.numbers.shape for one in runs]
    states = torch.cat([_embedded(block.embedding, one) for one in runs]).to(block.dtype)  # (N, e)
    if block.embedding.projected is not None:
        states = block.embedding.projected(states)  # (N, d)
    found = [states if 0 in kept else NOT_KEPT]
    for number, layer in enumerate(block.layers, start=1):
        states = _layer(layer, block, states, shapes)
        found.append(states if number in kept else NOT_KEPT)
    sizes = [n * t for n, t in shapes]
    parts = [
        layer.float().split(sizes) if layer is not NOT_KEPT else [NOT_KEPT] * len(sizes)
        for layer in found
    ]
    return [
        tuple(
            part[place].view(*shape, -1) if part[place] is not NOT_KEPT else NOT_KEPT
            for part in parts
        )
        for place, shape in enumerate(shapes)
    ]


def _embedded(embedding: BertEmbedding, one: SameLength) -> Tensor:
    """The sum of what a token, its place and its text are known by, normalised; (n t, e)."""
    numbers = one.numbers
    if embedding.before is None:
        places = torch.arange(numbers.shape[1], device=numbers.device).expand_as(numbers)
    else:
        counted = (numbers != embedding.before).int()
        places = counted.cumsum(dim=1) * counted + embedding.before
    states = embedding.words[numbers.flatten()] + embedding.positions[places.flatten()]
    if embedding.sides is not None and one.sides is None:
        states += embedding.sides[0]
    elif embedding.sides is not None and one.sides is not None:
        states += embedding.sides[one.sides.flatten()]
    return embedding.embedded(states)


def _layer(
    layer: BertLayer, block: BertEncoder, states: Tensor, shapes: Sequence[torch.Size]
) -> Tensor:
    # Query, key and value in one product (N, d) @ (d, 3 d); then each run of n texts of t tokens is
    # a view of its own rows, in which attention sees a plain batch (n, h, t, d / h) without a mask.
    read = layer.read(states)  # (N, 3 d)
    parts = [
        _attended(part, shape, block)
        for part, shape in zip(read.split([n * t for n, t in shapes]), shapes, strict=True)
    ]
    joined = layer.joined(torch.cat(parts) if len(parts) > 1 else parts[0])
    states = layer.attended(joined.add_(states))
    wide = layer.wide(states)
    wide = wide if layer.activation is None else layer.activation(wide)
    return layer.done(layer.narrow(wide).add_(states))


def _attended(read: Tensor, shape: torch.Size, block: BertEncoder) -> Tensor:
    """Attention within each text of a run, (n t, 3 d) to (n t, d)."""
    n, t = shape
    # (n, h, t, d / h) each
    query, key, value = read.view(n, t, 3, block.heads, -1).permute(2, 0, 3, 1, 4)
    bias = None if block.bias is None else block.bias(t)
    if block.device == HERE and read.dtype == torch.bfloat16 and t <= SHORT:
        answer = _multiplied(query, key, value, bias)
    else:
        answer = scaled_dot_product_attention(query, key, value, attn_mask=bias)
    return answer.transpose(1, 2).reshape(n * t, -1)


def _multiplied(query: Tensor, key: Tensor, value: Tensor, bias: Tensor | None) -> Tensor:
    """The same by plain products: for short texts in 16 bits they take two thirds of its time."""
    heads = query.shape[1]
    query, key, value = (side.flatten(0, 1) for side in (query, key, value))  # (n h, t, d / h)
    scores = (query @ key.transpose(1, 2)) * query.shape[-1] ** -0.5
    if bias is not None:
        scores = (scores.unflatten(0, (-1, heads)) + bias).flatten(0, 1)
    return (scores.softmax(dim=-1) @ value).unflatten(0, (-1, heads))
