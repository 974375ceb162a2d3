"""Tables of any size worked on piece by piece: a range of rows in, a Parquet file out.

A piece is a range of rows of one Parquet file. What it came to lies in a file of its own, named by
the work and by the range, and has in its footer a digest of the rows that it was made of. So work
that was stopped, or whose worker was lost, goes on where it was: a piece is done again only if its
rows have changed. Files are written whole or not at all, here or wherever fsspec reaches.
"""

from __future__ import annotations

import hashlib
import json
import math
import time
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from heads.caching import UNFINISHED
from heads.data.files import open_stream, place_of
from heads.data.formats.parquet_files import MAGIC, compute, is_vector
from heads.data.formats.writers import written
from heads.data.samples import SAMPLES
from heads.data.table import short
from heads.errors import DataError, did_you_mean
from heads.events import Progress
from heads.extras.scale.pool import HERE, work_through
from heads.settings import Limits

if TYPE_CHECKING:
    import pyarrow

ROW = "source_row"  # the column with the number of a row among all rows of the source, from 0
PARTS, MANIFEST, JOB = "parts", "manifest.json", "job.json"
STAGED = "source.parquet"  # what a source in another format is first written as
NOTES = b"head-to-head"  # of a Parquet file: what we say of it
VERSION = 1
PIECES = 64  # into which few rows are cut: two workers, or sixteen, end at about the same time
FEWEST, MOST = 1_024, 16_384  # rows of a piece
Transform = Callable[["pyarrow.Table", "Piece"], "pyarrow.Table"]


# --- Where files lie.


def filesystem(place: str) -> tuple[Any, str]:
    """The file system of a path or URL, by fsspec, and the path in it.

    Raises:
        DataError: There is no such kind of URL here.
    """
    import fsspec

    try:
        return fsspec.core.url_to_fs(str(Path(place).expanduser()) if "://" not in place else place)
    except (ValueError, ImportError) as error:
        first = str(error).split("\n", 1)[0][:160]
        hint = "Install what reads such places, such as s3fs or gcsfs."
        raise DataError(f"{short(place, 80)} cannot be reached ({first}).", hint) from None


def whole_name(place: str | Path) -> str:
    """A path from the root, or a URL as it is: what other processes find by the same name."""
    return str(place) if "://" in str(place) else str(Path(place).expanduser().absolute())


def found_by_all(model: str) -> str:
    """The name of a base model, or the path from the root where it is a folder here."""
    try:
        return whole_name(model) if Path(model).expanduser().is_dir() else model
    except (OSError, ValueError, RuntimeError):  # no name that a folder can have
        return model


def joined(folder: str, *names: str) -> str:
    """A place in a folder, which may be a URL."""
    return "/".join((folder.rstrip("/"), *names))


def read_json(place: str) -> Any:
    """What a JSON file says; None where there is none.

    Raises:
        DataError: It is no JSON.
    """
    fs, path = filesystem(place)
    try:
        return json.loads(fs.cat_file(path))
    except (FileNotFoundError, NotADirectoryError):
        return None
    except ValueError:
        raise DataError(f"{short(place, 80)} is broken.", "Name a new folder.") from None


def write_bytes(place: str, content: bytes) -> None:
    """Writes a file whole or not at all."""
    fs, path = filesystem(place)
    if "file" not in fs.protocol:
        fs.pipe_file(path, content)  # an object appears when all of it is there
        return
    own = Path(path)
    own.parent.mkdir(parents=True, exist_ok=True)
    digest = hashlib.sha256(content).hexdigest()[:16]
    other = own.with_name(f"{UNFINISHED}{digest}-{time.monotonic_ns()}")
    try:
        other.write_bytes(content)
        other.replace(own)
    finally:
        other.unlink(missing_ok=True)


def write_table(place: str, table: pyarrow.Table, notes: Mapping[str, Any]) -> int:
    """Writes a Parquet file whole or not at all, with what we say of it; its size in bytes.

    Vectors are not compressed: that would take longer and hardly save room.
    """
    import pyarrow as pa
    import pyarrow.parquet as parquet
    from pyarrow import types

    lists = [one.name for one in table.schema if types.is_fixed_size_list(one.type)]
    kinds: Any = {name: "NONE" if name in lists else "SNAPPY" for name in table.column_names}
    own = {**(table.schema.metadata or {}), NOTES: json.dumps(notes).encode()}
    sink = pa.BufferOutputStream()
    parquet.write_table(
        table.replace_schema_metadata(own), sink, compression=kinds,
        row_group_size=max(1, len(table)), use_dictionary=False, write_statistics=False,
        write_page_checksum=True,
    )  # fmt: skip
    content = sink.getvalue()
    write_bytes(place, content)
    return len(content)


