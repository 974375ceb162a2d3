"""How two texts that are read each by itself become one vector: the siamese way in.

Legend: n pairs, w width of a pooled vector; `u` and `v` (n, w), the first and the second text.
A pairing maps them to (n, k w). Where none is named, both texts are read as one sequence.
"""

import torch
from torch import Tensor

from heads.parts.registry import pairing


@pairing
def uv(u: Tensor, v: Tensor) -> Tensor:
    """The two vectors side by side.

    Formula: [u; v]
    Source: Sentence-BERT (Reimers and Gurevych 2019), table 6.
    """
    return torch.cat([u, v], dim=-1)


@pairing
def diff(u: Tensor, v: Tensor) -> Tensor:
    """How far the two vectors lie apart, number by number.

    Formula: |u − v|
    Source: Sentence-BERT (Reimers and Gurevych 2019), table 6.
    """
    return (u - v).abs()


@pairing
def prod(u: Tensor, v: Tensor) -> Tensor:
    """The product of the two vectors, number by number; its sum is their similarity.

    Formula: u ∗ v
    Source: Sentence-BERT (Reimers and Gurevych 2019), table 6.
    """
    return u * v


@pairing
def diff_prod(u: Tensor, v: Tensor) -> Tensor:
    """Distance and product side by side: the same whichever text comes first.

    Formula: [|u − v|; u ∗ v]
    Source: Sentence-BERT, table 6; Tree-LSTM (Tai et al. 2015), section 4.2.
    """
    return torch.cat([(u - v).abs(), u * v], dim=-1)


@pairing
def uv_prod(u: Tensor, v: Tensor) -> Tensor:
    """The two vectors and their product.

    Formula: [u; v; u ∗ v]
    Source: Sentence-BERT, table 6; Universal Sentence Encoder (Cer et al. 2018).
    """
    return torch.cat([u, v, u * v], dim=-1)


@pairing
def uv_diff(u: Tensor, v: Tensor) -> Tensor:
    """The two vectors and their distance: the best of Sentence-BERT's table.

    Formula: [u; v; |u − v|]
    Source: Sentence-BERT (Reimers and Gurevych 2019), section 3 and table 6.
    """
    return torch.cat([u, v, (u - v).abs()], dim=-1)


@pairing
def uv_diff_prod(u: Tensor, v: Tensor) -> Tensor:
    """The two vectors, their distance and their product: all that is usual.

    Formula: [u; v; |u − v|; u ∗ v]
    Source: InferSent (Conneau et al. 2017), section 3.1; Sentence-BERT, table 6.
    """
    return torch.cat([u, v, (u - v).abs(), u * v], dim=-1)
