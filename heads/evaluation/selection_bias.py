"""What the best of many heads comes to on rows that did not choose it.

The highest of many scores is too high: of heads that are equally good it is the luckiest on
these rows.

Legend: g texts, k heads, b draws.
"""

from collections.abc import Sequence

import torch
from torch import Tensor

from heads.evaluation.predictions import Answers, EvaluationTask, by_text, parts

DRAWS = 300
DRAWS_AT_ONCE = 100


def chosen_score(heads: Sequence[Answers], task: EvaluationTask, seed: int = 0) -> float | None:
    """The score of choosing the best of these heads, on rows that did not choose.

    Texts are drawn with replacement, the head that scores highest on them is chosen and scored on
    the texts that were not drawn (about a third); the mean over draws. It is that of heads trained
    as these were, and so stands beside the winner's own score; None of less than two.

    Source: Tsamardinos, Greasidou & Borboudakis 2018 (BBC-CV).
    """
    if len(heads) < 2:
        return None
    ones = [torch.ones(len(rows)).double() for rows in heads[0].rows]
    weights = by_text(ones, heads[0], task).mean(dim=0)  # (g,)
    tested = weights > 0
    found = [by_text(parts(one, task), one, task).mean(dim=0)[tested] for one in heads]
    of_texts, weights = torch.stack(found, dim=1), weights[tested]  # (g, k), (g,)
    rng = torch.Generator().manual_seed(seed)
    left = [
        _left_out(of_texts, weights, min(DRAWS_AT_ONCE, DRAWS - start), rng)
        for start in range(0, DRAWS, DRAWS_AT_ONCE)
    ]
    scores = torch.cat(left)
    return float(scores.mean()) if len(scores) else None


def _left_out(of_texts: Tensor, weights: Tensor, draws: int, rng: torch.Generator) -> Tensor:
    """(b,), the scores of those who are chosen; draws that leave no text out count for nothing."""
    texts = len(weights)
    which = torch.randint(texts, (draws, texts), generator=rng)
    counts = (
        torch.zeros(draws, texts)
        .double()
        .scatter_add_(1, which, torch.ones(1).double().expand(draws, texts))
    )
    out = (counts == 0).double()
    out, counts = out[out.sum(dim=1) > 0], counts[out.sum(dim=1) > 0]
    winners = ((counts @ of_texts) / (counts @ weights)[:, None]).argmax(dim=1)
    scores = (out @ of_texts) / (out @ weights)[:, None]
    return scores.gather(1, winners[:, None])[:, 0]
