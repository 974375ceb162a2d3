"""Arguments of endpoints: expanded from options, checked for their type, gathered again.

What JSON may hold is a text, a number, true or false, or a list of texts; nothing is converted, so
that `"3"` is no number. A list of texts may be sent as one text, too.
"""

import functools
import inspect
import json
import math
from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import fields
from inspect import Parameter
from typing import Any, TypeVar, cast, get_type_hints

from pydantic import ConfigDict, TypeAdapter, ValidationError

from heads.data.table import listed
from heads.errors import DataError
from heads.interfaces.docstrings import described, options_class

Endpoint = TypeVar("Endpoint", bound=Callable[..., Any])
SHOWN = 40  # characters of a text that is no value of its argument
Texts = str | list[str]
ANYWHERE = Parameter.POSITIONAL_OR_KEYWORD  # Gradio sends arguments by position
STRICT = ConfigDict(strict=True, allow_inf_nan=False)
TYPES: dict[Any, str] = {
    str: "a text", str | None: "a text", list[str]: "a list of texts", Texts: "a text or a list",
    float: "a number", bool: "true or false",
}  # fmt: skip
ADAPTERS = {kind: TypeAdapter(kind, config=STRICT) for kind in TYPES}


def endpoint(*sources: Any, returns: str = "") -> Callable[[Endpoint], Endpoint]:
    """Return a decorator that makes an endpoint of a function.

    Its docstring is completed as `described` does, its options are arguments, and their types are
    checked.
    """
    describe = described(*sources, returns=returns)
    return lambda function: check_types(expand_options(describe(function)))


def check_types(endpoint: Endpoint) -> Endpoint:
    """Let an endpoint raise DataError for an argument that is not of its annotated type."""
    signature, hints = inspect.signature(endpoint), get_type_hints(endpoint)
    types = {name: hints[name] for name in signature.parameters if hints[name] in TYPES}

    @functools.wraps(endpoint)
    def call(*values: Any, **named: Any) -> Any:
        try:
            arguments = signature.bind(*values, **named)
        except TypeError:
            what = f"The arguments are {', '.join(types) or 'none'}, in this order."
            raise DataError(what, "Leave out only the last ones.") from None
        for name in filter(types.__contains__, arguments.arguments):
            arguments.arguments[name] = _check(name, arguments.arguments[name], types[name])
        return endpoint(*arguments.args, **arguments.kwargs)

    @functools.wraps(endpoint)
    def stream(*values: Any, **named: Any) -> Any:
        yield from call(*values, **named)

    return cast("Endpoint", stream if inspect.isgeneratorfunction(endpoint) else call)


def _check(name: str, value: Any, kind: Any) -> Any:
    """Return an argument of the right type; raise DataError otherwise."""
    if name == "recipes" and kind == list[str] and isinstance(value, str):
        value = split_recipes(value)
    try:
        ADAPTERS[kind].validate_python(value)
    except ValidationError as error:
        errors = error.errors(include_url=False, include_context=False)
        entries = {
            at: [n for n in one["loc"] if isinstance(n, int)] for at, one in enumerate(errors)
        }
        first = next((at for at, numbers in entries.items() if numbers), 0)
        where = "".join(f" (entry {number + 1})" for number in entries[first])
        must = "a list of texts alone" if where else TYPES[kind]
        what = f"{name} must be {must}, not {_describe(errors[first]['input'])}{where}."
        raise DataError(what, "Change it.") from None
    return value


def _describe(value: Any) -> str:
    """Describe a value as JSON calls it.

    >>> _describe(None), _describe(float("nan")), _describe(["x"]), _describe("x" * 100)
    ('null', 'NaN', 'a list', "the text 'xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx…'")
    """
    if value is None or isinstance(value, bool):
        return json.dumps(value)
    if isinstance(value, str):
        return f"the text {value if len(value) <= SHOWN else value[: SHOWN - 1] + '…'!r}"
    if isinstance(value, float):
        return f"the number {value}" if math.isfinite(value) else json.dumps(value)
    if isinstance(value, int):
        return f"the number {value}" if abs(value) < 10**SHOWN else "a number that long"
    return "a list" if isinstance(value, list | tuple) else "an object"


def split_recipes(text: str) -> list[str]:
    """Split recipes that are separated by spaces or commas.

    >>> split_recipes("mean+linear, cls+linear")
    ['mean+linear', 'cls+linear']
    """
    return [recipe.rstrip(",") for recipe in text.split()]


def expand_options(endpoint: Endpoint) -> Endpoint:
    """Let each field of an options class among the parameters be an argument of an endpoint.

    Numbers are floats, lists are lists or texts, and an empty text stands for the default. A
    parameter of the endpoint replaces the field of its name.
    """
    returns = inspect.signature(endpoint).return_annotation
    parameters = inspect.signature(endpoint).parameters
    expanded: list[Parameter] = []
    for parameter in parameters.values():
        kind = options_class(parameter)
        expanded += (
            map(_argument, _remote_fields(kind, replaced=parameters))
            if kind
            else [parameter.replace(kind=ANYWHERE)]
        )
    signature = inspect.Signature(expanded, return_annotation=returns)

    def gather(*values: Any, **named: Any) -> dict[str, Any]:
        arguments = signature.bind(*values, **named).arguments
        gathered: dict[str, Any] = {}
        for name, parameter in parameters.items():
            if kind := options_class(parameter):
                gathered[name] = kind(**dict(_values(kind, arguments)))
            elif name in arguments:
                gathered[name] = arguments[name]
        return gathered

    def call(*values: Any, **named: Any) -> Any:
        return endpoint(**gather(*values, **named))

    def stream(*values: Any, **named: Any) -> Any:
        yield from endpoint(**gather(*values, **named))

    expansion: Any = stream if inspect.isgeneratorfunction(endpoint) else call
    expansion.__name__, expansion.__doc__ = endpoint.__name__, endpoint.__doc__
    expansion.__module__, expansion.__signature__ = endpoint.__module__, signature
    # Gradio reads the types of arguments and of the answer from here, not from the signature.
    annotations = {parameter.name: parameter.annotation for parameter in expanded}
    expansion.__annotations__ = annotations | {"return": returns}
    return expansion


def _remote_fields(kind: Any, replaced: Collection[str] = ()) -> list[Any]:
    """Return the fields of an options class that an endpoint takes."""
    remote = [field for field in fields(kind) if not field.metadata.get("is_local")]
    return [field for field in remote if field.name not in replaced]


def _argument(field: Any) -> Parameter:
    """Return the argument of an endpoint for a field of an options class."""
    default, kind = field.default, type(field.default)
    if kind in (int, float):
        kind, default = float, float(default)
    elif default is None:  # a text that need not be given
        kind, default = str, ""
    elif kind is tuple:
        kind, default = Texts, ", ".join(default)
    return Parameter(field.name, ANYWHERE, default=default, annotation=kind)


def _values(kind: Any, arguments: Mapping[str, Any]) -> Iterator[tuple[str, Any]]:
    """Yield the values of an options class that differ from an empty text."""
    for field in _remote_fields(kind):
        value = arguments.get(field.name, "")
        if isinstance(value, str) and _argument(field).annotation == Texts:
            value = split_recipes(value) if field.name == "recipes" else listed(value)
        if isinstance(value, list | tuple):
            value = tuple(value)
        if value not in ("", ()):
            yield field.name, value
