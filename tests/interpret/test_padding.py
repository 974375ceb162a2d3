"""`examine` reports what is known of each family, and nothing where there is nothing."""

import functools
import json
import math
import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import slow
import torch
from safetensors.torch import load_file, save_file
from tiny_models import rewrite, save_tiny
from transformers import AutoModelForSequenceClassification

from heads.api import examine
from heads.catalog import tiny_models
from heads.errors import ModelError
from heads.interpret.padding import subject
from heads.interpret.padding.report import PaddingFinding, PaddingReport
from heads.interpret.padding.subject import PaddedInput, subject_of
from heads.settings import PUBLIC, Limits, use_limits

CASES = (
    *("repeated", "right_padded", "left_padded", "in_batch", "no_mask", "ends_in_eos"),
    *("pad_is_eos", "unequal_eos", "no_pad_token", "truncated"),
)
PADDED = "right_padded left_padded in_batch no_mask"
# What alters the logits of a family, and what stops it. Every text here ends in the eos token,
# which changes them when it is cut off.
KNOWN = {
    "bert": ("left_padded no_mask truncated", ""),
    "roberta": ("left_padded no_mask truncated", ""),
    "longformer": ("left_padded no_mask truncated", ""),
    "modernbert": ("left_padded no_mask truncated", ""),
    "eurobert": ("no_mask truncated", ""),
    "gpt2": ("left_padded pad_is_eos truncated", "no_pad_token"),
    "llama": ("pad_is_eos truncated", "no_pad_token"),
    "opt": ("pad_is_eos truncated", "no_pad_token"),
    "xlnet": ("right_padded no_mask truncated", ""),
    "fnet": (f"{PADDED} ends_in_eos pad_is_eos truncated", ""),
    "canine": (f"{PADDED} ends_in_eos pad_is_eos truncated", ""),
    "yoso": (f"{PADDED} ends_in_eos pad_is_eos truncated", ""),
    "reformer": (f"repeated {PADDED} truncated", "no_pad_token"),
    "t5gemma": (f"{PADDED} ends_in_eos truncated", "no_pad_token"),
    "bart": ("left_padded no_mask pad_is_eos", "unequal_eos no_pad_token truncated"),
    "t5": ("left_padded no_mask pad_is_eos", "unequal_eos no_pad_token truncated"),
    "perceiver": ("left_padded no_mask", ""),
    "mobilebert": (PADDED, ""),
}
LEARNED_POSITIONS = ("gpt2", "gpt_neo", "gpt_bigcode", "openai-gpt", "ctrl", "biogpt")


@functools.cache
def seen(model: str) -> PaddingReport:
    return examine(model)


def finding(model: str, case: str) -> PaddingFinding:
    return next(each for each in seen(model).findings if each.case == case)


@pytest.mark.parametrize("family", KNOWN)
def test_what_is_known_of_a_family_is_found(family: str) -> None:
    diagnosis = seen(family)
    alter, stop = (set(cases.split()) for cases in KNOWN[family])
    assert tuple(each.case for each in diagnosis.findings) == CASES
    assert {
        each.case for each in diagnosis.findings if each.difference is not None and each.changes
    } == alter
    assert {each.case for each in diagnosis.findings if each.error} == stop
    assert (diagnosis.model, diagnosis.model_type, diagnosis.tiny) == (family, family, True)
    for each in diagnosis.findings:
        if each.changes is False:
            assert each.difference is not None
            assert each.difference <= 1e-5
            assert (each.why, each.advice, each.error) == ("", "", "")
        elif each.changes is None:
            assert each.why
        else:
            assert each.error or each.difference > diagnosis.least
            assert each.why.endswith(".")
            assert each.advice.endswith(".")
            assert "\n" not in each.why + each.advice + each.error


def test_the_verdict_counts() -> None:
    assert seen("xlnet").verdict == (
        "3 of 10 changes alter the logits of XLNetForSequenceClassification."
    )
    assert seen("llama").verdict == (
        "2 of 10 changes alter the logits of LlamaForSequenceClassification, and 1 stops it."
    )
    clean = tuple(each for each in seen("llama").findings if each.changes is False)
    assert replace(seen("llama"), findings=clean).verdict == (
        "None of 7 changes alters the logits of LlamaForSequenceClassification."
    )


