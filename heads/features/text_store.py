"""Features found again text by text, whatever other texts stand beside them.

The chunks of `extraction` are found by all their texts together: right for a run, which reads the
same rows again. A search over rows and recipes, as scikit-learn's, asks for other parts of the same
texts time and again, one recipe at a time. So here one pass over a text keeps every pooling of the
menu that is a fixed function of the last layer, whichever was asked for: they are cheap beside the
pass. Another layer, a prompt and a pooling with an option are kept where they were asked for.

What a pass gave is a file on disk, which other processes find, or lies in memory within a bound.
Those that keep what they read on disk take turns, some texts at a time, so that each is read once
by all of them. What is read for an answer alone waits for nobody: where another process reads the
same texts just then, both do. Texts are read in 32 bits: a row that one split learns from is
scored in another.
Legend: n rows, u different texts, w width of a reading.
"""

import threading
import time
from collections import OrderedDict, defaultdict
from collections.abc import Generator, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, suppress
from dataclasses import dataclass, field
from functools import cached_property, partial
from pathlib import Path
from typing import Any
from weakref import WeakKeyDictionary

import torch
from filelock import FileLock, Timeout
from safetensors import safe_open
from torch import Tensor

from heads import interruption
from heads.backbone.backbone import Backbone
from heads.backbone.device import EXACT
from heads.backbone.engine import InferenceEngine, backends, relied_on
from heads.caching import IN_USE_SECONDS, is_ours, make_room, used
from heads.checked_files import read_tensors
from heads.errors import RecipeError
from heads.events import Progress
from heads.features.extraction import (
    ON_DISK_BYTES,
    Group,
    Pace,
    TextsRead,
    counts,
    each_prompt,
    engine_of,
    most_at_once,
    read_by,
    read_texts,
    sides_of,
)
from heads.features.featurizer import Featurizer
from heads.features.store import (
    COUNTS,
    DIGESTS,
    Content,
    Encoding,
    FeatureMatrices,
    Part,
    Row,
    home_of,
    name_of,
)
from heads.parts.registry import pooling
from heads.parts.resolve import resolve
from heads.parts.resolved_recipe import LONG, STRIDE, WINDOWS, ResolvedRecipe
from heads.settings import current_limits

POLL_SECONDS = 0.05  # between two looks whether it is one's turn


# --- What passes gave, found by the digests of texts.


@dataclass(frozen=True, kw_only=True, eq=False)  # no slots: its size is remembered
class TextBatch:
    """What one pass gave of some texts.

    Attributes:
        names: Of what it gave: readings, with the code of parts of the user's own.
        digests: Of its texts, in their order.
        content: For each name a tensor whose rows are the texts.
    """

    names: frozenset[str]
    digests: tuple[bytes, ...]
    content: Content

    @cached_property
    def bytes(self) -> int:
        """How much of it is in memory."""
        if isinstance(self.content, Path):
            return 0
        return sum(tensor.nbytes for tensor in self.content.values())

    def tensors(self, names: Sequence[str]) -> Mapping[str, Tensor]:
        """Return some of what it gave; raise OSError if its file is gone or damaged."""
        if not isinstance(self.content, Path):
            return self.content
        used(self.content)
        return read_tensors(self.content, names)[0]


