"""Paired comparisons of cells on the same rows, with care for how many are made and for luck.

How much the luck of training scatters a cell cannot be told from its own three seeds. Sixteen cells
with three seeds each tell what is usual, and which cells are plainly noisier.

Legend: k cells, g unique texts, s seeds, b draws of the bootstrap. A cell's ratio is what its
scores vary from seed to seed about those of all cells, over what the tested texts alone would make
them vary; 1 where there is no luck.
"""

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from math import erfc
from typing import Any

import torch
from torch import Tensor

from heads.evaluation.predictions import (
    BASELINES,
    Answers,
    CellPredictions,
    EvaluationTask,
    by_text,
    evidence,
    first,
    parts,
)
from heads.evaluation.selection_bias import chosen_score
from heads.evaluation.statistics import Z_95

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


DRAWS = 1999  # so that (DRAWS + 1) · 5 % is a whole number
DRAWS_AT_ONCE = 250
LEVEL = 0.05
SAME = 1e-5  # statistics closer than this are equal


@dataclass(frozen=True, slots=True, kw_only=True)
class Difference:
    """How much better one cell scores than another.

    Attributes:
        difference: Score of the one less that of the other: 0.01 is one point.
        low: Lower end of its interval; 95 % holds for all intervals of the family at once.
        p: The chance that some pair of the family differs as clearly if no cells differ.
        differs: Whether the two are told apart: p is at most 0.05 and 0 outside the interval. Of
            cells that were trained once, and of which one would come out otherwise if it were
            trained again, it is never said: interval and p are then of these trained heads only.
    """

    name: str
    other: str
    difference: float
    low: float
    high: float
    p: float
    differs: bool

    @property
    def reversed(self) -> "Difference":
        """The same difference, of the other cell less this one."""
        ends = {"difference": -self.difference, "low": -self.high, "high": -self.low}
        return replace(self, name=self.other, other=self.name, **ends)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class PairTests:
    """All pairs of k cells, and the largest statistics that chance gives.

    Attributes:
        differences: (k, k), of the mean scores: row less column.
        variances: (k, k), of these differences.
        is_random: (k,), whether a cell draws lots in training.
        by_chance: (2, b), the largest |statistic| of each draw, ascending: among the pairs with
            the reference, and among all pairs.
        groups: How many groups of rows were tested: the pieces of evidence.
        seeds: How many seeds were compared: those that all cells have.
        unit: What one text counts for at most, about: 1, but for errors in units of the labels.
        most: The largest difference there can be.
    """

    names: tuple[str, ...]
    differences: Tensor
    variances: Tensor
    is_random: tuple[bool, ...]
    by_chance: Tensor
    groups: int
    seeds: int
    unit: float
    most: float

    def test(self, name: str, other: str, *, is_planned: bool) -> Difference:
        """Return how much better one cell scores than another.

        Args:
            is_planned: Whether the family is the pairs with the reference, and not all pairs.
        """
        row, column = self.names.index(name), self.names.index(other)
        by_chance = self.by_chance[0 if is_planned else 1]
        # The bar that exactly 5 % of the draws reach: an interval leaves 0 out just when p <= 0.05.
        allowed = round(LEVEL * (DRAWS + 1))
        bar = max(float(by_chance[-allowed]) + SAME, Z_95)
        gap, variance = float(self.differences[row, column]), float(self.variances[row, column])
        statistic = abs(gap) / variance**0.5
        reached = int((by_chance >= statistic - SAME).sum())
        half = self._half_width(bar, variance, gap)
        is_told = self.seeds > 1 or not (self.is_random[row] or self.is_random[column])
        return Difference(
            name=name,
            other=other,
            difference=gap,
            low=max(-self.most, gap - half),
            high=min(self.most, gap + half),
            p=max((1 + reached) / (DRAWS + 1), erfc(statistic / 2**0.5)),
            differs=is_told and abs(gap) > half,
        )

    def _half_width(self, bar: float, variance: float, gap: float) -> float:
        """Return half the interval: all true differences that the statistic allows at `gap`."""
        left = 1 - bar**2 / self.groups
        around = max(variance - gap**2 / self.groups, 0.0)  # about the difference, not about 0
        return bar * (around / left) ** 0.5 if left > 0 else 4.0 * self.unit

    def as_json(self) -> dict[str, Any]:
        """Return all of it as plain values, to the last bit."""
        values = {name: getattr(self, name) for name in self.__dataclass_fields__}
        return {name: v.tolist() if isinstance(v, Tensor) else v for name, v in values.items()}

    @classmethod
    def from_json(cls, values: Mapping[str, Any]) -> "PairTests":
        """Return the pairs that `as_json` wrote."""
        return cls(
            names=tuple(values["names"]),
            differences=torch.tensor(values["differences"], dtype=torch.double),
            variances=torch.tensor(values["variances"], dtype=torch.double),
            is_random=tuple(values["is_random"]),
            by_chance=torch.tensor(values["by_chance"], dtype=torch.float),
            **{name: values[name] for name in ("groups", "seeds", "unit", "most")},
        )


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Comparisons:
    """Every cell against every other; those with the reference were fixed beforehand.

    Attributes:
        reference: The cell that was fixed beforehand.
        best: The head with the highest score; the reference where it is level.
        chosen: The score that the best of the heads comes to on rows that did not choose it;
            None of a single head.
        frozen: The comparisons of the cells whose base model is frozen, as if there were no
            others; None where there are no others, or no head among them.
    """

    reference: str
    best: str
    pairs: PairTests
    chosen: float | None = None
    frozen: "Comparisons | None" = None

    @property
    def once(self) -> bool:
        """Whether there is one seed and a head draws lots: nothing is known of their luck."""
        return self.pairs.seeds == 1 and any(self.pairs.is_random)

    @property
    def to_reference(self) -> tuple[Difference, ...]:
        """Every other cell less the reference."""
        return self._family(self.reference, is_planned=True)

    @property
    def to_best(self) -> tuple[Difference, ...]:
        """Every other cell less the best, which was chosen by looking: the family is all pairs."""
        return self._family(self.best, is_planned=False)

    def to(self, name: str) -> tuple[Difference, ...]:
        """Return every other cell less one cell, by the narrowest intervals that are known.

        The comparisons with the reference were fixed beforehand; they are fewer than all pairs.
        """
        return tuple(self._narrowest(other, name) for other in self.pairs.names if other != name)

    def between(self, name: str, other: str) -> Difference | None:
        """Return how much better one cell scores than another; None where either is missing."""
        if name == other or not {name, other} <= set(self.pairs.names):
            return None
        return self._narrowest(name, other)

    def _narrowest(self, name: str, other: str) -> Difference:
        if name == self.reference:
            return self._test(other, name, is_planned=True).reversed
        return self._test(name, other, is_planned=other == self.reference)

    def _family(self, other: str, *, is_planned: bool) -> tuple[Difference, ...]:
        names = (name for name in self.pairs.names if name != other)
        return tuple(self._test(name, other, is_planned=is_planned) for name in names)

    def _test(self, name: str, other: str, *, is_planned: bool) -> Difference:
        """Return the test of a pair: that of the smaller family if it stands in one as well."""
        pairs, frozen = self.pairs, self.frozen
        if frozen and {name, other} <= set(frozen.pairs.names):
            pairs = pairs if is_planned and frozen.reference != other else frozen.pairs
        return pairs.test(name, other, is_planned=is_planned)

    def as_json(self) -> dict[str, Any]:
        """Return all of it as plain values, to the last bit."""
        return {
            "reference": self.reference,
            "best": self.best,
            "pairs": self.pairs.as_json(),
            "chosen": self.chosen,
            "frozen": self.frozen.as_json() if self.frozen else None,
        }

    @classmethod
    def from_json(cls, values: Mapping[str, Any]) -> "Comparisons":
        """Return the comparisons that `as_json` wrote."""
        return cls(
            reference=values["reference"],
            best=values["best"],
            pairs=PairTests.from_json(values["pairs"]),
            chosen=values["chosen"],
            frozen=cls.from_json(values["frozen"]) if values["frozen"] else None,
        )


