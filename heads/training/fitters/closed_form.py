"""Heads with a solver of their own: least squares, class means, neighbours."""

import inspect
from collections.abc import Generator, Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar

import torch
from torch import Tensor, nn

from heads.data.splits import Splits
from heads.parts.registry import SearchSpace
from heads.parts.resolved_recipe import ResolvedRecipe
from heads.recipe import Value
from heads.rng import IsolatedRng
from heads.training.fitters.base import (
    Chosen,
    FittedHead,
    SearchResult,
    Source,
    TriedSettings,
    best,
    judged,
    refitted,
)
from heads.training.task import TrainingTask

AT_ONCE = 256  # rows that are answered together: a neighbour search is rows × rows


@dataclass(frozen=True, slots=True, kw_only=True)
class ClosedFormFitter:
    """A head whose tensors are set at once, by the solver that stands beside it.

    Attributes:
        resolved: Its recipe, which may fix options.
        width: w.
    """

    resolved: ResolvedRecipe
    width: int
    is_random: ClassVar[bool] = False
    learns_from: Source = "vectors"
    pace: ClassVar[float] = 1.0

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
        given = dict(self.resolved.recipe.options)
        searched = self.resolved.head.search
        name = next((n for n in searched if n not in given), None)
        left = [{}]
        if name:
            left = _first(name, searched[name], len(splits.search[seed]))
        left = _evenly(left, task.fixed.trials or len(left))
        tried = list[TriedSettings]()
        while left:
            task.check()
            option, rows, asked = left.pop(0), splits.search[seed], splits.development[seed]
            logits = self._solved(task, option, rows, asked).logits
            tried.append(replace(judged(option, 0, logits, task, asked), seed=seed))
            yield tried[-1]
            if name and not left and not task.fixed.trials:
                left = _further(name, searched[name], tried, best(tried, task), len(rows))
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
        solve: Any = self.resolved.head.solve
        options = {**self.resolved.head_options, **chosen}
        known = inspect.signature(solve).parameters
        # A solver takes a row for a member of its class or not, so nothing is smoothed.
        target_matrix = replace(task.objective, smoothing=0.0).target_matrix(task.targets[rows])
        if not task.objective.problem.has_classes:
            target_matrix = (target_matrix + 1) / 2  # a solver's 0 and 1 are −1 and +1
        given = {name: value for name, value in options.items() if name in known}
        many = task.objective.problem.has_label_sets
        solve(chain, task.of(rows), target_matrix, many=many, **given)
        logits = []
        for part in task.of(asked).split(AT_ONCE):
            task.check()
            logits.append(chain.eval()(part).detach())
        return FittedHead(logits=torch.cat(logits), state=chain.state_dict())

    def chain(self, classes: int, chosen: Chosen) -> nn.Sequential:
        """The head with the options that were chosen."""
        own = {name: value for name, value in chosen.items() if name in self.resolved.head.options}
        options = {**self.resolved.head_options, **own}
        with IsolatedRng().rolling():  # its random weights are not used, but others are drawing
            return self.resolved.head.make(self.width, classes, **options)


def first_settings(fitter: ClosedFormFitter, rows: int) -> list[dict[str, Value]]:
    """The settings that are tried of a head at first, where so many rows are learned from."""
    given, searched = dict(fitter.resolved.recipe.options), fitter.resolved.head.search
    name = next((n for n in searched if n not in given), None)
    return _first(name, searched[name], rows) if name else [{}]


def _first(name: str, space: SearchSpace, rows: int) -> list[dict[str, Value]]:
    """The settings that are tried of an option at first."""
    values = (_rounded(space, value, rows) for value in (*space.besides, *space.first))
    return [{name: value} for value in dict.fromkeys(values)]


def _evenly(settings: list[dict[str, Value]], most: int) -> list[dict[str, Value]]:
    """At most so many of some settings, the outermost among them.

    >>> _evenly([{"k": k} for k in range(5)], 3), _evenly([{"k": 1}, {"k": 2}], 1)
    ([{'k': 0}, {'k': 2}, {'k': 4}], [{'k': 2}])
    """
    if len(settings) <= most:
        return settings
    if most == 1:
        return [settings[len(settings) // 2]]
    step = (len(settings) - 1) / (most - 1)
    return [settings[round(place * step)] for place in range(most)]


def _further(
    name: str, space: SearchSpace, tried: Sequence[TriedSettings], top: TriedSettings, rows: int
) -> list[dict[str, Value]]:
    """What is tried next, where the best is at the edge of what was tried."""
    known = [float(one.settings[name]) for one in tried]
    found = space.beyond(known, float(top.settings[name]))
    if found is None or (value := _rounded(space, found, rows)) in known:
        return []
    return [{name: value}]


def _rounded(space: SearchSpace, value: float, rows: int) -> Value:
    return min(round(value), rows) if space.of_rows else float(f"{value:.4g}")
