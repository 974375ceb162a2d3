"""The store of features: one vector a text under each reading, and files that keep them.

A file holds what one pass of the base model gave of some texts, and a digest of each. The files of
one encoding (base model, version, tokens, prompt, precision, code) lie in one folder. A run looks
for the file of exactly its texts, so that its numbers do not depend on what was read before; a
search, a classifier and an estimator (`features.text_store`) look for each text in all files.

Legend: n rows, u different texts or pairs, w width of a reading.
"""

import hashlib
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor
from torch.nn.functional import normalize

from heads.caching import foreign_code, place_told, used
from heads.checked_files import read_tensors, write_tensors
from heads.data.vectors import Vectors
from heads.errors import DataError
from heads.parts.resolved_recipe import ResolvedRecipe
from heads.settings import cache_folder

# What a pass gave of some texts: a file, or where the disk refused it, the tensors themselves.
Content = Path | Mapping[str, Tensor]
DIGEST = 16  # bytes by which a text is known
DIGESTS = "digests"  # the name of those in a file
COUNTS = ("tokens", "whole", "unknown")
GIVEN_ENGINE = "vectors"
GIVEN_MESSAGE = "Vectors were given; no base model has read."
Row = tuple[str, str]  # a text and its second one, or ""


class Part(NamedTuple):
    """The vectors of some texts under one reading, on disk or in memory, by their name there."""

    content: Content
    name: str


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class FeatureMatrices:
    """What the base model makes of the rows of a corpus under several readings.

    Attributes:
        index: (n,), for each row the number of its text among the u different ones.
        parts: For each reading what each chunk gave.
        tokens: (u,), how many tokens of a text were read.
        whole: (u,), how many it has.
        unknown: (u,), how many of those read the tokenizer does not know.
        seconds: How long the base model has read, 0 where all was kept from before.
        fresh: How many texts were read now, not found on disk.
        engine: The name of the backend that encoded the texts.
        precision: In what its products were computed: float32 or bfloat16.
        scored: The same for rows that heads are scored on, which may have been read apart.
        says: Why so, and how closely it agrees with Transformers, in a sentence.
    """

    index: Tensor
    parts: Mapping[str, tuple[Part, ...]]
    tokens: Tensor
    whole: Tensor
    unknown: Tensor
    seconds: float
    fresh: int
    engine: str
    precision: str
    says: str
    scored: str = ""

    @classmethod
    def of_vectors(
        cls, index: Tensor, vectors: Mapping[str, Tensor], *, engine: str = "", says: str = ""
    ) -> "FeatureMatrices":
        """Hold vectors that no base model has read just now, of texts without counts.

        Args:
            index: (n,), for each row the number of its vector among the u.
            vectors: For each reading (u, w).
        """
        none = index.new_zeros(int(index.max()) + 1)
        return cls(
            index=index,
            parts={reading: (Part(vectors, reading),) for reading in vectors},
            tokens=none,
            whole=none,
            unknown=none,
            seconds=0.0,
            fresh=0,
            engine=engine,
            precision="float32",
            says=says,
            scored="float32",
        )

    def matrix(self, reading: str) -> Tensor:
        """The vectors of all different texts under a reading, (u, w)."""
        parts = [opened(part.content, [part.name])[part.name] for part in self.parts[reading]]
        return torch.cat(parts) if len(parts) > 1 else parts[0]


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class FeatureStore:
    """What the base model made of the n rows of a corpus, for recipes of all kinds.

    Attributes:
        joint: Of the texts, or of pairs as one sequence; None where nobody asked for it.
        alone: Of the n texts and then the n second texts, each by itself; or None.
        siamese: The readings that put two such together, by name.
    """

    joint: FeatureMatrices | None
    alone: FeatureMatrices | None
    siamese: Mapping[str, ResolvedRecipe]

    def vectors(self, reading: str) -> tuple[Tensor, Tensor]:
        """The vectors of all different rows (u, w), and for each row the number of its own (n,).

        Without a reading there are none, but still the numbers.
        """
        if reading in self.siamese:
            assert self.alone is not None
            resolved, sides = self.siamese[reading], torch.stack(self.alone.index.chunk(2))
            different, index = sides.unique(dim=1, return_inverse=True)
            side = self.alone.matrix(resolved.side.reading)
            return resolved.joined(side[different[0]], side[different[1]]), index
        assert self.joint is not None
        vectors = self.joint.matrix(reading) if reading else torch.empty(0, 0)
        return vectors, self.joint.index

    @property
    def seconds(self) -> float:
        """How long the base model has read, 0 where all was kept from before."""
        return sum(part.seconds for part in (self.joint, self.alone) if part)

    @property
    def way(self) -> dict[str, str]:
        """By what the base model has read, in which precision, and why, as plain values.

        Pairs that are read both ways may be read differently: `joint` and `alone` have the
        precision of each, of rows that are only learned from.
        """
        named = {"joint": self.joint, "alone": self.alone}
        parts = {name: part for name, part in named.items() if part and part.parts}
        facts = {name: part.precision for name, part in parts.items()}
        engines = dict.fromkeys(part.engine for part in parts.values())
        precisions = [one for part in parts.values() for one in (part.precision, part.scored)]
        told = {
            "engine": " and ".join(engines),
            "precision": " and ".join(dict.fromkeys(filter(None, precisions))),
        }
        says = " ".join(dict.fromkeys(part.says for part in parts.values()))
        return {**facts, **told, "says": says}

    def counts(self) -> tuple[Tensor, Tensor, Tensor]:
        """For each row: tokens read, tokens in all, tokens unknown; (n,) each."""
        part = self.joint or self.alone
        assert part is not None
        found = (part.tokens, part.whole, part.unknown)
        tokens, whole, unknown = (each[part.index] for each in found)
        if part is self.alone:
            tokens, whole, unknown = (
                torch.add(*each.chunk(2)) for each in (tokens, whole, unknown)
            )
        return tokens, whole, unknown


