"""A head with the LoRA adapter that was learned with it, as a folder of PEFT beside its base model.

The base model is not in it: whoever loads the folder has that already, or fetches it. Where a class
of Transformers computes the same as the recipe, the head goes along as that class's own modules.
"""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from torch import Tensor

from heads.backbone.backbone import Backbone
from heads.backbone.models import BUNDLED, BUNDLED_PACKAGE
from heads.backbone.tuned import TunedBase
from heads.caching import save_tensors
from heads.classifier.classifier import Classifier
from heads.classifier.module import RecipeModule
from heads.classifier.native_head import stored_shapes
from heads.errors import CheckpointError, HeadsError, RecipeError
from heads.exporters.matching import equivalent
from heads.exporters.model_card import base_name, hub_id
from heads.exporters.tokenizer import tokenizer_of
from heads.exporters.transformers import (
    EXAMPLE,
    PAIR_EXAMPLE,
    Written,
    build_native_model,
    compare_logits,
    complete_config,
    iter_notes,
    name_head_tensors,
)
from heads.parts.resolved_recipe import TUNE, ResolvedRecipe
from heads.rng import IsolatedRng

HINT = "Export it without --adapter"
TUNE_HINT = f"{HINT}, or train it with {TUNE}=lora."
N_CLASSES = 2  # for a check before training: the class is the same for any number
PEFT_PREFIX = "base_model.model."  # stands before every name in a file of PEFT
USAGE = """\
from peft import PeftModel
from transformers import AutoConfig, AutoModelForSequenceClassification, AutoTokenizer, pipeline

config = AutoConfig.from_pretrained({folder})  # with num_labels={labels}, and their names
model = AutoModelForSequenceClassification.from_pretrained(
    {base}, config=config, dtype="float32"{options}
)
model = PeftModel.from_pretrained(model, {folder}).merge_and_unload()
tokenizer = AutoTokenizer.from_pretrained({folder})
classify = pipeline("text-classification", model=model, tokenizer=tokenizer, top_k=None)
print(classify({text}, truncation=True))"""


def check_recipe(resolved: ResolvedRecipe, backbone: Backbone) -> None:
    """Raise RecipeError for a recipe that can never be an adapter, before it is trained."""
    if not resolved.tuning.adapter:
        raise RecipeError(f"{resolved.recipe} learns no adapter of its base model.", TUNE_HINT)
    with IsolatedRng().rolling():  # its random weights are not used
        module = RecipeModule(resolved, backbone, N_CLASSES)
    equivalent(module, backbone, N_CLASSES)


def has_adapter(classifier: Classifier) -> bool:
    """Return True if a head can be written as an adapter."""
    try:
        check_adapter(classifier)
        equivalent(classifier.head.module, classifier.backbone, len(classifier.classes))
    except HeadsError:
        return False
    return True


def check_adapter(classifier: Classifier) -> None:
    """Raise HeadsError for a head without an adapter here, or without a base model on disk."""
    head = classifier.head
    if not head.asked.tuning.adapter:
        what = f"{head.asked.recipe} has learned no adapter of its base model."
        raise RecipeError(what, TUNE_HINT)
    if head.base is None:
        what = f"The adapter of {head.recipe} is merged into its base model, and not here itself."
        raise CheckpointError(what, f"{HINT}.")
    if classifier.backbone.folder is None:
        raise CheckpointError(f"{classifier.backbone.id} is no checkpoint on disk.", f"{HINT}.")


