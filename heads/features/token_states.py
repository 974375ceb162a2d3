"""The states of every token, kept on disk for readings that are learned.

They lie end to end without padding, texts of like length side by side, in a file that is mapped
into memory: only what is in use need be in it. Texts that are only learned from lie in 16 bits,
those that are scored in 32 in a file of their own, as an exported head reads them. The files are
bounded, and another run with the same texts finds them.
Legend: u different texts, n of them asked for, t tokens, l kept layers, d width.
"""

import hashlib
import zlib
from collections.abc import Collection, Generator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import torch
from torch import Tensor
from torch.nn.utils.rnn import pad_sequence

from heads.backbone.backbone import Backbone
from heads.backbone.device import EXACT, HERE
from heads.backbone.engine import InferenceEngine, relied_on, to_try, tried
from heads.backbone.states import Encoded, States
from heads.caching import IN_USE_SECONDS, make_room, own_code, replacing, used, writing
from heads.checked_files import crc_of_file, read_tensors, write_tensors
from heads.data.corpus import Corpus
from heads.errors import LimitError
from heads.events import Progress
from heads.features.extraction import APART, CHUNK, CODE
from heads.features.store import home_of
from heads.parts.resolved_recipe import ResolvedRecipe
from heads.settings import current_limits

# --- One file of token states: written as the base model reads, or found again.

ROUGH, FINE = np.float16, np.float32
ENDINGS = {ROUGH: ".f16", FINE: ".f32"}
MOST = 65_504.0  # the largest number in 16 bits; a few models go beyond it
MARKS = ("unpadded", "content", "eos")
CRC_OF_STATES = "crc32 of the states"
WHAT = "A file of the states of all tokens"
HINT = "Make room on the disk, or leave learned readings out."


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class TokenShard:
    """Texts whose states lie in one file, in numbers of one kind."""

    texts: Sequence[str]
    pairs: Sequence[str]
    encoded: Sequence[Encoded]
    kind: type[np.floating]


def _states_of_shard(
    shard: TokenShard, layers: tuple[int, ...], backbone: Backbone, precision: str, room: int
) -> Generator[Progress, None, "TokenStates"]:
    """Return the states of a shard's texts, computed now or found in their file."""
    sample = [shard.encoded[place] for place in to_try(list(map(len, shard.encoded)))]
    while True:
        engine = tried(backbone, precision, sample)
        with relied_on(engine):
            return (yield from _load_or_compute(shard, layers, engine, room))


def _load_or_compute(
    shard: TokenShard, layers: tuple[int, ...], engine: InferenceEngine, room: int
) -> Generator[Progress, None, "TokenStates"]:
    backbone, way = engine.backbone, engine.way
    size = size_of(shard.encoded, len(layers) * backbone.width, shard.kind)
    told = (backbone.id, backbone.revision, backbone.tokens, way.name, way.precision)
    code = own_code(*CODE, "features/token_states")
    facts = (*told, code, layers, shard.kind.__name__, shard.texts, shard.pairs)
    name = hashlib.sha256(repr(facts).encode()).hexdigest()[:40]
    path = home_of("states") / f"{name}{ENDINGS[shard.kind]}"
    index = path.with_suffix(".safetensors")
    places = _read_index(index, path, size)
    if places is None:
        make_room(home_of("states"), room, IN_USE_SECONDS)
        places, crc = yield from _written(path, shard, layers, engine)
        with writing(WHAT, HINT):
            write_tensors(index, places, {CRC_OF_STATES: str(crc)})
    used(path)
    used(index)
    numbers = np.memmap(path, shard.kind, "r").reshape(-1, len(layers), backbone.width)
    return TokenStates(
        numbers=(numbers,),
        **places,
        layers=layers,
        depth=backbone.layers + 1,
        engine=way.name,
        precision=way.precision,
        says=engine.says,
    )


