"""Every family of base models reads texts: alike alone and in a batch, and never padding."""

import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
import transformers
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
STUBBORN = ["[CLS]", "[SEP]", "[PAD]"]
EACH_FAMILY = pytest.mark.parametrize("family", FAMILIES)
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


def test_the_bundled_model_is_what_the_menu_says(backbone: Backbone) -> None:
    assert (backbone.id, backbone.model_type) == (BUNDLED, "bert")
    assert (backbone.width, backbone.layers, backbone.pooler) == (384, 6, "untrained")
    assert round(backbone.parameters / 1e6) == 23
    assert set(backbone.pooler_weights) == {"pooler.dense.weight", "pooler.dense.bias"}
    assert not any(weight.requires_grad for weight in backbone.model.parameters())
    assert not backbone.model.training


@EACH_FAMILY
def test_width_and_layers_are_those_of_the_checkpoint(
    read: Callable[..., Backbone], family: str
) -> None:
    found = read(family)
    assert (found.width, found.layers, found.model_type) == (TINY_WIDTH, TINY_LAYERS, family)
    states = found.states(found.encode(TEXTS))
    assert [tuple(layer.shape) for layer in states.hidden] == [
        (3, states.mask.shape[1], TINY_WIDTH)
    ] * (TINY_LAYERS + 1)
    assert (states.pooler is None) == (found.pooler == "none")


@EACH_FAMILY
def test_a_text_alone_and_in_a_batch_has_the_same_states(
    read: Callable[..., Backbone], family: str
) -> None:
    found = read(family)
    together = found.states(found.encode(TEXTS))
    for row, text in enumerate(TEXTS):
        alone = found.states(found.encode([text]))
        length = alone.mask.shape[1]
        assert together.mask[row].tolist() == [1.0] * length + [0.0] * (
            together.mask.shape[1] - length
        )
        for one, many in zip(alone.hidden, together.hidden, strict=True):
            torch.testing.assert_close(many[row, :length], one[0], atol=1e-5, rtol=0)
        if alone.pooler is not None and together.pooler is not None:
            torch.testing.assert_close(together.pooler[row], alone.pooler[0], atol=1e-5, rtol=0)


@EACH_FAMILY
def test_padded_states_are_exactly_0(read: Callable[..., Backbone], family: str) -> None:
    found = read(family)
    states = found.states(found.encode(TEXTS))
    padding = states.mask == 0
    assert padding.any()
    assert not (states.content * padding).any()
    assert all((layer[padding] == 0).all() for layer in states.hidden)


@EACH_FAMILY
def test_a_text_longer_than_the_positions_is_cut_and_says_so(
    read: Callable[..., Backbone], family: str
) -> None:
    found = read(family)
    encoded = found.encode([LONG, "a cat"])
    assert len(encoded[0]) == min(found.tokens, encoded[0].whole_length)
    assert encoded[0].whole_length >= 180
    assert encoded[1].whole_length == len(encoded[1])
    assert all(layer.isfinite().all() for layer in found.states(encoded).hidden)


@EACH_FAMILY
def test_two_texts_are_read_as_one(read: Callable[..., Backbone], family: str) -> None:
    found = read(family)
    (encoded,) = found.encode(["the cat"], ["a dog"])
    said = " ".join(found.words(encoded))
    assert said.index("cat") < said.index("dog")
    assert found.states([encoded]).hidden[-1].isfinite().all()


@pytest.mark.parametrize(("family", "kind", "pooler"), POOLERS)
def test_a_pooler_is_pretrained_only_where_the_checkpoint_has_it(
    read: Callable[..., Backbone], family: str, kind: str, pooler: str
) -> None:
    found = read(family, kind)
    assert found.pooler == pooler
    assert set(found.pooler_weights) == (
        {"pooler.dense.weight", "pooler.dense.bias"} if pooler == "pretrained" else set()
    )


def test_a_pooler_that_the_checkpoint_lacks_is_the_same_at_every_start(
    tiny: Callable[..., Path], tmp_path: Path
) -> None:
    pooled = []
    for name in ("one", "other"):
        folder = save_tiny(tmp_path / name, "bert", "ForMaskedLM")
        torch.rand(7)
        found = load(str(folder))
        pooled.append(found.states(found.encode(["the cat"])).pooler)
    assert torch.equal(pooled[0], pooled[1])


def test_segments_of_a_pair_reach_a_model_that_knows_them(read: Callable[..., Backbone]) -> None:
    (encoded,) = read("bert").encode(["the cat"], ["a dog"])
    assert encoded.inputs["token_type_ids"] == [0, 0, 0, 0, 1, 1, 1]
    assert "token_type_ids" not in read("distilbert").encode(["a"], ["b"])[0].inputs


@pytest.mark.parametrize("text", ["[CLS] [SEP]", "[PAD] [MASK] [UNK]", "a [SEP]b", "[SEP]"])
def test_special_tokens_typed_by_a_user_stay_text(backbone: Backbone, text: str) -> None:
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


def test_special_tokens_are_found_where_they_are_ordinary_pieces_too(
    stubborn: Callable[..., Backbone],
) -> None:
    found = stubborn()
    tokens = found.tokenizer.convert_ids_to_tokens(list(found.stubborn))
    assert set(tokens) == {"[CLS]", "[SEP]", "[PAD]"}


