"""The losses that a recipe can name, a function each: logits and targets to one loss a row.

Legend: `logits` (…, c), `targets` (…, c), what the squashed logits should be, between 0 and 1;
`focal` γ, by which rows that are right already count less (0: all alike).

Where labels are one class a text, a recipe may name the loss; elsewhere the labels decide.
"""

import torch
from torch import Tensor
from torch.nn.functional import logsigmoid

from heads_69c579c7.parts.registry import loss


@loss
def softmax(logits: Tensor, targets: Tensor, *, focal: float = 0.0) -> Tensor:
    """One class a text: the classes compete, and their probabilities sum to 1.

    Formula: −Σ qₖ (1 − pₖ)^γ ln pₖ, p = softmax(z)
    Source: cross-entropy; with γ the focal loss (Lin et al. 2017, arXiv 1708.02002, there of
        one sigmoid), carried over to the softmax.
    """
    logs = logits.log_softmax(dim=-1)
    if focal:
        logs = (1 - logs.exp()).clamp_min(1e-6) ** focal * logs
    return -(targets * logs).sum(dim=-1)


@loss
def ovr(logits: Tensor, targets: Tensor, *, focal: float = 0.0) -> Tensor:
    """One versus the rest: a yes-or-no question for each class, answered by itself.

    Formula: −Σ [qₖ (1 − pₖ)^γ ln pₖ + (1 − qₖ) pₖ^γ ln(1 − pₖ)], p = sigmoid(z)
    Source: one-versus-rest (Rifkin and Klautau 2004); scikit-learn's OneVsRestClassifier; with γ
        the focal loss (Lin et al. 2017, equation 4, without its α).
    """
    yes, no = logsigmoid(logits), logsigmoid(-logits)
    if focal:
        chance = logits.sigmoid()
        yes = (1 - chance).clamp_min(1e-6) ** focal * yes
        no = chance.clamp_min(1e-6) ** focal * no
    return -(targets * yes + (1 - targets) * no).sum(dim=-1)


@loss
def ordinal(logits: Tensor, targets: Tensor, *, focal: float = 0.0) -> Tensor:
    """Classes in an order: to be one step off is better than to be three.

    The softmax is asked for shares that fall off with the distance from the true class.

    Formula: −Σ qₖ ln pₖ, qₖ ∝ exp(−2 |k − y|), p = softmax(z)
    Source: soft labels for ordinal regression (Díaz and Marathe 2019), qₖ ∝ exp(−φ(y, k)), with
        the absolute distance for φ. The factor 2 is ours: without it a class amid five would
        be asked for half of its own share (0.50), with it for three quarters (0.77).
    """
    return softmax(logits, targets, focal=focal)


@loss
def hinge(logits: Tensor, targets: Tensor, *, focal: float = 0.0) -> Tensor:
    """The linear SVM's: every class against the rest, and what is right by a margin costs nothing.

    It knows no probabilities: those shown are the softmax of its logits, over a temperature where
    one was found. It has no focal form.

    Formula: Σ max(0, 1 − yₖ zₖ)², yₖ = 2qₖ − 1
    Source: one-versus-rest support vector machines with squared hinge (Rifkin and Klautau 2004);
        scikit-learn's LinearSVC, whose bias is penalised where ours is not.
    """
    return (1 - (2 * targets - 1) * logits).clamp_min(0).square().sum(dim=-1)


def hinge_gradient(logits: Tensor, targets: Tensor) -> Tensor:
    """The gradient of `hinge` by the logits, (…, c)."""
    signs = 2 * targets - 1
    return -2 * signs * (1 - signs * logits).clamp_min(0)


def near(targets: Tensor, classes: int) -> Tensor:
    """The goals of `ordinal`: numbers of classes (…) to shares (…, c)."""
    places = torch.arange(classes, device=targets.device)
    return (-2.0 * (places - targets[..., None]).abs()).softmax(dim=-1)


def squared(logits: Tensor, targets: Tensor) -> Tensor:
    """Numbers: half the squared error, summed over outputs.

    Source: least squares.
    """
    return (logits - targets).square().sum(dim=-1) / 2
