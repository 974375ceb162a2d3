"""A folder as `datasets` saves it: one data set, or one for each of train, validation and test.

The files are read as Arrow and Parquet, so `datasets` itself need not be installed.
"""

import json
from pathlib import Path

from heads.errors import DataError, LimitError
from heads.pipeline.table.columnar import Gathered
from heads.pipeline.table.names import PARTS
from heads.pipeline.table.sheet import Table, short
from heads.settings import Limits

_MOST_FILES = 1_000
_SPLIT = "split"
_KNOWN = "Choose a folder made by save_to_disk, or one with Parquet files named train, test."


def read_folder(folder: Path, limits: Limits) -> Table:
    """Reads a folder saved by `datasets`; its splits become a column called split.

    Raises:
        DataError: It is no such folder, or a part of it is damaged.
        LimitError: It holds more than this place allows.
    """
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
    splits = all(split for _, split in files)
    found = Gathered(name, limits)
    for path, split in files:
        read = found.add_parquet if path.suffix == ".parquet" else found.add_arrow
        read(path, [split] if splits else ())
    if splits and _SPLIT in found.columns:
        what = f"The folder {name} has splits and a column called {_SPLIT}."
        raise DataError(what, "Rename the column.")
    return found.table([_SPLIT] if splits else (), ("Read as a folder of the datasets library.",))


def _files(folder: Path) -> list[tuple[Path, str]]:
    """The data files of a folder, each with the split it belongs to, or ""."""
    state = folder / "state.json"
    if state.is_file():
        return [(path, "") for path in _saved(folder)]
    parts = folder / "dataset_dict.json"
    if parts.is_file():
        names = _listed(parts, "splits")
        return [(path, name) for name in names for path in _saved(folder / name)]
    places = [folder, folder / "data"]
    found = [path for place in places for path in sorted(place.glob("*")) if _is_data(path)]
    return [(path, _split_of(path)) for path in found]


def _saved(folder: Path) -> list[Path]:
    names = [
        entry.get("filename") if isinstance(entry, dict) else None
        for entry in _listed(folder / "state.json", "_data_files")
    ]
    return [folder / _plain_name(name, folder) for name in names]


def _listed(path: Path, key: str) -> list:
    try:
        found = json.loads(path.read_text("utf-8"))[key]
    except (OSError, ValueError, KeyError, TypeError, RecursionError):
        found = None
    if not isinstance(found, list):
        raise DataError(f"{path.parent.name}/{path.name} is missing or damaged.", _KNOWN)
    if key == "splits":
        return [_plain_name(name, path.parent) for name in found]
    return found


def _plain_name(name: object, folder: Path) -> str:
    """A name that stays inside the folder."""
    if not isinstance(name, str) or name in ("", ".", "..") or set(name) & set("/\\\0"):
        raise DataError(f"{folder.name} names a file outside its folder.", _KNOWN)
    return name


def _is_data(path: Path) -> bool:
    return path.is_file() and path.suffix in (".parquet", ".arrow")


def _split_of(path: Path) -> str:
    """The split in a name such as train-00000-of-00001.parquet."""
    words = path.stem.replace("_", "-").replace(".", "-").split("-")
    return next((word for word in words if word.lower() in PARTS), "")
