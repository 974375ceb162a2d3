"""Which cells of a grid are behind by more than chance, going by the development rows.

What studies/racing.py finds, for the full grid of 64 cells with 5 seeds on all-MiniLM-L6-v2;
a thousand replays each on development rows drawn again with replacement:

=========  ==================  ==============  ===========================  ==================
data       cells that go on    time, of whole  the later winner is stopped  points lost at most
=========  ==================  ==============  ===========================  ==================
banking77  31 (38 as it went)  0.63 (0.71)     0.6 % (no)                   0.15
trec6      23 (28)             0.56 (0.62)     2.1 % (no)                   0.28
sst2       33 (40)             0.66 (0.73)     2.7 % (no)                   0.44
mrpc       39 (53)             0.73 (0.88)     2.1 % (no)                   0.35
=========  ==================  ==============  ===========================  ==================

Of as many rows drawn from the tested ones, of which the best cell is known, it was stopped in at
most 0.4 % of races. Of cells that are equally good each is stopped in 2 to 4 %. A first look
after one pass over the rows would save more, but on banking77 (tried once, apart from that
benchmark) it stopped the later winner in 99 %: what learns fast is not what ends best.

Legend: m development rows, k cells, g texts.
"""

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from statistics import NormalDist

import torch
from torch import Tensor

LEVEL = 0.05  # of all comparisons with the leader together
FEWEST = 2  # cells that are never stopped
WRONG = (
    "In 4,000 replays on four data sets of one class a row, with an earlier engine, that stopped "
    "the later winner in 1.9 %, at a loss of 0.4 points at most."
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Eliminated:
    """A cell that was stopped in the race.

    Attributes:
        behind: How far that is behind the leader: 0.01 is one point.
        least: How far behind it is at least, at the level of the race.
    """

    recipe: str
    development_score: float
    behind: float
    least: float


def eliminated(
    names: Sequence[str],
    parts: Tensor,
    texts: Tensor,
    always: Collection[str] = (),
    evidence: Tensor | None = None,
) -> tuple[Eliminated, ...]:
    """The cells that are surely behind the leader, the nearest first; never the last two.

    Each is compared with the cell of highest score, row by row, on the same rows: it is stopped
    where even the upper end of the interval of the difference is below 0. All scores are those
    of the best of several settings, and so a little too good, for all cells alike.

    Two texts' worth of disagreement with the leader is added to every cell's, a text counting for
    as much as the row on which the two differ most: 1 of right and wrong, and of errors so much in
    the units of the labels.

    Args:
        parts: (m, k), each row's part of the score of each cell, which is their mean.
        texts: (m,), equal numbers for rows of equal text, which are one piece of evidence.
        always: Cells that go on whatever their score.
        evidence: (m, k), what variances are made from where parts scatter too little about the
            score of a small class (`evidence` of `evaluation/predictions.py`); the parts if None.

    Source: F-Race (Birattari et al. 2002), with a normal interval of the paired difference;
    Bonferroni; Bonett & Price 2012 (the added disagreement).
    """
    if len(names) <= FEWEST:
        return ()
    # Means and their differences are taken in 64 bits: heads that are equal in 32 must tie, so that
    # a race that is resumed stops the same ones. Who answers with no number stands last.
    parts = parts.double()
    parts = parts.nan_to_num(float(parts.nan_to_num(0.0).min()) - 1.0)
    scores = parts.mean(dim=0)
    ranked: list[int] = scores.argsort(descending=True, stable=True).tolist()
    means = scores - scores[ranked[0]]
    own = parts if evidence is None else evidence.double()
    # Paired: what makes a row hard for all heads cancels in its difference to the leader, (m, k).
    gaps = own - own[:, ranked[:1]]
    # Rows of one text are summed before they are squared: repeating a text is no evidence, (g, k).
    different, number = texts.unique(return_inverse=True)
    by_text = torch.zeros(len(different), len(names)).double()
    by_text.index_add_(0, number, (gaps - gaps.mean(dim=0)) / len(parts))
    # Two heads that answer alike on these few rows have a spread of 0 here, and not on all rows:
    # two texts' worth of disagreement keeps the interval open. `most` is 1 of right and wrong.
    most = gaps.abs().amax(dim=0)
    spread = (by_text.square().sum(dim=0) + 2 * (most / len(different)) ** 2).sqrt()
    highest = means + bar(len(names)) * spread
    found = [
        Eliminated(
            recipe=names[cell],
            development_score=float(scores[cell]),
            behind=-float(means[cell]),
            least=-float(highest[cell]),
        )
        for cell in ranked[FEWEST:]
        if float(highest[cell]) < 0 and names[cell] not in always
    ]
    return tuple(found)


def bar(cells: int) -> float:
    """How many standard errors behind the leader a cell is stopped.

    >>> round(bar(64), 2)
    3.16
    """
    return NormalDist().inv_cdf(1 - LEVEL / max(1, cells - 1))
