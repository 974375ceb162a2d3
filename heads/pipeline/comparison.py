"""The main job: one or two sentences under several recipes, side by side.

The page, the shell, the API and Python ask the same function and show the same answer.
"""

from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from heads.backbone.backbone import Backbone
from heads.backbone.loading import load
from heads.backbone.models import BUNDLED
from heads.classifier.inputs import Seen, check_second, seen
from heads.classifier.module import TrainedHead
from heads.classifier.prediction import Prediction, predict
from heads.classifier.pretrained import OWN, own_head
from heads.data.corpus import gate
from heads.data.samples import RECIPES
from heads.errors import DataError, LimitError, RecipeError
from heads.events import Progress
from heads.parts.resolved import JOINT
from heads.pipeline.remarks import cut_notes, joint_notes, recipe_notes, token_notes
from heads.pipeline.verdict import is_unanimous, verdict
from heads.recipe import Recipe
from heads.runs.spec import entering
from heads.settings import Limits
from heads.settings import limits as limits_here
from heads.training.sampled import corpus_of, sample_for, trained


@dataclass(frozen=True, slots=True, kw_only=True)
class Comparison:
    """What several heads say of one text, or of one pair.

    Attributes:
        model: The id of the base model, and which version of it.
        sample: The data that the heads were trained on; empty if all came with the checkpoint.
        classes: The names of the classes, in the order of every logit. A head that came with
            the checkpoint may have others: see its prediction.
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
        return verdict(self.predictions)

    @property
    def is_unanimous(self) -> bool:
        """Whether all heads give the same answer."""
        return is_unanimous(self.predictions)

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
                    "name": prediction.name,
                    "classes": list(prediction.classes),
                    "random": list(prediction.new),
                    "trained_on": prediction.trained_on,
                    "rows": prediction.rows,
                    "held_out": asdict(prediction.scores) if prediction.scores else None,
                    "parameters": prediction.parameters,
                    "answer": list(prediction.answer),
                    "squash": prediction.squash,
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
    pairs: str = JOINT,
    limits: Limits | None = None,
) -> Comparison:
    """Compares heads on one or two sentences.

    A recipe that has not been trained on the sample yet is trained first, which takes
    seconds; after that it is kept.

    Args:
        text: The sentence.
        pair: A second sentence.
        recipes: The heads, for example ``["mean+linear", "cls+roberta"]``; ``"own"`` is the
            head that a fine-tuned checkpoint came with.
        model: The bundled base model, a Hub id, or (locally) a folder.
        sample: What the heads are trained on: sentiment, intents, pairs, aspects or similarity.
            Without it sentiment, and pairs where there are two sentences.
        pairs: How two sentences enter, in recipes that do not say it: "joint", as one sequence,
            "siamese", each by itself, or a pairing by name, such as "uv_diff".
        limits: What is allowed; this place's limits if not given.

    Returns:
        Logits and probabilities of every class under every recipe.

    Raises:
        HeadsError: Anything in the question that does not fit, in one sentence.
    """
    asked: dict[str, Any] = {"recipes": recipes, "model": model, "sample": sample, "pairs": pairs}
    for event in comparing(text, pair, **asked, limits=limits):
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
    pairs: str = JOINT,
    limits: Limits | None = None,
) -> Iterator[Progress | Compared]:
    """The same as `compare`, as a stream: progress while heads are trained, then the result."""
    limits = limits or limits_here()
    _check_texts(("second sentence", pair), ("base model", model), ("sample", sample))
    pair, model, sample = pair or "", model or BUNDLED, sample or ""
    chosen = _chosen(recipes or (), pairs or JOINT, limits)
    ours = [recipe for recipe in chosen if isinstance(recipe, Recipe)]
    data = sample_for(sample, pair) if ours else None
    notes = cut_notes((text, pair), limits)
    text = gate(text, limits)
    pair = gate(pair, limits, "second sentence") if pair.strip() else ""
    yield Progress(says=f"Loading {model}", share=0.0)
    backbone = load(model, limits=limits)
    own = own_head(backbone) if OWN in chosen else None
    found = (yield from trained(ours, corpus_of(data, limits), backbone, limits)) if data else []
    remaining = iter(found)
    heads = [next(remaining) if isinstance(recipe, Recipe) else own for recipe in chosen]
    heads = [head for head in heads if head is not None]
    second = [pair] if pair else []
    given = _read(backbone, text, second, heads)
    notes += token_notes((given.read or backbone.encode([text], second))[0])
    notes += recipe_notes(heads, backbone)
    notes += joint_notes(heads) if (pairs or JOINT) != JOINT else []
    yield Compared(
        comparison=Comparison(
            model=backbone.id,
            revision=backbone.revision,
            text=text,
            pair=pair,
            sample=data.name if data else "",
            classes=(found or heads)[0].classes,
            many=(found or heads)[0].many,
            predictions=tuple(predict(given, heads)),
            notes=tuple(notes),
        )
    )


def _read(
    backbone: Backbone, text: str, second: Sequence[str], heads: Sequence[TrainedHead]
) -> Seen:
    for head in heads:
        check_second(head, second)
    return seen(backbone, [text], second, [head.module for head in heads])


def _check_texts(*named: tuple[str, object]) -> None:
    for what, value in named:
        if value is not None and not isinstance(value, str):
            raise DataError(f"The {what} must be a text, not {type(value).__name__}.", "Type it.")


def _chosen(recipes: Sequence[Recipe | str], way: str, limits: Limits) -> list[Recipe | str]:
    if isinstance(recipes, str):
        recipes = [recipes]
    is_own = [isinstance(recipe, str) and recipe.strip().lower() == OWN for recipe in recipes]
    asked = (
        OWN if own else entering(recipe, way) for recipe, own in zip(recipes, is_own, strict=True)
    )
    chosen = list(dict.fromkeys(asked))
    if not chosen:
        raise RecipeError("No recipe is chosen.", "Choose at least one, for example mean+linear.")
    if len(chosen) > limits.recipes:
        what = f"{len(chosen)} recipes are chosen; at most {limits.recipes} fit side by side here."
        raise LimitError(what, "Take some away.")
    return chosen
