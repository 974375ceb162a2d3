"""The tab Compare: one or two sentences under up to four recipes."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import gradio as gr

from heads.backbone.models import BUNDLED
from heads.data.samples import SAMPLES
from heads.interfaces.views import comparison
from heads.interfaces.web.guards import guarded, sentence, throttled
from heads.interfaces.web.links import LINK_FIELDS, OPENING, PageQuery
from heads.interfaces.web.startup import WAITS, Filling, Opening
from heads.interfaces.web.tabs import export_panel, recipe_picker
from heads.interfaces.web.tabs.compare_outputs import BLANK, PLACES, TITLES, answered, chips, shown
from heads.parts.resolved_recipe import JOINT

# --- What the tab Compare shows a visitor who has just come: the example, or what a link asks.

INPUTS = 8  # sentence, its second, model, recipes, way in, accordion, sample, chips
SAME = [gr.skip()] * INPUTS


def example(opening: Opening) -> list[Any]:
    """The values of the outputs for the first question; says meanwhile how far it is."""
    from heads.analysis.comparison import Compared, comparing

    try:
        for event in throttled(comparing(**OPENING.asked)):
            if isinstance(event, Compared):
                return shown(event.comparison, OPENING)
            opening.status = comparison.progress(event)
            if not opening.is_wanted:
                break
        return BLANK
    except Exception as error:
        return [comparison.failure(sentence(error)), *BLANK[1:]]


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
        restored(PageQuery.from_query(dict(fields)).suited())
        if is_asked
        else iter([[*SAME, *first.sent()]])
    )


def restored(question: PageQuery) -> Iterator[list[Any]]:
    """The same values where a link asks the question."""
    asked: list[Any] = [question.text, question.pair, question.model, list(question.recipes)]
    asked.append(recipe_picker.way(question.pairs))
    menus: list[Any] = [gr.update(open=bool(question.pair)), gr.skip(), gr.skip()]
    if question.sample in SAMPLES:
        menus[1:] = [question.sample, gr.Dataset(samples=chips(question.sample))]
    for values in answered(question):
        yield [*asked, *menus, *values[2:]]


HEADERS = ["recipe", "class", "logit", "probability"]
QUIET: dict[str, Any] = {"show_progress": "hidden", "api_visibility": "private"}
CONCURRENCY: dict[str, Any] = {"concurrency_id": "infer", "concurrency_limit": 2}

COPY_LINK = """(query) => {
  const link = window.location.origin + window.location.pathname + query;
  navigator.clipboard?.writeText(link); return link; }"""
# The file is made in the browser: what was typed is written nowhere on the server.
SAVE_CSV = """(table) => {
  const text = (cell) => (/^[=+\\-@\\t\\r\\n＝＋－＠]/.test(cell) ? "'" : "") + cell;
  const field = (cell) => typeof cell === "number" ? String(cell)
    : '"' + text(String(cell)).replaceAll('"', '""') + '"';
  const rows = [table.headers, ...table.data].map((row) => row.map(field).join(",")).join("\\r\\n");
  const link = document.createElement("a");
  link.href = URL.createObjectURL(new Blob(["\\ufeff" + rows], {type: "text/csv"}));
  link.download = "head-to-head.csv"; link.click(); URL.revokeObjectURL(link.href); }"""


@dataclass(frozen=True, slots=True, kw_only=True)
class CompareInputs:
    """The components that ask."""

    text: gr.Textbox
    pair: gr.Textbox
    model: gr.Dropdown
    sample: gr.Dropdown
    recipes: gr.Dropdown
    second: gr.Accordion
    pairs: gr.Radio

    def all(self) -> list[Any]:
        """In the order of `_run`."""
        return [self.text, self.pair, self.model, self.sample, self.recipes, self.pairs]


@dataclass(frozen=True, slots=True, kw_only=True)
class CompareOutputs:
    """The components that answer; what has nothing to show is hidden."""

    verdict: gr.HTML
    cards: gr.HTML
    results: gr.Column
    titles: list[gr.Markdown]
    columns: list[gr.Column]
    names: list[gr.HTML]
    plots: list[gr.Plot]
    table: gr.Dataframe
    query: gr.Textbox

    def all(self) -> list[Any]:
        """In the order of `shown`."""
        charts = [*self.columns, *self.names, *self.plots]
        first = [self.verdict, self.cards, self.results, *self.titles]
        return [*first, *charts, self.table, self.query]


def build(page: gr.Blocks, opening: Opening) -> CompareInputs:
    """Draws the tab, which opens on a finished example, and returns what asks."""
    with gr.Row():
        with gr.Column(min_width=300):
            text, pair, pairs, second, tries = _sentences()
            model, data = _base()
        with gr.Column(min_width=300):
            chosen = recipe_picker.build(opening)
    button = gr.Button("Compare", variant="primary", size="lg")
    inputs = CompareInputs(
        text=text, pair=pair, model=model, sample=data, recipes=chosen, second=second, pairs=pairs
    )
    outputs = _results(opening.status)
    export_panel.build(chosen, model, data, pair)
    opened = _wire_opening(page, opening, inputs, outputs, tries)
    _wire(inputs, outputs, button, tries, opened)
    return inputs


def _sentences() -> tuple[gr.Textbox, gr.Textbox, gr.Radio, gr.Accordion, gr.Dataset]:
    text = gr.Textbox(label="Sentence", value=OPENING.text, lines=1, max_lines=8, max_length=20_000)
    tries = gr.Dataset(
        label="Try one of these",
        components=[gr.Textbox(visible=False)],
        samples=chips("sentiment"),
        type="index",
    )
    with gr.Accordion("Compare with a second sentence", open=False, elem_id="second") as second:
        pair = gr.Textbox(
            label="Second sentence",
            info="With a sample of single sentences, the heads are then those of Sentence pairs.",
            lines=1,
            max_lines=8,
            max_length=20_000,
        )
        pairs = gr.Radio(
            recipe_picker.WAYS,
            value=JOINT,
            label="The two are read",
            elem_id="pairs",
        )
    return text, pair, pairs, second, tries


def _base() -> tuple[gr.Dropdown, gr.Dropdown]:
    model = gr.Dropdown(
        label="Base model",
        info="From the menu, or any id of the Hugging Face Hub.",
        choices=recipe_picker.choices(),
        value=BUNDLED,
        allow_custom_value=True,
        interactive=True,
    )
    data = gr.Dropdown(
        label="Heads trained on",
        choices=[(f"{item.title}: {item.says}", name) for name, item in SAMPLES.items()],
        value=OPENING.sample,
        interactive=True,
    )
    return model, data


def _results(status: str) -> CompareOutputs:
    verdict = gr.HTML(status, elem_id="verdict", padding=False)
    cards = gr.HTML("", elem_id="cards", padding=False)
    titles, columns, names, plots = [], [], [], []
    with gr.Column(visible=False) as results:
        for title in TITLES:
            titles.append(gr.Markdown(title))
            with gr.Row():
                for _ in range(PLACES):
                    with gr.Column(min_width=230, elem_classes="chart") as column:
                        names.append(gr.HTML("", padding=False))
                        plots.append(gr.Plot(show_label=False, container=False))
                    columns.append(column)
        table = _numbers()
        query = _link()
    return CompareOutputs(
        verdict=verdict,
        cards=cards,
        results=results,
        titles=titles,
        columns=columns,
        names=names,
        plots=plots,
        table=table,
        query=query,
    )


def _numbers() -> gr.Dataframe:
    with gr.Accordion("All numbers", open=False, elem_id="numbers"):
        table = gr.Dataframe(
            headers=HEADERS,
            datatype=["str", "str", "number", "number"],
            interactive=False,
            max_height=420,
            show_label=False,
            buttons=["copy", "fullscreen"],
        )
        save = gr.Button("Save as CSV", size="sm")
        save.click(None, table, None, js=SAVE_CSV, api_visibility="private")
    return table


def _link() -> gr.Textbox:
    query = gr.Textbox("", visible=False)
    with gr.Row(equal_height=True):
        link = gr.Button("Copy link to this comparison", size="sm", scale=1, min_width=220)
        address = gr.Textbox(
            label="Link",
            show_label=False,
            container=False,
            interactive=False,
            placeholder="The link appears here as well.",
            scale=3,
        )
    link.click(None, query, address, js=COPY_LINK, api_visibility="private")
    return query


def _wire_opening(
    page: gr.Blocks,
    opening: Opening,
    inputs: CompareInputs,
    outputs: CompareOutputs,
    tries: gr.Dataset,
) -> Any:
    """Shows who comes the first example, or what the link asks."""
    first = opening.fills(outputs.all(), lambda: example(opening), is_sent=False)

    def came(arrived: str, request: gr.Request) -> Iterator[list[Any]]:
        yield from opened(page, opening, first, arrived, dict(request.query_params))

    restored = [inputs.text, inputs.pair, inputs.model, inputs.recipes, inputs.pairs]
    restored += [inputs.second, inputs.sample, tries, *outputs.all()]
    return page.load(came, opening.arrived, restored, **QUIET, **WAITS)


def _wire(
    inputs: CompareInputs,
    outputs: CompareOutputs,
    button: gr.Button,
    tries: gr.Dataset,
    opened: Any,
) -> None:
    target = [inputs.sample, tries, *outputs.all()]
    run: dict[str, Any] = {
        "fn": _run,
        "trigger_mode": "always_last",  # a click while it works is not lost
        "inputs": inputs.all(),
        "outputs": target,
        "cancels": opened,  # else the first example would take the place of an answer
        **CONCURRENCY,
        **QUIET,
    }
    gr.on([button.click, inputs.text.submit, inputs.pair.submit, inputs.pairs.input], **run)
    typed = [inputs.text, inputs.pair]
    tries.click(_tried, [tries, inputs.sample], typed, queue=False, **QUIET).then(**run)
    picked = [*typed, inputs.second, tries]
    inputs.sample.input(_sampled, inputs.sample, picked, queue=False, **QUIET).then(**run)


def _run(
    text: str, pair: str, model: str, data: str, recipes: list[str], pairs: str
) -> Iterator[list[Any]]:
    """Answers the inputs: progress in the place of the verdict, then all the rest."""
    question = PageQuery(
        text=text,
        pair=pair or "",
        model=model or BUNDLED,
        sample=data,
        recipes=tuple(recipes),
        pairs=pairs or JOINT,
    )
    yield from answered(question)


@guarded
def _tried(number: int, data: str) -> list[str]:
    return list((*SAMPLES[data].tries[number], "")[:2])


@guarded
def _sampled(data: str) -> list[Any]:
    """A sample brings its own first example and chips."""
    text, pair = (*SAMPLES[data].tries[0], "")[:2]
    return [text, pair, gr.update(open=bool(pair)), gr.Dataset(samples=chips(data))]
