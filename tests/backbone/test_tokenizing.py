"""Foreign tokenizers are programs: none ends this process, or holds it up."""

import base64
import json
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from quick_heads import classifiers
from tiny_models import rewrite
from tokenizers import Regex, Tokenizer, decoders, models, normalizers, pre_tokenizers, processors

import heads
from heads.backbone import safety, tokenizing
from heads.backbone.backbone import Backbone
from heads.backbone.loading import load
from heads.backbone.tokenizer_check import check_tokenizer
from heads.errors import ModelError
from heads.exporters.tokenizer import tokenizer_of
from heads.settings import PUBLIC, use_limits

Copied = Callable[..., Path]
TEXT = "the cat sat on a mat"
TEN = {"type": "Replace", "pattern": {"String": "a"}, "content": "a" * 10}
ALWAYS = [{"Sequence": {"id": "A", "type_id": 0}}]
BOTH = [*ALWAYS, {"Sequence": {"id": "B", "type_id": 1}}]


def split(pattern: str) -> dict[str, Any]:
    pattern_ = {"Regex": pattern}
    return {"type": "Split", "pattern": pattern_, "behavior": "Isolated", "invert": False}


def template(single: list[Any], ids: int = 1) -> dict[str, Any]:
    known = {"id": "[CLS]", "ids": [2] * ids, "tokens": ["[CLS]"] * ids}
    cls = {"SpecialToken": {"id": "[CLS]", "type_id": 0}}
    pieces = {"single": [cls, *single], "pair": BOTH, "special_tokens": {"[CLS]": known}}
    return {"type": "TemplateProcessing", **pieces}


def sequence(name: str, parts: list[Any]) -> dict[str, Any]:
    return {"type": "Sequence", name: parts}


def charsmap(*texts: bytes) -> str:
    return base64.b64encode((4).to_bytes(4, "little") + b"\0" * 4 + b"\0".join(texts)).decode()


def added(count: int, characters: int = 1) -> list[dict[str, Any]]:
    switches = dict.fromkeys(("single_word", "lstrip", "rstrip", "normalized", "special"), False)
    return [{"id": 100 + n, "content": f"{n}{'x' * characters}", **switches} for n in range(count)]


EMPTY = {"type": "Precompiled", "precompiled_charsmap": charsmap()}
HOSTILE: dict[str, dict[str, Any]] = {
    "replacements": {"normalizer": sequence("normalizers", [TEN] * 9)},
    "nested": {"normalizer": sequence("normalizers", [sequence("normalizers", [TEN] * 3)] * 3)},
    "nothing": {"normalizer": TEN | {"pattern": {"String": ""}, "content": "a" * 1_000}},
    "hidden": {"normalizer": sequence("normalizers", [*[TEN] * 4, EMPTY])},
    "regex": {"normalizer": TEN | {"pattern": {"Regex": ""}, "content": "a" * 1_000}},
    "prefix": {"normalizer": {"type": "Prepend", "prepend": "a" * 10_000}},
    "table": {"normalizer": {"type": "Precompiled", "precompiled_charsmap": charsmap(b"a" * 2000)}},
    "bytes": {"pre_tokenizer": sequence("pretokenizers", [{"type": "ByteLevel"}] * 30)},
    "decoder": {"decoder": sequence("decoders", [TEN] * 9)},
    "template": {"post_processor": sequence("processors", [template(ALWAYS * 10)] * 9)},
    "ids": {"post_processor": template(ALWAYS, ids=1_000)},
    "added": {"added_tokens": added(200_000)},
    "long": {"added_tokens": added(1, 10_000)},
    "affix": {"model": {"continuing_subword_prefix": "#" * 10_000}},
    "words": {"model": {"max_input_chars_per_word": 10**9}},
    "no text": {"normalizer": TEN | {"content": 7}},
    "no part": {"pre_tokenizer": {"type": ["Split"]}},
    "no model": {"model": None},
}  # fmt: skip


def change(folder: Path, changes: dict[str, Any]) -> Path:
    path = folder / "tokenizer.json"
    values = json.loads(path.read_text("utf-8"))
    if isinstance(changes.get("model"), dict):
        changes = changes | {"model": values["model"] | changes["model"]}
    path.write_text(json.dumps(values | changes), "utf-8")
    return folder


@pytest.mark.parametrize("name", HOSTILE)
def test_a_tokenizer_that_makes_too_much_of_a_text_is_refused(name, copied):
    with pytest.raises(ModelError):
        load(str(change(copied(), HOSTILE[name])))


