"""An opened lane: why the head says so, how it is made, its numbers, and how to take it along."""

import contextlib
import time
from collections.abc import Generator, Sequence
from contextlib import closing
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import gradio as gr

from heads import plugins
from heads.data.samples import SAMPLES
from heads.errors import HeadsError, RecipeError
from heads.events import Progress, result
from heads.interfaces.views import lanes as view
from heads.interfaces.views.html import busy, render
from heads.interfaces.web import downloads, run_access
from heads.interfaces.web.guards import as_csv, clicked, failed, saves, show_progress
from heads.interfaces.web.lane_sections import CORE_SECTIONS, SectionParts, lane_sections
from heads.interfaces.web.location import SECTIONS, Location
from heads.interfaces.web.page_sections import draw_section
from heads.interfaces.web.places import base_models
from heads.interfaces.web.places.answers import PendingQuestion, PendingQuestions
from heads.interfaces.web.places.try_it import CLICKS, QUIET, Try
from heads.interfaces.web.slots import pool
from heads.interfaces.web.temporary_files import exporting
from heads.parts.resolved_recipe import JOINT

if TYPE_CHECKING:
    from heads.classifier.classifier import Classifier
    from heads.inference.selection import SelectedHeads
    from heads.interpret.outputs import HeadOutput

ANSWERED = ("what the head answers", "")
AGAINST = [("the mean of the other classes", "others"), ("the runner-up", "runner-up")]
TEMPERATURE = "Temperature, from 0.1 (−1) to 10 (1) on a log scale; 0 leaves the logits as they are"
LOOKS, EXPORTS = pool("looks"), pool("export")
WHY = ("status", "label", "against", "tokens", "near", "layers", "anew", "lines", "flips")
PAUSE = 0.4  # seconds without a key, after which one has typed to the end
Stream = Generator[Any, None, None]


def load_lane_heads(
    asked: Location, recipes: Sequence[str]
) -> "Generator[Progress, None, SelectedHeads]":
    """Load or train the heads of lanes, raw if the page shows raw logits; yield progress."""
    from heads.inference.selection import HeadRequest, select_heads

    base_models.check_at_hand(asked)
    request = HeadRequest(recipes=recipes, run=asked.run and run_access.opened(asked.run).id)
    if not asked.run:
        names = [_entering(recipe, asked) for recipe in recipes]
        pair, sample = asked.pair if asked.has_pairs else "", asked.sample
        request = HeadRequest(recipes=names, pair=pair, model=asked.model, sample=sample)
    heads = yield from select_heads(request)
    if not asked.raw or asked.show == "take":  # an exported head stays calibrated
        return heads
    raw = (replace(lane, head=lane.head.raw or lane.head) for lane in heads.classifiers)
    return replace(heads, classifiers=tuple(raw))


def load_open_head(
    asked: Location,
) -> "Generator[Progress, None, tuple[SelectedHeads, Classifier, str]]":
    """Load or train the head of the open lane; return it, and the second text that it reads."""
    heads = yield from load_lane_heads(asked, [of_lane(asked)])
    (classifier,) = heads.classifiers
    return heads, classifier, _second_text(asked, classifier)


def _second_text(asked: Location, classifier: "Classifier") -> str:
    return asked.pair if classifier.head.needs_pairs else ""


def _entering(recipe: str, asked: Location) -> str:
    """A recipe as two texts enter it: where it can, each by itself."""
    from heads.parts.resolve import resolve
    from heads.runs.grids import entering

    if asked.pairs == JOINT or not asked.pair.strip():
        return recipe
    with contextlib.suppress(HeadsError):
        return str(entering(resolve(recipe), asked.pairs))
    return recipe


def of_lane(asked: Location) -> str:
    """Return the recipe of the open lane; raise RecipeError if none is open."""
    if not is_open(asked):
        raise RecipeError("No head is open.", "Click on one.")
    return asked.recipes[asked.lane - 1]


# --- Why.


def why(asked: Location, label: str, against: str) -> Stream:
    """What the components of this section show, in the order of `WHY`, as it comes to be known."""
    try:
        # What stands there of another text goes at once.
        yield _only(status=busy("Loading the head"), tokens="", near="", layers="")
        opened = yield from show_progress(load_open_head(asked), _status)
        yield from _why(asked, *opened, label, against)
    except Exception as error:
        gone = gr.update(visible=False)
        yield _only(status=failed(error), tokens="", near="", layers="", anew=gone)


