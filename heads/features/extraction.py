"""From texts to features: one pass of the frozen base model for every fixed reading at once.

A reading is a recipe less its head: a pooling and its layers. Texts that occur several times
are read once. They are read in chunks, and what a chunk gives is kept on disk under a
fingerprint of the model, the tokenizer's settings, our own code and the texts themselves: the
next run finds it there, and one that was killed loses a chunk at most.
Texts of rows that are scored can be read in 32 bits beside others in 16: so a head is scored on
what it reads once it is exported.
Legend: n rows, u different texts, w width of a reading.
"""

import time
from collections.abc import Callable, Collection, Generator, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import torch
from torch import Tensor

from heads import interruption
from heads.backbone.backbone import Backbone
from heads.backbone.device import EXACT, HERE
from heads.backbone.engine import Backend, InferenceEngine, backends, relied_on, to_try, tried
from heads.backbone.states import Encoded
from heads.caching import IN_USE_SECONDS, is_ours, make_room, own_code, used
from heads.events import Progress, within
from heads.features.featurizer import Featurizer
from heads.features.store import (
    COUNTS,
    Content,
    Encoding,
    FeatureMatrices,
    Part,
    Row,
    home_of,
    is_kept,
    makers,
    message_of,
    name_of,
    opened,
)
from heads.parts.resolved_recipe import ResolvedRecipe

# --- How far a pass over many texts is, how fast it goes and how long it will take.


class Pace:
    """How far a pass is, how fast it goes and how long it will take, in characters."""

    def __init__(self, says: str, rows: Sequence[Row]) -> None:
        self.says = says
        self.left = sum(map(characters, rows))  # still to be read, or to be found on disk
        self.done = 0
        self.texts = 0
        self.seconds = 0.0

    def skip(self, rows: Sequence[Row]) -> None:
        """Some rows were found on disk."""
        self.left -= sum(map(characters, rows))

    def step(self, rows: Sequence[Row], seconds: float) -> Progress:
        """Some rows have been read in that time."""
        read = sum(map(characters, rows))
        self.left, self.done = self.left - read, self.done + read
        self.texts, self.seconds = self.texts + len(rows), self.seconds + seconds
        rate = self.texts / self.seconds
        left = self.left * self.seconds / self.done
        share = self.done / (self.done + self.left)
        return Progress(says=f"{self.says}: {rate:,.0f} a second, {left:,.0f} s left", share=share)


def characters(row: Row) -> int:
    """How long a text, or two, takes to read, by a yardstick of no unit."""
    return len(row[0]) + len(row[1]) + 8  # the tokens around a text take time as well


CHUNK = 16_384  # texts, at most; of more texts more are of one length, which is faster to read
FEWEST = 1024
SMALL = 25_000_000  # parameters; a larger model gets smaller chunks, so that a kill loses minutes
CODE = (
    "backbone/backbone", "backbone/states", "backbone/trained_reading", "backbone/weights",
    "backbone/windows",
    "features/extraction", "features/featurizer",
)  # fmt: skip  # what the numbers depend on
ON_DISK_BYTES = 6_000_000_000
APART = "Rows that are scored were read in 32 bits, as an exported head reads them."
Given = list[tuple[dict[str, Part], Content]]  # what every chunk gave, and its counts
Found = tuple[Given, InferenceEngine, Pace]


def extract(
    recipes: Sequence[ResolvedRecipe],
    texts: Sequence[str],
    pairs: Sequence[str],
    backbone: Backbone,
    precision: str = EXACT,
    scored: Collection[int] = (),
) -> Iterator[Progress | FeatureMatrices]:
    """Reads every text once for all readings, or finds what was read before.

    Args:
        recipes: Those whose reading is fixed; their heads do not matter.
        scored: Numbers of rows that are read in 32 bits whatever the setting.

    Yields:
        `Progress` with the rate and the time left, then the `FeatureMatrices`.

    Raises:
        RecipeError: A reading does not fit the base model.
    """
    return each_prompt(
        recipes,
        backbone,
        lambda own, prompted: _extract(own, texts, pairs, prompted, precision, scored),
    )


