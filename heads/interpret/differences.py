"""What sets two recipes apart, in words, derived from their layers."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from difflib import SequenceMatcher
from typing import Any
from weakref import WeakKeyDictionary

from torch import nn

from heads.backbone.backbone import Backbone
from heads.backbone.config_check import shown
from heads.backbone.exported import MODEL_TYPE
from heads.backbone.models import MODELS
from heads.backbone.safety import admit, is_folder
from heads.catalog.catalog import default_config, entry, place
from heads.catalog.families import FAMILIES
from heads.classifier.module import begun_with
from heads.classifier.native_head import recipe_of
from heads.errors import HeadsError, ModelError, did_you_mean
from heads.features.featurizer import Featurizer
from heads.parts.modules import acts_in_training_only, is_idle, last_linear, leaves, words
from heads.parts.registry import loss, pairing
from heads.parts.resolve import other_heads, resolve
from heads.parts.resolved_recipe import FIT, ResolvedRecipe
from heads.recipe import Recipe
from heads.rng import IsolatedRng

CLASSES = 3  # any number: the layers are the same
MOST = 1_000  # recipes whose layers are remembered, of one base model


@dataclass(frozen=True, slots=True)
class LayerDescription:
    """A layer that does something: in words, where its weights come from, if any, and when."""

    says: str
    origin: str
    in_use: bool


def difference(first: ResolvedRecipe, second: ResolvedRecipe, backbone: Backbone) -> str:
    """What sets the second recipe apart from the first, in a sentence or two.

    Raises:
        RecipeError: One of them does not fit the base model.
    """
    if first.recipe == second.recipe:
        return "They are the same recipe."
    told = [_layers(resolved, backbone) for resolved in (first, second)]
    return " ".join([*reading_difference(first, second), head_difference(first, second, told)])


def reading_difference(first: ResolvedRecipe, second: ResolvedRecipe) -> Iterator[str]:
    """What two recipes read, and what is learned of it, a sentence each, where it differs."""
    if (first.pooling, first.recipe.layers) != (second.pooling, second.recipe.layers):
        for resolved in (first, second):
            choice = resolved.recipe.layers
            reading = resolved.pooling.name + (f"@{choice}" if choice else "")
            yield f"{reading}: {' '.join(resolved.says[: 1 + bool(choice)])}"
    elif first.pooling_options != second.pooling_options:
        yield f"They read with other options: {first.recipe} and {second.recipe}."
    yield from (*_texts(first, second), *_texts(second, first))
    if first.loss != second.loss:
        yield from (
            f"{resolved.recipe}: {loss[resolved.loss].says}" for resolved in (first, second)
        )
    yield from (*_scaling(first, second), *_scaling(second, first))
    if first.tune != second.tune:
        yield from (f"{resolved.recipe}: {resolved.tuned_says}" for resolved in (first, second))
    if first.late != second.late:
        resolved = first if first.late else second
        yield f"{resolved.recipe} applies its head to every token and pools the logits."


def _texts(resolved: ResolvedRecipe, other: ResolvedRecipe) -> Iterator[str]:
    """What one makes of texts before they are pooled, where the other does not."""
    if resolved.pair != other.pair and resolved.pair:
        joins = pairing[resolved.pair].says
        yield f"{resolved.recipe} reads two texts each by itself and joins them: {joins}"
    if resolved.prefix and _written(resolved) != _written(other):
        yield f"{resolved.recipe}: {resolved.prefix_says}"
    if resolved.reads_windows and resolved.stride != other.stride:
        yield f"{resolved.recipe}: {resolved.windows_says}"


def _written(resolved: ResolvedRecipe) -> tuple[str, bool]:
    return resolved.prefix, resolved.reads_prefix


def _scaling(resolved: ResolvedRecipe, other: ResolvedRecipe) -> Iterator[str]:
    """How the vectors of one are scaled, where those of the other are not scaled so."""
    if resolved.normalise and not other.normalise:
        yield f"{resolved.recipe} scales its pooled vector to length 1."
    if resolved.standardise is not None and resolved.standardise != other.standardise:
        seen = "standardised vectors" if resolved.standardise else "the vectors as they are"
        yield f"{resolved.recipe} learns from {seen}."


def same_in_training(first: ResolvedRecipe, second: ResolvedRecipe, backbone: Backbone) -> bool:
    """Whether two recipes differ in nothing but the names of their layers."""
    is_alike = _training_key(first) == _training_key(second)
    return is_alike and _layers(first, backbone) == _layers(second, backbone)


def _training_key(resolved: ResolvedRecipe) -> tuple[object, ...]:
    """Return all that training depends on besides the layers of the head."""
    head = resolved.head
    reading = (resolved.pooling, resolved.recipe.layers, resolved.pooling_options, resolved.pair)
    texts = (_written(resolved), resolved.stride, resolved.normalise, resolved.standardise)
    learning = (resolved.loss, resolved.tune, resolved.margin, resolved.is_convex)
    solver = (head.solve, head.convex, resolved.head_options if head.is_solved else None)
    return *reading, *texts, *learning, *solver


def equivalent_heads(resolved: ResolvedRecipe, backbone: Backbone) -> Iterator[str]:
    """The other heads that, behind the same reading, are the same layers under other names."""
    for other in other_heads(resolved):
        if same_in_training(resolved, other, backbone):
            yield other.head.name


_told: WeakKeyDictionary[Any, dict[Any, list[LayerDescription]]] = WeakKeyDictionary()


def _layers(resolved: ResolvedRecipe, backbone: Backbone) -> list[LayerDescription]:
    """The layers of a recipe's head on a base model, found once: every comparison asks."""
    backbone = backbone.untuned  # training begins there
    told = _told.setdefault(backbone.model, {})
    key = (repr(resolved.recipe), resolved.pooling.make, resolved.head.make)
    if key not in told:
        if len(told) >= MOST:
            told.clear()
        told[key] = _found(resolved, backbone)
    return told[key]


