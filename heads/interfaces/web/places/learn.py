"""Learn: what a head is, a tour of five questions, what sets two apart, and what padding does."""

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import gradio as gr

from heads.backbone.models import BUNDLED, MODELS
from heads.interfaces.views.html import busy, render
from heads.interfaces.web.guards import failed, guarded, saves, shared_address
from heads.interfaces.web.places import base_models
from heads.interfaces.web.places.try_it import CLICKS, QUIET
from heads.interfaces.web.slots import pool
from heads.interfaces.web.startup import Opening
from heads.settings import limits

LEARNS = pool("looks")
ONE, OTHER, PADDED = "bert", "roberta", "gpt2"
TOUR = (
    "Five questions that people ask about heads",
    "Each is answered by a measurement made here: two heads on the same rows.",
)
APART = (
    "What does BERT's head do that RoBERTa's does not?",
    "Choose any two families of Transformers, or two recipes, or two models.",
)
WEIGHTS = (
    "Which weights are pretrained?",
    "The base model’s. Of a head, only what the checkpoint holds; everything else is new.",
)
PADDING = (
    "Why do my logits change with padding?",
    "Which harmless-looking changes of the input alter the logits, by how much, and what to do.",
)


def build(opening: Opening) -> None:
    """Draws the place; its answers are made once the base model can be asked."""
    with gr.Column(elem_classes="topic"):
        gr.HTML(render("learn_head.html"), js_on_load=CLICKS)
    with gr.Column(elem_classes="topic"):
        _tour()
    with gr.Column(elem_classes="topic"):
        _weights(opening)
    with gr.Column(elem_classes="topic"):
        _apart(opening)
    with gr.Column(elem_classes="topic"):
        _padding(opening)


def _tour() -> None:
    gr.HTML(render("learn_title.html", title=TOUR[0], says=TOUR[1]))
    with gr.Accordion("Guess, then see", open=False, elem_id="tour", elem_classes="fold") as fold:
        steps = gr.HTML("")
        save = gr.Button("Save as one HTML file", size="sm", visible=False)
        saves(save, _tour_as_file, [], "tour.html", "looks")
    fold.expand(_steps, None, [steps, save], **LEARNS, **QUIET)


def _steps() -> Iterator[list[Any]]:
    """The five steps; the first time their heads are trained, and it says how far that is."""
    from heads.analysis.tour import Tour, touring
    from heads.interfaces.views import story

    try:
        for event in touring(limits()):
            if isinstance(event, Tour):
                yield [story.steps(event), gr.update(visible=True)]
            else:
                yield [busy(event.says, event.share), gr.skip()]
    except Exception as error:
        yield [failed(error), gr.skip()]


@guarded
def _tour_as_file(request: gr.Request) -> str:
    from heads.api import tour
    from heads.interfaces.views.story import of_tour

    return of_tour(tour(limits=limits()), shared_address(request))


def _weights(opening: Opening) -> None:
    gr.HTML(render("learn_title.html", title=WEIGHTS[0], says=WEIGHTS[1]))
    with gr.Column(elem_classes="two-menus"):
        recipe = gr.Dropdown(
            ["cls+bert"], value="cls+bert", label="Head", allow_custom_value=True, interactive=True
        )
        model = gr.Dropdown(
            base_models.choices(), value=BUNDLED, label="Base model", allow_custom_value=True,
            interactive=True,
        )  # fmt: skip
    found = gr.HTML("", elem_id="weights")
    opening.fills([recipe, found], _weights_of_bert)
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


def _apart(opening: Opening) -> None:
    gr.HTML(render("learn_title.html", title=APART[0], says=APART[1]))
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
    opening.fills([one, other, says, *cards], _example)
    gr.on([one.input, other.input], apart, [one, other], [says, *cards], **LEARNS, **QUIET)


def _example() -> list[Any]:
    from heads.catalog.families import FAMILIES
    from heads.parts.resolve import menu

    names = gr.update(choices=[*FAMILIES, *(str(recipe) for recipe in menu())])
    return [names, names, *apart(ONE, OTHER)]


def apart(one: str, other: str) -> list[Any]:
    """What sets two heads apart; and each of them, where it is a family's."""
    from heads.analysis.differences import apart_by_name
    from heads.interfaces.views import explanation

    try:
        # In this order the sentence says what the first does that the second does not.
        found = apart_by_name(other or "", one or "", limits())
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


def _padding(opening: Opening) -> None:
    gr.HTML(render("learn_title.html", title=PADDING[0], says=PADDING[1]))
    model = gr.Dropdown(
        [PADDED],
        value=PADDED,
        label="Family or model",
        info="A family is tested on a small random model; nothing is downloaded.",
        allow_custom_value=True,
        interactive=True,
    )
    found = gr.HTML("", elem_id="padding")
    opening.fills([model, found], _padded)
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
