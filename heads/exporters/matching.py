"""Which class of Transformers computes what a trained head computes, and under which config.

Two heads are the same function once trained if the layers that act in use are the same, whatever
their names and dropouts: RoBERTa's head on a BERT is BERT's own, with its dense layer as pooler.
"""

import copy
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from torch import Tensor, nn

from heads.backbone.backbone import Backbone
from heads.backbone.weights import pooler_weights
from heads.catalog.families import family
from heads.catalog.forms import Form, Side
from heads.classifier.config_extras import voting
from heads.classifier.module import RecipeModule
from heads.errors import RecipeError
from heads.exporters.model_card import base_name
from heads.parts.modules import acting, leaves, sizes, words
from heads.parts.resolve import resolve, with_options
from heads.parts.resolved_recipe import LATE, LONG, PAIR, TUNE, WINDOWS, ResolvedRecipe
from heads.recipe import Recipe

# Config keys that only the head reads: the base model does not change with them.
OF_THE_HEAD = ("classifier_", "cls_dropout", "pooler_", "summary_", "seq_classif_")


@dataclass(frozen=True, slots=True, kw_only=True)
class Equivalent:
    """A class of Transformers that computes the same.

    Attributes:
        form: The form of the family.
        config: The config under which it does.
        recipe: The recipe that this class is.
        tensors: The head's tensors, under the names of that recipe's head.
        differs: What differs in training all the same, in one sentence, or nothing.
    """

    form: Form
    config: Any
    recipe: ResolvedRecipe
    tensors: Mapping[str, Tensor]
    differs: str

    @property
    def side(self) -> Side:
        """The side of padding on which the class is defined."""
        return "left" if self.form.sides_of(self.recipe) == ("left",) else "right"


def equivalent(module: RecipeModule, backbone: Backbone, classes: int) -> Equivalent:
    """Finds the form of the base model's own class that a trained head is.

    Raises:
        RecipeError: There is none; says why, and which of its recipes is nearest.
    """
    resolved = module.reader.resolved
    if module.is_siamese:
        what = (
            f"No class of Transformers reads two texts each by itself, as {resolved.recipe} does."
        )
        raise RecipeError(what, f"Without {PAIR}={resolved.pair} there may be one.")
    if prefix := backbone.for_recipe(resolved).prefix:
        what = f"No class of Transformers writes '{prefix.strip()}' before every text."
        raise RecipeError(what, "Without a prefix there may be one.")
    if resolved.reads_windows:
        what = f"No class of Transformers reads a long text in windows, as {resolved.recipe} does."
        raise RecipeError(what, f"Without {LONG}={WINDOWS} there may be one.")
    form = family(backbone.model_type)
    if _needs_decoder(form) and not backbone.decoder_width:
        what = "Its own class needs the decoder, which this checkpoint lacks."
        raise RecipeError(what, "Take a checkpoint with both halves.")
    known: list[Recipe] = []
    for config in _configs(form, backbone.model.config, resolved):
        recipe = form.recipe_for(config)
        known.append(recipe.recipe)
        tensors = _matched(recipe, module, backbone, classes)
        if tensors is not None:
            return Equivalent(
                form=form,
                config=config,
                recipe=voting(recipe) if resolved.loss == "ovr" else recipe,
                tensors=tensors,
                differs=_training_difference(recipe, resolved),
            )
    raise _nothing(resolved.recipe, list(dict.fromkeys(known)), backbone)


def _needs_decoder(form: Form) -> bool:
    return any("@decoder" in text for text in form.texts)


def _configs(form: Form, config: Any, resolved: ResolvedRecipe) -> Iterator[Any]:
    """The config with every choice of the form, with the recipe's options where they fit."""
    choices = [{form.choice: value} for value in form.recipes] if form.choice else [{}]
    for choice in choices:
        for options in (resolved.head_options, {}):
            changed = copy.deepcopy(config)
            for key, value in choice.items():
                _set(changed, key, value)
            for option, value in options.items():
                for key in form.options.get(option, ())[:1]:
                    if key.startswith(OF_THE_HEAD):
                        _set(changed, key, "linear" if value == "none" else value)
            yield changed


