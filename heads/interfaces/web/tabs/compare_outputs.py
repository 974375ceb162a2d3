"""From a question to the values of everything on the page that answers it."""

import json
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

import gradio as gr
from gradio.components.plot import PlotData

from heads.data.samples import SAMPLES
from heads.interfaces.views import comparison as view
from heads.interfaces.web.guards import sentence, throttled
from heads.interfaces.web.links import PageQuery

if TYPE_CHECKING:
    from heads.analysis.comparison import Comparison
    from heads.classifier.prediction import Prediction

PLACES = 4  # recipes side by side


def answered(question: PageQuery) -> Iterator[list[Any]]:
    """Values for the sample's menu, its chips and every output; a failure has its sentence."""
    from heads.analysis.comparison import Compared, comparing

    same: list[Any] = [gr.skip()] * 2
    if question.suited() != question:
        question = question.suited()
        same = [question.sample, gr.Dataset(samples=chips(question.sample))]
    try:
        for event in throttled(comparing(**question.asked)):
            if isinstance(event, Compared):
                yield [*same, *shown(event.comparison, question)]
            else:
                yield [*same, view.progress(event), *[gr.skip()] * (len(BLANK) - 1)]
    except Exception as error:
        yield [*same, view.failure(sentence(error)), *BLANK[1:]]


def shown(comparison: "Comparison", question: PageQuery) -> list[Any]:
    """The values of the outputs, in the order of `CompareOutputs.all`."""
    predictions = comparison.predictions[:PLACES]
    spans = (
        view.probability_span(),
        view.logit_span([prediction.logits for prediction in predictions]),
    )
    columns, plots = [], []
    filled = [*predictions, *[predictions[0]] * (PLACES - len(predictions))]
    names = [view.chart_name(one.name, is_random=bool(one.new)) for one in filled] * 2
    for percent, span in zip((True, False), spans, strict=True):
        for place, prediction in enumerate(filled):
            used = place < len(predictions)
            # A number has no probability.
            used = used and not (percent and not prediction.problem.has_classes)
            columns.append(gr.update(visible=used))
            classes = _classes(prediction)
            figure = view.bars(
                classes,
                prediction.probabilities if percent else prediction.logits,
                answer=prediction.answer if prediction.problem.has_classes else classes,
                colour=view.COLOURS[place],
                span=span,
                percent=percent,
            )
            plots.append(_plot(figure))
    return [
        view.verdict(comparison),
        view.cards(comparison),
        gr.update(visible=True),
        *_titles(predictions),
        *columns,
        *names,
        *plots,
        _table(comparison),
        question.query,
    ]


# Every output with nothing in it, in the order of `CompareOutputs.all`.
HIDDEN = gr.update(visible=False)
BLANK = [
    *["", "", HIDDEN, HIDDEN, ""],
    *[*[HIDDEN] * 2 * PLACES, *[""] * 2 * PLACES, *[None] * 2 * PLACES],
    *[[], ""],
]
TITLES = ("### Probability per class", "### Logit per class")


def _titles(predictions: "Sequence[Prediction]") -> list[Any]:
    """What stands above the charts; a number has no probability and no class."""
    are_numbers = not any(one.problem.has_classes for one in predictions)
    below = "### The number that each head gives" if are_numbers else TITLES[1]
    return [gr.update(visible=not are_numbers), below]


def _classes(prediction: "Prediction") -> tuple[str, ...]:
    """The names of the outputs; that of a single number says nothing."""
    is_number = not prediction.problem.has_classes and len(prediction.classes) == 1
    return ("number",) if is_number else prediction.classes


def _plot(figure: view.Figure) -> PlotData:
    return PlotData(type="plotly", plot=json.dumps(figure | {"config": {"displayModeBar": False}}))


def _table(comparison: "Comparison") -> list[list[Any]]:
    return [
        [
            prediction.name,
            name,
            round(logit, 4),
            round(chance, 4) if prediction.problem.has_classes else None,
        ]
        for prediction in comparison.predictions
        for name, logit, chance in zip(
            _classes(prediction), prediction.logits, prediction.probabilities, strict=True
        )
    ]


def chips(data: str) -> list[list[str]]:
    """The new texts of a sample that one can try, as the page shows them."""
    return [[" ↔ ".join(texts)] for texts in SAMPLES[data].tries]
