"""One training of a base model with a head: its steps, its schedule, and where it goes on.

Legend: n rows, b rows of a batch.
"""

import math
from collections.abc import Iterator, Mapping
from contextlib import nullcontext
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from heads.backbone.device import HERE, tokens_at_once
from heads.rng import IsolatedRng
from heads.training.finetuning.memory import TrainingMemory
from heads.training.finetuning.module import Texts, TunedRecipe, together
from heads.training.fitters.base import Chosen
from heads.training.task import TrainingTask

BATCH = 32  # rows in a step
TOGETHER = 16  # batches whose rows are sorted by length, so that little of them is padding
HEAD_RATE = 1e-3
DECAY = 0.9  # of the learning rate, from each layer to the one below
WEIGHT_DECAY = 0.01
WARM_UP = 0.1  # of all steps
STEP = 3  # times the memory and work of a forward pass
LARGEST = 1.0  # that the norm of all gradients may be
TUNED = ("learning_rate", "head_rate", "decay", "weight_decay")  # what a search may choose


@dataclass(frozen=True, slots=True, kw_only=True)
class TuningSettings:
    """The settings of one training.

    Attributes:
        learning_rate: Of the last layer of the base model, at its highest.
        epochs: Passes over the rows, by the end of which the learning rate has fallen to 0.
        decay: By what the learning rate is multiplied from each layer to the one below it.
        weight_decay: Of AdamW; biases and norms have none.
    """

    learning_rate: float
    epochs: int
    head_rate: float = HEAD_RATE
    decay: float = DECAY
    weight_decay: float = WEIGHT_DECAY
    batch: int = BATCH

    @classmethod
    def from_values(cls, chosen: Chosen) -> "TuningSettings":
        """Return the settings from those that `as_values` made."""
        values: Any = {name: value for name, value in chosen.items() if name in TUNED}
        return cls(epochs=int(chosen["planned"]), **values)

    def as_values(self, epochs: int) -> Chosen:
        """Return plain values, with the number of passes after which they were evaluated."""
        return {name: getattr(self, name) for name in TUNED} | {
            "planned": self.epochs, "epochs": epochs,
        }  # fmt: skip


class TuningRun:
    """A recipe and its copy of the base model while they learn."""

    def __init__(
        self,
        module: TunedRecipe,
        texts: Texts,
        task: TrainingTask,
        rows: Tensor,
        settings: TuningSettings,
        rng: IsolatedRng,
        seed: int,
    ) -> None:
        from transformers import get_linear_schedule_with_warmup

        self.module, self.steps = module, 0
        self._texts, self._task, self._rows, self._settings = texts, task, rows, settings
        self._rng, self._seed = rng, seed
        self.epoch_steps = math.ceil(len(rows) / settings.batch)
        whole = settings.epochs * self.epoch_steps
        groups = list(_groups(module, settings))
        self._optimizer = torch.optim.AdamW(groups, lr=settings.learning_rate, fused=True)
        self._schedule = get_linear_schedule_with_warmup(
            self._optimizer, math.ceil(WARM_UP * whole), whole
        )
        self._learned = [own for _, _, own in module.groups()]
        self.memory = TrainingMemory(module, self._learned)
        self._order = list[Tensor]()

    @property
    def epoch(self) -> int:
        """How many passes are over."""
        return self.steps // self.epoch_steps

    def learn(self) -> Iterator[float]:
        """Take the steps to the end of this pass over the rows; yield the loss of each."""
        epoch, device = self.epoch, next(self.module.parameters()).device
        order = batches(self._rows, self._texts, self._settings.batch, self._seed, epoch)
        for rows in order[self.steps - epoch * self.epoch_steps :]:
            yield self.step(rows, device)

    def step(self, rows: Tensor, device: torch.device = HERE) -> float:
        """One step by the weighted mean loss of some rows; that loss.

        Rows are computed a few at a time, and their gradients added up: so that a step of long
        texts takes no more memory than one of short ones, and can be ended within.
        """
        self.module.train()
        self._optimizer.zero_grad()
        loss, tokens = 0.0, tokens_at_once(device) // STEP
        for some in together(self._texts.lengths(rows), tokens, self.module.reads_padding):
            self._task.check()
            self.memory.begin()
            with self.memory.counting():
                own = self._losses(rows[some], device).sum() / len(rows)
            # Layers that are computed again draw their dropout again, while nobody else draws.
            with self._rng.rolling() if self.module.recomputes else nullcontext():
                own.backward()
            loss += float(own.detach())
        torch.nn.utils.clip_grad_norm_(self._learned, LARGEST)
        self._optimizer.step()
        self._schedule.step()
        self.steps += 1
        return loss

    def _losses(self, rows: Tensor, device: torch.device) -> Tensor:
        """The weighted loss of each of some rows, (b,)."""
        task, dtype = self._task, self._task.products_on(device)
        with self._rng.rolling(), torch.autocast(device.type, dtype, dtype != torch.float32):
            logits = self.module(self._texts, rows).float()
        objective, targets = task.objective, task.targets[rows].to(device)
        losses = objective.rows(objective.learned(logits, targets), targets)
        return losses * task.weights[rows].to(device)

    def checkpoint(self) -> dict[str, Any]:
        """All that it takes to go on from here to the same numbers."""
        return {
            "steps": self.steps,
            "tensors": self.module.learned(),
            "optimizer": self._optimizer.state_dict(),
            "schedule": self._schedule.state_dict(),
            "random": list(self._rng.states),
            "peak": self.memory.peak,
        }

    @torch.no_grad()
    def load_checkpoint(self, kept: Mapping[str, Any]) -> None:
        """Goes on from a checkpoint."""
        for name, own in self.module.learned().items():
            own.copy_(kept["tensors"][name])
        self.steps = kept["steps"]
        self._optimizer.load_state_dict(kept["optimizer"])
        self._schedule.load_state_dict(kept["schedule"])
        self._rng.states = list(kept["random"])
        self.memory.peak = max(self.memory.peak, kept["peak"])


def batches(rows: Tensor, texts: Texts, batch: int, seed: int, epoch: int) -> list[Tensor]:
    """The batches of one pass, in random order; the rows of a batch are of like length.

    Source: `group_by_length` of Transformers' Trainer.
    """
    rng = torch.Generator().manual_seed(seed * 1_000_003 + epoch)
    lengths, found = texts.lengths(rows), list[Tensor]()
    for some in torch.randperm(len(rows), generator=rng).split(TOGETHER * batch):
        found += some[lengths[some].argsort(descending=True, stable=True)].split(batch)
    order = torch.randperm(len(found), generator=rng).tolist()
    return [rows[found[place]] for place in order]


def _groups(module: TunedRecipe, settings: TuningSettings) -> Iterator[dict[str, Any]]:
    """What is learned by the layer it belongs to, with and without weight decay.

    Source: learning rates by layer: ULMFiT (Howard and Ruder 2018), ELECTRA (Clark et al. 2020);
    what has no weight decay: BERT.
    """
    known: dict[tuple[int, bool], list[Tensor]] = {}
    for depth, _, own in module.groups():
        known.setdefault((depth, own.dim() > 1), []).append(own)
    head = max(depth for depth, _ in known)
    for (depth, decays), own in sorted(known.items()):
        rate = settings.learning_rate * settings.decay ** (head - 1 - depth)
        yield {
            "params": own,
            "lr": settings.head_rate if depth == head else rate,
            "weight_decay": settings.weight_decay * decays,
        }