def _read_index(index: Path, path: Path, size: int) -> dict[str, Tensor] | None:
    """Return what lies where in a file of states; None where it, or the index, is not whole."""
    try:
        places, facts = read_tensors(index)
        if path.stat().st_size != size:
            return None
        is_whole = facts.get(CRC_OF_STATES) in (None, str(crc_of_file(path)))
        return places if is_whole else None
    except OSError:
        return None


def _written(
    path: Path, shard: TokenShard, layers: Sequence[int], engine: InferenceEngine
) -> Generator[Progress, None, tuple[dict[str, Tensor], int]]:
    """Write the states into a file; returns what lies where in it, and its checksum."""
    order, marks, crc = list[int](), list[Tensor](), 0
    with writing(WHAT, HINT):
        path.parent.mkdir(parents=True, exist_ok=True)
        with replacing(path, mode=0o600) as draft, draft.open("wb") as file:
            for rows, states in engine.passes(shard.encoded, layers):
                real = states.mask.bool()
                kept = torch.stack([states.layer(layer)[real] for layer in layers], dim=1)
                kept = kept.clamp(-MOST, MOST).half() if shard.kind is ROUGH else kept
                block = kept.to(HERE).numpy().tobytes()
                file.write(block)
                crc = zlib.crc32(block, crc)
                order += rows
                said = [getattr(states, name)[real] for name in MARKS]
                marks.append(torch.stack(said, dim=1).bool().to(HERE))
                says = f"Keeping the states of all tokens with {engine.backbone.id}"
                yield Progress(says=says, share=len(order) / len(shard.encoded))
    lengths = torch.tensor(list(map(len, shard.encoded)))
    written, starts = lengths[order], torch.empty_like(lengths)
    starts[order] = written.cumsum(0) - written
    return {"starts": starts, "lengths": lengths, "marks": torch.cat(marks)}, crc


def size_of(encoded: Sequence[Encoded], each: int, kind: type[np.floating]) -> int:
    """Bytes of the states of all tokens, each of so many numbers."""
    return sum(map(len, encoded)) * each * np.dtype(kind).itemsize


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class TokenStates:
    """The states of all texts, and where each text's lie.

    Attributes:
        numbers: (tokens, kept layers, d), the files, one after the other, without any padding.
        starts: (u,), how many tokens stand before each text's in the files.
        lengths: (u,), how many tokens each text has.
        marks: (tokens, 3), what each of `MARKS` says of each token.
        depth: How many layers the base model has, embeddings included.
        precision: In what its products were computed, float32 or bfloat16; but for scored texts.
        says: Why so, in a sentence.
    """

    numbers: tuple[np.ndarray, ...]
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
        kept = [torch.from_numpy(self._of(span)).float() for span in spans]
        filled = pad_sequence(kept, batch_first=True)  # (n, t, l, d)
        hidden = [torch.empty(0)] * self.depth
        for place, layer in enumerate(self.layers):
            hidden[layer] = filled[:, :, place]
        marks = pad_sequence([self.marks[span] for span in spans], batch_first=True).float()
        mask = torch.arange(int(lengths.max())) < lengths[:, None]
        said = dict(zip(MARKS, marks.unbind(-1), strict=True))
        return States(mask=mask.float(), hidden=tuple(hidden), pooler=None, **said)

    def _of(self, span: slice) -> np.ndarray:
        """A copy of some tokens' states, which are of one text and so in one file."""
        start, end = span.start, span.stop
        for file in self.numbers:
            if start < len(file):
                return np.array(file[start:end])
            start, end = start - len(file), end - len(file)
        raise AssertionError("a token beyond the last one")


def different(texts: Sequence[str], pairs: Sequence[str]) -> tuple[list[str], list[str], Tensor]:
    """Each different text, or pair, once; and for each row the number of its own, (n,)."""
    rows = list(zip(texts, pairs or [""] * len(texts), strict=True))
    number = {row: place for place, row in enumerate(dict.fromkeys(rows))}
    index = torch.tensor([number[row] for row in rows])
    return [text for text, _ in number], [pair for _, pair in number if pairs], index