def _only(**given: Any) -> list[Any]:
    """Values for some of the components; the others stay as they are."""
    return [given.get(name, gr.skip()) for name in WHY]


def _status(event: Progress) -> list[Any]:
    return _only(status=busy(event.says, event.share))


def _why(
    asked: Location,
    heads: "SelectedHeads",
    classifier: "Classifier",
    second: str,
    label: str,
    against: str,
) -> Stream:
    from heads.interfaces.views import interpretation
    from heads.interpret.ablation import ablate_layers
    from heads.interpret.attribution import attributions
    from heads.interpret.comparison import script_notes
    from heads.interpret.counterfactuals import suggest_edits
    from heads.interpret.neighbors import find_neighbours

    problem = classifier.head.problem
    classes = classifier.head.classes if problem.has_classes else ()
    label = label if label in classes else ""
    yield _only(status=busy("Following every token through the base model"))
    (found,) = attributions(heads.classifiers, asked.text, second, label, against or "others")
    notes = list(script_notes([asked.text, second], classifier.backbone.tokenizer))
    if found.unread:
        notes.insert(0, found.says.removeprefix(replace(found, unread=0).says).strip())
    yield _only(
        status=busy("Looking for the nearest training examples"),
        label=gr.update(choices=[ANSWERED, *classes], value=label, visible=bool(classes)),
        against=gr.update(visible=len(classes) > 2),
        tokens=interpretation.attribution(
            replace(found, unread=0), is_number=not problem.has_classes, notes=notes
        ),
        anew=gr.update(visible=heads.run is not None),
        lines="\n".join(suggest_edits(asked.text)),
        flips="",
    )
    near = yield from show_progress(find_neighbours(heads, asked.text, second), _status)
    yield _only(near=interpretation.neighbours(near))
    # A head of a sample is trained anew in seconds; one of a run when that is asked for.
    without = yield from show_progress(
        ablate_layers(heads, asked.text, second, retrain=heads.run is None), _status
    )
    yield _only(status="", layers=interpretation.ablations(without))


def retrained(asked: Location) -> Stream:
    """What the head says with a layer taken out and trained anew without it."""
    from heads.interfaces.views import interpretation
    from heads.interpret.ablation import ablate_layers

    try:
        heads, _, second = result(load_open_head(asked))
        events = ablate_layers(heads, asked.text, second)
        found = yield from show_progress(events, lambda event: busy(event.says, event.share))
        yield interpretation.ablations(found)
    except Exception as error:
        yield failed(error)


def edited(asked: Location, lines: str) -> Any:
    """What all heads side by side say of edits, one a line."""
    from heads.interfaces.views import interpretation
    from heads.interpret.counterfactuals import compare_edits

    try:
        heads = result(load_lane_heads(asked, asked.recipes))
        edits = [line for line in (lines or "").splitlines() if line.strip()]
        second = _second_text(asked, heads.classifiers[0])
        return interpretation.edits(compare_edits(heads.classifiers, asked.text, edits, second))
    except Exception as error:
        return failed(error)


# --- How, and the numbers.


def how(asked: Location) -> Stream:
    """Yield the chain of the head, from tokens to logits."""
    from heads.interfaces.views import explanation
    from heads.interpret.explanation import explain

    try:
        _, classifier, second = result(load_open_head(asked))
        head, classes = classifier.head, len(classifier.head.classes)
        found = explain(
            head.asked,
            classifier.backbone,
            classes=classes,
            text=asked.text,
            pair=second,
            head=head,
        )
        title = run_access.title_of(asked.run) if asked.run else SAMPLES[asked.sample].title
        yield [explanation.explanation(found, title)]
    except Exception as error:
        yield [failed(error)]


