"""One linear layer: logistic regression, solved to its optimum."""

from collections.abc import Generator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import torch
from torch import Tensor

from heads.parts.order import Order
from heads.pipeline.grid import convex
from heads.pipeline.grid.basis import Basis
from heads.pipeline.grid.learner import Chosen, First, Learned, Tried, judged, surest
from heads.pipeline.grid.lesson import Lesson
from heads.pipeline.grid.splits import Splits

STRENGTHS = (0.01, 0.1, 1.0)  # C
OF_NUMBERS = (0.0001, 0.001, 0.01)  # the same for numbers, whose every row pulls at every time
NEIGHBOURS = (0.3, 3.0)  # times the best of those
MOST_STEPS = 300
State = dict[str, Tensor]


@dataclass(frozen=True, slots=True, kw_only=True)
class Convex:
    """One linear layer without dropout: logistic regression, solved to its optimum.

    Attributes:
        first: Its one layer.
        order: Its recipe, which may fix C.
    """

    first: First
    order: Order
    is_random: ClassVar[bool] = False

    def search(self, lesson: Lesson, splits: Splits) -> Generator[Tried, None, Chosen]:
        fixed = dict(self.order.recipe.options).get("C")
        known = OF_NUMBERS if lesson.objective.kind == "number" else STRENGTHS
        strengths = (float(fixed),) if fixed else known
        options = [{"standardise": True, "C": C} for C in strengths]
        tried, states = list[Tried](), list[State]()
        yield from self._try(lesson, splits, options, tried, states)
        found = surest(tried, lesson)
        begin, C = states[tried.index(found)], float(found.settings["C"])
        # What is tried now begins at the one that was best: its neighbours, and as it is.
        if not fixed:
            around = [{"standardise": True, "C": round(C * step, 6)} for step in NEIGHBOURS]
            yield from self._try(lesson, splits, around, tried, states, begin)
        if "C" not in self.order.head.options:
            found = surest(tried, lesson)
            begin, as_it_is = states[tried.index(found)], {**found.settings, "standardise": False}
            yield from self._try(lesson, splits, [as_it_is], tried, states, begin)
        return surest(tried, lesson).settings

    def _try(
        self,
        lesson: Lesson,
        splits: Splits,
        options: Sequence[Chosen],
        tried: list[Tried],
        states: list[State],
        start: State | None = None,
    ) -> Generator[Tried, None, None]:
        """Adds what some options come to, and their tensors; standardised or not alike."""
        states += self._solved(lesson, options, splits.search, convex.ROUGH, start)
        vectors = lesson.of(splits.development)
        for option, state in zip(options, states[-len(options) :], strict=True):
            tried.append(judged(option, 0, _linear(state, vectors), lesson, splits.development))
            yield tried[-1]

    def learn(
        self,
        lesson: Lesson,
        chosen: Chosen,
        rows: Sequence[Tensor],
        asked: Sequence[Tensor],
        seeds: Sequence[int],
    ) -> list[Learned]:
        # Nothing is drawn at random: seeds that learn from the same rows learn the same.
        solved = list[tuple[Tensor, State]]()
        for own in sorted(rows, key=len):
            if not any(torch.equal(own, one) for one, _ in solved):
                # One that learned from some of these rows has seen none that this one is asked.
                begin = next((state for one, state in solved[::-1] if _within(one, own)), None)
                (state,) = self._solved(lesson, [chosen], own, convex.NEAR, begin)
                solved.append((own, state))
        found = [next(state for one, state in solved if torch.equal(one, own)) for own in rows]
        return [
            Learned(logits=_linear(state, lesson.of(own)), state=state)
            for state, own in zip(found, asked, strict=True)
        ]

    def _solved(
        self,
        lesson: Lesson,
        options: Sequence[Mapping[str, Any]],
        rows: Tensor,
        near: float,
        start: State | None,
    ) -> list[State]:
        """The tensors of the head for each option, standardised or not alike.

        Args:
            near: How near to the optimum, as a share of the first gradient.
            start: Those of a head to begin with.
        """
        layer, vectors = self.first.layer, lesson.of(rows)
        standardise = bool(options[0]["standardise"])
        axes, seen = lesson.seen(rows, standardise=standardise, centred=self.first.bias)
        # C means what it means in scikit-learn: two classes of a softmax are one sigmoid there.
        unit = 0.5 if lesson.classes == 2 and not lesson.objective.by_class else 1.0
        if not standardise:  # it goes by vectors that are divided by their deviation, one for all
            unit /= float(vectors.std(dim=0, correction=0).mean().clamp_min(1e-12)) ** 2
        problems = convex.Problems(
            vectors=seen if seen.dtype == vectors.dtype else axes.seen(vectors, vectors.dtype),
            targets=lesson.targets[rows],
            objective=lesson.objective,
            weights=lesson.weights[rows],
            strength=torch.tensor([option["C"] * unit for option in options]),
            bias=self.first.bias,
        )
        solved = convex.solve(
            problems,
            near=near,
            iterations=MOST_STEPS,
            check=lesson.check,
            start=_begun(axes.unfolded(start, layer), layer, len(options)) if start else None,
            products=lesson.products,
        )
        return [self._folded(*one, axes) for one in zip(*solved, strict=True)]

    def _folded(self, weight: Tensor, bias: Tensor, axes: Basis) -> State:
        """The tensors of the head that reads vectors as they are."""
        layer = self.first.layer
        state = {f"{layer}.weight": weight} | ({f"{layer}.bias": bias} if self.first.bias else {})
        return axes.folded(state, layer)


def _begun(state: State, layer: str, problems: int) -> tuple[Tensor, Tensor]:
    """One head's weight and bias, as where so many problems begin."""
    weight = state[f"{layer}.weight"]
    bias = state.get(f"{layer}.bias", weight.new_zeros(len(weight)))
    return weight.expand(problems, -1, -1), bias.expand(problems, -1)


def _within(some: Tensor, rows: Tensor) -> bool:
    """Whether all of some rows are among others."""
    return bool(torch.isin(some, rows).all())


def _linear(state: State, vectors: Tensor) -> Tensor:
    weight = next(tensor for name, tensor in state.items() if name.endswith("weight"))
    logits = vectors @ weight.T
    bias = [tensor for name, tensor in state.items() if name.endswith("bias")]
    return logits + bias[0] if bias else logits
