"""What a recipe's names stand for, and every recipe that one can order."""

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace

import torch

from heads.errors import RecipeError, did_you_mean
from heads.parts import heads as _heads  # noqa: F401  fills the shelf
from heads.parts import heads_solved as _heads_solved  # noqa: F401  fills the shelf
from heads.parts import layers as _layers  # noqa: F401  fills the shelf
from heads.parts import poolings as _poolings  # noqa: F401  fills the shelf
from heads.parts.registry import Head, Part, Pooling, head, layers, pooling
from heads.recipe import Recipe, Value

LARGEST_COUNT = 4096
LARGEST_NUMBER = 1e6
LATE = "late"  # the one option that belongs to the recipe, not to one of its parts


@dataclass(frozen=True, slots=True, kw_only=True)
class Order:
    """A recipe with its parts found and its options sorted to them.

    Attributes:
        recipe: The recipe in its one canonical form, without options at their default.
        layers: The part after the ``@``, or None for the last layer or a layer by number.
        layer: The number of the one layer that is read; -1 is the last.
        late: Whether the head is applied to every token, and the pooling to their logits.
    """

    recipe: Recipe
    pooling: Pooling
    head: Head
    layers: Pooling | None
    layer: int
    late: bool
    pooling_options: Mapping[str, Value]
    head_options: Mapping[str, Value]

    @property
    def reading(self) -> str:
        """The recipe less its head, such as ``mean@cat4`` or ``flatten?length=16``."""
        kept = [
            (name, value) for name, value in self.recipe.options if name in self.pooling.options
        ]
        return str(replace(self.recipe, head="", options=tuple(kept))).replace("+", "", 1)

    @property
    def learns_to_read(self) -> bool:
        """Whether the pooling or the choice of layers is learned together with the head."""
        return self.pooling.learned or (self.layers is not None and self.layers.learned)

    def sketch(self, width: int, classes: int) -> torch.nn.Sequential:
        """The head's chain on the meta device: shapes and names, without memory."""
        with torch.device("meta"):
            return self.head.make(width, classes, **self.head_options)

    @property
    def needs_states(self) -> bool:
        """Whether training needs the states of every token, not one pooled vector a text."""
        return self.learns_to_read or self.late

    @property
    def says(self) -> tuple[str, ...]:
        """A sentence each for the pooling, the layers and the head, with these options."""
        layers = self.layers.says if self.layers else f"Layer {self.layer}." * (self.layer >= 0)
        told = (
            self.pooling.told(self.pooling.first_line, self.pooling_options),
            layers,
            self.head.told(self.head.first_line, self.head_options),
            "The head is applied to every token, and the logits are pooled." * self.late,
        )
        return tuple(filter(None, told))


def resolve(recipe: Recipe | str) -> Order:
    """Finds the parts of a recipe and checks its options.

    >>> str(resolve("mean+linear?dropout=0.1").recipe)
    'mean+linear'
    >>> resolve("mean@cat4+linear").layers.name
    'cat4'

    Raises:
        RecipeError: A part or an option does not exist or does not fit.
    """
    if not isinstance(recipe, Recipe):
        recipe = Recipe.parse(recipe)
    reader, top = pooling[recipe.pooling], head[recipe.head]
    part, number = _layers_of(recipe, reader)
    given = dict(recipe.options)
    known = {**reader.options, **top.options, LATE: False}
    for name, value in given.items():
        if name not in known:
            raise _unknown_option(name, recipe, known)
        given[name] = _checked(name, value, known[name])
    late = bool(given.get(LATE))
    _check_learning(recipe, late or reader.learned or (part is not None and part.learned), top)
    if given:
        with torch.device("meta"):  # a head may refuse a word, such as an unknown activation
            top.make(8, 2, **{name: given[name] for name in top.options if name in given})
    kept = tuple(sorted((name, value) for name, value in given.items() if value != known[name]))
    return Order(
        recipe=Recipe(
            pooling=reader.name,
            head=top.name,
            layers=part.name if part else str(number) if number >= 0 else "",
            options=kept,
        ),
        pooling=reader,
        head=top,
        layers=part,
        layer=number,
        late=late,
        pooling_options={n: given.get(n, default) for n, default in reader.options.items()},
        head_options={n: given.get(n, default) for n, default in top.options.items()},
    )


