"""Arrow to a `Table`: Parquet files, the Arrow files of a `datasets` folder, what is in memory.

pyarrow opens them; cells become strings here, since its cast to string writes 1.0 as 1, and pandas
turns whole numbers with a gap among them into 1.0.
"""

import json
import random
from bisect import bisect_left
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from datetime import date, datetime, time, timedelta
from functools import partial
from itertools import chain, repeat
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, TypeAlias

from heads.data.formats import numpy_files
from heads.data.formats.table_stream import SAMPLE, Block, Row, TableStream
from heads.data.formats.vector_reading import VectorSink
from heads.data.table import CELL, Table, check_size, check_unpacked, short
from heads.data.vectors import BLOCK, RowVectors, as_float32
from heads.errors import DataError

if TYPE_CHECKING:
    import numpy
    import pyarrow

MAGIC = b"PAR1"
BATCH_ROWS = 256
BUFFER = 1_000_000  # bytes
NUMBER_BYTES = 4  # what a number of a vector takes, of however many bits it is in the file
_BATCH_CHARACTERS = 1_000_000
_WHOLE = "Save it again, or choose another file."


@dataclass(frozen=True, slots=True, kw_only=True)
class ArrowRows:
    """A table in memory, whichever library made it, as Arrow.

    Attributes:
        schema: Of its columns, with the names of classes that `datasets` keeps.
        batches: Gives so many rows at a time, of one column or (with "") of all.
    """

    schema: "pyarrow.Schema"
    count: int
    batches: "Callable[[int, str], Iterable[pyarrow.RecordBatch]]"


Parts: TypeAlias = Sequence[tuple[Path | ArrowRows, str]]
# Some rows, the part that they belong to, the schema of their file, and the file.
SomeRows: TypeAlias = "tuple[pyarrow.RecordBatch, str, pyarrow.Schema, Path | ArrowRows]"


def read_columnar(
    files: Parts,
    name: str,
    note: str,
    split: str = "",
    classes: Mapping[str, Sequence[str]] = MappingProxyType({}),
) -> Table:
    """Read the rows of one or several files or tables in memory; raise DataError or LimitError.

    Args:
        files: Each with the name of the split that its rows belong to, or "".
        note: How they were read.
        split: The name of a column that says the split, or "" for none.
        classes: The names of classes by column, where the files themselves do not tell them.
    """
    _read_promises(files, name, are_counted=False)
    batches = _batches(files, name, skips_vectors=True)
    return _gather(batches, name, note, split, classes, partial(_columns_again, files, name))


def _gather(
    batches: Iterable[SomeRows],
    name: str,
    note: str,
    split: str,
    classes: Mapping[str, Sequence[str]] = MappingProxyType({}),
    again: "Callable[[str], Iterable[pyarrow.Array]] | None" = None,
) -> Table:
    """Return rows of Arrow as a table of cells; raise DataError or LimitError.

    Args:
        batches: Of some files, of which a damaged one is named.
        again: Reads one column once more, some rows at a time: so vectors are read, if ever.
    """
    columns, rows, characters = tuple[str, ...](), list[list[str]](), 0
    nested, lists, widths = dict[str, int](), set[str](), dict[str, int]()
    for batch, part, schema, path in batches:
        columns = tuple(schema.names)
        check_size(name, rows=len(rows) + batch.num_rows)
        with _naming_damage(path, name):
            cells = _cells_of(batch, columns, {**classes, **_class_names(schema)})
        for column in schema:
            if not _is_plain(column.type):
                nested.setdefault(column.name, len(rows) + 1)
            if is_vector(column.type):  # 0 where the schema does not say how long vectors are
                widths[column.name] = getattr(column.type, "list_size", 0)
            elif _is_list(column.type):
                lists.add(column.name)
        characters += sum(sum(map(len, column)) for column in cells)
        check_unpacked(name, characters)
        more = [part] if split else []
        rows.extend([*row, *more] for row in zip(*cells, strict=True))
    if not rows:
        raise DataError(f"{name} has no data rows.", "Choose one that has some.")
    if split and split in columns:
        what = f"{name} has splits and a column called {split}."
        raise DataError(what, "Rename the column.")
    return Table(
        name=name, columns=(*columns, split) if split else columns, rows=rows,
        lines=range(1, len(rows) + 1), nested=nested, lists=frozenset(lists), notes=(note,),
        unit="row",
        vectors={
            column: partial(
                vectors_of_arrow, partial(again, column), f"'{short(column)}' of {name}",
                len(rows), width,
            )
            for column, width in widths.items()
        } if again else {},
    )  # fmt: skip


