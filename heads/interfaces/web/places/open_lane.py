"""An opened lane: why the head says so, how it is made, its numbers, and how to take it along."""

import contextlib
from collections.abc import Callable, Generator, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any, TypeVar

import gradio as gr

from heads.data.samples import SAMPLES
from heads.errors import HeadsError, RecipeError
from heads.events import Progress, result
from heads.interfaces.views import lanes as view
from heads.interfaces.views.html import busy, render
from heads.interfaces.web import downloads, run_access
from heads.interfaces.web.guards import SAVE, as_csv, clicked, failed, throttled
from heads.interfaces.web.location import SECTIONS, Location
from heads.interfaces.web.places.try_it import CLICKS, QUIET, Try
from heads.parts.resolved_recipe import JOINT
from heads.settings import limits

if TYPE_CHECKING:
    from heads.analysis.attribution_result import Attribution
    from heads.analysis.selection import SelectedHeads
    from heads.classifier.classifier import Classifier

ANSWERED = ("what the head answers", "")
AGAINST = [("the mean of the other classes", "others"), ("the runner-up", "runner-up")]
TEMPERATURE = "Temperature, as a power of ten: −1 is a tenth, 0 leaves the logits as they are"
LOOKS: dict[str, Any] = {"concurrency_id": "looks", "concurrency_limit": 2}
ONE_AT_A_TIME: dict[str, Any] = {"concurrency_id": "export", "concurrency_limit": 1}
Found = TypeVar("Found")


def selecting(
    asked: Location, recipes: Sequence[str]
) -> "Generator[Progress, None, SelectedHeads]":
    """The heads of some lanes on their base model: progress while some are trained, then they.

    Raises:
        HeadsError: Anything in the choice that does not fit.
    """
    from heads.analysis.selection import choosing

    if asked.run:
        return choosing(recipes, asked.pair, run=run_access.opened(asked.run).id, limits=limits())
    names = [_entering(recipe, asked) for recipe in recipes]
    pair = asked.pair if asked.has_pairs else ""
    return choosing(names, pair, model=asked.model, sample=asked.sample, limits=limits())


def _entering(recipe: str, asked: Location) -> str:
    """A recipe as two texts enter it: where it can, each by itself."""
    from heads.parts.resolve import resolve
    from heads.runs.spec import entering

    if asked.pairs == JOINT or not asked.pair.strip():
        return recipe
    with contextlib.suppress(HeadsError):
        return str(entering(resolve(recipe), asked.pairs))
    return recipe


def of_lane(asked: Location) -> str:
    """The recipe of the open lane.

    Raises:
        RecipeError: None is open.
    """
    if not 1 <= asked.lane <= len(asked.recipes):
        raise RecipeError("No head is open.", "Click on one.")
    return asked.recipes[asked.lane - 1]


def _with_progress(
    events: Generator[Progress, None, Found], show: Callable[[Any], list[Any]]
) -> Generator[list[Any], None, Found]:
    """Shows the progress of some work, and hands its result on."""
    told = throttled(events)
    while True:
        try:
            event = next(told)
        except StopIteration as done:
            return done.value
        yield show(busy(event.says, event.share))


# --- Why.


def why(asked: Location, label: str, against: str) -> Iterator[list[Any]]:
    """Status, class menu, against, attributions, neighbours, ablations, button, edits, answers."""
    same = [gr.skip()] * 8
    try:
        # What stands there of another text goes at once.
        yield [busy("Loading the head"), *same[:2], "", "", "", *same[:3]]
        heads = yield from _with_progress(
            selecting(asked, [of_lane(asked)]), lambda told: [told, *same]
        )
        yield from _why(asked, heads, label, against)
    except Exception as error:
        yield [
            failed(error),
            gr.skip(),
            gr.skip(),
            "",
            "",
            "",
            gr.update(visible=False),
            *same[:2],
        ]


def _why(asked: Location, heads: "SelectedHeads", label: str, against: str) -> Iterator[list[Any]]:
    from heads.analysis.ablation import ablating
    from heads.analysis.attribution import attributions
    from heads.analysis.counterfactuals import suggested
    from heads.analysis.neighbors import searching
    from heads.interfaces.views import interpretation

    problem = heads.classifiers[0].head.problem
    classes = heads.classifiers[0].head.classes if problem.has_classes else ()
    label = label if label in classes else ""
    second = asked.pair if heads.classifiers[0].head.needs_pairs else ""
    yield [busy("Following every token through the base model"), *[gr.skip()] * 8]
    (found,) = attributions(heads.classifiers, asked.text, second, label, against or "others")
    notes = list(_remarks(heads, found))
    values: list[Any] = [
        busy("Looking for the nearest training examples"),
        gr.update(choices=[ANSWERED, *classes], value=label, visible=bool(classes)),
        gr.update(visible=len(classes) > 2),
        interpretation.attribution(
            replace(found, unread=0), is_number=not problem.has_classes, notes=notes
        ),
        "",
        "",
        gr.update(visible=heads.run is not None),
        "\n".join(suggested(asked.text)),
        "",
    ]
    yield values
    values[7:] = [gr.skip(), gr.skip()]

    def show(told: Any) -> list[Any]:
        return [told, *[gr.skip()] * 8]

    near = yield from _with_progress(searching(heads, asked.text, second), show)
    values[4] = interpretation.neighbours(near)
    # A head of a sample is trained anew in seconds; one of a run when that is asked for.
    without = yield from _with_progress(
        ablating(heads, asked.text, second, retrain=heads.run is None), show
    )
    values[5] = interpretation.ablations(without)
    values[0] = ""
    yield values


