"""Lets Gradio be imported in half the time; imported before it.

At every import Gradio parses the source of each of its components and writes a stub beside it, for
editors. Nothing reads those stubs while the page runs, so here they are left as they are. Nor does
Python look for garbage meanwhile: of what an import makes, nothing is.
"""

import gc
import sys
from collections.abc import Sequence
from importlib.machinery import ModuleSpec, PathFinder
from types import ModuleType

WRITES, NAME = "gradio.component_meta", "create_or_modify_pyi"


class Finder:
    """Finds the one module that writes stubs, and leaves its writer without work."""

    def find_spec(
        self, name: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        """The module as it is, but for that function; of any other nothing is known here."""
        spec = PathFinder.find_spec(name, path, target) if name == WRITES else None
        if spec is None or spec.loader is None:
            return None
        run = spec.loader.exec_module

        def without_stubs(module: ModuleType) -> None:
            run(module)
            if hasattr(module, NAME):
                setattr(module, NAME, lambda *_: None)

        spec.loader.exec_module = without_stubs
        return spec


def settle() -> None:
    """Ends what this module began: from here on there is garbage, but not among the imported."""
    gc.freeze()
    gc.enable()


if WRITES not in sys.modules:
    sys.meta_path.insert(0, Finder())
gc.disable()
