"""Tell from a checkpoint's files whether it was already fine-tuned as a classifier."""

from collections.abc import Iterator
from pathlib import Path

from safetensors import safe_open

from heads.backbone.backbone import Backbone
from heads.backbone.exported import read_config
from heads.backbone.trained_reading import sentence_modules
from heads.catalog.families import FAMILIES
from heads.classifier.sentence_head import SETFIT, SETFIT_PICKLE
from heads.errors import HeadsError
from heads.parts.modules import last_linear
from heads.parts.resolve import resolve


def fine_tuned_warning(backbone: Backbone, *, has_test: bool = False) -> str:
    """Return what to say before any score on a fine-tuned classifier; nothing on another model."""
    if not is_fine_tuned(backbone):
        return ""
    seen = "the test rows" if has_test else "these rows"
    warning = f"This model was already fine-tuned as a classifier. If it saw {seen}, every score "
    return f"{warning}here is too high.{' Use a fixed test set it has not seen.' * (not has_test)}"


def is_fine_tuned(backbone: Backbone) -> bool:
    """Return True if the base model's checkpoint holds a trained classification head.

    A pooler, a head for masked words and an output layer that has never been trained are none.
    """
    folder = backbone.untuned.folder
    if folder is None:
        return False
    if read_config(folder) or (folder / SETFIT).is_file() or (folder / SETFIT_PICKLE).is_file():
        return True
    try:
        if sentence_modules(folder, backbone.width).logits:
            return True
    except HeadsError:
        pass  # it has no modules of sentence-transformers, or none that can be read
    return _has_trained_output(backbone, folder)


def _has_trained_output(backbone: Backbone, folder: Path) -> bool:
    """Return True if the files hold the last layer of the family's classifier, and it has learned.

    Transformers sets a new layer's bias to 0, which any step of training changes.
    """
    if any("TokenClassification" in n for n in backbone.model.config.architectures or ()):
        return False  # it has a layer of the same name, for single tokens
    names = {*_output_layers(backbone)}
    for path in sorted(folder.glob("*.safetensors")):
        with safe_open(path, framework="pt") as file:
            stored = {*file.keys()}
            for name in names & {key.removesuffix(".weight") for key in stored}:
                bias = f"{name}.bias"
                if bias not in stored or bool(file.get_tensor(bias).any()):
                    return True
    return False


def _output_layers(backbone: Backbone) -> Iterator[str]:
    """Yield the names that the last layer of the family's own classifier may have."""
    form = FAMILIES.get(backbone.model_type)
    if form is None or not form.texts:
        yield from ("classifier", "score")
        return
    for recipe in map(resolve, form.texts):
        last, base = last_linear(recipe.sketch(8, 2)), backbone.model.base_model_prefix
        yield form.name_of(f"{last}.", recipe.head.prefix, base).removesuffix(".")
