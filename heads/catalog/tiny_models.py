"""Every classifier of Transformers, small enough to build in milliseconds.

Most families need no more than small sizes: of one dict, those keys are set that a config has.
What a family needs beyond that stands in `OWN`. A family that it does not name, such as one of
a later Transformers, is tried with the sizes alone, and counted before memory is taken for it.
"""

from __future__ import annotations

import copy
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import torch

from heads.errors import ModelError
from heads.rng import IsolatedRng

if TYPE_CHECKING:
    from transformers import PreTrainedConfig, PreTrainedModel


def _each(names: str, value: Any) -> dict[str, Any]:
    return dict.fromkeys(names.split(), value)


COMMON: dict[str, Any] = {
    **_each("hidden_size d_model n_embd dim emb_dim", 32),
    **_each("embedding_size input_embedding_size output_embedding_size", 32),
    # Not the width of the states: a head that took the one for the other would be found out.
    **_each("word_embed_proj_dim d_latents", 24),
    **_each("num_hidden_layers n_layer n_layers num_layers num_decoder_layers", 2),
    **_each("encoder_layers decoder_layers num_self_attends_per_block", 2),
    **_each("num_attention_heads n_head n_heads num_heads", 4),
    **_each("encoder_attention_heads decoder_attention_heads", 4),
    **_each("num_self_attention_heads num_cross_attention_heads", 4),
    **_each("num_key_value_heads", 2),
    **_each("head_dim d_kv d_head rotary_dim", 8),
    **_each("intermediate_size d_ff d_inner hidden_dim ffn_dim ffn_hidden_size dff", 48),
    **_each("encoder_ffn_dim decoder_ffn_dim feed_forward_size", 48),
    **_each("moe_intermediate_size shared_expert_intermediate_size", 48),
    **_each("num_experts num_local_experts n_routed_experts", 4),
    **_each("num_experts_per_tok moe_topk", 2),
    **_each("vocab_size", 120),
    **_each("type_vocab_size", 2),
    **_each("max_position_embeddings n_positions max_seq_len", 128),
    **_each("max_2d_position_embeddings num_latents", 16),
    **_each("pad_token_id pad_index", 1),
    **_each("bos_token_id bos_index cls_token_id decoder_start_token_id", 2),
    **_each("eos_token_id eos_index sep_token_id", 3),
    **_each("mask_token_id mask_index", 4),
    # Near 1 / sqrt(32), which keeps the size of what passes through: with the usual 0.02 some
    # families so narrow answer nearly the same whatever they read.
    **_each("initializer_range init_std initializer_std embed_init_std", 0.15),
    **_each("use_cache use_mamba_kernels", False),
}

# Attention through latents of a low rank (MLA).
LATENT: dict[str, Any] = {
    **_each("num_key_value_heads", 4),
    **_each("qk_rope_head_dim qk_nope_head_dim v_head_dim", 8),
    **_each("kv_lora_rank q_lora_rank", 16),
    **_each("n_group topk_group", 1),
}
# Linear attention in one layer and full attention in another, as the large ones have both.
LINEAR: dict[str, Any] = {
    "layer_types": ["linear_attention", "full_attention"],
    **_each("linear_key_head_dim linear_value_head_dim", 8),
    **_each("linear_num_key_heads linear_num_value_heads", 2),
}
# Layers that share weights: one alone has nothing to share with.
SHARING: dict[str, Any] = {
    "num_hidden_layers": 4,
    "layers_block_type": ["linear_attention", "hybrid", "linear_attention", "hybrid"],
}
# What so short texts come to anyway, but then with a warning and with numpy's global seed set.
WHOLE = {"attention_type": "original_full"}

OWN: dict[str, dict[str, Any]] = {
    **_each("axk1 axk2 deepseek_v2 deepseek_v3 minicpm3", LATENT),
    "mistral4": {**LATENT, "head_dim": 16},
    **_each("qwen3_next qwen3_5_text", LINEAR),
    "qwen3_5_vision": {"depth": 2, "out_hidden_size": 32, "num_position_embeddings": 16},
    "jamba": {"attn_layer_offset": 1},
    "zamba": SHARING,
    "zamba2": {**SHARING, "chunk_size": 8},
    **_each("big_bird bigbird_pegasus", WHOLE),
    "canine": {"num_hash_buckets": 64},
    "cohere_compass_text": {
        "rope_parameters": {"full_attention": {"rope_type": "default", "rope_theta": 10_000.0}}
    },
    "esmc": {"num_key_value_heads": 4},
    "gpt_neo": {"attention_types": [[["global", "local"], 1]]},
    "layoutlmv3": {"coordinate_size": 6, "shape_size": 4},
    "lilt": {"hidden_size": 48},
    "longformer": {"attention_window": 8},
    "luke": {"entity_vocab_size": 8},
    "markuplm": {"max_depth": 2, "xpath_unit_hidden_size": 4},
    "reformer": {
        "axial_pos_shape": [8, 16],
        "axial_pos_embds_dim": [16, 16],
        **_each("local_attn_chunk_length lsh_attn_chunk_length", 8),
        "num_buckets": 4,
        "hash_seed": 0,  # otherwise it hashes at random, even in eval mode
    },
    "roc_bert": {
        **_each("pronunciation_embed_dim shape_embed_dim", 16),
        **_each("pronunciation_vocab_size shape_vocab_size", 120),
    },
    "t5": {"decoder_start_token_id": 2},
    "xmod": {"default_language": "en_XX"},
}

