"""The ways in which texts can be read here, the one that should be the fastest first.

On a GPU where there is one, without padding where the base model is built of BERT's block, in 16
bits where that was asked for and is faster; at last by Transformers itself on the processor, in
batches of like length.
"""

from collections.abc import Collection, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import lru_cache, partial
from typing import Any
from weakref import WeakKeyDictionary

import torch
from torch.nn.functional import cosine_similarity

from heads.backbone.backbone import Backbone
from heads.backbone.device import HERE, called, exact_on, fastest, let_go, lying_on
from heads.backbone.precision import gain, products
from heads.backbone.states import Encoded, States
from heads.backbone.unpadded.bert import FAMILIES, BertEncoder, block_of
from heads.backbone.windows import with_whole_texts
from heads.errors import LimitError, ModelError
from heads.interruption import Interrupted

# Made once while one run works with it.
_block = lru_cache(maxsize=1)(block_of)
_model = lru_cache(maxsize=1)(lying_on)


@dataclass(frozen=True, slots=True, kw_only=True)
class Backend:
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
_lost: WeakKeyDictionary[Any, dict[Backend, str]] = WeakKeyDictionary()


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class InferenceEngine:
    """A base model that is read in one of the ways; what that takes is made when it first reads.

    Attributes:
        backbone: The base model, on the processor.
        way: How it is read.
        says: Why so, in a sentence.
    """

    backbone: Backbone
    way: Backend
    says: str = ""

    def passes(
        self, texts: Sequence[Encoded], layers: Collection[int]
    ) -> Iterator[tuple[list[int], States]]:
        """Reads any number of texts, the longest first.

        Args:
            layers: The numbers of those that are asked for; others may be left out.

        Yields:
            The row numbers of a batch and its states, where they were computed; of texts that are
            read in windows as `Backbone.passes` does.
        """
        backbone, way = self.backbone, self.way
        with exact_on(way.device):
            if way.is_packed:
                read = partial(backbone.read, block=self._block, layers=layers)
                yield from with_whole_texts(read, texts, layers)
            else:
                model = backbone.model if way.device == HERE else _model(way.device, backbone.model)
                generic = replace(backbone, model=model, block=None)
                yield from generic.passes(texts, layers=layers)

    @property
    def _block(self) -> BertEncoder:
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


def backends(backbone: Backbone, precision: str) -> list[Backend]:
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


def _thinkable(backbone: Backbone, precision: str) -> Iterator[Backend]:
    for device in dict.fromkeys((fastest(), HERE)):
        if backbone.block is not None:
            for dtype in dict.fromkeys((products(precision, device), torch.float32)):
                yield Backend(device=device, dtype=dtype, is_packed=True)
        if backbone.block is None or device == HERE:
            yield Backend(device=device, dtype=torch.float32, is_packed=False)


# --- By which pass texts are read, and how it was found to be right.

CLOSE = 1e-5  # of the largest number: what rounding in another order may change in 32 bits
ALIKE = 0.999  # cosine: how closely states in 16 bits must point where those in 32 bits do
SHARES = (0.0, 0.5, 0.9, 1.0)  # of the texts by length: on which a pass is tried
# What a family raises that has changed its names or its shapes.
FAULTS = (ModelError, AttributeError, RuntimeError, IndexError, ValueError)


@dataclass(frozen=True, slots=True, kw_only=True)
class BackendAgreement:
    """How two passes over the same texts differ.

    Attributes:
        texts: How many they were.
        difference: The largest of two numbers, over the largest number there is (1, if smaller).
        cosine: The smallest between a token's states.
    """

    texts: int
    difference: float
    cosine: float


def tried(backbone: Backbone, precision: str, texts: Sequence[Encoded]) -> InferenceEngine:
    """The way in which texts are read: the fastest one that is as exact as it must be.

    Args:
        precision: auto, exact or fast, as the setting has it; or what was used before, by name.
        texts: A few of them, on which it is tried.
    """
    *others, last = backends(backbone, precision)
    here = list[str]()
    for way in others:
        engine = InferenceEngine(backbone=backbone, way=way)
        try:
            found = agreement(engine, texts)
        except (Interrupted, LimitError):  # nobody waits for it any more
            raise
        except Exception as error:
            if way.device == HERE and not isinstance(error, FAULTS):
                raise
            fault = _failure(way, error)
        else:
            if not (fault := _fault(way, found)):
                told = (_said(way, backbone, found), *why_lost(backbone, precision), *here)
                return replace(engine, says=" ".join(told))
        engine.lose(fault)
        here += [fault] * (way.device == HERE)
    told = " ".join((_generic(last, backbone), *why_lost(backbone, precision), *here))
    return InferenceEngine(backbone=backbone, way=last, says=told)