def compare_lanes(asked: Location, other: str) -> Stream:
    """Yield the menu of the other lanes, and the open head beside one of them.

    Args:
        other: The recipe of the other lane. Default: the first that answers differently.
    """
    from heads.interfaces.views import interpretation
    from heads.interpret.attribution import attributions
    from heads.interpret.counterfactuals import compare_edits, leave_out_each_word
    from heads.interpret.differences import difference
    from heads.interpret.outputs import head_outputs

    try:
        recipe = of_lane(asked)
        others = [name for name in asked.recipes if name != recipe]
        if not others:
            raise RecipeError("There is no other head to compare with.", "Add a lane.")
        yield [gr.skip(), busy("Comparing the two heads")]
        rivals = [other] if other in others else others
        classifiers = result(load_lane_heads(asked, [recipe, *rivals])).classifiers
        second_text = _second_text(asked, classifiers[0])
        outputs = head_outputs(classifiers, asked.text, second_text)
        rival_at = _choose_rival(classifiers, outputs)
        both = first, second = classifiers[0], classifiers[rival_at]
        output, rival_output = outputs[0], outputs[rival_at]
        label, rival = ("".join(o.answer[:1]) for o in (output, rival_output))
        if rival in ("", label):  # both say the same: against the runner-up of the open head
            logits = zip(output.logits, output.classes, strict=True)
            rival = max((pair for pair in logits if pair[1] != label), default=(0.0, ""))[1]
        if first.head.classes == second.head.classes:
            evidence = attributions(both, asked.text, second_text, label, rival or "runner-up")
        else:  # of each head its own answer
            evidence = [attributions([one], asked.text, second_text)[0] for one in both]
        edits = leave_out_each_word(asked.text)
        counterfactuals = compare_edits(both, asked.text, edits, second_text) if edits else None
        rival_recipe = rivals[rival_at - 1]
        lanes = [asked.lane, 1 + asked.recipes.index(rival_recipe)]
        has_own = first.head.is_own or second.head.is_own
        apart = "" if has_own else difference(first.head.asked, second.head.asked, first.backbone)
        yield [
            gr.update(choices=others, value=rival_recipe),
            interpretation.side_by_side(
                both, (output, rival_output), evidence, counterfactuals, lanes, apart
            ),
        ]
    except Exception as error:
        yield [gr.skip(), failed(error)]


def _choose_rival(classifiers: "Sequence[Classifier]", outputs: "Sequence[HeadOutput]") -> int:
    """Return the index of the head to compare with the first: one that answers differently."""
    from heads.classifier.prediction import is_close

    answers = [
        None if is_close(output.probabilities, classifier.head) else output.answer
        for classifier, output in zip(classifiers, outputs, strict=True)
    ]
    # The answer of a random head means nothing, so it is taken only where there is no other.
    known = [n for n in range(1, len(classifiers)) if not classifiers[n].head.new] or [1]
    return next((n for n in known if answers[n] != answers[0]), known[0])


def numbers(asked: Location) -> Stream:
    """Yield every class with its numbers, the temperature, and what the head says at it."""
    from heads.classifier.prediction import cuts_of
    from heads.interfaces.views import interpretation
    from heads.interpret.outputs import read_output

    try:
        classifier, said = _predict_lane(asked)
        cuts = cuts_of(classifier.head) if said.problem.has_label_sets else ()
        yield [
            interpretation.numbers(read_output(said), cuts),
            gr.update(visible=said.problem.has_classes, value=0),
            _tempered(asked, said, 0),
        ]
    except Exception as error:
        yield [failed(error), gr.skip(), ""]


def _numbers_csv(query: str) -> str:
    """Return every class with its numbers as CSV."""
    from heads.interfaces.views import interpretation

    _, said = _predict_lane(Location.of(query))
    return as_csv(*interpretation.number_rows(said))


def tempered(asked: Location, power: Any) -> Any:
    """What the head says at a temperature, or what is wrong with that."""
    from heads.errors import DataError

    try:
        if not isinstance(power, int | float) or not -1 <= power <= 1:
            what = "The temperature goes from −1 to 1, as a power of ten."
            raise DataError(what, "Type a number between them, or move the slider.")
        _, said = _predict_lane(asked)
        return _tempered(asked, said, power)
    except Exception as error:
        return failed(error)


def _predict_lane(asked: Location) -> "tuple[Classifier, HeadOutput]":
    """Return the head of the open lane and what it answers."""
    from heads.interpret.outputs import head_outputs

    _, classifier, second = result(load_open_head(asked))
    (output,) = head_outputs([classifier], asked.text, second)
    return classifier, output


def _tempered(asked: Location, said: "HeadOutput", power: float) -> Any:
    from heads.interfaces.views import interpretation
    from heads.interpret.outputs import read_output

    if not said.problem.has_classes:
        return ""
    return interpretation.tempered(read_output(said, 10**power), view.COLOURS[asked.lane - 1])


# --- Take it.


