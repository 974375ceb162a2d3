"""A file to a `Table`: which format it is, in which encoding; and folders saved by `datasets`."""

import codecs
import io
import json
import re
from collections.abc import Collection, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import replace
from functools import partial
from itertools import islice
from pathlib import Path
from typing import Any, BinaryIO, Literal

from heads import plugins
from heads.data.column_names import PARTS
from heads.data.formats import excel_files, numpy_files, parquet_files
from heads.data.formats.delimited import (
    TextSource,
    head_of,
    nothing_in,
    read_delimited,
    stream_delimited,
)
from heads.data.formats.excel_files import read_excel, stream_excel
from heads.data.formats.json_files import is_json, read_objects, stream_objects
from heads.data.formats.parquet_files import read_columnar, stream_columnar
from heads.data.formats.table_stream import Delimited, TableStream
from heads.data.formats.vector_reading import of_cells, vector_places
from heads.data.samples import SAMPLES
from heads.data.table import Finding, Table, finding, short
from heads.errors import DataError, LimitError
from heads.settings import current_limits

# --- What a file is by its first bytes, and one sentence for each that is no table.

_EXPORT = "Export the table as CSV in UTF-8."
_TABLE = "Choose a CSV, TSV, JSON, JSONL, Parquet or Excel file."
_UNPACK = "Unpack it and choose the table in it."
# First bytes, what such a file is, what to do. Nothing here is ever opened or unpacked: pandas
# unpacks hostile/f02_bomb_20MB.csv.gz whole, whatever it becomes.
_MAGIC = (
    (b"\x1f\x8b", "a gzip archive, which is never unpacked here", _UNPACK),
    (b"BZh", "a bzip2 archive, which is never unpacked here", _UNPACK),
    (b"\xfd7zXZ\x00", "an xz archive, which is never unpacked here", _UNPACK),
    (b"\x28\xb5\x2f\xfd", "a zstd archive, which is never unpacked here", _UNPACK),
    (b"7z\xbc\xaf\x27\x1c", "a 7z archive, which is never unpacked here", _UNPACK),
    (b"Rar!", "a RAR archive, which is never unpacked here", _UNPACK),
    (
        b"\xd0\xcf\x11\xe0",
        "an old Excel file (.xls), or one with a password",
        "Save it as .xlsx without a password, or export the table as CSV in UTF-8.",
    ),
    (b"\x89PNG", "a picture, not a text table", _TABLE),
    (b"\xff\xd8\xff", "a picture, not a text table", _TABLE),
    (b"GIF8", "a picture, not a text table", _TABLE),
    (b"%PDF", "a PDF, not a text table", _TABLE),
    (b"{\\rtf", "a formatted document, not a text table", _EXPORT),
    (b"SQLite format 3", "a database, not a text table", _EXPORT),
    (b"ARROW1", "an Arrow file, not a text table", "Save it as Parquet or CSV."),
    (b"version https://git-lfs", "a Git LFS pointer, not the table itself", "Run: git lfs pull"),
)
_STRANGE = 0.3  # share of control characters beyond which nobody wrote this as text
_BINARY = 0.02  # the same where no encoding fits: programs and archives
_PICKLE = re.compile(rb"\x80[\x02-\x05]")
_PAGE = re.compile(r"\s*(?:<!--.*?-->\s*)?<(?:!doctype\s+html|html|head|body)\b", re.I | re.S)
_XML = re.compile(r"\s*<\?xml\b", re.I)


def refuse_container(head: bytes, name: str) -> None:
    """Raise DataError for an archive, a picture and the like, by the first bytes of a file."""
    for magic, kind, hint in _MAGIC:
        if head.startswith(magic):
            raise DataError(f"{name} is {kind}.", hint)
    if _PICKLE.match(head):
        what = f"{name} is a Python pickle, not a text table; it is never loaded."
        raise DataError(what, "Save the table as CSV or Parquet.")


