"""Heads learned from features that do not fit in memory, as they are learned from those that do.

Ridge, LDA and the means of classes follow from moments in closed form; linear layers are at their
optimum by L-BFGS on gradients summed over shards; heads with more layers learn step by step, shard
after shard, until they have converged.

Legend: n rows, w width, c classes, k problems.
"""

from __future__ import annotations

import inspect
import threading
from collections.abc import Callable, Generator, Mapping, Sequence
from copy import deepcopy
from dataclasses import dataclass, field, replace

import torch
from torch import Tensor, nn

from heads.errors import RecipeError
from heads.extras.scale.sums import FourthPowers, LossGradients, Moments, Shards
from heads.parts import solvers
from heads.recipe import Value
from heads.rng import IsolatedRng
from heads.training.fitters import adamw
from heads.training.fitters.adamw import AdamWCopies, CopyData, CopySettings
from heads.training.fitters.base import Chosen, Fitter, SearchResult, TriedSettings
from heads.training.fitters.batched import BatchedHeads
from heads.training.fitters.closed_form import ClosedFormFitter
from heads.training.fitters.lbfgs import Precision, minimise
from heads.training.fitters.logistic import BEND, MOST_STEPS, LinearFitter
from heads.training.fitters.sgd import SGDFitter
from heads.training.fitters.successive_halving import Candidate, choice_of, searched
from heads.training.objective import Objective
from heads.training.task import TrainingTask
from heads.training.whitening import InputBasis

State = Mapping[str, Tensor]
NEAR = 1e-8  # of the first gradient: what is left of it moves no logit by 1e-5
ROUGH = 5e-3  # the same, down to which products in 32 bits serve as well


def check_streams(fitter: Fitter, name: str) -> None:
    """Raise RecipeError for a head that cannot be learned from shards."""
    solved = isinstance(fitter, ClosedFormFitter)
    known = not solved or fitter.resolved.head.solve in CLOSED_FORMS
    if not (known and isinstance(fitter, LinearFitter | ClosedFormFitter | SGDFitter)):
        what = f"{name} needs all rows in memory at once."
        raise RecipeError(what, "Choose a linear head, ridge, lda, centroid, or one of layers.")


# --- Linear layers at their optimum.


def solve_linear(
    shards: Shards,
    found: Moments,
    objective: Objective,
    settings: Sequence[Chosen],
    fitter: LinearFitter,
    start: State | None = None,
    near: float = NEAR,
) -> list[dict[str, Tensor]]:
    """The tensors of linear layers at the optimum of loss and penalty, several in the same passes.

    The objective is that of `heads.training.fitters.logistic`, and C means what it means there and
    in scikit-learn. It is computed along the principal axes of the rows, which takes fewer steps.

    Args:
        found: The moments of the rows.
        settings: For each layer C, and whether rows are standardised: for all of them or for none.
        start: The tensors of a layer to begin with.
        near: Down to which share of the first gradient.
    """
    layer, biased = fitter.first.layer, fitter.first.bias
    standardise = bool(settings[0]["standardise"])
    axes, bends = axes_of(found, standardise=standardise, centred=biased)
    classes, rows = objective.outputs, found.rows
    factor = 0.5 if classes == 2 and not objective.each_by_itself else 1.0
    if not standardise:
        factor /= float(found.spread.mean().clamp_min(1e-12)) ** 2
    strengths = torch.tensor([float(one["C"]) * factor for one in settings], dtype=torch.double)
    decay = (1 / (strengths * rows))[:, None, None]  # (k, 1, 1)
    bend = 1.0 if not objective.problem.has_classes else BEND / max(2, classes)
    flat = torch.full((len(settings), 1), bend, dtype=torch.double)
    scale = torch.cat([bend * bends + decay[:, 0], flat], dim=1).rsqrt()[:, None]  # (k, 1, w + 1)

    def function(dtype: torch.dtype) -> Callable[[Tensor], tuple[Tensor, Tensor]]:
        def summed(point: Tensor) -> tuple[Tensor, Tensor]:
            both = point.view(len(settings), classes, -1) * scale
            weight, bias = both[..., :-1], both[..., -1] * biased
            own = shards.sum(
                LossGradients(
                    weight=weight @ axes.turn.T, bias=bias, shift=axes.shift, objective=objective,
                    dtype=dtype,
                )
            )  # fmt: skip
            value = own["loss"] / rows + (weight.square() * decay).sum(dim=(1, 2)) / 2
            by_weight = own["weight"] @ axes.turn / rows + weight * decay
            by_bias = own["bias"] / rows * biased
            gradient = torch.cat([by_weight, by_bias[..., None]], dim=2) * scale
            return value, gradient.flatten(1)

        return summed

    point = torch.zeros(len(settings), classes, len(bends) + 1, dtype=torch.double)
    if start is not None:
        known = axes.unfolded({name: one.double() for name, one in start.items()}, layer)
        begun = known.get(f"{layer}.bias", torch.zeros(classes, dtype=torch.double))
        point = torch.cat([known[f"{layer}.weight"], begun[:, None]], dim=1) / scale
    stages = [
        Precision(function=function(torch.float32), near=max(near, ROUGH)),
        Precision(function=function(torch.float64), near=near),
    ]
    solved = minimise(stages, point.flatten(1), MOST_STEPS).view_as(point) * scale
    return [_folded(one, axes, layer, biased) for one in solved]


