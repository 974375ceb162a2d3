"""The tab "Look inside": which tokens move each head, its nearest examples, and what-ifs."""

import contextlib
from collections.abc import Iterator
from dataclasses import dataclass, fields
from typing import Any

import gradio as gr

from heads.data.samples import SAMPLES
from heads.errors import HeadsError
from heads.interfaces.web.compare import CONCURRENCY, Inputs
from heads.interfaces.web.guards import guarded
from heads.interfaces.web.looked import (
    BLANK,
    MOST,
    SAMPLE,
    Asked,
    choices,
    classes_of,
    edited,
    has_pairs,
    heads_of,
    retrained,
    samples,
    shown,
    warmed,
)
from heads.interfaces.web.opening import Opening
from heads.interfaces.web.question import OPENING
from heads.parts.resolved import JOINT

QUIET: dict[str, Any] = {"show_progress": "hidden", "api_visibility": "private"}
ANSWERED = ("what each head answers", "")
AGAINST = [("the mean of the other classes", "others"), ("the runner-up", "runner-up")]
TEMPERATURE = "Temperature, as a power of ten: −1 is a tenth, 0 leaves the logits as they are"


@dataclass(frozen=True, slots=True, kw_only=True)
class Question:
    """The components that ask, in the order of `Asked`."""

    trained_on: gr.Dropdown
    recipes: gr.Dropdown
    text: gr.Textbox
    pair: gr.Textbox
    model: gr.State
    label: gr.Dropdown
    against: gr.Dropdown

    def all(self) -> list[Any]:
        """All of them."""
        return [getattr(self, field.name) for field in fields(self)]


def build(tab: gr.Tab, opening: Opening, asked: Inputs, mine: gr.BrowserState) -> None:
    """Draws the tab; sentence, heads, base model and sample are at first those of Compare.

    Args:
        mine: The ids of the runs that this browser knows.
    """
    question = _question()
    opening.fills([question.label, question.recipes, question.trained_on], _menus_at_first)
    button = gr.Button("Look inside", variant="primary", size="lg", elem_id="look-inside")
    taken = gr.State(None)  # what was compared when one last came here
    status = gr.HTML("", elem_id="look-status", padding=False)
    said = gr.State([])
    with gr.Column(visible=False) as details:
        sections = _sections(question, said)
    outputs = [status, details, *sections[:6], said, *sections[6:]]
    run: dict[str, Any] = {
        "fn": _run,
        "trigger_mode": "always_last",
        "inputs": question.all(),
        "outputs": outputs,
        **CONCURRENCY,
        **QUIET,
    }
    gr.on([button.click, question.text.submit, question.pair.submit], **run)
    question.trained_on.input(
        _turned, [question.trained_on], _following(question), **QUIET
    ).success(**run)
    came = tab.select(
        _came,
        [taken, mine, asked.text, asked.pair, asked.model, asked.sample, asked.recipes,
         asked.pairs],
        [status, taken, question.trained_on, question.model, *_following(question)],
        **QUIET,
    )  # fmt: skip
    came.success(_first, [status, *question.all()], outputs, **CONCURRENCY, **QUIET)


def _question() -> Question:
    with gr.Row():
        with gr.Column(min_width=300):
            text = gr.Textbox(
                label="Sentence to look at", value=OPENING.text, lines=1, max_lines=8,
                max_length=20_000,
            )  # fmt: skip
            pair = gr.Textbox(
                label="Second sentence to look at", lines=1, max_lines=8, max_length=20_000,
                visible=False,
            )  # fmt: skip
            label = gr.Dropdown(
                [ANSWERED],
                value="",
                label="What speaks for",
                info="The class that is asked about.",
                interactive=True,
            )
            against = gr.Dropdown(
                AGAINST, value="others", label="Against", interactive=True,
                info="What its logit is held against, where classes compete.",
            )  # fmt: skip
        with gr.Column(min_width=300):
            trained_on = gr.Dropdown(
                samples(),
                value=SAMPLE + OPENING.sample,
                label="Heads trained on",
                info="A sample, or a run of yours. The base model is the one chosen under Compare, "
                "or the run's.",
                interactive=True,
            )
            recipes = gr.Dropdown(
                list(OPENING.recipes),
                value=list(OPENING.recipes),
                label="Heads, up to four",
                multiselect=True,
                max_choices=MOST,
                allow_custom_value=True,
                interactive=True,
            )
    return Question(
        trained_on=trained_on, recipes=recipes, text=text, pair=pair,
        model=gr.State(OPENING.model), label=label, against=against,
    )  # fmt: skip


def _menus_at_first() -> list[Any]:
    from heads.classifier.pretrained import OWN
    from heads.parts.resolve import menu

    classes = [ANSWERED, *classes_of(SAMPLE + OPENING.sample)]
    names = [OWN, *map(str, menu())]
    menus = (classes, names, choices(None))
    return [gr.update(choices=each) for each in menus]


