"""The states of every token, kept on disk for readings that are learned.

They lie end to end without padding, texts of like length side by side, in 16 bits, in one file
that is mapped into memory: only the blocks in use are in it. The file is bounded, and another
run with the same texts finds it.
Legend: b texts in a block, t tokens, l kept layers, d width.
"""

import hashlib
import json
import os
import tempfile
from collections.abc import Generator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch

from heads.errors import DataError, LimitError
from heads.parts.order import Order
from heads.pipeline.backbone import Backbone
from heads.pipeline.corpus import Corpus
from heads.pipeline.disk import IN_USE_SECONDS, UNFINISHED, make_room, used, write
from heads.pipeline.extraction import CHUNK, CODE, home_of
from heads.pipeline.origin import own_code
from heads.pipeline.precision import EXACT
from heads.pipeline.reading import Engine, to_try, tried, untried
from heads.pipeline.states import Encoded, States
from heads.pipeline.training import Progress
from heads.settings import Limits

BLOCK = 32  # texts, which are also a batch of the training
BYTES = 2
MOST = 65_504.0  # the largest number in 16 bits; a few models go beyond it
MARKS = ("unpadded", "content", "eos")


@dataclass(frozen=True, slots=True, kw_only=True)
class Block:
    """Texts of like length, side by side.

    Attributes:
        texts: Their numbers among the different texts.
        lengths: How many tokens each has.
        start: How many tokens stand before theirs in the file.
        marks: For each of `MARKS` what it says of their tokens, as a text of 0 and 1.
    """

    texts: tuple[int, ...]
    lengths: tuple[int, ...]
    start: int
    marks: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class TokenStates:
    """All texts in blocks.

    Attributes:
        path: The file of the states, (tokens, kept layers, d), without any padding.
        blocks: What lies where.
        layers: The numbers of the layers that are kept.
        depth: How many layers the base model has, embeddings included.
        width: d.
        engine: By what the texts were read: packed, or Transformers.
        precision: In what its products were computed: float32 or bfloat16.
        says: Why so, in a sentence.
    """

    path: Path
    blocks: tuple[Block, ...]
    layers: tuple[int, ...]
    depth: int
    width: int
    engine: str
    precision: str
    says: str

    def states(self, block: Block) -> States:
        """The states of a block in 32 bits; layers that are not kept are empty."""
        lengths = torch.tensor(block.lengths)
        mask = torch.arange(int(lengths.max())) < lengths[:, None]  # (b, t)
        shape = (int(lengths.sum()), len(self.layers), self.width)
        start = block.start * len(self.layers) * self.width * BYTES
        kept = torch.from_numpy(np.array(np.memmap(self.path, np.float16, "r", start, shape)))
        filled = torch.zeros(*mask.shape, *shape[1:])
        filled[mask] = kept.float()
        hidden = [torch.empty(0)] * self.depth
        for place, layer in enumerate(self.layers):
            hidden[layer] = filled[:, :, place]
        marks = {name: torch.zeros(mask.shape) for name in MARKS}
        for name, signs in zip(MARKS, block.marks, strict=True):
            marks[name][mask] = torch.tensor([float(sign) for sign in signs])
        return States(mask=mask.float(), hidden=tuple(hidden), pooler=None, **marks)


def layers_for(orders: Sequence[Order], backbone: Backbone) -> tuple[int, ...]:
    """The layers that these recipes read."""
    depth = backbone.layers + 1
    if any(order.layers is not None for order in orders):
        return tuple(range(depth))
    return tuple(sorted({order.layer % depth for order in orders}))


def keep_states(
    orders: Sequence[Order],
    texts: Sequence[str],
    pairs: Sequence[str],
    backbone: Backbone,
    limits: Limits,
    precision: str = EXACT,
) -> Generator[Progress, None, TokenStates]:
    """Reads all different texts and keeps their states, or finds them kept.

    Args:
        precision: In which products are computed: a setting, or what was used before.

    Raises:
        LimitError: They would take more room than this place allows.
    """
    layers = layers_for(orders, backbone)
    encoded = backbone.encode(texts, pairs)
    size = sum(map(len, encoded)) * len(layers) * backbone.width * BYTES
    _check_size(size, orders[0], limits)
    sample = [encoded[place] for place in to_try(list(map(len, encoded)))]
    engine = tried(untried(backbone, precision), sample)
    way = (backbone.id, backbone.revision, backbone.tokens, engine.name, engine.precision)
    facts = (*way, own_code(*CODE, "token_states"), layers, texts, pairs)
    name = hashlib.sha256(repr(facts).encode()).hexdigest()[:40]
    path, index = home_of("states") / f"{name}.f16", home_of("states") / f"{name}.json"
    blocks = _found(path, index, size)
    if blocks is None:
        make_room(home_of("states"), max(0, limits.states_bytes - size), IN_USE_SECONDS)
        blocks = yield from _written(path, encoded, layers, engine)
        told = json.dumps([asdict(block) for block in blocks])
        write(index, lambda place: place.write_text(told, "utf-8"))
    return TokenStates(
        path=path,
        blocks=tuple(blocks),
        layers=layers,
        depth=backbone.layers + 1,
        width=backbone.width,
        engine=engine.name,
        precision=engine.precision,
        says=engine.says,
    )


