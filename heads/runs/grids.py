"""Which cells a request comes to: the recipes of a grid in every way in and under every loss."""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from itertools import product

from heads.backbone.backbone import Backbone
from heads.classifier.inputs import check_pairs
from heads.classifier.pretrained import is_own
from heads.data.corpus import Corpus
from heads.errors import DataError, HeadsError, LimitError, RecipeError, did_you_mean
from heads.parts.poolings import GIVEN
from heads.parts.resolve import head, loss, pairing, pooling, resolve, tuned, with_options
from heads.parts.resolved_recipe import (
    FEATURES,
    FROZEN,
    JOINT,
    LOSS,
    PAIR,
    PREFIX,
    SIAMESE,
    SOFTMAX,
    TUNE,
    ResolvedRecipe,
)
from heads.recipe import Recipe, as_value
from heads.runs.spec import NONE, RunRequest
from heads.settings import current_limits
from heads.training.objective import check_order
from heads.training.trial import Trial, build_trial

SMALL = "small"
LAYERS, HEADS, POOLINGS = "layers", "heads", "poolings"  # each after all that there is
# One recipe, this one if none is named, frozen and in the usual ways to learn the base model.
TUNES, TUNED = "tunes", "mean+linear"
USUAL_TUNES = (FROZEN, "last2", "lora", "full", "lpft")
# Read besides where a base model says how it was trained to be read, unless that is the average.
TRAINED, AVERAGE = "trained", "mean"
GRIDS: dict[str, tuple[tuple[str, ...], tuple[str, ...]]] = {
    SMALL: (("cls", "last", "mean", "max"), ("linear", "roberta", "distilbert", "modernbert")),
    "full": (
        ("cls", "last", "mean", "mean_content", "max", "weighted", "mean@{middle}", "mean@mean4"),
        ("linear", "gpt2", "bert", "roberta", "distilbert", "electra", "modernbert", "mlp"),
    ),
}


