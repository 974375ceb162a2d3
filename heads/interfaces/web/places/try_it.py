"""Try: one sentence, up to four heads side by side, answered while one types."""

import time
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

import gradio as gr

from heads.data.samples import SAMPLES
from heads.errors import HeadsError
from heads.interfaces.views import lanes as view
from heads.interfaces.views.html import render
from heads.interfaces.web import run_access
from heads.interfaces.web.guards import sentence
from heads.interfaces.web.location import MOST, OPENING, Location
from heads.interfaces.web.startup import WAITS, Filling, Opening
from heads.parts.resolved_recipe import JOINT, SIAMESE
from heads.settings import limits

if TYPE_CHECKING:
    from heads.analysis.comparison import Comparison

QUIET: dict[str, Any] = {"show_progress": "hidden", "api_visibility": "private"}
ASKS: dict[str, Any] = {"concurrency_id": "infer", "concurrency_limit": 2}
CLICKS = "heads.delegate(element, trigger)"
SAMPLE, RUN = "sample:", "run:"
WAYS = [("as one sequence (joint)", JOINT), ("each by itself (siamese)", SIAMESE)]
PATIENCE = 0.3  # seconds of work that need no progress
BEAT = 0.25  # seconds between two pictures of progress
EMPTY = "Type a sentence: the heads answer while you do."


@dataclass(kw_only=True, slots=True)
class Cancels:
    """Which lanes each visitor has cancelled while their heads are trained."""

    asked: dict[str, set[int]] = field(default_factory=dict)

    def begin(self, visitor: str) -> set[int]:
        """A new question: nothing of it is cancelled yet."""
        self.asked[visitor] = found = set()
        return found

    def cancel(self, visitor: str, lane: int) -> None:
        """Cancels a lane, if its visitor waits for one."""
        if visitor in self.asked:
            self.asked[visitor].add(lane)

    def forget(self, visitor: str) -> None:
        """Its visitor is gone."""
        self.asked.pop(visitor, None)


# --- From a question to what is shown, as it comes to be known.


@dataclass(frozen=True, slots=True, kw_only=True)
class Shown:
    """What answers a question; None leaves as it is what stands there.

    Attributes:
        error: What is wrong with the question, at its field.
        verdict: The sentence above the lanes.
        lanes: The lanes.
        facts: On what base model and data.
        under: What stands under the lanes.
    """

    error: Any = ""
    verdict: Any = None
    lanes: Any = None
    facts: Any = None
    under: Any = None

    def values(self) -> list[Any]:
        """In the order of `Answers.all`."""
        given = (self.error, self.verdict, self.lanes, self.facts, self.under)
        return [gr.skip() if one is None else one for one in given]


def answering(asked: Location, cancelled: set[int]) -> Iterator[Shown]:
    """What heads say, each as soon as it is there; heads that were never trained are trained first.

    A question that no head can answer leaves the last answers in place.
    """
    if not asked.text.strip() or (_needs_pair(asked) and not asked.pair.strip()):
        missing = EMPTY if not asked.text.strip() else "Type the second sentence as well."
        yield Shown(error=render("failure.html", says=missing), facts=facts(asked))
        return
    try:
        yield from _answered(asked, cancelled)
    except Exception as error:
        yield Shown(error=render("failure.html", says=sentence(error)))


def _needs_pair(asked: Location) -> bool:
    return not asked.run and asked.has_pairs


def _answered(asked: Location, cancelled: set[int]) -> Iterator[Shown]:
    from heads.analysis.comparison import Compared, comparing

    try:
        for event in comparing(**asked.asked, limits=limits()):
            if isinstance(event, Compared):
                yield shown(event.comparison, asked)
                return
            if event.share > 0:  # some head is to be trained: each is shown when it is there
                break
    except HeadsError as error:
        if len(asked.recipes) == 1:
            raise
        problem: HeadsError | None = error
    else:
        problem = None
    yield from _one_by_one(asked, cancelled, problem)


