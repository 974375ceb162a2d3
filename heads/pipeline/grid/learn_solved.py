"""Heads with a solver of their own: least squares, class means, neighbours."""

import inspect
from collections.abc import Generator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Tensor, nn

from heads.parts.order import Order
from heads.pipeline.dice import Dice
from heads.pipeline.grid.learner import Chosen, Found, Learned, Tried, best, judged
from heads.pipeline.grid.lesson import Lesson
from heads.pipeline.grid.splits import Splits
from heads.recipe import Value

# What is tried where the recipe does not say it.
TRIED: Mapping[str, tuple[Value, ...]] = {
    "alpha": (1.0, 10.0, 100.0, 1000.0),
    "k": (3, 10, 30),
    "scale": (10.0, 20.0, 40.0),
}
AT_ONCE = 256  # rows that are answered together: a neighbour search is rows × rows


@dataclass(frozen=True, slots=True, kw_only=True)
class Solved:
    """A head whose tensors are set at once, by the solver that stands beside it on the shelf.

    Attributes:
        order: Its recipe, which may fix options.
        width: w.
    """

    order: Order
    width: int

    @property
    def is_random(self) -> bool:
        return False

    def search(
        self, lesson: Lesson, splits: Splits, seeds: Sequence[int]
    ) -> Generator[Tried, None, list[Found]]:
        found = []
        for seed in range(len(seeds)):
            best = yield from self._search(lesson, splits, seed)
            found.append(Found(chosen=best.settings, point=best))
        return found

    def _search(self, lesson: Lesson, splits: Splits, seed: int) -> Generator[Tried, None, Tried]:
        given = dict(self.order.recipe.options)
        name = next((n for n in self.order.head.options if n in TRIED and n not in given), None)
        options: list[dict[str, Value]] = [{name: v} for v in TRIED[name]] if name else [{}]
        tried = []
        for option in options:
            lesson.check()
            rows, asked = splits.search[seed], splits.development[seed]
            logits = self._solved(lesson, option, rows, asked).logits
            tried.append(replace(judged(option, 0, logits, lesson, asked), seed=seed))
            yield tried[-1]
        return best(tried, lesson)

    def learn(
        self,
        lesson: Lesson,
        found: Sequence[Found],
        rows: Sequence[Tensor],
        asked: Sequence[Tensor],
        seeds: Sequence[int],
    ) -> list[Learned]:
        learned: list[Learned] = []
        for number, (one, own, others) in enumerate(zip(found, rows, asked, strict=True)):
            same = number and one.chosen == found[0].chosen and torch.equal(own, rows[0])
            if same and torch.equal(others, asked[0]):
                learned.append(learned[0])  # nothing is drawn at random
                continue
            learned.append(self._solved(lesson, one.chosen, own, others))
        return learned

    def _solved(self, lesson: Lesson, chosen: Chosen, rows: Tensor, asked: Tensor) -> Learned:
        lesson.check()
        chain = self.chain(lesson.classes, chosen)
        solve: Any = self.order.head.solve
        options = {**self.order.head_options, **chosen}
        known = inspect.signature(solve).parameters
        # A solver takes a row for a member of its class or not, so nothing is smoothed.
        goals = replace(lesson.objective, smoothing=0.0).goals(lesson.targets[rows])
        if lesson.objective.kind == "number":
            goals = (goals + 1) / 2  # a solver's 0 and 1 are −1 and +1
        given = {name: value for name, value in options.items() if name in known}
        many = lesson.objective.kind == "many"
        solve(chain, lesson.of(rows), goals, many=many, **given)
        logits = []
        for part in lesson.of(asked).split(AT_ONCE):
            lesson.check()
            logits.append(chain.eval()(part).detach())
        return Learned(logits=torch.cat(logits), state=chain.state_dict())

    def chain(self, classes: int, chosen: Chosen) -> nn.Sequential:
        """The head with the options that were chosen."""
        own = {name: value for name, value in chosen.items() if name in self.order.head.options}
        options = {**self.order.head_options, **own}
        with Dice().rolling():  # its random weights are not used, but others are drawing
            return self.order.head.make(self.width, classes, **options)
