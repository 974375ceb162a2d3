"""The two baselines of every leaderboard: the commonest class, and counted words.

Legend: n tested rows, c classes.
"""

from collections.abc import Sequence
from math import log
from typing import Any

import torch
from torch import Tensor

from heads.pipeline.corpus import Corpus

FEATURES = 10_000
STRENGTHS = (1.0, 10.0, 30.0)
ROWS_TO_CHOOSE_ON = 2_000
FEATURES_TO_CHOOSE_ON = 5_000
WORDS = r"\w+|[^\w\s]"  # signs and emoji are words as well: no text is without one
LETTERS_A_SPACE = 20  # more than this, and the language does not put spaces between words


def majority(corpus: Corpus, train_rows: Sequence[int], test_rows: Sequence[int]) -> Tensor:
    """Always answers the commonest class of the training rows.

    Returns:
        (n, c), log-probabilities: every class's share, as if each had one row more.
    """
    targets = torch.tensor([corpus.targets[row][0] for row in train_rows])
    counts = torch.bincount(targets, minlength=len(corpus.classes)).float() + 1
    return (counts / counts.sum()).log().expand(len(test_rows), -1).clone()


def tfidf(
    corpus: Corpus,
    train_rows: Sequence[int],
    test_rows: Sequence[int],
    *,
    C: float,
    features: int = FEATURES,
    balanced: bool = False,
) -> Tensor:
    """Logistic regression on TF-IDF of words and word pairs; it knows only the training rows.

    The two texts of a pair are joined. Where words are not spaced, letters are counted. On
    the same rows it always gives the same numbers.

    Args:
        C: The strength of the fit, as `tfidf_strength` finds it.
        features: How many of the commonest words and word pairs are counted.
        balanced: Whether rows of rare classes count more, as the heads' own do then.

    Returns:
        (n, c), log-probabilities; one row's share for a class that has no training row.
    """
    from sklearn.linear_model import LogisticRegression

    labels = [corpus.targets[row][0] for row in train_rows]
    present = sorted(set(labels))
    if len(present) < 2:
        return majority(corpus, train_rows, test_rows)
    vectorizer = _vectorizer(corpus, features)
    counted = vectorizer.fit_transform(_joined(corpus, train_rows))
    # A tighter tolerance costs twice the time and moves accuracy by a tenth of a point.
    weight = "balanced" if balanced else None
    model = LogisticRegression(C=C, max_iter=200, tol=1e-3, class_weight=weight)
    model.fit(counted, labels)
    scores = model.decision_function(vectorizer.transform(_joined(corpus, test_rows)))
    scores = torch.from_numpy(scores).view(len(test_rows), -1)
    if len(present) == 2:  # one sigmoid
        scores = torch.cat([torch.zeros_like(scores), scores], dim=1)
    rare = -log(len(labels) + len(corpus.classes))
    logits = torch.full((len(test_rows), len(corpus.classes)), rare)
    logits[:, present] = scores.log_softmax(dim=1).float()
    return logits


def tfidf_strength(
    corpus: Corpus,
    train_rows: Sequence[int],
    development_rows: Sequence[int],
    *,
    seed: int = 0,
    balanced: bool = False,
) -> float:
    """The C of 1, 10 and 30 that answers most development rows right; the smallest such.

    It tries them on at most 2,000 training rows, chosen by the seed: more would cost more than
    the baseline itself and seldom choose another.
    """
    dice = torch.Generator().manual_seed(seed)
    chosen = torch.randperm(len(train_rows), generator=dice)[:ROWS_TO_CHOOSE_ON].sort().values
    rows = [train_rows[place] for place in chosen.tolist()]
    targets = torch.tensor([corpus.targets[row][0] for row in development_rows])

    def right(strength: float) -> int:
        logits = tfidf(
            corpus, rows, development_rows, C=strength, features=FEATURES_TO_CHOOSE_ON,
            balanced=balanced,
        )  # fmt: skip
        return int((logits.argmax(dim=1) == targets).sum())

    return max(STRENGTHS, key=right)


def _vectorizer(corpus: Corpus, features: int) -> Any:
    from sklearn.feature_extraction.text import TfidfVectorizer

    letters = sum(map(len, corpus.texts))
    spaces = sum(len(text.split()) for text in corpus.texts)
    spaced = letters <= LETTERS_A_SPACE * spaces
    return TfidfVectorizer(
        analyzer="word" if spaced else "char",
        ngram_range=(1, 2),
        token_pattern=WORDS,
        sublinear_tf=True,
        max_features=features,
    )


def _joined(corpus: Corpus, rows: Sequence[int]) -> list[str]:
    if not corpus.pairs:
        return [corpus.texts[row] for row in rows]
    return [f"{corpus.texts[row]}\n{corpus.pairs[row]}" for row in rows]
