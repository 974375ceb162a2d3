"""The tab Catalogue: every classifier of Transformers as a recipe, and what sets two apart."""

from typing import Any

import gradio as gr

from heads.interfaces.views import comparison
from heads.interfaces.web.guards import guarded, sentence
from heads.interfaces.web.startup import Opening
from heads.interfaces.web.tabs.compare import CONCURRENCY

SAYS = (
    "Every `XForSequenceClassification` of the installed Transformers, as a recipe of ours. "
    "`heads families --check` builds each one small and compares its logits with the recipe's."
)
HEADERS = ["family", "form", "recipe", "what its head does", "tensors of the head"]
QUIET: dict[str, Any] = {"show_progress": "hidden", "api_visibility": "private"}


def build(tab: gr.Tab, opening: Opening) -> None:
    """Draws the tab; the table is filled when it is first opened, for it takes seconds."""
    gr.Markdown(SAYS)
    table = gr.Dataframe(
        headers=HEADERS,
        datatype="str",
        interactive=False,
        max_height=460,
        show_label=False,
        show_search="search",
        wrap=True,
        column_widths=["150px", "70px", "250px", "380px", "350px"],  # wider than a phone: scrolls
        buttons=["copy", "fullscreen"],
        elem_id="families",
    )
    chosen = gr.HTML(opening.status, elem_id="family", padding=False)
    opening.fills([chosen], lambda: [_one("bert")])
    table.select(_picked, None, chosen, queue=False, **QUIET)
    _difference(opening)
    tab.select(_rows, None, table, **QUIET, **CONCURRENCY)


def _difference(opening: Opening) -> None:
    gr.Markdown("### What sets two heads apart")
    with gr.Row():
        one, other = (
            gr.Dropdown(
                [value],
                value=value,
                label=label,
                info="A family, a recipe, or a model such as roberta-base.",
                allow_custom_value=True,
                interactive=True,
                min_width=200,
            )
            for label, value in (("One", "bert"), ("The other", "roberta"))
        )
    says = gr.HTML("", elem_id="apart", padding=False)
    opening.fills([one, other, says], _example)
    gr.on([one.input, other.input], _apart, [one, other], says, **QUIET, **CONCURRENCY)


def _example() -> list[Any]:
    from heads.catalog.families import FAMILIES
    from heads.parts.resolve import menu

    names = gr.update(choices=[*FAMILIES, *(str(recipe) for recipe in menu())])
    return [names, names, _apart("bert", "roberta")]


@guarded
def _rows() -> list[list[str]]:
    from heads.catalog.catalog import catalogue

    return [
        [
            item.model_type,
            item.form,
            item.recipe or "none",
            item.says if item.recipe else f"{item.says} {item.reason}",
            ", ".join(item.tensors),
        ]
        for item in catalogue()
    ]


@guarded
def _picked(event: gr.SelectData) -> str:
    return _one(str(event.row_value[0]))


def _one(model_type: str) -> str:
    from heads.catalog.catalog import entry
    from heads.interfaces.views import explanation

    return explanation.family(entry(model_type))


def _apart(one: str, other: str) -> str:
    from heads.api import difference
    from heads.interfaces.views import explanation

    try:
        return explanation.difference(difference(one or "", other or ""))
    except Exception as error:
        return comparison.failure(sentence(error))