def menu() -> Iterator[Recipe]:
    """Every pooling with every head, and a few choices of layers that people ask for."""
    readings = [Recipe(pooling=reader, head="") for reader in pooling]
    readings += [
        Recipe(pooling=reader, layers=choice, head="")
        for choice in layers
        for reader in (("eos", "last", "mean") if choice == "decoder" else ("cls", "mean"))
    ]
    for reading in readings:
        for top in head:
            recipe = replace(reading, head=top)
            try:
                yield resolve(recipe).recipe
            except RecipeError:
                continue  # what cannot be learned together is not on the menu


def _layers_of(recipe: Recipe, reader: Pooling) -> tuple[Pooling | None, int]:
    name = recipe.layers
    if not name:
        return None, -1
    if "states" not in reader.asks:
        what = f"'{reader.name}' reads no layer of its own choice, so '@{name}' has no meaning."
        raise RecipeError(what, f"Write {reader.name}+{recipe.head}.")
    if name.isdecimal() and len(name) <= 4:
        return None, int(name)
    if name not in layers:
        what = f"There is no choice of layers called '{name[:80]}'."
        hint = did_you_mean(name, layers)
        raise RecipeError(what, f"{hint} Or give a number; 0 is the embeddings.")
    return layers[name], -1


def _check_learning(recipe: Recipe, step_by_step: bool, top: Head) -> None:
    if step_by_step and top.solve:
        reading = recipe.pooling + (f"@{recipe.layers}" if recipe.layers else "")
        late = " late" if dict(recipe.options).get(LATE) else ""
        raise RecipeError(
            f"{reading}{late} is learned step by step, and {top.name} is solved at once: "
            "the two cannot be trained together.",
            f"Write {reading}+linear, or another pooling before {top.name}.",
        )


def _unknown_option(name: str, recipe: Recipe, known: Mapping[str, Value]) -> RecipeError:
    what = f"{recipe.pooling}+{recipe.head} has no option '{name[:40]}'."
    return RecipeError(what, did_you_mean(name, known))


def _checked(name: str, value: Value, default: Value) -> Value:
    """The value in the type of the default, if it lies in the range of its kind."""
    if type(value) is type(default) and value == default:
        return value
    if isinstance(default, bool | str):
        fits, wanted = isinstance(value, type(default)), "true or false"
        wanted = "a word" if isinstance(default, str) else wanted
    elif isinstance(value, bool | str) or not math.isfinite(value):
        fits, wanted = False, "a number"
    elif isinstance(default, int):
        fits, wanted = value == int(value) and 1 <= value <= LARGEST_COUNT, "from 1 to 4096"
    elif name.endswith("dropout"):
        fits, wanted = 0 <= value < 1, "at least 0 and below 1"
    else:
        fits, wanted = 0 < value <= LARGEST_NUMBER, "above 0 and at most a million"
    if not fits:
        raise RecipeError(
            f"The option {name}={str(value)[:40]} does not fit.", f"It must be {wanted}."
        )
    return type(default)(value)


def parts() -> dict[str, list[dict[str, object]]]:
    """All parts as plain values, in menu order: the answer of `heads parts --json`."""
    shelves: dict[str, Mapping[str, Part]] = {"poolings": pooling, "layers": layers, "heads": head}
    return {
        title: [
            {
                "name": part.name,
                "says": part.says,
                "source": part.source,
                "formula": part.told(part.formula, part.options),
                "learned": part.learned,
                "options": dict(part.options),
            }
            for part in shelf.values()
        ]
        for title, shelf in shelves.items()
    }
