"""The labels of a data set of any size, counted in one pass that reads no vectors."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from heads.data.corpus import class_order
from heads.data.table import short
from heads.errors import DataError, LimitError, did_you_mean
from heads.extras.scale.pieces import Piece
from heads.extras.scale.pool import Pool
from heads.extras.scale.shards import FeatureShards, is_missing, label_of, plain
from heads.settings import Limits

USUAL = ("label", "labels", "target", "class", "y")


@dataclass(frozen=True, slots=True, kw_only=True)
class CountTask:
    """Counts the labels of some pieces.

    Attributes:
        pieces: In which they lie.
        label: Their column.
        most: Different labels, after which it is no use to go on.
    """

    pieces: Sequence[Piece]
    label: str
    most: int

    def __call__(self) -> Counter[str]:
        """How often each label stands there."""
        from pyarrow import types

        from heads.data.formats.parquet_files import compute

        counts = Counter[str]()
        for piece in self.pieces:
            column = plain(piece.read([self.label]).column(0))
            if types.is_nested(column.type):
                what = f"{piece} hold lists or objects in '{short(self.label)}'."
                raise DataError(what, "Give a column with one label a row.")
            for pair in compute().value_counts(column).to_pylist():
                if not is_missing(pair["values"]):
                    counts[label_of(pair["values"])] += pair["counts"]
            if len(counts) > self.most:
                break
        return counts


def label_column(shards: FeatureShards, label: str) -> str:
    """The column of the labels: the one named, or one with a usual name.

    Raises:
        DataError: There is none.
    """
    names = [name for name in shards.source.schema.names if name not in shards.readings]
    if label:
        shards.source.check_column(label, "labels")
        return label
    found = next((name for name in names if name.lower() in USUAL), "")
    if not found:
        what = f"No column of {shards.source.name} is called label."
        raise DataError(what, f"Name it (--label). {did_you_mean('label', names)}".strip())
    return found


def counted(
    shards: FeatureShards, label: str, pool: Pool[Any, Any], limits: Limits
) -> tuple[Counter[str], tuple[str, ...]]:
    """How often each class stands in the rows, and the classes in the order of the logits.

    Raises:
        DataError: There are not two of them.
        LimitError: There are more than this place allows.
    """
    pieces = shards.source.pieces(1_000_000)
    tasks = [CountTask(pieces=(one,), label=label, most=limits.classes) for one in pieces]
    counts = Counter[str]()
    for _, some in filter(None, pool.map(tasks)):
        counts += some
    if len(counts) > limits.classes:
        what = f"'{short(label)}' has more than {limits.classes:,} different labels; is it an id, "
        raise LimitError(f"{what}a number, or a text?", "Name the column of the classes (--label).")
    if len(counts) < 2:
        what = f"'{short(label)}' has {'one label' if counts else 'no labels'} only."
        raise DataError(what, "Give rows of two classes or more.")
    return counts, tuple(class_order(set(counts))[0])
