"""The command line."""

import importlib
from typing import TYPE_CHECKING, Any

from heads.settings import use_storage

if TYPE_CHECKING:
    from heads.interfaces.cli import tables

use_storage()  # before the Hub's client is imported

__all__ = ["tables"]


def __getattr__(name: str) -> Any:
    """Tables are there when one is shown: what they show comes with torch, which takes a second."""
    if name != "tables":
        raise AttributeError(name)
    return importlib.import_module(f"{__name__}.{name}")
