"""Every family of base models reads texts: alike alone and in a batch, and never padding."""

import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
import torch
import transformers
from expected_errors import refusing
from hypothesis import given, settings
from hypothesis import strategies as st
from tiny_models import (
    FAMILIES,
    TINY_LAYERS,
    TINY_POSITIONS,
    TINY_WIDTH,
    VOCABULARY,
    rewrite,
    save_tiny,
)
from tokenizers import Tokenizer, models, normalizers, pre_tokenizers

from heads.backbone import loading
from heads.backbone.backbone import TOKENS_A_BATCH, Backbone
from heads.backbone.loading import load
from heads.backbone.models import BUNDLED
from heads.data.corpus import check_text
from heads.errors import HeadsError, RecipeError
from heads.settings import Limits, use_limits

TEXTS = ("the cat sat", "it was late and the flight was cancelled twice", "zq a")
LONG = "the cat sat on a mat " * 30
POOLERS = [
    ("bert", "Model", "pretrained"),
    ("bert", "ForPreTraining", "pretrained"),
    ("bert", "ForMaskedLM", "new"),
    ("roberta", "ForMaskedLM", "new"),
    ("mpnet", "ForMaskedLM", "new"),
    ("distilbert", "ForMaskedLM", "none"),
    ("electra", "ForPreTraining", "none"),
    ("gpt2", "LMHeadModel", "none"),
    ("llama", "ForCausalLM", "none"),
    ("t5", "ForConditionalGeneration", "none"),
    ("bart", "ForConditionalGeneration", "none"),
]


@pytest.fixture
def read(tiny: Callable[..., Path]) -> Callable[..., Backbone]:
    return lambda family, kind="Model": load(str(tiny(family, kind)))


def test_the_bundled_model_is_what_the_menu_says(backbone):
    assert (backbone.id, backbone.model_type) == (BUNDLED, "bert")
    assert (backbone.width, backbone.layers, backbone.pooler) == (384, 6, "untrained")
    assert round(backbone.parameters / 1e6) == 23
    assert set(backbone.pooler_weights) == {"pooler.dense.weight", "pooler.dense.bias"}
    assert not any(weight.requires_grad for weight in backbone.model.parameters())
    assert not backbone.model.training


@pytest.mark.parametrize("family", FAMILIES)
def test_a_family_reads_texts_alike_alone_and_in_a_batch_and_never_padding(read, family):
    found = read(family)
    assert (found.width, found.layers, found.model_type) == (TINY_WIDTH, TINY_LAYERS, family)
    together = found.states(found.encode(TEXTS))
    size = together.mask.shape[1]
    for layer in together.hidden:
        assert layer.shape == (3, size, TINY_WIDTH)
        assert (layer[together.mask == 0] == 0).all()
    assert len(together.hidden) == TINY_LAYERS + 1
    assert (together.mask == 0).any()
    assert not (together.content * (together.mask == 0)).any()
    assert (together.pooler is None) == (found.pooler == "none")
    for row, text in enumerate(TEXTS):
        alone = found.states(found.encode([text]))
        length = alone.mask.shape[1]
        assert together.mask[row].tolist() == [1.0] * length + [0.0] * (size - length)
        for one, many in zip(alone.hidden, together.hidden, strict=True):
            torch.testing.assert_close(many[row, :length], one[0], atol=1e-5, rtol=0)
        if alone.pooler is not None:
            torch.testing.assert_close(together.pooler[row], alone.pooler[0], atol=1e-5, rtol=0)


@pytest.mark.parametrize("family", FAMILIES)
def test_a_family_cuts_what_is_too_long_and_reads_two_texts_as_one(read, family):
    found = read(family)
    encoded = found.encode([LONG, "a cat"])
    assert len(encoded[0]) == min(found.tokens, encoded[0].whole_length)
    assert encoded[0].whole_length >= 180
    assert encoded[1].whole_length == len(encoded[1])
    assert all(layer.isfinite().all() for layer in found.states(encoded).hidden)
    (encoded,) = found.encode(["the cat"], ["a dog"])
    said = " ".join(found.words(encoded))
    assert said.index("cat") < said.index("dog")
    assert found.states([encoded]).hidden[-1].isfinite().all()
    segments = {"bert": [0, 0, 0, 0, 1, 1, 1], "distilbert": None}
    assert segments.get(family, ...) in (..., encoded.inputs.get("token_type_ids"))


