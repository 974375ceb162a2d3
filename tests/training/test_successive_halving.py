"""Settings are let go and heads stop by one rule; what is handed on is the best that was seen."""

import math
import threading
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import pairwise
from typing import Any

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from loops import collect
from small_training_data import WIDTH, blobs, ended, lesson_of, training_data_of
from tolerances import assert_same_training
from torch import Tensor, nn
from torch.nn.functional import one_hot

from heads.data.splits import Splits
from heads.parts.registry import head
from heads.problem import MULTI_LABEL, REGRESSION, SINGLE_LABEL, ProblemType
from heads.rng import IsolatedRng
from heads.settings import ExperimentConfig
from heads.training.fitters import batched, successive_halving, vector_heads
from heads.training.fitters.adamw import AdamWCopies, CopyData
from heads.training.fitters.base import SearchResult, TriedSettings, first_of
from heads.training.fitters.batched import BatchedHeads, CopySettings
from heads.training.fitters.successive_halving import (
    Candidate,
    looks,
    search_candidates,
    steps_after,
)
from heads.training.fitters.vector_heads import AdamWFitter
from heads.training.objective import Objective, balance_of, factor_of
from heads.training.task import TrainingTask

CLASSES, ROWS = 3, 200

# The rule, on copies whose loss is written down


@dataclass
class Written:
    """Copies whose share of right answers after so many steps is given by a function each."""

    task: TrainingTask
    curves: Sequence[Any]  # step to a logit of the right class
    steps: int = 0
    learned: list[tuple[int, int]] = field(default_factory=list)
    dropped: list[int] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.live = list(range(len(self.curves)))

    def learn(self, until: int) -> None:
        assert until > self.steps
        self.steps = until
        self.learned.append((until, len(self.live)))

    def answers(self, state: Mapping[str, Tensor], rows: Tensor) -> Tensor:
        number, steps = state["steps"].tolist()
        value = self.curves[number](steps)
        right = one_hot(self.task.targets[rows], CLASSES).float()
        flip = torch.arange(len(rows)) % 10 == 0  # so that a temperature is defined
        right[flip] = right[flip].roll(1, dims=1)
        # What is known lies in the noise, as the temperature takes the scale away.
        rng = torch.Generator().manual_seed(number)
        return right * value + torch.randn(right.shape, generator=rng)

    def state(self, number: int) -> dict[str, Tensor]:
        return {"steps": torch.tensor([self.live[number], self.steps])}

    def keep(self, numbers: Sequence[int]) -> None:
        self.dropped += [one for n, one in enumerate(self.live) if n not in numbers]
        self.live = [self.live[number] for number in numbers]


def written(
    *curves: Any, seeds: Sequence[int] = (), pass_steps: float = 8.0
) -> tuple[list[SearchResult], list[TriedSettings], Written, list[Candidate]]:
    targets = torch.arange(ROWS) % CLASSES
    task = lesson_of(torch.zeros(ROWS, 2), targets, CLASSES)
    rows = torch.arange(ROWS)
    trials = [
        Candidate(
            seed=seed,
            choice=CopySettings(learning_rate=10.0 ** -(n + 1)),
            development=rows,
            pass_steps=pass_steps,
        )
        for n, seed in enumerate(seeds or [0] * len(curves))
    ]
    copies = Written(task, curves)
    told, found = collect(search_candidates(copies, trials, task))
    return found, told, copies, trials


def rising(end: float, pace: float) -> Any:
    return lambda step: end * (1 - math.exp(-step / pace))


def flat(value: float) -> Any:
    return lambda step: value


def test_who_is_clearly_behind_is_let_go_early_and_who_is_near_is_not() -> None:
    found, told, copies, _ = written(flat(4.0), flat(3.98), flat(0.5))
    first = next(iter(looks(8.0, 4096)))
    assert copies.dropped[0] == 2
    (gone,) = {point.step for point in told if point.settings["learning_rate"] == 1e-3} & {
        max(p.step for p in told if p.settings["learning_rate"] == 1e-3)
    }
    assert gone == successive_halving.SETTLED * first  # not before, however far behind
    later = [point for point in told if point.settings["learning_rate"] == 1e-2]
    assert max(point.step for point in later) > gone
    assert found[0].chosen["learning_rate"] in (0.1, 0.01)


