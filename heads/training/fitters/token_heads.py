"""Heads that are learned from the states of all tokens, copy by copy: learned readings, and heads
that are applied to every token.

A batch is of rows that a copy learns from, their texts of like length: no row is read for the sake
of others. Each copy draws its own order of batches; copies of equal rows and seed read them once.
"""

import copy
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import zip_longest
from typing import ClassVar

import torch
from torch import Tensor, nn
from torch.nn.utils import parameters_to_vector

from heads.backbone.states import States
from heads.data.splits import Splits
from heads.rng import IsolatedRng
from heads.training.fitters import adamw
from heads.training.fitters.adamw import PARTS, WeightAverage
from heads.training.fitters.base import (
    BySeed,
    FittedHead,
    Searches,
    Searching,
    SearchResult,
    Seeds,
    Source,
)
from heads.training.fitters.batched import TOKEN_HEADS, CopySettings, narrow_table
from heads.training.fitters.successive_halving import (
    build_candidates,
    search_candidates,
    steps_after,
)
from heads.training.task import TrainingTask

Batches = Sequence[Tensor]  # each the numbers of some rows
BATCH = 32  # rows in a step


@dataclass(frozen=True, slots=True, kw_only=True)
class TokenAdamWFitter:
    """A whole recipe, reading and head, under AdamW."""

    make: Callable[[], nn.Module]
    is_random: ClassVar[bool] = True
    learns_from: Source = "states"
    pace: ClassVar[float] = 500.0

    def search(self, task: TrainingTask, splits: Splits, seeds: Seeds) -> Searching:
        found = list[SearchResult]()
        table = narrow_table(TOKEN_HEADS, task.config)
        for number, seed in enumerate(seeds):
            rows = splits.fitted(number)
            passes = math.ceil(len(rows) / BATCH)
            candidates = build_candidates(table, number, splits.development[number], passes)
            copies = _RecipeCopies(self.make, task, table, [rows] * len(table), [seed] * len(table))
            found += yield from search_candidates(copies, candidates, task)
        return found

    def learn(
        self, task: TrainingTask, found: Searches, rows: BySeed, asked: BySeed, seeds: Seeds
    ) -> list[FittedHead]:
        learned = []
        for one, own, others, seed in zip(found, rows, asked, seeds, strict=True):
            choices = [CopySettings.from_values(one.chosen)]
            copies = _RecipeCopies(self.make, task, choices, [own], [seed], one.state)
            copies.learn(steps_after(one, math.ceil(len(own) / BATCH), task.config))
            state = copies.state(0)
            learned.append(FittedHead(logits=copies.answers(state, others), state=state))
        return learned


class _RecipeCopies:
    """Copies of a recipe that learn side by side, and read a batch once where they share it."""

    def __init__(
        self,
        make: Callable[[], nn.Module],
        task: TrainingTask,
        choices: Sequence[CopySettings],
        rows: Sequence[Tensor],
        seeds: Sequence[int],
        start: Mapping[str, Tensor] | None = None,
    ) -> None:
        self._steps, self._task = 0, task
        self._copies = [
            _RecipeCopy(make, task, choice, own, seed, start)
            for choice, own, seed in zip(choices, rows, seeds, strict=True)
        ]
        self._asked = copy.deepcopy(self._copies[0].module).eval()

    def learn(self, until: int) -> None:
        count = until - self._steps
        batches = [[one.next() for _ in range(count)] for one in self._copies]
        for number, rows, states in _read(self._task, batches):
            self._copies[number].learn(rows, states)
        self._steps = until

    def state(self, number: int) -> dict[str, Tensor]:
        return self._copies[number].averaged()

    @torch.no_grad()
    def answers(self, state: Mapping[str, Tensor], rows: Tensor) -> Tensor:
        """The logits of some rows, (n, c); there may be none."""
        if not len(rows):
            return torch.empty(0, self._task.classes)
        self._asked.load_state_dict(state)
        batches = [_batches(self._task, rows)]
        found = [self._asked(states) for _, _, states in _read(self._task, batches)]
        return torch.cat(found)[_by_length(self._task, rows).argsort()]

    def keep(self, numbers: Sequence[int]) -> None:
        self._copies = [self._copies[number] for number in numbers]


class _RecipeCopy:
    """One copy of a recipe while it learns; whatever it draws comes from its own seed."""

    def __init__(
        self,
        make: Callable[[], nn.Module],
        task: TrainingTask,
        choice: CopySettings,
        rows: Tensor,
        seed: int,
        start: Mapping[str, Tensor] | None,
    ) -> None:
        self._task, self._rng = task, IsolatedRng(seed)
        with self._rng.rolling():
            self.module = make()
        if start is None:
            adamw.at_base_rates(self.module.get_submodule("head"), task, rows)
        else:
            self.module.load_state_dict(start)
        rate = (choice.learning_rate, choice.weight_decay)
        self._optimizer = adamw.build_optimizer({rate: list(self.module.parameters())})
        self._average = WeightAverage(
            parameters_to_vector(self.module.parameters()), PARTS if start is None else 1
        )
        self._batches, self._order = _batches(task, rows), list[int]()

    def next(self) -> Tensor:
        """Its next batch: all of them in random order, and again."""
        if not self._order:
            with self._rng.rolling():
                self._order = torch.randperm(len(self._batches)).tolist()
        return self._batches[self._order.pop()]

    def learn(self, rows: Tensor, states: States) -> None:
        """A step by the weighted mean loss of some rows."""
        with self._rng.rolling():
            logits = self.module.train()(states)
        objective, targets = self._task.objective, self._task.targets[rows]
        losses = objective.rows(objective.learned(logits, targets), targets)
        self._optimizer.zero_grad()
        (losses * self._task.weights[rows]).mean().backward()
        adamw.warm_up(self._optimizer, self._average.steps)
        self._optimizer.step()
        self._average.take(parameters_to_vector(self.module.parameters()))

    def averaged(self) -> dict[str, Tensor]:
        """The tensors of the copy, those that are learned averaged."""
        state = {name: tensor.clone() for name, tensor in self.module.state_dict().items()}
        named = list(self.module.named_parameters())
        parts = self._average.numbers.split([one.numel() for _, one in named])
        shaped = ((name, part.view_as(one)) for (name, one), part in zip(named, parts, strict=True))
        return state | {name: part.clone() for name, part in shaped}


def _batches(task: TrainingTask, rows: Tensor) -> Batches:
    """Rows in the order of `_by_length`, so many at a time, none much smaller than the others."""
    return rows[_by_length(task, rows)].tensor_split(math.ceil(len(rows) / BATCH))


def _by_length(task: TrainingTask, rows: Tensor) -> Tensor:
    """The places of some rows, those whose texts lie side by side in the file side by side."""
    assert task.states is not None
    return task.states.starts[task.index[rows]].argsort(stable=True)


def _read(task: TrainingTask, batches: Sequence[Batches]) -> Iterator[tuple[int, Tensor, States]]:
    """Yield the batches of all copies in turn: the copy, its rows, the states of their texts."""
    assert task.states is not None
    last = states = None
    for step in zip_longest(*batches):
        for number, rows in enumerate(step):
            task.check()
            if rows is None:  # others have more of them
                continue
            if states is None or last is None or not torch.equal(rows, last):
                last, states = rows, task.states.states(task.index[rows])
            yield number, rows, states
