"""The baselines say what they claim to, for every kind of label."""

import contextlib
import math
import random
import threading
from collections.abc import Callable

import pytest
import torch
from scipy.stats import spearmanr
from sklearn import metrics
from sklearn.linear_model import LogisticRegression
from threadpoolctl import threadpool_info, threadpool_limits
from torch import Tensor

from heads.data.corpus import Corpus, build, numbered
from heads.evaluation import baselines
from heads.evaluation.baselines import majority, tfidf, tfidf_held, tfidf_strength
from heads.evaluation.calibration import thresholds

SENTENCES = {"food": "the soup was hot", "sport": "she won the race", "money": "pay the bill now"}


@pytest.fixture(scope="module")
def spoken() -> Corpus:
    """Ninety texts, of which forty are food."""
    labels = ["food"] * 40 + ["sport"] * 30 + ["money"] * 20
    return build("made up", [f"{SENTENCES[label]} {n}" for n, label in enumerate(labels)], labels)


def test_the_majority_is_that_of_the_training_rows(spoken):
    logits = majority(spoken, [0, 41, 42], range(90)).logits
    assert {spoken.classes[number] for number in logits.argmax(dim=1).tolist()} == {"sport"}
    assert logits.exp().sum(dim=1).tolist() == pytest.approx([1.0] * 90)


def test_counted_words_learn_what_is_there(spoken):
    train, test = range(0, 90, 2), range(1, 90, 2)
    strength = tfidf_strength(spoken, train, test)
    logits = tfidf(spoken, train, test, C=strength)
    answers = [(number,) for number in logits.argmax(dim=1).tolist()]
    assert answers == [spoken.targets[row] for row in test]
    assert torch.equal(logits, tfidf(spoken, train, test, C=strength))


def test_strengths_beyond_the_first_are_tried_while_they_are_better():
    tried = list[float]()

    def scored(best: float) -> Callable[[float], float]:
        def score(C: float) -> float:
            tried.append(C)
            return -abs(math.log(C / best))

        return score

    for best, count in ((0.001, 6), (0.1, 5), (10.0, 3), (100.0, 5), (1000.0, 6), (1e-9, 6)):
        tried.clear()
        assert baselines.grown((1.0, 10.0, 30.0), scored(best)) == max(best, 0.001)
        assert len(tried) == len(set(tried)) == count
    assert (
        baselines.grown((1.0, 10.0, 30.0), lambda C: 0.5) == 1.0
    )  # what is no better is no reason


def test_labels_that_hardly_hang_on_words_get_a_weak_fit():
    rng = random.Random(0)
    words = [f"word{n}" for n in range(60)]
    texts = [" ".join(rng.sample(words, 8)) for _ in range(300)]
    labels = ["yes" if rng.random() < 0.6 + 0.15 * ("word1 " in t) else "no" for t in texts]
    corpus = build("noisy", texts, labels)
    assert tfidf_strength(corpus, range(200), range(200, 300)) < 1.0


@pytest.mark.parametrize("small", [0, baselines.SMALL])
def test_counted_words_learn_many_classes(monkeypatch, small):
    monkeypatch.setattr(baselines, "SMALL", small)
    filler = " ".join(f"word{n}" for n in range(150))
    rows = [f"{filler} {n % 7} and key{n % 700} of {n % 11}" for n in range(3 * 700)]
    corpus = build("many", rows, [f"c{n % 700}" for n in range(len(rows))])
    test = range(2 * 700, 3 * 700)
    answers = tfidf(corpus, range(2 * 700), test, C=10.0).argmax(dim=1).tolist()
    right = sum((answer,) == corpus.targets[row] for answer, row in zip(answers, test, strict=True))
    assert right > 0.9 * len(test)


@pytest.mark.parametrize("small", [0, baselines.SMALL])
def test_counted_words_learn_a_rare_class(monkeypatch, small):
    monkeypatch.setattr(baselines, "SMALL", small)
    is_rare = [n % 300 == 0 for n in range(6000)]
    filler = " ".join(f"word{n}" for n in range(30))
    rows = [f"{filler} {'odd' if rare else 'even'} {n % 7}" for n, rare in enumerate(is_rare)]
    corpus = build("rare", rows, ["rare" if rare else "usual" for rare in is_rare])
    answers = tfidf(corpus, range(3000), range(3000, 6000), C=30.0).argmax(dim=1)
    found = answers == corpus.classes.index("rare")
    assert found.tolist() == is_rare[3000:]


def threads() -> set[int]:
    """How many NumPy's and SciPy's products take now."""
    return {one["num_threads"] for one in threadpool_info() if one["user_api"] == "blas"}


def test_counted_words_leave_the_other_cores_to_the_heads(spoken, monkeypatch):
    fit, seen = LogisticRegression.fit, list[int]()

    def watched(*given):
        seen.extend(threads())
        return fit(*given)

    monkeypatch.setattr(LogisticRegression, "fit", watched)
    with threadpool_limits(limits=2, user_api="blas"):
        before = threads()
        assert before == {2}  # else nothing is tried
        tfidf(spoken, range(0, 90, 2), range(1, 90, 2), C=1.0)
        assert threads() == before
    assert set(seen) == {1}


