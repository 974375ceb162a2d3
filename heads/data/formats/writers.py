"""A file written anew, with columns of ours beside its own: CSV, TSV, JSON, JSONL, Parquet, Excel.

What stands in the file stays as it is: the cells of delimited text, the text of a JSON object, the
types of a Parquet file, the values of a sheet. Into another format go the cells as texts, or their
values where that format has such. Rows come in blocks, and each is written when it comes.
"""

import csv
import io
import json
import math
import re
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import date, datetime, time, timedelta
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from heads.caching import place_told, replacing, writing
from heads.data.formats.excel_files import ERROR, SheetCell
from heads.data.formats.parquet_files import spell_rows
from heads.data.formats.table_stream import Block, Delimited, Row, TableStream
from heads.data.table import LISTS, short, written_cell
from heads.errors import DataError

if TYPE_CHECKING:
    import pyarrow

Kind = Literal["text", "labels", "number", "flag"]
Value = str | tuple[str, ...] | float | bool | None
ENDINGS = (".csv", ".tsv", ".jsonl", ".ndjson", ".json", ".parquet", ".xlsx")
_SHEET_ROWS = 1_048_576  # of Excel, the names of the columns among them
_CELL_LETTERS = 32_767  # of Excel
_WRAPPED = re.compile(r"\s*[\r\n]\s*")


@dataclass(frozen=True, slots=True, kw_only=True)
class Added:
    """A column that is written beside those of the file.

    Attributes:
        name: What it is called.
        kind: A text; labels, any number of them; a number in 32 bits; or true and false.
        separator: What stands between labels in a cell, "[]" where cells are lists.
    """

    name: str
    kind: Kind = "text"
    separator: str = ""

    def cell(self, value: Value) -> str:
        """Return a value as a cell of text."""
        if value is None:
            return ""
        if isinstance(value, bool):
            return str(value).lower()
        if isinstance(value, tuple):
            return self._joined(value)
        return value if isinstance(value, str) else number(value)

    def value(self, value: Value) -> Any:
        """Return a value as JSON and Parquet hold it: labels as lists where the data's are."""
        if isinstance(value, tuple):
            return list(value) if self.separator == LISTS else self._joined(value)
        return None if isinstance(value, float) and not math.isfinite(value) else value

    def _joined(self, labels: Sequence[str]) -> str:
        if self.separator == LISTS:
            return json.dumps(labels, ensure_ascii=False)
        return self.separator.join(labels)


def number(value: float) -> str:
    """Return a number of 32 bits, with as many digits as tell it from every other.

    >>> number(0.10000000149011612), number(-3.0), number(1e-9)
    ('0.100000001', '-3', '1e-09')
    """
    return f"{value:.9g}"


class Writer(ABC):
    """Writes blocks of rows, each with the values of the added columns, into one format."""

    cut = 0  # cells that were too long for the format
    file: Any  # what is written into

    def __init__(self, path: Path, stream: TableStream, added: Sequence[Added]) -> None:
        self.path, self.stream, self.added = path, stream, added

    @abstractmethod
    def write(self, block: Block, values: Sequence[Sequence[Value]]) -> None:
        """Write some rows; a row of values each."""

    def finish(self) -> None:
        """Write what comes after the last row."""
        self.file.flush()

    def close(self) -> None:
        """Close the file, also one that was not finished."""
        self.file.close()


@contextmanager
def written(
    path: Path,
    stream: TableStream,
    added: Sequence[Added],
    *,
    leaves_out: str = "",
    excel_safe: bool = False,
) -> Iterator[Writer]:
    """Write the rows of a file anew within a `with` block, after which it is whole or not there.

    Args:
        added: The columns of ours.
        leaves_out: A column that is not written; of delimited text alone.
        excel_safe: Whether each cell of delimited text that a spreadsheet would run is guarded.

    Raises:
        DataError: The disk refuses, the format cannot hold the rows, or another file has come to
            lie there meanwhile.
    """
    make = WRITERS.get(path.suffix.lower())
    if make is None:
        make = partial(
            _Delimited, ending=path.suffix.lower(), leaves_out=leaves_out, excel_safe=excel_safe
        )
    elif make is _Texts and stream.form == "columnar":
        make = _Typed
    with writing(place_told(path)), replacing(path, is_new=True) as place:
        writer = make(place, stream, added)
        try:
            yield writer
            writer.finish()
        finally:
            writer.close()