# --- Columns of vectors: lists of floats, all of one length.


def is_vector(kind: "pyarrow.DataType") -> bool:
    """Return True if cells are lists of floats."""
    from pyarrow import types

    tests = types.is_list, types.is_large_list, types.is_fixed_size_list
    return any(test(kind) for test in tests) and types.is_floating(kind.value_type)


def vectors_of_arrow(
    arrays: "Callable[[], Iterable[pyarrow.Array]]",
    name: str,
    rows: int,
    width: int,
) -> RowVectors:
    """Read a column of vectors, some rows at a time; raise DataError or LimitError.

    Args:
        arrays: Gives the column from its beginning.
        rows: How many rows it has.
        width: How many numbers a vector has; 0 where that is still to be found out.
    """
    if not width:  # that of the first list that is not empty
        sizes = (compute().list_value_length(array).to_pylist() for array in arrays())
        width = next(filter(None, chain.from_iterable(sizes)), 0)
    sink = VectorSink(name=name, rows=rows, width=width)
    for array in arrays():
        sink.add(*matrix_of(array, width, sink.ragged))
    return sink.done()


def compute() -> Any:
    """Return the functions that pyarrow makes as it is imported: no checker knows of them."""
    import pyarrow.compute

    return pyarrow.compute


def matrix_of(
    array: "pyarrow.Array", width: int, odd: Callable[[int, int], Exception]
) -> "tuple[numpy.ndarray, numpy.ndarray]":
    """Return lists of one length as numbers (n, w), and which rows have none (n,).

    Args:
        odd: Makes the error of a list of another length, by its place and that length.
    """
    import numpy as np
    import pyarrow as pa

    pc = compute()
    sizes = pc.list_value_length(array).fill_null(0).to_numpy(zero_copy_only=False)
    # Of a list of a fixed size that is missing, the numbers are there, and are none.
    lacks = array.is_null().to_numpy(zero_copy_only=False) | (sizes == 0)
    others = np.flatnonzero(~lacks & (sizes != width))
    if len(others):
        raise odd(int(others[0]), int(sizes[others[0]]))
    values = pc.list_flatten(array.filter(pa.array(~lacks))).to_numpy(zero_copy_only=False)
    if not lacks.any():
        return values.reshape(-1, width), lacks
    found = np.zeros((len(array), width), values.dtype)
    found[~lacks] = values.reshape(-1, width)
    return found, lacks


def _columns_again(files: Parts, name: str, column: str) -> "Iterator[pyarrow.Array]":
    """Yield one column of some files, a few thousand rows at a time."""
    for path, _ in files:
        with _naming_damage(path, name), _open_file(path, only=column, rows=BLOCK) as (*_, batches):
            for batch in batches:
                yield batch.column(batch.schema.get_field_index(column))


@contextmanager
def _naming_damage(path: Path | ArrowRows, name: str) -> Iterator[None]:
    """Within it, a file that is damaged is said to be."""
    import pyarrow as pa

    try:
        yield
    except (pa.ArrowException, OSError, ValueError, OverflowError):
        if isinstance(path, ArrowRows):
            raise
        kind = "an Arrow" if path.suffix == ".arrow" else "a Parquet"
        what = f"{name} is damaged, or {short(path.name, 60)} is not {kind} file."
        raise DataError(what, _WHOLE) from None


