"""Heads as estimators of scikit-learn: a recipe is an option, and all of its tools apply.

An interface as the shell and the page are: arrays in, one call of the one trainer, arrays out. What
scikit-learn knows better (what labels are, which rows are fitted, tags, scores) it is asked.
"""

from abc import abstractmethod
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import KW_ONLY, dataclass, field, fields, make_dataclass
from typing import Any, TypeVar

import numpy as np
from sklearn.base import BaseEstimator, ClassifierMixin, RegressorMixin
from sklearn.utils.multiclass import check_classification_targets, type_of_target
from sklearn.utils.validation import (
    assert_all_finite,
    check_consistent_length,
    check_is_fitted,
    column_or_1d,
    validate_data,
)
from torch import Tensor

from heads.backbone.loading import load
from heads.backbone.models import BUNDLED
from heads.classifier.classifier import Classifier
from heads.classifier.module import TrainedHead
from heads.classifier.pretrained import is_own
from heads.data.arrays import ArrayError, is_numbers, named_vectors, texts_of
from heads.data.checks import check_numbers
from heads.data.corpus import Corpus, RowTexts, numbered, of_targets, on_vectors
from heads.data.text import is_blank
from heads.errors import DataError, LimitError, ModelError, RecipeError
from heads.events import result
from heads.parts.poolings import GIVEN
from heads.parts.resolve import resolve
from heads.problem import MULTI_LABEL
from heads.recipe import Recipe
from heads.runs import trainer
from heads.runs.spec import base_of
from heads.settings import ExperimentConfig, current_limits

Kind = TypeVar("Kind", bound=type)
Estimator = TypeVar("Estimator", bound="_HeadEstimator")
NAME = "rows given to fit"
SETTINGS = {one.name: one.metadata["says"] for one in fields(ExperimentConfig)}


@contextmanager
def _value_errors() -> Iterator[None]:
    """Within it, rows that cannot be used are a ValueError as well, as scikit-learn expects."""
    try:
        yield
    except ArrayError:
        raise
    except DataError as error:
        raise ArrayError(error.what, error.hint) from error


def _with_settings(kind: Kind) -> Kind:
    """Completes the arguments in a docstring by those that are settings, in their own words."""
    known = kind.get_params(kind())
    told = [f"        {name}: {SETTINGS[name]}" for name in known if name in SETTINGS]
    before, mark, behind = (kind.__doc__ or "").partition("\n\n    Attributes:")
    kind.__doc__ = "\n".join([before, *told]) + mark + behind
    return kind


def _setting_fields(kind: str, bases: tuple[type, ...] = ()) -> Any:
    """Return a base class with the settings of one head as arguments; see `ExperimentConfig`."""
    settings = [one for one in fields(ExperimentConfig) if one.metadata.get("of") == kind]
    arguments = [(one.name, one.type, field(default=one.default)) for one in settings]
    name = f"_{kind.title()}Settings"
    return make_dataclass(name, arguments, bases=bases, eq=False, repr=False, kw_only=True)


