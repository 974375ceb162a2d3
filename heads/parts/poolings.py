"""Which tokens are read: from token states to one vector a text.

Legend: n texts, t tokens, d width; `mask` (n, t) is 1 on real tokens and 0 on padding;
`content` (n, t) is 1 on real tokens that are not special; `states` (n, t, d), 0 on padding;
`pooler` (n, d) is the base model's own pooler output; `eos` (n, t) is 1 on end-of-text tokens;
`trained` is `Pooled`, what the base model's own sentence-transformers modules make of a text;
`vectors` (n, w) are those that come from elsewhere, where no base model reads.

A pooling asks for what it reads by the names of its arguments. It answers with weights over
tokens, (n, t), or (n, k, t) for k vectors side by side; the pooled vector is weights @ states.
So the function that computes is also the picture of which tokens are read. What is not linear
in the states given weights answers with `Pooled`: its vectors and, still, what it reads.
"""

import torch
from torch import Tensor, nn

from heads.parts.pooled import Pooled
from heads.parts.registry import pooling

LEAST = 1e-30  # what is divided by, and what a root is drawn of, is at least that much


@pooling(title="First token", token="first")
def cls(mask: Tensor, states: Tensor) -> Tensor:
    """The first real token, which is [CLS] or <s> in BERT-like models.

    Formula: h = h₁
    Source: BERT (Devlin et al. 2019), section 3, there tuned together with its head.
    """
    return mask * (mask.cumsum(dim=1) == 1)


@pooling(title="Last token", token="last")
def last(mask: Tensor, states: Tensor) -> Tensor:
    """The last real token: all that a decoder has read.

    Formula: h = hₜ, t the last real token
    Source: GPT (Radford et al. 2018), section 3.2; Transformers' GPT2ForSequenceClassification.
    """
    return mask * (mask.flip(1).cumsum(dim=1).flip(1) == 1)


@pooling(title="End-of-text token", token="eos")
def eos(mask: Tensor, eos: Tensor, states: Tensor) -> Tensor:
    """The last end-of-text token, or the last real token in a text without one.

    Formula: h = hₑ, e the last token that ends a text
    Source: BART (Lewis et al. 2020), section 3.1; Transformers' BartForSequenceClassification
        and T5ForSequenceClassification, on the states of the decoder: eos@decoder.
    """
    ends = mask * eos
    return last(torch.where(ends.any(dim=1, keepdim=True), ends, mask), states)


@pooling(title="[MASK] of a prompt", by_place=True)
def mask_token(mask: Tensor, content: Tensor, states: Tensor, *, prompt: str = "It_was") -> Tensor:
    """The [MASK] token of a prompt behind the text: what the base model would fill in there.

    The option `prompt` is what stands before it, with _ for a space: the text, "It was", [MASK]
    and a full stop. Nothing else of the prompt counts as content, so [MASK] is the last that does.

    Formula: h = hₘ, m the place of [MASK] in "x₁ … xₙ It was [MASK]."
    Source: prompt-based learning: PET (Schick and Schütze 2021, arXiv 2001.07676); the prompt is
        that of LM-BFF (Gao et al. 2021, arXiv 2012.15723) for sentiment; the state in place of a
        word of the vocabulary is PromptBERT's (Jiang et al. 2022, arXiv 2201.04337).
    """
    words = mask * content
    return last(torch.where(words.any(dim=1, keepdim=True), words, mask), states)


@pooling(title="Average")
def mean(mask: Tensor, states: Tensor) -> Tensor:
    """The average of all real tokens, special tokens included.

    Formula: h = Σ hᵢ / t, over the t real tokens
    Source: Sentence-BERT (Reimers and Gurevych 2019), section 3: its default. Frozen, under
        logistic regression, BERT's average and its [CLS] came out alike (table 5: 84.9 and 84.7).
    """
    return mask / mask.sum(dim=1, keepdim=True)