def _sections(question: Question, said: gr.State) -> list[Any]:
    """The sections in the order in which they are shown; what-ifs answer by themselves."""
    gr.Markdown(
        "### What each head looks at\nHow much each token adds to the logit of a class less the "
        "others', against a text with a blank in the place of every word (integrated gradients)."
    )
    tokens = gr.HTML("", elem_id="tokens", padding=False)
    gr.Markdown("### What the pooling reads\nThe share of the pooled vector that each token gives.")
    reads = gr.HTML("", elem_id="reads", padding=False)
    gr.Markdown("### The nearest training examples\nBy the cosine of the vectors that a head gets.")
    near = gr.HTML("", elem_id="near", padding=False)
    gr.Markdown("### Change a word\nOne edited sentence a line: which head flips on what?")
    lines = gr.Textbox(label="Edited sentences", lines=4, max_lines=12, max_length=20_000)
    ask = gr.Button("Ask about the edits", size="sm", elem_id="ask-edits")
    flips = gr.HTML("", elem_id="flips", padding=False)
    ask.click(_edited, [*question.all(), lines], flips, **QUIET, **CONCURRENCY)
    with gr.Column() as chances:  # which numbers have none of
        gr.Markdown("### How sure: temperature")
        power = gr.Slider(-1, 1, value=0, step=0.05, label=TEMPERATURE, elem_id="temperature")
        warm = gr.HTML("", elem_id="warm", padding=False)
        gr.Markdown("### The same logits, read in two ways")
        read = gr.HTML("", elem_id="softmax-sigmoid", padding=False)
    power.change(  # unchecked, so that a number out of range gets a sentence
        warmed, [said, power], warm, queue=False, trigger_mode="always_last", preprocess=False,
        **QUIET,
    )  # fmt: skip
    gr.Markdown(
        "### Take a layer out\nThe trained head less one of its layers, as it is; and beside it "
        "one that was trained without it, which tells what the layer is worth."
    )
    anew = gr.Button("Train these heads without each layer", size="sm", visible=False)
    layers = gr.HTML("", elem_id="layers", padding=False)
    anew.click(_retrained, question.all(), layers, **QUIET, **CONCURRENCY)
    return [tokens, reads, near, read, warm, layers, lines, flips, power, chances, anew]


def _following(question: Question) -> list[Any]:
    """What follows from what heads are trained on."""
    return [getattr(question, name) for name in ("text", "pair", "recipes", "label", "against")]


@guarded
def _turned(trained_on: str) -> list[Any]:
    """Other heads: their own example, their own menu and their own classes."""
    kind, _, name = trained_on.partition(":")
    text, second = gr.skip(), ""
    if kind != "run":
        text, second = (*SAMPLES[name].tries[0], "")[:2]
    return [text, *_menus(trained_on, second)]


def _menus(trained_on: str, second: str, recipes: list[str] | None = None) -> list[Any]:
    from heads.classifier.pretrained import OWN
    from heads.parts.resolve import menu

    names = heads_of(trained_on)
    menus: dict[str, Any] = {"choices": names or [OWN, *map(str, menu())]}
    if names or recipes:
        menus["value"] = (names or recipes or [])[:MOST]
    classes = classes_of(trained_on)
    label = gr.update(choices=[ANSWERED, *classes], value="", visible=bool(classes))
    pair = gr.update(value=second, visible=has_pairs(trained_on))
    return [pair, gr.update(**menus), label, gr.update(visible=len(classes) > 2)]


@guarded
def _came(taken: Any, mine: Any, *compared: Any) -> list[Any]:
    """Coming from Compare, one looks at what was compared there, unless one has done so."""
    text, pair, model, data, recipes, way = now = list(compared)
    way = way if (pair or "").strip() else JOINT
    if taken == now or data not in SAMPLES:
        return [gr.skip(), taken, gr.update(choices=choices(mine)), *[gr.skip()] * 6]
    where = SAMPLE + ("pairs" if (pair or "").strip() and not SAMPLES[data].pair else data)
    return [
        "",
        now,
        gr.update(choices=choices(mine), value=where),
        model,
        text,
        *_menus(where, pair or "", [_read(name, way) for name in recipes]),
    ]


def _read(recipe: str, way: str) -> str:
    """A recipe as two texts enter in Compare: where it can, each by itself."""
    from heads.runs.spec import entering

    with contextlib.suppress(HeadsError):
        return str(entering(recipe, way)) if way != JOINT else recipe
    return recipe


def _first(status: str, *given: Any) -> Iterator[list[Any]]:
    """Looks at once; where it was looked before, what stands there stays."""
    yield from iter([[gr.skip()] * len(BLANK)]) if status else shown(_asked(given))


def _run(*given: Any) -> Iterator[list[Any]]:
    yield from shown(_asked(given))


def _asked(given: Any) -> Asked:
    names = (field.name for field in fields(Question))
    return Asked(**dict(zip(names, given, strict=True)))


def _edited(*given: Any) -> Any:
    return edited(_asked(given[:-1]), given[-1])


def _retrained(*given: Any) -> Iterator[Any]:
    yield from retrained(_asked(given))