def each_prompt(
    recipes: Sequence[ResolvedRecipe],
    backbone: Backbone,
    extracted: Callable[[Sequence[ResolvedRecipe], Backbone], Iterator[Progress | FeatureMatrices]],
) -> Iterator[Progress | FeatureMatrices]:
    """The features of all recipes, those of one prompt at a time, put together.

    Args:
        extracted: Those of recipes that read the same texts, by the base model with their prompt.
    """
    found: FeatureMatrices | None = None
    groups = by_prompt(recipes, backbone)
    for done, (prompted, own) in enumerate(groups):
        for event in extracted(own, prompted):
            if not isinstance(event, FeatureMatrices):
                yield Progress(says=event.says, share=(done + event.share) / len(groups))
            elif found is None:
                found = event
            else:  # counts are of the first, the texts without a prompt
                found = replace(
                    found,
                    parts={**found.parts, **event.parts},
                    seconds=found.seconds + event.seconds,
                    fresh=max(found.fresh, event.fresh),
                )
    assert found is not None
    yield found


def by_prompt(
    recipes: Sequence[ResolvedRecipe], backbone: Backbone
) -> list[tuple[Backbone, list[ResolvedRecipe]]]:
    """Recipes by what is written around the texts that they read; those of bare texts first.

    Those by which long texts are cut share the pass of others that read them in windows: the first
    window is the text as it is cut.
    """
    found: dict[object, tuple[Backbone, list[ResolvedRecipe]]] = {}
    for resolved in sorted(recipes, key=lambda one: not one.reads_windows):
        own = backbone.for_recipe(resolved)
        way = next((way for way, (other, _) in found.items() if other.covers(own)), own.way)
        found.setdefault(way, (own, []))[1].append(resolved)
    return sorted(found.values(), key=lambda one: len(one[0].written)) or [(backbone, [])]


def _extract(
    recipes: Sequence[ResolvedRecipe],
    texts: Sequence[str],
    pairs: Sequence[str],
    backbone: Backbone,
    precision: str,
    scored: Collection[int],
) -> Iterator[Progress | FeatureMatrices]:
    """Extract for recipes that read the same texts: with one prompt around them, or with none."""
    readers = {resolved.reading: Featurizer(resolved, backbone) for resolved in recipes}
    rows = list(zip(texts, pairs, strict=True)) if pairs else [(text, "") for text in texts]
    groups = grouped(rows, precision, scored, backbone)
    different = [row for group in groups for row in group.rows]
    number = {row: place for place, row in enumerate(different)}
    found, before = list[Found](), 0
    for group in groups:
        part = len(group.rows) / len(different)
        reading = _encode_group(group, bool(pairs), readers, backbone)
        found.append((yield from within(reading, before / len(different), part)))
        before += len(group.rows)
    make_room(home_of("features"), ON_DISK_BYTES, IN_USE_SECONDS)
    index = torch.tensor([number[row] for row in rows])
    yield _features(found, index, list(readers))


