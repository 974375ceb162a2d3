"""Heads as estimators of scikit-learn: its own checks, its tools, and the house's numbers."""

import inspect
import os
import pickle
import random
import shutil
import tempfile
import warnings
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import fields, replace
from pathlib import Path
from typing import Any

import joblib
import numpy as np
import pandas as pd
import pytest
from quick_heads import QUICK, trained
from scipy.sparse import csr_matrix
from sklearn.base import clone
from sklearn.calibration import CalibratedClassifierCV
from sklearn.ensemble import BaggingClassifier, StackingClassifier, VotingClassifier
from sklearn.exceptions import NotFittedError
from sklearn.feature_extraction.text import TfidfVectorizer
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import (
    GridSearchCV,
    GroupKFold,
    cross_val_predict,
    cross_val_score,
    cross_validate,
    learning_curve,
)
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer
from sklearn.utils import get_tags
from sklearn.utils.estimator_checks import check_estimator_cloneable, parametrize_with_checks
from sklearn.utils.validation import check_array
from tiny_models import WORDS, save_tiny

import heads
from heads.backbone.backbone import Backbone
from heads.backbone.engine import InferenceEngine
from heads.backbone.loading import load
from heads.data.arrays import ArrayError
from heads.data.corpus import Corpus
from heads.errors import HeadsError, LimitError, ModelError, RecipeError
from heads.features import text_store
from heads.features.text_store import TextStore
from heads.interfaces.estimators import HeadClassifier, HeadRegressor
from heads.settings import ExperimentConfig

TEXTS = [" ".join(random.Random(n).choices(WORDS, k=2 + n % 7)) + f" {n}" for n in range(60)]
LABELS = ["x", "y", "z"] * 20
PAIRS = list(zip(TEXTS, TEXTS[::-1], strict=True))
SEVERAL = np.array([[n % 2, n % 3 == 0, n % 5 == 0] for n in range(60)], dtype=int)
NUMBERS = [float(len(text)) for text in TEXTS]
Make = Callable[..., HeadClassifier]
Passes = Counter[tuple[int, ...]]
CHECKED = str(Path(tempfile.gettempdir()) / f"heads-checked-{os.getpid()}")


