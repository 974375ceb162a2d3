"""Heads that are learned from the states of all tokens, copy by copy: learned readings, heads
that are applied to every token, and layers that a stack does not know.

All copies take the same blocks of texts, which are loaded once.
"""

import math
from collections.abc import Callable, Generator, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from heads.pipeline.dice import Dice
from heads.pipeline.grid import descent
from heads.pipeline.grid.learn_descent import choices_of, points
from heads.pipeline.grid.learner import Chosen, Learned, Tried, best
from heads.pipeline.grid.lesson import Lesson
from heads.pipeline.grid.splits import Splits
from heads.pipeline.token_states import BLOCK, Block

Choices = Sequence[descent.Choice]
# What is tried: standardise (which nothing could undo here), learning rate, decay.
TRIED = ((False, 3e-4, 0.01), (False, 1e-3, 0.01), (False, 1e-3, 1.0), (False, 3e-3, 0.01))
EPOCHS = (5, 60)


@dataclass(frozen=True, slots=True, kw_only=True)
class Apart:
    """A whole recipe, reading and head, under AdamW.

    Attributes:
        make: A new assembly: token states to logits.
    """

    make: Callable[[], nn.Module]

    def search(self, lesson: Lesson, splits: Splits) -> Generator[Tried, None, Chosen]:
        planned = epochs_of(len(splits.train[0]))
        choices = choices_of(TRIED, planned)
        rows, asked = [splits.search] * len(choices), [splits.development] * len(choices)
        tried, seeds = [], [0] * len(choices)
        for epoch, modules in self._descend(lesson, choices, rows, seeds, planned):
            answers = _scored(modules, lesson, asked)
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
        planned = epochs_of(max(map(len, rows)))
        end = max(1, round(planned * values["epochs"] / values["planned"]))
        choices = [descent.Choice(**values)] * len(rows)
        epochs = self._descend(lesson, choices, rows, seeds, planned)
        modules = next(modules for epoch, modules in epochs if epoch == end)
        answers = _scored(modules, lesson, asked)
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
        dice = [Dice(seed) for seed in seeds]
        modules = [self._begun(lesson, *both) for both in zip(dice, rows, strict=True)]
        optimizers = [
            torch.optim.AdamW(
                module.parameters(), lr=choice.learning_rate, weight_decay=choice.weight_decay
            )
            for module, choice in zip(modules, choices, strict=True)
        ]
        weights = [_weights(lesson, own) for own in rows]
        blocks = _Blocks(lesson)
        order = torch.Generator().manual_seed(seeds[0])
        total, done = epochs * len(blocks), 0
        pending = [0.0] * len(modules)  # rows whose gradients have been added up
        for epoch in range(1, epochs + 1):
            for number in torch.randperm(len(blocks), generator=order).tolist():
                done += 1
                if not any(bool(own[blocks.rows(number)].any()) for own in weights):
                    continue
                states, members, places = blocks.of(number)
                for place, module in enumerate(modules):
                    lesson.check()
                    counted = weights[place][members]
                    if not counted.any():
                        continue
                    with dice[place].rolling():
                        logits = module.train()(states)
                    _loss(logits[..., places, :], lesson, members, counted).backward()
                    pending[place] += float((counted > 0).sum())
                    # A step is taken when about as many rows have been seen as a block holds.
                    if pending[place] >= BLOCK / 2 or done % len(blocks) == 0:
                        rate = choices[place].learning_rate * (1 - (done - 1) / total)
                        _step(optimizers[place], rate)
                        pending[place] = 0.0
            yield epoch, modules

    def _begun(self, lesson: Lesson, dice: Dice, rows: Tensor) -> nn.Module:
        with dice.rolling():
            module = self.make()
        descent.at_base_rates(module, lesson, rows)
        return module


def epochs_of(rows: int) -> int:
    """How often that many rows are seen: few ones more often, so that none is cut short.

    >>> epochs_of(10_000), epochs_of(2_000), epochs_of(200)
    (5, 6, 32)
    """
    batch = 2 ** round(math.log2(max(rows / 60, 1)))
    few = round(400 * min(max(batch, 16), 128) / max(1, rows))
    return min(max(few, EPOCHS[0]), EPOCHS[1])


class _Blocks:
    """The blocks of a lesson, and which rows of the corpus have which text of a block."""

    def __init__(self, lesson: Lesson) -> None:
        assert lesson.states is not None
        self._kept = lesson.states
        rows_of: dict[int, list[int]] = {}
        for row, text in enumerate(lesson.index.tolist()):
            rows_of.setdefault(text, []).append(row)
        self._members = [self._of(block, rows_of) for block in self._kept.blocks]

    @staticmethod
    def _of(block: Block, rows_of: dict[int, list[int]]) -> tuple[Tensor, Tensor]:
        pairs = [(row, place) for place, text in enumerate(block.texts) for row in rows_of[text]]
        both = torch.tensor(pairs)
        return both[:, 0], both[:, 1]

    def __len__(self) -> int:
        return len(self._members)

    def rows(self, number: int) -> Tensor:
        """The rows of the corpus that have a text of a block."""
        return self._members[number][0]

    def of(self, number: int) -> tuple[Any, Tensor, Tensor]:
        """The states of a block, its rows, and the place of each row's text in it."""
        return (self._kept.states(self._kept.blocks[number]), *self._members[number])


def _weights(lesson: Lesson, rows: Tensor) -> Tensor:
    """(n,), how much each row counts: 0 for those that are not learned from."""
    weights = torch.zeros(len(lesson.targets))
    weights[rows] = lesson.weights[rows]
    return weights


def _step(optimizer: torch.optim.Optimizer, rate: float) -> None:
    optimizer.param_groups[0]["lr"] = rate
    optimizer.step()
    optimizer.zero_grad()


def _loss(logits: Tensor, lesson: Lesson, rows: Tensor, weights: Tensor) -> Tensor:
    """The weighted loss of the rows of a block that count, over what a block holds."""
    losses = lesson.objective.rows(logits, lesson.targets[rows])
    return (losses * weights).sum(-1).mean() / BLOCK


@torch.no_grad()
def _scored(modules: Sequence[nn.Module], lesson: Lesson, asked: Sequence[Tensor]) -> list[Tensor]:
    """The logits of the rows asked for under each copy, (n_k, c) each."""
    wanted = torch.zeros(len(lesson.targets), dtype=torch.bool)
    wanted[torch.cat(list(asked))] = True
    found = [torch.zeros(len(lesson.targets), lesson.classes) for _ in modules]
    blocks = _Blocks(lesson)
    for number in range(len(blocks)):
        lesson.check()
        states, members, places = blocks.of(number)
        if wanted[members].any():
            for logits, module in zip(found, modules, strict=True):
                logits[members] = module.eval()(states)[places]
    return [logits[own] for logits, own in zip(found, asked, strict=True)]
