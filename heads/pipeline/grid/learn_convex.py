"""One linear layer: logistic regression, solved to its optimum for every seed and C at once."""

from collections.abc import Generator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from heads.parts.order import Order
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
OF_NUMBERS = (0.0001, 0.001, 0.01)  # the same for numbers, whose every row pulls at every time
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
        tried = OF_NUMBERS if lesson.objective.kind == "number" else STRENGTHS
        strengths = (float(fixed),) if fixed else tried
        ways = (True,) if "C" in self.order.head.options else (True, False)
        options = [{"standardise": way, "C": C} for way in ways for C in strengths]
        tried, solved = yield from self._try(lesson, splits, options)
        if fixed:
            return best(tried, lesson).settings
        # And now between the neighbours, beginning at the one that was best.
        found = best(tried, lesson)
        at = tried.index(found)
        begin = [one[at].expand(len(NEIGHBOURS), *one[at].shape) for one in solved]
        near = dict(options[at])
        around = [{**near, "C": round(near["C"] * step, 6)} for step in NEIGHBOURS]
        more, _ = yield from self._try(lesson, splits, around, (begin[0], begin[1]))
        return best([*tried, *more], lesson).settings

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
            logits = _linear(state, vectors)
            tried.append(judged(option, 0, logits, lesson, splits.development))
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
        different: list[Tensor] = []
        places = []
        for own in rows:
            known = (n for n, one in enumerate(different) if own is one or torch.equal(own, one))
            place = next(known, len(different))
            different += [own] * (place == len(different))
            places.append(place)
        # A second set of rows is most often the first one less a few: begin where that ended.
        first = different[:1] if len(different) == 2 else different
        states, solved = self._solved(lesson, [chosen] * len(first), first, FINAL_STEPS)
        if len(first) < len(different):
            states += self._solved(lesson, [chosen], different[1:], FINAL_STEPS, solved)[0]
        return [
            Learned(logits=_linear(states[place], lesson.of(own)), state=states[place])
            for place, own in zip(places, asked, strict=True)
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
        # C means what it means in scikit-learn: two classes of a softmax are one sigmoid there.
        twice = 0.5 if lesson.classes == 2 and not lesson.objective.by_class else 1.0
        problems = convex.Problems(
            vectors=(lesson.of(union) - scale.shift) * scale.gain,
            targets=lesson.targets[union],
            objective=lesson.objective,
            weights=weights[union],
            strength=torch.tensor([option["C"] * twice for option in options]),
            gain=torch.stack(gains),
            bias=bias,
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