def _one_by_one(
    asked: Location, cancelled: set[int], problem: HeadsError | None
) -> Iterator[Shown]:
    """The heads in turn; one that cannot answer says why in its own lane.

    Raises:
        HeadsError: What is wrong lies in the question itself, not in one of its heads.
    """
    from heads.analysis.comparison import Compared, comparing

    found, begun, said = view.waiting(asked.recipes), time.monotonic(), 0.0
    busy = render(
        "busy.html", says="Heads that were never asked before are trained first", share=None
    )
    good: list[str] = []
    for place, recipe in enumerate(asked.recipes):
        started = time.monotonic()
        events = comparing(**asked.asked | {"recipes": (recipe,)}, limits=limits())
        try:
            for event in events:
                if isinstance(event, Compared):
                    found[place] = view.lane(event.comparison.predictions[0], place + 1)
                    good.append(recipe)
                    break
                if place + 1 in cancelled:
                    found[place] = replace(found[place], state="cancelled", share=-1.0, left="")
                    break
                now = time.monotonic()
                found[place] = replace(
                    found[place],
                    state=event.says,
                    share=event.share,
                    left=_left(event.share, now - started),
                )
                if now - begun >= PATIENCE and now - said >= BEAT:
                    said = now
                    yield Shown(
                        verdict=busy, lanes=view.lanes(found, asked.lane), facts=facts(asked),
                        under=under(asked),
                    )  # fmt: skip
        except HeadsError as error:
            found[place] = replace(found[place], state=str(error), share=-1.0, left="")
            problem = error
        finally:
            events.close()  # type: ignore[attr-defined]
        if time.monotonic() - begun >= PATIENCE and good:
            yield Shown(verdict=busy, lanes=view.lanes(found, asked.lane))
    if not good:
        if problem is not None and not cancelled:
            raise problem
        yield Shown(verdict="", lanes=view.lanes(found, asked.lane))
        return
    for event in comparing(**asked.asked | {"recipes": tuple(good)}, limits=limits()):
        if isinstance(event, Compared):
            told = shown(event.comparison, asked)
            yield replace(told, lanes=view.lanes(found, asked.lane))


def _left(share: float, seconds: float) -> str:
    """About how long it takes yet, once that can be told."""
    if share < 0.1 or seconds < PATIENCE:
        return ""
    left = seconds * (1 - share) / share
    return f"about {max(1, round(left))} s left"


def shown(comparison: "Comparison", asked: Location) -> Shown:
    """All of it, once every head has answered."""
    predictions = comparison.predictions[:MOST]
    found = [view.lane(one, number) for number, one in enumerate(predictions, start=1)]
    data = run_access.title_of(asked.run) if asked.run else ""
    return Shown(
        verdict=view.verdict(comparison),
        lanes=view.lanes(found, asked.lane),
        facts=facts(asked, comparison),
        under=under(asked, view.trained_on(comparison, data)),
    )


def facts(asked: Location, comparison: "Comparison | None" = None) -> Any:
    """On what base model and data the heads are."""
    data = (
        f"trained on your {run_access.title_of(asked.run)}"
        if asked.run
        else f"trained on {SAMPLES[asked.sample].title}"
    )
    if comparison and comparison.predictions and (rows := comparison.predictions[0].rows):
        data = f"{data} ({rows:,} rows)"
    model = comparison.model if comparison else asked.model
    return render("facts.html", model=model.rpartition("/")[2], data=data)


def under(asked: Location, trained_on: str = "") -> Any:
    """What one can do with the answer."""
    return render(
        "under.html",
        python=view.as_python(asked.asked),
        command=view.as_command(asked.asked),
        link=replace(asked, place="try").query,
        trained_on=trained_on,
    )