def test_it_stops_where_twice_as_many_steps_have_not_made_the_loss_fall() -> None:
    (one,), told, copies, _ = written(flat(3.0))
    least = successive_halving.PASSES * 8
    assert copies.steps == next(step for step in looks(8.0, 4096) if step >= least)
    assert one.chosen["converged"] is True
    # One that learns for longer takes longer, by the same rule.
    (one,), told, copies, _ = written(rising(4.0, 20.0))
    losses = {point.step: point.loss for point in told}
    near = min(
        s
        for s, loss in losses.items()
        if loss <= min(losses.values()) * (1 + successive_halving.FALL)
    )
    assert copies.steps >= 2 * near > least
    before = [step for step in losses if step < copies.steps]
    assert all(step < 2 * near or step < least for step in before)
    assert one.chosen["converged"] is True


def test_after_enough_steps_a_seed_goes_on_with_its_best_alone() -> None:
    slow = rising(6.0, 900.0)
    found, _, copies, _ = written(slow, lambda step: 0.995 * slow(step), seeds=(0, 0))
    lives = dict(copies.learned)
    assert all(live == 2 for step, live in lives.items() if step <= successive_halving.DECIDED)
    assert all(live == 1 for step, live in lives.items() if step > successive_halving.DECIDED)
    assert len(found) == 1


def test_not_converged_is_said_only_where_the_cap_was_hit_while_still_falling() -> None:
    (one,), _, copies, trials = written(lambda step: 0.01 * step)
    assert copies.steps == max(
        successive_halving.DECIDED, round(successive_halving.CAP_PASSES * 8.0)
    )
    assert trials[0].is_falling()
    assert (one.chosen["converged"], one.point.settings["converged"]) == (False, False)
    # It fell until it was let go, but was let go: its seed's other copy has converged.
    (one,), _, _, _ = written(flat(5.0), rising(2.0, 500.0))
    assert one.chosen["converged"] is True
    # At the cap, but long done.
    (one,), _, copies, _ = written(rising(3.0, 40.0), pass_steps=40.0)
    assert one.chosen["converged"] is True


def test_a_seed_is_judged_by_itself_whoever_is_beside_it() -> None:
    curves = [rising(4.0, 50.0), flat(0.5), rising(2.0, 30.0), flat(1.9)]
    together, _, _, _ = written(*curves, seeds=(0, 0, 1, 1))
    assert len(together) == 2
    alone, _, _, _ = written(*curves[:2])
    assert together[0].chosen == alone[0].chosen
    assert together[0].point.loss == alone[0].point.loss
    assert together[1].point.seed == 1


def test_the_best_look_is_handed_on_not_the_last() -> None:
    """Of a head that gets worse after a while, as one that overfits does."""
    (one,), told, copies, trials = written(lambda step: 4.0 - abs(math.log(step / 32)))
    best = min(told, key=lambda point: point.loss)
    assert best.step == 32 < copies.steps
    assert one.point.step == 32
    assert one.state is not None
    assert one.state["steps"].tolist() == [0, 32]
    assert one.held is not None
    assert torch.equal(one.held, copies.answers(one.state, trials[0].development))
    assert one.chosen["epochs"] == 32 / 8


def test_a_head_that_answers_with_no_number_neither_leads_nor_breaks_the_search() -> None:
    nan = flat(float("nan"))
    (one,), _, copies, _ = written(nan, rising(4.0, 30.0))
    assert one.chosen["learning_rate"] == 1e-2
    assert 0 in copies.dropped
    (one,), _, copies, _ = written(nan)
    assert copies.steps < 100
    assert math.isnan(one.point.loss)


@given(st.floats(0.5, 2_000), st.integers(1, 5_000))
def test_looks_come_further_apart_and_end_at_the_cap(pass_steps: float, cap: int) -> None:
    steps = list(looks(pass_steps, cap))
    assert steps[-1] == cap
    assert steps == sorted(set(steps))
    for one, other in pairwise(steps[:-1]):
        assert 1.3 < other / one < 1.5