def notes_of(place: str) -> dict[str, Any] | None:
    """What we said of a Parquet file; None where there is none that is whole."""
    import pyarrow as pa
    import pyarrow.parquet as parquet

    fs, path = filesystem(place)
    try:
        with fs.open(path, "rb") as file:
            known = parquet.read_metadata(file).metadata or {}
        return json.loads(known[NOTES])
    except (OSError, KeyError, ValueError, pa.ArrowInvalid):
        return None


# --- What is read: files of Parquet, cut into pieces.


@dataclass(frozen=True, slots=True, kw_only=True)
class Piece:
    """A range of rows of a Parquet file.

    Attributes:
        file: Its path or URL.
        start: The number of its first row in that file, from 0.
        rows: How many there are.
        row: The number of its first row among all rows of the source.
        stamp: The size and the time of the file: while they stay, its rows are taken to stay.
    """

    file: str
    start: int
    rows: int
    row: int
    stamp: str

    def __str__(self) -> str:
        name = self.file.rstrip("/").rpartition("/")[2]
        return f"Rows {self.start + 1:,} to {self.start + self.rows:,} of {short(name, 60)}"

    @property
    def name(self) -> str:
        """What a result of it is called, less what made it."""
        return f"{self.file}\n{self.start}\n{self.rows}\n{self.row}"

    def read(self, columns: Sequence[str] | None = None) -> pyarrow.Table:
        """Its rows.

        Raises:
            DataError: They cannot be read.
        """
        import pyarrow as pa
        import pyarrow.parquet as parquet

        fs, path = filesystem(self.file)
        try:
            with fs.open(path, "rb") as opened:
                file = parquet.ParquetFile(opened, page_checksum_verification=True)
                groups, before = _groups(file.metadata, self.start, self.rows)
                table = file.read_row_groups(groups, columns=columns)
        except (pa.ArrowInvalid, pa.ArrowNotImplementedError) as error:
            what = f"{self} cannot be read ({short(str(error), 100)})."
            raise DataError(what, "Write the file again.") from None
        except OSError as error:
            if "checksum" not in str(error):
                raise  # a disk or network that may do better later
            raise DataError(f"{self} are damaged.", "Write the file again.") from None
        return table.slice(before, self.rows)


def _groups(metadata: Any, start: int, rows: int) -> tuple[list[int], int]:
    """The row groups in which some rows lie, and how many rows stand before these there."""
    found, first, before = list[int](), 0, 0
    for group in range(metadata.num_row_groups):
        past = first + metadata.row_group(group).num_rows
        if past > start and first < start + rows:
            if not found:
                before = start - first
            found.append(group)
        first = past
    return found, before


def source_files(data: str | Path | Sequence[str | Path]) -> list[str]:
    """The files that somebody names: a path or URL, a pattern, a folder of Parquet, or several.

    Raises:
        DataError: There are none.
    """
    if isinstance(data, str | Path):
        if str(data) in SAMPLES:
            return [str(place_of(data))]
        fs, path = filesystem(str(data))
        pattern = f"{path.rstrip('/')}/**/*.parquet" if fs.isdir(path) else path
        found = sorted(fs.glob(pattern) if any(sign in pattern for sign in "*?[") else [path])
        found = [one for one in found if fs.isfile(one)]
        if not found:
            what = f"There are no files at {short(str(data), 80)}."
            raise DataError(what, "Give Parquet files: a path, a URL, a pattern or a folder.")
        return [fs.unstrip_protocol(one) if "://" in str(data) else one for one in found]
    return [file for one in data for file in source_files(one)]


