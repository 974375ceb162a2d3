"""One linear layer is solved to its only optimum, whatever is asked of it: as scikit-learn does."""

import warnings
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest
import torch
from loops import collect
from sklearn.linear_model import LogisticRegression, Ridge
from sklearn.multiclass import OneVsRestClassifier
from sklearn.preprocessing import StandardScaler
from sklearn.svm import LinearSVC
from small_training_data import WIDTH, blobs, ended, found_of
from torch import Tensor
from torch.testing import assert_close

from heads.backbone.backbone import Backbone
from heads.data.splits import Splits, split
from heads.parts.resolve import resolve
from heads.problem import MULTI_LABEL, REGRESSION, SINGLE_LABEL, ProblemType
from heads.settings import ExperimentConfig
from heads.training.fitters import logistic
from heads.training.fitters.base import SearchResult
from heads.training.fitters.logistic import EDGES, NEIGHBOURS, OF_NUMBERS, LinearFitter
from heads.training.fitters.logistic import STRENGTHS as STRENGTHS_TRIED
from heads.training.objective import Objective, balance_of
from heads.training.task import TrainingTask
from heads.training.trial import Trial, trials

CLASSES, ROWS = 4, 240
STRENGTHS = (0.03, 1.0)
CLOSE: dict[str, Any] = {"rtol": 0, "atol": 1e-3}  # of a logit