def prepared(asked: Location, form: str) -> Stream:
    """Write and verify the head, and hand the file over."""
    hidden = gr.update(visible=False)

    def show(event: Progress) -> list[Any]:
        return [busy(event.says, event.share), hidden]

    try:
        with exporting() as folder:
            _, classifier, _ = yield from show_progress(load_open_head(asked), show)
            classifier = yield from show_progress(classifier.refitted(), show)
            yield [busy("Writing and checking the file"), hidden]
            path, says, code = downloads.written(classifier, form, folder)
            where = "beside" if f'"{path.stem}"' in code else "in"
            told = render("exported.html", lines=says, code=code, where=where)
            yield [told, gr.update(visible=True, value=str(path))]
    except Exception as error:
        yield [failed(error), hidden]


def takes(asked: Location) -> Stream:
    """Yield the forms in which a head can be taken along; nothing is written yet."""
    hidden = gr.update(visible=False)
    # Until they are known: of a form that is no choice any more Gradio would make an error.
    yield [gr.skip(), gr.update(interactive=False), "", hidden]
    try:
        _, classifier, _ = result(load_open_head(asked))
        forms = downloads.forms_of(classifier)
        form = gr.update(choices=forms, value=forms[0])
        yield [form, gr.update(interactive=True), "", hidden]
    except Exception as error:
        yield [gr.skip(), gr.skip(), failed(error), hidden]


# --- What of it is waited for.


def is_open(asked: Location) -> bool:
    """Whether one of the lanes is open."""
    return 1 <= asked.lane <= len(asked.recipes)


def opens_the_same(one: Location, other: Location) -> bool:
    """Whether the panel shows the same at both."""
    return _opened(one) == _opened(other)


def _opened(asked: Location) -> Location:
    """Where one is, less what the open section does not hang on: a head to take reads no words."""
    words = {"text": "", "pair": ""} if asked.show == "take" else {}
    return replace(asked, place="try", result="", head="", **words)


def until_over(question: PendingQuestion, shown: Stream) -> Stream:
    """What is shown as it comes to be known, as long as it is waited for."""
    with closing(shown):
        for values in shown:
            if question.is_over:
                return
            yield values


class PanelHandlers:
    """What the panel does; what it streams ends once its visitor opens or asks something else."""

    def __init__(self) -> None:
        self.questions = PendingQuestions()

    def moved(self, query: str, request: gr.Request) -> list[Any]:
        """Shows what is open where one is now; what was open before is not waited for."""
        asked, before = Location.of(query), self.questions.of(request.session_hash or "")
        if before and not before.is_over:
            if opens_the_same(before.asked, asked):
                return [gr.skip()] * 2
            before.is_over = True
            if not is_open(asked):  # the next panel is another one
                self.questions.end(request.session_hash or "")
        return update_panel(asked)

    def load(
        self, asked: Location, parts: SectionParts, inputs: Sequence[str], request: gr.Request
    ) -> Stream:
        """Yield the values of the open section's components; none where they stand already."""
        visitor = request.session_hash or ""
        before = self.questions.of(visitor)
        if not is_open(asked) or (before and _stands(before, asked)):
            return
        if not self._may_load(visitor, asked):
            yield from _load_section(asked, inputs)  # it says why not
            return
        question = self.questions.begin(visitor, asked)
        is_typed = before is not None and _is_typed(before.asked, asked)
        if is_typed:  # nobody reads why before whoever types has come to an end
            until = time.monotonic() + PAUSE
            while not question.is_over and time.monotonic() < until:
                time.sleep(0.05)
            if question.is_over:
                return
        # While one types, the other head stays; a panel that opens chooses one that disagrees.
        if not (is_typed or parts.keeps_inputs):
            inputs = [""] * len(inputs)
        yield from until_over(question, _load_section(asked, inputs))

    def _may_load(self, visitor: str, asked: Location) -> bool:
        """Whether its base model is at hand; else it is shown anew once that is."""
        try:
            is_ready = base_models.is_at_hand(asked)
        except HeadsError:
            return True  # what is wrong is said where the heads are asked
        if not is_ready:
            self.questions.end(visitor)
        return is_ready

    def turned(self, query: str, label: str, against: str, request: gr.Request) -> Stream:
        """Another class is asked about, or against another one."""
        asked = Location.of(query)
        question = self.questions.begin(request.session_hash or "", asked)
        yield from until_over(question, why(asked, label, against))

    def trained_anew(self, query: str, request: gr.Request) -> Stream:
        """The head without each of its layers, which it is trained without."""
        asked = Location.of(query)
        yield from until_over(self._under_way(asked, request), retrained(asked))

    def prepared(self, query: str, form: str, request: gr.Request) -> Stream:
        """The head as a file."""
        asked = Location.of(query)
        found = prepared(asked, form)
        yield from until_over(self._under_way(asked, request), found)

    def left(self, request: gr.Request) -> None:
        """The page is closed."""
        self.questions.end(request.session_hash or "")

    def _under_way(self, asked: Location, request: gr.Request) -> PendingQuestion:
        """The question that is open; a new one where that is another."""
        visitor = request.session_hash or ""
        found = self.questions.of(visitor)
        return found if found and _stands(found, asked) else self.questions.begin(visitor, asked)