def refuse_text(text: str, name: str) -> None:
    """Raise DataError for no table: nothing, a web page, XML, or bytes in disguise."""
    head = text[:20_000]
    if not head.strip() and not text.strip():
        raise nothing_in(name)
    if _PAGE.match(head):
        what = f"{name} is a web page, not a table."
        raise DataError(what, "Download the file itself (on GitHub: Raw).", line=1)
    if _XML.match(head):
        raise DataError(f"{name} is XML, not a table.", _EXPORT, line=1)
    strange = sum(letter < " " and letter not in "\t\r\n\f" for letter in head)
    if strange > _STRANGE * len(head):
        raise DataError(f"{name} is not a text table.", _TABLE)


# --- Bytes to text: the encoding is never guessed in silence.
#
# charset-normalizer reads hostile/c12_latin1.csv as Nordic, messy/kaggle_spam_latin1.csv as Central
# European, the Japanese of hostile/c17_shiftjis.csv as Korean, and the damaged UTF-8 of
# hostile/c16_invalid_utf8.csv as Baltic; pandas tries UTF-8 and gives up.

# UTF-32 first: its mark begins with that of UTF-16.
_MARKS = (
    (codecs.BOM_UTF8, "utf-8", "UTF-8"),
    (codecs.BOM_UTF32_LE, "utf-32-le", "UTF-32"),
    (codecs.BOM_UTF32_BE, "utf-32-be", "UTF-32"),
    (codecs.BOM_UTF16_LE, "utf-16-le", "UTF-16"),
    (codecs.BOM_UTF16_BE, "utf-16-be", "UTF-16"),
)
_SAVE = "Save it as UTF-8."
_HEAD = 4_096  # bytes
_PIECE = 1_000_000  # an even number: UTF-16 has two bytes a letter
_RUNS = re.compile(rb"[\x80-\xff]+")
_CONTROL = re.compile(rb"[\x00-\x08\x0e-\x1f]")
_MOST_RUNS = 20_000
# Windows-1252: letters, and the signs that stand inside or beside Western European words.
_LETTERS = frozenset(range(0xC0, 0x100)) - {0xD7, 0xF7} | {0x8A, 0x8C, 0x8E, 0x9A, 0x9C, 0x9E, 0x9F}
_LETTERS |= {0xAA, 0xBA, 0xB5}
_NEVER_BESIDE = frozenset((0x83, 0x86, 0x87, 0x88, 0x89, 0x98))  # ƒ † ‡ ˆ ‰ ˜ beside a letter
_SIGNS = frozenset((0x80, 0x84, 0x85, *range(0x91, 0x98), 0xA0, 0xAB, 0xAD, 0xB4, 0xB7, 0xBB))


def _unmarked_utf16(raw: bytes) -> str:
    """UTF-16 without a mark: every other byte of much of it is zero."""
    zeros = raw.count(0)
    if zeros * 20 < len(raw) or len(raw) % 2:
        return ""
    odd = raw[1::2].count(0)
    if odd >= 0.95 * zeros:
        return "utf-16-le"
    return "utf-16-be" if odd <= 0.05 * zeros else ""


def _check_western(raw: bytes, name: str, start: int) -> Finding:
    """Return a warning of Windows-1252; raise DataError for bytes that may be anything else."""
    line = len(re.findall(rb"\r\n|\r|\n", raw[:start])) + 1
    lenient = raw.decode("utf-8", "replace")
    broken = lenient.count("\ufffd")
    if sum(map(len, re.findall(r"[^\x00-\x7f]+", lenient))) - broken >= broken:
        what = f"{name} is UTF-8 with damaged letters, the first on line {line}."
        raise DataError(what, "Mend that line, or save the file as UTF-8 again.", line=line)
    try:
        raw.decode("cp1252")
        fits = True
    except UnicodeDecodeError:
        fits = False
    # Bytes beyond ASCII stand where Western European letters and signs stand.
    runs = list(islice(_RUNS.finditer(raw), _MOST_RUNS))
    if not fits or sum(_is_odd(raw, run) for run in runs) > 0.1 * len(runs):
        control = len(_CONTROL.findall(raw, 0, _HEAD))
        if control > _BINARY * min(len(raw), _HEAD):
            raise DataError(f"{name} is not a text table.", _TABLE)
        what = f"{name} is not UTF-8 (line {line}), and in what else it was saved is not certain."
        raise DataError(what, _SAVE, line=line)
    says = (
        f"{name} is not UTF-8; it was read as Windows-1252 (Western European), the first such "
        f"letter on line {line}. If letters look wrong, save it as UTF-8."
    )
    return finding("encoding", says, [line])


