"""Temperature scaling folded into the last layer, so that logits and probabilities agree.

The temperature was found on development rows (Guo et al. 2017, arXiv 1706.04599). Every trained
head is calibrated when it is handed out; the files of runs and of the cache hold it as trained.

Legend: c classes, w width of what the last layer gets; T the temperature.
"""

import copy
from dataclasses import replace

import torch
from torch import nn

from heads.classifier.classifier import Classifier
from heads.classifier.module import RecipeModule, TrainedHead
from heads.errors import CheckpointError, HeadsError, RecipeError
from heads.parts.modules import Scale, acts_in_training_only, is_idle, is_plain, last_linear, leaves
from heads.problem import ONE_VERSUS_REST

CALIBRATED = "calibrated_by"  # among the settings of a head, the temperature that is in it


def calibrated(classifier: Classifier) -> Classifier:
    """Do what `heads.calibrated` does: return a copy whose last linear layer is divided."""
    head = classifier.head
    if CALIBRATED in head.chosen:
        return classifier
    _check(head)
    return replace(classifier, head=_fold(head))


def calibrate(head: TrainedHead) -> TrainedHead:
    """Return the head with its temperature folded into its last layer, or as it is if it cannot."""
    if CALIBRATED in head.chosen:
        return head
    try:
        _check(head)
    except HeadsError:
        return head
    return _fold(head)


def _fold(head: TrainedHead) -> TrainedHead:
    return replace(
        head,
        module=_divided(head.module, head.temperature),
        thresholds=tuple(logit / head.temperature for logit in head.thresholds),
        temperature=1.0,
        chosen={**head.chosen, CALIBRATED: float(head.temperature)},
        raw=head,
    )


def _check(head: TrainedHead) -> None:
    if not head.problem.has_classes:
        what = f"{head.recipe} gives numbers, so there is no probability to calibrate."
        raise RecipeError(what, "Export it as it is.")
    if head.problem is ONE_VERSUS_REST:
        what = (
            f"{head.recipe} is one-versus-rest: its temperature is for the logarithms of its "
            "sigmoids, and dividing its logits would not make it as sure as it is right."
        )
        raise RecipeError(what, "Export it as it is, or train it with softmax: without loss=ovr.")
    if not divides(head.module.head):
        what = f"The logits of {head.recipe} come from no linear layer that could be divided."
        raise RecipeError(what, "Export it as it is, or take another head, for example linear.")
    if head.temperature == 1:
        what = (
            f"No temperature is known for {head.recipe}: it was not trained here, or all rows set"
        )
        what += " aside were answered right, so that none was too sure."
        raise CheckpointError(what, "Export it as it is.")


def divides(chain: nn.Sequential) -> bool:
    """Whether a chain's logits are divided by what its last linear layer is divided by.

    >>> divides(nn.Sequential(nn.Linear(4, 2), Scale(20.0)))
    True
    >>> divides(nn.Sequential(nn.Linear(4, 2), nn.Tanh()))
    False
    """
    acting = [
        (name, layer)
        for name, layer in leaves(chain)
        if not (is_idle(layer) or acts_in_training_only(layer) or is_plain(layer, Scale))
    ]
    return bool(acting) and is_plain(acting[-1][1], nn.Linear)


@torch.no_grad()
def _divided(module: RecipeModule, temperature: float) -> RecipeModule:
    """A copy of a trained module whose last linear layer is divided; the reading is shared."""
    chain = copy.deepcopy(module.head)
    last = chain.get_submodule(last_linear(chain))
    for parameter in last.parameters():  # its weight (c, w) and, where it has one, its bias (c)
        parameter.div_(temperature)
    divided = copy.copy(module)
    divided._modules = {**module._modules, "head": chain}
    return divided
