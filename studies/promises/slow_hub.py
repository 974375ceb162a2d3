"""A Hub of one's own on the loopback that takes its time: the one that the tests ask."""

import importlib
import sys
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

SUPPORT = Path(__file__).parents[2] / "tests" / "support"
SECONDS = 20.0  # until it answers


@contextmanager
def slow_hub(names: Sequence[str], seconds: float = SECONDS) -> Iterator[Any]:
    """A running Hub with models of these names, each of which is long in coming and has no files.

    Yields:
        It; see `fake_hub.Hub` of the tests.
    """
    sys.path.append(str(SUPPORT))
    try:
        fake_hub = importlib.import_module("fake_hub")
    finally:
        sys.path.remove(str(SUPPORT))
    with tempfile.TemporaryDirectory() as empty, fake_hub.serving() as hub:
        for name in names:
            hub.models[name] = fake_hub.Repository(
                folder=Path(empty), claims={"model.safetensors": 1_000}, seconds=seconds
            )
        yield hub


def online(hub: Any) -> dict[str, str]:
    """What an app needs in its environment to ask that Hub."""
    return {"HF_ENDPOINT": hub.address, "HF_HUB_OFFLINE": "0"}
