"""Learn: what a head is, which weights are pretrained, what sets two apart, and padding."""

from dataclasses import replace
from typing import Any

import gradio as gr

from heads.backbone.models import BUNDLED, MODELS
from heads.interfaces.views.html import render
from heads.interfaces.web.guards import failed
from heads.interfaces.web.page_sections import PageParts, draw_page_sections
from heads.interfaces.web.places import base_models
from heads.interfaces.web.places.try_it import CLICKS, QUIET
from heads.interfaces.web.slots import pool

LEARNS = pool("looks")
ONE, OTHER, PADDED = "bert", "roberta", "gpt2"


def build(parts: PageParts) -> None:
    """Draw the place; its answers are made once the base model can be asked."""
    with gr.Column(elem_classes="topic"):
        gr.HTML(render("learn_head.html"), js_on_load=CLICKS)
    draw_page_sections("learn", parts)


def draw_weights(parts: PageParts) -> None:
    """Draw two menus, and the origin of every tensor of a recipe on a base model."""
    with gr.Column(elem_classes="two-menus"):
        recipe = gr.Dropdown(
            ["cls+bert"], value="cls+bert", label="Head", allow_custom_value=True, interactive=True
        )
        model = base_models.draw_menu()
    found = gr.HTML("", elem_id="weights")
    parts.opening.fills([recipe, found], _weights_of_bert)
    gr.on([recipe.input, model.input], weights, [recipe, model], found, **LEARNS, **QUIET)


def _weights_of_bert() -> list[Any]:
    from heads.parts.resolve import menu

    return [gr.update(choices=[str(recipe) for recipe in menu()]), weights("cls+bert", BUNDLED)]


def weights(recipe: str, model: str) -> Any:
    """Say of every tensor of a recipe on a base model whether it is pretrained."""
    from heads.api import explain
    from heads.interfaces.views import explanation

    try:
        return explanation.weights(explain(recipe or "cls+bert", model=model or BUNDLED))
    except Exception as error:
        return failed(error)


def draw_families(parts: PageParts) -> None:
    """Draw two menus, what sets the two heads apart, and the catalogue."""
    with gr.Column(elem_classes="two-menus"):  # a row would come later, and push all down
        one, other = (
            gr.Dropdown(
                [value], value=value, label=label, allow_custom_value=True, interactive=True,
                min_width=140,
            )
            for label, value in (("One", ONE), ("The other", OTHER))
        )  # fmt: skip
    says = gr.HTML("", elem_id="families-apart")
    with gr.Column(elem_id="two-cards"):
        cards = [gr.HTML("", elem_classes="family") for _ in range(2)]
    with gr.Accordion("All of them", open=False, elem_id="catalogue", elem_classes="fold") as fold:
        table = gr.HTML("")
    fold.expand(_rows, None, table, **LEARNS, **QUIET)
    parts.opening.fills([one, other, says, *cards], _example)
    gr.on([one.input, other.input], apart, [one, other], [says, *cards], **LEARNS, **QUIET)


def _example() -> list[Any]:
    from heads.catalog.families import FAMILIES
    from heads.parts.resolve import menu

    names = gr.update(choices=[*FAMILIES, *(str(recipe) for recipe in menu())])
    return [names, names, *apart(ONE, OTHER)]


def apart(one: str, other: str) -> list[Any]:
    """What sets two heads apart; and each of them, where it is a family's."""
    from heads.interfaces.views import explanation
    from heads.interpret.differences import apart_by_name

    try:
        # In this order the sentence says what the first does that the second does not.
        found = apart_by_name(other or "", one or "")
    except Exception as error:
        return [failed(error), "", ""]
    drawn = replace(found, heads=found.heads[::-1], layers=found.layers[::-1])
    return [explanation.apart(drawn), _family(one), _family(other)]


def _family(name: str) -> Any:
    from heads.catalog.catalog import entry
    from heads.catalog.families import FAMILIES
    from heads.interfaces.views import explanation

    return explanation.family(entry(name)) if name in FAMILIES else ""


def _rows() -> Any:
    from heads.catalog.catalog import catalogue

    try:
        return render("catalogue.html", items=catalogue())
    except Exception as error:
        return failed(error)


def draw_padding(parts: PageParts) -> None:
    """Draw a menu of models, and what padding does to one."""
    model = gr.Dropdown(
        [PADDED],
        value=PADDED,
        label="Family or model",
        info="A family is tested on a small random model; nothing is downloaded.",
        allow_custom_value=True,
        interactive=True,
    )
    found = gr.HTML("", elem_id="padding")
    parts.opening.fills([model, found], _padded)
    model.input(examined, model, found, **LEARNS, **QUIET)


def _padded() -> list[Any]:
    from heads.catalog.families import FAMILIES

    choices = [*FAMILIES, *(base.id for base in MODELS)]
    return [gr.update(choices=choices), examined(PADDED)]


def examined(model: str) -> Any:
    """What padding and truncation do to a classifier."""
    from heads.api import examine
    from heads.interfaces.views import explanation

    try:
        return explanation.padding(examine(model or BUNDLED))
    except Exception as error:
        return failed(error)
