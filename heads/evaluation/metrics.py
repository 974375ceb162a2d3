"""The metrics: what each is, for which problem types, what is good, how it is counted and said.

Those that are made of a part of each row can rank heads. One of them, of the user's choice, ranks
and decides everywhere: which settings are taken, who leaves a race, who leads, every interval,
every comparison, the verdict and the learning curve. In all of these more is better; errors are
negated, as in scikit-learn.

Legend: n rows, c classes.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal

from heads.errors import DataError
from heads.problem import MULTI_LABEL, REGRESSION, SINGLE_LABEL, ProblemType
from heads.settings import MetricName as MetricName

if TYPE_CHECKING:  # the page names metrics before torch is imported
    from torch import Tensor

Scale = Literal["share", "correlation", "explained", "error", "loss"]
# What rows of one kind said, what is true, and how many classes there are: each row's part of
# the score, (n,), which is their mean.
Parts = Callable[["Tensor", "Tensor", int], "Tensor"]
# The same with the groups of the rows: each row's part, (n,), as variances are made from them.
Evidence = Callable[["Tensor", "Tensor", int, "Tensor"], "Tensor"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Metric:
    """One metric.

    Attributes:
        noun: Within a sentence.
        sentence: What a head does, with `{}` for the score.
        parts: How each row's part of it is counted, for each problem type that it ranks heads of;
            none of what is only shown (`details` counts that).
        scale: What it is: a share from 0 to 1, said in percent; a correlation or an agreement
            from −1 to 1; an explained share, at most 1; an error in the units of the labels,
            negated where it ranks; or a loss, without a unit.
        needs_order: Whether it is for classes in an order only.
        evidence: The parts from which its variance is made, where they are others.
        high_is_good: Whether more is better; of what ranks it always is.
        brief: A shorter title, above a narrow column.
        columns: The problem types whose tables show it whatever ranks.
        titles: Other titles, by problem type.
    """

    title: str
    says: str
    problems: tuple[ProblemType, ...]
    noun: str = ""
    sentence: str = ""
    parts: Mapping[ProblemType, Parts] = field(default_factory=dict)
    scale: Scale = "share"
    needs_order: bool = False
    evidence: Evidence | None = None
    high_is_good: bool = True
    brief: str = ""
    columns: tuple[ProblemType, ...] = ()
    titles: Mapping[ProblemType, str] = field(default_factory=dict)

    @property
    def is_share(self) -> bool:
        """Whether it is a share, said in percent."""
        return self.scale == "share"

    @property
    def low(self) -> float:
        """The least that it can be."""
        return {"share": 0.0, "correlation": -1.0}.get(self.scale, float("-inf"))

    @property
    def high(self) -> float:
        """The most that it can be."""
        return 0.0 if self.scale == "error" else 1.0

    def told(self, score: float) -> str:
        """The score as a reader would say it.

        >>> SCORES["micro_f1"].told(0.61234), SCORES["spearman"].told(0.61234)
        ('61.2 %', '0.612')
        >>> SCORES["neg_mean_squared_error"].told(-1234.567)
        '−1235'
        """
        if self.is_share:
            return f"{100 * score:.1f} %"
        return self._plain(score)

    def _plain(self, score: float) -> str:
        told = f"{score:.4g}" if self.scale == "error" else f"{score:.3f}"
        return "0.000" if told == "-0.000" else told.replace("-", "−")

    def gap(self, difference: float) -> str:
        """A difference of two scores: hundredths where they are shares.

        >>> SCORES["accuracy"].gap(0.0084), SCORES["accuracy"].gap(-0.021)
        ('0.8 points', '-2.1 points')
        >>> SCORES["spearman"].gap(0.357), SCORES["neg_mean_absolute_error"].gap(0.0123456)
        ('0.357', '0.0123')
        """
        if self.is_share:
            return f"{100 * difference:.1f} points"
        return f"{difference:.3g}" if self.scale == "error" else f"{difference:.3f}"

    def signed(self, difference: float) -> str:
        """The same with its sign and without its unit.

        >>> SCORES["micro_f1"].signed(0.021), SCORES["spearman"].signed(-0.357)
        ('+2.1', '−0.357')
        """
        form = "+.3g" if self.scale == "error" else "+.3f"
        told = f"{100 * difference:+.1f}" if self.is_share else f"{difference:{form}}"
        return told.replace("-", "−")

    def between(self, low: float, high: float, sign: str = "to") -> str:
        """The ends of an interval, without their unit.

        >>> SCORES["accuracy"].between(0.01, 0.02), SCORES["spearman"].between(-0.3, 0.41, "–")
        ('1.0 to 2.0', '−0.300 – 0.410')
        """
        if self.is_share:
            return f"{100 * low:.1f} {sign} {100 * high:.1f}"
        return f"{self._plain(low)} {sign} {self._plain(high)}"

    def reached(self, score: float) -> str:
        """What a head with that score does, to follow its name.

        >>> SCORES["accuracy"].reached(0.931), SCORES["spearman"].reached(0.8124)
        ('answers 93.1 % right', 'reaches a Spearman correlation of 0.812')
        """
        return self.sentence.format(self.told(score))


def _ranking(
    noun: str,
    says: str,
    parts: Mapping[ProblemType, Parts],
    *,
    title: str = "",
    sentence: str = "",
    **facts: Any,
) -> Metric:
    """A metric that can rank heads."""
    return Metric(
        title=title or noun[0].upper() + noun[1:],
        says=says,
        problems=tuple(parts),
        noun=noun,
        sentence=sentence or f"reaches a {noun} of {{}}",
        parts=parts,
        **facts,
    )


def _statistic(name: str, n_arguments: int) -> Any:
    """Return a function of `statistics` by its name: each row's part of a score or evidence."""

    def compute(*arguments: Any) -> "Tensor":
        from heads.evaluation import statistics

        return getattr(statistics, name)(*arguments[:n_arguments])

    return compute


