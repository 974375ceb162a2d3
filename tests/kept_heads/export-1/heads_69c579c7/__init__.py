"""Head to Head: compare the classification heads that one can put on a transformer.

Public names are loaded on first use, so that ``import heads`` stays light.
"""

import importlib
from typing import TYPE_CHECKING, Any

__version__ = "0.1.0"

_HOME = {
    "compare": ".api",
    "Comparison": ".analysis.comparison",
    "explain": ".api",
    "difference": ".api",
    "Explanation": ".analysis.explanation",
    "train": ".api",
    "read": ".api",
    "train_grid": ".api",
    "resume": ".api",
    "Leaderboard": ".runs.leaderboard",
    "ExperimentConfig": ".settings",
    "Columns": ".data.table",
    "load": ".api",
    "Classifier": ".classifier.classifier",
    "calibrated": ".api",
    "export": ".api",
    "export_onnx": ".api",
    "catalogue": ".api",
    "examine": ".api",
    "Inspector": ".api",
    "pooling": ".parts.resolve",
    "head": ".parts.resolve",
    "Pooled": ".parts.poolings",
    "chain": ".parts.modules",
    "Recipe": ".recipe",
    "HeadsError": ".errors",
    "Limits": ".settings",
}

__all__ = [*_HOME, "__version__"]  # pyright: ignore[reportUnsupportedDunderAll]

if TYPE_CHECKING:
    from heads_69c579c7.analysis.comparison import Comparison
    from heads_69c579c7.analysis.explanation import Explanation
    from heads_69c579c7.api import (
        Inspector,
        calibrated,
        catalogue,
        compare,
        difference,
        examine,
        explain,
        export,
        export_onnx,
        load,
        read,
        resume,
        train,
        train_grid,
    )
    from heads_69c579c7.classifier.classifier import Classifier
    from heads_69c579c7.data.table import Columns
    from heads_69c579c7.errors import HeadsError
    from heads_69c579c7.parts.modules import chain
    from heads_69c579c7.parts.poolings import Pooled
    from heads_69c579c7.parts.resolve import head, pooling
    from heads_69c579c7.recipe import Recipe
    from heads_69c579c7.runs.leaderboard import Leaderboard
    from heads_69c579c7.settings import ExperimentConfig, Limits


def __getattr__(name: str) -> Any:
    if name not in _HOME:
        raise AttributeError(f"module 'heads' has no attribute '{name}'")
    value = getattr(importlib.import_module(_HOME[name], __name__), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted(__all__)
