"""Rank recipes over several data sets, each one observation, and test which differ.

Legend: n data sets, k recipes, m pairs of recipes.
"""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from itertools import combinations
from math import ceil, factorial, inf, log2, prod, sqrt
from typing import TYPE_CHECKING, Any, Literal

from heads import display, plugins
from heads.errors import DataError, LimitError

if TYPE_CHECKING:
    from numpy.typing import NDArray
    from pandas import DataFrame
    from plotly.graph_objects import Figure

LEVEL = 0.05
EXACT = 13  # data sets, up to which signs are enumerated where differences are 0 or alike
MOST = 60  # recipes
DIGITS = 12  # of scores: what rounding makes of equal ones is no difference
Groups = Literal["wilcoxon", "nemenyi"]
TESTS = {
    "wilcoxon": "Wilcoxon's signed-rank test with Holm's correction",
    "nemenyi": "Nemenyi's test",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Friedman:
    """Friedman's test of whether the recipes differ at all."""

    chi_squared: float  # Friedman's statistic, corrected for ties
    f: float  # Iman and Davenport's statistic of it; inf where all data sets agree
    # the chance of such an `f` if no recipes differ, from F with k - 1 and (k - 1)(n - 1) degrees
    # of freedom; where all data sets agree, the chance that they do
    p: float
    # Friedman's statistic as Demšar has it, without a correction for ties
    chi_squared_untied: float
    f_untied: float  # Iman and Davenport's statistic of that

    def describe(self, recipes: int, data_sets: int) -> str:
        """Say whether the recipes differ at all, with the numbers."""
        degrees = f"F({recipes - 1}, {(recipes - 1) * (data_sets - 1)})"
        statistic = "all data sets agree" if self.f == inf else f"{degrees} = {self.f:.2f}"
        does = "do" if self.p <= LEVEL else "are not shown to"
        p = "p < 0.0001" if self.p < 1e-4 else f"p = {self.p:.2g}"
        return f"The recipes {does} differ (Friedman, Iman and Davenport: {statistic}, {p})."


@dataclass(frozen=True, slots=True, kw_only=True)
class RankedPair:
    """Two recipes over all data sets."""

    one: str  # the recipe of the better average rank
    other: str  # the other
    wins: int  # the number of data sets on which the first scores higher
    losses: int  # the number on which it scores lower; on all others both score the same
    rank_difference: float  # by how much its average rank is better
    p: float | None  # of Wilcoxon's signed-rank test, two-sided; None where scores have units
    p_holm: float | None  # the p with Holm's correction; None likewise
    differs: bool  # whether they differ significantly, by the test of the groups


@dataclass(frozen=True, slots=True, kw_only=True)
class CriticalDifferences(display.Displayed):
    """Recipes ranked over several data sets."""

    recipes: tuple[str, ...]  # by average rank, the best first
    ranks: tuple[float, ...]  # from 1, the best; equal scores share a rank
    data: tuple[str, ...]  # the names of the data sets
    scores: tuple[tuple[float, ...], ...]  # by data set, in the order of `recipes`
    friedman: Friedman | None  # None of two recipes
    critical_difference: float  # the least significant one of average ranks, by Nemenyi's test
    groups: Groups  # the test of the groups
    pairs: tuple[RankedPair, ...]
    # maximal groups within which no two recipes differ significantly, the best first
    cliques: tuple[tuple[str, ...], ...]
    needed: int  # the least number of data sets at which that test can find any difference
    left_out: tuple[str, ...] = ()  # recipes that some data set lacks
    notes: tuple[str, ...] = ()

    @property
    def verdict(self) -> str:
        """The result in a sentence or two."""
        best, rank = self.recipes[0], self.ranks[0]
        count = sum(pair.differs for pair in self.pairs)
        where = f"Over {len(self.data)} data sets {best} has the best average rank, {rank:.2f}"
        if not count:
            few = len(self.data) < self.needed
            why = f"; with fewer than {self.needed} data sets none can be" if few else ""
            return f"{where}; no two recipes are significantly different{why}."
        alike = [p.other for p in self.pairs if p.one == best and not p.differs]
        if not alike:
            return f"{where}, and is significantly different from all others."
        others = f"{alike[0]} is" if len(alike) == 1 else f"{len(alike)} others are"
        pairs = f"{count} of {len(self.pairs)} pairs of recipes are"
        return f"{where}; {others} not significantly different from it. {pairs}."

    def to_pandas(self, of: Literal["ranks", "pairs", "scores"] = "ranks") -> "DataFrame":
        """Return a row for each recipe (ranks), pair of recipes, or data set (scores)."""
        if of == "pairs":
            return display.data_frame(map(asdict, self.pairs))
        if of == "scores":
            return display.data_frame(
                {"data": name} | dict(zip(self.recipes, row, strict=True))
                for name, row in zip(self.data, self.scores, strict=True)
            )
        if of != "ranks":
            raise DataError(f"There is no '{of}'.", "There are: ranks, pairs, scores.")
        letters = self.letters
        return display.data_frame(
            {"recipe": name, "rank": rank, "groups": letters[name]}
            for name, rank in zip(self.recipes, self.ranks, strict=True)
        )

    @property
    def letters(self) -> dict[str, str]:
        """The letters of the groups of each recipe: those that share one do not differ."""
        letters = dict.fromkeys(self.recipes, "")
        for at, clique in enumerate(self.cliques):
            letter = chr(ord("a") + at) if at < 26 else f"[{at + 1}]"
            letters |= {name: letters[name] + letter for name in clique}
        return letters

    def plot(self) -> "Figure":
        """Return the diagram of critical differences as a figure of Plotly."""
        from heads.interfaces.result import build_plotly_figure

        return build_plotly_figure(plugins.load("heads.extras.ranks.chart:draw_ranks")(self))

    @property
    def key(self) -> str:
        """The legend of the groups, in two sentences."""
        return (
            f"Average ranks, 1 is the best. Recipes of a group are not significantly different by "
            f"{TESTS[self.groups]} (5 %). CD, the critical difference of Nemenyi's test: "
            f"{self.critical_difference:.2f}."
        )

    def describe(self) -> display.Description:
        """Return what shell and notebook show: the ranks, and the pairs that differ."""
        letters = self.letters
        ranked = display.Table(
            headers=("", "average rank", "groups", *self.data),
            rows=tuple(
                (name, f"{rank:.2f}", letters[name], *(f"{row[at]:.3f}" for row in self.scores))
                for at, (name, rank) in enumerate(zip(self.recipes, self.ranks, strict=True))
            ),
            note=self.key,
        )
        notes = [self.friedman.describe(len(self.recipes), len(self.data))] if self.friedman else []
        if self.left_out:
            notes.append(f"Left out, since some data set lacks them: {', '.join(self.left_out)}.")
        pairs = [pair for pair in self.pairs if pair.differs]
        differing = display.Table(
            headers=("better", "than", "on data sets", "p (Holm)"),
            rows=tuple(
                (pair.one, pair.other, f"{pair.wins} of {len(self.data)}",
                 "" if pair.p_holm is None else f"{pair.p_holm:.2g}")
                for pair in pairs
            ),
            title="Significantly different:",
        )  # fmt: skip
        blocks = (ranked, *notes, *self.notes, *[differing] * bool(pairs))
        return display.Description(title=self.verdict, blocks=blocks)

    def as_json(self) -> dict[str, Any]:
        """Return plain values: the answer of `heads ranks A B … --json`."""
        values = asdict(self)
        if self.friedman:  # JSON has no infinity
            test = values["friedman"].items()
            values["friedman"] = {name: None if value == inf else value for name, value in test}
        return values | {"verdict": self.verdict, "level": LEVEL}


def critical_differences(
    scores: Mapping[str, Mapping[str, float]],
    *,
    groups: Groups = "wilcoxon",
    has_units: bool = False,
    notes: Sequence[str] = (),
) -> CriticalDifferences:
    """Rank recipes over data sets.

    Wilcoxon's test compares two recipes alone; Nemenyi's, by ranks among all recipes.

    Args:
        scores: For each data set the score of each recipe; more is better.
        has_units: Whether scores are errors in units of the data, whose differences cannot be
            compared: then there is no Wilcoxon's test, and groups are Nemenyi's.

    Source: Demšar 2006 (average ranks, Friedman, Iman and Davenport, Nemenyi, the diagram);
    Benavoli, Corani and Mangili 2016 (Wilcoxon and Holm in the place of Nemenyi).

    Raises:
        DataError: There are not two data sets and two common recipes, or a score is no number.
        LimitError: There are more recipes than a diagram has room for.
    """
    import numpy as np
    from scipy.stats import rankdata

    names, left_out = _partition(scores)
    table = np.array([[float(own[name]) for name in names] for own in scores.values()])
    table = table.round(DIGITS)
    if not np.isfinite(table).all():
        raise DataError("A score is not a finite number.", "Leave that data set out.")
    ranks = rankdata(-table, axis=1)
    means = ranks.mean(axis=0)
    order = sorted(range(len(names)), key=lambda at: (float(means[at]), names[at]))
    table, ranks, means = table[:, order], ranks[:, order], means[order]
    names = [names[at] for at in order]
    if has_units and groups == "wilcoxon":
        groups = "nemenyi"
        notes = [*notes, UNITS]
    bar = critical_difference(len(names), len(table))
    pairs = _compare(
        names, table, means, None if groups == "wilcoxon" else bar, has_units=has_units
    )
    return CriticalDifferences(
        recipes=tuple(names),
        ranks=tuple(means.tolist()),
        data=tuple(scores),
        scores=tuple(map(tuple, table.tolist())),
        friedman=_friedman(ranks) if len(names) > 2 else None,
        critical_difference=bar,
        groups=groups,
        pairs=pairs,
        cliques=_cliques(names, pairs),
        needed=needed(len(names), groups),
        left_out=left_out,
        notes=tuple(notes),
    )


UNITS = (
    "Scores are errors in the units of each data set, which cannot be held against each other: "
    "recipes are told apart by their ranks alone (Nemenyi)."
)


def _partition(scores: Mapping[str, Mapping[str, float]]) -> tuple[list[str], tuple[str, ...]]:
    """Return the recipes that all data sets have, and those that some lack."""
    if len(scores) < 2:
        what = "Ranks over data sets need at least two of them."
        raise DataError(what, "Name runs on different data.")
    known = list(dict.fromkeys(name for own in scores.values() for name in own))
    common = [name for name in known if all(name in own for own in scores.values())]
    if len(common) < 2:
        many = "no recipe is" if not common else f"only {common[0]} is"
        what = f"Ranks need two recipes that all {len(scores)} data sets have; {many} in all."
        raise DataError(what, "Train the same recipes on each: heads train DATA -r … -r ….")
    if len(common) > MOST:
        what = f"{len(common)} recipes are more than the {MOST} that are ranked at once."
        raise LimitError(what, "Choose some of them.")
    return common, tuple(name for name in known if name not in common)


# --- The tests.


def critical_difference(recipes: int, data_sets: int) -> float:
    """Return the least significant difference of two average ranks by Nemenyi's test.

    >>> round(critical_difference(4, 14), 2)
    1.25

    Source: Demšar 2006, section 3.2.2: q √(k (k + 1) / 6 n).
    """
    from scipy.stats import studentized_range

    q = float(studentized_range.ppf(1 - LEVEL, recipes, inf)) / sqrt(2)
    return q * sqrt(recipes * (recipes + 1) / (6 * data_sets))


def needed(recipes: int, groups: Groups = "wilcoxon") -> int:
    """Return the least number of data sets at which two of so many recipes can differ.

    The least p of Wilcoxon's test is 2 / 2ⁿ, and Holm's correction compares it with 0.05 / m. By
    Nemenyi's test, two average ranks are at most k - 1 apart.

    >>> needed(2), needed(4), needed(16), needed(4, "nemenyi")
    (6, 8, 13, 3)
    """
    if groups == "wilcoxon":
        pairs = recipes * (recipes - 1) // 2
        return ceil(1 + log2(pairs / LEVEL))
    return max(2, ceil((critical_difference(recipes, 1) / (recipes - 1)) ** 2))


def _friedman(ranks: "NDArray[Any]") -> Friedman:
    """Return Friedman's test of ranks (n, k), and Iman and Davenport's."""
    import numpy as np
    from scipy.stats import f as f_distribution
    from scipy.stats import friedmanchisquare

    n, k = ranks.shape
    untied = 12 * n / (k * (k + 1)) * float((ranks.mean(axis=0) ** 2).sum() - k * (k + 1) ** 2 / 4)
    if all(np.ptp(row) == 0 for row in ranks):  # all recipes score the same everywhere
        return Friedman(chi_squared=0.0, f=0.0, p=1.0, chi_squared_untied=0.0, f_untied=0.0)
    tied = float(friedmanchisquare(*ranks.T).statistic)
    statistic = _iman_davenport(tied, n, k)
    if statistic == inf:  # the chance that other data sets rank recipes in the order of the first
        _, ties = np.unique(ranks[0], return_counts=True)
        p = (prod(map(factorial, ties.tolist())) / factorial(k)) ** (n - 1)
    else:
        p = float(f_distribution.sf(statistic, k - 1, (k - 1) * (n - 1)))
    f = _iman_davenport(untied, n, k)
    return Friedman(chi_squared=tied, f=statistic, p=p, chi_squared_untied=untied, f_untied=f)


def _iman_davenport(chi_squared: float, n: int, k: int) -> float:
    left = n * (k - 1) - chi_squared
    return (n - 1) * chi_squared / left if left > 1e-9 else inf


def _compare(
    names: Sequence[str],
    table: "NDArray[Any]",
    ranks: "NDArray[Any]",
    bar: float | None,
    *,
    has_units: bool,
) -> tuple[RankedPair, ...]:
    """Compare all pairs by Wilcoxon and Holm, or where there is a bar by Nemenyi."""
    places = list(combinations(range(len(names)), 2))
    raw: list[Any] = [None] * len(places)
    holm: list[Any] = raw
    if not has_units:
        raw = [_wilcoxon((table[:, a] - table[:, b]).round(DIGITS)) for a, b in places]
        holm = _holm(raw)
    gaps = [float(ranks[b] - ranks[a]) for a, b in places]
    return tuple(
        RankedPair(
            one=names[a],
            other=names[b],
            wins=int((table[:, a] > table[:, b]).sum()),
            losses=int((table[:, a] < table[:, b]).sum()),
            rank_difference=gap,
            p=p,
            p_holm=corrected,
            differs=gap >= bar if bar is not None else corrected is not None and corrected <= LEVEL,
        )
        for (a, b), gap, p, corrected in zip(places, gaps, raw, holm, strict=True)
    )


def _wilcoxon(differences: "NDArray[Any]") -> float:
    """Return the two-sided p of Wilcoxon's test; exact where known or few signs are enumerated.

    Differences of 0 are ranked and then left out (Pratt).
    """
    import numpy as np
    from scipy.stats import PermutationMethod, wilcoxon

    sizes = np.abs(differences)
    if not sizes.any():
        return 1.0
    is_plain = bool(sizes.all()) and len(np.unique(sizes)) == len(sizes)
    if is_plain and len(sizes) <= 50:
        method = "exact"
    elif len(sizes) <= EXACT:
        method = PermutationMethod(n_resamples=2**EXACT)  # all of them
    else:
        method = "asymptotic"
    test = wilcoxon(differences, zero_method="pratt", method=method)  # pyright: ignore
    return min(1.0, float(test.pvalue))  # pyright: ignore[reportAttributeAccessIssue]


def _holm(p: Sequence[float]) -> list[float]:
    """Return several p with Holm's correction, in their order.

    >>> [round(one, 3) for one in _holm([0.01, 0.04, 0.03])]
    [0.03, 0.06, 0.06]
    """
    import numpy as np

    order, corrected = np.argsort(p), np.empty(len(p))
    scaled = np.sort(p) * np.arange(len(p), 0, -1)
    corrected[order] = np.maximum.accumulate(scaled).clip(max=1.0)
    return corrected.tolist()


def _cliques(names: Sequence[str], pairs: Sequence[RankedPair]) -> tuple[tuple[str, ...], ...]:
    """Return the largest groups of two or more within which no two differ, the best first.

    Source: Piepho 2004 (insert and absorb).
    """
    groups = {frozenset(range(len(names)))}
    for pair in filter(lambda pair: pair.differs, pairs):
        ends = {names.index(pair.one), names.index(pair.other)}
        for group in [group for group in groups if ends <= group]:
            groups.remove(group)
            parts = [group - {end} for end in ends]
            groups |= {part for part in parts if not any(part <= other for other in groups)}
    ranked = sorted(sorted(group) for group in groups if len(group) > 1)
    return tuple(tuple(names[at] for at in group) for group in ranked)
