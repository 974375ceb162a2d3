"""Which cells a question comes to: the recipes of a grid in every way in and under every loss."""

from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import replace

from heads.backbone.backbone import Backbone
from heads.classifier.inputs import check_pairs
from heads.classifier.module import assemble
from heads.errors import DataError, HeadsError, RecipeError, did_you_mean
from heads.parts.resolve import loss, pairing, resolve
from heads.parts.resolved import FEATURES, JOINT, LOSS, PAIR, SIAMESE, SOFTMAX
from heads.pipeline.runs.asked import Question
from heads.recipe import Recipe
from heads.rng import Dice
from heads.settings import Limits
from heads.training.objective import check_order
from heads.training.trial import HEADS, POOLINGS, recipes_of

USUAL = "uv_diff_prod"  # what `siamese` stands for


def chosen_recipes(
    question: Question, backbone: Backbone, limits: Limits
) -> tuple[list[str], list[str]]:
    """The recipes of the cells; one that says itself how texts enter, or its loss, keeps it.

    Of a grid of all heads, or all poolings, those that suit labels, base model and place.

    Returns:
        The recipes, and a sentence on those that were left out, if any were.

    Raises:
        DataError: The data have one text a row, or classes without an order.
        RecipeError: There is no such way in, or no such loss.
    """
    corpus, losses = question.data.corpus, list(question.losses) or [SOFTMAX]
    ways = _ways(question.pairs or (JOINT,))
    if ways != [JOINT] and not corpus.pairs:
        what = f"{corpus.name} has one text a row, and a siamese way in needs two."
        raise DataError(
            what, "Name the column of second texts (--pair), or leave the way in joint."
        )
    for name in losses:
        loss[name]  # says what there is, where there is none of that name
    found, notes = list[Recipe](), list[str]()
    recipes = list(question.recipes)
    if not recipes:
        recipes, notes = _grid(question, backbone, limits)
    for text in recipes:
        recipe = resolve(text).recipe
        own = list(_each(recipe, ways, losses))
        found += own or [_with(recipe, ways[0], losses[0])]  # which says why it cannot be
    for order in map(resolve, found):
        check_pairs(order, corpus.pairs)
        check_order(order, corpus)
    return list(dict.fromkeys(map(str, found))), notes


def _grid(question: Question, backbone: Backbone, limits: Limits) -> tuple[list[str], list[str]]:
    """The recipes of a grid that suit, and a sentence on those that do not."""
    recipes = recipes_of(question.grid, backbone)
    if question.grid.partition(":")[0] not in (HEADS, POOLINGS):
        return recipes, []
    corpus, found = question.data.corpus, list[str]()
    for recipe in recipes:
        with suppress(HeadsError), Dice().rolling():  # its random weights are not used
            check_order(resolve(recipe), corpus)
            assemble(recipe, backbone, len(corpus.classes), kind=corpus.kind, limits=limits)
            found.append(recipe)
    unsuited = ", ".join(recipe for recipe in recipes if recipe not in found)
    says = f"Left out of the grid {question.grid}: {unsuited}. Asked for by name, each says why."
    return found, [says] * bool(unsuited)


def entering(recipe: Recipe | str, way: str) -> Recipe:
    """A recipe with the way in of two texts, unless it says that itself.

    One that learns from the states of all tokens reads the two as one sequence.

    Raises:
        RecipeError: There is no such way in.
    """
    order, name = resolve(recipe), USUAL if way == SIAMESE else way
    if name != JOINT and name not in pairing:
        raise _unknown(name, [JOINT, SIAMESE, *pairing])
    if PAIR in dict(order.recipe.options) or order.needs_states:
        return order.recipe
    return _with(order.recipe, name, order.loss)


def _ways(pairs: Sequence[str]) -> list[str]:
    found: list[str] = []
    for way in pairs:
        if way == FEATURES:
            found += pairing
        elif way == SIAMESE:
            found.append(USUAL)
        elif way == JOINT or way in pairing:
            found.append(way)
        else:
            raise _unknown(way, [JOINT, SIAMESE, FEATURES, *pairing])
    return list(dict.fromkeys(found))


def _unknown(way: str, known: Sequence[str]) -> RecipeError:
    what = f"There is no pairing called '{way[:80]}'."
    return RecipeError(what, did_you_mean(way, known))


def _each(recipe: Recipe, ways: Sequence[str], losses: Sequence[str]) -> Iterator[Recipe]:
    """A recipe in every way in that fits it; a head that is solved at once has no loss."""
    given = dict(recipe.options)
    for way in [given[PAIR]] if PAIR in given else ways:
        for name in [given[LOSS]] if LOSS in given else losses:
            try:
                yield _with(recipe, str(way), str(name))
            except RecipeError:
                continue


def _with(recipe: Recipe, way: str, name: str) -> Recipe:
    options = {**dict(recipe.options), PAIR: way, LOSS: name}
    return resolve(replace(recipe, options=tuple(sorted(options.items())))).recipe
