"""Exports that answer otherwise than the head are refused, whatever rounding its weights allow."""

import copy
from collections.abc import Callable, Sequence
from dataclasses import replace

import pytest
import torch
from quick_heads import classifiers
from torch import Tensor, nn

from heads.backbone.backbone import Backbone
from heads.classifier.calibration import calibrated
from heads.classifier.classifier import Classifier
from heads.data.corpus import Corpus
from heads.errors import CheckpointError
from heads.exporters.transformers import ROUNDING
from heads.exporters.verification import rounding_gain, verify_logits
from heads.parts.modules import last_linear

# The weights of pooler+linear are in the tens of thousands: its vectors hardly vary.
RECIPES = ("mean+linear", "cls+bert", "mean+ridge", "pooler+linear")


@pytest.fixture(scope="module", params=RECIPES)
def classifier(request: pytest.FixtureRequest, small: Backbone, rows: Corpus) -> Classifier:
    (classifier,) = classifiers([request.param], rows, small)
    return calibrated(replace(classifier, head=replace(classifier.head, temperature=0.3)))


def with_layer(classifier: Classifier, change: Callable[[nn.Linear], None]) -> Classifier:
    """Return a copy of the classifier whose last linear layer is changed."""
    module = copy.copy(classifier.head.module)
    chain = copy.deepcopy(module.head)
    with torch.no_grad():
        change(chain.get_submodule(last_linear(chain)))
    module._modules = {**module._modules, "head": chain}
    return replace(classifier, head=replace(classifier.head, module=module))


def drop_bias(layer: nn.Linear) -> None:
    layer.bias.zero_()


def swap_classes(layer: nn.Linear) -> None:
    layer.weight.copy_(layer.weight.flip(0))
    layer.bias.copy_(layer.bias.flip(0))


def forget_the_temperature(layer: nn.Linear) -> None:
    layer.weight.mul_(0.3)
    layer.bias.mul_(0.3)


def round_to_16_bits(layer: nn.Linear) -> None:
    layer.weight.copy_(layer.weight.bfloat16())


@pytest.mark.parametrize(
    "change", [drop_bias, swap_classes, forget_the_temperature, round_to_16_bits]
)
def test_an_export_with_other_weights_is_refused(classifier: Classifier, change) -> None:
    wrong = with_layer(classifier, change)
    with pytest.raises(CheckpointError):
        verify_logits(classifier, lambda texts, pairs: wrong.logits(texts, pairs), most=ROUNDING)


@pytest.mark.parametrize(
    "change",
    [str.upper, lambda text: text[: len(text) // 2], lambda text: "no"],
    ids=["upper", "half", "constant"],
)
def test_an_export_that_reads_other_texts_is_refused(
    classifier: Classifier, change: Callable[[str], str]
) -> None:
    def logits(texts: Sequence[str], pairs: Sequence[str]) -> Tensor:
        return classifier.logits([change(text) for text in texts], pairs)

    with pytest.raises(CheckpointError):
        verify_logits(classifier, logits, most=ROUNDING)


def test_no_number_is_refused(classifier: Classifier) -> None:
    with pytest.raises(CheckpointError):
        verify_logits(
            classifier, lambda texts, pairs: classifier.logits(texts, pairs) * torch.nan, most=1.0
        )


def test_the_head_itself_passes_and_usual_heads_get_no_room(classifier: Classifier) -> None:
    count, difference = verify_logits(classifier, classifier.logits, most=ROUNDING)
    assert count
    assert difference == 0
    assert (rounding_gain(classifier) > 100) == (str(classifier.recipe) == "pooler+linear")