@pytest.fixture(autouse=True)
def _own_store(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("HEADS_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr(text_store, "_store", TextStore())


@pytest.fixture
def of(small: Backbone) -> Make:
    """A classifier on a tiny base model; its head is solved at once where none is named."""

    def made(recipe: str = "mean+ridge", **settings: Any) -> HeadClassifier:
        return HeadClassifier(recipe, model=small.id, **settings)

    return made


@pytest.fixture
def passes(monkeypatch: pytest.MonkeyPatch) -> Counter[tuple[int, ...]]:
    """How often each text goes through the base model, by its tokens."""
    found, original = Counter[tuple[int, ...]](), InferenceEngine.passes

    def counted(self: InferenceEngine, texts: Sequence, layers: object) -> Iterator:
        found.update(tuple(text.inputs["input_ids"]) for text in texts)
        return original(self, texts, layers)

    monkeypatch.setattr(InferenceEngine, "passes", counted)
    return found


# The house's numbers


@pytest.mark.parametrize("recipe", ["mean+linear", "cls+roberta", "mean+knn?k=3"])
def test_fitted_on_some_rows_and_asked_about_others_it_is_the_head_of_the_house(
    small: Backbone, rows: Corpus, of: Make, recipe: str
) -> None:
    learned, scored = slice(0, 45), slice(45, 60)
    labels = [rows.classes[target] for (target,) in rows.targets]
    parts = ("train",) * 45 + ("test",) * 15
    config = replace(QUICK, precision="exact", seed=2)
    (wanted,) = trained([recipe], replace(rows, parts=parts), small, config)
    settings = {n: getattr(config, n) for n in ("steps", "learning_rate", "precision", "seed")}
    found = of(recipe, standardise="no", **settings).fit(rows.texts[learned], labels[learned])
    assert wanted.scores is not None
    score = found.score(rows.texts[scored], labels[scored])
    assert score == pytest.approx(wanted.scores.accuracy)
    fitted = found.head_.raw or found.head_  # calibrated, where its last layer is linear
    assert (fitted.chosen, fitted.rows) == (wanted.chosen, 45)
    assert fitted.temperature == pytest.approx(wanted.temperature, rel=1e-3)


def test_every_setting_is_one_of_the_house_with_its_default_and_its_words() -> None:
    known = {one.name: one for one in fields(ExperimentConfig)}
    for kind in (HeadClassifier, HeadRegressor):
        params = inspect.signature(kind).parameters
        named = [name for name in params if name not in ("recipe", "model")]
        for name in named:
            assert params[name].default == known[name].default, name
            assert f"{name}: {known[name].metadata['says']}" in (kind.__doc__ or "")
    others = {"seeds", "folds", "repetitions", "held_out", "per_class", "curve", "race", "unseen"}
    assert {*known} - {*HeadClassifier().get_params()} == others | {
        "budget_seconds",
        "budget_cells",
    }
    assert {*HeadClassifier().get_params()} - {*HeadRegressor().get_params()} == {
        "class_weights", "focal", "smoothing"
    }  # fmt: skip


def test_settings_are_kept_as_given_and_reach_the_training(of: Make) -> None:
    asked = of("mean+mlp", steps=np.int64(7), learning_rate=0.5, class_weights=True, seed=4)
    assert asked.get_params()["steps"] is asked.steps
    head = asked.fit(TEXTS, LABELS).head_
    assert head.config == ExperimentConfig(steps=7, learning_rate=0.5, class_weights=True, seed=4)
    assert head.chosen["learning_rate"] == 0.5
    assert str(of().set_params(recipe="cls+linear").recipe) == "cls+linear"
    assert "HeadClassifier" in of()._repr_html_()


# Labels of every kind


@pytest.mark.parametrize(
    "labels",
    [
        LABELS,
        [n % 3 for n in range(60)],
        [n % 2 == 0 for n in range(60)],
        np.array([1.0, 2.0])[np.arange(60) % 2],
        np.array([10, 9, -3], dtype=np.int8)[np.arange(60) % 3],
        np.array(["10", "9", "8"])[np.arange(60) % 3],
        pd.Series(LABELS, index=range(60, 0, -1)),
        pd.Series(LABELS, dtype="category"),
    ],
    ids=["texts", "ints", "bools", "floats", "int8", "numerals", "series", "category"],
)
def test_labels_come_back_as_they_were(of: Make, labels: Any) -> None:
    found = of().fit(TEXTS, labels)
    unique = np.unique(np.asarray(labels))
    assert found.classes_.tolist() == unique.tolist()
    answers, shares = found.predict(TEXTS), found.predict_proba(TEXTS)
    assert answers.dtype == found.classes_.dtype
    assert answers.tolist() == found.classes_[shares.argmax(axis=1)].tolist()
    assert shares.shape == (60, len(unique))
    np.testing.assert_allclose(shares.sum(axis=1), 1)
    np.testing.assert_allclose(np.exp(found.predict_log_proba(TEXTS)), shares)
    logits = found.decision_function(TEXTS)
    if len(unique) == 2:
        assert logits.shape == (60,)
        np.testing.assert_allclose(1 / (1 + np.exp(-logits)), shares[:, 1])
    else:
        assert (logits.argmax(axis=1) == shares.argmax(axis=1)).all()
    assert found.score(TEXTS, labels) == np.mean(answers == np.asarray(labels))
    assert found.classifier_.classes == tuple(str(label) for label in unique.tolist())


def test_of_one_versus_rest_the_decision_is_that_of_the_probabilities(of: Make) -> None:
    labels = [n % 2 for n in range(60)]
    found = of("mean+linear?loss=ovr").fit(TEXTS, labels)
    shares = found.predict_proba(TEXTS)
    np.testing.assert_allclose(shares.sum(axis=1), 1)
    logits = found.decision_function(TEXTS)
    np.testing.assert_allclose(1 / (1 + np.exp(-logits)), shares[:, 1])
    assert (found.predict(TEXTS) == (logits > 0)).all()


def test_numbers_as_classes_stand_in_order_and_texts_do_not(of: Make) -> None:
    stars = [n % 3 + 1 for n in range(60)]
    asked = of("mean+linear?loss=ordinal", metric="quadratic_kappa")
    assert set(asked.fit(TEXTS, stars).predict(TEXTS)) <= {1, 2, 3}
    with pytest.raises(ValueError, match="have no order, which loss=ordinal needs"):
        of("mean+linear?loss=ordinal").fit(TEXTS, LABELS)


@pytest.mark.parametrize("kind", ["array", "sparse", "frame"])
def test_several_labels_a_row_are_columns(of: Make, kind: str) -> None:
    names = ["a", "b", "c"]
    given = {
        "array": SEVERAL,
        "sparse": csr_matrix(SEVERAL),
        "frame": pd.DataFrame(SEVERAL, columns=names),
    }[kind]
    found = of().fit(TEXTS, given)
    assert found.classes_.tolist() == (names if kind == "frame" else [0, 1, 2])
    answers, shares = found.predict(TEXTS), found.predict_proba(TEXTS)
    assert answers.shape == shares.shape == found.decision_function(TEXTS).shape == (60, 3)
    assert {*answers.ravel().tolist()} <= {0, 1}
    wanted = [set(names) for names in found.classifier_.predict(TEXTS)]
    told = [{str(found.classes_[n]) for n in np.flatnonzero(row)} for row in answers]
    assert told == wanted  # by the thresholds that were found on development rows
    assert 0 <= found.score(TEXTS, given) <= 1


def test_a_label_that_no_row_has_is_given_to_none_and_a_row_may_have_none(of: Make) -> None:
    labels = np.column_stack([SEVERAL, np.zeros(60, dtype=int)])
    labels[:5] = 0
    answers = of("mean+linear").fit(TEXTS, labels).predict(TEXTS)
    assert answers.shape == (60, 4)
    assert not answers[:, 3].any()


def test_numbers_are_learned(small: Backbone) -> None:
    found = HeadRegressor(model=small.id).fit(pd.Series(TEXTS), pd.Series(NUMBERS))
    answers = found.predict(TEXTS)
    assert answers.shape == (60,)
    assert answers.dtype == float
    assert found.score(TEXTS, NUMBERS) > 0.5  # a long text is told from a short one
    np.testing.assert_allclose(answers, found.classifier_.predict(TEXTS), rtol=1e-4)
    assert not hasattr(found, "classes_")


# Texts and pairs


@pytest.mark.parametrize(
    "X",
    [
        tuple(TEXTS),
        np.array(TEXTS),
        np.array(TEXTS, dtype=object),
        pd.Series(TEXTS, index=range(60, 0, -1)),
        pd.Series(TEXTS, dtype="string"),
        np.array(TEXTS)[:, None],
        pd.DataFrame({"text": TEXTS}),
    ],
    ids=["tuple", "array", "objects", "series", "strings", "column", "frame"],
)
def test_texts_are_the_same_in_whatever_holds_them(of: Make, X: Any) -> None:
    found = of().fit(X, LABELS)
    wanted = of().fit(TEXTS, LABELS)
    np.testing.assert_array_equal(found.predict_proba(X), wanted.predict_proba(TEXTS))
    has_columns = np.ndim(X) == 2
    assert getattr(found, "n_features_in_", None) == (1 if has_columns else None)
    assert hasattr(found, "feature_names_in_") == isinstance(X, pd.DataFrame)


@pytest.mark.parametrize(
    ("recipe", "X"),
    [
        ("mean+ridge", [list(pair) for pair in PAIRS]),
        ("mean+ridge?pair=uv_diff", np.array(PAIRS)),
        ("mean+ridge?pair=uv_diff", pd.DataFrame(PAIRS, columns=["a", "b"])),
    ],
    ids=["lists", "array", "frame"],
)
def test_pairs_of_texts_are_two_columns(of: Make, X: Any, recipe: str, passes: Passes) -> None:
    found = of(recipe).fit(X, LABELS)
    assert found.n_features_in_ == 2
    answers = found.predict_proba(X)
    assert set(passes.values()) == {1}
    other = of(recipe).fit(PAIRS, LABELS)
    np.testing.assert_array_equal(other.predict_proba(PAIRS), answers)
    assert not np.allclose(other.predict_proba([pair[::-1] for pair in PAIRS]), answers)
    with pytest.raises(ArrayError, match="two texts"):
        found.predict(TEXTS)


@pytest.mark.parametrize(
    ("X", "says"),
    [
        ("a text", "X is one text. Write"),
        (["a", " \n"], "Row 1 of X has an empty text."),
        (["a", float("nan")], "Row 1 of X has no text but nan (float)."),
        (pd.Series(["a", None], dtype=object), "Row 1 of X has no text but None (NoneType)."),
        (pd.Series(["a", None], dtype="string"), "Row 1 of X has no text but <NA> (NAType)."),
        ([b"a", "b"], "Row 0 of X has no text but b'a' (bytes)."),
        ([("a", "b"), ("c", "")], "Row 1 of X has an empty second text."),
        ([("a", "b"), ("c",)], "unlike length|Row 0 of X is not like the others"),
        (["a", ("b", "c")], "unlike length|Row 1 of X is not like the others"),
        (np.zeros((2, 2)), " reads texts. For vectors from elsewhere write vectors+"),
        (np.array([["a", "b", "c"]] * 2), "X is an array of 2 × 3, and must be a list of texts"),
        ((text for text in "ab"), "X is a generator, and must be a list of texts"),
        (csr_matrix((2, 2)), "X is a csr_matrix, and must be a list of texts"),
        ([], "X has 0 rows."),
    ],
)  # fmt: skip
def test_what_is_no_text_is_refused_in_a_sentence(of: Make, X: Any, says: str) -> None:
    with pytest.raises(ValueError) as caught:  # noqa: PT011  the sentence is looked at below
        of().fit(X, ["x", "y"])
    assert isinstance(caught.value, ArrayError)
    assert any(each in str(caught.value) for each in says.split("|"))
    assert caught.value.hint


# What does not fit


@pytest.mark.parametrize(
    ("kind", "y", "says"),
    [
        (HeadClassifier, ["x"] * 60, "y needs at least 2 classes; found one class, 'x'."),
        (HeadClassifier, LABELS[:-1], "inconsistent numbers of samples"),
        (HeadClassifier, None, "requires y to be passed, but the target y is None"),
        (HeadClassifier, ["x", 1, None] * 20, "The labels in y are of several types, or one is"),
        (HeadClassifier, [1.0, 2.0, float("nan")] * 20, "Input y contains NaN"),
        (HeadClassifier, [n / 7 for n in range(60)], "Unknown label type: continuous"),
        (HeadClassifier, ["x", " "] * 30, "A label in y is empty."),
        (HeadClassifier, [("a", "b")] * 60, "y should be a 1d array"),
        (HeadClassifier, np.zeros((60, 3), dtype=int), "No row of y has a label."),
        (HeadRegressor, LABELS, "y holds something else than numbers."),
        (HeadRegressor, [float("nan")] * 60, "Input y contains NaN"),
        (HeadRegressor, [1.0] * 60, "All numbers of y are 1; nothing can be learned"),
        (HeadRegressor, np.zeros((60, 2)), "y should be a 1d array"),
    ],
)
def test_targets_that_cannot_be_used_are_a_sentence(
    small: Backbone, kind: type, y: Any, says: str
) -> None:
    with pytest.raises(ValueError, match=says):
        kind("mean+ridge", model=small.id).fit(TEXTS, y)


@pytest.mark.parametrize(
    ("settings", "kind", "says"),
    [
        ({"recipe": "mean+liner"}, RecipeError, "no head called 'liner'. Did you mean 'linear'?"),
        ({"recipe": "own"}, RecipeError, "The head that a checkpoint came with is not fitted."),
        ({"recipe": None}, RecipeError, "A recipe is a text, not None."),
        ({"recipe": "mean+linear?pair=diff"}, ValueError, "compares two texts, and there is one."),
        ({"trials": 9}, LimitError, "trials must be a whole number of at least 0 and at most 3"),
        ({"seed": None}, LimitError, "seed must be a whole number"),
        ({"metric": "spearman"}, ValueError, "The metric spearman is not for labels"),
        ({"model": "no/such-model"}, ModelError, "no/such-model"),
    ],
)
def test_settings_that_do_not_fit_are_a_sentence_when_fitted_and_not_before(
    of: Make, settings: dict[str, Any], kind: type, says: str
) -> None:
    asked = of().set_params(**settings)
    with pytest.raises(kind) as caught:
        asked.fit(TEXTS, LABELS)
    assert isinstance(caught.value, HeadsError)
    assert says in str(caught.value)


def test_too_few_rows_and_what_is_not_fitted_are_a_sentence(of: Make) -> None:
    with pytest.raises(ValueError, match=r"2 rows are too few to learn from and to choose on."):
        of().fit(["a", "b"], ["x", "y"])
    with pytest.raises(ValueError, match=r"n_splits=5 .*"):
        cross_val_score(of(), ["a", "b", "c"], ["x", "y", "x"], cv=5)
    for ask in (
        lambda: of().predict(TEXTS),
        lambda: of().predict_proba(TEXTS),
        lambda: of().classifier_,
    ):
        with pytest.raises(NotFittedError, match="is not fitted yet"):
            ask()
    fitted = of().fit(pd.DataFrame({"text": TEXTS}), LABELS)
    with pytest.raises(ValueError, match="The feature names should match"):
        fitted.predict(pd.DataFrame({"other": TEXTS}))
    with pytest.raises(ArrayError, match="X has two texts a row, and this estimator was fitted on"):
        fitted.predict(PAIRS)


# The tools of scikit-learn


def test_a_search_over_recipes_and_settings_reads_each_text_once(
    of: Make, small: Backbone, passes: Passes
) -> None:
    load(small.id)  # which reads a text or two to see how it is done
    passes.clear()
    grid = {"recipe": ["mean+ridge", "max+lda", "cls+centroid"], "trials": np.array([1, 2])}
    search = GridSearchCV(of(), grid, cv=3).fit(pd.Series(TEXTS), pd.Series(LABELS))
    assert set(passes.values()) == {1}
    assert passes.total() == len(TEXTS)
    assert search.best_params_["recipe"] in grid["recipe"]
    assert search.predict(TEXTS[:3]).shape == (3,)


TOOLS: dict[str, Callable[[HeadClassifier], Any]] = {
    "pipeline": lambda one: make_pipeline(FunctionTransformer(list), one).fit(TEXTS, LABELS),
    "calibrated": lambda one: CalibratedClassifierCV(one, cv=2).fit(TEXTS, LABELS),
    "voting": lambda one: VotingClassifier(
        [("a", one), ("b", make_pipeline(TfidfVectorizer(), LogisticRegression()))], voting="soft"
    ).fit(TEXTS, LABELS),
    "stacking": lambda one: StackingClassifier(
        [("a", one), ("b", clone(one).set_params(recipe="cls+lda"))], cv=2
    ).fit(TEXTS, LABELS),
    "bagging": lambda one: make_pipeline(
        FunctionTransformer(lambda X: np.array(X, dtype=object)[:, None]),
        BaggingClassifier(one, n_estimators=2, random_state=0),
    ).fit(TEXTS, LABELS),
}


@pytest.mark.parametrize("tool", TOOLS)
def test_it_stands_in_other_estimators(of: Make, tool: str) -> None:
    found = TOOLS[tool](of())
    shares = found.predict_proba(TEXTS)
    assert shares.shape == (60, 3)
    assert found.predict(TEXTS).tolist() == found.classes_[shares.argmax(axis=1)].tolist()


def test_it_is_cross_validated_predicted_and_learned_from_more_and_more(of: Make) -> None:
    scores = cross_val_score(of(), TEXTS, LABELS, cv=3)
    shares = cross_val_predict(of(), TEXTS, LABELS, cv=3, method="predict_proba")
    assert np.mean(scores) == pytest.approx(
        np.mean(np.array(list("xyz"))[shares.argmax(1)] == LABELS)
    )
    _, _, tested = learning_curve(of(), TEXTS, LABELS, cv=2, train_sizes=[0.5, 1.0])
    assert tested.shape == (2, 2)
    measures = ["roc_auc", "neg_log_loss", "average_precision", "f1"]
    two = cross_validate(of(), TEXTS, [n % 2 for n in range(60)], cv=2, scoring=measures)
    assert all(np.isfinite(two[f"test_{name}"]).all() for name in measures)
    many = cross_validate(of(), TEXTS, SEVERAL, cv=2, scoring=["f1_micro", "roc_auc"])
    assert np.isfinite(many["test_roc_auc"]).all()


def test_groups_are_kept_together_inside(of: Make) -> None:
    groups = [f"author {n // 6}" for n in range(60)]
    scores = cross_val_score(of(), TEXTS, LABELS, groups=groups, cv=GroupKFold(3))
    assert np.isfinite(scores).all()
    plain, held = of().fit(TEXTS, LABELS), of().fit(TEXTS, LABELS, groups=groups)
    assert plain.head_.fingerprint != held.head_.fingerprint
    with pytest.raises(ValueError, match="inconsistent numbers of samples"):
        of().fit(TEXTS, LABELS, groups=groups[1:])


def test_the_same_seed_fits_the_same_and_another_another(of: Make) -> None:
    one, same, other = (
        of("mean+mlp", steps=9, learning_rate=0.01, seed=seed).fit(TEXTS, LABELS)
        for seed in (0, 0, 1)
    )
    np.testing.assert_array_equal(one.predict_proba(TEXTS), same.predict_proba(TEXTS))
    assert not np.allclose(one.predict_proba(TEXTS), other.predict_proba(TEXTS))


# Kept, and taken along


def test_a_fit_that_fails_leaves_nothing_of_itself_or_of_an_earlier_one() -> None:
    vectors = np.random.default_rng(0).normal(size=(60, 4)).astype("float32")
    fitted = HeadClassifier("vectors+linear").fit(vectors, ["a", "b"] * 30)
    with pytest.raises(HeadsError):
        fitted.set_params(recipe="vectors+proportional_odds").fit(vectors, ["z", "q"] * 30)
    with pytest.raises(NotFittedError):
        fitted.predict(vectors)
    assert not hasattr(fitted, "classes_")


def test_columns_of_an_earlier_fit_are_forgotten(of: Make) -> None:
    rows = np.array(TEXTS, dtype=object)
    fitted = of("mean+knn?k=3&pair=uv_diff")
    fitted.fit(np.column_stack([rows, rows[::-1]]), LABELS)
    assert fitted.n_features_in_ == 2
    fitted.set_params(recipe="mean+knn?k=3").fit(TEXTS, LABELS)
    assert len(fitted.predict(rows[:3, None])) == 3


@pytest.mark.parametrize(
    "recipe", ["mean+linear", "mean+linear?loss=ovr", "attention+linear", "mean+linear?tune=lora"]
)
def test_a_fitted_one_is_a_classifier_and_is_pickled_without_its_base_model(
    of: Make, recipe: str, tmp_path: Path
) -> None:
    found = of(recipe, steps=5, learning_rate=0.01, epochs=1, trials=1).fit(TEXTS, LABELS)
    mine, wanted = found.classifier_, found.predict_proba(TEXTS)
    assert (mine.head.scores, mine.head.rows, mine.classes) == (None, 60, ("x", "y", "z"))
    np.testing.assert_allclose(wanted, mine.probabilities(TEXTS).numpy(), atol=1e-5)
    assert mine.predict(TEXTS) == found.predict(TEXTS).tolist()
    joblib.dump(found, tmp_path / "one.joblib")
    assert (tmp_path / "one.joblib").stat().st_size < 200_000
    again = joblib.load(tmp_path / "one.joblib")
    np.testing.assert_allclose(again.predict_proba(TEXTS), wanted, atol=1e-6)
    assert again.get_params() == found.get_params()
    with pytest.raises(NotFittedError):
        clone(found).predict(TEXTS)


def test_a_base_model_that_has_changed_since_is_told_of(tmp_path: Path) -> None:
    folder = save_tiny(tmp_path / "model", "bert")
    found = HeadClassifier("mean+ridge", model=str(folder)).fit(TEXTS, LABELS)
    kept = pickle.dumps(found)
    save_tiny(folder, "bert", num_hidden_layers=1)
    with pytest.raises(ModelError, match="is not the version that this estimator was fitted on"):
        pickle.loads(kept).predict(TEXTS)


def test_it_is_exported(of: Make, tmp_path: Path) -> None:
    found = of("cls+bert", steps=5, learning_rate=0.01).fit(TEXTS, LABELS)
    assert (
        heads.export(found.classifier_, tmp_path / "one").called == "BertForSequenceClassification"
    )
    assert "Nobody has scored it here." in (tmp_path / "one" / "README.md").read_text("utf-8")
    theirs = heads.load(tmp_path / "one")
    shares = theirs.probabilities(TEXTS).numpy()
    np.testing.assert_allclose(found.predict_proba(TEXTS), shares, atol=1e-5)


# scikit-learn's own checks


def test_tags_say_what_it_takes() -> None:
    tags = get_tags(HeadClassifier())
    assert (tags.estimator_type, tags.input_tags.string) == ("classifier", True)
    assert tags.classifier_tags.multi_label
    assert tags.target_tags.required
    assert get_tags(HeadRegressor()).estimator_type == "regressor"
    for one in (HeadClassifier(), HeadRegressor()):
        check_estimator_cloneable(type(one).__name__, one)


class _Spelled:
    """Turns the numbers that scikit-learn's checks send into texts, a word a number."""

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()  # type: ignore[misc]
        tags.input_tags.two_d_array, tags.input_tags.one_d_array = True, False
        tags.input_tags.string = False
        if tags.regressor_tags is not None:
            tags.regressor_tags.poor_score = True  # words say little of the numbers
        return tags

    def _rows(self, X: Any) -> Any:
        return super()._rows(_words(check_array(X, estimator=self)))  # type: ignore[misc]


def _words(numbers: np.ndarray) -> list[str]:
    each = [
        [WORDS[int(abs(n) * 7) % len(WORDS)] + "no" * bool(n < 0) for n in row] for row in numbers
    ]
    return [" ".join(row) for row in each]


class OfNumbers(_Spelled, HeadClassifier):
    """A classifier for these checks, which make it without arguments."""

    def __init__(self, recipe: str = "mean+ridge", *, model: str = CHECKED, seed: int = 0) -> None:
        super().__init__(recipe, model=model, seed=seed)


class NumbersOfNumbers(_Spelled, HeadRegressor):
    """A regressor likewise."""

    def __init__(self, recipe: str = "mean+ridge", *, model: str = CHECKED, seed: int = 0) -> None:
        super().__init__(recipe, model=model, seed=seed)


@pytest.fixture(scope="module")
def checked() -> Iterator[None]:
    """The base model of these checks."""
    save_tiny(Path(CHECKED), "bert")
    yield
    shutil.rmtree(CHECKED)


ROUNDED = "Products in 32 bits are rounded by how many rows are in them: by 1e-6, not by 1e-7."
FEW = "It sends 10 rows, too few to set any aside; a sentence says so."
EXPECTED: dict[str, dict[str, str]] = {
    "OfNumbers": {"check_methods_subset_invariance": ROUNDED},
    "NumbersOfNumbers": {
        "check_methods_subset_invariance": ROUNDED,
        "check_regressors_no_decision_function": FEW,
        "check_fit2d_1sample": "The sentence says '1 row', which is not among those it knows.",
    },
}


@pytest.mark.slow
@parametrize_with_checks(
    [OfNumbers(), NumbersOfNumbers()],
    expected_failed_checks=lambda estimator: EXPECTED[type(estimator).__name__],
)
def test_its_own_checks(estimator: Any, check: Callable[[Any], None], checked: None) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # the checks warn on purpose
        check(estimator)


def test_reports_of_skore_are_made_of_it(of: Make) -> None:
    skore = pytest.importorskip("skore")
    X, y = np.array(TEXTS), np.array(LABELS)
    given = {"X_train": X[:40], "y_train": y[:40], "X_test": X[40:], "y_test": y[40:]}
    report = skore.EstimatorReport(of(), **given)
    assert report.metrics.accuracy() == of().fit(X[:40], y[:40]).score(X[40:], y[40:])
    assert len(report.metrics.confusion_matrix().frame()) == 9
    across = skore.CrossValidationReport(of(), X, y, splitter=3).metrics.summarize().frame()
    assert across.loc["accuracy"].notna().all()
