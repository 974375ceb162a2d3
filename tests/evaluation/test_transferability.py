"""The instant estimates are what their papers define, for every kind of label."""

import math

import pytest
import torch
from scipy.stats import spearmanr
from sklearn.covariance import LedoitWolf
from sklearn.metrics import f1_score
from sklearn.neighbors import KNeighborsClassifier, KNeighborsRegressor
from torch import Tensor

from heads.evaluation.transferability import (
    Estimate,
    agreement,
    estimate,
    h_score,
    knn_accuracy,
    log_me,
)
from heads.problem import MULTI_LABEL, REGRESSION, SINGLE_LABEL, ProblemType


def blobs(rows: int, width: int, classes: int, apart: float) -> tuple[Tensor, Tensor]:
    rng = torch.Generator().manual_seed(0)
    targets = torch.arange(rows) % classes
    centres = apart * torch.randn(classes, width, generator=rng)
    return centres[targets] + torch.randn(rows, width, generator=rng), targets


def evidence(features: Tensor, goal: Tensor, alpha: float, beta: float) -> float:
    """The log density of the goal under its marginal distribution: N(0, F Fᵀ / α + I / β)."""
    covariance = features @ features.T / alpha + torch.eye(len(goal)).double() / beta
    zero = torch.zeros(len(goal)).double()
    return float(torch.distributions.MultivariateNormal(zero, covariance).log_prob(goal))


@pytest.mark.parametrize(("rows", "width"), [(40, 5), (30, 12), (12, 30)])
def test_log_me_is_the_largest_evidence(rows, width):
    features, targets = blobs(rows, width, 3, 1.0)
    largest = []
    for number in range(3):
        goal = (targets == number).double()
        step, at, best = 1.0, (0.0, 0.0), -math.inf
        while step > 1e-2:  # climb in log α and log β
            moves = [(at[0] + a * step, at[1] + b * step) for a in (-1, 0, 1) for b in (-1, 0, 1)]
            found = [evidence(features.double(), goal, math.exp(a), math.exp(b)) for a, b in moves]
            step = step if max(found) > best else step / 2
            best, at = max(found), moves[found.index(max(found))]
        largest.append(best / rows)
    assert log_me(features, targets) == pytest.approx(sum(largest) / 3, abs=1e-3)


def test_h_score_is_its_definition_on_the_shrunk_covariance():
    features, targets = blobs(80, 10, 4, 1.0)
    fitted = LedoitWolf().fit(features.double().numpy())
    centred = features.double() - features.double().mean(dim=0)
    means = torch.stack([centred[targets == targets[row]].mean(dim=0) for row in range(80)])
    between = means.T @ means / 80
    shrunk = torch.from_numpy(fitted.covariance_)
    wanted = (1 - fitted.shrinkage_) * float((torch.linalg.inv(shrunk) @ between).trace())
    assert h_score(features, targets) == pytest.approx(wanted, rel=1e-6)


def test_rows_of_a_group_are_no_neighbours_of_each_other():
    features, targets = blobs(60, 6, 3, 0.4)
    twice, both = features.repeat(2, 1), targets.repeat(2)
    groups = torch.arange(60).repeat(2)
    assert knn_accuracy(twice, both, k=1) == 1.0  # each row's own copy knows its answer
    alone = knn_accuracy(features, targets, k=1)
    assert knn_accuracy(twice, both, k=1, groups=groups) == pytest.approx(alone)
    labels = torch.stack([both == 0, both != 1], dim=1).float()
    number = twice[:, 0] ** 3
    for goal, problem in ((labels, MULTI_LABEL), (number, REGRESSION)):
        wanted = knn_accuracy(twice[:60], goal[:60], k=1, problem=problem)
        own = knn_accuracy(twice, goal, k=1, problem=problem, groups=groups)
        assert own == pytest.approx(wanted, abs=0.01)
    for k, kept in ((5, groups), (200, torch.zeros(120))):  # fewer than k, and none at all
        found = knn_accuracy(twice, both, k=k, groups=kept)
        assert 0 <= found < 1


def test_log_me_of_labels_is_the_mean_of_each_label_alone_and_of_numbers_that_of_the_number():
    features, _ = blobs(60, 5, 3, 1.0)
    rng = torch.Generator().manual_seed(1)
    labels = (features[:, :3] + torch.randn(60, 3, generator=rng) > 0.3).float()
    each = []
    for label in labels.T:
        both = log_me(features, label.long())  # the mean of a class and of its complement
        one = log_me(features, torch.stack([label, 1 - label], dim=1), problem=MULTI_LABEL)
        assert one == pytest.approx(both)
        each.append(log_me(features, label[:, None], problem=MULTI_LABEL))
    assert log_me(features, labels, problem=MULTI_LABEL) == pytest.approx(sum(each) / 3)
    assert log_me(features, labels.repeat(1, 2), problem=MULTI_LABEL) == pytest.approx(
        sum(each) / 3
    )
    nowhere = torch.cat([labels, torch.zeros(60, 1), torch.ones(60, 1)], dim=1)
    assert log_me(features, nowhere, problem=MULTI_LABEL) == pytest.approx(sum(each) / 3)
    number = features[:, 0] + 0.1 * torch.randn(60, generator=rng)
    units = log_me(features, 100 * number + 7, problem=REGRESSION)
    assert units == pytest.approx(log_me(features, number, problem=REGRESSION), abs=1e-6)
    goal = (number - number.mean()).double() / number.double().std(correction=0)
    found = max(
        evidence(features.double(), goal, math.exp(a / 4), math.exp(b / 4))
        for a in range(-12, 13) for b in range(0, 33)
    )  # fmt: skip
    assert units == pytest.approx(found / 60, abs=0.02)


