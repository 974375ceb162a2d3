"""An opened lane: why the head says so, how it is made, its numbers, and how to take it along."""

import time
from collections.abc import Sequence
from contextlib import closing
from dataclasses import replace
from typing import Any

import gradio as gr

from heads import plugins
from heads.errors import HeadsError
from heads.interfaces.views import lanes as view
from heads.interfaces.views.html import render
from heads.interfaces.web import downloads
from heads.interfaces.web.guards import clicked, saves
from heads.interfaces.web.lane_sections import (
    ANSWERED,
    CORE_SECTIONS,
    SectionParts,
    Stream,
    lane_sections,
)
from heads.interfaces.web.location import SECTIONS, Location
from heads.interfaces.web.page_sections import draw_section
from heads.interfaces.web.places import base_models
from heads.interfaces.web.places.answers import PendingQuestion, PendingQuestions
from heads.interfaces.web.places.try_it import CLICKS, QUIET, Try
from heads.interfaces.web.slots import pool

AGAINST = [("the mean of the other classes", "others"), ("the runner-up", "runner-up")]
TEMPERATURE = "Temperature, from 0.1 (−1) to 10 (1) on a log scale; 0 leaves the logits as they are"
LOOKS, EXPORTS = pool("looks"), pool("export")
PAUSE = 0.4  # seconds without a key, after which one has typed to the end


def _answers() -> Any:
    """Import the module of what an opened lane answers, and with it torch."""
    from heads.interfaces.web.places import lane_answers

    return lane_answers


# --- What of it is waited for.


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
            if not asked.is_lane_open:  # the next panel is another one
                self.questions.end(request.session_hash or "")
        return update_panel(asked)

    def load(
        self, asked: Location, parts: SectionParts, inputs: Sequence[str], request: gr.Request
    ) -> Stream:
        """Yield the values of the open section's components; none where they stand already."""
        visitor = request.session_hash or ""
        before = self.questions.of(visitor)
        if not asked.is_lane_open or (before and _stands(before, asked)):
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
        yield from until_over(question, _answers().why(asked, label, against))

    def trained_anew(self, query: str, request: gr.Request) -> Stream:
        """The head without each of its layers, which it is trained without."""
        asked = Location.of(query)
        yield from until_over(self._under_way(asked, request), _answers().retrain(asked))

    def prepared(self, query: str, form: str, request: gr.Request) -> Stream:
        """The head as a file."""
        asked = Location.of(query)
        file = _answers().prepare_file(asked, form)
        yield from until_over(self._under_way(asked, request), file)

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
        lambda query, lines: _answers().answer_edits(Location.of(query), lines),
        [place.query, lines], flips, **run,
    )  # fmt: skip
    anew.click(asking.trained_anew, place.query, layers, **run)
    return SectionParts(outputs=outputs, inputs=(label, against))


def draw_compare(place: Try, handlers: PanelHandlers) -> SectionParts:
    """Draw the menu of the other lanes, and two heads side by side."""
    other = gr.Dropdown(
        [], label="Compare with", interactive=True, elem_id="against", min_width=220
    )
    view = gr.HTML("", elem_id="side-by-side")

    def chosen(query: str, other: str) -> Stream:
        yield from _answers().compare_lanes(Location.of(query), other or "")

    other.input(chosen, [place.query, other], [other, view], **LOOKS, **QUIET)
    return SectionParts(outputs=[other, view], inputs=(other,), keeps_inputs=False)


def draw_numbers(place: Try, handlers: PanelHandlers) -> SectionParts:
    """Draw the numbers of every class, and the temperature."""
    table = gr.HTML("", elem_id="numbers")
    # Hidden boxes in a tab are shown once the tab is opened by a click, so none is kept here.
    button = gr.Button("Save as CSV", size="sm")
    save = lambda query: _answers().numbers_csv(Location.of(query))  # noqa: E731
    saves(button, save, [place.query], "head-to-head.csv", "looks")
    power = gr.Slider(-1, 1, value=0, step=0.05, label=TEMPERATURE, elem_id="temperature")
    warm = gr.HTML("", elem_id="warm")
    outputs = [table, power, warm]
    power.change(
        lambda query, power: _answers().apply_temperature(Location.of(query), power),
        [place.query, power], warm, preprocess=False, trigger_mode="always_last", **LOOKS, **QUIET,
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
    if not asked.is_lane_open:
        return ["", gr.skip()]
    recipe = asked.open_recipe
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
    def opened(query: str, event: gr.EventData) -> Any:
        asked, data = Location.of(query), clicked(event)
        if data.get("do") == "close":
            asked = replace(asked, lane=0)
        elif data.get("do") == "open":
            number = int(data["lane"]) if data.get("lane", "").isdecimal() else 0
            show = data.get("show") if data.get("show") in SECTIONS else ""
            closes = number == asked.lane and not show
            asked = replace(asked, lane=0 if closes else number, show=show or asked.show)
        else:
            return gr.skip()
        return [*update_panel(asked), asked.query]

    for component in (place.answers["lanes"], panel[0], place.answers["verdict"]):
        component.click(opened, place.query, [*panel, place.query], **QUIET).success(
            None, place.query, None, js="(query) => heads.reveal(query)", **QUIET
        )

    def load(request: gr.Request, query: str, *values: str) -> Stream:
        """Yield the values of the open section's components; the others stay."""
        asked, given = Location.of(query), iter(values)
        inputs = {name: [next(given) or "" for _ in own.inputs] for name, own in sections.items()}
        parts = sections[asked.show]
        yield gr.skip()  # a stream yields something
        for drawn in handlers.load(asked, parts, inputs[asked.show], request):
            yield dict(zip(parts.outputs, drawn, strict=True)) or gr.skip()

    last: dict[str, Any] = {"trigger_mode": "always_last", **QUIET}
    inputs = [place.query, *(part for own in sections.values() for part in own.inputs)]
    outputs = [part for own in sections.values() for part in own.outputs]
    loads: dict[str, Any] = {"fn": load, "inputs": inputs, "outputs": outputs, **LOOKS, **last}
    # Whatever opens, closes or asks changes where one is: words are read once they are asked.
    place.query.change(handlers.moved, place.query, panel, queue=False, **last).success(**loads)
    place.loaded.success(**loads)
