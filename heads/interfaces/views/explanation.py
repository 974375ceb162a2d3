"""An explanation to fragments of HTML: a head's chain, what is read, every tensor. No Gradio."""

import math
from collections.abc import Iterable

from markupsafe import Markup

from heads.analysis.explanation import ORIGINS, Explanation, ExplanationStep, TensorFact
from heads.analysis.padding.report import PaddingReport
from heads.catalog.base_models import base_of
from heads.catalog.catalog import CatalogEntry, link, place
from heads.interfaces.views.comparison import count, counted, effect, joined

FROM_BASE = ("pretrained", "untrained")


def chain(explanation: Explanation) -> Markup:
    """The way from tokens to logits: a box a station, with shape and number of parameters."""
    boxes = (_box(step) for step in explanation.steps)
    return Markup('<ol class="chain" aria-label="From tokens to logits">{}</ol>').format(
        joined(boxes)
    )


def _box(step: ExplanationStep) -> Markup:
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
    trains = explanation.is_to_be_trained
    return Markup(
        "<p><code>{}</code> on {} with {}{}: <strong>{} parameters{}</strong>"
        "{} on top of the frozen base model.</p>"
    ).format(
        str(explanation.recipe),
        explanation.model,
        counted(explanation.classes, "class"),
        f" ({sample})" if trains else "",
        f"{explanation.parameters:,}",
        " to learn" if trains else " of its own",
        f", {begun:,} of which start from the base model's checkpoint," if begun and trains else "",
    )


def facts(explanation: Explanation) -> Markup:
    """The sentences, formulas, sources and notes of a recipe."""
    twins = explanation.twins
    notes = [*explanation.notes]
    if twins:
        names = ", ".join(twins)
        notes.append(f"Here the same layers under other names: {names}. Only chance differs.")
    if explanation.equals:
        notes.append(f"The class of Transformers that it equals: {explanation.equals}.")
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
            _breakable(fact.name), _shape(fact.shape), _size(fact.shape), _origin(fact)
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


def _origin(fact: TensorFact) -> Markup:
    source = Markup("<br><code>{}</code>").format(_breakable(fact.source)) if fact.source else ""
    return Markup("{}{}").format(ORIGINS[fact.origin], source)


def _size(shape: Iterable[str | int]) -> str:
    lengths = list(shape)
    numbers = [length for length in lengths if isinstance(length, int)]
    return f"{math.prod(numbers):,}" if len(numbers) == len(lengths) else "as many as rows"


def family(found: CatalogEntry) -> Markup:
    """One family of Transformers: its class and where it stands, its recipe, its tensors."""
    recipe = Markup("<code>{}</code>").format(found.recipe) if found.recipe else "no recipe here"
    base = base_of(found.model_type).why
    lines = [
        Markup("<strong>{}</strong> ({}) is {}: {}").format(
            found.called, found.model_type, recipe, found.says
        ),
        Markup('<a href="{}" target="_blank" rel="noopener">{}</a>').format(
            link(found.called), place(found.called)
        ),
        Markup('<span class="formula">logits = {}</span>').format(found.formula)
        if found.formula
        else Markup("{}").format(found.reason),
        Markup(", ").join(Markup("<code>{}</code>").format(name) for name in found.tensors),
        Markup("{}").format(base),
    ]
    shown = joined(Markup("<p>{}</p>").format(line) for line in lines if line)
    return Markup('<div class="facts verdict agree">{}</div>').format(shown)


def diagnosis(found: PaddingReport) -> Markup:
    """What padding does to a classifier: a row a change of its input."""
    rows = joined(
        Markup('<tr class="{}"><td>{}</td><td>{}</td><td>{}</td></tr>').format(
            "found" if item.changes else "fine",
            item.title,
            effect(item),
            joined(
                Markup("<p>{}</p>").format(line)
                for line in (item.why, item.advice, item.error and f"It says: {item.error}")
                if line
            ),
        )
        for item in found.findings
    )
    recipe = Markup("Its recipe is <code>{}</code>.").format(found.recipe)
    return Markup(
        '<div class="verdict {}" role="status"><p><strong>{}</strong> {}</p>{}</div>'
        '<div class="scroll" tabindex="0"><table class="tensors"><thead><tr>'
        "<th>The same text</th><th>Its logits</th><th>Why, and what to do</th></tr></thead>"
        "<tbody>{}</tbody></table></div>"
    ).format(
        "differ" if any(item.changes for item in found.findings) else "agree",
        found.verdict,
        recipe if found.recipe else found.no_recipe,
        joined(Markup('<p class="note">{}</p>').format(note) for note in found.notes),
        rows,
    )


def difference(sentence: str) -> Markup:
    """What sets two recipes apart."""
    return Markup('<div class="verdict agree"><p>{}</p></div>').format(sentence)
