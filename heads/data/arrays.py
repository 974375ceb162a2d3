"""Texts and their labels as Python holds them: lists, arrays, columns of data frames.

Nothing is left out, as rows of a file are: whoever hands over arrays counts on one answer a row.
"""

import json
import math
from collections.abc import Iterable, Mapping, Sequence, Set
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from heads.data.corpus import RowTexts, check_text
from heads.data.table import VECTOR_COLUMN, Table, count, short
from heads.errors import DataError
from heads.settings import current_limits

if TYPE_CHECKING:
    from torch import Tensor

_SHOWN = 40


class ArrayError(DataError, ValueError):
    """Texts or labels in an array that cannot be used: a ValueError, as scikit-learn expects."""


def texts_of(X: Any) -> RowTexts:
    """Return the texts of an array-like: (n,) texts, (n, 1) texts or (n, 2) pairs of texts.

    >>> texts_of(["a", "b"]).texts, texts_of([("a", "b"), ("c", "d")]).pairs
    (('a', 'b'), ('b', 'd'))

    Raises:
        ArrayError: It is something else, or a text is missing or empty; names the row.
    """
    columns = _columns(X)
    both = [_check_texts(column, at, len(columns)) for at, column in enumerate(columns)]
    return RowTexts(texts=both[0], pairs=both[1] if len(both) > 1 else ())


def named_vectors(X: Any) -> RowTexts:
    """Return the vectors (n, w) of an array-like and their names as texts, or raise ArrayError."""
    from heads.data.formats.numpy_files import of_matrix

    if not is_array(X) and not hasattr(X, "columns"):
        try:
            X = np.asarray(X, dtype=float)
        except (TypeError, ValueError):
            what = "X holds something else than numbers, and the recipe learns from vectors."
            raise ArrayError(
                what, "Give an array (n, w) of floats, or write mean+linear."
            ) from None
    vectors = of_matrix(array_of(X), "X")
    return RowTexts(texts=tuple(vectors.names), vectors=vectors)


def _columns(X: Any) -> list[Sequence[Any]]:
    """Return the cells of one or two columns."""
    if isinstance(X, str | bytes):
        raise ArrayError("X is one text.", "Write [text] for a list of one.")
    try:
        cells: Any = np.asarray(X, dtype=object)
    except ValueError:  # rows of unlike length
        raise _no_texts("has rows of unlike length") from None
    if not cells.ndim:
        raise _no_texts(f"is a {type(X).__name__}")
    if cells.ndim > 2 or cells.shape[1:] not in ((), (1,), (2,)):
        raise _no_texts(f"is an array of {' × '.join(f'{size:,}' for size in cells.shape)}")
    if not len(cells):
        raise ArrayError("X has 0 rows.", "Give at least one text.")
    return [cells] if cells.ndim == 1 else list(cells.T)


def _no_texts(what: str) -> ArrayError:
    hint = "Give one text a row, or two."
    return ArrayError(f"X {what}, and must be a list of texts, or of pairs of texts.", hint)


def _check_texts(column: Iterable[Any], at: int, of: int) -> tuple[str, ...]:
    """Return the texts of a column; raise ArrayError with the row of one that is blank."""
    what = "text" if of == 1 else ("first text", "second text")[at]
    found, longest = [], current_limits().text_characters
    for row, cell in enumerate(column):
        try:
            found.append(check_text(cell, what, longest=longest))
        except DataError:  # rows are counted from 0, as Python counts them
            why, hint = f"has an empty {what}", "Leave such rows out."
            if isinstance(cell, list | tuple):
                why, hint = "is not like the others", "Give one text a row, or two."
            elif not isinstance(cell, str):
                why = f"has no {what} but {cell!r:.{_SHOWN}} ({type(cell).__name__})"
                hint = "Leave such rows out, or make it a text with str()."
            raise ArrayError(f"Row {row} of X {why}.", hint) from None
    return tuple(found)


# --- Vectors, and labels beside them.


def is_array(data: object) -> bool:
    """Return True if something is an array of NumPy, a tensor of torch, or the like."""
    return hasattr(data, "__array__") and hasattr(data, "ndim") and not hasattr(data, "columns")


def is_numbers(X: Any) -> bool:
    """Return True if an array-like holds numbers, and so no texts."""
    try:
        return is_array(X) and np.dtype(getattr(_as_numpy(X), "dtype", object)).kind in "fiub"
    except (TypeError, ValueError):
        return False


def _as_numpy(X: Any) -> Any:
    """Return an array as NumPy has it, without a copy where there need be none."""
    if hasattr(X, "detach"):  # a tensor: of bfloat16 NumPy knows nothing
        X = X.detach().cpu()
        X = X.float() if X.is_floating_point() and X.element_size() < 4 else X
        return X.numpy()
    return np.asarray(X)


