"""Typed endpoints: what the page can do, for programs. Also the MCP tools, where asked for.

Each calls the same function as the page and the shell; the docstring is its description.
"""

from typing import Any

from heads.interfaces.web.guards import guarded
from heads.parts import menu
from heads.parts.models import BUNDLED
from heads.pipeline import comparison, inquiry


@guarded
def compare(
    text: str,
    pair: str = "",
    recipes: list[str] = list(comparison.RECIPES),  # noqa: B006  shown as the default
    model: str = BUNDLED,
    sample: str = "",
) -> dict[str, Any]:
    """Compare classification heads on one or two sentences: every logit and probability.

    Args:
        text: The sentence.
        pair: A second sentence, or nothing.
        recipes: At most four poolings and heads, such as mean+linear or cls+roberta.
        model: The base model: all-MiniLM-L6-v2 or a Hub id.
        sample: What the heads are trained on: sentiment, intents, pairs or aspects.

    Returns:
        The classes, and for each recipe its logits, probabilities and held-out accuracy.
    """
    return comparison.compare(text, pair, recipes=recipes, model=model, sample=sample).as_json()


@guarded
def explain(
    recipe: str,
    text: str = inquiry.TEXT,
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
        sample: The data whose classes the head has: sentiment, intents, pairs or aspects.

    Returns:
        The steps from tokens to logits with their tensors, and each token's share.
    """
    return inquiry.explain(recipe, text, pair, model=model, sample=sample).as_json()


@guarded
def parts() -> dict[str, Any]:
    """List every pooling, choice of layers and head, with a sentence and the source of each.

    Returns:
        The parts by shelf: poolings, layers, heads.
    """
    return menu.parts()
