"""Every classifier of the installed Transformers is built small, and reads what it is given."""

import logging

import pytest
import torch
from expected_errors import refusing
from transformers import AutoModelForSequenceClassification
from transformers.models.auto.modeling_auto import (
    MODEL_FOR_SEQUENCE_CLASSIFICATION_MAPPING_NAMES as CLASSES,
)

from heads.catalog import tiny_models
from heads.catalog.tiny_models import NOT_BUILT, OWN, tiny_config, tiny_model
from heads.errors import ModelError

PAD, EOS, LENGTH, SHORT = 1, 3, 12, 8
OFTEN = ("bert", "roberta", "gpt2", "bart", "modernbert", "t5", "reformer")
FAMILIES = [
    pytest.param(name, marks=[pytest.mark.skip(NOT_BUILT[name])])
    if name in NOT_BUILT
    else pytest.param(name, marks=[] if name in OFTEN else [pytest.mark.slow])
    for name in CLASSES
]


def texts() -> tuple[torch.Tensor, torch.Tensor]:
    """Texts that differ from the first in one token each, and a shorter one, padded right."""
    rng = torch.Generator().manual_seed(0)
    first = torch.randint(10, 110, (LENGTH - 1,), generator=rng)
    rows = torch.cat([first + 7 * torch.eye(LENGTH - 1, dtype=torch.long), first[None]])
    ids = torch.nn.functional.pad(rows, (0, 1), value=EOS)
    short = torch.tensor([*first[: SHORT - 1], EOS, *[PAD] * (LENGTH - SHORT)])
    ids = torch.cat([ids, short[None]])
    return ids, (ids != PAD).long()


def logits(model, ids: torch.Tensor, mask: torch.Tensor, seed: int = 0) -> torch.Tensor:
    # Within a fork, for Reformer seeds torch for the whole process whenever it runs.
    with tiny_models.quiet(), torch.no_grad(), torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        return model(input_ids=ids, attention_mask=mask).logits


@pytest.mark.parametrize("family", FAMILIES)
def test_a_family_is_built_small_and_reads_every_token(family):
    before = torch.get_rng_state()
    model = tiny_model(family)
    again = tiny_model(family)
    assert torch.equal(torch.get_rng_state(), before)
    assert type(model).__name__ == CLASSES[family]
    assert not model.training
    parameters = dict(model.named_parameters())
    assert sum(parameter.numel() for parameter in parameters.values()) < tiny_models.MOST_PARAMETERS
    for name, parameter in parameters.items():
        assert parameter.dtype == torch.float32, name
        assert not parameter.requires_grad, name
        # One number in some ten million may come to 1 by chance; a tensor left as it was has more.
        assert ((parameter == 0) | (parameter == 1)).float().mean() < 0.01, name
    for (name, tensor), same in zip(
        model.state_dict().items(), again.state_dict().values(), strict=True
    ):
        assert torch.equal(tensor, same), name

    ids, mask = texts()
    answers = logits(model, ids, mask)
    assert answers.shape == (len(ids), 3)
    assert answers.isfinite().all()
    assert answers.abs().mean() > 0.1
    assert torch.equal(answers, logits(model, ids, mask, seed=1))
    unread = (answers[: LENGTH - 1] - answers[LENGTH - 1]).abs().amax(1) < 1e-4
    if family == "mra":  # where there is no CUDA kernel, its attention is zeros
        assert unread[1:].all() or torch.cuda.is_available()
        unread = unread[:1]
    assert not unread.any()


@pytest.mark.parametrize("family", NOT_BUILT)
def test_a_family_is_excused_only_while_it_cannot_be_built(family):
    with refusing(ModelError, family):
        tiny_model(family)
    with tiny_models.quiet(), pytest.raises(ImportError):
        AutoModelForSequenceClassification.from_config(tiny_config(family))


def test_another_seed_gives_other_weights():
    one, other = tiny_model("bert", seed=1), tiny_model("bert", seed=2)
    for (name, tensor), changed in zip(
        one.named_parameters(), other.named_parameters(), strict=True
    ):
        assert not torch.isclose(tensor, changed[1]).all(), name


def test_settings_reach_the_config_and_those_inside_it():
    config = tiny_config("gpt2", labels=5, n_embd=16, pad_token_id=None)
    assert (config.num_labels, config.n_embd, config.pad_token_id) == (5, 16, None)
    config = tiny_config("t5gemma2", vocab_size=60)
    assert config.encoder.text_config.vocab_size == config.decoder.vocab_size == 60
    config = tiny_config("gemma3", text_config={"vocab_size": 60})
    assert (config.text_config.vocab_size, config.text_config.hidden_size) == (60, 32)
    assert not hasattr(config, "vocab_size")
    for rope in (1.0, 10_000.0):  # no config changes the sizes of the next
        config = tiny_config("cohere_compass_text")
        assert config.rope_parameters["full_attention"]["rope_theta"] == 10_000.0
        config.rope_parameters["full_attention"]["rope_theta"] = rope
    # T5's config names no such key, and yet its model asks for it.
    assert tiny_config("t5", decoder_start_token_id=0).decoder_start_token_id == 0


def test_a_family_that_nobody_sized_is_counted_before_it_takes_memory(monkeypatch):
    monkeypatch.delitem(OWN, "luke")
    with refusing(ModelError, "'luke'", "parameters"):
        tiny_model("luke")
    with refusing(ModelError, "parameters"):
        tiny_model("bert", vocab_size=100_000_000)


@pytest.mark.parametrize(
    ("name", "settings"),
    [
        *((name, {}) for name in ("nonsense", "resnet", "")),  # no classifiers
        ("esmc", {"num_key_value_heads": 2}),
        ("bert", {"hidden_size": 33}),
    ],
)
def test_what_is_no_classifier_or_transformers_refuses_is_one_sentence(name, settings):
    with refusing(ModelError, f"'{name}'"):
        tiny_model(name, **settings)


def test_transformers_is_quiet_and_then_as_loud_as_before(caplog):
    from transformers import ArceeConfig
    from transformers.utils import logging as loud

    logger = logging.getLogger("transformers")
    level = loud.get_verbosity()
    logger.addHandler(caplog.handler)
    try:
        loud.set_verbosity_warning()
        loud.warning_once.cache_clear()
        ArceeConfig()
        assert "bos_token_id" in caplog.text  # its own defaults do not fit each other
        caplog.clear()
        loud.warning_once.cache_clear()
        tiny_model("arcee")
        assert caplog.text == ""
        assert loud.get_verbosity() == loud.WARNING
    finally:
        logger.removeHandler(caplog.handler)
        loud.set_verbosity(level)