def compare(
    outcomes: Sequence[CellPredictions | Answers],
    task: EvaluationTask,
    *,
    reference: str,
    tuned: Collection[str] = (),
    seed: int = 0,
) -> Comparisons:
    """Compares every cell with the reference and with the best head, row by row.

    Rows count by their parts of the score (`parts`). Each pair's statistic is the difference
    over its standard error, which has a part for the tested texts (all rows of one text, in
    all seeds, are one piece of evidence) and one for the luck of the seeds, every cell's own
    (`seed_variance`). What it would be by chance is drawn by giving every text's differences a
    random sign, the same for all pairs, and every cell new luck, of a spread that is drawn from
    what is believed of it. The largest statistic of a family sets the bar for each of its pairs
    (max-T, single step), so that the chance of any false difference in the family is about 5 %
    at most.
    Two texts' worth of disagreement is added to every pair, so that the interval of two cells
    which never disagree has a width. (Not two groups' worth: that of eight authors would be 18
    points.)

    Folds are seeds that test other rows each: what their scores vary is mostly of the rows, and
    that is taken out before luck is told.

    One seed says nothing of luck: then the comparison is of these trained heads only, and heads
    that draw lots are not told apart.

    A head that learns its base model as well scatters far more than one on a frozen base model.
    So the luck of either kind is told from its own cells, and whatever is said of two cells whose
    base model is frozen is, to the last bit, what would be said if there were no others: in their
    family the chance of any false difference is 5 %. All other pairs are held to the bar of the
    whole family, so that the chance is 5 % among all pairs with a tuned cell, too. Where the best
    cell is a tuned one, it is one of each pair of `to_best`; the best of the others, and what is
    told apart from that, stand under `frozen`.

    Args:
        reference: The cell that was fixed beforehand.
        tuned: The names of those heads that learn their base model as well.

    Source: Westfall & Young 1993 (max-T); Cameron, Gelbach & Miller 2008 (random signs by
    cluster, the null imposed); Bonett & Price 2012 (the added disagreement).

    Raises:
        ValueError: Seeds do not test the same rows in every cell (a fault of the caller).
    """
    fixed = [outcome for outcome in outcomes if outcome.name not in tuned]
    heads = [outcome.name for outcome in fixed if outcome.name not in BASELINES]
    if not heads or len(fixed) == len(outcomes):
        return _compared(outcomes, task, reference, tuned, None, seed)
    home = reference if reference in heads else heads[0]
    frozen = _compared(fixed, task, home, (), None, seed)
    return _compared(outcomes, task, reference, tuned, frozen, seed)


