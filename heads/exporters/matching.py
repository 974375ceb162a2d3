"""Find the class of Transformers that computes what a trained head computes, and its config.

Two heads are the same function once trained if the layers that act in use are the same, whatever
their names and dropouts: RoBERTa's head on a BERT is BERT's own, with its dense layer as pooler.
"""

import copy
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from torch import Tensor, nn

from heads.backbone.backbone import Backbone
from heads.catalog.families import family
from heads.catalog.forms import Form, Side
from heads.classifier.config_extras import voting
from heads.classifier.module import RecipeModule
from heads.errors import RecipeError
from heads.exporters.model_card import base_name
from heads.parts.modules import acting, leaves
from heads.parts.resolve import with_options
from heads.parts.resolved_recipe import LONG, PAIR, TUNE, WINDOWS, ResolvedRecipe

# Config keys that only the head reads: the base model does not change with them.
HEAD_KEYS = ("classifier_", "cls_dropout", "pooler_", "summary_", "seq_classif_")


@dataclass(frozen=True, slots=True, kw_only=True)
class Equivalent:
    """A class of Transformers that computes what a trained head computes.

    Attributes:
        config: The config under which it does.
        tensors: The head's tensors, by their names in that recipe's head.
        differs: What differs in training, in one sentence, or "".
    """

    form: Form
    config: Any
    recipe: ResolvedRecipe
    tensors: Mapping[str, Tensor]
    differs: str

    @property
    def side(self) -> Side:
        """Return the side of padding on which the class is defined."""
        return "left" if self.form.sides_of(self.recipe) == ("left",) else "right"


def equivalent(module: RecipeModule, backbone: Backbone, classes: int) -> Equivalent:
    """Return the form of the base model's own class that computes a head, or raise RecipeError."""
    resolved = module.reader.resolved
    prefix = backbone.for_recipe(resolved).prefix
    for is_used, ability, option in (
        (module.is_siamese, "reads two texts each by itself", f"{PAIR}={resolved.pair}"),
        (prefix, "writes a prefix before every text", "a prefix"),
        (resolved.reads_windows, "reads a long text in windows", f"{LONG}={WINDOWS}"),
    ):
        if is_used:
            what = f"No class of Transformers {ability}, as {resolved.recipe} does."
            raise RecipeError(what, f"Without {option} there may be one.")
    form = family(backbone.model_type)
    if any("@decoder" in text for text in form.texts) and not backbone.decoder_width:
        what = "Its own class needs the decoder, which this checkpoint lacks."
        raise RecipeError(what, "Take a checkpoint with both halves.")
    recipes: list[ResolvedRecipe] = []
    for config in _iter_configs(form, backbone.model.config, resolved):
        recipe = form.recipe_for(config)
        recipes.append(recipe)
        tensors = _match_tensors(recipe, module, backbone, classes)
        if tensors is not None:
            return Equivalent(
                form=form,
                config=config,
                recipe=voting(recipe) if resolved.loss == "ovr" else recipe,
                tensors=tensors,
                differs=_compare_dropouts(recipe, resolved),
            )
    raise _mismatch(resolved, recipes, backbone)


def _iter_configs(form: Form, config: Any, resolved: ResolvedRecipe) -> Iterator[Any]:
    """Yield the config with every choice of the form, with and without the recipe's options."""
    choices = [{form.choice: value} for value in form.recipes] if form.choice else [{}]
    for choice in choices:
        for options in (resolved.head_options, {}):
            values = dict(choice)
            for option, value in options.items():
                for key in form.options.get(option, ())[:1]:
                    if key.startswith(HEAD_KEYS):
                        values[key] = "linear" if value == "none" else value
            changed = copy.deepcopy(config)
            inner = changed.get_text_config()
            for key, value in values.items():  # in the text model's config if only that has the key
                is_inner = hasattr(inner, key) and not hasattr(changed, key)
                setattr(inner if is_inner else changed, key, value)
            yield changed


def _match_tensors(
    theirs: ResolvedRecipe, module: RecipeModule, backbone: Backbone, classes: int
) -> dict[str, Tensor] | None:
    """Return our tensors by another recipe's names, or None if it is another function."""
    ours, head = module.reader.resolved, module.head
    if ours.pooling.is_pooler and theirs.head.from_base:  # their head begins with our pooling
        pooler = backbone.model.pooler
        dense = getattr(pooler, "dense", pooler)  # in ALBERT and BigBird it is the layer itself
        head = nn.Sequential(dense, nn.Tanh(), head)
    elif _reading(ours) != _reading(theirs):
        return None
    layers, their_layers = acting(head), acting(theirs.sketch(module.reader.width, classes))
    if [words for words, _ in layers] != [words for words, _ in their_layers]:
        return None
    tensors = [tensor for _, named in layers for tensor in named.values()]
    names = [name for _, named in their_layers for name in named]
    return dict(zip(names, tensors, strict=True))


def _reading(recipe: ResolvedRecipe) -> tuple[Any, ...]:
    late = recipe.late and not recipe.pooling.token  # no difference to a single token
    return recipe.pooling, recipe.layers, recipe.layer, recipe.normalise, late


def _compare_dropouts(theirs: ResolvedRecipe, ours: ResolvedRecipe) -> str:
    """Return what to say of another dropout, or "" if it is the same or was never applied."""
    their_rates, our_rates = (
        [layer.p for _, layer in leaves(recipe.sketch(8, 2)) if isinstance(layer, nn.Dropout)]
        for recipe in (theirs, ours)
    )
    if ours.head.is_solved or [*filter(None, their_rates)] == [*filter(None, our_rates)]:
        return ""
    return "Its dropout is another one, which only further training would notice."


def _mismatch(
    ours: ResolvedRecipe, others: Sequence[ResolvedRecipe], backbone: Backbone
) -> RecipeError:
    """Return the error that says how a recipe differs from the nearest of a class's recipes."""
    name, reading = ours.recipe.head, _reading(ours)
    nearest = max(others, key=lambda other: (_reading(other) == reading, other.recipe.head == name))
    why = f"has other layers than {name}"
    if _reading(nearest) != reading:
        pooling = nearest.recipe.pooling + f"@{nearest.recipe.layers}" * bool(nearest.recipe.layers)
        why = f"reads {pooling}, and this head another pooling"
    what = f"On {base_name(backbone)} no class of Transformers computes {ours}: "
    what += f"the class of {backbone.model_type} {why}."
    if ours.is_tuned:
        nearest = with_options(nearest, {TUNE: ours.tune})
    return RecipeError(what, f"The nearest recipe that has one: {nearest}.")
