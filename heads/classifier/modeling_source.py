"""The source of an exported model: one file with the pooling and the head that it needs.

`modeling_head_to_head.py` imports its parts from this package. In an exported file their source
stands in that place, taken from where it lies, with all that it needs; so there is no second copy
of a part to keep equal, and a user's own parts go along like ours.
"""

import ast
import inspect
import linecache
import sys
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from importlib.metadata import packages_distributions
from pathlib import Path
from typing import Any

from heads.errors import RecipeError
from heads.parts.registry import Registry

BEGIN, END = "# --- The parts.", "# --- The model."
TITLE = "# --- The parts of the recipe, as Head to Head defines them."
TEMPLATE = Path(__file__).with_name("modeling_head_to_head.py")
PACKAGE = "heads"
Registries = Mapping[str, Mapping[str, Callable[..., Any]]]


def render_modeling_file(registries: Registries, helpers: Mapping[str, Callable[..., Any]]) -> str:
    """Return the text of a modeling file that imports torch and transformers only.

    Args:
        registries: For each name of a registry in the file, its parts by name.
        helpers: Functions that the file uses besides.

    Raises:
        RecipeError: A part has no source, needs what will not be there, or shares its name.
    """
    collector = _Collector()
    for parts in (helpers, *registries.values()):
        for part in parts.values():
            collector.add_part(part)
    tables = "\n".join(_table(name, parts) for name, parts in registries.items())
    before, _, rest = TEMPLATE.read_text("utf-8").partition(BEGIN)
    known = {name for statement in ast.parse(before).body for name in _bound_names(statement)}
    imports = [line for line, name in sorted(collector.imports.items()) if name not in known]
    sections = [TITLE, *collector.definitions.values(), tables]
    return "\n".join(
        [before.rstrip(), *imports, "", "\n\n\n".join(sections), "", END + rest.partition(END)[2]]
    )


def _table(name: str, parts: Mapping[str, Callable[..., Any]]) -> str:
    """Return the line that binds a registry's name to its parts."""
    pairs = ", ".join(f'"{part}": {make.__name__}' for part, make in parts.items())
    return f"{name} = {{{pairs}}}"


@dataclass(frozen=True, slots=True, kw_only=True)
class _Module:
    """A file of Python with what its top level binds to each name.

    Attributes:
        name: Its name among modules.
        text: Its source.
        values: Its names, as they are now.
        statements: The last statement that binds each name.
    """

    name: str
    text: str
    values: Mapping[str, Any]
    statements: Mapping[str, ast.stmt] = field(default_factory=dict)

    @property
    def is_ours(self) -> bool:
        """Whether it belongs to this package."""
        return self.name.partition(".")[0] == PACKAGE

    def value(self, node: ast.expr) -> Any:
        """Return what a dotted name stands for, or None."""
        if isinstance(node, ast.Attribute):
            return getattr(self.value(node.value), node.attr, None)
        return self.values.get(node.id) if isinstance(node, ast.Name) else None

    def registers(self, decorator: ast.expr) -> bool:
        """Return True if a decorator only adds a part to a registry."""
        call = decorator.func if isinstance(decorator, ast.Call) else decorator
        return isinstance(self.value(call), Registry)


