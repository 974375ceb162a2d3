"""The tab Doctor: what padding and truncation do to a classifier's logits."""

from typing import Any

import gradio as gr

from heads.backbone.models import BUNDLED, MODELS
from heads.interfaces.views import comparison
from heads.interfaces.web.guards import sentence
from heads.interfaces.web.startup import Opening
from heads.interfaces.web.tabs.compare import CONCURRENCY

SAYS = (
    "The same text alone, padded on either side, in a batch, cut before its end: which of them "
    "change the logits, by how much, and what to do. A family's name examines a small random "
    "model of it, for which nothing needs to be downloaded."
)
FIRST = "gpt2"


def build(opening: Opening) -> None:
    """Draws the tab; nothing is examined before it is asked for."""
    gr.Markdown(SAYS)
    model = gr.Dropdown(
        [FIRST],
        value=FIRST,
        label="Family or model",
        info="A family such as xlnet, the bundled model, or any id of the Hub.",
        allow_custom_value=True,
        interactive=True,
    )
    opening.fills([model], _menu)
    button = gr.Button("Examine", variant="primary")
    found = gr.HTML("", elem_id="diagnosis", padding=False)
    quiet: dict[str, Any] = {"show_progress": "minimal", "api_visibility": "private"}
    gr.on([button.click, model.input], _examined, model, found, **quiet, **CONCURRENCY)


def _menu() -> list[Any]:
    from heads.catalog.families import FAMILIES

    return [gr.update(choices=[*FAMILIES, *(base.id for base in MODELS)])]


def _examined(model: str) -> str:
    from heads.api import examine
    from heads.interfaces.views import explanation

    try:
        return explanation.diagnosis(examine(model or BUNDLED))
    except Exception as error:
        return comparison.failure(sentence(error))
