"""Features in Parquet files, read a shard at a time: not all need fit in memory.

They come from `heads.extract`, or are any Parquet files with a column of vectors. A hash of a row's
text, or of its place where the text is not known, says whether the row is for training, for
development or for testing. So copies of a text stay in one subset, and no list of rows is saved.

Legend: n rows of a shard, w width of a vector, c classes.
"""

from __future__ import annotations

import shlex
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
import torch
from torch import Tensor

from heads import display
from heads.data.corpus import class_order
from heads.data.formats.parquet_files import compute, is_vector, matrix_of
from heads.data.table import short
from heads.errors import DataError, LimitError, did_you_mean
from heads.extras.scale.pieces import (
    MANIFEST,
    PARTS,
    Data,
    Piece,
    Source,
    join,
    open_source,
    read_json,
    read_manifest,
)
from heads.extras.scale.pool import NamedTask, Pool
from heads.interfaces.views.format import counted
from heads.settings import current_limits

if TYPE_CHECKING:
    import pyarrow

FEATURES = "features"
USUAL = "label", "labels", "target", "class", "y"  # of the column of labels, where none is named
TEXT_HASH = "text_hash"  # the column with a number for each text, equal for equal texts
Subset = Literal["train", "development", "test"]
HELD_OUT = 0.1  # of the rows, each of development and test
MOST_TEST, MOST_DEVELOPMENT = 50_000, 10_000  # rows of them: more hardly narrow an interval
SHARD_BYTES = 25_000_000  # of vectors that are read together


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class FeatureShards(display.Displayed):
    """Features of any number of rows, in Parquet files."""

    source: Source
    readings: Mapping[str, int]  # the columns of vectors, with their widths
    model: str = ""  # "" where that is not known
    revision: str = ""
    text: str = ""  # the columns of the texts, where they are known
    pair: str = ""
    dtype: str = "float32"  # of the saved numbers
    to: str = ""  # the folder; "" where they come from elsewhere
    fresh: int = 0  # rows that were encoded now; the others were there before
    seconds: float = 0.0

    @classmethod
    def load(cls, data: Data) -> FeatureShards:
        """Open a folder of `heads.extract`, or Parquet files with vectors.

        Raises:
            DataError: They hold no vectors.
        """
        folder = str(data) if isinstance(data, str | Path) else ""
        if folder and read_json(join(folder, MANIFEST)) is not None:
            manifest = read_manifest(folder, FEATURES)
            files = [join(folder, PARTS, part.name) for part in manifest["parts"]]
            names = ("readings", "model", "revision", "text", "pair", "dtype")
            facts = {name: manifest[name] for name in names}
            return cls(source=open_source(files, folder), to=folder, **facts)
        source = open_source(data, ".")
        widths = _find_widths(source)
        if not widths:
            what = f"{source.name} has no column of vectors."
            raise DataError(what, "Make features first: heads extract FILES --to FOLDER")
        return cls(source=source, readings=widths)

    def __repr__(self) -> str:
        readings = ", ".join(f"{name} ({width})" for name, width in self.readings.items())
        return f"<FeatureShards {self.rows:,} rows: {readings}>"

    @property
    def rows(self) -> int:
        """The number of rows."""
        return self.source.rows

    def as_json(self) -> dict[str, Any]:
        """Return all of it as plain values."""
        columns = [name for name in self.source.schema.names if name not in self.readings]
        names = ("model", "revision", "text", "pair", "dtype", "to", "fresh", "seconds")
        return {
            "rows": self.rows, "readings": dict(self.readings), "columns": columns,
            "files": len(self.source.files), **{name: getattr(self, name) for name in names},
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

    def vector_column(self, name: str) -> str:
        """Return the column of vectors that is named, or the only one; DataError otherwise."""
        if name:
            if name not in self.readings:
                what = f"{self.source.name} has no features '{short(name, 40)}'."
                raise DataError(what, did_you_mean(name, self.readings))
            return name
        if len(self.readings) > 1:
            what = f"There are several columns of vectors: {', '.join(self.readings)}."
            raise DataError(what, "Name one (--vectors).")
        return next(iter(self.readings))

    def pieces(self, column: str) -> list[Piece]:
        """Cut all rows into pieces whose vectors are read together."""
        rows_each = max(1, SHARD_BYTES // (4 * self.readings[column]))
        return self.source.pieces(rows_each, whole_groups=True)


def _find_widths(source: Source) -> dict[str, int]:
    """Return the columns of vectors, and how many numbers a vector has."""
    widths = {}
    for column in source.schema:
        if is_vector(column.type):
            widths[column.name] = getattr(column.type, "list_size", 0)
            if not widths[column.name]:
                first = source.pieces(1)[0].read([column.name]).column(0)[0].as_py()
                widths[column.name] = len(first or ())
    return {name: width for name, width in widths.items() if width}


# --- Which rows are for training.


def draw_uniform(numbers: np.ndarray, seed: int) -> np.ndarray:
    """Return a number from 0 to 1 for each whole number (n,), a function of it and the seed.

    Source: SplitMix64 (Steele, Lea and Flood 2014).
    """
    with np.errstate(over="ignore"):
        mixed = numbers.astype(np.uint64) + np.uint64((seed * 2 + 1) * 0x9E3779B97F4A7C15 % 2**64)
        mixed = (mixed ^ (mixed >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
        mixed = (mixed ^ (mixed >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
        mixed = mixed ^ (mixed >> np.uint64(31))
    return (mixed >> np.uint64(11)).astype(np.float64) / 2**53


@dataclass(frozen=True, slots=True, kw_only=True)
class ShardSample:
    """Which rows of a data set are for training, for development and for testing."""

    seed: int = 0  # the seed of what is drawn
    test: float = HELD_OUT  # the fraction of the rows for testing
    development: float = HELD_OUT  # the fraction for development, on which settings are chosen
    share: float = 1.0  # the fraction of the training rows that is used
    split: str = ""  # the column that says train, validation or test; "" where rows are drawn

    @classmethod
    def of_rows(cls, rows: int, seed: int = 0, split: str = "") -> ShardSample:
        """Return the sample of so many rows: a tenth each is held out, of very many fewer."""
        test, development = MOST_TEST / max(1, rows), MOST_DEVELOPMENT / max(1, rows)
        return cls(
            seed=seed, test=min(HELD_OUT, test), development=min(HELD_OUT, development), split=split
        )

    def select_used(self, keys: np.ndarray) -> np.ndarray:
        """Return which training rows are used, (n,): a larger share includes a smaller one."""
        return draw_uniform(keys, self.seed + 1_000_003) < self.share

    def masks(self, keys: np.ndarray, splits: Sequence[str] = ()) -> dict[Subset, np.ndarray]:
        """Return which rows are in each subset, (n,) each.

        Args:
            keys: (n,), whole numbers; rows of the same number are in the same subset.
            splits: The cells of the split column, if there is one.
        """
        drawn, low, high = draw_uniform(keys, self.seed), self.test, self.test + self.development
        test, dev = drawn < low, (drawn >= low) & (drawn < high)
        if splits:
            words = np.array([word.strip().lower() for word in splits])
            test = np.isin(words, ("test", "eval", "evaluation"))
            dev = np.isin(words, ("validation", "valid", "val", "dev", "development"))
            if not dev.any():  # within a part of the rows that are not for testing
                dev = ~test & (drawn < self.development)
        return {"test": test, "development": dev, "train": ~test & ~dev & self.select_used(keys)}


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class ShardRows:
    """Rows of one or several shards."""

    vectors: Tensor  # (n, w), in 32 bits
    targets: Tensor  # (n,), the numbers of their classes
    # (n,), equal numbers for equal texts; the numbers of the rows where none are known
    keys: np.ndarray

    def __len__(self) -> int:
        return len(self.targets)

    def select(self, which: slice | np.ndarray) -> ShardRows:
        """Return a slice of the rows, or those where a mask (n,) is true."""
        return ShardRows(**{one.name: getattr(self, one.name)[which] for one in fields(self)})

    @classmethod
    def concatenate(cls, some: Sequence[ShardRows]) -> ShardRows:
        """Return the rows of several shards, one after another."""
        return cls(
            vectors=torch.cat([one.vectors for one in some]),
            targets=torch.cat([one.targets for one in some]),
            keys=np.concatenate([one.keys for one in some]),
        )


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class ShardReader:
    """Reads the rows of pieces, by subset."""

    column: str  # the column of the vectors
    width: int  # how many numbers a vector has
    label: str  # the column of the labels
    classes: tuple[str, ...]  # their names, in the order of the logits
    sample: ShardSample  # which rows are in which subset
    has_hash: bool  # whether each row has the number of its text

    def read(self, piece: Piece, subset: Subset) -> ShardRows:
        """Return the rows of a piece in a subset; raises as `read_subsets` does."""
        return self.read_subsets(piece, (subset,))[subset]

    def read_subsets(self, piece: Piece, subsets: Sequence[Subset]) -> dict[Subset, ShardRows]:
        """Return the rows of a piece that have a vector and a label, by subset."""
        names = (self.column, self.label, TEXT_HASH * self.has_hash, self.sample.split)
        table = piece.read([*filter(None, names)])
        keys = np.arange(piece.row, piece.row + len(table), dtype=np.uint64)
        if self.has_hash:
            keys = table.column(TEXT_HASH).to_numpy().astype(np.uint64)
        splits = table.column(self.sample.split).to_pylist() if self.sample.split else []
        masks = self.sample.masks(keys, [str(cell or "") for cell in splits])
        array = table.column(self.column).combine_chunks()
        targets = self._targets(table.column(self.label), piece)
        matrix, lacks = matrix_of(array, self.width, lambda at, size: self._ragged(piece, size))
        usable, subset_rows = ~lacks & (targets >= 0), dict[Subset, ShardRows]()
        for subset in subsets:
            own = np.flatnonzero(masks[subset] & usable)
            vectors = torch.from_numpy(np.ascontiguousarray(matrix[own], dtype=np.float32))
            if not bool(vectors.sum().isfinite() or vectors.isfinite().all()):
                what = f"{piece} hold NaN or infinity in {self.column}."
                raise DataError(what, "Make them again.")
            subset_rows[subset] = ShardRows(
                vectors=vectors, targets=torch.from_numpy(targets[own]), keys=keys[own]
            )
        return subset_rows

    def _targets(self, labels: pyarrow.ChunkedArray, piece: Piece) -> np.ndarray:
        """Return the numbers of the classes of rows, (n,); −1 where a row has none."""
        coded = values_of(labels).dictionary_encode()
        number = {"": -1, **{name: place for place, name in enumerate(self.classes)}}
        names = [class_name(label) for label in coded.dictionary.to_pylist()]
        if new := [name for name in names if name not in number]:
            what = f"{piece} have the label '{short(new[0], 40)}', which was not counted."
            raise DataError(what, "Begin again: the file has changed.")
        places = coded.indices.fill_null(len(names)).to_numpy(zero_copy_only=False)
        return np.array([*(number[name] for name in names), -1])[places]

    def _ragged(self, piece: Piece, size: int) -> DataError:
        what = f"{piece} hold a vector of {size:,} numbers, and others have {self.width:,}."
        return DataError(what, "Give vectors of one length.")


# --- Labels, counted in one pass that reads no vectors.


def find_label_column(shards: FeatureShards, label: str) -> str:
    """Return the column of the labels: the one named, or one with a usual name."""
    if label:
        shards.source.check_column(label, "labels")
        return label
    names = [name for name in shards.source.schema.names if name not in shards.readings]
    if usual := [name for name in names if name.lower() in USUAL]:
        return usual[0]
    what = f"No column of {shards.source.name} is called label."
    raise DataError(what, f"Name it (--label). {did_you_mean('label', names)}".strip())


def count_labels(
    source: Source, label: str, pool: Pool[Any, Any]
) -> tuple[Counter[str], tuple[str, ...]]:
    """Return how many rows each class has, and the classes in the order of the logits."""
    limits = current_limits()
    pieces = source.pieces(1_000_000)
    tasks = [NamedTask(str(piece), partial(_count_piece, piece, label)) for piece in pieces]
    counts = sum(pool.results(tasks), Counter[str]())
    if len(counts) > limits.classes:
        what = f"'{short(label)}' has more than {limits.classes:,} different labels; is it an id, "
        raise LimitError(f"{what}a number, or a text?", "Name the column of the classes (--label).")
    if len(counts) < 2:
        what = f"'{short(label)}' has {'one label' if counts else 'no labels'} only."
        raise DataError(what, "Give rows of two classes or more.")
    return counts, tuple(class_order(set(counts))[0])


def _count_piece(piece: Piece, label: str) -> Counter[str]:
    from pyarrow import types

    column = values_of(piece.read([label]).column(0))
    if types.is_nested(column.type):
        what = f"{piece} hold lists or objects in '{short(label)}'."
        raise DataError(what, "Give a column with one label a row.")
    counts = Counter[str]()
    for pair in compute().value_counts(column).to_pylist():
        if name := class_name(pair["values"]):
            counts[name] += pair["counts"]
    return counts


def values_of(column: pyarrow.ChunkedArray) -> pyarrow.Array:
    """Return a column as one array of its values, without categories that no row has."""
    from pyarrow import types

    whole = column.combine_chunks()
    return whole.dictionary_decode() if types.is_dictionary(whole.type) else whole


def class_name(label: object) -> str:
    """Return a label as the name of a class, or "" for a missing one.

    >>> class_name(3.0), class_name(True), class_name(" yes "), class_name(float("nan"))
    ('3', 'true', 'yes', '')
    """
    if label is None or label != label:
        return ""
    if isinstance(label, bool):
        return str(label).lower()
    if isinstance(label, float) and label.is_integer():
        return str(int(label))
    return str(label).strip()