@pytest.mark.parametrize(("family", "kind", "pooler"), POOLERS)
def test_a_pooler_is_pretrained_only_where_the_checkpoint_has_it(read, family, kind, pooler):
    found = read(family, kind)
    assert found.pooler == pooler
    assert set(found.pooler_weights) == (
        {"pooler.dense.weight", "pooler.dense.bias"} if pooler == "pretrained" else set()
    )


def test_a_pooler_that_the_checkpoint_lacks_is_the_same_at_every_start(tiny, tmp_path):
    pooled = []
    for name in ("one", "other"):
        folder = save_tiny(tmp_path / name, "bert", "ForMaskedLM")
        torch.rand(7)
        found = load(str(folder))
        pooled.append(found.states(found.encode(["the cat"])).pooler)
    assert torch.equal(pooled[0], pooled[1])


@pytest.mark.parametrize("text", ["[CLS] [SEP]", "[PAD] [MASK] [UNK]", "a [SEP]b", "[SEP]"])
def test_special_tokens_typed_by_a_user_stay_text(backbone, text):
    (encoded,) = backbone.encode([text])
    numbers = encoded.inputs["input_ids"]
    special = set(backbone.tokenizer.all_special_ids)
    assert not special & set(numbers[1:-1])
    assert encoded.special == [1] + [0] * (len(numbers) - 2) + [1]


@pytest.fixture
def stubborn(tmp_path: Path) -> Callable[..., Backbone]:
    """A model whose vocabulary holds its special tokens as ordinary pieces, as SentencePiece's."""

    def read(**parts: Any) -> Backbone:
        folder = save_tiny(tmp_path / "bert", "bert")
        pieces = [(piece.replace("##", ""), -1.0) for piece in VOCABULARY]
        vocabulary = [*dict.fromkeys(pieces), ("\u2581", -2.0)]
        tokenizer = Tokenizer(models.Unigram(vocabulary, unk_id=1))
        tokenizer.pre_tokenizer = pre_tokenizers.Metaspace()
        for name, part in parts.items():
            setattr(tokenizer, name, part)
        names = {"unk_token": "[UNK]", "cls_token": "[CLS]", "sep_token": "[SEP]"}
        transformers.PreTrainedTokenizerFast(
            tokenizer_object=tokenizer, pad_token="[PAD]", **names
        ).save_pretrained(folder)
        return load(str(folder))

    return read


@pytest.mark.parametrize(
    "text", ["a [CLS] b", "[SEP]", "[CLS][SEP]", "x[PAD]y", "[[SEP]SEP]", "a ［CLS］ b", "［SEP］"]
)
def test_such_special_tokens_stay_text(stubborn, text):
    found = stubborn() if text.isascii() else stubborn(normalizer=normalizers.NFKC())
    tokens = found.tokenizer.convert_ids_to_tokens(list(found.stubborn))
    assert set(tokens) == {"[CLS]", "[SEP]", "[PAD]"}
    (encoded,) = found.encode([text])
    special = set(found.tokenizer.all_special_ids) - {found.tokenizer.unk_token_id}
    assert not special & set(encoded.inputs["input_ids"])


def test_ten_megabytes_pass_the_check_and_the_tokenizer_at_once(backbone):
    text = "The flight was cancelled twice. " * 312_500
    start = time.perf_counter()
    (encoded,) = backbone.encode([check_text(text)])
    assert time.perf_counter() - start < 0.5
    assert len(encoded) == 256
    (endless,) = backbone.encode([check_text("a" * 1_000_000)])
    assert backbone.states([endless]).hidden[-1].isfinite().all()