def _is_odd(raw: bytes, run: re.Match[bytes]) -> bool:
    """Return True if a run is too long, or a sign stands within a word, as in other encodings."""
    letters = [byte for byte in run.group() if byte not in _SIGNS]
    before = raw[run.start() - 1 : run.start()].isalpha()
    after = raw[run.end() : run.end() + 1].isalpha()
    if len(letters) > 2 or ((before or after) and not _NEVER_BESIDE.isdisjoint(letters)):
        return True
    return before and after and any(byte not in _LETTERS for byte in letters)


def _text_of(path: Path, name: str) -> TextSource:
    """Return a file as lines of text in its encoding; or raise DataError."""
    codec, mark, notes, findings = _encoding(path, name)

    def lines() -> Iterator[str]:
        with path.open("rb") as file:
            file.seek(mark)
            with io.TextIOWrapper(file, encoding=codec, newline="") as text:
                yield from text

    facts = Delimited(
        line_end="\r\n" if next(lines(), "").endswith("\r\n") else "\n",
        mark=mark > 0 or codec != "utf-8",  # a spreadsheet wrote it, and needs the mark to read one
    )
    head = head_of(lines())
    refuse_text(head, name)
    return TextSource(lines=lines, head=head, facts=facts, notes=notes, findings=findings)


def _encoding(path: Path, name: str) -> tuple[str, int, list[str], list[Finding]]:
    """Return how a file is encoded, how long its mark is, notes and warnings.

    It is decided on all of it, a piece at a time: as its mark says, UTF-8, UTF-16 or Windows-1252.

    Raises:
        DataError: It is none of these; names the line.
    """
    with path.open("rb") as file:
        head = file.read(max(len(mark) for mark, _, _ in _MARKS))
        marked = next((each for each in _MARKS if head.startswith(each[0])), None)
        mark, codec, title = marked or (b"", "utf-8", "UTF-8")
        file.seek(len(mark))
        fits, zeros, size = _fits(file, codec)
    notes = [] if title == "UTF-8" else [f"Read as {title}."]
    if fits and (marked or zeros * 20 < size or size % 2):
        return codec, len(mark), notes, []
    raw = path.read_bytes()[len(mark) :]
    if not marked and (unmarked := _unmarked_utf16(raw)):
        codec, title, notes = unmarked, "UTF-16", ["Read as UTF-16."]
    try:
        raw.decode(codec)
    except UnicodeDecodeError as error:
        if title == "UTF-8" and not marked:
            note = "Read as Windows-1252, not UTF-8."
            return "cp1252", 0, [note], [_check_western(raw, name, error.start)]
        before = raw[: error.start].decode(codec, "ignore")
        line = len(re.findall(r"\r\n|\r|\n", before)) + 1
        what = f"{name} begins like {title} but is damaged on line {line}."
        raise DataError(what, _SAVE, line=line) from None
    return codec, len(mark), notes, []


def _fits(file: BinaryIO, codec: str) -> tuple[bool, int, int]:
    """Return if the rest of a file is in an encoding, and its zero and all bytes up to an error."""
    decoder = codecs.getincrementaldecoder(codec)()
    zeros = size = 0
    try:
        while piece := file.read(_PIECE):
            zeros, size = zeros + piece.count(0), size + len(piece)
            decoder.decode(piece)
        decoder.decode(b"", final=True)
    except UnicodeDecodeError:
        return False, zeros, size
    return True, zeros, size


# --- A folder as `datasets` saves it: one data set, or one for each of train, validation and test.