def _stands(question: PendingQuestion, asked: Location) -> bool:
    return not question.is_over and opens_the_same(question.asked, asked)


def _is_typed(before: Location, now: Location) -> bool:
    """Whether nothing but words has changed."""
    same = opens_the_same(replace(before, text=now.text, pair=now.pair), now)
    return same and not opens_the_same(before, now)


# --- The panel.


def build(place: Try) -> PanelHandlers:
    """Draw the panel below the lanes, which is closed; return its handlers."""
    handlers, sections = PanelHandlers(), dict[str, SectionParts]()
    # page.css hides the panel while its heading is empty. With `visible=False`, Gradio before 6.30
    # would lose the values of sections that are opened for the first time.
    with gr.Column(elem_id="panel"):
        head = gr.HTML("", elem_id="panel-head", js_on_load=CLICKS)
        with gr.Tabs(elem_id="sections") as tabs:
            for section in lane_sections():
                name = section.name
                with gr.Tab(section.title, id=name, elem_id=f"section-{name}") as tab:
                    is_core = section in CORE_SECTIONS
                    drawn = draw_section(
                        section, place, handlers, kind="lane section", is_core=is_core
                    )
                    sections[name] = drawn or SectionParts(outputs=[])
                chosen = f"(query) => heads.chosenSection(query, {name!r})"
                tab.select(None, place.query, place.query, js=chosen, **QUIET)
    _wire(place, handlers, [head, tabs], sections)
    return handlers


def draw_how(place: Try, handlers: PanelHandlers) -> SectionParts:
    """Draw the chain of the head."""
    return SectionParts(outputs=[gr.HTML("", elem_id="chain")])


def draw_why(place: Try, asking: PanelHandlers) -> SectionParts:
    """Draw tokens, neighbours, edits and layers of a head."""
    status = gr.HTML("", elem_id="why-status")
    with gr.Row():
        label = gr.Dropdown(
            [ANSWERED], value="", label="Explain class", interactive=True, min_width=200
        )
        against = gr.Dropdown(
            AGAINST, value="others", label="Compared with", interactive=True, min_width=200
        )
    tokens = gr.HTML("", elem_id="tokens")
    near = gr.HTML("", elem_id="near")
    gr.HTML(render("section_title.html", title="What if? One edited sentence per line", says=""))
    lines = gr.Textbox(
        label="Edited sentences", show_label=False, container=False, lines=3, max_lines=10,
        max_length=20_000, elem_id="edits",
    )  # fmt: skip
    ask = gr.Button("Ask all heads", size="sm", elem_id="ask-edits")
    flips = gr.HTML("", elem_id="flips")
    layers = gr.HTML("", elem_id="layers")
    anew = gr.Button("Train this head without each layer", size="sm", visible=False)
    asked = [place.query, label, against]
    run: dict[str, Any] = {"trigger_mode": "always_last", **LOOKS, **QUIET}
    outputs = [status, label, against, tokens, near, layers, anew, lines, flips]
    gr.on([label.input, against.input], asking.turned, asked, outputs, **run)
    ask.click(
        lambda query, lines: edited(Location.of(query), lines), [place.query, lines], flips, **run
    )
    anew.click(asking.trained_anew, place.query, layers, **run)
    return SectionParts(outputs=outputs, inputs=(label, against))


def draw_compare(place: Try, handlers: PanelHandlers) -> SectionParts:
    """Draw the menu of the other lanes, and two heads side by side."""
    other = gr.Dropdown(
        [], label="Compare with", interactive=True, elem_id="against", min_width=220
    )
    view = gr.HTML("", elem_id="side-by-side")

    def chosen(query: str, other: str) -> Stream:
        yield from compare_lanes(Location.of(query), other or "")

    other.input(chosen, [place.query, other], [other, view], **LOOKS, **QUIET)
    return SectionParts(outputs=[other, view], inputs=(other,), keeps_inputs=False)


