"""Teaching one unit: its own loss, numbers brought to a common span, and rows kept apart.

Legend: n rows, m development rows, c outputs.
"""

from collections.abc import Generator, Sequence
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from heads.data.splits import Splits
from heads.evaluation.statistics import competing
from heads.pipeline.grid.learner import Found, Learned, Tried
from heads.pipeline.grid.lesson import Lesson
from heads.pipeline.grid.units import Unit
from heads.pipeline.objective import OVR, Span, balance_of
from heads.settings import Contest


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Teaching:
    """A unit with the lesson that suits it.

    Attributes:
        unit: What is taught.
        lesson: The rows under its reading, with its own loss.
        span: Where the numbers lay before they were narrowed; None for classes.
    """

    unit: Unit
    lesson: Lesson
    span: Span | None

    def search(self, splits: Splits, seeds: Sequence[int]) -> Generator[Tried, None, list[Found]]:
        """Every seed tries settings on its own development rows; the last answer is the best."""
        return self.unit.learner.search(self.lesson, splits, seeds)

    def learn(
        self,
        found: Sequence[Found],
        rows: Sequence[Tensor],
        asked: Sequence[Tensor],
        seeds: Sequence[int],
    ) -> list[Learned]:
        """Learns with what searches came to on some rows, a seed each, and answers others."""
        learned = self.unit.learner.learn(self.lesson, found, rows, asked, seeds)
        if self.span is None:
            return learned
        return [
            Learned(
                logits=self.span.widened(one.logits),
                state=self.span.put_back(one.state, self.unit.last),
            )
            for one in learned
        ]

    def competing(self, logits: Tensor) -> Tensor:
        """Logits (n, c) whose softmax are the probabilities, where one class applies."""
        return competing(logits, "votes" if self.unit.order.loss == OVR else "softmax")


def teaching(unit: Unit, lesson: Lesson, splits: Splits, contest: Contest) -> Teaching:
    """Prepares a lesson for a unit."""
    objective = replace(
        lesson.objective,
        loss=unit.order.loss,
        focal=contest.focal,
        smoothing=contest.smoothing,
        margin=unit.order.margin,
    )
    if contest.class_weights and objective.by_class:
        balance = balance_of(lesson.targets[splits.learned], objective.outputs)
        objective = replace(objective, balance=balance)
        # Each of its questions is balanced by itself, so the rows are not.
        lesson = replace(lesson, weights=torch.ones_like(lesson.weights))
    lesson = replace(lesson, objective=objective)
    if objective.kind != "number":
        return Teaching(unit=unit, lesson=lesson, span=None)
    span = Span.of(lesson.targets[splits.learned], centred=unit.biased)
    lesson = replace(lesson, targets=span.narrowed(lesson.targets), span=span)
    return Teaching(unit=unit, lesson=lesson, span=span)
