"""Try: one sentence, up to four heads side by side, answered while one types."""

import contextlib
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

import gradio as gr

from heads.data.samples import SAMPLES
from heads.errors import HeadsError
from heads.interfaces.views import lanes as view
from heads.interfaces.views.html import busy, failure, render
from heads.interfaces.web import run_access
from heads.interfaces.web.guards import clicked, failed
from heads.interfaces.web.location import MOST, OPENING, Location
from heads.interfaces.web.page_sections import PageParts, draw_page_sections
from heads.interfaces.web.places import base_models
from heads.interfaces.web.places.answers import (
    PendingQuestion,
    PendingQuestions,
    Shown,
    answering,
    chips,
    line,
    offering,
    under,
)
from heads.interfaces.web.slots import QUIET, pool
from heads.interfaces.web.startup import SAYS, Filling, Opening
from heads.interfaces.web.visitors import Recent
from heads.parts.resolved_recipe import JOINT, SIAMESE

ASKS = pool("infer")
CLICKS = "heads.delegate(element, trigger)"
SAMPLE, RUN = "sample:", "run:"
SAME: list[Any] = [gr.skip()] * 6  # for each answer and where one is: a stream yields something
MOST_AGREED = 1_000  # visitors whose choice of a base model is remembered
SETTINGS = 8  # components that show what is asked: see `settings_of`
WAYS = [("separately (siamese)", SIAMESE), ("as one sequence (joint)", JOINT)]


# --- The place itself.


@dataclass(frozen=True, slots=True, kw_only=True)
class Try:
    """The components of the place that others need.

    Attributes:
        query: Where one is; see `Location`.
        text: The sentence.
        pair: The second one.
        answers: Those that answer, in the order of `Shown.values`.
        settings: Those that show what is asked: see `settings_of`.
        handlers: What asks the heads; it knows what each visitor waits for.
        loaded: The event that loads the base model of a link, for others to follow.
    """

    query: gr.Textbox
    text: gr.Textbox
    pair: gr.Textbox
    lanes: gr.HTML
    under: gr.HTML
    answers: list[Any]
    settings: list[Any]
    handlers: "TryHandlers"
    loaded: Any = None

    @property
    def inputs(self) -> list[Any]:
        """What every question is made of."""
        return [self.query, self.text, self.pair]


def build(page: gr.Blocks, opening: Opening, query: gr.Textbox, mine: gr.BrowserState) -> Try:
    """Draws the place, which opens on a finished example."""
    with gr.Column(elem_id="top"):
        gr.HTML(render("try_head.html"))
        source = gr.Dropdown(
            samples(),  # runs are known once torch is
            value=SAMPLE + OPENING.sample,
            label="Task",
            show_label=False,
            container=False,
            interactive=True,
            min_width=240,
            elem_id="task",
        )
    with gr.Column(elem_id="ask"):  # a row would come later, and push all down
        text = gr.Textbox(
            OPENING.text, label="Sentence", show_label=False, container=False, lines=1, max_lines=6,
            max_length=20_000, elem_id="sentence", scale=8, min_width=220, autofocus=False,
        )  # fmt: skip
        second = gr.Button("+ second sentence", elem_id="second", scale=1, min_width=150)
    pair = gr.Textbox(
        "", label="Second sentence", show_label=False, container=False, lines=1, max_lines=6,
        max_length=20_000, elem_id="second-sentence", visible=False,
        placeholder="The second sentence",
    )  # fmt: skip
    pairs = gr.Radio(WAYS, value=SIAMESE, label="Two sentences are encoded", visible=False)
    error = gr.HTML("", elem_id="question-error")
    tries = gr.HTML(chips(OPENING), elem_id="tries", js_on_load=CLICKS)
    with gr.Column(elem_id="line"):
        model = gr.Dropdown(
            base_models.choices(), value=OPENING.model, label="Base model", allow_custom_value=True,
            interactive=True, container=False, show_label=False, elem_id="model",
        )  # fmt: skip
        line = gr.HTML("", elem_id="parts", js_on_load=f"{CLICKS}; heads.refocus(element, watch)")
        raw = gr.Checkbox(False, label="raw logits", container=False, elem_id="raw")
    verdict = gr.HTML(busy(SAYS), elem_id="verdict", min_height=28, js_on_load=CLICKS)
    lanes = gr.HTML(view.skeleton(OPENING.recipes), elem_id="lanes", js_on_load=CLICKS)
    below = gr.HTML(under(OPENING), elem_id="under", js_on_load=CLICKS)
    draw_page_sections("try", PageParts(query=query, opening=opening))
    place = Try(
        query=query, text=text, pair=pair, lanes=lanes, under=below,
        answers=[error, verdict, lanes, line, below],
        settings=[text, pair, second, tries, model, source, pairs, raw],
        handlers=TryHandlers(PendingQuestions()),
    )  # fmt: skip
    loaded = _wire(page, place, mine, second, tries)
    return replace(place, loaded=loaded)


