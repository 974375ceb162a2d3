"""Head to Head's side of `studies.automl`: asked and answering like the other tools' scripts."""

import tempfile
from pathlib import Path

import heads
from benchmarks.ours import Clock, Found, Question, main
from benchmarks.rounds import read
from heads.backbone.backbone import Backbone


def fit(question: Question, clock: Clock, backbone: Backbone) -> Found:
    """Train the named head on all training rows and answer the test rows."""
    with clock.running():
        given = _answers(question, question["recipe"])
    return {"given": given, "chosen": f"`{question['recipe']}`", "version": heads.__version__}


def choose(question: Question, clock: Clock, backbone: Backbone) -> Found:
    """Train the head of the default grid that folds of the training rows recommend."""
    config = heads.ExperimentConfig(seed=question["seed"], curve=False)
    with tempfile.TemporaryDirectory() as place, clock.running():
        board = heads.train_grid(question["train"], config=config, out=Path(place) / "run")
        recipe = board.recommendation.name or board.best
        given = _answers(question, recipe)
    chosen = f"`{recipe}` of {board.planned} cells"
    return {"given": given, "chosen": chosen, "version": heads.__version__}


def _answers(question: Question, recipe: str) -> list[str]:
    """Train a head on all training rows and return its labels of the test rows."""
    texts, labels = zip(*read(Path(question["train"])), strict=True)
    tested, _ = zip(*read(Path(question["test"])), strict=True)
    classifier = heads.HeadClassifier(recipe, seed=question["seed"]).fit(texts, labels)
    return classifier.predict(tested).tolist()


if __name__ == "__main__":
    main({"fit": fit, "choose": choose})
