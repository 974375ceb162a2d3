"""The tab "Look inside": which tokens move each head, its nearest examples, and what-ifs."""

import contextlib
from collections.abc import Generator, Iterator, Sequence
from dataclasses import dataclass, fields, replace
from typing import TYPE_CHECKING, Any, TypeVar

import gradio as gr

from heads.analysis.attribution_result import Attribution
from heads.backbone.models import BUNDLED
from heads.data.samples import SAMPLES
from heads.errors import DataError, HeadsError, LimitError, RecipeError
from heads.events import result
from heads.interfaces.views import comparison
from heads.interfaces.web import run_access
from heads.interfaces.web.guards import guarded, sentence, throttled
from heads.interfaces.web.links import OPENING
from heads.interfaces.web.startup import Opening
from heads.interfaces.web.tabs.compare import CONCURRENCY, CompareInputs
from heads.parts.resolved_recipe import JOINT
from heads.settings import limits

if TYPE_CHECKING:
    from heads.analysis.selection import HeadOutput, SelectedHeads
    from heads.events import Progress

# --- What the tab "Look inside" shows: from what its inputs say to the values of its outputs.

MOST = 4
RUN, SAMPLE = "run:", "sample:"
Found = TypeVar("Found")


@dataclass(frozen=True, slots=True, kw_only=True)
class InspectRequest:
    """What the inputs of the tab say, in their order."""

    trained_on: str
    recipes: Sequence[str]
    text: str
    pair: str
    model: str
    label: str
    against: str = "others"

    def heads(self) -> "Generator[Progress, None, SelectedHeads]":
        """The heads that are asked: progress while some are trained, then they.

        Raises:
            RecipeError: None is chosen.
            LimitError: More than fit side by side.
        """
        from heads.analysis.selection import choosing

        if not self.recipes:
            raise RecipeError("No head is chosen.", "Choose one.")
        if len(self.recipes) > MOST:
            raise LimitError(f"At most {MOST} heads stand side by side.", "Take some away.")
        kind, _, name = (self.trained_on or "").partition(":")
        if kind == "run":
            of = {"run": run_access.opened(name).id}
        else:
            of = {"model": self.model or BUNDLED, "sample": name}
        return choosing(self.recipes, self.second, **of, limits=limits())

    @property
    def second(self) -> str:
        """The second sentence, where what the heads were trained on has one."""
        return self.pair or "" if has_pairs(self.trained_on) else ""


def samples() -> list[tuple[str, str]]:
    """The samples that heads may be trained on, as a menu shows them."""
    return [(f"Sample: {item.title}", SAMPLE + name) for name, item in SAMPLES.items()]


def choices(mine: Any) -> list[tuple[str, str]]:
    """What heads may be trained on: the samples, and the runs that a visitor may see."""
    return samples() + [(f"Run: {title}", RUN + name) for title, name in run_access.choices(mine)]


def has_pairs(trained_on: str) -> bool:
    """Whether rows hold two sentences."""
    from heads.runs.spec import load

    kind, _, name = (trained_on or "").partition(":")
    if kind == "run":
        return bool(load(run_access.opened(name)).corpus.pairs)
    return name in SAMPLES and SAMPLES[name].pair


def classes_of(trained_on: str) -> tuple[str, ...]:
    """The names of the classes; there are none where numbers are predicted."""
    from heads.data.dataset import corpus_of
    from heads.runs.spec import load

    kind, _, name = (trained_on or "").partition(":")
    if kind == "run":
        corpus = load(run_access.opened(name)).corpus
    elif name in SAMPLES:
        corpus = corpus_of(SAMPLES[name], limits())
    else:
        return ()
    return corpus.classes if corpus.problem.has_classes else ()


def heads_of(trained_on: str) -> list[str]:
    """The heads of a run; of a sample, nothing: any recipe can be trained on it."""
    from heads.runs.spec import load

    kind, _, name = (trained_on or "").partition(":")
    return list(load(run_access.opened(name)).recipes) if kind == "run" else []


# Every output with nothing in it: status, details, tokens, reads, near, read, tempered, layers,
# what was said, edits, their answers, the temperature, all that tells how sure a head is, and the
# button that trains heads without their layers.
HIDDEN: Any = gr.update(visible=False)
BLANK: list[Any] = ["", HIDDEN, *[""] * 6, [], gr.skip(), "", 0, gr.skip(), HIDDEN]


def shown(asked: InspectRequest) -> Iterator[list[Any]]:
    """The values of the outputs, in the order of `BLANK`, as they come to be known.

    What was found for another text goes at once.
    """
    try:
        yield [comparison.busy("Loading the heads"), BLANK[1], *[gr.skip()] * (len(BLANK) - 2)]
        heads = yield from _with_progress(asked.heads())
        yield from _looked(asked, heads)
    except Exception as error:
        yield [comparison.failure(sentence(error)), *BLANK[1:]]


