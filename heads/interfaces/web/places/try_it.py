"""Try: one sentence, up to four heads side by side, answered while one types."""

import contextlib
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from typing import Any

import gradio as gr

from heads.data.samples import SAMPLES
from heads.errors import HeadsError
from heads.interfaces.views import lanes as view
from heads.interfaces.views.html import busy, failure, render
from heads.interfaces.web import run_access
from heads.interfaces.web.guards import Values, by_name, clicked, failed
from heads.interfaces.web.location import MOST, OPENING, Location
from heads.interfaces.web.page_sections import PageParts, draw_page_sections
from heads.interfaces.web.places import base_models
from heads.interfaces.web.places.answers import (
    PendingQuestion,
    PendingQuestions,
    answering,
    chips,
    line,
    offering,
    under,
)
from heads.interfaces.web.slots import QUIET, pool
from heads.interfaces.web.startup import SAYS, Opening
from heads.interfaces.web.visitors import Recent
from heads.parts.resolved_recipe import JOINT, SIAMESE

ASKS = pool("infer")
CLICKS = "heads.delegate(element, trigger)"
SAMPLE, RUN = "sample:", "run:"
MOST_AGREED = 1_000  # visitors whose choice of a base model is remembered
WAYS = [("separately (siamese)", SIAMESE), ("as one sequence (joint)", JOINT)]


# --- The place itself.


@dataclass(frozen=True, slots=True, kw_only=True)
class Try:
    """The components of the place that others need."""

    query: gr.Textbox  # where one is; see `Location`
    answers: dict[str, gr.HTML]  # error, verdict, lanes, line and under
    settings: dict[str, Any]  # what is asked: see `settings_of`
    handlers: "TryHandlers"  # which know what each visitor waits for
    loaded: Any = None  # the event that loads the base model of a link, for others to follow

    @property
    def inputs(self) -> list[Any]:
        """What every question is made of."""
        return [self.query, self.settings["text"], self.settings["pair"]]

    @property
    def outputs(self) -> dict[str, Any]:
        """What a question may change."""
        return {**self.answers, "query": self.query, **self.settings}


def build(page: gr.Blocks, opening: Opening, query: gr.Textbox, mine: gr.BrowserState) -> Try:
    """Draw the place, which opens on a finished example."""
    with gr.Column(elem_id="top"):
        gr.HTML(render("try_head.html"))
        source = gr.Dropdown(
            samples(),  # runs are known once torch is
            value=SAMPLE + OPENING.sample, label="Task", show_label=False, container=False,
            interactive=True, min_width=240, elem_id="task",
        )  # fmt: skip
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
        model = base_models.draw_menu(container=False, show_label=False, elem_id="model")
        line = gr.HTML("", elem_id="parts", js_on_load=f"{CLICKS}; heads.refocus(element, watch)")
        raw = gr.Checkbox(False, label="raw logits", container=False, elem_id="raw")
    verdict = gr.HTML(busy(SAYS), elem_id="verdict", min_height=28, js_on_load=CLICKS)
    lanes = gr.HTML(view.skeleton(OPENING.recipes), elem_id="lanes", js_on_load=CLICKS)
    below = gr.HTML(under(OPENING), elem_id="under", js_on_load=CLICKS)
    draw_page_sections("try", PageParts(query=query, opening=opening))
    place = Try(
        query=query,
        answers={"error": error, "verdict": verdict, "lanes": lanes, "line": line, "under": below},
        settings={
            "text": text, "pair": pair, "second": second, "tries": tries, "model": model,
            "source": source, "pairs": pairs, "raw": raw,
        },
        handlers=TryHandlers(PendingQuestions()),
    )  # fmt: skip
    _wire_arrival(page, opening, place, mine)
    return replace(place, loaded=_wire(page, place, mine))


def samples() -> list[tuple[str, str]]:
    """List the samples, as a menu shows them."""
    return [(f"{one.title}: {one.says}", SAMPLE + name) for name, one in SAMPLES.items()]


def sources(mine: Any) -> list[tuple[str, str]]:
    """List what heads may be trained on: the samples, and the runs that a visitor may see."""
    return samples() + [
        (f"Your run: {title}", RUN + name) for title, name in run_access.choices(mine)
    ]


def settings_of(asked: Location, mine: Any = None) -> Values:
    """Return updates of `Try.settings` that show what is asked."""
    way = asked.pairs if asked.pairs in (JOINT, SIAMESE) else SIAMESE
    menu, chosen = sources(mine), _task_of(asked)
    if chosen not in (value for _, value in menu):
        menu.append((f"Run {asked.run[:12]}", chosen))
    return {
        "text": gr.update(value=asked.text),
        "tries": chips(asked),
        "source": gr.update(choices=menu, value=chosen),
        "raw": asked.raw,
        **_show_settings(asked, pair=asked.pair, model=asked.model, pairs=way),
    }


