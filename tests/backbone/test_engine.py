"""The engine encodes as Transformers does in 32 bits, or says how far it is from that."""

import pytest
import torch
from expected_errors import refusing

from heads.backbone import device, engine, loading
from heads.backbone.engine import InferenceEngine, agreement, backends, to_try, tried
from heads.backbone.states import Encoded
from heads.errors import ModelError
from heads.features.featurizer import Featurizer
from heads.features.store import FeatureMatrices, FeatureStore
from heads.parts.resolve import resolve

TEXTS = ("the cat sat", "a dog ran home twice and was late", "it", "on a mat, and on the cat.")
HAS_KERNELS = device.has_kernels()


@pytest.fixture(autouse=True)
def _nothing_lost(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(engine, "_lost", type(engine._lost)())


@pytest.fixture
def in_16_bits(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(device, "has_instructions", lambda _: True)


def test_a_pooling_needs_only_its_layers(backbone):
    needed = {
        name: sorted(Featurizer(resolve(f"{name}+linear"), backbone).depths)
        for name in ("mean", "cls@2", "mean@0", "mean@mean4", "max@cat4", "mean@mix", "pooler")
    }
    last4, every = [3, 4, 5, 6], [0, 1, 2, 3, 4, 5, 6]
    assert needed == {
        "mean": [6], "cls@2": [2, 6], "mean@0": [0, 6], "mean@mean4": last4, "max@cat4": last4,
        "mean@mix": every, "pooler": [6],
    }  # fmt: skip


def test_the_exact_engine_agrees_with_texts_encoded_one_by_one(backbone):
    encoded = backbone.encode(TEXTS)
    chosen = tried(backbone, "exact", encoded)
    assert (chosen.way.name, chosen.way.precision) == ("Transformers", "float32")
    assert agreement(chosen, encoded).difference < engine.CLOSE


@pytest.mark.skipif(not HAS_KERNELS, reason="this processor has no kernels for 16 bits")
@pytest.mark.parametrize("family", ["bert", "gpt2", "modernbert", "t5"])
def test_16_bits_are_used_for_any_family_if_they_are_close(family, tiny, in_16_bits, monkeypatch):
    backbone = loading.load(str(tiny(family)))
    encoded = backbone.encode(TEXTS)
    chosen = tried(backbone, "auto", encoded)
    assert chosen.way.precision == "bfloat16"
    assert all(
        layer.dtype == torch.float32
        for _, states in chosen.passes(encoded, (1,))
        for layer in states.hidden
    )
    assert backbone.states(encoded[:1]).hidden[0].dtype == torch.float32
    monkeypatch.setattr(engine, "ALIKE", 1.1)  # no cosine is as large
    chosen = tried(backbone, "auto", encoded)
    assert chosen.way.precision == "float32"
    assert "too far" in chosen.says
    assert "too far" not in tried(backbone, "exact", encoded).says
    assert backends(backbone, "auto") == backends(backbone, "exact")


def test_a_backend_that_gives_nan_is_not_used(backbone, in_16_bits, monkeypatch):
    monkeypatch.setattr(device, "has_kernels", lambda _: True)
    passes = InferenceEngine.passes
    monkeypatch.setattr(
        InferenceEngine,
        "passes",
        lambda *args: ((rows, states._each(lambda x: x * torch.nan)) for rows, states in passes(
            InferenceEngine(backbone=backbone, way=backends(backbone, "exact")[0]), *args[1:]
        )),
    )  # fmt: skip
    assert tried(backbone, "auto", backbone.encode(TEXTS)).way.precision == "float32"


def test_what_a_model_cannot_encode_is_a_sentence(tiny):
    backbone = loading.load(str(tiny("roberta")))
    inputs = {"input_ids": [10, 11, 12, 13], "token_type_ids": [0, 0, 7, 7]}  # of two kinds at most
    with refusing(ModelError, "4 tokens"):
        backbone.states([Encoded(inputs=inputs, special=[1, 0, 0, 0], whole_length=4)])


def test_runs_that_were_encoded_in_two_precisions_name_both():
    index = torch.arange(2)
    both = {
        name: FeatureMatrices(
            index=index, parts={"mean": ()}, tokens=index, whole=index, unknown=index,
            seconds=0.0, fresh=0, engine="Transformers", precision=precision,
            says=f"Read in {precision}.",
        )
        for name, precision in (("joint", "float32"), ("alone", "bfloat16"))
    }  # fmt: skip
    way = FeatureStore(**both, siamese={}).way
    assert (way["joint"], way["alone"]) == ("float32", "bfloat16")
    assert way["precision"] == "float32 and bfloat16"
    assert way["says"] == "Read in float32. Read in bfloat16."


def test_the_sample_has_short_and_long_texts():
    assert to_try([5]) == [0]
    assert to_try([9, 1, 5, 7]) == [1, 3, 0]
    assert len(to_try(range(1000))) == 4


@pytest.mark.parametrize(
    ("has_instructions", "has_kernels"), [(True, True), (False, True), (False, False)]
)
def test_precision_follows_the_instructions_of_the_device(
    monkeypatch, has_instructions, has_kernels
):
    monkeypatch.setattr(device, "has_instructions", lambda _: has_instructions)
    monkeypatch.setattr(device, "has_kernels", lambda _: has_kernels)
    auto, exact, fast, resumed = (
        device.products(name) for name in ("auto", "exact", "fast", "bfloat16")
    )
    assert exact == device.products("float32") == torch.float32
    assert (auto == torch.bfloat16) == has_instructions
    assert fast == resumed == (torch.bfloat16 if has_kernels else torch.float32)