@contextmanager
def _open_file(
    path: Path | ArrowRows,
    *,
    skips_vectors: bool = False,
    only: str = "",
    rows: int = BATCH_ROWS,
    are_counted: bool = False,
) -> "Iterator[tuple[pyarrow.Schema, int, int, Iterable[pyarrow.RecordBatch]]]":
    """A file's schema, how many rows and bytes it promises, and its rows.

    Args:
        skips_vectors: Whether vectors are left out of the rows where that saves something.
        only: The one column that is read.
        rows: How many come at a time.
        are_counted: Whether the bytes are also those of the numbers in vectors that are skipped.
    """
    import pyarrow as pa
    import pyarrow.parquet as parquet

    if isinstance(path, Path) and numpy_files.is_numpy(path):
        path = array_rows(numpy_files.arrays_of(path, short(path.name, 60))[0])
    if isinstance(path, ArrowRows):
        yield path.schema, path.count, 0, path.batches(rows, only)
        return
    with path.open("rb") as file:
        is_parquet = file.read(len(MAGIC)) == MAGIC
    if is_parquet:
        # One long text under a thousand rows is kept once, not a thousand times.
        schema = parquet.read_schema(path)
        once = [each.name for each in schema if _is_text(each.type)]
        # With a buffer a row group that holds the whole file is not read at once.
        with parquet.ParquetFile(path, read_dictionary=once, buffer_size=BUFFER) as file:
            about = file.metadata
            left = {each.name for each in schema if skips_vectors and is_vector(each.type)}
            wanted = [only] if only else [each for each in schema.names if each not in left]
            yield (
                schema,
                about.num_rows,
                _unpacked(about, left, NUMBER_BYTES if are_counted else 0),
                file.iter_batches(rows, columns=wanted),
            )
    else:  # the stream that Dataset.save_to_disk writes, which pyarrow.dataset cannot open
        with pa.memory_map(str(path)) as source, pa.ipc.open_stream(source) as stream:
            yield stream.schema, 0, 0, map(_validate, stream)


def array_rows(arrays: "Mapping[str, numpy.ndarray | list[str]]") -> ArrowRows:
    """Return vectors (n, w) and columns of cells, by name, as rows of Arrow."""
    import pyarrow as pa

    kinds = {
        name: pa.string() if isinstance(own, list) else pa.list_(pa.float32(), own.shape[1])
        for name, own in arrays.items()
    }

    def column(name: str, start: int, most: int) -> "pyarrow.Array":
        some = arrays[name][start : start + most]
        if isinstance(some, list):
            return pa.array(some, pa.string())
        return pa.FixedSizeListArray.from_arrays(pa.array(as_float32(some).ravel()), some.shape[1])

    def batches(most: int, only: str) -> "Iterator[pyarrow.RecordBatch]":
        names = [only] if only else list(arrays)
        schema = pa.schema([(name, kinds[name]) for name in names])
        for start in range(0, count, most):
            columns = [column(name, start, most) for name in names]
            yield pa.record_batch(columns, schema=schema)

    count = len(next(iter(arrays.values())))
    return ArrowRows(schema=pa.schema(list(kinds.items())), count=count, batches=batches)


def _unpacked(about: Any, left: Collection[str], each: int) -> int:
    """Return the bytes a file says it unpacks to, each number of some columns as so many."""
    found = 0
    for at in range(about.num_row_groups):
        group = about.row_group(at)
        found += group.total_byte_size
        for column in range(group.num_columns) if left else ():
            one = group.column(column)
            if any(one.path_in_schema.startswith(f"{name}.") for name in left):
                found += each * one.num_values - one.total_uncompressed_size
    return found


def _validate(batch: "pyarrow.RecordBatch") -> "pyarrow.RecordBatch":
    """Return a batch that is used as it lies on disk: damaged, it may point outside itself."""
    batch.validate(full=True)
    return batch


def _cells_of(
    batch: "pyarrow.RecordBatch", names: Sequence[str], classes: Mapping[str, Sequence[str]]
) -> list[list[str]]:
    """Return the columns of some rows as strings; those that were not read are vectors."""
    columns = dict(zip(batch.schema.names, batch.columns, strict=True))
    return [
        _table_cells(columns[name], classes.get(name, ()))
        if name in columns
        else [CELL] * batch.num_rows
        for name in names
    ]


