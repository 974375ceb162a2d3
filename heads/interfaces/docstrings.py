"""What public functions say of themselves: the sentences of flags and endpoints come from it.

Each argument is described once, in the docstring of `heads.api` or of the class that holds it.
"""

import functools
import inspect
from collections.abc import Callable
from dataclasses import fields, is_dataclass
from typing import Any, TypeVar, get_args

from docstring_parser import Docstring, DocstringStyle, parse

Endpoint = TypeVar("Endpoint", bound=Callable[..., Any])


def summary(source: Any) -> str:
    """The first sentence of a docstring."""
    return _plain(_parsed(source.__doc__).short_description)


def arguments(source: Any) -> dict[str, str]:
    """What a function's arguments are, or a class's attributes: name -> sentences on one line.

    A setting that holds its sentence in the metadata of its field is described by that.
    """
    found = _parsed(source.__doc__).params
    told = {one.arg_name: _plain(one.description) for one in found}
    if is_dataclass(source):
        told |= {one.name: one.metadata["says"] for one in fields(source) if "says" in one.metadata}
    return told


def flag(says: str) -> str:
    """What an argument is, as the help of a command writes it.

    >>> flag("The sentence."), flag("BERT's share.")
    ('the sentence', "BERT's share")
    """
    says = says.removesuffix(".")
    return says if says[1:2].isupper() else says[:1].lower() + says[1:]


def options_class(parameter: inspect.Parameter) -> Any:
    """Return the dataclass that annotates a parameter, whose fields are arguments, or None."""
    annotations = (parameter.annotation, *get_args(parameter.annotation))
    return next(filter(is_dataclass, annotations), None)


def list_options(endpoint: Callable[..., Any]) -> dict[str, Any]:
    """Return the parameters that have a description, with the options class of each, or None."""
    return {
        name: options_class(parameter)
        for name, parameter in inspect.signature(endpoint, eval_str=True).parameters.items()
        if getattr(parameter.annotation, "__name__", "") != "Request"  # Gradio's own
    }


def described(*sources: Any, returns: str = "") -> Callable[[Endpoint], Endpoint]:
    """Completes the docstring of an endpoint by those of what it calls.

    Its first sentence and arguments are its own where its docstring has them, else those of the
    first source that has. Each argument stands on one line: Gradio reads no second one.

    Args:
        returns: What the endpoint gives, where its docstring does not say it.

    Raises:
        TypeError: An argument is described nowhere.
    """

    def complete(endpoint: Endpoint) -> Endpoint:
        docstring = _parsed(endpoint.__doc__)
        if not (docstring.short_description or sources):
            raise TypeError(f"{endpoint.__name__} has no docstring")
        known: dict[str, str] = {}
        options = list_options(endpoint)
        for source in (*reversed(sources), *filter(None, options.values()), endpoint):
            known |= arguments(source)
        names = dict.fromkeys(
            argument
            for name, kind in options.items()
            for argument in ([field.name for field in fields(kind)] if kind else [name])
        )
        if missing := [name for name in names if not known.get(name)]:
            raise TypeError(f"{endpoint.__name__}: nothing describes {', '.join(missing)}")
        gives = docstring.returns.description if docstring.returns else returns
        lines = [_plain(docstring.short_description) or summary(sources[0])]
        if names:
            lines += ["", "Args:", *(f"    {name}: {known[name]}" for name in names)]
        if gives:
            lines += ["", "Returns:", f"    {_plain(gives)}"]
        endpoint.__doc__ = "\n".join(lines)
        return endpoint

    return complete


@functools.cache
def _parsed(docstring: str | None) -> Docstring:
    return parse(docstring or "", DocstringStyle.GOOGLE)


def _plain(text: str | None) -> str:
    return " ".join((text or "").split()).replace("`", "")