def _compared(
    outcomes: Sequence[CellPredictions | Answers],
    task: EvaluationTask,
    reference: str,
    tuned: Collection[str],
    frozen: Comparisons | None,
    seed: int,
) -> Comparisons:
    """All cells as one family; against the best of the frozen ones only tuned heads may lead."""
    seeds = min(len(outcome.rows) for outcome in outcomes)
    answers = [first(outcome, seeds, task) for outcome in outcomes]
    names = [outcome.name for outcome in outcomes]
    home = names.index(reference)
    pairs = _test_pairs(answers, task, tuned, home, seed)
    ahead = home if frozen is None else names.index(frozen.best)
    rivals = [name for name in names if frozen is None or name in tuned]
    best = _best(names, rivals, pairs.differences[:, ahead] / pairs.unit, ahead)
    heads = [answer for answer in answers if answer.name not in BASELINES]
    return Comparisons(
        reference=reference,
        best=names[best],
        pairs=pairs,
        chosen=chosen_score(heads, task, seed),
        frozen=frozen,
    )


def _best(names: Sequence[str], rivals: Collection[str], leads: Tensor, home: int) -> int:
    """The head among the rivals that leads most; the one at home where none leads it."""
    heads = [n for n, name in enumerate(names) if name in rivals and name not in BASELINES]
    best = max(heads, key=lambda number: float(leads[number]), default=home)
    return best if leads[best] > SAME else home


def _test_pairs(
    answers: Sequence[Answers],
    task: EvaluationTask,
    tuned: Collection[str],
    home: int,
    seed: int,
) -> PairTests:
    for one in answers[1:]:
        if not all(map(torch.equal, one.rows, answers[0].rows)):
            raise ValueError(f"{one.name} and {answers[0].name} tested different rows")
    rows, seeds = answers[0].rows, len(answers[0].rows)
    by_seed = torch.stack(
        [by_text(parts(cell, task), cell, task).sum(dim=1) for cell in answers], dim=1
    )  # (s, k)
    scores = by_seed.mean(dim=0)
    each = torch.stack(
        [by_text(evidence(cell, task), cell, task) for cell in answers], dim=2
    )  # (s, g, k)
    by_group = each.mean(dim=0)
    tested = torch.cat(rows)
    groups = len(task.groups[tested].unique())
    texts = groups if task.texts is None else len(task.texts[tested].unique())
    unit = (float(scores.abs().mean()) or 1.0) if task.score.scale == "error" else 1.0
    # What a difference varies by through the tested texts if nothing differed, and what these alone
    # make it vary by from seed to seed, (k, k) each.
    of_rows, of_each = _squares(by_group), sum(map(_squares, each), torch.zeros(()))
    within = ((of_each - seeds * of_rows) / max(seeds - 1, 1)).clamp_min(0)
    is_tuned = torch.tensor([cell.name in tuned for cell in answers])
    # Luck is in units of half of that; where some cells are tuned it is the variance of a score.
    if 0 < int(is_tuned.sum()) < len(answers):
        within, luck = torch.full_like(within, 2.0), _luck_by_kind(each, by_seed, is_tuned, unit)
    else:
        luck = _luck(each, by_seed, unit)
    variances = of_rows + 2 * (unit / texts) ** 2
    variances = variances + within * (luck.usual[:, None] + luck.usual) / 2 / seeds
    varied = by_group[by_group.amax(dim=1) - by_group.amin(dim=1) > 1e-12]  # where cells differ
    scale = groups / unit
    by_chance = _draw_chance(
        (varied * scale).float(),
        luck.atoms.float(),
        (within / 2).sqrt().float() * scale,
        variances.sqrt().float() * scale,
        home,
        seeds,
        seed,
    )
    return PairTests(
        names=tuple(cell.name for cell in answers),
        differences=scores[:, None] - scores,
        variances=variances,
        is_random=tuple(cell.is_random for cell in answers),
        by_chance=torch.cat(list(by_chance), dim=1).sort(dim=1).values,
        groups=groups,
        seeds=seeds,
        unit=unit,
        most=task.score.high - task.score.low,
    )