@contextmanager
def relied_on(engine: InferenceEngine) -> Iterator[None]:
    """Within it an engine reads; whoever is thrown out of it asks for another one.

    A GPU that fails is remembered, and the failure ends there. The processor's is passed on.
    """
    try:
        yield
    except (ModelError, RuntimeError) as error:
        if engine.way.device == HERE:
            raise
        engine.lose(_failure(engine.way, error))
    finally:
        engine.rest()


def _failure(way: Backend, error: Exception) -> str:
    """That a way to read has failed, and why, in a sentence."""
    first = str(error.__cause__ or error).strip().split("\n", 1)[0][:160].rstrip(". ")
    return f"{way.what} failed ({first or type(error).__name__})."


def to_try(lengths: Sequence[int]) -> list[int]:
    """Which of some texts a pass is tried on: from the shortest to the longest."""
    order = sorted(range(len(lengths)), key=lambda row: lengths[row])
    return [order[place] for place in sorted({round(s * (len(order) - 1)) for s in SHARES})]


@torch.no_grad()
def agreement(engine: InferenceEngine, texts: Sequence[Encoded]) -> BackendAgreement:
    """How a way to read differs from Transformers on the processor, over all layers of texts."""
    backbone = engine.backbone
    generic = replace(backbone, block=None)
    differences, cosines = [], []
    texts = [replace(text, windows=()) for text in texts]  # one window of a text is enough
    for rows, states in engine.passes(texts, range(backbone.layers + 1)):
        ours = states.here()
        for place, row in enumerate(rows):  # Transformers reads each by itself
            theirs, tokens = generic.states([texts[row]]), len(texts[row])
            pairs = [
                (one[place, :tokens], other[0])
                for one, other in zip(ours.hidden, theirs.hidden, strict=True)
            ]
            if ours.pooler is not None and theirs.pooler is not None:
                pairs.append((ours.pooler[place], theirs.pooler[0]))
            for one, other in pairs:
                largest = other.abs().max().clamp_min(1)
                differences.append((one - other).abs().max() / largest)
                cosines.append(cosine_similarity(one, other, dim=-1).min())
    return BackendAgreement(
        texts=len(texts),
        difference=float(torch.stack(differences).max()),  # no number stays no number
        cosine=float(torch.stack(cosines).min()),
    )


def with_block(backbone: Backbone, texts: Sequence[Encoded]) -> Backbone:
    """The base model with a pass without padding, where that gives what Transformers gives."""
    try:
        found = replace(backbone, block=block_of(backbone.model, torch.float32))
        engine = InferenceEngine(
            backbone=found, way=Backend(device=HERE, dtype=torch.float32, is_packed=True)
        )
        if found.block is not None and agreement(engine, texts).difference <= CLOSE:
            return found
    except FAULTS:
        pass
    return backbone


def _fault(way: Backend, found: BackendAgreement) -> str:
    """Why a way is not exact enough, in a sentence; "" if it is."""
    if way.dtype == torch.float32:
        said = f"{way.what} differed by {found.difference:.0e} of the largest number."
        return "" if found.difference <= CLOSE else said
    said = f"16 bits{way.on} would turn a token's states too far (cosine {found.cosine:.4f})."
    return "" if found.cosine >= ALIKE else said


def _said(way: Backend, backbone: Backbone, found: BackendAgreement) -> str:
    """How texts were read and how exactly, in a sentence or two."""
    theirs = "Transformers gives" if way.device == HERE else "Transformers gives on the processor"
    if way.dtype != torch.float32:
        return (
            f"Texts were read without padding{way.on}, in 16 bits (bfloat16, "
            f"{gain(way.device):.1f} times as fast here as float32): tried on {found.texts} of "
            f"them, every token's vector points as that of Transformers does (cosine at least "
            f"{int(found.cosine * 10_000) / 10_000:.4f})."
        )
    within = f"{found.texts} of them within {max(found.difference, 1e-8):.0e} of what {theirs}."
    if way.is_packed:
        return f"Texts were read without padding{way.on}, in float32: on {within}"
    return f"{_generic(way, backbone)} On {within}"


def _generic(way: Backend, backbone: Backbone) -> str:
    """That Transformers reads, and why."""
    said = (
        f"{backbone.id} was read by Transformers{way.on}, texts of like length together, in float32"
    )
    if backbone.model_type not in FAMILIES:
        return f"{said}: a {backbone.model_type} is not built of BERT's block."
    if backbone.block is None:
        return f"{said}: a pass without padding did not give the same."
    return f"{said}."
