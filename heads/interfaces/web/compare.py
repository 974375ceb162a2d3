"""The tab Compare: one or two sentences under up to four recipes."""

import json
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

import gradio as gr
from gradio.components.plot import PlotData

from heads.errors import HeadsError, LimitError
from heads.interfaces import drawings, figures
from heads.interfaces.web.guards import guarded, sentence, throttled
from heads.interfaces.web.question import OPENING, Question
from heads.parts.menu import head, layers, menu, pooling, resolve
from heads.parts.models import BUNDLED, MODELS
from heads.parts.samples import SAMPLES, sample
from heads.pipeline.comparison import Compared, Comparison, compare, comparing
from heads.pipeline.gate import cached_folder

PLACES = 4
HEADERS = ["recipe", "class", "logit", "probability"]
LAST = "the last layer"

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
class Inputs:
    """The components that ask."""

    text: gr.Textbox
    pair: gr.Textbox
    model: gr.Dropdown
    sample: gr.Dropdown
    recipes: gr.Dropdown

    def all(self) -> list[Any]:
        """In the order of `asked`."""
        return [self.text, self.pair, self.model, self.sample, self.recipes]


@dataclass(frozen=True, slots=True, kw_only=True)
class Outputs:
    """The components that answer; charts stand in columns that hide when not used."""

    verdict: gr.HTML
    cards: gr.HTML
    columns: list[gr.Column]
    names: list[gr.HTML]
    plots: list[gr.Plot]
    table: gr.Dataframe
    query: gr.Textbox

    def all(self) -> list[Any]:
        """In the order of `shown`."""
        charts = [*self.columns, *self.names, *self.plots]
        return [self.verdict, self.cards, *charts, self.table, self.query]


def build(page: gr.Blocks) -> Inputs:
    """Draws the tab with a finished example, and returns what asks."""
    opening = compare(**OPENING.asked)
    with gr.Row():
        with gr.Column(min_width=300):
            text, pair, tries = _sentences()
            model, data = _base()
        with gr.Column(min_width=300):
            recipes = _recipes()
    button = gr.Button("Compare", variant="primary", size="lg")
    inputs = Inputs(text=text, pair=pair, model=model, sample=data, recipes=recipes)
    outputs = _results(opening)
    _wire(page, inputs, outputs, button, tries)
    return inputs


def _sentences() -> tuple[gr.Textbox, gr.Textbox, gr.Dataset]:
    text = gr.Textbox(label="Sentence", value=OPENING.text, lines=1, max_lines=8, max_length=20_000)
    tries = gr.Dataset(
        label="Try one of these",
        components=[gr.Textbox(visible=False)],
        samples=_tries("sentiment"),
        type="index",
    )
    with gr.Accordion("Compare with a second sentence", open=False, elem_id="second"):
        pair = gr.Textbox(
            label="Second sentence",
            info="Both are read together; the heads are then those of the sample Sentence pairs.",
            lines=1,
            max_lines=8,
            max_length=20_000,
        )
    return text, pair, tries


