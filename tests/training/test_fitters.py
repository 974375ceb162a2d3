"""Heads learned many at once are the heads that each would be alone, and are chosen fairly."""

import math
import threading
from collections.abc import Iterator
from dataclasses import replace

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
from heads.errors import LimitError, RecipeError
from heads.parts import modules
from heads.parts.registry import head
from heads.parts.resolve import resolve
from heads.problem import REGRESSION
from heads.recipe import Value
from heads.rng import IsolatedRng
from heads.runs import grids
from heads.settings import ExperimentConfig, Limits, use_limits
from heads.training import trial as cells_of_a_grid
from heads.training.fitters import adamw, successive_halving
from heads.training.fitters.base import TriedSettings, best, judge_settings, select_one_se
from heads.training.fitters.batched import BatchedHeads, CopySettings, drop_out
from heads.training.fitters.logistic import LinearFitter
from heads.training.fitters.vector_heads import AdamWFitter
from heads.training.objective import Objective
from heads.training.search import learn, prepare_task
from heads.training.task import class_weights

CLASSES = 3
OF_EVERY_KIND = (
    "mean+linear", "mean+gpt2", "mean+logistic", "mean+roberta", "mean+modernbert",
    "mean+multi_sample_dropout", "mean+ridge", "mean+centroid", "mean+cosine", "mean+knn",
)  # fmt: skip


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


def without_dropout(name: str) -> dict[str, float]:
    return {option: 0.0 for option in head[name].options if "dropout" in option}


@pytest.mark.parametrize(
    "name", slow.but_each(3, [name for name in head if not head[name].is_solved])
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


# What a cell of the grid is


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


@pytest.mark.parametrize("classes", [2, 3])
@pytest.mark.parametrize("standardise", [True, False])
@pytest.mark.parametrize("top", ["linear", "gpt2"])
@pytest.mark.parametrize("weighted", [False, True])
def test_a_linear_cell_is_the_logistic_regression_of_scikit_learn(
    small: Backbone, classes: int, standardise: bool, top: str, weighted: bool
) -> None:
    vectors, targets = blobs(200, classes, apart=0.3, seed=14)
    if weighted:  # a rare class
        kept = (targets != 0) | (torch.arange(200) % 5 == 0)
        vectors, targets = vectors[kept], targets[kept]
    rows = torch.arange(len(targets))
    weights = class_weights(targets, rows, classes) if weighted else None
    task = lesson_of(vectors, targets, classes, weights)
    (trial,) = cells([f"mean+{top}"], small, training_data_of(vectors, targets))
    chosen: dict[str, Value] = {"standardise": standardise, "C": 0.05}
    (learned,) = trial.fitter.learn(task, [found_of(chosen)], [rows], [rows], [0])
    spread = vectors.std(dim=0, correction=0)
    centre = vectors.mean(dim=0) if top == "linear" else 0  # without a bias nothing is centred
    scaled = ((vectors - centre) / (spread if standardise else spread.mean())).numpy()
    model = LogisticRegression(
        C=0.05, max_iter=10_000, tol=1e-8, fit_intercept=top == "linear",
        class_weight="balanced" if weighted else None,
    )  # fmt: skip
    wanted = model.fit(scaled, targets.numpy()).predict_proba(scaled)
    assert learned.logits.softmax(dim=1).numpy() == pytest.approx(wanted, abs=0.02)


def test_shuffled_labels_are_learned_no_better_than_by_guessing(small: Backbone) -> None:
    """Of vectors that tell the true labels apart without a fault."""
    vectors, targets = blobs(400, 4, apart=3.0, seed=6)
    order = torch.randperm(400, generator=torch.Generator().manual_seed(1))
    training_data = training_data_of(vectors, targets[order])
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
    assert select_one_se([none, luck, sure, bad], task) is sure
    assert select_one_se([luck], task) is luck
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
    found = judge_settings({}, 0, logits, replace(task, counts=counts), rows)
    assert found.loss == pytest.approx(float((even * counts[rows]).sum() / 12))
    assert found.loss < judge_settings({}, 0, logits, task, rows).loss


def test_what_the_recipe_says_is_not_searched(small: Backbone) -> None:
    training_data = training_data_of(*blobs(160))
    recipes = ["mean+logistic?C=0.5", "mean+ridge?alpha=7.0", "mean+knn?k=5"]
    logistic, ridge, knn = result(recipes, small, training_data).values()
    assert {point.settings["C"] for point in logistic.tried} == {0.5}
    assert len(ridge.tried) == len(knn.tried) == 2  # one a seed
    assert all("alpha" not in chosen for chosen in ridge.chosen)
    assert all("k" not in chosen for chosen in knn.chosen)


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
    training_data = training_data_of(vectors, targets)
    (trial,), task = (
        cells([recipe], small, training_data),
        training_data.training_task("mean", threading.Event()),
    )
    task = prepare_task(trial, task, training_data)
    found = ended(trial.fitter.search(task, training_data.splits, [0, 1]))
    few, others, asked = torch.arange(0, 90), torch.arange(60, 150), torch.arange(90, 150)
    alone = learn(trial, task, found[1:], [few], [asked], [0])[0]
    after = learn(trial, task, found, [others, few], [asked, asked], [0, 0])[1]
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
    with pytest.raises(RecipeError):
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
        pytest.raises(LimitError),
    ):
        trials(["mean+linear", "cls+linear", "max+linear"], small, 3)
    with pytest.raises(RecipeError):
        trials([], small, 3)


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
    training_data = training_data_of(vectors, targets)
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