def _folded(both: Tensor, axes: InputBasis, layer: str, biased: bool) -> dict[str, Tensor]:
    """The tensors of a layer (c, w + 1) along the axes, as one that reads vectors as they are."""
    state = {f"{layer}.weight": both[:, :-1]}
    state |= {f"{layer}.bias": both[:, -1]} if biased else {}
    return {name: one.float() for name, one in axes.folded(state, layer).items()}


def axes_of(
    found: Moments, *, standardise: bool, centred: bool, turned: bool = True
) -> tuple[InputBasis, Tensor]:
    """The axes of rows from their moments, as of `heads.training.whitening.basis`.

    Returns:
        The axes, and (w,) the mean square of the rows along each.
    """
    spread = found.spread
    gain = torch.ones_like(spread)
    if standardise:
        flat = spread <= 1e-6 * spread.max().clamp_min(1e-12)
        gain = torch.where(flat, 0.0, 1 / solvers.divisor(found.mean, spread))
    shift = found.mean if centred else torch.zeros_like(found.mean)
    squares = found.covariance + (0 if centred else torch.outer(found.mean, found.mean))
    seen = squares * torch.outer(gain, gain)
    undone = torch.where(gain > 0, 1 / gain.clamp_min(1e-12), 0.0)
    if not turned:
        return InputBasis(shift=shift, turn=gain, back=undone), seen.diagonal().clamp_min(0)
    bends, axes = torch.linalg.eigh(seen)
    own = InputBasis(shift=shift, turn=gain[:, None] * axes, back=undone[:, None] * axes)
    return own, bends.clamp_min(0)


# --- Heads in closed form.

Solver = Callable[..., None]


def _put(chain: nn.Sequential, weight: Tensor, bias: Tensor | None = None) -> None:
    layer = [module for module in chain.modules() if isinstance(module, nn.Linear)][-1]
    with torch.no_grad():
        layer.weight.copy_(weight)
        if bias is not None:
            layer.bias.copy_(bias)


def _put_standard(chain: nn.Sequential, weight: Tensor, bias: Tensor, found: Moments) -> None:
    """Folds the standardisation into the layer."""
    raw = weight / solvers.divisor(found.mean, found.spread)
    _put(chain, raw, bias - raw @ found.mean)


def _ridge(chain: nn.Sequential, found: Moments, shards: Shards, *, alpha: float) -> None:
    spread = solvers.divisor(found.mean, found.spread)
    gram = found.covariance / torch.outer(spread, spread) * found.rows
    centred = (found.means - found.mean) / spread * found.counts[:, None]  # (c, w)
    bias = 2 * found.shares - 1
    # Of centred rows the products with ±1 are twice those with 1 and 0.
    _put_standard(chain, solvers.ridge_weights(gram, 2 * centred.T, alpha), bias, found)


