"""Trying settings step by step: who is behind is eliminated, the others learn until they converge.

Every seed tries the same settings on its own rows, side by side with all other seeds. At every
evaluation the development rows are answered by the averaged weights; evaluations come √2 times
further apart each time. A candidate has converged where twice as many steps have not made its
development loss fall (by `FALL` or more): the same rule for every head, and a cap that is reported
where it was hit.

Legend: m development rows, c outputs.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from math import inf, isfinite
from typing import Protocol

import torch
from torch import Tensor

from heads.settings import ExperimentConfig
from heads.training.fitters.base import (
    Searching,
    SearchResult,
    TriedSettings,
    best_factor,
    judge_settings,
    select_one_se,
)
from heads.training.fitters.batched import CopySettings
from heads.training.task import TrainingTask

CAP, CAP_PASSES = 4_096, 40  # steps and passes over the rows, at most
FIRST = (8, 64)  # steps before the first evaluation: about one pass
SETTLED = 4  # times as many steps as that, before candidates are eliminated
PASSES = 8  # before a head may count as converged: what falls slowly may pause
PATIENCE = 2  # times as many steps as that took, in which the loss does not fall any more
NOTHING = 1e-4  # of a loss, numbers having spread 1: who falls by less is right and sure already
FALL = 0.01  # of the development loss: what falls less does not fall
DECIDED = 256  # steps, after which each seed goes on with its best settings alone
BEHIND = (
    2.0  # standard errors of the paired difference, from which candidates are eliminated before
)
AGAIN = 0.5  # of the steps of a search, which its head goes on with on all rows


class LearningCopies(Protocol):
    """Several heads that are learned side by side."""

    def learn(self, until: int) -> None:
        """Goes on until so many steps are taken in all."""
        ...

    def state(self, number: int) -> dict[str, Tensor]:
        """The averaged tensors of one of them, as the head is kept."""
        ...

    def answers(self, state: Mapping[str, Tensor], rows: Tensor) -> Tensor:
        """What the head with such tensors makes of some rows, (n, c)."""
        ...

    def keep(self, numbers: Sequence[int]) -> None:
        """Goes on with some of them only."""
        ...


@dataclass(slots=True, kw_only=True, eq=False)
class Candidate:
    """Settings that a seed tries.

    Attributes:
        development: (m,), the rows by which they are judged.
        looks: The step and the loss of every evaluation.
        best: What it came to at its lowest loss, with the logits (m, c) and the tensors there.
        losses: (m,), the loss of each row at the last evaluation.
        factor: One over the temperature of the last evaluation.
    """

    seed: int
    choice: CopySettings
    development: Tensor
    pass_steps: float
    looks: list[tuple[int, float]] = field(default_factory=list)
    best: tuple[TriedSettings, Tensor, Mapping[str, Tensor]] | None = None
    losses: Tensor = field(default_factory=lambda: torch.empty(0))
    factor: float = 1.0
    is_out: bool = False

    def evaluate(
        self, step: int, copies: LearningCopies, number: int, task: TrainingTask
    ) -> TriedSettings:
        """Note what a copy answers after so many steps."""
        state = copies.state(number)
        logits = copies.answers(state, self.development)
        self.factor = best_factor(logits, task, self.development, self.factor)
        scaled = logits * self.factor
        self.losses = task.objective.rows(scaled, task.targets[self.development])
        choice = replace(self.choice, epochs=round(step / self.pass_steps, 3))
        point = judge_settings(choice.as_values(), step, scaled, task, self.development)
        point = replace(point, seed=self.seed)
        lowest = min((loss for _, loss in self.looks), default=inf)
        self.looks.append((step, point.finite_loss))
        if self.best is None or task.config.steps or point.finite_loss <= lowest:
            self.best = (point, logits, state)
        return point

    def has_converged(self) -> bool:
        """Return True if twice as many steps have not made the loss fall, or it is no number."""
        step, last = self.looks[-1]
        if not isfinite(last):
            return True
        if step < PASSES * self.pass_steps:
            return False
        lowest = min(loss for _, loss in self.looks)
        near = next(at for at, loss in self.looks if loss <= lowest + little(lowest))
        return step >= PATIENCE * near

    def is_falling(self) -> bool:
        """Return True if the last loss is the lowest, and clearly below those of half the steps."""
        step, last = self.looks[-1]
        lowest = min(loss for _, loss in self.looks)
        early = [loss for at, loss in self.looks if at <= step / PATIENCE]
        return last <= lowest and all(last < loss - little(loss) for loss in early)


def build_candidates(
    table: Sequence[CopySettings], seed: int, development: Tensor, pass_steps: float
) -> list[Candidate]:
    """Return a candidate of one seed for each of the settings of a table."""
    return [
        Candidate(seed=seed, choice=choice, development=development, pass_steps=pass_steps)
        for choice in table
    ]


def little(loss: float) -> float:
    """Return by how much a loss may fall that does not count as falling."""
    return max(FALL * abs(loss), NOTHING)


def looks(pass_steps: float, cap: int) -> Iterator[int]:
    """Yield the steps after which candidates are evaluated.

    >>> list(looks(8.0, 50))
    [8, 11, 16, 23, 32, 45, 50]
    """
    first = min(max(round(pass_steps), FIRST[0]), FIRST[1])
    number = 0
    while (step := round(first * 2 ** (number / 2))) < cap:
        yield step
        number += 1
    yield cap


def search_candidates(
    copies: LearningCopies,
    candidates: Sequence[Candidate],
    task: TrainingTask,
    fewest_passes: int = 0,
) -> Searching:
    """Let copies learn, one a candidate in their order; return each seed's choice, seed by seed.

    Args:
        fewest_passes: Over the rows, which they may take even where these are more steps than any
            head takes otherwise.
    """
    live = list(candidates)
    passes = live[0].pass_steps  # the first seed's: more seeds change nothing for the first ones
    most = max(CAP, round(fewest_passes * passes))
    cap = task.config.steps or min(most, max(DECIDED, round(CAP_PASSES * passes)))
    steps = list(looks(passes, cap))
    settled = SETTLED * steps[0]
    for step in steps:
        copies.learn(step)
        points = []
        for number, candidate in enumerate(live):
            points.append(candidate.evaluate(step, copies, number, task))
            yield points[-1]
        if settled <= step < cap:
            left = _left(live, points, step, task)
            if not left:
                break
            if len(left) < len(live):
                copies.keep(left)
                live = [live[number] for number in left]
    ended = [one for one in candidates if one.looks[-1][0] == steps[-1] and not task.config.steps]
    capped = {id(candidate) for candidate in ended if candidate.is_falling()}
    seeds = dict.fromkeys(candidate.seed for candidate in candidates)
    by_seed = ([one for one in candidates if one.seed == seed] for seed in seeds)
    return [_choose(own, capped, task) for own in by_seed]


def _left(
    live: Sequence[Candidate], points: Sequence[TriedSettings], step: int, task: TrainingTask
) -> list[int]:
    """Return the numbers of those that go on: not behind their seed's best, and still falling."""
    left = list[int]()
    for seed in dict.fromkeys(candidate.seed for candidate in live):
        own = [number for number, candidate in enumerate(live) if candidate.seed == seed]
        lead = min(own, key=lambda number: live[number].looks[-1][1])
        if step >= DECIDED:
            top = select_one_se([points[number] for number in own], task)
            on = [number for number in own if points[number] is top]
        else:
            on = [number for number in own if not _is_behind(live[number], live[lead], task)]
        for number in set(own) - set(on):
            live[number].is_out = True
        left += [number for number in on if task.config.steps or not live[number].has_converged()]
    return left


