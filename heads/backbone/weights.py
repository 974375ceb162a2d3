"""From an admitted folder to a model with its weights, and what one must know of both."""

from typing import Any

import torch

from heads.backbone.backbone import Pooler
from heads.backbone.exported import backbone_config, build_loading_options, is_exported
from heads.backbone.models import CHOOSE_ANOTHER
from heads.backbone.safety import Checkpoint
from heads.catalog.base_models import base_of
from heads.catalog.forms import setting
from heads.errors import ModelError
from heads.rng import IsolatedRng
from heads.settings import current_limits

FEWEST_TOKENS = 8


def model_of(checkpoint: Checkpoint) -> tuple[Any, list[str]]:
    """The model with its weights, and the names of the tensors that its files lack."""
    from transformers import AutoConfig

    if is_exported(checkpoint.config):
        config = backbone_config(checkpoint.config)
        options = build_loading_options(checkpoint.config)
    else:
        config = AutoConfig.from_pretrained(checkpoint.folder, trust_remote_code=False)
        options = {}
    made, arguments = base_class(config)
    with torch.device("meta"):
        sketch = bare(config)
    check_size(checkpoint, sketch, sketch)
    model, missing = load_weights(made, checkpoint, config, sketch, **{**arguments, **options})
    unread = ("decoder.",) if has_both(model) else ()
    check_whole(checkpoint, [n for n in missing if "pooler" not in n and not n.startswith(unread)])
    return model, missing


def load_weights(
    made: Any, checkpoint: Checkpoint, config: Any, sketch: Any, **options: Any
) -> tuple[Any, list[str]]:
    """Load a model of the class `made`; return it and the names of the tensors that its files lack.

    Those are random, but the same at every start.
    """
    with IsolatedRng().rolling():
        model, report = made.from_pretrained(
            checkpoint.folder,
            config=config,
            trust_remote_code=False,
            use_safetensors=True,
            dtype=torch.float32,
            attn_implementation="sdpa" if sketch._supports_sdpa else "eager",
            output_loading_info=True,
            **options,
        )
    return model, sorted(report["missing_keys"])


def check_size(checkpoint: Checkpoint, sketch: Any, base: Any) -> None:
    """Raise ModelError for a model larger than this place allows or than its files, unread yet.

    Args:
        sketch: The model on the meta device.
        base: Its base model, whose weights, but for a pooler's, the files must hold.
    """
    limits = current_limits()
    parameters = sum(tensor.numel() for tensor in sketch.parameters())
    if parameters > limits.model_parameters:
        what = f"{checkpoint.id} has {parameters:,} parameters; "
        raise ModelError(what + f"this place allows {limits.model_parameters:,}.", CHOOSE_ANOTHER)
    asked = sum(tensor.numel() for name, tensor in base.named_parameters() if "pooler" not in name)
    if asked > sum(path.stat().st_size for path in checkpoint.folder.glob("*.safetensors")):
        what = f"{checkpoint.id} asks for {asked:,} parameters, and its files hold fewer."
        raise ModelError(what, CHOOSE_ANOTHER)


def check_whole(checkpoint: Checkpoint, lost: list[str]) -> None:
    """Raise ModelError for a checkpoint that lacks weights of its base model."""
    if lost:
        what = f"{checkpoint.id} lacks {len(lost)} of its weights, {lost[0]} among them."
        raise ModelError(what, CHOOSE_ANOTHER)


def has_both(model: Any) -> bool:
    """Whether a model is an encoder with a decoder on it."""
    return hasattr(model, "encoder") and hasattr(model, "decoder")


def base_class(config: Any) -> tuple[Any, dict[str, Any]]:
    """The class of the base model that the family's classifier runs on, and its arguments."""
    import transformers

    base = base_of(config.model_type)
    for key, value in base.settings.items():
        if getattr(config, key, None) is None:
            setattr(config, key, value)
    if config.is_encoder_decoder and getattr(config, "decoder_start_token_id", None) is None:
        config.decoder_start_token_id = setting(config, "pad_token_id") or 0  # as T5 begins
    return getattr(transformers, base.built_as or "AutoModel"), dict(base.arguments)


def bare(config: Any) -> Any:
    """A base model with new weights, as the family's classifier has it."""
    made, arguments = base_class(config)
    build = getattr(made, "from_config", None) or made._from_config
    return build(config, attn_implementation="eager", **arguments)


def pooler_of(encoder: Any, missing: list[str]) -> Pooler:
    """Return where the model's pooler has its weights from.

    In a model that has learned, a bias that is exactly 0 throughout has never had a gradient: such
    a pooler was made when the checkpoint was converted, and saved as it was. The weights do not
    tell: those of all-MiniLM-L6-v2 are normal (kurtosis 2.99, mean -6e-5) as drawn, but weight
    decay, which needs no gradient, has shrunk their deviation from 0.02 to 0.009.
    """
    if getattr(encoder, "pooler", None) is None:
        return "none"
    if any("pooler" in name for name in missing):
        return "new"
    biases = {name: t for name, t in encoder.named_parameters() if name.endswith("bias")}
    own = [bias for name, bias in biases.items() if name.startswith("pooler")]
    others = [bias for name, bias in biases.items() if not name.startswith("pooler")]
    blank = bool(own) and not any(bias.any() for bias in own)
    return "untrained" if blank and any(bias.any() for bias in others) else "pretrained"


def pooler_weights(encoder: Any) -> dict[str, torch.Tensor]:
    """The tensors of the model's pooler, named as in the head `bert`."""
    bare = isinstance(encoder.pooler, torch.nn.Linear)  # as in ALBERT and BigBird
    prefix = "pooler.dense." if bare else "pooler."
    return {f"{prefix}{name}": tensor for name, tensor in encoder.pooler.state_dict().items()}


def stubborn_tokens(tokenizer: Any) -> frozenset[int]:
    """Return the special tokens that stay special in texts, as in SentencePiece vocabularies."""
    found = set()
    for token, number in zip(tokenizer.all_special_tokens, tokenizer.all_special_ids, strict=True):
        if number in tokenizer(f"a {token} b", add_special_tokens=False)["input_ids"]:
            found.add(number)
    return frozenset(found - {tokenizer.unk_token_id})


def has_separator(tokenizer: Any) -> bool:
    """Whether the tokenizer puts a token of its own between two texts."""
    both = tokenizer("a", "b", return_special_tokens_mask=True)["special_tokens_mask"]
    texts = [place for place, special in enumerate(both) if not special]
    return any(both[texts[0] : texts[-1]]) if texts else True


def room_for(encoder: Any, tokenizer: Any, trained: int = 0) -> int:
    """Return how many tokens fit: the least of limit, tokenizer, positions and training."""
    positions = getattr(encoder.config, "max_position_embeddings", None)
    table = getattr(getattr(encoder, "embeddings", None), "position_embeddings", None)
    # RoBERTa and its kin count positions from the padding index + 1.
    offset = getattr(table, "padding_idx", None)
    if isinstance(positions, int) and offset is not None:
        positions -= offset + 1
    told = (tokenizer.model_max_length, positions, trained)
    # Some configs say -1 for "any number" (XLNet's), and some tokenizers nonsense.
    real = [int(room) for room in told if isinstance(room, int | float) and room >= FEWEST_TOKENS]
    return min(current_limits().tokens, *real)
