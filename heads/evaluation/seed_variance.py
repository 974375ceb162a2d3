"""How much the luck of training scatters each cell, told from a few seeds of many cells.

Of three seeds nobody can tell one cell's luck. Of sixteen cells with three seeds each one can
tell what is usual, and which cells are plainly noisier than that: they are taken by themselves.

Legend: k cells, s seeds; a cell's ratio: what its scores vary from seed to seed about those of all
cells together, over what the tested texts alone would make them vary; 1 where there is no luck.
"""

from dataclasses import dataclass

import torch
from torch import Tensor

ATOMS = 256  # equally likely values that stand for what is believed of a cell's luck
SMALL = 1e-15  # a variance below this is none
SUSPECT = 0.4  # of the test for cells that are noisier: a noisy one that passes is the worse error
WEIGHT = 2  # of what is usual beside a cell's own seeds, where some cell is noisier
FEWEST, TYPICAL = 3, 0.02  # degrees of freedom that two seeds are filled up to, with that deviation


@dataclass(frozen=True, slots=True, kw_only=True)
class SeedVariance:
    """What is believed of the luck of k cells, in units of what the texts make them vary.

    Attributes:
        usual: (k,), the variance whose normal distribution has the tail of all that it may be.
        atoms: (k, ATOMS), equally likely variances.
    """

    usual: Tensor
    atoms: Tensor


def seed_variance(between: Tensor, within: Tensor, seeds: int, unit: float = 1.0) -> SeedVariance:
    """What scores say of the luck of their cells.

    Cells whose ratio is too large among all of them, the largest first, go by their own seeds.
    The rest share one ratio, the mean of theirs and about one standard error more; or, where some
    cell was set aside, each is drawn toward that. What is believed of a ratio is the inverse gamma
    distribution that so many degrees of freedom leave, with 1 for all below it.

    Drawing all cells toward one mean by how much they differ (Smyth 2004, section 6.2) was tried:
    2 noisy cells of 16 are then drawn too near to the quiet ones.

    Args:
        between: (k,), the variance over seeds of each cell's score less that of all cells.
        within: (k,), that of it which the tested texts account for.
        seeds: s; of two, a typical variance makes up for those that are missing.
        unit: What 1 of a share is in these scores.

    Source: Cochran 1941 (the largest of several variances); Smyth 2004, section 4 (moderated
    variances).
    """
    from scipy.special import gammaincinv

    cells, own = len(between), seeds - 1
    known = within > SMALL
    if own < 1 or not bool(known.any()):
        return SeedVariance(usual=torch.zeros(cells), atoms=torch.zeros(cells, ATOMS))
    ratios = torch.where(known, between / within.clamp_min(SMALL), torch.nan)
    like = _like(ratios, own)
    count = int(like.sum())
    high = (2 / (count * own)) ** 0.5 * max(0.0, 1 - 2 / count)  # of few cells the freedom tells
    usual = float(ratios[like].mean()) * (1 + high)
    centre, freedom = torch.full_like(ratios, usual), torch.full_like(ratios, (count - 1) * own)
    if count < int(known.sum()):
        drawn = (WEIGHT * usual + ratios) / (WEIGHT + 1)
        centre = torch.where(like, drawn, torch.where(known, ratios, usual))
        freedom = torch.where(like | ~known, (WEIGHT + 1.0) * own, 1.0 * own)
    freedom = freedom.clamp_min(own)
    if own == 1:
        # Of one degree of freedom alone an interval would be 6 times as wide as of three.
        missing = (FEWEST - freedom).clamp_min(0) / FEWEST
        common = 1 + (TYPICAL * unit) ** 2 / within.clamp_min(SMALL)
        centre = torch.where(known, (1 - missing) * centre + missing * common, centre)
        freedom = freedom.clamp_min(FEWEST)
    half, centre = freedom[:, None].numpy() / 2, centre[:, None].numpy()
    shares = (torch.arange(ATOMS).double().numpy() + 0.5) / ATOMS
    ratio = torch.from_numpy(half * centre / gammaincinv(half, shares).clip(1e-12))
    atoms = (ratio - 1).clamp_min(0)  # luck adds to what texts make vary
    level = 0.05 / max(1, cells - 1)
    # Where cells differ in how surely their luck is known, one bar for all of them is that of the
    # least known; these make it fit each (Beran 1988, balanced simultaneous intervals).
    bar = 2**0.5 * torch.erfinv(torch.tensor(1 - level).double())
    return SeedVariance(usual=(tail_quantile(atoms, level) / bar).square(), atoms=atoms)


def _like(ratios: Tensor, own: int) -> Tensor:
    """(k,), the cells whose ratio is not too large among those that are not set aside yet."""
    from scipy.special import betaincinv

    like = ~ratios.isnan()
    while (count := int(like.sum())) > 2:
        shares = torch.where(like, ratios, 0.0) / float(ratios[like].sum() + SMALL)
        bar = betaincinv(own / 2, (count - 1) * own / 2, 1 - SUSPECT / count)
        if float(shares.max()) <= float(bar):
            break
        like[shares.argmax()] = False
    return like


def tail_quantile(atoms: Tensor, level: float) -> Tensor:
    """Return what normal numbers of unsure variance are beyond, on either side, so often, (k,).

    Args:
        atoms: (k, a), equally likely variances.
    """
    spread = (2 * atoms.clamp_min(1e-30)).sqrt()
    low, high = torch.zeros(len(atoms)).double(), 10 * spread.amax(dim=1)
    for _ in range(60):
        middle = (low + high) / 2
        is_low = torch.erfc(middle[:, None] / spread).mean(dim=1) > level
        low, high = torch.where(is_low, middle, low), torch.where(is_low, high, middle)
    return high


def scatter(own: Tensor, scattered: Tensor) -> tuple[Tensor, Tensor]:
    """Return the variance of scores (s, k) over seeds, (k,), and that through tested rows, (k,).

    Args:
        own: (s, g, k), each group's part of every score.
        scattered: (s, k), the scores.
    """
    seeds = len(own)
    of_rows, of_each = own.mean(dim=0).square().sum(dim=0), own.square().sum(dim=(0, 1))
    within = ((of_each - seeds * of_rows) / max(seeds - 1, 1)).clamp_min(0)
    between = scattered.var(dim=0) if seeds > 1 else torch.zeros_like(within)
    return between, within
