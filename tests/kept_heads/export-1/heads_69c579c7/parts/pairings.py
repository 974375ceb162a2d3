"""How two texts that are read each by itself become one vector: the siamese way in.

Legend: n pairs, w width of a pooled vector; `u` and `v` (n, w), the first and the second text.
A pairing maps them to (n, k w). Where none is named, both texts are read as one sequence.

Sentence-BERT's table 6 compares all seven for *tuning* a base model on NLI; scored is then
Spearman's correlation of the cosine of u and v alone, on the development rows of STS-b ("the
concatenation mode is only relevant for training the softmax classifier", section 6). It says
nothing of which is best for a head on frozen vectors.
"""

import torch
from torch import Tensor

from heads_69c579c7.parts.registry import pairing


@pairing
def uv(u: Tensor, v: Tensor) -> Tensor:
    """The two vectors side by side.

    Formula: [u; v]
    Source: one of seven that Sentence-BERT (Reimers and Gurevych 2019), section 6, tunes with.
    """
    return torch.cat([u, v], dim=-1)


@pairing
def diff(u: Tensor, v: Tensor) -> Tensor:
    """How far the two vectors lie apart, number by number.

    Formula: |u − v|
    Source: one of seven that Sentence-BERT (Reimers and Gurevych 2019), section 6, tunes with.
    """
    return (u - v).abs()


@pairing
def prod(u: Tensor, v: Tensor) -> Tensor:
    """The product of the two vectors, number by number; its sum is their similarity.

    Formula: u ∗ v
    Source: one of seven that Sentence-BERT (Reimers and Gurevych 2019), section 6, tunes with.
    """
    return u * v


@pairing
def diff_prod(u: Tensor, v: Tensor) -> Tensor:
    """Distance and product side by side: the same whichever text comes first.

    Formula: [|u − v|; u ∗ v]
    Source: Tree-LSTM (Tai et al. 2015), section 4.2: angle and distance, there under a hidden
        layer; Sentence-BERT (Reimers and Gurevych 2019), section 6.
    """
    return torch.cat([(u - v).abs(), u * v], dim=-1)


@pairing
def uv_prod(u: Tensor, v: Tensor) -> Tensor:
    """The two vectors and their product.

    Formula: [u; v; u ∗ v]
    Source: one of seven that Sentence-BERT (Reimers and Gurevych 2019), section 6, tunes with.
    """
    return torch.cat([u, v, u * v], dim=-1)


@pairing
def uv_diff(u: Tensor, v: Tensor) -> Tensor:
    """The two vectors and their distance: what Sentence-BERT is tuned with.

    Formula: [u; v; |u − v|]
    Source: Sentence-BERT (Reimers and Gurevych 2019), section 3, o = softmax(W (u, v, |u − v|)).
    """
    return torch.cat([u, v, (u - v).abs()], dim=-1)


@pairing(is_usual=True)
def uv_diff_prod(u: Tensor, v: Tensor) -> Tensor:
    """The two vectors, their distance and their product: what InferSent is trained with.

    Formula: [u; v; |u − v|; u ∗ v]
    Source: InferSent (Conneau et al. 2017), section 3.1; Universal Sentence Encoder (Cer et al.
        2018) uses the same, as Sentence-BERT, section 6, says of both.
    """
    return torch.cat([u, v, (u - v).abs(), u * v], dim=-1)
