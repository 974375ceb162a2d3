"""What public functions say of themselves: the sentences of flags and endpoints come from it.

Each argument is described once, in the docstring of `heads.api` or of the class that holds it.
"""

import functools
import inspect
from collections.abc import Callable
from dataclasses import fields, is_dataclass
from typing import Any, TypeVar

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
        for source in (*reversed(sources), endpoint):
            known |= arguments(source)
        asked = [
            name
            for name, one in inspect.signature(endpoint).parameters.items()
            if getattr(one.annotation, "__name__", "") != "Request"  # Gradio's own
        ]
        if missing := [name for name in asked if not known.get(name)]:
            raise TypeError(f"{endpoint.__name__}: nothing describes {', '.join(missing)}")
        gives = docstring.returns.description if docstring.returns else returns
        lines = [_plain(docstring.short_description) or summary(sources[0])]
        if asked:
            lines += ["", "Args:", *(f"    {name}: {known[name]}" for name in asked)]
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
