"""Features in Parquet files, read a shard at a time: what is learned from need not fit in memory.

They are what `heads.extract` wrote, or any Parquet files with a column of vectors, whichever engine
made them. Which rows are learned from, chosen on and scored on is told by a number that each row
has from its text, or from its place where that is not known: so copies of a text are never parted,
and no list of rows is kept.

Legend: n rows of a shard, w width of a vector, c classes.
"""

from __future__ import annotations

import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
import torch
from torch import Tensor

from heads import display
from heads.data.formats.parquet_files import is_vector, matrix_of
from heads.data.table import short
from heads.errors import DataError, did_you_mean
from heads.extras.scale.pieces import (
    MANIFEST,
    ROW,
    Piece,
    Source,
    joined,
    opened,
    parts_of,
    read_json,
)
from heads.interfaces.views.format import counted
from heads.settings import Limits
from heads.settings import limits as limits_here

if TYPE_CHECKING:
    import pyarrow

FEATURES = "features"
TEXT_HASH = "text_hash"  # the column of a number that each text has by itself
Part = Literal["train", "development", "test"]
HELD_OUT = 0.1  # of the rows, each of development and test
MOST_TEST, MOST_DEVELOPMENT = 50_000, 10_000  # rows of them: more hardly narrow an interval
SHARD_BYTES = 25_000_000  # of vectors that are read together


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class FeatureShards(display.Displayed):
    """Features of any number of rows, in Parquet files.

    Attributes:
        source: The files.
        readings: The columns of vectors, with their widths.
        model: The base model that read them; "" where that is not known.
        revision: Which version of it.
        text, pair: The columns of the texts that it read, if that is known.
        dtype: In what they are kept.
        to: The folder; "" where they come from elsewhere.
        fresh: How many rows were read now; the others lay there from before.
        seconds: How long that took.
    """

    source: Source
    readings: Mapping[str, int]
    model: str = ""
    revision: str = ""
    text: str = ""
    pair: str = ""
    dtype: str = "float32"
    to: str = ""
    fresh: int = 0
    seconds: float = 0.0

    @classmethod
    def opened(
        cls, data: str | Path | Sequence[str | Path], limits: Limits | None = None
    ) -> FeatureShards:
        """Opens a folder of `heads.extract`, or Parquet files with vectors.

        Raises:
            DataError: They hold none.
        """
        limits = limits or limits_here()
        if isinstance(data, str | Path) and read_json(joined(str(data), MANIFEST)) is not None:
            told, parts = parts_of(str(data), FEATURES)
            files = [joined(str(data), "parts", part.name) for part in parts]
            names = ("readings", "model", "revision", "text", "pair", "dtype")
            facts = {name: told[name] for name in names}
            return cls(source=opened(files, str(data), limits), to=str(data), **facts)
        source = opened(data, ".", limits)
        widths = _widths(source)
        if not widths:
            what = f"{source.name} has no column of vectors."
            raise DataError(what, "Make features first: heads extract FILES --to FOLDER")
        return cls(source=source, readings=widths)

    def __repr__(self) -> str:
        named = ", ".join(f"{name} ({width})" for name, width in self.readings.items())
        return f"<FeatureShards {self.rows:,} rows: {named}>"

    @property
    def rows(self) -> int:
        """How many there are."""
        return self.source.rows

    def as_json(self) -> dict[str, Any]:
        """All of it as plain values."""
        names = ("model", "revision", "text", "pair", "dtype", "to", "fresh", "seconds")
        told = {name: getattr(self, name) for name in names}
        columns = [name for name in self.source.schema.names if name not in self.readings]
        return {
            "rows": self.rows, "readings": dict(self.readings), "columns": columns,
            "files": len(self.source.files), **told,
        }  # fmt: skip

    def describe(self) -> display.Description:
        """Return what was encoded, how fast, and where it is saved."""
        names = ", ".join(f"{name} ({width} numbers)" for name, width in self.readings.items())
        texts = " and ".join(f"'{name}'" for name in (self.text, self.pair) if name)
        rate = f", {self.fresh / self.seconds:,.0f} a second" if self.fresh else ""
        blocks: list[str | display.Code] = [f"Readings, in {self.dtype}: {names}."]
        if self.model:
            blocks.append(f"Base model {self.model}, column {texts}.")
        if 0 < self.fresh < self.rows:
            blocks.append(f"{self.fresh:,} of them now{rate}; the others were saved before.")
        elif self.seconds:
            blocks.append(f"That took {self.seconds:,.0f} s{rate}.")
        if self.to:
            files = counted(len(self.source.files), "file")
            blocks.append(f"They are in {self.to}, {files} of Parquet. Compare heads on them:")
            blocks.append(display.Code(f"heads fit-shards {shlex.quote(self.to)}"))
        title = f"Features of {counted(self.rows, 'row')}."
        return display.Description(title=title, blocks=tuple(blocks))

    def check_reading(self, name: str) -> None:
        """Raise DataError for a reading that is not there."""
        if name not in self.readings:
            what = f"{self.source.name} has no features '{short(name, 40)}'."
            raise DataError(what, did_you_mean(name, self.readings))

    def pieces(self, reading: str) -> list[Piece]:
        """All rows in pieces whose vectors are read together."""
        most = max(1, SHARD_BYTES // (4 * self.readings[reading]))
        return self.source.whole_groups(most)


def _widths(source: Source) -> dict[str, int]:
    """The columns of vectors, and how many numbers they have."""
    found, names = {}, [one.name for one in source.schema if is_vector(one.type)]
    for name in names:
        kind = source.schema.field(name).type
        width = getattr(kind, "list_size", 0)
        if not width:
            head = source.pieces(1)[0].read([name]).column(0).to_pylist()
            width = len(head[0] or ())
        found[name] = width
    return {name: width for name, width in found.items() if width}


# --- Which rows are learned from.


def uniform(numbers: np.ndarray, seed: int) -> np.ndarray:
    """A number from 0 to 1 for each whole number (n,), the same whenever it is asked for.

    Source: SplitMix64 (Steele, Lea and Flood 2014).
    """
    with np.errstate(over="ignore"):
        mixed = numbers.astype(np.uint64) + np.uint64((seed * 2 + 1) * 0x9E3779B97F4A7C15 % 2**64)
        mixed = (mixed ^ (mixed >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
        mixed = (mixed ^ (mixed >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
        mixed = mixed ^ (mixed >> np.uint64(31))
    return (mixed >> np.uint64(11)).astype(np.float64) / 2**53


@dataclass(frozen=True, slots=True, kw_only=True)
class Sample:
    """Which rows of a data set are learned from, chosen on and scored on.

    Attributes:
        seed: Of what is drawn.
        test: The share of the rows that is scored.
        development: That on which settings are chosen.
        share: Of the rows to learn from, those that are learned from.
        split: The column that says train, validation or test; "" where rows are drawn.
    """

    seed: int = 0
    test: float = HELD_OUT
    development: float = HELD_OUT
    share: float = 1.0
    split: str = ""

    @classmethod
    def of(cls, rows: int, seed: int = 0, split: str = "") -> Sample:
        """That of so many rows: a tenth each is held out, and of very many fewer."""
        test, development = MOST_TEST / max(1, rows), MOST_DEVELOPMENT / max(1, rows)
        return cls(
            seed=seed, test=min(HELD_OUT, test), development=min(HELD_OUT, development), split=split
        )

    def chosen(self, keys: np.ndarray) -> np.ndarray:
        """Which of some rows to learn from are learned from, (n,): more of them hold the fewer."""
        return uniform(keys, self.seed + 1_000_003) < self.share

    def parts(self, keys: np.ndarray, said: Sequence[str] = ()) -> dict[Part, np.ndarray]:
        """Which of some rows belong to what, (n,) each.

        Args:
            keys: (n,), whole numbers; rows of the same number are never parted.
            said: What the split column says of them, if there is one.
        """
        drawn, chosen = uniform(keys, self.seed), self.chosen(keys)
        low, high = self.test, self.test + self.development
        if said:
            words = np.array([word.strip().lower() for word in said])
            test = np.isin(words, ("test", "eval", "evaluation"))
            dev = np.isin(words, ("validation", "valid", "val", "dev", "development"))
            if not dev.any():  # within a part of the rows that are not scored
                dev = ~test & (drawn < self.development)
            return {"test": test, "development": dev & ~test, "train": ~test & ~dev & chosen}
        test, dev = drawn < low, (drawn >= low) & (drawn < high)
        return {"test": test, "development": dev, "train": (drawn >= high) & chosen}


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class ShardRows:
    """Rows of one shard.

    Attributes:
        vectors: (n, w), in 32 bits.
        targets: (n,), the numbers of their classes.
        rows: (n,), their numbers among all rows.
        keys: (n,), equal numbers for rows of the same text; those of the rows where that is not
            known.
    """

    vectors: Tensor
    targets: Tensor
    rows: np.ndarray
    keys: np.ndarray

    def __len__(self) -> int:
        return len(self.targets)

    def some(self, which: slice | np.ndarray) -> ShardRows:
        """Some of them, one after another, or those of which it is said (n,)."""
        return ShardRows(
            vectors=self.vectors[which], targets=self.targets[which], rows=self.rows[which],
            keys=self.keys[which],
        )  # fmt: skip

    @classmethod
    def together(cls, some: Sequence[ShardRows]) -> ShardRows:
        """Rows of several shards, one after another."""
        return cls(
            vectors=torch.cat([one.vectors for one in some]),
            targets=torch.cat([one.targets for one in some]),
            rows=np.concatenate([one.rows for one in some]),
            keys=np.concatenate([one.keys for one in some]),
        )


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class ShardReader:
    """Reads the rows of pieces that belong to a part.

    Attributes:
        reading: The column of the vectors.
        width: How many numbers they have.
        label: The column of the labels.
        classes: Their names, in the order of the logits.
        sample: Which rows belong to what.
        has_hash: Whether each row has the number of its text.
    """

    reading: str
    width: int
    label: str
    classes: tuple[str, ...]
    sample: Sample
    has_hash: bool

    def read(self, piece: Piece, part: Part) -> ShardRows:
        """The rows of a piece that belong to a part.

        Raises:
            DataError: They cannot be read, or have a label that is none of the classes.
        """
        return self.parts(piece, (part,))[part]

    def parts(self, piece: Piece, parts: Sequence[Part]) -> dict[Part, ShardRows]:
        """The rows of a piece by the parts that they belong to; raises as `read` does."""
        names = [self.reading, self.label, *([TEXT_HASH] if self.has_hash else [])]
        table = piece.read([*names, *([self.sample.split] if self.sample.split else [])])
        keys, wanted = self._wanted(table, piece)
        array = table.column(self.reading).combine_chunks()
        targets = self._targets(table.column(self.label), piece)
        matrix, lacks = matrix_of(array, self.width, lambda at, size: _odd(piece, size, self.width))
        there = ~lacks & (targets >= 0)
        found: dict[Part, ShardRows] = {}
        for part in parts:
            own = np.flatnonzero(wanted[part] & there)
            vectors = torch.from_numpy(np.ascontiguousarray(matrix[own], dtype=np.float32))
            if not bool(vectors.sum().isfinite() or vectors.isfinite().all()):
                what = f"{piece} hold NaN or infinity in {self.reading}."
                raise DataError(what, "Make them again.")
            found[part] = ShardRows(
                vectors=vectors,
                targets=torch.from_numpy(targets[own]),
                rows=piece.row + own,
                keys=keys[own],
            )
        return found

    def _targets(self, labels: pyarrow.ChunkedArray, piece: Piece) -> np.ndarray:
        """The numbers of the classes of rows, (n,); −1 where a row has none."""
        coded = plain(labels).dictionary_encode()
        number = {name: place for place, name in enumerate(self.classes)}
        known = [_target(one, number, piece) for one in coded.dictionary.to_pylist()]
        places = coded.indices.fill_null(len(known)).to_numpy(zero_copy_only=False)
        return np.array([*known, -1])[places]

    def _wanted(
        self, table: pyarrow.Table, piece: Piece
    ) -> tuple[np.ndarray, dict[Part, np.ndarray]]:
        """The keys of rows (n,), and which of them belong to what."""
        keys = np.arange(piece.row, piece.row + len(table), dtype=np.uint64)
        if self.has_hash:
            keys = table.column(TEXT_HASH).to_numpy().astype(np.uint64)
        said = self.sample.split
        words = [str(one or "") for one in table.column(said).to_pylist()] if said else []
        return keys, self.sample.parts(keys, words)


def _target(label: object, number: Mapping[str, int], piece: Piece) -> int:
    """The number of a class; −1 where a row has none."""
    if is_missing(label):
        return -1
    found = number.get(label_of(label))
    if found is None:
        what = f"{piece} have the label '{short(str(label), 40)}', which was not counted."
        raise DataError(what, "Begin again: the file has changed.")
    return found


def plain(column: pyarrow.ChunkedArray) -> pyarrow.Array:
    """A column as one array of its values; categories that no row has are forgotten."""
    from pyarrow import types

    whole = column.combine_chunks()
    return whole.dictionary_decode() if types.is_dictionary(whole.type) else whole


def is_missing(label: object) -> bool:
    """Whether a cell holds no label: nothing, blanks, or what is no number."""
    return label is None or label != label or (isinstance(label, str) and not label.strip())


def label_of(value: object) -> str:
    """A label as the name of a class: 3.0 is 3, True is true.

    >>> label_of(3.0), label_of(True), label_of(" yes ")
    ('3', 'true', 'yes')
    """
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, float) and value.is_integer():
        return str(int(value))
    return str(value).strip()


def _odd(piece: Piece, size: int, width: int) -> DataError:
    what = f"{piece} hold a vector of {size:,} numbers, and others have {width:,}."
    return DataError(what, "Give vectors of one length.")


__all__ = ["FEATURES", "ROW", "TEXT_HASH", "FeatureShards", "Sample", "ShardReader", "ShardRows"]
