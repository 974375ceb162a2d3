"""How names, numbers and measures are written, and in which colours: the same wherever one looks.

Pages, report and terminal show the same measures in the same order, the score first. Pure, and
without torch, which the page starts before.
"""

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, Any, Literal

from heads.evaluation.metrics import METRICS, SCORES, Metric, MetricName, score_called
from heads.problem import MULTI_LABEL, PROBLEM_TYPES, REGRESSION, SINGLE_LABEL, ProblemType

if TYPE_CHECKING:
    from heads.evaluation.details import Measures
    from heads.evaluation.significance import Difference
    from heads.evaluation.statistics import Scores
    from heads.interpret.padding.report import PaddingFinding
    from heads.runs.cells import Cell

# One colour a recipe, each at least 3:1 on the light and the dark background; the first is that
# of what is recommended, and what is beside it is grey.
COLOURS = ("#4f6bed", "#d97706", "#0f9d8a", "#c8478f")
GREY = "#8b8b96"
GRID = "rgba(128,128,128,.18)"
ZERO = "rgba(128,128,128,.6)"


@lru_cache(maxsize=4096)
def escape(text: str) -> str:
    r"""A text as Plotly draws it to the letter: no tags, links, templates or mathematics.

    >>> escape("<b>5</b> %{y} $x$")
    '&lt;b>5&lt;/b> %\u200b{y} ＄x＄'
    """
    text = "".join(letter for letter in text if letter.isprintable())
    text = re.sub("[\\u202a-\\u202e\\u2066-\\u2069]", "", text)
    return (
        text.replace("&", "&amp;").replace("<", "&lt;").replace("%{", "%\u200b{").replace("$", "＄")
    )


def cut(text: str, most: int) -> str:
    """A text that is too long for its place, without its middle.

    >>> cut("mean?pair=uv_diff_prod", 15), cut("mean", 15)
    ('mean?pa…iff_prod', 'mean')
    """
    if len(text) <= most:
        return text
    return f"{text[: most // 2]}…{text[-(most - most // 2) :]}"


def counted(number: int, name: str) -> str:
    """A number with its noun.

    >>> counted(1, "class"), counted(12, "class"), counted(2000, "row")
    ('1 class', '12 classes', '2,000 rows')
    """
    ending = "" if number == 1 else "es" if name.endswith("s") else "s"
    return f"{number:,} {name}{ending}"


def count(number: int) -> str:
    """A number of parameters for the eye.

    >>> count(1155), count(148_995), count(22_713_216), count(3)
    ('1.2k', '149k', '22.7M', '3')
    """
    for size, sign in ((10**9, "B"), (10**6, "M"), (10**3, "k")):
        if number >= size:
            share = number / size
            return f"{share:.0f}{sign}" if share >= 100 else f"{share:.1f}{sign}"
    return str(number)


def signed(value: float, digits: int = 2) -> str:
    """A number with its sign.

    >>> signed(0.5), signed(-1.25, 1), signed(0.0), signed(-0.0001)
    ('+0.50', '−1.2', '0.00', '0.00')
    """
    told = f"{value:+.{digits}f}"
    return told[1:] if not float(told) else told.replace("-", "−")


def percent(share: float, digits: int = 1) -> str:
    """A share for the eye.

    >>> percent(0.70125), percent(1, 0)
    ('70.1 %', '100 %')
    """
    return f"{share:.{digits}%}".replace("%", " %")


def percent_or_blank(share: float | None) -> str:
    """Write a share for the eye, or nothing where it is not known."""
    return "" if share is None else percent(share)


def commonest(counts: Mapping[str, int], most: int) -> str:
    """List the commonest classes with their numbers, and how many others there are.

    >>> commonest({"a": 2, "b": 1_000, "c": 1, "d": 1}, 2)
    'b 1,000, a 2, 2 other classes'
    """
    told = [f"{name} {rows:,}" for name, rows in Counter(counts).most_common(most)]
    return ", ".join(told + [f"{len(counts) - most:,} other classes"] * (len(counts) > most))


