"""Values to fragments of HTML: the verdict, the cards, progress, failures.

Every value passes `Markup.format`, which escapes it. Pure, no Gradio.
"""

import re
from collections.abc import Iterable, Sequence
from functools import lru_cache
from typing import TYPE_CHECKING, Any

from markupsafe import Markup

from heads.data.samples import SAMPLES
from heads.problem import ONE_VERSUS_REST

if TYPE_CHECKING:
    from heads.analysis.comparison import Comparison
    from heads.analysis.padding.report import PaddingFinding
    from heads.analysis.selection import HeadOutput
    from heads.classifier.prediction import Prediction
    from heads.evaluation.statistics import Scores
    from heads.events import Progress

# --- Values to Plotly figures, as the plain dictionaries that Plotly draws. Pure, no Gradio.

# One colour a recipe, each at least 3:1 on the light and the dark background.
COLOURS = ("#4f6bed", "#d97706", "#0f9d8a", "#c8478f")
LOSER = "rgba(128,128,140,.35)"
GRID = "rgba(128,128,128,.18)"
ZERO = "rgba(128,128,128,.6)"
BAR, FRAME = 32, 44  # height of one class and of all else, in pixels
Figure = dict[str, Any]
AXIS: Figure = {
    "fixedrange": True,
    "automargin": True,
    "gridcolor": GRID,
    "zeroline": True,
    "zerolinecolor": ZERO,
}
SHARES: Figure = {"tickvals": [0, 0.5, 1], "ticktext": ["0 %", "50 %", "100 %"]}
FRAMELESS: Figure = {
    "margin": {"l": 4, "r": 12, "t": 6, "b": 4},
    "showlegend": False,
    "bargap": 0.35,
    "paper_bgcolor": "rgba(0,0,0,0)",
    "plot_bgcolor": "rgba(0,0,0,0)",
    "font": {"size": 13, "color": "#7a7a85"},
}


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


def signed(value: float, digits: int = 2) -> str:
    """A number with its sign.

    >>> signed(0.5), signed(-1.25, 1), signed(0.0), signed(-0.0001)
    ('+0.50', '−1.2', '0.00', '0.00')
    """
    told = f"{value:+.{digits}f}"
    return told[1:] if not float(told) else told.replace("-", "−")


def bars(
    classes: Sequence[str],
    values: Sequence[float],
    *,
    answer: Sequence[str],
    colour: str,
    span: tuple[float, float],
    percent: bool,
) -> Figure:
    """Draws one bar a class, the answer in colour, every number printed.

    Args:
        span: The range of the horizontal axis, the same for all recipes.
        percent: Whether values are probabilities.
    """
    shown = [f"{100 * value:.0f} %" if percent else signed(value, 1) for value in values]
    trace = {
        "type": "bar",
        "orientation": "h",
        "x": list(values),
        "y": list(range(len(classes))),
        "text": shown,
        "textposition": "outside",
        "cliponaxis": False,
        "hoverinfo": "skip",
        "marker": {
            "color": [colour if name in answer else LOSER for name in classes],
            "cornerradius": 3,
        },
    }
    names = {
        "tickvals": list(range(len(classes))),
        "ticktext": [escape(name) for name in classes],
        "autorange": "reversed",
        "showgrid": False,
        "zeroline": False,
        "ticklabelstandoff": 6,
    }
    layout = {
        "height": BAR * len(classes) + FRAME,
        "minreducedheight": BAR,  # else the axis of a single bar has no room
        "xaxis": AXIS | {"range": list(span)} | (SHARES if percent else {"nticks": 4}),
        "yaxis": AXIS | names,
    }
    return {"data": [trace], "layout": FRAMELESS | layout}


def probability_span() -> tuple[float, float]:
    """Room for 0 to 1 and for the number that stands behind the bar."""
    return 0.0, 1.3


def logit_span(logits: Sequence[Sequence[float]]) -> tuple[float, float]:
    """One range for the logits of all recipes, with room for the numbers at both ends.

    >>> logit_span([[-1.0, 3.0], [0.5, 1.0]])
    (-2.2, 4.2)
    """
    least = min(0.0, *(value for row in logits for value in row))
    most = max(0.0, *(value for row in logits for value in row))
    room = max(most - least, 1e-3) * 0.3
    return least - (room if least < 0 else 0), most + (room if most > 0 else 0)


