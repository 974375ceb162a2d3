"""Values to fragments of HTML: the verdict, the cards, a head's chain, what is read.

Every value passes `Markup.format`, which escapes it. Pure, no Gradio.
"""

import math
from collections.abc import Iterable

from markupsafe import Markup

from heads.interfaces.figures import COLOURS
from heads.parts.samples import SAMPLES
from heads.pipeline.comparison import Comparison, spoken
from heads.pipeline.explanation import ORIGINS, Explanation, Step
from heads.pipeline.metrics import Scores
from heads.pipeline.training import Progress

FROM_BASE = ("pretrained", "untrained")


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


def accuracy(scores: Scores) -> str:
    """An accuracy with its interval.

    >>> accuracy(Scores(rows=100, accuracy=0.9, low=0.826, high=0.945, majority=0.5))
    '90.0 % (82.6 to 94.5)'
    """
    return f"{scores.accuracy:.1%} ({scores.low * 100:.1f} to {scores.high * 100:.1f})".replace(
        "%", " %"
    )


def joined(parts: Iterable[Markup]) -> Markup:
    """Fragments one after the other."""
    return Markup("").join(parts)


def progress(event: Progress) -> Markup:
    """What is under way, with a bar."""
    return Markup(
        '<div class="verdict busy" role="status">{}…'
        '<progress max="1" value="{:.3f}" aria-label="Progress"></progress></div>'
    ).format(event.says, event.share)


def failure(what: str) -> Markup:
    """What went wrong, in the place of the verdict."""
    return Markup('<div class="verdict failed" role="alert">{}</div>').format(what)


def verdict(comparison: Comparison) -> Markup:
    """Who agrees on what, what the heads were trained on, and what one should know."""
    lead, _, rest = comparison.verdict.partition(". ")
    first = comparison.predictions[0]
    sample = SAMPLES[comparison.sample]
    texts = "pairs of sentences" if sample.pair else "sentences"
    trained = (
        f"Trained on {first.rows} {texts} of the sample “{sample.title}” and scored on "
        f"{first.scores.rows} others, so treat the numbers as a demonstration."
    )
    return Markup(
        '<div class="verdict {}" role="status"><p class="quiet">“{}”</p>'
        '<p><strong>{}</strong> {} <span class="quiet">{}</span></p>{}</div>'
    ).format(
        "agree" if comparison.is_unanimous and not comparison.notes else "differ",
        " ↔ ".join(_short(text) for text in (comparison.text, comparison.pair) if text),
        lead if lead.endswith(".") else f"{lead}.",
        rest,
        trained,
        joined(Markup('<p class="note">{}</p>').format(note) for note in comparison.notes),
    )


def _short(text: str) -> str:
    return text if len(text) <= 160 else f"{text[:160].rstrip()}…"


def cards(comparison: Comparison) -> Markup:
    """One card a recipe: answer, probability, margin, size, accuracy on held-out rows."""
    fragments = []
    for prediction, colour in zip(comparison.predictions, COLOURS, strict=False):
        best = max(prediction.probabilities)
        shown = "" if comparison.many else f"{best:.0%}".replace("%", " %")
        fragments.append(
            Markup(
                '<article class="card" style="--mark:{}"><h4>{}</h4>'
                '<p class="answer"><strong>{}</strong> {}</p>'
                "<p>margin {:.0f} % · {} parameters</p>"
                '<p title="On {} held-out rows, with the 95 % interval">{} {}</p>'
                "<p>always the commonest answer: {}</p></article>"
            ).format(
                colour,
                str(prediction.recipe),
                spoken(prediction.answer),
                shown,
                prediction.margin * 100,
                count(prediction.parameters),
                prediction.scores.rows,
                "all labels right" if comparison.many else "held-out accuracy",
                accuracy(prediction.scores),
                f"{prediction.scores.majority:.0%}".replace("%", " %"),
            )
        )
    return Markup('<div class="cards">{}</div>').format(joined(fragments))


def chain(explanation: Explanation) -> Markup:
    """The way from tokens to logits: a box a station, with shape and number of parameters."""
    boxes = (_box(step) for step in explanation.steps)
    return Markup('<ol class="chain" aria-label="From tokens to logits">{}</ol>').format(
        joined(boxes)
    )


