"""Head to Head: compare the classification heads that one can put on a transformer.

Public names are loaded on first use, so that ``import heads`` stays light.
"""

import importlib
from typing import TYPE_CHECKING, Any

from heads import registration

__version__ = "0.1.0"

_HOME = {
    "compare": ".api",
    "Comparison": ".interpret.comparison",
    "explain": ".api",
    "difference": ".api",
    "Explanation": ".interpret.explanation",
    "train": ".api",
    "predict": ".api",
    "evaluate": ".api",
    "read": ".api",
    "train_grid": ".api",
    "resume": ".api",
    "Leaderboard": ".runs.leaderboard",
    "ExperimentConfig": ".settings",
    "CompareOptions": ".options",
    "TrainOptions": ".options",
    "PredictOptions": ".options",
    "EvaluateOptions": ".options",
    "Columns": ".data.table",
    "load": ".api",
    "Classifier": ".classifier.classifier",
    "calibrated": ".api",
    "export": ".api",
    "export_onnx": ".api",
    "for_transformers": ".api",
    "HeadForSequenceClassification": ".classifier.head_model",
    "HeadConfig": ".classifier.head_model",
    "HeadClassifier": ".interfaces.estimators",
    "HeadRegressor": ".interfaces.estimators",
    "catalogue": ".api",
    "examine": ".api",
    "Inspector": ".api",
    "pooling": ".parts.resolve",
    "head": ".parts.resolve",
    "Pooled": ".parts.pooled",
    "chain": ".parts.modules",
    "Recipe": ".recipe",
    "HeadsError": ".errors",
    "Limits": ".settings",
    "use_limits": ".settings",
}

__all__ = [*_HOME, "__version__"]  # pyright: ignore[reportUnsupportedDunderAll]

if TYPE_CHECKING:
    from heads.api import (
        Inspector,
        calibrated,
        catalogue,
        compare,
        difference,
        evaluate,
        examine,
        explain,
        export,
        export_onnx,
        for_transformers,
        load,
        predict,
        read,
        resume,
        train,
        train_grid,
    )
    from heads.classifier.classifier import Classifier
    from heads.classifier.head_model import HeadConfig, HeadForSequenceClassification
    from heads.data.table import Columns
    from heads.errors import HeadsError
    from heads.interfaces.estimators import HeadClassifier, HeadRegressor
    from heads.interpret.comparison import Comparison
    from heads.interpret.explanation import Explanation
    from heads.options import CompareOptions, EvaluateOptions, PredictOptions, TrainOptions
    from heads.parts.modules import chain
    from heads.parts.pooled import Pooled
    from heads.parts.resolve import head, pooling
    from heads.recipe import Recipe
    from heads.runs.leaderboard import Leaderboard
    from heads.settings import ExperimentConfig, Limits, use_limits


registration.register()


def __getattr__(name: str) -> Any:
    if name in _HOME:
        value = getattr(importlib.import_module(_HOME[name], __name__), name)
    else:
        value = _load_verb(name)
    globals()[name] = value
    return value


def _load_verb(name: str) -> Any:
    """Load a verb of an extra, or raise AttributeError."""
    import importlib.util

    # ``from heads import api`` asks for the name before it imports the module: no extra is needed.
    if not (name.startswith("_") or "." in name or importlib.util.find_spec(f"heads.{name}")):
        plugins = importlib.import_module("heads.plugins")
        if name in (verbs := plugins.verbs()):
            return plugins.load(verbs[name])
    raise AttributeError(f"module 'heads' has no attribute '{name}'")


def __dir__() -> list[str]:
    return sorted({*__all__, *importlib.import_module("heads.plugins").verbs()})