def turned_settings(typed: Location, asked: Location, chosen: str = "") -> Values:
    """Update the menus after a choice, without taking back what was typed or chosen since.

    Args:
        typed: What was asked before.
        chosen: The task that the menu shows already.
    """
    pair = {"pair": asked.pair} if asked.pair != typed.pair else {}
    settings = _show_settings(asked, **pair) | {"tries": chips(asked)}
    if (asked.sample, asked.run) != (typed.sample, typed.run) and _task_of(asked) != chosen:
        settings["source"] = _task_of(asked)
    return settings | ({"text": asked.text} if asked.text != typed.text else {})


def _task_of(asked: Location) -> str:
    return f"{RUN}{asked.run}" if asked.run else SAMPLE + asked.sample


def _show_settings(asked: Location, **values: str) -> Values:
    """Return updates of the settings of which not all are always seen, with values for some."""
    has_pair = bool(asked.pair) or (asked.has_pairs and not asked.run) or _run_pairs(asked.run)
    shown = {
        "pair": has_pair,
        "second": not has_pair and not asked.run,
        "model": not asked.run,
        "pairs": has_pair and not asked.run,
    }
    return {
        name: gr.update(visible=is_shown, **({"value": values[name]} if name in values else {}))
        for name, is_shown in shown.items()
    }


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
        self, asked: Location, request: gr.Request, settings: Values | None = None,
        remark: Any = "", menus: Any = None,
    ) -> Iterator[Values]:  # fmt: skip
        """Answer a question; yield the components that show what is asked, if given.

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
            yield {"query": asked.query, "line": menus or gr.skip()} | (settings or {})
            may_load = self.may_load(visitor, asked)
            for values in answering(question) if may_load else offering(asked):
                values.pop("line", None)  # meanwhile a lane may have been opened
                yield {"error": remark} | values
        finally:
            self.questions.answered(visitor, question)

    def with_settings(self, asked: Location, mine: Any, request: gr.Request) -> Iterator[Values]:
        """Answer where all may have changed; a run that is gone gives way to a sample."""
        remark: Any = ""
        try:
            _run_pairs(asked.run)
        except HeadsError as error:
            remark = failure(f"{error} The heads are those of a sample.")
            asked = replace(asked.on_sample(asked.sample), lane=0)
        yield from self.answers(asked, request, settings_of(asked, mine), remark)

    def typed(self, query: str, text: str, pair: str, request: gr.Request) -> Iterator[Values]:
        """Answer on Enter."""
        yield from self.words(query, _typed(query, text, pair), request)

    def words(self, query: str, asked: Location, request: gr.Request) -> Iterator[Values]:
        """Answer to other words; a second sentence may have asked for other heads."""
        before, settings = Location.of(query), Values()
        if asked.sample != before.sample:
            settings = turned_settings(replace(before, text=asked.text, pair=asked.pair), asked)
            lanes = view.lanes(view.waiting(asked.recipes))
            yield {"error": "", "verdict": "", "lanes": lanes}
        # With the same heads the menus may show any lane, and go on doing so.
        menus = gr.skip() if asked.recipes == before.recipes else None
        yield from self.answers(asked, request, settings, menus=menus)

    def changed(self, query: str, text: str, pair: str, request: gr.Request) -> Iterator[Values]:
        """Answer while one types or pastes; not where the page itself has filled the boxes."""
        asked = _typed(query, text, pair)
        is_new = asked != Location.of(query)
        yield from self.words(query, asked, request) if is_new else iter([{}])

    def turned(
        self, request: gr.Request, query: str, text: str, pair: str, *menus: Any
    ) -> Iterator[Values]:
        """Answer after another choice in the menus, whose values `_turned` takes."""
        typed = _typed(query, text, pair)
        try:
            asked = _turned(typed, *menus)
        except HeadsError as error:
            yield {"error": failed(error)}
            return
        if asked.model != typed.model:
            self.agree(request.session_hash or "", asked.model)
        _, source, *_ = menus
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
    ) -> Iterator[Values]:
        """Answer to one of the sentences to try."""
        number = clicked(event).get("number", "")
        asked = _tried(Location.of(query), int(number) if number.isdecimal() else 0)
        yield from self.with_settings(asked, mine, request)

    def again(
        self, query: str, text: str, pair: str, event: gr.EventData, request: gr.Request
    ) -> Iterator[Values]:
        """A click within the lanes: what was cancelled is trained after all."""
        is_meant = clicked(event).get("do") == "again"
        yield from self.typed(query, text, pair, request) if is_meant else iter([{}])

    def loaded(
        self, query: str, text: str, pair: str, event: gr.EventData, request: gr.Request
    ) -> Iterator[Values]:
        """A click on the button that loads the base model of a link."""
        if clicked(event).get("do") != "load":
            yield {}
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


def _wire(page: gr.Blocks, place: Try, mine: Any) -> Any:
    """Wire the place; return the event that loads the base model of a link."""
    asking, settings, every = place.handlers, place.settings, place.outputs
    pair, second, lanes = settings["pair"], settings["second"], place.answers["lanes"]
    run: dict[str, Any] = {"trigger_mode": "always_last", **ASKS, **QUIET}
    boxes = [settings["text"], pair]
    changes = [box.change for box in boxes]  # of `input` a paste is none
    gr.on(changes, **by_name(asking.changed, place.inputs, every), **run)
    gr.on([box.submit for box in boxes], **by_name(asking.typed, place.inputs, every), **run)
    gr.on(changes, asking.interrupted, boxes, None, queue=False, **QUIET)
    menus = [settings[name] for name in ("model", "source", "pairs", "raw")]
    turns = [menu.input for menu in menus]
    gr.on(turns, asking.turning, None, None, queue=False, **QUIET)
    gr.on(turns, **by_name(asking.turned, [*place.inputs, *menus], every), **run)
    # "always_last" would send the first chip's number again.
    chosen: dict[str, Any] = run | {"trigger_mode": "multiple"}
    settings["tries"].click(**by_name(asking.tried, [place.query, mine], every), **chosen)
    lanes.click(asking.cancel, None, None, queue=False, **QUIET)
    lanes.click(**by_name(asking.again, place.inputs, every), **ASKS, **QUIET)
    page.unload(asking.left)
    second.click(
        lambda: [gr.update(visible=True), gr.update(visible=False)], None, [pair, second],
        queue=False, **QUIET,
    ).then(
        None, None, None, **QUIET,
        js="() => heads.write('#second-sentence textarea')",
    )  # fmt: skip
    show_sources = lambda mine: gr.update(choices=sources(mine))  # noqa: E731
    mine.change(show_sources, mine, settings["source"], queue=False, **QUIET)
    return place.answers["verdict"].click(**by_name(asking.loaded, place.inputs, every), **run)


def _tried(asked: Location, number: int) -> Location:
    """Ask one of the sentences to try; a run's heads are asked those of the sample."""
    tries = SAMPLES[asked.sample].tries
    text, pair = (*tries[number % len(tries)], "")[:2]
    return replace(asked, text=text, pair=pair if not asked.run else asked.pair)