def test_a_difference_is_the_one_that_the_class_shows() -> None:
    """Held against the class itself, asked by hand."""
    one = subject_of("bert")
    text = list(one.texts[0])
    with torch.no_grad():
        alone = one.model(torch.tensor([text])).logits
        differences = [
            one.model(
                torch.tensor([[1] * padding + text]),
                attention_mask=torch.tensor([[0] * padding + [1] * len(text)]),
            ).logits
            - alone
            for padding in (1, 6, 51)
        ]
    largest = max(difference.abs().max().item() for difference in differences)
    assert finding("bert", "left_padded").difference == pytest.approx(largest, rel=1e-5)
    assert largest > 0.1


def test_pad_equal_to_eos_gives_the_logits_of_the_text_without_it() -> None:
    one = subject_of("gpt2")
    assert one.eos == one.texts[0][-1] == 3
    model = one.model
    with torch.no_grad():
        whole = model(torch.tensor([one.texts[0]])).logits
        short = model(torch.tensor([one.texts[0][:-1]])).logits
        model.config.pad_token_id = 3
        mistaken = model(torch.tensor([one.texts[0]])).logits
    assert torch.allclose(mistaken, short, atol=1e-5)
    found = finding("gpt2", "pad_is_eos")
    assert found.difference == pytest.approx((whole - short).abs().max().item(), rel=1e-4)


FIRST_IS_PADDING = "The head reads the first place, which is padding."
LAST_IS_PADDING = "The head reads the last place, which is padding."
ON_THE_RIGHT = "Pad on the right (tokenizer.padding_side = 'right')."
ALONE = "Do not pad: give one text at a time, or batches of one length."
NO_MASK = "The class takes no attention mask, so it reads padding like text."
NO_PAD_TOKEN = "Without a pad token in its config the class cannot tell where each text ends."
ENDS = (
    "The class reads the last end-of-text token, and wants the same number of them, "
    "and at least one, in every text of a batch."
)


@pytest.mark.parametrize(
    ("family", "case", "why", "advice", "error"),
    [
        ("bert", "left_padded", FIRST_IS_PADDING, ON_THE_RIGHT, ""),
        ("roberta", "left_padded", FIRST_IS_PADDING, ON_THE_RIGHT, ""),
        ("longformer", "left_padded", FIRST_IS_PADDING, ON_THE_RIGHT, ""),
        ("modernbert", "left_padded", FIRST_IS_PADDING, ON_THE_RIGHT, ""),
        # Its convolution reads the padding behind a text as well.
        ("mobilebert", "left_padded", FIRST_IS_PADDING, "", ""),
        ("xlnet", "right_padded", LAST_IS_PADDING,
         "Pad on the left (tokenizer.padding_side = 'left').", ""),
        ("fnet", "right_padded", NO_MASK, ALONE, ""),
        ("fnet", "no_mask", "", ALONE, ""),
        ("bart", "unequal_eos", ENDS, "", "ValueError: "),
        ("bart", "truncated", ENDS, "", "ValueError: "),
        ("bart", "pad_is_eos", LAST_IS_PADDING, "", ""),
        ("llama", "no_pad_token", NO_PAD_TOKEN, "Set model.config.pad_token_id", "ValueError: "),
        ("reformer", "repeated", "It draws random numbers at every call.",
         "Set config.hash_seed = 0.", ""),
        ("gpt2", "pad_is_eos", "The head reads token 8 of 9 instead of token 9.",
         "Add a pad token of its own", ""),
    ],
)  # fmt: skip
def test_a_change_is_explained_with_what_to_do(
    family: str, case: str, why: str, advice: str, error: str
) -> None:
    found = finding(family, case)
    assert found.why.startswith(why)
    assert found.advice.startswith(advice)
    assert bool(found.error) == bool(error)
    assert found.error.startswith(error)


def test_a_batch_is_padded_where_the_class_wants_it() -> None:
    assert "padded on the left" in finding("xlnet", "in_batch").title


