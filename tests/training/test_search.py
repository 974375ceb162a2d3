"""A unit is taught what suits it: its own loss, numbers in their own units, rows kept apart."""

import threading
from collections.abc import Sequence
from dataclasses import replace
from statistics import fmean

import pytest
import slow
import torch
from scipy.stats import spearmanr
from small_training_data import WIDTH, accuracy, blobs, cells, ended, result, training_data_of
from torch import Tensor
from torch.nn.functional import logsigmoid, one_hot
from torch.testing import assert_close

from heads.backbone.backbone import Backbone
from heads.classifier.module import RecipeModule
from heads.data import splits
from heads.evaluation.calibration import thresholds
from heads.parts.modules import last_linear
from heads.parts.resolve import resolve
from heads.problem import MULTI_LABEL, REGRESSION, SINGLE_LABEL, ProblemType
from heads.settings import ExperimentConfig
from heads.training.events import SearchFinished, TrialResult
from heads.training.fitters import adamw, successive_halving
from heads.training.fitters.base import (
    SearchResult,
    judge_settings,
)
from heads.training.objective import balance_of
from heads.training.scheduler import TrainingData
from heads.training.search import fit_job, learn, prepare_task, seeds_of
from heads.training.task import TrainingTask
from heads.training.trial import Trial

# Convex with and without a bias, descent with and without one in its last layer, solved at once.
OF_NUMBERS = (
    "mean+linear", "mean+gpt2", "mean+roberta", "mean+modernbert?out_bias=false",
    "mean+multi_sample_dropout", "mean+ridge",
)  # fmt: skip
OF_MANY = ("mean+linear", "mean+gpt2", "mean+roberta", "mean+ridge", "mean+centroid")
LABELS = 3


def numbers_of(rows: int, *, centre: float, spread: float) -> tuple[Tensor, Tensor]:
    """Vectors, and numbers around a centre that the vectors tell, but for some noise."""
    vectors, _ = blobs(rows, apart=0.0, seed=7)
    rng = torch.Generator().manual_seed(8)
    plain = (vectors - vectors.mean(dim=0)) / vectors.std(dim=0)
    told = plain @ torch.randn(WIDTH, generator=rng) / WIDTH**0.5
    return vectors, centre + spread * (told + 0.2 * torch.randn(rows, generator=rng))


def labels_of(rows: int) -> tuple[Tensor, Tensor]:
    """Vectors, and any number of labels that they tell, the last of them rare."""
    vectors, _ = blobs(rows, apart=0.0, seed=9)
    plain = (vectors - vectors.mean(dim=0)) / vectors.std(dim=0)
    rng = torch.Generator().manual_seed(10)
    told = plain @ torch.randn(WIDTH, LABELS, generator=rng) / WIDTH**0.5
    told = told + 0.3 * torch.randn(rows, LABELS, generator=rng)
    return vectors, (told > torch.tensor([0.0, 0.4, 1.0])).float()


# Numbers


@pytest.mark.parametrize("recipe", slow.but_each(3, OF_NUMBERS))
@pytest.mark.parametrize(("centre", "spread"), [(0.0, 1.0), (1000.0, 50.0), (-0.003, 1e-3)])
def test_numbers_are_answered_in_their_own_units(
    small: Backbone, recipe: str, centre: float, spread: float
) -> None:
    vectors, targets = numbers_of(240, centre=centre, spread=spread)
    training_data = training_data_of(
        vectors, targets, ExperimentConfig(folds=4), problem=REGRESSION
    )
    (one,) = result([recipe], small, training_data).values()
    # Without a bias the numbers are not centred, so less of them is learned.
    biased, told = one.trial.biased, list[float]()
    for learned, rows in zip(one.learned, training_data.splits.test, strict=True):
        true, given = targets[rows], learned.logits[:, 0]
        told.append(spearmanr(given, true).statistic)
        assert told[-1] > 0.8 or not biased
        if biased:
            assert float((given - true).square().mean().sqrt()) < 0.75 * spread
        assert abs(float(given.mean() - true.mean())) < max(0.5 * spread, 0.1 * abs(centre))
    assert fmean(told) > 0.25
    assert one.outcome.thresholds is None
    assert one.outcome.held is None
    resolved = one.trial.resolved
    seeds = zip(one.chosen, one.learned, one.outcome.logits, one.outcome.rows, strict=True)
    for chosen, learned, logits, rows in seeds:
        assert torch.equal(learned.logits, logits)
        # The tensors that are kept give the numbers.
        given = {n: v for n, v in chosen.items() if n in resolved.head.options}
        chain = resolved.head.make(WIDTH, 1, **{**resolved.head_options, **given}).eval()
        chain.load_state_dict(learned.state)
        with torch.no_grad():
            near = 2e-3 * max(spread, abs(centre))
            assert_close(chain(vectors[rows]), logits, rtol=1e-3, atol=near)


