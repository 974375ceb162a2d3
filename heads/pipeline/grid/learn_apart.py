"""Heads that are learned from the states of all tokens, copy by copy: learned readings, heads
that are applied to every token, and layers that a stack does not know.

A batch is of rows that a copy learns from, their texts of like length: no row is read for the sake
of others. Each copy draws its own order of batches; copies of equal rows and seed read them once.
"""

import math
from collections.abc import Callable, Generator, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import zip_longest
from typing import Any, ClassVar

import torch
from torch import Tensor, nn

from heads.pipeline.dice import Dice
from heads.pipeline.grid import descent
from heads.pipeline.grid.descent import Choice
from heads.pipeline.grid.learn_descent import points
from heads.pipeline.grid.learner import Chosen, Learned, Tried, surest
from heads.pipeline.grid.lesson import Lesson
from heads.pipeline.grid.splits import Splits
from heads.pipeline.states import States

Batches = Sequence[Tensor]  # each the numbers of some rows
Choices = Sequence[Choice]
BATCH = 32  # rows in a step
EPOCHS = (5, 60)
# What is tried, as for other heads; nothing here could undo a change of the input.
TRIED = (
    Choice(learning_rate=1e-3),
    Choice(learning_rate=3e-3),
    Choice(learning_rate=8e-3),
    Choice(learning_rate=8e-3, weight_decay=1.0),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Apart:
    """A whole recipe, reading and head, under AdamW.

    Attributes:
        make: A new assembly: token states to logits.
    """

    make: Callable[[], nn.Module]
    is_random: ClassVar[bool] = True

    def search(self, lesson: Lesson, splits: Splits) -> Generator[Tried, None, Chosen]:
        planned = epochs_of(len(splits.train[0]))
        choices = [replace(choice, planned=planned) for choice in TRIED]
        rows, asked = [splits.search] * len(choices), [splits.development] * len(choices)
        tried, seeds = [], [0] * len(choices)
        for epoch, modules in self._descend(lesson, choices, rows, seeds, planned):
            answers = _answered(modules, lesson, asked)
            for point in points(choices, answers, epoch, lesson, splits.development):
                tried.append(point)
                yield point
        return surest(tried, lesson).settings

    def learn(
        self,
        lesson: Lesson,
        chosen: Chosen,
        rows: Sequence[Tensor],
        asked: Sequence[Tensor],
        seeds: Sequence[int],
    ) -> list[Learned]:
        values: dict[str, Any] = dict(chosen)
        planned = epochs_of(max(map(len, rows)))
        end = max(1, round(planned * values["epochs"] / values["planned"]))
        choices = [Choice(**values)] * len(rows)
        epochs = self._descend(lesson, choices, rows, seeds, planned)
        modules = next(modules for epoch, modules in epochs if epoch == end)
        answers = _answered(modules, lesson, asked)
        return [
            Learned(logits=logits, state={n: t.detach() for n, t in module.state_dict().items()})
            for logits, module in zip(answers, modules, strict=True)
        ]

    def _descend(
        self,
        lesson: Lesson,
        choices: Choices,
        rows: Sequence[Tensor],
        seeds: Sequence[int],
        epochs: int,
    ) -> Iterator[tuple[int, list[nn.Module]]]:
        copies = [_Copy(self.make, lesson, *own) for own in zip(choices, rows, seeds, strict=True)]
        modules = [copy.module for copy in copies]
        for epoch in range(1, epochs + 1):
            orders = [copy.shuffled() for copy in copies]
            for number, batch, states in _read(lesson, orders):
                copies[number].learn(batch, states, epochs)
            yield epoch, modules


def epochs_of(rows: int) -> int:
    """How often that many rows are seen: few ones more often, so that none is cut short.

    >>> epochs_of(10_000), epochs_of(2_000), epochs_of(200)
    (5, 6, 32)
    """
    batch = 2 ** round(math.log2(max(rows / 60, 1)))
    few = round(400 * min(max(batch, 16), 128) / max(1, rows))
    return min(max(few, EPOCHS[0]), EPOCHS[1])


class _Copy:
    """One copy of a recipe while it learns; whatever it draws comes from its own seed."""

    def __init__(
        self,
        make: Callable[[], nn.Module],
        lesson: Lesson,
        choice: Choice,
        rows: Tensor,
        seed: int,
    ) -> None:
        self._lesson, self._choice, self._dice = lesson, choice, Dice(seed)
        with self._dice.rolling():
            self.module = make()
        descent.at_base_rates(self.module, lesson, rows)
        self._optimizer = torch.optim.AdamW(
            self.module.parameters(), weight_decay=choice.weight_decay, fused=True
        )
        self._batches, self._done = _batches(lesson, rows), 0

    def shuffled(self) -> Batches:
        """Its batches in a new order."""
        with self._dice.rolling():
            return [self._batches[number] for number in torch.randperm(len(self._batches)).tolist()]

    def learn(self, rows: Tensor, states: States, epochs: int) -> None:
        """A step by the weighted loss of some rows; its size falls to 0 over so many epochs."""
        with self._dice.rolling():
            logits = self.module.train()(states)
        losses = self._lesson.objective.rows(logits, self._lesson.targets[rows])
        self._optimizer.zero_grad()
        (losses * self._lesson.weights[rows]).mean().backward()
        left = 1 - self._done / (epochs * len(self._batches))
        self._optimizer.param_groups[0]["lr"] = self._choice.learning_rate * left
        self._optimizer.step()
        self._done += 1


def _batches(lesson: Lesson, rows: Tensor) -> Batches:
    """Rows in the order of `_by_length`, so many at a time, none much smaller than the others."""
    return rows[_by_length(lesson, rows)].tensor_split(math.ceil(len(rows) / BATCH))


def _by_length(lesson: Lesson, rows: Tensor) -> Tensor:
    """The places of some rows, those whose texts lie side by side in the file side by side."""
    assert lesson.states is not None
    return lesson.states.starts[lesson.index[rows]].argsort(stable=True)


def _read(lesson: Lesson, batches: Sequence[Batches]) -> Iterator[tuple[int, Tensor, States]]:
    """The batches of all copies in turn: whose it is, its rows and the states of their texts.

    Raises:
        Stopped: Somebody asked for it.
    """
    assert lesson.states is not None
    last = states = None
    for step in zip_longest(*batches):
        for number, rows in enumerate(step):
            lesson.check()
            if rows is None:  # others have more of them
                continue
            if states is None or last is None or not torch.equal(rows, last):
                last, states = rows, lesson.states.states(lesson.index[rows])
            yield number, rows, states


@torch.no_grad()
def _answered(
    modules: Sequence[nn.Module], lesson: Lesson, asked: Sequence[Tensor]
) -> list[Tensor]:
    """The logits of the rows asked for under each copy, (n_k, c) each."""
    found = [list[Tensor]() for _ in modules]
    for number, _, states in _read(lesson, [_batches(lesson, own) for own in asked]):
        found[number].append(modules[number].eval()(states))
    return [
        torch.cat(logits)[_by_length(lesson, own).argsort()]
        for logits, own in zip(found, asked, strict=True)
    ]
