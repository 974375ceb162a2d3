"""Heads learned from features that do not fit in memory, as from those that do.

Ridge, LDA and the means of classes follow from moments in closed form; linear layers are solved by
L-BFGS on gradients summed over shards; heads with more layers learn step by step, shard after
shard, until they have converged.

Legend: n rows, w width, c classes, k problems.
"""

from __future__ import annotations

import inspect
import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial

import torch
from torch import Tensor, nn

from heads.errors import RecipeError
from heads.events import result
from heads.extras.scale.shards import ShardRows
from heads.extras.scale.sums import Moments, Shards, fourth_powers, loss_gradients
from heads.parts import solvers
from heads.parts.solvers import last_linear, set_layer, set_raw_layer
from heads.rng import IsolatedRng
from heads.training.fitters import adamw
from heads.training.fitters.adamw import AdamWCopies, CopyData
from heads.training.fitters.base import Chosen, Fitter, SearchResult
from heads.training.fitters.batched import BatchedHeads, CopySettings
from heads.training.fitters.closed_form import ClosedFormFitter
from heads.training.fitters.lbfgs import Precision, minimise
from heads.training.fitters.logistic import BEND, MOST_STEPS, LinearFitter
from heads.training.fitters.successive_halving import build_candidates, search_candidates
from heads.training.fitters.vector_heads import AdamWFitter, HeadCopies, begin_head
from heads.training.objective import Objective
from heads.training.task import TrainingTask
from heads.training.whitening import InputBasis, scaled_axes

State = Mapping[str, Tensor]
NEAR = 1e-8  # of the first gradient: what is left of it moves no logit by 1e-5
ROUGH = 5e-3  # the same, down to which products in 32 bits serve as well


def check_streams(fitter: Fitter, name: str) -> None:
    """Raise RecipeError for a head that cannot be learned from shards."""
    is_closed = isinstance(fitter, ClosedFormFitter)
    if (is_closed and fitter.resolved.head.solve not in CLOSED_FORMS) or not isinstance(
        fitter, LinearFitter | ClosedFormFitter | AdamWFitter
    ):
        what = f"{name} needs all rows in memory at once."
        raise RecipeError(what, "Choose a linear head, ridge, lda, centroid, or one of layers.")


# --- Linear layers at their optimum.


def solve_linear(
    shards: Shards,
    moments: Moments,
    objective: Objective,
    settings: Sequence[Chosen],
    fitter: LinearFitter,
    start: State | None = None,
    near: float = NEAR,
) -> list[dict[str, Tensor]]:
    """Return the tensors of linear layers at the optimum of loss and penalty, in the same passes.

    The objective is that of `heads.training.fitters.logistic`, and C means what it means there and
    in scikit-learn. It is computed along the principal axes of the rows, which takes fewer steps.

    Args:
        settings: For each layer C, and whether rows are standardised: for all of them or for none.
        start: The tensors of a layer to begin with.
        near: The fraction of the first gradient at which to stop.
    """
    layer, biased = fitter.first.layer, fitter.first.bias
    standardise = bool(settings[0]["standardise"])
    axes, bends = principal_axes(moments, standardise=standardise, centred=biased)
    classes, rows = objective.outputs, moments.rows
    factor = 0.5 if classes == 2 and not objective.each_by_itself else 1.0
    if not standardise:
        factor /= float(moments.spread.mean().clamp_min(1e-12)) ** 2
    strengths = torch.tensor([float(one["C"]) * factor for one in settings], dtype=torch.double)
    decay = (1 / (strengths * rows))[:, None, None]  # (k, 1, 1)
    bend = 1.0 if not objective.problem.has_classes else BEND / max(2, classes)
    flat = torch.full((len(settings), 1), bend, dtype=torch.double)
    scale = torch.cat([bend * bends + decay[:, 0], flat], dim=1).rsqrt()[:, None]  # (k, 1, w + 1)

    def function(dtype: torch.dtype) -> Callable[[Tensor], tuple[Tensor, Tensor]]:
        def evaluate(point: Tensor) -> tuple[Tensor, Tensor]:
            both = point.view(len(settings), classes, -1) * scale
            weight, bias = both[..., :-1], both[..., -1] * biased
            weight_of_rows = weight @ axes.turn.T
            sums = shards.sum(
                partial(loss_gradients, weight_of_rows, bias, axes.shift, objective, dtype)
            )
            value = sums["loss"] / rows + (weight.square() * decay).sum(dim=(1, 2)) / 2
            by_weight = sums["weight"] @ axes.turn / rows + weight * decay
            by_bias = sums["bias"] / rows * biased
            gradient = torch.cat([by_weight, by_bias[..., None]], dim=2) * scale
            return value, gradient.flatten(1)

        return evaluate

    point = torch.zeros(len(settings), classes, len(bends) + 1, dtype=torch.double)
    if start is not None:
        known = axes.unfolded({name: one.double() for name, one in start.items()}, layer)
        begun = known.get(f"{layer}.bias", torch.zeros(classes, dtype=torch.double))
        point = torch.cat([known[f"{layer}.weight"], begun[:, None]], dim=1) / scale
    stages = [
        Precision(function=function(torch.float32), near=max(near, ROUGH)),
        Precision(function=function(torch.float64), near=near),
    ]
    states = list[dict[str, Tensor]]()
    for both in minimise(stages, point.flatten(1), MOST_STEPS).view_as(point) * scale:
        state = {f"{layer}.weight": both[:, :-1]}
        state |= {f"{layer}.bias": both[:, -1]} if biased else {}
        states.append({name: one.float() for name, one in axes.folded(state, layer).items()})
    return states


