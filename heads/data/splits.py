"""Which rows are learned from, which choose the settings, and which are scored: for every seed.

Every seed draws its own development rows from the rows that it learns from, so that the luck of
choosing settings is seen from seed to seed like all other luck (Bouthillier et al. 2021, arXiv
2103.03098). Without a test set the rows are split into folds, and every row is scored once a
repetition, by heads that learned from the other folds.

A head that is fitted by itself learns from all rows, and none is scored.

Rows of one group (of one text, of one document) stand on one side only, unless the data
themselves say where rows stand: then it is told of.
"""

import random
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from heads.errors import DataError
from heads.settings import SEEDS, ExperimentConfig

FEWEST_DEVELOPMENT = 2
# Rows on which settings of solved heads are tried, and by which all are judged. Of 3,000 and 5,000
# rows to try them on, neither chose better on banking77 (14 linear heads, 0.9204 and 0.9202).
MOST_SEARCH, MOST_DEVELOPMENT = 3_000, 5_000
SELECTION_FOLDS = 5
HINT = "Add rows, or rows of the missing classes."
TEST_SET, FOLDS, PER_CLASS, ALL = "test set", "folds", "per class", "all"


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Splits:
    """Row numbers of a corpus: one tensor a seed, or a fold of a repetition.

    Attributes:
        kind: "test set" (given), "folds" (without one), "per class" (few rows, drawn often) or
            "all" (every row is learned from).
        search: The rows of `train` that are not development rows, at most a few thousand: for
            settings that are tried one by one.
        development: Rows on which the seed chooses its settings, and when it stops.
        train: The rows that its final head learns from, both of those included.
        test: The rows that it is scored on; none, where all are learned from.
        repetition: For each fold the number of its repetition; nothing where there are none.
        repeats: Other rows of `train` with a text of a development row: only the data make such.
        are_given: Whether the data say which rows are development rows.
        groups: (n,), the number of each row's group; None where every row is its own.
        folds: For each seed the fold of each row of `train`, to choose settings by; nothing where
            development rows are given or so many that settings are chosen on them alone.
        whole: The splits of which these are a part, see `only`.
    """

    kind: str
    search: tuple[Tensor, ...]
    development: tuple[Tensor, ...]
    train: tuple[Tensor, ...]
    test: tuple[Tensor, ...]
    repetition: tuple[int, ...] = ()
    repeats: tuple[Tensor, ...] = ()
    are_given: bool = False
    groups: Tensor | None = None
    folds: tuple[Tensor, ...] = ()
    whole: "Splits | None" = None

    @property
    def is_fixed(self) -> bool:
        """Whether every seed learns from the same rows."""
        return self.kind == TEST_SET

    @property
    def learned(self) -> Tensor:
        """The rows that any seed learns from: all, where there are folds.

        The weights of classes and the span of numbers are theirs, so that all seeds learn the same
        problem; of the first fold's rows alone, a class whose rows all are one group might be none.
        """
        return torch.cat((self.whole or self).train).unique()

    def only(self, seed: int) -> "Splits":
        """Return one of the splits by itself, which learns what it would have learned among all."""
        each = ("search", "development", "train", "test", "repetition", "repeats", "folds")
        own = {name: getattr(self, name)[seed : seed + 1] for name in each}
        return replace(self, **own, whole=self.whole or self)

    def selection(self, seed: int) -> tuple[Tensor, Tensor]:
        """Return the rows (n,) that settings of solved heads are chosen by, and their folds (n,).

        A head that has learned from the rows of all other folds answers those of a fold. Fold -1 is
        never answered.
        """
        if self.folds and len(self.folds[seed]):
            return self.train[seed], self.folds[seed]
        search, development = self.search[seed], self.development[seed]
        folds = torch.cat([torch.full_like(search, -1), torch.zeros_like(development)])
        return torch.cat([search, development]), folds

    def __len__(self) -> int:
        """Return how many seeds, or folds of all repetitions, there are."""
        return len(self.train)

    def fitted(self, seed: int) -> Tensor:
        """Return the rows that a seed learns from while it chooses: no development row's text."""
        others = [self.development[seed], *self.repeats[seed : seed + 1]]
        return without(self.train[seed], torch.cat(others))


