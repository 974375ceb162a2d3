"""The source of parts, gathered with all that it needs, so that it runs where they are not.

What pip has installed is imported there; all else is written out: a pooling of ours, a layer of
a user's own, and the functions, classes and constants that they name.
"""

import ast
import builtins
import importlib
import inspect
import json
import linecache
import re
import symtable
import sys
from collections.abc import Callable, Iterator, Mapping
from functools import cache
from importlib.metadata import packages_distributions
from types import ModuleType
from typing import Any

import torch
from torch import nn

from heads.errors import RecipeError
from heads.parts.registry import Registry

Definition = ast.FunctionDef | ast.ClassDef
RENAME = "Give one of them another name."


class SourceFile:
    """A file of Python: what its names are bound by, and what they stand for."""

    def __init__(self, name: str, values: Mapping[str, Any]) -> None:
        self.values = values
        linecache.checkcache(name)
        self.lines = linecache.getlines(name, dict(values))
        self.bound: dict[str, ast.stmt] = {}
        for statement in ast.parse("".join(self.lines)).body:
            self.bound |= dict.fromkeys(_names_bound(statement), statement)

    def value(self, node: ast.expr) -> Any:
        """What a dotted name in this file stands for, or None."""
        if isinstance(node, ast.Name):
            return self.values.get(node.id)
        if isinstance(node, ast.Attribute):
            return getattr(self.value(node.value), node.attr, None)
        return None


class Sources:
    """Definitions that stand alone, in the order of need, and the imports before them.

    Attributes:
        imports: For each name that is imported its module, and its name there or nothing.
        pieces: The source of each name that is written out.
    """

    def __init__(self) -> None:
        self.imports: dict[str, tuple[str, str]] = {}
        self.pieces: dict[str, str] = {}
        self._owners: dict[str, object] = {}
        self._builtins: set[str] = set()

    def add(self, made: Callable[..., Any]) -> str:
        """Adds a function or class with all that it needs, and says under which name.

        Raises:
            RecipeError: Its source is not to be had, or does not stand alone.
        """
        name = made.__name__
        if is_installed(made.__module__):
            self.imported(name, made.__module__, name)
        else:
            self._take(name, _file_of(made))
        for taken in sorted(self._builtins & {*self.pieces, *self.imports}):
            what = f"The source of {name} uses Python's own {taken} beside another {taken}."
            raise RecipeError(what, RENAME)
        return name

    def text(self) -> str:
        """The definitions, two empty lines between them."""
        return "\n\n\n".join(self.pieces.values())

    def _take(self, name: str, file: SourceFile) -> None:
        """Adds what a name stands for in a file."""
        statement = file.bound.get(name)
        if isinstance(statement, ast.Import | ast.ImportFrom):
            self._follow(name, statement, file)
        elif statement is not None:
            if self._is_new(name, (file.lines, statement.lineno)):
                self._write(name, statement, file)
        elif name not in file.values:
            self._builtins |= {name} & set(dir(builtins))
        elif not name.startswith("__"):
            self._value(name, file.values[name])

    def _follow(self, name: str, statement: ast.Import | ast.ImportFrom, file: SourceFile) -> None:
        """Adds what a name that a file imports stands for."""
        alias = next(one for one in statement.names if (one.asname or package_of(one.name)) == name)
        if isinstance(statement, ast.Import):
            if is_installed(alias.name):
                self.imported(alias.asname or alias.name, alias.name, "")
        elif is_installed(statement.module or "") and not statement.level:
            self.imported(name, statement.module or "", alias.name)
        else:
            self._value(name, file.values[name])

    def _value(self, name: str, value: Any) -> None:
        """Adds a value of another file, under the name that it has in this one."""
        if isinstance(value, ModuleType):
            return  # its members are written out where they are named
        if not (inspect.isfunction(value) or inspect.isclass(value)):
            if self._is_new(name, value):
                self.pieces[name] = f"{name} = {literal(value, name)}"
            return
        called = self.add(value)
        if called != name and self._is_new(name, value):
            self.pieces[name] = f"{name} = {called}"

    def _write(self, name: str, statement: ast.stmt, file: SourceFile) -> None:
        """Adds a definition of a file, and first what it needs."""
        text = "".join(file.lines[statement.lineno - 1 : statement.end_lineno]).rstrip()
        if isinstance(statement, Definition):
            kept = [one for one in statement.decorator_list if not _is_registry(one, file)]
            text = "\n".join([*(f"@{ast.unparse(one)}" for one in kept), text])
        for node in ast.walk(statement):
            if isinstance(node, ast.Import | ast.ImportFrom) and not _is_known(node):
                what = f"The source of {name} imports within itself what is not installed."
                raise RecipeError(what, "Move that import to the top of its file.")
            if isinstance(node, ast.Attribute):
                text = self._shortened(text, node, file)
        for used in sorted(globals_of(text) - {name}):
            self._take(used, file)
        if "from __future__ import annotations\n" in file.lines:
            self.imports["annotations"] = ("__future__", "annotations")
        self.pieces[name] = text

    def _shortened(self, text: str, node: ast.Attribute, file: SourceFile) -> str:
        """Writes `Pooled` where the source says `heads.Pooled`, and adds it."""
        module, value = file.value(node.value), file.value(node)
        if not isinstance(module, ModuleType) or is_installed(module.__name__):
            return text
        if isinstance(value, ModuleType | Registry):
            return text
        self._value(node.attr, value)
        return re.sub(rf"\b{re.escape(ast.unparse(node))}\b", node.attr, text)

    def imported(self, name: str, module: str, member: str) -> None:
        """Adds an import; the same thing may come from two modules, as nn does."""
        known = self.imports.setdefault(name, (module, member))
        if name in self._owners or _loaded(*known) is not _loaded(module, member):
            raise RecipeError(f"Two things in this recipe are called {name}.", RENAME)

    def _is_new(self, name: str, owner: object) -> bool:
        """Whether a name is met for the first time; it must not stand for two things."""
        is_new = name not in self._owners
        if name in self.imports or self._owners.setdefault(name, owner) != owner:
            raise RecipeError(f"Two things in this recipe are called {name}.", RENAME)
        return is_new


