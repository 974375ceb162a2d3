"""A cache of its own for every test of features."""

from pathlib import Path

import pytest
from encoded_texts import forget_memory


@pytest.fixture(autouse=True)
def cache_folder(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """Where this test keeps what it encodes; nothing is there, nor in memory."""
    monkeypatch.setenv("HEADS_CACHE", str(tmp_path / "cache"))
    forget_memory(monkeypatch)
    return tmp_path / "cache"


@pytest.fixture
def home(cache_folder: Path) -> Path:
    """The folder of features in it."""
    return cache_folder / "features"
