"""How a head is made: its chain, formula, tensors; families and padding. HTML, no Gradio."""

import math
from collections.abc import Iterable

from markupsafe import Markup

from heads.catalog.base_models import base_of
from heads.catalog.catalog import CatalogEntry, link, place
from heads.interfaces.views.format import count, counted, effect
from heads.interfaces.views.html import render
from heads.interpret.differences import IN_BASE, HeadsApart, unlike
from heads.interpret.explanation import ORIGINS, Explanation
from heads.interpret.padding.report import PaddingReport

FROM_BASE = ("pretrained", "untrained")


def explanation(one: Explanation, trained_on: str) -> Markup:
    """A recipe from tokens to logits: stations, sentences, formula, every tensor."""
    return render(
        "how.html",
        one=one,
        headline=headline(one, trained_on),
        notes=list_notes(one),
        steps=[
            {
                "kind": step.kind,
                "label": Markup(".<wbr>").join(step.name.split(".")),
                "does": step.does,
                "shape": _shape(step.shape),
                "size": f"{count(step.parameters)} parameters" if step.parameters else "",
                "origins": sorted(
                    {fact.origin for fact in step.tensors}
                    | ({"pretrained"} if step.kind == "base" else set())
                ),
            }
            for step in one.steps
        ],
        tensors=[
            {
                "name": fact.name,
                "shape": _shape(fact.shape),
                "size": _size(fact.shape),
                "origin": ORIGINS[fact.origin],
                "source": fact.source,
            }
            for step in one.steps
            for fact in step.tensors
        ],
    )


def list_notes(one: Explanation) -> list[str]:
    """Return what to know of a recipe: its notes, and which others compute the same."""
    notes = [*one.notes]
    if one.twins:
        names = ", ".join(one.twins)
        notes.append(f"Here the same layers under other names: {names}. Only chance differs.")
    if one.equals:
        notes.append(f"Same computation as {one.equals}.")
    return notes


def weights(one: Explanation) -> Markup:
    """Draw a table of where each tensor comes from, and say it in a sentence."""
    steps = [step for step in one.steps if step.tensors and step.kind != "base"]
    told = [f"the base model is {ORIGINS['pretrained']}"]
    for step in steps:
        origins = dict.fromkeys(ORIGINS[fact.origin] for fact in step.tensors)
        told.append(f"{step.name} is {' and '.join(origins)}")
    base = next(step for step in one.steps if step.kind == "base")
    rows = [
        (fact.name, _shape(fact.shape), ORIGINS[fact.origin], fact.source)
        for step in steps
        for fact in step.tensors
    ]
    says = f"{one.recipe} on {one.model}: {'; '.join(told)}."
    return render("weights.html", says=says, base=count(base.parameters), rows=rows)


def headline(one: Explanation, trained_on: str = "") -> str:
    """What is being explained, in a line."""
    begun = sum(
        step.parameters
        for step in one.steps
        if step.kind == "head" and any(fact.origin in FROM_BASE for fact in step.tensors)
    )
    trains = one.is_to_be_trained
    on = f" ({trained_on})" if trains and trained_on else ""
    first = (
        f", {begun:,} of which start as in the base model's checkpoint," if begun and trains else ""
    )
    with_base = ""
    if one.base_parameters:
        with_base = f", which is learned with them: {one.base_parameters:,} of its own"
    return (
        f"{one.recipe} on {one.model} with {counted(one.classes, 'class')}{on}: "
        f"{one.parameters:,} parameters{' to learn' if trains else ' of its own'}{first} on top of "
        f"the {'frozen ' * (not one.base_parameters)}base model{with_base}."
    )


def _shape(shape: Iterable[str | int]) -> str:
    return " × ".join(map(str, shape))


def _size(shape: Iterable[str | int]) -> str:
    lengths = list(shape)
    numbers = [length for length in lengths if isinstance(length, int)]
    return f"{math.prod(numbers):,}" if len(numbers) == len(lengths) else "as many as rows"


def apart(found: HeadsApart) -> Markup:
    """Two heads drawn one below the other, what one has alone marked; then that in words."""
    one, other = found.layers
    drawn = [
        {"head": head, "layers": list(zip(own, unlike(own, others), strict=True))}
        for head, own, others in zip(found.heads, (one, other), (other, one), strict=True)
    ]
    has_pooler = any(layer.origin == IN_BASE for layer in (*one, *other))
    return render("apart.html", drawn=drawn, says=found.says, has_pooler=has_pooler)


def family(found: CatalogEntry) -> Markup:
    """One family of Transformers: its class and where it stands, its recipe, its tensors."""
    return render(
        "family.html", one=found, link=link(found.called), place=place(found.called),
        base=base_of(found.model_type).why,
    )  # fmt: skip


def padding(found: PaddingReport) -> Markup:
    """What padding does to a classifier: a row a change of its input."""
    changed = [(item, effect(item)) for item in found.findings if item.changes]
    same = [item.title for item in found.findings if item.changes is False]
    untried = [item.title for item in found.findings if item.changes is None]
    return render("padding.html", found=found, changed=changed, same=same, untried=untried)