def principal_axes(
    moments: Moments, *, standardise: bool, centred: bool, turned: bool = True
) -> tuple[InputBasis, Tensor]:
    """Return the axes of rows from their moments, as of `heads.training.whitening.basis`.

    Returns:
        The axes, and (w,) the mean square of the rows along each.
    """
    mean = moments.mean
    axes = scaled_axes(mean, moments.spread, standardise=standardise, centred=centred)
    squares = moments.covariance + (0 if centred else torch.outer(mean, mean))
    squares = squares * torch.outer(axes.turn, axes.turn)
    if not turned:
        return axes, squares.diagonal().clamp_min(0)
    bends, vectors = torch.linalg.eigh(squares)
    return axes.turned(vectors), bends.clamp_min(0)


# --- Heads in closed form.

Solver = Callable[..., None]


def _ridge(chain: nn.Sequential, moments: Moments, shards: Shards, *, alpha: float) -> None:
    spread = solvers.divisor(moments.mean, moments.spread)
    gram = moments.covariance / torch.outer(spread, spread) * moments.rows
    centred = (moments.means - moments.mean) / spread * moments.counts[:, None]  # (c, w)
    # Of centred rows the products with ±1 are twice those with 1 and 0.
    weight = solvers.ridge_weights(gram, 2 * centred.T, alpha)
    set_raw_layer(last_linear(chain), weight, 2 * moments.shares - 1, moments.mean, spread)


def _lda(chain: nn.Sequential, moments: Moments, shards: Shards, *, shrinkage: float) -> None:
    spread, mean = solvers.divisor(moments.mean, moments.spread), moments.mean
    means = torch.where(moments.counts[:, None] > 0, (moments.means - mean) / spread, 0.0)
    between = means.T @ (means * moments.shares[:, None])
    within = moments.covariance / torch.outer(spread, spread) - between
    share = shrinkage or _ledoit_wolf(moments, within, spread, shards)
    weight, bias = solvers.discriminants(means, within, moments.counts, share)
    set_raw_layer(last_linear(chain), weight, bias, mean, spread)


def _ledoit_wolf(moments: Moments, within: Tensor, spread: Tensor, shards: Shards) -> float:
    """Return Ledoit and Wolf's fraction of the identity, from sums.

    Source: scikit-learn's `ledoit_wolf_shrinkage`, of rows that have mean 0.
    """
    fourth = shards.sum(partial(fourth_powers, moments.means, spread))["fourth"]
    rows, width = moments.rows, len(within)
    trace, squares = within.trace() / width, within.square().sum()
    noise = (fourth / rows - squares) / (width * rows)
    apart = (squares - 2 * trace * within.trace() + width * trace**2) / width
    return float(min(noise, apart) / apart) if apart > 0 and noise > 0 else 0.0


def _centroid(chain: nn.Sequential, moments: Moments, shards: Shards) -> None:
    bias = -moments.means.square().sum(dim=1) / 2
    bias = torch.where(moments.counts > 0, bias, -2 * moments.furthest)
    set_layer(last_linear(chain), moments.means, bias)


def _cosine(chain: nn.Sequential, moments: Moments, shards: Shards) -> None:
    set_layer(last_linear(chain), nn.functional.normalize(moments.directions, dim=-1))


# By the solver of rows that lie in memory, the one of moments.
CLOSED_FORMS: Mapping[object, Solver] = {
    solvers.ridge: _ridge,
    solvers.lda: _lda,
    solvers.centroid: _centroid,
    solvers.cosine: _cosine,
}


