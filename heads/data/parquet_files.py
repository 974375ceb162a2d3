"""Parquet files and the Arrow files of a `datasets` folder to rows of strings."""

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from heads.data.table import Table, short
from heads.errors import DataError, LimitError
from heads.settings import Limits

if TYPE_CHECKING:
    import pyarrow

_BATCH_ROWS = 256
_WHOLE = "Save it again, or choose another file."


class Gathered:
    """Rows of one or several columnar files, counted while they are read.

    Args:
        name: How the user knows the file or folder.
        limits: What this place allows.
    """

    def __init__(self, name: str, limits: Limits) -> None:
        self.name = name
        self.limits = limits
        self.columns: tuple[str, ...] = ()
        self.rows: list[Sequence[str]] = []
        self.nested: dict[str, int] = {}
        self.lists: set[str] = set()
        self._characters = 0

    def add_parquet(self, path: Path, more: Sequence[str] = ()) -> None:
        """Adds the rows of a Parquet file, each followed by the cells `more`."""
        import pyarrow as pa
        import pyarrow.parquet as parquet

        try:
            # One long text under a thousand rows is kept once, not a thousand times.
            once = [each.name for each in parquet.read_schema(path) if _is_text(each.type)]
            with parquet.ParquetFile(path, read_dictionary=once) as file:
                self._check(file.metadata.num_rows, len(file.schema_arrow.names))
                size = sum(
                    file.metadata.row_group(group).total_byte_size
                    for group in range(file.metadata.num_row_groups)
                )
                self._check_unpacked(size)
                self._add(file.schema_arrow, file.iter_batches(_BATCH_ROWS), more)
        except (pa.ArrowException, OSError, ValueError, OverflowError):
            raise self._damaged(path) from None

    def add_arrow(self, path: Path, more: Sequence[str] = ()) -> None:
        """Adds the rows of an Arrow stream, as `Dataset.save_to_disk` writes it."""
        import pyarrow as pa

        try:
            with pa.memory_map(str(path)) as source, pa.ipc.open_stream(source) as stream:
                self._check(0, len(stream.schema.names))
                self._add(stream.schema, stream, more)
        except (pa.ArrowException, OSError, ValueError, OverflowError):
            raise self._damaged(path) from None

    def table(self, more: Sequence[str] = (), notes: Sequence[str] = ()) -> Table:
        """All rows as one table; `more` names the cells added to each row."""
        if not self.rows:
            raise DataError(f"{self.name} has no data rows.", _WHOLE)
        return Table(
            name=self.name, columns=(*self.columns, *more), rows=self.rows,
            lines=range(1, len(self.rows) + 1), nested=self.nested,
            lists=frozenset(self.lists), notes=tuple(notes), unit="row",
        )  # fmt: skip

    def _add(
        self,
        schema: "pyarrow.Schema",
        batches: Iterable["pyarrow.RecordBatch"],
        more: Sequence[str],
    ) -> None:
        names = tuple(schema.names)
        if len(set(names)) < len(names) or self.columns not in ((), names):
            what = f"{self.name} has columns of the same name, or parts with other columns."
            raise DataError(what, "Name each column once, and all parts alike.")
        self.columns = names
        classes = _class_names(schema)
        for batch in batches:
            batch.validate(full=True)  # a damaged file may point outside itself
            self._check(batch.num_rows, len(names))
            cells = [
                self._strings(column, name, classes.get(name, ()))
                for name, column in zip(names, batch.columns, strict=True)
            ]
            self._characters += sum(sum(map(len, column)) for column in cells)
            self._check_unpacked(self._characters)
            self.rows.extend([*row, *more] for row in zip(*cells, strict=True))

    def _strings(self, column: "pyarrow.Array", name: str, classes: Sequence[str]) -> list[str]:
        """One column as strings: nothing for null, a class's name for its number."""
        import pyarrow as pa

        kind = column.type
        if pa.types.is_dictionary(kind):
            words = self._strings(column.dictionary, name, classes)
            return ["" if at is None else words[at] for at in column.indices.to_pylist()]
        if not _is_plain(kind):
            self.nested.setdefault(name, len(self.rows) + 1)
            if _is_list(kind):
                self.lists.add(name)
                values = self._strings(column.flatten(), name, classes)
                return _listed(column.value_lengths().to_pylist(), values)
            return ["[…]"] * len(column)
        values = column.to_pylist()
        if classes and pa.types.is_integer(kind):
            return [_class_name(value, classes) for value in values]
        if pa.types.is_boolean(kind):
            return ["" if value is None else str(value).lower() for value in values]
        return ["" if value is None else str(value) for value in values]

    def _check(self, rows: int, columns: int) -> None:
        limits = self.limits
        if len(self.rows) + rows > limits.rows:
            what = f"{self.name} has more than {limits.rows:,} rows, the most this place reads."
            raise LimitError(what, "Choose a part of them.")
        if columns > limits.columns:
            what = (
                f"{self.name} has {columns:,} columns; this place reads up to {limits.columns:,}."
            )
            raise LimitError(what, "Keep the columns with texts and labels.")

    def _check_unpacked(self, size: int) -> None:
        if size > self.limits.unpacked_bytes:
            most = self.limits.unpacked_bytes // 1_000_000
            what = f"{self.name} unpacks to more than the {most:,} MB that this place reads."
            raise LimitError(what, "Choose a part of it.")

    def _damaged(self, path: Path) -> DataError:
        kind = "a Parquet" if path.suffix == ".parquet" else "an Arrow"
        return DataError(
            f"{self.name} is damaged, or {short(path.name, 60)} is not {kind} file.", _WHOLE
        )


