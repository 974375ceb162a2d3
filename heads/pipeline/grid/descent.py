"""Heads that are learned step by step: a stack of copies under AdamW.

Legend: k copies, n rows, b rows in a batch, w width, c classes.
"""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from heads.pipeline.grid.lesson import Lesson, Scaling
from heads.pipeline.grid.stack import Stack
from heads.pipeline.notation import last_linear

STEPS = 400  # about as many for few rows as for many, so that none is cut short
EPOCHS = (5, 60)
BATCHES = (16, 128)
AT_ONCE = 4096  # rows that are scored together


@dataclass(frozen=True, slots=True, kw_only=True)
class Choice:
    """The settings of one copy.

    Attributes:
        standardise: Whether its input is standardised; folded into the head afterwards.
        learning_rate: Of AdamW, decayed to 0 over the planned epochs.
        weight_decay: Of AdamW.
        epochs: After how many epochs it ends.
        planned: Over how many the step size falls to 0.
    """

    standardise: bool
    learning_rate: float
    weight_decay: float
    epochs: int = 0
    planned: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """How long and in which batches, from the number of rows alone: the same for every head."""

    batch: int
    epochs: int


def plan(rows: int) -> Plan:
    """The batch and the epochs for that many rows.

    >>> plan(10_000), plan(200)
    (Plan(batch=128, epochs=5), Plan(batch=16, epochs=32))
    """
    batch = 2 ** round(math.log2(max(rows / 60, 1)))
    batch = min(max(batch, BATCHES[0]), BATCHES[1])
    epochs = round(STEPS / max(1.0, rows / batch))
    return Plan(batch=batch, epochs=min(max(epochs, EPOCHS[0]), EPOCHS[1]))


@torch.no_grad()
def at_base_rates(chain: nn.Module, lesson: Lesson, rows: Tensor) -> None:
    """Sets the bias of the last layer to how often each class holds, where each is a question.

    Else all questions begin at one half, and a head with many of them spends its first epochs
    on learning that most answers are no. Questions that are balanced do begin at one half.

    Args:
        rows: The rows that it is going to learn from.

    Source: Lin et al. 2017, section 3.3, where the rate is the same for every class.
    """
    name = last_linear(chain)
    layer = chain.get_submodule(name) if name else None
    objective = lesson.objective
    if not objective.by_class or objective.balance is not None:
        return
    if isinstance(layer, nn.Linear) and layer.bias is not None:
        goals = objective.goals(lesson.targets[rows])
        layer.bias.copy_(((goals.sum(dim=0) + 0.5) / (len(goals) + 1)).logit())


def descend(
    stack: Stack,
    lesson: Lesson,
    rows: Sequence[Tensor],
    scaling: Scaling,
    choices: Sequence[Choice],
    seeds: Sequence[int],
    chosen: Plan,
) -> Iterator[int]:
    """Trains the copies in place; yields the number of epochs that are done, from 1.

    Args:
        rows: For each copy the rows that it learns from.
        scaling: Of (k, 1, w).
        seeds: For each copy the seed of its order of rows.
        chosen: The batch and the epochs.

    Raises:
        Stopped: Somebody asked for it.
    """
    most = max(map(len, rows))
    dice = [torch.Generator().manual_seed(seed) for seed in seeds]
    optimizer = _optimizer(stack, choices)
    total, done = chosen.epochs * math.ceil(most / chosen.batch), 0
    for epoch in range(1, chosen.epochs + 1):
        order = torch.stack([_order(own, one, most) for own, one in zip(rows, dice, strict=True)])
        for batch in order.split(chosen.batch, dim=1):  # (k, b)
            lesson.check()
            for group, choice in zip(optimizer.param_groups, choices, strict=False):
                group["lr"] = choice.learning_rate * (1 - done / total)
            values = lesson.of(batch).sub_(scaling.shift).mul_(scaling.gain)
            stack.clear()
            _loss(stack.logits(values, training=True), lesson, batch).backward()
            stack.collect()
            optimizer.step()
            done += 1
        yield epoch


def _optimizer(stack: Stack, choices: Sequence[Choice]) -> torch.optim.Optimizer:
    """A group a copy, in their order; or one for all, which is faster, where they are set alike."""
    alike = len({(choice.learning_rate, choice.weight_decay) for choice in choices}) == 1
    groups = [[*stack.tensors.values()]] if alike else stack.copies
    return torch.optim.AdamW(
        [
            {"params": tensors, "lr": choice.learning_rate, "weight_decay": choice.weight_decay}
            for tensors, choice in zip(groups, choices, strict=False)
        ],
        fused=True,
    )


def _order(rows: Tensor, dice: torch.Generator, length: int) -> Tensor:
    """The rows in a random order; a copy with a row or two less sees its first ones again."""
    shuffled = rows[torch.randperm(len(rows), generator=dice)]
    return shuffled.repeat(-(-length // len(rows)))[:length]


def _loss(logits: Tensor, lesson: Lesson, batch: Tensor) -> Tensor:
    """The sum over copies of each one's weighted mean loss."""
    losses = lesson.objective.rows(logits, lesson.targets[batch])
    weights = lesson.weights[batch]
    weighted = (losses * weights).sum(-1) / weights.sum(-1)
    return weighted.sum(-1).mean()  # over copies, then over samples of dropout if there are


@torch.no_grad()
def scored(stack: Stack, lesson: Lesson, rows: Sequence[Tensor], scaling: Scaling) -> list[Tensor]:
    """The logits of some rows under each copy, (n_k, c) each."""
    most = max(map(len, rows))
    padded = torch.stack([torch.nn.functional.pad(own, (0, most - len(own))) for own in rows])
    found = []
    for batch in padded.split(AT_ONCE, dim=1):
        lesson.check()
        values = lesson.of(batch).sub_(scaling.shift).mul_(scaling.gain)
        found.append(stack.logits(values, training=False))
    logits = torch.cat(found, dim=1)
    return [logits[number, : len(own)] for number, own in enumerate(rows)]
