"""Heads learned many at once are the heads that each would be alone, and are chosen fairly."""

import math
import threading
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import slow
import torch
from sklearn.linear_model import LogisticRegression
from small_training_data import (
    WIDTH,
    accuracy,
    blobs,
    cells,
    ended,
    found_of,
    lesson_of,
    result,
    training_data_of,
)
from torch import Tensor, nn
from torch.nn.functional import cross_entropy

from heads.backbone.backbone import Backbone
from heads.backbone.loading import load
from heads.errors import LimitError, RecipeError
from heads.parts import modules
from heads.parts.registry import head
from heads.parts.resolve import resolve
from heads.problem import REGRESSION, SINGLE_LABEL
from heads.recipe import Value
from heads.rng import IsolatedRng
from heads.runs import grids
from heads.settings import ExperimentConfig, Limits, use_limits
from heads.training import trial as cells_of_a_grid
from heads.training.fitters import adamw, successive_halving
from heads.training.fitters import logistic as convex
from heads.training.fitters.base import Chosen, TriedSettings, best, judged, surest
from heads.training.fitters.batched import BatchedHeads, drop_out
from heads.training.fitters.copy_settings import CopySettings
from heads.training.fitters.logistic import LinearFitter
from heads.training.fitters.vector_heads import AdamWFitter
from heads.training.objective import Objective
from heads.training.search import TrialResult, on_task
from heads.training.task import class_weights
from heads.training.whitening import basis

CLASSES = 3
OF_EVERY_KIND = (
    "mean+linear", "mean+gpt2", "mean+logistic", "mean+roberta", "mean+modernbert",
    "mean+multi_sample_dropout", "mean+ridge", "mean+centroid", "mean+cosine", "mean+knn",
)  # fmt: skip
STACKED = [name for name in head if name != "knn"]


@pytest.fixture
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    """A few steps, for what does not depend on how much is learned."""
    monkeypatch.setattr(successive_halving, "CAP", 24)


def made(name: str, seed: int, width: int = WIDTH, **options: float) -> nn.Sequential:
    """A head whose every number is drawn, its biases and norms too."""
    with IsolatedRng(seed).rolling():
        chain = head[name].make(width, CLASSES, **options)
        for tensor in chain.state_dict().values():
            tensor.add_(torch.randn_like(tensor) * 0.1)
    return chain


# Several copies as one


@pytest.mark.parametrize("name", STACKED)
def test_a_stack_gives_the_logits_of_each_head(name: str) -> None:
    chains = [made(name, seed) for seed in range(3)]
    stack = BatchedHeads(chains, [0, 1, 2])
    values = torch.randn(3, 7, WIDTH, generator=torch.Generator().manual_seed(1))
    with torch.no_grad():
        found = stack.logits(values, training=False)
        for number, chain in enumerate(chains):
            wanted = chain.eval()(values[number])
            assert torch.allclose(found[number], wanted, atol=1e-5), name


@pytest.mark.parametrize("name", STACKED)
def test_a_copys_tensors_go_into_a_stack_and_come_out_of_it(name: str) -> None:
    chains = [made(name, seed) for seed in range(2)]
    stack = BatchedHeads(chains, [0, 1])
    for number, chain in enumerate(chains):
        state = stack.state(number)
        assert list(state) == list(chain.state_dict())
        for key, tensor in chain.state_dict().items():
            assert torch.equal(state[key], tensor)
            assert state[key].is_contiguous()
    state = stack.state(0)
    for tensor in state.values():
        tensor.zero_()  # what came out is no view of what is learned
    assert any(tensor.any() for tensor in stack.state(0).values())


def without_dropout(name: str) -> dict[str, float]:
    return {option: 0.0 for option in head[name].options if "dropout" in option}


@pytest.mark.parametrize(
    "name", slow.but_each(3, [name for name in STACKED if head[name].solve is None])
)
@pytest.mark.parametrize("parts", [adamw.PARTS, 1])
def test_copies_learn_what_each_would_learn_alone(name: str, parts: int) -> None:
    """Each with its own rows, order, step size and decay; in double precision, without dropout."""
    vectors, targets = blobs(90, CLASSES, seed=3)
    task = lesson_of(vectors.double(), targets, CLASSES)
    rows = [torch.arange(0, 60), torch.arange(20, 80), torch.arange(30, 90)]
    choices = [
        CopySettings(standardise=way, learning_rate=rate, weight_decay=decay)
        for way, rate, decay in ((True, 1e-3, 0.01), (True, 1e-2, 1.0), (False, 3e-3, 0.1))
    ]
    seeds, batch, steps = [5, 6, 7], 16, 33
    chains = [made(name, seed, WIDTH, **without_dropout(name)).double() for seed in seeds]
    pupils = [
        adamw.CopyData(rows=own, vectors=vectors.double()[own] * (1 + number))
        for number, own in enumerate(rows)
    ]
    stack = BatchedHeads(chains, seeds, torch.float64)
    course = adamw.AdamWCopies(stack, task, pupils, choices, seeds, batch, parts)
    for until in (7, steps):  # however often it is looked at
        course.learn(until)
    for number, chain in enumerate(chains):
        values = vectors.double()[rows[number]] * (1 + number)
        order = _order(len(rows[number]), batch, steps, seeds[number])
        passed = _alone(chain, values, targets[rows[number]], choices[number], order)
        assert torch.allclose(
            torch.cat([tensor.flatten() for tensor in stack.state(number).values()]),
            passed[-1],
            atol=1e-5,
        )
        wanted = _averaged(passed, parts)
        found = torch.cat([tensor.flatten() for tensor in course.state(number).values()])
        assert torch.allclose(found, wanted, atol=1e-5), name