def given_features(recipes: Sequence[ResolvedRecipe], vectors: Vectors) -> FeatureMatrices:
    """Return given vectors of n rows under the readings of recipes: as they are, or at length 1.

    Equal vectors of several rows are held as often as they come.
    """
    matrix, index = vectors.tensor(), torch.arange(len(vectors))
    readings = {
        recipe.reading: normalize(matrix, dim=-1) if recipe.normalise else matrix
        for recipe in recipes
    }
    return FeatureMatrices.of_vectors(index, readings, engine=GIVEN_ENGINE, says=GIVEN_MESSAGE)


# --- Files: what a pass gave, by how texts were encoded, by which texts, and by what was read.


def opened(content: Content, names: Collection[str]) -> Mapping[str, Tensor]:
    """Return some of what a pass gave, from disk or from memory.

    Raises:
        DataError: Its file was damaged or deleted after the run had looked at it.
    """
    if not isinstance(content, Path):
        return content
    used(content)  # a run of many hours must not lose it to another's need for room
    try:
        return read_tensors(content, names)[0]
    except OSError as error:
        what = f"A file of cached features cannot be read ({place_told(content)})."
        raise DataError(what, "Do the same again: its texts are encoded anew.") from error


@dataclass(frozen=True, slots=True, kw_only=True)
class Encoding:
    """A way to encode texts, under which files are kept.

    Attributes:
        key: A digest of all that numbers depend on, but the reading and the text itself.
    """

    key: bytes

    @classmethod
    def of(cls, facts: tuple[object, ...]) -> "Encoding":
        """Return the encoding that these facts describe."""
        return cls(key=hashlib.sha256(repr(facts).encode()).digest())

    @property
    def folder(self) -> Path:
        """Where its files lie."""
        return home_of("features") / f"texts-{self.key.hex()[:32]}"

    def digests(self, rows: Sequence[Row]) -> list[bytes]:
        """Return the digest of each text, by which it is known in this encoding."""
        return [hashlib.sha256(self.key + repr(row).encode()).digest()[:DIGEST] for row in rows]

    def file(self, digests: Sequence[bytes], names: Collection[str]) -> Path:
        """Return the file of some texts with tensors of these names."""
        name = hashlib.sha256(b"".join(digests) + repr(sorted(names)).encode()).hexdigest()
        return self.folder / f"{name[:40]}.safetensors"

    def write(
        self, digests: Sequence[bytes], tensors: Mapping[str, Tensor], message: str = ""
    ) -> Content:
        """Keep what a pass gave on disk; where that fails, in memory.

        Args:
            tensors: By name, with n rows each.
            message: How the texts were encoded, in a sentence.
        """
        path, known = self.file(digests, tensors), np.frombuffer(b"".join(digests), np.uint8)
        rows = torch.from_numpy(known.reshape(-1, DIGEST).copy())
        try:
            write_tensors(path, {**tensors, DIGESTS: rows}, {"says": message})
        except OSError:
            return tensors
        return path


def makers(resolved: ResolvedRecipe) -> list[Any]:
    """Return what makes the parts that read."""
    return [resolved.pooling.make, *([resolved.layers.make] if resolved.layers else [])]


def name_of(resolved: ResolvedRecipe) -> str:
    """Return the name of a reading; parts of the user's own bring their code into it."""
    return resolved.reading + "".join(map(foreign_code, makers(resolved)))


def is_kept(path: Path) -> bool:
    """Return True if a file is there and whole; that makes it one of the last to go."""
    try:
        read_tensors(path)
    except OSError:
        return False
    used(path)
    return True


def message_of(path: Path) -> str:
    """Return how the texts of a file were encoded; "" where there is none."""
    try:
        return read_tensors(path)[1].get("says", "")
    except OSError:
        return ""


def home_of(what: str) -> Path:
    """Where features, or token states, are kept."""
    return cache_folder() / what