def _table_cells(column: "pyarrow.Array", classes: Sequence[str]) -> list[str]:
    """Return one column as strings; what is neither plain nor a list of that becomes […]."""
    import pyarrow as pa

    kind = column.type
    if is_vector(kind):
        return [CELL] * len(column)
    if pa.types.is_dictionary(kind):
        # Of a whole row group's words only those that come, or every batch would make all of them.
        used = column.indices.unique().drop_null()
        known = column.dictionary
        if pa.types.is_string_view(known.type):  # as Polars has them, and nothing takes from
            known = known.cast(pa.large_string())
        words = _table_cells(known.take(used), classes)
        word = dict(zip(used.to_pylist(), words, strict=True))
        return ["" if at is None else word[at] for at in column.indices.to_pylist()]
    if _is_plain(kind) or _is_list(kind):
        return [_cell(value, classes) for value in column.to_pylist()]
    return ["[…]"] * len(column)


def _cell(value: Any, classes: Sequence[str]) -> str:
    """Return a value as a cell: nothing for null, a class's name for its number, JSON for a list.

    `datasets` writes -1 where there is no label.
    """
    if isinstance(value, list):
        return json.dumps([_cell(one, classes) for one in value], ensure_ascii=False)
    if isinstance(value, bool):
        return str(value).lower()
    if value is None or (classes and isinstance(value, int) and value == -1):
        return ""
    is_class = isinstance(value, int) and 0 <= value < len(classes)
    return classes[value] if is_class else str(value)


def _is_text(kind: "pyarrow.DataType") -> bool:
    from pyarrow import types

    return types.is_string(kind) or types.is_large_string(kind) or types.is_string_view(kind)


def _is_plain(kind: "pyarrow.DataType") -> bool:
    from pyarrow import types

    if types.is_dictionary(kind):
        return _is_plain(kind.value_type)
    tests = (
        types.is_boolean, types.is_integer, types.is_floating, types.is_decimal, types.is_null,
        types.is_date,
    )  # fmt: skip
    return _is_text(kind) or any(test(kind) for test in tests)


def _is_list(kind: "pyarrow.DataType") -> bool:
    """Return True if cells are lists of plain values."""
    from pyarrow import types

    is_some = types.is_list(kind) or types.is_large_list(kind)
    return is_some and _is_plain(kind.value_type)


def _class_names(schema: "pyarrow.Schema") -> Mapping[str, Sequence[str]]:
    """Return the names of classes that `datasets` keeps beside the numbers."""
    try:
        about = json.loads((schema.metadata or {}).get(b"huggingface", b"{}"))
        features = about.get("info", {}).get("features", {}).items()
    except (ValueError, AttributeError, TypeError, RecursionError):
        return {}  # a foreign writer's notes; the numbers themselves can still be read
    classes = {}
    for name, about in features:
        if isinstance(about, list) and len(about) == 1:
            about = about[0]  # a list of classes, as it was once written
        elif isinstance(about, dict) and isinstance(about.get("feature"), dict):
            about = about["feature"]
        names = about.get("names") if isinstance(about, dict) else None
        if isinstance(names, list) and all(isinstance(each, str) for each in names):
            classes[name] = names
    return classes


# --- A stream: rows keep the types that they have.


def stream_columnar(files: Parts, name: str, note: str, split: str = "") -> TableStream:
    """Look through the rows of one or several files; arguments and errors as of `read_columnar`."""
    import pyarrow as pa

    schema, rows = _read_promises(files, name, are_counted=True)
    if not rows:
        raise DataError(f"{name} has no data rows.", _WHOLE)
    draws = sorted(random.Random(0).sample(range(rows), min(rows, SAMPLE)))

    def drawn() -> Iterator[SomeRows]:
        start = 0
        for batch, part, own, path in _batches(files, name):
            end = start + batch.num_rows
            here = draws[bisect_left(draws, start) : bisect_left(draws, end)]
            if here:
                yield batch.take(pa.array([at - start for at in here])), part, own, path
            start = end

    sample = _gather(drawn(), name, note, split)
    return TableStream(
        name=name, form="columnar", columns=sample.columns, titles=sample.columns, rows=rows,
        sample=replace(sample, lines=[at + 1 for at in draws]), facts=schema, notes=(note,),
        blocks=partial(_blocks, files, name, split),
    )  # fmt: skip


