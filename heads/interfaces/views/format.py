"""What is measured for every problem type: how it is called, and how a number is written.

Pages, report and terminal show the same measures in the same order, the score first.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from heads.evaluation.details import Measures
from heads.evaluation.metrics import METRICS, SCORES, Metric, MetricName
from heads.evaluation.predictions import MAJORITY, TFIDF
from heads.interfaces.views.charts import percent
from heads.problem import MULTI_LABEL, PROBLEM_TYPES, REGRESSION, SINGLE_LABEL, ProblemType
from heads.runs.cells import Cell

TIME = "latency_ms"
# A share is said in percent, units are those of the labels.
Form = Literal["share", "number", "units", "ms"]
# The smallest difference that takes the whole scale of colours: two points never do.
LEAST: Mapping[Form, float] = {"share": 0.02, "number": 0.02, "units": 0.0, "ms": 0.01}


@dataclass(frozen=True, slots=True, kw_only=True)
class Measure:
    """One number of every cell.

    Attributes:
        name: As JSON calls it.
        title: What the user calls it.
        brief: The same above a narrow column; the title, if there is no shorter one.
        form: How it is written.
        high_is_good: Whether more is better.
    """

    name: str
    title: str
    brief: str = ""
    form: Form = "share"
    high_is_good: bool = True

    @property
    def label(self) -> str:
        """Its title, which says it where less is better."""
        return self.title if self.high_is_good else f"{self.title} (less is better)"

    def of(self, cell: Cell) -> float | None:
        """Its value for a cell; None where it is not known."""
        return cell.latency_ms if self.name == TIME else cell.measures.values.get(self.name)

    def shown(self, value: float) -> str:
        """A value for the eye."""
        if self.form == "share":
            return percent(value)
        if self.form == "ms":
            return f"{value:.2f} ms"
        if self.form == "units" and abs(value) >= 1000:
            return f"{value:,.0f}".replace("-", "−")
        form = ".4g" if self.form == "units" else ".3f"
        return f"{value:{form}}".replace("-", "−")

    def plain(self, value: float) -> float:
        """A value for a spreadsheet: shares in percent, rounded."""
        if self.form == "share":
            return round(100 * value, 1)
        return float(f"{value:.4g}") if self.form == "units" else round(value, 3)

    @property
    def heading(self) -> str:
        """What stands above a column of `shown` values."""
        return self.brief or self.title

    @property
    def column(self) -> str:
        """What stands above `plain` values."""
        return f"{self.heading} %" if self.form == "share" else self.heading


_LATENCY = Measure(name=TIME, title="Time added to a text", form="ms", high_is_good=False)
FORMS: Mapping[str, Form] = {"share": "share", "error": "units"}


def _measure(name: str, metric: Metric, problem: ProblemType | None = None) -> Measure:
    """A metric as a column; how many classes an answer is off has no unit."""
    title = metric.titles.get(problem, "") if problem else ""
    return Measure(
        name=name,
        title=title or metric.title,
        brief="" if title else metric.brief,
        form="number" if title else FORMS.get(metric.scale, "number"),
        high_is_good=metric.high_is_good,
    )


MEASURES: Mapping[ProblemType, tuple[Measure, ...]] = {
    problem: (
        *(_measure(name, one, problem) for name, one in METRICS.items() if problem in one.columns),
        _LATENCY,
    )
    for problem in PROBLEM_TYPES.values()
}
# Beside the score, where a terminal is wide.
BRIEF: Mapping[ProblemType, tuple[str, str]] = {
    SINGLE_LABEL: ("macro_f1", "log_loss"),
    MULTI_LABEL: ("macro_f1", "mean_average_precision"),
    REGRESSION: ("pearson", "mean_absolute_error"),
}
BASELINES: Mapping[ProblemType, Mapping[str, str]] = {
    SINGLE_LABEL: {MAJORITY: "always the commonest class", TFIDF: "TF-IDF + logistic regression"},
    MULTI_LABEL: {MAJORITY: "always the commonest labels", TFIDF: "TF-IDF + logistic regression"},
    REGRESSION: {MAJORITY: "always the mean", TFIDF: "TF-IDF + ridge regression"},
}


def problem_of_cells(cells: Sequence[Cell]) -> ProblemType:
    """The problem type of measured cells: each has one measure that is always there."""
    values = cells[0].measures.values if cells else {}
    return next((one for one in (MULTI_LABEL, REGRESSION) if one.metric in values), SINGLE_LABEL)


def ranked(problem: ProblemType, metric: MetricName) -> tuple[Measure, ...]:
    """The measures of a problem type, first the one that heads are ranked by."""
    known = {one.name: one for one in MEASURES[problem]}
    first = known.pop(metric, None) or of_metric(metric)
    return (first, *known.values())


def of_metric(metric: MetricName) -> Measure:
    """The measure that heads are ranked by, whatever the problem type."""
    return _measure(metric, SCORES[metric])


def offered(cells: Sequence[Cell]) -> tuple[Measure, ...]:
    """The measures that some of these cells have; without cells, those of one class a row."""
    known = (
        ranked(problem_of_cells(cells), cells[0].measures.metric)
        if cells
        else MEASURES[SINGLE_LABEL]
    )
    found = tuple(one for one in known if any(one.of(cell) is not None for cell in cells))
    return found or known


def titled(cell: Cell) -> str:
    """A recipe, or a baseline in words."""
    return BASELINES[problem_of_cells([cell])].get(cell.name, cell.name)


def between(measures: Measures, sign: str = "–") -> str:
    """The ends of the 95 % interval of a score, which stands before them with its unit."""
    return ends(measures.metric, measures.low, measures.high, sign)


def ends(metric: MetricName, low: float, high: float, sign: str = "–") -> str:
    """Two ends of an interval, in percent where the score is a share.

    >>> ends("accuracy", 0.8712, 0.9), ends("spearman", -0.1, 0.25, "to")
    ('87.1 – 90.0', '−0.100 to 0.250')
    """
    return SCORES[metric].between(low, high, sign)


def headers(measures: Sequence[Measure]) -> list[str]:
    """The columns of a table for a spreadsheet; `figures` are its rows."""
    score, *rest = measures
    unit = " %" * (score.form == "share")
    return [
        "Recipe",
        score.column,
        f"from{unit}",
        f"to{unit}",
        *(one.column for one in rest if one.name != TIME),
        "Parameters",
        "Seconds",
        "ms a text",
        "Against the best",
    ]


def figures(cell: Cell, measures: Sequence[Measure]) -> list[Any]:
    """A cell as plain values, as `headers` name them."""
    score, *rest = measures
    own, values = cell.measures, [(one, one.of(cell)) for one in rest if one.name != TIME]
    return [
        titled(cell),
        *(score.plain(value) for value in (own.score, own.low, own.high)),
        *(None if value is None else one.plain(value) for one, value in values),
        cell.parameters,
        round(cell.seconds, 1),
        round(cell.latency_ms, 2) if cell.latency_ms is not None else None,
        apart(cell),
    ]


def apart(cell: Cell) -> str:
    """How far a cell is from the best head, and whether that is more than chance."""
    difference = cell.to_best
    if difference is None:
        return ""
    name = SCORES[cell.measures.metric]
    gap = name.signed(difference.difference)
    if not difference.differs:
        return f"{gap}, within chance"
    return f"{gap} points" if name.is_share else gap