# How scores are written that are no shares. (What knows all metrics waits for torch.)
PLAIN = {
    **dict.fromkeys(("mcc", "cohen_kappa", "quadratic_kappa", "spearman", "pearson", "r2"), ".2f"),
    **dict.fromkeys(("neg_mean_squared_error", "neg_mean_absolute_error"), ".4g"),
}


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


def counted(number: int, name: str) -> str:
    """A number of things.

    >>> counted(1, "class"), counted(1200, "class"), counted(2, "head")
    ('1 class', '1,200 classes', '2 heads')
    """
    ending = "" if number == 1 else "es" if name.endswith("s") else "s"
    return f"{number:,} {name}{ending}"


def accuracy(scores: "Scores") -> str:
    """An accuracy, or another score, with its interval.

    >>> from heads.evaluation.statistics import Scores
    >>> accuracy(Scores(rows=100, accuracy=0.9, low=0.826, high=0.945, majority=0.5))
    '90.0 % (82.6 to 94.5)'
    """
    if (form := PLAIN.get(scores.metric)) is not None:
        ends = f"{scores.low:{form}} to {scores.high:{form}}"
        return f"{scores.accuracy:{form}} ({ends})".replace("-", "−")
    return f"{scores.accuracy:.1%} ({scores.low * 100:.1f} to {scores.high * 100:.1f})".replace(
        "%", " %"
    )


def effect(finding: "PaddingFinding") -> str:
    """What a change of the input does to the logits, in a word or a number."""
    if finding.changes is None:
        return "not applicable"
    if finding.error:
        return "none: it stops"
    return f"change by {finding.difference:.2g}" if finding.changes else "stay the same"


def joined(parts: Iterable[Markup]) -> Markup:
    """Fragments one after the other."""
    return Markup("").join(parts)


def sayers(found: "Sequence[HeadOutput]") -> Markup:
    """Who answers what, in a sentence."""
    found_by: dict[str, list[str]] = {}
    for one in found:
        found_by.setdefault(one.spoken, []).append(one.name)
    verb = "say" if any(one.problem.has_classes for one in found) else "give"
    told = "; ".join(
        f"{', '.join(names)} {verb}{'s' * (len(names) == 1)} {answer}"
        for answer, names in found_by.items()
    )
    state = "agree" if len(found_by) == 1 else "differ"
    return Markup('<div class="verdict {}" role="status"><p><strong>{}.</strong></p></div>').format(
        state, told
    )


def notes(sentences: Iterable[str]) -> Markup:
    """What one should know of the text, each sentence once."""
    each = Markup('<p class="note">{}</p>')
    return joined(each.format(says) for says in dict.fromkeys(sentences))


def progress(event: "Progress") -> Markup:
    """What is under way, with a bar."""
    return Markup(
        '<div class="verdict busy" role="status">{}…'
        '<progress max="1" value="{:.3f}" aria-label="Progress"></progress></div>'
    ).format(event.says, event.share)


def busy(says: str) -> Markup:
    """What is under way, where nobody knows how far it is."""
    return Markup('<div class="verdict busy" role="status">{}…</div>').format(says)


def exported(lines: Iterable[str]) -> Markup:
    """What was written, and what one should know of it."""
    first, *rest = lines
    told = joined(Markup("<p>{}</p>").format(line) for line in rest)
    return Markup(
        '<div class="verdict agree" role="status"><p><strong>{}</strong></p>{}</div>'
    ).format(first, told)


def failure(what: str) -> Markup:
    """What went wrong, in the place of the verdict."""
    return Markup('<div class="verdict failed" role="alert">{}</div>').format(what)


def verdict(comparison: "Comparison") -> Markup:
    """Who agrees on what, what the heads were trained on, and what one should know."""
    lead, _, rest = comparison.verdict.partition(". ")
    return Markup(
        '<div class="verdict {}" role="status"><p class="quiet">“{}”</p>'
        '<p><strong>{}</strong> {} <span class="quiet">{}</span></p>{}</div>'
    ).format(
        "agree" if comparison.is_unanimous and not comparison.notes else "differ",
        " ↔ ".join(_short(text) for text in (comparison.text, comparison.pair) if text),
        lead if lead.endswith(".") else f"{lead}.",
        rest,
        _trained(comparison),
        joined(Markup('<p class="note">{}</p>').format(note) for note in comparison.notes),
    )


