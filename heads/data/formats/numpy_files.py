"""Vectors as NumPy writes them: .npy, one array, and .npz, several by name.

A header is judged before any room is made for what it promises, and objects are never unpickled.
"""

import math
import sys
import warnings
import zipfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np

from heads.data.formats.vector_reading import KINDS, VectorSink, check_shape
from heads.data.table import CELL, VECTOR_COLUMN, Table, check_size, count, short
from heads.data.vectors import BLOCK, Matrix, RowVectors
from heads.errors import DataError, HeadsError, LimitError
from heads.settings import current_limits

MAGIC, ZIP = b"\x93NUMPY", b"PK\x03\x04"
LABELS = "label"
_MOST_ARRAYS = 100
_FLOATS = "Save an array of floats: np.save(file, np.asarray(vectors, dtype='float32'))."
_WHOLE = "Save it again, or choose another file."
COLUMNS = "biufSU"  # kinds of NumPy that can be cells


@dataclass(frozen=True, slots=True, kw_only=True)
class Header:
    """What an array says of itself."""

    shape: tuple[int, ...]
    dtype: np.dtype


def header_of(file: BinaryIO, name: str, size: int) -> Header:
    """Read an array's header; raise DataError if it claims more than `size` bytes, or objects."""
    read = {
        (1, 0): np.lib.format.read_array_header_1_0,
        (2, 0): np.lib.format.read_array_header_2_0,
    }
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # it speaks of Python 2 where bytes are damaged
            shape, _, dtype = read[np.lib.format.read_magic(file)](file)
        sizes, left = [*shape], size - file.tell()
    except Exception:  # of foreign bytes its parser raises what it likes, also of the tokenizer
        raise DataError(f"{name} is damaged, or no array of NumPy.", _WHOLE) from None
    if dtype.hasobject or dtype.names:
        what = f"{name} holds Python objects or records, which are never loaded."
        raise DataError(what, _FLOATS)
    if any(one < 0 for one in sizes) or math.prod(sizes, start=dtype.itemsize) > left:
        what = f"{name} claims {' × '.join(f'{one:,}' for one in sizes) or 'one'} values and holds "
        raise DataError(f"{what}{max(0, left):,} bytes: it is cut short.", _WHOLE)
    return Header(shape=shape, dtype=dtype)


def check_vectors(header: Header, name: str) -> None:
    """Raise DataError or LimitError for an array that holds no vectors, or too many."""
    if header.dtype.kind not in KINDS:
        what = f"{name} holds values of the kind {header.dtype}, and vectors are of numbers."
        raise DataError(what, _FLOATS)
    if len(header.shape) != 2:
        told = " × ".join(f"{one:,}" for one in header.shape) or "a single number"
        what = f"{name} is an array of {count(len(header.shape), 'dimension')} ({told})."
        raise DataError(what, "Vectors are an array of two: rows × numbers.")
    rows, width = header.shape
    check_shape(name, rows, width)


# --- A file as a table: arrays of two dimensions are vectors, those of one are columns.


def read_numpy(path: Path, name: str, *, of_labels: bool = False) -> Table:
    """Read a .npy or .npz file as a table; of one array that is one column of vectors.

    Args:
        of_labels: Whether one array holds labels, not vectors: one a row, or columns of 0 and 1.

    Raises:
        DataError: It holds no such thing, or is damaged.
        LimitError: It holds more than the limits allow.
    """
    if of_labels and _is_npy(path):
        return _read_labels(path, name)
    table = table_of_arrays(name, *arrays_of(path, name, only=""))
    read = {column: partial(_read_vectors, path, name, column) for column in table.vectors}
    return replace(table, vectors=read)


def _read_vectors(path: Path, name: str, column: str) -> RowVectors:
    arrays, _ = arrays_of(path, name, only=column)  # checked again: the file may have changed
    return table_of_arrays(name, arrays, ()).vectors[column]()