@dataclass(eq=False, repr=False)  # scikit-learn compares and prints estimators itself
class _HeadEstimator(_setting_fields("head"), BaseEstimator):
    """Hold what both estimators share: options, texts in, logits out, and the trained head."""

    recipe: Recipe | str = "mean+linear"
    _: KW_ONLY
    model: str = BUNDLED

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.string = tags.input_tags.one_d_array = not self._takes_vectors
        tags.input_tags.two_d_array = self._takes_vectors  # of numbers, which its checks then send
        tags.target_tags.required = True
        return tags

    def __getstate__(self) -> dict[str, Any]:
        """All but the base model, which is loaded again by its name."""
        state = super().__getstate__()
        return {name: value for name, value in state.items() if name != "_classifier"}

    def __sklearn_is_fitted__(self) -> bool:
        return hasattr(self, "head_")

    def _forget(self) -> None:
        """Takes away what fits have found: of two of them nothing may stand side by side."""
        for name in [one for one in vars(self) if one.endswith("_") or one == "_classifier"]:
            delattr(self, name)

    @property
    def classifier_(self) -> Classifier:
        """The trained head on its base model, as `heads.train` gives it: to ask or to export.

        Raises:
            NotFittedError: It is not fitted yet.
            ModelError: The base model is not the version that it was fitted on.
        """
        check_is_fitted(self)
        if not hasattr(self, "_classifier"):
            backbone = load(self.head_.model)
            if backbone.revision != self.revision_:
                what = f"{self.head_.model} is not the version that this estimator was fitted on."
                raise ModelError(what, "Fit it again, or bring that version back.")
            self._classifier = Classifier(backbone=backbone, head=self.head_)
        return self._classifier

    def fit(self: Estimator, X: Any, y: Any, groups: Any = None) -> Estimator:
        """Train the head on all rows.

        Args:
            X: The texts, or pairs of texts.
            y: The labels of a classifier, or a number a row of a regressor.
            groups: For each row what it belongs to, such as its author: none is both learned from
                and among the development rows. Rows of equal texts belong together in any case.

        Raises:
            ValueError: Rows, labels or numbers cannot be used; one sentence says why.
            HeadsError: A recipe, a setting or the base model does not fit, in one sentence.
        """
        self._forget()
        try:
            self._train(X, y, groups)
        except BaseException:  # stopped too, it is not fitted
            self._forget()
            raise
        return self

    def _train(self, X: Any, y: Any, groups: Any) -> None:
        with _value_errors():
            resolved, config = resolve(_resolvable(self.recipe)), self._config()
            texts = self._rows(X)
            validate_data(self, X, skip_check_array=True)  # counts columns and keeps their names
            if y is None:
                what = f"{type(self).__name__} requires y to be passed, but the target y is None."
                raise ArrayError(what, "Call fit(X, y).")
            check_consistent_length(texts.texts, y, groups)
            corpus = self._corpus(texts, y, [] if groups is None else _names(groups))
            if vectors := texts.vectors:
                corpus = on_vectors(corpus, vectors, range(len(corpus)), are_named=True)
            backbone = load(base_of(corpus, self.model))
            fitting = trainer.fit(resolved, corpus, backbone, config=config)
            self.head_: TrainedHead = result(fitting)
        self.revision_: str = backbone.revision
        self._classifier = Classifier(backbone=backbone, head=self.head_)

    @property
    def _takes_vectors(self) -> bool:
        """Whether X are vectors from elsewhere: the recipe says so, as in vectors+linear."""
        return str(self.recipe).startswith(f"{GIVEN.name}+")

    def _rows(self, X: Any) -> RowTexts:
        """Return the texts of X, or its vectors where the recipe learns from these."""
        if self._takes_vectors:
            return named_vectors(X)
        if is_numbers(X):
            what = f"X holds numbers, and {self.recipe} reads texts."
            hint = f"For vectors from elsewhere write {GIVEN.name}+linear."
            raise ArrayError(what, hint)
        return texts_of(X)

    @abstractmethod
    def _corpus(self, texts: RowTexts, y: Any, groups: Sequence[str]) -> Corpus:
        """The rows with their labels, checked."""

    def _config(self) -> ExperimentConfig:
        """The settings; numbers of NumPy, as searches hand them over, become Python's."""
        params = self.get_params(deep=False)
        asked = {name: params[name] for name in params if name in SETTINGS}
        plain = {n: v.item() if isinstance(v, np.generic) else v for n, v in asked.items()}
        return ExperimentConfig(**plain)

    def _logits(self, X: Any) -> Tensor:
        """What the head says of some rows, (n, c)."""
        check_is_fitted(self)
        with _value_errors():
            if self.classifier_.backbone.is_given:
                validate_data(self, X, reset=False, skip_check_array=True)
                return self.classifier_.kept_logits(X)
            texts = self._rows(X)
            if bool(texts.pairs) and not self.head_.needs_pairs:
                what = "X has two texts a row, and this estimator was fitted on one."
                raise ArrayError(what, "Give one text a row, or fit it on pairs.")
            if getattr(X, "ndim", 0) == 2 and hasattr(self, "n_features_in_"):
                validate_data(self, X, reset=False, skip_check_array=True)
            return self.classifier_.kept_logits(texts.texts, texts.pairs)


