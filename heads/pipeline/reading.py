"""By which pass texts are read here, and how it was found to be right.

Without padding where the base model is built of BERT's block, else by Transformers itself in
batches of like length; in 16 bits where that was asked for and is faster. Before a pass is used,
some of the very texts are read by Transformers too.
"""

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any

import torch
from torch.nn.functional import cosine_similarity

from heads.errors import ModelError
from heads.pipeline.backbone import Backbone
from heads.pipeline.packed.block import Block, block_of
from heads.pipeline.packed.names import FAMILIES
from heads.pipeline.precision import gain, products
from heads.pipeline.states import Encoded, States

CLOSE = 1e-5  # of the largest number: what rounding in another order may change in 32 bits
ALIKE = 0.999  # cosine: how closely states in 16 bits must point where those in 32 bits do
SHARES = (0.0, 0.5, 0.9, 1.0)  # of the texts by length: on which a pass is tried


@dataclass(frozen=True, slots=True, kw_only=True)
class Agreement:
    """How two passes over the same texts differ.

    Attributes:
        texts: How many they were.
        difference: The largest of two numbers, over the largest number there is (1, if smaller).
        cosine: The smallest between a token's states.
    """

    texts: int
    difference: float
    cosine: float


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Engine:
    """A way to read texts.

    Attributes:
        backbone: The base model.
        block: What a pass without padding computes from; None where Transformers reads.
        says: What was chosen and why, in a sentence.
    """

    backbone: Backbone
    block: Block | None
    says: str

    @property
    def name(self) -> str:
        """By what it reads: packed or Transformers."""
        return "packed" if self.block else "Transformers"

    @property
    def precision(self) -> str:
        """In what its products are computed: float32 or bfloat16."""
        return str(self.block.dtype if self.block else torch.float32).removeprefix("torch.")

    def passes(
        self, texts: Sequence[Encoded], layers: Collection[int]
    ) -> Iterator[tuple[list[int], States]]:
        """Reads any number of texts, the longest first.

        Args:
            layers: The numbers of those that are asked for; others may be left out.

        Yields:
            The row numbers of a batch and its states.
        """
        if self.block is None:
            return self.backbone.passes(texts)
        return self.backbone.read(texts, self.block, layers)


def untried(backbone: Backbone, precision: str) -> Engine:
    """The way in which texts should be read here, before it has been tried on them.

    Args:
        precision: auto, exact or fast, as the setting has it.
    """
    block = backbone.block
    if block is not None and products(precision) != block.dtype:
        block = _in_16_bits(backbone.model)
    return Engine(backbone=backbone, block=block, says="Texts were read by an earlier run.")


@lru_cache(maxsize=1)
def _in_16_bits(model: Any) -> Block | None:
    """The block of a model with 16-bit products, made once while one run works with it."""
    return block_of(model, torch.bfloat16)


def tried(engine: Engine, texts: Sequence[Encoded]) -> Engine:
    """The way in which texts are read: the one proposed, or one that is as exact as it must be.

    Args:
        texts: A few of them, on which it is tried.
    """
    if engine.block is None:
        return replace(engine, says=_why_generic(engine.backbone))
    found = agreement(engine.backbone, engine.block, texts)
    if engine.block.dtype == torch.float32:
        if found.difference <= CLOSE:
            return replace(engine, says=_exact(found))
        generic = replace(engine.backbone, block=None)
        return Engine(backbone=generic, block=None, says=_why_differs(found))
    if found.cosine >= ALIKE:
        return replace(engine, says=_fast(found))
    exact = tried(replace(engine, block=engine.backbone.block), texts)
    lost = f"16 bits would turn a token's states too far (cosine {found.cosine:.4f})."
    return replace(exact, says=f"{exact.says} {lost}")


def to_try(lengths: Sequence[int]) -> list[int]:
    """Which of some texts a pass is tried on: from the shortest to the longest."""
    order = sorted(range(len(lengths)), key=lambda row: lengths[row])
    return [order[place] for place in sorted({round(s * (len(order) - 1)) for s in SHARES})]


@torch.no_grad()
def agreement(backbone: Backbone, block: Block, texts: Sequence[Encoded]) -> Agreement:
    """How a pass without padding differs from Transformers, over all layers of some texts."""
    generic, layers = replace(backbone, block=None), range(backbone.layers + 1)
    differences, cosines = [], []
    for rows, ours in backbone.read(texts, block, layers):
        for place, row in enumerate(rows):  # Transformers reads each by itself
            theirs = generic.states([texts[row]])
            pairs = list(zip(ours.hidden, theirs.hidden, strict=True))
            if ours.pooler is not None and theirs.pooler is not None:
                pairs.append((ours.pooler, theirs.pooler))
            for one, other in pairs:
                largest = other.abs().max().clamp_min(1)
                differences.append((one[place] - other[0]).abs().max() / largest)
                cosines.append(cosine_similarity(one[place], other[0], dim=-1).min())
    return Agreement(
        texts=len(texts),
        difference=float(torch.stack(differences).max()),  # no number stays no number
        cosine=float(torch.stack(cosines).min()),
    )


def with_block(backbone: Backbone, texts: Sequence[Encoded]) -> Backbone:
    """The base model with a pass without padding, where that gives what Transformers gives."""
    try:
        block = block_of(backbone.model, torch.float32)
        if block is not None and agreement(backbone, block, texts).difference <= CLOSE:
            return replace(backbone, block=block)
    except (ModelError, AttributeError, RuntimeError, IndexError, ValueError):
        pass  # a family that has changed its names or its shapes
    return backbone


def _why_generic(backbone: Backbone) -> str:
    said = f"{backbone.id} was read by Transformers, texts of like length together, in float32:"
    if backbone.model_type not in FAMILIES:
        return f"{said} a {backbone.model_type} is not built of BERT's block."
    return f"{said} a pass without padding did not give the same."


def _why_differs(found: Agreement) -> str:
    return (
        "Texts were read by Transformers, those of like length together, in float32: a pass "
        f"without padding differed by {found.difference:.0e} of the largest number."
    )


def _exact(found: Agreement) -> str:
    return (
        f"Texts were read without padding, in float32: on {found.texts} of them within "
        f"{max(found.difference, 1e-8):.0e} of what Transformers gives."
    )


def _fast(found: Agreement) -> str:
    return (
        f"Texts were read without padding, in 16 bits (bfloat16, {gain():.1f} times as fast here "
        f"as float32): tried on {found.texts} of them, every token's vector points as that of "
        f"Transformers does (cosine at least {int(found.cosine * 10_000) / 10_000:.4f})."
    )