def test_two_fits_at_once_leave_the_cores_as_they_were(spoken, monkeypatch):
    fit, together = LogisticRegression.fit, threading.Barrier(2)

    def slow(*given):
        with contextlib.suppress(threading.BrokenBarrierError):
            together.wait(0.3)  # both are in at once where nothing keeps them apart
        return fit(*given)

    monkeypatch.setattr(LogisticRegression, "fit", slow)
    with threadpool_limits(limits=2, user_api="blas"):
        both = [
            threading.Thread(
                target=tfidf, args=(spoken, range(0, 90, 2), range(9)), kwargs={"C": 1}
            )
            for _ in range(2)
        ]
        for one in both:
            one.start()
        for one in both:
            one.join()
        assert threads() == {2}
        assert together.broken  # the one waited outside


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
    assert torch.equal(only, majority(spoken, range(40), range(90)).logits)


def test_unspaced_letters_signs_and_pairs_are_counted_too():
    texts = ["我想取消航班因为天气不好而且我很累", "请问附近哪里有好吃的餐厅可以推荐"] * 20
    corpus = build("unspaced", texts, ["x", "y"] * 20)
    assert tfidf(corpus, range(20), range(20, 40), C=10.0).argmax(dim=1).tolist() == [0, 1] * 10
    signs = build("signs", [":)", ":("] * 20, ["x", "y"] * 20)
    assert tfidf(signs, range(20), range(20, 40), C=10.0).argmax(dim=1).tolist() == [0, 1] * 10
    pairs = build("pairs", ["same"] * 40, ["x", "y"] * 20, ["dog", "cat"] * 20)
    assert tfidf(pairs, range(20), range(20, 40), C=10.0).argmax(dim=1).tolist() == [0, 1] * 10


# Several labels a row

EVERY = {"food": 2, "sport": 3, "money": 20}
WORDS = {"food": "soup", "sport": "race", "money": "bill"}


@pytest.fixture(scope="module")
def labelled() -> Corpus:
    """Rows with any of three labels, a word for each; money is rare, and some rows have none."""
    sets = [[name for name, every in EVERY.items() if n % every == 0] for n in range(120)]
    words = [" ".join(WORDS[one] for one in names) for names in sets]
    texts = [f"so {said} n{n}" for n, said in enumerate(words)]
    return build("made up", texts, [tuple(names) for names in sets])


def targets_of(corpus: Corpus, rows: range) -> Tensor:
    targets = torch.zeros(len(rows), len(corpus.classes))
    for place, row in enumerate(rows):
        targets[place, list(corpus.targets[row])] = 1
    return targets


def test_the_commonest_labels_are_those_of_the_best_micro_f1(labelled):
    found = majority(labelled, range(120), range(7))
    assert labelled.classes == ("food", "money", "sport")
    shares = found.logits.sigmoid()
    assert shares.shape == (7, 3)
    assert shares[0].tolist() == pytest.approx([61 / 122, 7 / 122, 41 / 122])
    given = found.logits > found.thresholds
    assert given[0].tolist() == [True, False, True]
    targets, reached = targets_of(labelled, range(120)), {}
    for number in range(1, 8):
        which = torch.tensor([number >> place & 1 for place in range(3)]).expand(120, 3)
        reached[tuple(which[0].tolist())] = metrics.f1_score(targets, which, average="micro")
    assert max(reached, key=reached.__getitem__) == (1, 0, 1)


def test_counted_words_find_each_label(labelled):
    train, development, test = range(60), range(60, 90), range(90, 120)
    strength = tfidf_strength(labelled, train, development)
    held = tfidf_held(labelled, train, development, C=strength)
    assert torch.equal(held.logits, tfidf(labelled, train, development, C=strength))
    goal = targets_of(labelled, development)
    assert torch.equal(held.thresholds, thresholds(held.logits, goal))
    given = tfidf(labelled, train, test, C=strength) > held.thresholds
    assert metrics.f1_score(targets_of(labelled, test), given, average="micro") > 0.9


def test_a_label_without_training_rows_is_unlikely_but_possible(labelled):
    train = [row for row in range(60) if row % 20]
    logits = tfidf(labelled, train, range(60, 120), C=10.0)
    money = labelled.classes.index("money")
    assert logits[:, money].sigmoid().tolist() == pytest.approx([1 / (len(train) + 2)] * 60)
    always = tfidf(labelled, range(0, 60, 2), range(60, 120), C=10.0)  # food in every row
    assert always[:, labelled.classes.index("food")].sigmoid().min() > 0.9


def test_rare_labels_count_more_where_the_heads_count_them_so(labelled):
    plain, weighted = (
        tfidf(labelled, range(60), range(60, 120), C=1.0, balanced=balanced)[:, 1].mean()
        for balanced in (False, True)
    )
    assert weighted > plain + 1


# Numbers


@pytest.fixture(scope="module")
def rated() -> Corpus:
    """Texts whose number is how often they say good."""
    texts = [" ".join(["good"] * (n % 5) + ["plot"] * (5 - n % 5) + [f"n{n}"]) for n in range(100)]
    return numbered("made up", texts, [float(n % 5) for n in range(100)])


def test_the_commonest_number_is_the_mean_of_the_training_rows(rated):
    found = majority(rated, [1, 2, 4], range(5))
    assert found.logits.tolist() == [[pytest.approx(7 / 3)]] * 5
    assert found.thresholds is None


def test_counted_words_learn_a_number(rated):
    train, development, test = range(50), range(50, 70), range(70, 100)
    strength = tfidf_strength(rated, train, development)
    said = tfidf(rated, train, test, C=strength)
    assert said.shape == (30, 1)
    wanted = torch.tensor([rated.numbers[row] for row in test])
    assert metrics.r2_score(wanted, said[:, 0]) > 0.6
    assert spearmanr(wanted, said[:, 0]).statistic > 0.99
    assert tfidf_held(rated, train, development, C=strength).thresholds is None
