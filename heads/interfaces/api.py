"""Typed endpoints: what the page can do, for programs. Also the MCP tools, where asked for.

Each calls the same function as the page and the shell; the docstring is its description.
"""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from heads.backbone.models import BUNDLED
from heads.data.samples import RECIPES, TEXT
from heads.interfaces.web.guards import guarded

if TYPE_CHECKING:
    from heads.api import Look

COMMON: list[str] = list(RECIPES)  # shown as the default


@guarded
def compare(
    text: str,
    pair: str = "",
    recipes: list[str] = COMMON,
    model: str = BUNDLED,
    sample: str = "",
    pairs: str = "joint",
) -> dict[str, Any]:
    """Compare classification heads on one or two sentences: every logit and probability.

    Args:
        text: The sentence.
        pair: A second sentence, or nothing.
        recipes: At most four poolings and heads, such as mean+linear or cls+roberta.
        model: The base model: all-MiniLM-L6-v2 or a Hub id.
        sample: What the heads are trained on: sentiment, intents, pairs, aspects or similarity.
        pairs: How two sentences enter: joint, siamese, or a pairing such as uv_diff.

    Returns:
        The classes, and for each recipe its logits, probabilities and held-out accuracy.
    """
    from heads.analysis import comparison

    return comparison.compare(
        text, pair, recipes=recipes, model=model, sample=sample, pairs=pairs
    ).as_json()


@guarded
def explain(
    recipe: str,
    text: str = TEXT,
    pair: str = "",
    model: str = BUNDLED,
    sample: str = "",
) -> dict[str, Any]:
    """Explain one pooling and head: layers, shapes, counts, formula, origin, tokens read.

    Args:
        recipe: Such as cls+roberta.
        text: The sentence on which the reading is shown.
        pair: A second sentence, or nothing.
        model: The base model: all-MiniLM-L6-v2 or a Hub id.
        sample: The data of its classes: sentiment, intents, pairs, aspects or similarity.

    Returns:
        The steps from tokens to logits with their tensors, and each token's share.
    """
    from heads import api

    return api.explain(recipe, text, pair, model=model, sample=sample).as_json()


@guarded
def families() -> list[dict[str, Any]]:
    """List every XForSequenceClassification of Transformers with the recipe that equals it.

    Returns:
        The family, its class, its form, its recipe, and the reason where there is none.
    """
    from heads.catalog.catalog import catalogue

    return [entry.as_json() for entry in catalogue()]


@guarded
def difference(one: str, other: str, model: str = BUNDLED) -> dict[str, str]:
    """Say in plain words what sets two classification heads apart.

    Args:
        one: A recipe such as cls+bert, a family such as roberta, or a model.
        other: The same.
        model: The base model under two recipes.

    Returns:
        The two names and the difference, a few sentences.
    """
    from heads import api

    return {"one": one, "other": other, "difference": api.difference(one, other, model=model)}


@guarded
def doctor(model: str) -> dict[str, Any]:
    """Find which changes of padding and truncation change a classifier's logits, and why.

    Args:
        model: A family such as gpt2, the bundled model, or a Hub id.

    Returns:
        Each change with the largest difference of two logits, the reason and what to do.
    """
    from heads.analysis.padding.report import examine

    return examine(model).as_json()


@guarded
def look(
    text: str,
    pair: str = "",
    recipes: list[str] = COMMON,
    model: str = BUNDLED,
    sample: str = "",
    run: str = "",
    label: str = "",
    against: str = "others",
) -> dict[str, Any]:
    """Show which tokens move each head's answer, and its nearest training examples.

    Args:
        text: The sentence.
        pair: A second sentence, or nothing.
        recipes: At most four poolings and heads, such as mean+linear or cls+roberta.
        model: The base model: all-MiniLM-L6-v2 or a Hub id.
        sample: What the heads are trained on: sentiment, intents, pairs, aspects or similarity.
        run: The id of a run whose heads are asked instead, or nothing.
        label: The class that is asked about; of each head its answer, if empty.
        against: What its logit is held against: others (their mean) or runner-up (the largest).

    Returns:
        For each head every token's score, which add up, with the error; and similar examples.
    """
    inside = _inside(recipes, sample, run, model)
    attributed = inside.attribute(text, pair, label=label, against=against)
    return {
        "attributions": [one.as_json() for one in attributed],
        "nearest": [one.as_json() for one in inside.nearest(text, pair)],
    }


@guarded
def edit(
    text: str,
    edits: list[str],
    pair: str = "",
    recipes: list[str] = COMMON,
    sample: str = "",
    run: str = "",
) -> dict[str, Any]:
    """Ask heads about edits of a sentence: which head flips on what.

    Args:
        text: The sentence.
        edits: The edited sentences.
        pair: A second sentence, or nothing.
        recipes: At most four poolings and heads.
        sample: What the heads are trained on: sentiment, intents, pairs, aspects or similarity.
        run: The id of a run whose heads are asked instead, or nothing.

    Returns:
        What each head says of each sentence, and a summary in a sentence.
    """
    return _inside(recipes, sample, run).flips(text, edits, pair).as_json()


@guarded
def ablate(
    text: str,
    pair: str = "",
    recipes: list[str] = COMMON,
    without: str = "",
    sample: str = "",
    run: str = "",
    retrain: bool = True,
) -> list[dict[str, Any]]:
    """Take a layer out of trained heads, and train them anew without it: what each says.

    Args:
        text: The sentence.
        pair: A second sentence, or nothing.
        recipes: At most four poolings and heads.
        without: A layer's name, or dense, activation, norm or scale; each in turn if empty.
        sample: What the heads are trained on: sentiment, intents, pairs, aspects or similarity.
        run: The id of a run whose heads are asked instead, or nothing.
        retrain: Whether to train anew as well: seconds on a sample, longer on a run.

    Returns:
        For each head and layer the logits and answers before and after, those of the head that was
        trained without the layer, and its score beside that of the whole one.
    """
    found = _inside(recipes, sample, run).ablate(text, pair, without=without, retrain=retrain)
    return [one.as_json() for one in found]


@guarded
def readings(
    text: str,
    pair: str = "",
    recipes: list[str] = COMMON,
    temperature: float = 1.0,
    sample: str = "",
    run: str = "",
) -> list[dict[str, Any]]:
    """Read the same logits as softmax, as sigmoid, and at a temperature.

    Args:
        text: The sentence.
        pair: A second sentence, or nothing.
        recipes: At most four poolings and heads.
        temperature: What the logits are divided by, from 0.1 to 10.
        sample: What the heads are trained on: sentiment, intents, pairs, aspects or similarity.
        run: The id of a run whose heads are asked instead, or nothing.

    Returns:
        For each head its logits and the probabilities of each reading.
    """
    found = _inside(recipes, sample, run).readings(text, pair, temperature=temperature)
    return [one.as_json() for one in found]


def _inside(recipes: Sequence[str], sample: str, run: str, model: str = BUNDLED) -> "Look":
    """Which heads are asked; of a run its first ones, where the recipes are not of its own."""
    from heads.api import Look

    if run and list(recipes) == COMMON:
        recipes = ()
    return Look(recipes=recipes, model=model, sample=sample, run=run)


@guarded
def parts() -> dict[str, Any]:
    """List every pooling, choice of layers and head, with a sentence and the source of each.

    Returns:
        The parts by shelf: poolings, layers, heads.
    """
    from heads.parts import resolve

    return resolve.parts()