def write_adapter(classifier: Classifier, path: Path, name: str) -> Written:
    """Fill a folder with adapter, config and tokenizer, and load it; see `write_model`."""
    check_adapter(classifier)
    base, backbone = classifier.head.base, classifier.backbone
    native = equivalent(classifier.head.module, backbone, len(classifier.classes))
    assert base is not None  # else `check_adapter` refuses it
    assert backbone.folder is not None
    tokenizer = tokenizer_of(classifier)
    config = complete_config(classifier, native.config, tokenizer)
    model = build_native_model(backbone.untuned, native, config)
    head = name_head_tensors(native, model)
    revision = backbone.untuned.revision if hub_id(backbone) == backbone.id else None
    facts = {"base_model_name_or_path": base_name(backbone), "revision": revision}
    _save(model, head, base, path, **facts)
    config.dtype = "float32"
    config.save_pretrained(path)
    tokenizer.save_pretrained(path)
    stored, options = stored_shapes(backbone.folder), ""
    has_other_head = any(stored.get(n, tensor.shape) != tensor.shape for n, tensor in head.items())
    if has_other_head:
        options += ", ignore_mismatched_sizes=True"
    if revision:
        options += f", revision={revision!r}"
    usage = USAGE.format(
        folder=json.dumps(name),
        base=json.dumps(base_name(backbone)),
        labels=len(classifier.classes),
        options=options,
        text=PAIR_EXAMPLE if classifier.head.paired else EXAMPLE,
    )
    notes = [*iter_notes(classifier, native)]
    notes.append("The base model is not in this folder: the adapter and the head are put onto it.")
    if backbone.id == BUNDLED:
        folder = f"`Path({BUNDLED_PACKAGE}.__file__).parent / 'model'`"
        notes.append(f"Without a network load the base model from {folder}, a Python package.")
    if not hub_id(backbone):
        notes.append("Its base model is not on the Hub: give the folder that it lies in.")
    loaded = _load(backbone, path, ignore_mismatched_sizes=has_other_head)
    difference = compare_logits(classifier, loaded, path, native)
    called = f"an adapter of PEFT for {type(model).__name__}"
    return Written(called, difference, tuple(notes), usage, native.recipe.recipe)


def _save(
    model: Any, head: Mapping[str, Tensor], base: TunedBase, path: Path, **facts: Any
) -> None:
    """Write the adapter and the head as PEFT does, by the names that they have in the class."""
    from peft import LoraConfig

    prefix = f"{model.base_model_prefix}."
    # The modules of the head, the base model's pooler among them, with what they have learned.
    modules = dict.fromkeys(
        name.rpartition(".")[0] if name.startswith(prefix) else name.partition(".")[0]
        for name in head
    )
    targets = [f"{prefix}{target}" for target in base.adapter["target_modules"]]
    facts |= {
        "task_type": "SEQ_CLS",
        "inference_mode": True,
        "target_modules": [target for target in targets if target not in modules],
        "modules_to_save": list(modules),
    }
    config = LoraConfig(**{**base.adapter, **facts})
    config.target_modules = facts["target_modules"]  # which PEFT has in no order
    config.save_pretrained(str(path))
    tensors = {name.removeprefix(PEFT_PREFIX): tensor for name, tensor in base.tensors.items()}
    named = {f"{prefix}{name}": tensor for name, tensor in tensors.items()}
    named = {n: t for n, t in named.items() if n.partition(".lora_")[0] not in modules} | {**head}
    tensors = {f"{PEFT_PREFIX}{name}": tensor for name, tensor in named.items()}
    save_tensors(path / "adapter_model.safetensors", tensors, {"format": "pt"})


def _load(backbone: Backbone, path: Path, **options: Any) -> Any:
    """Return the base model with adapter and head on it, from their folders."""
    from peft import PeftModel
    from transformers import AutoConfig, AutoModelForSequenceClassification

    try:
        with IsolatedRng().rolling():  # the head is random until the adapter comes
            model = AutoModelForSequenceClassification.from_pretrained(
                str(backbone.folder),
                config=AutoConfig.from_pretrained(path),
                dtype="float32",
                attn_implementation=backbone.model.config._attn_implementation,
                **options,
            )
            return PeftModel.from_pretrained(model, str(path), torch_device="cpu")
    except (RuntimeError, ValueError, KeyError, OSError) as error:
        what = f"What was written does not load ({type(error).__name__})."
        raise CheckpointError(what, f"{HINT}, and tell us of this one.") from error