NOT_BUILT: dict[str, str] = {
    "layoutlmv2": "It reads images through detectron2, which has to be built from its source.",
}

MOST_PARAMETERS = 5_000_000
NOISE = 0.05


def tiny_config(model_type: str, *, labels: int = 3, **settings: Any) -> PreTrainedConfig:
    """The config of a family's classifier, made small.

    >>> config = tiny_config("gpt2", n_layer=1)
    >>> config.n_embd, config.n_layer
    (32, 1)

    Args:
        model_type: The family, as Transformers' configs name it.
        labels: How many classes.
        settings: Keys of the config that shall differ; a config inside it that has such a key
            gets it too.

    Raises:
        ModelError: There is no classifier of this type, or its config cannot be made small.
    """
    from transformers import CONFIG_MAPPING
    from transformers.models.auto import modeling_auto

    if model_type not in modeling_auto.MODEL_FOR_SEQUENCE_CLASSIFICATION_MAPPING_NAMES:
        what = f"Transformers has no classifier of the type '{model_type}'."
        raise ModelError(what, "'heads families' lists those that it has.")
    with _building(model_type):
        kind: Any = CONFIG_MAPPING[model_type]
        defaults = kind().to_dict()
        others = {name: value for name, value in settings.items() if not _has(defaults, name)}
        # A copy, for configs write into the lists and dicts that they are given.
        small = copy.deepcopy(_small(model_type, defaults, settings))
        return kind(**{**small, **others}, num_labels=labels)


def tiny_model(
    model_type: str, *, seed: int = 0, labels: int = 3, **settings: Any
) -> PreTrainedModel:
    """Build a family's classifier, made small, with random weights, to be run and not trained.

    No tensor is left at zeros or ones, as biases and norms are at the start: whatever is left
    out of a copy of it then shows in the logits. Torch's own random numbers are not disturbed.

    Raises:
        ModelError: There is no classifier of this type, or it cannot be built small.
    """
    from transformers import AutoModelForSequenceClassification

    if model_type in NOT_BUILT:
        raise ModelError(f"'{model_type}' cannot be built here.", NOT_BUILT[model_type])
    config = tiny_config(model_type, labels=labels, **settings)
    with _building(model_type), IsolatedRng(seed).rolling(), torch.no_grad():
        build = AutoModelForSequenceClassification.from_config
        with torch.device("meta"):
            _check_size(model_type, build(config, attn_implementation="eager"))
        model = build(config, attn_implementation="eager", dtype=torch.float32)
        for parameter in model.parameters():
            parameter += NOISE * torch.randn_like(parameter)
    return model.requires_grad_(False).eval()


def _small(
    model_type: str, defaults: Mapping[str, Any], settings: Mapping[str, Any]
) -> dict[str, Any]:
    """What to set of a config with these defaults, and of the configs inside it."""
    sizes = {name: value for name, value in COMMON.items() if name in defaults}
    chosen = {name: value for name, value in settings.items() if name in defaults}
    small = {**sizes, **OWN.get(model_type, {}), **chosen}
    for name, inner in _inside(defaults).items():
        kind = inner["model_type"]
        small[name] = {"model_type": kind} | _small(
            kind, inner, {**settings, **settings.get(name, {})}
        )
    return small


def _inside(defaults: Mapping[str, Any]) -> dict[str, Mapping[str, Any]]:
    return {
        name: value
        for name, value in defaults.items()
        if isinstance(value, Mapping) and value.get("model_type")
    }


def _has(defaults: Mapping[str, Any], name: str) -> bool:
    return name in defaults or any(_has(inner, name) for inner in _inside(defaults).values())


def _check_size(model_type: str, model: PreTrainedModel) -> None:
    """Counts a model that takes no memory yet."""
    count = sum(parameter.numel() for parameter in model.parameters())
    if count > MOST_PARAMETERS:
        what = f"'{model_type}' would have {count:,} parameters."
        raise ModelError(what, f"A small model has at most {MOST_PARAMETERS:,}.")


@contextmanager
def _building(model_type: str) -> Iterator[None]:
    """Whatever Transformers raises is said in one sentence."""
    try:
        with quiet():
            yield
    except ModelError:
        raise
    except Exception as error:
        said = " ".join(str(error).split())[:240]
        what = f"'{model_type}' cannot be built small ({type(error).__name__}: {said})."
        raise ModelError(what) from error


@contextmanager
def quiet() -> Iterator[None]:
    """Within it, Transformers writes no more than errors to stderr."""
    from transformers.utils import logging

    level = logging.get_verbosity()
    logging.set_verbosity_error()
    try:
        yield
    finally:
        logging.set_verbosity(level)
