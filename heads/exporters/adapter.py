"""A head with the LoRA adapter that was learned with it, as a folder of PEFT beside its base model.

The base model is not in it: whoever loads the folder has that already, or fetches it. Where a class
of Transformers computes the same as the recipe, the head goes along as that class's own modules.
"""

import copy
import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from torch import Tensor

from heads.backbone.backbone import Backbone
from heads.backbone.models import BUNDLED, BUNDLED_PACKAGE
from heads.backbone.tuned import TunedBase, with_adapter
from heads.classifier.classifier import Classifier
from heads.classifier.module import RecipeModule
from heads.classifier.native_head import stored_shapes
from heads.errors import CheckpointError, HeadsError, RecipeError
from heads.exporters.matching import Equivalent, equivalent
from heads.exporters.model_card import Publication, base_name, hub_id, model_card
from heads.exporters.tokenizer import tokenizer_of
from heads.exporters.transformers import (
    ONE_OR_TWO,
    Written,
    compared,
    config_of,
    filled_with,
    notes_of,
    of_head,
)
from heads.parts.resolved_recipe import TUNE, ResolvedRecipe
from heads.rng import IsolatedRng

WITHOUT = "Export it without --adapter."
ANY = 2  # classes: any number, as the class is the same
CONFIG = "adapter_config.json"
INNER = "base_model.model."  # stands before every name in a file of PEFT
USE = """\
from peft import PeftModel
from transformers import AutoConfig, AutoModelForSequenceClassification, AutoTokenizer, pipeline

config = AutoConfig.from_pretrained({folder})  # with num_labels={labels}, and their names
model = AutoModelForSequenceClassification.from_pretrained(
    {base}, config=config, dtype="float32"{more}
)
model = PeftModel.from_pretrained(model, {folder}).merge_and_unload()
tokenizer = AutoTokenizer.from_pretrained({folder})
classify = pipeline("text-classification", model=model, tokenizer=tokenizer, top_k=None)
print(classify({text}, truncation=True))"""


def check_recipe(resolved: ResolvedRecipe, backbone: Backbone) -> None:
    """Refuses a recipe that can never be exported as an adapter, before it is trained.

    Raises:
        RecipeError: It learns no adapter, or no class of Transformers computes the same.
    """
    _check_way(resolved, "learns")
    with IsolatedRng().rolling():  # its random weights are not used
        module = RecipeModule(resolved, backbone, ANY)
    equivalent(module, backbone, ANY)


def _check_way(resolved: ResolvedRecipe, verb: str) -> None:
    if not resolved.tuning.adapter:
        what = f"{resolved.recipe} {verb} no adapter of its base model."
        raise RecipeError(what, f"{WITHOUT[:-1]}, or train it with {TUNE}=lora.")


def has_adapter(classifier: Classifier) -> bool:
    """Whether a head can be written as an adapter."""
    try:
        check_adapter(classifier)
        equivalent(classifier.head.module, classifier.backbone, len(classifier.classes))
    except HeadsError:
        return False
    return True


def check_adapter(classifier: Classifier) -> None:
    """Refuses a head that has no adapter.

    Raises:
        RecipeError: Its base model is frozen, or was learned in another way.
        CheckpointError: The adapter is not here, or the base model is no checkpoint on disk.
    """
    head = classifier.head
    _check_way(head.asked, "has learned")
    if head.base is None:
        what = f"The adapter of {head.recipe} is merged into its base model, and not here itself."
        raise CheckpointError(what, WITHOUT)
    if classifier.backbone.folder is None:
        raise CheckpointError(f"{classifier.backbone.id} is no checkpoint on disk.", WITHOUT)


def write_adapter(
    classifier: Classifier,
    native: Equivalent,
    path: Path,
    name: str,
    published: Publication | None = None,
) -> Written:
    """Fill a folder with adapter, config, tokenizer and card, and load it; see `write_native`."""
    check_adapter(classifier)
    base, backbone = classifier.head.base, classifier.backbone
    assert base is not None
    tokenizer = tokenizer_of(classifier)
    config = config_of(classifier, native.config, tokenizer)
    model = filled_with(backbone.untuned, native, config)
    called, heads = type(model).__name__, of_head(native, model)
    _save(model, base, heads, backbone, path)
    config.dtype = "float32"
    config.save_pretrained(path)
    tokenizer.save_pretrained(path)
    notes = [*notes_of(classifier, native), *_notes(backbone)]
    more = _more(backbone, heads)
    use = USE.format(
        folder=json.dumps(name),
        base=json.dumps(base_name(backbone)),
        labels=len(classifier.classes),
        more="".join(f", {key}={value!r}" for key, value in more.items()),
        text=ONE_OR_TWO[classifier.head.paired],
    )
    kind = {"library": "peft", "is_adapter": True}
    card = model_card(classifier, use, notes, **kind, published=published)
    (path / "README.md").write_text(card, "utf-8")
    loaded = _loaded(backbone, path, more)
    difference = compared(classifier, loaded, path, native.side)
    return Written(f"an adapter of PEFT for {called}", difference, tuple(notes), use)