@_with_settings
@dataclass(eq=False, repr=False, kw_only=True)
class HeadClassifier(ClassifierMixin, _setting_fields("classifier"), _HeadEstimator):
    """A head on a transformer as a classifier of scikit-learn, trained as `heads.train_grid` does.

    X is a list, an array or a column of texts; or of pairs of texts, as a list of tuples, an array
    (n, 2) or a data frame of two columns. Where the recipe is one on vectors, such as
    ``"vectors+linear"``, X is an array (n, w) of floats, whichever engine made them, and no base
    model is loaded. y holds a label a row, of any type that scikit-learn
    takes, or says with 0 and 1 which of several labels a row has, (n, labels).

    `fit` learns from every row that it is given, so it has no scores of its own. Inside, some of
    the rows are development rows for a while, drawn from the seed: settings are chosen on them, and
    where a row may have several labels from which logit each is given. Fitted on one part of some
    rows and scored on another it comes to what `heads.train_grid` comes to with that other part as
    its test set.

    What the base model makes of a text is kept, in memory and on disk: in a search over recipes,
    rows or settings it reads each different text once, for every recipe without learned reading,
    prompt, choice of layers or option of its pooling. Another layer, a prompt or such an option is
    read once more. Recipes that learn how to read (``attention``, ``@mix``, ``late=true``) or tune
    the base model (``tune=lora``) read texts anew in every fit, and in every answer.

    Args:
        recipe: The head, such as ``"mean+linear"`` or ``"cls+roberta"``.
        model: The base model: the bundled one, a Hub id, or (locally) a folder.

    Attributes:
        classes_: The labels, sorted, in the order of probabilities; of several labels a row their
            numbers, or the names of the columns of y.
        classifier_: The head on its base model, a `heads.Classifier`: to ask or to export.
        head_: The trained head alone; `head_.chosen` are the settings that its search chose.
        revision_: Which version of the base model it was fitted on.
        n_features_in_: How many columns X had, where it had any.
        feature_names_in_: Their names, where X was a data frame.
    """

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.classifier_tags.multi_label = True
        return tags

    def _corpus(self, texts: RowTexts, y: Any, groups: Sequence[str]) -> Corpus:
        if np.asarray(y).dtype.kind == "f":
            assert_all_finite(y, input_name="y")
        try:
            kind = type_of_target(y, input_name="y")
            is_several = kind.startswith("multilabel")
            return (self._several if is_several else self._single)(texts, y, groups)
        except TypeError as error:  # from putting them in order
            what = "The labels in y are of several types, or one is missing."
            raise ArrayError(what, "Make them all texts, with str(), or all numbers.") from error

    def _single(self, texts: RowTexts, y: Any, groups: Sequence[str]) -> Corpus:
        check_classification_targets(y)
        self.classes_, targets = np.unique(column_or_1d(y, warn=True), return_inverse=True)
        names, is_number = _class_names(self.classes_), self.classes_.dtype.kind in "iuf"
        if len(names) < 2:
            what = f"y needs at least 2 classes; found one class, '{names[0]:.40}'."
            raise ArrayError(what, "Add rows of another class.")
        return of_targets(
            NAME,
            texts,
            names,
            [(target,) for target in targets.tolist()],
            groups=groups,
            ordered=is_number and len(names) > 2,
        )

    def _several(self, texts: RowTexts, y: Any, groups: Sequence[str]) -> Corpus:
        """Rows with any number of labels: 1 in the columns of those that a row has."""
        table = np.asarray(y.toarray() if hasattr(y, "toarray") else y).astype(bool)
        if not table.any():
            raise ArrayError("No row of y has a label.", "Add rows that have some.")
        named = all(isinstance(name, str) for name in getattr(y, "columns", [0]))
        self.classes_ = np.array(y.columns) if named else np.arange(table.shape[1])
        rows = [tuple(np.flatnonzero(row).tolist()) for row in table]
        names = _class_names(self.classes_)
        return of_targets(NAME, texts, names, rows, MULTI_LABEL, groups)

    def predict(self, X: Any) -> np.ndarray:
        """The label of every row, as it stood in y; of several labels (n, labels) of 0 and 1.

        Several labels are given above thresholds that were found on the development rows, which
        need not be a probability of one half.
        """
        logits, problem = self._logits(X), self.head_.problem
        if problem.is_exclusive:
            return self.classes_[problem.answers(logits).numpy()]
        return problem.chosen(logits, self.head_.thresholds).numpy().astype(int)

    def predict_proba(self, X: Any) -> np.ndarray:
        """The probabilities of all labels, (n, labels), in the order of `classes_`."""
        logits = self._logits(X).double()
        return self.head_.problem.probabilities(logits).numpy()

    def predict_log_proba(self, X: Any) -> np.ndarray:
        """The logarithms of the same."""
        with np.errstate(divide="ignore"):
            return np.log(self.predict_proba(X))

    def decision_function(self, X: Any) -> np.ndarray:
        """The logits, (n, labels); of two classes how far that of the second lies above, (n,)."""
        logits, problem = self._logits(X).double(), self.head_.problem
        if not problem.is_exclusive or logits.shape[1] > 2:
            return logits.numpy()
        first, second = problem.competing(logits).unbind(dim=1)
        return (second - first).numpy()


