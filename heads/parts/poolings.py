"""Which tokens are read: from token states to one vector a text.

Legend: n texts, t tokens, d width; `mask` (n, t) is 1 on real tokens and 0 on padding;
`content` (n, t) is 1 on real tokens that are not special; `states` (n, t, d), 0 on padding;
`pooler` (n, d) is the base model's own pooler output; `eos` (n, t) is 1 on end-of-text tokens.

A pooling asks for what it reads by the names of its arguments. It answers with weights over
tokens, (n, t), or (n, k, t) for k vectors side by side; the pooled vector is weights @ states.
So the function that computes is also the picture of which tokens are read. What is not linear
in the states given weights answers with `Pooled`: its vectors and, still, what it reads.
"""

from dataclasses import dataclass

import torch
from torch import Tensor, nn

from heads.parts.registry import pooling


@dataclass(frozen=True, slots=True)
class Pooled:
    """One vector a text, and the share of it that each token gave.

    Attributes:
        vectors: (n, w), w the pooling's width.
        reads: (n, t), at least 0, and 0 on padding.
    """

    vectors: Tensor
    reads: Tensor


@pooling
def cls(mask: Tensor, states: Tensor) -> Tensor:
    """The first real token, which is [CLS] or <s> in BERT-like models.

    Formula: h = h₁
    Source: BERT (Devlin et al. 2019), section 3, there tuned together with its head.
    """
    return mask * (mask.cumsum(dim=1) == 1)


@pooling
def last(mask: Tensor, states: Tensor) -> Tensor:
    """The last real token: all that a decoder has read.

    Formula: h = hₜ, t the last real token
    Source: GPT (Radford et al. 2018), section 3.2; Transformers' GPT2ForSequenceClassification.
    """
    return mask * (mask.flip(1).cumsum(dim=1).flip(1) == 1)


@pooling
def eos(mask: Tensor, eos: Tensor, states: Tensor) -> Tensor:
    """The last end-of-text token, or the last real token in a text without one.

    Formula: h = hₑ, e the last token that ends a text
    Source: BART (Lewis et al. 2020), section 3.1; Transformers' BartForSequenceClassification
        and T5ForSequenceClassification, on the states of the decoder: eos@decoder.
    """
    ends = mask * eos
    return last(torch.where(ends.any(dim=1, keepdim=True), ends, mask), states)


@pooling
def mean(mask: Tensor, states: Tensor) -> Tensor:
    """The average of all real tokens, special tokens included.

    Formula: h = Σ hᵢ / t, over the t real tokens
    Source: Sentence-BERT (Reimers and Gurevych 2019), section 3: its default. Frozen, under
        logistic regression, BERT's average and its [CLS] came out alike (table 5: 84.9 and 84.7).
    """
    return mask / mask.sum(dim=1, keepdim=True)


@pooling
def mean_content(mask: Tensor, content: Tensor, states: Tensor) -> Tensor:
    """The average of the words alone, without [CLS], [SEP] and their like.

    A text of special tokens alone is averaged over those.

    Formula: h = Σ hᵢ / c, over the c real tokens that are not special
    Source: no paper; flairNLP/flair issue 2179 asks whether [CLS] and [SEP] are averaged in.
    """
    read = torch.where(content.any(dim=1, keepdim=True), content, mask)
    return read / read.sum(dim=1, keepdim=True)


@pooling
def max(mask: Tensor, states: Tensor) -> Pooled:
    """The largest value of each dimension over all real tokens.

    Formula: hⱼ = maxᵢ hᵢⱼ
    Source: InferSent (Conneau et al. 2017), section 3.2.2, there of a BiLSTM's states;
        Sentence-BERT (Reimers and Gurevych 2019), section 3, the MAX strategy.
    """
    values, winners = states.masked_fill(mask[..., None] == 0, -torch.inf).max(dim=1)  # (n, d)
    wins = torch.zeros_like(states[..., 0]).scatter_add_(1, winners, torch.ones_like(values))
    return Pooled(values, wins / states.shape[-1])


@pooling
def pooler(mask: Tensor, pooler: Tensor) -> Pooled:
    """The base model's own pooler output; random where the checkpoint has no pooler.

    Formula: h = the `pooler_output` of AutoModel; for BERT tanh(W h₁ + b)
    Source: Transformers' BertPooler, which BERT's next-sentence objective trains.
    """
    return Pooled(pooler, cls(mask, pooler))