def _order(rows: int, batch: int, steps: int, seed: int) -> list[Tensor]:
    """All rows in random order and again, so many at a time."""
    rng = torch.Generator().manual_seed(seed)
    passes = -(-steps * batch // rows)
    places = torch.cat([torch.randperm(rows, generator=rng) for _ in range(passes)])
    return list(places[: steps * batch].split(batch))


def _alone(
    chain: nn.Sequential,
    values: Tensor,
    targets: Tensor,
    choice: CopySettings,
    batches: list[Tensor],
) -> list[Tensor]:
    """The same training with nothing but torch; all numbers after every step."""
    optimizer = torch.optim.AdamW(
        chain.train().parameters(),
        lr=choice.learning_rate,
        weight_decay=choice.weight_decay,
        betas=(0.9, 0.99),
    )
    passed = []
    for done, batch in enumerate(batches, 1):
        # Constant after twenty steps of warm-up.
        optimizer.param_groups[0]["lr"] = choice.learning_rate * min(done / 20, 1.0)
        optimizer.zero_grad()
        logits = chain(values[batch])
        logits = logits if logits.dim() == 2 else logits.mean(dim=0)
        cross_entropy(logits, targets[batch]).backward()
        optimizer.step()
        passed.append(torch.cat([tensor.flatten() for tensor in chain.state_dict().values()]))
    return passed


def _averaged(passed: list[Tensor], parts: int) -> Tensor:
    """Of one part the mean of all; of more, step n in proportion to the falling power of n.

    (n - 1)(n - 2)…, one factor less than parts: n to that power, where n is large.
    """
    weights = torch.tensor(
        [
            math.prod(range(step - parts + 1, step)) if step >= parts else 0.0
            for step in range(1, len(passed) + 1)
        ],
        dtype=torch.float64,
    )
    return (weights / weights.sum()) @ torch.stack(passed)


def test_weights_of_rows_count_in_the_gradient() -> None:
    vectors, targets = blobs(60, CLASSES)
    weights = torch.rand(60, generator=torch.Generator().manual_seed(2)) + 0.1
    task = lesson_of(vectors, targets, CLASSES, weights)
    chain = made("linear", 0, dropout=0.0)
    stack = BatchedHeads([chain, chain], [0, 1])
    batch = torch.stack([torch.arange(16), torch.arange(16, 32)])
    stack.learn(adamw.gradient(stack.logits(task.of(batch), training=True), task, batch))
    for number, copy in enumerate(stack.copies):
        chain.zero_grad()
        own = batch[number]
        losses = cross_entropy(chain(vectors[own]), targets[own], reduction="none")
        ((losses * weights[own]).sum() / weights[own].sum()).backward()
        for parameter, alone in zip(copy, chain.parameters(), strict=True):
            assert parameter.grad is not None
            assert alone.grad is not None
            assert torch.allclose(parameter.grad, alone.grad, atol=1e-5)


@pytest.mark.parametrize("share", [0.1, 0.5])
def test_noise_drops_its_share_and_keeps_the_mean(share: float) -> None:
    def drawn(seed: int) -> torch.Tensor:
        rngs, ones = [torch.Generator().manual_seed(seed)], torch.ones(1, 50, 40)
        return torch.stack([drop_out(ones, share, rngs) for _ in range(200)])

    found = drawn(3)
    assert float((found == 0).float().mean()) == pytest.approx(share, abs=0.02)
    assert float(found.mean()) == pytest.approx(1.0, abs=0.02)
    kept = found[found > 0]
    assert torch.allclose(kept, torch.full_like(kept, 1 / (1 - share)))
    assert not torch.equal(found[0], found[1])
    assert torch.equal(drawn(3), found)
    assert not torch.equal(drawn(4), found)


def test_several_samples_of_dropout_are_one_head_in_use() -> None:
    chains = [made("multi_sample_dropout", seed) for seed in range(2)]
    stack = BatchedHeads(chains, [0, 1])
    values = torch.randn(2, 6, WIDTH, generator=torch.Generator().manual_seed(1))
    learning, using = (stack.logits(values, training=now) for now in (True, False))
    assert learning.shape == (2, 5 * 6, CLASSES)  # one sample below the other
    assert using.shape == (2, 6, CLASSES)
    assert not torch.allclose(learning[:, :6], learning[:, 6:12])
    linear = [head["linear"].make(WIDTH, CLASSES) for _ in chains]
    for one, chain in zip(linear, chains, strict=True):
        one.load_state_dict(chain.state_dict())
    assert torch.allclose(
        using, BatchedHeads(linear, [0, 1]).logits(values, training=False), atol=1e-6
    )


# The convex ones


def settled(
    vectors: Tensor, targets: Tensor, strength: float, weights: Tensor | None = None
) -> LogisticRegression:
    counts = None if weights is None else weights.numpy()
    model = LogisticRegression(C=strength, max_iter=10_000, tol=1e-10)
    return model.fit(vectors.numpy(), targets.numpy(), sample_weight=counts)


def problems_of(
    vectors: Tensor, targets: Tensor, strengths: list[float], weights: Tensor | None = None
) -> convex.LinearProblems:
    classes = int(targets.max()) + 1
    # Two logits of two classes share what one has in scikit-learn.
    twice = 0.5 if classes == 2 else 1.0
    counts = torch.ones(len(targets)) if weights is None else weights
    return convex.LinearProblems(
        vectors=vectors,
        targets=targets,
        weights=counts,
        strength=torch.tensor(strengths) * twice,
        bias=True,
        objective=Objective(problem=SINGLE_LABEL, outputs=classes),
    )


def loss_of(logits: Tensor, targets: Tensor, weights: Tensor | None = None) -> float:
    losses = cross_entropy(logits.double(), targets, reduction="none")
    return float(losses.mean() if weights is None else (losses * weights).sum() / weights.sum())


@pytest.mark.parametrize("classes", [2, 5])
@pytest.mark.parametrize("standardised", [True, False])
@pytest.mark.parametrize("balanced", [False, True])
def test_the_optimum_is_that_of_scikit_learn(
    classes: int, standardised: bool, balanced: bool
) -> None:
    raw, targets = blobs(300, classes, apart=0.4, width=12, seed=classes)
    if balanced:  # a rare class
        kept = (targets != 0) | (torch.arange(300) % 5 == 0)
        raw, targets = raw[kept], targets[kept]
    rows = torch.arange(len(targets))
    weights = class_weights(targets, rows, classes) if balanced else None
    vectors = basis(raw, standardise=True, centred=True).seen(raw, raw.dtype)
    if not standardised:
        vectors = raw / raw.std()
    strengths = [0.03, 1.0]
    found = convex.solve(
        problems_of(vectors, targets, strengths, weights),
        iterations=2_000,
        near=convex.NEAR,
        check=lambda: None,
    )
    for strength, weight, bias in zip(strengths, *found, strict=True):
        model = settled(vectors, targets, strength, weights)
        shares = torch.from_numpy(model.predict_log_proba(vectors.numpy()))
        logits = vectors @ weight.T + bias
        assert logits.log_softmax(dim=1).exp().numpy() == pytest.approx(
            shares.exp().numpy(), abs=0.01
        )
        sure = shares.exp().topk(2, dim=1).values
        clear = sure[:, 0] - sure[:, 1] > 0.02
        assert torch.equal(logits.argmax(dim=1)[clear], shares.argmax(dim=1)[clear])
        assert _objective(weight, bias, vectors, targets, strength, weights) == pytest.approx(
            _objective_of(model, vectors, targets, strength, weights), rel=1e-4
        )


def _objective(
    weight: Tensor,
    bias: Tensor,
    vectors: Tensor,
    targets: Tensor,
    strength: float,
    weights: Tensor | None,
) -> float:
    total = len(targets) if weights is None else float(weights.sum())
    twice = 0.5 if len(weight) == 2 else 1.0
    penalty = float(weight.double().square().sum()) / 2 / (strength * twice * total)
    return loss_of(vectors @ weight.T + bias, targets, weights) + penalty


def _objective_of(
    model: LogisticRegression,
    vectors: Tensor,
    targets: Tensor,
    strength: float,
    weights: Tensor | None,
) -> float:
    """The same objective at scikit-learn's answer; its one logit of two classes becomes two."""
    coefficients, intercept = model.coef_, model.intercept_
    if len(coefficients) == 1:
        coefficients = np.concatenate([-coefficients, coefficients]) / 2
        intercept = np.concatenate([-intercept, intercept]) / 2
    weight, bias = (torch.from_numpy(part).float() for part in (coefficients, intercept))
    return _objective(weight, bias, vectors, targets, strength, weights)


def test_several_problems_at_once_are_each_what_they_are_alone() -> None:
    vectors, targets = blobs(200, 4, apart=0.3, width=10)
    vectors = (vectors - vectors.mean(dim=0)) / vectors.std(dim=0)
    strengths = [0.01, 0.1, 1.0]
    together = problems_of(vectors, targets, strengths)
    weight, bias = convex.solve(together, iterations=2_000, near=convex.NEAR, check=lambda: None)
    for number in range(3):
        alone = problems_of(vectors, targets, strengths[number : number + 1])
        w, b = convex.solve(alone, iterations=2_000, near=convex.NEAR, check=lambda: None)
        logits, wanted = vectors @ weight[number].T + bias[number], vectors @ w[0].T + b[0]
        assert torch.allclose(logits.softmax(dim=1), wanted.softmax(dim=1), atol=5e-3)


def test_where_it_begins_moves_the_time_and_not_the_optimum() -> None:
    vectors, targets = blobs(200, 4, apart=0.3, width=10)
    vectors = (vectors - vectors.mean(dim=0)) / vectors.std(dim=0)
    problems = problems_of(vectors, targets, [0.1])
    steps: list[int] = []
    cold = convex.solve(problems, iterations=2_000, near=convex.NEAR, check=lambda: steps.append(0))
    once = len(steps)
    warm = convex.solve(
        problems, iterations=2_000, near=convex.NEAR, check=lambda: steps.append(0), start=cold
    )
    assert len(steps) - once < once / 2
    for one, other in zip(cold, warm, strict=True):
        assert torch.allclose(one, other, atol=1e-3)


def test_no_bias_means_none() -> None:
    vectors, targets = blobs(150, 3, width=8)
    problems = replace(problems_of(vectors / vectors.std(), targets, [0.1]), bias=False)
    weight, bias = convex.solve(problems, iterations=2_000, near=convex.NEAR, check=lambda: None)
    assert not bias.any()
    model = LogisticRegression(C=0.1, max_iter=10_000, tol=1e-10, fit_intercept=False)
    model.fit((vectors / vectors.std()).numpy(), targets.numpy())
    logits = vectors / vectors.std() @ weight[0].T
    wanted = torch.from_numpy(model.predict_proba((vectors / vectors.std()).numpy()))
    assert torch.allclose(logits.softmax(dim=1).double(), wanted.double(), atol=0.01)


def test_solving_can_be_ended_at_any_step() -> None:
    vectors, targets = blobs(100)
    steps = []

    def check() -> None:
        steps.append(0)
        if len(steps) == 3:
            raise TimeoutError

    with pytest.raises(TimeoutError):
        convex.solve(
            problems_of(vectors, targets, [1.0]), iterations=99, near=convex.NEAR, check=check
        )


# What a cell of the grid is


@pytest.fixture(scope="module")
def poolerless(tiny: Callable[..., Path]) -> Backbone:
    """A base model from whose checkpoint no head begins."""
    return load(str(tiny("bert", "ForMaskedLM")))


@pytest.mark.usefixtures("quick")
@pytest.mark.parametrize("recipe", OF_EVERY_KIND)
@pytest.mark.parametrize("weighted", [False, True])
def test_the_tensors_kept_give_the_logits_told_on_raw_vectors(
    small: Backbone, recipe: str, weighted: bool
) -> None:
    vectors, targets = blobs(160, seed=4)
    config = ExperimentConfig(folds=2, class_weights=weighted)
    training_data = training_data_of(vectors, targets, config)
    (one,) = result([recipe], small, training_data).values()
    seeds = zip(one.chosen, one.learned, training_data.splits.test, strict=True)
    for chosen, learned, rows in seeds:
        options = {n: v for n, v in chosen.items() if n in one.trial.resolved.head.options}
        chain = one.trial.resolved.head.make(WIDTH, CLASSES, **options).eval()
        chain.load_state_dict(learned.state)
        with torch.no_grad():
            logits = chain(vectors[rows])
        assert torch.allclose(logits, learned.logits, rtol=1e-3, atol=2e-3)
        assert torch.equal(logits.argmax(dim=1), learned.logits.argmax(dim=1))


@pytest.mark.usefixtures("quick")
@pytest.mark.parametrize("axes", [True, False])
@pytest.mark.parametrize("standardise", [True, False])
@pytest.mark.parametrize("recipe", ["mean+linear", "mean+gpt2", "mean+roberta", "mean+modernbert"])
def test_a_change_of_the_input_is_folded_into_the_head(
    small: Backbone, recipe: str, standardise: bool, axes: bool
) -> None:
    vectors, targets = blobs(120, seed=13)
    training_data = training_data_of(vectors, targets, ExperimentConfig(folds=2))
    (trial,) = cells([recipe], small, training_data)
    chosen: dict[str, Value] = {"standardise": standardise, "C": 0.1}
    if "roberta" in recipe or "modernbert" in recipe:
        chosen = {"standardise": standardise, "learning_rate": 0.01, "weight_decay": 0.01}
        chosen |= {"epochs": 4.0, "principal_axes": axes}
    task = training_data.training_task("mean", threading.Event())
    splits, begin = training_data.splits, [found_of(chosen)] * 2
    found = trial.fitter.learn(task, begin, splits.train, splits.test, [0, 1])
    if "C" not in chosen:  # and once more, from there
        begin = [replace(one, state=own.state) for one, own in zip(begin, found, strict=True)]
        found = trial.fitter.learn(task, begin, splits.train, splits.test, [0, 1])
    for learned, rows in zip(found, splits.test, strict=True):
        chain = trial.resolved.head.make(WIDTH, CLASSES).eval()
        chain.load_state_dict(learned.state)
        with torch.no_grad():
            assert torch.allclose(chain(vectors[rows]), learned.logits, rtol=1e-3, atol=2e-3)


@pytest.mark.parametrize("classes", [2, 3])
@pytest.mark.parametrize("standardise", [True, False])
@pytest.mark.parametrize("top", ["linear", "gpt2"])
def test_a_linear_cell_is_the_logistic_regression_of_scikit_learn(
    small: Backbone, classes: int, standardise: bool, top: str
) -> None:
    vectors, targets = blobs(200, classes, apart=0.3, seed=14)
    rows = torch.arange(200)
    task = lesson_of(vectors, targets, classes)
    (trial,) = cells(
        [f"mean+{top}"], small, training_data_of(vectors, targets, ExperimentConfig(folds=2))
    )
    chosen: dict[str, Value] = {"standardise": standardise, "C": 0.05}
    (learned,) = trial.fitter.learn(task, [found_of(chosen)], [rows], [rows], [0])
    spread = vectors.std(dim=0, correction=0)
    centre = vectors.mean(dim=0) if top == "linear" else 0  # without a bias nothing is centred
    scaled = (vectors - centre) / (spread if standardise else spread.mean())
    model = LogisticRegression(C=0.05, max_iter=10_000, tol=1e-8, fit_intercept=top == "linear")
    wanted = model.fit(scaled.numpy(), targets.numpy()).predict_proba(scaled.numpy())
    assert learned.logits.softmax(dim=1).numpy() == pytest.approx(wanted, abs=0.02)


@pytest.mark.parametrize("recipe", OF_EVERY_KIND)
def test_what_is_plain_to_see_is_learned(small: Backbone, recipe: str) -> None:
    training_data = training_data_of(*blobs(120, apart=3.0, seed=5), ExperimentConfig(folds=2))
    (one,) = result([recipe], small, training_data).values()
    least = 0.9 if recipe.endswith(("centroid", "cosine", "knn")) else 0.98
    assert accuracy(one, training_data) >= least
    assert one.tried
    assert one.rows == len(training_data.splits.train[0])
    assert one.seconds > 0


def test_shuffled_labels_are_learned_no_better_than_by_guessing(small: Backbone) -> None:
    """Of vectors that tell the true labels apart without a fault."""
    vectors, targets = blobs(400, 4, apart=3.0, seed=6)
    order = torch.randperm(400, generator=torch.Generator().manual_seed(1))
    training_data = training_data_of(vectors, targets[order], ExperimentConfig(folds=2))
    spread = math.sqrt(0.25 * 0.75 / 400)
    for one in result(OF_EVERY_KIND, small, training_data).values():
        assert abs(accuracy(one, training_data) - 0.25) < 3.3 * spread, one.trial.name


@pytest.mark.usefixtures("quick")
@pytest.mark.parametrize("recipe", OF_EVERY_KIND)
def test_labels_of_test_rows_choose_and_teach_nothing(small: Backbone, recipe: str) -> None:
    vectors, targets = blobs(160, apart=0.5, seed=7)
    parts = ["train"] * 90 + ["validation"] * 30 + ["test"] * 40
    config = ExperimentConfig(seeds=2, class_weights=True)
    turned = targets.clone()
    turned[120:] = (turned[120:] + 1) % CLASSES
    (one,) = result(
        [recipe], small, training_data_of(vectors, targets, config, parts=parts)
    ).values()
    (other,) = result(
        [recipe], small, training_data_of(vectors, turned, config, parts=parts)
    ).values()
    assert one.chosen == other.chosen
    assert one.tried == other.tried
    for mine, theirs in zip(one.learned, other.learned, strict=True):
        assert torch.equal(mine.logits, theirs.logits)


@pytest.mark.usefixtures("quick")
def test_what_is_chosen_is_the_best_but_for_chance(small: Backbone) -> None:
    training_data = training_data_of(*blobs(200, apart=0.3, seed=8), ExperimentConfig(folds=2))
    for one in result(OF_EVERY_KIND, small, training_data).values():
        for number, settings in enumerate(one.chosen):
            ended = lowest([point for point in one.tried if point.seed == number])
            chosen = next(point for point in ended if _plain(point.settings) == _plain(settings))
            best = max(ended, key=lambda point: (point.score, -point.loss))
            rows = len(training_data.splits.development[number])
            assert best.score - chosen.score <= 1 / rows**0.5, one.trial.name
            assert chosen.loss <= best.loss, one.trial.name
        if not isinstance(one.trial.fitter, AdamWFitter):
            continue  # chosen by cross-validation, and scored on the development rows by a new fit
        scores = [
            next(point.score for point in one.tried
                 if point.seed == number and _plain(point.settings) == _plain(settings))
            for number, settings in enumerate(one.chosen)
        ]  # fmt: skip
        assert one.development_score == pytest.approx(sum(scores) / len(scores))


def _plain(settings: Chosen) -> Chosen:
    return {name: value for name, value in settings.items() if name != "converged"}


def lowest(tried: list[TriedSettings]) -> list[TriedSettings]:
    """Of what is looked at again and again the look of lowest loss, the last of equals."""
    found: dict[frozenset[tuple[str, Value]], TriedSettings] = {}
    for point in tried:
        values = {name: value for name, value in point.settings.items() if name != "epochs"}
        key = frozenset(values.items())
        if key not in found or point.loss <= found[key].loss:
            found[key] = point
    return list(found.values())


def test_on_few_rows_the_loss_tells_settings_apart() -> None:
    task = lesson_of(*blobs(30), 3)
    right = torch.ones(20)

    def point(wrong: slice, loss: float) -> TriedSettings:
        parts = right.clone()
        parts[wrong] = 0
        settings = {"C": loss}
        return TriedSettings(
            settings=settings, step=0, score=float(parts.mean()), loss=loss, parts=parts
        )

    luck, sure = point(slice(4), 0.9), point(slice(10, 15), 0.4)
    bad, none = point(slice(5, 17), 0.1), point(slice(10, 15), float("nan"))
    assert best([luck, sure, bad, none], task) is luck
    assert surest([none, luck, sure, bad], task) is sure
    assert surest([luck], task) is luck
    equal = point(slice(6, 10), 0.3)  # as many right as of `luck`, at a lower loss
    assert best([luck, equal], task) is best([equal, luck], task) is equal
    numbers = replace(task, objective=Objective(problem=REGRESSION, outputs=1))
    assert best([none, luck, bad], numbers) is bad


def test_rows_count_in_the_loss_by_which_settings_are_judged() -> None:
    task = lesson_of(*blobs(30), 3)
    rows = torch.arange(4)
    logits = torch.zeros(4, 3)
    logits[0, int(task.targets[0])] = 5.0  # one row is sure and right, the others are not
    even = task.objective.rows(logits, task.targets[rows])
    counts = torch.ones(30)
    counts[0] = 9.0
    found = judged({}, 0, logits, replace(task, counts=counts), rows)
    assert found.loss == pytest.approx(float((even * counts[rows]).sum() / 12))
    assert found.loss < judged({}, 0, logits, task, rows).loss


def test_what_the_recipe_says_is_not_searched(small: Backbone) -> None:
    training_data = training_data_of(*blobs(160), ExperimentConfig(folds=2))
    recipes = ["mean+logistic?C=0.5", "mean+ridge?alpha=7.0", "mean+knn?k=5"]
    logistic, ridge, knn = result(recipes, small, training_data).values()
    assert {point.settings["C"] for point in logistic.tried} == {0.5}
    assert len(ridge.tried) == len(knn.tried) == 2  # one a seed
    assert all("alpha" not in chosen for chosen in ridge.chosen)
    assert all("k" not in chosen for chosen in knn.chosen)


@pytest.mark.usefixtures("quick")
@pytest.mark.parametrize(
    ("one", "other"),
    slow.but_each(
        3,
        [
            ("mean+bert", "mean+xlnet"),
            ("mean+bert?dropout=0.3", "mean+xlnet?dropout=0.3"),
            ("mean+distilbert", f"mean+mlp?dropout=0.2&hidden={WIDTH}"),
            ("mean+xlnet?activation=gelu", "mean+deberta"),
            ("mean+eurobert", "mean+deberta?dropout=0.0"),
            ("mean+roberta?dropout=0.0", "mean+xlnet?dropout=0.0"),
        ],
    ),
)
def test_the_same_layers_under_two_names_have_the_same_numbers(
    poolerless: Backbone, one: str, other: str
) -> None:
    training_data = training_data_of(*blobs(120, apart=0.5, seed=9), ExperimentConfig(folds=2))
    mine, theirs = result([one, other], poolerless, training_data).values()
    assert (mine.chosen, mine.tried) == (theirs.chosen, theirs.tried)
    for a, b in zip(mine.learned, theirs.learned, strict=True):
        assert torch.equal(a.logits, b.logits)


def test_weights_of_classes_find_more_of_a_rare_one(small: Backbone) -> None:
    vectors, targets = blobs(900, 2, apart=0.22, seed=10)
    kept = (targets == 0) | (torch.arange(900) % 8 == 0)
    vectors, targets = vectors[kept], targets[kept]
    recalls = {}
    for weighted in (False, True):
        training_data = training_data_of(
            vectors, targets, ExperimentConfig(folds=3, class_weights=weighted)
        )
        for name, one in result(["mean+linear", "mean+roberta"], small, training_data).items():
            rare = [
                (learned.logits.argmax(dim=1) == 1)[targets[rows] == 1].float().mean()
                for learned, rows in zip(one.learned, training_data.splits.test, strict=True)
            ]
            recalls[name, weighted] = float(torch.stack(rare).mean())
    for name in ("mean+linear", "mean+roberta"):
        assert recalls[name, True] > recalls[name, False] + 0.15


def same(one: TrialResult, other: TrialResult) -> None:
    assert one.trial.name == other.trial.name
    assert (one.chosen, one.tried) == (other.chosen, other.tried)
    for mine, theirs in zip(one.learned, other.learned, strict=True):
        assert torch.equal(mine.logits, theirs.logits)
        assert all(torch.equal(mine.state[key], theirs.state[key]) for key in mine.state)


@pytest.mark.usefixtures("quick")
@pytest.mark.slow
def test_numbers_depend_on_the_seed_alone(small: Backbone) -> None:
    vectors, targets = blobs(160, apart=0.5, seed=11)
    training_data = training_data_of(
        vectors, targets, ExperimentConfig(folds=2), readings=("mean", "cls")
    )
    recipes = [*OF_EVERY_KIND, "cls+linear", "cls+roberta"]
    once = result(recipes, small, training_data)
    for workers, order in ((2, recipes), (1, recipes[::-1])):
        torch.manual_seed(workers)
        again = result(order, small, training_data, workers)
        assert set(again) == set(once)
        for name in once:
            same(once[name], again[name])
    alone = result(["mean+roberta"], small, training_data)
    same(once["mean+roberta"], alone["mean+roberta"])
    other = training_data_of(
        vectors, targets, ExperimentConfig(folds=2, seed=1), readings=("mean", "cls")
    )
    changed = result(["mean+roberta"], small, other)["mean+roberta"]
    assert not torch.equal(changed.learned[0].state["out_proj.weight"],
                           once["mean+roberta"].learned[0].state["out_proj.weight"])  # fmt: skip


@pytest.mark.usefixtures("quick")
def test_seeds_of_a_fixed_test_set_differ_where_something_is_drawn(small: Backbone) -> None:
    vectors, targets = blobs(150, apart=0.4, seed=12)
    parts = ["train"] * 80 + ["validation"] * 30 + ["test"] * 40
    training_data = training_data_of(vectors, targets, ExperimentConfig(seeds=2), parts=parts)
    found = result(["mean+linear", "mean+ridge", "mean+roberta"], small, training_data)
    for name, same_numbers in (
        ("mean+linear", True),
        ("mean+ridge", True),
        ("mean+roberta", False),
    ):
        first, second = (learned.logits for learned in found[name].learned)
        assert torch.equal(first, second) is same_numbers
        assert found[name].outcome.is_random is not same_numbers


@pytest.mark.usefixtures("quick")
@pytest.mark.parametrize("recipe", OF_EVERY_KIND)
def test_what_a_head_learns_does_not_depend_on_who_learned_before_it(
    small: Backbone, recipe: str
) -> None:
    vectors, targets = blobs(150, apart=0.4, seed=12)
    training_data = training_data_of(vectors, targets, ExperimentConfig(folds=2))
    (trial,), task = (
        cells([recipe], small, training_data),
        training_data.training_task("mean", threading.Event()),
    )
    taught = on_task(trial, task, training_data.splits, training_data.config)
    found = ended(taught.search(training_data.splits, [0, 1]))
    few, others, asked = torch.arange(0, 90), torch.arange(60, 150), torch.arange(90, 150)
    alone = taught.learn(found[1:], [few], [asked], [0])[0]
    after = taught.learn(found, [others, few], [asked, asked], [0, 0])[1]
    assert torch.allclose(alone.logits, after.logits, atol=1e-4)


# Which cells there are


def trials(recipes, *more):
    return cells_of_a_grid.trials(list(map(resolve, recipes)), *more)


def recipes_of(grid, backbone):
    return list(map(str, grids.recipes_of(grid, backbone)))


def test_the_grids_are_as_large_as_they_say(backbone: Backbone) -> None:
    small, full = (recipes_of(name, backbone) for name in ("small", "full"))
    for recipes, poolings, tops in ((small, 4, 4), (full, 8, 8)):
        assert len(set(recipes)) == len(recipes)
        assert len({recipe.split("+")[0] for recipe in recipes}) >= poolings
        assert len({recipe.split("+")[1] for recipe in recipes}) >= tops
        assert len(trials(recipes, backbone, 5)) == len(recipes)
    assert "mean@3+linear" in full
    with pytest.raises(RecipeError, match="There is no grid called 'tiny'"):
        recipes_of("tiny", backbone)


def test_each_recipe_is_one_cell_and_those_of_one_reading_stand_side_by_side(
    small: Backbone,
) -> None:
    recipes = ["mean+linear", "cls+linear", "mean+linear?dropout=0.1", "mean+bert"]
    found = trials(recipes, small, 3)
    assert [trial.name for trial in found] == ["mean+linear", "mean+bert", "cls+linear"]
    assert found[0].parameters == WIDTH * 3 + 3


def test_what_takes_long_costs_more(small: Backbone) -> None:
    recipes = ["attention+linear", "mean+roberta", "mean+ridge"]
    costs = [trial.cost(1_000, 3) for trial in trials(recipes, small, 3)]
    assert costs == sorted(costs, reverse=True)
    (trial,) = trials(["mean+roberta"], small, 3)
    assert trial.cost(100, 1) < trial.cost(1_000, 1) < trial.cost(1_000, 3)


def test_too_many_cells_and_none_are_refused(small: Backbone) -> None:
    with (
        use_limits(Limits(cells=2)),
        pytest.raises(LimitError, match="3 recipes are chosen; this place trains at most 2"),
    ):
        trials(["mean+linear", "cls+linear", "max+linear"], small, 3)
    with pytest.raises(RecipeError, match="No recipe is chosen"):
        trials([], small, 3)


@pytest.mark.usefixtures("quick")
@pytest.mark.slow
def test_every_cell_of_the_default_grid_can_be_trained(small: Backbone) -> None:
    recipes = recipes_of("small", small)
    readings = list(dict.fromkeys(recipe.split("+")[0] for recipe in recipes))
    training_data = training_data_of(
        *blobs(90, apart=2.0), ExperimentConfig(folds=2), readings=readings
    )
    assert len(cells(recipes, small, training_data)) == 16
    assert len(result(recipes, small, training_data)) == 16


# A user's own linear head


@pytest.fixture
def own_head() -> Iterator[str]:
    """A head of one linear layer behind dropout, as a user would define it."""

    @head
    def plain(width: int, classes: int, *, dropout: float = 0.3) -> nn.Sequential:
        """One linear layer of a user's own."""
        return modules.chain(("drop", nn.Dropout(dropout)), ("out", nn.Linear(width, classes)))

    yield "plain"
    del head._parts["plain"]


def test_a_linear_head_of_ones_own_is_fitted_to_its_optimum(small: Backbone, own_head: str) -> None:
    vectors, targets = blobs(150, apart=1.0)
    training_data = training_data_of(vectors, targets, ExperimentConfig(folds=2))
    recipes = [f"mean+{own_head}", "mean+linear", f"mean+{own_head}?dropout=0.2"]
    found = {trial.name: trial.fitter for trial in cells(recipes, small, training_data)}
    assert isinstance(found["mean+plain"], LinearFitter)
    assert isinstance(found["mean+plain?dropout=0.2"], AdamWFitter)  # asked for, so it is learned
    own, usual = result(recipes[:2], small, training_data).values()
    assert own.chosen == usual.chosen
    for one, other in zip(own.outcome.logits, usual.outcome.logits, strict=True):
        assert torch.equal(one, other)


# Settings of solved heads


def test_neighbours_are_never_searched_beyond_the_rows(small: Backbone) -> None:
    rng = torch.Generator().manual_seed(0)
    targets = torch.arange(600) % 2
    vectors = torch.randn(600, WIDTH, generator=rng) + 0.5 * targets[:, None] / WIDTH**0.5
    training_data = training_data_of(vectors, targets, ExperimentConfig(curve=False))
    (found,) = result(["mean+knn"], small, training_data).values()
    assert {point.settings["k"] for point in found.tried} == {1, 3, 10, 30, 100}
    few = training_data_of(vectors[:24], targets[:24], ExperimentConfig(curve=False))
    (found,) = result(["mean+knn"], small, few).values()
    assert max(point.settings["k"] for point in found.tried) <= 24


@pytest.mark.parametrize("standardise", ["true", "false"])
@pytest.mark.parametrize("top", ["linear", "roberta", "mlp"])
@pytest.mark.usefixtures("quick")
def test_a_recipe_that_says_whether_to_standardise_is_searched_so_alone(
    small: Backbone, top: str, standardise: str
) -> None:
    training_data = training_data_of(*blobs(90), ExperimentConfig(curve=False))
    (found,) = result([f"mean+{top}?standardise={standardise}"], small, training_data).values()
    assert {point.settings["standardise"] for point in found.tried} == {standardise == "true"}