def stamp_of(file: str) -> str:
    """The size of a file and when it was written, or what a store of objects has for that."""
    fs, path = filesystem(file)
    facts = fs.info(path)
    known = (facts.get(one) for one in ("ETag", "etag", "mtime", "LastModified", "updated"))
    return f"{facts.get('size')}-{next((one for one in known if one), '')}"


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Source:
    """Rows in files of Parquet.

    Attributes:
        files: Paths or URLs.
        schema: The columns, the same in all files.
        counts: How many rows each file has.
        groups: For each file the rows of its row groups, which are read as a whole.
        stamps: Size and time of each.
        name: What it is called in sentences.
    """

    files: tuple[str, ...]
    schema: pyarrow.Schema
    counts: tuple[int, ...]
    groups: tuple[tuple[int, ...], ...]
    stamps: tuple[str, ...]
    name: str

    @property
    def rows(self) -> int:
        """How many there are."""
        return sum(self.counts)

    def rows_each(self, most: int = MOST) -> int:
        """How many rows a piece has: always the same for the same source."""
        even = math.ceil(self.rows / PIECES / FEWEST) * FEWEST
        return max(1, min(max(even, FEWEST), most))

    def pieces(self, rows_each: int) -> list[Piece]:
        """All rows in pieces of so many; no piece spans two files."""
        found, row = list[Piece](), 0
        for file, count, stamp in zip(self.files, self.counts, self.stamps, strict=True):
            for start in range(0, count, rows_each):
                rows = min(rows_each, count - start)
                found.append(Piece(file=file, start=start, rows=rows, row=row + start, stamp=stamp))
            row += count
        return found

    def whole_groups(self, most: int) -> list[Piece]:
        """All rows in pieces of whole row groups, as many as make up so many rows, one at least."""
        found, row = list[Piece](), 0
        for file, groups, stamp in zip(self.files, self.groups, self.stamps, strict=True):
            start, held = 0, 0
            for size in (*groups, most):  # the last ends what is left
                if held and held + size > most:
                    piece = Piece(file=file, start=start, rows=held, row=row + start, stamp=stamp)
                    found.append(piece)
                    start, held = start + held, 0
                held += size
            row += sum(groups)
        return found

    def check_column(self, name: str, what: str) -> None:
        """Raise DataError for a name that no column has."""
        if name not in self.schema.names:
            says = f"{self.name} has no column '{short(name)}' for the {what}."
            raise DataError(says, did_you_mean(name, map(short, self.schema.names)), column=name)


def opened(data: str | Path | Sequence[str | Path], stage: str, limits: Limits) -> Source:
    """Opens Parquet files by their footers; a file of another format is written as Parquet first.

    Args:
        data: As of `source_files`.
        stage: The folder in which a copy as Parquet may be put, where all workers can read it.

    Raises:
        DataError: There are none, they have different columns, or no rows.
    """
    import pyarrow as pa
    import pyarrow.parquet as parquet

    files = source_files(data)
    name = short(files[0].rstrip("/").rpartition("/")[2], 60)
    name = name if len(files) == 1 else f"{name} and {len(files) - 1} more"
    if len(files) == 1 and not _is_parquet(files[0]):
        files = [_staged(files[0], stage, limits)]
    schema: pyarrow.Schema | None = None
    groups = []
    for file in files:
        fs, path = filesystem(file)
        try:
            with fs.open(path, "rb") as opened_file:
                held = parquet.ParquetFile(opened_file)
                own, facts = held.schema_arrow.remove_metadata(), held.metadata
        except (pa.ArrowInvalid, OSError) as error:
            what = f"{short(file, 80)} cannot be read as Parquet ({short(str(error), 100)})."
            raise DataError(what, "Give files of Parquet, or one CSV or JSONL file.") from None
        if schema is not None and own != schema:
            what = f"{short(file, 80)} has other columns than {short(files[0], 80)}."
            raise DataError(what, "Give files with the same columns.")
        schema = own
        groups.append(tuple(facts.row_group(at).num_rows for at in range(facts.num_row_groups)))
    if not sum(map(sum, groups)):
        raise DataError(f"{name} has no rows.", "Give files with some.")
    assert schema is not None
    return Source(
        files=tuple(files), schema=schema, counts=tuple(map(sum, groups)), groups=tuple(groups),
        stamps=tuple(map(stamp_of, files)), name=name,
    )  # fmt: skip


def _is_parquet(file: str) -> bool:
    fs, path = filesystem(file)
    with fs.open(path, "rb") as opened_file:
        return opened_file.read(len(MAGIC)) == MAGIC


