"""The ways in which many texts can be encoded here, the fastest first.

On a GPU where there is one, and in 16 bits where that was asked for and its products are faster;
at last in 32 bits on the processor, by which the others are measured. Texts of like length are
encoded together, so that there is little padding.
"""

from collections.abc import Collection, Iterator, Sequence
from contextlib import contextmanager
from copy import deepcopy
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any
from weakref import WeakKeyDictionary

import torch
from torch.nn.functional import cosine_similarity

from heads.backbone.backbone import Backbone
from heads.backbone.device import HERE, called, exact_on, fastest, let_go, lying_on, products
from heads.backbone.states import Encoded, States
from heads.errors import LimitError, ModelError
from heads.interruption import Interrupted


@dataclass(frozen=True, slots=True, kw_only=True)
class Backend:
    """A device, and the precision of the model on it."""

    device: torch.device
    dtype: torch.dtype

    @property
    def name(self) -> str:
        """The name in records: Transformers, and the device if it is not the processor."""
        return "Transformers" if self.device == HERE else f"Transformers on {self.device.type}"

    @property
    def precision(self) -> str:
        """The name of the precision: float32 or bfloat16."""
        return str(self.dtype).removeprefix("torch.")

    @property
    def phrase(self) -> str:
        """The beginning of a sentence about it."""
        bits = " in 16 bits" if self.dtype != torch.float32 else ""
        on = "" if self.device == HERE else f" on the GPU ({called(self.device)})"
        return f"Transformers{on}{bits}"


# Backends that failed or were too inexact for a base model, with the reason.
_lost: WeakKeyDictionary[Any, dict[Backend, str]] = WeakKeyDictionary()


@lru_cache(maxsize=1)  # made once while a run works with it
def _copy_model(device: torch.device, dtype: torch.dtype, model: Any) -> Any:
    if device == HERE and dtype != torch.float32:
        return deepcopy(model).to(dtype)
    return lying_on(device, model).to(dtype)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class InferenceEngine:
    """A base model with the backend that encodes; its copy is made when it first encodes.

    Attributes:
        says: Why this backend was chosen, in a sentence.
    """

    backbone: Backbone
    way: Backend
    says: str = ""

    def passes(
        self, texts: Sequence[Encoded], layers: Collection[int]
    ) -> Iterator[tuple[list[int], States]]:
        """Encode texts, the longest first, to states of 32 bits; see `Backbone.passes`."""
        model = _copy_model(self.way.device, self.way.dtype, self.backbone.model)
        with exact_on(self.way.device):
            for rows, states in replace(self.backbone, model=model).passes(texts, layers=layers):
                yield rows, states.in_32_bits()

    def rest(self) -> None:
        """Free the memory of a GPU."""
        if self.way.device != HERE:
            _copy_model.cache_clear()
            let_go(self.way.device)

    def lose(self, why: str) -> None:
        """Never use this backend for the base model again."""
        _lost.setdefault(self.backbone.model, {})[self.way] = why
        self.rest()


def backends(backbone: Backbone, precision: str) -> list[Backend]:
    """Return the backends for a base model without those that failed, the fastest first.

    The last one is the processor in 32 bits; for `precision` see `products`.
    """
    lost = _lost.get(backbone.model, {})
    return [way for way in _list_backends(precision) if way not in lost]


def _list_backends(precision: str) -> list[Backend]:
    return [
        Backend(device=device, dtype=dtype)
        for device in dict.fromkeys((fastest(), HERE))
        for dtype in dict.fromkeys((products(precision, device), torch.float32))
    ]


# --- How a backend is chosen: it must agree with Transformers in 32 bits on the processor.

CLOSE = 1e-5  # of the largest number: the rounding of 32 bits in another order
ALIKE = 0.999  # cosine between the states of a token in 16 and in 32 bits
FRACTIONS = (0.0, 0.5, 0.9, 1.0)  # of the texts by length: the sample on which they are compared


@dataclass(frozen=True, slots=True, kw_only=True)
class BackendAgreement:
    """The difference between two passes over the same texts.

    Attributes:
        difference: The largest of two numbers, over the largest number there is (1, if smaller).
        cosine: The smallest between a token's states.
    """

    texts: int
    difference: float
    cosine: float


