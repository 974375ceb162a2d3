"""What of a head's logits is explained: a class against the others, or its logit alone.

A softmax does not see what is added to all logits alike, so a logit by itself does not tell how
much a class is favoured: a token may raise them all. Where classes compete, what is explained is
therefore a class k against the others, zₖ − Σⱼ≠ₖ zⱼ / (c − 1); or its margin zₖ − zᵣ, r the class
of the largest other logit on the text, the same r along the whole path. Both are sums of logits
with fixed weights that add up to 0, so integrated gradients are as complete for them as for a
logit. Where each class is a question of its own, and of a number, it is the logit itself.

Legend: c classes.

Source: Axiomatic Attribution for Deep Networks (Sundararajan et al. 2017, arXiv 1703.01365): the
axioms of completeness and of linearity.
"""

import torch
from torch import Tensor

from heads.classifier.module import TrainedHead
from heads.pipeline.look.attribution import OTHERS


def held_against(
    head: TrainedHead, logits: Tensor, target: int, against: str
) -> tuple[str, int | None]:
    """What a class's logit is held against, and the number of its rival, if it is one."""
    is_alone = head.squash in ("sigmoid", "none") or len(logits) < 2
    if is_alone or (head.squash == "votes" and against == OTHERS):
        return "", None  # a sigmoid, or a number, sees the logit itself
    if against == OTHERS and len(logits) > 2:
        return OTHERS, None
    others = logits.clone()
    others[target] = -torch.inf
    return against, int(others.argmax())


def weights_of(logits: Tensor, target: int, against: str, rival: int | None) -> Tensor:
    """The weights of the logits (c,) in what is explained."""
    weights = torch.zeros_like(logits)
    if rival is not None:
        weights[rival] = -1.0
    elif against:
        weights -= 1 / (len(logits) - 1)
    weights[target] = 1.0
    return weights
