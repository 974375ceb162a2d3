"""Vectors as NumPy writes them: .npy, one array, and .npz, several by name.

A header is judged before any room is made for what it promises, and objects are never unpickled.
"""

import math
import sys
import warnings
import zipfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
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
    """What an array says of itself.

    Attributes:
        shape: Its size in each direction.
        by_columns: Whether a column lies in one piece, as in Fortran, and not a row.
        dtype: The kind of its numbers.
        offset: Where they begin.
    """

    shape: tuple[int, ...]
    by_columns: bool
    dtype: np.dtype
    offset: int

    @property
    def bytes(self) -> int:
        """How many bytes it claims to have, as a whole number of any size."""
        return math.prod(self.shape, start=self.dtype.itemsize)


def header_of(file: BinaryIO, name: str, size: int) -> Header:
    """Read an array's header; raise DataError if it claims more than `size` bytes, or objects."""
    read = {
        (1, 0): np.lib.format.read_array_header_1_0,
        (2, 0): np.lib.format.read_array_header_2_0,
    }
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # it speaks of Python 2 where bytes are damaged
            shape, by_columns, dtype = read[np.lib.format.read_magic(file)](file)
        found = Header(shape=shape, by_columns=bool(by_columns), dtype=dtype, offset=file.tell())
        sizes = [*shape]
    except Exception:  # of foreign bytes its parser raises what it likes, also of the tokenizer
        raise DataError(f"{name} is damaged, or no array of NumPy.", _WHOLE) from None
    if dtype.hasobject or dtype.names:
        what = f"{name} holds Python objects or records, which are never loaded."
        raise DataError(what, _FLOATS)
    if any(one < 0 for one in sizes) or found.bytes > size - found.offset:
        what = f"{name} claims {' × '.join(f'{one:,}' for one in sizes) or 'one'} values and holds "
        raise DataError(f"{what}{max(0, size - found.offset):,} bytes: it is cut short.", _WHOLE)
    return found


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


# --- One array.


def read_numpy(path: Path, name: str, *, of_labels: bool = False) -> Table:
    """Read a .npy or .npz file as a table; of one array that is one column of vectors.

    Args:
        of_labels: Whether one array holds labels, not vectors: one a row, or columns of 0 and 1.

    Raises:
        DataError: It holds no such thing, or is damaged.
        LimitError: It holds more than the limits allow.
    """
    if not _is_npy(path):
        return _read_npz(path, name)
    if of_labels:
        return _read_labels(path, name)
    header = _header_at(path, name)
    check_vectors(header, name)
    rows, width = header.shape
    read = partial(_vectors_of_npy, path, name)
    return table_of_array(name, rows, width, read, "Read as an array of NumPy")


def table_of_array(
    name: str, rows: int, width: int, read: Callable[[], RowVectors], says: str
) -> Table:
    """Return a table of one column of vectors, read when asked for; `says` becomes a note."""
    return Table(
        name=name,
        columns=(VECTOR_COLUMN,),
        rows=[(CELL,)] * rows,
        lines=range(1, rows + 1),
        nested={VECTOR_COLUMN: 1},
        vectors={VECTOR_COLUMN: read},
        notes=(f"{says}: {count(rows, 'vector')} of {count(width, 'number')}.",),
        unit="row",
    )


def _header_at(path: Path, name: str) -> Header:
    with path.open("rb") as file:
        return header_of(file, name, path.stat().st_size)


def _map_array(path: Path) -> Matrix:
    """Map the array of a file into memory, once its header has been checked."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # as in `header_of`
        # Copied where written to, which nobody does: of what cannot be written torch makes nothing.
        return np.load(path, mmap_mode="c", allow_pickle=False)


def _vectors_of_npy(path: Path, name: str) -> RowVectors:
    header = _header_at(path, name)  # once more: the file may have changed since
    check_vectors(header, name)
    return of_matrix(_map_array(path), name)


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


# --- Several arrays by name.


def _read_npz(path: Path, name: str) -> Table:
    """Read arrays by name: those of two dimensions are vectors, those of one are columns."""
    with _open_zip(path, name) as file:
        headers = _headers(file.zip, name)
        tables = [one for one, header in headers.items() if len(header.shape) == 2]
        plain = [one for one, header in headers.items() if len(header.shape) == 1]
        if not tables:
            what = f"{name} holds no array of vectors: {_describe(headers)}."
            raise DataError(
                what, "Save one of rows × numbers: np.savez(file, X=vectors, y=labels)."
            )
        rows = headers[tables[0]].shape[0]
        for one in (*tables, *plain):
            if headers[one].shape[0] != rows:
                what = f"{name} has {rows:,} rows in {tables[0]} and {headers[one].shape[0]:,} in "
                raise DataError(f"{what}{short(one)}.", "Save one row of each for each text.")
        for one in tables:
            check_vectors(headers[one], f"{short(one)} of {name}")
        cells = [_cells(file, one, headers[one], name) for one in plain]
    left = [one for one in headers if one not in tables and one not in plain]
    note = f"Read as arrays of NumPy: {_describe(headers)}."
    return Table(
        name=name,
        columns=(*tables, *plain),
        rows=list(zip(*([[CELL] * rows] * len(tables)), *cells, strict=True)),
        lines=range(1, rows + 1),
        nested=dict.fromkeys(tables, 1),
        vectors={one: partial(_vectors_of_npz, path, one, name) for one in tables},
        notes=(note, *[f"Left out: {', '.join(map(short, left))}."] * bool(left)),
        unit="row",
    )


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
    """What all arrays say of themselves, by name."""
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


def _cells(file: Any, one: str, header: Header, name: str) -> Sequence[str]:
    """Return a column of cells from an array of one dimension."""
    called = f"{short(one)} of {name}"
    if not _are_cells(header):
        what = f"{called} holds values of the kind {header.dtype.str}."
        raise DataError(what, "Save labels as texts or as numbers.")
    return cells_of(file[f"{one}.npy"], called)


def _are_cells(header: Header) -> bool:
    """Whether an array can be a column: texts of no length are no texts, and only crafted."""
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
        return [_number(one) if math.isfinite(one) else "" for one in values.tolist()]
    return [str(one) for one in values.tolist()]


def _number(value: float) -> str:
    """Classes that are numbers are often kept as 32-bit floats: 3.0 is the class 3."""
    return str(int(value)) if value.is_integer() else str(value)


def _vectors_of_npz(path: Path, one: str, name: str) -> RowVectors:
    called = f"{short(one)} of {name}"
    with _open_zip(path, name) as file:
        check_vectors(_headers(file.zip, name)[one], called)  # the file may have changed since
        matrix = file[f"{one}.npy"]
    return of_matrix(matrix, called)


# --- Columns of which some rows are read at a time.


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


def arrays_of(path: Path, name: str) -> dict[str, Matrix | list[str]]:
    """Return the vectors (n, w) and the columns of cells of a file by name."""
    if _is_npy(path):
        check_vectors(_header_at(path, name), name)
        return {VECTOR_COLUMN: _map_array(path)}
    table = _read_npz(path, name)
    arrays: dict[str, Matrix | list[str]] = {}
    for at, column in enumerate(table.columns):
        if column in table.vectors:
            ((arrays[column], _),) = table.vectors[column]().vectors.pieces
        else:
            arrays[column] = [row[at] for row in table.rows]
    return arrays


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