def check_ending(path: Path) -> None:
    """Raise DataError for a name without an ending, or with one that is not known."""
    if path.suffix.lower() not in ENDINGS:
        what = f"The ending of {path.name} names no format that is written here."
        raise DataError(what, f"End it in one of {', '.join(ENDINGS)}.")


def check_rows(ending: str, rows: int) -> None:
    """Raise DataError for more rows than a sheet can hold, before they are answered."""
    if ending == ".xlsx" and rows >= _SHEET_ROWS:
        what = f"An Excel sheet holds {_SHEET_ROWS - 1:,} rows, and there are {rows:,}."
        raise DataError(what, "Write a CSV or Parquet file.")


class _Delimited(Writer):
    """Cells in UTF-8, separated by the sign of the file where the name does not say another."""

    def __init__(
        self,
        path: Path,
        stream: TableStream,
        added: Sequence[Added],
        *,
        ending: str,
        leaves_out: str,
        excel_safe: bool,
    ) -> None:
        super().__init__(path, stream, added)
        # By its place: a title is not always the name that a column goes by.
        self._left = stream.columns.index(leaves_out) if leaves_out else None
        facts = stream.facts if isinstance(stream.facts, Delimited) else Delimited()
        is_named = ending == ".csv" and facts.delimiter == "\t"
        sign = "\t" if ending == ".tsv" else "," if is_named else facts.delimiter
        # Half a letter, as JSON may hold one, is no UTF-8.
        self.file = path.open(
            "w", encoding="utf-8-sig" if facts.mark else "utf-8", errors="replace", newline=""
        )
        # A cell with any line end in it is quoted only where that ends the lines.
        self._rows = csv.writer(_Ending(self.file, facts.line_end), delimiter=sign)
        self._cell = partial(written_cell, excel_safe=excel_safe)
        names = (*self._kept(stream.titles), *(one.name for one in added))
        self._rows.writerow(map(self._cell, names))

    def _kept(self, cells: Sequence[str]) -> Iterator[str]:
        return (cell for at, cell in enumerate(cells) if at != self._left)

    def write(self, block: Block, values: Sequence[Sequence[Value]]) -> None:
        rows: Iterable[Sequence[str]] = (row.cells for row in block.rows)
        if self.stream.form == "columnar":
            rows = spell_rows(block, self.stream.facts, self._left)
        for cells, own in zip(rows, values, strict=True):
            ours = map(Added.cell, self.added, own)
            self._rows.writerow(map(self._cell, (*self._kept(cells), *ours)))


class _Ending:
    """A file whose lines end otherwise than those that are written to it."""

    def __init__(self, file: io.TextIOWrapper, end: str) -> None:
        self._file, self._end = file, end

    def write(self, line: str) -> None:
        self._file.write(line[:-2] + self._end)


# --- JSON.


class _JsonLines(Writer):
    """An object a line; one of the file stays as it is written, with ours behind its fields."""

    def __init__(self, path: Path, stream: TableStream, added: Sequence[Added]) -> None:
        super().__init__(path, stream, added)
        self.file = path.open("w", encoding="utf-8", errors="replace", newline="")

    def write(self, block: Block, values: Sequence[Sequence[Value]]) -> None:
        for row, text in zip(_as_values(block, self.stream), values, strict=True):
            self._put(self._object(row, text))

    def _put(self, text: str) -> None:
        self.file.write(_WRAPPED.sub(" ", text) + "\n")  # line ends stand between fields alone

    def _object(self, row: Any, values: Sequence[Value]) -> str:
        ours = {
            one.name: _Float(number(value)) if isinstance(value, float) else value
            for one, own in zip(self.added, values, strict=True)
            for value in (one.value(own),)
        }
        fields = [f"{_json(name)}: {_json(value)}" for name, value in ours.items()]
        if isinstance(row, str):
            inside = row.strip()[1:-1].strip()
        else:
            named = zip(self.stream.columns, row, strict=True)
            inside = ", ".join(f"{_json(name)}: {_json(value)}" for name, value in named)
        return "{" + ", ".join(filter(None, (inside, *fields))) + "}"


class _JsonList(_JsonLines):
    """A list of such objects."""

    _before = "[\n"

    def _put(self, text: str) -> None:
        self.file.write(self._before + text)
        self._before = ",\n"

    def finish(self) -> None:
        self.file.write("\n]\n")
        super().finish()


class _Float(str):
    """A number by its digits."""

    __slots__ = ()


