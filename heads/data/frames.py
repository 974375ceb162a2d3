"""Tables in memory to a `Table`: data frames, Arrow tables, data sets of the `datasets` library.

All become Arrow, and from there cells by the same code as a Parquet file. No library is imported
for it: who gives a frame has imported its own.
"""

import json
import sys
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any, Protocol, TypeAlias

from heads.data.column_names import PARTS
from heads.data.files import SPLIT
from heads.data.formats.parquet_files import ArrowRows, compute, read_columnar
from heads.data.table import Table, check_size, count, short
from heads.errors import DataError

if TYPE_CHECKING:
    import pandas
    import pyarrow


class ArrowStream(Protocol):
    """What hands out its rows as Arrow: a frame of pandas or Polars, a table of pyarrow."""

    def __arrow_c_stream__(self, requested_schema: object | None = None) -> object: ...


class FeaturedRows(Protocol):
    """A `datasets.Dataset`."""

    @property
    def features(self) -> Any: ...


Frame: TypeAlias = ArrowStream | FeaturedRows | Mapping[Any, FeaturedRows]
_ONE = "Give one of its data sets, such as data['train'], and another as test=."


def is_frame(data: object) -> bool:
    """Return True if something is a table in memory, of a kind that is read here."""
    of_datasets = _kinds(
        "datasets", "Dataset", "DatasetDict", "IterableDataset", "IterableDatasetDict"
    )
    return isinstance(data, of_datasets) or hasattr(data, "__arrow_c_stream__")


def _kinds(module: str, *names: str) -> tuple[type, ...]:
    """Return classes of a library; none if it is not imported, so that nothing can be one."""
    found = sys.modules.get(module)
    return tuple(kind for name in names if isinstance(kind := getattr(found, name, None), type))


def read_frame(data: Any) -> Table:
    """Read a table in memory as cells, its rows counted from 1; raise DataError or LimitError."""
    if isinstance(data, _kinds("datasets", "IterableDataset", "IterableDatasetDict")):
        what = "A data set that is streamed has no number of rows."
        raise DataError(what, "Load it without streaming=True.")
    if not isinstance(data, _kinds("datasets", "DatasetDict")):
        return read_columnar([(_arrow_rows(data), "")], frame_name(data), read_as(data))
    parts, note = _choose_splits(data)
    rows = [(_arrow_rows(part), name) for name, part in parts.items()]
    return read_columnar(rows, frame_name(data), note, SPLIT)


def _arrow_rows(data: Any) -> ArrowRows:
    """Return the rows of any library's frame as Arrow; raise DataError or LimitError."""
    if isinstance(data, _kinds("datasets", "Dataset")):

        def batches(size: int, column: str) -> "Iterator[pyarrow.RecordBatch]":
            # In the order that they have after a shuffle or a filter.
            some = data.select_columns([column]) if column else data
            for table in some.with_format("arrow").iter(batch_size=size):
                yield from table.cast(some.features.arrow_schema).to_batches()

        return ArrowRows(schema=data.features.arrow_schema, count=len(data), batches=batches)
    table = _as_arrow(data)
    return ArrowRows(
        schema=table.schema,
        count=table.num_rows,
        batches=lambda size, column: (table.select([column]) if column else table).to_batches(size),
    )


def frame_name(data: Any) -> str:
    """Return what a table in memory is called: the name of a data set, or of its kind."""
    one = next(iter(data.values()), data) if isinstance(data, Mapping) else data
    known = getattr(getattr(one, "info", None), "dataset_name", None)
    return short(str(known or type(data).__name__), 60)


def _choose_splits(data: Mapping[Any, Any]) -> tuple[dict[str, Any], str]:
    """Return the parts of a data set that are splits, and a note on those left out."""
    named = {str(name): part for name, part in data.items()}
    parts = {name: part for name, part in named.items() if name.lower() in PARTS}
    if not parts:
        names = ", ".join(short(name) for name in [*named][:8])
        what = f"None of the parts of {frame_name(data)} ({names}) is called train, validation or "
        raise DataError(f"{what}test.", _ONE)
    left = [
        f"{short(name)} ({count(len(part), 'row')})"
        for name, part in named.items()
        if name not in parts
    ]
    note = "Read as a DatasetDict of the datasets library."
    return parts, f"{note} Left out: {', '.join(left)}." if left else note