def table_of_arrays(
    name: str, arrays: Mapping[str, Matrix | list[str]], notes: tuple[str, ...]
) -> Table:
    """Return vectors (n, w), which are checked once they are asked for, and cells as a table."""
    vectors = {column: own for column, own in arrays.items() if not isinstance(own, list)}
    rows = len(next(iter(arrays.values())))
    cells = [[CELL] * rows if column in vectors else own for column, own in arrays.items()]
    called = {
        column: name if len(arrays) == 1 else f"{short(column)} of {name}" for column in arrays
    }
    return Table(
        name=name, columns=tuple(arrays), rows=list(zip(*cells, strict=True)),
        lines=range(1, rows + 1), nested=dict.fromkeys(vectors, 1), notes=notes, unit="row",
        vectors={
            column: partial(of_matrix, own, called[column]) for column, own in vectors.items()
        },
    )  # fmt: skip


def arrays_of(
    path: Path, name: str, *, only: str | None = None
) -> tuple[dict[str, Matrix | list[str]], tuple[str, ...]]:
    """Return the vectors (n, w) and columns of cells of a file by name, and how it was read.

    Args:
        only: The vectors of a .npz file that are read; the others are zeros that take no memory.
            Default: all of them.
    """
    if not _is_npy(path):
        return _arrays_of_npz(path, name, only)
    header = _header_at(path, name)
    check_vectors(header, name)
    rows, width = header.shape
    note = f"Read as an array of NumPy: {count(rows, 'vector')} of {count(width, 'number')}."
    return {VECTOR_COLUMN: _map_array(path)}, (note,)


def _header_at(path: Path, name: str) -> Header:
    with path.open("rb") as file:
        return header_of(file, name, path.stat().st_size)


