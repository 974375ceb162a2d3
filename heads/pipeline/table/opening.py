"""A file to a `Table`: what it is, in which encoding, with which sign between its cells."""

from dataclasses import replace
from pathlib import Path

from heads.errors import DataError, LimitError
from heads.parts.samples import SAMPLES
from heads.pipeline.table.columnar import read_parquet
from heads.pipeline.table.containers import refuse_container, refuse_text
from heads.pipeline.table.delimited import read_delimited
from heads.pipeline.table.encoding import decode
from heads.pipeline.table.folder import read_folder
from heads.pipeline.table.objects import is_json, read_objects
from heads.pipeline.table.sheet import Table, short
from heads.settings import Limits

_HEAD = 4_096


def place_of(data: str | Path) -> Path:
    """The file of a sample, or the one at a path.

    Raises:
        DataError: There is neither.
    """
    if str(data) in SAMPLES:
        return SAMPLES[str(data)].path
    place = Path(data)
    try:
        found = place.exists()
    except (OSError, ValueError):  # no name that a file can have
        found = False
    if not found:
        what = f"There is no sample and no file called {short(str(data), 80)}."
        raise DataError(what, f"Samples are {', '.join(SAMPLES)}; or give the path of a file.")
    return place


def open_table(path: Path, limits: Limits, header: bool | None = None) -> Table:
    """Reads a CSV, TSV, JSONL, JSON or Parquet file, or a folder saved by `datasets`, as cells.

    Args:
        header: Whether the first line names the columns; None finds out.

    Raises:
        DataError: It is no such file, or it is damaged; names the line.
        LimitError: It holds more than this place allows.
    """
    name = short(path.name, 60)
    try:
        if path.is_dir():
            return read_folder(path, limits)
        raw = _bytes(path, name, limits)
    except OSError as error:
        what = f"{name} cannot be read ({error.strerror or 'unknown reason'})."
        raise DataError(what, "Check the file.") from None
    if raw.startswith(b"PAR1"):
        return read_parquet(path, limits)
    refuse_container(raw[:_HEAD], name)
    text, notes, findings = decode(raw, name)
    del raw
    refuse_text(text, name)
    if is_json(text, path.suffix.lower()):
        table = read_objects(text, name, limits)
    else:
        table = read_delimited(text, name, limits, header)
    return replace(table, notes=(*notes, *table.notes), findings=(*findings, *table.findings))


def _bytes(path: Path, name: str, limits: Limits) -> bytes:
    """The whole file, if it is one and not too large."""
    if path.exists() and not path.is_file():
        raise DataError(f"{name} cannot be read (not a file).", "Choose a file.")
    with path.open("rb") as file:
        raw = file.read(min(limits.upload_bytes, _HEAD))
        refuse_container(raw, name)  # before the size: what it is says more
        raw += file.read(limits.upload_bytes + 1 - len(raw))
    if len(raw) > limits.upload_bytes:
        what = f"{name} is larger than the {limits.upload_bytes // 1_000_000:,} MB allowed."
        raise LimitError(what, "Choose a smaller file, or a part of the rows.")
    return raw