@pytest.mark.parametrize("file", ["added_tokens.json", "tokenizer_config.json", "special"])
def test_tokens_in_other_files_count_as_well(file, copied):
    folder, names = copied(), [f"<{n}>" for n in range(30_000)]
    if file == "added_tokens.json":
        (folder / file).write_text(json.dumps({name: 100 + n for n, name in enumerate(names)}))
    elif file == "tokenizer_config.json":
        tokens = {str(token["id"]): token for token in added(30_000)}
        rewrite(folder / file, added_tokens_decoder=tokens)
    else:
        more = {"additional_special_tokens": names}
        (folder / "special_tokens_map.json").write_text(json.dumps(more))
    with pytest.raises(ModelError):
        check_tokenizer(folder)


def test_settings_of_the_file_neither_cut_nor_fill_texts(copied, small):
    padding = {"strategy": {"Fixed": 10**12}, "direction": "Right", "pad_to_multiple_of": None}
    padding |= {"pad_id": 0, "pad_type_id": 0, "pad_token": "[PAD]"}
    cut = {"direction": "Left", "max_length": 3, "strategy": "LongestFirst", "stride": 1}
    foreign = load(str(change(copied(), {"padding": padding, "truncation": cut})))
    assert foreign.encode([TEXT]) == small.encode([TEXT])


def test_a_panic_is_an_error_of_the_model(copied):
    foreign = load(str(change(copied(), {"pre_tokenizer": split("(a+)+$")})))
    with pytest.raises(ModelError):
        foreign.encode(["a" * 60 + "!"])
    assert foreign.encode(["the cat"])[0].whole_length > 2


# --- In public mode: a process of its own.


@pytest.fixture
def visitors(monkeypatch: pytest.MonkeyPatch) -> Callable[[Path], Backbone]:
    """Loads a folder as a model of the Hub that a visitor of a public page names."""

    def loaded(folder: Path) -> Backbone:
        monkeypatch.setattr(safety, "cached_folder", lambda model: folder)
        with use_limits(PUBLIC):
            return load(f"someone/{folder.parent.name}")

    return loaded


@pytest.fixture(scope="module")
def visitor(tiny: Callable[..., Path]) -> Iterator[Backbone]:
    """A sound model that a visitor names, with the process of its tokenizer."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(safety, "cached_folder", lambda model: tiny())
        with use_limits(PUBLIC):
            yield load("someone/sound")


def test_a_visitors_tokenizer_reads_as_it_would_here(visitor, small):
    foreign, texts = visitor, [TEXT, "a " * 100, "[CLS] zebra [MASK]", ""]
    assert foreign.encode(texts) == small.encode(texts)
    assert foreign.encode(texts, texts[::-1]) == small.encode(texts, texts[::-1])
    assert foreign.words(foreign.encode(texts)[2]) == small.words(small.encode(texts)[2])
    assert foreign.prompted("It_was").prompt == small.prompted("It_was").prompt
    windowed, own = (replace(one, stride=4) for one in (foreign, small))
    assert windowed.encode(texts) == own.encode(texts)


def test_a_head_on_a_visitors_model_is_exported(visitor, rows, tmp_path):
    """Its logits are compared with the export's on a padded batch."""
    (mine,) = classifiers(["cls+bert"], rows, visitor)
    assert heads.export(mine, tmp_path / "mine", refit=False).difference < 1e-5


def test_a_copy_of_a_visitors_tokenizer_is_isolated_and_saved_whole(visitor, small, tmp_path):
    from transformers import AutoTokenizer

    classifier: Any = type("Classifier", (), {"backbone": visitor})
    copy = tokenizer_of(classifier)
    copy.save_pretrained(tmp_path / "saved")
    again = AutoTokenizer.from_pretrained(tmp_path / "saved")
    assert copy(TEXT)["input_ids"] == again(TEXT)["input_ids"] == small.tokenizer(TEXT)["input_ids"]
    assert type(copy._tokenizer) is type(classifier.backbone.tokenizer._tokenizer)
    assert tokenizing.isolate_alike(again, copy)._tokenizer is not again
    assert type(again._tokenizer) is type(copy._tokenizer)


@pytest.mark.parametrize(
    ("changes", "text"),
    [
        ({"pre_tokenizer": split("(a+)+$")}, "a" * 60 + "!"),  # panics
        ({"pre_tokenizer": split("(a*)(a*)b")}, "a" * 4_000 + "!b"),  # takes minutes
        ({"normalizer": sequence("normalizers", [TEN] * 9)}, "a" * 60),  # takes all memory
    ],
    ids=["panic", "time", "memory"],
)
def test_what_a_visitors_tokenizer_does_ends_with_its_process(
    changes, text, copied, visitors, monkeypatch
):
    foreign = visitors(copied())
    backend: Any = foreign.tokenizer._tokenizer
    values = json.loads(backend.to_str())
    hostile = Tokenizer.from_str(json.dumps(values | changes))  # as if the check had let it in
    foreign.tokenizer._tokenizer = type(backend)(hostile)
    monkeypatch.setattr(tokenizing, "SECONDS", 2.0)
    start = time.perf_counter()
    with pytest.raises(ModelError):
        foreign.encode([text])
    assert time.perf_counter() - start < 30
    assert foreign.encode(["the dog"])[0].whole_length > 2  # by another process