def samples() -> list[tuple[str, str]]:
    """The samples, as a menu shows them."""
    return [(f"{one.title}: {one.says}", SAMPLE + name) for name, one in SAMPLES.items()]


def sources(mine: Any) -> list[tuple[str, str]]:
    """What heads may be trained on: the samples, and the runs that a visitor may see."""
    return samples() + [
        (f"Your run: {title}", RUN + name) for title, name in run_access.choices(mine)
    ]


def settings_of(asked: Location, mine: Any = None) -> list[Any]:
    """The values of `Try.settings`."""
    way = asked.pairs if asked.pairs in (JOINT, SIAMESE) else SIAMESE
    menu = sources(mine)
    chosen = f"{RUN}{asked.run}" if asked.run else SAMPLE + asked.sample
    if chosen not in (value for _, value in menu):
        menu.append((f"Run {asked.run[:12]}", chosen))
    values: list[dict[str, Any]] = [
        {"value": asked.text},
        {"value": asked.pair},
        {},
        {"value": chips(asked)},
        {"value": asked.model},
        {"choices": menu, "value": chosen},
        {"value": way},
        {"value": asked.raw},
    ]
    return [gr.update(**one | seen) for one, seen in zip(values, _seen(asked), strict=True)]


def turned_settings(typed: Location, asked: Location, chosen: str = "") -> list[Any]:
    """Update the menus after a choice, without taking back what was typed or chosen since.

    Args:
        typed: What was asked before.
        asked: What is asked now.
        chosen: The task that the menu shows already.
    """
    values: list[dict[str, Any]] = [{} for _ in range(SETTINGS)]
    values[3] = {"value": chips(asked)}
    task = f"{RUN}{asked.run}" if asked.run else SAMPLE + asked.sample
    if (asked.sample, asked.run) != (typed.sample, typed.run) and task != chosen:
        values[5] = {"value": task}
    for number, old, new in [(0, typed.text, asked.text), (1, typed.pair, asked.pair)]:
        if old != new:
            values[number] = {"value": new}
    both = [one | seen for one, seen in zip(values, _seen(asked), strict=True)]
    return [gr.update(**one) if one else gr.skip() for one in both]


def _seen(asked: Location) -> list[dict[str, Any]]:
    """Which of them are seen; no word where all are, always."""
    has_pair = bool(asked.pair) or (asked.has_pairs and not asked.run) or _run_pairs(asked.run)
    of_sample = {"visible": not asked.run}
    return [{}, {"visible": has_pair}, {"visible": not has_pair and not asked.run}, {},
            of_sample, {}, {"visible": has_pair and not asked.run}, {}]  # fmt: skip


def _run_pairs(run: str) -> bool:
    return bool(run) and run_access.has_pairs(run)


