"""Tables of any size processed in pieces: a range of rows in, a Parquet file out.

A piece is a range of rows of one Parquet file. Its output is a file whose name follows from the
work and the range, with a digest of its rows in the footer. So work that was stopped, or whose
worker was lost, resumes, and a piece is processed again only if its rows have changed. Files are
written whole or not at all, here or wherever fsspec reaches.
"""

from __future__ import annotations

import hashlib
import json
import math
import secrets
import tempfile
import time
from collections.abc import Callable, Generator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from functools import cache, partial
from itertools import accumulate
from pathlib import Path
from typing import TYPE_CHECKING, Any

from heads.caching import UNFINISHED, replacing
from heads.data.files import open_stream, place_of
from heads.data.formats.parquet_files import MAGIC, compute, is_vector
from heads.data.formats.writers import written
from heads.data.samples import SAMPLES
from heads.data.table import short
from heads.errors import DataError, did_you_mean
from heads.events import Progress
from heads.extras.scale.pool import HERE, work_through

if TYPE_CHECKING:
    import pyarrow

ROW = "source_row"  # the column with the number of a row among all rows of the source, from 0
PARTS, MANIFEST, JOB = "parts", "manifest.json", "job.json"
STAGED = "source.parquet"  # the copy of a source in another format
NOTES = b"head-to-head"  # the key of our metadata in a Parquet file
VERSION = 1
PIECES = 64  # of a small source: two workers, or sixteen, end at about the same time
FEWEST, MOST = 1_024, 16_384  # rows of a piece
Transform = Callable[["pyarrow.Table", "Piece"], "pyarrow.Table"]
Data = str | Path | Sequence[str | Path]  # a path or URL, a pattern, a folder, or several


# --- Where files lie.


def filesystem(location: str) -> tuple[Any, str]:
    """Return the fsspec file system of a path or URL, and the path in it."""
    import fsspec

    path = location if "://" in location else str(Path(location).expanduser())
    try:
        return fsspec.core.url_to_fs(path)
    except (ValueError, ImportError) as error:
        first = str(error).split("\n", 1)[0][:160]
        hint = "Install what reads such places, such as s3fs or gcsfs."
        raise DataError(f"{short(location, 80)} cannot be reached ({first}).", hint) from None


def absolute(location: str | Path) -> str:
    """Return a path from the root, so that other processes find it, or a URL unchanged."""
    text = str(location)
    return text if "://" in text else str(Path(text).expanduser().absolute())


def absolute_model(model: str) -> str:
    """Return the name of a base model, or the path from the root where it is a local folder."""
    try:
        return absolute(model) if Path(model).expanduser().is_dir() else model
    except (OSError, ValueError, RuntimeError):  # no name that a folder can have
        return model


def join(folder: str, *names: str) -> str:
    """Join names to a folder, which may be a URL."""
    return "/".join((folder.rstrip("/"), *names))


def read_json(location: str) -> Any:
    """Return the value of a JSON file, or None where there is none; DataError if it is broken."""
    fs, path = filesystem(location)
    try:
        return json.loads(fs.cat_file(path))
    except (FileNotFoundError, NotADirectoryError):
        return None
    except ValueError:
        raise DataError(f"{short(location, 80)} is broken.", "Name a new folder.") from None


def write_bytes(location: str, content: bytes) -> None:
    """Write a file whole or not at all."""
    fs, path = filesystem(location)
    if "file" not in fs.protocol:
        fs.pipe_file(path, content)  # an object appears when all of it is there
        return
    Path(path).parent.mkdir(parents=True, exist_ok=True)
    with replacing(Path(path)) as unfinished:
        unfinished.write_bytes(content)


def _write_json(location: str, values: Mapping[str, Any]) -> None:
    write_bytes(location, json.dumps(values, ensure_ascii=False, indent=1).encode())