def _of_table(name: str) -> dict[ProblemType, Parts]:
    """Return each row's part of a score of the confusion table, by its name in `statistics`."""

    def compute(given: "Tensor", truth: "Tensor", classes: int) -> "Tensor":
        from heads.evaluation import statistics

        return statistics.of_table(given, truth, classes, score=getattr(statistics, name))

    return {SINGLE_LABEL: compute}


_ONE, _MANY, _VALUE = (SINGLE_LABEL,), (MULTI_LABEL,), (REGRESSION,)
METRICS: Mapping[str, Metric] = {
    "accuracy": _ranking(
        "accuracy",
        "The share of rows that are answered right.",
        {SINGLE_LABEL: lambda given, truth, _: (given == truth).double()},
        sentence="answers {} right",
        columns=_ONE,
    ),
    "balanced_accuracy": _ranking(
        "balanced accuracy",
        "The mean over classes of the share of their rows that are answered right (recall).",
        _of_table("balanced_accuracy"),
        evidence=_statistic("of_recalls", 4),
    ),
    "micro_f1": _ranking(
        "micro-F1",
        "F1 of all labels of all rows put together.",
        {MULTI_LABEL: _statistic("micro_f1_parts", 2)},
        columns=_MANY,
    ),
    "macro_f1": _ranking(
        "macro-F1",
        "The mean of every class's F1: small classes count as much as large ones.",
        {**_of_table("macro_f1"), MULTI_LABEL: _statistic("macro_f1_parts", 2)},
        evidence=_statistic("of_f1s", 4),
        columns=(*_ONE, *_MANY),
    ),
    "weighted_f1": _ranking(
        "weighted F1",
        "The mean of every class's F1, each by how many rows it has.",
        _of_table("weighted_f1"),
    ),
    "samples_f1": _ranking(
        "mean F1 of a row",
        "The mean F1 of each row's labels; 1 where it has none and gets none.",
        {MULTI_LABEL: _statistic("samples_f1_parts", 2)},
        title="F1 of a row",
        columns=_MANY,
    ),
    "mean_average_precision": Metric(
        title="Mean average precision",
        says="The mean over labels of the area under precision over recall, over all thresholds.",
        problems=_MANY,
        brief="mAP",
        columns=_MANY,
    ),
    "exact_match": _ranking(
        "share of rows with all labels right",
        "The share of rows with all labels right and none too many.",
        {MULTI_LABEL: lambda given, truth, _: (given == truth.bool()).all(dim=1).double()},
        title="All labels right",
        sentence="gets all labels of {} of the rows right",
        columns=_MANY,
    ),
    "hamming_loss": Metric(
        title="Hamming loss",
        says="The share of labels of rows that are wrong.",
        problems=_MANY,
        high_is_good=False,
        columns=_MANY,
    ),
    "mcc": _ranking(
        "Matthews correlation",
        "Matthews' correlation of answers and truth; 0 is chance, whatever the classes' shares.",
        _of_table("mcc"),
        title="Matthews' correlation",
        scale="correlation",
    ),
    "cohen_kappa": _ranking(
        "Cohen's kappa",
        "The agreement of answers and truth beyond that of chance.",
        _of_table("cohen_kappa"),
        scale="correlation",
    ),
    "log_loss": Metric(
        title="Log loss",
        says="The mean −ln of the probability that is given to the truth.",
        problems=(*_ONE, *_MANY),
        scale="loss",
        high_is_good=False,
        columns=(*_ONE, *_MANY),
    ),
    "calibration_error": Metric(
        title="Calibration error",
        says="How far confidence and the share of right answers lie apart, over 15 bins (ECE).",
        problems=(*_ONE, *_MANY),
        high_is_good=False,
        brief="ECE",
        columns=_ONE,
    ),
    "brier": Metric(
        title="Brier score",
        says="The mean of Σ (probability − truth)² over classes: 0 is best, 2 is worst.",
        problems=_ONE,
        scale="loss",
        high_is_good=False,
    ),
    "spearman": _ranking(
        "Spearman correlation",
        "The correlation of the ranks of predicted and true numbers.",
        {REGRESSION: _statistic("spearman_parts", 2)},
        title="Spearman's correlation",
        scale="correlation",
        brief="Spearman",
        columns=_VALUE,
    ),
    "pearson": _ranking(
        "Pearson correlation",
        "The linear correlation of predicted and true numbers; 0 where a side is constant.",
        {REGRESSION: _statistic("pearson_parts", 2)},
        title="Pearson's correlation",
        scale="correlation",
        brief="Pearson",
        columns=_VALUE,
    ),
    "mean_absolute_error": Metric(
        title="Mean absolute error",
        says="How far an answer is off: in units of the labels, or in classes that stand in order.",
        problems=(*_ONE, *_VALUE),
        scale="error",
        needs_order=True,
        high_is_good=False,
        brief="MAE",
        columns=(*_ONE, *_VALUE),
        titles={SINGLE_LABEL: "Classes off"},
    ),
    "mean_squared_error": Metric(
        title="Mean squared error",
        says="The mean square of how far an answer is off, in squared units of the labels.",
        problems=_VALUE,
        scale="error",
        high_is_good=False,
        brief="MSE",
        columns=_VALUE,
    ),
    "r2": _ranking(
        "R²",
        "The share of the variance explained: 0 is the mean of the tested rows; it can be below.",
        {REGRESSION: _statistic("r2_parts", 2)},
        sentence="reaches an R² of {}",
        scale="explained",
        columns=_VALUE,
    ),
    "neg_mean_squared_error": _ranking(
        "negative mean squared error",
        "The mean squared error, negated so that more is better.",
        {REGRESSION: lambda given, truth, _: -(given.double() - truth.double()).square()},
        scale="error",
    ),
    "neg_mean_absolute_error": _ranking(
        "negative mean absolute error",
        "The mean absolute error, negated so that more is better.",
        {REGRESSION: lambda given, truth, _: -(given.double() - truth.double()).abs()},
        scale="error",
    ),
    "quadratic_kappa": _ranking(
        "quadratic kappa",
        "Cohen's kappa of classes in an order, where being far off counts squared.",
        _of_table("quadratic_kappa"),
        scale="correlation",
        needs_order=True,
        columns=_ONE,
    ),
}
# Those by which heads can be ranked; that of a problem type is its `metric`.
SCORES: Mapping[MetricName, Metric] = {name: one for name, one in METRICS.items() if one.parts}  # pyright: ignore[reportAssignmentType]
AUTO = "auto"


