"""What the tab Compare shows a visitor who has just come: the example, or what a link asks."""

from collections.abc import Iterator, Mapping
from typing import Any

import gradio as gr

from heads.data.samples import SAMPLES
from heads.interfaces import drawings
from heads.interfaces.web import recipes
from heads.interfaces.web.answers import BLANK, answered, chips, shown
from heads.interfaces.web.guards import sentence, throttled
from heads.interfaces.web.opening import Filling, Opening
from heads.interfaces.web.question import LINK_FIELDS, OPENING, Question

INPUTS = 8  # sentence, its second, model, recipes, way in, accordion, sample, chips
SAME = [gr.skip()] * INPUTS


def example(opening: Opening) -> list[Any]:
    """The values of the outputs for the first question; says meanwhile how far it is."""
    from heads.analysis.comparison import Compared, comparing

    try:
        for event in throttled(comparing(**OPENING.asked)):
            if isinstance(event, Compared):
                return shown(event.comparison, OPENING)
            opening.status = drawings.progress(event)
            if not opening.is_wanted:
                break
        return BLANK
    except Exception as error:
        return [drawings.failure(sentence(error)), *BLANK[1:]]


def opened(
    page: gr.Blocks, opening: Opening, first: Filling, arrived: str, fields: Mapping[str, str]
) -> Iterator[list[Any]]:
    """The values of inputs and outputs; where the page came with the example, that stays.

    A page that was opened by a link with a question in it answers that question.
    """
    is_asked = any(fields.get(name) for name in LINK_FIELDS)
    if arrived and not is_asked:
        yield [*SAME, *[gr.skip()] * len(BLANK)]
        return
    for status in opening.waited(page):
        yield [*SAME, status, *[gr.skip()] * (len(BLANK) - 1)]
    yield from (
        restored(Question.from_query(dict(fields)).suited())
        if is_asked
        else iter([[*SAME, *first.sent()]])
    )


def restored(question: Question) -> Iterator[list[Any]]:
    """The same values where a link asks the question."""
    asked: list[Any] = [question.text, question.pair, question.model, list(question.recipes)]
    asked.append(recipes.way(question.pairs))
    menus: list[Any] = [gr.update(open=bool(question.pair)), gr.skip(), gr.skip()]
    if question.sample in SAMPLES:
        menus[1:] = [question.sample, gr.Dataset(samples=chips(question.sample))]
    for values in answered(question):
        yield [*asked, *menus, *values[2:]]
