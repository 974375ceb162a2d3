"""sentence-transformers with scikit-learn's logistic regression: C = 1, and C searched by folds."""
# pyright: reportMissingImports=false

from typing import Any

import sentence_transformers
from peer import Clock, asked, rows
from sentence_transformers import SentenceTransformer
from sklearn.linear_model import LogisticRegression, LogisticRegressionCV

SEARCH: dict[str, Any] = {
    "Cs": [0.1, 1, 10, 100],
    "cv": 3,
    "max_iter": 1000,
    "l1_ratios": (0,),
    "scoring": "accuracy",
    "use_legacy_attributes": False,
}
question, clock = asked(), Clock()
model = SentenceTransformer(question["model"], device="cpu")
(texts, labels), (tested, goals) = rows(question["train"]), rows(question["test"])

with clock.phase("read train"):
    vectors = model.encode(texts)
with clock.phase("fit"):
    fixed = LogisticRegression(max_iter=1000).fit(vectors, labels)
with clock.phase("read test"):
    asked_of = model.encode(tested)
with clock.phase("answer"):
    accuracy = fixed.score(asked_of, goals)
found = {"accuracy": accuracy}
if question.get("search"):
    with clock.phase("search C"):
        searched = LogisticRegressionCV(**SEARCH).fit(vectors, labels)
    found |= {"searched": searched.score(asked_of, goals)}
clock.answer(**found, version=sentence_transformers.__version__)