# The temperature


def logits_of(problem: ProblemType, spread: float, seed: int) -> tuple[Tensor, Tensor]:
    """Logits that tell the targets, but for some noise."""
    rng = torch.Generator().manual_seed(seed)
    targets = torch.randint(CLASSES, (120,), generator=rng)
    goals = one_hot(targets, CLASSES).float()
    if problem is MULTI_LABEL:
        targets = goals = (torch.rand(120, CLASSES, generator=rng) < 0.4).float()
    noise = torch.randn(120, CLASSES, generator=rng)
    return spread * (2 * goals - 1 + noise), targets


def settled(
    logits: Tensor, targets: Tensor, objective: Objective, counts: Tensor | None = None
) -> float:
    counts = torch.ones(len(targets)) if counts is None else counts
    return factor_of(logits, targets, objective, 1.0, counts)


@pytest.mark.parametrize("spread", [0.05, 0.3, 3.0, 20.0])
@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize(
    "options", [{}, {"loss": "ovr"}, {"smoothing": 0.1}, {"loss": "ovr", "smoothing": 0.1},
                {"problem": MULTI_LABEL, "smoothing": 0.05}, {"loss": "ordinal"}, {"focal": 2.0},
                {"focal": 5.0, "smoothing": 0.1}, {"loss": "ovr", "focal": 1.0},
                {"problem": MULTI_LABEL, "focal": 2.0}, {"loss": "ordinal", "focal": 2.0},
                {"problem": MULTI_LABEL, "balance": True}, {"loss": "ovr", "balance": True},
                {"margin": 4.0}], ids=str,
)  # fmt: skip
def test_the_factor_makes_the_loss_that_is_judged_by_smallest(
    options: dict[str, Any], spread: float, weighted: bool
) -> None:
    logits, targets = logits_of(options.get("problem", SINGLE_LABEL), spread, 1)
    made: dict[str, Any] = {"problem": SINGLE_LABEL, "outputs": CLASSES} | options
    if made.get("balance"):
        made["balance"] = balance_of(targets, CLASSES)
    objective = Objective(**made)
    counts = 1 + weighted * 9.0 * (torch.arange(len(targets)) % 4 == 0)

    def loss(factor: float) -> float:
        return float((objective.rows(logits.double() * factor, targets) * counts).mean())

    found = settled(logits, targets, objective, counts)
    least = loss(found)
    for other in (0.9, 0.98, 1.02, 1.1, 1 / found):
        assert least <= loss(found * other) + 1e-6


@pytest.mark.parametrize("problem", [SINGLE_LABEL, MULTI_LABEL, REGRESSION])
@pytest.mark.parametrize("smoothing", [0.0, 0.1])
def test_the_factor_is_a_number_whatever_is_answered(
    problem: ProblemType, smoothing: float
) -> None:
    smoothing = 0.0 if problem is REGRESSION else smoothing
    objective = Objective(problem=problem, outputs=CLASSES, smoothing=smoothing)
    logits, targets = logits_of(SINGLE_LABEL if problem is REGRESSION else problem, 1.0, 0)
    right = one_hot(targets, CLASSES).float() if targets.dim() == 1 else targets
    for each in (right * 2 - 1, 1 - 2 * right, torch.zeros_like(logits), logits * 1e4,
                 logits * 1e-6, logits * torch.nan):  # fmt: skip
        found = settled(each, targets, objective)
        assert 1e-2 <= found <= 1e2
        assert found == 1.0 or problem is not REGRESSION


# Real copies


def made(name: str, seed: int) -> nn.Sequential:
    with IsolatedRng(seed).rolling():
        return head[name].make(WIDTH, CLASSES)


