"""The fitter of heads that AdamW learns from one vector a text, many copies at once."""

from collections.abc import Mapping, Sequence
from copy import deepcopy
from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor, nn

from heads.data.splits import Splits
from heads.rng import IsolatedRng
from heads.training.fitters import adamw
from heads.training.fitters.base import (
    BySeed,
    Chosen,
    FirstLinear,
    FittedHead,
    Maker,
    Searches,
    Searching,
    SearchResult,
    Seeds,
    Source,
)
from heads.training.fitters.batched import (
    NEW_HEADS,
    PRETRAINED_HEADS,
    BatchedHeads,
    CopySettings,
    narrow_table,
)
from heads.training.fitters.successive_halving import (
    Candidate,
    build_candidates,
    search_candidates,
    steps_after,
)
from heads.training.task import TrainingTask
from heads.training.whitening import WIDEST, InputBasis

AT_ONCE = 4096  # rows that are answered together
SIDE_BY_SIDE = 16  # copies: of more, the numbers that a step changes leave the cache
SEEN_BYTES = 512 * 2**20  # of vectors along the axes of copies that learn side by side


@dataclass(frozen=True, slots=True, kw_only=True)
class AdamWFitter:
    """Layers that a `BatchedHeads` can compute: many copies at once under AdamW.

    Attributes:
        first: The layer that takes up a change of its input's axes; None, if no layer can.
        pretrained: Whether the head begins with weights that know their input as it is.
        standardise: Whether its input is standardised, where the recipe says so.
    """

    make: Maker
    first: FirstLinear | None
    pretrained: bool
    standardise: bool | None = None
    is_random: ClassVar[bool] = True
    learns_from: Source = "vectors"
    pace: ClassVar[float] = 10.0

    def search(self, task: TrainingTask, splits: Splits, seeds: Seeds) -> Searching:
        table, batch = self._table(task), adamw.batch_of(len(splits.train[0]))
        axes = len({(one.standardise, one.principal_axes) for one in table})
        together = _side_by_side(SIDE_BY_SIDE // len(table), axes * len(splits.train[0]), task)
        found = list[SearchResult]()
        for start in range(0, len(seeds), together):
            candidates = list[Candidate]()
            for number in range(start, min(start + together, len(seeds))):
                passes = len(splits.fitted(number)) / batch
                candidates += build_candidates(table, number, splits.development[number], passes)
            copies = _KeptCopies(
                self,
                task,
                [candidate.choice for candidate in candidates],
                [splits.fitted(candidate.seed) for candidate in candidates],
                [seeds[candidate.seed] for candidate in candidates],
                batch,
            )
            found += yield from search_candidates(copies, candidates, task)
            del copies  # before the next are made
        return found

    def settings(self, task: TrainingTask) -> list[Chosen]:
        """Return the settings that every seed tries, as plain values."""
        return [choice.as_values() for choice in self._table(task)]

    def _table(self, task: TrainingTask) -> list[CopySettings]:
        """Return what is tried, less axes that no layer takes up or that are too many to find."""
        table = NEW_HEADS if self.first and not self.pretrained else PRETRAINED_HEADS
        turned = self.first is not None and task.vectors.shape[1] <= WIDEST
        left = [one for one in table if turned or not one.principal_axes]
        fixed = task.standardise if self.standardise is None else self.standardise
        return narrow_table(left, task.config, fixed if self.first else None)

    def learn(
        self, task: TrainingTask, found: Searches, rows: BySeed, asked: BySeed, seeds: Seeds
    ) -> list[FittedHead]:
        learned: dict[int, FittedHead] = {}
        batch = adamw.batch_of(len(rows[0]))
        together = _side_by_side(SIDE_BY_SIDE, len(rows[0]), task)
        for start in range(0, len(rows), together):
            live = list(range(start, min(start + together, len(rows))))
            ends = {n: steps_after(found[n], len(rows[n]) / batch, task.config) for n in live}
            copies = _KeptCopies(
                self,
                task,
                [CopySettings.from_values(found[n].chosen) for n in live],
                [rows[n] for n in live],
                [seeds[n] for n in live],
                batch,
                [found[n].state for n in live],
            )
            for step in sorted(set(ends.values())):
                copies.learn(step)
                for place, number in enumerate(live):
                    if ends[number] == step:
                        state = copies.state(place)
                        logits = copies.answers(state, asked[number])
                        learned[number] = FittedHead(logits=logits, state=state)
                left = [place for place, number in enumerate(live) if ends[number] > step]
                if 0 < len(left) < len(live):
                    copies.keep(left)
                live = [live[place] for place in left]
            del copies
        return [learned[number] for number in range(len(rows))]


def _side_by_side(wanted: int, rows: int, task: TrainingTask) -> int:
    """As many as wanted may learn side by side, each seeing so many rows, within `SEEN_BYTES`."""
    size = rows * task.vectors.shape[1] * task.products.itemsize
    return max(1, min(wanted, SEEN_BYTES // max(1, size)))


def begin_head(
    fitter: AdamWFitter,
    fresh: nn.Sequential,
    axes: InputBasis | None,
    start: Mapping[str, Tensor] | None,
    task: TrainingTask,
    rows: Tensor,
) -> nn.Sequential:
    """Return a copy of a new head, or of one with the tensors `start`, along the axes it sees."""
    chain = deepcopy(fresh)
    if start is None:
        adamw.at_base_rates(chain, task, rows)
    else:
        chain.load_state_dict(start)
    if fitter.first and axes and (fitter.pretrained or start is not None):
        chain.load_state_dict(axes.unfolded(chain.state_dict(), fitter.first.layer))
    return chain


class HeadCopies:
    """Copies of a head that learn together, asked as the heads that are kept."""

    _first: FirstLinear | None
    _task: TrainingTask  # of the rows that are asked about
    _bases: list[InputBasis | None]  # of each copy
    _chain: nn.Sequential  # to ask
    _course: adamw.AdamWCopies

    def learn(self, until: int) -> None:
        """Goes on until so many steps are taken in all."""
        self._course.learn(until)

    def answers(self, state: Mapping[str, Tensor], rows: Tensor) -> Tensor:
        """The logits of some rows, (n, c), of vectors as they are, in 32 bits."""
        self._chain.load_state_dict(state)
        return chain_logits(self._chain, self._task, rows)

    def state(self, number: int) -> dict[str, Tensor]:
        """Return the averaged tensors of one copy, which reads vectors as they are."""
        state, axes = self._course.state(number), self._bases[number]
        return axes.folded(state, self._first.layer) if self._first and axes else state

    def keep(self, numbers: Sequence[int]) -> None:
        """Go on with some of the copies only."""
        self._course.keep(numbers)
        self._bases = [self._bases[number] for number in numbers]


class _KeptCopies(HeadCopies):
    """Copies that learn from rows in memory."""

    def __init__(
        self,
        fitter: AdamWFitter,
        task: TrainingTask,
        choices: Sequence[CopySettings],
        rows: Sequence[Tensor],
        seeds: Sequence[int],
        batch: int,
        starts: Sequence[Mapping[str, Tensor] | None] = (),
    ) -> None:
        self._first, self._task = fitter.first, task
        self._bases, chains, copies_data = list[InputBasis | None](), list[nn.Sequential](), []
        starts = starts or [None] * len(rows)
        fresh: dict[int, nn.Sequential] = {}
        for seed, own, choice, start in zip(seeds, rows, choices, starts, strict=True):
            if seed not in fresh:  # all settings of a seed begin with the same weights
                with IsolatedRng(seed).rolling():
                    fresh[seed] = fitter.make()
            axes, vectors = None, None
            if fitter.first:
                axes, vectors = task.seen(
                    own,
                    standardise=choice.standardise,
                    centred=fitter.first.bias,
                    turned=choice.principal_axes,
                )
            chain = begin_head(fitter, fresh[seed], axes, start, task, own)
            seen = task.of(own).to(task.products) if vectors is None else vectors
            chains.append(chain)
            self._bases.append(axes)
            copies_data.append(adamw.CopyData(rows=own, vectors=seen))
        self._chain = chains[0]  # to ask
        stack = BatchedHeads(chains, seeds, task.products)
        # What begins at an average is near where it ends: all its steps count alike.
        parts = adamw.PARTS if starts[0] is None else 1
        self._course = adamw.AdamWCopies(stack, task, copies_data, choices, seeds, batch, parts)


@torch.no_grad()
def chain_logits(chain: nn.Sequential, task: TrainingTask, rows: Tensor) -> Tensor:
    """The logits of some rows, (n, c), from the head as it is kept and vectors as they are."""
    found = []
    for part in rows.split(AT_ONCE):
        task.check()
        found.append(chain.eval()(task.of(part)))
    return torch.cat(found)