def without(rows: Tensor, others: Tensor) -> Tensor:
    """Return some rows less others; all of them, where nothing else is left."""
    left = rows[~torch.isin(rows, others)]
    return left if len(left) else rows


@dataclass(frozen=True, slots=True, kw_only=True)
class _Part:
    """What one seed learns from, chooses on and is scored on."""

    learned: list[int]
    development: list[int]
    scored: list[int]
    repetition: int = 0


def split(
    targets: Tensor, groups: Tensor, parts: Sequence[str], config: ExperimentConfig
) -> Splits:
    """Split the rows for every seed of a run.

    Args:
        targets: (n,), the class of each row.
        groups: (n,), the number of each row's group: rows of one group stay together.
        parts: For each row "train", "validation" or "test", where the data say so; or nothing.

    Raises:
        DataError: There are too few rows to learn from and to score on.
    """
    rows = _Rows(targets, groups)
    given = {name: [n for n, part in enumerate(parts) if part == name] for name in set(parts)}
    everything = list(range(len(targets)))
    test, rest = given.get("test", []), [n for n in everything if not parts or parts[n] != "test"]
    chosen = given.get("validation", [])
    if config.per_class:
        if not test:
            test, rest = rows.drawn(everything, config.held_out, config.seed)
        kind, parted = PER_CLASS, _per_class(rows, rest, test, config)
    elif test:
        kind, parted = TEST_SET, _on_a_test_set(rows, rest, chosen, test, config)
    else:
        kind, parted = FOLDS, _folds(rows, rest, chosen, config)
    are_given = bool(chosen) and kind != PER_CLASS
    return _checked(_splits(kind, rows, parted, config, are_given), targets, groups)


def every_row(targets: Tensor, groups: Tensor, config: ExperimentConfig) -> Splits:
    """Return the split of one seed that learns from all rows, and is scored on none.

    Its development rows are those of the first seed where a test set stands beside these rows.
    """
    rows, everything = _Rows(targets, groups), list(range(len(targets)))
    parted = _on_a_test_set(rows, everything, [], [], replace(config, seeds=1))
    return _checked(_splits(ALL, rows, parted, config, are_given=False), targets, groups)


def on_fewer_rows(
    splits: Splits,
    rows: Sequence[Tensor],
    targets: Tensor,
    groups: Tensor,
    config: ExperimentConfig,
) -> Splits:
    """Return the same tests for seeds that learn from `rows` only; targets, groups as of `split`.

    Development rows are drawn anew; where the data say which they are, those left are taken.
    """
    drawn, found = _Rows(targets, groups), []
    for number, (learned, scored) in enumerate(zip(rows, splits.test, strict=True)):
        own = learned.tolist()
        given = splits.development[number] if splits.are_given else learned[:0]
        development = given[torch.isin(given, learned)].tolist()
        if len(development) < FEWEST_DEVELOPMENT:
            development = drawn.development(own, config, config.seed + number)
        found.append(_Part(learned=own, development=development, scored=scored.tolist()))
    fewer = _splits(splits.kind, drawn, found, config, splits.are_given)
    return replace(fewer, test=splits.test, repetition=splits.repetition)


def _on_a_test_set(
    rows: "_Rows", rest: list[int], chosen: list[int], test: list[int], config: ExperimentConfig
) -> list[_Part]:
    """Let every seed learn from all rows, and draw development rows where none are given."""
    return [
        _Part(
            learned=rest,
            development=chosen or rows.development(rest, config, config.seed + number),
            scored=test,
        )
        for number in range(config.seeds or SEEDS)
    ]


def _folds(
    rows: "_Rows", rest: list[int], chosen: list[int], config: ExperimentConfig
) -> list[_Part]:
    """Every row but given development rows is scored once a repetition."""
    scored_some_time = rows.without(rest, chosen)
    found = []
    for repetition in range(config.repetitions):
        for fold in rows.folds(scored_some_time, config.folds, config.seed + repetition):
            learned = rows.without(rest, fold)
            seed = config.seed + 1 + len(found)
            drawn = chosen or rows.development(learned, config, seed)
            part = _Part(learned=learned, development=drawn, scored=fold, repetition=repetition)
            found.append(part)
    return found


