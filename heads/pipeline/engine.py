"""The ways in which texts can be read here, the one that should be the fastest first.

On a GPU where there is one, without padding where the base model is built of BERT's block, in 16
bits where that was asked for and is faster; at last by Transformers itself on the processor, in
batches of like length.
"""

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any
from weakref import WeakKeyDictionary

import torch

from heads.pipeline.backbone import Backbone
from heads.pipeline.device import HERE, called, exact_on, fastest, let_go, lying_on
from heads.pipeline.packed.block import Block, block_of
from heads.pipeline.precision import products
from heads.pipeline.states import Encoded, States

# Made once while one run works with it.
_block = lru_cache(maxsize=1)(block_of)
_model = lru_cache(maxsize=1)(lying_on)


@dataclass(frozen=True, slots=True, kw_only=True)
class Way:
    """A way to read texts.

    Attributes:
        device: Where it computes.
        dtype: Of its products.
        is_packed: Whether it reads without padding; else Transformers reads.
    """

    device: torch.device
    dtype: torch.dtype
    is_packed: bool

    @property
    def name(self) -> str:
        """By what it reads: packed or Transformers, and on what, if not on the processor."""
        by = "packed" if self.is_packed else "Transformers"
        return by if self.device == HERE else f"{by} on {self.device.type}"

    @property
    def precision(self) -> str:
        """In what its products are computed: float32 or bfloat16."""
        return str(self.dtype).removeprefix("torch.")

    @property
    def on(self) -> str:
        """Where, as a part of a sentence."""
        return "" if self.device == HERE else f" on the GPU ({called(self.device)})"

    @property
    def what(self) -> str:
        """What reads, as the beginning of a sentence."""
        return f"{'A pass without padding' if self.is_packed else 'Transformers'}{self.on}"


# On a GPU: what was tried of a base model, in vain, and why.
_lost: WeakKeyDictionary[Any, dict[Way, str]] = WeakKeyDictionary()


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Engine:
    """A base model that is read in one of the ways; what that takes is made when it first reads.

    Attributes:
        backbone: The base model, on the processor.
        way: How it is read.
        says: Why so, in a sentence.
    """

    backbone: Backbone
    way: Way
    says: str = ""

    def passes(
        self, texts: Sequence[Encoded], layers: Collection[int]
    ) -> Iterator[tuple[list[int], States]]:
        """Reads any number of texts, the longest first.

        Args:
            layers: The numbers of those that are asked for; others may be left out.

        Yields:
            The row numbers of a batch and its states, where they were computed.
        """
        backbone, way = self.backbone, self.way
        with exact_on(way.device):
            if way.is_packed:
                yield from backbone.read(texts, self._block, layers)
            else:
                model = backbone.model if way.device == HERE else _model(way.device, backbone.model)
                yield from replace(backbone, model=model, block=None).passes(texts)

    @property
    def _block(self) -> Block:
        """What a pass without padding computes from; the base model has its own, if any has."""
        own = self.way.device == HERE and self.way.dtype == torch.float32
        device = self.way.device
        block = self.backbone.block if own else _block(self.backbone.model, self.way.dtype, device)
        assert block is not None
        return block

    def rest(self) -> None:
        """Makes room on a GPU for others."""
        if self.way.device != HERE:
            _block.cache_clear()
            _model.cache_clear()
            let_go(self.way.device)

    def lose(self, why: str) -> None:
        """Remembers that a GPU cannot be relied on for this base model in this way, and why."""
        if self.way.device != HERE:
            _lost.setdefault(self.backbone.model, {})[self.way] = why
            self.rest()


def ways(backbone: Backbone, precision: str) -> list[Way]:
    """All ways to read texts here, the one that should be the fastest first.

    The last one is Transformers on the processor: what the others are measured by. Those in which
    a GPU has failed are left out.

    Args:
        precision: auto, exact or fast, as the setting has it; or what was used before, by name.
    """
    lost = _lost.get(backbone.model, {})
    return [way for way in _thinkable(backbone, precision) if way not in lost]


def why_lost(backbone: Backbone, precision: str) -> list[str]:
    """Why a GPU does not read in ways in which it might, a sentence each."""
    lost = _lost.get(backbone.model, {})
    told = (lost[way] for way in _thinkable(backbone, precision) if way in lost)
    return list(dict.fromkeys(told))


def _thinkable(backbone: Backbone, precision: str) -> Iterator[Way]:
    for device in dict.fromkeys((fastest(), HERE)):
        if backbone.block is not None:
            for dtype in dict.fromkeys((products(precision, device), torch.float32)):
                yield Way(device=device, dtype=dtype, is_packed=True)
        if backbone.block is None or device == HERE:
            yield Way(device=device, dtype=torch.float32, is_packed=False)
