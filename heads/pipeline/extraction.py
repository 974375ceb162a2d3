"""From texts to features: one pass of the frozen base model for every fixed reading at once.

A reading is a recipe less its head: a pooling and its layers. Texts that occur several times
are read once. They are read in chunks, and what a chunk gives is kept on disk under a
fingerprint of the model, the tokenizer's settings, our own code and the texts themselves: the
next run finds it there, and one that was killed loses a chunk at most.
Legend: n rows, u different texts, w width of a reading.
"""

import hashlib
import time
from collections.abc import Generator, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import save_file
from torch import Tensor

from heads.parts.order import Order
from heads.pipeline.backbone import Backbone
from heads.pipeline.device import HERE
from heads.pipeline.disk import IN_USE_SECONDS, make_room, used, write
from heads.pipeline.engine import Engine
from heads.pipeline.features import Reader
from heads.pipeline.origin import foreign_code, is_ours, own_code
from heads.pipeline.pace import Pace, characters
from heads.pipeline.precision import EXACT
from heads.pipeline.reading import to_try, tried, untried
from heads.pipeline.states import Encoded, States
from heads.pipeline.training import Progress
from heads.pipeline.vectors import Features, Part, opened
from heads.settings import cache_folder

CHUNK = 16_384  # texts, at most; of more texts more are of one length, which is faster to read
FEWEST = 1024
SMALL = 25_000_000  # parameters; a larger model gets smaller chunks, so that a kill loses minutes
CODE = (
    "backbone",
    "features",
    "extraction",
    "states",
    "weights",
    "packed/block",
    "packed/forward",
    "packed/names",
    "packed/products",
)  # what the numbers depend on
ON_DISK_BYTES = 6_000_000_000


@dataclass(frozen=True, slots=True, kw_only=True)
class _Chunk:
    """Some of the different texts, and where what they give is kept."""

    texts: Sequence[str]
    pairs: Sequence[str]
    folder: Path

    def place(self, order: Order) -> Path:
        """The file of a reading; parts of the user's own bring their code into its name."""
        name = order.reading + "".join(map(foreign_code, _makers(order)))
        return self.folder / f"{hashlib.sha256(name.encode()).hexdigest()[:24]}.safetensors"

    @property
    def facts(self) -> Path:
        """The file of token counts."""
        return self.folder / "tokens.safetensors"

    @property
    def says(self) -> str:
        """How it was read, in the words of the run that read it; "" where nothing is kept."""
        try:
            with safe_open(self.facts, framework="pt") as file:
                return (file.metadata() or {}).get("says", "")
        except (OSError, SafetensorError):
            return ""


def extract(
    orders: Sequence[Order],
    texts: Sequence[str],
    pairs: Sequence[str],
    backbone: Backbone,
    precision: str = EXACT,
) -> Iterator[Progress | Features]:
    """Reads every text once for all readings, or finds what was read before.

    Args:
        orders: Recipes whose reading is fixed; their heads do not matter.
        texts: The gated texts of n rows.
        pairs: The second texts, or none.
        precision: auto, exact or fast, as the setting has it.

    Yields:
        `Progress` with the rate and the time left, then the `Features`.

    Raises:
        RecipeError: A reading does not fit the base model.
    """
    readers = {order.reading: Reader(order, backbone) for order in orders}
    rows = list(zip(texts, pairs, strict=True)) if pairs else [(text, "") for text in texts]
    number = {row: place for place, row in enumerate(dict.fromkeys(rows))}
    engine, chunks = _prepared(list(number), bool(pairs), readers, backbone, precision)
    pace = Pace(f"Reading {len(number):,} texts with {backbone.id}", list(number))
    given = []
    for chunk in chunks:
        given.append((yield from _read(chunk, readers, engine, pace)))
    for parts, counts in given:  # what this run is about to open is used
        for part in (*parts.values(), counts):
            if isinstance(part, Path):
                used(part)
    make_room(home_of("features"), ON_DISK_BYTES, IN_USE_SECONDS)
    counts = [opened(part) for _, part in given]
    yield Features(
        index=torch.tensor([number[row] for row in rows]),
        parts={reading: tuple(parts[reading] for parts, _ in given) for reading in readers},
        **{name: torch.cat([count[name] for count in counts]) for name in counts[0]},
        seconds=pace.seconds,
        fresh=pace.texts,
        engine=engine.name,
        precision=engine.precision,
        says=engine.says,
    )


def unread(
    orders: Sequence[Order],
    texts: Sequence[str],
    pairs: Sequence[str],
    backbone: Backbone,
    precision: str = EXACT,
) -> list[tuple[str, str]]:
    """The different texts, each with its second or "", that are not kept for all readings yet."""
    rows = list(dict.fromkeys(zip(texts, pairs or [""] * len(texts), strict=True)))
    readers = [Reader(order, backbone) for order in orders]
    found = []
    for chunk in _chunks(rows, bool(pairs), untried(backbone, precision)):
        if not all(_is_kept(chunk.place(reader.order)) for reader in readers):
            found += zip(chunk.texts, chunk.pairs or [""] * len(chunk.texts), strict=True)
    return found