def _typed(query: str, text: str, pair: str) -> Location:
    """Return where one is, with what stands in the boxes."""
    return replace(Location.of(query), text=text or "", pair=pair or "").suited()


def _turned(asked: Location, model: str, source: str, way: str, raw: bool = False) -> Location:
    """Change base model, heads, the way in for two sentences, or whether logits are raw.

    A sentence that was only to try gives way to the new sample's.
    """
    kind, _, name = (source or "").partition(":")
    model, way = model or OPENING.model, way or SIAMESE
    asked = replace(asked, model=model, pairs=way, lane=0, raw=bool(raw))
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


def _example(opening: Opening, names: Iterable[str]) -> list[Any]:
    """Answer the first question, unless the process ends meanwhile."""
    values: Values = {"error": ""}
    for step in answering(PendingQuestion(asked=OPENING)):
        values |= step
        if not opening.is_wanted:
            break
    return [values.get(name, gr.skip()) for name in names]


def _wire_arrival(page: gr.Blocks, opening: Opening, place: Try, mine: gr.BrowserState) -> None:
    """Show who comes the first example, or what the link asks."""
    make = lambda: _example(opening, place.answers)  # noqa: E731
    first = opening.fills([*place.answers.values()], make, is_sent=False)

    def came(arrived: str, known: Any, request: gr.Request) -> Iterator[Values]:
        asked = Location.of(dict(request.query_params))
        if arrived and asked.asks_the_same(OPENING):
            yield {"query": asked.query}
            return
        opening.wait(page)
        if (request.session_hash or "") in place.handlers.questions.visitors:
            yield {}  # who was quick has asked something else meanwhile
        elif asked.asks_the_same(OPENING):
            answers = dict(zip(place.answers, first.sent(), strict=True))
            yield {**answers, "query": asked.query, **settings_of(asked, known)}
        else:
            yield from place.handlers.with_settings(asked, known, request)

    page.load(**by_name(came, [opening.arrived, mine], place.outputs), **QUIET, **ASKS)