def _trained(comparison: "Comparison") -> str:
    first = next((p for p in comparison.predictions if p.scores), None)
    if first is None or first.scores is None:
        return ""
    sample = SAMPLES[comparison.sample]
    texts = "pairs of sentences" if sample.pair else "sentences"
    return (
        f"Trained on {first.rows} {texts} of the sample “{sample.title}” and scored on "
        f"{first.scores.rows} others, so treat the numbers as a demonstration."
    )


def _short(text: str) -> str:
    return text if len(text) <= 160 else f"{text[:160].rstrip()}…"


def cards(comparison: "Comparison") -> Markup:
    """One card a recipe: answer, probability, margin, size, accuracy on held-out rows."""
    pairs = zip(comparison.predictions, COLOURS, strict=False)
    return Markup('<div class="cards">{}</div>').format(joined(_card(*pair) for pair in pairs))


def _card(prediction: "Prediction", colour: str) -> Markup:
    from heads.analysis.comparison import said

    is_one = prediction.problem.is_exclusive
    shown = f"{max(prediction.probabilities):.0%}".replace("%", " %") if is_one else ""
    margin = f"margin {prediction.margin * 100:.0f} % · " if prediction.problem.has_classes else ""
    return Markup(
        '<article class="card" style="--mark:{}"><h4>{}</h4>'
        '<p class="answer"><strong>{}</strong> {}</p>{}<p>{}{} parameters</p>{}</article>'
    ).format(
        colour,
        prediction.name,
        said(prediction),
        shown,
        _vote(prediction),
        margin,
        count(prediction.parameters),
        _scored(prediction),
    )


def _vote(prediction: "Prediction") -> Markup:
    """That a head is random; from where labels are given; what one-versus-rest is asked."""
    if prediction.new:
        return Markup('<p class="random">This head is random.</p>')
    if prediction.thresholds and prediction.scores:  # of heads trained here
        pairs = zip(prediction.classes, prediction.thresholds, strict=True)
        told = ", ".join(f"{name} above {cut:.0%}".replace("%", " %") for name, cut in pairs)
        return Markup('<p title="{}">each label above its own threshold</p>').format(told)
    if prediction.problem is not ONE_VERSUS_REST:
        return Markup("")
    yes = [n for n, logit in zip(prediction.classes, prediction.logits, strict=True) if logit > 0]
    told = f"{len(yes)} of {len(prediction.classes)} questions say yes"
    return Markup('<p title="One yes-or-no question a class">{}{}</p>').format(
        told, f": {', '.join(yes)}" * bool(yes)
    )


def _scored(prediction: "Prediction") -> Markup:
    if prediction.scores is None:
        came = "came with the checkpoint, trained by its authors"
        return Markup("<p>{}</p>").format("the checkpoint has none" if prediction.new else came)
    scores = prediction.scores
    held_out = '<p title="On {} held-out rows, with the 95 % interval">{} {}</p>'
    if scores.metric != "accuracy":
        from heads.evaluation.metrics import score_called

        score = score_called(scores.metric)
        return Markup(held_out).format(
            scores.rows, score.title if score else "score", accuracy(scores)
        )
    return Markup(held_out + "<p>always the commonest answer: {}</p>").format(
        scores.rows,
        "held-out accuracy" if prediction.problem.is_exclusive else "all labels right",
        accuracy(scores),
        f"{scores.majority:.0%}".replace("%", " %"),
    )


def legend(lines: Iterable[tuple[str, str]]) -> Markup:
    """One line a recipe: its name and its sentence."""
    rows = (Markup("<dt>{}</dt><dd>{}</dd>").format(name, says) for name, says in lines)
    return Markup('<dl class="legend">{}</dl>').format(joined(rows))


def chart_name(recipe: str, *, is_random: bool = False) -> Markup:
    """The heading of a small chart; no number of a random head stands without that word."""
    mark = Markup(' <span class="random">this head is random</span>') if is_random else ""
    return Markup('<h4 class="chart-name">{}{}</h4>').format(recipe, mark)