def array_of(X: Any, name: str = "X") -> np.ndarray:
    """Return an array-like (n, w) of numbers, also NaN, as NumPy has it, or raise ArrayError."""
    from heads.data.formats.vector_reading import KINDS, check_shape

    found = _as_numpy(X)
    if found.ndim != 2 or found.dtype.kind not in KINDS:
        shape = " × ".join(f"{size:,}" for size in found.shape) or "a single value"
        what = f"{name} is an array of {shape} ({found.dtype}), and vectors are rows × numbers."
        raise ArrayError(what, "Give an array (n, w) of floats.")
    rows, width = found.shape
    check_shape(name, rows, width)
    return found


def matrix_of(X: Any, width: int) -> "Tensor":
    """Return vectors (n, w) for a head as 32-bit floats; raise ArrayError for anything else."""
    import torch

    hint = f"Give an array (n, {width}) of floats."
    try:
        found = np.asarray(_as_numpy(X))
        with np.errstate(over="ignore"):
            own = found.astype(np.float32 if found.dtype.kind in "fiu" else object)
    except (TypeError, ValueError):
        what = f"The head learned from vectors of {width:,} numbers, and these are none."
        raise ArrayError(what, hint) from None
    if own.dtype == object or own.ndim != 2 or own.shape[1] != width:
        shape = " × ".join(f"{size:,}" for size in found.shape) or "a single value"
        what = f"The head learned from vectors of {width:,} numbers, and X is {shape}"
        raise ArrayError(f"{what} ({found.dtype}).", hint)
    bad = ~np.isfinite(own).all(axis=1)
    if bad.any():
        what = f"Row {int(bad.argmax())} of X holds NaN, infinity or a number beyond 32 bits."
        raise ArrayError(what, "Leave such rows out.")
    return torch.from_numpy(own)


def table_of_vectors(X: Any, name: str = "vectors") -> Table:
    """Return an array of vectors as a table of one column; raise DataError if it holds none."""
    from heads.data.formats.numpy_files import table_of_arrays

    matrix = array_of(X, name)
    rows, width = matrix.shape
    note = f"Read from memory: {count(rows, 'vector')} of {count(width, 'number')}."
    return table_of_arrays(name, {VECTOR_COLUMN: matrix}, (note,))


def table_of_labels(labels: Any) -> Table:
    """Return labels in memory, also (n, labels) of 0 and 1, as a table, or raise ArrayError."""
    from heads.data.formats.numpy_files import COLUMNS, label_table

    values = _as_numpy(labels) if is_array(labels) else None
    if values is not None and values.dtype.kind in COLUMNS and values.ndim in (1, 2):
        return label_table(values, "labels")
    # A mapping gives its keys, and a set has no order: neither is one label a row.
    no_rows = isinstance(labels, str | Mapping | Set) or not isinstance(labels, Iterable)
    cells = [] if no_rows else list(labels)
    if not cells:
        hint = "Give a list or an array of one label a row."
        what = f"Labels cannot be taken from this {type(labels).__name__}."
        raise ArrayError(what if no_rows else "There are no labels.", hint)
    told = [_label_cell(one.item() if isinstance(one, np.generic) else one) for one in cells]
    lists = frozenset(["label"] * any(isinstance(one, list | tuple) for one in cells))
    return Table(
        name="labels", columns=("label",), rows=[(one,) for one in told],
        lines=range(1, len(told) + 1), unit="row", lists=lists, nested=dict.fromkeys(lists, 1),
    )  # fmt: skip


def _label_cell(label: Any) -> str:
    if label is None or label != label or label in (math.inf, -math.inf):  # NaN is no label
        return ""
    if isinstance(label, list | tuple):
        return json.dumps([str(one) for one in label], ensure_ascii=False)
    return str(label)


def check_as_many(name: str, rows: int, labels: Table) -> None:
    """Raise DataError for labels that are not one for each row."""
    if rows != len(labels.rows):
        what = f"{name} has {count(rows, 'row')} and {labels.name} {len(labels.rows):,}."
        raise DataError(what, "Give one label for each, in the same order.")


def beside(table: Table, labels: Table) -> Table:
    """Return a table with the columns of another; raise DataError unless both have as many rows."""
    check_as_many(table.name, len(table.rows), labels)
    twice = [name for name in labels.columns if name in table.columns]
    if twice:
        what = f"Both {table.name} and {labels.name} have a column called '{short(twice[0])}'."
        raise DataError(what, "Rename one of them.")
    return replace(
        table,
        columns=(*table.columns, *labels.columns),
        rows=[(*one, *other) for one, other in zip(table.rows, labels.rows, strict=True)],
        nested={**table.nested, **labels.nested},
        lists=table.lists | labels.lists,
        notes=(*table.notes, f"The labels come from {labels.name}."),
        findings=(*table.findings, *labels.findings),
    )