@pooling(title="Average of words")
def mean_content(mask: Tensor, content: Tensor, states: Tensor) -> Tensor:
    """The average of the words alone, without [CLS], [SEP] and their like.

    A text of special tokens alone is averaged over those.

    Formula: h = Σ hᵢ / c, over the c real tokens that are not special
    Source: no paper; flairNLP/flair issue 2179 asks whether [CLS] and [SEP] are averaged in.
    """
    read = torch.where(content.any(dim=1, keepdim=True), content, mask)
    return read / read.sum(dim=1, keepdim=True)


@pooling(title="Maximum")
def max(mask: Tensor, states: Tensor) -> Pooled:
    """The largest value of each dimension over all real tokens.

    Formula: hⱼ = maxᵢ hᵢⱼ
    Source: InferSent (Conneau et al. 2017), section 3.2.2, there of a BiLSTM's states;
        Sentence-BERT (Reimers and Gurevych 2019), section 3, the MAX strategy.
    """
    values, winners = states.masked_fill(mask[..., None] == 0, -torch.inf).max(dim=1)  # (n, d)
    wins = torch.zeros_like(states[..., 0]).scatter_add_(1, winners, torch.ones_like(values))
    return Pooled(values, wins / states.shape[-1])


@pooling(title="Pooler")
def pooler(mask: Tensor, pooler: Tensor) -> Pooled:
    """The base model's own pooler output; random where the checkpoint has no pooler.

    Formula: h = the `pooler_output` of AutoModel; for BERT tanh(W h₁ + b)
    Source: Transformers' BertPooler (Devlin et al. 2019).
    """
    return Pooled(pooler, cls(mask, pooler))


@pooling(title="As trained")
def trained(mask: Tensor, trained: Pooled) -> Pooled:
    """What the base model was trained to give: its own pooling, dense layers and length.

    They come with base models that have a sentence-transformers configuration, and stay as they
    are. Before every text stands the prompt that this configuration names as the usual one, if any,
    unless the recipe says another prefix.

    Formula: h = the `sentence_embedding` of the base model's modules
    Source: Sentence-BERT (Reimers and Gurevych 2019), section 3, and its library's modules.json.
    """
    return trained


@pooling(title="First token and average", by_place=True)
def cls_mean(mask: Tensor, states: Tensor) -> Tensor:
    """The first token and the average side by side, twice as wide.

    Formula: h = [h₁; Σ hᵢ / t]
    Source: spaCy's TextCatReduce, which joins any of first, last, max and mean.
    """
    return torch.stack([cls(mask, states), mean(mask, states)], dim=1)  # (n, 2, t)


@pooling(title="Average and maximum")
def mean_max(mask: Tensor, states: Tensor) -> Pooled:
    """The average and the maximum side by side, twice as wide.

    Formula: h = [Σ hᵢ / t; maxᵢ hᵢ]
    Source: ULMFiT's concat pooling (Howard and Ruder 2018), section 3.3, less its last state.
    """
    weights, largest = mean(mask, states), max(mask, states)
    average = (weights[:, None] @ states).squeeze(1)
    return Pooled(torch.cat([average, largest.vectors], dim=-1), (weights + largest.reads) / 2)


@pooling(title="Sum over root of length")
def sqrt_mean(mask: Tensor, states: Tensor) -> Tensor:
    """The sum of all real tokens over the square root of their number.

    Formula: h = Σ hᵢ / √t
    Source: Universal Sentence Encoder (Cer et al. 2018), its transformer, with the footnote on
        the length of sentences; `mean_sqrt_len` in sentence-transformers.
    """
    return mask / mask.sum(dim=1, keepdim=True).sqrt()


@pooling(title="Later tokens count more")
def weighted(mask: Tensor, states: Tensor) -> Tensor:
    """An average in which later tokens count more, made for decoders.

    Formula: h = Σ i hᵢ / Σ i, i = 1 … t counted over real tokens
    Source: SGPT (Muennighoff 2022, arXiv 2202.08904), position-weighted mean pooling.
    """
    positions = mask.cumsum(dim=1) * mask
    return positions / positions.sum(dim=1, keepdim=True)