class TryHandlers:
    """What the place does: each handler streams its answers, and where one is then."""

    def __init__(self, questions: PendingQuestions) -> None:
        self.questions = questions
        self._agreed = Recent[str](MOST_AGREED)  # the base model of each visitor

    def agree(self, visitor: str, model: str) -> None:
        """Note that a visitor asks for a base model by a click: it may be fetched or opened."""
        self._agreed[visitor] = model.strip()

    def may_load(self, visitor: str, asked: Location) -> bool:
        """Whether its base model is at hand, or the visitor has asked for it by a click."""
        try:
            is_meant = self._agreed.get(visitor) == base_models.model_of(asked)
            return is_meant or base_models.is_at_hand(asked)
        except HeadsError:
            return True  # what is wrong is said where the heads are asked

    def answers(
        self, asked: Location, request: gr.Request, settings: list[Any] | None = None,
        remark: Any = "", menus: Any = None,
    ) -> Iterator[list[Any]]:  # fmt: skip
        """The answers to a question, with the components that show what is asked, if given.

        These, and where one is, come at once, and once: the next question may end this one before
        any head has answered.

        Args:
            remark: What is to be known of the question, at its field.
            menus: The line of menus. Default: drawn for the open lane, else the first.
        """
        if menus is None:
            with contextlib.suppress(HeadsError):  # which its field will say
                menus = line(asked)
        visitor = request.session_hash or ""
        question = self.questions.begin(visitor, asked)
        try:
            yield [*Shown(error=gr.skip(), line=menus).values(), asked.query, *(settings or [])]
            same = [gr.skip()] * (1 + len(settings or []))  # meanwhile a lane may have been opened
            may_load = self.may_load(visitor, asked)
            for one in answering(question) if may_load else offering(asked):
                yield [*replace(one, error=one.error or remark, line=None).values(), *same]
        finally:
            self.questions.answered(visitor, question)

    def with_settings(self, asked: Location, mine: Any, request: gr.Request) -> Iterator[list[Any]]:
        """The same where all may have changed; a run that is gone gives way to a sample."""
        remark: Any = ""
        try:
            _run_pairs(asked.run)
        except HeadsError as error:
            remark = failure(f"{error} The heads are those of a sample.")
            asked = replace(asked.on_sample(asked.sample), lane=0)
        yield from self.answers(asked, request, settings_of(asked, mine), remark)

    def typed(self, query: str, text: str, pair: str, request: gr.Request) -> Iterator[list[Any]]:
        """On Enter."""
        yield from self.words(query, _typed(query, text, pair), request)

    def words(self, query: str, asked: Location, request: gr.Request) -> Iterator[list[Any]]:
        """The answers to other words; a second sentence may have asked for other heads."""
        before, settings = Location.of(query), [gr.skip()] * SETTINGS
        if asked.sample != before.sample:
            settings = turned_settings(replace(before, text=asked.text, pair=asked.pair), asked)
            waiting = Shown(verdict="", lanes=view.lanes(view.waiting(asked.recipes)))
            yield [*waiting.values(), gr.skip(), *[gr.skip()] * SETTINGS]
        # With the same heads the menus may show any lane, and go on doing so.
        menus = gr.skip() if asked.recipes == before.recipes else None
        yield from self.answers(asked, request, settings, menus=menus)

    def changed(self, query: str, text: str, pair: str, request: gr.Request) -> Iterator[list[Any]]:
        """While one types or pastes; not where the page itself has filled the boxes."""
        asked = _typed(query, text, pair)
        is_new = asked != Location.of(query)
        same = [*SAME, *[gr.skip()] * SETTINGS]
        yield from self.words(query, asked, request) if is_new else iter([same])

    def turned(
        self, query: str, text: str, pair: str, model: str, source: str, way: str, raw: bool,
        request: gr.Request,
    ) -> Iterator[list[Any]]:  # fmt: skip
        """Another base model, other heads, another way in for two sentences, or raw logits."""
        typed = _typed(query, text, pair)
        try:
            asked = replace(_turned(typed, model, source, way), raw=bool(raw))
        except HeadsError as error:
            yield [failed(error), *[gr.skip()] * (len(SAME) - 1 + SETTINGS)]
            return
        if asked.model != typed.model:
            self.agree(request.session_hash or "", asked.model)
        yield from self.answers(asked, request, turned_settings(typed, asked, source))

    def interrupted(self, text: str, pair: str, request: gr.Request) -> None:
        """Something else is typed: what was asked before is not waited for."""
        visitor = request.session_hash or ""
        question = self.questions.of(visitor)
        # Not where the page itself has filled the boxes.
        if question and (question.asked.text, question.asked.pair) != (text, pair):
            self.questions.end(visitor)

    def turning(self, request: gr.Request) -> None:
        """Something else is chosen: the same."""
        self.questions.end(request.session_hash or "")

    def tried(
        self, query: str, mine: Any, event: gr.EventData, request: gr.Request
    ) -> Iterator[list[Any]]:
        """One of the sentences to try."""
        number = clicked(event).get("number", "")
        asked = _tried(Location.of(query), int(number) if number.isdecimal() else 0)
        yield from self.with_settings(asked, mine, request)

    def again(
        self, query: str, text: str, pair: str, event: gr.EventData, request: gr.Request
    ) -> Iterator[list[Any]]:
        """A click within the lanes: what was cancelled is trained after all."""
        is_meant = clicked(event).get("do") == "again"
        same = [*SAME, *[gr.skip()] * SETTINGS]
        yield from self.typed(query, text, pair, request) if is_meant else iter([same])

    def loaded(
        self, query: str, text: str, pair: str, event: gr.EventData, request: gr.Request
    ) -> Iterator[list[Any]]:
        """A click on the button that loads the base model of a link."""
        if clicked(event).get("do") != "load":
            yield SAME
            return
        asked = _typed(query, text, pair)
        self.agree(request.session_hash or "", base_models.model_of(asked))
        yield from self.answers(asked, request)

    def cancel(self, event: gr.EventData, request: gr.Request) -> None:
        """A click within the lanes: a head is not waited for any more."""
        data = clicked(event)
        lane = data.get("lane", "")
        question = self.questions.of(request.session_hash or "")
        if question and data.get("do") == "cancel" and lane.isdecimal():
            question.cancelled.add(int(lane))

    def left(self, request: gr.Request) -> None:
        """The page is closed."""
        self.questions.end(request.session_hash or "")
        self._agreed.pop(request.session_hash or "", None)


