"""Vectors of a file that is only answered: those of a block of rows at a time.

Legend: n rows of a block, w width of a vector.
"""

import numpy as np

from heads.data.formats.parquet_files import is_vector, matrix_of
from heads.data.formats.table_stream import Block, TableStream
from heads.data.formats.vector_reading import matrix_of_cells, vector_places
from heads.data.table import short
from heads.data.vectors import Matrix, as_float32
from heads.errors import DataError


def vector_columns(stream: TableStream) -> tuple[str, ...]:
    """Return the columns of a file that hold vectors."""
    if stream.form == "columnar":
        return tuple(one.name for one in stream.facts if is_vector(one.type))
    return tuple(stream.columns[at] for at in vector_places(stream.sample))


def block_vectors(
    stream: TableStream, block: Block, column: str, width: int
) -> tuple[Matrix, np.ndarray]:
    """Return the vectors (n, w) of a block and which rows have one (n,); or raise DataError."""

    def ragged(place: int, size: int) -> DataError:
        where = f"{stream.sample.unit} {block.rows[place].line:,} of {short(stream.name)}"
        what = f"The vector on {where} has {size:,} numbers, and the head learned from {width:,}."
        return DataError(what, "Let the model that made those make these.")

    if stream.form == "columnar":
        pieces, start = [], 0
        for batch in block.own:
            array = batch.column(batch.schema.get_field_index(column))
            pieces.append(
                matrix_of(array, width, lambda at, size, start=start: ragged(start + at, size))
            )
            start += len(array)
        matrix = np.concatenate([rows for rows, _ in pieces])
        lacks = np.concatenate([lacks for _, lacks in pieces])
    else:
        at = stream.columns.index(column)
        cells = ["" if row.odd else row.cells[at] for row in block.rows]
        matrix, lacks = matrix_of_cells(cells, width, ragged)
    matrix = as_float32(matrix)
    return matrix, ~lacks & np.isfinite(matrix).all(axis=1)