# Any number of labels


def searched_by(
    training_data: TrainingData, recipe: str, backbone: Backbone
) -> tuple[Trial, TrainingTask, list[SearchResult]]:
    (trial,) = cells([recipe], backbone, training_data)
    task = training_data.training_task(trial.reading, threading.Event())
    task, seeds = prepare_task(trial, task, training_data), seeds_of(training_data)
    return trial, task, ended(trial.fitter.search(task, training_data.splits, seeds))


@pytest.fixture
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    """A few steps, for what does not depend on how much is learned."""
    monkeypatch.setattr(successive_halving, "CAP", 24)


@pytest.mark.usefixtures("quick")
@pytest.mark.parametrize("recipe", OF_MANY)
@pytest.mark.parametrize(
    "parts", [(), ("train",) * 120 + ("validation",) * 40 + ("test",) * 40], ids=["folds", "given"]
)
def test_thresholds_come_from_what_a_search_answered_on_development_rows(
    small: Backbone, recipe: str, parts: Sequence[str]
) -> None:
    vectors, targets = labels_of(200)
    training_data = training_data_of(
        vectors, targets, ExperimentConfig(seeds=2, folds=2), parts=parts, problem=MULTI_LABEL
    )
    splits = training_data.splits
    trial, own_task, found = searched_by(training_data, recipe, small)
    searched = SearchFinished(name=recipe, found=tuple(found), tried=(), seconds=0.0)
    task = training_data.training_task(trial.reading, threading.Event())
    done = fit_job(trial, training_data, searched).work(task, lambda event: None)
    assert isinstance(done, TrialResult)
    outcome = done.outcome
    # The heads that are scored learn from all of their rows.
    seeds = seeds_of(training_data)
    whole = trial.fitter.learn(own_task, found, splits.train, splits.test, seeds)
    for one, own in zip(done.learned, whole, strict=True):
        assert torch.equal(one.logits, own.logits)
    # The development rows are answered by those that the search ended in.
    held = [one.held for one in found if one.held is not None]
    assert len(held) == 2
    assert outcome.held is not None
    logits, rows = outcome.held
    assert torch.equal(logits, torch.cat(held))
    assert torch.equal(rows, torch.cat(splits.development))
    # Every seed has thresholds of its own.
    assert outcome.thresholds is not None
    assert outcome.thresholds.shape == (2, LABELS)
    for own, answered, chosen in zip(outcome.thresholds, held, splits.development, strict=True):
        assert torch.equal(own, thresholds(answered, targets[chosen]))
    assert outcome.repetition == splits.repetition


@pytest.mark.parametrize("recipe", ["mean+linear", "mean+roberta"])
def test_the_search_goes_by_micro_f1_with_thresholds_of_its_own(
    small: Backbone, recipe: str
) -> None:
    vectors, targets = labels_of(200)
    training_data = training_data_of(vectors, targets, problem=MULTI_LABEL)
    *_, found = searched_by(training_data, recipe, small)
    for number, one in enumerate(found):
        rows = training_data.splits.development[number]
        assert one.held is not None
        given = one.held > thresholds(one.held, targets[rows])
        true = targets[rows].bool()
        wanted = 2 * (given & true).sum() / (given.sum() + true.sum())
        assert one.point.score == pytest.approx(float(wanted), abs=1e-5)


# From how many rows heads learn that a race or a curve compares