@pytest.mark.parametrize("family", slow.but_each(3, LEARNED_POSITIONS))
def test_learned_positions_count_padding(family: str) -> None:
    one = subject_of(family)
    alone = PaddedInput(rows=one.texts[:1])
    left = replace(alone, padding=6, side="left")
    assert not torch.allclose(one.logits(left), one.logits(alone), atol=1e-2)
    assert torch.allclose(one.logits(replace(left, counted=True)), one.logits(alone), atol=1e-5)
    found = finding(family, "left_padded")
    assert found.why == "It counts positions from the first place, padding included."
    assert "or give position_ids" in found.advice


def test_t5gemma_reads_one_place_further_only_where_there_is_one() -> None:
    one = subject_of("t5gemma")
    alone = PaddedInput(rows=one.texts[:1])
    assert one.places(alone) == (8,)
    assert one.places(replace(alone, padding=1)) == (9,)
    assert "one place behind the text" in finding("t5gemma", "right_padded").why


def test_what_reads_no_token_of_its_own_is_said_to_have_no_recipe() -> None:
    diagnosis = seen("perceiver")
    assert diagnosis.recipe == ""
    assert "attention decoder" in diagnosis.no_recipe
    assert finding("perceiver", "truncated").changes is None


def test_a_model_that_hardly_reads_says_so() -> None:
    if torch.cuda.is_available():
        pytest.skip("with CUDA kernels its attention works")
    assert any("says little" in note for note in seen("mra").notes)
    assert not any("says little" in note for note in seen("bert").notes)


@pytest.mark.parametrize(("family", "leaks"), [("canine", True), ("yoso", True), ("bert", False)])
def test_small_leaks_are_told_from_rounding(family, leaks, monkeypatch) -> None:
    """With the small weights of a fresh model they are a ten-thousandth, and still no rounding."""
    monkeypatch.setattr(tiny_models, "NOISE", 0.005)
    small = functools.partial(tiny_models.tiny_model, initializer_range=0.02)
    monkeypatch.setattr(subject, "tiny_model", small)
    diagnosis = examine(family)
    found = next(each for each in diagnosis.findings if each.case == "in_batch")
    assert found.changes is leaks
    assert found.difference < 5e-4
    one = subject_of(family)
    one.model.double()
    alone = PaddedInput(rows=one.texts[:1])
    beside = replace(alone, rows=one.texts)
    if family != "canine":  # which has no numbers for its mask in double precision
        exact = (one.logits(alone) - one.logits(beside)).abs().max().item()
        assert (exact > 1e-6) is leaks


def test_the_bundled_model() -> None:
    diagnosis = seen("all-MiniLM-L6-v2")
    assert diagnosis.class_name == "BertForSequenceClassification"
    assert (diagnosis.tiny, diagnosis.head_is_new, diagnosis.recipe) == (False, True, "cls+bert")
    changed = {each.case for each in diagnosis.findings if each.changes}
    assert changed == {"left_padded", "no_mask", "truncated"}
    assert finding("all-MiniLM-L6-v2", "ends_in_eos").why == "It has no end-of-text token."
    assert any("head is random" in note for note in diagnosis.notes)
    again = examine("all-MiniLM-L6-v2")
    assert again == diagnosis


def test_a_real_decoder_without_a_pad_token(shared: Path) -> None:
    model = str(shared / "checkpoints" / "stories260K-llama")
    assert finding(model, "right_padded").why.startswith("Its config names no pad token")
    assert finding(model, "right_padded").advice.startswith("Add a pad token")
    assert finding(model, "in_batch").error.startswith("ValueError: Cannot handle batch")
    assert finding(model, "left_padded").changes is False
    assert finding(model, "pad_is_eos").changes is True
    assert finding(model, "truncated").changes is None