@pooling
def cls_mean(mask: Tensor, states: Tensor) -> Tensor:
    """The first token and the average side by side, twice as wide.

    Formula: h = [h₁; Σ hᵢ / t]
    Source: spaCy's TextCatReduce, which joins any of first, last, max and mean.
    """
    return torch.stack([cls(mask, states), mean(mask, states)], dim=1)  # (n, 2, t)


@pooling
def mean_max(mask: Tensor, states: Tensor) -> Pooled:
    """The average and the maximum side by side, twice as wide.

    Formula: h = [Σ hᵢ / t; maxᵢ hᵢ]
    Source: ULMFiT's concat pooling (Howard and Ruder 2018), section 3.3, less its last state.
    """
    weights, largest = mean(mask, states), max(mask, states)
    average = (weights[:, None] @ states).squeeze(1)
    return Pooled(torch.cat([average, largest.vectors], dim=-1), (weights + largest.reads) / 2)


@pooling
def sqrt_mean(mask: Tensor, states: Tensor) -> Tensor:
    """The sum of all real tokens over the square root of their number.

    Formula: h = Σ hᵢ / √t
    Source: Universal Sentence Encoder (Cer et al. 2018), its transformer, with the footnote on
        the length of sentences; `mean_sqrt_len` in sentence-transformers.
    """
    return mask / mask.sum(dim=1, keepdim=True).sqrt()


@pooling
def weighted(mask: Tensor, states: Tensor) -> Tensor:
    """An average in which later tokens count more, made for decoders.

    Formula: h = Σ i hᵢ / Σ i, i = 1 … t counted over real tokens
    Source: SGPT (Muennighoff 2022, arXiv 2202.08904), position-weighted mean pooling.
    """
    positions = mask.cumsum(dim=1) * mask
    return positions / positions.sum(dim=1, keepdim=True)


@pooling
def std(mask: Tensor, states: Tensor) -> Pooled:
    """The average and the standard deviation side by side, twice as wide.

    Formula: h = [μ; √(Σ (hᵢ − μ)² / t)], μ = Σ hᵢ / t
    Source: statistics pooling of x-vectors (Snyder et al. 2018), there of frames of speech.
    """
    weights = mean(mask, states)
    average = weights[:, None] @ states  # (n, 1, d)
    variance = (weights[:, None] @ (states - average).square()).squeeze(1)
    # The square root has no gradient at 0, which a text of one token would reach.
    deviation = (variance + 1e-12).sqrt()
    return Pooled(torch.cat([average.squeeze(1), deviation], dim=-1), weights)


@pooling
def flatten(mask: Tensor, states: Tensor, *, length: int = 32) -> Pooled:
    """The first {length} tokens one after the other, padded with zeros and cut to that length.

    Formula: h = [h₁; h₂; …] up to token {length}
    Source: no paper; torch's Flatten over tokens, asked for in the forum threads on BERT heads.
    """
    order = (mask == 0).long().argsort(dim=1, stable=True)[:, :length]  # real tokens first
    kept = mask.gather(1, order)
    first = states.gather(1, order[..., None].expand(-1, -1, states.shape[-1])) * kept[..., None]
    missing = length - order.shape[1]
    vectors = nn.functional.pad(first, (0, 0, 0, missing)).flatten(1)  # (n, length * d)
    read = mask * (mask.cumsum(dim=1) <= length)
    return Pooled(vectors, read / read.sum(dim=1, keepdim=True))


@pooling
class attention(nn.Module):
    """A learned query decides how much each token counts; several with the option queries.

    Formula: h = Σ aᵢ hᵢ, a = softmax(q · hᵢ / √d), one h for each query side by side
    Source: hierarchical attention (Yang et al. 2016), its context vector without its hidden
        layer; the scale 1 / √d is that of Vaswani et al. 2017, section 3.2.1.
    """

    def __init__(self, width: int, *, queries: int = 1) -> None:
        super().__init__()
        self.query = nn.Parameter(torch.randn(queries, width) * 0.02)

    def forward(self, mask: Tensor, states: Tensor) -> Tensor:
        scores = self.query @ states.transpose(1, 2) / states.shape[-1] ** 0.5  # (n, k, t)
        return scores.masked_fill(mask[:, None] == 0, -torch.inf).softmax(dim=-1)