def _json(value: Any) -> str:
    if isinstance(value, _Float):  # with a point, for the next row's may be no whole number
        return value if set(value) & set(".en") else f"{value}.0"
    return json.dumps(_plain(value), ensure_ascii=False)


def _plain(value: Any) -> Any:
    """Return a value as JSON has it."""
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if value is None or isinstance(value, str | bool | int):
        return value
    if isinstance(value, list | tuple):
        return [_plain(one) for one in value]
    if isinstance(value, dict):
        return {str(name): _plain(one) for name, one in value.items()}
    if isinstance(value, date | time):
        return value.isoformat()
    return "[…]" if isinstance(value, bytes) else str(value)


def _as_values(block: Block, stream: TableStream) -> Iterator[Any]:
    """Yield each row as values of its columns; a JSON object as its text."""
    if stream.form == "columnar":
        batches = [batch.to_pydict() for batch in block.own]
        found = (row for batch in batches for row in zip(*batch.values(), strict=True))
        for values, row in zip(found, block.rows, strict=True):
            yield [*values, *row.cells[len(values) :]]
        return
    for row in block.rows:
        is_sheet = isinstance(row.own, list)
        yield [cell.value for cell in row.own] if is_sheet else row.own or row.cells


# --- Parquet.

_GROUP_ROWS, _GROUP_BYTES = 16_384, 64_000_000  # of a row group


class _Texts(Writer):
    """All cells of the file as texts."""

    def __init__(self, path: Path, stream: TableStream, added: Sequence[Added]) -> None:
        super().__init__(path, stream, added)
        import pyarrow.parquet as parquet

        self.schema = self._schema()
        with _known_types():
            self.file = parquet.ParquetWriter(path, self.schema)
        self._held: list[pyarrow.RecordBatch] = []

    def _schema(self) -> "pyarrow.Schema":
        import pyarrow as pa

        return _with(pa.schema([(name, pa.string()) for name in self.stream.columns]), self.added)

    def _columns(self, block: Block) -> "list[pyarrow.Array]":
        import pyarrow as pa

        places = range(len(self.stream.columns))
        return [pa.array([_whole(row.cells[at]) for row in block.rows]) for at in places]

    def write(self, block: Block, values: Sequence[Sequence[Value]]) -> None:
        import pyarrow as pa

        columns = self._columns(block)
        for at, one in enumerate(self.added):
            kind = self.schema.field(len(columns)).type
            columns.append(pa.array([one.value(row[at]) for row in values], type=kind))
        self._held.append(pa.RecordBatch.from_arrays(columns, schema=self.schema))
        size = sum(batch.nbytes for batch in self._held)
        if sum(map(len, self._held)) >= _GROUP_ROWS or size >= _GROUP_BYTES:
            self.finish()

    def finish(self) -> None:
        import pyarrow as pa

        if self._held:
            with _known_types():
                self.file.write_table(pa.Table.from_batches(self._held, self.schema))
            self._held = []


class _Typed(_Texts):
    """The columns of a Parquet file with the types that they have."""

    def _schema(self) -> "pyarrow.Schema":
        import pyarrow as pa

        schema: pyarrow.Schema = self.stream.facts
        for name in self.stream.columns[len(schema.names) :]:
            schema = schema.append(pa.field(name, pa.string()))
        return _with(schema, self.added)

    def _columns(self, block: Block) -> "list[pyarrow.Array]":
        import pyarrow as pa

        columns = [column.combine_chunks() for column in pa.Table.from_batches(block.own).columns]
        own = [
            column if column.type == kind else column.cast(kind)
            for column, kind in zip(columns, self.schema.types, strict=False)
        ]
        others = range(len(own), len(self.stream.columns))
        return [*own, *(pa.array([row.cells[at] for row in block.rows]) for at in others)]


@contextmanager
def _known_types() -> Iterator[None]:
    """Within it, a type of Arrow that Parquet has no type for is said to be one."""
    import pyarrow as pa

    try:
        yield
    except pa.ArrowNotImplementedError as error:
        what = f"Parquet cannot hold every column: {short(str(error).rstrip('.'), 120)}."
        raise DataError(what, "Write JSONL or CSV.") from None


