"""What tests of features share: recipes by their reading, and the features that a pass ends in."""

from collections.abc import Iterator

import pytest

from heads.events import Progress
from heads.features import text_store
from heads.features.store import FeatureMatrices
from heads.features.text_store import TextStore


def forget_memory(patch: pytest.MonkeyPatch) -> None:
    """Forget the features that this process has in memory, as another process would."""
    patch.setattr(text_store, "_store", TextStore())


def recipe_of(reading: str) -> str:
    """Return the recipe of a linear head behind a reading with options."""
    name, mark, options = reading.partition("?")
    return f"{name}+linear{mark}{options}"


def last(events: Iterator[Progress | FeatureMatrices]) -> FeatureMatrices:
    """Return the features that a pass ends in."""
    *_, found = events
    assert isinstance(found, FeatureMatrices)
    return found
