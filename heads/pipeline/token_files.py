"""One file of token states: written as the base model reads, or found again.

Legend: u different texts, n of them in a file, l kept layers, d width.
"""

import hashlib
import os
import tempfile
from collections.abc import Generator, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from safetensors.torch import load_file
from torch import Tensor

from heads.backbone.backbone import Backbone
from heads.backbone.device import HERE
from heads.backbone.engine import Engine, relied_on, to_try, tried
from heads.backbone.states import Encoded
from heads.caching import (
    IN_USE_SECONDS,
    UNFINISHED,
    make_room,
    own_code,
    used,
    write_tensors,
    writing,
)
from heads.events import Progress
from heads.pipeline.chunk import home_of
from heads.pipeline.extraction import CODE

ROUGH, FINE = np.float16, np.float32
ENDINGS = {ROUGH: ".f16", FINE: ".f32"}
MOST = 65_504.0  # the largest number in 16 bits; a few models go beyond it
MARKS = ("unpadded", "content", "eos")
WHAT = "A file of the states of all tokens"
HINT = "Make room on the disk, or leave learned readings out."


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Part:
    """Texts whose states lie in one file, in numbers of one kind."""

    texts: Sequence[str]
    pairs: Sequence[str]
    encoded: Sequence[Encoded]
    kind: type[np.floating]


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class File:
    """Such a file, what lies where in it, and by what it was read."""

    numbers: np.ndarray
    starts: Tensor
    lengths: Tensor
    marks: Tensor
    engine: Engine


def file_of(
    part: Part, layers: tuple[int, ...], backbone: Backbone, precision: str, room: int
) -> Generator[Progress, None, File]:
    """The file of some texts, read now or before."""
    sample = [part.encoded[place] for place in to_try(list(map(len, part.encoded)))]
    while True:
        engine = tried(backbone, precision, sample)
        with relied_on(engine):
            return (yield from _kept(part, layers, engine, room))


def _kept(
    part: Part, layers: tuple[int, ...], engine: Engine, room: int
) -> Generator[Progress, None, File]:
    """The states that a file holds, or is going to."""
    backbone, way = engine.backbone, engine.way
    size = size_of(part.encoded, len(layers) * backbone.width, part.kind)
    told = (backbone.id, backbone.revision, backbone.tokens, way.name, way.precision)
    code = own_code(*CODE, "token_states", "token_files")
    facts = (*told, code, layers, part.kind.__name__, part.texts, part.pairs)
    name = hashlib.sha256(repr(facts).encode()).hexdigest()[:40]
    path = home_of("states") / f"{name}{ENDINGS[part.kind]}"
    index = path.with_suffix(".safetensors")
    if path.is_file() and index.is_file() and path.stat().st_size == size:
        used(path)
        used(index)
    else:
        make_room(home_of("states"), room, IN_USE_SECONDS)
        places = yield from _written(path, part, layers, engine)
        with writing(WHAT, HINT):
            write_tensors(index, places)
    numbers = np.memmap(path, part.kind, "r").reshape(-1, len(layers), backbone.width)
    return File(numbers=numbers, engine=engine, **load_file(index))


def _written(
    path: Path, part: Part, layers: Sequence[int], engine: Engine
) -> Generator[Progress, None, dict[str, Tensor]]:
    """Writes the states into a file that bears its name only when it is whole; what lies where."""
    with writing(WHAT, HINT):
        path.parent.mkdir(parents=True, exist_ok=True)
        handle, name = tempfile.mkstemp(dir=path.parent, prefix=UNFINISHED)
        os.close(handle)
    draft = Path(name)
    order, marks = list[int](), list[Tensor]()
    try:
        with writing(WHAT, HINT), draft.open("wb") as file:
            for rows, states in engine.passes(part.encoded, layers):
                real = states.mask.bool()
                kept = torch.stack([states.layer(layer)[real] for layer in layers], dim=1)
                kept = kept.clamp(-MOST, MOST).half() if part.kind is ROUGH else kept
                file.write(kept.to(HERE).numpy().tobytes())
                order += rows
                said = [getattr(states, name)[real] for name in MARKS]
                marks.append(torch.stack(said, dim=1).bool().to(HERE))
                says = f"Keeping the states of all tokens with {engine.backbone.id}"
                yield Progress(says=says, share=len(order) / len(part.encoded))
        with writing(WHAT, HINT):
            draft.replace(path)
    finally:
        draft.unlink(missing_ok=True)
    lengths = torch.tensor(list(map(len, part.encoded)))
    written, starts = lengths[order], torch.empty_like(lengths)
    starts[order] = written.cumsum(0) - written
    return {"starts": starts, "lengths": lengths, "marks": torch.cat(marks)}


def size_of(encoded: Sequence[Encoded], each: int, kind: type[np.floating]) -> int:
    """Bytes of the states of all tokens, each of so many numbers."""
    return sum(map(len, encoded)) * each * np.dtype(kind).itemsize