def test_the_limits_of_the_place_the_positions_and_the_tokenizer_are_kept(copied, read):
    folder = copied("t5")
    for tokens in (64, 12):  # the second time it is in memory
        with use_limits(Limits(tokens=tokens)):
            few = load(str(folder))
        (encoded,) = few.encode([LONG])
        assert (few.tokens, len(encoded)) == (tokens, tokens)
        assert encoded.whole_length > 180
    most = {"bert": TINY_POSITIONS, "roberta": TINY_POSITIONS - 1, "mpnet": TINY_POSITIONS - 2}
    for family, tokens in {**most, "t5": Limits().tokens}.items():
        assert read(family).tokens == tokens
    folder = copied()
    rewrite(folder / "tokenizer_config.json", model_max_length=20)
    assert len(load(str(folder)).encode([LONG])[0]) == 20


@pytest.mark.parametrize(
    ("length", "vocabulary"),
    [*((length, 100) for length in (-1, 0, 1, 20.5, "x", None, 1e30)), (40, 22)],
)
def test_a_tokenizer_that_does_not_fit_is_no_crash(tmp_path, length, vocabulary):
    folder = save_tiny(tmp_path / "bert", "bert", vocab_size=vocabulary)
    rewrite(folder / "tokenizer_config.json", model_max_length=length)
    with suppress(HeadsError):
        found = load(str(folder))
        found.states(found.encode([LONG, "the zebra"]))


def test_a_layer_that_is_not_there_is_said_in_a_sentence(small):
    states = small.states(small.encode(["a cat"]))
    assert states.layer(2) is states.layer(-1)
    with refusing(RecipeError, "layer 3", "0 to 2"):
        states.layer(3)


def test_threads_encode_at_once(backbone):
    texts = {"short": ["the cat sat"], "long": ["cancelled twice " * 200]}
    expected = {name: backbone.encode(given) for name, given in texts.items()}

    def work(name: str) -> None:
        for _ in range(40):
            assert backbone.encode(texts[name]) == expected[name]
            assert backbone.words(expected["short"][0])[1:-1] == ["the", "cat", "sat"]

    with ThreadPoolExecutor(4) as pool:
        list(pool.map(work, [*texts, *texts]))


def test_a_real_decoder_is_read(shared):
    found = load(str(shared / "checkpoints" / "stories260K-llama"))
    assert (found.width, found.layers, found.pooler) == (64, 5, "none")
    states = found.states(found.encode(["Once upon a time", "a dog"]))
    # A decoder's first token has read nothing but itself.
    torch.testing.assert_close(states.hidden[-1][0, 0], states.hidden[-1][1, 0])
    assert not torch.allclose(states.hidden[-1][0, 1], states.hidden[-1][1, 1])


@settings(max_examples=25)
@given(
    lengths=st.lists(st.integers(min_value=1, max_value=36), min_size=1, max_size=70),
    most=st.sampled_from([1, 3, 32, TOKENS_A_BATCH]),
)
def test_passes_cover_every_row_once(small, lengths, most):
    encoded = small.encode(["cat " * length for length in lengths])
    seen: list[int] = []
    for rows, states in small.passes(encoded, most):
        assert 1 <= len(rows) <= most
        assert states.mask.sum(dim=1).tolist() == [len(encoded[row]) for row in rows]
        assert states.mask.numel() <= TOKENS_A_BATCH
        seen += rows
    assert sorted(seen) == list(range(len(lengths)))


def test_a_model_is_kept_in_memory_and_the_oldest_one_goes(tiny, monkeypatch):
    monkeypatch.setattr(loading, "MODELS_IN_MEMORY", 2)
    with use_limits(Limits(tokens=64)):
        first, second = (load(str(tiny(name))) for name in ("bert", "gpt2"))
        assert load(str(tiny("bert"))) is first
        load(str(tiny("electra")))
        assert load(str(tiny("bert"))) is first
        assert load(str(tiny("gpt2"))) is not second
        bundled = load(BUNDLED)
        for name in ("roberta", "distilbert"):
            load(str(tiny(name)))
            assert load(BUNDLED) is bundled  # which stays


def test_a_folder_whose_weights_change_is_read_anew(tmp_path):
    folder = save_tiny(tmp_path / "bert", "bert")
    before = load(str(folder))
    save_tiny(folder, "bert", num_hidden_layers=1)
    after = load(str(folder))
    assert after.revision != before.revision
    assert (before.layers, after.layers) == (2, 1)