def check_states(
    orders: Sequence[Order], corpus: Corpus, backbone: Backbone, limits: Limits
) -> None:
    """Refuses what would not fit, before anything is read.

    Raises:
        LimitError: The states of all tokens would take more room than this place allows.
    """
    if orders:
        rows = set(zip(corpus.texts, corpus.pairs or [""] * len(corpus), strict=True))
        tokens = 0
        texts, pairs = [text for text, _ in rows], [pair for _, pair in rows if corpus.pairs]
        for start in range(0, len(texts), CHUNK):
            part = slice(start, start + CHUNK)
            tokens += sum(map(len, backbone.encode(texts[part], pairs[part])))
        size = tokens * len(layers_for(orders, backbone)) * backbone.width * BYTES
        _check_size(size, orders[0], limits)


def _check_size(size: int, order: Order, limits: Limits) -> None:
    if size > limits.states_bytes:
        raise LimitError(
            f"{order.recipe} is learned from the states of all tokens, which would take "
            f"{size / 1e9:,.1f} GB; this place allows {limits.states_bytes / 1e9:,.1f} GB.",
            "Use fewer rows, or leave such recipes out.",
        )


def _found(path: Path, index: Path, size: int) -> list[Block] | None:
    """The blocks of a file that is there and whole."""
    if not (path.is_file() and index.is_file() and path.stat().st_size == size):
        return None
    used(path)
    used(index)
    found: list[dict[str, Any]] = json.loads(index.read_text("utf-8"))
    return [
        Block(
            texts=tuple(one["texts"]),
            lengths=tuple(one["lengths"]),
            start=one["start"],
            marks=tuple(one["marks"]),
        )
        for one in found
    ]


def _written(
    path: Path, encoded: Sequence[Encoded], layers: Sequence[int], engine: Engine
) -> Generator[Progress, None, list[Block]]:
    """Writes the states into a file that bears its name only when it is whole."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        handle, name = tempfile.mkstemp(dir=path.parent, prefix=UNFINISHED)
        os.close(handle)
    except OSError as error:
        raise _no_room(error) from None
    draft = Path(name)
    order: list[int] = []
    marks: list[tuple[str, ...]] = []
    try:
        with draft.open("wb") as file:
            for rows, states in engine.passes(encoded, layers):
                real = states.mask.bool()
                kept = torch.stack([states.layer(layer)[real] for layer in layers], dim=1)
                file.write(kept.clamp(-MOST, MOST).half().numpy().tobytes())
                order += rows
                marks += _marks(states)
                says = f"Keeping the states of all tokens with {engine.backbone.id}"
                yield Progress(says=says, share=len(order) / len(encoded))
        draft.replace(path)
    except OSError as error:
        raise _no_room(error) from None
    finally:
        draft.unlink(missing_ok=True)
    return _blocks(order, marks, encoded)


def _marks(states: States) -> list[tuple[str, ...]]:
    """For each text what every mark says of its tokens."""
    found = []
    for row, real in enumerate(states.mask.bool()):
        own = (getattr(states, name)[row][real] for name in MARKS)
        found.append(tuple("".join("1" if sign else "0" for sign in each) for each in own))
    return found


def _blocks(
    order: Sequence[int], marks: Sequence[tuple[str, ...]], encoded: Sequence[Encoded]
) -> list[Block]:
    """The texts as they lie in the file, so many at a time."""
    blocks, tokens = [], 0
    for start in range(0, len(order), BLOCK):
        texts = tuple(order[start : start + BLOCK])
        own = zip(*marks[start : start + BLOCK], strict=True)
        lengths = tuple(len(encoded[text]) for text in texts)
        joined = tuple("".join(each) for each in own)
        blocks.append(Block(texts=texts, lengths=lengths, start=tokens, marks=joined))
        tokens += sum(lengths)
    return blocks


def _no_room(error: OSError) -> DataError:
    what = f"The states of all tokens cannot be kept on disk ({error.strerror})."
    return DataError(what, "Make room, or leave learned readings out.")
