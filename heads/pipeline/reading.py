"""By which pass texts are read, and how it was found to be right.

Before a pass is used, some of the very texts are read by Transformers on the processor too.
"""

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, replace

import torch
from torch.nn.functional import cosine_similarity

from heads.errors import ModelError
from heads.pipeline.backbone import Backbone
from heads.pipeline.device import HERE
from heads.pipeline.engine import Engine, Way, ways
from heads.pipeline.packed.block import block_of
from heads.pipeline.packed.names import FAMILIES
from heads.pipeline.precision import gain
from heads.pipeline.states import Encoded

CLOSE = 1e-5  # of the largest number: what rounding in another order may change in 32 bits
ALIKE = 0.999  # cosine: how closely states in 16 bits must point where those in 32 bits do
SHARES = (0.0, 0.5, 0.9, 1.0)  # of the texts by length: on which a pass is tried
# What a family raises that has changed its names or its shapes, and a GPU that is too small.
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


def untried(backbone: Backbone, precision: str) -> Engine:
    """The way in which texts should be read here, before it has been tried on them.

    Args:
        precision: auto, exact or fast, as the setting has it.
    """
    for way in ways(backbone, precision):
        with suppress(RuntimeError):
            return way.engine(backbone)
    raise AssertionError("Transformers reads on the processor")


def tried(backbone: Backbone, precision: str, texts: Sequence[Encoded]) -> Engine:
    """The way in which texts are read: the fastest one that is as exact as it must be.

    Args:
        precision: auto, exact or fast, as the setting has it.
        texts: A few of them, on which it is tried.
    """
    lost = list[str]()
    for way in ways(backbone, precision):
        try:
            engine = way.engine(backbone)
            if not way.is_packed and way.device == HERE:
                return replace(engine, says=" ".join([_generic(way, backbone), *lost]))
            found = agreement(engine, texts)
        except FAULTS as error:
            first = str(getattr(error, "what", error)).strip().split("\n", 1)[0][:160]
            lost.append(f"{way.what} failed ({first}).")
            continue
        if not (fault := _fault(way, found)):
            return replace(engine, says=" ".join([_said(way, backbone, found), *lost]))
        lost.append(fault)
    raise AssertionError("Transformers reads on the processor")


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
        block = block_of(backbone.model, torch.float32)
        engine = Engine(backbone=backbone, block=block, model=backbone.model)
        if block is not None and agreement(engine, texts).difference <= CLOSE:
            return replace(backbone, block=block)
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
    within = f"n {found.texts} of them within {max(found.difference, 1e-8):.0e} of what {theirs}."
    if way.is_packed:
        return f"Texts were read without padding{way.on}, in float32: o{within}"
    return f"{_generic(way, backbone)} O{within}"


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