def _staged(file: str, stage: str, limits: Limits) -> str:
    """Write a file of another format as Parquet, unless an earlier copy of it is there."""
    import tempfile

    place, stamp = joined(stage, STAGED), stamp_of(file)
    if (notes_of(place) or {}).get("stamp") == stamp:
        return place
    fs, path = filesystem(file)
    with tempfile.TemporaryDirectory() as folder:
        own = Path(path)
        if "file" not in fs.protocol:
            own = Path(folder) / path.rpartition("/")[2]
            fs.get_file(path, str(own))
        stream = open_stream(own, limits)
        copy = Path(folder) / "copy.parquet"
        with written(copy, stream, ()) as writer:
            for block in stream.blocks(MOST):
                writer.write(block, [()] * len(block))
            writer.file.add_key_value_metadata({NOTES: json.dumps({"stamp": stamp})})
        fs, path = filesystem(place)
        fs.makedirs(path.rpartition("/")[0], exist_ok=True)
        fs.put_file(str(copy), f"{path}{UNFINISHED}")
        fs.mv(f"{path}{UNFINISHED}", path)
    return place


# --- Pieces worked on, and what they came to.


@dataclass(frozen=True, slots=True, kw_only=True)
class Part:
    """What a piece came to.

    Attributes:
        name: Of its file.
        file, start, rows, row, stamp: The piece.
        content: A digest of its rows.
        bytes: The size of the file.
        facts: What the work says of it.
    """

    name: str
    file: str
    start: int
    rows: int
    row: int
    stamp: str
    content: str
    bytes: int = 0
    facts: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Work:
    """What is done with every piece of a source, and where it is put.

    Attributes:
        to: The folder, a path or URL.
        kind: What lies in it afterwards: features or answers.
        facts: All that the outcome depends on besides the rows, as plain values.
        make: Loads what the work needs, and returns what makes another table of that of a piece,
            with as many rows. On Ray it is pickled.
        rows_each: Rows of a piece.
    """

    to: str
    kind: str
    facts: Mapping[str, Any]
    make: Callable[[], Transform]
    rows_each: int

    @property
    def digest(self) -> str:
        """Of all that the outcome depends on besides the rows."""
        return _digest(json.dumps([self.kind, self.facts], sort_keys=True).encode())

    def place(self, piece: Piece) -> str:
        """Where the outcome of a piece is put."""
        return joined(self.to, PARTS, f"{_digest(f'{self.digest}{piece.name}'.encode())}.parquet")


