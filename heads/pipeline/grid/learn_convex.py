"""One linear layer: logistic regression, solved to its optimum for every seed and C at once."""

from collections.abc import Generator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from heads.parts.menu import Order
from heads.pipeline.grid import convex
from heads.pipeline.grid.learner import (
    Chosen,
    First,
    Learned,
    Tried,
    best,
    folded,
    judged,
)
from heads.pipeline.grid.lesson import Lesson, scaling
from heads.pipeline.grid.splits import Splits

STRENGTHS = (0.01, 0.1, 1.0)  # C
NEIGHBOURS = (0.3, 3.0)  # times the best of those
SEARCH_STEPS, FINAL_STEPS = 25, 300
Solution = tuple[Tensor, Tensor]  # weights (k, c, w), biases (k, c)


@dataclass(frozen=True, slots=True, kw_only=True)
class Convex:
    """One linear layer without dropout: logistic regression, solved to its optimum.

    Attributes:
        first: Its one layer.
        order: Its recipe, which may fix C.
    """

    first: First
    order: Order

    def search(self, lesson: Lesson, splits: Splits) -> Generator[Tried, None, Chosen]:
        fixed = dict(self.order.recipe.options).get("C")
        strengths = (float(fixed),) if fixed else STRENGTHS
        ways = (True,) if "C" in self.order.head.options else (True, False)
        options = [{"standardise": way, "C": C} for way in ways for C in strengths]
        tried, solved = yield from self._try(lesson, splits, options)
        if fixed:
            return best(tried).settings
        # And now between the neighbours, beginning at the one that was best.
        found = best(tried)
        at = tried.index(found)
        begin = [one[at].expand(len(NEIGHBOURS), *one[at].shape) for one in solved]
        near = dict(options[at])
        around = [{**near, "C": round(near["C"] * step, 6)} for step in NEIGHBOURS]
        more, _ = yield from self._try(lesson, splits, around, (begin[0], begin[1]))
        return best([*tried, *more]).settings

    def _try(
        self,
        lesson: Lesson,
        splits: Splits,
        options: Sequence[dict[str, Any]],
        start: Solution | None = None,
    ) -> Generator[Tried, None, tuple[list[Tried], Solution]]:
        rows = [splits.search] * len(options)
        states, solved = self._solved(lesson, options, rows, SEARCH_STEPS, start)
        vectors = lesson.of(splits.development)
        tried = []
        for option, state in zip(options, states, strict=True):
            right, loss = judged(_linear(state, vectors), lesson, splits.development)
            tried.append(Tried(settings=option, epoch=0, accuracy=right, loss=loss))
            yield tried[-1]
        return tried, solved

    def learn(
        self,
        lesson: Lesson,
        chosen: Chosen,
        rows: Sequence[Tensor],
        asked: Sequence[Tensor],
        seeds: Sequence[int],
    ) -> list[Learned]:
        # Nothing is drawn at random: seeds that learn from the same rows learn the same.
        alike = all(own is rows[0] or torch.equal(own, rows[0]) for own in rows)
        different = rows[:1] if alike else rows
        states, _ = self._solved(lesson, [dict(chosen)] * len(different), different, FINAL_STEPS)
        states = states * len(rows) if alike else states
        return [
            Learned(logits=_linear(state, lesson.of(own)), state=state)
            for state, own in zip(states, asked, strict=True)
        ]

    def _solved(
        self,
        lesson: Lesson,
        options: Sequence[Mapping[str, Any]],
        rows: Sequence[Tensor],
        iterations: int,
        start: Solution | None = None,
    ) -> tuple[list[dict[str, Tensor]], Solution]:
        """The tensors of the head for each option on its rows, and before scaling is folded in."""
        layer, bias = self.first.layer, self.first.bias
        union = torch.cat(list(rows)).unique() if len(rows) > 1 else rows[0]
        scale = scaling(lesson, union, standardise=True, centred=bias)
        weights = torch.zeros(len(lesson.targets), len(rows))
        for number, own in enumerate(rows):
            weights[own, number] = lesson.weights[own]
        spread = torch.where(scale.gain > 0, 1 / scale.gain.clamp_min(1e-12), 0.0)
        gains, each, seen = [], scale.gain, union
        for option, own in zip(options, rows, strict=True):
            if own is not seen:  # most often all are the same rows
                each, seen = scaling(lesson, own, standardise=True, centred=bias).gain, own
            deviation = torch.where(each > 0, 1 / each.clamp_min(1e-12), 0.0)
            whole = 1 / deviation.mean().clamp_min(1e-12)
            gains.append(spread * (each if option["standardise"] else whole))
        twice = 0.5 if lesson.classes == 2 else 1.0  # C means what it means in scikit-learn
        problems = convex.Problems(
            vectors=(lesson.of(union) - scale.shift) * scale.gain,
            targets=lesson.targets[union],
            weights=weights[union],
            strength=torch.tensor([option["C"] * twice for option in options]),
            gain=torch.stack(gains),
            bias=bias,
            classes=lesson.classes,
        )
        weight, biases = convex.solve(
            problems, iterations=iterations, check=lesson.check, start=start
        )
        states = []
        for own, shift in zip(weight, biases, strict=True):
            state = {f"{layer}.weight": own} | ({f"{layer}.bias": shift} if bias else {})
            states.append(folded(state, layer, scale))
        return states, (weight, biases)


def _linear(state: dict[str, Tensor], vectors: Tensor) -> Tensor:
    weight = next(tensor for name, tensor in state.items() if name.endswith("weight"))
    logits = vectors @ weight.T
    bias = [tensor for name, tensor in state.items() if name.endswith("bias")]
    return logits + bias[0] if bias else logits
