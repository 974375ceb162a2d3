"""Every sequence classifier of the installed Transformers: its form, its recipe, where it stands.

It walks the live mapping of model types to classes; a family that the catalogue does not know is
named as such.
"""

import re
from dataclasses import dataclass, replace
from functools import cache
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING, Any

from heads import display
from heads.catalog.families import FAMILIES, family
from heads.catalog.forms import Form
from heads.catalog.tiny_models import quiet
from heads.errors import HeadsError, RecipeError
from heads.parts.modules import formula, leaves
from heads.recipe import Recipe

if TYPE_CHECKING:
    from pandas import DataFrame

SOURCE = (
    "https://github.com/huggingface/transformers/blob/v{version}/src/transformers/{file}#L{line}"
)
WIDTH, CLASSES = 768, 2  # any numbers: names and layers do not depend on them


@dataclass(frozen=True, slots=True, kw_only=True)
class CatalogEntry(display.Displayed):
    """One family.

    Attributes:
        model_type: What its config.json calls it.
        called: Its class.
        form: F1 to F17, or empty where the catalogue does not know the family.
        says: What its head does, in one sentence.
        recipe: The recipe that equals it under its default config, if there is one.
        reason: Why there is none, or None.
        tensors: The names of the head's tensors in a checkpoint.
        formula: The head as one line of mathematics.
    """

    model_type: str
    called: str
    form: str = ""
    says: str = ""
    recipe: str | None = None
    reason: str | None = None
    tensors: tuple[str, ...] = ()
    formula: str = ""

    def as_json(self) -> dict[str, Any]:
        """The entry as plain values: one item of `heads families --json`."""
        return {
            "model_type": self.model_type,
            "class": self.called,
            "form": self.form or None,
            "recipe": self.recipe,
            "reason": self.reason,
        }


class Catalogue(tuple[CatalogEntry, ...], display.Displayed):
    """Every family, as a tuple that a notebook shows as a table."""

    __slots__ = ()

    def to_pandas(self) -> "DataFrame":
        """A row a family: its class, its form, its recipe or why there is none, its tensors."""
        return display.data_frame(
            one.as_json() | {"says": one.says, "formula": one.formula, "tensors": one.tensors}
            for one in self
        )


@cache
def catalogue() -> Catalogue:
    """One entry for each key of Transformers' mapping, in its order."""
    return Catalogue(_entry(model_type, called) for model_type, called in classes().items())


@cache
def classes() -> dict[str, str]:
    """The model types of the installed Transformers that have a sequence classifier."""
    from transformers.models.auto import modeling_auto

    return dict(modeling_auto.MODEL_FOR_SEQUENCE_CLASSIFICATION_MAPPING_NAMES)


def entry(model_type: str) -> CatalogEntry:
    """Return the entry of a family; raise RecipeError if Transformers has no such family."""
    if model_type not in classes():
        family(model_type)  # says which one was meant, if it is one of the catalogue's
        raise RecipeError(f"The installed Transformers has no classifier for '{model_type}'.")
    return _entry(model_type, classes()[model_type])


def equals(recipe: Recipe, model_type: str) -> str:
    """The class of Transformers that a recipe equals, and where it stands; empty if none does.

    Args:
        recipe: Its options must be such that a config can hold them.
        model_type: The family whose class is named first, if it is one of them.
    """
    same = [
        name
        for name, form in FAMILIES.items()
        if name in classes()
        and any(_is(recipe, text, form) for text in form.texts)
        and (name == model_type or "hidden" not in dict(recipe.options))  # half of one width only
    ]
    if not same:
        return ""
    first = min(same, key=lambda name: (name != model_type, name != recipe.head))
    others = len(same) - 1
    more = {0: "", 1: ", and 1 more family"}.get(others, f", and {others} more families")
    return f"{classes()[first]}, {place(classes()[first])}{more}"


def _is(recipe: Recipe, text: str, form: Form) -> bool:
    """Whether a recipe is one that a form can have under some config; dropouts do not count."""
    known = Recipe.parse(text)
    if (recipe.pooling, recipe.layers, recipe.head) != (known.pooling, known.layers, known.head):
        return False
    ours, fixed = (
        {n: v for n, v in r.options if not n.endswith("dropout")} for r in (recipe, known)
    )
    free = {name for name in form.options if name not in fixed}
    return {n: v for n, v in ours.items() if n not in free} == fixed


def place(called: str) -> str:
    """The file and line of a class of the installed Transformers."""
    file, line = _place(called)
    return f"transformers/{file}:{line}"


def link(called: str) -> str:
    """Where to read a class of the installed Transformers on the web."""
    file, line = _place(called)
    return SOURCE.format(version=version("transformers"), file=file, line=line)


def default_config(model_type: str) -> Any:
    """The config that a family has before anything is set."""
    from transformers.models.auto.configuration_auto import CONFIG_MAPPING

    with quiet():  # some defaults of Transformers' own make it warn
        return CONFIG_MAPPING[model_type]()


def _entry(model_type: str, called: str) -> CatalogEntry:
    form, family = FAMILIES.get(model_type), CatalogEntry(model_type=model_type, called=called)
    if form is None:
        return replace(family, reason="The catalogue does not know this family yet.")
    family = replace(family, form=form.name, says=form.says)
    try:
        resolved = form.recipe_for(default_config(model_type))
    except HeadsError as error:
        return replace(family, reason=str(error).removeprefix(f"{form.says} "))
    chain = resolved.sketch(WIDTH, CLASSES)
    names = [form.name_of(name, resolved.head.prefix, _base(called)) for name in chain.state_dict()]
    return replace(
        family,
        recipe=str(resolved.recipe),
        tensors=tuple(names),
        formula=formula(layer for _, layer in leaves(chain)),
    )


@cache
def _file(called: str) -> str:
    import transformers

    module = transformers._class_to_module[called]  # pyright: ignore[reportAttributeAccessIssue]
    return module.replace(".", "/") + ".py"


@cache
def _text(file: str) -> str:
    import transformers

    return (Path(transformers.__file__).parent / file).read_text("utf-8")


@cache
def _place(called: str) -> tuple[str, int]:
    file = _file(called)
    found = re.search(rf"^class {called}\b", _text(file), re.MULTILINE)
    return file, _text(file).count("\n", 0, found.start()) + 1 if found else 1


def _base(called: str) -> str:
    """The `base_model_prefix` of a class, read without importing its module."""
    text = _text(_file(called))
    start = text.find(f"class {called}")
    own = re.search(r'base_model_prefix = "(\w+)"', text[start:])
    found = re.findall(r'^    base_model_prefix = "(\w+)"', text, re.MULTILINE)
    return found[0] if found else own[1] if own else "model"
