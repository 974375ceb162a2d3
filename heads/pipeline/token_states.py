"""The states of every token, kept on disk for readings that are learned.

Texts lie in blocks of like length, in 16 bits, in one file that is mapped into memory: only the
blocks in use are in it. The file is bounded, and another run with the same texts finds it.
Legend: b texts in a block, t tokens, l kept layers, d width.
"""

import hashlib
import json
import os
import tempfile
from collections.abc import Generator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from heads.errors import DataError, LimitError
from heads.parts.order import Order
from heads.pipeline.backbone import Backbone
from heads.pipeline.corpus import Corpus
from heads.pipeline.disk import IN_USE_SECONDS, UNFINISHED, make_room, used, write
from heads.pipeline.extraction import CHUNK, CODE, home_of
from heads.pipeline.origin import own_code
from heads.pipeline.states import Encoded, States
from heads.pipeline.training import Progress
from heads.settings import Limits

BLOCK = 32  # texts, which are also a batch of the training
BYTES = 2
MOST = 65_504.0  # the largest number in 16 bits; a few models go beyond it
MASKS = ("mask", "unpadded", "content", "eos")


@dataclass(frozen=True, slots=True, kw_only=True)
class Block:
    """Texts of like length, side by side.

    Attributes:
        texts: Their numbers among the different texts.
        tokens: t, the length of the longest.
        start: Where their states begin in the file, in numbers.
        marks: For each of `MASKS` the flattened (b, t), as a text of 0 and 1.
    """

    texts: tuple[int, ...]
    tokens: int
    start: int
    marks: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class TokenStates:
    """All texts in blocks.

    Attributes:
        path: The file of the states.
        blocks: What lies where.
        layers: The numbers of the layers that are kept.
        depth: How many layers the base model has, embeddings included.
        width: d.
    """

    path: Path
    blocks: tuple[Block, ...]
    layers: tuple[int, ...]
    depth: int
    width: int

    def states(self, block: Block) -> States:
        """The states of a block in 32 bits; layers that are not kept are empty."""
        shape = (len(self.layers), len(block.texts), block.tokens, self.width)
        count = int(np.prod(shape))
        mapped = np.memmap(self.path, np.float16, "r", block.start * BYTES, (count,))
        kept = torch.from_numpy(np.array(mapped)).float().view(shape)
        hidden = [torch.empty(0)] * self.depth
        for place, layer in enumerate(self.layers):
            hidden[layer] = kept[place]
        marks = {
            name: torch.tensor([float(sign) for sign in signs]).view(shape[1:3])
            for name, signs in zip(MASKS, block.marks, strict=True)
        }
        return States(hidden=tuple(hidden), pooler=None, **marks)


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
) -> Generator[Progress, None, TokenStates]:
    """Reads all different texts and keeps their states, or finds them kept.

    Raises:
        LimitError: They would take more room than this place allows.
    """
    layers = layers_for(orders, backbone)
    facts = (backbone.id, backbone.revision, backbone.tokens, own_code(*CODE), layers, texts, pairs)
    name = hashlib.sha256(repr(facts).encode()).hexdigest()[:40]
    path, index = home_of("states") / f"{name}.f16", home_of("states") / f"{name}.json"
    encoded = backbone.encode(texts, pairs)
    groups = _groups(encoded)
    size = sum(len(group) * len(encoded[group[0]]) for group in groups)
    size *= len(layers) * backbone.width * BYTES
    _check_size(size, orders[0], limits)
    blocks = _found(path, index, size)
    if blocks is None:
        make_room(home_of("states"), max(0, limits.states_bytes - size), IN_USE_SECONDS)
        blocks = yield from _written(path, groups, encoded, layers, backbone)
        told = json.dumps([asdict(block) for block in blocks])
        write(index, lambda place: place.write_text(told, "utf-8"))
    return TokenStates(
        path=path,
        blocks=tuple(blocks),
        layers=layers,
        depth=backbone.layers + 1,
        width=backbone.width,
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
    return [
        Block(**one | {"texts": tuple(one["texts"]), "marks": tuple(one["marks"])})
        for one in json.loads(index.read_text("utf-8"))
    ]


def _groups(encoded: Sequence[Encoded]) -> list[list[int]]:
    order = sorted(range(len(encoded)), key=lambda row: -len(encoded[row]))
    return [order[start : start + BLOCK] for start in range(0, len(order), BLOCK)]


def _written(
    path: Path,
    groups: Sequence[Sequence[int]],
    encoded: Sequence[Encoded],
    layers: Sequence[int],
    backbone: Backbone,
) -> Generator[Progress, None, list[Block]]:
    """Writes the states block by block into a file that bears its name only when it is whole."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        handle, name = tempfile.mkstemp(dir=path.parent, prefix=UNFINISHED)
        os.close(handle)
    except OSError as error:
        raise _no_room(error) from None
    draft = Path(name)
    blocks, start = [], 0
    try:
        with draft.open("wb") as file:
            for done, group in enumerate(groups, start=1):
                states = backbone.states([encoded[row] for row in group])
                kept = torch.stack([states.layer(layer) for layer in layers])
                kept = kept.clamp(-MOST, MOST).half()
                file.write(kept.numpy().tobytes())
                marks = tuple(_signs(getattr(states, name)) for name in MASKS)
                blocks.append(
                    Block(texts=tuple(group), tokens=kept.shape[2], start=start, marks=marks)
                )
                start += kept.numel()
                says = f"Keeping the states of all tokens with {backbone.id}"
                yield Progress(says=says, share=done / len(groups))
        draft.replace(path)
    except OSError as error:
        raise _no_room(error) from None
    finally:
        draft.unlink(missing_ok=True)
    return blocks


def _no_room(error: OSError) -> DataError:
    what = f"The states of all tokens cannot be kept on disk ({error.strerror})."
    return DataError(what, "Make room, or leave learned readings out.")


def _signs(mask: Tensor) -> str:
    return "".join("1" if sign else "0" for sign in mask.flatten().tolist())
