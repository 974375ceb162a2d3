"""Exports that answer otherwise than the head are refused, whatever rounding its weights allow."""

import copy
from collections.abc import Callable, Sequence
from dataclasses import replace

import pytest
import torch
from quick_heads import classifiers
from tiny_models import save_tiny
from torch import Tensor, nn

from heads.backbone.loading import load
from heads.classifier.calibration import calibrated
from heads.classifier.classifier import Classifier
from heads.errors import CheckpointError, ModelError
from heads.exporters.transformers import ROUNDING
from heads.exporters.verification import long_text, rounding_gain, verify_logits
from heads.parts.modules import last_linear
from heads.settings import Limits, use_limits

# The weights of pooler+linear are in the tens of thousands: its vectors hardly vary.
RECIPES = ("mean+linear", "cls+bert", "mean+ridge", "pooler+linear")


@pytest.fixture(scope="module", params=RECIPES)
def classifier(request, trained) -> Classifier:
    ours = trained(request.param)
    return calibrated(replace(ours, head=replace(ours.head, temperature=0.3)))


def with_layer(classifier: Classifier, change: Callable[[nn.Linear], None]) -> Classifier:
    """Return a copy of the classifier whose last linear layer is changed."""
    module = copy.copy(classifier.head.module)
    chain = copy.deepcopy(module.head)
    with torch.no_grad():
        change(chain.get_submodule(last_linear(chain)))
    module._modules = {**module._modules, "head": chain}
    return replace(classifier, head=replace(classifier.head, module=module))


CHANGES = {
    "no bias": lambda layer: layer.bias.zero_(),
    "classes swapped": lambda layer: [own.copy_(own.flip(0)) for own in (layer.weight, layer.bias)],
    "no temperature": lambda layer: [own.mul_(0.3) for own in (layer.weight, layer.bias)],
    "16 bits": lambda layer: layer.weight.copy_(layer.weight.bfloat16()),
}


@pytest.mark.parametrize("change", CHANGES)
def test_an_export_with_other_weights_is_refused(classifier, change):
    wrong = with_layer(classifier, CHANGES[change])
    with pytest.raises(CheckpointError):
        verify_logits(classifier, lambda texts, pairs: wrong.logits(texts, pairs), most=ROUNDING)


@pytest.mark.parametrize(
    "change",
    [str.upper, lambda text: text[: len(text) // 2], lambda text: "no"],
    ids=["upper", "half", "constant"],
)
def test_an_export_that_reads_other_texts_is_refused(classifier, change):
    def logits(texts: Sequence[str], pairs: Sequence[str]) -> Tensor:
        return classifier.logits([change(text) for text in texts], pairs)

    with pytest.raises(CheckpointError):
        verify_logits(classifier, logits, most=ROUNDING)


def test_no_number_is_refused(classifier):
    with pytest.raises(CheckpointError):
        verify_logits(
            classifier, lambda texts, pairs: classifier.logits(texts, pairs) * torch.nan, most=1.0
        )


def test_the_head_itself_passes_and_usual_heads_get_no_room(classifier):
    count, difference = verify_logits(classifier, classifier.logits, most=ROUNDING)
    assert count
    assert difference == 0
    assert (rounding_gain(classifier) > 100) == (str(classifier.recipe) == "pooler+linear")


@pytest.mark.parametrize("recipe", ["mean+logistic", "mean+logistic?long=windows"])
def test_an_export_that_cuts_elsewhere_is_told_from_one_that_does_not(recipe, rows, tmp_path):
    many = {"max_position_embeddings": 1_300}  # more tokens than the usual texts to try it on have
    folder = str(save_tiny(tmp_path / "base", "bert", **many))
    with use_limits(Limits(tokens=1_200)):
        whole = load(folder)
    assert long_text(whole)
    assert not long_text(replace(whole, tokens=40))
    [ours] = classifiers([recipe], rows, whole)
    cut = replace(ours, backbone=replace(ours.backbone, tokens=1_190))
    assert verify_logits(ours, ours.logits, most=1e-6)[0] > 0
    with pytest.raises(CheckpointError):
        verify_logits(ours, cut.logits, most=1e-6)


def test_texts_that_the_base_model_cannot_read_are_no_trial(classifier, monkeypatch):
    def reads(texts, pairs=()):
        raise ModelError("too short")

    monkeypatch.setattr(Classifier, "logits", lambda self, texts, pairs=(): reads(texts, pairs))
    with pytest.raises(CheckpointError):
        verify_logits(classifier, reads, most=1e-5)
