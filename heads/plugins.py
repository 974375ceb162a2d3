"""The registry that extras fill: what the core offers beyond itself, found by name.

An extra is a package whose ``EXTRA`` is an `Extra`. Extras are the packages in ``heads/extras`` and
the objects that other packages name in the entry-point group ``heads.plugins``:

    [project.entry-points."heads.plugins"]
    my_extra = "my_package.plugin:EXTRA"

Nothing is imported before it is needed. The core looks for extras only when it is asked for
something that it does not have itself, and an `Extra` names its parts as ``module:attribute``.
"""

from __future__ import annotations

import contextlib
import importlib
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any, Protocol

from heads.errors import HeadsError, did_you_mean

GROUP = "heads.plugins"
_entered = contextlib.ExitStack()


class BaseModelSource(Protocol):
    """Base models that an extra makes or fetches, by the names that begin as it registers."""

    def find(self, name: str) -> tuple[str, Path]:
        """Return the id of a base model as users know it, and its folder, or raise ModelError."""
        ...

    def choices(self) -> list[tuple[str, str]]:
        """Return what a menu of base models offers: titles and ids."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Extra:
    """What an extra adds. Every value is a reference, ``module:attribute``, loaded when it is used.

    Attributes:
        name: The name of the extra.
        summary: One sentence for the list of extras.
        verbs: Functions of the package by their public name: ``heads.NAME``.
        commands: A module whose import registers commands of the shell.
        run_backends: Schedulers of `heads.train_grid` by the name before the colon in ``on``. Each
            takes the whole of ``on`` and returns a `heads.training.scheduler.Scheduler`.
        data_sources: Readers of data by their scheme, such as ``hub`` in ``hub:owner/name``. Each
            takes the name and the limits and returns a `heads.data.table.Table`.
        base_models: `BaseModelSource` objects by the beginning of the names that they resolve.
        result_sections: A tuple of `heads.interfaces.views.sections.ResultSection`.
        lane_sections: A tuple of `heads.interfaces.web.lane_sections.LaneSection`.
        page_sections: A tuple of `heads.interfaces.web.page_sections.PageSection`.
        endpoints: A tuple of endpoints of the page: functions, each with the name of its slots.
        server: A context manager in which a server runs, or with ``is_worker=True`` a process that
            a server starts. It gives the lines that whoever starts the server reads.
        middleware: A function that takes the ASGI application and the page, and returns an ASGI
            application around it.
        admission: A function that takes what somebody wants to store (``"run"``, ``"upload"``,
            ``"export"``), its bytes and the paths of what they have stored already, and raises
            `LimitError` where there is no room. Without one, no server starts in public mode.
    """

    name: str
    summary: str
    verbs: Mapping[str, str] = field(default_factory=dict)
    commands: str = ""
    run_backends: Mapping[str, str] = field(default_factory=dict)
    data_sources: Mapping[str, str] = field(default_factory=dict)
    base_models: Mapping[str, str] = field(default_factory=dict)
    result_sections: str = ""
    lane_sections: str = ""
    page_sections: str = ""
    endpoints: str = ""
    server: str = ""
    middleware: str = ""
    admission: str = ""


@cache
def extras() -> tuple[Extra, ...]:
    """Return all extras that can be loaded: those of the package by name, then installed ones.

    An extra that cannot be loaded is logged and left out.
    """
    import pkgutil  # here, for `import heads` is to stay quick
    from importlib.metadata import entry_points

    references: list[str] = []
    with contextlib.suppress(ImportError):  # the folder was removed
        folder = importlib.import_module("heads.extras").__path__
        names = sorted(module.name for module in pkgutil.iter_modules(folder))
        references += [f"heads.extras.{name}:EXTRA" for name in names]
    references += [entry_point.value for entry_point in entry_points(group=GROUP)]
    found = [extra for extra in map(_load_extra, references) if extra is not None]
    return tuple({extra.name: extra for extra in reversed(found)}.values())[::-1]


def _load_extra(reference: str) -> Extra | None:
    import logging

    log = logging.getLogger("heads")
    try:
        extra = load(reference)
    except Exception as error:  # whatever a package of somebody else does as it is imported
        log.warning("the extra %s cannot be loaded (%s)", reference, type(error).__name__)
        return None
    if isinstance(extra, Extra):
        return extra
    log.warning("the extra %s is no heads.plugins.Extra", reference)
    return None


def load(reference: str) -> Any:
    """Import what a reference names.

    >>> load("math:pi")
    3.141592653589793
    """
    module, _, attribute = reference.partition(":")
    loaded = importlib.import_module(module)
    return getattr(loaded, attribute) if attribute else loaded


def verbs() -> dict[str, str]:
    """Return the references of all verbs by their public names."""
    return {name: verb for extra in reversed(extras()) for name, verb in extra.verbs.items()}


def load_each(part: str) -> list[Any]:
    """Load one part of every extra that has it, such as ``"commands"``."""
    return [load(reference) for extra in extras() if (reference := getattr(extra, part))]


def enter_server(*, is_worker: bool = False) -> list[str]:
    """Enter what extras have around a server, and return the lines for who starts it.

    Raises:
        HeadsError: A setting of the server could never work; whatever was entered is left again.
    """
    lines: list[str] = []
    with contextlib.ExitStack() as stack:
        for server in load_each("server"):
            lines += stack.enter_context(server(is_worker=is_worker))
        global _entered
        _entered = stack.pop_all()
    return lines


def leave_server() -> None:
    """Leave what `enter_server` has entered."""
    _entered.close()


def load_sections(part: str) -> tuple[Any, ...]:
    """Return the sections of all extras as one tuple."""
    return tuple(section for sections in load_each(part) for section in sections)


def load_run_backend(on: str) -> Any:
    """Return the scheduler of a place such as ``name:HOST:PORT``, or raise HeadsError."""
    backends = {name: own for extra in extras() for name, own in extra.run_backends.items()}
    name = on.partition(":")[0]
    if name not in backends:
        what = f"There is no place called '{on[:60]}' where heads are trained."
        raise HeadsError(what, did_you_mean(name, ["here", *backends]))
    return load(backends[name])(on)


def list_data_sources() -> dict[str, str]:
    """Return the references of all readers of data by their schemes."""
    return {scheme: source for extra in extras() for scheme, source in extra.data_sources.items()}


def load_data_source(scheme: str) -> Any:
    """Return the reader of names that begin with a scheme, or None if no extra has it."""
    reference = list_data_sources().get(scheme)
    return load(reference) if reference else None


def find_base_models(name: str) -> BaseModelSource | None:
    """Return the `BaseModelSource` that resolves the name of a base model, or None."""
    for extra in extras():
        for start, reference in extra.base_models.items():
            if name.strip().lower().startswith(start.lower()):
                return load(reference)
    return None


def load_base_models() -> list[BaseModelSource]:
    """Return the `BaseModelSource` objects of all extras."""
    return [load(reference) for extra in extras() for reference in extra.base_models.values()]