def _base() -> tuple[gr.Dropdown, gr.Dropdown]:
    model = gr.Dropdown(
        label="Base model",
        info="From the menu, or any id of the Hugging Face Hub.",
        choices=_model_choices(),
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


def _recipes() -> gr.Dropdown:
    recipes = gr.Dropdown(
        label="Recipes, up to four",
        info="pooling+head: type to search, or write your own, such as mean@6+linear.",
        choices=[str(recipe) for recipe in menu()],
        value=list(OPENING.recipes),
        multiselect=True,
        max_choices=PLACES,
        allow_custom_value=True,
        interactive=True,
    )
    legend = gr.HTML(_legend(list(OPENING.recipes)), padding=False)
    recipes.change(_legend, recipes, legend, show_progress="hidden", api_visibility="private")
    _workbench(recipes)
    return recipes


def _workbench(recipes: gr.Dropdown) -> None:
    """Puts a recipe together from menus in which every part says what it is."""
    with gr.Accordion("Put a recipe together", open=False):
        with gr.Row():
            reads = gr.Dropdown(
                [(f"{part.name}: {part.says}", name) for name, part in pooling.items()],
                value="mean",
                label="Pooling",
                info="Which tokens are read.",
                interactive=True,
                min_width=220,
            )
            of = gr.Dropdown(
                [(LAST, ""), *((f"{p.name}: {p.says}", name) for name, p in layers.items())],
                value="",
                label="Layers",
                info="Or the number of one; 0 is the embeddings.",
                allow_custom_value=True,
                interactive=True,
                min_width=160,
            )
            top = gr.Dropdown(
                [(f"{part.name}: {part.says}", name) for name, part in head.items()],
                value="roberta",
                label="Head",
                info="From the pooled vector to the logits.",
                interactive=True,
                min_width=220,
            )
        add = gr.Button("Add to the recipes", size="sm")
        add.click(
            _added, [recipes, reads, of, top], recipes, show_progress="hidden",
            api_visibility="private",
        )  # fmt: skip


def _results(opening: Comparison) -> Outputs:
    values = shown(opening, OPENING)
    verdict = gr.HTML(values[0], elem_id="verdict", padding=False)
    cards = gr.HTML(values[1], elem_id="cards", padding=False)
    columns, names, plots = [], [], []
    for kind, title in ((0, "Probability per class"), (1, "Logit per class, before softmax")):
        gr.Markdown(f"### {title}")
        with gr.Row():
            for place in range(PLACES):
                number = kind * PLACES + place
                with gr.Column(min_width=230, elem_classes="chart") as column:
                    names.append(gr.HTML(values[10 + number], padding=False))
                    plots.append(gr.Plot(values[18 + number], show_label=False, container=False))
                columns.append(column)
    with gr.Accordion("All numbers", open=False, elem_id="numbers"):
        table = gr.Dataframe(
            values[-2],
            headers=HEADERS,
            datatype=["str", "str", "number", "number"],
            interactive=False,
            max_height=420,
            show_label=False,
            buttons=["copy", "fullscreen"],
        )
        save = gr.Button("Save as CSV", size="sm")
        save.click(None, table, None, js=SAVE_CSV, api_visibility="private")
    query = gr.Textbox(values[-1], visible=False)
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
    return Outputs(
        verdict=verdict,
        cards=cards,
        columns=columns,
        names=names,
        plots=plots,
        table=table,
        query=query,
    )


def _wire(
    page: gr.Blocks, inputs: Inputs, outputs: Outputs, button: gr.Button, tries: gr.Dataset
) -> None:
    quiet: dict[str, Any] = {"show_progress": "hidden", "api_visibility": "private"}
    target = [inputs.sample, tries, *outputs.all()]
    run: dict[str, Any] = {
        "fn": _run,
        "inputs": inputs.all(),
        "outputs": target,
        "concurrency_id": "infer",
        "concurrency_limit": 2,
        **quiet,
    }
    gr.on([button.click, inputs.text.submit, inputs.pair.submit], **run)
    chosen = [inputs.text, inputs.pair]
    tries.click(_tried, [tries, inputs.sample], chosen, queue=False, **quiet).then(**run)
    picked = inputs.sample.input(_sampled, inputs.sample, [*chosen, tries], queue=False, **quiet)
    picked.then(**run)
    page.load(_opened, None, [inputs.text, inputs.pair, inputs.model, inputs.recipes, *target],
              concurrency_id="infer", concurrency_limit=2, **quiet)  # fmt: skip


def _run(text: str, pair: str, model: str, data: str, recipes: list[str]) -> Iterator[list[Any]]:
    """Answers the inputs: progress in the place of the verdict, then all the rest."""
    question = Question(
        text=text, pair=pair or "", model=model or BUNDLED, sample=data, recipes=tuple(recipes)
    )
    yield from answered(question)


def answered(question: Question) -> Iterator[list[Any]]:
    """Values for the sample's menu, its chips and every output; a failure has its sentence."""
    same = [gr.skip()] * 2
    try:
        if question.pair.strip() and not sample(question.sample).pair:
            question = replace(question, sample="pairs")
            same = ["pairs", gr.Dataset(samples=_tries("pairs"))]
        for event in throttled(comparing(**question.asked)):
            if isinstance(event, Compared):
                yield [*same, *shown(event.comparison, question)]
            else:
                yield [*same, drawings.progress(event), *[gr.skip()] * (len(BLANK) - 1)]
    except Exception as error:
        yield [*same, drawings.failure(sentence(error)), *BLANK[1:]]


def shown(comparison: Comparison, question: Question) -> list[Any]:
    """The values of the outputs, in the order of `Outputs.all`."""
    predictions = comparison.predictions[:PLACES]
    spans = (
        figures.probability_span(),
        figures.logit_span([prediction.logits for prediction in predictions]),
    )
    columns, names, plots = [], [], []
    for percent, span in zip((True, False), spans, strict=True):
        for place in range(PLACES):
            used = place < len(predictions)
            columns.append(gr.update(visible=used))
            prediction = predictions[place if used else 0]
            names.append(drawings.chart_name(str(prediction.recipe)))
            figure = figures.bars(
                comparison.classes,
                prediction.probabilities if percent else prediction.logits,
                answer=prediction.answer,
                colour=figures.COLOURS[place],
                span=span,
                percent=percent,
            )
            plots.append(_plot(figure))
    return [
        drawings.verdict(comparison),
        drawings.cards(comparison),
        *columns,
        *names,
        *plots,
        _table(comparison),
        question.query,
    ]


# Every output with nothing in it, in the order of `Outputs.all`.
BLANK = ["", "", *[gr.update(visible=False)] * 8, *[""] * 8, *[None] * 8, [], ""]


def _plot(figure: figures.Figure) -> PlotData:
    return PlotData(type="plotly", plot=json.dumps(figure | {"config": {"displayModeBar": False}}))


def _table(comparison: Comparison) -> list[list[Any]]:
    return [
        [str(prediction.recipe), name, round(logit, 4), round(chance, 4)]
        for prediction in comparison.predictions
        for name, logit, chance in zip(
            comparison.classes, prediction.logits, prediction.probabilities, strict=True
        )
    ]


def _opened(request: gr.Request) -> Iterator[list[Any]]:
    """A page that was opened by a link with a question in it answers that question."""
    fields = dict(request.query_params)
    if not fields.get("text"):
        yield [gr.skip()] * (len(BLANK) + 6)
        return
    question = Question.from_query(fields)
    asked = [question.text, question.pair, question.model, list(question.recipes)]
    chips: list[Any] = [gr.skip(), gr.skip()]
    if question.sample in SAMPLES:
        chips = [question.sample, gr.Dataset(samples=_tries(question.sample))]
    for values in answered(question):
        yield [*asked, *chips, *values[2:]]


@guarded
def _tried(number: int, data: str) -> list[str]:
    return list((*SAMPLES[data].tries[number], "")[:2])


@guarded
def _sampled(data: str) -> list[Any]:
    """A sample brings its own first example and chips."""
    text, pair = (*SAMPLES[data].tries[0], "")[:2]
    return [text, pair, gr.Dataset(samples=_tries(data))]


@guarded
def _added(recipes: list[str], reads: str, of: str, top: str) -> list[str]:
    layer = "" if of in ("", LAST) else f"@{of}"
    recipe = str(resolve(f"{reads}{layer}+{top}").recipe)
    if len(recipes) >= PLACES and recipe not in recipes:
        raise LimitError(f"{PLACES} recipes are chosen already.", "Take one of them away first.")
    return list(dict.fromkeys([*recipes, recipe]))


def _legend(recipes: list[str]) -> str:
    lines = []
    for recipe in recipes:
        try:
            order = resolve(recipe)
            lines.append((str(order.recipe), order.says))
        except HeadsError as error:
            lines.append((recipe, str(error)))
    return drawings.legend(lines)


def _tries(data: str) -> list[list[str]]:
    return [[" ↔ ".join(texts)] for texts in SAMPLES[data].tries]


def _model_choices() -> list[tuple[str, str]]:
    choices = []
    for base in MODELS:
        fetched = base.id != BUNDLED and cached_folder(base.id) is not None
        state = "bundled" if base.id == BUNDLED else "on this machine" if fetched else "not fetched"
        choices.append((f"{base.name} ({base.millions}M parameters, {state})", base.id))
    return choices
