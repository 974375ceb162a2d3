"""By which pass texts are read, and how it was found to be right.

Before a pass is used, some of the very texts are read by Transformers on the processor too.
"""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace

import torch
from torch.nn.functional import cosine_similarity

from heads.errors import ModelError
from heads.pipeline.backbone import Backbone
from heads.pipeline.device import HERE
from heads.pipeline.engine import Engine, Way, ways, why_lost
from heads.pipeline.packed.block import block_of
from heads.pipeline.packed.names import FAMILIES
from heads.pipeline.precision import gain
from heads.pipeline.states import Encoded

CLOSE = 1e-5  # of the largest number: what rounding in another order may change in 32 bits
ALIKE = 0.999  # cosine: how closely states in 16 bits must point where those in 32 bits do
SHARES = (0.0, 0.5, 0.9, 1.0)  # of the texts by length: on which a pass is tried
# What a family raises that has changed its names or its shapes.
FAULTS = (ModelError, AttributeError, RuntimeError, IndexError, ValueError)


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


def tried(backbone: Backbone, precision: str, texts: Sequence[Encoded]) -> Engine:
    """The way in which texts are read: the fastest one that is as exact as it must be.

    Args:
        precision: auto, exact or fast, as the setting has it; or what was used before, by name.
        texts: A few of them, on which it is tried.
    """
    *others, last = ways(backbone, precision)
    here = list[str]()
    for way in others:
        engine = Engine(backbone=backbone, way=way)
        try:
            found = agreement(engine, texts)
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
    return Engine(backbone=backbone, way=last, says=told)


@contextmanager
def relied_on(engine: Engine) -> Iterator[None]:
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


def _failure(way: Way, error: Exception) -> str:
    """That a way to read has failed, and why, in a sentence."""
    first = str(error.__cause__ or error).strip().split("\n", 1)[0][:160].rstrip(". ")
    return f"{way.what} failed ({first or type(error).__name__})."


def to_try(lengths: Sequence[int]) -> list[int]:
    """Which of some texts a pass is tried on: from the shortest to the longest."""
    order = sorted(range(len(lengths)), key=lambda row: lengths[row])
    return [order[place] for place in sorted({round(s * (len(order) - 1)) for s in SHARES})]


@torch.no_grad()
def agreement(engine: Engine, texts: Sequence[Encoded]) -> Agreement:
    """How a way to read differs from Transformers on the processor, over all layers of texts."""
    backbone = engine.backbone
    generic = replace(backbone, block=None)
    differences, cosines = [], []
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
    return Agreement(
        texts=len(texts),
        difference=float(torch.stack(differences).max()),  # no number stays no number
        cosine=float(torch.stack(cosines).min()),
    )


def with_block(backbone: Backbone, texts: Sequence[Encoded]) -> Backbone:
    """The base model with a pass without padding, where that gives what Transformers gives."""
    try:
        found = replace(backbone, block=block_of(backbone.model, torch.float32))
        engine = Engine(backbone=found, way=Way(device=HERE, dtype=torch.float32, is_packed=True))
        if found.block is not None and agreement(engine, texts).difference <= CLOSE:
            return found
    except FAULTS:
        pass
    return backbone


def _fault(way: Way, found: Agreement) -> str:
    """Why a way is not exact enough, in a sentence; "" if it is."""
    if way.dtype == torch.float32:
        said = f"{way.what} differed by {found.difference:.0e} of the largest number."
        return "" if found.difference <= CLOSE else said
    said = f"16 bits{way.on} would turn a token's states too far (cosine {found.cosine:.4f})."
    return "" if found.cosine >= ALIKE else said


def _said(way: Way, backbone: Backbone, found: Agreement) -> str:
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


def _generic(way: Way, backbone: Backbone) -> str:
    """That Transformers reads, and why."""
    said = (
        f"{backbone.id} was read by Transformers{way.on}, texts of like length together, in float32"
    )
    if backbone.model_type not in FAMILIES:
        return f"{said}: a {backbone.model_type} is not built of BERT's block."
    if backbone.block is None:
        return f"{said}: a pass without padding did not give the same."
    return f"{said}."
