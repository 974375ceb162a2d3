"""From an admitted folder to a model with its weights, and what one must know of both."""

from typing import Any, Literal

import torch

from heads.errors import ModelError
from heads.pipeline.gate import Checkpoint
from heads.pipeline.hub import CHOOSE_ANOTHER
from heads.settings import Limits

Pooler = Literal["pretrained", "new", "none"]


def model_of(checkpoint: Checkpoint, limits: Limits) -> tuple[Any, list[str]]:
    """The model with its weights, and the names of the tensors that its files lack."""
    from transformers import AutoConfig, AutoModel

    config = AutoConfig.from_pretrained(checkpoint.folder, trust_remote_code=False)
    with torch.device("meta"):
        sketch = AutoModel.from_config(config, attn_implementation="eager")
    parameters = sum(tensor.numel() for tensor in sketch.parameters())
    if parameters > limits.model_parameters:
        what = f"{checkpoint.id} has {parameters:,} parameters; "
        raise ModelError(what + f"this place allows {limits.model_parameters:,}.", CHOOSE_ANOTHER)
    # A pooler that the checkpoint lacks is random, but the same one at every start.
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        model, report = AutoModel.from_pretrained(
            checkpoint.folder,
            config=config,
            trust_remote_code=False,
            use_safetensors=True,
            dtype=torch.float32,
            attn_implementation="sdpa" if sketch._supports_sdpa else "eager",
            output_loading_info=True,
        )
    missing = sorted(report["missing_keys"])
    lost = [name for name in missing if "pooler" not in name]
    if lost:
        what = f"{checkpoint.id} lacks {len(lost)} of its weights, {lost[0]} among them."
        raise ModelError(what, CHOOSE_ANOTHER)
    return model, missing


def pooler_of(encoder: Any, missing: list[str]) -> Pooler:
    """Whether the model's own pooler is pretrained, new (random), or there is none."""
    if getattr(encoder, "pooler", None) is None:
        return "none"
    return "new" if any("pooler" in name for name in missing) else "pretrained"


def stubborn_tokens(tokenizer: Any) -> tuple[str, ...]:
    """The special tokens that stay special in a text, whatever the tokenizer was told.

    SentencePiece vocabularies (DeBERTa, XLNet) hold them as ordinary pieces.
    """
    found = []
    for token, number in zip(tokenizer.all_special_tokens, tokenizer.all_special_ids, strict=True):
        if number in tokenizer(f"a {token} b", add_special_tokens=False)["input_ids"]:
            found.append(token)
    return tuple(token for token in found if token != tokenizer.unk_token and len(token) > 1)


def room_for(encoder: Any, tokenizer: Any, limits: Limits) -> int:
    """How many tokens fit: the least of the limit, the tokenizer's and the positions."""
    positions = getattr(encoder.config, "max_position_embeddings", None) or limits.tokens
    table = getattr(getattr(encoder, "embeddings", None), "position_embeddings", None)
    # RoBERTa and its kin count positions from the padding index + 1.
    offset = getattr(table, "padding_idx", None)
    positions -= 0 if offset is None else offset + 1
    return min(limits.tokens, tokenizer.model_max_length, positions)