def _lda(chain: nn.Sequential, found: Moments, shards: Shards, *, shrinkage: float) -> None:
    spread = solvers.divisor(found.mean, found.spread)
    means = torch.where(found.counts[:, None] > 0, (found.means - found.mean) / spread, 0.0)
    between = means.T @ (means * found.shares[:, None])
    within = found.covariance / torch.outer(spread, spread) - between
    share = shrinkage or _shrinkage(found, within, shards)
    weight, bias = solvers.discriminants(means, within, found.counts, share)
    _put_standard(chain, weight, bias, found)


def _shrinkage(found: Moments, within: Tensor, shards: Shards) -> float:
    """Ledoit and Wolf's share of the identity, from sums.

    Source: scikit-learn's `ledoit_wolf_shrinkage`, of rows that have mean 0.
    """
    fourth = shards.sum(
        FourthPowers(means=found.means, spread=solvers.divisor(found.mean, found.spread))
    )["fourth"]
    rows, width = found.rows, len(within)
    trace = within.trace() / width
    squares = within.square().sum()
    noise = (fourth / rows - squares) / (width * rows)
    apart = (squares - 2 * trace * within.trace() + width * trace**2) / width
    return float(min(noise, apart) / apart) if apart > 0 and noise > 0 else 0.0


def _centroid(chain: nn.Sequential, found: Moments, shards: Shards) -> None:
    bias = -found.means.square().sum(dim=1) / 2
    _put(chain, found.means, torch.where(found.counts > 0, bias, -2 * found.furthest))


def _cosine(chain: nn.Sequential, found: Moments, shards: Shards) -> None:
    _put(chain, nn.functional.normalize(found.directions, dim=-1))


# By the solver of rows that lie in memory, the one of moments.
CLOSED_FORMS: Mapping[object, Solver] = {
    solvers.ridge: _ridge,
    solvers.lda: _lda,
    solvers.centroid: _centroid,
    solvers.cosine: _cosine,
}


def solve_closed_form(
    shards: Shards, found: Moments, fitter: ClosedFormFitter, chosen: Chosen
) -> dict[str, Tensor]:
    """The tensors of a head that follows from the moments of the rows."""
    chain = fitter.chain(len(found.counts), chosen)
    solve = CLOSED_FORMS[fitter.resolved.head.solve]
    options: dict[str, Value] = {**fitter.resolved.head_options, **chosen}
    known = inspect.signature(solve).parameters
    solve(chain, found, shards, **{name: own for name, own in options.items() if name in known})
    return dict(chain.state_dict())


# --- Heads that learn step by step.