def metrics_of(problem: ProblemType, *, ordered: bool = False) -> tuple[MetricName, ...]:
    """The metrics by which heads can be ranked for a problem type; the first is the default.

    >>> metrics_of(MULTI_LABEL)
    ('micro_f1', 'macro_f1', 'samples_f1', 'exact_match')
    """
    fits: list[MetricName] = [
        name
        for name, one in SCORES.items()
        if problem in one.parts and (ordered or not one.needs_order)
    ]
    fits.sort(key=lambda name: name != problem.metric)
    return tuple(fits)


def score_called(name: str) -> Metric | None:
    """The metric that a file names; None where this version has none of that name."""
    return next((score for known, score in SCORES.items() if known == name), None)


def metric_of(asked: str, problem: ProblemType, *, ordered: bool = False) -> MetricName:
    """Return the named metric, or the problem type's own; raise DataError if it does not fit."""
    known = metrics_of(problem, ordered=ordered)
    if asked == AUTO:
        return known[0]
    for name in known:
        if name == asked:
            return name
    labels, needs = problem.labels, metrics_of(problem, ordered=True)
    labels += " in no order" * (asked in needs)
    what = f"The metric {asked} is not for labels that are {labels}."
    raise DataError(what, f"Take one of {', '.join(known)}.")