def solve_closed_form(
    shards: Shards, moments: Moments, fitter: ClosedFormFitter, chosen: Chosen
) -> dict[str, Tensor]:
    """Return the tensors of a head that follows from the moments of the rows."""
    chain = fitter.chain(len(moments.counts), chosen)
    solve = CLOSED_FORMS[fitter.resolved.head.solve]
    options = {**fitter.resolved.head_options, **chosen}
    known = inspect.signature(solve).parameters
    solve(chain, moments, shards, **{name: options[name] for name in options if name in known})
    return dict(chain.state_dict())


# --- Heads that learn step by step.


@dataclass(frozen=True, kw_only=True, eq=False)
class StepwiseSearch:
    """Let a head learn from shard after shard until it has converged; can be sent to a worker."""

    shards: Shards
    moments: Moments
    fitter: AdamWFitter
    objective: Objective
    settings: Sequence[Chosen]  # those to try; none: those of any head
    development: ShardRows  # the rows on which convergence is measured
    seed: int  # of weights, dropout and the order of rows
    start: State | None = None  # the tensors of a head to begin with

    def __call__(self) -> SearchResult:
        """Return the best settings with their logits and tensors."""
        development = self.development
        task = task_of_rows(development.vectors, development.targets, self.objective)
        values = self.settings or self.fitter.settings(task)
        choices = [CopySettings.from_values(chosen) for chosen in values]
        copies = ShardedCopies(self, choices, task)
        rows, steps = torch.arange(len(task.targets)), self.moments.rows / copies.batch
        candidates = build_candidates(choices, 0, rows, steps)
        return result(search_candidates(copies, candidates, task, fewest_passes=1))[0]


class ShardedCopies(HeadCopies):
    """Copies of a head, each with settings of its own, that learn from shard after shard."""

    def __init__(
        self, search: StepwiseSearch, choices: Sequence[CopySettings], task: TrainingTask
    ) -> None:
        fitter, seed = search.fitter, search.seed
        self._shards, self._first, self._task = search.shards, fitter.first, task
        self.batch, self._left = adamw.batch_of(search.moments.rows), 0  # steps on this shard
        self._dice, self._order = torch.Generator().manual_seed(seed), list[int]()
        with IsolatedRng(seed).rolling():
            self._chain = fitter.make()
        self._bases = [self._axes(search.moments, choice) for choice in choices]
        own, rows = self._next()
        chains = [
            begin_head(fitter, self._chain, axes, search.start, own, rows) for axes in self._bases
        ]
        seeds, parts = [seed] * len(chains), adamw.PARTS if search.start is None else 1
        self._course = AdamWCopies(
            BatchedHeads(chains, seeds, torch.float32), own, self._data(own, rows), choices, seeds,
            self.batch, parts,
        )  # fmt: skip

    def _axes(self, moments: Moments, choice: CopySettings) -> InputBasis | None:
        if self._first is None:
            return None
        axes, _ = principal_axes(
            moments, standardise=choice.standardise, centred=self._first.bias,
            turned=choice.principal_axes,
        )  # fmt: skip
        return InputBasis(shift=axes.shift.float(), turn=axes.turn.float(), back=axes.back.float())

    def learn(self, until: int) -> None:
        """Continue until so many steps are taken in all."""
        course = self._course
        while course.steps < until:
            if not self._left:
                task, rows = self._next()
                course.go_on_with(task, self._data(task, rows))
            steps = min(self._left, until - course.steps)
            course.learn(course.steps + steps)
            self._left -= steps

    def _next(self) -> tuple[TrainingTask, Tensor]:
        """Return the rows of the next shard that has some; each pass has another order."""
        while True:
            if not self._order:
                pieces = len(self._shards.pieces)
                self._order = torch.randperm(pieces, generator=self._dice).tolist()
            piece = self._shards.pieces[self._order.pop()]
            own = self._shards.reader.read(piece, self._shards.subset)
            if len(own):
                self._left = max(1, len(own) // self.batch)
                ones, rows = torch.ones(len(own)), torch.arange(len(own))
                task = replace(
                    self._task, vectors=own.vectors, index=rows, targets=own.targets, weights=ones,
                    counts=ones,
                )  # fmt: skip
                return task, rows

    def _data(self, task: TrainingTask, rows: Tensor) -> list[CopyData]:
        seen = {
            id(axes): axes.seen(task.vectors, torch.float32) if axes else task.vectors
            for axes in self._bases
        }
        return [CopyData(rows=rows, vectors=seen[id(axes)]) for axes in self._bases]


def task_of_rows(vectors: Tensor, targets: Tensor, objective: Objective) -> TrainingTask:
    """Return rows in memory, such as the development rows, as a training task."""
    ones = torch.ones(len(targets))
    return TrainingTask(
        vectors=vectors, index=torch.arange(len(targets)), targets=targets, objective=objective,
        weights=ones, counts=ones, stop=threading.Event(),
    )  # fmt: skip