def write_table(location: str, table: pyarrow.Table, notes: Mapping[str, Any]) -> int:
    """Write a Parquet file whole or not at all, with notes in its footer; return its size in bytes.

    Vectors are not compressed: that takes longer and hardly saves room.
    """
    import pyarrow as pa
    import pyarrow.parquet as parquet
    from pyarrow import types

    vectors = [column.name for column in table.schema if types.is_fixed_size_list(column.type)]
    kinds: Any = {name: "NONE" if name in vectors else "SNAPPY" for name in table.column_names}
    metadata = {**(table.schema.metadata or {}), NOTES: json.dumps(notes).encode()}
    sink = pa.BufferOutputStream()
    parquet.write_table(
        table.replace_schema_metadata(metadata), sink, compression=kinds,
        row_group_size=max(1, len(table)), use_dictionary=False, write_statistics=False,
        write_page_checksum=True,
    )  # fmt: skip
    content = sink.getvalue()
    write_bytes(location, content)
    return len(content)


def read_notes(location: str) -> dict[str, Any] | None:
    """Return our notes in a Parquet file, or None where there is no whole file with notes."""
    import pyarrow as pa
    import pyarrow.parquet as parquet

    fs, path = filesystem(location)
    try:
        with fs.open(path, "rb") as file:
            return json.loads((parquet.read_metadata(file).metadata or {})[NOTES])
    except (OSError, KeyError, ValueError, pa.ArrowInvalid):
        return None


# --- Sources: Parquet files, cut into pieces.


@dataclass(frozen=True, slots=True, kw_only=True)
class Piece:
    """A range of rows of a Parquet file."""

    file: str  # its path or URL
    start: int  # the number of its first row in that file, from 0
    rows: int  # the number of rows
    row: int  # the number of its first row among all rows of the source
    stamp: str  # size and time of the file; while they stay, its rows are taken to stay

    def __str__(self) -> str:
        name = self.file.rstrip("/").rpartition("/")[2]
        return f"Rows {self.start + 1:,} to {self.start + self.rows:,} of {short(name, 60)}"

    def read(self, columns: Sequence[str] | None = None) -> pyarrow.Table:
        """Read its rows; raise DataError where they cannot be read."""
        import pyarrow as pa
        import pyarrow.parquet as parquet

        fs, path = filesystem(self.file)
        try:
            with fs.open(path, "rb") as opened:
                file = parquet.ParquetFile(opened, page_checksum_verification=True)
                sizes = _group_sizes(file.metadata)
                starts, end = list(accumulate(sizes, initial=0)), self.start + self.rows
                groups = [
                    number
                    for number, size in enumerate(sizes)
                    if starts[number] < end and starts[number] + size > self.start
                ]
                table = file.read_row_groups(groups, columns=columns)
        except (pa.ArrowInvalid, pa.ArrowNotImplementedError) as error:
            what = f"{self} cannot be read ({short(str(error), 100)})."
            raise DataError(what, "Write the file again.") from None
        except OSError as error:
            if "checksum" not in str(error):
                raise  # a disk or network that may do better later
            raise DataError(f"{self} are damaged.", "Write the file again.") from None
        return table.slice(self.start - starts[groups[0]] if groups else 0, self.rows)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Source:
    """Rows in Parquet files."""

    files: tuple[str, ...]  # paths or URLs
    schema: pyarrow.Schema  # the columns, the same in all files
    # for each file the number of rows of its row groups, which are read as a whole
    groups: tuple[tuple[int, ...], ...]
    stamps: tuple[str, ...]  # size and time of each file
    name: str  # its name in messages

    @property
    def rows(self) -> int:
        """The number of rows."""
        return sum(map(sum, self.groups))

    def rows_each(self, most: int = MOST) -> int:
        """Return the number of rows of a piece: always the same for the same source."""
        even = math.ceil(self.rows / PIECES / FEWEST) * FEWEST
        return max(1, min(max(even, FEWEST), most))

    def pieces(self, rows_each: int, *, whole_groups: bool = False) -> list[Piece]:
        """Cut all rows into pieces of so many rows, none of which spans two files.

        With whole_groups a piece is one row group, or several of so many rows at most.
        """
        pieces, row = list[Piece](), 0
        for file, groups, stamp in zip(self.files, self.groups, self.stamps, strict=True):
            start, total = 0, sum(groups)
            sizes = [min(rows_each, total - at) for at in range(0, total, rows_each)]
            if whole_groups:
                sizes = [0]
                for size in groups:
                    sizes += [0] * (sizes[-1] + size > rows_each)
                    sizes[-1] += size
            for size in filter(None, sizes):
                pieces.append(Piece(file=file, start=start, rows=size, row=row, stamp=stamp))
                start, row = start + size, row + size
        return pieces

    def check_column(self, name: str, purpose: str) -> None:
        """Raise DataError for a name that no column has."""
        if name not in self.schema.names:
            what = f"{self.name} has no column '{short(name)}' for the {purpose}."
            raise DataError(what, did_you_mean(name, map(short, self.schema.names)), column=name)


