"""The two baselines of every leaderboard: the commonest answer, and counted words.

Legend: n rows asked about, c classes.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from math import log
from operator import methodcaller
from threading import Lock
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from heads.data.corpus import Corpus
from heads.evaluation.calibration import common_threshold, thresholds
from heads.evaluation.metrics import MetricName
from heads.evaluation.predictions import TFIDF, CellPredictions, EvaluationTask, parts
from heads.problem import MULTI_LABEL, REGRESSION, SINGLE_LABEL, ProblemType

if TYPE_CHECKING:
    from sklearn.pipeline import Pipeline

FEATURES = 10_000
# What C is tried at first, and what beyond while the best is at an end; noisy labels want a small
# one, as tweets on a stance do.
STRENGTHS: Mapping[ProblemType, tuple[float, ...]] = {
    SINGLE_LABEL: (1.0, 10.0, 30.0),
    MULTI_LABEL: (1.0, 10.0, 30.0),
    REGRESSION: (0.1, 1.0, 10.0),
}
BEYOND = (0.001, 0.01, 0.1, 1.0, 10.0, 30.0, 100.0, 300.0, 1000.0)
ROWS_TO_CHOOSE_ON = 2_000
FEATURES_TO_CHOOSE_ON = 5_000
SMALL = 20_000  # rows, up to about which Newton's method is faster than L-BFGS (77 classes)
WORDS = r"\w+|[^\w\s]"  # signs and emoji are words as well: no text is without one
LETTERS_A_SPACE = 20  # more than this, and the language does not put spaces between words
_ALONE = Lock()  # two limits at once would leave NumPy on one core for good


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class BaselinePredictions:
    """What a baseline says of n rows.

    Attributes:
        logits: (n, c), or (n, 1) where a number is predicted.
        thresholds: (c,), the logits above which a label is given; None but for many labels.
    """

    logits: Tensor
    thresholds: Tensor | None = None


def majority(
    corpus: Corpus, train_rows: Sequence[int], test_rows: Sequence[int]
) -> BaselinePredictions:
    """Always the same answer: the commonest class, the commonest labels, or the mean.

    Its logits are log-probabilities: every class's share, as if each had one row more. Of
    several labels they are the log-odds of each label's share, and those labels are given
    that together make the best micro-F1 on the training rows.
    """
    from sklearn.dummy import DummyClassifier, DummyRegressor

    targets = _targets(corpus, train_rows)
    if not corpus.problem.has_classes:
        means = DummyRegressor().fit(targets, targets).predict(test_rows)
        return BaselinePredictions(logits=torch.from_numpy(means).float()[:, None])
    if not corpus.problem.is_exclusive:
        odds = _odds(targets)
        bar = torch.full_like(odds, common_threshold(odds.expand_as(targets), targets))
        logits = odds.float().repeat(len(test_rows), 1)
        return BaselinePredictions(logits=logits, thresholds=bar)
    counted = torch.cat([targets, torch.arange(len(corpus.classes))])  # a row more of every class
    model = DummyClassifier(strategy="prior").fit(counted, counted)
    return BaselinePredictions(logits=torch.from_numpy(model.predict_log_proba(test_rows)).float())


def tfidf(
    corpus: Corpus,
    train_rows: Sequence[int],
    test_rows: Sequence[int],
    *,
    C: float,
    features: int = FEATURES,
    balanced: bool = False,
) -> Tensor:
    """Logistic or ridge regression on TF-IDF of words and word pairs of the training rows.

    Several labels a row are learned one by one, each against the rest. The two texts of a pair
    are joined. Where words are not spaced, letters are counted. On the same rows it always
    gives the same numbers.

    Args:
        C: The strength of the fit, as `tfidf_strength` finds it.
        features: How many of the commonest words and word pairs are counted.
        balanced: Whether rows of rare classes count more, as the heads' own do then.

    Returns:
        (n, c): log-probabilities, of one class a row, and one row's share for a class that has
        no training row; log-odds, of several labels; (n, 1) numbers.
    """
    targets = _targets(corpus, train_rows)
    if corpus.problem.is_exclusive and len(targets.unique()) < 2:
        return majority(corpus, train_rows, test_rows).logits
    model = _pipeline(corpus, targets, C=C, features=features, balanced=balanced)
    train, asked = _joined(corpus, train_rows), _joined(corpus, test_rows)
    with _one_core():
        if not corpus.problem.has_classes:
            said = model.fit(train, targets.numpy()).predict(asked)
            return torch.from_numpy(said).float()[:, None]
        if corpus.problem.has_label_sets:
            logits = _odds(targets).float().repeat(len(asked), 1)
            varies = (targets != targets[0]).any(dim=0)  # of the other labels nothing is learned
            if bool(varies.any()):
                scores = model.fit(train, targets[:, varies].numpy()).decision_function(asked)
                logits[:, varies] = torch.from_numpy(scores).float().view(len(asked), -1)
            return logits
        scores = model.fit(train, targets.numpy()).decision_function(asked)
    # Not `predict_log_proba`: the logarithm of a probability that has become 0 is no number.
    scores = torch.from_numpy(scores).double().view(len(asked), -1)
    if scores.shape[1] == 1:  # one sigmoid
        scores = torch.cat([torch.zeros_like(scores), scores], dim=1)
    classes = len(corpus.classes)
    logits = torch.full((len(asked), classes), -log(len(targets) + classes))
    logits[:, model.classes_.tolist()] = scores.log_softmax(dim=1).float()
    return logits


def tfidf_strength(
    corpus: Corpus,
    train_rows: Sequence[int],
    development_rows: Sequence[int],
    *,
    seed: int = 0,
    balanced: bool = False,
    metric: MetricName | None = None,
) -> float:
    """The C with the best score on the development rows, of three and those beyond them.

    Of three with one score it is the smallest. While the best is the smallest or the largest that
    was tried, the next one is tried as well, from 0.001 to 1,000: it must be better.

    At most 2,000 training rows are fitted, chosen by the seed: more would cost more than the
    baseline itself and seldom choose another.
    """
    rng = torch.Generator().manual_seed(seed)
    chosen = torch.randperm(len(train_rows), generator=rng)[:ROWS_TO_CHOOSE_ON].sort().values
    rows = [train_rows[place] for place in chosen.tolist()]
    places, targets = torch.arange(len(development_rows)), _targets(corpus, development_rows)
    task = EvaluationTask(
        targets=targets,
        classes=corpus.classes,
        groups=places,
        problem=corpus.problem,
        metric=metric,
    )

    def score(strength: float) -> float:
        held = tfidf_held(
            corpus, rows, development_rows, C=strength, features=FEATURES_TO_CHOOSE_ON,
            balanced=balanced,
        )  # fmt: skip
        outcome = CellPredictions(
            name=TFIDF, rows=(places,), logits=(held.logits,), thresholds=held.thresholds
        )
        return float(parts(outcome, task)[0].sum())

    return grown(STRENGTHS[corpus.problem], score)


def grown(begun: Sequence[float], score: Callable[[float], float]) -> float:
    """The best of some strengths, or of those beyond while each is better than all before it.

    Args:
        begun: Neighbours of each other in `BEYOND`, from the smallest.

    >>> grown((1.0, 10.0, 30.0), lambda C: -abs(C - 0.02))
    0.01
    """
    scores = {C: score(C) for C in begun}
    best = max(begun, key=lambda C: scores[C])
    step = {begun[0]: -1, begun[-1]: 1}.get(best, 0)
    place = BEYOND.index(best) + step
    while step and 0 <= place < len(BEYOND) and (found := score(BEYOND[place])) > scores[best]:
        best = BEYOND[place]
        scores[best], place = found, place + step
    return best


def tfidf_held(
    corpus: Corpus,
    rows: Sequence[int],
    development_rows: Sequence[int],
    *,
    C: float,
    features: int = FEATURES,
    balanced: bool = False,
) -> BaselinePredictions:
    """Fits some rows and says what that makes of the development rows, which are none of them.

    Thresholds of labels hang on how many rows were fitted: those found on 2,000 rows cost 4
    points of micro-F1 when 40,000 are fitted. So `rows` are all that there are.
    """
    logits = tfidf(corpus, rows, development_rows, C=C, features=features, balanced=balanced)
    if not corpus.problem.has_label_sets:
        return BaselinePredictions(logits=logits)
    return BaselinePredictions(
        logits=logits, thresholds=thresholds(logits, _targets(corpus, development_rows))
    )


@contextmanager
def _one_core() -> Iterator[None]:
    """Within it NumPy's and SciPy's products take one core, in the whole process; one at a time.

    Heads learn on the other cores meanwhile, and would wait for NumPy's threads and these for
    them: what follows reading took 14 s on banking77 and two cores, now 10 to 11.
    """
    from threadpoolctl import threadpool_limits

    with _ALONE, threadpool_limits(limits=1, user_api="blas"):
        yield


def _pipeline(
    corpus: Corpus, targets: Tensor, *, C: float, features: int, balanced: bool
) -> "Pipeline":
    """What counts words and learns from them, for the kind of label."""
    from sklearn.feature_extraction.text import TfidfVectorizer
    from sklearn.linear_model import LogisticRegression, Ridge
    from sklearn.multiclass import OneVsRestClassifier
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import FunctionTransformer

    letters = sum(map(len, corpus.texts))
    spaces = sum(len(text.split()) for text in corpus.texts)
    words = TfidfVectorizer(
        analyzer="word" if letters <= LETTERS_A_SPACE * spaces else "char",
        ngram_range=(1, 2),
        token_pattern=WORDS,
        sublinear_tf=True,
        max_features=features,
    )
    weight = "balanced" if balanced else None
    if not corpus.problem.has_classes:
        return make_pipeline(words, Ridge(alpha=1 / C))
    if corpus.problem.has_label_sets:
        # The default solver stops early here, 2 points of micro-F1 short on goemotions.
        model = LogisticRegression(
            C=C, solver="liblinear", tol=1e-3, max_iter=200, class_weight=weight
        )
        return make_pipeline(words, OneVsRestClassifier(model))
    # Both stop at a gradient of tol. That of a class is about its share of the rows or less, so at
    # a tol near the mean share they stop where they began, and the baseline guesses.
    tol = min(1e-4, 0.01 / len(targets.unique()))
    solver = "newton-cg" if len(targets) <= SMALL else "lbfgs"
    model = LogisticRegression(C=C, solver=solver, tol=tol, max_iter=200, class_weight=weight)
    # In double precision Newton's method takes 1.5 to 3.7 times as long (30 and 77 classes).
    single = FunctionTransformer(methodcaller("astype", "float32"))
    return make_pipeline(words, single, model)


def _odds(targets: Tensor) -> Tensor:
    """(c,), the log-odds of labels' shares, as if one row more had each and one had none."""
    counts = targets.double().sum(dim=0)
    return ((counts + 1) / (len(targets) - counts + 1)).log()


def _targets(corpus: Corpus, rows: Sequence[int]) -> Tensor:
    """(n,) numbers of classes, (n, c) 1 at the labels of a row, or (n,) numbers."""
    targets = corpus.targets_of(rows)
    return targets.double() if targets.is_floating_point() else targets


def _joined(corpus: Corpus, rows: Sequence[int]) -> list[str]:
    if not corpus.pairs:
        return [corpus.texts[row] for row in rows]
    return [f"{corpus.texts[row]}\n{corpus.pairs[row]}" for row in rows]