@_with_settings
class HeadRegressor(RegressorMixin, _HeadEstimator):
    """A head on a transformer as a regressor of scikit-learn, trained as `heads.train_grid` does.

    X is as for `HeadClassifier`, such as pairs of texts, and y holds a number a row, such as how
    alike they are. What is said there of development rows and of texts that are read once holds
    here too.

    Args:
        recipe: The head, such as ``"mean+linear"`` or ``"mean+linear?pair=uv_diff"``.
        model: The base model: the bundled one, a Hub id, or (locally) a folder.

    Attributes:
        classifier_: The head on its base model, a `heads.Classifier`: to ask or to export.
        head_: The trained head alone; `head_.chosen` are the settings that its search chose.
        revision_: Which version of the base model it was fitted on.
        n_features_in_: How many columns X had, where it had any.
        feature_names_in_: Their names, where X was a data frame.
    """

    def _corpus(self, texts: RowTexts, y: Any, groups: Sequence[str]) -> Corpus:
        column = column_or_1d(y, warn=True)
        try:
            numbers = np.asarray(column, dtype=float)
        except (TypeError, ValueError) as error:
            what = "y holds something else than numbers."
            raise ArrayError(what, "Give a number a row; HeadClassifier is for classes.") from error
        assert_all_finite(numbers, input_name="y")
        check_numbers(numbers.tolist(), "y")
        given = texts.texts, numbers.tolist(), texts.pairs
        return numbered(NAME, *given, column="number", groups=groups)

    def predict(self, X: Any) -> np.ndarray:
        """The number of every row, (n,)."""
        return self._logits(X)[:, 0].double().numpy()


def _resolvable(recipe: object) -> Recipe | str:
    """Return the recipe if it is one that can be fitted; raise RecipeError otherwise."""
    if not isinstance(recipe, Recipe | str):
        what = f"A recipe is a text, not {recipe!r:.40}."
        raise RecipeError(what, "Write for example mean+linear.")
    if is_own(recipe):
        what = "The head that a checkpoint came with is not fitted."
        raise RecipeError(what, "Ask it with heads.load, or name a recipe such as mean+linear.")
    return recipe


def _class_names(classes: np.ndarray) -> list[str]:
    """Return the names of classes, under which a head is exported, and check their number."""
    names, most = _names(classes), current_limits().classes
    if any(map(is_blank, names)):
        raise ArrayError("A label in y is empty.", "Name it, or leave its rows out.")
    if len(names) > most:
        what = f"y has {len(names):,} classes; this place allows {most:,}."
        raise LimitError(what, "Keep fewer of them; HeadRegressor is for numbers.")
    return names


def _names(values: Any) -> list[str]:
    return [str(value) for value in np.asarray(values).ravel().tolist()]
