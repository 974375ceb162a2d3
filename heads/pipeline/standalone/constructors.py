"""Layers as the calls that make them: a head's chain as Python that a reader can run."""

import ast
import inspect
import json
from typing import Any

import torch
from torch import nn

from heads.errors import RecipeError
from heads.pipeline.standalone.sources import Sources, literal

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