def _remarks(heads: "SelectedHeads", found: "Attribution") -> Iterator[str]:
    """What the head could not read: tokens that were left out, and unknown ones."""
    if found.unread:
        yield found.says.removeprefix(replace(found, unread=0).says).strip()
    sign = heads.classifiers[0].backbone.tokenizer.unk_token
    unknown = sum(bool(token.side) and token.text == sign for token in found.tokens)
    if unknown:
        what = "1 token is" if unknown == 1 else f"{unknown} tokens are"
        yield (
            f"{what} {sign}: the base model does not know these signs or words, so no head can "
            "tell what they are."
        )


def retrained(asked: Location) -> Iterator[Any]:
    """What the head says with a layer taken out and trained anew without it."""
    from heads.analysis.ablation import ablating
    from heads.interfaces.views import interpretation

    try:
        heads = result(selecting(asked, [of_lane(asked)]))
        second = asked.pair if heads.classifiers[0].head.needs_pairs else ""
        events = ablating(heads, asked.text, second)
        found = yield from _with_progress(events, lambda told: told)
        yield interpretation.ablations(found)
    except Exception as error:
        yield failed(error)


def edited(asked: Location, lines: str) -> Any:
    """What all heads side by side say of edits, one a line."""
    from heads.analysis.counterfactuals import flipped
    from heads.interfaces.views import interpretation

    try:
        heads = result(selecting(asked, asked.recipes))
        edits = [line for line in (lines or "").splitlines() if line.strip()]
        second = asked.pair if heads.classifiers[0].head.needs_pairs else ""
        return interpretation.edits(flipped(heads.classifiers, asked.text, edits, second))
    except Exception as error:
        return failed(error)


# --- How, and the numbers.


def how(asked: Location, against: str) -> list[Any]:
    """The chain of the head; the menu of heads to set it against; what sets the two apart."""
    from heads.analysis.explanation import explain
    from heads.interfaces.views import explanation

    try:
        recipe = of_lane(asked)
        heads = result(selecting(asked, [recipe]))
        one = heads.classifiers[0]
        second = asked.pair if one.head.needs_pairs else ""
        found = explain(
            one.head.asked,
            one.backbone,
            classes=len(one.head.classes),
            text=asked.text,
            pair=second,
            head=one.head,
        )
        title = run_access.title_of(asked.run) if asked.run else SAMPLES[asked.sample].title
        others = [name for name in asked.recipes if name != recipe]
        other = against if against in others else next(iter(others), "")
        return [
            explanation.explanation(found, title),
            gr.update(choices=others, value=other or None, visible=bool(others)),
            apart(asked, other),
        ]
    except Exception as error:
        return [failed(error), gr.skip(), ""]


def apart(asked: Location, other: str) -> Any:
    """What sets the open head apart from another one."""
    from heads.api import difference

    if not other:
        return ""
    try:
        model = run_access.model_of(asked.run) if asked.run else asked.model
        return render("difference.html", says=difference(of_lane(asked), other, model=model))
    except Exception as error:
        return failed(error)


def numbers(asked: Location, power: Any) -> list[Any]:
    """Every class with its numbers, what it says at a temperature, and the rows of a CSV."""
    from heads.analysis.selection import answered, reading
    from heads.errors import DataError
    from heads.interfaces.views import interpretation

    try:
        (one,) = result(selecting(asked, [of_lane(asked)])).classifiers
        second = asked.pair if one.head.needs_pairs else ""
        (said,) = answered([one], asked.text, second)
        has_classes = said.problem.has_classes
        if not isinstance(power, int | float) or not -1 <= power <= 1:
            what = "The temperature goes from −1 to 1, as a power of ten."
            raise DataError(what, "Type a number between them, or move the slider.")
        cuts = ()
        if said.problem.has_label_sets:
            from heads.classifier.prediction import cuts_of

            cuts = cuts_of(one.head)
        colour = view.COLOURS[asked.lane - 1]
        return [
            interpretation.numbers(reading(said), cuts),
            gr.update(visible=has_classes, value=power),
            interpretation.tempered(reading(said, 10**power), colour) if has_classes else "",
            as_csv(*interpretation.number_rows(said)),
        ]
    except Exception as error:
        return [failed(error), gr.skip(), "", ""]