def _map_array(path: Path) -> Matrix:
    """Map the array of a file into memory, once its header has been checked."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # as in `header_of`
        # Copied where written to, which nobody does: of what cannot be written torch makes nothing.
        return np.load(path, mmap_mode="c", allow_pickle=False)


def of_matrix(matrix: Matrix, name: str) -> RowVectors:
    """Return vectors from an array, checked; of 32-bit floats they are not copied."""
    is_ready = matrix.dtype == np.float32 and matrix.flags.c_contiguous and matrix.flags.writeable
    sink = VectorSink(
        name=name, rows=len(matrix), width=matrix.shape[1],
        into=matrix if is_ready else None,
    )  # fmt: skip
    for start in range(0, len(matrix), BLOCK):
        sink.add(matrix[start : start + BLOCK])
    return sink.done()


def _arrays_of_npz(
    path: Path, name: str, only: str | None
) -> tuple[dict[str, Matrix | list[str]], tuple[str, ...]]:
    """Return the arrays of a .npz file by name, vectors first, and notes on how it was read."""
    with _open_zip(path, name) as file:
        headers = _headers(file.zip, name)
        tables = [array for array, header in headers.items() if len(header.shape) == 2]
        plain = [array for array, header in headers.items() if len(header.shape) == 1]
        if not tables:
            what = f"{name} holds no array of vectors: {_describe(headers)}."
            hint = "Save one of rows × numbers: np.savez(file, X=vectors, y=labels)."
            raise DataError(what, hint)
        rows = headers[tables[0]].shape[0]
        for array in (*tables, *plain):
            if headers[array].shape[0] != rows:
                what = f"{name} has {rows:,} rows in {tables[0]} and {headers[array].shape[0]:,} in"
                raise DataError(f"{what} {short(array)}.", "Save one row of each for each text.")
        arrays: dict[str, Matrix | list[str]] = {}
        for array in tables:
            check_vectors(headers[array], f"{short(array)} of {name}")
            is_read = only is None or array == only
            zeros = np.broadcast_to(np.zeros((), headers[array].dtype), headers[array].shape)
            arrays[array] = file[f"{array}.npy"] if is_read else zeros
        for array in plain:
            called, header = f"{short(array)} of {name}", headers[array]
            if not _are_cells(header):
                what = f"{called} holds values of the kind {header.dtype.str}."
                raise DataError(what, "Save labels as texts or as numbers.")
            arrays[array] = cells_of(file[f"{array}.npy"], called)
    note = f"Read as arrays of NumPy: {_describe(headers)}."
    left = [short(array) for array in headers if array not in arrays]
    return arrays, (note, *[f"Left out: {', '.join(left)}."] * bool(left))


def _describe(headers: dict[str, Header]) -> str:
    shapes = (
        f"{short(one)} ({' × '.join(f'{size:,}' for size in header.shape)})"
        for one, header in headers.items()
    )
    return ", ".join(shapes)


@contextmanager
def _open_zip(path: Path, name: str) -> Iterator[Any]:
    """Open a .npz file; within it, a zip that is damaged is said to be."""
    try:
        with np.load(path, allow_pickle=False) as file, warnings.catch_warnings():
            warnings.simplefilter("ignore")  # as in `header_of`
            yield file
    except HeadsError:
        raise
    except Exception:  # each way to pack a zip has errors of its own: zlib.error, LZMAError
        raise DataError(f"{name} is damaged, or no file of arrays.", _WHOLE) from None


def _headers(file: zipfile.ZipFile, name: str) -> dict[str, Header]:
    """Return what all arrays say of themselves, by name."""
    limits = current_limits()
    members = file.infolist()
    if len(members) > _MOST_ARRAYS:
        what = f"{name} has {len(members):,} arrays; at most {_MOST_ARRAYS} are read."
        raise LimitError(what, "Keep the vectors and their labels.")
    if (size := sum(one.file_size for one in members)) > limits.unpacked_bytes:
        what = f"{name} unpacks to {size / 1e6:,.0f} MB, and this place reads "
        raise LimitError(f"{what}{limits.unpacked_bytes / 1e6:,.0f} MB.", "Choose a part of it.")
    found = {}
    for one in members:
        title = one.filename.removesuffix(".npy")
        with file.open(one) as array:
            found[title] = header_of(array, f"{short(title)} of {name}", one.file_size)  # type: ignore[arg-type]
    return found


def _are_cells(header: Header) -> bool:
    """Return True if an array can be a column; texts of no length are only crafted."""
    return header.dtype.kind in COLUMNS and header.dtype.itemsize > 0


def cells_of(values: np.ndarray, name: str) -> list[str]:
    """Return an array of labels as cells; raise DataError for characters that do not exist."""
    if values.dtype.kind == "U":  # by numbers: NumPy itself ends in a SystemError on some letters
        numbers = np.dtype("u4").newbyteorder(values.dtype.byteorder)
        if np.ascontiguousarray(values).view(numbers).max(initial=0) > sys.maxunicode:
            raise DataError(f"{name} is damaged: it holds what is no letter.", _WHOLE)
    if values.dtype.kind == "S":
        return [one.decode("utf-8", "replace") for one in values.tolist()]
    if values.dtype.kind == "b":
        return [str(one).lower() for one in values.tolist()]
    if values.dtype.kind == "f":  # NaN and infinity are no labels
        # Classes that are numbers are often kept as 32-bit floats: 3.0 is the class 3.
        return [
            "" if not math.isfinite(n) else str(int(n) if n.is_integer() else n)
            for n in values.tolist()
        ]
    return [str(one) for one in values.tolist()]


def _is_npy(path: Path) -> bool:
    with path.open("rb") as file:
        return file.read(len(MAGIC)) == MAGIC


def is_numpy(path: Path) -> bool:
    """Return True for an array of NumPy and a zip of arrays, not for other zips such as .xlsx."""
    with path.open("rb") as file:
        if file.read(len(ZIP)) != ZIP:
            return _is_npy(path)
    try:
        with zipfile.ZipFile(path) as archive:
            names = archive.namelist()
    except (OSError, zipfile.BadZipFile, ValueError, NotImplementedError):
        return False
    return bool(names) and all(name.endswith(".npy") for name in names)


# --- Labels that come beside vectors.


def _read_labels(path: Path, name: str) -> Table:
    header = _header_at(path, name)
    if not _are_cells(header) or len(header.shape) not in (1, 2):
        kind = f"an array of {count(len(header.shape), 'dimension')}, {header.dtype.str}"
        what = f"{name} holds no labels ({kind})."
        raise DataError(what, "Save one label a row, as texts or numbers.")
    check_size(name, rows=header.shape[0], columns=[*header.shape, 1][1])
    return label_table(np.asarray(_map_array(path)), name)


def label_table(values: np.ndarray, name: str) -> Table:
    """Return labels (n,), or (n, labels) of 0 and 1, as a table, or raise DataError."""
    columns = [values] if values.ndim == 1 else list(values.T)
    names = (LABELS,) if len(columns) == 1 else tuple(f"{LABELS} {n}" for n in range(len(columns)))
    cells = [cells_of(column, name) for column in columns]
    return Table(
        name=name,
        columns=names,
        rows=list(zip(*cells, strict=True)),
        lines=range(1, len(values) + 1),
        unit="row",
    )
