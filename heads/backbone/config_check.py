"""Judges a foreign config.json before anything is built from it."""

from collections.abc import Mapping
from functools import cache
from typing import Any

from heads.backbone.exported import is_exported
from heads.backbone.models import CHOOSE_ANOTHER
from heads.catalog.families import FAMILIES
from heads.errors import ModelError
from heads.settings import current_limits

# The size of a model, under whichever name its config, or a config inside it, gives it.
SIZES: Mapping[str, tuple[str, ...]] = {
    "model_layers": (
        *("num_hidden_layers", "n_layer", "n_layers", "num_layers", "num_decoder_layers"),
        *("encoder_layers", "decoder_layers", "num_encoder_layers"),
        *("num_hidden_groups", "inner_group_num"),
    ),
    "model_width": ("hidden_size", "n_embd", "d_model", "dim", "emb_dim"),
    "model_vocabulary": ("vocab_size",),
    "model_positions": ("max_position_embeddings", "n_positions"),
    "model_labels": ("num_labels",),
}
LARGEST_COUNT = 4_096
# Keys by which a config would choose its own files, kernels or number formats.
REFUSED = {
    "quantization_config": "quantised checkpoints are not supported.",
    "transformers_weights": "its config.json names weights of its own choice.",
}


def check_config(config: Mapping[str, Any]) -> None:
    """Raise ModelError for a config.json that asks for code, files of its choice or too much."""
    if "peft_type" in config:
        raise ModelError("it is an adapter (PEFT), not a whole model.", CHOOSE_ANOTHER)
    _check_sizes(config)
    # The code of an exported head is never run; its base model is judged as any other.
    config = config["backbone_config"] if is_exported(config) else config
    _check_type(config)
    for key, what in REFUSED.items():
        if config.get(key):
            raise ModelError(what, CHOOSE_ANOTHER)


def _check_type(config: Mapping[str, Any]) -> None:
    model_type = config.get("model_type")
    if not isinstance(model_type, str) or not model_type:
        raise ModelError("its config.json names no model_type.", CHOOSE_ANOTHER)
    if not _known(model_type):
        what = f"'{shown(model_type)}' is no text encoder or decoder that Transformers knows."
        if "auto_map" in config:
            what = "it needs custom code, which this app never runs."
        raise ModelError(what, CHOOSE_ANOTHER)
    if model_type in FAMILIES and FAMILIES[model_type].reason:
        raise ModelError(
            f"its family has no place here. {FAMILIES[model_type].reason}", CHOOSE_ANOTHER
        )


def _check_sizes(config: Mapping[str, Any]) -> None:
    limits = current_limits()
    for limit, names in SIZES.items():
        for name in names:
            _check_size(name, config.get(name), getattr(limits, limit))
    for name, value in config.items():  # counts under names that only one family has
        if name.startswith("num_") and isinstance(value, int):
            _check_size(name, value, limits.model_labels if name == "num_labels" else LARGEST_COUNT)
    labels = config.get("id2label")
    if isinstance(labels, Mapping):
        _check_size("number of labels", len(labels), limits.model_labels)
    for inner in config.values():
        if isinstance(inner, Mapping):
            _check_sizes(inner)


def _check_size(name: str, value: object, most: int) -> None:
    if value is None or (value == -1 and "positions" in name):  # XLNet's: any number of them
        return
    if isinstance(value, bool) or not isinstance(value, int) or value < 0:
        what = f"its config.json has {name} = {shown(value)!r}, which is no whole number."
        raise ModelError(what, CHOOSE_ANOTHER)
    if value > most:
        asked = f"{value:,}" if value < 10**15 else "a number of many digits"
        what = f"its config.json asks for {name} = {asked}; this place allows {most:,}."
        raise ModelError(what, CHOOSE_ANOTHER)


def shown(value: object, most: int = 40) -> str:
    """A foreign value in one short line."""
    text = type(value).__name__
    if isinstance(value, str | bool | float):
        text = str(value)
    return " ".join("".join(c if c.isprintable() else " " for c in text[: 2 * most]).split())[:most]


@cache
def _known(model_type: str) -> bool:
    """Whether Transformers has a text model of this type that takes a sentence."""
    from transformers.models.auto import modeling_auto as auto

    text = (
        auto.MODEL_FOR_SEQUENCE_CLASSIFICATION_MAPPING_NAMES,
        auto.MODEL_FOR_MASKED_LM_MAPPING_NAMES,
        auto.MODEL_FOR_CAUSAL_LM_MAPPING_NAMES,
        auto.MODEL_FOR_SEQ_TO_SEQ_CAUSAL_LM_MAPPING_NAMES,
    )
    return model_type in auto.MODEL_MAPPING_NAMES and any(model_type in names for names in text)
