"""What a base model's tokenizer lets one know of texts before they are read."""

from collections.abc import Sequence
from dataclasses import replace

import torch
from torch import Tensor

from heads.backbone.backbone import Backbone
from heads.data.corpus import Corpus
from heads.data.dataset import Data
from heads.data.table import Finding, finding
from heads.features.extraction import counts
from heads.parts.resolved_recipe import LONG, WINDOWS, ResolvedRecipe

CHUNK = 4096  # texts
TOKENS_CUT = "tokens_cut"  # the kind of that finding
FRAME = 2  # tokens that only frame a text are no words of it


def with_token_findings(data: Data, backbone: Backbone) -> Data:
    """The data with warnings of texts that are cut, or that the tokenizer does not know."""
    if data.corpus.vectors is not None:
        return data
    corpus, chunks = data.corpus, []
    for start in range(0, len(corpus), CHUNK):
        rows = slice(start, start + CHUNK)
        encoded = backbone.encode(corpus.texts[rows], corpus.pairs[rows])
        chunks.append(counts(encoded, backbone))
    names = ("tokens", "whole", "unknown")
    tokens, whole, unknown = (torch.cat([chunk[name] for chunk in chunks]) for name in names)
    found = token_findings(tokens, whole, unknown, corpus, backbone)
    return replace(data, findings=(*data.findings, *found))


def token_findings(
    tokens: Tensor,
    whole: Tensor,
    unknown: Tensor,
    corpus: Corpus,
    backbone: Backbone,
    recipes: Sequence[ResolvedRecipe] = (),
) -> list[Finding]:
    """Warnings from counts a row: tokens read, tokens in all, tokens unknown; (n,) each.

    Args:
        recipes: Those by which the texts are read, where they are known.
    """
    if corpus.vectors is not None:
        return []  # nothing was cut into tokens
    cut = longer(tokens, whole).tolist()
    foreign = (unknown * 2 > (tokens - FRAME).clamp_min(1)).nonzero().flatten().tolist()
    found = []
    if cut:
        says = _long_says(whole, cut, backbone, recipes, paired=bool(corpus.pairs))
        found.append(finding(TOKENS_CUT, says, _lines(cut, corpus)))
    if foreign:
        says = (
            f"In {len(foreign):,} of {len(tokens):,} texts more than half of the tokens "
            f"are unknown to {backbone.id}: choose a base model for their language or signs."
        )
        found.append(finding("tokens_unknown", says, _lines(foreign, corpus)))
    return found


def longer(tokens: Tensor, whole: Tensor) -> Tensor:
    """The rows that have more tokens than the base model reads at once, (m,)."""
    return (whole > tokens).nonzero().flatten()


def _long_says(
    whole: Tensor,
    long: Sequence[int],
    backbone: Backbone,
    recipes: Sequence[ResolvedRecipe],
    *,
    paired: bool,
) -> str:
    """How texts are read that are too long, in a sentence or two."""
    texts, option = f"{len(long):,} of {len(whole):,} texts are", f"?{LONG}={WINDOWS}"
    windowed = [one for one in recipes if one.reads_windows]
    if not windowed:
        told = f"{texts} cut at {backbone.tokens} tokens: {backbone.id} does not read what stands "
        return f"{told}behind that{'' if paired else f', but a recipe with {option} does'}."
    told = f"{texts} longer than {backbone.tokens} tokens: read with {option}"
    if len(windowed) < len(recipes):
        told += ", and cut by the other recipes"
    # The longest overlap reaches least far.
    reach = min(backbone.for_recipe(one).reach for one in windowed)
    beyond = int((whole > reach).sum())
    if beyond:
        told += f". {beyond:,} of them are cut behind {backbone.windows} windows"
    return f"{told}."


def _lines(rows: list[int], corpus: Corpus) -> tuple[int, ...]:
    return tuple(corpus.lines[row] for row in rows) if corpus.lines else ()
