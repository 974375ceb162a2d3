"""Some of the different texts of a run, and where on disk what they gave is kept."""

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from safetensors import SafetensorError, safe_open
from torch import Tensor

from heads.caching import foreign_code, used, write_tensors
from heads.parts.resolved import Order
from heads.pipeline.vectors import Part
from heads.settings import cache_folder


@dataclass(frozen=True, slots=True, kw_only=True)
class Chunk:
    """Some of the different texts, and where what they give is kept."""

    texts: Sequence[str]
    pairs: Sequence[str]
    folder: Path

    def place(self, order: Order) -> Path:
        """The file of a reading; parts of the user's own bring their code into its name."""
        name = order.reading + "".join(map(foreign_code, makers(order)))
        return self.folder / f"{hashlib.sha256(name.encode()).hexdigest()[:24]}.safetensors"

    @property
    def facts(self) -> Path:
        """The file of token counts."""
        return self.folder / "tokens.safetensors"

    @property
    def says(self) -> str:
        """How it was read, in the words of the run that read it; "" where nothing is kept."""
        try:
            with safe_open(self.facts, framework="pt") as file:
                return (file.metadata() or {}).get("says", "")
        except (OSError, SafetensorError):
            return ""


def makers(order: Order) -> list[Any]:
    """What makes the parts that read."""
    return [order.pooling.make, *([order.layers.make] if order.layers else [])]


def is_kept(path: Path) -> bool:
    """Whether a file is there and whole; that makes it one of the last to go."""
    try:
        with safe_open(path, framework="pt") as file:
            file.keys()
    except (OSError, SafetensorError):
        return False
    used(path)
    return True


def put(path: Path, tensors: dict[str, Tensor], says: str = "") -> Part:
    """Keeps tensors on disk; where that fails, in memory."""
    try:
        write_tensors(path, tensors, {"says": says})
    except OSError:
        return tensors
    return path


def home_of(what: str) -> Path:
    """Where features, or token states, are kept."""
    return cache_folder() / what