def _per_class(
    rows: "_Rows", rest: list[int], test: list[int], config: ExperimentConfig
) -> list[_Part]:
    """Return a few rows of every class, drawn anew for each seed."""
    found = []
    for number in range(config.seeds or SEEDS):
        learned = rows.few(rest, config.per_class, config.seed + 1 + number)
        development = rows.drawn(learned, config.development, config.seed + number)[0]
        if len(development) < FEWEST_DEVELOPMENT:
            what = f"{config.per_class} of every class leaves no rows to choose settings on."
            raise DataError(what, "Take at least 2 of every class.")
        found.append(_Part(learned=learned, development=development, scored=test))
    return found


class _Rows:
    """Rows by class and group, to draw from in proportion."""

    def __init__(self, targets: Tensor, groups: Tensor) -> None:
        self.targets = targets.tolist()
        self.groups = groups.tolist()

    def drawn(self, rows: Sequence[int], share: float, seed: int) -> tuple[list[int], list[int]]:
        """About that share of the rows of every class, and the rest; a group goes whole."""
        taken: set[int] = set()
        for groups in self._by_class(rows, seed).values():
            wanted, had = share * sum(map(len, groups)), 0
            # A class of a few rows still has one to score where it has two.
            least = 1 if len(groups) > 1 else 0
            if least and len(groups[0]) / 2 > wanted:  # not one that has most of the class
                groups = sorted(groups, key=len)
            for place, group in enumerate(groups):
                rest = share < 1 and place == len(groups) - 1  # no class is taken whole
                if rest or (had + len(group) / 2 > wanted and place >= least):
                    break
                taken.update(group)
                had += len(group)
        return sorted(taken), [row for row in rows if row not in taken]

    def development(self, rows: Sequence[int], config: ExperimentConfig, seed: int) -> list[int]:
        """Return the share of development rows, less where that would be many."""
        share = min(config.development, MOST_DEVELOPMENT / max(1, len(rows)))
        return self.drawn(rows, share, seed)[0]

    def folds(self, rows: Sequence[int], count: int, seed: int) -> list[list[int]]:
        """Return the rows in parts of like size and like classes; a group goes whole.

        As scikit-learn's StratifiedGroupKFold does it, which takes seconds for 10,000 groups: of
        each class the largest groups first, each into the part that has fewest of the class.
        """
        if any(len({self.targets[row] for row in group}) > 1 for group in self._groups(rows, seed)):
            return self._mixed_folds(rows, count, seed)
        parts: list[list[int]] = [[] for _ in range(count)]
        for groups in self._by_class(rows, seed).values():
            of_class = [0] * count
            for group in sorted(groups, key=len, reverse=True):  # stable: equals as shuffled
                own = min(range(count), key=lambda n: (of_class[n], len(parts[n]), n))
                parts[own] += group
                of_class[own] += len(group)
        return [sorted(part) for part in parts if part]

    def fold_numbers(self, rows: Sequence[int], count: int, seed: int) -> list[int]:
        """Return the number of each row's fold; nothing where there is one group only."""
        folds = self.folds(rows, count, seed)
        number = {row: fold for fold, part in enumerate(folds) for row in part}
        return [number[row] for row in rows] if len(folds) > 1 else []

    def _mixed_folds(self, rows: Sequence[int], count: int, seed: int) -> list[list[int]]:
        """Return such folds where groups have rows of several classes.

        The groups of least even classes come first, each into the part where the shares of the
        classes then vary least from part to part. Adding d to the shares s of a part changes the
        sum of all squared shares by 2 s·d + d·d, and their mean not by the part: the part with
        the smallest s·d it is.
        """
        classes = {target: at for at, target in enumerate(sorted({self.targets[r] for r in rows}))}
        groups = self._groups(rows, seed)
        adds = torch.zeros(len(groups), len(classes), dtype=torch.double)
        for place, group in enumerate(groups):
            for row in group:
                adds[place, classes[self.targets[row]]] += 1
        order = adds.std(dim=1, correction=0).argsort(descending=True, stable=True).tolist()
        adds /= adds.sum(dim=0)
        parts: list[list[int]] = [[] for _ in range(count)]
        shares = torch.zeros(count, len(classes), dtype=torch.double)
        for place in order:
            costs = (shares @ adds[place]).tolist()
            own = min(range(count), key=lambda n: (costs[n], len(parts[n]), n))
            parts[own] += groups[place]
            shares[own] += adds[place]
        return [sorted(part) for part in parts if part]

    def without(self, rows: Sequence[int], others: Sequence[int]) -> list[int]:
        """Return the rows whose group none of the others has."""
        groups = {self.groups[row] for row in others}
        return [row for row in rows if self.groups[row] not in groups]

    def few(self, rows: Sequence[int], count: int, seed: int) -> list[int]:
        """That many rows of every class, of different groups."""
        groups = self._by_class(rows, seed)
        return sorted(group[0] for found in groups.values() for group in found[:count])

    def _groups(self, rows: Sequence[int], seed: int) -> list[list[int]]:
        by_group: dict[int, list[int]] = defaultdict(list)
        for row in rows:
            by_group[self.groups[row]].append(row)
        groups = list(by_group.values())
        random.Random(seed).shuffle(groups)
        return groups

    def _by_class(self, rows: Sequence[int], seed: int) -> Mapping[int, list[list[int]]]:
        classes: dict[int, list[list[int]]] = defaultdict(list)
        for group in self._groups(rows, seed):
            classes[self.targets[group[0]]].append(group)
        return dict(sorted(classes.items()))