def _features(found: Sequence[Found], index: Tensor, readings: Sequence[str]) -> FeatureMatrices:
    """What all groups gave; where scored texts were read apart, they are the second one."""
    given = [part for parts, _, _ in found for part in parts]
    engines, paces = [engine for _, engine, _ in found], [pace for _, _, pace in found]
    counted = [opened(content, COUNTS) for _, content in given]
    learned, *exact = engines
    return FeatureMatrices(
        index=index,
        parts={reading: tuple(parts[reading] for parts, _ in given) for reading in readings},
        **{name: torch.cat([one[name] for one in counted]) for name in COUNTS},
        seconds=sum(pace.seconds for pace in paces),
        fresh=sum(pace.texts for pace in paces),
        engine=" and ".join(dict.fromkeys(engine.way.name for engine in engines)),
        precision=learned.way.precision,
        scored=engines[-1].way.precision,
        says=f"{learned.says} {APART}" if exact and exact[0].way != learned.way else learned.says,
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Group:
    """Different texts, each with its second or "", that are read in one precision."""

    rows: Sequence[Row]
    precision: str


@dataclass(frozen=True, slots=True, kw_only=True)
class _Chunk:
    """Some of the different texts of a run, which are read and kept together."""

    rows: Sequence[Row]
    paired: bool
    encoding: Encoding
    digests: Sequence[bytes]

    @property
    def counts(self) -> Path:
        """The file of token counts."""
        return self.encoding.file(self.digests, COUNTS)

    def file(self, resolved: ResolvedRecipe) -> Path:
        """Return the file of a reading."""
        return self.encoding.file(self.digests, [name_of(resolved)])


def sides_of(rows: Sequence[Row], paired: bool) -> tuple[list[str], list[str]]:
    """Return the texts of some rows, and their second texts or nothing."""
    return [text for text, _ in rows], [pair for _, pair in rows] if paired else []


def grouped(
    rows: Sequence[Row], precision: str, scored: Collection[int], backbone: Backbone
) -> list[Group]:
    """The different texts of some rows; where others are not read so, those of scored rows last."""
    if not scored or backends(backbone, precision) == backends(backbone, EXACT):
        return [Group(rows=list(dict.fromkeys(rows)), precision=precision)]
    exact = dict.fromkeys(rows[row] for row in scored)
    others = list(dict.fromkeys(row for row in rows if row not in exact))
    both = (Group(rows=others, precision=precision), Group(rows=list(exact), precision=EXACT))
    return [group for group in both if group.rows]


def _encode_group(
    group: Group, paired: bool, readers: Mapping[str, Featurizer], backbone: Backbone
) -> Generator[Progress, None, Found]:
    """Encode a group's texts; return what that gave, by what engine, and how fast."""
    while True:
        engine, chunks = _choose_engine(group, paired, readers, backbone)
        pace = Pace(f"Encoding {len(group.rows):,} texts with {backbone.id}", group.rows)
        with relied_on(engine):
            encoded: Given = []
            for chunk in chunks:
                interruption.check()
                encoded.append((yield from _encode_chunk(chunk, readers, engine, pace)))
            for parts, counted in encoded:  # what this run is about to open is used
                for content in (*(part.content for part in parts.values()), counted):
                    if isinstance(content, Path):
                        used(content)
            return encoded, engine, pace


def engine_of(group: Group, backbone: Backbone) -> InferenceEngine:
    """Return the engine for some texts; where there are several, they are tried on a few texts."""
    texts, pairs = list[str](), list[str]()
    if len(backends(backbone, group.precision)) > 1:
        some = [group.rows[row] for row in to_try([characters(row) for row in group.rows])]
        texts, pairs = [text for text, _ in some], [pair for _, pair in some]
    encoded = backbone.encode(texts, pairs if any(pairs) else []) if texts else []
    return tried(backbone, group.precision, encoded)


def unread(
    recipes: Sequence[ResolvedRecipe],
    rows: Sequence[Row],
    paired: bool,
    backbone: Backbone,
    way: Backend,
) -> list[Row]:
    """Those of a group's texts, each with its second or "", that are not kept for all readings."""
    found = []
    for prompted, own in by_prompt(recipes, backbone):
        readers = [Featurizer(resolved, backbone) for resolved in own]
        for chunk in _chunks(rows, paired, prompted, way):
            if not all(is_kept(chunk.file(reader.resolved)) for reader in readers):
                found += chunk.rows
    return found


def _choose_engine(
    group: Group, paired: bool, readers: Mapping[str, Featurizer], backbone: Backbone
) -> tuple[InferenceEngine, list[_Chunk]]:
    """Return the engine, tried on a few of the texts unless all are kept, and their chunks."""
    way = backends(backbone, group.precision)[0]
    chunks = _chunks(group.rows, paired, backbone, way)
    files = [chunk.file(reader.resolved) for chunk in chunks for reader in readers.values()]
    if all(map(is_kept, files)):  # also where the texts are only counted
        message = message_of(chunks[0].counts) or "Texts were read by an earlier run."
        message *= bool(readers)
        return InferenceEngine(backbone=backbone, way=way, says=message), chunks
    engine = engine_of(group, backbone)
    chunks = chunks if engine.way == way else _chunks(group.rows, paired, backbone, engine.way)
    return engine, chunks


def _chunks(unique: Sequence[Row], paired: bool, backbone: Backbone, way: Backend) -> list[_Chunk]:
    encoding, most = Encoding.of(read_by(backbone, way, paired)), most_at_once(backbone)
    chunks = list[_Chunk]()
    for start in range(0, len(unique), most):
        rows = unique[start : start + most]
        digests = encoding.digests(rows)
        chunks.append(_Chunk(rows=rows, paired=paired, encoding=encoding, digests=digests))
    return chunks


def read_by(backbone: Backbone, way: Backend, paired: bool) -> tuple[object, ...]:
    """All that the numbers of a text depend on, but the reading and the text itself."""
    told = way.name, way.precision, *backbone.written
    read = backbone.tokens, backbone.windows
    return (backbone.id, backbone.revision, *read, *told, own_code(*CODE), paired)


def most_at_once(backbone: Backbone) -> int:
    """How many texts are read between two writings: of a larger model fewer."""
    return max(min(CHUNK, FEWEST), round(CHUNK * min(1, SMALL / backbone.parameters)))


def _encode_chunk(
    chunk: _Chunk, readers: Mapping[str, Featurizer], engine: InferenceEngine, pace: Pace
) -> Generator[Progress, None, tuple[dict[str, Part], Content]]:
    """Encode a chunk for the readings that are not kept; return all of them, and its counts."""
    backbone, encoding, digests = engine.backbone, chunk.encoding, chunk.digests
    found = {
        reading: Part(chunk.file(reader.resolved), name_of(reader.resolved))
        for reading, reader in readers.items()
    }
    missing = {
        reading: reader
        for reading, reader in readers.items()
        if not is_kept(chunk.file(reader.resolved))
    }
    if not missing:
        pace.skip(chunk.rows)
        if is_kept(chunk.counts):
            return found, chunk.counts
        counted = counts(backbone.encode(*sides_of(chunk.rows, chunk.paired)), backbone)
        return found, encoding.write(digests, counted, engine.says)
    read = yield from read_texts(*sides_of(chunk.rows, chunk.paired), missing, engine, pace)
    for reading, vectors in read.vectors.items():
        name = found[reading].name
        found[reading] = Part(encoding.write(digests, {name: vectors}), name)
    return found, encoding.write(digests, read.counts, engine.says)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class TextsRead:
    """What the base model made of some texts, on the processor.

    Attributes:
        vectors: For each reading (n, w).
        counts: Tokens read, tokens in all, tokens unknown, by name; (n,) each.
    """

    vectors: dict[str, Tensor]
    counts: dict[str, Tensor]


def read_texts(
    texts: Sequence[str],
    pairs: Sequence[str],
    readers: Mapping[str, Featurizer],
    engine: InferenceEngine,
    pace: Pace,
) -> Generator[Progress, None, TextsRead]:
    """Lets the base model read texts once, for all readings."""
    begun, backbone = time.perf_counter(), engine.backbone
    rows = list(zip(texts, pairs or [""] * len(texts), strict=True))
    if not any(reader.resolved.reads_windows for reader in readers.values()):
        backbone = replace(backbone, stride=None)
    encoded = backbone.encode(texts, pairs)
    buffers = {r: torch.empty(len(encoded), reader.width) for r, reader in readers.items()}
    # A part of the user's own need not know of a GPU.
    ours = {r for r, reader in readers.items() if all(map(is_ours, makers(reader.resolved)))}
    depths = frozenset[int]().union(*(reader.depths for reader in readers.values()))
    for places, states in engine.passes(encoded, depths):
        with torch.inference_mode():
            near = states.here() if len(ours) < len(readers) else states
            for reading, reader in readers.items():
                if states.counted is not None and not reader.resolved.reads_windows:
                    continue  # it has read the text as it is cut
                given = states if reading in ours else near
                buffers[reading][places] = reader(given).vectors.to(HERE)
        # A text with several windows is done when it comes with all of them.
        cut = states.counted is None
        if done := [rows[place] for place in places if not (cut and encoded[place].windows)]:
            yield pace.step(done, time.perf_counter() - begun)
            begun = time.perf_counter()
    return TextsRead(vectors=buffers, counts=counts(encoded, backbone))


def counts(encoded: Sequence[Encoded], backbone: Backbone) -> dict[str, Tensor]:
    """Tokens read, tokens in all and tokens unknown of some texts, (n,) each."""
    unknown = backbone.tokenizer.unk_token_id
    return {
        "tokens": torch.tensor([len(text) for text in encoded]),
        "whole": torch.tensor([text.whole_length for text in encoded]),
        "unknown": torch.tensor([text.inputs["input_ids"].count(unknown) for text in encoded]),
    }