# --- Take it.


def prepared(asked: Location, form: str, calibrated: bool) -> Iterator[list[Any]]:
    """Writes and verifies the head, and hands the file over."""
    hidden = gr.update(visible=False)
    with TemporaryDirectory(prefix="head-to-head-") as place:
        try:
            events = selecting(asked, [of_lane(asked)])
            heads = yield from _with_progress(events, lambda told: [told, hidden])
            yield [busy("Writing and checking the file"), hidden]
            one = heads.classifiers[0]
            divides = calibrated and calibrates(asked, one)
            path, says = downloads.written(one, form, Path(place), divides)
            yield [render("exported.html", lines=says), gr.update(visible=True, value=str(path))]
        except Exception as error:
            yield [failed(error), hidden]


def calibrates(asked: Location, one: "Classifier") -> bool:
    """Whether the head may be taken along divided by its temperature.

    Of a run it is known whether that helps: what does not is not offered.
    """
    from heads.exporters.calibrated import can_be_calibrated

    if asked.run and not run_access.calibration_helps(asked.run, one.head.name):
        return False
    return can_be_calibrated(one.head)


def takes(asked: Location) -> list[Any]:
    """Whether the head can be divided by its temperature; nothing is written yet."""
    try:
        (one,) = result(selecting(asked, [of_lane(asked)])).classifiers
        offered = gr.update(visible=calibrates(asked, one), value=False)
        return [offered, "", gr.update(visible=False)]
    except Exception as error:
        return [gr.update(visible=False), failed(error), gr.update(visible=False)]


# --- The panel.


@dataclass(frozen=True, slots=True, kw_only=True)
class Panel:
    """The components of the panel, by section."""

    area: gr.Column
    head: gr.HTML
    tabs: gr.Tabs
    why: list[Any]
    how: list[Any]
    numbers: list[Any]
    take: list[Any]
    query: gr.Textbox

    @property
    def loads(self) -> dict[str, Any]:
        """The event that fills the open section."""
        given = [self.query, self.why[1], self.why[2], self.how[1]]
        return {
            "fn": self.load,
            "inputs": given,
            "outputs": [*self.why, *self.how, *self.numbers, *self.take],
            "trigger_mode": "always_last",
            **LOOKS,
            **QUIET,
        }

    def load(self, *given: Any) -> Iterator[list[Any]]:
        """The values of the open section's components; the others stay."""
        yield from loading(self, *given)

    def follows(self, event: Any) -> None:
        """Opens, after an event that has changed where one is, what stands open there."""
        area = [self.area, self.head, self.tabs]
        opened = event.success(
            lambda query: shown(Location.of(query)), self.query, area, queue=False,
            trigger_mode="always_last", **QUIET,
        )  # fmt: skip
        opened.success(**self.loads)


def build(place: Try) -> Panel:
    """Draws the panel below the lanes; it is closed."""
    with gr.Column(visible=False, elem_id="panel") as area:
        head = gr.HTML("", elem_id="panel-head", js_on_load=CLICKS)
        with gr.Tabs(elem_id="sections") as tabs:
            sections = {}
            with gr.Tab("Why", id="why", elem_id="section-why") as sections["why"]:
                why_parts = _draw_why(place)
            with gr.Tab("How", id="how", elem_id="section-how") as sections["how"]:
                how_parts = _draw_how(place)
            with gr.Tab("Numbers", id="numbers", elem_id="section-numbers") as sections["numbers"]:
                number_parts = _draw_numbers(place)
            with gr.Tab("Take it", id="take", elem_id="section-take") as sections["take"]:
                take_parts = _draw_take(place)
    panel = Panel(
        area=area, head=head, tabs=tabs, why=why_parts, how=how_parts, numbers=number_parts,
        take=take_parts, query=place.query,
    )  # fmt: skip
    _wire(place, panel, sections)
    return panel


def _draw_why(place: Try) -> list[Any]:
    status = gr.HTML("", elem_id="why-status")
    with gr.Row():
        label = gr.Dropdown(
            [ANSWERED], value="", label="Class that is asked about", interactive=True, min_width=200
        )
        against = gr.Dropdown(
            AGAINST, value="others", label="Against", interactive=True, min_width=200
        )
    tokens = gr.HTML("", elem_id="tokens")
    near = gr.HTML("", elem_id="near")
    gr.HTML(render("section_title.html", title="What if? One edited sentence a line", says=""))
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

    def turned(query: str, label: str, against: str) -> Iterator[list[Any]]:
        yield from why(Location.of(query), label, against)

    def trained_anew(query: str) -> Iterator[Any]:
        yield from retrained(Location.of(query))

    gr.on([label.input, against.input], turned, asked, outputs, **run)
    ask.click(
        lambda query, lines: edited(Location.of(query), lines), [place.query, lines], flips, **run
    )
    anew.click(trained_anew, place.query, layers, **run)
    return outputs