def layers_for(recipes: Sequence[ResolvedRecipe], backbone: Backbone) -> tuple[int, ...]:
    """The layers that these recipes read."""
    depth = backbone.layers + 1
    if any(resolved.layers is not None for resolved in recipes):
        return tuple(range(depth))
    return tuple(sorted({resolved.layer % depth for resolved in recipes}))


def keep_states(
    recipes: Sequence[ResolvedRecipe],
    texts: Sequence[str],
    pairs: Sequence[str],
    backbone: Backbone,
    precision: str = EXACT,
    scored: Collection[int] = (),
    layers: tuple[int, ...] = (),
) -> Generator[Progress, None, TokenStates]:
    """Reads all different texts and keeps their states, or finds them kept.

    Args:
        layers: Which ones; those that the recipes read, if none are named.
        precision: In which products are computed: a setting, or what was used before.
        scored: The numbers of texts that are read and kept in 32 bits whatever the setting.

    Raises:
        LimitError: They would take more room than this place allows.
    """
    layers = layers or layers_for(recipes, backbone)
    encoded = backbone.encode(texts, pairs)
    fine = sorted(set(scored))
    rough = sorted(set(range(len(texts))) - set(fine))
    each = len(layers) * backbone.width
    parts = ((rough, ROUGH, precision), (fine, FINE, EXACT))
    size = sum(size_of([encoded[n] for n in part], each, kind) for part, kind, _ in parts)
    _check_size(size, recipes[0])
    room, found = max(0, current_limits().states_bytes - size), list[TokenStates]()
    for part, kind, asked in parts:
        if part:
            shard = TokenShard(
                texts=[texts[n] for n in part],
                pairs=[pairs[n] for n in part] if pairs else [],
                encoded=[encoded[n] for n in part],
                kind=kind,
            )
            found.append((yield from _states_of_shard(shard, layers, backbone, asked, room)))
    return _concatenate(found, torch.tensor([*rough, *fine]).argsort())


def _concatenate(found: Sequence[TokenStates], order: Tensor) -> TokenStates:
    """Return the states of all shards as one, texts in another order (u,)."""
    first, *apart = found
    ends = [0, *(len(states.numbers[0]) for states in found)]
    starts = [states.starts + end for states, end in zip(found, ends, strict=False)]
    is_alike = all((s.engine, s.precision) == (first.engine, first.precision) for s in apart)
    return replace(
        first,
        numbers=tuple(states.numbers[0] for states in found),
        starts=torch.cat(starts)[order],
        lengths=torch.cat([states.lengths for states in found])[order],
        marks=torch.cat([states.marks for states in found]),
        says=first.says if is_alike else f"{first.says} {APART}",
    )


def check_states(
    recipes: Sequence[ResolvedRecipe],
    corpus: Corpus,
    backbone: Backbone,
    scored: Collection[int] = (),
    layers: tuple[int, ...] = (),
) -> None:
    """Refuses what would not fit, before anything is read.

    Args:
        layers: Which ones; those that the recipes read, if none are named.

    Raises:
        LimitError: The states of all tokens would take more room than this place allows.
    """
    if recipes:
        rows = list(zip(corpus.texts, corpus.pairs or [""] * len(corpus), strict=True))
        fine = {rows[row] for row in scored}
        size, each = 0, len(layers or layers_for(recipes, backbone)) * backbone.width
        for part, kind in ((set(rows) - fine, ROUGH), (fine, FINE)):
            texts, pairs = [text for text, _ in part], [pair for _, pair in part if corpus.pairs]
            for start in range(0, len(texts), CHUNK):
                some = slice(start, start + CHUNK)
                size += size_of(backbone.encode(texts[some], pairs[some]), each, kind)
        _check_size(size, recipes[0])


def _check_size(size: int, resolved: ResolvedRecipe) -> None:
    limits = current_limits()
    if size > limits.states_bytes:
        raise LimitError(
            f"{resolved.recipe} is learned from the states of all tokens, which would take "
            f"{size / 1e9:,.1f} GB; this place allows {limits.states_bytes / 1e9:,.1f} GB.",
            "Use fewer rows, or leave such recipes out.",
        )