def _with(schema: "pyarrow.Schema", added: Sequence[Added]) -> "pyarrow.Schema":
    """Return a schema with our columns, without the notes of `datasets`, which refuse them."""
    import pyarrow as pa

    kinds = {"text": pa.string(), "number": pa.float32(), "flag": pa.bool_()}
    lists = pa.list_(pa.string())
    for one in added:
        kind = kinds.get(one.kind) or (lists if one.separator == LISTS else pa.string())
        schema = schema.append(pa.field(one.name, kind))
    notes = dict(schema.metadata or {})
    if b"huggingface" in notes:  # it would refuse columns that it does not know
        del notes[b"huggingface"]
        schema = schema.with_metadata(notes or None)
    return schema


def _whole(text: str) -> str:
    """Return a text without halves of letters."""
    return text if text.isascii() else text.encode("utf-8", "replace").decode()


# --- Excel.


class _Sheet(Writer):
    """One sheet, in which no text is a formula."""

    def __init__(self, path: Path, stream: TableStream, added: Sequence[Added]) -> None:
        super().__init__(path, stream, added)
        from openpyxl import Workbook

        check_rows(".xlsx", stream.rows)
        self._book = Workbook(write_only=True)
        self._sheet: Any = self._book.create_sheet("answers")
        names = [*stream.titles, *(one.name for one in added)]
        self._sheet.append([self._text(name) for name in names])

    def write(self, block: Block, values: Sequence[Sequence[Value]]) -> None:
        rows = _as_values(block, self.stream)
        for row, whole, own in zip(rows, block.rows, values, strict=True):
            ours = [
                float(number(value))
                if isinstance(value, float)
                else (one.cell(value) if isinstance(value, tuple) else value)
                for one, value in zip(self.added, own, strict=True)
            ]
            self._sheet.append([*self._kept(row, whole), *map(self._cell, ours)])

    def _kept(self, values: Any, row: Row) -> list[Any]:
        if isinstance(row.own, list):
            return [self._as_it_was(cell) for cell in row.own]
        if isinstance(values, str):
            fields = json.loads(values)
            values = [fields.get(name) for name in self.stream.columns]
        return [self._cell(value) for value in values]

    def _as_it_was(self, cell: SheetCell) -> Any:
        """Return a cell of the file, shown as it was shown there."""
        if cell.value is None:
            return None
        if isinstance(cell.value, str) and cell.kind != ERROR:
            return self._text(cell.value, is_escaped=True)
        found = self._made(cell.value)
        if cell.shown_as not in ("", "General"):
            found.number_format = cell.shown_as
        return found

    def _cell(self, value: Any) -> Any:
        if isinstance(value, float):
            value = value if math.isfinite(value) else None
        elif isinstance(value, int) and not isinstance(value, bool) and abs(value) > _EXACT:
            value = str(value)  # Excel would round it
        elif isinstance(value, datetime) and value.tzinfo is not None:
            value = value.isoformat()
        if value is None or isinstance(value, bool | int | float | date | time | timedelta):
            return value if value is None else self._made(value)
        return self._text(value if isinstance(value, str) else _json(value).strip('"'))

    def _text(self, text: str, *, is_escaped: bool = False) -> Any:
        """Return a text, which stays one whatever it begins with."""
        if not text:
            return None
        text = _whole(text)
        if not is_escaped:
            text = _ESCAPE.sub("_x005F_", text)
        text = _UNFIT.sub(lambda sign: f"_x{ord(sign[0]):04X}_", text)
        if len(text) > _CELL_LETTERS:
            self.cut += 1
        cell = self._made(text[:_CELL_LETTERS])
        cell.data_type = "s"
        return cell

    def _made(self, value: Any) -> Any:
        from openpyxl.cell import WriteOnlyCell

        return WriteOnlyCell(self._sheet, value)

    def finish(self) -> None:
        self._book.save(self.path)

    def close(self) -> None:
        if not self._sheet.closed:  # it broke off: the rows lie in a file of openpyxl's own
            self._sheet.close()
            self._sheet._writer.cleanup()


_EXACT = 10**15
_ESCAPE = re.compile("_(?=x[0-9A-Fa-f]{4}_)")  # what Excel would read as a sign
_UNFIT = re.compile("[\x00-\x08\x0b-\x1f\ufffe\uffff]")  # what XML cannot hold, or does not keep


WRITERS: Mapping[str, Callable[..., Writer]] = {
    ".jsonl": _JsonLines,
    ".ndjson": _JsonLines,
    ".json": _JsonList,
    ".parquet": _Texts,
    ".xlsx": _Sheet,
}