@pooling(title="Average and spread")
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


@pooling(title="Power mean", ranges={"power": (1, 100)})
def gem(mask: Tensor, states: Tensor, *, power: float = 3.0) -> Pooled:
    """A mean in which large values count more, by the power {power}.

    Values above and below 0 each have a mean of their own, and the one is taken from the other:
    the power 1 is the average. Of values that are all above 0 it lies between average and maximum;
    where both signs occur the largest power comes near the maximum plus the minimum.

    Formula: hⱼ = M(hᵢⱼ) − M(−hᵢⱼ), M(x) = (Σ max(0, xᵢ)^p / t)^(1/p), p = {power}
    Source: GeM (Radenović et al. 2018, arXiv 1711.02512), equation 3, for values above 0.
    """
    real = states.masked_fill(mask[..., None] == 0, 0.0)
    sides = torch.stack([real, -real]).clamp_min(0)  # (2, n, t, d)
    # In units of the largest number, which no power makes too large or too small.
    unit = sides.detach().amax(dim=2, keepdim=True).clamp_min(LEAST)  # (2, n, 1, d)
    powers = (sides / unit) ** power
    tokens = mask.sum(dim=1)[:, None]
    means = unit.squeeze(2) * (powers.sum(dim=2) / tokens).clamp_min(LEAST) ** (1 / power)
    shares = powers / powers.sum(dim=2, keepdim=True).clamp_min(LEAST) * means[:, :, None]
    reads = shares.sum(dim=(0, 3)) / shares.sum(dim=(0, 2, 3))[:, None].clamp_min(LEAST)
    return Pooled(means[0] - means[1], reads)


@pooling(title="All tokens in a row")
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


@pooling(title="Learned attention")
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


@pooling(title="Several learned queries")
class multi_query(nn.Module):
    """Learned queries weigh the tokens, and each reads its own part of learned values.

    The values are about as wide as a state in all, whatever the number of queries, up to a query
    for each number of a state. The states are their
    own keys: a matrix before them would only be another query.

    Formula: h = [Σ aᵢ⁽¹⁾ vᵢ⁽¹⁾; …; Σ aᵢ⁽ᵐ⁾ vᵢ⁽ᵐ⁾], a⁽ᵏ⁾ = softmax(q⁽ᵏ⁾ · hᵢ / √d), v⁽ᵏ⁾ = V⁽ᵏ⁾ hᵢ
    Source: efficient probing (Psomas et al. 2025, arXiv 2506.10178), and its published code,
        which has 32 queries for images.
    """

    def __init__(self, width: int, *, queries: int = 8) -> None:
        super().__init__()
        self.query = nn.Parameter(torch.randn(queries, width) * 0.02)
        self.value = nn.Parameter(torch.empty(queries, -(-width // queries), width))
        nn.init.uniform_(self.value, -(width**-0.5), width**-0.5)  # as a linear layer begins

    def forward(self, mask: Tensor, states: Tensor) -> Pooled:
        scores = self.query @ states.transpose(1, 2) / states.shape[-1] ** 0.5  # (n, m, t)
        weights = scores.masked_fill(mask[:, None] == 0, -torch.inf).softmax(dim=-1)
        read = weights @ states  # (n, m, d): to weigh first and then to take the values is cheaper
        vectors = (read[:, :, None] @ self.value.mT).flatten(1)
        return Pooled(vectors, weights.mean(dim=1))


def vectors(mask: Tensor, vectors: Tensor) -> Pooled:
    """The vectors of the file, whichever engine made them: no base model reads.

    Formula: h = the row's vector
    Source: the linear probe (Alain and Bengio 2016, arXiv 1610.01644), on features from elsewhere.
    """
    return Pooled(vectors, mask)


# In no menu: a base model has nothing that it could read, and vectors can be read in no other way.
GIVEN = pooling.describe(vectors, title="Vectors of the file")
