"""Makes our model known to Transformers once somebody imports its auto classes.

``import heads`` stays light: Transformers is not imported for this, but watched for.
"""

import importlib
import sys
import threading
import warnings
from collections.abc import Callable, Sequence
from importlib.machinery import ModuleSpec, PathFinder, SourceFileLoader
from types import ModuleType
from typing import Any

CONFIG, MODEL = (f"transformers.models.auto.{name}_auto" for name in ("configuration", "modeling"))
# Our classes need all of these, and some of these import others of them.
WATCHED = CONFIG, MODEL, "transformers.models.auto.auto_factory", "transformers.modeling_utils"
CLASSES = {
    "heads.classifier.modeling_head_to_head": "HeadConfig",
    "heads.classifier.head_model": "HeadForSequenceClassification",
}

_imported: set[str] = set()  # of those that are watched, whole
_here = threading.local()  # importing our classes imports what is watched for


class _Finder:
    """Finds the watched modules as anybody would, and registers our classes behind them."""

    def find_spec(
        self, name: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        spec = PathFinder.find_spec(name, path, target) if name in WATCHED else None
        if spec is None or not isinstance(spec.loader, SourceFileLoader):
            return None
        spec.loader.exec_module = _then_register(spec.loader.exec_module, name)
        return spec


def _then_register(run: Callable[[ModuleType], None], name: str) -> Any:
    def run_and_register(module: ModuleType) -> None:
        run(module)
        _imported.add(name)
        _register()

    return run_and_register


def _register() -> None:
    """Register our classes with those of the auto classes that are there."""
    is_half = any(name in sys.modules and name not in _imported for name in WATCHED)
    is_half |= any(n in sys.modules and not hasattr(sys.modules[n], c) for n, c in CLASSES.items())
    if getattr(_here, "is_registering", False) or is_half or CONFIG not in _imported:
        return  # this is called again at the end of what is being imported
    _here.is_registering = True
    try:
        modeling, extended = CLASSES
        config = importlib.import_module(modeling).HeadConfig
        sys.modules[CONFIG].AutoConfig.register(config.model_type, config, exist_ok=True)
        if MODEL in _imported:
            model = importlib.import_module(extended).HeadForSequenceClassification
            auto = sys.modules[MODEL].AutoModelForSequenceClassification
            auto.register(config, model, exist_ok=True)
    except ImportError as error:  # somebody is in the middle of importing what our classes need
        if _imported.issuperset(WATCHED):
            what = f"Transformers does not know HeadForSequenceClassification: {error}"
            warnings.warn(what, RuntimeWarning, stacklevel=2)
    finally:
        _here.is_registering = False


_finder = _Finder()


def register() -> None:
    """Register the classes now, or as soon as Transformers' auto classes are imported."""
    if _finder not in sys.meta_path:
        sys.meta_path.insert(0, _finder)
    for name in WATCHED:
        if name in sys.modules:
            if _is_half(name):  # in another thread: this waits for it
                importlib.import_module(name)
            if not _is_half(name):
                _imported.add(name)
    _register()


def _is_half(name: str) -> bool:
    """Return True while a module is being imported."""
    return bool(getattr(sys.modules[name].__spec__, "_initializing", False))


def cancel() -> None:
    """Leave Transformers as it is, in a process that loads no models."""
    if _finder in sys.meta_path:
        sys.meta_path.remove(_finder)