def _found(resolved: ResolvedRecipe, backbone: Backbone) -> list[LayerDescription]:
    with IsolatedRng().rolling():
        chain = resolved.sketch(resolved.widened(Featurizer(resolved, backbone).width), CLASSES)
    begun = begun_with(resolved, backbone, chain)
    there = backbone.pooler if resolved.head.from_base else "pretrained"
    own = resolved.applied_layers(chain)
    return layers(own, lambda name: there if f"{name}.weight" in begun else "new")


def layers(
    own: Sequence[tuple[str, nn.Module]], origin: Callable[[str], str]
) -> list[LayerDescription]:
    """The layers of a head that ever do something.

    Args:
        origin: Where the weights of the layer of that name come from.
    """
    last = last_linear(own)
    return [
        LayerDescription(
            says=words(layer, is_last=name == last),
            origin=origin(name) if layer.state_dict() else "",
            in_use=not acts_in_training_only(layer),
        )
        for name, layer in own
        if not is_idle(layer)
    ]


def head_difference(
    first: ResolvedRecipe,
    second: ResolvedRecipe,
    told: Sequence[list[LayerDescription]],
    names: tuple[str, str] = ("", ""),
    *,
    fitted: bool = True,
) -> str:
    """What sets two heads apart, in a sentence or two.

    Args:
        told: The layers of each.
        names: What to call them; the heads' own names if not given.
        fitted: Whether it matters which are solved without dropout.
    """
    a, b = (
        name or f"'{_head(resolved)}'"
        for name, resolved in zip(names, (first, second), strict=True)
    )
    one, other = told
    if _head(first) == _head(second):
        return f"Both have the head '{_head(first)}'."
    ways = [_way(resolved, fitted) for resolved in (first, second)]
    changes = [*_changes([x.says for x in one], [x.says for x in other]), *_origins(one, other, a)]
    if ways[0] != ways[1]:
        changes.append(f"is {ways[1]} where {a} is {ways[0]}")
    if not changes:
        chance = ": any difference in their numbers is chance" * (first.tune == second.tune)
        return f"The heads {a} and {b} are the same layers under other names{chance}."
    sentence = f"Against {a}, the head {b} {_joined(changes)}."
    if [x.says for x in one if x.in_use] == [x.says for x in other if x.in_use]:
        sentence += " Once trained, both compute the same function with different weights."
    return sentence


