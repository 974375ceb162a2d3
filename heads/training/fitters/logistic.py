"""Linear heads fitted to their one optimum: penalised regressions, several at once by L-BFGS."""

from collections.abc import Callable, Generator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar

import torch
from torch import Tensor
from torch.nn.functional import linear

from heads.data.splits import Splits
from heads.parts.resolved_recipe import ResolvedRecipe
from heads.training.fitters.base import (
    BySeed,
    Chosen,
    FirstLinear,
    FittedHead,
    Searches,
    Searching,
    SearchResult,
    Seeds,
    Source,
    TriedSettings,
    refit_searches,
    score_settings,
    select_one_se,
)
from heads.training.fitters.lbfgs import Function, Precision, minimise
from heads.training.objective import Objective
from heads.training.task import TrainingTask
from heads.training.whitening import MANY_ROWS

AT_ONCE = 2_000_000  # logits that are computed together: they should stay in the cache
BEND = 0.2  # of the bend at 0 of a softmax of c classes, 1 / c: less of it is left at the optimum
NEAR = 1e-3  # of the first gradient: what is left of it then moves no answer
ROUGH = 5e-3  # the same, down to which products in 16 bits serve as well
FEW = 8  # lengths of a step that are tried in 16 bits: of shorter ones rounding would decide


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class LinearProblems:
    """k regressions on the same rows.

    Attributes:
        vectors: (n, w), best along their principal axes; for heads without a bias not centred.
        targets: (n,) or (n, c).
        weights: (n,), how much each row counts; (k, n), in each problem.
        strength: (k,), C.
        bias: Whether there is one; it is never penalised.
    """

    vectors: Tensor
    targets: Tensor
    objective: Objective
    weights: Tensor
    strength: Tensor
    bias: bool


def solve(
    problems: LinearProblems,
    *,
    iterations: int,
    check: Callable[[], None],
    near: float,
    start: tuple[Tensor, Tensor] | None = None,
    products: torch.dtype = torch.float32,
) -> tuple[Tensor, Tensor]:
    """Solves all problems; weights (k, c, w) and biases (k, c) of the vectors.

    Args:
        iterations: The most in each precision; it ends earlier where the gradient has all but
            vanished.
        check: Called many times in every step; may raise to end the work.
        near: Down to which share of the first gradient.
        start: Weights and biases to begin with, near the optimum; 0 without them.
        products: What products are computed in down to `ROUGH`; beyond, as the vectors are.
    """
    k, classes = len(problems.strength), problems.objective.outputs
    width = problems.vectors.shape[1]
    scale = _scale(problems)
    point = torch.zeros(k, classes, width + 1, device=problems.vectors.device)
    if start is not None:
        point = torch.cat([start[0], start[1][..., None]], dim=2) / scale
    own = problems.vectors.dtype
    stages = list[Precision]()
    if products.itemsize < own.itemsize:
        rough = _objective(problems, scale, products, check)
        stages.append(Precision(function=rough, near=max(near, ROUGH), tries=FEW))
    if not stages or near < ROUGH:
        stages.append(Precision(function=_objective(problems, scale, own, check), near=near))
    found = minimise(stages, point.flatten(1), iterations).view(k, classes, width + 1) * scale
    return found[..., :-1], found[..., -1]


def _scale(problems: LinearProblems) -> Tensor:
    """(k, 1, w + 1), the unit in which each number of a weight and the bias are measured.

    One over the root of the objective's bend along it, as it is between beginning and optimum.
    """
    total = problems.weights.sum(dim=-1, keepdim=True)  # (1,), or (k, 1)
    shares = (problems.weights / total).split(MANY_ROWS, dim=-1)
    squares = (own.square() for own in problems.vectors.split(MANY_ROWS))
    # (w,) or (k, w), in parts: of a million rows no second copy should lie beside them.
    square = torch.stack([w @ v for w, v in zip(shares, squares, strict=True)]).sum(dim=0)
    objective = problems.objective
    bend = BEND / max(2, objective.outputs) if objective.problem.has_classes else 1.0
    decay = 1 / (problems.strength[:, None] * total)
    constant = torch.full((len(decay), 1), bend, device=decay.device)
    both = torch.cat([bend * square + decay, constant], dim=1)
    return both.rsqrt()[:, None]