def find_files(data: Data) -> list[str]:
    """Return the files behind a path or URL, a pattern, a folder of Parquet, or several."""
    if not isinstance(data, str | Path):
        return [file for location in data for file in find_files(location)]
    if str(data) in SAMPLES:
        return [str(place_of(data))]
    fs, path = filesystem(str(data))
    pattern = f"{path.rstrip('/')}/**/*.parquet" if fs.isdir(path) else path
    names = [name for name in sorted(fs.glob(pattern)) if fs.isfile(name)]
    if not names:
        what = f"There are no files at {short(str(data), 80)}."
        raise DataError(what, "Give Parquet files: a path, a URL, a pattern or a folder.")
    return [fs.unstrip_protocol(name) if "://" in str(data) else name for name in names]


def _stamp(file: str) -> str:
    """Return the size of a file and when it was written, or what an object store has for that."""
    fs, path = filesystem(file)
    facts = fs.info(path)
    times = (facts.get(name) for name in ("ETag", "etag", "mtime", "LastModified", "updated"))
    return f"{facts.get('size')}-{next(filter(None, times), '')}"


def open_source(data: Data, stage: str) -> Source:
    """Open Parquet files by their footers; a file of another format is copied as Parquet first.

    The copy goes to the folder `stage`, where all workers can read it.
    """
    files = find_files(data)
    name = short(files[0].rstrip("/").rpartition("/")[2], 60)
    name = name if len(files) == 1 else f"{name} and {len(files) - 1} more"
    if len(files) == 1:
        fs, path = filesystem(files[0])
        with fs.open(path, "rb") as file:
            is_parquet = file.read(len(MAGIC)) == MAGIC
        files = files if is_parquet else [_copy_as_parquet(files[0], stage)]
    footers = list(map(_read_footer, files))
    schema = footers[0][0]
    for file, (other, _) in zip(files, footers, strict=True):
        if other != schema:
            what = f"{short(file, 80)} has other columns than {short(files[0], 80)}."
            raise DataError(what, "Give files with the same columns.")
    source = Source(
        files=tuple(files), schema=schema, groups=tuple(groups for _, groups in footers),
        stamps=tuple(map(_stamp, files)), name=name,
    )  # fmt: skip
    if not source.rows:
        raise DataError(f"{name} has no rows.", "Give files with some.")
    return source


def _read_footer(location: str) -> tuple[pyarrow.Schema, tuple[int, ...]]:
    """Return the columns of a Parquet file, and the number of rows of each row group."""
    import pyarrow as pa
    import pyarrow.parquet as parquet

    fs, path = filesystem(location)
    try:
        with fs.open(path, "rb") as opened:
            file = parquet.ParquetFile(opened)
            return file.schema_arrow.remove_metadata(), _group_sizes(file.metadata)
    except (pa.ArrowInvalid, OSError) as error:
        what = f"{short(location, 80)} cannot be read as Parquet ({short(str(error), 100)})."
        raise DataError(what, "Give files of Parquet, or one CSV or JSONL file.") from None


def _group_sizes(metadata: Any) -> tuple[int, ...]:
    return tuple(metadata.row_group(n).num_rows for n in range(metadata.num_row_groups))


