"""The command line."""

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from heads.interfaces.cli import tables

__all__ = ["tables"]


def __getattr__(name: str) -> Any:
    """Tables are there when one is shown: what they show comes with torch, which takes a second."""
    if name != "tables":
        raise AttributeError(name)
    return importlib.import_module(f"{__name__}.{name}")
