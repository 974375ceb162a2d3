"""Heads by which others are understood: without an activation, with a norm, past a network.

Legend: `width` w of the pooled vector, `classes` c; a head maps (n, w) to (n, c).
"""

from torch import nn

from heads.parts.blocks import Cuts, Directions, Normalise, Residual, Scale, chain
from heads.parts.registry import head


@head(prefix="classifier.")
def dense_linear(
    width: int, classes: int, *, dropout: float = 0.1, hidden: int = 0
) -> nn.Sequential:
    """Dropout, dense, dropout, linear: RoBERTa's head without its tanh.

    The control for dense heads: it can compute nothing that one linear layer could not, so what
    it gains is of how it learns, and what RoBERTa's head gains on it is the tanh. Other heads have
    the option activation=none for it.

    Source: deep linear networks (Saxe et al. 2014, arXiv 1312.6120), which are linear maps that
        learn in another way.
    """
    return chain(
        ("drop_in", nn.Dropout(dropout)),
        ("dense", nn.Linear(width, hidden or width)),
        ("drop_out", nn.Dropout(dropout)),
        ("out_proj", nn.Linear(hidden or width, classes)),
    )


@head
def norm_linear(
    width: int, classes: int, *, dropout: float = 0.0, eps: float = 1e-5
) -> nn.Sequential:
    """Layer norm, then one linear layer: each text's vector gets mean 0 and deviation 1.

    The other norm before a linear layer, MAE's batch norm without parameters, looks along the
    rows and not along a text's vector: it is the option standardise=true of other heads, and is
    folded into their first layer.

    Source: Vision Transformer (Dosovitskiy et al. 2021), equation 4, and its linear head.
    """
    return chain(
        ("norm", nn.LayerNorm(width, eps=eps)),
        ("dropout", nn.Dropout(dropout)),
        ("classifier", nn.Linear(width, classes)),
    )


@head
def residual(width: int, classes: int, *, hidden: int = 256, dropout: float = 0.1) -> nn.Sequential:
    """The vector plus a small network of it, then dropout and linear.

    What a linear layer knows passes by the network, which need only learn what is missing. Its
    hidden width is the option `hidden` (256).

    Source: residual learning (He et al. 2016), equation 1; as a block without its batch norm the
        ResNet for tables of Gorishniy et al. 2021 (arXiv 2106.11959), section 3.2.
    """
    return chain(
        ("residual", Residual(width, hidden)),
        ("dropout", nn.Dropout(dropout)),
        ("classifier", nn.Linear(width, classes)),
    )


@head(single_label=True, margined=True)
def cosine_margin(
    width: int, classes: int, *, scale: float = 20.0, margin: float = 0.2
) -> nn.Sequential:
    """Learned directions, {scale} times the cosine to each, and a margin of {margin} in training.

    While it learns, the cosine to a text's own class counts {margin} less; in use it does not.

    Source: CosFace (Wang et al. 2018, arXiv 1801.09414), equation 4, whose scale is 64 for faces.
    """
    return chain(
        ("normalise", Normalise()),
        ("directions", Directions(width, classes)),
        ("scale", Scale(scale)),
    )


@head(single_label=True, ordered=True)
def proportional_odds(width: int, classes: int, *, dropout: float = 0.1) -> nn.Sequential:
    """For classes in an order: one learned number, cut into them by ordered thresholds.

    Its logits are the logarithms of its probabilities, P(≤ k) = sigmoid(θₖ − f).

    Source: the proportional odds model (McCullagh 1980); one projection for all thresholds as in
        CORAL (Cao et al. 2020, arXiv 1901.07884), here under the likelihood of the true class.
    """
    return chain(
        ("dropout", nn.Dropout(dropout)),
        ("projection", nn.Linear(width, 1)),
        ("thresholds", Cuts(classes)),
    )