def _copy_as_parquet(file: str, stage: str) -> str:
    """Write a file of another format as Parquet, unless an earlier copy of it is there."""
    copy, stamp = join(stage, STAGED), _stamp(file)
    if (read_notes(copy) or {}).get("stamp") == stamp:
        return copy
    fs, path = filesystem(file)
    with tempfile.TemporaryDirectory() as folder:
        local = Path(path)
        if "file" not in fs.protocol:
            local = Path(folder) / path.rpartition("/")[2]
            fs.get_file(path, str(local))
        stream = open_stream(local)
        output = Path(folder) / "copy.parquet"
        with written(output, stream, ()) as writer:
            for block in stream.blocks(MOST):
                writer.write(block, [()] * len(block))
            writer.file.add_key_value_metadata({NOTES: json.dumps({"stamp": stamp})})
        fs, path = filesystem(copy)
        fs.makedirs(path.rpartition("/")[0], exist_ok=True)
        fs.put_file(str(output), f"{path}{UNFINISHED}")
        fs.mv(f"{path}{UNFINISHED}", path)
    return copy


# --- Work on pieces, and its output.


@dataclass(frozen=True, slots=True, kw_only=True)
class FinishedPiece(Piece):
    """A piece with its output."""

    name: str  # the name of the output file
    content: str  # a digest of the rows
    bytes: int = 0  # the size of the output file
    facts: Mapping[str, Any] = field(default_factory=dict)  # what the work notes of it
    call_id: str = ""  # of the call of `process` that wrote the output


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Work:
    """What is done with every piece of a source, and where the output goes."""

    to: str  # the folder, a path or URL
    kind: str  # what it holds afterwards: features or answers
    facts: Mapping[str, Any]  # all that the output depends on besides the rows, as plain values
    # loads what the work needs, and returns a function from the table of a piece to another one
    # with as many rows. On Ray it is pickled
    make: Callable[[], Transform]
    rows_each: int  # rows of a piece
    call_id: str = ""  # of the call of `process`, which sets it

    def output(self, piece: Piece) -> str:
        """Return the location of the output of a piece."""
        own = _digest(json.dumps([self.kind, self.facts], sort_keys=True))
        name = _digest(f"{own}{piece.file}\n{piece.start}\n{piece.rows}\n{piece.row}")
        return join(self.to, PARTS, f"{name}.parquet")


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()[:40]


def make_piece_worker(work: Work) -> Callable[[Piece], FinishedPiece]:
    """Return a function that processes a piece, or finds the output that it has already."""
    load = cache(work.make)  # for the first piece without an output

    def process_piece(piece: Piece) -> FinishedPiece:
        output = work.output(piece)
        notes = read_notes(output)
        if notes and notes["stamp"] == piece.stamp:
            return FinishedPiece(**notes)
        table = piece.read()
        content = _digest_rows(table)
        if notes and notes["content"] == content:
            return replace(FinishedPiece(**notes), stamp=piece.stamp)
        made = load()(table, piece)
        if len(made) != piece.rows:
            raise AssertionError(f"{piece} came to {len(made)} rows")
        facts = json.loads((made.schema.metadata or {}).get(NOTES, b"{}"))
        name = output.rpartition("/")[2]
        part = FinishedPiece(
            **asdict(piece), name=name, content=content, facts=facts, call_id=work.call_id
        )
        return replace(part, bytes=write_table(output, made, asdict(part)))

    return process_piece


def number_rows(table: pyarrow.Table, piece: Piece) -> pyarrow.Table:
    """Append to the rows of a piece their numbers among all rows of the source."""
    import numpy as np
    import pyarrow as pa

    if ROW in table.column_names:
        what = f"{piece.file} has a column {ROW}, as we call the number of a row."
        raise DataError(what, "Give that column another name.")
    numbers = np.arange(piece.row, piece.row + len(table), dtype=np.int64)
    return table.append_column(ROW, pa.array(numbers))


