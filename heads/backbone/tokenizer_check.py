"""Checks the files of a foreign tokenizer before anything runs them.

A tokenizer.json is a program: nine replacements of "a" by ten of them make 10^9 letters of one, and
Rust ends the process that has no memory for them.
"""

import base64
import json
import math
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from heads.backbone.models import CHOOSE_ANOTHER
from heads.errors import ModelError

FILE_BYTES = 100_000_000  # the largest known has 34 MB
PARTS = 100
ADDED_TOKENS = 20_000  # Gemma 3 has 6,415
TOKEN_CHARACTERS = 1_000
WORD_CHARACTERS = 1_000  # WordPiece takes a time that grows with their square
AFFIXES = ("continuing_subword_prefix", "end_of_word_suffix")
TEMPLATE_TOKENS = 100
GROWTH = 1_000  # times; of real tokenizers ALBERT's are the highest: 648
# By how much Unicode's forms lengthen at most; applied again, they change nothing more.
UNICODE = {"NFC": 3, "NFD": 4, "NFKC": 18, "NFKD": 18, "BertNormalizer": 12}


def check_tokenizer(folder: Path) -> None:
    """Raise ModelError for a tokenizer that is malformed or makes far too much of a text."""
    for path in (*folder.glob("*token*"), *folder.glob("vocab*"), *folder.glob("*.model")):
        if path.stat().st_size > FILE_BYTES:
            raise _refused(f"its {path.name} is over {FILE_BYTES // 1_000_000} MB")
    try:
        _check_tokens(_listed_tokens(folder))
        if values := _read(folder / "tokenizer.json"):
            check_structure(values)
    except (ValueError, TypeError, AttributeError, LookupError, RecursionError, OverflowError):
        raise _refused("its tokenizer files are malformed") from None


def _listed_tokens(folder: Path) -> list[str]:
    """The tokens that files beside tokenizer.json add."""
    config, names = _read(folder / "tokenizer_config.json"), [*_read(folder / "added_tokens.json")]
    names += [token["content"] for token in config.get("added_tokens_decoder", {}).values()]
    for values in (config, _read(folder / "special_tokens_map.json")):
        for key in ("additional_special_tokens", "extra_special_tokens"):
            more = values.get(key) or []
            more = more.values() if isinstance(more, dict) else more
            names += [token if isinstance(token, str) else token["content"] for token in more]
    return names


def check_structure(values: dict[str, Any]) -> None:
    """Refuse a tokenizer.json whose parts would lengthen texts beyond `GROWTH`."""
    _check_tokens([token["content"] for token in values.get("added_tokens") or []])
    model = values["model"]
    if any(len(model.get(name) or "") > TOKEN_CHARACTERS for name in AFFIXES):
        raise _refused("its tokenizer adds very long affixes")
    if (model.get("max_input_chars_per_word") or 0) > WORD_CHARACTERS:
        raise _refused(f"its tokenizer splits words of over {WORD_CHARACTERS:,} characters")
    before = [*_parts(values.get("normalizer")), *_parts(values.get("pre_tokenizer"))]
    for parts in (
        before,
        [*_parts(values.get("post_processor"))],
        [*_parts(values.get("decoder"))],
    ):
        unicode = max((UNICODE.get(part["type"], 1) for part in parts), default=1)
        if len(parts) > PARTS or unicode * math.prod(map(_growth, parts)) > GROWTH:
            raise _refused("its tokenizer makes far more of a text than stands in it")


def _read(path: Path) -> dict[str, Any]:
    return json.loads(path.read_text("utf-8")) if path.is_file() else {}


def _check_tokens(tokens: list[str]) -> None:
    if len(tokens) > ADDED_TOKENS:
        raise _refused(f"its tokenizer adds {len(tokens):,} tokens, over {ADDED_TOKENS:,}")
    if any(len(token) > TOKEN_CHARACTERS for token in tokens):
        raise _refused("its tokenizer adds very long tokens")


def _parts(value: Any) -> Iterator[dict[str, Any]]:
    """All parts of a stage that have a type, those inside sequences among them."""
    if isinstance(value, dict):
        if "type" in value:
            yield value
        value = [inner for inner in value.values() if isinstance(inner, list)]
    if isinstance(value, list):
        for inner in value:
            yield from _parts(inner)


def _growth(part: dict[str, Any]) -> float:
    """How many characters a part makes of one at most; infinity where that has no bound."""
    kind = part["type"]
    if kind == "Replace":
        pattern, content = part["pattern"], len(part["content"])
        # A regular expression may match nothing, between any two characters.
        return max(1, content / len(pattern["String"])) if pattern.get("String") else 1 + content
    if kind == "Prepend":
        return 1 if len(part["prepend"]) <= TOKEN_CHARACTERS else math.inf
    if kind == "ByteLevel":
        return 4
    if kind == "Precompiled":
        table = base64.b64decode(part["precompiled_charsmap"])
        texts = table[4 + int.from_bytes(table[:4], "little") :].split(b"\0")
        return max(1, *(len(text.decode("utf-8", "replace")) for text in texts))
    if kind == "TemplateProcessing":
        return max(_template_growth(part, part[name]) for name in ("single", "pair"))
    return 1


def _template_growth(part: dict[str, Any], template: list[dict[str, Any]]) -> float:
    """1 where a template writes each text once, and few tokens around it."""
    texts = [piece["Sequence"]["id"] for piece in template if "Sequence" in piece]
    known = part["special_tokens"]
    names = [piece["SpecialToken"]["id"] for piece in template if "SpecialToken" in piece]
    tokens = sum(len(known[name]["ids"]) for name in names)
    return 1 if len(texts) == len(set(texts)) and tokens <= TEMPLATE_TOKENS else math.inf


def _refused(what: str) -> ModelError:
    return ModelError(f"{what}.", CHOOSE_ANOTHER)