@dataclass(slots=True, kw_only=True, eq=False)
class TextStore:
    """All batches that this process knows of, those used last at the end."""

    _batches: "OrderedDict[TextBatch, None]" = field(default_factory=OrderedDict)
    _places: dict[bytes, list[tuple[TextBatch, int]]] = field(
        default_factory=lambda: defaultdict(list)
    )
    _seen: set[Path] = field(default_factory=set)
    _held: int = 0  # bytes in memory
    _lock: threading.RLock = field(default_factory=threading.RLock)

    def look(self, folder: Path) -> None:
        """Takes notice of what other processes have read."""
        with self._lock, suppress(OSError):
            for path in sorted(folder.glob("*.safetensors")):
                if path not in self._seen:
                    with suppress(OSError):
                        self._enter(_opened(path))

    def add(self, batch: TextBatch, most: int) -> None:
        """Keeps a batch; in memory no more bytes of all of them than that."""
        with self._lock:
            self._enter(batch)
            for one in [one for one in self._batches if one.bytes]:
                if self._held <= most:
                    return
                self._drop(one)

    def _enter(self, batch: TextBatch) -> None:
        self._batches[batch] = None
        self._held += batch.bytes
        if isinstance(batch.content, Path):
            self._seen.add(batch.content)
        for row, digest in enumerate(batch.digests):
            self._places[digest].append((batch, row))

    def _drop(self, batch: TextBatch) -> None:
        self._batches.pop(batch)
        self._held -= batch.bytes
        if isinstance(batch.content, Path):  # it may be written again
            self._seen.discard(batch.content)
        for digest in batch.digests:
            left = [place for place in self._places[digest] if place[0] is not batch]
            self._places[digest] = left
            if not left:
                del self._places[digest]

    def lacks(self, name: str, digest: bytes) -> bool:
        """Whether a text has to be read for that."""
        with self._lock:
            return self._place(name, digest) is None

    def _place(self, name: str, digest: bytes) -> tuple[TextBatch, int] | None:
        places = self._places.get(digest, ())
        return next((place for place in places if name in place[0].names), None)

    def fill(
        self, found: Mapping[str, Tensor], digests: Sequence[bytes], rows: Iterable[int]
    ) -> list[int]:
        """Puts in what is kept of some texts; the places of those that lack anything.

        Args:
            found: For each name a tensor whose rows are the texts.
        """
        rows = list(rows)
        while True:
            wanted, missing = self._wanted(found, digests, rows)
            # Files are opened without the lock: nobody waits for another's disk.
            if all(self._filled(found, *one) for one in wanted.items()):
                return missing

    def _wanted(
        self, names: Iterable[str], digests: Sequence[bytes], rows: Sequence[int]
    ) -> tuple[dict[TextBatch, dict[str, list[tuple[int, int]]]], list[int]]:
        """What is taken from which batch: rows, with their places there; and rows that lack any."""
        wanted: dict[TextBatch, dict[str, list[tuple[int, int]]]] = defaultdict(dict)
        missing = set[int]()
        with self._lock:
            for name in names:
                for at in rows:
                    place = self._place(name, digests[at])
                    if place is None:
                        missing.add(at)
                    else:
                        wanted[place[0]].setdefault(name, []).append((at, place[1]))
        return wanted, sorted(missing)

    def _filled(
        self,
        found: Mapping[str, Tensor],
        batch: TextBatch,
        wanted: Mapping[str, Sequence[tuple[int, int]]],
    ) -> bool:
        """Puts in what a batch has; forgets it, and says False, where it is gone or broken."""
        try:
            tensors = batch.tensors(list(wanted))
        except OSError:
            with self._lock:
                if batch in self._batches:  # another thread may have been faster
                    self._drop(batch)
            return False
        with self._lock:
            if batch in self._batches:
                self._batches.move_to_end(batch)
        for name, places in wanted.items():
            here, there = torch.tensor(places).T
            found[name][here] = tensors[name][there]
        return True


_store = TextStore()
_menus: WeakKeyDictionary[Any, dict[int | None, dict[str, Featurizer]]] = WeakKeyDictionary()


def _opened(path: Path) -> TextBatch:
    """The batch in a file."""
    rows = read_tensors(path, [DIGESTS])[0][DIGESTS].numpy()
    with safe_open(path, framework="pt") as file:
        names = frozenset(file.keys()) - {DIGESTS}
    return TextBatch(names=names, digests=tuple(row.tobytes() for row in rows), content=path)