def test_a_visitors_tokenizer_is_tried_before_it_is_loaded(copied, visitors):
    with pytest.raises(ModelError):
        visitors(change(copied(), HOSTILE["replacements"]))


def test_the_process_of_a_tokenizer_ends_with_it(copied, visitors):
    tokenizer = visitors(copied()).tokenizer
    process = vars(tokenizer._tokenizer)["_process"]
    assert process.end.alive
    alone = type(tokenizer._tokenizer)(tokenizer._tokenizer)
    alone.encode_batch([TEXT])
    end = vars(alone)["_process"].end
    del alone
    assert not end.alive


# --- Tokenizers as the families have them.

LLAMA = (
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}"
    r"| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
)
CLIP = r"'s|'t|'re|'ve|'m|'ll|'d|[\p{L}]+|[\p{N}]|[^\s\p{L}\p{N}]+"
LONGEST = "صلى الله عليه وسلم".encode()  # what NFKC makes of one letter: the most of any
NFKC: dict[str, Any] = {"type": "Precompiled", "precompiled_charsmap": charsmap(b"a", LONGEST)}
SPACES: dict[str, Any] = {"type": "Replace", "pattern": {"Regex": " {2,}"}, "content": " "}


def real(name: str) -> dict[str, Any]:
    """The structure that a family's published tokenizer.json has."""
    bytes_, split_ = pre_tokenizers.ByteLevel, pre_tokenizers.Split
    quotes = [normalizers.Replace("``", '"'), normalizers.Replace("''", '"')]
    tokenizer = Tokenizer(models.BPE())
    around = processors.TemplateProcessing(
        single="<s> $A </s>", pair="<s> $A </s> </s> $B </s>",
        special_tokens=[("<s>", 0), ("</s>", 1)],
    )  # fmt: skip
    if name in ("gpt2", "modernbert"):
        tokenizer.pre_tokenizer, tokenizer.decoder = bytes_(), decoders.ByteLevel()
        tokenizer.normalizer = normalizers.NFC()
        tokenizer.post_processor = around if name == "modernbert" else processors.ByteLevel()
    elif name in ("llama3", "qwen"):
        tokenizer.normalizer = normalizers.NFC()
        parts = [split_(Regex(LLAMA), "isolated"), bytes_(use_regex=False)]
        tokenizer.pre_tokenizer = pre_tokenizers.Sequence(parts)
        tokenizer.post_processor = processors.Sequence([processors.ByteLevel(), around])
        tokenizer.decoder = decoders.ByteLevel()
    elif name == "clip":
        parts = [
            normalizers.NFC(),
            normalizers.Replace(Regex(r"\s+"), " "),
            normalizers.Lowercase(),
        ]
        tokenizer.normalizer = normalizers.Sequence(parts)
        parts = [split_(Regex(CLIP), "removed", invert=True), bytes_()]
        tokenizer.pre_tokenizer = pre_tokenizers.Sequence(parts)
    elif name == "llama2":
        parts = [normalizers.Prepend("▁"), normalizers.Replace(" ", "▁")]
        tokenizer.normalizer = normalizers.Sequence(parts)
        parts = [decoders.Replace("▁", " "), decoders.ByteFallback(), decoders.Fuse()]
        tokenizer.decoder = decoders.Sequence([*parts, decoders.Strip(" ", 1, 0)])
    elif name in ("t5", "xlm-roberta", "albert"):
        tokenizer.pre_tokenizer, tokenizer.decoder = (
            pre_tokenizers.Metaspace(),
            decoders.Metaspace(),
        )
        tokenizer.post_processor = around
        parts = [*quotes, normalizers.NFKD(), normalizers.StripAccents(), normalizers.Lowercase()]
        tokenizer.normalizer = normalizers.Sequence(parts if name == "albert" else [])
    values = json.loads(tokenizer.to_str())
    if name in ("t5", "xlm-roberta", "albert"):
        values["normalizer"]["normalizers"] += [NFKC, SPACES]
    return values


@pytest.mark.parametrize(
    "name",
    ["gpt2", "modernbert", "llama3", "qwen", "clip", "llama2", "t5", "xlm-roberta", "albert"],
)
def test_tokenizers_of_real_families_pass(name, tmp_path):
    (tmp_path / "tokenizer.json").write_text(json.dumps(real(name)), "utf-8")
    check_tokenizer(tmp_path)
