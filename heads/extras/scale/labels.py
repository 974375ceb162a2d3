"""Labels of a data set of any size, counted in one pass that reads no vectors."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

from heads.data.corpus import class_order
from heads.data.formats.parquet_files import compute
from heads.data.table import short
from heads.errors import DataError, LimitError, did_you_mean
from heads.extras.scale.pieces import Piece, Source
from heads.extras.scale.pool import Call, Pool
from heads.settings import Limits

if TYPE_CHECKING:
    import pyarrow

USUAL = ("label", "labels", "target", "class", "y")


def find_label_column(source: Source, label: str, readings: Sequence[str]) -> str:
    """Return the column of the labels: the one named, or one with a usual name."""
    if label:
        source.check_column(label, "labels")
        return label
    names = [name for name in source.schema.names if name not in readings]
    label = next((name for name in names if name.lower() in USUAL), "")
    if not label:
        what = f"No column of {source.name} is called label."
        raise DataError(what, f"Name it (--label). {did_you_mean('label', names)}".strip())
    return label


def count_labels(
    source: Source, label: str, pool: Pool[Any, Any], limits: Limits
) -> tuple[Counter[str], tuple[str, ...]]:
    """Return how many rows each class has, and the classes in the order of the logits."""
    pieces = source.pieces(1_000_000)
    tasks = [Call(str(piece), partial(_count_piece, piece, label)) for piece in pieces]
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
