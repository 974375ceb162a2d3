"""Which layers are read: what may stand after the ``@`` of a recipe, besides a number.

Legend: `hidden` is a sequence of l + 1 tensors (n, t, d), the embeddings first, then the
output of each of the l layers; n texts, t tokens, d width; `decoder` (n, t, d) is the last
layer of a decoder that stands on an encoder. A choice asks for what it reads by the names of
its arguments and answers (n, t, d'), states that any pooling can read. A model of fewer than
four layers gives all it has, embeddings included.
"""

from collections.abc import Sequence

import torch
from torch import Tensor, nn

from heads_69c579c7.parts.registry import layers


@layers(title="last four layers side by side")
def cat4(hidden: Sequence[Tensor]) -> Tensor:
    """The last four layers side by side, four times as wide.

    Formula: hᵢ = [hᵢ⁽ˡ⁻³⁾; hᵢ⁽ˡ⁻²⁾; hᵢ⁽ˡ⁻¹⁾; hᵢ⁽ˡ⁾], l the last layer
    Source: BERT (Devlin et al. 2019), section 5.3, table 7: the best of six frozen choices (F1
        96.1, last layer 94.9), of named entities under a two-layer BiLSTM, not of whole texts.
        Fine-tuned on IMDb, no better than the last layer (Sun et al. 2019, table 3).
    """
    return torch.cat(tuple(hidden[-4:]), dim=-1)


@layers(title="mean of the last four layers")
def mean4(hidden: Sequence[Tensor]) -> Tensor:
    """The average of the last four layers.

    Formula: hᵢ = ¼ (hᵢ⁽ˡ⁻³⁾ + hᵢ⁽ˡ⁻²⁾ + hᵢ⁽ˡ⁻¹⁾ + hᵢ⁽ˡ⁾), l the last layer
    Source: How to Fine-Tune BERT (Sun et al. 2019), table 3, there fine-tuned: error on IMDb
        5.44 %, of the last layer alone 5.42 %.
    """
    first, *others = hidden[-4:]
    return sum(others, first) / (1 + len(others))  # the mean of a stack takes several times as long


@layers(title="mean of first and last layer")
def first_last(hidden: Sequence[Tensor]) -> Tensor:
    """The average of the first and the last layer.

    The first is the one above the embeddings; some implementations take these in its place.

    Formula: hᵢ = ½ (hᵢ⁽¹⁾ + hᵢ⁽ˡ⁾), l the last layer
    Source: BERT-whitening (Su et al. 2021, arXiv 2103.15316), whose first-last-avg is the mean of
        these: mean@first_last.
    """
    return (hidden[min(1, len(hidden) - 1)] + hidden[-1]) / 2


@layers(title="maximum of the last four layers")
def max4(hidden: Sequence[Tensor]) -> Tensor:
    """The largest value of each dimension over the last four layers.

    Formula: hᵢ = max(hᵢ⁽ˡ⁻³⁾, hᵢ⁽ˡ⁻²⁾, hᵢ⁽ˡ⁻¹⁾, hᵢ⁽ˡ⁾), dimension by dimension
    Source: How to Fine-Tune BERT (Sun et al. 2019), table 3; MaxPoolBERT (Behrendt et al. 2025,
        arXiv 2505.15696) reads a maximum over layers at [CLS], fine-tuned: cls@max4.
    """
    return torch.stack(tuple(hidden[-4:])).amax(dim=0)


@layers(title="learned mix of layers")
class mix(nn.Module):
    """A learned weighted average of all layers, embeddings included.

    Formula: hᵢ = γ Σₗ softmax(s)ₗ hᵢ⁽ˡ⁾, starting from equal weights and γ = 1
    Source: ELMo's scalar mix (Peters et al. 2018, arXiv 1802.05365, equation 1).
    """

    def __init__(self, count: int) -> None:
        super().__init__()
        self.scores = nn.Parameter(torch.zeros(count))
        self.scale = nn.Parameter(torch.ones(()))

    def forward(self, hidden: Sequence[Tensor]) -> Tensor:
        shares = self.scores.softmax(dim=0)  # (l + 1,)
        mixed = sum(share * states for share, states in zip(shares, hidden, strict=True))
        return self.scale * mixed


@layers(title="decoder")
def decoder(decoder: Tensor) -> Tensor:
    """The last layer of the decoder, in a model that has an encoder and a decoder.

    The decoder is given the text once more, one place to the right, as in training.

    Formula: hᵢ = the decoder's state at place i
    Source: BART (Lewis et al. 2020), section 3.1; Transformers' Bart-, T5- and
        T5GemmaForSequenceClassification.
    """
    return decoder