def test_h_score_of_labels_is_the_mean_of_each_label_and_of_numbers_the_variance_explained():
    features, targets = blobs(80, 10, 4, 1.0)
    labels = torch.stack([targets == 0, targets < 2], dim=1)
    wanted = sum(h_score(features, label.long()) for label in labels.T) / 2
    assert h_score(features, labels.float(), problem=MULTI_LABEL) == pytest.approx(wanted)
    two = (targets < 2).float()
    assert h_score(features, two, problem=REGRESSION) == pytest.approx(
        h_score(features, two.long())
    )
    rng = torch.Generator().manual_seed(2)
    scales = torch.tensor([1.0, 4.0, 16.0])  # far from round: hardly anything is shrunk
    features = scales * torch.randn(4000, 3, generator=rng)
    number = (features / scales).sum(dim=1) + torch.randn(4000, generator=rng)
    assert h_score(features, number, problem=REGRESSION) == pytest.approx(0.75, abs=0.03)


def test_neighbours_are_those_of_scikit_learn_without_the_row_itself():
    features, targets = blobs(90, 6, 3, 0.6)
    labels = torch.stack([targets == 0, targets != 1, targets == 2], dim=1).float()
    number = targets + torch.linspace(0, 1, 90)
    both, nearest, given, means = torch.cat([labels, number[:, None]], dim=1), [], [], []
    for row in range(90):
        own, others = features[[row]].numpy(), torch.arange(90) != row
        fit = features[others].numpy(), targets[others].numpy()
        nearest.append(KNeighborsClassifier(1, metric="cosine").fit(*fit).predict(own)[0])
        votes = KNeighborsRegressor(5, metric="cosine").fit(fit[0], both[others].numpy())
        *said, mean = votes.predict(own)[0]
        given.append([share > 0.5 for share in said])
        means.append(float(mean))
    right = float((torch.tensor(nearest) == targets).double().mean())
    assert knn_accuracy(features, targets, k=1) == pytest.approx(right)
    wanted = f1_score(labels, given, average="micro")
    assert knn_accuracy(features, labels, k=5, problem=MULTI_LABEL) == pytest.approx(wanted)
    wanted = spearmanr(number, means).statistic
    found = knn_accuracy(features, number, k=5, problem=REGRESSION)
    assert found == pytest.approx(wanted, abs=1e-3)


def goals(targets: Tensor, problem: ProblemType) -> Tensor:
    """The classes as labels or numbers."""
    if problem is MULTI_LABEL:
        return torch.stack([targets == 0, targets > 0], dim=1).float()
    return targets.float() if problem is REGRESSION else targets


@pytest.mark.parametrize("problem", [SINGLE_LABEL, MULTI_LABEL, REGRESSION])
def test_features_or_labels_without_any_variance_are_no_error(problem):
    classes, one = torch.arange(30) % 2, torch.zeros(30).long()
    flat = estimate("flat", torch.zeros(30, 4), goals(classes, problem), problem=problem)
    assert flat.h_score == 0.0
    assert math.isfinite(flat.log_me)
    if problem is not SINGLE_LABEL:
        same = estimate("same", torch.eye(30)[:, :4], goals(one, problem), problem=problem)
        assert (same.log_me, same.h_score) == (0.0, 0.0)


@pytest.mark.parametrize("problem", [SINGLE_LABEL, MULTI_LABEL, REGRESSION])
def test_every_estimate_prefers_features_that_tell_rows_apart(problem):
    good, poor = (
        estimate(name, features, goals(targets, problem), problem=problem)
        for name, (features, targets) in (
            ("good", blobs(300, 8, 3, 2.0)), ("poor", blobs(300, 8, 3, 0.2)),
        )
    )  # fmt: skip
    assert good.log_me > poor.log_me
    assert good.h_score > poor.h_score
    assert good.neighbours > poor.neighbours


def test_agreement_says_whether_the_first_choice_was_as_good_as_the_best():
    def made(name: str, *values: float) -> Estimate:
        return Estimate(name=name, log_me=values[0], h_score=values[1], neighbours=values[2])

    estimates = [made("a", 3, 1, 1), made("b", 2, 2, 3), made("c", 1, 3, 2)]
    scores = {"a": 0.9, "b": 0.89, "c": 0.8}
    log, h, near = agreement(estimates, scores, worse={"c"})
    assert (log.tau, log.says) == (1.0, "LogME chose `a`, which is also the best after training.")
    assert h.tau == -1.0
    assert h.says == "H-score chose `c`, which is 10.0 points worse than `a`."
    assert near.says == (
        "10 nearest rows chose `b`, which is not distinguishable from the best, `a`."
    )
    level = [made("a", 1, 1, 1), made("b", 1, 1, 2), made("c", 1, 2, 3)]
    equal, tied, near = agreement(level, {"a": 0.1, "b": 0.2, "c": 0.3})
    assert (equal.tau, near.tau) == (None, 1.0)
    assert tied.tau == pytest.approx(2 / 6**0.5)