def _objective(
    problems: LinearProblems, scale: Tensor, products: torch.dtype, check: Callable[[], None]
) -> Function:
    """The mean loss and penalty of each problem, and its gradient, (k, p)."""
    k, classes = len(problems.strength), problems.objective.outputs
    total = problems.weights.sum(dim=-1, keepdim=True)
    shares = (problems.weights / total).expand(k, -1).T  # (n, k)
    decay = (1 / (problems.strength[:, None] * total))[..., None]  # (k, 1, 1)
    most = max(1, AT_ONCE // (k * classes))
    vectors = problems.vectors.to(products)
    parts = list(
        zip(vectors.split(most), problems.targets.split(most), shares.split(most), strict=True)
    )

    def objective(point: Tensor) -> tuple[Tensor, Tensor]:
        both = point.view(k, classes, -1) * scale
        weight, bias = both[..., :-1], both[..., -1]
        # One product for all problems; with weights that are not contiguous, oneDNN's kernel is a
        # thousand times as slow.
        stacked = weight.flatten(0, 1).to(products).contiguous()
        value = (weight.square() * decay).sum(dim=(1, 2)) / 2
        raw = torch.zeros(k * classes, weight.shape[2], device=weight.device)
        gradient = torch.zeros_like(both)
        for vectors, targets, counts in parts:
            check()
            logits = linear(vectors, stacked).to(weight.dtype).view(-1, k, classes)
            logits = logits + bias if problems.bias else logits
            losses, by_logits = problems.objective.gradients(logits, targets[:, None])
            value = value + (counts * losses).sum(dim=0)
            by_logits *= counts[..., None]  # (n, k, c)
            raw += by_logits.flatten(1).to(products).T @ vectors
            if problems.bias:
                gradient[..., -1] += by_logits.sum(dim=0)
        gradient[..., :-1] = raw.view_as(weight) + weight * decay
        return value, (gradient * scale).flatten(1)

    return objective


STRENGTHS = (0.01, 0.1, 1.0)  # C
OF_NUMBERS = (0.0001, 0.001, 0.01)  # the same for numbers, whose every row pulls at every time
STEP = 10.0  # by which C goes on where the best is at the edge
EDGES = (1e-6, 1e3)  # beyond which it does not
NEIGHBOURS = (0.3, 3.0)  # times the best of those
MOST_STEPS = 300
State = dict[str, Tensor]


@dataclass(frozen=True, slots=True, kw_only=True)
class LinearFitter:
    """One linear layer without dropout: logistic regression, solved to its optimum."""

    first: FirstLinear
    resolved: ResolvedRecipe
    is_random: ClassVar[bool] = False
    learns_from: Source = "vectors"
    pace: ClassVar[float] = 30.0

    def search(self, task: TrainingTask, splits: Splits, seeds: Seeds) -> Searching:
        found = list[SearchResult]()
        for seed in range(len(seeds)):
            same = [
                number
                for number in range(seed)
                if all(map(torch.equal, splits.selection(number), splits.selection(seed)))
            ]
            if same:  # nothing is drawn at random
                found.append(found[same[0]])
                continue
            found.append((yield from self._search(task, splits, seed)))
        return refit_searches(self, task, splits, found, seeds)

    def _search(
        self, task: TrainingTask, splits: Splits, seed: int
    ) -> Generator[TriedSettings, None, SearchResult]:
        fixed, standardise = dict(self.resolved.recipe.options).get("C"), self.resolved.standardise
        standardise = task.standardise if standardise is None else standardise
        first = standardise is not False
        known = STRENGTHS if task.objective.problem.has_classes else OF_NUMBERS
        limited = task.config.trials
        strengths = [float(fixed)] if fixed else [*known][: limited or None]
        rows, folds = splits.selection(seed)
        tries = _Tries(rows=rows, folds=folds, seed=seed)
        yield from self._try(task, tries, [{"standardise": first, "C": C} for C in strengths])
        if limited:
            return tries.found(task)
        # As scikit-learn's users widen a grid by hand: on while the best is at its edge.
        while not fixed and (C := tries.edge(task, strengths)):
            strengths.append(C)
            yield from self._try(task, tries, [{"standardise": first, "C": C}], tries.best(task))
        begin = tries.best(task)
        # What is tried now begins at the one that was best: its neighbours, and as it is.
        if not fixed:
            C = float(begin.settings["C"])
            around = [{"standardise": first, "C": round(C * step, 9)} for step in NEIGHBOURS]
            yield from self._try(task, tries, around, begin)
        if "C" not in self.resolved.head.options and standardise is None:
            begin = tries.best(task)
            as_it_is = {**begin.settings, "standardise": False}
            yield from self._try(task, tries, [as_it_is], begin)
        return tries.found(task)

    def _try(
        self,
        task: TrainingTask,
        tries: "_Tries",
        options: Sequence[Chosen],
        start: TriedSettings | None = None,
    ) -> Generator[TriedSettings, None, None]:
        """Adds what some options come to, and their tensors; standardised or not alike."""
        begin = tries.states[tries.tried.index(start)] if start else None
        held = tries.folds == torch.arange(int(tries.folds.max()) + 1)[:, None]  # (f, n)
        solved = self._solved(task, options, tries.rows, held, ROUGH, begin)
        vectors, answered = task.of(tries.rows), held.any(dim=0)
        for number, option in enumerate(options):
            states = solved[number :: len(options)]
            logits = vectors.new_zeros(len(vectors), task.classes)
            for state, own in zip(states, held, strict=True):
                logits[own] = _linear(state, vectors[own])
            point = score_settings(option, 0, logits[answered], task, tries.rows[answered])
            tries.tried.append(replace(point, seed=tries.seed))
            tries.states.append(states)
            yield tries.tried[-1]

    def learn(
        self, task: TrainingTask, found: Searches, rows: BySeed, asked: BySeed, seeds: Seeds
    ) -> list[FittedHead]:
        # Nothing is drawn at random: seeds with the same rows and settings learn the same.
        solved, learned = list[tuple[Tensor, Chosen, State]](), list[FittedHead]()
        for one, own, others in zip(found, rows, asked, strict=True):
            same = [
                state
                for known, settings, state in solved
                if settings == one.chosen and (known is own or torch.equal(known, own))
            ]
            if not same:
                start, none = [one.state] if one.state else None, torch.zeros(1, len(own)).bool()
                same = self._solved(task, [one.chosen], own, none, NEAR, start)
                solved.append((own, one.chosen, same[0]))
            learned.append(FittedHead(logits=_linear(same[0], task.of(others)), state=same[0]))
        return learned

    def _solved(
        self,
        task: TrainingTask,
        options: Sequence[Mapping[str, Any]],
        rows: Tensor,
        held: Tensor,
        near: float,
        start: Sequence[Mapping[str, Tensor]] | None,
    ) -> list[State]:
        """Solve for the tensors of the head for each option, standardised or not alike.

        Args:
            held: (f, n), which rows each fold holds out. Answers come fold by fold.
            near: How near to the optimum, as a share of the first gradient.
            start: Those of a head to begin with, one a fold.
        """
        layer = self.first.layer
        standardise = bool(options[0]["standardise"])
        axes, seen = task.seen(rows, standardise=standardise, centred=self.first.bias)
        # C means what it means in scikit-learn: two classes of a softmax are one sigmoid there.
        trial = 0.5 if task.classes == 2 and not task.objective.each_by_itself else 1.0
        if not standardise:  # it goes by vectors that are divided by their deviation, one for all
            spread = task.of(rows).std(dim=0, correction=0).mean()
            trial /= float(spread.clamp_min(1e-12)) ** 2
        kind, begin = task.vectors.dtype, [axes.unfolded(one, layer) for one in start or ()]
        problems = LinearProblems(
            vectors=seen if seen.dtype == kind else axes.seen(task.of(rows), kind),
            targets=task.targets[rows],
            objective=task.objective,
            weights=(task.weights[rows] * ~held).repeat_interleave(len(options), dim=0),
            strength=torch.tensor([option["C"] * trial for option in options]).repeat(len(held)),
            bias=self.first.bias,
        )
        solved = solve(
            problems,
            near=near,
            iterations=MOST_STEPS,
            check=task.check,
            start=_begun(begin, layer, len(options)) if begin else None,
            products=task.products,
        )
        names = [f"{layer}.weight", *[f"{layer}.bias"] * self.first.bias]
        states = (dict(zip(names, one, strict=False)) for one in zip(*solved, strict=True))
        return [axes.folded(state, layer) for state in states]


def _begun(states: Sequence[Mapping[str, Tensor]], layer: str, times: int) -> tuple[Tensor, Tensor]:
    """Stack the weights and biases of heads, each so many times."""
    weight = torch.stack([state[f"{layer}.weight"] for state in states])
    none = weight.new_zeros(weight.shape[:2])
    bias = torch.stack([state.get(f"{layer}.bias", none[0]) for state in states])
    return weight.repeat_interleave(times, dim=0), bias.repeat_interleave(times, dim=0)


@dataclass(slots=True, kw_only=True, eq=False)
class _Tries:
    """What one seed has tried.

    Attributes:
        folds: The fold of each, see `Splits.selection`.
        states: For each the tensors without each of the folds.
    """

    rows: Tensor
    folds: Tensor
    seed: int
    tried: list[TriedSettings] = field(default_factory=list)
    states: list[list[State]] = field(default_factory=list)

    def best(self, task: TrainingTask) -> TriedSettings:
        return select_one_se(self.tried, task)

    def found(self, task: TrainingTask) -> SearchResult:
        """The best, and the tensors it came to without the first fold."""
        best = self.best(task)
        state = self.states[self.tried.index(best)][0]
        return SearchResult(chosen=best.settings, point=best, state=state)

    def edge(self, task: TrainingTask, strengths: Sequence[float]) -> float:
        """The next C beyond those that were tried, where the best is the outermost; else 0."""
        best = float(self.best(task).settings["C"])
        low, high = min(strengths), max(strengths)
        beyond = low / STEP if best == low else high * STEP if best == high else 0.0
        return round(beyond, 9) if EDGES[0] <= beyond <= EDGES[1] else 0.0


def _linear(state: State, vectors: Tensor) -> Tensor:
    weight = next(tensor for name, tensor in state.items() if name.endswith("weight"))
    logits = vectors @ weight.T
    bias = [tensor for name, tensor in state.items() if name.endswith("bias")]
    return logits + bias[0] if bias else logits