def _way(resolved: ResolvedRecipe, fitted: bool) -> str:
    if not resolved.head.is_solved:
        return "solved by L-BFGS" if fitted and resolved.is_convex else "trained step by step"
    options = "".join(f", {name} = {value}" for name, value in resolved.head_options.items())
    solver = resolved.head.solve or resolved.head.make
    return f"set at once ({solver.__name__}{options})"


def _changes(one: Sequence[str], other: Sequence[str]) -> Iterator[str]:
    for kind, i, j, k, m in SequenceMatcher(None, one, other, autojunk=False).get_opcodes():
        gone, come = (_joined([f"a {says}" for says in part]) for part in (one[i:j], other[k:m]))
        if kind == "insert":
            yield f"adds {come} " + (f"before the {other[m]}" if m < len(other) else "at the end")
        elif kind == "delete":
            yield f"leaves out {gone}"
        elif kind == "replace":
            yield f"has {come} in place of {gone}"


def _origins(
    one: Sequence[LayerDescription], other: Sequence[LayerDescription], name: str
) -> Iterator[str]:
    """Layers that both have, whose weights come from elsewhere."""
    told = {"untrained": "from the checkpoint (still at its initial values)"}
    there = {layer.says: layer.origin for layer in one}
    for layer in other:
        before = there.get(layer.says, layer.origin)
        if before != layer.origin:
            now, was = (told.get(origin, origin) for origin in (layer.origin, before))
            yield f"has its {layer.says} {now} where that of {name} is {was}"


def _joined(items: Sequence[str]) -> str:
    return " and ".join(filter(None, (", ".join(items[:-1]), *items[-1:])))


def _head(resolved: ResolvedRecipe) -> str:
    own = {*resolved.head_options, FIT}
    options = [(n, v) for n, v in resolved.recipe.options if n in own]
    return str(Recipe(pooling="", head=resolved.head.name, options=tuple(options))).lstrip("+")


# --- What sets two heads apart, whatever they are named by: a recipe, a family, a model, its class.

WIDTH = 768  # any number, as that of the classes: the layers are the same
IN_BASE, IN_HEAD = "in the base model (its pooler)", "in the head"


@dataclass(frozen=True, slots=True, kw_only=True)
class NamedHead:
    """A head to be compared.

    Attributes:
        name: What the user calls it.
        called: Its class in Transformers; empty for a recipe.
        says: What its head does, in one sentence; empty for a recipe.
    """

    name: str
    called: str
    says: str
    resolved: ResolvedRecipe


@dataclass(frozen=True, slots=True, kw_only=True)
class HeadsApart:
    """Two heads and what sets them apart.

    Attributes:
        layers: Of each, those of a pooler that it reads among them.
        says: What sets the second apart from the first, in a sentence or two.
    """

    heads: tuple[NamedHead, NamedHead]
    layers: tuple[list[LayerDescription], list[LayerDescription]]
    says: str


def difference_by_name(one: str, other: str) -> str:
    """Say what sets two heads apart, of which at least one is no recipe; raise HeadsError."""
    found = apart_by_name(one, other)
    return " ".join([*map(_introduced, found.heads), found.says])