def _box(step: Step) -> Markup:
    origins = sorted({fact.origin for fact in step.tensors})
    badges = joined(Markup('<span class="origin {}">{}</span>').format(o, o) for o in origins)
    if step.kind == "base":
        badges = Markup('<span class="origin pretrained">pretrained</span>')
    size = f"{count(step.parameters)} parameters" if step.parameters else ""
    return Markup('<li class="{}"><b>{}</b><span>{}</span><code>{}</code><i>{}</i>{}</li>').format(
        step.kind, step.name, step.does, _shape(step.shape), size, badges
    )


def _breakable(name: str) -> Markup:
    """A dotted name that may break after its dots."""
    return Markup(".<wbr>").join(name.split("."))


def _shape(shape: Iterable[str | int]) -> str:
    return " × ".join(map(str, shape))


def reading(explanation: Explanation) -> Markup:
    """The user's own sentence, each token shaded by the share of the vector that it gave."""
    most = max((share for _, share in explanation.reads), default=1) or 1
    tokens = joined(
        Markup('<span class="read" style="--share:{:.3f}"><b>{}</b><i>{}</i></span>').format(
            share / most, word, f"{share:.0%}".replace("%", " %") if share >= 0.005 else "–"
        )
        for word, share in explanation.reads
    )
    return Markup('<div class="reading">{}</div>').format(tokens)


def headline(explanation: Explanation, sample: str) -> Markup:
    """What is being explained, in a line."""
    begun = sum(
        step.parameters
        for step in explanation.steps
        if step.kind == "head" and any(f.origin in FROM_BASE for f in step.tensors)
    )
    return Markup(
        "<p><code>{}</code> on {} with {} classes ({}): <strong>{} parameters to learn</strong>"
        "{} on top of the frozen base model.</p>"
    ).format(
        str(explanation.recipe),
        explanation.model,
        explanation.classes,
        sample,
        f"{explanation.parameters:,}",
        f", {begun:,} of which start from the base model's checkpoint," if begun else "",
    )


def facts(explanation: Explanation) -> Markup:
    """The sentences, formulas, sources and notes of a recipe."""
    twins = explanation.twins
    notes = [*explanation.notes]
    if twins:
        names = ", ".join(twins)
        notes.append(f"Here the same layers under other names: {names}. Only chance differs.")
    return Markup(
        '<div class="facts">{}<p class="formula">{}</p>{}<p class="quiet">{}</p></div>'
    ).format(
        joined(Markup("<p>{}</p>").format(says) for says in explanation.says),
        Markup("<br>").join(explanation.formula),
        joined(Markup('<p class="note">{}</p>').format(note) for note in notes),
        Markup("<br>").join(explanation.sources),
    )


def tensors(explanation: Explanation) -> Markup:
    """Every tensor of the recipe: name, shape, number, where it comes from."""
    rows = joined(
        Markup("<tr><td><code>{}</code></td><td>{}</td><td>{}</td><td>{}</td></tr>").format(
            _breakable(fact.name), _shape(fact.shape), _size(fact.shape), ORIGINS[fact.origin]
        )
        for step in explanation.steps
        for fact in step.tensors
    )
    if not rows:
        return Markup("<p>Nothing here is learned.</p>")
    return Markup(
        '<div class="scroll" tabindex="0"><table class="tensors"><thead><tr>'
        "<th>Tensor</th><th>Shape</th><th>Numbers</th><th>Where from</th></tr></thead>"
        "<tbody>{}</tbody></table></div>"
    ).format(rows)


def _size(shape: Iterable[str | int]) -> str:
    lengths = list(shape)
    numbers = [length for length in lengths if isinstance(length, int)]
    return f"{math.prod(numbers):,}" if len(numbers) == len(lengths) else "as many as rows"


def difference(sentence: str) -> Markup:
    """What sets two recipes apart."""
    return Markup('<div class="verdict agree"><p>{}</p></div>').format(sentence)


def legend(lines: Iterable[tuple[str, str]]) -> Markup:
    """One line a recipe: its name and its sentence."""
    rows = (Markup("<dt>{}</dt><dd>{}</dd>").format(name, says) for name, says in lines)
    return Markup('<dl class="legend">{}</dl>').format(joined(rows))


def chart_name(recipe: str) -> Markup:
    """The heading of a small chart."""
    return Markup('<h4 class="chart-name">{}</h4>').format(recipe)
