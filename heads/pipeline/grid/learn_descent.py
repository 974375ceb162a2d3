"""Layers that a stack can compute: many copies at once, step by step under AdamW."""

import math
from collections.abc import Generator, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar

import torch
from torch import Tensor, nn

from heads.pipeline.dice import Dice
from heads.pipeline.grid import descent
from heads.pipeline.grid.basis import Basis
from heads.pipeline.grid.descent import Choice
from heads.pipeline.grid.learner import Chosen, First, Learned, Maker, Tried, judged, surest
from heads.pipeline.grid.lesson import Lesson
from heads.pipeline.grid.splits import Splits
from heads.pipeline.grid.stack import Stack

# What is tried for every head alike, on the same rows. Along principal axes many classes are
# learned in few steps, and of few rows their noise.
TRIED = (
    Choice(learning_rate=8e-3, standardise=True, principal_axes=True),
    Choice(learning_rate=8e-3, standardise=True, principal_axes=True, weight_decay=1.0),
    Choice(learning_rate=3e-3, standardise=True),
    Choice(learning_rate=1e-3),
)
# The same for a head that begins with pretrained weights, which know their input as it is.
AS_IT_IS = (
    Choice(learning_rate=1e-3),
    Choice(learning_rate=3e-3),
    Choice(learning_rate=8e-3, principal_axes=True),
    Choice(learning_rate=8e-3, principal_axes=True, weight_decay=1.0),
)
AT_ONCE = 4096  # rows that are answered together


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class _Class:
    """Copies of a head that learn together.

    Attributes:
        chains: The heads as they were made, to take the tensors up again.
        stack: All of them as one.
        pupils: What each learns from.
        bases: The axes along which each sees its input; None where no layer could take them up.
    """

    chains: list[nn.Sequential]
    stack: Stack
    pupils: list[descent.Pupil]
    bases: list[Basis | None]


@dataclass(frozen=True, slots=True, kw_only=True)
class Descent:
    """Layers that a `Stack` can compute: many copies at once under AdamW.

    Attributes:
        make: A new head, its weights drawn.
        first: The layer that takes up a change of its input's axes; None, if no layer can.
        pretrained: Whether the head begins with weights that know their input as it is.
    """

    make: Maker
    first: First | None
    pretrained: bool
    is_random: ClassVar[bool] = True

    def search(self, lesson: Lesson, splits: Splits) -> Generator[Tried, None, Chosen]:
        schedule = descent.plan(len(splits.search), descent.SEEN_IN_SEARCH)
        table = TRIED if self.first and not self.pretrained else AS_IT_IS
        epochs = math.ceil(schedule.epochs)
        choices = [replace(choice, planned=epochs) for choice in table]
        rows, seeds = [splits.search] * len(choices), [0] * len(choices)
        begun, tried = self._begun(lesson, choices, rows, seeds), []
        for epoch in descent.descend(begun.stack, lesson, begun.pupils, choices, seeds, schedule):
            heads = [self._head(begun, number) for number in range(len(choices))]
            answers = [answered(head, lesson, splits.development) for head in heads]
            for point in points(choices, answers, epoch, lesson, splits.development):
                tried.append(point)
                yield point
        # Before its end, a step size that has not come down yet hides how good a setting is.
        return surest(tried[-len(choices) :], lesson).settings

    def learn(
        self,
        lesson: Lesson,
        chosen: Chosen,
        rows: Sequence[Tensor],
        asked: Sequence[Tensor],
        seeds: Sequence[int],
    ) -> list[Learned]:
        values: dict[str, Any] = dict(chosen)
        choices = [Choice(**values)] * len(rows)
        begun = self._begun(lesson, choices, rows, seeds)
        schedule = descent.plan(max(map(len, rows)))
        for _ in descent.descend(begun.stack, lesson, begun.pupils, choices, seeds, schedule):
            pass
        heads = [self._head(begun, number) for number in range(len(choices))]
        return [
            Learned(logits=answered(head, lesson, one), state=head.state_dict())
            for head, one in zip(heads, asked, strict=True)
        ]

    def _begun(
        self,
        lesson: Lesson,
        choices: Sequence[Choice],
        rows: Sequence[Tensor],
        seeds: Sequence[int],
    ) -> _Class:
        chains, pupils, bases = [], [], []
        for seed, own, choice in zip(seeds, rows, choices, strict=True):
            with Dice(seed).rolling():
                chain = self.make()
            descent.at_base_rates(chain, lesson, own)
            axes, vectors = None, None
            if self.first:
                axes, vectors = lesson.seen(
                    own,
                    standardise=choice.standardise,
                    centred=self.first.bias,
                    turned=choice.principal_axes,
                )
            if self.first and axes and self.pretrained:
                chain.load_state_dict(axes.unfolded(chain.state_dict(), self.first.layer))
            seen = lesson.of(own).to(lesson.products) if vectors is None else vectors
            chains.append(chain)
            bases.append(axes)
            pupils.append(descent.Pupil(rows=own, vectors=seen))
        stack = Stack(chains, seeds, lesson.products)
        return _Class(chains=chains, stack=stack, pupils=pupils, bases=bases)

    def _head(self, begun: _Class, number: int) -> nn.Sequential:
        """One of the copies as it is now, to ask: it reads vectors as they are, in 32 bits."""
        state, axes = begun.stack.state(number), begun.bases[number]
        if self.first and axes:
            state = axes.folded(state, self.first.layer)
        begun.chains[number].load_state_dict(state)
        return begun.chains[number]


@torch.no_grad()
def answered(chain: nn.Sequential, lesson: Lesson, rows: Tensor) -> Tensor:
    """The logits of some rows, (n, c), from the head as it is kept and vectors as they are."""
    found = []
    for part in rows.split(AT_ONCE):
        lesson.check()
        found.append(chain.eval()(lesson.of(part)))
    return torch.cat(found)


def points(
    choices: Sequence[Choice],
    answers: Sequence[Tensor] | Tensor,
    epoch: int,
    lesson: Lesson,
    rows: Tensor,
) -> Iterator[Tried]:
    """What each choice came to on some rows after an epoch, from its logits (n, c)."""
    for choice, logits in zip(choices, answers, strict=True):
        yield judged(plain(replace(choice, epochs=epoch)), epoch, logits, lesson, rows)


def plain(choice: Choice) -> Chosen:
    """The settings as plain values."""
    return {name: getattr(choice, name) for name in Choice.__dataclass_fields__}