def _turn(folder: Path, pace: Pace) -> Generator[Progress, None, ExitStack]:
    """Waits until nobody else reads texts to keep them in this folder, here or in another process.

    There are two locks, as of a turnstile: who waits first holds the first one, so that who has
    just read some texts, and would read more, does not pass in front. Returns what ends the turn.
    """
    held = ExitStack()
    with suppress(OSError, NotImplementedError), ExitStack() as line:  # a disk may know no locks
        folder.mkdir(parents=True, exist_ok=True)
        for name, until in ((".next", line), (".lock", held)):
            lock = FileLock(folder / name, thread_local=False)
            while True:
                interruption.check()
                with suppress(Timeout):
                    lock.acquire(blocking=False)
                    break
                share = pace.done / max(1, pace.done + pace.left)
                yield Progress(says=f"{pace.says}: others are reading, it waits", share=share)
                with interruption.outside():
                    time.sleep(POLL_SECONDS)
            until.callback(lock.release)
    return held


# --- Texts to features, each text read once whoever asks for it.


def extract_by_text(
    recipes: Sequence[ResolvedRecipe],
    texts: Sequence[str],
    pairs: Sequence[str],
    backbone: Backbone,
    *,
    on_disk: bool = True,
) -> Iterator[Progress | FeatureMatrices]:
    """Reads every text that was not read before, and finds the others text by text.

    Args:
        recipes: Those whose reading is fixed; their heads do not matter.
        on_disk: Whether what is read is kept on disk, where other processes find it, or in this
            one's memory alone.

    Yields:
        `Progress` with the rate and the time left, then the `FeatureMatrices`.

    Raises:
        RecipeError: A reading does not fit the base model.
    """
    rows = list(zip(texts, pairs, strict=True)) if pairs else [(text, "") for text in texts]
    return each_prompt(recipes, backbone, partial(_extract, rows, bool(pairs), on_disk))


def _extract(
    rows: Sequence[Row],
    paired: bool,
    on_disk: bool,
    recipes: Sequence[ResolvedRecipe],
    backbone: Backbone,
) -> Iterator[Progress | FeatureMatrices]:
    """Extract for recipes that read the same texts: with one prompt around them, or with none."""
    readers = {resolved.reading: Featurizer(resolved, backbone) for resolved in recipes}
    number: dict[Row, int] = {}
    index = torch.tensor([number.setdefault(row, len(number)) for row in rows])
    group = Group(rows=list(number), precision=EXACT)
    while True:
        if readers:
            engine = engine_of(group, backbone)
        else:  # tokens are only counted: nothing is tried
            engine = InferenceEngine(backbone=backbone, way=backends(backbone, EXACT)[0])
        pace = Pace(f"Encoding {len(number):,} texts with {backbone.id}", group.rows)
        with relied_on(engine):
            reading = _Reading(engine=engine, paired=paired, asked=readers, on_disk=on_disk)
            found = yield from reading.of(group.rows, pace)
            yield FeatureMatrices(
                index=index,
                parts={reading: (Part(found.vectors, reading),) for reading in found.vectors},
                **found.counts,
                seconds=pace.seconds,
                fresh=pace.texts,
                engine=engine.way.name,
                precision=engine.way.precision,
                scored=engine.way.precision,
                says=engine.says,
            )
            return