def _digest(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()[:40]


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Worker:
    """Makes what works on the pieces of some work.

    What the work needs, such as a base model, is loaded for the first piece that is not there yet.
    """

    work: Work

    def __call__(self) -> Callable[[Piece], tuple[Part, bool]]:
        """What works on one piece: what that came to, and whether it was done now."""
        loaded = list[Transform]()

        def done(piece: Piece) -> tuple[Part, bool]:
            place = self.work.place(piece)
            known = notes_of(place)
            if known and known["stamp"] == piece.stamp:
                return Part(**known), False
            table = piece.read()
            content = _content(table)
            if known and known["content"] == content:
                return replace(Part(**known), stamp=piece.stamp), False
            if not loaded:
                loaded.append(self.work.make())
            return _written(place, piece, content, loaded[0](table, piece)), True

        return done


def numbered(table: pyarrow.Table, piece: Piece) -> pyarrow.Table:
    """The rows of a piece, each with its number among all rows of the source."""
    import numpy as np
    import pyarrow as pa

    if ROW in table.column_names:
        what = f"{piece.file} has a column {ROW}, as we call the number of a row."
        raise DataError(what, "Give that column another name.")
    numbers = np.arange(piece.row, piece.row + len(table), dtype=np.int64)
    return table.append_column(ROW, pa.array(numbers))


def _content(table: pyarrow.Table) -> str:
    """A digest of rows, the same however their file is laid out."""
    digest = hashlib.sha256(repr(table.schema.remove_metadata()).encode())
    for column in table.columns:
        whole = column.combine_chunks()
        if is_vector(whole.type):
            digest.update(whole.is_null().to_numpy(zero_copy_only=False).tobytes())
            digest.update(compute().list_flatten(whole).to_numpy(zero_copy_only=False).tobytes())
        else:
            digest.update(repr(whole.to_pylist()).encode("utf-8", "surrogatepass"))
    return digest.hexdigest()[:40]


def _written(place: str, piece: Piece, content: str, found: pyarrow.Table) -> Part:
    if len(found) != piece.rows:
        raise AssertionError(f"{piece} came to {len(found)} rows")
    known = json.loads((found.schema.metadata or {}).get(NOTES, b"{}"))
    part = Part(
        name=place.rpartition("/")[2], **asdict(piece), content=content, facts=known,
    )  # fmt: skip
    size = write_table(place, found, asdict(part))
    return replace(part, bytes=size)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Outcome:
    """What some work came to.

    Attributes:
        work: The work.
        source: What its source is called.
        parts: What the pieces came to, in the order of their rows.
        fresh: How many rows were worked on now; the others lay there from before.
        seconds: How long it took.
    """

    work: Work
    source: str
    parts: tuple[Part, ...]
    fresh: int
    seconds: float

    @property
    def rows(self) -> int:
        """How many there are."""
        return sum(part.rows for part in self.parts)


def worked(
    work: Work, source: Source, on: str = HERE, workers: int = 0
) -> Generator[Progress, None, Outcome]:
    """Works on all pieces of a source that are not there yet, and writes what they came to.

    Raises:
        DataError: The folder holds something else, or a piece cannot be worked on.
    """
    _begin(work)
    pieces = source.pieces(work.rows_each)
    begun, parts, fresh, done = time.perf_counter(), list[Part](), 0, 0
    for piece, (part, is_new) in work_through(Worker(work=work), pieces, on, workers):
        parts.append(part)
        done, fresh = done + piece.rows, fresh + piece.rows * is_new
        seconds = max(time.perf_counter() - begun, 1e-6)
        rate = fresh / seconds
        left = (source.rows - done) / rate if fresh else 0.0
        says = f"{done:,} of {source.rows:,} rows: {rate:,.0f} a second, {left:,.0f} s left"
        yield Progress(says=says, share=done / source.rows)
    parts.sort(key=lambda one: one.row)
    _finish(work, source, parts)
    seconds = time.perf_counter() - begun
    return Outcome(work=work, source=source.name, parts=tuple(parts), fresh=fresh, seconds=seconds)


def _begin(work: Work) -> None:
    """Takes a folder for some work, which may have been begun in it before."""
    fs, path = filesystem(work.to)
    known = read_json(joined(work.to, JOB))
    job = {"kind": work.kind, **work.facts, "rows_each": work.rows_each}
    if known is None:
        if fs.exists(path) and [one for one in fs.ls(path, detail=False) if STAGED not in one]:
            what = f"{short(work.to, 80)} holds something else."
            raise DataError(what, "Name a new folder.")
        write_bytes(joined(work.to, JOB), _json({"version": VERSION, **job}))
        return
    other = [name for name, value in json.loads(_json(job)).items() if known.get(name) != value]
    if other:
        what = f"{short(work.to, 80)} was begun with another {other[0].replace('_', ' ')}"
        told = f" ({short(str(known.get(other[0])), 60)})."
        raise DataError(f"{what}{told}", "Name a new folder, or ask as you did then.")


def _finish(work: Work, source: Source, parts: Sequence[Part]) -> None:
    """Writes what the parts are; those of rows that have changed since go."""
    told = {
        "version": VERSION,
        "kind": work.kind,
        **work.facts,
        "source": source.name,
        "rows": source.rows,
        "parts": [asdict(part) for part in parts],
    }
    write_bytes(joined(work.to, MANIFEST), _json(told))
    fs, path = filesystem(joined(work.to, PARTS))
    ours = {part.name for part in parts}
    for place in fs.ls(path, detail=False):
        name = place.rpartition("/")[2]
        if name not in ours and (name.endswith(".parquet") or name.startswith(UNFINISHED)):
            fs.rm_file(place)


def _json(values: Mapping[str, Any]) -> bytes:
    return json.dumps(values, ensure_ascii=False, indent=1).encode()


def parts_of(folder: str, kind: str) -> tuple[Mapping[str, Any], Iterator[Part]]:
    """What a manifest says, and its parts.

    Raises:
        DataError: There is none, or it is of something else.
    """
    told = read_json(joined(folder, MANIFEST))
    if told is None:
        begun = read_json(joined(folder, JOB)) is not None
        what = f"{short(folder, 80)} holds no {kind}" + " that are whole yet" * begun + "."
        raise DataError(what, "Ask for them again: it goes on." if begun else "Extract some first.")
    if told.get("kind") != kind or told.get("version") != VERSION:
        raise DataError(f"{short(folder, 80)} holds no {kind}.", "Name another folder.")
    return told, (Part(**one) for one in told["parts"])
