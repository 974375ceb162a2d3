"""The metrics by which heads can be ranked, for every problem type: how each is counted and said.

One of them, of the user's choice, ranks and decides everywhere: which settings are taken, who
leaves a race, who leads, every interval, every comparison, the verdict and the learning curve.
In all of them more is better; errors are negated, as in scikit-learn.

Legend: n rows, c classes.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from heads.errors import DataError
from heads.problem import MULTI_LABEL, REGRESSION, SINGLE_LABEL, ProblemType

if TYPE_CHECKING:  # the page names metrics before torch is imported
    from torch import Tensor

MetricName = Literal[
    "accuracy", "balanced_accuracy", "macro_f1", "weighted_f1", "mcc", "cohen_kappa",
    "quadratic_kappa", "micro_f1", "samples_f1", "exact_match", "spearman", "pearson", "r2",
    "neg_mean_squared_error", "neg_mean_absolute_error",
]  # fmt: skip
Scale = Literal["share", "correlation", "explained", "error"]
# What rows of one kind said, what is true, and how many classes there are: each row's part of
# the score, (n,), which is their mean.
Parts = Callable[["Tensor", "Tensor", int], "Tensor"]
# The same with the groups of the rows: each row's part, (n,), as variances are made from them.
Evidence = Callable[["Tensor", "Tensor", int, "Tensor"], "Tensor"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Metric:
    """One metric.

    Attributes:
        title: As the head of a column.
        noun: Within a sentence.
        sentence: What a head does, with `{}` for the score.
        parts: How it is counted, for each problem type that it is for.
        scale: What it is: a share from 0 to 1, said in percent; a correlation or an agreement
            from −1 to 1; an explained share, at most 1; or a negated error in the units of the
            labels, at most 0.
        needs_order: Whether it is for classes in an order only.
        evidence: The parts from which its variance is made, where they are others.
    """

    title: str
    noun: str
    sentence: str
    parts: Mapping[ProblemType, Parts]
    scale: Scale = "share"
    needs_order: bool = False
    evidence: Evidence | None = None

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


def _reaching(
    noun: str,
    *,
    parts: Mapping[ProblemType, Parts],
    title: str = "",
    a: str = "a",
    scale: Scale = "share",
    needs_order: bool = False,
    evidence: Evidence | None = None,
) -> Metric:
    return Metric(
        title=title or noun[0].upper() + noun[1:],
        noun=noun,
        sentence=f"reaches {a} {noun} of {{}}",
        parts=parts,
        scale=scale,
        needs_order=needs_order,
        evidence=evidence,
    )


def _of_table(name: str) -> dict[ProblemType, Parts]:
    """A score of the confusion table, by its name in `confusion`."""

    def parts(given: "Tensor", truth: "Tensor", classes: int) -> "Tensor":
        from heads.evaluation import statistics

        score = getattr(statistics, name)
        return statistics.of_table(given, truth, classes, score=score)

    return {SINGLE_LABEL: parts}


def _of_rows(name: str) -> Parts:
    """Each row's influence on a score, by its name in `influence`."""

    def parts(given: "Tensor", truth: "Tensor", classes: int) -> "Tensor":
        from heads.evaluation import statistics

        return getattr(statistics, name)(given, truth)

    return parts


def _of_classes(name: str) -> Evidence:
    """The evidence of a score of classes that all count alike, by its name in `evidence`."""

    def found(given: "Tensor", truth: "Tensor", classes: int, groups: "Tensor") -> "Tensor":
        from heads.evaluation import statistics as those_of

        return getattr(those_of, name)(given, truth, classes, groups)

    return found


def _plain(parts: Callable[["Tensor", "Tensor"], "Tensor"]) -> Parts:
    return lambda given, truth, _: parts(given, truth)


def _hits(given: "Tensor", truth: "Tensor") -> "Tensor":
    return (given == truth).double()


def _all_right(given: "Tensor", truth: "Tensor") -> "Tensor":
    return (given == truth.bool()).all(dim=1).double()


def _squared(given: "Tensor", truth: "Tensor") -> "Tensor":
    return -(given.double() - truth.double()).square()


def _absolute(given: "Tensor", truth: "Tensor") -> "Tensor":
    return -(given.double() - truth.double()).abs()


# The first of a kind is its default.
SCORES: Mapping[MetricName, Metric] = {
    "accuracy": Metric(
        title="Accuracy",
        noun="accuracy",
        sentence="answers {} right",
        parts={SINGLE_LABEL: _plain(_hits)},
    ),
    "balanced_accuracy": _reaching(
        "balanced accuracy",
        parts=_of_table("balanced_accuracy"),
        evidence=_of_classes("of_recalls"),
    ),
    "macro_f1": _reaching(
        "macro-F1",
        parts={**_of_table("macro_f1"), MULTI_LABEL: _of_rows("macro_f1_parts")},
        evidence=_of_classes("of_f1s"),
    ),
    "weighted_f1": _reaching("weighted F1", parts=_of_table("weighted_f1")),
    "mcc": _reaching(
        "Matthews correlation",
        title="Matthews' correlation",
        parts=_of_table("mcc"),
        scale="correlation",
    ),
    "cohen_kappa": _reaching("Cohen's kappa", parts=_of_table("cohen_kappa"), scale="correlation"),
    "quadratic_kappa": _reaching(
        "quadratic kappa",
        parts=_of_table("quadratic_kappa"),
        scale="correlation",
        needs_order=True,
    ),
    "micro_f1": _reaching("micro-F1", parts={MULTI_LABEL: _of_rows("micro_f1_parts")}),
    "samples_f1": _reaching(
        "mean F1 of a row", title="F1 of a row", parts={MULTI_LABEL: _of_rows("samples_f1_parts")}
    ),
    "exact_match": Metric(
        title="All labels right",
        noun="share of rows with all labels right",
        sentence="gets all labels of {} of the rows right",
        parts={MULTI_LABEL: _plain(_all_right)},
    ),
    "spearman": _reaching(
        "Spearman correlation",
        title="Spearman's correlation",
        parts={REGRESSION: _of_rows("spearman_parts")},
        scale="correlation",
    ),
    "pearson": _reaching(
        "Pearson correlation",
        title="Pearson's correlation",
        parts={REGRESSION: _of_rows("pearson_parts")},
        scale="correlation",
    ),
    "r2": _reaching("R²", a="an", parts={REGRESSION: _of_rows("r2_parts")}, scale="explained"),
    "neg_mean_squared_error": _reaching(
        "negative mean squared error", parts={REGRESSION: _plain(_squared)}, scale="error"
    ),
    "neg_mean_absolute_error": _reaching(
        "negative mean absolute error", parts={REGRESSION: _plain(_absolute)}, scale="error"
    ),
}
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


def metric_of(asked: str, problem: ProblemType, *, ordered: bool = False) -> MetricName:
    """The metric that was asked for, or the problem type's own where none was.

    Raises:
        DataError: It is none for labels of that kind.
    """
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
