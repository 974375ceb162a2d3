"""The tab Explained: a recipe from tokens to logits, and against another one."""

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import gradio as gr

from heads.backbone.models import BUNDLED
from heads.data.samples import SAMPLES
from heads.interfaces.views import comparison
from heads.interfaces.web.guards import sentence, throttled
from heads.interfaces.web.links import OPENING, PageQuery
from heads.interfaces.web.startup import Opening
from heads.interfaces.web.tabs.compare import CONCURRENCY, CompareInputs

if TYPE_CHECKING:
    from heads.analysis.explanation import Explanation

FIRST, SECOND = "cls+bert", "cls+roberta"


def build(tab: gr.Tab, opening: Opening, asked: CompareInputs) -> None:
    """Draws the tab, which opens on an example; base model and sample are those of Compare."""
    recipe, other, text = _inputs()
    outputs = _outputs(opening.status)
    opening.fills([recipe, other, *outputs], _example)
    inputs = [recipe, other, text, asked.pair, asked.model, asked.sample]
    run: dict[str, Any] = {
        "fn": _run,
        "trigger_mode": "always_last",
        "inputs": inputs,
        "outputs": outputs,
        "show_progress": "hidden",
        "api_visibility": "private",
        **CONCURRENCY,
    }
    gr.on([recipe.input, other.input, text.submit, text.blur], **run)
    # Coming from Compare, one explains the sentence that was compared there.
    tab.select(
        lambda text: text, asked.text, text, show_progress="hidden", api_visibility="private"
    ).then(**run)


def _inputs() -> tuple[gr.Dropdown, gr.Dropdown, gr.Textbox]:
    with gr.Row():
        recipe = gr.Dropdown(
            [FIRST],
            value=FIRST,
            label="Recipe",
            info="Any pooling+head, also one of your own writing.",
            allow_custom_value=True,
            interactive=True,
            min_width=120,
        )
        other = gr.Dropdown(
            ["", SECOND],
            value=SECOND,
            label="Against",
            info="A second recipe, to see what differs. May be empty.",
            allow_custom_value=True,
            interactive=True,
            min_width=120,
        )
        text = gr.Textbox(
            label="Sentence on which the reading is shown",
            info="Base model and classes are those chosen under Compare.",
            value=OPENING.text,
            lines=1,
            max_lines=6,
            max_length=20_000,
            scale=2,
            min_width=240,
        )
    return recipe, other, text


def _example() -> list[Any]:
    from heads.api import difference, explain
    from heads.parts.resolve import menu

    names = [str(recipe) for recipe in menu()]
    values = _drawn(explain(FIRST, OPENING.text), difference(FIRST, SECOND), OPENING.sample)
    return [gr.update(choices=names), gr.update(choices=["", *names]), *values]


def _outputs(status: str) -> list[Any]:
    headline = gr.HTML(status, elem_id="headline", padding=False)
    against = gr.HTML("", elem_id="against", padding=False)
    with gr.Column(visible=False) as details:
        rest = _details()
    return [headline, against, details, *rest]


def _details() -> list[Any]:
    gr.Markdown("### From tokens to logits")
    chain = gr.HTML("", elem_id="chain", padding=False)
    gr.Markdown("### Which tokens the pooling reads")
    reading = gr.HTML("", elem_id="reading", padding=False)
    gr.Markdown("### In words and in mathematics")
    facts = gr.HTML("", padding=False)
    gr.Markdown("### Every tensor and where it comes from")
    tensors = gr.HTML("", padding=False)
    return [chain, reading, facts, tensors]


def _drawn(explanation: "Explanation", sentence_against: str, data: str) -> list[Any]:
    from heads.interfaces.views import explanation as view

    return [
        view.headline(explanation, SAMPLES[data].title),
        view.difference(sentence_against) if sentence_against else "",
        gr.update(visible=True),
        view.chain(explanation),
        view.reading(explanation),
        view.facts(explanation),
        view.tensors(explanation),
    ]


def _run(
    recipe: str, other: str, text: str, pair: str, model: str, data: str
) -> Iterator[list[Any]]:
    """Explains; a learned pooling is trained first, so that it shows what it has learned."""
    from heads.analysis.explanation import explaining
    from heads.api import difference
    from heads.events import Progress

    try:
        asked = PageQuery(text=text, pair=pair or "", model=model or BUNDLED, sample=data).suited()
        events = explaining(
            recipe or "", asked.text, asked.pair, model=asked.model, sample=asked.sample
        )
        explanation = None
        for event in throttled(events):
            if isinstance(event, Progress):
                yield [comparison.progress(event), *[gr.skip()] * 6]
            else:
                explanation = event
        assert explanation is not None
        against = difference(recipe, other, model=asked.model) if other else ""
        yield _drawn(explanation, against, asked.sample)
    except Exception as error:
        yield [comparison.failure(sentence(error)), "", gr.update(visible=False), *[""] * 4]