_MOST_FILES = 1_000
SPLIT = "split"
_KNOWN = "Choose a folder made by save_to_disk, or one with Parquet files named train, test."


def _parts_of(folder: Path) -> tuple[list[tuple[Path, str]], str, str]:
    """Return the files of a folder with their splits, its name, and the name of a split column."""
    limits = current_limits()
    name = short(folder.name, 60)
    files = _files(folder)
    if not files:
        raise DataError(f"The folder {name} holds no data set.", _KNOWN)
    if len(files) > _MOST_FILES:
        what = f"The folder {name} has {len(files):,} files; at most {_MOST_FILES} are read."
        raise LimitError(what, "Choose a part of it.")
    size = sum(path.stat().st_size for path, _ in files)
    if size > limits.upload_bytes:
        most = limits.upload_bytes // 1_000_000
        what = f"The folder {name} is larger than the {most:,} MB that this place reads."
        raise LimitError(what, "Choose a part of it.")
    return files, name, SPLIT if all(part for _, part in files) else ""


def _files(folder: Path) -> list[tuple[Path, str]]:
    """Return the data files of a folder, each with the split it belongs to, or ""."""
    if (folder / "state.json").is_file():
        return [(folder / name, "") for name in _listed(folder / "state.json", "_data_files")]
    parts = folder / "dataset_dict.json"
    if parts.is_file():
        return [
            (folder / part / name, part)
            for part in _listed(parts, "splits")
            for name in _listed(folder / part / "state.json", "_data_files")
        ]
    return [
        # As in train-00000-of-00001.parquet.
        (path, next((word for word in re.split(r"[-_.]", path.stem) if word.lower() in PARTS), ""))
        for parent in (folder, folder / "data")
        for path in sorted(parent.glob("*"))
        if path.is_file() and path.suffix in (".parquet", ".arrow")
    ]


def _listed(path: Path, key: str) -> list[str]:
    """Return the names of files in a JSON file, none of which leads out of its folder."""
    place = path.parent.name
    try:
        found = json.loads(path.read_text("utf-8"))[key]
        names: list[Any] = [one.get("filename") if isinstance(one, dict) else one for one in found]
    except (OSError, ValueError, KeyError, TypeError, RecursionError):
        raise DataError(f"{place}/{path.name} is missing or damaged.", _KNOWN) from None
    for name in names:
        if not isinstance(name, str) or name in ("", ".", "..") or set(name) & set("/\\\0"):
            raise DataError(f"{place} names a file outside its folder.", _KNOWN)
    return names


def place_of(data: str | Path) -> Path:
    """Return the file of a sample, or the one at a path; raise DataError if there is neither."""
    if str(data) in SAMPLES:
        return SAMPLES[str(data)].path
    path = Path(data)
    with suppress(OSError, ValueError):  # no name that a file can have
        if path.exists():
            return path
    what = f"There is no file and no sample called {short(str(data), 80)}."
    hint = f"Samples are {', '.join(SAMPLES)}; or give the path of a file."
    if re.fullmatch(r"[\w.-]+/[\w-]+", str(data)) and (schemes := plugins.list_data_sources()):
        names = " or ".join(f"{scheme}:{data}" for scheme in schemes)
        hint = f"If it is a data set that must be fetched, write {names}."
    raise DataError(what, hint)


_LINES = (".txt", ".text", ".log")  # files whose lines may be texts, and no rows of cells


