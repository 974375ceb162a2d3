"""Which rows belong together, so that no split parts them and statistics count them once.

Rows belong together that share a text, in a pair whichever of the two it is, or that the data put
into one group (an author, a document). What is shared with a third row binds all three: groups are
connected components. Where that chains most of the data into one, the texts that tell least are let
go, and it is said what that costs.
"""

import heapq
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

from heads.data.text import fold

if TYPE_CHECKING:
    from torch import Tensor

FOLDS = 5  # parts of the data, each scored by heads that have learned from the others
# A group that is larger than one of these parts leaves no fair split.
LARGEST = 1 / FOLDS
FEWEST = FOLDS  # groups, where the data name them and no rows for scoring
_SMALL = 5  # rows that a group may always have, however few there are
_CAPS = (64, 32, 16, 8, 4, 3, 2)  # rows that a text may stand in and still hold them together


_ANY = 2**62


@dataclass(frozen=True, kw_only=True)  # no slots: what is worked out is remembered
class Grouping:
    """The group of every row, and what one should know of it.

    Attributes:
        numbers: For each row the number of its group, in the order in which groups first come.
        rule: By what rows were held together, where texts that are shared could not all do it;
            else "".
        swallowed: The share of the rows that shared texts alone would chain into one group; 0
            where they do not.
        leaked: The share of the rows of which a text also stands in a row of another part, where
            groups are dealt out into five parts.
    """

    numbers: tuple[int, ...]
    rule: str = ""
    swallowed: float = 0.0
    leaked: float = 0.0

    @cached_property
    def tensor(self) -> "Tensor":
        """(n,), the numbers as the measures and the splits take them."""
        import torch

        return torch.tensor(self.numbers, dtype=torch.long)

    @cached_property
    def count(self) -> int:
        """How many groups there are."""
        return max(self.numbers, default=-1) + 1

    @property
    def says(self) -> str:
        """What one should know of it, in a sentence or two; "" where there is nothing."""
        if not self.rule:
            return ""
        rest = (
            f"{100 * self.leaked:.0f} % of rows drawn for scoring then share a text with rows to "
            "learn from, and scores may be too good for texts that are new. A test file (--test) "
            "or a column of groups (--group) says better what belongs apart."
        )
        if not self.leaked:
            rest = "no row drawn for scoring shares a text with rows to learn from."
        return (
            f"Shared texts chain {100 * self.swallowed:.0f} % of the rows into one group, which no "
            f"split could part. So rows are held together by {self.rule}; {rest}"
        )


def grouping(
    texts: Sequence[str],
    pairs: Sequence[str] = (),
    groups: Sequence[str] = (),
    parts: Sequence[str] = (),
) -> Grouping:
    """Find out which rows belong together.

    Args:
        texts: One a row.
        pairs: The second text of each row; or nothing.
        groups: The group that the data put each row into, "" for none; or nothing.
        parts: Where the data say which rows are "test": what these share with others binds
            nothing, since they stand apart already.

    Returns:
        Groups of which none is larger than a fifth of the rows, if texts that are shared alone
        make it so; the data's own groups and rows that repeat each other are never parted.

    >>> grouping(["Yes", "no", " yes"]).numbers
    (0, 1, 0)
    >>> grouping(["a", "c", "d"], ["b", "a", "e"]).numbers, grouping("abc", groups="xyx").numbers
    ((0, 0, 1), (0, 1, 0))
    """
    apart = [part == "test" for part in parts] or [False] * len(texts)
    if not pairs and not any(groups):
        keys = list(zip(map(fold, texts), apart, strict=True))
        return Grouping(numbers=tuple(_numbered(keys)))
    graph = _Graph(texts, pairs, groups, apart)
    whole = graph.components(_ANY, _ANY)
    swallowed = _largest(whole)
    # Groups of the data, and rows that repeat each other, may be as large as they are.
    least = graph.components(1, 1)
    most = max(LARGEST * len(texts), _SMALL, _largest(least))
    if swallowed <= most:
        return Grouping(numbers=tuple(whole))
    tried = [(graph.leaked(least), least, graph.rule(1, 1))]
    for cap in (*_CAPS, 1):  # of first and second texts
        for first, second in ((cap, cap), (_ANY, cap), (cap, _ANY)) if pairs else ((cap, 1),):
            found = graph.components(first, second)
            if _largest(found) <= most:
                tried.append((graph.leaked(found), found, graph.rule(first, second)))
    leaked, found, rule = min(tried, key=lambda way: way[0])  # the first of equals
    share = swallowed / len(texts)
    return Grouping(numbers=tuple(found), rule=rule, swallowed=share, leaked=leaked)