def _prepared(
    unique: Sequence[tuple[str, str]],
    paired: bool,
    readers: Mapping[str, Reader],
    backbone: Backbone,
    precision: str,
) -> tuple[Engine, list[_Chunk]]:
    """How the texts are read, tried on a few of them unless all are kept; and their chunks."""
    engine = untried(backbone, precision)
    chunks = _chunks(unique, paired, engine)
    wanted = [chunk.place(reader.order) for chunk in chunks for reader in readers.values()]
    if not readers:  # the texts are only counted
        return replace(engine, says=""), chunks
    if all(map(_is_kept, wanted)):
        return replace(engine, says=chunks[0].says or engine.says), chunks
    sample = [unique[place] for place in to_try([characters(row) for row in unique])]
    pairs = [pair for _, pair in sample] if paired else []
    found = tried(backbone, precision, backbone.encode([text for text, _ in sample], pairs))
    alike = (found.name, found.precision) == (engine.name, engine.precision)
    return found, chunks if alike else _chunks(unique, paired, found)


def _chunks(unique: Sequence[tuple[str, str]], paired: bool, engine: Engine) -> list[_Chunk]:
    backbone, way = engine.backbone, (engine.name, engine.precision)
    facts = (backbone.id, backbone.revision, backbone.tokens, *way, own_code(*CODE), paired)
    most = max(min(CHUNK, FEWEST), round(CHUNK * min(1, SMALL / backbone.parameters)))
    chunks = []
    for start in range(0, len(unique), most):
        rows = unique[start : start + most]
        digest = hashlib.sha256(repr((facts, rows)).encode()).hexdigest()[:40]
        chunk = _Chunk(
            texts=[text for text, _ in rows],
            pairs=[pair for _, pair in rows] if paired else [],
            folder=home_of("features") / digest,
        )
        chunks.append(chunk)
    return chunks


def _read(
    chunk: _Chunk, readers: Mapping[str, Reader], engine: Engine, pace: Pace
) -> Generator[Progress, None, tuple[dict[str, Part], Part]]:
    """Reads a chunk for the readings that are not kept; what all of them gave, and its counts."""
    found: dict[str, Part] = {r: chunk.place(reader.order) for r, reader in readers.items()}
    missing = {
        r: reader for r, reader in readers.items() if not _is_kept(chunk.place(reader.order))
    }
    backbone = engine.backbone
    rows = list(zip(chunk.texts, chunk.pairs or [""] * len(chunk.texts), strict=True))
    if not missing:
        pace.skip(rows)
        if _is_kept(chunk.facts):
            return found, chunk.facts
        encoded = backbone.encode(chunk.texts, chunk.pairs)
        return found, _put(chunk.facts, _counts(encoded, backbone), engine.says)
    begun = time.perf_counter()
    encoded = backbone.encode(chunk.texts, chunk.pairs)
    buffers = {r: torch.empty(len(encoded), reader.width) for r, reader in missing.items()}
    depths = frozenset[int]().union(*(reader.depths for reader in missing.values()))
    for places, states in engine.passes(encoded, depths):
        with torch.inference_mode():
            for reading, reader in missing.items():
                buffers[reading][places] = _vectors(reader, states)
        now = time.perf_counter()
        yield pace.step([rows[place] for place in places], now - begun)
        begun = time.perf_counter()
    for reading, vectors in buffers.items():
        found[reading] = _put(chunk.place(readers[reading].order), {"vectors": vectors})
    return found, _put(chunk.facts, _counts(encoded, backbone), engine.says)


def _vectors(reader: Reader, states: States) -> Tensor:
    """What a reading makes of a batch, (n, w); a part of the user's own knows of no GPU."""
    ours = all(map(is_ours, _makers(reader.order)))
    return reader(states if ours else states.here()).vectors.to(HERE)


def _makers(order: Order) -> list[Any]:
    """What makes the parts that read."""
    return [order.pooling.make, *([order.layers.make] if order.layers else [])]


def _counts(encoded: Sequence[Encoded], backbone: Backbone) -> dict[str, Tensor]:
    unknown = backbone.tokenizer.unk_token_id
    return {
        "tokens": torch.tensor([len(text) for text in encoded]),
        "whole": torch.tensor([text.whole_length for text in encoded]),
        "unknown": torch.tensor([text.inputs["input_ids"].count(unknown) for text in encoded]),
    }


def _is_kept(path: Path) -> bool:
    """Whether a file is there and whole; that makes it one of the last to go."""
    try:
        with safe_open(path, framework="pt") as file:
            file.keys()
    except (OSError, SafetensorError):
        return False
    used(path)
    return True


def _put(path: Path, tensors: dict[str, Tensor], says: str = "") -> Part:
    """Keeps tensors on disk; where that fails, in memory."""
    try:
        write(path, lambda place: save_file(tensors, place, {"says": says}))
    except (OSError, SafetensorError):
        return tensors
    return path


def home_of(what: str) -> Path:
    """Where features, or token states, are kept."""
    return cache_folder() / what