def _is_behind(candidate: Candidate, lead: Candidate, task: TrainingTask) -> bool:
    """Return True if the loss that a seed judges by is surely higher, rows counting as there."""
    shares = task.counts[candidate.development].double()
    shares, gaps = shares / shares.sum(), (candidate.losses - lead.losses).double()
    behind = (shares * gaps).sum()
    return bool(behind > BEHIND * (shares * (gaps - behind)).square().sum().sqrt())


def _choose(candidates: Sequence[Candidate], capped: set[int], task: TrainingTask) -> SearchResult:
    """Return the best settings of one seed, each at its lowest loss."""
    best = [(*one.best, one) for one in candidates if one.best is not None and not one.is_out]
    top = select_one_se([point for point, *_ in best], task)
    point, logits, state, candidate = next(one for one in best if one[0] is top)
    settings = dict(point.settings) | {"converged": id(candidate) not in capped}
    begin = None if task.config.steps else state  # so many steps, from the beginning
    point = replace(point, settings=settings)
    return SearchResult(chosen=settings, point=point, held=logits, state=begin)


def steps_after(found: SearchResult, pass_steps: float, config: ExperimentConfig) -> int:
    """Return how many steps a head takes on all rows of its seed.

    Where it goes on from the head of the search, which knows all but the development rows, half
    as many as that took: as good as from the beginning (within 0.2 points of trec6, banking77 and
    emotion), at half the time.

    Args:
        pass_steps: How many steps one pass over those rows takes.
    """
    if config.steps:
        return config.steps
    share = 1.0 if found.state is None else AGAIN
    return max(FIRST[0], round(share * float(found.chosen["epochs"]) * pass_steps))
