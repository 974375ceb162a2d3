"""Heads that are learned step by step: a stack of copies under AdamW.

Legend: k copies, n rows, b rows in a batch, w width, c classes.
"""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from heads.pipeline.grid.lesson import Lesson
from heads.pipeline.grid.stack import Stack
from heads.pipeline.notation import last_linear

STEPS = 160  # at most, where there are few rows
SEEN = 15_000  # rows, after which more hardly help: of banking77, one pass and a half
SEEN_IN_SEARCH = 6_000  # by each setting that is tried
EPOCHS = (1, 60)
BATCHES = (16, 256)
LINE = 32  # rows, by which batches differ
BETAS = (0.7, 0.99)  # of AdamW: of so few steps, a shorter memory than usual
WARM = 0.1  # of the steps, over which the step size rises from 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Choice:
    """The settings of one copy.

    Attributes:
        learning_rate: Of AdamW at its highest, from where it falls to 0 over the planned epochs.
        weight_decay: Of AdamW.
        standardise: Whether its input is standardised; folded into the head afterwards.
        principal_axes: Whether it sees its input along its principal axes; folded in likewise.
        epochs: After how many epochs of the search it was judged.
        planned: How many those were, over which the step size falls to 0.
    """

    learning_rate: float
    weight_decay: float = 0.01
    standardise: bool = False
    principal_axes: bool = False
    epochs: int = 0
    planned: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """How long and in which batches, from the number of rows alone: the same for every head.

    Attributes:
        batch: Rows in a step.
        epochs: How often all rows are seen; the last time perhaps only some.
    """

    batch: int
    epochs: float


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Pupil:
    """What one copy learns from: rows (n,), and their vectors (n, w) along the axes it sees."""

    rows: Tensor
    vectors: Tensor


def plan(rows: int, seen: int = SEEN) -> Plan:
    """The batch and the epochs for that many rows, and so many seen in all.

    >>> plan(10_000), plan(5_000), plan(200)
    (Plan(batch=192, epochs=1.5), Plan(batch=96, epochs=3.0), Plan(batch=16, epochs=12.75))
    """
    batch = min(max(LINE * round(rows / 52 / LINE), BATCHES[0]), BATCHES[1])
    epochs = round(4 * min(STEPS * batch, seen) / max(rows, batch)) / 4
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
    pupils: Sequence[Pupil],
    choices: Sequence[Choice],
    seeds: Sequence[int],
    chosen: Plan,
) -> Iterator[int]:
    """Trains the copies in place; yields the number of epochs that are done, from 1.

    Args:
        seeds: For each copy the seed of its order of rows.
        chosen: The batch and the epochs.

    Raises:
        Stopped: Somebody asked for it.
    """
    most = max(len(one.rows) for one in pupils)
    dice = [torch.Generator().manual_seed(seed) for seed in seeds]
    optimizer = _optimizer(stack, choices)
    total, done = round(chosen.epochs * math.ceil(most / chosen.batch)), 0
    for epoch in range(1, math.ceil(chosen.epochs) + 1):
        order = torch.stack(
            [_order(len(own.rows), one, most) for own, one in zip(pupils, dice, strict=True)]
        )
        for batch in order.split(chosen.batch, dim=1)[: total - done]:  # (k, b)
            lesson.check()
            for group, choice in zip(optimizer.param_groups, choices, strict=False):
                group["lr"] = choice.learning_rate * pace(done, total)
            _step(stack, lesson, pupils, batch)
            optimizer.step()
            stack.refresh()
            done += 1
        yield epoch


def pace(done: int, total: int) -> float:
    """The share of the highest step size after so many of the steps.

    >>> [round(pace(done, 100), 2) for done in (0, 9, 10, 55, 99)]
    [0.1, 1.0, 1.0, 0.5, 0.01]
    """
    return min((done + 1) / (WARM * total), (1 - done / total) / (1 - WARM), 1.0)


def _step(stack: Stack, lesson: Lesson, pupils: Sequence[Pupil], batch: Tensor) -> None:
    """The gradient of a batch (k, b) of places among each copy's rows."""
    both = list(zip(pupils, batch, strict=True))
    rows = torch.stack([one.rows[own] for one, own in both])
    # Whole rows are taken ten times as fast as by indexing.
    values = torch.stack([one.vectors.index_select(0, own) for one, own in both])
    stack.learn(slope(stack.logits(values, training=True), lesson, rows))


def slope(logits: Tensor, lesson: Lesson, rows: Tensor) -> Tensor:
    """The gradient, by the logits (k, b, c), of the weighted mean loss of each copy's rows (k, b).

    Where dropout is sampled several times, the samples stand below each other.
    """
    rows = rows.repeat(1, logits.shape[1] // rows.shape[1])
    weights, targets = lesson.weights[rows], lesson.targets[rows]
    shares = (weights / weights.sum(dim=1, keepdim=True))[..., None]
    exact = logits.to(weights.dtype)
    if lesson.objective.is_plain:
        found = exact.softmax(dim=-1)
        own = targets[..., None]
        found.scatter_add_(2, own, torch.full_like(own, -1, dtype=found.dtype))
    else:
        found = lesson.objective.slope(exact, targets)
    return found.mul_(shares).to(logits.dtype)


def _optimizer(stack: Stack, choices: Sequence[Choice]) -> torch.optim.Optimizer:
    """A group a copy, in their order; or one for all, which is faster, where they are set alike."""
    alike = len({(choice.learning_rate, choice.weight_decay) for choice in choices}) == 1
    groups = [[stack.numbers]] if alike else stack.copies
    return torch.optim.AdamW(
        [
            {"params": tensors, "lr": choice.learning_rate, "weight_decay": choice.weight_decay}
            for tensors, choice in zip(groups, choices, strict=False)
        ],
        betas=BETAS,
        fused=True,
    )


def _order(rows: int, dice: torch.Generator, length: int) -> Tensor:
    """So many places in a random order; a copy with fewer rows than the others sees some again."""
    return torch.randperm(rows, generator=dice).repeat(-(-length // rows))[:length]