@pytest.mark.parametrize(
    "text", ["a [CLS] b", "[SEP]", "[CLS][SEP]", "x[PAD]y", "[[SEP]SEP]", "a ［CLS］ b", "［SEP］"]
)
def test_such_special_tokens_stay_text(stubborn: Callable[..., Backbone], text: str) -> None:
    found = stubborn() if text.isascii() else stubborn(normalizer=normalizers.NFKC())
    (encoded,) = found.encode([text])
    special = set(found.tokenizer.all_special_ids) - {found.tokenizer.unk_token_id}
    assert not special & set(encoded.inputs["input_ids"])


def test_ten_megabytes_pass_the_check_and_the_tokenizer_at_once(backbone: Backbone) -> None:
    text = "The flight was cancelled twice. " * 312_500
    start = time.perf_counter()
    (encoded,) = backbone.encode([check_text(text)])
    assert time.perf_counter() - start < 0.5
    assert len(encoded) == 256


def test_one_endless_word_is_read(backbone: Backbone) -> None:
    (encoded,) = backbone.encode([check_text("a" * 1_000_000)])
    assert backbone.states([encoded]).hidden[-1].isfinite().all()


def test_the_token_limit_of_the_place_is_kept(copied: Callable[..., Path]) -> None:
    with use_limits(Limits(tokens=12)):
        few = load(str(copied("t5")))
    (encoded,) = few.encode([LONG])
    assert (few.tokens, len(encoded)) == (12, 12)
    assert encoded.whole_length > 180


def test_the_token_limit_is_kept_for_a_model_already_in_memory(copied: Callable[..., Path]) -> None:
    folder = str(copied("t5"))
    with use_limits(Limits(tokens=64)):
        assert load(folder).tokens == 64
    with use_limits(Limits(tokens=12)):
        assert load(folder).tokens == 12


def test_a_model_reads_no_more_than_its_own_positions(read: Callable[..., Backbone]) -> None:
    assert read("bert").tokens == TINY_POSITIONS
    assert read("roberta").tokens == TINY_POSITIONS - 1
    assert read("mpnet").tokens == TINY_POSITIONS - 2
    assert read("t5").tokens == Limits().tokens


def test_a_model_reads_no_more_than_its_tokenizer_says(copied: Callable[..., Path]) -> None:
    folder = copied()
    rewrite(folder / "tokenizer_config.json", model_max_length=20)
    found = load(str(folder))
    assert len(found.encode([LONG])[0]) == 20


@pytest.mark.parametrize("length", [-1, 0, 1, 20.5, "x", None, 1e30])
def test_a_nonsensical_length_of_the_tokenizer_is_no_crash(
    copied: Callable[..., Path], length: object
) -> None:
    folder = copied()
    rewrite(folder / "tokenizer_config.json", model_max_length=length)
    try:
        found = load(str(folder))
        found.states(found.encode([LONG]))
    except HeadsError:
        return


def test_a_tokenizer_of_another_model_is_no_crash(tmp_path: Path) -> None:
    folder = save_tiny(tmp_path / "bert", "bert", vocab_size=22)
    try:
        found = load(str(folder))
        found.states(found.encode(["the zebra"]))
    except HeadsError:
        return


def test_a_layer_that_is_not_there_is_said_in_a_sentence(small: Backbone) -> None:
    states = small.states(small.encode(["a cat"]))
    assert states.layer(2) is states.layer(-1)
    with pytest.raises(RecipeError, match="There is no layer 3: this base model has 0 to 2"):
        states.layer(3)


def test_threads_encode_at_once(backbone: Backbone) -> None:
    texts = {"short": ["the cat sat"], "long": ["cancelled twice " * 200]}
    expected = {name: backbone.encode(given) for name, given in texts.items()}
    failures: list[BaseException] = []

    def work(name: str) -> None:
        try:
            for _ in range(40):
                assert backbone.encode(texts[name]) == expected[name]
                assert backbone.words(expected["short"][0])[1:-1] == ["the", "cat", "sat"]
        except BaseException as error:
            failures.append(error)

    threads = [threading.Thread(target=work, args=(name,)) for name in [*texts, *texts]]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not failures


def test_a_real_decoder_is_read(shared: Path) -> None:
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
def test_passes_cover_every_row_once(small: Backbone, lengths: list[int], most: int) -> None:
    encoded = small.encode(["cat " * length for length in lengths])
    seen: list[int] = []
    for rows, states in small.passes(encoded, most):
        assert 1 <= len(rows) <= most
        assert states.mask.sum(dim=1).tolist() == [len(encoded[row]) for row in rows]
        assert states.mask.numel() <= TOKENS_A_BATCH
        seen += rows
    assert sorted(seen) == list(range(len(lengths)))


def test_a_model_is_kept_in_memory_and_the_oldest_one_goes(
    tiny: Callable[..., Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(loading, "MODELS_IN_MEMORY", 2)
    with use_limits(Limits(tokens=64)):
        first, second = (load(str(tiny(name))) for name in ("bert", "gpt2"))
        assert load(str(tiny("bert"))) is first
        load(str(tiny("electra")))
        assert load(str(tiny("bert"))) is first
        assert load(str(tiny("gpt2"))) is not second


def test_a_folder_whose_weights_change_is_read_anew(tmp_path: Path) -> None:
    folder = save_tiny(tmp_path / "bert", "bert")
    before = load(str(folder))
    save_tiny(folder, "bert", num_hidden_layers=1)
    after = load(str(folder))
    assert after.revision != before.revision
    assert (before.layers, after.layers) == (2, 1)
