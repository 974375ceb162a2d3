"""What a base model's tokenizer lets one know of texts before they are read."""

from dataclasses import replace

import torch
from torch import Tensor

from heads.backbone.backbone import Backbone
from heads.data.corpus import Corpus
from heads.data.dataset import Data
from heads.data.table import Finding

CHUNK = 4096  # texts
FRAME = 2  # tokens that only frame a text are no words of it


def with_token_findings(data: Data, backbone: Backbone) -> Data:
    """The data with warnings of texts that are cut, or that the tokenizer does not know."""
    if data.corpus.vectors is not None:
        return data
    corpus, counts = data.corpus, []
    foreign = backbone.tokenizer.unk_token_id  # looking it up takes as long as cutting a text
    for start in range(0, len(corpus), CHUNK):
        rows = slice(start, start + CHUNK)
        counts += [
            (len(text), text.whole_length, text.inputs["input_ids"].count(foreign))
            for text in backbone.encode(corpus.texts[rows], corpus.pairs[rows])
        ]
    tokens, whole, unknown = torch.tensor(counts).T
    found = token_findings(tokens, whole, unknown, corpus, backbone)
    return replace(data, findings=(*data.findings, *found))


def token_findings(
    tokens: Tensor, whole: Tensor, unknown: Tensor, corpus: Corpus, backbone: Backbone
) -> list[Finding]:
    """Warnings from counts a row: tokens read, tokens in all, tokens unknown; (n,) each."""
    if corpus.vectors is not None:
        return []  # nothing was cut into tokens
    cut = (whole > tokens).nonzero().flatten().tolist()
    foreign = (unknown * 2 > (tokens - FRAME).clamp_min(1)).nonzero().flatten().tolist()
    found = []
    if cut:
        found.append(
            Finding(
                kind="tokens_cut",
                says=f"{len(cut):,} of {len(tokens):,} texts are cut at {backbone.tokens} tokens: "
                f"{backbone.id} does not read what stands behind that.",
                lines=_lines(cut, corpus),
            )
        )
    if foreign:
        found.append(
            Finding(
                kind="tokens_unknown",
                says=f"In {len(foreign):,} of {len(tokens):,} texts more than half of the tokens "
                f"are unknown to {backbone.id}: choose a base model for their language or signs.",
                lines=_lines(foreign, corpus),
            )
        )
    return found


def _lines(rows: list[int], corpus: Corpus) -> tuple[int, ...]:
    return tuple(corpus.lines[row] for row in rows[:100]) if corpus.lines else ()