def globals_of(source: str) -> set[str]:
    """The names that a piece of source looks up outside itself."""

    def of(table: symtable.SymbolTable) -> Iterator[str]:
        outermost = table.get_type() == "module"
        for symbol in table.get_symbols():
            if symbol.is_referenced() and (outermost or symbol.is_global()):
                yield symbol.get_name()
        for inner in table.get_children():
            yield from of(inner)

    return set(of(symtable.symtable(source, "source", "exec")))


def is_installed(module: str) -> bool:
    """Whether a module can be imported wherever the same packages are installed; ours is not."""
    package = package_of(module)
    return package != "heads" and (package in sys.stdlib_module_names or package in _distributed())


def literal(value: Any, name: str) -> str:
    """A plain value as Python writes it.

    Raises:
        RecipeError: It is none.
    """
    text = repr(value)
    try:
        if ast.literal_eval(text) == value:
            return text
    except (ValueError, SyntaxError):
        pass
    what = f"The value of {name} cannot be written into a file."
    raise RecipeError(what, "Use a number, a word or a tuple of them.")


@cache
def _distributed() -> frozenset[str]:
    return frozenset(packages_distributions())


def _loaded(module: str, member: str) -> Any:
    value: Any = importlib.import_module(module)
    value = getattr(value, member) if member else value
    return getattr(value, "__origin__", value)  # of typing.Sequence, the one of collections.abc


def package_of(module: str) -> str:
    """The package that a module belongs to."""
    return module.partition(".")[0]


def _names_bound(statement: ast.stmt) -> list[str]:
    if isinstance(statement, ast.Import | ast.ImportFrom):
        return [alias.asname or package_of(alias.name) for alias in statement.names]
    if isinstance(statement, Definition):
        return [statement.name]
    targets = statement.targets if isinstance(statement, ast.Assign) else []
    targets = [statement.target] if isinstance(statement, ast.AnnAssign) else targets
    return [target.id for target in targets if isinstance(target, ast.Name)]


def _is_registry(decorator: ast.expr, file: SourceFile) -> bool:
    called = decorator.func if isinstance(decorator, ast.Call) else decorator
    return isinstance(file.value(called), Registry)


def _is_known(node: ast.Import | ast.ImportFrom) -> bool:
    if isinstance(node, ast.Import):
        return all(is_installed(alias.name) for alias in node.names)
    return is_installed(node.module or "") and not node.level