def course_of(name: str, seeds: Sequence[int], dtype: torch.dtype) -> AdamWCopies:
    vectors, targets = blobs(120, CLASSES)
    task = replace(lesson_of(vectors, targets, CLASSES), products=dtype)
    rows = [torch.arange(10 * (seed % 3), 60 + 10 * seed) for seed in seeds]
    pupils = [CopyData(rows=own, vectors=vectors[own].to(dtype)) for own in rows]
    choices = [
        CopySettings(learning_rate=1e-3 * (seed + 1), weight_decay=0.1 * seed) for seed in seeds
    ]
    stack = BatchedHeads([made(name, seed) for seed in seeds], seeds, dtype)
    return AdamWCopies(stack, task, pupils, choices, seeds, batch=16)


def same(one: Mapping[str, Tensor], other: Mapping[str, Tensor]) -> None:
    assert list(one) == list(other)
    assert_same_training(dict(one), dict(other))


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16], ids=str)
@pytest.mark.parametrize("name", ["roberta", "modernbert", "multi_sample_dropout"])
def test_those_who_go_on_learn_the_same_to_the_last_bit(name: str, dtype: torch.dtype) -> None:
    whole, fewer = (course_of(name, [0, 1, 2, 3], dtype) for _ in range(2))
    for course in (whole, fewer):
        course.learn(25)
    fewer.keep([3, 1])
    for number, own in enumerate((3, 1)):  # nothing is lost on the way
        same(fewer.state(number), whole.state(own))
        same(fewer.stack.state(number), whole.stack.state(own))
    for course in (whole, fewer):
        course.learn(45)
    fewer.keep([0])  # and once more
    for course in (whole, fewer):
        course.learn(60)
    same(fewer.state(0), whole.state(3))
    alone = course_of(name, [3], dtype)
    alone.learn(60)
    same(alone.state(0), whole.state(3))
    same(alone.stack.state(0), whole.stack.state(3))


# Searches of real heads


def lesson_and_splits(seeds: int, **config: Any) -> tuple[TrainingTask, Splits]:
    vectors, targets = blobs(160, CLASSES, apart=0.5, seed=2)
    parts = ["train"] * 120 + ["test"] * 40
    training_data = training_data_of(
        vectors, targets, ExperimentConfig(seeds=seeds, **config), parts=parts
    )
    return training_data.training_task("mean", threading.Event()), training_data.splits


def stacked(name: str, **options: Any) -> AdamWFitter:
    def make() -> nn.Sequential:
        return head[name].make(WIDTH, CLASSES, **options)

    return AdamWFitter(make=make, first=first_of(make()), pretrained=False)


@pytest.fixture(scope="module")
def three() -> tuple[TrainingTask, Splits, list[TriedSettings], list[SearchResult]]:
    task, splits = lesson_and_splits(3)
    return task, splits, *collect(stacked("roberta").search(task, splits, [5, 6, 7]))


def test_held_logits_are_those_of_the_state_on_the_development_rows(three) -> None:
    task, splits, told, found = three
    for number, one in enumerate(found):
        chain = stacked("roberta").make()
        chain.load_state_dict(one.state)
        rows = splits.development[number]
        with torch.no_grad():
            logits = chain.eval()(task.of(rows))
        assert torch.equal(one.held, logits)
        own = [point for point in told if point.seed == number]
        (look,) = (
            p for p in own if {**p.settings, "converged": one.chosen["converged"]} == one.chosen
        )
        assert one.point == replace(look, settings=one.chosen)
        alike = [p for p in own if _choice(p) == _choice(look)]
        assert look.loss == min(point.loss for point in alike)


def _choice(point: TriedSettings) -> dict[str, Any]:
    return {n: value for n, value in point.settings.items() if n not in ("epochs", "converged")}