def draw_numbers(place: Try, handlers: PanelHandlers) -> SectionParts:
    """Draw the numbers of every class, and the temperature."""
    table = gr.HTML("", elem_id="numbers")
    # Hidden boxes in a tab are shown once the tab is opened by a click, so none is kept here.
    button = gr.Button("Save as CSV", size="sm")
    saves(button, _numbers_csv, [place.query], "head-to-head.csv", "looks")
    power = gr.Slider(-1, 1, value=0, step=0.05, label=TEMPERATURE, elem_id="temperature")
    warm = gr.HTML("", elem_id="warm")
    outputs = [table, power, warm]
    power.change(
        lambda query, power: tempered(Location.of(query), power), [place.query, power], warm,
        preprocess=False, trigger_mode="always_last", **LOOKS, **QUIET,
    )  # fmt: skip
    return SectionParts(outputs=outputs)


def draw_take(place: Try, asking: PanelHandlers) -> SectionParts:
    """Draw the forms in which a head is taken along."""
    gr.Markdown(downloads.SAYS, elem_classes="quiet")
    form = gr.Radio([downloads.FOLDER, downloads.ONNX], value=downloads.FOLDER, label="As")
    prepare = gr.Button(
        "Prepare the file", variant="primary", size="sm", elem_id="prepare", interactive=False
    )
    told = gr.HTML("", elem_id="taken", js_on_load=CLICKS)
    file = gr.DownloadButton("Download the head", visible=False, variant="primary", size="sm")

    prepare.click(asking.prepared, [place.query, form], [told, file], **EXPORTS, **QUIET)
    return SectionParts(outputs=[form, prepare, told, file])


def update_panel(asked: Location) -> list[Any]:
    """Return the heading of the panel, empty if it is closed, and an update of its open tab."""
    if not is_open(asked):
        return ["", gr.skip()]
    recipe = of_lane(asked)
    head = render(
        "lane_head.html", mark=view.COLOURS[asked.lane - 1], title=view.title_of(recipe),
        recipe=recipe,
    )  # fmt: skip
    return [head, gr.Tabs(selected=asked.show)]


def _load_section(asked: Location, inputs: Sequence[str]) -> Stream:
    """Yield the values of the open section's components."""
    (section,) = (section for section in lane_sections() if section.name == asked.show)
    yield from plugins.load(section.load)(asked, *inputs)


def _wire(
    place: Try, handlers: PanelHandlers, panel: list[Any], sections: dict[str, SectionParts]
) -> None:
    def opened(query: str, event: gr.EventData) -> list[Any]:
        asked, data = Location.of(query), clicked(event)
        if data.get("do") == "close":
            asked = replace(asked, lane=0)
        elif data.get("do") == "open":
            number = int(data["lane"]) if data.get("lane", "").isdecimal() else 0
            show = data.get("show") if data.get("show") in SECTIONS else ""
            closes = number == asked.lane and not show
            asked = replace(asked, lane=0 if closes else number, show=show or asked.show)
        else:
            return [gr.skip()] * 3
        return [*update_panel(asked), asked.query]

    for component in (place.lanes, panel[0], place.answers[1]):
        component.click(opened, place.query, [*panel, place.query], **QUIET).success(
            None, place.query, None, js="(query) => heads.reveal(query)", **QUIET
        )

    def load(request: gr.Request, query: str, *values: str) -> Stream:
        """Yield the values of the open section's components; the others stay."""
        asked, given = Location.of(query), iter(values)
        inputs = {name: [next(given) or "" for _ in own.inputs] for name, own in sections.items()}
        same = {name: [gr.skip()] * len(own.outputs) for name, own in sections.items()}
        yield [value for own in same.values() for value in own]  # a stream yields something
        for drawn in handlers.load(asked, sections[asked.show], inputs[asked.show], request):
            yield [value for own in (same | {asked.show: drawn}).values() for value in own]

    moves: dict[str, Any] = {
        "fn": handlers.moved,
        "inputs": place.query,
        "outputs": panel,
        "queue": False,
        "trigger_mode": "always_last",
        **QUIET,
    }
    loads: dict[str, Any] = {
        "fn": load,
        "inputs": [place.query, *(part for own in sections.values() for part in own.inputs)],
        "outputs": [part for own in sections.values() for part in own.outputs],
        "trigger_mode": "always_last",
        **LOOKS,
        **QUIET,
    }
    # Whatever opens, closes or asks changes where one is: words are read once they are asked.
    place.query.change(**moves).success(**loads)
    place.loaded.success(**loads)
