"""A recipe names a pooling and a head: ``mean+linear``, ``cls@cat4+mlp?hidden=128``.

Grammar: ``<pooling>[@<layers>]+<head>[?option=value[&option=value…]]``. The string is the
only identifier of a recipe on the page, in the shell, in the API, in files and in links.
"""

import math
import re
from dataclasses import dataclass
from urllib.parse import quote, unquote

from heads.errors import RecipeError

Value = bool | int | float | str

GRAMMAR = re.compile(
    r"(?P<pooling>[a-z]\w*)(@(?P<layers>\w+))?\+(?P<head>[a-z]\w*)(\?(?P<options>.+))?", re.ASCII
)
MOST = 1_000  # characters: more than any recipe needs
OPTION = re.compile(r"(?P<name>[A-Za-z]\w{0,39})=(?P<value>[\w.+:%-]{1,200})", re.ASCII)
NAME = re.compile(r"[A-Za-z]\w{0,39}", re.ASCII)
HINT = "Write pooling+head, for example mean+linear, cls@cat4+mlp or attention+linear?queries=4."


@dataclass(frozen=True, slots=True, kw_only=True)
class Recipe:
    """A pooling, a choice of layers, a head and their options, by name.

    The names are checked against the parts that exist by `heads.parts.resolve.resolve`.
    """

    pooling: str
    head: str
    layers: str = ""
    options: tuple[tuple[str, Value], ...] = ()

    @classmethod
    def parse(cls, text: str) -> "Recipe":
        """Reads the string form of a recipe.

        >>> Recipe.parse("mean@6+linear").layers
        '6'
        >>> str(Recipe.parse("attention + linear?queries=4&dropout=0.20"))
        'attention+linear?dropout=0.2&queries=4'

        Raises:
            RecipeError: The text is no recipe.
        """
        if not isinstance(text, str):
            raise RecipeError("A recipe is a text.", HINT)
        if len(text) > MOST:
            what = f"'{text[:40]}…' is no recipe: it has more than {MOST:,} characters."
            raise RecipeError(what, HINT)
        body, question, tail = "".join(text.split()).partition("?")
        match = GRAMMAR.fullmatch(body.lower() + question + tail)
        if match is None:
            raise RecipeError(f"'{text[:80]}' is not a recipe.", HINT)
        return cls(
            pooling=match["pooling"],
            layers=match["layers"] or "",
            head=match["head"],
            options=_parse_options(match["options"] or ""),
        )

    def __str__(self) -> str:
        layers = f"@{self.layers}" if self.layers else ""
        options = "&".join(f"{name}={_show(value)}" for name, value in self.options)
        return f"{self.pooling}{layers}+{self.head}" + (f"?{options}" if options else "")


def as_value(text: str) -> str:
    """A text as the value of an option: _ for a space, and what recipes have a use for as in URLs.

    >>> as_value("query: "), as_value("Is it_so? ")
    ('query:_', 'Is_it%5Fso%3F_')
    """
    return quote(text, safe=": +").replace("_", "%5F").replace(" ", "_")


def as_text(value: str) -> str:
    """The text that a value stands for.

    >>> as_text("query:_"), as_text("Is_it%5Fso%3F_")
    ('query: ', 'Is it_so? ')
    """
    return unquote(value.replace("_", " "))


def _parse_options(text: str) -> tuple[tuple[str, Value], ...]:
    options: dict[str, Value] = {}
    for item in filter(None, text.split("&")):
        match = OPTION.fullmatch(item)
        if match is None and NAME.fullmatch(item):
            what = f"The option '{item}' has no value."
            raise RecipeError(what, f"Write {item}=value, such as long=windows.")
        if match is None:
            hint = (
                "Write option=value, the value of 1 to 200 letters a to z, digits, _ . : + % or -."
            )
            raise RecipeError(f"'{item[:80]}' is not an option.", hint)
        if match["name"] in options:
            raise RecipeError(f"The option '{match['name']}' is given twice.", "Keep one of them.")
        options[match["name"]] = _read(match["value"])
    return tuple(sorted(options.items()))


def _read(text: str) -> Value:
    if text in ("true", "false"):
        return text == "true"
    for kind in (int, float):
        try:
            value = kind(text)
        except ValueError:
            continue
        if math.isfinite(value):
            return value
    return text


def _show(value: Value) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)