def read_parquet(path: Path, limits: Limits) -> Table:
    """Reads a Parquet file.

    Raises:
        DataError: It is damaged or has no rows.
        LimitError: It holds more than this place allows.
    """
    found = Gathered(short(path.name, 60), limits)
    found.add_parquet(path)
    return found.table(notes=("Read as Parquet.",))


def _is_text(kind: "pyarrow.DataType") -> bool:
    from pyarrow import types

    return types.is_string(kind) or types.is_large_string(kind) or types.is_string_view(kind)


def _is_plain(kind: "pyarrow.DataType") -> bool:
    from pyarrow import types

    tests = (
        types.is_boolean, types.is_integer, types.is_floating, types.is_decimal, types.is_null,
        types.is_date,
    )  # fmt: skip
    return _is_text(kind) or any(test(kind) for test in tests)


def _is_list(kind: "pyarrow.DataType") -> bool:
    """Whether cells are lists of plain values."""
    from pyarrow import types

    is_some = types.is_list(kind) or types.is_large_list(kind)
    return is_some and _is_plain(kind.value_type)


def _listed(lengths: Sequence[int | None], values: Sequence[str]) -> list[str]:
    """Lists as JSON, of the values of all of them one after another; nothing for null."""
    found, start = [], 0
    for length in lengths:
        end = start + (length or 0)
        found.append("" if length is None else json.dumps(values[start:end], ensure_ascii=False))
        start = end
    return found


def _class_name(value: Any, classes: Sequence[str]) -> str:
    """The name of a class; nothing for -1, which `datasets` writes where there is no label."""
    if value is None or value == -1:
        return ""
    return classes[int(value)] if 0 <= value < len(classes) else str(value)


def _class_names(schema: "pyarrow.Schema") -> Mapping[str, Sequence[str]]:
    """The names of classes that `datasets` keeps beside the numbers."""
    try:
        about = json.loads((schema.metadata or {}).get(b"huggingface", b"{}"))
        return dict(_named(about.get("info", {}).get("features", {})))
    except (ValueError, AttributeError, TypeError, RecursionError):
        return {}  # a foreign writer's notes; the numbers themselves can still be read


def _named(features: Mapping[str, Any]) -> Iterator[tuple[str, list[str]]]:
    for name, about in features.items():
        if isinstance(about, list) and len(about) == 1:
            about = about[0]  # a list of classes, as it was once written
        elif isinstance(about, dict) and isinstance(about.get("feature"), dict):
            about = about["feature"]
        names = about.get("names") if isinstance(about, dict) else None
        if isinstance(names, list) and all(isinstance(each, str) for each in names):
            yield name, names
