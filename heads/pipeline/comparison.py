"""The main job: one or two sentences under several recipes, side by side.

The page, the shell, the API and Python ask the same function and show the same answer.
"""

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from itertools import combinations
from typing import Any

from heads.errors import DataError, LimitError, RecipeError
from heads.parts.menu import resolve
from heads.parts.models import BUNDLED
from heads.pipeline.backbone import Backbone, load
from heads.pipeline.classifier import TrainedHead
from heads.pipeline.corpus import gate
from heads.pipeline.differences import same_in_training
from heads.pipeline.prediction import Prediction, predict
from heads.pipeline.sampled import sample_for, trained
from heads.pipeline.states import Encoded
from heads.pipeline.training import Progress
from heads.recipe import Recipe
from heads.settings import Limits
from heads.settings import limits as limits_here

RECIPES = ("cls+linear", "mean+linear", "cls+roberta", "attention+linear")


@dataclass(frozen=True, slots=True, kw_only=True)
class Comparison:
    """What several heads say of one text, or of one pair.

    Attributes:
        model: The id of the base model, and which version of it.
        sample: The data that the heads were trained on.
        classes: The names of the classes, in the order of every logit.
        many: Whether any number of classes may apply.
        predictions: One a recipe, in the order asked for.
        notes: What one should know before believing the numbers, a sentence each.
    """

    model: str
    revision: str
    text: str
    pair: str
    sample: str
    classes: tuple[str, ...]
    many: bool
    predictions: tuple[Prediction, ...]
    notes: tuple[str, ...]

    @property
    def verdict(self) -> str:
        """Who agrees on what, in a sentence or two."""
        count = Counter(prediction.answer for prediction in self.predictions)
        most, votes = count.most_common(1)[0]
        if len(self.predictions) == 1:
            return f"{self.predictions[0].recipe} says {spoken(most)}."
        if votes == len(self.predictions):
            everyone = "Both" if votes == 2 else f"All {votes}"
            return f"{everyone} heads agree: {spoken(most)}."
        if votes == 1:
            number = "two" if len(self.predictions) == 2 else f"{len(self.predictions)}"
            return f"The {number} heads disagree: " + _others(self.predictions, None)
        if list(count.values()).count(votes) > 1:
            return "The heads are split: " + _others(self.predictions, None)
        return f"{votes} of {len(self.predictions)} heads agree: {spoken(most)}. " + _others(
            self.predictions, most
        )

    @property
    def is_unanimous(self) -> bool:
        """Whether all heads give the same answer."""
        return len({prediction.answer for prediction in self.predictions}) == 1

    def as_json(self) -> dict[str, Any]:
        """The comparison as plain values: the answer of `heads compare --json`."""
        return {
            "model": self.model,
            "revision": self.revision,
            "text": self.text,
            "pair": self.pair or None,
            "sample": self.sample,
            "classes": list(self.classes),
            "many": self.many,
            "verdict": self.verdict,
            "notes": list(self.notes),
            "recipes": [
                {
                    "recipe": str(prediction.recipe),
                    "trained_on": prediction.trained_on,
                    "rows": prediction.rows,
                    "held_out": asdict(prediction.scores),
                    "parameters": prediction.parameters,
                    "answer": list(prediction.answer),
                    "logits": list(prediction.logits),
                    "probabilities": list(prediction.probabilities),
                }
                for prediction in self.predictions
            ],
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class Compared:
    """The last event of a comparison."""

    comparison: Comparison


def compare(
    text: str,
    pair: str = "",
    *,
    recipes: Sequence[Recipe | str] = RECIPES,
    model: str = BUNDLED,
    sample: str = "",
    limits: Limits | None = None,
) -> Comparison:
    """Compares heads on one or two sentences.

    A recipe that has not been trained on the sample yet is trained first, which takes
    seconds; after that it is kept.

    Args:
        text: The sentence.
        pair: A second sentence, read together with the first.
        recipes: The heads, for example ``["mean+linear", "cls+roberta"]``.
        model: The bundled base model, a Hub id, or (locally) a folder.
        sample: What the heads are trained on: sentiment, intents, pairs or aspects.
            Without it sentiment, and pairs where there are two sentences.
        limits: What is allowed; this place's limits if not given.

    Returns:
        Logits and probabilities of every class under every recipe.

    Raises:
        HeadsError: Anything in the question that does not fit, in one sentence.
    """
    for event in comparing(text, pair, recipes=recipes, model=model, sample=sample, limits=limits):
        if isinstance(event, Compared):
            return event.comparison
    raise AssertionError("a comparison ends in its result")


def comparing(
    text: str,
    pair: str = "",
    *,
    recipes: Sequence[Recipe | str] = RECIPES,
    model: str = BUNDLED,
    sample: str = "",
    limits: Limits | None = None,
) -> Iterator[Progress | Compared]:
    """The same as `compare`, as a stream: progress while heads are trained, then the result."""
    limits = limits or limits_here()
    for what, value in (("second sentence", pair), ("base model", model), ("sample", sample)):
        if value is not None and not isinstance(value, str):
            raise DataError(f"The {what} must be a text, not {type(value).__name__}.", "Type it.")
    pair, model, sample = pair or "", model or BUNDLED, sample or ""
    chosen = _chosen(recipes or (), limits)
    data = sample_for(sample, pair)
    notes = _cut_notes((text, pair), limits)
    text = gate(text, limits)
    pair = gate(pair, limits, "second sentence") if data.pair else ""
    yield Progress(says=f"Loading {model}", share=0.0)
    backbone = load(model, limits=limits)
    heads = yield from trained(chosen, data, backbone, limits)
    encoded = backbone.encode([text], [pair] if pair else [])
    predictions = predict(backbone.states(encoded), heads)
    notes += _token_notes(encoded[0]) + _recipe_notes(heads, backbone)
    yield Compared(
        comparison=Comparison(
            model=backbone.id,
            revision=backbone.revision,
            text=text,
            pair=pair,
            sample=data.name,
            classes=heads[0].classes,
            many=heads[0].many,
            predictions=tuple(predictions),
            notes=tuple(notes),
        )
    )


def spoken(answer: Sequence[str]) -> str:
    """The classes of an answer as a reader would say them."""
    return ", ".join(answer) or "none of the classes"


def _others(predictions: Sequence[Prediction], most: tuple[str, ...] | None) -> str:
    rest = [p for p in predictions if p.answer != most]
    return "; ".join(f"{p.recipe} says {spoken(p.answer)}" for p in rest) + "."


def _chosen(recipes: Sequence[Recipe | str], limits: Limits) -> list[Recipe]:
    if isinstance(recipes, str):
        recipes = [recipes]
    chosen = list(dict.fromkeys(resolve(recipe).recipe for recipe in recipes))
    if not chosen:
        raise RecipeError("No recipe is chosen.", "Choose at least one, for example mean+linear.")
    if len(chosen) > limits.recipes:
        what = f"{len(chosen)} recipes are chosen; at most {limits.recipes} fit side by side here."
        raise LimitError(what, "Take some away.")
    return chosen


def _cut_notes(texts: Sequence[str], limits: Limits) -> list[str]:
    most = limits.text_characters
    return [
        f"Only the first {most:,} of {len(text):,} characters were read."
        for text in texts
        if isinstance(text, str) and len(text) > most
    ]


def _token_notes(encoded: Encoded) -> list[str]:
    if encoded.whole_length <= len(encoded):
        return []
    return [f"Only the first {len(encoded):,} of {encoded.whole_length:,} tokens were read."]


def _recipe_notes(heads: Sequence[TrainedHead], backbone: Backbone) -> list[str]:
    notes = []
    if backbone.pooler == "new" and any(head.recipe.pooling == "pooler" for head in heads):
        notes.append(f"{backbone.id} has no pretrained pooler: 'pooler' reads random weights.")
    lucky = [str(head.recipe) for head in heads if head.scores.low <= head.scores.majority]
    if lucky:
        is_or_are = "is" if len(lucky) == 1 else "are"
        notes.append(f"{', '.join(lucky)} {is_or_are} hardly better than guessing on new texts.")
    for one, other in combinations(heads, 2):
        if same_in_training(one.recipe, other.recipe, backbone):
            notes.append(
                f"{one.recipe} and {other.recipe} are the same layers under other names: "
                "any difference between them is chance."
            )
    return notes