def apart_by_name(one: str, other: str) -> HeadsApart:
    """Find what sets two heads apart, with the layers of each; raise HeadsError if unknown."""
    first, second = (named_head(name) for name in (one, other))
    fitted = not (first.called or second.called)  # a class says nothing of how it is fitted
    told = (_layers_by_name(first.resolved, fitted), _layers_by_name(second.resolved, fitted))
    if first.resolved.recipe == second.resolved.recipe:
        says = f"Both are {first.resolved.recipe}: the same head."
    else:
        reads = reading_difference(first.resolved, second.resolved)
        names = (first.name, second.name)
        says = " ".join(
            [*reads, head_difference(first.resolved, second.resolved, told, names, fitted=fitted)]
        )
    return HeadsApart(heads=(first, second), layers=told, says=says)


def unlike(one: Sequence[LayerDescription], other: Sequence[LayerDescription]) -> list[bool]:
    """Which layers of the first have no counterpart in the second: none there, or of other origin.

    >>> dense = LayerDescription("dense layer", IN_HEAD, True)
    >>> unlike([LayerDescription("tanh", "", True), dense], [dense])
    [True, False]
    """
    kept = SequenceMatcher(None, [_key(x) for x in one], [_key(x) for x in other], autojunk=False)
    found = [True] * len(one)
    for block in kept.get_matching_blocks():
        found[block.a : block.a + block.size] = [False] * block.size
    return found


def _key(layer: LayerDescription) -> tuple[str, str]:
    return layer.says, layer.origin


def named_head(name: str) -> NamedHead:
    """Finds out what a name stands for."""
    name = name.strip()
    if "+" in name:
        return NamedHead(name=name, called="", says="", resolved=resolve(name))
    model_type, config = _family(name)
    if model_type == MODEL_TYPE:
        return NamedHead(name=name, called="", says="", resolved=recipe_of(config.to_dict()))
    found = entry(model_type)
    if model_type not in FAMILIES or FAMILIES[model_type].reason:
        raise ModelError(f"{name} has no recipe here. {found.reason}", "Name another family.")
    recipe = FAMILIES[model_type].recipe_for(config)
    return NamedHead(name=name, called=found.called, says=found.says, resolved=recipe)


def _family(name: str) -> tuple[str, Any]:
    """The family of a name and the config of its head: of the checkpoint if it is here."""
    from transformers import AutoConfig

    listed = {key.lower(): base.family for base in MODELS for key in (base.id, base.name)}
    try:
        checkpoint = admit(name, download=False)
    except HeadsError:
        family = name.lower() if name.lower() in FAMILIES else listed.get(name.lower(), "")
        if not family:
            if "/" in name or is_folder(name):
                raise  # it says what is wrong with that model
            hint = did_you_mean(name.lower(), FAMILIES)
            what = f"'{shown(name)}' is no recipe, no family and no model here."
            raise ModelError(what, hint or "The families are listed by: heads families.") from None
        return family, default_config(family)
    config = AutoConfig.from_pretrained(checkpoint.folder, trust_remote_code=False)
    return str(checkpoint.config["model_type"]), config


def _introduced(item: NamedHead) -> str:
    if not item.called:
        recipe = str(item.resolved.recipe)
        name = item.name if item.name == recipe else f"{item.name} is {recipe}"
        return f"{name}: {' '.join(item.resolved.says)}"
    article = "an" if item.called[0] in "AEIOU" else "a"
    where = f"{article} {item.called} ({place(item.called)})"
    return f"{item.name} is {where}, {item.resolved.recipe}: {item.says}"


def _layers_by_name(resolved: ResolvedRecipe, fitted: bool) -> list[LayerDescription]:
    """The layers of a head, those of a pooler that it reads among them."""
    first = [LayerDescription("dense layer", IN_BASE, True), LayerDescription("tanh", "", True)]
    of_base = resolved.head.from_base
    chain = resolved.sketch(WIDTH, CLASSES)
    own = layers(
        resolved.applied_layers(chain) if fitted else leaves(chain),
        lambda name: IN_BASE if of_base and name.startswith(f"{of_base}.") else IN_HEAD,
    )
    return [*(first if resolved.pooling.is_pooler else []), *own]