def _save(
    model: Any, base: TunedBase, heads: Mapping[str, Tensor], backbone: Backbone, path: Path
) -> None:
    """Writes adapter and head by the names that they have in the class."""
    from peft import set_peft_model_state_dict

    prefix, whole = f"{model.base_model_prefix}.", _modules(model, heads)
    places = [prefix + place for place in base.adapter["target_modules"]]
    facts = {
        **copy.deepcopy(dict(base.adapter)),
        "task_type": "SEQ_CLS",
        "target_modules": [place for place in places if place not in whole],
        "modules_to_save": list(whole),
        "revision": backbone.untuned.revision if _is_of_hub(backbone) else None,
    }
    with IsolatedRng().rolling():  # PEFT draws weights, which are then those of here
        found = with_adapter(model, facts)
    tensors = {
        INNER + prefix + key.removeprefix(INNER): own
        for key, own in base.tensors.items()
        if prefix + key.removeprefix(INNER).partition(".lora_")[0] not in whole
    }
    tensors |= {f"{INNER}{name}": own for name, own in heads.items()}
    set_peft_model_state_dict(found, tensors)
    found.save_pretrained(str(path), save_embedding_layers=False)
    values = json.loads((path / CONFIG).read_text("utf-8"))
    values |= {"base_model_name_or_path": base_name(backbone), "modules_to_save": list(whole)}
    values["target_modules"] = facts["target_modules"]  # which PEFT writes in no order
    (path / CONFIG).write_text(json.dumps(values, indent=2, sort_keys=True) + "\n", "utf-8")


def _modules(model: Any, heads: Mapping[str, Tensor]) -> dict[str, None]:
    """The modules of the class that are the head: those beside the base model, and its pooler.

    What of it has an adapter as well is in there with that already.
    """
    prefix = f"{model.base_model_prefix}."
    return dict.fromkeys(
        name.rpartition(".")[0] if name.startswith(prefix) else name.partition(".")[0]
        for name in heads
    )


def _is_of_hub(backbone: Backbone) -> bool:
    return hub_id(backbone) == backbone.id


def _more(backbone: Backbone, heads: Mapping[str, Tensor]) -> dict[str, Any]:
    """What the base model is loaded with besides: its version, and that its head may not fit."""
    assert backbone.folder is not None
    stored = stored_shapes(backbone.folder)
    odd = any(stored.get(name, tuple(own.shape)) != tuple(own.shape) for name, own in heads.items())
    more: dict[str, Any] = {"ignore_mismatched_sizes": True} if odd else {}
    return more | ({"revision": backbone.untuned.revision} if _is_of_hub(backbone) else {})


def _notes(backbone: Backbone) -> Iterator[str]:
    yield "The base model is not in this folder: the adapter and the head are put onto it."
    if backbone.id == BUNDLED:
        place = f"`Path({BUNDLED_PACKAGE}.__file__).parent / 'model'`"
        yield f"Without a network load the base model from {place}, which is in a Python package."
    if not hub_id(backbone):
        yield "Its base model is not of the Hub: give the folder that it lies in."


def _loaded(backbone: Backbone, path: Path, more: Mapping[str, Any]) -> Any:
    """The base model with adapter and head on it, from their folders.

    Raises:
        CheckpointError: They do not load.
    """
    from peft import PeftModel
    from transformers import AutoConfig, AutoModelForSequenceClassification

    assert backbone.folder is not None
    settings = {key: value for key, value in more.items() if key != "revision"}
    try:
        with IsolatedRng().rolling():  # what the base model lacks is random until the adapter comes
            model = AutoModelForSequenceClassification.from_pretrained(
                backbone.folder,
                config=AutoConfig.from_pretrained(path),
                dtype="float32",
                attn_implementation=backbone.model.config._attn_implementation,
                **settings,
            )
            return PeftModel.from_pretrained(model, str(path), torch_device="cpu")
    except (RuntimeError, ValueError, KeyError, OSError) as error:
        what = f"What was written does not load ({type(error).__name__})."
        raise CheckpointError(what, f"{WITHOUT[:-1]}, and tell us of this one.") from error
