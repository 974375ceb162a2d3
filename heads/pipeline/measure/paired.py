"""Paired comparisons of cells on the same rows, with care for how many are made.

Legend: k cells, g unique texts, s seeds, b draws of the bootstrap.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from math import erfc

import torch
from torch import Tensor

from heads.pipeline.measure.outcomes import BASELINES, Answers, Outcome, Task, by_text, parts

DRAWS = 1999  # so that (DRAWS + 1) · 5 % is a whole number
DRAWS_AT_ONCE = 250
LEVEL = 0.05
Z_95 = 1.959963984540054
SAME = 1e-5  # statistics closer than this are equal
SMALL = 1e-15  # a variance below this is none


@dataclass(frozen=True, slots=True, kw_only=True)
class Difference:
    """How much better one cell scores than another.

    Attributes:
        name: The one cell.
        other: The other cell.
        difference: Score of the one less that of the other: 0.01 is one point.
        low: Lower end of its interval; 95 % holds for all intervals of the family at once.
        high: Its upper end.
        p: The chance that some pair of the family differs as clearly if no cells differ.
        differs: Whether the two are told apart: p is at most 0.05 and 0 outside the interval.
    """

    name: str
    other: str
    difference: float
    low: float
    high: float
    p: float
    differs: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Comparisons:
    """Every cell against the reference and against the best.

    Attributes:
        reference: The cell that was fixed beforehand.
        best: The head with the highest score; the reference where it is level.
        seeds: How many seeds were compared: those that all cells have.
        to_reference: Every other cell less the reference.
        to_best: Every other cell less the best; as that was chosen by looking, the family is
            all pairs of cells.
    """

    reference: str
    best: str
    seeds: int
    to_reference: tuple[Difference, ...]
    to_best: tuple[Difference, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class _Pairs:
    """All pairs of cells, (k, k) each: row less column.

    Attributes:
        differences: Of the mean scores.
        of_rows: Their variance through the tested texts if nothing differed.
        within: What the tested texts alone make a difference vary by from seed to seed.
        luck: What the luck of a seed adds to that, 0 for one seed.
        parts: (g, k), each text's part of the score; only texts on which cells differ.
        texts: How many unique texts were tested.
        seeds: How many seeds.
        most: The largest difference there can be.
    """

    differences: Tensor
    of_rows: Tensor
    within: Tensor
    luck: Tensor
    parts: Tensor
    texts: int
    seeds: int
    most: float


def compare(
    outcomes: Sequence[Outcome | Answers], task: Task, *, reference: str, seed: int = 0
) -> Comparisons:
    """Compares every cell with the reference and with the best head, row by row.

    Rows count by their parts of the score (`parts`). Each pair's statistic is the difference
    over its standard error, which has a part for the tested texts (all rows of one text, in
    all seeds, are one piece of evidence) and one for the luck of the seeds. What it would be
    by chance is drawn by giving every text's differences a random sign, the same for all
    pairs, and every cell new luck, whose spread is estimated anew in each draw. The largest
    statistic of a family sets the bar for each of its pairs (max-T, single step), so that the
    chance of any false difference in the family is about 5 % at most. Two texts' worth of
    disagreement is added to every pair, so that the interval of two cells which never
    disagree has a width.

    One seed says nothing of luck: then the comparison is of these trained heads only.

    Source: Westfall & Young 1993 (max-T); Cameron, Gelbach & Miller 2008 (random signs by
    cluster, the null imposed); Bonett & Price 2012 (the added disagreement).

    Raises:
        ValueError: Seeds do not test the same rows in every cell (a fault of the caller).
    """
    seeds = min(len(outcome.rows) for outcome in outcomes)
    for outcome in outcomes[1:]:
        for mine, theirs in zip(outcome.rows[:seeds], outcomes[0].rows, strict=False):
            if not torch.equal(mine, theirs):
                raise ValueError(f"{outcome.name} and {outcomes[0].name} tested different rows")
    names = [outcome.name for outcome in outcomes]
    home = names.index(reference)
    pairs = _pairs(outcomes, task, seeds)
    best = _best(names, pairs.differences[:, home], home)
    drawn = list(_chance(pairs, home, seed))
    to_reference, to_any = torch.cat([a for a, _ in drawn]), torch.cat([b for _, b in drawn])
    return Comparisons(
        reference=reference,
        best=names[best],
        seeds=seeds,
        to_reference=_family(pairs, names, home, to_reference),
        to_best=_family(pairs, names, best, to_any),
    )


def _best(names: Sequence[str], leads: Tensor, home: int) -> int:
    """The head that leads most; the reference where no head leads it."""
    heads = [number for number, name in enumerate(names) if name not in BASELINES]
    best = max(heads, key=lambda number: float(leads[number]), default=home)
    return best if leads[best] > SAME else home


def _pairs(outcomes: Sequence[Outcome | Answers], task: Task, seeds: int) -> _Pairs:
    rows = outcomes[0].rows[:seeds]
    found = [parts(outcome, task)[:seeds] for outcome in outcomes]
    each = torch.stack([by_text(seed, rows, task) for seed in found], dim=2)  # (s, g, k)
    by_group = each.mean(dim=0)
    texts = len(torch.cat([task.groups[tested] for tested in rows]).unique())
    scores = each.sum(dim=1)
    by_seed = (scores[:, :, None] - scores[:, None]).permute(1, 2, 0)  # (k, k, s)
    of_rows, of_each = _squares(by_group), sum(map(_squares, each), torch.zeros(()))
    within = ((of_each - seeds * of_rows) / max(seeds - 1, 1)).clamp_min(0)
    between = by_seed.var(dim=2) if seeds > 1 else torch.zeros_like(within)
    return _Pairs(
        differences=by_seed.mean(dim=2),
        of_rows=of_rows + 2 / texts**2,
        within=within,
        luck=_luck(between, within, seeds),
        parts=by_group[by_group.amax(dim=1) - by_group.amin(dim=1) > 1e-12],  # where some differ
        texts=texts,
        seeds=seeds,
        most=2.0 if task.kind == "number" else 1.0,
    )


def _squares(parts: Tensor) -> Tensor:
    """The squared differences of any two cells, summed: (..., m, k) to (..., k, k)."""
    products = parts.transpose(-1, -2) @ parts
    own = products.diagonal(dim1=-2, dim2=-1)
    return (own[..., :, None] + own[..., None, :] - 2 * products).clamp_min(0)


def _luck(between: Tensor, within: Tensor, seeds: int) -> Tensor:
    """What varies from seed to seed beyond what the tested texts make vary, (..., k, k).

    Few seeds tell little of one pair, but all pairs together tell much: a pair has at least
    the luck that is usual here, taken one standard error high as it is an estimate itself.
    """
    ratio = torch.where(within > SMALL, between / within.clamp_min(SMALL), torch.nan)
    usual = ratio.nanmean(dim=(-2, -1), keepdim=True).nan_to_num(1.0)
    freedom = max((within.shape[-1] - 1) * (seeds - 1), 1)
    usual = usual * (1 + (2 / freedom) ** 0.5)
    return torch.maximum(between - within, (usual - 1) * within).clamp_min(0) * (seeds > 1)


def _chance(pairs: _Pairs, home: int, seed: int) -> Iterator[tuple[Tensor, Tensor]]:
    """The largest |statistic| by chance, (b,): of the pairs with one cell, and of all pairs."""
    dice = torch.Generator().manual_seed(seed)
    parts, scale = (pairs.parts * pairs.texts).float(), pairs.texts**2
    of_rows, within, luck = (
        (part * scale).float() for part in (pairs.of_rows, pairs.within, pairs.luck)
    )
    (texts, cells), seeds = parts.shape, pairs.seeds
    for start in range(0, DRAWS, DRAWS_AT_ONCE):
        draws = min(DRAWS_AT_ONCE, DRAWS - start)
        signs = torch.randint(2, (draws, texts), generator=dice, dtype=torch.int8).float() * 2 - 1
        by_rows = signs @ parts  # (b, k)
        # A pair is two cells, so each has half of the pair's variance.
        noise = torch.randn(draws, seeds, cells, generator=dice) / 2**0.5
        middle = noise.mean(dim=1)
        spread = _squares(noise - middle[:, None]) / max(seeds - 1, 1)  # (b, k, k)
        # A spread drawn too large is no merit: the bar stays above that of a known spread.
        again = _luck((within + luck) * spread, within, seeds).minimum(luck)
        variances = of_rows + again / seeds
        shifts = by_rows[:, :, None] - by_rows[:, None]
        shifts = shifts + luck.sqrt() * (middle[:, :, None] - middle[:, None])
        statistics = shifts.abs() / variances.sqrt()
        yield statistics[:, :, home].amax(dim=1), statistics.amax(dim=(1, 2))


def _family(
    pairs: _Pairs, names: Sequence[str], home: int, by_chance: Tensor
) -> tuple[Difference, ...]:
    """Every other cell less one, against the largest statistics that chance gives (b,)."""
    # The bar that exactly 5 % of the draws reach: an interval leaves 0 out just when p <= 0.05.
    allowed = round(LEVEL * (DRAWS + 1))
    bar = max(float(by_chance.sort().values[-allowed]) + SAME, Z_95)
    found = []
    for number, name in enumerate(names):
        if number == home:
            continue
        gap = float(pairs.differences[number, home])
        of_seeds = float(pairs.luck[number, home]) / pairs.seeds
        variance = float(pairs.of_rows[number, home]) + of_seeds
        statistic = abs(gap) / variance**0.5
        reached = int((by_chance >= statistic - SAME).sum())
        p = max((1 + reached) / (DRAWS + 1), erfc(statistic / 2**0.5))
        half = _half(bar, variance, gap, pairs.texts)
        found.append(
            Difference(
                name=name,
                other=names[home],
                difference=gap,
                low=max(-pairs.most, gap - half),
                high=min(pairs.most, gap + half),
                p=p,
                differs=abs(gap) > half,
            )
        )
    return tuple(found)


def _half(bar: float, variance: float, gap: float, texts: int) -> float:
    """Half the interval: every true difference that the statistic would not tell from `gap`."""
    left = 1 - bar**2 / texts
    around = max(variance - gap**2 / texts, 0.0)  # the variance about the difference, not about 0
    return bar * (around / left) ** 0.5 if left > 0 else 4.0
