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
import traceback
from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from functools import cache, lru_cache
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
            takes the whole of ``on`` and returns a `heads.training.scheduler.Scheduler`, which may
            call `heads.training.scheduler.run_trials` for what it does not do itself.
        data_sources: Readers of data by their scheme, such as ``hub`` in ``hub:owner/name``. Each
            takes the whole name, and returns a `heads.data.table.Table` of texts or raises
            `DataError`; `heads.settings.current_limits` says how large it may be.
        base_models: `BaseModelSource` objects by the beginning of the names that they resolve,
            whose case does not count.
        result_sections: A tuple of `heads.interfaces.views.sections.ResultSection`.
        lane_sections: A tuple of `heads.interfaces.web.lane_sections.LaneSection`.
        page_sections: A tuple of `heads.interfaces.web.page_sections.PageSection`.
        endpoints: A tuple of endpoints of the page: pairs of a function, all of whose arguments
            are annotated, and the name of the slots in which it runs: ``"infer"`` for quick ones,
            ``"inspect"`` for slow ones; see `heads.interfaces.web.slots.pools`.
        server: A function that returns a context manager, ``server(is_worker=...)``: entered before
            the page is built, or with ``is_worker=True`` in a process that trains for the page. It
            gives the lines that whoever starts the server reads. It is left after an error and at
            the end of a worker, but not when a page ends, whose threads may still write.
        middleware: A function that takes the ASGI application and the page, and returns an ASGI
            application around it.
        admission: A function that takes what somebody wants to store (``"run"``, ``"upload"``,
            ``"export"``), its bytes and the paths of what they have stored already, and raises
            `LimitError` where there is no room. Without one, no server starts in public mode, so
            register none that lets everybody in.
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

    An extra that cannot be loaded, or has the name of one before it, is logged and left out.
    """
    import pkgutil  # here, for `import heads` is to stay quick
    from importlib.metadata import entry_points

    references: list[str] = []
    with contextlib.suppress(ImportError):  # the folder was removed
        folder = importlib.import_module("heads.extras").__path__
        names = sorted(module.name for module in pkgutil.iter_modules(folder))
        references += [f"heads.extras.{name}:EXTRA" for name in names]
    references += [entry_point.value for entry_point in entry_points(group=GROUP)]
    loaded: dict[str, Extra] = {}
    for reference in dict.fromkeys(references):
        try:
            extra = load(reference)
        except (Exception, SystemExit) as error:  # whatever somebody else's package does
            log_once(f"The extra {reference} cannot be loaded ({describe_error(error)}).")
            continue
        if not isinstance(extra, Extra):
            log_once(f"The extra {reference} is no heads.plugins.Extra.")
        elif loaded.setdefault(extra.name, extra) is not extra:
            log_once(f"The extra {reference} is left out: there is one called '{extra.name}'.")
    return tuple(loaded.values())


def describe_error(error: BaseException) -> str:
    """Return the type of an error and its message.

    >>> describe_error(ValueError("no number"))
    'ValueError: no number'
    """
    return f"{type(error).__name__}: {error}".removesuffix(": ")


def find_faulty_extra(error: BaseException) -> str:
    """Return the name of the installed extra whose code an error passed through, or ""."""
    names: dict[str, str] = {}
    for extra in extras():
        for part in fields(extra)[2:]:  # but for name and summary
            value = getattr(extra, part.name)
            for reference in value.values() if isinstance(value, Mapping) else [value]:
                names[reference.partition(":")[0].partition(".")[0]] = extra.name
    frame = error.__traceback__
    while frame:
        package = str(frame.tb_frame.f_globals.get("__name__", "")).partition(".")[0]
        if package in names and package != "heads":
            return names[package]
        frame = frame.tb_next
    return ""


def locate_error(error: BaseException) -> str:
    """Return the type of an error and where it arose; its message might quote a text."""
    frame = traceback.extract_tb(error.__traceback__)[-1]
    return f"{type(error).__name__} in {Path(frame.filename).name}:{frame.lineno}"


@lru_cache(maxsize=1_000)
def log_once(message: str) -> None:
    """Log a warning about an extra, unless it was logged before."""
    import logging

    logging.getLogger("heads").warning(message)


def load(reference: str) -> Any:
    """Import what a reference names.

    >>> load("math:pi")
    3.141592653589793
    """
    module, _, attribute = reference.partition(":")
    loaded = importlib.import_module(module)
    return getattr(loaded, attribute) if attribute else loaded


def _merge(part: str) -> dict[str, tuple[Extra, str]]:
    """Return the extras and references of a part by name; a name belongs to the first extra."""
    merged: dict[str, tuple[Extra, str]] = {}
    for extra in extras():
        for name, reference in getattr(extra, part).items():
            first, _ = merged.setdefault(name, (extra, reference))
            if first is not extra:
                log_clash(extra.name, name)
    return merged


def log_clash(extra: str, name: str) -> None:
    """Log that an extra cannot add something under a name that is taken."""
    log_once(f"The extra '{extra}' cannot add '{name}': there is something of that name already.")


def _load_part(extra: Extra, reference: str) -> Any:
    """Load what an extra refers to, or raise HeadsError."""
    try:
        return load(reference)
    except (Exception, SystemExit) as error:
        what = f"The extra '{extra.name}' is broken: {reference} cannot be loaded"
        raise HeadsError(f"{what} ({describe_error(error)}).", "Mend it, or remove it.") from error


def verbs() -> dict[str, str]:
    """Return the references of all verbs by their public names."""
    return {name: reference for name, (_, reference) in _merge("verbs").items()}


def load_each(part: str, *, required: bool = False) -> list[Any]:
    """Load one part of every extra that has it, such as ``"commands"``.

    Args:
        part: The name of a field of `Extra`.
        required: Whether to raise HeadsError where one cannot be loaded; it is logged and left out
            else.
    """
    loaded = []
    for extra in extras():
        if reference := getattr(extra, part):
            try:
                loaded.append(_load_part(extra, reference))
            except HeadsError as error:
                if required:
                    raise
                log_once(str(error))
    return loaded


def enter_server(*, is_worker: bool = False) -> list[str]:
    """Enter what extras have around a server, and return the lines for who starts it.

    Raises:
        HeadsError: A setting of the server could never work; whatever was entered is left again.
    """
    lines: list[str] = []
    with contextlib.ExitStack() as stack:
        for server in load_each("server", required=True):
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
    backends = _merge("run_backends")
    name = on.partition(":")[0]
    if name not in backends:
        what = f"There is no place called '{on[:60]}' where heads are trained."
        raise HeadsError(what, did_you_mean(name, ["here", *backends]))
    return _load_part(*backends[name])(on)


def list_data_sources() -> list[str]:
    """Return the schemes of all readers of data."""
    return [*_merge("data_sources")]


def load_data_source(scheme: str) -> Any:
    """Return the reader of names that begin with a scheme, or None if no extra has it."""
    sources = _merge("data_sources")
    return _load_part(*sources[scheme]) if scheme in sources else None


def find_base_models(name: str) -> BaseModelSource | None:
    """Return the `BaseModelSource` that resolves the name of a base model, or None."""
    for start, (extra, reference) in _merge("base_models").items():
        if name.strip().lower().startswith(start.lower()):
            return _load_part(extra, reference)
    return None


def load_base_models() -> list[BaseModelSource]:
    """Return the `BaseModelSource` objects of all extras that can be loaded."""
    sources = []
    for extra, reference in _merge("base_models").values():
        try:
            sources.append(_load_part(extra, reference))
        except HeadsError as error:
            log_once(str(error))
    return sources
