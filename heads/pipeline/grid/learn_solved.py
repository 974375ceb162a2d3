"""Heads with a solver of their own: least squares, class means, neighbours."""

import inspect
from collections.abc import Generator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar

import torch
from torch import Tensor, nn

from heads.parts.order import Order
from heads.pipeline.dice import Dice
from heads.pipeline.grid.learner import Chosen, Learned, Tried, best, judged
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
    is_random: ClassVar[bool] = False

    def search(self, lesson: Lesson, splits: Splits) -> Generator[Tried, None, Chosen]:
        given = dict(self.order.recipe.options)
        name = next((n for n in self.order.head.options if n in TRIED and n not in given), None)
        options: list[dict[str, Value]] = [{name: v} for v in TRIED[name]] if name else [{}]
        tried = []
        for option in options:
            lesson.check()
            rows, asked = [splits.search], [splits.development]
            logits = self.learn(lesson, option, rows, asked, [0])[0].logits
            tried.append(judged(option, 0, logits, lesson, splits.development))
            yield tried[-1]
        return best(tried, lesson).settings

    def learn(
        self,
        lesson: Lesson,
        chosen: Chosen,
        rows: Sequence[Tensor],
        asked: Sequence[Tensor],
        seeds: Sequence[int],
    ) -> list[Learned]:
        found: list[Learned] = []
        for number, (own, others) in enumerate(zip(rows, asked, strict=True)):
            lesson.check()
            if number and torch.equal(own, rows[0]) and torch.equal(others, asked[0]):
                found.append(found[0])  # nothing is drawn at random
                continue
            chain = self.chain(lesson.classes, chosen)
            solve: Any = self.order.head.solve
            options = {**self.order.head_options, **chosen}
            known = inspect.signature(solve).parameters
            # A solver takes a row for a member of its class or not, so nothing is smoothed.
            goals = replace(lesson.objective, smoothing=0.0).goals(lesson.targets[own])
            if lesson.objective.kind == "number":
                goals = (goals + 1) / 2  # a solver's 0 and 1 are −1 and +1
            given = {name: value for name, value in options.items() if name in known}
            many = lesson.objective.kind == "many"
            solve(chain, lesson.of(own), goals, many=many, **given)
            logits = []
            for part in lesson.of(others).split(AT_ONCE):
                lesson.check()
                logits.append(chain.eval()(part).detach())
            found.append(Learned(logits=torch.cat(logits), state=chain.state_dict()))
        return found

    def chain(self, classes: int, chosen: Chosen) -> nn.Sequential:
        """The head with the options that were chosen."""
        own = {name: value for name, value in chosen.items() if name in self.order.head.options}
        options = {**self.order.head_options, **own}
        with Dice().rolling():  # its random weights are not used, but others are drawing
            return self.order.head.make(self.width, classes, **options)