@dataclass(frozen=True, kw_only=True, eq=False)  # no slots: its key is remembered
class _Reading:
    """A way to encode texts, with what its reading asks for; cached on disk or not."""

    engine: InferenceEngine
    paired: bool
    asked: Mapping[str, Featurizer]
    on_disk: bool

    @cached_property
    def encoding(self) -> Encoding:
        """Where batches that are read so are kept."""
        return Encoding.of(read_by(self.engine.backbone, self.engine.way, self.paired))

    def of(self, rows: Sequence[Row], pace: Pace) -> Generator[Progress, None, TextsRead]:
        """What is asked for of some different rows, read now or before."""
        if not self.asked:  # as of heads that learn from tokens or texts
            encoded = self.engine.backbone.encode(*sides_of(rows, self.paired))
            return TextsRead(vectors={}, counts=counts(encoded, self.engine.backbone))
        digests, size = self.encoding.digests(rows), len(rows)
        vectors = {name: torch.empty(size, one.width) for name, one in self.asked.items()}
        counted = {name: torch.empty(size, dtype=torch.long) for name in COUNTS}
        names = {name: name_of(reader.resolved) for name, reader in self.asked.items()}
        found = {names[name]: own for name, own in vectors.items()} | counted
        missing = _store.fill(found, digests, range(size))
        if missing:  # of what is in memory no disk is asked
            _store.look(self.encoding.folder)
            missing = _store.fill(found, digests, missing)
        is_missing = set(missing)
        pace.skip([row for at, row in enumerate(rows) if at not in is_missing])
        most = most_at_once(self.engine.backbone)
        readers = self._readers(len(missing))
        for start in range(0, len(missing), most):
            interruption.check()
            lacking = missing[start : start + most]
            with ExitStack() as turn:
                if self.on_disk:  # others may have encoded some of them when the turn comes
                    turn.enter_context((yield from _turn(self.encoding.folder, pace)))
                    _store.look(self.encoding.folder)
                left = _store.fill(found, digests, lacking)
                pace.skip([rows[at] for at in sorted({*lacking} - {*left})])
                if left:
                    some = [rows[at] for at in left], [digests[at] for at in left]
                    tensors = yield from self._read(*some, readers, pace)
                    for name, own in found.items():
                        own[left] = tensors[name]
        return TextsRead(vectors=vectors, counts=counted)

    def _readers(self, texts: int) -> dict[str, Featurizer]:
        """What so many texts are read for: the menu as well, where there is room for that."""
        if not texts:
            return {}
        asked = {name_of(reader.resolved): reader for reader in self.asked.values()}
        menu = _menu(self.engine.backbone)
        size = 4 * texts * sum(reader.width for reader in menu.values())
        return {**menu, **asked} if size <= current_limits().kept_features_bytes else asked

    def _read(
        self,
        rows: Sequence[Row],
        digests: Sequence[bytes],
        readers: Mapping[str, Featurizer],
        pace: Pace,
    ) -> Generator[Progress, None, dict[str, Tensor]]:
        """Reads some texts for what any of them lacks, and keeps that."""
        asked = {name_of(reader.resolved) for reader in self.asked.values()}
        lacking = {
            name: reader
            for name, reader in readers.items()
            if name in asked or any(_store.lacks(name, one) for one in digests)
        }
        read = yield from read_texts(*sides_of(rows, self.paired), lacking, self.engine, pace)
        tensors = {**read.vectors, **read.counts}
        content: Content = tensors
        if self.on_disk:
            content = self.encoding.write(digests, tensors, self.engine.says)
            make_room(home_of("features"), ON_DISK_BYTES, IN_USE_SECONDS)
        batch = TextBatch(names=frozenset(tensors), digests=tuple(digests), content=content)
        _store.add(batch, current_limits().kept_features_bytes)
        return tensors


def _menu(backbone: Backbone) -> Mapping[str, Featurizer]:
    """What is kept besides: every built-in pooling of the last layer that has no option.

    Of a base model that reads long texts in windows, over those and of the texts as they are cut.
    """
    if backbone.written:
        return {}
    menus = _menus.setdefault(backbone.model, {})
    if backbone.stride not in menus:
        windows = f"?{LONG}={WINDOWS}&{STRIDE}={backbone.stride}"
        found = dict[str, Featurizer]()
        for name, part in pooling.items():
            if not (part.learned or part.options) and is_ours(part.make):
                for option in ("", *([windows] if backbone.stride is not None else [])):
                    with suppress(RecipeError):  # the base model may have no pooler
                        reader = Featurizer(resolve(f"{name}+linear{option}"), backbone)
                        found[name_of(reader.resolved)] = reader
        menus[backbone.stride] = found  # whole, for another thread may ask meanwhile
    return menus[backbone.stride]