def _luck(each: Tensor, by_seed: Tensor, unit: float) -> SeedVariance:
    """The luck of every cell: scores (s, k), and each text's parts (s, g, k), about all cells'."""
    own, scattered = each - each.mean(dim=2, keepdim=True), by_seed - by_seed.mean(1, keepdim=True)
    return seed_variance(*scatter(own, scattered), len(each), unit)


def _luck_by_kind(each: Tensor, by_seed: Tensor, is_tuned: Tensor, unit: float) -> SeedVariance:
    """The same of tuned cells and of the others, each kind by itself; variances of the scores.

    All are taken about the mean of the frozen cells, which hardly scatters: about their own mean
    a single tuned cell would have no luck, and what all tuned ones have in common would be none.
    A frozen cell is taken about the mean of the others of its kind.
    """
    frozen = ~is_tuned
    others = int(frozen.sum()) / max(int(frozen.sum()) - 1, 1)
    factor = torch.where(is_tuned, 1.0, others)  # from the mean of all to that of the others
    own = (each - each[:, :, frozen].mean(dim=2, keepdim=True)) * factor
    scattered = (by_seed - by_seed[:, frozen].mean(dim=1, keepdim=True)) * factor
    between, within = scatter(own, scattered)
    usual, atoms = torch.zeros_like(within), torch.zeros(len(within), ATOMS).double()
    for kind in (frozen, is_tuned):
        found = seed_variance(between[kind], within[kind], len(each), unit)
        usual[kind] = found.usual * within[kind]
        atoms[kind] = found.atoms * within[kind][:, None]
    return SeedVariance(usual=usual, atoms=atoms)


def _squares(parts: Tensor) -> Tensor:
    """The squared differences of any two cells, summed: (..., m, k) to (..., k, k)."""
    products = parts.transpose(-1, -2) @ parts
    own = products.diagonal(dim1=-2, dim2=-1)
    return (own[..., :, None] + own[..., None, :] - 2 * products).clamp_min(0)


def _draw_chance(
    parts: Tensor, atoms: Tensor, spread: Tensor, errors: Tensor, home: int, seeds: int, seed: int
) -> Iterator[Tensor]:
    """Draw the largest |statistic| by chance, (2, b): of the pairs with one cell, and of all.

    Args:
        parts: (g, k), each group's part of the score of every cell.
        atoms: (k, a), equally likely variances of a cell's luck, in units of `spread` squared.
        spread: (k, k), what the luck of a cell is a share of, for each pair.
        errors: (k, k), the standard error of each difference.
        home: The cell of the first family.
        seeds: Over how many trainings luck averages out.
    """
    rng = torch.Generator().manual_seed(seed)
    groups, cells = parts.shape
    for start in range(0, DRAWS, DRAWS_AT_ONCE):
        draws = min(DRAWS_AT_ONCE, DRAWS - start)
        # Were two heads alike, a text's difference between them would as well have the other sign.
        # One sign a text and draw for all heads at once, (b, g) @ (g, k): so the k² differences of
        # a draw hang together as they do in truth, which is what makes max-T sharper than
        # Bonferroni, and k² statistics cost the product of k sums.
        signs = torch.randint(2, (draws, groups), generator=rng, dtype=torch.int8).float() * 2 - 1
        by_rows = signs @ parts  # (b, k)
        # New luck of training for every head: a spread out of those that are believed of it, since
        # a few seeds do not tell it, times a normal number; over the seeds it averages out.
        which = torch.randint(atoms.shape[1], (cells, draws), generator=rng)
        noise = torch.randn(draws, cells, generator=rng) / seeds**0.5
        lucky = atoms.gather(1, which).T.sqrt() * noise  # (b, k)
        shifts = by_rows[:, :, None] - by_rows[:, None]  # (b, k, k): every head less every other
        shifts = shifts + spread * (lucky[:, :, None] - lucky[:, None])
        statistics = shifts.abs() / errors
        # The largest by chance, among the pairs with the reference and among all: who beats these
        # in 95 % of draws is different whoever was looked at first.
        yield torch.stack([statistics[:, :, home].amax(dim=1), statistics.amax(dim=(1, 2))])