class _Collector:
    """The definitions that parts need, each behind those that it needs itself."""

    def __init__(self) -> None:
        self.imports: dict[str, str] = {}  # lines, and the name that each binds
        self.definitions: dict[str, str] = {}
        self._homes: dict[str, str] = {}  # the module that each name was taken from
        self._modules: dict[str, _Module] = {}

    def add_part(self, part: Callable[..., Any]) -> None:
        """Add the definition of a function or class, with what it needs."""
        name = part.__name__
        if "<locals>" in part.__qualname__:
            what = f"{name} is defined within a function, so its source does not stand alone."
            raise RecipeError(what, "Move it to the top of its file.")
        function: Any = inspect.unwrap(part.forward if isinstance(part, type) else part)
        file = function.__code__.co_filename
        self._add(name, self._module(part.__module__, file, function.__globals__))

    def _add(self, name: str, module: _Module) -> None:
        """Add what a module binds to a name; builtins and names of functions it does not bind."""
        statement = module.statements.get(name)
        if isinstance(statement, ast.Import | ast.ImportFrom):
            self._add_import(statement, name, module)
        elif statement is not None and self._homes.setdefault(name, module.name) != module.name:
            what = f"Two parts of the recipe define '{name}'."
            raise RecipeError(what, "Rename the one that is yours.")
        elif statement is not None and name not in self.definitions:
            self.definitions[name] = ""  # it may name itself
            source = self._source(statement, module)
            del self.definitions[name]  # so that it stands behind what it needs
            self.definitions[name] = source

    def _source(self, statement: ast.stmt, module: _Module) -> str:
        """Return the text of a definition, having added what it needs."""
        decorators: list[ast.expr] = []
        if isinstance(statement, ast.FunctionDef | ast.ClassDef):
            decorators = [d for d in statement.decorator_list if not module.registers(d)]
            statement.decorator_list = decorators
        lines = [f"@{ast.get_source_segment(module.text, d)}\n" for d in decorators]
        source = "".join(lines) + (ast.get_source_segment(module.text, statement) or "")
        package = sys.modules[PACKAGE]
        for node in ast.walk(statement):
            if isinstance(node, ast.Attribute) and module.value(node.value) is package:
                self._add_public(node.attr)  # heads.Pooled
                source = source.replace(ast.get_source_segment(module.text, node) or "", node.attr)
            elif isinstance(node, ast.Name) and module.value(node) is not package:
                self._add(node.id, module)
            elif isinstance(node, ast.Import | ast.ImportFrom) and not module.is_ours:
                for name in _imported_modules(node):
                    _check_installed(name)
        return source

    def _add_public(self, name: str, home: str = PACKAGE) -> None:
        """Add what a module of this package calls by a name."""
        value = getattr(sys.modules[home], name, None)
        origin = getattr(value, "__module__", home)
        self._add(getattr(value, "__name__", name), self._module(origin))

    def _add_import(
        self, statement: ast.Import | ast.ImportFrom, name: str, module: _Module
    ) -> None:
        """Add the line that imports a name, or its definition where this package has it."""
        names = {alias.asname or alias.name.partition(".")[0]: alias for alias in statement.names}
        alias = names[name]
        renamed = f" as {alias.asname}" if alias.asname else ""
        home = "" if isinstance(statement, ast.Import) else statement.module or ""
        if home.partition(".")[0] == PACKAGE:
            self._add_public(alias.name, home)
            if renamed:
                self.definitions[name] = f"{name} = {alias.name}"
            return
        if not module.is_ours:
            for imported in _imported_modules(statement):
                _check_installed(imported)
        source = f"from {home} " if home else ""
        self.imports[f"{source}import {alias.name}{renamed}"] = name

    def _module(
        self, name: str, path: str = "", values: Mapping[str, Any] | None = None
    ) -> _Module:
        if name not in self._modules:
            values = vars(sys.modules[name]) if values is None else values
            path = path or str(values.get("__file__", ""))
            linecache.checkcache(path)
            text = "".join(linecache.getlines(path, dict(values)))  # a notebook's cell too
            if not text:
                what = f"The source of {name} cannot be found."
                raise RecipeError(what, "Keep it in a file of its own.")
            bound = {n: s for s in ast.parse(text).body for n in _bound_names(s)}
            self._modules[name] = _Module(name=name, text=text, values=values, statements=bound)
        return self._modules[name]


def _imported_modules(statement: ast.Import | ast.ImportFrom) -> Iterator[str]:
    """Yield the modules that a statement imports, a relative one with its dots."""
    if isinstance(statement, ast.Import):
        yield from (alias.name for alias in statement.names)
    else:
        yield "." * statement.level + (statement.module or "")


def _check_installed(module: str) -> None:
    """Refuse what a user's file imports and an exported folder does not hold."""
    root = module.partition(".")[0]
    if root in sys.stdlib_module_names or (root != PACKAGE and root in packages_distributions()):
        return
    what = f"The file of a part of your own imports {module}, which does not go along."
    hint = "Import names from heads, as in 'from heads import Pooled', or installed packages."
    raise RecipeError(what, hint)


def _bound_names(statement: ast.stmt) -> list[str]:
    """Return the names that a statement at the top of a file binds."""
    if isinstance(statement, ast.FunctionDef | ast.ClassDef):
        return [statement.name]
    if isinstance(statement, ast.Import | ast.ImportFrom):
        return [alias.asname or alias.name.partition(".")[0] for alias in statement.names]
    targets = statement.targets if isinstance(statement, ast.Assign) else []
    targets = [statement.target] if isinstance(statement, ast.AnnAssign) else targets
    names = (node for target in targets for node in ast.walk(target))
    return [node.id for node in names if isinstance(node, ast.Name)]