def _wire(page: gr.Blocks, place: Try, mine: Any, second: gr.Button, tries: gr.HTML) -> Any:
    """Wires the place; the event that loads the base model of a link."""
    asking, query = place.handlers, place.query
    answers = [*place.answers, query]
    every = [*answers, *place.settings]
    run: dict[str, Any] = {"trigger_mode": "always_last", **ASKS, **QUIET}
    boxes = place.text, place.pair  # of `input` a paste is none
    gr.on([box.change for box in boxes], asking.changed, place.inputs, every, **run)
    gr.on([box.submit for box in boxes], asking.typed, place.inputs, every, **run)
    gr.on([box.change for box in boxes], asking.interrupted, [*boxes], None, queue=False, **QUIET)
    model, source, way, raw = place.settings[4:8]
    turns = model.input, source.input, way.input, raw.input
    gr.on([*turns], asking.turning, None, None, queue=False, **QUIET)
    gr.on([*turns], asking.turned,
          [*place.inputs, model, source, way, raw], every, **run)  # fmt: skip
    # "always_last" would send the first chip's number again.
    chosen: dict[str, Any] = run | {"trigger_mode": "multiple"}
    tries.click(asking.tried, [query, mine], every, **chosen)
    place.lanes.click(asking.cancel, None, None, queue=False, **QUIET)
    place.lanes.click(asking.again, place.inputs, every, **ASKS, **QUIET)
    page.unload(asking.left)
    second.click(
        lambda: [gr.update(visible=True), gr.update(visible=False)], None,
        [place.pair, second], queue=False, **QUIET,
    ).then(
        None, None, None, **QUIET,
        js="() => heads.write('#second-sentence textarea')",
    )  # fmt: skip
    mine.change(lambda mine: gr.update(choices=sources(mine)), mine, source, queue=False, **QUIET)
    return place.answers[1].click(asking.loaded, place.inputs, answers, **run)


def _tried(asked: Location, number: int) -> Location:
    """One of the sentences to try; a run's heads are asked those of the sample."""
    tries = SAMPLES[asked.sample].tries
    text, pair = (*tries[number % len(tries)], "")[:2]
    return replace(asked, text=text, pair=pair if not asked.run else asked.pair)


def _typed(query: str, text: str, pair: str) -> Location:
    """Where one is, with what stands in the boxes."""
    return replace(Location.of(query), text=text or "", pair=pair or "").suited()


def _turned(asked: Location, model: str, source: str, way: str) -> Location:
    """Change base model or heads; a sentence that was only to try gives way to the new sample's."""
    kind, _, name = (source or "").partition(":")
    asked = replace(asked, model=model or OPENING.model, pairs=way or SIAMESE, lane=0)
    if kind == "run":
        if name == asked.run:
            return asked
        recipes = tuple(run_access.heads_of(name)[:MOST])
        return replace(
            asked, run=name, recipes=recipes, pair="" if not _run_pairs(name) else asked.pair
        )
    if name not in SAMPLES or (name == asked.sample and not asked.run):
        return asked
    untouched = (asked.text,) in [one[:1] for one in SAMPLES[asked.sample].tries]
    new = asked.on_sample(name)
    if untouched or not asked.text.strip():
        text, pair = (*SAMPLES[name].tries[0], "")[:2]
        return replace(new, text=text, pair=pair)
    return new if new.has_pairs else replace(new, pair="")


# --- What it opens with.


def example(opening: Opening) -> list[Any]:
    """The answers to the first question; says meanwhile how far it is."""
    values = Shown().values()
    for one in answering(PendingQuestion(asked=OPENING)):
        values = [old if isinstance(new, dict) else new
                  for old, new in zip(values, one.values(), strict=True)]  # fmt: skip
        if not opening.is_wanted:
            break
    return values


def arriving(
    page: gr.Blocks, opening: Opening, first: Filling, place: Try, mine: gr.BrowserState
) -> None:
    """Shows who comes the first example, or what the link asks."""

    def came(arrived: str, known: Any, request: gr.Request) -> Iterator[list[Any]]:
        asked = Location.of(dict(request.query_params))
        same = [gr.skip()] * (len(place.answers) + 1 + len(place.settings))
        if arrived and asked.asks_the_same(OPENING):
            yield [*same[: len(place.answers)], asked.query, *same[len(place.answers) + 1 :]]
            return
        opening.wait(page)
        if (request.session_hash or "") in place.handlers.questions.visitors:
            yield same  # who was quick has asked something else meanwhile
            return
        if asked.asks_the_same(OPENING):
            yield [*first.sent(), asked.query, *settings_of(asked, known)]
            return
        yield from place.handlers.with_settings(asked, known, request)

    outputs = [*place.answers, place.query, *place.settings]
    page.load(came, [opening.arrived, mine], outputs, **QUIET, **ASKS)


def first_screen(opening: Opening, place: Try) -> Filling:
    """Has the first example made once the base model can be asked."""
    return opening.fills(place.answers, lambda: example(opening), is_sent=False)