def _file_of(made: Callable[..., Any]) -> SourceFile:
    """The file of a function or class that was made at the top of one."""
    if "<locals>" in made.__qualname__:
        what = f"{made.__name__} is made within a function, so its source does not stand alone."
        raise RecipeError(what, "Move it to the top of its file.")
    module = sys.modules.get(made.__module__)
    if inspect.isclass(made):
        own = next(filter(inspect.isfunction, vars(made).values()), None)
        name = getattr(module, "__file__", None) or (own.__code__.co_filename if own else "")
        values = vars(module) if module else own.__globals__ if own else {}
    else:
        code = inspect.unwrap(made)
        name, values = code.__code__.co_filename, code.__globals__
    file = SourceFile(name, values)
    if made.__name__ not in file.bound:
        what = f"The source of {made.__name__} cannot be found."
        raise RecipeError(what, "Keep it in a file of its own, under that name.")
    return file


# --- Layers as the calls that make them: a head's chain as Python that a reader can run.

INDENT = "    "
MISSING = object()


def constructor(layer: nn.Module, sources: Sources, name: str = "", depth: int = 0) -> str:
    """The call that makes a layer as it is; chains are written line by line.

    >>> print(constructor(nn.Sequential(nn.Linear(4, 2, bias=False), nn.Tanh()), Sources()))
    nn.Sequential(OrderedDict([
        ("0", nn.Linear(4, 2, bias=False)),
        ("1", nn.Tanh()),
    ]))

    Args:
        sources: Where layers that are not torch's own are gathered.
        name: What the layer is called in its chain.
        depth: How far its lines stand in.

    Raises:
        RecipeError: What it was made with is not to be had.
    """
    if type(layer) is not nn.Sequential:
        return f"{_class(type(layer), sources)}({', '.join(_arguments(layer, name))})"
    lines = ["nn.Sequential(OrderedDict(["]
    for inner, part in layer._modules.items():  # a layer may stand there twice
        made = constructor(part or nn.Identity(), sources, inner, depth + 1)
        lines.append(f"{INDENT * (depth + 1)}({json.dumps(inner)}, {made}),")
    return "\n".join([*lines, f"{INDENT * depth}]))"])


def call(made: Any, sources: Sources, *arguments: Any, **options: Any) -> str:
    """A call of a part with plain values."""
    given = [literal(value, made.__name__) for value in arguments]
    given += [f"{name}={literal(value, name)}" for name, value in options.items()]
    return f"{sources.add(made)}({', '.join(given)})"


def _class(kind: type[nn.Module], sources: Sources) -> str:
    return f"nn.{kind.__name__}" if getattr(nn, kind.__name__, None) is kind else sources.add(kind)


def _arguments(layer: nn.Module, name: str) -> list[str]:
    """What the layer's class was given, so far as it is not the default."""
    told = _told(layer)
    given: list[str] = []
    in_order = True
    for parameter in inspect.signature(type(layer)).parameters.values():
        if parameter.kind in (parameter.VAR_POSITIONAL, parameter.VAR_KEYWORD):
            continue
        value = _value(layer, parameter, told)
        if value is MISSING and parameter.default is parameter.empty:
            what = f"The layer {name} ({type(layer).__name__}) does not say its {parameter.name}."
            raise RecipeError(what, f"Keep it in the layer: self.{parameter.name} = …")
        if value is MISSING or value == parameter.default:
            in_order = False
            continue
        in_order = in_order and (parameter.default is parameter.empty or not given)
        text = literal(value, parameter.name)
        given.append(text if in_order else f"{parameter.name}={text}")
    return given


def _value(layer: nn.Module, parameter: inspect.Parameter, told: dict[str, Any]) -> Any:
    """What an argument was, from the layer's attribute of that name or from what it prints."""
    value = getattr(layer, parameter.name, MISSING)
    if isinstance(parameter.default, bool) and (value is None or isinstance(value, torch.Tensor)):
        return value is not None  # a bias that was asked for, or was not
    if isinstance(value, bool | int | float | str | tuple):
        return tuple(value) if isinstance(value, tuple) else value
    return told.get(parameter.name, None if value is None else MISSING)


def _told(layer: nn.Module) -> dict[str, Any]:
    """The `name=value` that a layer prints of itself."""
    try:
        [statement] = ast.parse(f"told({layer.extra_repr()})").body
        keywords = statement.value.keywords  # pyright: ignore[reportAttributeAccessIssue]
        return {one.arg: ast.literal_eval(one.value) for one in keywords}
    except (SyntaxError, ValueError):
        return {}