@pytest.fixture
def near(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nearer to the optimum than an answer needs."""
    monkeypatch.setattr(logistic, "NEAR", 1e-6)


@pytest.fixture
def exact(near: None) -> Iterator[None]:
    """And in double precision, so that only the mathematics is compared."""
    before = torch.get_default_dtype()
    torch.set_default_dtype(torch.float64)
    yield
    torch.set_default_dtype(before)


def points() -> Tensor:
    vectors, _ = blobs(ROWS, CLASSES, apart=0.4, width=8, seed=2)
    return (vectors - vectors.mean(dim=0)) / vectors.std(dim=0)


def labels() -> Tensor:
    """Any number of labels, the last one rare, from the vectors and chance."""
    rng = torch.Generator().manual_seed(3)
    chance = points()[:, :CLASSES] + torch.randn(ROWS, CLASSES, generator=rng)
    return (chance > torch.tensor([0.0, 0.5, 1.0, 2.2])).to(chance.dtype)


def grades() -> Tensor:
    rng = torch.Generator().manual_seed(4)
    vectors = points()
    return vectors[:, 0] - 2 * vectors[:, 1] + torch.randn(ROWS, generator=rng)


def problems_of(
    objective: Objective, targets: Tensor, strengths: tuple[float, ...] = STRENGTHS
) -> logistic.LinearProblems:
    return logistic.LinearProblems(
        vectors=points(),
        targets=targets,
        objective=objective,
        weights=torch.ones(len(targets)),
        strength=torch.tensor(strengths),
        bias=True,
    )


def solved(problems: logistic.LinearProblems) -> Iterator[tuple[float, Tensor]]:
    """For each C the logits (n, c) of the solution."""
    weights, biases = logistic.solve(
        problems, iterations=3_000, near=logistic.NEAR, check=lambda: None
    )
    for strength, weight, bias in zip(problems.strength.tolist(), weights, biases, strict=True):
        yield strength, problems.vectors @ weight.T + bias


def rest(strength: float, balanced: bool) -> OneVsRestClassifier:
    weight = "balanced" if balanced else None
    return OneVsRestClassifier(
        LogisticRegression(C=strength, max_iter=20_000, tol=1e-10, class_weight=weight)
    )


# What is asked of one layer


def test_labels_that_are_half_chance_take_no_longer() -> None:
    rng = torch.Generator().manual_seed(0)
    vectors, weight = torch.randn(800, 64, generator=rng), torch.randn(64, 30, generator=rng)
    chance = torch.randint(0, 30, (800,), generator=rng)
    is_chance = torch.rand(800, generator=rng) < 0.5
    asked = list[None]()
    problems = logistic.LinearProblems(
        vectors=vectors,
        targets=torch.where(is_chance, chance, (vectors @ weight).argmax(dim=1)),
        objective=Objective(problem=SINGLE_LABEL, outputs=30),
        weights=torch.ones(800),
        strength=torch.tensor([0.01, 0.1, 1.0]),
        bias=True,
    )
    found = [
        logistic.solve(
            problems, iterations=300, near=near, check=lambda: asked.append(None), products=products
        )
        for products, near in ((torch.bfloat16, logistic.NEAR), (torch.float32, 1e-5))
    ]
    assert len(asked) < 300  # the first alone once took 500
    rough, exact = (vectors @ weights.mT + biases[:, None] for weights, biases in found)
    assert (rough - exact).square().mean() < 1e-3 * exact.square().mean()


def test_where_it_begins_moves_the_time_and_not_the_optimum() -> None:
    problems = problems_of(
        Objective(problem=SINGLE_LABEL, outputs=CLASSES), torch.arange(ROWS) * 7 % 11 % CLASSES
    )
    steps: list[int] = []
    options: dict[str, Any] = {"iterations": 2_000, "near": logistic.NEAR}
    cold = logistic.solve(problems, check=lambda: steps.append(0), **options)
    once = len(steps)
    warm = logistic.solve(problems, check=lambda: steps.append(0), start=cold, **options)
    assert len(steps) - once < once / 2
    for one, other in zip(cold, warm, strict=True):
        assert torch.allclose(one, other, atol=1e-3)

    def stop() -> None:
        raise TimeoutError

    with pytest.raises(TimeoutError):  # it can be ended at any step
        logistic.solve(problems, check=stop, **options)


@pytest.mark.usefixtures("exact")
@pytest.mark.parametrize("balanced", [False, True])
@pytest.mark.parametrize("problem", [SINGLE_LABEL, MULTI_LABEL])
def test_one_versus_the_rest_is_that_of_scikit_learn(problem: ProblemType, balanced: bool) -> None:
    targets = labels() if problem is MULTI_LABEL else (torch.arange(ROWS) * 7 % 11 % CLASSES)
    objective = Objective(
        problem=problem,
        outputs=CLASSES,
        loss="softmax" if problem is MULTI_LABEL else "ovr",
        balance=balance_of(targets, CLASSES) if balanced else None,
    )
    for strength, logits in solved(problems_of(objective, targets)):
        model = rest(strength, balanced).fit(points().numpy(), targets.long().numpy())
        wanted = torch.from_numpy(model.decision_function(points().numpy()))
        assert_close(logits, wanted, **CLOSE)


@pytest.mark.usefixtures("exact")
def test_a_label_that_never_or_always_occurs_is_learned_beside_the_others() -> None:
    targets = labels()
    targets[:, 1], targets[:, 3] = 0.0, 1.0
    objective = Objective(problem=MULTI_LABEL, outputs=CLASSES)
    for strength, logits in solved(problems_of(objective, targets)):
        assert logits.isfinite().all()
        assert (logits[:, 1] < -2).all()
        assert (logits[:, 3] > 2).all()
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # scikit-learn says that two labels teach nothing
            model = rest(strength, balanced=False).fit(points().numpy(), targets.numpy())
        wanted = torch.from_numpy(model.decision_function(points().numpy()))
        for label in (0, 2):
            assert_close(logits[:, label], wanted[:, label], **CLOSE)
    balanced = replace(objective, balance=balance_of(targets, CLASSES))
    for _, logits in solved(problems_of(balanced, targets)):
        assert logits.isfinite().all()


# The same as a cell


def lesson_of(problem: ProblemType, targets: Tensor, **options: Any) -> TrainingTask:
    vectors, _ = blobs(len(targets), 3, apart=0.5, seed=6)
    outputs = 1 if problem is REGRESSION else 3
    objective = Objective(problem=problem, outputs=outputs, **options)
    return TrainingTask.of_rows(vectors, targets, objective)


def parted(rows: int) -> Splits:
    """One seed, which tries on 90 rows and chooses on 30."""
    own = torch.arange(120)
    return Splits(
        kind="test set",
        search=(own[:90],),
        development=(own[90:],),
        train=(own,),
        test=(torch.arange(120, rows),),
    )


def unit_of(recipe: str, backbone: Backbone, problem: ProblemType) -> Trial:
    (trial,) = trials([resolve(recipe)], backbone, 1 if problem is REGRESSION else 3, problem)
    assert isinstance(trial.fitter, LinearFitter)
    return trial


@pytest.mark.usefixtures("near")
@pytest.mark.parametrize("C", [0.01, 1.0])
def test_a_cell_of_hinge_is_the_linear_svm_of_scikit_learn(small: Backbone, C: float) -> None:
    _, targets = blobs(160, 3, apart=0.5, seed=6)
    task = lesson_of(SINGLE_LABEL, targets, loss="hinge")
    trial = unit_of("mean+linear", small, SINGLE_LABEL)
    rows, asked = torch.arange(120), torch.arange(120, 160)
    given = [found_of({"standardise": True, "C": C})]
    (found,) = trial.fitter.learn(task, given, [rows], [asked], [0])
    scaler = StandardScaler().fit(task.vectors[rows].numpy())
    scaled = scaler.transform(task.vectors.numpy())
    # Its bias is penalised like a weight; drawn out a hundredfold, that is hardly felt.
    model = LinearSVC(C=C, dual=False, tol=1e-9, intercept_scaling=100, max_iter=100_000)
    model.fit(scaled[:120], targets[rows].numpy())
    wanted = torch.from_numpy(model.decision_function(scaled[120:])).float()
    assert_close(found.logits, wanted, rtol=0, atol=1e-2)


@pytest.mark.usefixtures("near")
def test_a_cell_of_numbers_is_that_of_ridge(small: Backbone) -> None:
    targets = torch.linspace(-1, 1, 160)[torch.randperm(160, generator=torch.Generator())]
    task, trial = lesson_of(REGRESSION, targets), unit_of("mean+linear", small, REGRESSION)
    rows, asked = torch.arange(120), torch.arange(120, 160)
    begin = found_of({"standardise": True, "C": 0.02})
    (found,) = trial.fitter.learn(task, [begin], [rows], [asked], [0])
    given = StandardScaler().fit(task.vectors[rows].numpy()).transform(task.vectors.numpy())
    model = Ridge(alpha=50.0).fit(given[:120], targets[rows].numpy())
    wanted = torch.from_numpy(model.predict(given[120:])).float()
    assert_close(found.logits[:, 0], wanted, rtol=0, atol=2e-3)


@pytest.mark.parametrize("told", [True, False])
def test_numbers_are_shrunk_as_little_as_the_vectors_tell_them(small: Backbone, told: bool) -> None:
    vectors, _ = blobs(160, 3, apart=0.5, seed=6)
    targets = torch.randn(160, generator=torch.Generator().manual_seed(1))
    if told:
        targets = vectors @ torch.linspace(-1, 1, WIDTH) / 20
    task, trial = lesson_of(REGRESSION, targets), unit_of("mean+linear", small, REGRESSION)
    (found,) = ended(trial.fitter.search(task, parted(160), [0]))
    assert (float(found.chosen["C"]) > max(OF_NUMBERS)) == told
    assert (found.point.score > 0.99) == told


def strengths_of(task: TrainingTask, trial: Trial) -> tuple[list[float], SearchResult]:
    """C as it is tried, standardised, in order; and what is found."""
    tried, (found,) = collect(trial.fitter.search(task, parted(len(task.targets)), [0]))
    return [float(one.settings["C"]) for one in tried], found


@pytest.mark.parametrize(("flipped", "edge"), [(False, EDGES[1]), (True, EDGES[0])])
def test_c_goes_on_while_the_best_is_at_the_edge_but_not_for_ever(
    small: Backbone, flipped: bool, edge: float
) -> None:
    """Where all rows are told apart, a larger C has always the lower loss; of classes that are
    the opposite on the development rows, a smaller one."""
    vectors, targets = blobs(160, 3, apart=2.0, seed=6)
    if flipped:
        targets[90:] = (targets[90:] + 1) % 3
    task = replace(lesson_of(SINGLE_LABEL, targets), vectors=vectors)
    tried, found = strengths_of(task, unit_of("mean+logistic", small, SINGLE_LABEL))
    assert tried[: len(STRENGTHS_TRIED)] == list(STRENGTHS_TRIED)
    further = tried[len(STRENGTHS_TRIED) :]
    grown = further[: -len(NEIGHBOURS)]
    assert grown == pytest.approx([tried[0 if flipped else 2] * (0.1 if flipped else 10) ** n
                                   for n in range(1, len(grown) + 1)])  # fmt: skip
    assert len(grown) >= 2
    assert grown[-1] == pytest.approx(edge, rel=0 if flipped else 0.9)
    assert all(EDGES[0] / 4 < C < EDGES[1] * 4 for C in tried)
    assert float(found.chosen["C"]) in tried


def test_c_that_is_best_in_the_middle_or_fixed_goes_nowhere(small: Backbone) -> None:
    _, targets = blobs(160, 3, apart=0.5, seed=6)
    task = lesson_of(SINGLE_LABEL, targets)
    tried, found = strengths_of(task, unit_of("mean+linear", small, SINGLE_LABEL))
    assert min(STRENGTHS_TRIED) < 3 * float(found.chosen["C"])
    assert len(tried) <= len(STRENGTHS_TRIED) + 3 + len(NEIGHBOURS)
    fixed, _ = strengths_of(task, unit_of("mean+logistic?C=0.5", small, SINGLE_LABEL))
    assert set(fixed) == {0.5}


def test_seeds_of_the_same_rows_are_searched_once(small: Backbone) -> None:
    _, targets = blobs(160, 3, apart=0.5, seed=6)
    task, trial = lesson_of(SINGLE_LABEL, targets), unit_of("mean+linear", small, SINGLE_LABEL)
    one = parted(160)
    both = [own * 2 for own in (one.search, one.development, one.train, one.test)]
    twice = Splits(
        kind="test set", search=both[0], development=both[1], train=both[2], test=both[3]
    )
    events = list(trial.fitter.search(task, twice, [0, 1]))
    assert [point.seed for point in events] == [0] * len(events)
    first, second = ended(trial.fitter.search(task, twice, [0, 1]))
    assert first.chosen == second.chosen


@pytest.mark.parametrize("loss", ["softmax", "ovr", "hinge"])
def test_rows_of_no_weight_in_a_problem_are_held_out_of_it(loss: str) -> None:
    vectors, targets = blobs(120, 3, apart=0.5)
    vectors = (vectors - vectors.mean(dim=0)) / vectors.std(dim=0)
    held = torch.arange(120) // 40 == torch.arange(3)[:, None]
    objective = Objective(problem=SINGLE_LABEL, outputs=3, loss=loss)
    every = logistic.LinearProblems(
        vectors=vectors,
        targets=targets,
        objective=objective,
        weights=(~held).float(),
        strength=torch.tensor([0.01, 0.1, 1.0]),
        bias=True,
    )
    options = {"near": 1e-6, "iterations": 2_000, "check": lambda: None}
    weight, bias = logistic.solve(every, **options)
    for number, own in enumerate(~held):
        alone = replace(
            every,
            vectors=vectors[own],
            targets=targets[own],
            weights=torch.ones(int(own.sum())),
            strength=every.strength[number : number + 1],
        )
        wanted = logistic.solve(alone, **options)
        found = vectors @ weight[number].T + bias[number]
        assert_close(found, vectors @ wanted[0][0].T + wanted[1][0], rtol=0, atol=5e-3)


@pytest.mark.parametrize("recipe", ["mean+linear", "mean+ridge", "mean+lda", "mean+knn"])
def test_a_repeated_text_is_held_out_with_its_repetitions(small: Backbone, recipe: str) -> None:
    """Labels are drawn, and every text stands twice: who learns one row would know the other."""
    rng = torch.Generator().manual_seed(3)
    vectors = torch.randn(60, WIDTH, generator=rng).repeat_interleave(2, dim=0)
    targets = torch.randint(0, 2, (60,), generator=rng).repeat_interleave(2)
    vectors, targets = torch.cat([vectors, vectors]), torch.cat([targets, targets])
    groups, parts = torch.arange(240) // 2, ["train"] * 120 + ["test"] * 120
    splits = split(targets, groups, parts, ExperimentConfig(seeds=2))
    task = replace(lesson_of(SINGLE_LABEL, targets), vectors=vectors, index=torch.arange(240))
    task = replace(task, objective=Objective(problem=SINGLE_LABEL, outputs=2))
    (trial,) = trials([resolve(recipe)], small, 2, SINGLE_LABEL)
    tried = [point for point in trial.fitter.search(task, splits, [0, 1]) if point.seed == 0]
    assert len(tried) >= 3
    assert all(0.2 < point.score < 0.75 for point in tried)


@pytest.mark.parametrize("recipe", ["mean+linear", "mean+gpt2"])
def test_a_cell_goes_on_from_what_its_search_came_to(
    small: Backbone, recipe: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    begun, solve = list[bool](), logistic.solve

    def watched(*given: Any, start: Any, **options: Any) -> Any:
        begun.append(start is not None)
        return solve(*given, start=start, **options)

    monkeypatch.setattr(logistic, "solve", watched)
    _, targets = blobs(160, 3, apart=0.5, seed=6)
    task, trial = lesson_of(SINGLE_LABEL, targets), unit_of(recipe, small, SINGLE_LABEL)
    (fresh,) = [found_of({"standardise": True, "C": 0.1})]
    rows, asked = (
        [torch.arange(120), torch.arange(30, 150), torch.arange(120)],
        torch.arange(150, 160),
    )
    (few,) = trial.fitter.learn(task, [fresh], [torch.arange(90)], [asked], [0])
    further = replace(fresh, state=few.state)
    begun.clear()
    found = trial.fitter.learn(task, [further, fresh, further], rows, [asked] * 3, [0, 1, 2])
    assert begun == [True, False]  # the third is the first
    for own, one in zip(rows, found, strict=True):
        (alone,) = trial.fitter.learn(task, [fresh], [own], [asked], [0])
        assert_close(one.logits, alone.logits, rtol=0, atol=2e-2)
