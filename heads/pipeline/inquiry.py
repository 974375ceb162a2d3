"""Explaining, from the outside: what a recipe is, and what sets two apart, by name.

The page, the shell, the API and Python ask the same functions.
"""

from collections.abc import Iterator

from heads.analysis import differences, explanation
from heads.analysis.explanation import Explanation
from heads.backbone.loading import load
from heads.backbone.models import BUNDLED
from heads.classifier.pretrained import OWN, own_head
from heads.data.corpus import gate
from heads.data.samples import TEXT
from heads.events import Progress
from heads.parts.resolve import resolve
from heads.recipe import Recipe
from heads.settings import Limits
from heads.settings import limits as limits_here
from heads.training.sampled import corpus_of, sample_for, trained


def explain(
    recipe: Recipe | str,
    text: str = TEXT,
    pair: str = "",
    *,
    model: str = BUNDLED,
    sample: str = "",
    limits: Limits | None = None,
) -> Explanation:
    """Takes a recipe apart on a base model: layers, shapes, counts, formula, origin, reading.

    A learned pooling is trained on the sample first, so that it shows what it has learned
    to read.

    Args:
        recipe: For example ``"cls+roberta"``; ``"own"`` is the head that a fine-tuned
            checkpoint came with.
        text: The sentence on which the reading is shown.
        pair: A second sentence.
        model: The bundled base model, a Hub id, or (locally) a folder.
        sample: The data of its classes: sentiment, intents, pairs, aspects or similarity.

    Raises:
        HeadsError: Anything in the question that does not fit, in one sentence.
    """
    for event in explaining(recipe, text, pair, model=model, sample=sample, limits=limits):
        if isinstance(event, Explanation):
            return event
    raise AssertionError("an explanation ends in its result")


def explaining(
    recipe: Recipe | str,
    text: str = TEXT,
    pair: str = "",
    *,
    model: str = BUNDLED,
    sample: str = "",
    limits: Limits | None = None,
) -> Iterator[Progress | Explanation]:
    """The same as `explain`, as a stream: progress, then the explanation."""
    limits = limits or limits_here()
    pair, model, sample = pair or "", model or BUNDLED, sample or ""
    is_own = isinstance(recipe, str) and recipe.strip().lower() == OWN
    order = None if is_own else resolve(recipe)
    data = sample_for(sample, pair)
    text = gate(text, limits)
    pair = gate(pair, limits, "second sentence") if data.pair else ""
    yield Progress(says=f"Loading {model}", share=0.0)
    backbone = load(model, limits=limits)
    head = None
    if order is None:
        head = own_head(backbone)
    elif order.learns_to_read:
        head = (yield from trained([order.recipe], corpus_of(data, limits), backbone, limits))[0]
    yield explanation.explain(
        head.recipe if order is None and head else recipe,
        backbone,
        classes=len(head.classes if head else corpus_of(data, limits).classes),
        text=text,
        pair=pair,
        head=head,
    )


def difference(
    one: Recipe | str, other: Recipe | str, *, model: str = BUNDLED, limits: Limits | None = None
) -> str:
    """What sets the second head apart from the first, in a few sentences.

    Args:
        one: A recipe, a family of Transformers such as ``"bert"``, or a model.
        other: The same.
        model: The base model under two recipes.

    Raises:
        HeadsError: A recipe, a family or a model does not exist or does not fit.
    """
    limits = limits or limits_here()
    one, other = (_own_recipe(name, model, limits) for name in (one, other))
    if any(isinstance(name, str) and "+" not in name for name in (one, other)):
        return differences.difference_by_name(str(one), str(other), limits)
    first, second = resolve(one).recipe, resolve(other).recipe
    return differences.difference(first, second, load(model, limits=limits))


def _own_recipe(name: Recipe | str, model: str, limits: Limits) -> Recipe | str:
    """The recipe that "own" stands for on a base model; any other name as it is."""
    if isinstance(name, str) and name.strip().lower() == OWN:
        return own_head(load(model, limits=limits)).recipe
    return name