@dataclass(eq=False, kw_only=True)
class ShardedCopies:
    """Copies of a head that learn from shard after shard; as of `successive_halving`.

    Attributes:
        shards: The rows.
        found: Their moments.
        fitter: What makes a new head.
        choices: The settings of each copy.
        seed: From which weights, dropout and the order of rows are drawn.
        batch: Rows of a step.
        task: Of the development rows, by which copies are asked.
        start: The tensors of a head to begin with.
    """

    shards: Shards
    found: Moments
    fitter: SGDFitter
    choices: Sequence[CopySettings]
    seed: int
    batch: int
    task: TrainingTask
    start: State | None = None
    _left: int = field(default=0, init=False)  # steps on the shard at hand

    def __post_init__(self) -> None:
        with IsolatedRng(self.seed).rolling():
            self._chain = self.fitter.make()
        self._bases = [self._axes(choice) for choice in self.choices]
        self._dice = torch.Generator().manual_seed(self.seed)
        self._order = list[int]()
        self._course: AdamWCopies | None = None

    def _axes(self, choice: CopySettings) -> InputBasis | None:
        if self.fitter.first is None:
            return None
        axes, _ = axes_of(
            self.found, standardise=choice.standardise, centred=self.fitter.first.bias,
            turned=choice.principal_axes,
        )  # fmt: skip
        return InputBasis(shift=axes.shift.float(), turn=axes.turn.float(), back=axes.back.float())

    def learn(self, until: int) -> None:
        """Goes on until so many steps are taken in all."""
        course = self._course or self._begun()
        while course.steps < until:
            if not self._left:
                task, rows = self._next()
                course.go_on_with(task, self._data(task, rows))
                self._left = self._steps(rows)
            steps = min(self._left, until - course.steps)
            course.learn(course.steps + steps)
            self._left -= steps

    def _begun(self) -> AdamWCopies:
        task, rows = self._next()
        chains = []
        for axes in self._bases:
            chain = deepcopy(self._chain)
            if self.start is None:
                adamw.at_base_rates(chain, task, rows)
            else:
                chain.load_state_dict(dict(self.start))
            if self.fitter.first and axes and (self.fitter.pretrained or self.start is not None):
                chain.load_state_dict(axes.unfolded(chain.state_dict(), self.fitter.first.layer))
            chains.append(chain)
        stack = BatchedHeads(chains, [self.seed] * len(chains), torch.float32)
        parts = adamw.PARTS if self.start is None else 1
        self._course = AdamWCopies(
            stack, task, self._data(task, rows), self.choices, [self.seed] * len(chains),
            self.batch, parts,
        )  # fmt: skip
        self._left = self._steps(rows)
        return self._course

    def _steps(self, rows: Tensor) -> int:
        return max(1, len(rows) // self.batch)

    def _next(self) -> tuple[TrainingTask, Tensor]:
        """The rows of the next shard that has some; in each pass they come in another order."""
        while True:
            if not self._order:
                self._order = torch.randperm(len(self.shards.pieces), generator=self._dice).tolist()
            piece = self.shards.pieces[self._order.pop()]
            own = self.shards.reader.read(piece, self.shards.part)
            if len(own):
                task = replace(
                    self.task, vectors=own.vectors, index=torch.arange(len(own)),
                    targets=own.targets, weights=torch.ones(len(own)), counts=torch.ones(len(own)),
                )  # fmt: skip
                return task, torch.arange(len(own))

    def _data(self, task: TrainingTask, rows: Tensor) -> list[CopyData]:
        seen = dict[int, Tensor]()
        for axes in self._bases:
            if id(axes) not in seen:
                seen[id(axes)] = axes.seen(task.vectors, torch.float32) if axes else task.vectors
        return [CopyData(rows=rows, vectors=seen[id(axes)]) for axes in self._bases]

    def state(self, number: int) -> dict[str, Tensor]:
        """The averaged tensors of one copy, which reads vectors as they are."""
        assert self._course is not None
        state, axes = self._course.state(number), self._bases[number]
        first = self.fitter.first
        return axes.folded(state, first.layer) if first and axes else state

    @torch.no_grad()
    def answers(self, state: Mapping[str, Tensor], rows: Tensor) -> Tensor:
        """The logits of some development rows, (n, c)."""
        self._chain.load_state_dict(dict(state))
        return self._chain.eval()(self.task.of(rows))

    def keep(self, numbers: Sequence[int]) -> None:
        """Goes on with some of the copies only."""
        assert self._course is not None
        self._course.keep(numbers)
        self._bases = [self._bases[number] for number in numbers]


def learn_by_steps(
    shards: Shards,
    found: Moments,
    fitter: SGDFitter,
    settings: Sequence[Chosen],
    task: TrainingTask,
    seed: int,
    start: State | None = None,
) -> Generator[TriedSettings, None, SearchResult]:
    """Lets a head learn from shard after shard until it has converged; what was looked at.

    Args:
        settings: Those that are tried.
        task: Of the development rows, by which it is told whether it still learns.
        seed: From which weights, dropout and the order of rows are drawn.
        start: The tensors of a head to begin with.
    """
    choices = [choice_of(one) for one in settings]
    batch = adamw.batch_of(found.rows)
    copies = ShardedCopies(
        shards=shards, found=found, fitter=fitter, choices=choices, seed=seed, batch=batch,
        task=task, start=start,
    )  # fmt: skip
    development = torch.arange(len(task.targets))
    tried = [
        Candidate(seed=0, choice=choice, development=development, pass_steps=found.rows / batch)
        for choice in choices
    ]
    (result,) = yield from searched(copies, tried, task, fewest_passes=1)
    return result


def task_of_rows(vectors: Tensor, targets: Tensor, objective: Objective) -> TrainingTask:
    """Rows in memory, such as the development rows, as a training task."""
    ones = torch.ones(len(targets))
    return TrainingTask(
        vectors=vectors, index=torch.arange(len(targets)), targets=targets, objective=objective,
        weights=ones, counts=ones, stop=threading.Event(),
    )  # fmt: skip
