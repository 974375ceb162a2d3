"""The tokenizer of an exported folder: it writes what a recipe writes around texts.

A prefix is put before a text by the normalizer; a prompt, and the special tokens of two texts that
are encoded separately, by the post-processor. What stood there before is saved in
`tokenizer_config.json`, so that the base model's own tokenizer can be restored.
"""

import copy
import json
from pathlib import Path
from typing import Any

from tokenizers import normalizers
from tokenizers.processors import TemplateProcessing

from heads.backbone.tokenizing import ORIGINAL, REWRITTEN
from heads.classifier.classifier import Classifier
from heads.errors import CheckpointError
from heads.exporters.model_card import base_name


def tokenizer_of(classifier: Classifier) -> Any:
    """Copy the tokenizer without templates, with a padding token, or raise CheckpointError."""
    backbone = classifier.backbone
    tokenizer = copy.deepcopy(backbone.tokenizer)
    tokenizer.model_max_length = backbone.tokens
    tokenizer.chat_template = None
    if tokenizer.is_fast:  # how the last text was cut is not the tokenizer's own
        tokenizer.backend_tokenizer.no_truncation()
        tokenizer.backend_tokenizer.no_padding()
    if tokenizer.pad_token is None:
        if tokenizer.eos_token is None:
            what = f"The tokenizer of {base_name(backbone)} has no token to pad with."
            raise CheckpointError(what, "Give it one, and save it beside the model.")
        tokenizer.pad_token = tokenizer.eos_token
    return tokenizer


def build_recipe_tokenizer(classifier: Classifier) -> Any:
    """Return that tokenizer, which also writes what the recipe has around its texts."""
    tokenizer, backbone = tokenizer_of(classifier), classifier.backbone
    pair = classifier.head.module.reader.resolved.pair
    if not (pair or backbone.written or backbone.stride is not None):
        return tokenizer
    if not tokenizer.is_fast:  # of windows alone
        tokenizer.model_max_length = backbone.reach
        return tokenizer
    backend = tokenizer.backend_tokenizer
    state = json.loads(backend.to_str())
    original = {name: state[name] for name in REWRITTEN}
    tokenizer.init_kwargs[ORIGINAL] = {**original, "model_max_length": backbone.tokens}
    names = [*tokenizer.model_input_names]  # of its class, which it loses
    if backbone.prefix:
        prepend = normalizers.Prepend(backbone.prefix)
        parts = [prepend, backend.normalizer] if backend.normalizer else [prepend]
        backend.normalizer = normalizers.Sequence(parts)
    if pair or backbone.prompt:
        backend.post_processor = _template(backbone.tokenizer, backbone.prompt, bool(pair))
    if backbone.stride is not None:
        tokenizer.model_max_length = backbone.reach
    if pair:  # each text may be as long as one alone; the model cuts it
        tokenizer.model_max_length = 2 * backbone.tokens
        names = ["input_ids", "token_type_ids", "attention_mask"]
    tokenizer.model_input_names = tokenizer.init_kwargs["model_input_names"] = names
    return tokenizer


def save_tokenizer(tokenizer: Any, folder: Path) -> None:
    """Save a tokenizer so that it is loaded as it is, not built anew by the class of its family."""
    tokenizer.save_pretrained(folder)
    if ORIGINAL in tokenizer.init_kwargs:
        path = folder / "tokenizer_config.json"
        values = json.loads(path.read_text("utf-8")) | {
            "tokenizer_class": "PreTrainedTokenizerFast"
        }
        path.write_text(json.dumps(values, ensure_ascii=False, indent=2) + "\n", "utf-8")


def _template(tokenizer: Any, prompt: tuple[int, ...], is_pair: bool) -> TemplateProcessing:
    """Return what writes special tokens around texts, and a prompt behind the last.

    Args:
        is_pair: Whether each of two texts stands between special tokens as if it were alone.
    """
    before, after = _around(tokenizer, "a")
    groups = {"before": before, "prompt": [*prompt], "after": after}
    single = ["before", "$A", "prompt", "after"]
    pair = [f"{name}:0" for name in single]
    if is_pair:
        pair += [f"{name}:1" for name in ("before", "$B", "prompt", "after")]
    else:
        first, *between, last = _around(tokenizer, "a", "b")
        groups |= {"first": first, "between": between[0], "last": last}
        side = tokenizer("a", "b").get("token_type_ids", [0])[-1]
        pair = ["first:0", "$A:0", "between:0", *(f"{n}:{side}" for n in ("$B", "prompt", "last"))]
    used = {name: numbers for name, numbers in groups.items() if numbers}

    def is_used(piece: str) -> bool:
        return piece.startswith("$") or piece.partition(":")[0] in used

    return TemplateProcessing(
        single=[f"{name}:0" for name in single if is_used(name)],
        pair=[*filter(is_used, pair)],
        special_tokens=[
            {"id": name, "ids": numbers, "tokens": tokenizer.convert_ids_to_tokens(numbers)}
            for name, numbers in used.items()
        ],
    )


def _around(tokenizer: Any, *texts: str) -> list[list[int]]:
    """Return the special tokens before, between and behind texts of one word."""
    encoded = tokenizer(*texts, return_special_tokens_mask=True)
    runs: list[list[int]] = [[]]
    was_text = False
    for number, is_special in zip(
        encoded["input_ids"], encoded["special_tokens_mask"], strict=True
    ):
        if is_special:
            runs[-1].append(number)
        elif not was_text or len(runs) == 1:
            runs.append([])
        was_text = not is_special
    return [*runs, *[[]] * (len(texts) + 1 - len(runs))]