def _looked(asked: InspectRequest, heads: "SelectedHeads") -> Iterator[list[Any]]:
    from heads.analysis.ablation import ablating
    from heads.analysis.attribution import attributions
    from heads.analysis.counterfactuals import suggested
    from heads.analysis.neighbors import searching
    from heads.analysis.selection import answered, reading
    from heads.events import Progress
    from heads.interfaces.views import interpretation

    yield _busy(Progress(says="Following every token through the base model", share=0.1))
    found = attributions(
        heads.classifiers, asked.text, asked.second, asked.label, asked.against or "others"
    )
    said = answered(heads.classifiers, asked.text, asked.second)
    numbers = not any(one.problem.has_classes for one in said)
    known = comparison.notes(_remarks(heads, found))
    found = [replace(one, unread=0) for one in found]  # which is said once, not for each head
    read = [reading(one) for one in said]
    values: list[Any] = [
        *(comparison.busy("Looking for the nearest training examples"), gr.update(visible=True)),
        *(
            known + interpretation.attributions(found, numbers=numbers),
            interpretation.reads(found),
            "",
        ),
        *(interpretation.readings(read), interpretation.temperature(read), ""),
        *(list(said), "\n".join(suggested(asked.text)), "", 0, gr.update(visible=not numbers)),
        gr.update(visible=heads.run is not None),
    ]
    yield [*values]
    values[4] = interpretation.neighbours(
        (yield from _with_progress(searching(heads, asked.text, asked.second)))
    )
    # Heads of a sample are trained anew in seconds; those of a run when that is asked for.
    anew = heads.run is None
    values[7] = interpretation.ablations(
        (yield from _with_progress(ablating(heads, asked.text, asked.second, retrain=anew)))
    )
    values[0] = comparison.sayers(said)
    yield values


def _remarks(heads: "SelectedHeads", found: Sequence[Attribution]) -> Iterator[str]:
    """What the heads could not read: tokens that were left out, and unknown ones."""
    for one in found:
        if one.unread:
            yield one.says.removeprefix(replace(one, unread=0).says).strip()
    sign = heads.classifiers[0].backbone.tokenizer.unk_token
    unknown = sum(bool(token.side) and token.text == sign for token in found[0].tokens)
    if unknown:
        verb = "is" if unknown == 1 else "are"
        yield (
            f"{comparison.counted(unknown, 'token')} {verb} {sign}: the base model does not know "
            "these signs or words, so no head can tell what they are."
        )


def _with_progress(
    events: "Generator[Progress, None, Found]",
) -> Generator[list[Any], None, Found]:
    """Shows the progress of some work, and hands its result on."""
    told = throttled(events)
    while True:
        try:
            event = next(told)
        except StopIteration as done:
            return done.value
        yield _busy(event)


def _busy(event: "Progress") -> list[Any]:
    return [comparison.progress(event), *[gr.skip()] * (len(BLANK) - 1)]


def retrained(asked: InspectRequest) -> Iterator[Any]:
    """What heads say with a layer taken out and trained anew without it: progress, then that."""
    from heads.analysis.ablation import ablating
    from heads.interfaces.views import interpretation

    try:
        events = ablating(result(asked.heads()), asked.text, asked.second)
        while True:
            try:
                yield comparison.progress(next(events))
            except StopIteration as done:
                yield interpretation.ablations(done.value)
                return
    except Exception as error:
        yield comparison.failure(sentence(error))


def edited(asked: InspectRequest, lines: str) -> Any:
    """What the heads say of edits, one a line."""
    from heads.analysis.counterfactuals import flipped
    from heads.interfaces.views import interpretation

    try:
        heads = result(asked.heads())
        edits = [line for line in (lines or "").splitlines() if line.strip()]
        return interpretation.flips(flipped(heads.classifiers, asked.text, edits, asked.second))
    except Exception as error:
        return comparison.failure(sentence(error))


def warmed(said: "Sequence[HeadOutput]", power: Any) -> Any:
    """The same logits at another temperature, ten to that power; no head is asked again."""
    from heads.analysis.selection import reading
    from heads.interfaces.views import interpretation

    try:
        if not isinstance(power, int | float) or not -1 <= power <= 1:
            what = "The temperature goes from −1 to 1, as a power of ten."
            raise DataError(what, "Type a number between them, or move the slider.")
        return interpretation.temperature([reading(one, 10**power) for one in said or ()])
    except Exception as error:
        return comparison.failure(sentence(error))


QUIET: dict[str, Any] = {"show_progress": "hidden", "api_visibility": "private"}
ANSWERED = ("what each head answers", "")
AGAINST = [("the mean of the other classes", "others"), ("the runner-up", "runner-up")]
TEMPERATURE = "Temperature, as a power of ten: −1 is a tenth, 0 leaves the logits as they are"


@dataclass(frozen=True, slots=True, kw_only=True)
class InspectInputs:
    """The components that ask, in the order of `InspectRequest`."""

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


def build(tab: gr.Tab, opening: Opening, asked: CompareInputs, mine: gr.BrowserState) -> None:
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


def _question() -> InspectInputs:
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
    return InspectInputs(
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


def _sections(question: InspectInputs, said: gr.State) -> list[Any]:
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


def _following(question: InspectInputs) -> list[Any]:
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
    from heads.parts.resolve import resolve
    from heads.runs.spec import entering

    with contextlib.suppress(HeadsError):
        return str(entering(resolve(recipe), way)) if way != JOINT else recipe
    return recipe


def _first(status: str, *given: Any) -> Iterator[list[Any]]:
    """Looks at once; where it was looked before, what stands there stays."""
    yield from iter([[gr.skip()] * len(BLANK)]) if status else shown(_asked(given))


def _run(*given: Any) -> Iterator[list[Any]]:
    yield from shown(_asked(given))


def _asked(given: Any) -> InspectRequest:
    names = (field.name for field in fields(InspectInputs))
    return InspectRequest(**dict(zip(names, given, strict=True)))


def _edited(*given: Any) -> Any:
    return edited(_asked(given[:-1]), given[-1])


def _retrained(*given: Any) -> Iterator[Any]:
    yield from retrained(_asked(given))