def _as_arrow(data: Any) -> "pyarrow.Table":
    """Return a table in memory as Arrow has it, every column of one type."""
    import pyarrow as pa

    name = frame_name(data)
    try:
        if isinstance(data, _kinds("pandas", "DataFrame")):
            check_size(name, rows=len(data), columns=len(data.columns))
            names = [str(each) for each in data.columns]
            if len(set(names)) < len(names):
                twice = next(each for at, each in enumerate(names) if each in names[:at])
                what = f"{name} has two columns named '{short(twice)}'."
                raise DataError(what, "Rename one of them.")
            return pa.table([*_columns(data)], names)
        return _decode(pa.table(data))
    except (pa.ArrowException, TypeError, ValueError, NotImplementedError):
        what = f"{name} cannot be read as a table."
        raise DataError(what, "Give it columns of texts, numbers and lists of them.") from None


def _decode(table: "pyarrow.Table") -> "pyarrow.Table":
    """Return the table without the types whose rows pyarrow cannot take: views and runs."""
    import pyarrow as pa

    for at, field in enumerate(table.schema):
        column = table.column(at)
        if pa.types.is_run_end_encoded(field.type):
            column = compute().run_end_decode(column)
        if (kind := _without_views(column.type)) != column.type:
            column = column.cast(kind)
        if column.type != field.type:
            table = table.set_column(at, field.with_type(column.type), column)
    return table


def _without_views(kind: "pyarrow.DataType") -> "pyarrow.DataType":
    """Return a type of Arrow with its views of strings, as Polars has them, made plain strings."""
    import pyarrow as pa

    if pa.types.is_string_view(kind):
        return pa.large_string()
    if pa.types.is_binary_view(kind):
        return pa.large_binary()
    if pa.types.is_dictionary(kind):
        return pa.dictionary(kind.index_type, _without_views(kind.value_type), kind.ordered)
    if pa.types.is_list(kind) or pa.types.is_large_list(kind):
        make = pa.list_ if pa.types.is_list(kind) else pa.large_list
        return make(kind.value_field.with_type(_without_views(kind.value_type)))
    if pa.types.is_struct(kind):
        return pa.struct([field.with_type(_without_views(field.type)) for field in kind])
    return kind


def index_of(data: Any) -> "pandas.Index | None":
    """Return what a frame of pandas calls its rows; None of anything else."""
    return data.index if isinstance(data, _kinds("pandas", "DataFrame")) else None


def read_as(data: Any) -> str:
    """Return how a table in memory was read, in a sentence."""
    kind = type(data).__module__.partition(".")[0]
    if isinstance(data, _kinds("datasets", "Dataset")):
        return "Read as a Dataset of the datasets library."
    return f"Read from memory: a {type(data).__name__} of {kind}."


def frame_rows(data: Any) -> ArrowRows:
    """Return the rows of a table in memory, to be read as a file is, or raise DataError."""
    streamed = _kinds("datasets", "DatasetDict", "IterableDataset", "IterableDatasetDict")
    if isinstance(data, streamed):
        what = f"A {type(data).__name__} is not one table with a number of rows."
        raise DataError(what, "Give one of its data sets, such as data['test'], not streamed.")
    rows = _arrow_rows(data)
    if not rows.count:
        raise DataError(f"{frame_name(data)} has no rows.", "Give one with some.")
    return rows


def _columns(frame: "pandas.DataFrame") -> "Iterator[pyarrow.Array | pyarrow.ChunkedArray]":
    """Yield the columns of a frame of pandas as Arrow."""
    import pyarrow as pa

    for at in range(len(frame.columns)):
        series = frame.iloc[:, at]
        missing = series.isna().to_numpy()
        is_period = isinstance(series.dtype, _kinds("pandas", "PeriodDtype"))
        if is_period:  # of which Arrow has a number: of a month that of months since 1970
            series = series.astype(str).where(~missing)
        if series.dtype.kind == "f" and missing.any():
            numbers = series.dropna().to_numpy("float64")
            if ((numbers % 1 == 0) & (abs(numbers) < 2**53)).all():
                series = series.astype("Int64")  # pandas makes 1.0 of 1 where a number is missing
        try:
            yield pa.array(series, from_pandas=True)
        except (pa.ArrowException, TypeError, ValueError, OverflowError):  # cells of several kinds
            cells = zip(series.tolist(), missing, strict=True)
            yield pa.array(
                [None if lacks else _spell_cell(cell) for cell, lacks in cells], pa.string()
            )


def _spell_cell(cell: Any) -> str:
    """Return a cell beside others of another kind, as a file would have it; a list as JSON."""
    if isinstance(cell, set | frozenset):  # which pyarrow does not know, and has no order
        cell = sorted(cell, key=str)
    if isinstance(cell, list | tuple):
        return json.dumps([str(one) for one in cell], ensure_ascii=False)
    return str(cell).lower() if isinstance(cell, bool) else str(cell)
