"""Heads with a solver of their own: least squares, class means, neighbours."""

import inspect
from collections.abc import Callable, Generator, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar

import torch
from torch import Tensor, nn

from heads.data.splits import Splits
from heads.parts.resolved_recipe import ResolvedRecipe
from heads.recipe import Value
from heads.rng import IsolatedRng
from heads.training.fitters.base import (
    BySeed,
    Chosen,
    FittedHead,
    Searches,
    Searching,
    SearchResult,
    Seeds,
    Source,
    TriedSettings,
    judge_settings,
    refit_searches,
    score_settings,
    select_one_se,
)
from heads.training.fitters.held_out import HELD_OUT
from heads.training.task import TrainingTask

AT_ONCE = 256  # rows that are answered together: a neighbour search is rows × rows


@dataclass(frozen=True, slots=True, kw_only=True)
class ClosedFormFitter:
    """A head whose tensors are set at once, by the solver that stands beside it."""

    resolved: ResolvedRecipe
    width: int
    is_random: ClassVar[bool] = False
    learns_from: Source = "vectors"
    pace: ClassVar[float] = 1.0

    def search(self, task: TrainingTask, splits: Splits, seeds: Seeds) -> Searching:
        found = list[SearchResult]()
        for seed in range(len(seeds)):
            rows, is_exact = splits.selection(seed)[0], bool(self._leave_one_out(splits))
            same = [n for n in range(seed * is_exact) if rows.equal(splits.selection(n)[0])]
            top = found[same[0]].point if same else (yield from self._select(task, splits, seed))
            found.append(SearchResult(chosen=top.settings, point=top))
        return refit_searches(self, task, splits, found, seeds)

    def _leave_one_out(self, splits: Splits) -> Callable[..., Iterator[Tensor]] | None:
        """The closed form of the leave-one-out answers, where they are to choose the settings."""
        is_searched = len(settings_of(self, 1)) > 1 and splits.folds and not splits.are_given
        return HELD_OUT.get(self.resolved.head.solve) if is_searched else None

    def _select(
        self, task: TrainingTask, splits: Splits, seed: int
    ) -> Generator[TriedSettings, None, TriedSettings]:
        """Try settings on rows that are held out, and return what the best came to."""
        exact, tried = self._leave_one_out(splits), list[TriedSettings]()
        rows, folds = splits.selection(seed)
        settings = settings_of(self, len(rows) - int(folds[folds >= 0].bincount().max()))
        if len(settings) == 1:  # nothing to choose: once is enough
            rows, folds = replace(splits, folds=()).selection(seed)
        settings = _evenly(settings, task.config.trials or len(settings))
        answers = self._answers(task, rows, folds, settings)
        if exact is not None:
            groups = rows if splits.groups is None else splits.groups[rows]
            folds, many = torch.zeros_like(rows), task.objective.problem.has_label_sets
            values = [value for option in settings for value in option.values()]
            given = task.of(rows), self._target_matrix(task, rows), groups, values
            answers = (logits.to(task.vectors) for logits in exact(*given, many=many))
        score = score_settings if exact is not None else judge_settings
        for option, logits in zip(settings, answers, strict=True):
            task.check()
            tried.append(replace(score(option, 0, logits, task, rows[folds >= 0]), seed=seed))
            yield tried[-1]
        return select_one_se(tried, task)

    def _answers(
        self, task: TrainingTask, rows: Tensor, folds: Tensor, settings: Sequence[Chosen]
    ) -> Iterator[Tensor]:
        """Compute the logits of the rows of each fold by heads fitted to the other rows."""
        for chosen in settings:
            logits = task.vectors.new_zeros(len(rows), task.classes)
            for own in (folds == fold for fold in range(int(folds.max()) + 1)):
                logits[own] = self._solved(task, chosen, rows[~own], rows[own]).logits
            yield logits[folds >= 0]

    def learn(
        self, task: TrainingTask, found: Searches, rows: BySeed, asked: BySeed, seeds: Seeds
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
        given = {name: value for name, value in options.items() if name in known}
        many = task.objective.problem.has_label_sets
        solve(chain, task.of(rows), self._target_matrix(task, rows), many=many, **given)
        logits = []
        for part in task.of(asked).split(AT_ONCE):
            task.check()
            logits.append(chain.eval()(part).detach())
        return FittedHead(logits=torch.cat(logits), state=chain.state_dict())

    def _target_matrix(self, task: TrainingTask, rows: Tensor) -> Tensor:
        # A solver takes a row for a member of its class or not, so nothing is smoothed.
        target_matrix = replace(task.objective, smoothing=0.0).target_matrix(task.targets[rows])
        if task.objective.problem.has_classes:
            return target_matrix
        return (target_matrix + 1) / 2  # a solver's 0 and 1 are −1 and +1

    def chain(self, classes: int, chosen: Chosen) -> nn.Sequential:
        """The head with the options that were chosen."""
        own = {name: value for name, value in chosen.items() if name in self.resolved.head.options}
        options = {**self.resolved.head_options, **own}
        with IsolatedRng().rolling():  # its random weights are not used, but others are drawing
            return self.resolved.head.make(self.width, classes, **options)


def settings_of(fitter: ClosedFormFitter, rows: int) -> list[dict[str, Value]]:
    """Return the settings that are tried of a head that learns from so many rows."""
    head, given = fitter.resolved.head, dict(fitter.resolved.recipe.options)
    name = next((name for name in head.search if name not in given), None)
    if name is None:
        return [{}]
    values = head.search[name]
    if isinstance(head.options[name], int):
        return [{name: value} for value in dict.fromkeys(min(int(v), rows) for v in values)]
    return [{name: float(value)} for value in values]


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