def shared(texts: Sequence[str], pairs: Sequence[str], parts: Sequence[str]) -> list[int]:
    """Return rows for validation or testing of which a text also stands in a training row."""
    sides = [[fold(text) for text in side] for side in (texts, pairs) if side]
    known = {
        text for side in sides for text, part in zip(side, parts, strict=True) if part == "train"
    }
    rows = zip(parts, *sides, strict=True)
    return [
        at
        for at, (part, *held) in enumerate(rows)
        if part != "train" and not known.isdisjoint(held)
    ]


class _Graph:
    """Rows and what binds them: the group of the data, the whole row, and each of its texts."""

    def __init__(
        self,
        texts: Sequence[str],
        pairs: Sequence[str],
        groups: Sequence[str],
        apart: Sequence[bool],
    ) -> None:
        self.size = len(texts)
        self.has_groups = any(groups)
        first = [fold(text) for text in texts]
        second = [fold(text) for text in pairs]
        self.sides = [first, second] if pairs else [first]
        # A text is the same on either side; the texts of rows that stand apart are others.
        keys = _numbered(
            (text, far) for side in self.sides for text, far in zip(side, apart, strict=True)
        )
        self.keys = [keys[at : at + self.size] for at in range(0, len(keys), self.size)]
        # In how many rows each text stands; a row that pairs a text with itself is one.
        first, *others = map(np.asarray, self.keys)
        every = [first, *(other[other != first] for other in others)]
        self.often = np.bincount(np.concatenate(every))
        self.bonds: list[list[int]] = []
        if pairs:  # whichever text comes first
            self.bonds.append(_numbered(map(frozenset, zip(*self.keys, strict=True))))
        if self.has_groups:  # a row without one is a group of its own
            named = zip(groups, apart, strict=True)
            own = (key if key[0] else (row,) for row, key in enumerate(named))
            self.bonds.append(_numbered(own))

    def components(self, first: int, second: int) -> list[int]:
        """Return the number of each row's group, given the bonds and how rare texts that bind are.

        Args:
            first, second: In how many rows a first or a second text stands at most that binds them.
        """
        from scipy.sparse import coo_matrix
        from scipy.sparse.csgraph import connected_components

        rows, ends, start = [], [], self.size
        for bond in self.bonds:
            rows.append(np.arange(self.size))
            ends.append(np.asarray(bond) + start)
            start += self.size
        for most, keys in zip((first, second), self.keys, strict=False):
            held = np.flatnonzero(self.often[keys] <= most)
            rows.append(held)
            ends.append(np.asarray(keys)[held] + start)
        nodes = start + len(self.often)
        at, to = np.concatenate(rows), np.concatenate(ends)
        graph = coo_matrix((np.ones(len(at), dtype=np.int8), (at, to)), shape=(nodes, nodes))
        return _numbered(connected_components(graph, directed=False)[1][: self.size].tolist())

    def leaked(self, numbers: Sequence[int]) -> float:
        """Return the share of rows with a text that another of five parts of the groups has too."""
        parts = np.asarray(_dealt(numbers, FOLDS))[np.asarray(numbers)]
        low = np.full(len(self.often), FOLDS)
        high = np.full(len(self.often), -1)
        for keys in self.keys:
            np.minimum.at(low, keys, parts)
            np.maximum.at(high, keys, parts)
        torn = low < high
        return float(np.any([torn[keys] for keys in self.keys], axis=0).mean())

    def rule(self, first: int, second: int) -> str:
        """By what rows are held together, in a few words."""
        if len(self.keys) == 1:
            sides = {"equal texts": first}
        elif first == second:
            sides = {"texts that stand": first}
        else:
            sides = {"equal first texts": first, "equal second texts": second}
        told = ["the groups of the data"] if self.has_groups else []
        for what, most in sides.items():
            told += [what if most == _ANY else f"{what} in at most {most} rows"] * (most > 1)
        return " and ".join(told or ["equal pairs of texts"] * (len(self.keys) > 1))


def _numbered(keys: Iterable[Any]) -> list[int]:
    """Return numbers for keys, in the order in which these first come."""
    numbers: dict[Any, int] = {}
    return [numbers.setdefault(key, len(numbers)) for key in keys]


def _largest(numbers: Sequence[int]) -> int:
    return int(np.bincount(numbers).max()) if len(numbers) else 0


def _dealt(numbers: Sequence[int], parts: int) -> list[int]:
    """Return which part each group goes to: the largest first, each to the emptiest part."""
    sizes = np.bincount(numbers)
    heap = [(0, part) for part in range(parts)]
    place = [0] * len(sizes)
    for group in np.argsort(-sizes, kind="stable").tolist():
        had, part = heapq.heappop(heap)
        place[group] = part
        heapq.heappush(heap, (had + int(sizes[group]), part))
    return place