def _digest_rows(table: pyarrow.Table) -> str:
    """Return a digest of rows, the same however their file is laid out."""
    digest = hashlib.sha256(repr(table.schema.remove_metadata()).encode())
    for column in table.columns:
        whole = column.combine_chunks()
        if is_vector(whole.type):
            digest.update(whole.is_null().to_numpy(zero_copy_only=False).tobytes())
            digest.update(compute().list_flatten(whole).to_numpy(zero_copy_only=False).tobytes())
        else:
            digest.update(repr(whole.to_pylist()).encode("utf-8", "surrogatepass"))
    return digest.hexdigest()[:40]


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Outcome:
    """The output of some work."""

    parts: Sequence[FinishedPiece]  # in the order of their rows
    fresh: int  # the number of rows that were processed now; the others were there before
    seconds: float


def process(
    work: Work, source: Source, on: str = HERE, workers: int = 0
) -> Generator[Progress, None, Outcome]:
    """Process all pieces of a source that have no output yet."""
    _claim_folder(work)
    work = replace(work, call_id=secrets.token_hex(8))
    begun, parts, fresh, done = time.perf_counter(), list[FinishedPiece](), 0, 0
    pieces = source.pieces(work.rows_each)
    for piece, part in work_through(partial(make_piece_worker, work), pieces, on, workers):
        parts.append(part)
        done += piece.rows
        # Not "was there no output": a worker may be lost after it wrote one, which the next finds.
        fresh += piece.rows * (part.call_id == work.call_id)
        rate = fresh / max(time.perf_counter() - begun, 1e-6)
        left = (source.rows - done) / rate if fresh else 0.0
        says = f"{done:,} of {source.rows:,} rows: {rate:,.0f} a second, {left:,.0f} s left"
        yield Progress(says=says, share=done / source.rows)
    parts.sort(key=lambda part: part.row)
    _finish(work, source, parts)
    return Outcome(parts=parts, fresh=fresh, seconds=time.perf_counter() - begun)


def _claim_folder(work: Work) -> None:
    """Take a folder for some work, which may have been begun in it before."""
    fs, path = filesystem(work.to)
    before = read_json(join(work.to, JOB))
    job = {"kind": work.kind, **work.facts, "rows_each": work.rows_each}
    if before is None:
        if fs.exists(path) and [name for name in fs.ls(path, detail=False) if STAGED not in name]:
            what = f"{short(work.to, 80)} holds something else."
            raise DataError(what, "Name a new folder.")
        _write_json(join(work.to, JOB), {"version": VERSION, **job})
        return
    for name, value in json.loads(json.dumps(job)).items():
        if before.get(name) != value:
            what = f"{short(work.to, 80)} was begun with another {name.replace('_', ' ')}"
            was = f" ({short(str(before.get(name)), 60)})."
            raise DataError(f"{what}{was}", "Name a new folder, or ask as you did then.")


def _finish(work: Work, source: Source, parts: Sequence[FinishedPiece]) -> None:
    """Write the manifest, and delete outputs of rows that have changed since."""
    manifest = {
        "version": VERSION, "kind": work.kind, **work.facts, "source": source.name,
        "rows": source.rows, "parts": list(map(asdict, parts)),
    }  # fmt: skip
    _write_json(join(work.to, MANIFEST), manifest)
    fs, path = filesystem(join(work.to, PARTS))
    current = {part.name for part in parts}
    for location in fs.ls(path, detail=False):
        name = location.rpartition("/")[2]
        if name not in current and (name.endswith(".parquet") or name.startswith(UNFINISHED)):
            fs.rm_file(location)


def read_manifest(folder: str, kind: str) -> dict[str, Any]:
    """Return the manifest of a folder, with its parts as `FinishedPiece` objects."""
    manifest = read_json(join(folder, MANIFEST))
    if manifest is None:
        begun = read_json(join(folder, JOB)) is not None
        what = f"{short(folder, 80)} holds no {kind}" + " that are whole yet" * begun + "."
        raise DataError(what, "Ask for them again: it goes on." if begun else "Extract some first.")
    if manifest.get("kind") != kind or manifest.get("version") != VERSION:
        raise DataError(f"{short(folder, 80)} holds no {kind}.", "Name another folder.")
    return manifest | {"parts": [FinishedPiece(**part) for part in manifest["parts"]]}
