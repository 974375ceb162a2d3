"""Heads with a solver of their own: least squares, class means, neighbours."""

import inspect
from collections.abc import Generator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar

import torch
from torch import Tensor, nn

from heads.data.splits import Splits
from heads.parts.resolved import Order
from heads.recipe import Value
from heads.rng import Dice
from heads.training.fitters.base import Chosen, Found, Learned, Tried, best, judged, refitted
from heads.training.task import Lesson


@dataclass(frozen=True, slots=True, kw_only=True)
class Scale:
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


TRIED: Mapping[str, Scale] = {
    "alpha": Scale(first=(1.0, 10.0, 100.0, 1000.0), step=10.0, least=1e-3, most=1e6),
    "k": Scale(first=(3, 10, 30), step=3, least=1, most=100),
    "scale": Scale(first=(10.0, 20.0, 40.0), step=2.0, least=1.0, most=320.0),
    # 0 is the share that Ledoit and Wolf's formula gives.
    "shrinkage": Scale(first=(0.01, 0.03, 0.1), step=3.0, least=1e-4, most=1.0, besides=(0.0,)),
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

    def search(
        self, lesson: Lesson, splits: Splits, seeds: Sequence[int]
    ) -> Generator[Tried, None, list[Found]]:
        found = []
        for seed in range(len(seeds)):
            best = yield from self._search(lesson, splits, seed)
            found.append(Found(chosen=best.settings, point=best))
        return refitted(self, lesson, splits, found, seeds)

    def _search(self, lesson: Lesson, splits: Splits, seed: int) -> Generator[Tried, None, Tried]:
        given = dict(self.order.recipe.options)
        name = next((n for n in self.order.head.options if n in TRIED and n not in given), None)
        left = _first(name, len(splits.search[seed])) if name else [{}]
        tried = list[Tried]()
        while left:
            lesson.check()
            option, rows, asked = left.pop(0), splits.search[seed], splits.development[seed]
            logits = self._solved(lesson, option, rows, asked).logits
            tried.append(replace(judged(option, 0, logits, lesson, asked), seed=seed))
            yield tried[-1]
            if name and not left:
                left = _further(name, tried, best(tried, lesson), len(rows))
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


def _first(name: str, rows: int) -> list[dict[str, Value]]:
    """The settings that are tried of an option at first, of neighbours no more than rows."""
    scale = TRIED[name]
    values = (*scale.besides, *scale.first)
    return [{name: value} for value in dict.fromkeys(_whole(name, value, rows) for value in values)]


def _further(name: str, tried: Sequence[Tried], top: Tried, rows: int) -> list[dict[str, Value]]:
    """What is tried next, where the best is at the edge of what was tried."""
    known = [float(one.settings[name]) for one in tried]
    found = TRIED[name].beyond(known, float(top.settings[name]))
    if found is None or (value := _whole(name, found, rows)) in known:
        return []
    return [{name: value}]


def _whole(name: str, value: float, rows: int) -> Value:
    return min(round(value), rows) if name == "k" else float(f"{value:.4g}")
