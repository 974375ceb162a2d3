"""Learn: three questions, each with its answer on show."""

from typing import Any

import gradio as gr

from heads.backbone.models import BUNDLED, MODELS
from heads.interfaces.views.html import render
from heads.interfaces.web.guards import failed
from heads.interfaces.web.places.try_it import CLICKS, QUIET
from heads.interfaces.web.startup import Opening

LEARNS: dict[str, Any] = {"concurrency_id": "learn", "concurrency_limit": 2}
ONE, OTHER, PADDED = "bert", "roberta", "gpt2"
APART = (
    "What does BERT's head do that RoBERTa's does not?",
    "Every `XForSequenceClassification` of the installed Transformers has a head of its own. "
    "Choose two, or two recipes, or two models.",
)
PADDING = (
    "Why do my logits change with padding?",
    "The same text alone, padded on either side, in a batch, or cut before its end: which of them "
    "change the logits, by how much, and what to do. A family's name examines a small random "
    "model of it, so nothing is downloaded.",
)


def build(opening: Opening) -> None:
    """Draws the place; its answers are made once the base model can be asked."""
    with gr.Column(elem_classes="topic"):
        gr.HTML(render("learn_head.html"), js_on_load=CLICKS)
    with gr.Column(elem_classes="topic"):
        _apart(opening)
    with gr.Column(elem_classes="topic"):
        _padding(opening)


def _apart(opening: Opening) -> None:
    gr.HTML(render("learn_title.html", title=APART[0], says=APART[1].replace("`", "")))
    with gr.Row():
        one, other = (
            gr.Dropdown(
                [value], value=value, label=label, allow_custom_value=True, interactive=True,
                min_width=200,
            )
            for label, value in (("One", ONE), ("The other", OTHER))
        )  # fmt: skip
    says = gr.HTML("", elem_id="families-apart")
    with gr.Row():
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
    from heads.api import difference

    try:
        told = render("difference.html", says=difference(one or "", other or ""))
    except Exception as error:
        return [failed(error), "", ""]
    return [told, _family(one), _family(other)]


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
        info="A family such as xlnet, the bundled model, or any id of the Hub.",
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