@pytest.mark.usefixtures("quick")
@pytest.mark.parametrize("problem", [SINGLE_LABEL, MULTI_LABEL, REGRESSION])
@pytest.mark.parametrize("recipe", ["mean+linear", "mean+ridge"])
def test_solved_heads_are_compared_once_they_know_all_rows_but_the_development_rows(
    small: Backbone, recipe: str, problem: ProblemType, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(splits, "MOST_SEARCH", 30)  # rows on which settings are tried
    vectors, targets = blobs(200) if problem is SINGLE_LABEL else labels_of(200)
    if problem is REGRESSION:
        vectors, targets = numbers_of(200, centre=5.0, spread=2.0)
    training_data = training_data_of(
        vectors, targets, ExperimentConfig(seeds=2, folds=2), problem=problem
    )
    trial, task, found = searched_by(training_data, recipe, small)
    assert max(map(len, training_data.splits.search)) < 40
    for number, one in enumerate(found):
        rows, asked = training_data.splits.fitted(number), training_data.splits.development[number]
        assert len(rows) > 60
        assert one.held is not None
        seeds = seeds_of(training_data)[number : number + 1]
        (own,) = trial.fitter.learn(task, [one], [rows], [asked], seeds)
        assert_close(one.held, own.logits, rtol=0, atol=2e-2)
        wanted = judge_settings(one.chosen, 0, one.held, task, asked)
        assert one.point.score == wanted.score
        assert one.point.parts is not None
        assert float(one.point.parts.mean()) == pytest.approx(wanted.score)


# One versus the rest


@pytest.mark.usefixtures("quick")
@pytest.mark.parametrize("top", ["linear", "logistic", "roberta"])
def test_the_vote_of_one_versus_the_rest_is_handed_on(small: Backbone, top: str) -> None:
    training_data = training_data_of(*blobs(160, apart=1.0, seed=4))
    softmax, rest = result([f"mean+{top}", f"mean+{top}?loss=ovr"], small, training_data).values()
    for one in (softmax, rest):
        assert accuracy(one, training_data) > 0.8
        assert one.outcome.held is not None
        assert torch.equal(one.outcome.held[1], torch.cat(training_data.splits.development))
    for learned, logits in zip(rest.learned, rest.outcome.logits, strict=True):
        assert torch.equal(logits, logsigmoid(learned.logits))
        shares = learned.logits.sigmoid() / learned.logits.sigmoid().sum(dim=1, keepdim=True)
        assert_close(logits.softmax(dim=1), shares)
        assert torch.equal(logits.argmax(dim=1), learned.logits.argmax(dim=1))
    for learned, logits in zip(softmax.learned, softmax.outcome.logits, strict=True):
        assert torch.equal(logits, learned.logits)


# Where a question of its own begins

STILL = {"standardise": False, "learning_rate": 1e-12, "weight_decay": 0.0, "epochs": 1.0}


@pytest.mark.usefixtures("quick")
@pytest.mark.parametrize(
    ("problem", "options"),
    [(MULTI_LABEL, ""), (SINGLE_LABEL, "?loss=ovr"), (SINGLE_LABEL, ""), (MULTI_LABEL, "balanced")],
)
def test_questions_of_their_own_begin_at_how_often_they_hold(
    small: Backbone, problem: ProblemType, options: str
) -> None:
    vectors, targets = labels_of(120) if problem is MULTI_LABEL else blobs(120)
    weighed = options == "balanced"
    training_data = training_data_of(
        vectors, targets, ExperimentConfig(folds=2, class_weights=weighed), problem=problem
    )
    trial, task, found = searched_by(
        training_data, f"mean+roberta{'' if weighed else options}", small
    )
    rows = training_data.splits.train[0]
    begin = SearchResult(chosen=STILL, point=found[0].point)
    (learned,) = learn(trial, task, [begin], [rows], [rows], [0])
    bias = learned.state["out_proj.bias"]
    goals = targets if problem is MULTI_LABEL else one_hot(targets, 3).float()
    rates = (goals[rows].sum(dim=0) + 0.5) / (len(rows) + 1)
    begins = torch.allclose(bias.sigmoid(), rates, atol=1e-6)
    assert begins == (not weighed and (problem is MULTI_LABEL or bool(options)))


def test_a_whole_recipe_begins_there_too_by_the_last_layer_of_its_head(small: Backbone) -> None:
    vectors, targets = labels_of(120)
    training_data = training_data_of(vectors, targets, problem=MULTI_LABEL)
    _, task, _ = searched_by(training_data, "mean+linear", small)
    whole = RecipeModule(resolve("attention+mlp"), small, LABELS)
    before = {name: tensor.clone() for name, tensor in whole.state_dict().items()}
    adamw.at_base_rates(whole.head, task, torch.arange(120))
    changed = [n for n, t in whole.state_dict().items() if not torch.equal(t, before[n])]
    assert changed == [f"head.{last_linear(whole.head)}.bias"]
    no_bias = RecipeModule(resolve("attention+gpt2"), small, LABELS)
    adamw.at_base_rates(no_bias.head, task, torch.arange(120))  # nothing to set


# Settings of the contest


@pytest.mark.parametrize(
    ("problem", "recipe"), [(MULTI_LABEL, "mean+linear"), (SINGLE_LABEL, "mean+linear?loss=ovr")]
)
def test_weights_of_classes_balance_every_question_by_itself(
    small: Backbone, problem: ProblemType, recipe: str
) -> None:
    vectors, targets = labels_of(120) if problem is MULTI_LABEL else blobs(120)
    training_data = training_data_of(
        vectors, targets, ExperimentConfig(folds=2, class_weights=True), problem=problem
    )
    _, task, _ = searched_by(training_data, recipe, small)
    assert torch.equal(task.weights, torch.ones(120))
    assert task.objective.balance is not None
    wanted = balance_of(targets[training_data.splits.learned], LABELS)
    assert torch.equal(task.objective.balance, wanted)


def test_weights_of_classes_weigh_rows_where_classes_compete(small: Backbone) -> None:
    vectors, targets = blobs(240)
    kept = (targets != 0) | (torch.arange(240) % 3 == 0)  # a rare class
    vectors, targets = vectors[kept], targets[kept]
    training_data = training_data_of(
        vectors, targets, ExperimentConfig(folds=2, class_weights=True)
    )
    _, task, _ = searched_by(training_data, "mean+linear", small)
    assert task.objective.balance is None
    weights = task.weights
    assert (weights[targets == 0] > 1.5 * weights[targets == 1].max()).all()


def test_a_class_of_one_group_has_its_weight_in_every_fold() -> None:
    vectors, targets = blobs(240, classes=3)
    training_data = training_data_of(
        vectors, targets, ExperimentConfig(folds=2, class_weights=True)
    )
    for fold in (0, 1):  # all rows of the class c are scored in this fold, none is learned from
        own = targets == 2
        train = tuple(
            rows[~own[rows]] if number == fold else rows
            for number, rows in enumerate(training_data.splits.train)
        )
        task = replace(
            training_data, splits=replace(training_data.splits, train=train)
        ).training_task("mean", threading.Event())
        assert 0.5 < float(task.weights[own].mean()) < 2
        assert 0.5 < float(task.weights[~own].mean()) < 2


@pytest.mark.usefixtures("quick")
@pytest.mark.parametrize("problem", [SINGLE_LABEL, MULTI_LABEL])
@pytest.mark.parametrize(
    "settings",
    slow.but_each(3, [{"smoothing": 0.1}, {"focal": 2.0}, {"focal": 1.0, "smoothing": 0.05}]),
    ids=str,
)
def test_every_head_learns_under_focal_loss_and_smoothing(
    small: Backbone, problem: ProblemType, settings: dict[str, float]
) -> None:
    vectors, targets = labels_of(160) if problem is MULTI_LABEL else blobs(160, apart=2.0)
    training_data = training_data_of(
        vectors, targets, replace(ExperimentConfig(folds=2), **settings), problem=problem
    )
    plain = training_data_of(vectors, targets, problem=problem)
    recipes = OF_MANY if problem is MULTI_LABEL else (*OF_MANY, "mean+knn", "mean+cosine")
    found, without_any = (result(recipes, small, own) for own in (training_data, plain))
    for name, one in found.items():
        assert one.outcome.logits[0].isfinite().all(), name
        if problem is SINGLE_LABEL:
            assert accuracy(one, training_data) > 0.8, name
    # It moves what is learned by its loss; heads with a solver of their own have none.
    for name in ("mean+linear", "mean+roberta"):
        assert not torch.equal(found[name].outcome.logits[0], without_any[name].outcome.logits[0])
    solved = [one["mean+centroid"].outcome.logits[0] for one in (found, without_any)]
    torch.testing.assert_close(*solved, rtol=0, atol=0)
