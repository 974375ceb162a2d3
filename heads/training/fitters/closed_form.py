"""Heads with a solver of their own: least squares, class means, neighbours."""

import inspect
from collections.abc import Generator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar

import torch
from torch import Tensor, nn

from heads.data.splits import Splits
from heads.parts.resolved import ResolvedRecipe
from heads.problem import MULTI_LABEL
from heads.recipe import Value
from heads.rng import IsolatedRng
from heads.training.fitters.base import (
    Chosen,
    FittedHead,
    SearchResult,
    TriedSettings,
    best,
    judged,
    refitted,
)
from heads.training.task import TrainingTask


@dataclass(frozen=True, slots=True, kw_only=True)
class SearchedOption:
    """What is tried of an option where the recipe does not say it.

    Attributes:
        first: What is tried at first, from small to large.
        step: While the best is the smallest or the largest tried, so many times less or more.
        least, most: No further than to these.
        besides: What is tried as well and lies on no scale.
    """

    first: tuple[float, ...]
    step: float
    least: float
    most: float
    besides: tuple[float, ...] = ()

    def beyond(self, tried: Sequence[float], best: float) -> float | None:
        """What is to be tried next; None where the best is no edge, or the end is reached."""
        if best in self.besides:
            return None
        known = [value for value in tried if value not in self.besides]
        further = {min(known): best / self.step, max(known): best * self.step}
        if best not in further:
            return None
        found = min(max(further[best], self.least), self.most)
        return None if found in known else found


TRIED: Mapping[str, SearchedOption] = {
    "alpha": SearchedOption(first=(1.0, 10.0, 100.0, 1000.0), step=10.0, least=1e-3, most=1e6),
    "k": SearchedOption(first=(3, 10, 30), step=3, least=1, most=100),
    "scale": SearchedOption(first=(10.0, 20.0, 40.0), step=2.0, least=1.0, most=320.0),
    # 0 is the share that Ledoit and Wolf's formula gives.
    "shrinkage": SearchedOption(
        first=(0.01, 0.03, 0.1), step=3.0, least=1e-4, most=1.0, besides=(0.0,)
    ),
}
AT_ONCE = 256  # rows that are answered together: a neighbour search is rows × rows


@dataclass(frozen=True, slots=True, kw_only=True)
class ClosedFormFitter:
    """A head whose tensors are set at once, by the solver that stands beside it on the shelf.

    Attributes:
        order: Its recipe, which may fix options.
        width: w.
    """

    order: ResolvedRecipe
    width: int
    is_random: ClassVar[bool] = False

    def search(
        self, task: TrainingTask, splits: Splits, seeds: Sequence[int]
    ) -> Generator[TriedSettings, None, list[SearchResult]]:
        found = []
        for seed in range(len(seeds)):
            best = yield from self._search(task, splits, seed)
            found.append(SearchResult(chosen=best.settings, point=best))
        return refitted(self, task, splits, found, seeds)

    def _search(
        self, task: TrainingTask, splits: Splits, seed: int
    ) -> Generator[TriedSettings, None, TriedSettings]:
        given = dict(self.order.recipe.options)
        name = next((n for n in self.order.head.options if n in TRIED and n not in given), None)
        left = _first(name, len(splits.search[seed])) if name else [{}]
        tried = list[TriedSettings]()
        while left:
            task.check()
            option, rows, asked = left.pop(0), splits.search[seed], splits.development[seed]
            logits = self._solved(task, option, rows, asked).logits
            tried.append(replace(judged(option, 0, logits, task, asked), seed=seed))
            yield tried[-1]
            if name and not left:
                left = _further(name, tried, best(tried, task), len(rows))
        return best(tried, task)

    def learn(
        self,
        task: TrainingTask,
        found: Sequence[SearchResult],
        rows: Sequence[Tensor],
        asked: Sequence[Tensor],
        seeds: Sequence[int],
    ) -> list[FittedHead]:
        learned: list[FittedHead] = []
        for number, (one, own, others) in enumerate(zip(found, rows, asked, strict=True)):
            same = number and one.chosen == found[0].chosen and torch.equal(own, rows[0])
            if same and torch.equal(others, asked[0]):
                learned.append(learned[0])  # nothing is drawn at random
                continue
            learned.append(self._solved(task, one.chosen, own, others))
        return learned

    def _solved(
        self, task: TrainingTask, chosen: Chosen, rows: Tensor, asked: Tensor
    ) -> FittedHead:
        task.check()
        chain = self.chain(task.classes, chosen)
        solve: Any = self.order.head.solve
        options = {**self.order.head_options, **chosen}
        known = inspect.signature(solve).parameters
        # A solver takes a row for a member of its class or not, so nothing is smoothed.
        target_matrix = replace(task.objective, smoothing=0.0).target_matrix(task.targets[rows])
        if not task.objective.problem.has_classes:
            target_matrix = (target_matrix + 1) / 2  # a solver's 0 and 1 are −1 and +1
        given = {name: value for name, value in options.items() if name in known}
        many = task.objective.problem is MULTI_LABEL
        solve(chain, task.of(rows), target_matrix, many=many, **given)
        logits = []
        for part in task.of(asked).split(AT_ONCE):
            task.check()
            logits.append(chain.eval()(part).detach())
        return FittedHead(logits=torch.cat(logits), state=chain.state_dict())

    def chain(self, classes: int, chosen: Chosen) -> nn.Sequential:
        """The head with the options that were chosen."""
        own = {name: value for name, value in chosen.items() if name in self.order.head.options}
        options = {**self.order.head_options, **own}
        with IsolatedRng().rolling():  # its random weights are not used, but others are drawing
            return self.order.head.make(self.width, classes, **options)


def _first(name: str, rows: int) -> list[dict[str, Value]]:
    """The settings that are tried of an option at first, of neighbours no more than rows."""
    scale = TRIED[name]
    values = (*scale.besides, *scale.first)
    return [{name: value} for value in dict.fromkeys(_whole(name, value, rows) for value in values)]


def _further(
    name: str, tried: Sequence[TriedSettings], top: TriedSettings, rows: int
) -> list[dict[str, Value]]:
    """What is tried next, where the best is at the edge of what was tried."""
    known = [float(one.settings[name]) for one in tried]
    found = TRIED[name].beyond(known, float(top.settings[name]))
    if found is None or (value := _whole(name, found, rows)) in known:
        return []
    return [{name: value}]


def _whole(name: str, value: float, rows: int) -> Value:
    return min(round(value), rows) if name == "k" else float(f"{value:.4g}")