def _read_promises(files: Parts, name: str, *, are_counted: bool) -> tuple["pyarrow.Schema", int]:
    """Return the columns of all files and how many rows there are, or raise an error.

    It goes by what a file says of itself: too much of it, or other columns than the last.
    """
    first: pyarrow.Schema | None = None
    rows = 0
    for path, _ in files:
        opened = _open_file(path, skips_vectors=True, are_counted=are_counted)
        with _naming_damage(path, name), opened as (schema, promised, size, batches):
            first = expected = first or schema
            check_size(name, rows=rows + promised, columns=len(schema.names))
            check_unpacked(name, size)
            if len(set(schema.names)) < len(schema.names) or schema.names != expected.names:
                what = f"{name} has columns of the same name, or parts with other columns."
                raise DataError(what, "Name each column once, and all parts alike.")
            rows += promised or sum(batch.num_rows for batch in batches)
            check_size(name, rows=rows)
    assert first is not None
    return first, rows


def _batches(files: Parts, name: str, *, skips_vectors: bool = False) -> Iterator[SomeRows]:
    """Yield all rows of some files, some at a time."""
    for path, part in files:
        opened = _open_file(path, skips_vectors=skips_vectors)
        with _naming_damage(path, name), opened as (schema, _, _, batches):
            for batch in batches:
                yield batch, part, schema, path


def _blocks(files: Parts, name: str, split: str, most: int) -> Iterator[Block]:
    """Yield rows with their types; a block is what pyarrow reads at once, or several of these."""
    held: list[Row] = []
    batches: list[pyarrow.RecordBatch] = []
    line = characters = 0
    for batch, part, schema, _ in _batches(files, name):
        classes = _class_names(schema)
        cells = [
            _stream_cells(column, classes.get(each, ()))
            for each, column in zip(batch.schema.names, batch.columns, strict=True)
        ]
        size = sum(sum(map(len, column)) for column in cells)
        vectors = [column for column in batch.columns if is_vector(column.type)]
        size += sum(len(column.flatten()) for column in vectors) * NUMBER_BYTES
        characters += size
        check_unpacked(name, characters)
        more = [part] if split else []
        for row in zip(*cells, strict=True):
            line += 1
            held.append(Row(line=line, cells=[*row, *more]))
        batches.append(batch)
        if len(held) + BATCH_ROWS > most or size > _BATCH_CHARACTERS:
            yield Block(rows=held, own=batches)
            held, batches = [], []
    if held:
        yield Block(rows=held, own=batches)


def _stream_cells(column: "pyarrow.Array", classes: Sequence[str]) -> list[str]:
    """Return one column as texts, of which none is lost but what is no text at all."""
    kind = column.type
    if is_vector(kind):
        return [CELL if there else "" for there in column.is_valid().to_pylist()]
    if _is_plain(kind) or (_is_list(kind) and classes):
        return _table_cells(column, classes)
    return _spell_all(column)


def spell_rows(
    block: Block, schema: "pyarrow.Schema", but: int | None = None
) -> Iterator[Sequence[str]]:
    """Yield the cells of some rows for a file of texts alone, which takes vectors as lists in JSON.

    In the rows themselves they are not spelled: that takes far longer than to answer them.

    Args:
        but: The place of vectors that stay as they are: they are not written.
    """
    places = [at for at, one in enumerate(schema) if is_vector(one.type) and at != but]
    columns = ([w for batch in block.own for w in _spell_all(batch.column(at))] for at in places)
    vectors = zip(*columns, strict=True) if places else repeat((), len(block))
    for row, own in zip(block.rows, vectors, strict=True):
        cells = list(row.cells)
        for at, spelled in zip(places, own, strict=True):
            cells[at] = spelled
        yield cells


def _spell_all(column: "pyarrow.Array") -> list[str]:
    return ["" if value is None else _spell(value) for value in column.to_pylist()]


def _spell(value: Any) -> str:
    if isinstance(value, list | dict):
        return json.dumps(value, ensure_ascii=False, default=_spell)
    if isinstance(value, datetime | date | time | timedelta | str | int | float):
        return str(value)
    return "[…]"  # bytes, as of a picture