def recipes_of(grid: str, backbone: Backbone) -> list[ResolvedRecipe]:
    """The recipes of a grid by name, some of which may not suit the labels at hand.

    Args:
        grid: small; full; `layers`, each layer under a linear layer (`layers:cls` of another
            pooling than the mean); `heads`, each head on the mean (`heads:mean@cat4` on another
            reading); `poolings`, each pooling that is not learned under a linear layer
            (`poolings:mlp` under another head); `tunes`, mean+linear frozen, with the last two
            layers, with LoRA, with everything, and everything after the head (`tunes:cls+roberta`
            of another recipe).

    Raises:
        RecipeError: There is no such grid, or its recipe can only be frozen.
    """
    if backbone.is_given:
        return _of_vectors(grid)
    name, _, part = grid.partition(":")
    if name == LAYERS:
        reader = resolve(f"{part or 'mean'}+linear").pooling.name
        layers = [f"{reader}@{layer}+linear" for layer in range(backbone.layers)]
        return [resolve(recipe) for recipe in (*layers, f"{reader}+linear")]
    if name == HEADS:
        reading = resolve(f"{part or 'mean'}+linear").recipe
        return [resolve(replace(reading, head=top)) for top in head]
    if name == POOLINGS:
        top = resolve(f"mean+{part or 'linear'}").recipe
        found = [resolve(replace(top, pooling=reader)) for reader in pooling]
        return [recipe for recipe in found if not recipe.needs_states]
    if name == TUNES:
        asked = resolve(part or TUNED)
        return [with_options(asked, {TUNE: tune}) for tune in USUAL_TUNES]
    if grid not in GRIDS:
        known = ", ".join((*GRIDS, LAYERS, HEADS, POOLINGS, TUNES))
        raise RecipeError(f"There is no grid called '{grid[:40]}'.", f"There are: {known}.")
    readings, tops = GRIDS[grid]
    if backbone.trained is not None and backbone.trained.plain != AVERAGE:
        readings = (TRAINED, *readings)
    middle = max(1, backbone.layers // 2)
    readings = tuple(reading.format(middle=middle) for reading in readings)
    return [resolve(f"{reading}+{top}") for reading in readings for top in tops]


def named_recipes(recipes: Sequence[str]) -> list[ResolvedRecipe]:
    """Resolve recipes by name, each once, before anything is read for them."""
    limits = current_limits()
    asked = {str(one): one for one in recipes if not is_own(one)}
    if len(asked) > limits.cells:
        what = f"{len(asked):,} recipes are named; at most {limits.cells} fit here."
        raise LimitError(what, "Take some away.")
    return list(map(resolve, asked.values()))


def _of_vectors(grid: str) -> list[ResolvedRecipe]:
    """Return the recipes of a grid that vectors can have; raise RecipeError for other grids."""
    if grid not in (*GRIDS, HEADS):
        what = f"The grid '{grid[:40]}' compares what a base model gives, and vectors are given."
        raise RecipeError(what, f"There are: {', '.join((*GRIDS, HEADS))}.")
    tops = GRIDS[grid][1] if grid in GRIDS else tuple(head)
    return [resolve(f"{GIVEN.name}+{top}") for top in tops]


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class RecipeChoice:
    """The recipes that a request comes to on a base model.

    Attributes:
        recipes: Each once.
        notes: A sentence on those of a grid that were left out, if any were.
        built: Cells that had to be built to see whether they suit.
    """

    recipes: tuple[ResolvedRecipe, ...]
    notes: tuple[str, ...]
    built: Mapping[Recipe, Trial]


def chosen_recipes(request: RunRequest, corpus: Corpus, backbone: Backbone) -> RecipeChoice:
    """Choose the recipes of the cells; one that names its way in or its loss keeps it.

    Of a grid of all heads, poolings or ways of learning, those that suit labels, base model and
    place. To the ways of the grid `tunes` those are added that are asked for.

    Raises:
        DataError: The data have one text a row, or classes without an order.
        RecipeError: There is no such way in, or no such loss.
    """
    losses = list(request.losses) or [SOFTMAX]
    ways = _ways(request.pairs or (JOINT,))
    if ways != [JOINT] and not corpus.pairs:
        what = f"{corpus.name} has one text a row, and a siamese way in needs two."
        raise DataError(what, "Name the column of second texts, or leave the way in joint.")
    for name in losses:
        loss[name]  # says what there is, where there is none of that name
    tunes = [tuned(name) for name in request.tune or (FROZEN,)]
    prefixes = ["" if one == NONE else as_value(one) for one in request.prefixes or (NONE,)]
    found, notes = dict[Recipe, ResolvedRecipe](), ()
    recipes, built = named_recipes(request.recipes), dict[Recipe, Trial]()
    if not recipes:
        grid = request.grid or SMALL
        recipes, notes, built = _grid(grid, corpus, backbone)
        if grid.partition(":")[0] == TUNES:
            tunes = [FROZEN, *tunes]
    for recipe in recipes:
        own = list(_each(recipe, ways, losses, tunes, prefixes))
        # Of none that can be, the first says why.
        own = own or [_with(recipe, ways[0], losses[0], tunes[0], prefixes[0])]
        found |= {one.recipe: one for one in own}
    for resolved in found.values():
        check_pairs(resolved, corpus.pairs)
        check_order(resolved, corpus)
    return RecipeChoice(recipes=tuple(found.values()), notes=notes, built=built)


def _grid(
    grid: str, corpus: Corpus, backbone: Backbone
) -> tuple[list[ResolvedRecipe], tuple[str, ...], dict[Recipe, Trial]]:
    """Return the recipes of a grid that suit, a sentence on the others, and cells built for it."""
    recipes = recipes_of(grid, backbone)
    if grid.partition(":")[0] not in (HEADS, POOLINGS, TUNES):
        return recipes, (), {}
    built = dict[Recipe, Trial]()
    for recipe in recipes:
        with suppress(HeadsError):
            check_order(recipe, corpus)
            cell = build_trial(recipe, backbone, len(corpus.classes), corpus.problem)
            built[recipe.recipe] = cell
    unsuited = ", ".join(str(recipe) for recipe in recipes if recipe.recipe not in built)
    message = f"Left out of the grid {grid}: {unsuited}. Asked for by name, each says why."
    return [cell.resolved for cell in built.values()], (message,) * bool(unsuited), built


def entering(recipe: ResolvedRecipe, way: str) -> ResolvedRecipe:
    """Return a recipe with the way in of two texts, unless it names one itself.

    One that learns from the states of all tokens reads the two as one sequence.
    """
    name = pairing.usual if way == SIAMESE else way
    if name != JOINT and name not in pairing:
        raise _unknown(name, [JOINT, SIAMESE, *pairing])
    if PAIR in dict(recipe.recipe.options) or recipe.needs_states:
        return recipe
    return with_options(recipe, {PAIR: name})


def _ways(pairs: Sequence[str]) -> list[str]:
    found: list[str] = []
    for way in pairs:
        if way == FEATURES:
            found += pairing
        elif way == SIAMESE:
            found.append(pairing.usual)
        elif way == JOINT or way in pairing:
            found.append(way)
        else:
            raise _unknown(way, [JOINT, SIAMESE, FEATURES, *pairing])
    return list(dict.fromkeys(found))


def _unknown(way: str, known: Sequence[str]) -> RecipeError:
    what = f"There is no pairing called '{way[:80]}'."
    return RecipeError(what, did_you_mean(way, known))


def _each(
    recipe: ResolvedRecipe,
    ways: Sequence[str],
    losses: Sequence[str],
    tunes: Sequence[str],
    prefixes: Sequence[str],
) -> Iterator[ResolvedRecipe]:
    """A recipe in every way that fits it; a head that is solved at once has no loss to choose."""
    given = dict(recipe.recipe.options)
    asked = ((PAIR, ways), (LOSS, losses), (TUNE, tunes), (PREFIX, prefixes))
    for chosen in product(*([str(given[n])] if n in given else values for n, values in asked)):
        with suppress(RecipeError):
            yield _with(recipe, *chosen)


def _with(recipe: ResolvedRecipe, way: str, name: str, tune: str, prefix: str) -> ResolvedRecipe:
    return with_options(recipe, {PAIR: way, LOSS: name, TUNE: tune, PREFIX: prefix})
