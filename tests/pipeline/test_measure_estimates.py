"""The instant estimates are what their papers define, and the baselines what they say."""

import math

import pytest
import torch
from sklearn.covariance import LedoitWolf
from sklearn.neighbors import KNeighborsClassifier
from torch import Tensor

from heads.pipeline.corpus import Corpus, build
from heads.pipeline.measure.baselines import majority, tfidf, tfidf_strength
from heads.pipeline.measure.estimates import (
    Estimate,
    agreement,
    estimate,
    h_score,
    kendall,
    log_me,
    neighbours,
)


def blobs(rows: int, width: int, classes: int, apart: float) -> tuple[Tensor, Tensor]:
    dice = torch.Generator().manual_seed(0)
    targets = torch.arange(rows) % classes
    centres = apart * torch.randn(classes, width, generator=dice)
    return centres[targets] + torch.randn(rows, width, generator=dice), targets


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


def test_neighbours_are_those_of_scikit_learn_without_the_row_itself():
    features, targets = blobs(90, 6, 3, 0.6)
    right = 0
    for row in range(90):
        others = torch.arange(90) != row
        model = KNeighborsClassifier(1, metric="cosine")
        model.fit(features[others].numpy(), targets[others].numpy())
        right += int(model.predict(features[[row]].numpy())[0] == int(targets[row]))
    assert neighbours(features, targets, k=1) == pytest.approx(right / 90)


def test_every_estimate_prefers_features_that_tell_the_classes_apart():
    good, poor = (
        estimate(name, *blobs(300, 8, 3, apart)) for name, apart in (("good", 2.0), ("poor", 0.2))
    )
    assert good.log_me > poor.log_me
    assert good.h_score > poor.h_score
    assert good.neighbours > poor.neighbours


def test_features_without_any_variance_are_no_error():
    flat = estimate("flat", torch.zeros(30, 4), torch.arange(30) % 2)
    assert flat.h_score == 0.0
    assert math.isfinite(flat.log_me)


def test_agreement_says_whether_the_first_choice_was_as_good_as_the_best():
    def made(name: str, *values: float) -> Estimate:
        return Estimate(name=name, log_me=values[0], h_score=values[1], neighbours=values[2])

    estimates = [made("a", 3, 1, 1), made("b", 2, 2, 3), made("c", 1, 3, 2)]
    accuracies = {"a": 0.9, "b": 0.89, "c": 0.8}
    log, h, near = agreement(estimates, accuracies, worse={"c"})
    assert (log.tau, log.says) == (1.0, "LogME chose `a`, which is also the best after training.")
    assert h.tau == -1.0
    assert h.says == "H-score chose `c`, which is 10.0 points worse than `a`."
    assert near.says == (
        "10 nearest rows chose `b`, which is not distinguishable from the best, `a`."
    )
    assert kendall([1, 1, 2], [1, 2, 3]) == pytest.approx(2 / 6**0.5)


# Baselines

SENTENCES = {"food": "the soup was hot", "sport": "she won the race", "money": "pay the bill now"}


@pytest.fixture(scope="module")
def spoken() -> Corpus:
    """Ninety texts, of which forty are food."""
    labels = ["food"] * 40 + ["sport"] * 30 + ["money"] * 20
    return build("made up", [f"{SENTENCES[label]} {n}" for n, label in enumerate(labels)], labels)


def test_the_majority_is_that_of_the_training_rows(spoken):
    logits = majority(spoken, [0, 41, 42], range(90))
    assert {spoken.classes[number] for number in logits.argmax(dim=1).tolist()} == {"sport"}
    assert logits.exp().sum(dim=1).tolist() == pytest.approx([1.0] * 90)


def test_counted_words_learn_what_is_there(spoken):
    train, test = range(0, 90, 2), range(1, 90, 2)
    strength = tfidf_strength(spoken, train, test)
    logits = tfidf(spoken, train, test, C=strength)
    answers = [(number,) for number in logits.argmax(dim=1).tolist()]
    assert answers == [spoken.targets[row] for row in test]
    assert torch.equal(logits, tfidf(spoken, train, test, C=strength))


def test_rows_of_a_rare_class_count_more_where_the_heads_count_them_so():
    texts = ["red or blue"] * 30 + ["red or green"] * 6
    corpus = build(
        "unequal", [f"{one} {n % 3}" for n, one in enumerate(texts)], ["x"] * 30 + ["y"] * 6
    )
    rare = corpus.classes.index("y")
    plain, weighted = (
        tfidf(corpus, range(36), range(30, 36), C=0.01, balanced=balanced).softmax(dim=1)[:, rare]
        for balanced in (False, True)
    )
    assert plain.max() < 0.3
    assert weighted.min() > 0.5


def test_a_class_without_training_rows_is_unlikely_but_possible(spoken):
    logits = tfidf(spoken, range(70), range(70, 90), C=10.0)  # two classes: one sigmoid
    money = spoken.classes.index("money")
    assert logits.isfinite().all()
    assert (logits[:, money] < logits.amax(dim=1)).all()
    only = tfidf(spoken, range(40), range(90), C=10.0)
    assert torch.equal(only, majority(spoken, range(40), range(90)))


def test_unspaced_letters_signs_and_pairs_are_counted_too():
    texts = ["我想取消航班因为天气不好而且我很累", "请问附近哪里有好吃的餐厅可以推荐"] * 20
    corpus = build("unspaced", texts, ["x", "y"] * 20)
    assert tfidf(corpus, range(20), range(20, 40), C=10.0).argmax(dim=1).tolist() == [0, 1] * 10
    signs = build("signs", [":)", ":("] * 20, ["x", "y"] * 20)
    assert tfidf(signs, range(20), range(20, 40), C=10.0).argmax(dim=1).tolist() == [0, 1] * 10
    pairs = build("pairs", ["same"] * 40, ["x", "y"] * 20, ["dog", "cat"] * 20)
    assert tfidf(pairs, range(20), range(20, 40), C=10.0).argmax(dim=1).tolist() == [0, 1] * 10