def tried(backbone: Backbone, precision: str, texts: Sequence[Encoded]) -> InferenceEngine:
    """Return the fastest engine that is as exact on a few texts as its precision allows."""
    *others, last = backends(backbone, precision)
    for way in others:
        engine = InferenceEngine(backbone=backbone, way=way)
        try:
            found = agreement(engine, texts)
        except (Interrupted, LimitError):  # nobody waits for it any more
            raise
        except Exception as error:
            engine.lose(_failure(way, error))
            continue
        if fault := _fault(way, found):
            engine.lose(fault)
            continue
        says = _describe(way, found)
        break
    else:
        engine, says = InferenceEngine(backbone=backbone, way=last), _describe(last)
    lost = _lost.get(backbone.model, {})
    why = dict.fromkeys(lost[way] for way in _list_backends(precision) if way in lost)
    return replace(engine, says=" ".join((says, *why)))


@contextmanager
def relied_on(engine: InferenceEngine) -> Iterator[None]:
    """Use an engine in a `with` block; leave the block, and remember why, where a GPU fails."""
    try:
        yield
    except (ModelError, RuntimeError) as error:
        if engine.way.device == HERE:
            raise
        engine.lose(_failure(engine.way, error))
    finally:
        engine.rest()


def _failure(way: Backend, error: Exception) -> str:
    first = str(error.__cause__ or error).strip().split("\n", 1)[0][:160].rstrip(". ")
    return f"{way.phrase} failed ({first or type(error).__name__})."


def to_try(lengths: Sequence[int]) -> list[int]:
    """Return the places of a few texts, from the shortest to the longest."""
    order = sorted(range(len(lengths)), key=lambda row: lengths[row])
    return [order[place] for place in sorted({round(f * (len(order) - 1)) for f in FRACTIONS})]


@torch.no_grad()
def agreement(engine: InferenceEngine, texts: Sequence[Encoded]) -> BackendAgreement:
    """Compare an engine with the processor in 32 bits, over all layers of texts."""
    backbone = engine.backbone
    differences, cosines = [], []
    texts = [replace(text, windows=()) for text in texts]  # one window of a text is enough
    for rows, states in engine.passes(texts, range(backbone.layers + 1)):
        ours = states.here()
        for place, row in enumerate(rows):  # the reference encodes each by itself
            theirs, tokens = backbone.states([texts[row]]), len(texts[row])
            pairs = [
                (own[place, :tokens], other[0])
                for own, other in zip(ours.hidden, theirs.hidden, strict=True)
            ]
            if ours.pooler is not None and theirs.pooler is not None:
                pairs.append((ours.pooler[place], theirs.pooler[0]))
            for own, other in pairs:
                largest = other.abs().max().clamp_min(1)
                differences.append((own - other).abs().max() / largest)
                cosines.append(cosine_similarity(own, other, dim=-1).min())
    return BackendAgreement(
        texts=len(texts),
        difference=float(torch.stack(differences).max()),  # NaN stays NaN
        cosine=float(torch.stack(cosines).min()),
    )


def _fault(way: Backend, found: BackendAgreement) -> str:
    """Return why a backend is not exact enough, in a sentence, or "" if it is."""
    if way.dtype == torch.float32:
        says = f"{way.phrase} differed by {found.difference:.0e} of the largest number."
        return "" if found.difference <= CLOSE else says
    says = f"{way.phrase} would turn the vector of a token too far (cosine {found.cosine:.4f})."
    return "" if found.cosine >= ALIKE else says


def _describe(way: Backend, found: BackendAgreement | None = None) -> str:
    """Return how texts were encoded and how exactly, in a sentence."""
    says = f"Texts were encoded by {way.phrase}, those of like length together"
    if found is None:
        return f"{says}, in 32 bits."
    on = f"compared with 32 bits on the processor on {found.texts} of them"
    if way.dtype == torch.float32:
        return f"{says}: {on}, numbers differ by {max(found.difference, 1e-8):.0e} at most."
    cosine = int(found.cosine * 10_000) / 10_000
    return f"{says}: {on}, the cosine of each token's vectors is {cosine:.4f} or more."
