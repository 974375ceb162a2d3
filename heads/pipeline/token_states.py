"""The states of every token, kept on disk for readings that are learned.

They lie end to end without padding, texts of like length side by side, in 16 bits, in one file
that is mapped into memory: only what is in use need be in it. The file is bounded, and another
run with the same texts finds it.
Legend: u different texts, n of them asked for, t tokens, l kept layers, d width.
"""

import hashlib
import os
import tempfile
from collections.abc import Generator, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from safetensors.torch import load_file, save_file
from torch import Tensor
from torch.nn.utils.rnn import pad_sequence

from heads.errors import DataError, LimitError
from heads.parts.order import Order
from heads.pipeline.backbone import Backbone
from heads.pipeline.chunk import home_of
from heads.pipeline.corpus import Corpus
from heads.pipeline.device import HERE
from heads.pipeline.disk import IN_USE_SECONDS, UNFINISHED, make_room, used, write
from heads.pipeline.engine import Engine
from heads.pipeline.extraction import CHUNK, CODE
from heads.pipeline.origin import own_code
from heads.pipeline.precision import EXACT
from heads.pipeline.reading import relied_on, to_try, tried
from heads.pipeline.states import Encoded, States
from heads.pipeline.training import Progress
from heads.settings import Limits

BYTES = 2
MOST = 65_504.0  # the largest number in 16 bits; a few models go beyond it
MARKS = ("unpadded", "content", "eos")


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class TokenStates:
    """The states of all texts, and where each text's lie.

    Attributes:
        numbers: (tokens, kept layers, d), the file, without any padding.
        starts: (u,), how many tokens stand before each text's in the file.
        lengths: (u,), how many tokens each text has.
        marks: (tokens, 3), what each of `MARKS` says of each token.
        layers: The numbers of the layers that are kept.
        depth: How many layers the base model has, embeddings included.
        engine: By what the texts were read: packed, or Transformers.
        precision: In what its products were computed: float32 or bfloat16.
        says: Why so, in a sentence.
    """

    numbers: np.ndarray
    starts: Tensor
    lengths: Tensor
    marks: Tensor
    layers: tuple[int, ...]
    depth: int
    engine: str
    precision: str
    says: str

    def states(self, texts: Tensor) -> States:
        """The states of some texts (n,) in 32 bits; layers that are not kept are empty."""
        lengths = self.lengths[texts]
        ends = (self.starts[texts] + lengths).tolist()
        spans = list(map(slice, self.starts[texts].tolist(), ends))
        kept = [torch.from_numpy(np.array(self.numbers[span])) for span in spans]
        filled = pad_sequence(kept, batch_first=True).float()  # (n, t, l, d)
        hidden = [torch.empty(0)] * self.depth
        for place, layer in enumerate(self.layers):
            hidden[layer] = filled[:, :, place]
        marks = pad_sequence([self.marks[span] for span in spans], batch_first=True).float()
        mask = torch.arange(int(lengths.max())) < lengths[:, None]
        said = dict(zip(MARKS, marks.unbind(-1), strict=True))
        return States(mask=mask.float(), hidden=tuple(hidden), pooler=None, **said)


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
    _check_size(_size(encoded, layers, backbone), orders[0], limits)
    sample = [encoded[place] for place in to_try(list(map(len, encoded)))]
    while True:
        engine = tried(backbone, precision, sample)
        with relied_on(engine):
            return (yield from _kept(layers, texts, pairs, encoded, engine, limits))


def _kept(
    layers: tuple[int, ...],
    texts: Sequence[str],
    pairs: Sequence[str],
    encoded: Sequence[Encoded],
    engine: Engine,
    limits: Limits,
) -> Generator[Progress, None, TokenStates]:
    """The states that a file holds, or is going to."""
    backbone, way = engine.backbone, engine.way
    size = _size(encoded, layers, backbone)
    told = (backbone.id, backbone.revision, backbone.tokens, way.name, way.precision)
    facts = (*told, own_code(*CODE, "token_states"), layers, texts, pairs)
    name = hashlib.sha256(repr(facts).encode()).hexdigest()[:40]
    path, index = home_of("states") / f"{name}.f16", home_of("states") / f"{name}.safetensors"
    if path.is_file() and index.is_file() and path.stat().st_size == size:
        used(path)
        used(index)
    else:
        make_room(home_of("states"), max(0, limits.states_bytes - size), IN_USE_SECONDS)
        places = yield from _written(path, encoded, layers, engine)
        write(index, lambda place: save_file(places, place))
    shape = (-1, len(layers), backbone.width)
    return TokenStates(
        numbers=np.memmap(path, np.float16, "r").reshape(shape),
        **load_file(index),
        layers=layers,
        depth=backbone.layers + 1,
        engine=way.name,
        precision=way.precision,
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


def _size(encoded: Sequence[Encoded], layers: Sequence[int], backbone: Backbone) -> int:
    """Bytes of the states of all tokens."""
    return sum(map(len, encoded)) * len(layers) * backbone.width * BYTES


def _check_size(size: int, order: Order, limits: Limits) -> None:
    if size > limits.states_bytes:
        raise LimitError(
            f"{order.recipe} is learned from the states of all tokens, which would take "
            f"{size / 1e9:,.1f} GB; this place allows {limits.states_bytes / 1e9:,.1f} GB.",
            "Use fewer rows, or leave such recipes out.",
        )


def _written(
    path: Path, encoded: Sequence[Encoded], layers: Sequence[int], engine: Engine
) -> Generator[Progress, None, dict[str, Tensor]]:
    """Writes the states into a file that bears its name only when it is whole; what lies where."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        handle, name = tempfile.mkstemp(dir=path.parent, prefix=UNFINISHED)
        os.close(handle)
    except OSError as error:
        raise _no_room(error) from None
    draft = Path(name)
    order, marks = list[int](), list[Tensor]()
    try:
        with draft.open("wb") as file:
            for rows, states in engine.passes(encoded, layers):
                real = states.mask.bool()
                kept = torch.stack([states.layer(layer)[real] for layer in layers], dim=1)
                file.write(kept.clamp(-MOST, MOST).half().to(HERE).numpy().tobytes())
                order += rows
                said = [getattr(states, name)[real] for name in MARKS]
                marks.append(torch.stack(said, dim=1).bool().to(HERE))
                says = f"Keeping the states of all tokens with {engine.backbone.id}"
                yield Progress(says=says, share=len(order) / len(encoded))
        draft.replace(path)
    except OSError as error:
        raise _no_room(error) from None
    finally:
        draft.unlink(missing_ok=True)
    lengths = torch.tensor(list(map(len, encoded)))
    written, starts = lengths[order], torch.empty_like(lengths)
    starts[order] = written.cumsum(0) - written
    return {"starts": starts, "lengths": lengths, "marks": torch.cat(marks)}


def _no_room(error: OSError) -> DataError:
    what = f"The states of all tokens cannot be kept on disk ({error.strerror})."
    return DataError(what, "Make room, or leave learned readings out.")
