"""The loop of AdamW over copies of a head: batches, steps, and the average of their weights.

The layers and the settings that are tried stand in `batched.py`.

The step size stays as it is, and what is looked at is the average of the weights over the last
steps, the more of them the longer it has learned. So a copy can be looked at after any number of
steps, and goes on until it has converged: no number of steps is planned beforehand.

Whether it has is told by the development loss after the logits are divided by the temperature that
suits those rows best. Without that, heads seem to get worse while they only get surer: on trec6 the
plain loss of `mean+roberta` rises from 0.45 to 0.63 while its accuracy rises by 3 points.

Source: Polyak & Juditsky 1992 (averaging) with the weights of Karras et al. 2024
(arXiv 2312.02696, section 3.1); Berta et al. 2025 (arXiv 2501.19195), who stop by the loss after
temperature scaling.

Legend: k copies, n rows, m development rows, b rows in a batch, w width, c classes.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from heads.parts.modules import is_plain, last_linear
from heads.training.fitters.batched import BatchedHeads, CopySettings
from heads.training.task import TrainingTask

BATCHES = (32, 256)
LINE = 32  # rows, by which batches differ
ROWS_A_LINE = 1_200  # rows of the data for every 32 of a batch
BETAS = (0.9, 0.99)  # of AdamW
WARM = 20  # steps, over which the step size rises from 0
PARTS = 6  # weights are averaged over about the last sixth of the steps


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class CopyData:
    """What one copy learns from: rows (n,), and their vectors (n, w) along the axes it sees."""

    rows: Tensor
    vectors: Tensor


def batch_of(rows: int) -> int:
    """Return how many rows a step takes, by how many there are: the same for every head.

    >>> batch_of(200), batch_of(5_000), batch_of(100_000)
    (32, 128, 256)
    """
    return min(max(LINE * round(rows / ROWS_A_LINE), BATCHES[0]), BATCHES[1])


@torch.no_grad()
def at_base_rates(chain: nn.Module, task: TrainingTask, rows: Tensor) -> None:
    """Set the bias of the last layer to how often each class holds, where each is a question.

    Else all questions begin at one half, and a head with many of them spends its first epochs
    on learning that most answers are no. Questions that are balanced do begin at one half.

    Source: Lin et al. 2017, section 3.3, where the rate is the same for every class.
    """
    layer = chain.get_submodule(last_linear(chain))
    objective = task.objective
    if not objective.by_class or objective.balance is not None:
        return
    if is_plain(layer, nn.Linear) and layer.bias is not None:
        target_matrix = objective.target_matrix(task.targets[rows])
        layer.bias.copy_(((target_matrix.sum(dim=0) + 0.5) / (len(target_matrix) + 1)).logit())


class WeightAverage:
    """The average of numbers that are learned, over about the last steps of so many parts.

    Of six parts a step's numbers have weight in proportion to its own number to the power 5; of
    one part all steps count alike.
    """

    def __init__(self, numbers: Tensor, parts: int) -> None:
        self.numbers, self.parts = numbers.detach().clone(), parts
        self.steps = 0

    def take(self, numbers: Tensor) -> None:
        """Takes the numbers of one more step in."""
        self.steps += 1
        self.numbers.lerp_(numbers.detach(), min(1.0, self.parts / self.steps))


class AdamWCopies:
    """Copies of a head while they learn; what each draws comes from its own seed alone."""

    def __init__(
        self,
        stack: BatchedHeads,
        task: TrainingTask,
        copies_data: Sequence[CopyData],
        choices: Sequence[CopySettings],
        seeds: Sequence[int],
        batch: int,
        parts: int = PARTS,
    ) -> None:
        self.stack, self.steps = stack, 0
        self._task, self._copies_data, self._choices = task, list(copies_data), list(choices)
        self._orders = [
            _Order(len(own.rows), batch, torch.Generator().manual_seed(seed))
            for own, seed in zip(copies_data, seeds, strict=True)
        ]
        self._average = WeightAverage(stack.numbers, parts)
        self._optimizer = _optimizer(stack, choices)

    def learn(self, until: int) -> None:
        """Go on until so many steps are taken in all."""
        while self.steps < until:
            self._task.check()
            warm_up(self._optimizer, self.steps)
            batch = torch.stack([order.next() for order in self._orders])  # (k, b)
            batch = batch.to(self.stack.numbers.device)
            self._learn_from(batch)
            self._optimizer.step()
            self._average.take(self.stack.numbers)
            self.steps += 1

    def _learn_from(self, batch: Tensor) -> None:
        """Set the gradient of a batch (k, b) of places among each copy's rows."""
        both = list(zip(self._copies_data, batch, strict=True))
        rows = torch.stack([data.rows[places] for data, places in both])
        # Whole rows are taken ten times as fast as by indexing.
        values = torch.stack([data.vectors.index_select(0, places) for data, places in both])
        logits = self.stack.logits(values, training=True)
        self.stack.learn(gradient(logits, self._task, rows))

    def go_on_with(self, task: TrainingTask, copies_data: Sequence[CopyData]) -> None:
        """Learns from other rows from now on, such as those of the next shard."""
        self._task, self._copies_data = task, list(copies_data)
        self._orders = [  # drawn from where the ones before have come to
            _Order(len(own.rows), order.batch, order.rng)
            for order, own in zip(self._orders, copies_data, strict=True)
        ]

    def state(self, number: int) -> dict[str, Tensor]:
        """The averaged tensors of one copy."""
        return self.stack.state(number, self._average.numbers)

    def keep(self, numbers: Sequence[int]) -> None:
        """Goes on with some of the copies only."""
        before, states = self.stack, self._optimizer.state
        self.stack = before.kept(numbers)
        self._average.numbers = before.gathered(self._average.numbers, numbers)
        self._copies_data = [self._copies_data[number] for number in numbers]
        self._choices = [self._choices[number] for number in numbers]
        self._orders = [self._orders[number] for number in numbers]
        self._optimizer = _optimizer(self.stack, self._choices)
        for number, copy in zip(numbers, self.stack.copies, strict=True):
            for old, new in zip(before.copies[number], copy, strict=True):
                self._optimizer.state[new] = states[old]


