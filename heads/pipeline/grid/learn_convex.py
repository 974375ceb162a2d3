"""One linear layer: logistic regression, solved to its optimum."""

from collections.abc import Generator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar

import torch
from torch import Tensor

from heads.data.splits import Splits
from heads.parts.resolved import Order
from heads.pipeline.grid import convex
from heads.pipeline.grid.basis import Basis
from heads.pipeline.grid.learner import (
    Chosen,
    First,
    Found,
    Learned,
    Tried,
    judged,
    refitted,
    surest,
)
from heads.pipeline.grid.lesson import Lesson

STRENGTHS = (0.01, 0.1, 1.0)  # C
OF_NUMBERS = (0.0001, 0.001, 0.01)  # the same for numbers, whose every row pulls at every time
STEP = 10.0  # by which C goes on where the best is at the edge
EDGES = (1e-6, 1e3)  # beyond which it does not
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

    def search(
        self, lesson: Lesson, splits: Splits, seeds: Sequence[int]
    ) -> Generator[Tried, None, list[Found]]:
        found = list[Found]()
        for seed in range(len(seeds)):
            same = [
                number
                for number in range(seed)
                if torch.equal(splits.search[number], splits.search[seed])
                and torch.equal(splits.development[number], splits.development[seed])
            ]
            if same:  # nothing is drawn at random
                found.append(found[same[0]])
                continue
            found.append((yield from self._search(lesson, splits, seed)))
        return refitted(self, lesson, splits, found, seeds)

    def _search(self, lesson: Lesson, splits: Splits, seed: int) -> Generator[Tried, None, Found]:
        fixed, standardise = dict(self.order.recipe.options).get("C"), self.order.standardise
        standardise = lesson.fixed.standardise if standardise is None else standardise
        first = standardise is not False
        known = OF_NUMBERS if lesson.objective.kind == "number" else STRENGTHS
        strengths = [float(fixed)] if fixed else list(known)
        tries = _Tries(rows=splits.search[seed], asked=splits.development[seed], seed=seed)
        yield from self._try(lesson, tries, [_with(C, first) for C in strengths])
        # As scikit-learn's users widen a grid by hand: on while the best is at its edge.
        while not fixed and (C := tries.edge(lesson, strengths)):
            strengths.append(C)
            yield from self._try(lesson, tries, [_with(C, first)], tries.best(lesson))
        begin = tries.best(lesson)
        # What is tried now begins at the one that was best: its neighbours, and as it is.
        if not fixed:
            C = float(begin.settings["C"])
            around = [_with(round(C * step, 9), first) for step in NEIGHBOURS]
            yield from self._try(lesson, tries, around, begin)
        if "C" not in self.order.head.options and standardise is None:
            begin = tries.best(lesson)
            as_it_is = {**begin.settings, "standardise": False}
            yield from self._try(lesson, tries, [as_it_is], begin)
        return tries.found(lesson)

    def _try(
        self,
        lesson: Lesson,
        tries: "_Tries",
        options: Sequence[Chosen],
        start: Tried | None = None,
    ) -> Generator[Tried, None, None]:
        """Adds what some options come to, and their tensors; standardised or not alike."""
        begin = tries.states[tries.tried.index(start)] if start else None
        tries.states += self._solved(lesson, options, tries.rows, convex.ROUGH, begin)
        vectors = lesson.of(tries.asked)
        for option, state in zip(options, tries.states[-len(options) :], strict=True):
            point = judged(option, 0, _linear(state, vectors), lesson, tries.asked)
            tries.tried.append(replace(point, seed=tries.seed))
            yield tries.tried[-1]

    def learn(
        self,
        lesson: Lesson,
        found: Sequence[Found],
        rows: Sequence[Tensor],
        asked: Sequence[Tensor],
        seeds: Sequence[int],
    ) -> list[Learned]:
        # Nothing is drawn at random: seeds with the same rows and settings learn the same.
        solved, learned = list[tuple[Tensor, Chosen, State]](), list[Learned]()
        for one, own, others in zip(found, rows, asked, strict=True):
            same = [
                state
                for known, settings, state in solved
                if settings == one.chosen and (known is own or torch.equal(known, own))
            ]
            if not same:
                same = self._solved(lesson, [one.chosen], own, convex.NEAR, one.state)
                solved.append((own, one.chosen, same[0]))
            learned.append(Learned(logits=_linear(same[0], lesson.of(others)), state=same[0]))
        return learned

    def _solved(
        self,
        lesson: Lesson,
        options: Sequence[Mapping[str, Any]],
        rows: Tensor,
        near: float,
        start: Mapping[str, Tensor] | None,
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
        unit = 0.5 if lesson.classes == 2 and not lesson.objective.each_by_itself else 1.0
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


def _begun(state: Mapping[str, Tensor], layer: str, problems: int) -> tuple[Tensor, Tensor]:
    """One head's weight and bias, as where so many problems begin."""
    weight = state[f"{layer}.weight"]
    bias = state.get(f"{layer}.bias", weight.new_zeros(len(weight)))
    return weight.expand(problems, -1, -1), bias.expand(problems, -1)


def _with(C: float, standardise: bool) -> Chosen:
    return {"standardise": standardise, "C": C}


@dataclass(slots=True, kw_only=True, eq=False)
class _Tries:
    """What one seed has tried.

    Attributes:
        rows: Those that it learns from.
        asked: Its development rows.
        seed: Its number.
        tried: What its options came to.
        states: The tensors of each.
    """

    rows: Tensor
    asked: Tensor
    seed: int
    tried: list[Tried] = field(default_factory=list)
    states: list[State] = field(default_factory=list)

    def best(self, lesson: Lesson) -> Tried:
        return surest(self.tried, lesson)

    def found(self, lesson: Lesson) -> Found:
        """The best, and the tensors it came to."""
        best = self.best(lesson)
        state = self.states[self.tried.index(best)]
        return Found(chosen=best.settings, point=best, state=state)

    def edge(self, lesson: Lesson, strengths: Sequence[float]) -> float:
        """The next C beyond those that were tried, where the best is the outermost; else 0."""
        best = float(self.best(lesson).settings["C"])
        low, high = min(strengths), max(strengths)
        beyond = low / STEP if best == low else high * STEP if best == high else 0.0
        return round(beyond, 9) if EDGES[0] <= beyond <= EDGES[1] else 0.0


def _linear(state: State, vectors: Tensor) -> Tensor:
    weight = next(tensor for name, tensor in state.items() if name.endswith("weight"))
    logits = vectors @ weight.T
    bias = [tensor for name, tensor in state.items() if name.endswith("bias")]
    return logits + bias[0] if bias else logits
