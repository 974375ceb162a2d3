"""The head that a checkpoint came with, as one of ours: any XForSequenceClassification."""

from dataclasses import replace
from pathlib import Path

from heads.backbone.backbone import Backbone
from heads.backbone.config_check import shown
from heads.backbone.loading import load as load_backbone
from heads.backbone.models import BUNDLED
from heads.catalog.families import FAMILIES
from heads.errors import CheckpointError, RecipeError
from heads.parts.resolve import resolve
from heads.pipeline.assembly import Assembly, TrainedHead
from heads.pipeline.classifier import Classifier
from heads.pipeline.headfile import FACTS, load_exported, load_head
from heads.pipeline.marks import voting
from heads.pipeline.native import native_head
from heads.recipe import Recipe
from heads.rng import Dice
from heads.settings import Limits
from heads.settings import limits as limits_here

LONGEST = 8192  # tokens of a text, where a checkpoint's own head has room for them
OWN = "own"  # stands where a recipe may stand, for the head that the checkpoint came with


def load(
    model: str | Path,
    *,
    base: str = BUNDLED,
    recipe: Recipe | str = "mean+linear",
    limits: Limits | None = None,
) -> Classifier:
    """Takes a fine-tuned XForSequenceClassification apart: base model, recipe, trained head.

    Args:
        model: A folder that `save_pretrained` or `heads.export` wrote, or an id of the Hub; or
            a safetensors file that holds a head alone.
        base: The base model of a head alone.
        recipe: The recipe of a head alone.
        limits: What is allowed; this place's limits if not given.

    Returns:
        A classifier with the labels of its config, whose logits are those of its own class.

    Raises:
        ModelError: It cannot be reached, or must not be loaded.
        CheckpointError: It has no trained head, or tensors are missing or wrong.
        RecipeError: No recipe expresses its family's head; says why.
    """
    limits = limits or limits_here()
    if not limits.public:  # what its authors let it read, it reads
        limits = replace(limits, tokens=max(limits.tokens, LONGEST))
    place = None if limits.public else _place(model)
    if place and place.is_file() and place.suffix != ".safetensors":
        raise CheckpointError(f"{place.name} is a file.", "Give the folder that it lies in.")
    if str(model).endswith(".safetensors"):
        if place is None or not place.is_file():
            raise CheckpointError(f"There is no file {shown(str(model), 80)} here.", "Check it.")
        backbone = load_backbone(base, limits=limits)
        head = load_head(place, recipe, backbone, limits)
        return Classifier(backbone=backbone, head=head)
    if place and (place / FACTS).is_file():
        backbone = load_backbone(str(place / "backbone"), limits=limits)
        return Classifier(backbone=backbone, head=load_exported(place, backbone, limits))
    backbone = load_backbone(str(model), limits=limits)
    head = own_head(backbone)
    if head.new:
        raise _untrained(backbone)
    return Classifier(backbone=backbone, head=head)


def _place(model: str | Path) -> Path | None:
    """Where something of that name lies on this machine, if it does."""
    try:
        place = Path(model).expanduser()
        return place if place.exists() else None
    except (OSError, ValueError, RuntimeError):
        return None  # a null byte, a name too long, the home of a user who does not exist


def _untrained(backbone: Backbone) -> CheckpointError:
    native = native_head(backbone)
    odd = [native.names[name] for name in native.mismatched]
    if odd:
        what = f"{backbone.id} has {odd[0]} in another shape than its config says."
        return CheckpointError(what, "Mend its config, or choose another model.")
    lacking = ", ".join(native.names[name] for name in native.new[:3])
    more = f" and {len(native.new) - 3} more" if len(native.new) > 3 else ""
    what = f"{backbone.id} has no trained head: it lacks {lacking}{more}."
    return CheckpointError(what, "Train one on it, for example with mean+linear.")


def own_head(backbone: Backbone) -> TrainedHead:
    """The head that a base model's checkpoint came with; random where the checkpoint has none.

    Raises:
        RecipeError: No recipe expresses its family's head; says why.
        CheckpointError: Its tensors are not those of its family's head.
    """
    form = FAMILIES.get(backbone.model_type)
    if form and not backbone.decoder_width and any("@decoder" in text for text in form.texts):
        what = f"{backbone.id} holds an encoder without its decoder, so it is no classifier."
        raise CheckpointError(what, "Train a head on it, for example mean+linear.")
    if form is None:
        what = f"Transformers has no classifier for the family '{backbone.model_type}'."
        raise RecipeError(what, "Take 'own' away, or choose another base model.")
    native = native_head(backbone)
    if not native.classes:
        raise CheckpointError(f"The config of {backbone.id} names no classes.", "Choose another.")
    marks = native.marks
    votes = native.many and marks.votes
    recipe = voting(native.recipe) if votes else native.recipe
    with Dice().rolling():
        module = Assembly(resolve(recipe), backbone, len(native.classes))
    module.head.load_state_dict(dict(native.tensors))
    return TrainedHead(
        recipe=recipe,
        model=backbone.id,
        classes=native.classes,
        many=native.many and not votes,
        trained_on=backbone.id,
        rows=0,
        scores=None,
        training=None,
        module=module.eval().requires_grad_(False),
        new=native.new,
        numbers=native.numbers,
        temperature=marks.temperature,
        thresholds=marks.thresholds if native.many and not votes else (),
        paired=marks.paired,
    )
