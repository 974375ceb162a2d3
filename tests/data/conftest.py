"""Folders and files that the tests of data share."""

from collections.abc import Callable
from pathlib import Path

import pytest


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder for all examples of a property: a fixture of one test cannot be remade for each."""
    return tmp_path_factory.mktemp("examples")


@pytest.fixture
def write(tmp_path: Path) -> Callable[..., Path]:
    def to(content: str | bytes, name: str = "table.csv") -> Path:
        path = tmp_path / name
        path.write_bytes(content.encode("utf-8") if isinstance(content, str) else content)
        return path

    return to