def chips(asked: Location) -> Any:
    """Sentences to try; a run's heads have none."""
    texts = [] if asked.run else [" ↔ ".join(texts) for texts in SAMPLES[asked.sample].tries]
    return render("chips.html", chips=texts)


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
    """

    query: gr.Textbox
    text: gr.Textbox
    pair: gr.Textbox
    lanes: gr.HTML
    under: gr.HTML
    answers: list[Any]
    settings: list[Any]

    @property
    def inputs(self) -> list[Any]:
        """What every question is made of."""
        return [self.query, self.text, self.pair]


def build(page: gr.Blocks, opening: Opening, query: gr.Textbox, mine: gr.BrowserState) -> Try:
    """Draws the place, which opens on a finished example."""
    with gr.Row(elem_id="top"):
        gr.HTML(render("try_head.html"))
        told = gr.HTML(facts(OPENING), elem_id="facts", js_on_load=CLICKS)
    with gr.Row(elem_id="ask", equal_height=True):
        text = gr.Textbox(
            OPENING.text, label="Sentence", show_label=False, container=False, lines=1, max_lines=6,
            max_length=20_000, elem_id="sentence", scale=8, min_width=220, autofocus=False,
        )  # fmt: skip
        second = gr.Button("+ second sentence", elem_id="second", scale=1, min_width=150)
        surprise = gr.Button("⤮ surprise me", elem_id="surprise", scale=1, min_width=120)
    pair = gr.Textbox(
        "", label="Second sentence", show_label=False, container=False, lines=1, max_lines=6,
        max_length=20_000, elem_id="second-sentence", visible=False,
        placeholder="The second sentence",
    )  # fmt: skip
    error = gr.HTML("", elem_id="question-error")
    tries = gr.HTML(chips(OPENING), elem_id="tries", js_on_load=CLICKS)
    with gr.Column(visible=False, elem_id="base") as base, gr.Row():
        model, source, pairs = _base()
    verdict = gr.HTML(opening.status, elem_id="verdict", min_height=28)
    lanes = gr.HTML(view.skeleton(OPENING.recipes), elem_id="lanes", js_on_load=CLICKS)
    below = gr.HTML(under(OPENING), elem_id="under", js_on_load=CLICKS)
    place = Try(
        query=query, text=text, pair=pair, lanes=lanes, under=below,
        answers=[error, verdict, lanes, told, below],
        settings=[text, pair, second, tries, model, source, pairs],
    )  # fmt: skip
    _wire(page, opening, place, mine, Controls(second, surprise, tries, told, base))
    return place


@dataclass(frozen=True, slots=True)
class Controls:
    """What one clicks on around the sentence."""

    second: gr.Button
    surprise: gr.Button
    tries: gr.HTML
    facts: gr.HTML
    base: gr.Column


def _base() -> tuple[gr.Dropdown, gr.Dropdown, gr.Radio]:
    from heads.interfaces.web.places import base_models

    model = gr.Dropdown(
        base_models.choices(),
        value=OPENING.model,
        label="Base model",
        info="From the menu, or any id of the Hugging Face Hub.",
        allow_custom_value=True,
        interactive=True,
        min_width=240,
    )
    source = gr.Dropdown(
        sources(None),
        value=SAMPLE + OPENING.sample,
        label="Heads trained on",
        info="A sample, or a run of yours, which has its own base model.",
        interactive=True,
        min_width=240,
    )
    pairs = gr.Radio(WAYS, value=JOINT, label="Two sentences are read", visible=False)
    return model, source, pairs


def sources(mine: Any) -> list[tuple[str, str]]:
    """What heads may be trained on: the samples, and the runs that a visitor may see."""
    known = [(f"Sample: {one.title}. {one.says}", SAMPLE + name) for name, one in SAMPLES.items()]
    return known + [(f"Your run: {title}", RUN + name) for title, name in run_access.choices(mine)]


def settings_of(asked: Location, mine: Any = None) -> list[Any]:
    """The values of `Try.settings`."""
    has_pair = bool(asked.pair) or asked.has_pairs and not asked.run or _run_pairs(asked.run)
    way = asked.pairs if asked.pairs in (JOINT, SIAMESE) else SIAMESE
    menu = sources(mine)
    chosen = f"{RUN}{asked.run}" if asked.run else SAMPLE + asked.sample
    if chosen not in (value for _, value in menu):
        menu.append((f"Run {asked.run[:12]}", chosen))
    return [
        asked.text,
        gr.update(value=asked.pair, visible=has_pair),
        gr.update(visible=not has_pair and not asked.run),
        chips(asked),
        gr.update(value=asked.model, visible=not asked.run),
        gr.update(choices=menu, value=chosen),
        gr.update(value=way, visible=has_pair and not asked.run),
    ]


def _run_pairs(run: str) -> bool:
    return bool(run) and run_access.has_pairs(run)


def _wire(
    page: gr.Blocks, opening: Opening, place: Try, mine: gr.BrowserState, controls: Controls
) -> None:
    cancels = Cancels()
    answers, query = [*place.answers, place.query], place.query

    def asks(asked: Location, request: gr.Request) -> Iterator[list[Any]]:
        visitor = request.session_hash or ""
        for one in answering(asked, cancels.begin(visitor)):
            yield [*one.values(), asked.query]

    def typed(query: str, text: str, pair: str, request: gr.Request) -> Iterator[list[Any]]:
        yield from asks(_typed(query, text, pair), request)

    def turned(
        query: str, text: str, pair: str, model: str, source: str, way: str, mine: Any,
        request: gr.Request,
    ) -> Iterator[list[Any]]:  # fmt: skip
        asked = _turned(_typed(query, text, pair), model, source, way)
        values = settings_of(asked, mine)
        for one in asks(asked, request):
            yield [*one, *values]
            values = [gr.skip()] * len(values)

    def tried(query: str, mine: Any, event: gr.EventData, request: gr.Request) -> Iterator[Any]:
        asked, number = Location.of(query), str(event._data.get("number", "0"))
        yield from chosen(asked, int(number) if number.isdecimal() else 0, mine, request)

    def surprised(query: str, text: str, mine: Any, request: gr.Request) -> Iterator[Any]:
        asked = Location.of(query)
        known = [one[0] for one in SAMPLES[asked.sample].tries]
        number = (known.index(text) + 1) % len(known) if text in known else 0
        yield from chosen(replace(asked, run=""), number, mine, request)

    def chosen(asked: Location, number: int, mine: Any, request: gr.Request) -> Iterator[Any]:
        """One of the sentences to try."""
        tries = SAMPLES[asked.sample].tries
        text, pair = (*tries[number % len(tries)], "")[:2]
        asked = replace(asked, text=text, pair=pair)
        values = settings_of(asked, mine)
        for one in asks(asked, request):
            yield [*one, *values]
            values = [gr.skip()] * len(values)

    run: dict[str, Any] = {"trigger_mode": "always_last", **ASKS, **QUIET}
    gr.on([place.text.input, place.pair.input, place.text.submit, place.pair.submit], typed,
          place.inputs, answers, **run)  # fmt: skip
    every = [*answers, *place.settings]
    model, source, way = place.settings[4:7]
    gr.on([model.input, source.input, way.input], turned,
          [*place.inputs, model, source, way, mine], every, **run)  # fmt: skip
    controls.tries.click(tried, [query, mine], every, **run)
    controls.surprise.click(surprised, [query, place.text, mine], every, **run)
    controls.second.click(
        lambda: [gr.update(visible=True), gr.update(visible=False)], None,
        [place.pair, controls.second], queue=False, **QUIET,
    )  # fmt: skip
    is_open = gr.State(False)
    controls.facts.click(
        lambda is_open, mine: [gr.update(visible=not is_open), not is_open,
                               gr.update(choices=sources(mine))],
        [is_open, mine], [controls.base, is_open, source], queue=False, **QUIET,
    )  # fmt: skip
    _wire_lanes(place, cancels, typed)

    def left(request: gr.Request) -> None:
        cancels.forget(request.session_hash or "")

    page.unload(left)


def _wire_lanes(place: Try, cancels: Cancels, typed: Any) -> None:
    """What a click within the lanes does, but for opening one."""

    def clicked(
        query: str, text: str, pair: str, event: gr.EventData, request: gr.Request
    ) -> Iterator[list[Any]]:
        if event._data.get("do") == "again":
            yield from typed(query, text, pair, request)
        else:
            yield [gr.skip()] * (len(place.answers) + 1)

    def cancel(event: gr.EventData, request: gr.Request) -> None:
        lane = str(event._data.get("lane", ""))
        if event._data.get("do") == "cancel" and lane.isdecimal():
            cancels.cancel(request.session_hash or "", int(lane))

    place.lanes.click(cancel, None, None, queue=False, **QUIET)
    place.lanes.click(clicked, place.inputs, [*place.answers, place.query], **ASKS, **QUIET)


def _typed(query: str, text: str, pair: str) -> Location:
    """Where one is, with what stands in the boxes."""
    return replace(Location.of(query), text=text or "", pair=pair or "").suited()


def _turned(asked: Location, model: str, source: str, way: str) -> Location:
    """The same under another base model or with other heads.

    Words of the user's own stay; a sentence that was only to try gives way to the new sample's.
    """
    kind, _, name = (source or "").partition(":")
    asked = replace(asked, model=model or OPENING.model, pairs=way or JOINT, lane=0)
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
    recipes = OPENING.recipes if asked.run else asked.recipes
    new = replace(asked, sample=name, run="", recipes=recipes)
    if untouched or not asked.text.strip():
        text, pair = (*SAMPLES[name].tries[0], "")[:2]
        return replace(new, text=text, pair=pair)
    return new if new.has_pairs else replace(new, pair="")


# --- What it opens with.


def example(opening: Opening) -> list[Any]:
    """The answers to the first question; says meanwhile how far it is."""
    values = Shown().values()
    for one in answering(OPENING, set()):
        values = [old if isinstance(new, dict) else new
                  for old, new in zip(values, one.values(), strict=True)]  # fmt: skip
        if not opening.is_wanted:
            break
    return values


def arriving(
    page: gr.Blocks, opening: Opening, first: Filling, place: Try, mine: gr.BrowserState
) -> Any:
    """Shows who comes the first example, or what the link asks; gives the handler of both."""

    def came(arrived: str, known: Any, request: gr.Request) -> Iterator[list[Any]]:
        asked = Location.of(dict(request.query_params))
        same = [gr.skip()] * (len(place.answers) + 1 + len(place.settings))
        if arrived and asked.asks_the_same(OPENING):
            yield [*same[: len(place.answers)], asked.query, *same[len(place.answers) + 1 :]]
            return
        for status in opening.waited(page):
            yield [same[0], status, *same[2:]]
        if asked.asks_the_same(OPENING):
            yield [*first.sent(), asked.query, *settings_of(asked, known)]
            return
        values = settings_of(asked, known)
        for one in answering(asked, set()):
            yield [*one.values(), asked.query, *values]
            values = [gr.skip()] * len(values)

    outputs = [*place.answers, place.query, *place.settings]
    return page.load(came, [opening.arrived, mine], outputs, **QUIET, **WAITS)


def first_screen(opening: Opening, place: Try) -> Filling:
    """Has the first example made once the base model can be asked."""
    return opening.fills(place.answers, lambda: example(opening), is_sent=False)
