"""Whatever a user gives as data, a sample, a file, a table in memory or the Hub's, to a `Table`."""

import re
from collections.abc import Collection, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

from heads import plugins
from heads.data.arrays import (
    array_of,
    beside,
    check_as_many,
    is_array,
    table_of_labels,
    table_of_vectors,
)
from heads.data.dataset import name_of
from heads.data.files import open_stream, open_table, place_of
from heads.data.formats.parquet_files import ArrowRows, array_rows, stream_columnar
from heads.data.formats.table_stream import Block, TableStream
from heads.data.formats.vector_stream import vector_columns
from heads.data.frames import frame_name, frame_rows, is_frame, read_as, read_frame
from heads.data.table import VECTOR_COLUMN, Table, short
from heads.errors import DataError

NO_VECTORS = "Labels of their own belong beside vectors, and {} has none."
SCHEME = re.compile(r"([a-z]{2,}):(?!//)")


def open_source(data: Any, header: bool | None = None, labels: Any = None) -> tuple[Table, str]:
    """Return the cells of what a user gives, and what it is called.

    Args:
        data: A sample by name, the path of a file or folder, a table in memory, an array of
            vectors, or a name with the scheme of an extra, such as hub:owner/name.
        header: Whether the first line of a file names the columns; None finds out.
        labels: What stands beside vectors that have no labels: a file, or labels in memory.

    Raises:
        DataError: There is no such thing, or it cannot be read.
        LimitError: It holds more than this place allows.
    """
    table, name = _opened(data, header)
    if not are_given(labels):
        return table, name
    if not table.vectors:
        raise DataError(NO_VECTORS.format(table.name), "Put texts and labels into one file.")
    return beside(table, _labels(labels, header)), name


def locate_rows(data: Any) -> Path | ArrowRows:
    """Return the file of a sample or a path, or rows in memory; raise DataError for neither."""
    if isinstance(data, str | Path):
        return place_of(data)
    if is_frame(data):
        return frame_rows(data)
    if is_array(data):
        return array_rows({VECTOR_COLUMN: array_of(data, VECTOR_COLUMN)})
    raise _unknown(data)


def source_name(data: Any) -> str:
    """Return what is said of a file, a table in memory or an array where it is named."""
    if isinstance(data, str | Path):
        return short(place_of(data).name, 60)
    return frame_name(data) if is_frame(data) else VECTOR_COLUMN


def stream_source(
    rows: Path | ArrowRows,
    data: Any,
    header: bool | None = None,
    known: Collection[str] = (),
    *,
    of_lines: bool = False,
) -> TableStream:
    """Look through what a user gives, to read it again row by row; raise DataError or LimitError.

    Args:
        rows: Where `locate_rows` finds them.
        header, known, of_lines: As of `open_stream`.
    """
    if isinstance(rows, Path):
        return open_stream(rows, header, known, of_lines=of_lines)
    note = read_as(data) if is_frame(data) else "Read from memory: an array."
    return stream_columnar([(rows, "")], source_name(data), note)


def are_given(labels: Any) -> bool:
    """Return True if labels were given that stand beside vectors, a file or in memory."""
    return labels is not None and not (isinstance(labels, str) and not labels)


def labelled(stream: TableStream, labels: Any, header: bool | None = None) -> TableStream:
    """Return a file of vectors that is only answered, with labels of another file in its rows.

    Args:
        labels: One for each row in the same order: a CSV, JSONL or .npy file, or labels in memory.

    Raises:
        DataError: The file holds no vectors, or the labels are not as many.
    """
    if not vector_columns(stream):
        raise DataError(NO_VECTORS.format(stream.name), "Put texts and labels into one file.")
    if stream.form != "columnar":  # of which lines are rows
        what = f"Labels of their own belong beside .npy, .npz and Parquet files, not {stream.name}."
        raise DataError(what, "Put vectors and labels into one file.")
    own = _labels(labels, header)
    check_as_many(stream.name, stream.rows, own)
    drawn = replace(own, rows=[own.rows[line - 1] for line in stream.sample.lines])

    def blocks(most: int) -> Iterator[Block]:
        start = 0
        for block in stream.blocks(most):
            more = own.rows[start : start + len(block)]
            rows = zip(block.rows, more, strict=True)
            yield replace(block, rows=[replace(one, cells=[*one.cells, *own]) for one, own in rows])
            start += len(block)

    names = own.columns
    return replace(
        stream,
        columns=(*stream.columns, *names),
        titles=(*stream.titles, *names),
        sample=beside(stream.sample, drawn),
        blocks=blocks,
        notes=(*stream.notes, f"The labels come from {own.name}."),
    )


def _labels(labels: Any, header: bool | None) -> Table:
    has_columns = hasattr(labels, "columns") or hasattr(labels, "column_names")
    if has_columns and is_frame(labels):  # a Series hands out Arrow too
        return replace(read_frame(labels), name="labels")
    if not isinstance(labels, str | Path):
        return table_of_labels(labels)
    return open_table(place_of(labels), header, of_labels=True)


def _opened(data: Any, header: bool | None) -> tuple[Table, str]:
    if isinstance(data, str) and (table := read_named(data)):
        return table, table.name
    if isinstance(data, str | Path):
        path = place_of(data)
        return open_table(path, header), name_of(path)
    if is_frame(data):
        return read_frame(data), frame_name(data)
    if is_array(data):
        return table_of_vectors(data), VECTOR_COLUMN
    raise _unknown(data)


def read_named(name: str) -> Table | None:
    """Return the data of a name such as ``hub:owner/name``, None for a path; or raise DataError."""
    scheme = SCHEME.match(name)
    reader = plugins.load_data_source(scheme[1]) if scheme else None
    return reader(name) if reader else None


def _unknown(data: object) -> DataError:
    """Return what to say of something that is no table yet, and what to do with it."""
    hint = "Give a sample, a file, a folder, a DataFrame or a Dataset."
    if isinstance(data, list | tuple | dict):
        hint = "Make a table of it: pandas.DataFrame({'text': texts, 'label': labels})."
    return DataError(f"No data can be read from this {type(data).__name__}.", hint)
