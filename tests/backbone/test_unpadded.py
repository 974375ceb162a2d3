"""A pass without padding gives what Transformers gives, for every family built of BERT's block."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import slow
import torch
from hypothesis import given
from hypothesis import strategies as st

from heads.backbone import engine as reading
from heads.backbone import loading, precision
from heads.backbone.backbone import Backbone
from heads.backbone.engine import InferenceEngine, agreement, backends, to_try, tried, with_block
from heads.backbone.states import Encoded
from heads.backbone.unpadded import bert as blocks
from heads.backbone.unpadded.bert import FAMILIES, BertEncoder, block_of
from heads.backbone.unpadded.forward import NOT_KEPT, batches, run
from heads.backbone.unpadded.linear import ALWAYS
from heads.catalog.tiny_models import quiet, tiny_model
from heads.errors import ModelError
from heads.features.extraction import extract
from heads.features.featurizer import Featurizer
from heads.features.store import FeatureMatrices, FeatureStore
from heads.parts.resolve import resolve

TEXTS = ("the cat sat", "a dog ran home twice and was late", "it", "on a mat, and on the cat.")
ROUNDING = 5e-6


def texts(*lengths: int, pairs: bool = False) -> list[Encoded]:
    """Texts of those lengths, none like another; the second half of a pair's tokens is one."""
    found = []
    for number, length in enumerate(lengths):
        inputs = {"input_ids": [10 + (7 * number + 3 * place) % 90 for place in range(length)]}
        if pairs:
            inputs["token_type_ids"] = [int(place >= length // 2) for place in range(length)]
        special = [1, *[0] * (length - 1)]
        found.append(Encoded(inputs=inputs, special=special, whole_length=length))
    return found


def small(family: str, **settings: Any) -> Any:
    with quiet():
        return tiny_model(family, labels=2, **settings).base_model.eval().requires_grad_(False)


def differs(model: Any, block: BertEncoder, given: list[Encoded], most: int = 20) -> float:
    """The largest difference from Transformers' states, over all layers."""
    worst = 0.0
    for batch in batches(given, most):
        for one, hidden in zip(batch, run(block, batch, range(99)), strict=True):
            named = {"token_type_ids": one.sides} if one.sides is not None else {}
            mask = torch.ones_like(one.numbers)
            asked = {"input_ids": one.numbers, "attention_mask": mask, **named}
            theirs = model(**asked, output_hidden_states=True).hidden_states
            assert len(hidden) == len(theirs)
            for ours, other in zip(hidden, theirs, strict=True):
                worst = max(worst, float((ours - other).abs().max()))
    return worst


@pytest.mark.parametrize("family", slow.but_each(3, FAMILIES))
def test_every_family_reads_as_in_transformers(family: str) -> None:
    model = small(family)
    block = block_of(model, torch.float32)
    assert block is not None
    assert differs(model, block, texts(9, 4, 6, 2, 4, 9, 9, 1, 30)) < ROUNDING


@pytest.mark.parametrize("family", slow.but_each(3, FAMILIES))
def test_sixteen_bits_point_the_same_way(family: str) -> None:
    model = small(family)
    exact, fast = block_of(model, torch.float32), block_of(model, torch.bfloat16)
    assert exact is not None
    assert fast is not None
    for batch in batches(texts(9, 4, 6, 9, 30)):
        both = (run(block, batch, range(3)) for block in (exact, fast))
        for ours, theirs in zip(*both, strict=True):
            assert theirs[-1].dtype == torch.float32
            alike = torch.nn.functional.cosine_similarity(ours[-1], theirs[-1], dim=-1)
            assert alike.min() > 0.999


@pytest.mark.parametrize(
    "family", slow.but_each(3, [name for name in FAMILIES if FAMILIES[name].sides])
)
def test_second_texts_are_told_apart(family: str) -> None:
    model = small(family)
    block = block_of(model, torch.float32)
    assert block is not None
    given = texts(9, 4, 6, 9, pairs=True)
    assert differs(model, block, given) < ROUNDING
    # And it is not that they make no difference.
    alike = [replace(one, inputs={"input_ids": one.inputs["input_ids"]}) for one in given]
    ((first, *_), *_) = (run(block, batch, [2]) for batch in batches(given))
    ((other, *_), *_) = (run(block, batch, [2]) for batch in batches(alike))
    assert (first[-1] - other[-1]).abs().max() > 1e-3


@pytest.mark.parametrize(
    "activation", ["relu", "silu", "gelu_new", "gelu_pytorch_tanh", "quick_gelu"]
)
def test_any_activation(activation: str) -> None:
    model = small("bert", hidden_act=activation)
    block = block_of(model, torch.float32)
    assert block is not None
    assert differs(model, block, texts(9, 4, 6)) < ROUNDING


def test_a_padding_token_within_a_text_has_no_place_of_its_own() -> None:
    model = small("roberta")
    block = block_of(model, torch.float32)
    assert block is not None
    given = texts(6, 6)
    given[0].inputs["input_ids"][3] = model.config.pad_token_id
    assert differs(model, block, given) < ROUNDING


def test_embeddings_of_another_width_are_projected() -> None:
    for family in ("electra", "albert"):
        model = small(family, embedding_size=16)
        block = block_of(model, torch.float32)
        assert block is not None
        assert block.embedding.projected is not None
        assert differs(model, block, texts(9, 4, 6)) < ROUNDING


def test_a_large_model_gets_no_second_copy_of_its_weights(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(blocks, "PREPACKED", 0)
    model = small("bert")
    block = block_of(model, torch.float32)
    assert block is not None
    assert (
        block.layers[0].wide.weight.data_ptr()
        == model.encoder.layer[0].intermediate.dense.weight.data_ptr()
    )
    assert differs(model, block, texts(9, 4, 6)) < ROUNDING


@pytest.mark.parametrize("most", [0, 8, ALWAYS])
def test_torchs_own_layers_and_onednns_are_alike(
    most: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("heads.backbone.unpadded.linear.fused_rows", lambda _: most)
    for activation in ("gelu", "relu", "gelu_new"):
        model = small("bert", hidden_act=activation)
        block = block_of(model, torch.float32)
        assert block is not None
        assert block.layers[0].wide.most == most
        for asked in (texts(9, 4, 6), texts(5)):
            assert differs(model, block, asked) < ROUNDING


def test_other_families_and_models_that_write_are_left_to_transformers() -> None:
    for family in ("gpt2", "deberta-v2", "xlnet", "modernbert", "t5"):
        assert block_of(small(family), torch.float32) is None
    assert block_of(small("bert", is_decoder=True), torch.float32) is None


def test_only_the_layers_asked_for_are_kept() -> None:
    block = block_of(small("bert"), torch.float32)
    assert block is not None
    for batch in batches(texts(5, 5, 3)):
        for hidden in run(block, batch, {1}):
            assert [states is NOT_KEPT for states in hidden] == [True, False, True]


@given(st.lists(st.integers(1, 40), max_size=60), st.integers(1, 100))
def test_batches_hold_every_text_once_the_longest_first(lengths: list[int], most: int) -> None:
    found = list(batches(texts(*lengths), most))
    runs = [one for batch in found for one in batch]
    assert sorted(row for one in runs for row in one.rows) == list(range(len(lengths)))
    for one in runs:
        assert {lengths[row] for row in one.rows} == {one.numbers.shape[1]}
    order = [one.numbers.shape[1] for one in runs]
    assert order == sorted(order, reverse=True)
    for batch in found:
        tokens = sum(one.numbers.numel() for one in batch)
        assert tokens <= most or sum(len(one.rows) for one in batch) == 1


# On a base model


@pytest.mark.parametrize("family", ["bert", "roberta", "distilbert", "mpnet", "electra"])
def test_a_loaded_model_gives_the_same_states_by_either_pass(
    family: str, tiny: Callable[..., Path]
) -> None:
    backbone = loading.load(str(tiny(family)))
    assert backbone.block is not None
    for text in TEXTS:
        encoded = backbone.encode([text])
        ours, theirs = backbone.states(encoded), replace(backbone, block=None).states(encoded)
        for name in ("mask", "unpadded", "content", "eos"):
            assert torch.equal(getattr(ours, name), getattr(theirs, name))
        for one, other in zip(ours.hidden, theirs.hidden, strict=True):
            assert torch.allclose(one, other, atol=ROUNDING)
        assert (ours.pooler is None) == (theirs.pooler is None)
        if ours.pooler is not None and theirs.pooler is not None:
            assert torch.allclose(ours.pooler, theirs.pooler, atol=ROUNDING)


def test_a_reading_knows_which_layers_it_needs(backbone: Backbone) -> None:
    needed = {
        name: sorted(Featurizer(resolve(f"{name}+linear"), backbone).depths)
        for name in ("mean", "cls@2", "mean@0", "mean@mean4", "max@cat4", "mean@mix", "pooler")
    }
    last4, every = [3, 4, 5, 6], [0, 1, 2, 3, 4, 5, 6]
    assert needed == {
        "mean": [6], "cls@2": [2, 6], "mean@0": [0, 6], "mean@mean4": last4, "max@cat4": last4,
        "mean@mix": every, "pooler": [6],
    }  # fmt: skip


def damaged(backbone: Backbone) -> Backbone:
    """A model whose pass without padding has gone wrong."""
    assert backbone.block is not None
    layer = backbone.block.layers[0]
    bias = layer.done.bias + 0.1
    broken = replace(layer, done=replace(layer.done, bias=bias))
    layers = (broken, *backbone.block.layers[1:])
    return replace(backbone, block=replace(backbone.block, layers=layers))


def test_a_pass_that_differs_is_not_used_and_it_is_said(
    backbone: Backbone, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HEADS_CACHE", str(tmp_path))
    broken = damaged(backbone)
    sample = backbone.encode(TEXTS)
    found = tried(broken, "exact", sample)
    assert (found.way.name, found.way.precision) == ("Transformers", "float32")
    assert "differed by" in found.says
    resolved = [resolve("mean+linear")]
    *_, features = extract(resolved, TEXTS, (), broken)
    *_, right = extract(resolved, TEXTS, (), replace(backbone, block=None))
    assert isinstance(features, FeatureMatrices)
    assert isinstance(right, FeatureMatrices)
    assert features.engine == "Transformers"
    assert "differed by" in features.says
    assert torch.equal(features.matrix("mean"), right.matrix("mean"))


def test_a_pass_that_gives_no_numbers_does_not_agree(backbone: Backbone) -> None:
    assert backbone.block is not None
    *others, last = backbone.block.layers
    nothing = replace(last.done, bias=last.done.bias * torch.nan)
    block = replace(backbone.block, layers=(*others, replace(last, done=nothing)))
    found = tried(replace(backbone, block=block), "exact", backbone.encode(TEXTS))
    assert found.way.name == "Transformers"


def test_what_a_model_cannot_read_is_said_in_a_sentence(tiny: Callable[..., Path]) -> None:
    backbone = loading.load(str(tiny("roberta")))
    text = texts(4, pairs=True)
    text[0].inputs["token_type_ids"] = [0, 0, 7, 7]  # of two kinds at most
    with pytest.raises(ModelError, match="cannot read a text of 4 tokens"):
        backbone.states(text)


def test_texts_read_both_ways_go_on_as_they_were_read() -> None:
    index = torch.arange(2)
    both = {
        name: FeatureMatrices(
            index=index, parts={"mean": ()}, tokens=index, whole=index, unknown=index,
            seconds=0.0, fresh=0, engine="packed", precision=precision,
            says=f"Read in {precision}.",
        )
        for name, precision in (("joint", "float32"), ("alone", "bfloat16"))
    }  # fmt: skip
    way = FeatureStore(**both, siamese={}).way
    assert (way["joint"], way["alone"]) == ("float32", "bfloat16")
    assert way["precision"] == "float32 and bfloat16"
    assert way["says"] == "Read in float32. Read in bfloat16."


def test_a_model_whose_block_differs_is_loaded_without_it(
    backbone: Backbone, monkeypatch: pytest.MonkeyPatch
) -> None:
    wrong = damaged(backbone).block
    monkeypatch.setattr(reading, "block_of", lambda model, dtype: wrong)
    assert with_block(replace(backbone, block=None), backbone.encode(TEXTS)).block is None
    found = tried(replace(backbone, block=None), "exact", backbone.encode(TEXTS))
    assert "did not give the same" in found.says


def test_the_exact_pass_is_exact_and_says_so(backbone: Backbone) -> None:
    found = tried(backbone, "exact", backbone.encode(TEXTS))
    assert (found.way.name, found.way.precision) == ("packed", "float32")
    assert "without padding, in float32" in found.says
    assert backbone.block is not None
    engine = InferenceEngine(backbone=backbone, way=backends(backbone, "exact")[0])
    assert agreement(engine, backbone.encode(TEXTS)).difference < 1e-5


def test_sixteen_bits_are_used_where_they_are_faster_and_close(
    backbone: Backbone, monkeypatch: pytest.MonkeyPatch
) -> None:
    for module in (precision, reading):
        monkeypatch.setattr(module, "gain", lambda _: 2.0)
    sample = backbone.encode(TEXTS)
    found = tried(backbone, "auto", sample)
    assert (found.way.name, found.way.precision) == ("packed", "bfloat16")
    assert "2.0 times as fast" in found.says
    assert "0.999" in found.says
    monkeypatch.setattr(reading, "ALIKE", 1.1)  # nothing is as close as that
    found = tried(backbone, "auto", sample)
    assert found.way.precision == "float32"
    assert "too far" in found.says


def test_another_family_is_read_by_transformers(tiny: Callable[..., Path]) -> None:
    backbone = loading.load(str(tiny("gpt2")))
    found = tried(backbone, "fast", backbone.encode(TEXTS))
    assert (found.way.name, found.way.precision) == ("Transformers", "float32")
    assert "gpt2 is not built of BERT's block" in found.says


def test_a_pass_is_tried_on_short_and_long_texts() -> None:
    assert to_try([5]) == [0]
    assert to_try([9, 1, 5, 7]) == [1, 3, 0]
    assert len(to_try(range(1000))) == 4


# Precision


def test_sixteen_bits_only_where_a_probe_finds_them_faster(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def chosen(gain: float) -> list[torch.dtype]:
        monkeypatch.setattr(precision, "gain", lambda _: gain)
        return [precision.products(asked) for asked in ("auto", "exact", "fast")]

    exact, fast = torch.float32, torch.bfloat16
    assert chosen(0.7) == [exact, exact, exact]
    assert chosen(1.2) == [exact, exact, fast]
    assert chosen(2.0) == [fast, exact, fast]
    monkeypatch.setattr(precision, "gain", lambda _: 0.7)
    # What a run began with, a resumed run goes on with.
    assert [precision.products(name) for name in ("float32", "bfloat16")] == [exact, fast]


def test_the_probe_is_made_once_for_a_machine(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HEADS_CACHE", str(tmp_path))
    precision.gain.cache_clear()
    first = precision.gain()
    assert 0 <= first < 100
    monkeypatch.setattr(precision, "measured_gain", lambda _: -1.0)
    precision.gain.cache_clear()
    assert precision.gain() == first
    (kept,) = (tmp_path / "probe").iterdir()
    kept.write_text("half of")
    precision.gain.cache_clear()
    assert precision.gain() == -1.0
    precision.gain.cache_clear()


def test_a_processor_without_such_kernels_has_no_gain(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuses(*_: object, **__: object) -> object:
        raise RuntimeError("mkldnn_bf16 needs other instructions")

    threads = torch.get_num_threads()
    monkeypatch.setattr(precision, "product", refuses)
    assert precision.measured_gain() == 0.0
    assert torch.get_num_threads() == threads
    monkeypatch.setattr(precision, "gain", lambda _: 0.0)
    # A run that began on another machine goes on here, in 32 bits.
    assert precision.products("bfloat16") == torch.float32
