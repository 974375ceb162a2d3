"""Vectors of a file that is only answered: those of a block of rows at a time.

Legend: n rows of a block, w width of a vector.
"""

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

import numpy as np

from heads.data.formats.parquet_files import is_vector, matrix_of
from heads.data.formats.table_stream import Block, TableStream
from heads.data.formats.vector_reading import matrix_of_cells, vector_places
from heads.data.table import short
from heads.data.vectors import Matrix
from heads.errors import DataError

if TYPE_CHECKING:
    import pyarrow


def vector_columns(stream: TableStream) -> tuple[str, ...]:
    """The columns of a file that hold vectors."""
    if stream.form == "columnar":
        return tuple(one.name for one in stream.facts if is_vector(one.type))
    return tuple(stream.columns[at] for at in vector_places(stream.sample))


def block_vectors(
    stream: TableStream, block: Block, column: str, width: int
) -> tuple[Matrix, np.ndarray]:
    """Return the vectors (n, w) of a block and which rows have one (n,); or raise DataError."""
    if stream.form == "columnar":
        blocks = list(_of_arrow(stream, block, column, width))
        found = np.concatenate([matrix for matrix, _ in blocks])
        lacks = np.concatenate([own for _, own in blocks])
    else:
        at = stream.columns.index(column)
        cells = ["" if row.odd else row.cells[at] for row in block.rows]
        found, lacks = matrix_of_cells(
            cells, width, lambda place, size: _odd(stream, block.rows[place].line, size, width)
        )
    with np.errstate(over="ignore"):  # what is too large becomes infinite, and is not answered
        found = np.ascontiguousarray(found, dtype=np.float32)
    return found, ~lacks & np.isfinite(found).all(axis=1)


def _of_arrow(
    stream: TableStream, block: Block, column: str, width: int
) -> Iterator[tuple[Matrix, np.ndarray]]:
    start = 0
    batches: Sequence[pyarrow.RecordBatch] = block.own
    for batch in batches:
        array = batch.column(batch.schema.get_field_index(column))
        lines = [row.line for row in block.rows[start : start + len(array)]]
        yield matrix_of(
            array, width, lambda at, size, own=lines: _odd(stream, own[at], size, width)
        )
        start += len(array)


def _odd(stream: TableStream, line: int, size: int, width: int) -> DataError:
    what = f"The vector on {stream.sample.unit} {line:,} of {short(stream.name)} has {size:,} "
    return DataError(
        f"{what}numbers, and the head learned from {width:,}.",
        "Let the model that made those make these.",
    )