def _draw_how(place: Try) -> list[Any]:
    chain = gr.HTML("", elem_id="chain")
    other = gr.Dropdown(
        [], label="What sets it apart from", interactive=True, elem_id="against", min_width=220
    )
    says = gr.HTML("", elem_id="apart")
    other.input(
        lambda query, other: apart(Location.of(query), other or ""), [place.query, other], says,
        **LOOKS, **QUIET,
    )  # fmt: skip
    return [chain, other, says]


def _draw_numbers(place: Try) -> list[Any]:
    table = gr.HTML("", elem_id="numbers")
    save, csv = gr.Button("Save as CSV", size="sm"), gr.Textbox("", visible="hidden")
    name = gr.Textbox("head-to-head.csv", visible="hidden")
    power = gr.Slider(-1, 1, value=0, step=0.05, label=TEMPERATURE, elem_id="temperature")
    warm = gr.HTML("", elem_id="warm")
    save.click(None, [csv, name], None, js=SAVE, api_visibility="private")
    outputs = [table, power, warm, csv]
    power.change(
        lambda query, power: numbers(Location.of(query), power)[2], [place.query, power], warm,
        preprocess=False, trigger_mode="always_last", **LOOKS, **QUIET,
    )  # fmt: skip
    return outputs


def _draw_take(place: Try) -> list[Any]:
    gr.Markdown(downloads.SAYS, elem_classes="quiet")
    form = gr.Radio([downloads.FOLDER, downloads.ONNX], value=downloads.FOLDER, label="As")
    calibrated = gr.Checkbox(
        label="Calibrated: divide the last layer by the temperature",
        info="The head is then about as sure as it is right; its answers stay.",
        visible=False,
        elem_id="calibrated",
    )
    prepare = gr.Button("Prepare the file", variant="primary", size="sm", elem_id="prepare")
    told = gr.HTML("", elem_id="taken")
    file = gr.DownloadButton("Download the head", visible=False, variant="primary", size="sm")

    def asked(query: str, form: str, calibrated: bool) -> Iterator[list[Any]]:
        yield from prepared(Location.of(query), form, bool(calibrated))

    prepare.click(asked, [place.query, form, calibrated], [told, file], **ONE_AT_A_TIME, **QUIET)
    return [calibrated, told, file]


def shown(asked: Location) -> list[Any]:
    """Whether the panel is open, its heading, and which section stands open."""
    is_open = 1 <= asked.lane <= len(asked.recipes)
    if not is_open:
        return [gr.update(visible=False), "", gr.skip()]
    recipe = of_lane(asked)
    head = render(
        "lane_head.html", mark=view.COLOURS[asked.lane - 1], title=view.title_of(recipe),
        recipe=recipe,
    )  # fmt: skip
    return [gr.update(visible=True), head, gr.Tabs(selected=asked.show)]


def loading(panel: Panel, query: str, label: str, against: str, other: str) -> Any:
    """The values of the open section's components."""
    asked = Location.of(query)
    blank = {name: [gr.skip()] * len(getattr(panel, name)) for name in SECTIONS}

    def values(section: str, own: list[Any]) -> list[Any]:
        return [one for name in SECTIONS for one in (own if name == section else blank[name])]

    if not 1 <= asked.lane <= len(asked.recipes):
        yield values("", [])
        return
    if asked.show == "why":
        for own in why(asked, label or "", against or ""):
            yield values("why", own)
    elif asked.show == "how":
        yield values("how", how(asked, other or ""))
    elif asked.show == "numbers":
        yield values("numbers", numbers(asked, 0))
    else:
        yield values("take", takes(asked))


def _wire(place: Try, panel: Panel, sections: dict[str, gr.Tab]) -> None:
    loads = panel.loads
    area = [panel.area, panel.head, panel.tabs, place.query]

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
            return [gr.skip()] * 4
        return [*shown(asked), asked.query]

    for component in (place.lanes, panel.head):
        component.click(opened, place.query, area, **QUIET).success(**loads).success(
            None, place.query, None, js="(query) => heads.reveal(query)", **QUIET
        )
    for name, tab in sections.items():
        tab.select(
            lambda query, name=name: replace(Location.of(query), show=name).query,
            place.query, place.query, queue=False, **QUIET,
        ).success(**loads)  # fmt: skip
    gr.on([place.text.submit, place.pair.submit, place.text.blur], **loads)