def _set(config: Any, key: str, value: Any) -> None:
    """Changes a value where the config has it: outside, or in the text model's config."""
    inner = config.get_text_config()
    setattr(inner if not hasattr(config, key) and hasattr(inner, key) else config, key, value)


def _matched(
    theirs: ResolvedRecipe, module: RecipeModule, backbone: Backbone, classes: int
) -> dict[str, Tensor] | None:
    """Our tensors under the names of another recipe's head, if that is the same function."""
    ours = module.reader.resolved
    own = acting(module.head)
    if ours.pooling.is_pooler and theirs.head.from_base:
        own = [*_pooler(backbone), *own]  # that head begins with what this reading ends with
    elif not _reads_alike(ours, theirs):
        return None
    other = acting(theirs.sketch(module.reader.width, classes))
    if [says for says, _ in own] != [says for says, _ in other]:
        return None
    ours_named = [tensor for _, tensors in own for tensor in tensors.values()]
    names = [name for _, tensors in other for name in tensors]
    return dict(zip(names, ours_named, strict=True))


def _reads_alike(ours: ResolvedRecipe, theirs: ResolvedRecipe) -> bool:
    """Whether two recipes read the same; `late` makes no difference to one token's weight."""
    if (ours.pooling, ours.layers, ours.layer) != (theirs.pooling, theirs.layers, theirs.layer):
        return False
    if ours.normalise != theirs.normalise:
        return False
    return bool(ours.pooling.token) or ours.late == theirs.late


def _pooler(backbone: Backbone) -> list[tuple[tuple[str, ...], dict[str, Tensor]]]:
    """The base model's pooler as the first layers of a head."""
    weights = pooler_weights(backbone.model)
    if "pooler.dense.weight" not in weights:
        return []
    wide, narrow = weights["pooler.dense.weight"].shape
    dense = nn.Linear(narrow, wide)
    says = (words(dense, is_last=False), *sizes(dense))
    return [(says, dict(weights)), (("tanh",), {})]


def _training_difference(theirs: ResolvedRecipe, ours: ResolvedRecipe) -> str:
    drops = [
        [layer.p for _, layer in leaves(resolved.sketch(8, 2)) if isinstance(layer, nn.Dropout)]
        for resolved in (theirs, ours)
    ]
    active = [[p for p in each if p > 0] for each in drops]
    if active[0] == active[1] or ours.head.solve:
        return ""
    return "Its dropout is another one, which only further training would notice."


def _nothing(recipe: Recipe, known: list[Recipe], backbone: Backbone) -> RecipeError:
    """No class of the family is this recipe: why, and which is nearest."""
    nearest = max(known, key=lambda other: _nearness(recipe, other))
    late = dict(recipe.options).get(LATE) and not dict(nearest.options).get(LATE)
    if (recipe.pooling, recipe.layers) != (nearest.pooling, nearest.layers) or late:
        reads = nearest.pooling + (f"@{nearest.layers}" if nearest.layers else "")
        why = f"the class of {backbone.model_type} reads {reads}, and this head another pooling"
    else:
        why = f"the class of {backbone.model_type} has other layers than {recipe.head}"
    what = f"On {base_name(backbone)} no class of Transformers computes {recipe}: {why}."
    if tune := dict(recipe.options).get(TUNE):
        nearest = with_options(resolve(nearest), {TUNE: tune}).recipe
    return RecipeError(what, f"The nearest recipe that has one: {nearest}.")


def _nearness(one: Recipe, other: Recipe) -> int:
    reads = (one.pooling, one.layers) == (other.pooling, other.layers)
    return 2 * reads + (one.head == other.head)
