"""What the catalogue says of the families of Transformers: the form of its head.

Legend: in a tensor's name ``{base}`` stands for the family's own `base_model_prefix`.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from heads.errors import RecipeError, did_you_mean
from heads.parts.resolve import resolve, with_options
from heads.parts.resolved_recipe import ResolvedRecipe
from heads.recipe import Value

Keys = tuple[str, ...]
Side = Literal["right", "left"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Form:
    """One way to get from hidden states to logits, shared by any number of families.

    Attributes:
        name: F1 to F17.
        recipe: The recipe that equals it; empty where there is none.
        families: Its model types, as Transformers calls them.
        options: For an option of the recipe, the config keys that hold it; the first that is
            set counts.
        choice: The config key that chooses among recipes, if one does.
        recipes: The recipe for each of its values.
        needs: Config values without which the recipe does not hold.
        names: How tensors of our head begin, and how they begin in the checkpoint.
        sides: The sides of padding on which the class itself is defined.
        late: Whether Transformers computes the logits of every token before it picks some,
            which changes at most the last bit.
        shifted: Whether the decoder is read one place further than the text, as far as it goes.
        reason: Why no recipe can express it, if none can.
    """

    name: str
    says: str
    recipe: str = ""
    families: Keys = ()
    options: Mapping[str, Keys] = field(default_factory=dict)
    choice: str = ""
    recipes: Mapping[Value | None, str] = field(default_factory=dict)
    needs: Mapping[str, Value | None] = field(default_factory=dict)
    names: Mapping[str, str] = field(default_factory=dict)
    sides: tuple[Side, ...] = ("right",)
    late: bool = False
    shifted: bool = False
    reason: str = ""

    @property
    def texts(self) -> Keys:
        """Every recipe that the form can be, without the options that a config sets."""
        return tuple(text for text in (self.recipe, *self.recipes.values()) if text)

    def sides_of(self, recipe: ResolvedRecipe) -> tuple[Side, ...]:
        """The sides of padding on which the class is defined where it is this recipe."""
        if recipe.pooling.token == "first":
            return ("right",)
        return ("left",) if self.choice == "summary_type" else self.sides

    def recipe_for(self, config: Any) -> ResolvedRecipe:
        """Return the recipe that equals the class under a config, or raise RecipeError."""
        if self.reason:
            raise RecipeError(f"{self.says} {self.reason}")
        for key, wanted in self.needs.items():
            if (found := setting(config, key)) != wanted:
                what = f"With {key} = {found} this head has other layers than any recipe here."
                raise RecipeError(what, f"Only {key} = {wanted} is known.")
        text = self.recipe
        if self.choice:
            value = setting(config, self.choice)
            if value not in self.recipes:
                what = f"With {self.choice} = {value} this head reads what no recipe here reads."
                raise RecipeError(what, did_you_mean(str(value), map(str, self.recipes)))
            text = self.recipes[value]
        recipe = resolve(text)
        known, options = recipe.head_options, dict[str, Value]()
        for name, keys in self.options.items():
            values = [value for key in keys if (value := setting(config, key)) is not None]
            acts = not name.endswith("dropout") or (values and 0 <= values[0] < 1)
            if name in known and values and acts:
                options[name] = values[0]
        return with_options(recipe, options)

    def name_of(self, tensor: str, head_prefix: str, base: str) -> str:
        """The checkpoint's name of a tensor of our head."""
        for ours, theirs in self.names.items():
            if tensor.startswith(ours):
                return theirs.format(base=base) + tensor.removeprefix(ours)
        return head_prefix + tensor


def setting(config: Any, key: str) -> Any:
    """A value of a config, or of the text model's config inside it, or None."""
    value = getattr(config, key, None)
    inner = config.get_text_config()
    return getattr(inner, key, None) if value is None and inner is not None else value