def _splits(
    kind: str, rows: _Rows, found: Sequence[_Part], config: ExperimentConfig, are_given: bool
) -> Splits:
    made: dict[int, Tensor] = {}  # seeds that share rows share what is made of them

    def tensor(numbers: list[int]) -> Tensor:
        return made.setdefault(id(numbers), torch.tensor(numbers, dtype=torch.long))

    search, repeats, folds = [], [], []
    for number, part in enumerate(found):
        tried = rows.without(part.learned, part.development)  # in splits of the data, less repeats
        repeats.append(sorted({*part.learned} - {*tried} - {*part.development}))
        share = min(1.0, MOST_SEARCH / max(1, len(tried)))
        search.append(rows.drawn(tried, share, config.seed + number)[0])
        some = [] if are_given or len(part.learned) > MOST_SEARCH else part.learned
        folds.append(rows.fold_numbers(some, SELECTION_FOLDS, config.seed + number))
    return Splits(
        kind=kind,
        search=tuple(map(tensor, search)),
        development=tuple(tensor(part.development) for part in found),
        train=tuple(tensor(part.learned) for part in found),
        test=tuple(tensor(part.scored) for part in found),
        repetition=tuple(part.repetition for part in found) if kind == FOLDS else (),
        repeats=tuple(map(tensor, repeats)) if any(repeats) else (),
        are_given=are_given,
        groups=torch.tensor(rows.groups),
        folds=tuple(map(tensor, folds)),
    )


def _checked(splits: Splits, targets: Tensor, groups: Tensor) -> Splits:
    is_scored = splits.kind != ALL
    uses = ", to choose on and to score" if is_scored else " and to choose on"
    for number, (train, test) in enumerate(zip(splits.train, splits.test, strict=True)):
        if len(splits.development[number]) < FEWEST_DEVELOPMENT or (is_scored and not len(test)):
            rows, texts = len(targets), len(groups.unique())
            told = f" with {texts} different texts" * (texts < rows)
            raise DataError(f"{rows} rows{told} are too few to learn from{uses}.", HINT)
        if min(len(targets[rows].unique()) for rows in (train, splits.search[number])) < 2:
            raise DataError("The rows to learn from have one answer only.", HINT)
    return splits