def test_a_folder_s_own_head_is_examined(tiny: Callable[..., Path]) -> None:
    folder = tiny("roberta", "ForSequenceClassification")
    diagnosis = examine(str(folder))
    assert (diagnosis.model, diagnosis.head_is_new, diagnosis.notes) == (str(folder), False, ())
    assert {each.case for each in diagnosis.findings if each.changes} == {
        *("left_padded", "no_mask", "truncated")
    }
    model = AutoModelForSequenceClassification.from_pretrained(folder)
    one = subject_of(str(folder))
    with torch.no_grad():
        logits = model(torch.tensor([one.texts[0]])).logits[0]
    assert torch.allclose(one.logits(PaddedInput(rows=one.texts[:1])), logits, atol=1e-6)


def test_one_label_is_enough(tmp_path: Path) -> None:
    folder = save_tiny(tmp_path / "score", "roberta", "ForSequenceClassification", num_labels=1)
    changed = [each.case for each in examine(str(folder)).findings if each.changes]
    assert "left_padded" in changed
    assert "right_padded" not in changed


def test_a_model_on_this_machine_comes_before_the_family(tiny, tmp_path, monkeypatch) -> None:
    shutil.copytree(tiny("roberta", "ForSequenceClassification"), tmp_path / "bert")
    monkeypatch.chdir(tmp_path)
    assert subject_of("bert").model.config.model_type == "roberta"
    with use_limits(PUBLIC):
        assert subject_of("bert").tiny  # where folders are nobody's business
    assert subject_of(" gpt2 ").tiny


@pytest.mark.parametrize("family", ["llama", "gemma3", "t5gemma"])
def test_the_config_is_left_as_it_was(family: str) -> None:
    one = subject_of(family)
    before = one.model.config.to_dict()
    with pytest.raises(ModelError):
        one.logits(PaddedInput(rows=2 * one.texts[:1], pad=None))
    assert one.model.config.to_dict() == before
    assert one.pad == 1


def test_torch_s_random_numbers_are_not_disturbed() -> None:
    before = torch.get_rng_state()
    examine("reformer")
    assert torch.equal(torch.get_rng_state(), before)


def test_json_is_plain() -> None:
    for model in ("perceiver", "llama"):
        values = seen(model).as_json()
        assert json.loads(json.dumps(values, allow_nan=False)) == values
        assert values["verdict"] == seen(model).verdict
        assert [each["case"] for each in values["findings"]] == list(CASES)
        for each in values["findings"]:
            assert each["difference"] is None or math.isfinite(each["difference"])


@pytest.mark.parametrize("name", ["nonsense", "xlnett", "./nowhere", "layoutlmv2", "", "a b\n"])
def test_a_bad_name_is_one_sentence(name: str) -> None:
    with pytest.raises(ModelError) as caught:
        examine(name)
    assert "\n" not in str(caught.value)


def _lose(folder: Path, **_: Any) -> None:
    weights = load_file(folder / "model.safetensors")
    del weights["roberta.encoder.layer.0.output.dense.weight"]
    save_file(weights, folder / "model.safetensors", metadata={"format": "pt"})


def _reshape(folder: Path, **_: Any) -> None:
    rewrite(folder / "config.json", id2label={"0": "a", "1": "b", "2": "c"})


def _no_numbers(folder: Path, **_: Any) -> None:
    weights = load_file(folder / "model.safetensors")
    weights["classifier.out_proj.bias"].fill_(torch.nan)
    save_file(weights, folder / "model.safetensors", metadata={"format": "pt"})


@pytest.mark.parametrize("spoil", [_lose, _reshape, _no_numbers])
def test_a_spoilt_checkpoint_is_one_sentence(spoil, copied) -> None:
    folder = copied("roberta", "ForSequenceClassification")
    spoil(folder)
    with pytest.raises(ModelError) as caught:
        examine(str(folder))
    assert "\n" not in str(caught.value)


def test_a_model_larger_than_this_place_allows_is_refused(tiny: Callable[..., Path]) -> None:
    with use_limits(Limits(model_parameters=1000)), pytest.raises(ModelError):
        examine(str(tiny("roberta", "ForSequenceClassification")))


def test_a_config_that_asks_for_more_than_the_files_hold_is_refused(copied) -> None:
    with pytest.raises(ModelError):
        examine(str(copied("roberta", "ForSequenceClassification", vocab_size=900_000)))