def test_where_vectors_would_fill_the_memory_seeds_search_alone_and_find_the_same(
    three, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(vector_heads, "SEEN_BYTES", 1)
    task, splits, _, together = three
    copies, made = list[int](), vector_heads.BatchedHeads

    def watched(chains: Any, *given: Any) -> Any:
        copies.append(len(chains))
        return made(chains, *given)

    monkeypatch.setattr(vector_heads, "BatchedHeads", watched)
    results = ended(stacked("roberta").search(task, splits, [5, 6, 7]))
    assert copies == [len(batched.NEW_HEADS)] * 3
    for alone, other in zip(results, together, strict=True):
        assert (alone.chosen, alone.point) == (other.chosen, other.point)
        same(alone.state, other.state)
    stacked("roberta").learn(task, results, splits.train, splits.test, [5, 6, 7])
    assert copies[3:] == [1, 1, 1]


def test_learning_goes_on_from_the_head_that_was_found(three) -> None:
    task, splits, _, found = three
    fitter, seeds = stacked("roberta"), [5, 6, 7]
    learned = fitter.learn(task, found, splits.train, splits.test, seeds)
    for number, (one, own) in enumerate(zip(found, learned, strict=True)):
        rows = splits.train[number]
        (alone,) = fitter.learn(task, [one], [rows], [splits.test[number]], [seeds[number]])
        same(alone.state, own.state)
        assert_same_training(alone.logits, own.logits)
        fresh = fitter.learn(
            task, [replace(one, state=None)], [rows], [splits.test[number]], [seeds[number]]
        )
        away = [
            sum(float((tensor - one.state[name]).square().sum()) for name, tensor in each.items())
            for each in (own.state, fresh[0].state)
        ]
        assert 0 < away[0] < away[1]


def test_half_the_steps_of_the_search_are_taken_from_there_and_all_of_them_without() -> None:
    settings = {"learning_rate": 1e-3, "epochs": 10.0}
    point = TriedSettings(settings=settings, step=40, score=0.0, loss=0.0)
    fresh = SearchResult(chosen=settings, point=point)
    assert steps_after(fresh, 5.0, ExperimentConfig()) == 50
    assert steps_after(replace(fresh, state={"a": torch.zeros(1)}), 5.0, ExperimentConfig()) == 25
    assert steps_after(fresh, 0.1, ExperimentConfig()) == successive_halving.FIRST[0]
    assert steps_after(fresh, 5.0, ExperimentConfig(steps=7)) == 7


def test_a_loss_of_next_to_nothing_has_converged_and_a_hinge_keeps_its_scale() -> None:
    trial = Candidate(
        seed=0, choice=CopySettings(learning_rate=4e-3), development=torch.arange(4), pass_steps=4
    )
    trial.looks = [(2**n * 8, 10.0**-n) for n in range(3, 12)]  # a tenth each time, for ever
    assert trial.has_converged()
    assert not trial.is_falling()
    trial.looks = [(2**n * 8, 10.0**-n) for n in range(3)]
    assert not trial.has_converged()
    hinge = Objective(problem=SINGLE_LABEL, outputs=3, loss="hinge")
    assert settled(5 * torch.eye(3), torch.arange(3), hinge) == 1.0


def test_who_is_behind_is_told_by_rows_as_they_are_judged() -> None:
    targets = torch.arange(ROWS) % 2
    rare = (targets == 1) & (torch.arange(ROWS) < 20)  # ten rows
    task = lesson_of(torch.zeros(ROWS, 2), targets, 2, torch.where(rare, 100.0, 1.0))
    rng = torch.Generator().manual_seed(0)
    losses = torch.rand(ROWS, generator=rng)

    def behind(gaps: Tensor, task: TrainingTask) -> bool:
        one, lead = (
            Candidate(seed=0, choice=choice, development=torch.arange(ROWS), pass_steps=4.0)
            for choice in (CopySettings(learning_rate=1e-3), CopySettings(learning_rate=4e-3))
        )
        one.losses, lead.losses = losses + gaps, losses
        return successive_halving._is_behind(one, lead, task)

    worse = torch.where(rare, -0.1, 0.1)  # on most rows; better on those that count
    assert not behind(worse, task)
    assert behind(-worse, task)
    alike = replace(task, counts=torch.ones(ROWS))
    assert behind(worse, alike)
    assert not behind(-worse, alike)
    # A lead on a handful of rows that count for all is not sure.
    unsure = torch.where(rare, 1.0 * torch.randn(ROWS, generator=rng) + 0.1, 0.0)
    assert not behind(unsure, task)
