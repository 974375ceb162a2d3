"""The cells of a grid: how the head of each recipe is learned."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from types import MappingProxyType

from heads.backbone.backbone import Backbone
from heads.classifier.module import RecipeModule, assemble, begun_with, drawn_head
from heads.errors import LimitError, RecipeError
from heads.parts.modules import ends_linear, last_linear
from heads.parts.resolve import with_options
from heads.parts.resolved_recipe import FROZEN, TUNE, ResolvedRecipe
from heads.problem import SINGLE_LABEL, ProblemType
from heads.recipe import Recipe
from heads.rng import IsolatedRng
from heads.settings import current_limits
from heads.training.finetuning.base import TuningFitter
from heads.training.finetuning.contrastive import ContrastiveFitter
from heads.training.finetuning.fitter import FineTuningFitter
from heads.training.finetuning.plan import plan_of
from heads.training.fitters.base import Fitter, first_of
from heads.training.fitters.closed_form import ClosedFormFitter
from heads.training.fitters.logistic import LinearFitter
from heads.training.fitters.token_heads import TokenAdamWFitter
from heads.training.fitters.vector_heads import AdamWFitter


@dataclass(frozen=True, slots=True, kw_only=True)
class Trial:
    """One cell of the grid.

    Attributes:
        last: The name of its last linear layer, as the learned tensors have it.
    """

    resolved: ResolvedRecipe
    fitter: Fitter
    parameters: int
    last: str
    biased: bool

    @property
    def reading(self) -> str:
        """The fixed reading that it learns from; none, if it learns from tokens or texts."""
        return self.resolved.reading if self.fitter.learns_from == "vectors" else ""

    @property
    def needs_states(self) -> bool:
        """Whether it learns from the states of all tokens of the frozen base model."""
        return self.fitter.learns_from == "states"

    @property
    def is_tuned(self) -> bool:
        """Whether it learns the base model as well, and wants all cores for that."""
        return self.resolved.is_tuned

    @property
    def is_whole(self) -> bool:
        """Whether what it learns are the tensors of the whole recipe, not of its head alone."""
        return self.is_tuned or self.needs_states

    @property
    def cut_layers(self) -> tuple[int, ...]:
        """The layers whose states are kept while those above them are learned."""
        fitter = self.fitter
        return fitter.plan.reads if isinstance(fitter, TuningFitter) else ()

    @property
    def base_parameters(self) -> int:
        """How many numbers it learns of the base model."""
        fitter = self.fitter
        return fitter.plan.parameters if isinstance(fitter, TuningFitter) else 0

    @property
    def name(self) -> str:
        """The recipe in its canonical form."""
        return str(self.resolved.recipe)

    def cost(self, rows: int, seeds: int) -> float:
        """How long it takes, by a yardstick of no unit: what takes long should begin first."""
        return (self.parameters + self.base_parameters) * rows * seeds * self.fitter.pace


def trials(
    recipes: Sequence[ResolvedRecipe],
    backbone: Backbone,
    classes: int,
    problem: ProblemType = SINGLE_LABEL,
    built: Mapping[Recipe, Trial] = MappingProxyType({}),
) -> list[Trial]:
    """The cells of these recipes, each once, those of one reading side by side.

    Args:
        built: Cells that were built for the same labels before, and are not built again.

    Raises:
        RecipeError: A recipe does not fit the base model, or cannot stand in a grid.
        LimitError: A head would be too large.
    """
    limits = current_limits()
    different = {resolved.recipe: resolved for resolved in recipes}
    if not different:
        raise RecipeError("No recipe is chosen.", "Choose at least one, for example mean+linear.")
    if len(different) > limits.cells:
        count = len(different)
        what = f"{count} recipes are chosen; this place trains at most {limits.cells} at once."
        raise LimitError(what, "Take some away.")
    found = [
        built.get(recipe) or build_trial(resolved, backbone, classes, problem)
        for recipe, resolved in different.items()
    ]
    readings = list(dict.fromkeys(trial.resolved.reading for trial in found))
    return sorted(found, key=lambda trial: readings.index(trial.resolved.reading))


def build_trial(
    resolved: ResolvedRecipe, backbone: Backbone, classes: int, problem: ProblemType
) -> Trial:
    """Build the cell of one recipe; raise as `trials` does."""
    with IsolatedRng().rolling():  # its random weights are not used
        module = assemble(resolved, backbone, classes, problem=problem)
    _check_paired(resolved, problem)
    if not problem.has_classes and not ends_linear(module.head):
        what = f"{resolved.head.name} does not end in a linear layer, as heads for numbers must."
        raise RecipeError(what, f"Write {resolved.recipe.pooling}+linear.")
    fitter, last = _fitter(resolved, backbone, module, classes), last_linear(module.head)
    return Trial(
        resolved=resolved,
        fitter=fitter,
        parameters=sum(tensor.numel() for tensor in module.parameters()),
        last=f"head.{last}" if resolved.is_tuned or fitter.learns_from == "states" else last,
        biased=f"{last}.bias" in module.head.state_dict(),
    )


def _check_paired(resolved: ResolvedRecipe, problem: ProblemType) -> None:
    """Raise RecipeError if a recipe learns from pairs without its library or one class a row."""
    if not resolved.tuning.paired:
        return
    way = f"{TUNE}={resolved.tune}"
    if not resolved.tuning.is_installed:
        library = resolved.tuning.library
        what = f"{resolved.recipe}: {way} needs the library {library}, not installed here."
        raise RecipeError(what, f"Run: pip install {library}")
    if not problem.is_exclusive:
        what = f"{resolved.recipe}: {way} learns which texts are of one class, and these labels "
        what += "may be several." if problem.has_classes else "are numbers."
        raise RecipeError(what, f"Write {TUNE}=full.")


def _fitter(
    resolved: ResolvedRecipe, backbone: Backbone, module: RecipeModule, classes: int
) -> Fitter:
    """Return what learns a recipe; one that tunes its base model begins as its way says."""
    if not resolved.is_tuned:
        return _frozen_fitter(resolved, backbone, module, classes)
    way, head = resolved.tuning, None
    if way.probed or way.paired:
        frozen = with_options(resolved, {TUNE: FROZEN})
        head = _frozen_fitter(frozen, backbone, module, classes)
    given = {
        "resolved": resolved,
        "backbone": backbone,
        "classes": classes,
        "plan": plan_of(resolved, backbone, module.reader),
    }
    if head is None or way.probed:
        return FineTuningFitter(**given, probe=head)
    if head.learns_from != "vectors":
        what = f"{resolved.recipe}: {resolved.head.name} does not learn from one vector a text, as "
        raise RecipeError(f"{what}{TUNE}={resolved.tune} lets heads.", f"Write {TUNE}=full.")
    return ContrastiveFitter(**given, head=head)


def _frozen_fitter(
    resolved: ResolvedRecipe, backbone: Backbone, module: RecipeModule, classes: int
) -> Fitter:
    width = module.width
    if resolved.needs_states:
        return TokenAdamWFitter(make=partial(RecipeModule, resolved, backbone, classes))
    first = first_of(module.head)
    if first is not None and resolved.is_convex:
        return LinearFitter(first=first, resolved=resolved)
    if resolved.head.solve:
        return ClosedFormFitter(resolved=resolved, width=width)
    with IsolatedRng().rolling():
        begun = begun_with(resolved, backbone, module.head)
    make = partial(drawn_head, resolved, begun, width, classes)
    return AdamWFitter(
        make=make,
        first=first,
        pretrained=bool(module.pretrained),
        standardise=resolved.standardise,
    )