def open_table(path: Path, header: bool | None = None, *, of_labels: bool = False) -> Table:
    """Read a CSV, TSV, JSON, Parquet, Excel or NumPy file, or a folder of `datasets`, as cells.

    Args:
        header: Whether the first line names the columns; None finds out.
        of_labels: Whether an array of NumPy holds labels, not vectors.

    Raises:
        DataError: It is no such file, or it is damaged; names the line.
        LimitError: It holds more than this place allows.
    """
    name = short(path.name, 60)
    with _readable(name):
        form = _form_of(path, name)
        if form == "numpy":
            return numpy_files.read_numpy(path, name, of_labels=of_labels)
        if form != "folder":
            _check_bytes(path, name)
        if form in _COLUMNAR:
            return read_columnar(*_columnar_parts(path, name, form))
        if form == "excel":
            return read_excel(path, header)
        source = _text_of(path, name)
        if is_json(source.head, path.suffix.lower()):
            table = read_objects(source, name)
        else:
            table = read_delimited(source, name, header)
    vectors = {
        table.columns[at]: partial(
            of_cells,
            [row[at] for row in table.rows],
            f"'{short(table.columns[at])}' of {table.name}",
        )
        for at in vector_places(table)
    }
    notes, findings = (*source.notes, *table.notes), (*source.findings, *table.findings)
    return replace(table, notes=notes, findings=findings, vectors=vectors)


def open_stream(
    path: Path,
    header: bool | None = None,
    known: Collection[str] = (),
    *,
    of_lines: bool = False,
) -> TableStream:
    """Look through any file that `open_table` reads, to read it again row by row.

    No row is left out: each comes, with the reason why it cannot be used.

    Args:
        header: Whether the first line names the columns; None finds out.
        known: Names of columns: a first row that holds one names all of them.
        of_lines: Whether each line is one text, whatever signs it holds.

    Raises:
        DataError: It is no such file, or it is damaged; names the line.
        LimitError: It holds more than this place allows.
    """
    name = short(path.name, 60)
    with _readable(name):
        form = _form_of(path, name)
        if form in _COLUMNAR:
            return stream_columnar(*_columnar_parts(path, name, form))
        if form == "excel":
            return stream_excel(path, header, known)
        _check_bytes(path, name)
        source = _text_of(path, name)
        ending = path.suffix.lower()
        if not of_lines and is_json(source.head, ending):
            stream = stream_objects(source, name)
        else:
            stream = stream_delimited(
                source, name, header, known, of_lines=of_lines,
                may_be_lines=ending in _LINES,
            )  # fmt: skip
    sample = replace(stream.sample, findings=(*source.findings, *stream.sample.findings))
    return replace(stream, sample=sample, notes=(*source.notes, *stream.notes))


Form = Literal["folder", "parquet", "numpy", "excel", "text"]
_COLUMNAR = {
    "folder": "Read as a folder of the datasets library.",
    "parquet": "Read as Parquet.",
    "numpy": "Read as arrays of NumPy.",
}


def _columnar_parts(
    path: Path, name: str, form: Form
) -> tuple[Sequence[tuple[Path, str]], str, str, str]:
    """Return files with their splits, their name, how they are read, and a split column's name."""
    files, split = [(path, "")], ""
    if form == "folder":
        files, name, split = _parts_of(path)
    return files, name, _COLUMNAR[form], split


def _form_of(path: Path, name: str) -> Form:
    """Return what a file is by its first bytes, or raise DataError for what is never opened."""
    if path.is_dir():
        return "folder"
    if path.exists() and not path.is_file():
        raise DataError(f"{name} cannot be read (not a file).", "Choose a file.")
    with path.open("rb") as file:
        head = file.read(_HEAD)
    if head.startswith(parquet_files.MAGIC):
        return "parquet"
    if numpy_files.is_numpy(path):
        return "numpy"
    if head.startswith(excel_files.MAGIC):
        return "excel"
    refuse_container(head, name)  # before the size: what it is says more
    return "text"


@contextmanager
def _readable(name: str) -> Iterator[None]:
    """Within it, a file that the disk does not give is said to be unreadable."""
    try:
        yield
    except OSError as error:
        what = f"{name} cannot be read ({error.strerror or 'unknown reason'})."
        raise DataError(what, "Check the file.") from None


def _check_bytes(path: Path, name: str) -> None:
    most = current_limits().upload_bytes
    if path.stat().st_size > most:
        what = f"{name} is larger than the {most // 1_000_000:,} MB allowed."
        raise LimitError(what, "Choose a smaller file, or a part of the rows.")
