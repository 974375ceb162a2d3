"""What tests of runs share: a folder of their own, and little training."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from few_runs import training_little


@pytest.fixture(autouse=True)
def _own_runs(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("HEADS_RUNS", str(tmp_path / "runs"))


@pytest.fixture
def little() -> Iterator[None]:
    """Few steps and rows: for tests that are not about quality."""
    with training_little():
        yield
