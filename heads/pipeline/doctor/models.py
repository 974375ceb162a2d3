"""The models that the doctor examines: from a name to a classifier in memory, as it is."""

import difflib
from pathlib import Path
from typing import Any

import torch

from heads.backbone.hub import CHOOSE_ANOTHER, HUB_ID, cached_folder, full_id
from heads.backbone.safety import Checkpoint, admit
from heads.backbone.weights import check_size, check_whole, room_for
from heads.catalog.base_models import base_of
from heads.catalog.families import FAMILIES
from heads.catalog.forms import setting
from heads.catalog.tiny_models import quiet, tiny_model
from heads.errors import ModelError
from heads.pipeline.doctor.patient import Patient, said
from heads.pipeline.walk import texts
from heads.rng import Dice
from heads.settings import Limits

SENTENCES = (
    "The flight was cancelled twice, and nobody told us why.",
    "We waited for five hours at the gate, but a friendly woman found two seats for us on "
    "the last train, and so we were home before midnight after all.",
)
TINY_LENGTHS = (9, 21)
TINY_ROOM = 60  # one family has no more than 64 places, whatever its config says


def patient(model: str, limits: Limits) -> Patient:
    """Finds a classifier: a model on this machine, else a family of which a small one is made.

    Raises:
        ModelError: There is none, or it must not be loaded.
    """
    from transformers.models.auto import modeling_auto
    from transformers.utils import logging

    name = model.strip()
    families = modeling_auto.MODEL_FOR_SEQUENCE_CLASSIFICATION_MAPPING_NAMES
    if name in families:
        here = not limits.public and Path(name).is_dir()
        if not here and not (HUB_ID.fullmatch(name) and cached_folder(full_id(name))):
            return _small(name)
    try:
        checkpoint = admit(name, limits)
    except ModelError as error:
        near = difflib.get_close_matches(name[:60], families, n=1, cutoff=0.8)
        hint = f"{error.hint} Or did you mean the family '{near[0]}'?" if near else error.hint
        raise ModelError(error.what, hint) from error
    logging.disable_progress_bar()
    try:
        with quiet():
            return _loaded(checkpoint, limits)
    except ModelError:
        raise
    except Exception as error:
        what = f"{checkpoint.id} cannot be loaded ({said(error, checkpoint.folder)[:-1]})."
        raise ModelError(what, CHOOSE_ANOTHER) from error


def _small(model_type: str) -> Patient:
    """A small random model of a family, as its class and not as the app would have it."""
    from transformers import CONFIG_MAPPING

    with quiet():
        usual = CONFIG_MAPPING[model_type]()
    settings = {key: getattr(usual, key) for key in base_of(model_type).settings}
    model = tiny_model(model_type, **settings).requires_grad_(True)
    form, eos = FAMILIES.get(model_type), setting(model.config, "eos_token_id")
    return Patient(
        name=model_type,
        model=model,
        form=form,
        texts=tuple(
            tuple(t.inputs["input_ids"]) for t in texts(model.config, TINY_LENGTHS, end_place=-1)
        ),
        ends=isinstance(eos, int),
        eos=eos if isinstance(eos, int) else None,
        filler=setting(model.config, "pad_token_id") or 0,
        side="left" if form and form.sides == ("left",) else "right",
        room=TINY_ROOM,
        tiny=True,
        new=(),
    )


def _loaded(checkpoint: Checkpoint, limits: Limits) -> Patient:
    """A checkpoint's own classifier, and a sentence or two as its tokenizer cuts them."""
    from transformers import AutoTokenizer

    model, new = _classifier(checkpoint, limits)
    tokenizer: Any = AutoTokenizer.from_pretrained(checkpoint.folder, trust_remote_code=False)
    room = room_for(model.base_model, tokenizer, limits)
    short, long = (
        tokenizer(text, truncation=True, max_length=most, return_special_tokens_mask=True)
        for text, most in zip(SENTENCES, (room // 3, 2 * room // 3), strict=True)
    )
    eos = setting(model.config, "eos_token_id")
    eos = eos[0] if isinstance(eos, list) else eos
    eos = tokenizer.eos_token_id if eos is None else eos
    if eos is not None and eos >= (setting(model.config, "vocab_size") or eos + 1):
        eos = None  # a config made small often keeps the number that its large model had
    pads = (tokenizer.pad_token_id, setting(model.config, "pad_token_id"), eos, 0)
    return Patient(
        name=checkpoint.id,
        model=model.eval(),
        form=FAMILIES.get(model.config.model_type),
        texts=(tuple(short["input_ids"]), tuple(long["input_ids"])),
        ends=bool(short["special_tokens_mask"][-1]),
        eos=eos,
        filler=next(number for number in pads if number is not None),
        side="left" if tokenizer.padding_side == "left" else "right",
        room=room,
        tiny=False,
        new=new,
    )


def _classifier(checkpoint: Checkpoint, limits: Limits) -> tuple[Any, tuple[str, ...]]:
    """The checkpoint's model as a classifier, and the tensors of its head that the files lack."""
    from transformers import AutoConfig, AutoModelForSequenceClassification
    from transformers.models.auto import modeling_auto

    config = AutoConfig.from_pretrained(checkpoint.folder, trust_remote_code=False)
    if config.model_type not in modeling_auto.MODEL_FOR_SEQUENCE_CLASSIFICATION_MAPPING_NAMES:
        what = f"Transformers has no classifier of {checkpoint.id}'s type, {config.model_type}."
        raise ModelError(what, CHOOSE_ANOTHER)
    with torch.device("meta"):
        sketch = AutoModelForSequenceClassification.from_config(config, attn_implementation="eager")
    check_size(checkpoint, sketch, sketch.base_model, limits)
    with Dice().rolling():  # a head that the files lack is random, but always the same
        model, report = AutoModelForSequenceClassification.from_pretrained(
            checkpoint.folder,
            config=config,
            trust_remote_code=False,
            use_safetensors=True,
            dtype=torch.float32,
            attn_implementation="sdpa" if sketch._supports_sdpa else "eager",
            output_loading_info=True,
        )
    missing = sorted(report["missing_keys"])
    base = f"{model.base_model_prefix}."
    needed = {
        base + name for name, _ in sketch.base_model.named_parameters() if "pooler" not in name
    }
    check_whole(checkpoint, [name for name in missing if name in needed])
    return model, tuple(missing)
