"""The ways in which texts can be read here, the one that should be the fastest first.

On a GPU where there is one, without padding where the base model is built of BERT's block, in 16
bits where that was asked for and is faster; at last by Transformers itself on the processor, in
batches of like length.
"""

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any

import torch

from heads.pipeline.backbone import Backbone
from heads.pipeline.device import HERE, called, copied, fastest
from heads.pipeline.packed.block import Block, block_of
from heads.pipeline.precision import products
from heads.pipeline.states import Encoded, States

# Made once while one run works with it.
_block = lru_cache(maxsize=1)(block_of)
_copied = lru_cache(maxsize=1)(copied)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Engine:
    """A way to read texts.

    Attributes:
        backbone: The base model, on the processor.
        block: What a pass without padding computes from; None where Transformers reads.
        model: With what Transformers reads: the base model's own, or a copy of it on a GPU.
        says: What was chosen and why, in a sentence.
    """

    backbone: Backbone
    block: Block | None
    model: Any
    says: str = "Texts were read by an earlier run."

    @property
    def device(self) -> torch.device:
        """Where it computes."""
        return self.block.device if self.block else self._generic.device

    @property
    def name(self) -> str:
        """By what it reads: packed or Transformers, and on what, if not on the processor."""
        by = "packed" if self.block else "Transformers"
        return by if self.device == HERE else f"{by} on {self.device.type}"

    @property
    def precision(self) -> str:
        """In what its products are computed: float32 or bfloat16."""
        return str(self.block.dtype if self.block else torch.float32).removeprefix("torch.")

    @property
    def _generic(self) -> Backbone:
        return replace(self.backbone, model=self.model, block=None)

    def passes(
        self, texts: Sequence[Encoded], layers: Collection[int]
    ) -> Iterator[tuple[list[int], States]]:
        """Reads any number of texts, the longest first.

        Args:
            layers: The numbers of those that are asked for; others may be left out.

        Yields:
            The row numbers of a batch and its states, where they were computed.
        """
        if self.block is None:
            return self._generic.passes(texts)
        return self.backbone.read(texts, self.block, layers)


@dataclass(frozen=True, slots=True, kw_only=True)
class Way:
    """A way to read texts that is still to be made ready."""

    device: torch.device
    dtype: torch.dtype
    is_packed: bool

    def engine(self, backbone: Backbone) -> Engine:
        """Gets it ready, which takes room on its device.

        Raises:
            RuntimeError: There is too little, or the device does not work.
        """
        if not self.is_packed:
            there = self.device != HERE
            model = _copied(backbone.model, self.device) if there else backbone.model
            return Engine(backbone=backbone, block=None, model=model)
        is_own = self.device == HERE and self.dtype == torch.float32
        block = backbone.block if is_own else _block(backbone.model, self.dtype, self.device)
        return Engine(backbone=backbone, block=block, model=backbone.model)

    @property
    def on(self) -> str:
        """Where, as a part of a sentence."""
        return "" if self.device == HERE else f" on the GPU ({called(self.device)})"

    @property
    def what(self) -> str:
        """What reads, as the beginning of a sentence."""
        return f"{'A pass without padding' if self.is_packed else 'Transformers'}{self.on}"


def ways(backbone: Backbone, precision: str) -> Iterator[Way]:
    """All ways to read texts here, the one that should be the fastest first.

    The last one is Transformers on the processor: what the others are measured by.
    """
    for device in dict.fromkeys((fastest(), HERE)):
        if backbone.block is not None:
            for dtype in dict.fromkeys((products(precision, device), torch.float32)):
                yield Way(device=device, dtype=dtype, is_packed=True)
        if backbone.block is None or device == HERE:
            yield Way(device=device, dtype=torch.float32, is_packed=False)
