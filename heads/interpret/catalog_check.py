"""The walk: whether our recipe gives the very logits of each XForSequenceClassification.

Every family is built small and at random, its head's weights are copied into our layers by their
names in the checkpoint, its base model's into the base model that the app would load, and both
read the same batch of token numbers.
Legend: n texts, t tokens, c classes.
"""

from dataclasses import dataclass
from typing import Any

import torch

from heads.backbone.backbone import Backbone
from heads.backbone.loading import around, measured
from heads.backbone.states import Encoded
from heads.backbone.weights import bare
from heads.catalog.families import family
from heads.catalog.forms import Form, Side, setting
from heads.catalog.tiny_models import NOT_BUILT, quiet, tiny_model
from heads.classifier.module import RecipeModule
from heads.classifier.native_head import names_of
from heads.errors import HeadsError
from heads.parts.resolve import with_options
from heads.parts.resolved_recipe import LATE
from heads.rng import IsolatedRng

CLASSES = 3
LENGTHS = (9, 4, 6, 2)
ROUNDING = 1e-6


@dataclass(frozen=True, slots=True, kw_only=True)
class FamilyCheck:
    """What the walk found of one family.

    Attributes:
        equal: Whether the logits are the same: to the bit, or within rounding where Transformers
            adds in another order; None where the family was not built.
        max_difference: The largest difference of two logits.
        reason: Why it was not built or not expressed; empty if it was.
    """

    model_type: str
    equal: bool | None = None
    max_difference: float | None = None
    reason: str = ""

    @property
    def exact(self) -> bool:
        """Whether not one bit differs."""
        return self.max_difference == 0


def compare_family(model_type: str, **settings: Any) -> FamilyCheck:
    """Compares our logits with those of the class of one family: a text alone, and batches.

    Args:
        settings: Config values besides those of the small model.
    """
    try:
        form = family(model_type)
        if form.reason or model_type in NOT_BUILT:
            form.recipe_for(None)
            return FamilyCheck(model_type=model_type, reason=NOT_BUILT[model_type])
        with quiet():
            model = tiny_model(model_type, labels=CLASSES, **settings)
            backbone, module = rebuilt(model, form)
            sides: tuple[Side, ...] = form.sides_of(form.recipe_for(model.config))
            batch = texts(model.config)
            asked: list[tuple[list[Encoded], Side]] = [(batch, side) for side in sides]
            asked.insert(0, (batch[:1], sides[0]))
            with torch.no_grad():
                theirs = torch.cat([model(**backbone.filled(*one)).logits for one in asked])
                ours = torch.cat([module(backbone.states(*one)) for one in asked])
    except HeadsError as error:
        return FamilyCheck(model_type=model_type, reason=str(error))
    difference = (ours - theirs).abs().max().item()
    equal = difference <= ROUNDING * max(1.0, theirs.abs().max().item())
    return FamilyCheck(model_type=model_type, equal=equal, max_difference=difference)


def rebuilt(model: Any, form: Form) -> tuple[Backbone, RecipeModule]:
    """A model of Transformers as a base model and a head of ours, with copies of its weights."""
    recipe = form.recipe_for(model.config)
    base = bare(model.config)
    base.load_state_dict(model.base_model.state_dict(), strict=False)
    found = around(base, id=model.config.model_type, revision="tiny", missing=[])
    short, long = texts(model.config, (8, 12))
    backbone = measured(found, short, long)
    with IsolatedRng().rolling():
        # Some classes apply the head to every token first.
        recipe = with_options(recipe, {LATE: True}) if form.late else recipe
        module = RecipeModule(recipe, backbone, model.config.num_labels)
    theirs = model.state_dict()
    named = names_of(form, module.reader.resolved, module.head, model)
    module.head.load_state_dict({ours: theirs[name] for ours, name in named.items()})
    return backbone, module.eval()


def texts(config: Any, lengths: tuple[int, ...] = LENGTHS, *, end_place: int = -2) -> list[Encoded]:
    """Token numbers in which each token that a pooling may look for stands in a place of its own.

    The first token is special, and the token that ends a text stands last but one, unless told
    otherwise: so the first token, the last one, the last end and the words are four things.
    """
    most = (setting(config, "vocab_size") or 120) - 10
    end = setting(config, "eos_token_id")
    batch = []
    for length in lengths:
        numbers = [10 + (place * place * 13 + length * 7) % most for place in range(length)]
        if isinstance(end, int):
            numbers[end_place] = end
        special = [1, *[0] * (length - 1)]
        batch.append(Encoded(inputs={"input_ids": numbers}, special=special, whole_length=length))
    return batch