class _Order:
    """The places of a copy's rows, batch by batch: all of them in random order, and again."""

    def __init__(self, rows: int, batch: int, rng: torch.Generator) -> None:
        self._rows, self.batch, self.rng = rows, batch, rng
        self._left = torch.empty(0, dtype=torch.long)

    def next(self) -> Tensor:
        while len(self._left) < self.batch:
            again = torch.randperm(self._rows, generator=self.rng)
            self._left = torch.cat([self._left, again])
        found, self._left = self._left[: self.batch], self._left[self.batch :]
        return found


def gradient(logits: Tensor, task: TrainingTask, rows: Tensor) -> Tensor:
    """The gradient, by the logits (k, b, c), of the weighted mean loss of each copy's rows (k, b).

    Where dropout is sampled several times, the samples stand below each other.
    """
    rows = rows.repeat(1, logits.shape[1] // rows.shape[1])
    weights, targets = task.weights[rows], task.targets[rows]
    shares = (weights / weights.sum(dim=1, keepdim=True))[..., None]
    exact = logits.to(weights.dtype)
    return task.objective.gradient(exact, targets).mul_(shares).to(logits.dtype)


def _optimizer(stack: BatchedHeads, choices: Sequence[CopySettings]) -> torch.optim.Optimizer:
    """Return AdamW with a group for all copies of the same step size and decay."""
    groups: dict[tuple[float, float], list[nn.Parameter]] = {}
    for tensors, choice in zip(stack.copies, choices, strict=True):
        groups.setdefault((choice.learning_rate, choice.weight_decay), []).extend(tensors)
    return build_optimizer(groups)


def build_optimizer(
    groups: Mapping[tuple[float, float], Sequence[nn.Parameter]],
) -> torch.optim.Optimizer:
    """Return AdamW over parameters, by their learning rate, which is reached, and weight decay."""
    return torch.optim.AdamW(
        [
            {"params": tensors, "lr": rate, "weight_decay": decay, "peak": rate}
            for (rate, decay), tensors in groups.items()
        ],
        betas=BETAS,
        fused=True,
    )


def warm_up(optimizer: torch.optim.Optimizer, steps: int) -> None:
    """Set the learning rate of the step after so many steps: it rises, then stays."""
    for group in optimizer.param_groups:
        group["lr"] = group["peak"] * min(1.0, (steps + 1) / WARM)
