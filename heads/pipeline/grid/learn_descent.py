"""Layers that a stack can compute: many copies at once, step by step under AdamW."""

from collections.abc import Generator, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

from torch import Tensor

from heads.pipeline.dice import Dice
from heads.pipeline.grid import descent
from heads.pipeline.grid.learner import (
    Chosen,
    First,
    Learned,
    Maker,
    Tried,
    best,
    folded,
    judged,
)
from heads.pipeline.grid.lesson import Lesson, Scaling, scaling, stacked
from heads.pipeline.grid.splits import Splits
from heads.pipeline.grid.stack import Stack

# What is tried for every head alike, on the same rows: standardise, learning rate, decay.
TRIED = ((True, 1e-3, 0.01), (True, 3e-3, 0.01), (True, 3e-3, 1.0), (False, 3e-3, 0.01))
# The same for a head that begins with pretrained weights, which know their input as it is.
AS_IT_IS = ((False, 3e-4, 0.01), (False, 1e-3, 0.01), (False, 1e-3, 1.0), (False, 3e-3, 0.01))


@dataclass(frozen=True, slots=True, kw_only=True)
class Descent:
    """Layers that a `Stack` can compute: many copies at once under AdamW.

    Attributes:
        make: A new head, its weights drawn.
        first: The layer that takes up a scaling of the input; None, if no layer can.
    """

    make: Maker
    first: First | None

    def search(self, lesson: Lesson, splits: Splits) -> Generator[Tried, None, Chosen]:
        schedule = descent.plan(len(splits.train[0]))
        choices = choices_of(TRIED if self.first else AS_IT_IS, schedule)
        rows = [splits.search] * len(choices)
        seeds = [0] * len(choices)
        stack, scale = self._begun(lesson, choices, rows, seeds)
        tried = []
        for epoch in descent.descend(stack, lesson, rows, scale, choices, seeds, schedule):
            asked = [splits.development] * len(choices)
            answers = descent.scored(stack, lesson, asked, scale)
            for point in points(choices, answers, epoch, lesson, splits.development):
                tried.append(point)
                yield point
        return best(tried, lesson).settings

    def learn(
        self,
        lesson: Lesson,
        chosen: Chosen,
        rows: Sequence[Tensor],
        asked: Sequence[Tensor],
        seeds: Sequence[int],
    ) -> list[Learned]:
        values: dict[str, Any] = dict(chosen)
        choices = [descent.Choice(**values)] * len(rows)
        stack, scale = self._begun(lesson, choices, rows, seeds)
        schedule = descent.plan(max(map(len, rows)))
        # Fewer rows are seen more often: it ends after the same share of the schedule.
        end = max(1, round(schedule.epochs * values["epochs"] / values["planned"]))
        for epoch in descent.descend(stack, lesson, rows, scale, choices, seeds, schedule):
            if epoch == end:
                break
        logits = descent.scored(stack, lesson, asked, scale)
        found = []
        for number, own in enumerate(logits):
            state = stack.state(number)
            if self.first and choices[number].standardise:
                one = Scaling(shift=scale.shift[number, 0], gain=scale.gain[number, 0])
                state = folded(state, self.first.layer, one)
            found.append(Learned(logits=own, state=state))
        return found

    def _begun(
        self,
        lesson: Lesson,
        choices: Sequence[descent.Choice],
        rows: Sequence[Tensor],
        seeds: Sequence[int],
    ) -> tuple[Stack, Scaling]:
        chains = []
        for seed, own in zip(seeds, rows, strict=True):
            with Dice(seed).rolling():
                chains.append(self.make())
            descent.at_base_rates(chains[-1], lesson, own)
        centred = self.first is not None and self.first.bias
        known: dict[tuple[int, bool], Scaling] = {}
        for own, choice in zip(rows, choices, strict=True):
            key = (id(own), choice.standardise)
            if key not in known:
                known[key] = scaling(lesson, own, standardise=choice.standardise, centred=centred)
        scalings = [known[id(o), c.standardise] for o, c in zip(rows, choices, strict=True)]
        return Stack(chains, seeds[0]), stacked(scalings)


def choices_of(
    table: Sequence[tuple[bool, float, float]], schedule: descent.Plan
) -> list[descent.Choice]:
    """The settings of a table of standardise, learning rate and decay, over that schedule."""
    return [
        descent.Choice(
            standardise=way, learning_rate=rate, weight_decay=decay, planned=schedule.epochs
        )
        for way, rate, decay in table
    ]


def points(
    choices: Sequence[descent.Choice],
    answers: Sequence[Tensor],
    epoch: int,
    lesson: Lesson,
    rows: Tensor,
) -> Iterator[Tried]:
    """What each choice came to on some rows after an epoch, from its logits (n, c)."""
    for choice, logits in zip(choices, answers, strict=True):
        settings = plain(replace(choice, epochs=epoch))
        yield judged(settings, epoch, logits, lesson, rows)


def plain(choice: descent.Choice) -> Chosen:
    """The settings as plain values."""
    return {name: getattr(choice, name) for name in descent.Choice.__dataclass_fields__}