def shares(values: Sequence[float], span: float = 1.0) -> list[str]:
    """Shares with as few decimals as one can see on an axis that long, and no false 0 or 100.

    >>> shares([0.69, 0.701]), shares([0.69, 0.701], span=0.1), shares([0.9996])
    (['69 %', '70 %'], ['69.0 %', '70.1 %'], ['99.96 %'])
    >>> shares([0.0002, 0.0004], span=0.0004)
    ['0.020 %', '0.040 %']
    """
    told = list[str]()
    for digits in range(5):
        told = [percent(value, digits) for value in values]
        ends = percent(0, digits), percent(1, digits)
        is_false = any(
            own in ends and value not in (0, 1) for own, value in zip(told, values, strict=True)
        )
        if not is_false and 10.0**-digits <= 100 * span / 15:
            break
    return told


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

    def of(self, cell: "Cell") -> float | None:
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
# Of the two cells by the names that they have in evaluation/predictions.py, which waits for torch.
BASELINES: Mapping[ProblemType, Mapping[str, str]] = {
    problem: {
        "majority": f"always the {usual}",
        "tfidf": f"TF-IDF + {solved} regression",
        "own": "own: the checkpoint's own head, not trained here",
    }
    for problem, usual, solved in (
        (SINGLE_LABEL, "commonest class", "logistic"),
        (MULTI_LABEL, "commonest labels", "logistic"),
        (REGRESSION, "mean", "ridge"),
    )
}
# The same in two words, as a line in a chart is called.
IN_WORDS: Mapping[str, str] = {
    "majority": "majority class",
    "tfidf": "bag of words",
    "own": "the checkpoint's own head",
}


def problem_of_cells(cells: "Sequence[Cell]") -> ProblemType:
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


def offered(cells: "Sequence[Cell]") -> tuple[Measure, ...]:
    """The measures that some of these cells have; without cells, those of one class a row."""
    known = (
        ranked(problem_of_cells(cells), cells[0].measures.metric)
        if cells
        else MEASURES[SINGLE_LABEL]
    )
    found = tuple(one for one in known if any(one.of(cell) is not None for cell in cells))
    return found or known


def titled(cell: "Cell") -> str:
    """A recipe, or a baseline in words."""
    return BASELINES[problem_of_cells([cell])].get(cell.name, cell.name)


def between(measures: "Measures", sign: str = "–") -> str:
    """The ends of the 95 % interval of a score, which stands before them with its unit."""
    return SCORES[measures.metric].between(measures.low, measures.high, sign)


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
    ]


def figures(cell: "Cell", measures: Sequence[Measure]) -> list[Any]:
    """A cell as plain values, as `headers` name them."""
    score, *rest = measures
    own, values = cell.measures, [(one, one.of(cell)) for one in rest if one.name != TIME]
    return [
        titled(cell),
        *(score.plain(value) for value in (own.score, own.low, own.high)),
        *(None if value is None else one.plain(value) for one, value in values),
        cell.learned,
        round(cell.seconds, 1),
        round(cell.latency_ms, 2) if cell.latency_ms is not None else None,
    ]


# --- Sentences of other rooms' findings.


def accuracy(scores: "Scores") -> str:
    """An accuracy, or another score, with its interval.

    >>> from heads.evaluation.statistics import Scores
    >>> accuracy(Scores(rows=100, accuracy=0.9, low=0.826, high=0.945, majority=0.5))
    '90.0 % (82.6 to 94.5)'
    >>> accuracy(Scores(rows=9, accuracy=0.5, low=-0.1, high=0.8, majority=0, metric="mcc"))
    '0.500 (−0.100 to 0.800)'
    """
    # A file may name a metric that this version does not know.
    metric = score_called(scores.metric) or SCORES["accuracy"]
    return f"{metric.told(scores.accuracy)} ({metric.between(scores.low, scores.high)})"


def noun_of(metric: str) -> str:
    """Name a metric within a sentence; a file may have one that this version does not know."""
    known = score_called(metric)
    return known.noun if known else "score"


def apart(difference: "Difference", metric: Metric) -> str:
    """Write how far two heads are apart, with the 95 % interval."""
    ends = f"{metric.signed(difference.low)} to {metric.signed(difference.high)}"
    return f"{metric.signed(difference.difference)} ({ends})"


def effect(finding: "PaddingFinding") -> str:
    """What a change of the input does to the logits, in a word or a number."""
    if finding.changes is None:
        return "not applicable"
    if finding.error:
        return "none: it stops"
    return f"change by {finding.difference:.2g}" if finding.changes else "stay the same"
