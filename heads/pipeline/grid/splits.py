"""Which rows are learned from, which choose the settings, and which are scored: for every seed.

Rows of one text stand on one side only, unless the data themselves say where rows stand: then it
is told of. The development rows are drawn once and are never
scored. (Where splits are repeated, the rows on which settings are tried are some of the first
split's, and other splits score them: they take part in a choice, not in what is scored.)
"""

import random
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from heads.errors import DataError
from heads.settings import Contest

FEWEST_DEVELOPMENT = 2
# Rows on which settings are tried, and by which they are judged. Of 3,000 and 5,000 rows to try
# them on, neither chose better on banking77 (14 linear heads, 0.9204 and 0.9202 on average).
MOST_SEARCH, MOST_DEVELOPMENT = 3_000, 5_000
HINT = "Add rows, or rows of the missing classes."


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Splits:
    """Row numbers of a corpus.

    Attributes:
        kind: "test set" (given), "splits" (repeated) or "per class" (few rows, drawn often).
        search: Rows that are learned from while settings are chosen, at most a few thousand.
        development: Rows on which they are chosen.
        train: One tensor a seed: the rows that its final heads learn from, those two included.
        test: One tensor a seed: the rows that it is scored on.
    """

    kind: str
    search: Tensor
    development: Tensor
    train: tuple[Tensor, ...]
    test: tuple[Tensor, ...]

    @property
    def is_fixed(self) -> bool:
        """Whether every seed learns from the same rows."""
        return self.kind == "test set"


def split(targets: Tensor, groups: Tensor, parts: Sequence[str], contest: Contest) -> Splits:
    """Splits the rows for every seed of a contest.

    Args:
        targets: (n,), the class of each row.
        groups: (n,), the number of each row's text: rows of one text stay together.
        parts: For each row "train", "validation" or "test", where the data say so; or nothing.

    Raises:
        DataError: There are too few rows to learn from and to score on.
    """
    rows = _Rows(targets, groups)
    given = {name: [n for n, part in enumerate(parts) if part == name] for name in set(parts)}
    everything = list(range(len(targets)))
    test, rest = given.get("test", []), [n for n in everything if parts and parts[n] != "test"]
    if contest.per_class and not test:
        test, rest = rows.drawn(everything, contest.held_out, contest.seed)
    if contest.per_class:
        return _checked(_per_class(rows, rest, test, contest), targets, groups)
    development = given.get("validation", [])
    if test:
        train = [n for n in rest if parts[n] != "validation"]
        if not development:
            development, train = rows.drawn(train, _share(train, contest), contest.seed)
        both = sorted([*train, *development])
        pairs = [(test, both)] * contest.seeds
    else:
        others = rows.without(everything, development)
        if not development:
            development, others = rows.drawn(everything, _share(everything, contest), contest.seed)
        drawn = [
            rows.drawn(others, contest.held_out, contest.seed + 1 + n) for n in range(contest.seeds)
        ]
        train = drawn[0][1]
        pairs = [(scored, sorted([*learned, *development])) for scored, learned in drawn]
    tried = rows.without(train, development)  # in splits that the data make, a text may be in both
    search, _ = rows.drawn(tried, min(1.0, MOST_SEARCH / max(1, len(tried))), contest.seed)
    return _checked(
        _splits("test set" if test else "splits", search, development, pairs), targets, groups
    )


def _share(rows: Sequence[int], contest: Contest) -> float:
    """The share of development rows, less where that would be many."""
    return min(contest.development, MOST_DEVELOPMENT / max(1, len(rows)))


class _Rows:
    """Rows by class and text, to draw from in proportion."""

    def __init__(self, targets: Tensor, groups: Tensor) -> None:
        self.targets = targets.tolist()
        self.groups = groups.tolist()

    def drawn(self, rows: Sequence[int], share: float, seed: int) -> tuple[list[int], list[int]]:
        """About that share of the rows of every class, and the rest; a text goes whole."""
        taken: set[int] = set()
        for texts in self._by_class(rows, seed).values():
            wanted, had = share * sum(map(len, texts)), 0
            # A class of a few rows still has one to score where it has two.
            least = 1 if len(texts) > 1 else 0
            for place, text in enumerate(texts):
                rest = share < 1 and place == len(texts) - 1  # no class is taken whole
                if rest or (had + len(text) / 2 > wanted and place >= least):
                    break
                taken.update(text)
                had += len(text)
        return sorted(taken), [row for row in rows if row not in taken]

    def without(self, rows: Sequence[int], others: Sequence[int]) -> list[int]:
        """The rows whose text none of the others has."""
        texts = {self.groups[row] for row in others}
        return [row for row in rows if self.groups[row] not in texts]

    def few(self, rows: Sequence[int], count: int, seed: int) -> list[int]:
        """That many rows of every class, of different texts."""
        texts = self._by_class(rows, seed)
        return sorted(text[0] for found in texts.values() for text in found[:count])

    def _by_class(self, rows: Sequence[int], seed: int) -> Mapping[int, list[list[int]]]:
        by_text: dict[int, list[int]] = defaultdict(list)
        for row in rows:
            by_text[self.groups[row]].append(row)
        texts = list(by_text.values())
        random.Random(seed).shuffle(texts)
        classes: dict[int, list[list[int]]] = defaultdict(list)
        for text in texts:
            classes[self.targets[text[0]]].append(text)
        return dict(sorted(classes.items()))


def _per_class(rows: _Rows, rest: list[int], test: list[int], contest: Contest) -> Splits:
    """A few rows of every class, drawn anew for each seed; the first draw's choose settings."""
    draws = [
        rows.few(rest, contest.per_class, contest.seed + 1 + seed) for seed in range(contest.seeds)
    ]
    development, search = rows.drawn(draws[0], contest.development, contest.seed)
    if len(development) < FEWEST_DEVELOPMENT:
        what = f"{contest.per_class} of every class leaves no rows to choose settings on."
        raise DataError(what, "Take at least 2 of every class.")
    return _splits("per class", search, development, [(test, draw) for draw in draws])


def _splits(
    kind: str,
    search: list[int],
    development: list[int],
    pairs: Sequence[tuple[list[int], list[int]]],
) -> Splits:
    # Seeds that share their rows share the tensor, so that what is made of it is made once.
    made = {id(rows): torch.tensor(rows, dtype=torch.long) for pair in pairs for rows in pair}
    return Splits(
        kind=kind,
        search=torch.tensor(search, dtype=torch.long),
        development=torch.tensor(development, dtype=torch.long),
        test=tuple(made[id(rows)] for rows, _ in pairs),
        train=tuple(made[id(rows)] for _, rows in pairs),
    )


def _checked(splits: Splits, targets: Tensor, groups: Tensor) -> Splits:
    for train, test in zip(splits.train, splits.test, strict=True):
        if len(splits.development) < FEWEST_DEVELOPMENT or not len(test):
            rows, texts = len(targets), len(groups.unique())
            told = f" with {texts} different texts" * (texts < rows)
            what = f"{rows} rows{told} are too few to learn from, to choose on and to score."
            raise DataError(what, HINT)
        if min(len(targets[rows].unique()) for rows in (train, splits.search)) < 2:
            raise DataError("The rows to learn from have one answer only.", HINT)
    return splits
