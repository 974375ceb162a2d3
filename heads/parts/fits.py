"""What goes together in a recipe and what does not: each says so in one sentence."""

from collections.abc import Mapping

import torch
from torch import nn

from heads.errors import RecipeError
from heads.parts.blocks import Repeat
from heads.parts.order import (
    AUTO,
    HINGE,
    JOINT,
    LATE,
    LOSS,
    NORMALISE,
    PROMPT,
    SOFTMAX,
    STANDARDISE,
)
from heads.parts.registry import Head, Pooling
from heads.recipe import Recipe, Value


def check_learning(recipe: Recipe, step_by_step: bool, top: Head) -> None:
    """Whether what is read can be learned together with a head."""
    if step_by_step and top.solve:
        reading = recipe.pooling + (f"@{recipe.layers}" if recipe.layers else "")
        late = " late" if dict(recipe.options).get(LATE) else ""
        raise RecipeError(
            f"{reading}{late} is learned step by step, and {top.name} is solved at once: "
            "the two cannot be trained together.",
            f"Write {reading}+linear, or another pooling before {top.name}.",
        )


def check_pair(recipe: Recipe, pair: str, step_by_step: bool) -> None:
    """Whether two texts can be read each by itself."""
    if pair != JOINT and step_by_step:
        late = " late" if dict(recipe.options).get(LATE) else ""
        raise RecipeError(
            f"{recipe.pooling}{late} is learned from the states of all tokens, which a siamese "
            "pair does not have in one sequence.",
            f"Write mean+{recipe.head}?pair={pair}, or take pair={pair} away.",
        )


def check_loss(given: Mapping[str, Value], top: Head) -> None:
    """Whether a head can learn by the loss that the recipe names."""
    if given.get(LOSS, SOFTMAX) != SOFTMAX and (top.ordered or top.margined):
        why = "gives probabilities of its own" if top.ordered else "has its margin in the softmax"
        what = f"{top.name} {why}, so it has no loss to choose."
        raise RecipeError(what, f"Take loss={given[LOSS]} away, or write linear.")
    if given.get(LOSS) == HINGE and top.name == "logistic":
        raise RecipeError("logistic has a loss of its own.", "Write linear?loss=hinge.")
    if LOSS in given and given[LOSS] != SOFTMAX and top.solve and top.name != "logistic":
        what = f"{top.name} is solved at once, so it has no loss to choose."
        raise RecipeError(what, f"Take loss={given[LOSS]} away, or write linear or logistic.")


def check_scaling(
    recipe: Recipe, given: Mapping[str, Value], top: Head, step_by_step: bool
) -> None:
    """Whether vectors can be normalised and standardised before a head, as the recipe says."""
    if given.get(NORMALISE) and given.get(LATE):
        what = f"{recipe}: with late=true the head reads every token, and no vector is normalised."
        raise RecipeError(what, "Take one of the two away.")
    if given.get(STANDARDISE, AUTO) == AUTO:
        return
    hint = f"Take standardise={str(given[STANDARDISE]).lower()} away."
    if top.solve:
        raise RecipeError(f"{top.name} is solved at once, and knows its own scale.", hint)
    if step_by_step:
        what = f"{recipe} learns what it reads, so there are no vectors to standardise before."
        raise RecipeError(what, hint)
    with torch.device("meta"):
        made = top.make(8, 2, **{name: given[name] for name in top.options if name in given})
    leaves = (layer for layer in made.modules() if not any(layer.children()))
    first = next(layer for layer in leaves if not isinstance(layer, nn.Dropout | Repeat))
    if not isinstance(first, nn.Linear) or first.bias is None:
        what = f"{top.name} does not begin with a linear layer with a bias that could take it up."
        raise RecipeError(what, f"{hint[:-1]}, or write linear.")


def check_prompt(recipe: Recipe, reader: Pooling, otherwise: bool) -> None:
    """Whether a prompt can be written behind the texts that a recipe reads."""
    if PROMPT in reader.options and otherwise:
        what = f"{recipe}: {reader.name} reads one vector a text, of texts with a prompt behind."
        raise RecipeError(what, "Leave out pair=, late=true and layers that are learned.")
