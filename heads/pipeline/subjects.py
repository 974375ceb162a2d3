"""What sets two heads apart, whatever they are named by: a recipe, a family, a model, its class."""

from collections.abc import Callable
from dataclasses import dataclass

from heads.backbone.config_check import shown
from heads.backbone.models import MODELS
from heads.backbone.safety import Checkpoint, admit, is_folder
from heads.catalog.catalog import default_config, entry, place
from heads.catalog.families import FAMILIES
from heads.errors import HeadsError, ModelError, did_you_mean
from heads.parts.resolve import resolve
from heads.parts.resolved import Order
from heads.pipeline.differences import CLASSES, Layer, head_difference, layers, reading_difference
from heads.settings import Limits

WIDTH = 768  # any number, as that of the classes: the layers are the same
IN_BASE, IN_HEAD = "in the base model (its pooler)", "in the head"


@dataclass(frozen=True, slots=True, kw_only=True)
class Subject:
    """A head to be compared.

    Attributes:
        name: What the user calls it.
        called: Its class in Transformers; empty for a recipe.
        says: What its head does, in one sentence; empty for a recipe.
        order: Its recipe.
    """

    name: str
    called: str
    says: str
    order: Order


def difference_by_name(one: str, other: str, limits: Limits) -> str:
    """What sets two heads apart, in plain words, of which at least one is no recipe.

    Raises:
        HeadsError: One of them is neither a recipe, a family nor a model that is known here.
    """
    first, second = (subject(name, limits) for name in (one, other))
    told = [_layers_by_name(item.order) for item in (first, second)]
    lines = [_introduced(item) for item in (first, second)]
    if first.order.recipe == second.order.recipe:
        return " ".join([*lines, f"Both are {first.order.recipe}: the same head."])
    names = (first.name, second.name)
    heads = head_difference(first.order, second.order, told, names)
    return " ".join([*lines, *reading_difference(first.order, second.order), heads])


def subject(name: str, limits: Limits) -> Subject:
    """Finds out what a name stands for."""
    name = name.strip()
    if "+" in name:
        return Subject(name=name, called="", says="", order=resolve(name))
    model_type, config = _family(name, limits)
    found = entry(model_type)
    if model_type not in FAMILIES or FAMILIES[model_type].reason:
        raise ModelError(f"{name} has no recipe here. {found.reason}", "Name another family.")
    recipe = FAMILIES[model_type].recipe_for(config)
    return Subject(name=name, called=found.called, says=found.says, order=resolve(recipe))


def _family(name: str, limits: Limits) -> tuple[str, object]:
    """The family of a name and the config of its head: of the checkpoint if it is here."""
    listed = {key.lower(): base.family for base in MODELS for key in (base.id, base.name)}
    try:
        checkpoint = admit(name, limits, download=False)
    except HeadsError:
        family = name.lower() if name.lower() in FAMILIES else listed.get(name.lower(), "")
        if not family:
            if "/" in name or is_folder(name, limits):
                raise  # it says what is wrong with that model
            raise _unknown(name) from None
        return family, default_config(family)
    return str(checkpoint.config["model_type"]), _config(checkpoint)


def _config(checkpoint: Checkpoint) -> object:
    from transformers import AutoConfig

    return AutoConfig.from_pretrained(checkpoint.folder, trust_remote_code=False)


def _introduced(item: Subject) -> str:
    if not item.called:
        return f"{item.name}: {' '.join(item.order.says)}"
    article = "an" if item.called[0] in "AEIOU" else "a"
    where = f"{article} {item.called} ({place(item.called)})"
    return f"{item.name} is {where}, {item.order.recipe}: {item.says}"


def _unknown(name: str) -> ModelError:
    hint = did_you_mean(name.lower(), FAMILIES) or "The families are listed by: heads families."
    return ModelError(f"'{shown(name)}' is no recipe, no family and no model here.", hint)


def _layers_by_name(order: Order) -> list[Layer]:
    """The layers of a head, those of a pooler that it reads among them."""
    first = [Layer("dense layer", IN_BASE, True), Layer("tanh", "", True)]
    return [
        *(first if order.pooling.name == "pooler" else []),
        *layers(order.sketch(WIDTH, CLASSES), _origin_of(order)),
    ]


def _origin_of(order: Order) -> Callable[[str], str]:
    of_base = f"{order.head.from_base}."
    return lambda name: IN_BASE if order.head.from_base and name.startswith(of_base) else IN_HEAD
