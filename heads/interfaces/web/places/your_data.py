"""Your data: a file in, a training that outlives the page, and one recommended head."""

import contextlib
import json
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Any

import gradio as gr
from gradio.components.plot import PlotData

from heads.data.samples import SAMPLES
from heads.errors import DataError, HeadsError, LimitError, ModelError
from heads.evaluation.metrics import SCORES
from heads.interfaces.views.html import busy, failure, render
from heads.interfaces.web import run_access, temporary_files, uploads
from heads.interfaces.web.guards import clicked, failed, saves
from heads.interfaces.web.location import MOST, Location
from heads.interfaces.web.places import data_form, result_folds, settings_form
from heads.interfaces.web.places.result_folds import BOARDS
from heads.interfaces.web.places.settings_form import build_request
from heads.interfaces.web.places.try_it import CLICKS, QUIET
from heads.interfaces.web.slots import pool
from heads.interfaces.web.startup import Opening
from heads.interfaces.web.training_jobs import TrainingJob, TrainingJobs
from heads.interfaces.web.visitors import Recent, address_of
from heads.runs.folder import RunFolder
from heads.settings import current_limits

if TYPE_CHECKING:
    from heads.interfaces.views.charts import Chart
    from heads.runs.leaderboard import Leaderboard

READS, ESTIMATES = pool("reads"), pool("estimates")
BEAT = 1.0  # seconds between two looks at a training
SETTLED = 0.15  # seconds without another choice, after which it is told how long a training takes
GOES_ON = ("stopped", "unfinished", "broken")  # states of a run that can be resumed
LONG = 120.0  # seconds: above that some of the rows are offered first
FEWER = 3_000  # rows, then
MOST_PAGES = 1_000  # that are remembered to have chosen a file
FIND = "Find the best head"
FOREST, HEAT = "Forest", "Heat map"


# --- What the rail and the strip say.


def rail(mine: Any, shown: str, jobs: TrainingJobs) -> Any:
    """Draw the runs that a visitor may see, the newest first."""
    runs = []
    for run in run_access.visible(mine):
        with contextlib.suppress(HeadsError, KeyError, TypeError):
            runs.append(_describe_run(run, mine, jobs.known(run.id)))
    return render("rail.html", runs=runs, shown=shown)


def _describe_run(run: RunFolder, mine: Any, job: TrainingJob | None) -> dict[str, Any]:
    from heads.runs.leaderboard import facts_of

    facts = facts_of(run)
    state, score = str(facts["state"]), facts["recommended_score"]
    is_running = state == "running" or bool(job and not job.is_over)
    when = time.strftime("%d %b %H:%M", time.localtime(facts["created"]))
    if is_running:
        told = (
            "running",
            job.course.brief if job else f"{facts['cells']} of {facts['planned']} heads",
        )
    else:
        shown_score = "" if score is None else SCORES[facts["metric"]].told(score)
        told = shown_score, "stopped" if state == "unfinished" else state
    return {
        "id": run.id,
        "name": facts["data"] or run.id,
        "when": when,
        "told": " · ".join(filter(None, (when, *told))),
        "is_own": run_access.owns(run.id, mine),
        "is_running": is_running,
        "can_go_on": not is_running and state in GOES_ON,
    }


def strip(jobs: Sequence[TrainingJob], mine: Any) -> Any:
    """The training that runs, wherever on the page one is; who began it can stop it there."""
    if not jobs:
        return render("job.html", says="")
    job = jobs[0]
    more = f" and {len(jobs) - 1} more" if len(jobs) > 1 else ""
    name = run_access.title_of(job.run.id)
    says = f"Training {name}: {job.course.brief}{more}"
    is_own = run_access.owns(job.run.id, mine)
    return render("job.html", says=says, run=job.run.id, is_own=is_own)


# --- What the main part shows.


def plotted(chart: "Chart") -> PlotData:
    """A chart as Gradio takes one, with its configuration."""
    return PlotData(type="plotly", plot=json.dumps(chart.figure))


def training(job: TrainingJob) -> list[Any]:
    """Status and live heat map of a training."""
    course = job.course
    says = course.says if course.tuned and course.done else course.brief
    return [busy("; ".join(filter(None, (says, course.best))), course.share), live(job)]


def live(job: TrainingJob) -> Any:
    """The heat map, as far as it is filled."""
    from heads.interfaces.views.charts import Tile, live_heat
    from heads.interfaces.views.format import of_metric
    from heads.runs.racing import stopped_of

    if not job.recipes:
        return None
    out = [one.recipe for one in stopped_of(job.run)]
    metric = SCORES[job.course.metric]
    tiles = {
        name: Tile(value=score, shown=metric.told(score))
        for name, (score, _, _) in job.course.scores.items()
    }
    return plotted(live_heat(job.recipes, tiles, of_metric(job.course.metric), out))


def chart_of(board: "Leaderboard", kind: str, measure: str, head: str = "") -> "Chart":
    """The forest plot, or the heat map of a measure."""
    from heads.interfaces.views.charts import forest, heat_map

    return heat_map(board, measure or "") if kind == HEAT else forest(board, head)


def said(chart: "Chart") -> Any:
    """What a chart says, for those who do not see it, and what its signs mean."""
    return render("chart.html", chart="board", says=chart.says, key=chart.key)


def head_panel(board: "Leaderboard", name: str) -> Any:
    """One head of a run, opened."""
    from heads.interfaces.views.head_details import facts
    from heads.interfaces.views.lanes import title_of

    return render(
        "opened_head.html",
        title=title_of(name),
        name=name,
        is_best=name == board.recommendation.name,
        facts=facts(board, board.cell(name)),
    )


def doors(board: "Leaderboard", asked: Location, head: str) -> Any:
    """What one can do with a run: ask its heads, take one along."""
    from heads.runs.spec import load

    names = [cell.name for cell in board.cells if not cell.is_baseline]
    own = load(board.folder)
    row = int(own.splits.test[0][0])
    text = own.corpus.texts[row]
    pair = own.corpus.pairs[row] if own.corpus.pairs else ""
    recipes = tuple(dict.fromkeys([head, board.reference, board.best, *names]))[:MOST]
    tried = replace(
        asked, place="try", run=board.run, recipes=recipes, text=text[:300], pair=pair[:300],
        lane=0, show="why",
    )  # fmt: skip
    return render(
        "doors.html",
        run=board.run,
        reads_texts=own.corpus.vectors is None,
        try_it=tried.query,
        take_it=replace(tried, lane=1, show="take").query,
        link=Location(place="data", result=board.run).query,
        python=f"import heads\n\nprint(heads.resume({board.run!r}).verdict)",
        command=f"heads runs {board.run}",
        head=head,
        is_best=head == board.recommendation.name,
    )


# --- The place.


@dataclass(frozen=True, slots=True, kw_only=True)
class YourData:
    """The components of the place, in the order of `values`."""

    rail: gr.HTML
    job: gr.HTML
    timer: gr.Timer
    welcome: gr.HTML
    card_area: gr.Column
    training_area: gr.Column
    status: gr.HTML
    live: gr.Plot
    result_area: gr.Column
    result: gr.HTML
    doors: gr.HTML
    measure: gr.Dropdown
    plot: gr.Plot
    says: gr.HTML
    head_area: gr.Column
    head: gr.HTML
    last: gr.State
    folds: list[gr.Accordion]
    kind: gr.Radio
    numbers: gr.HTML
    query: gr.Textbox
    mine: gr.BrowserState
    held: gr.BrowserState
    file: gr.File
    samples: gr.HTML

    def all(self) -> list[Any]:
        """The components, but for what is filled when it is opened."""
        return [*(getattr(self, name) for name in NAMES), *self.folds]


AREAS = ("welcome", "card_area", "training_area", "result_area")
OTHERS = ("folds", "kind", "numbers", "query", "mine", "held", "file", "samples")
NAMES = tuple(name for name in YourData.__dataclass_fields__ if name not in OTHERS)


def values(folds: Sequence[Any] | None = None, **given: Any) -> list[Any]:
    """The values of `YourData.all`; what is not given stays."""
    return [*(given.get(name, gr.skip()) for name in NAMES),
            *(folds or [gr.skip()] * result_folds.count_folds())]  # fmt: skip


def seen(
    query: str, mine: Any, held: Any, kind: str, measure: str, last: str, *, jobs: TrainingJobs,
    page: str = "",
) -> list[Any]:  # fmt: skip
    """All that the place shows where one is; what stands there already stays as it is.

    Args:
        kind: How the heads are drawn.
        measure: What the heat map shows.
        last: What stood there: see `_key`.
        page: Its session, if it will say when it is closed.
    """
    asked = Location.of(query)
    around, job = _around(asked, mine, jobs, page), jobs.of(asked.result, page)
    key = _key(asked, job)
    if asked.result and key == last and key.endswith("over"):
        return values(**around)
    try:
        main, folds = _main(asked, mine, held, kind, measure, job)
    except Exception as error:
        main, folds = _nothing(failed(error)), result_folds.hide_all()
    if key.partition("|")[0] == last.partition("|")[0] and "over" in last:
        folds = []  # of the same run another head is open
    return values(folds, **around | main | {"last": key if asked.result else ""})


def _around(asked: Location, mine: Any, jobs: TrainingJobs, page: str = "") -> dict[str, Any]:
    """The rail and the strip; the clock goes while something is trained that is seen."""
    running = jobs.running((run.id for run in run_access.visible(mine)), page)
    is_under_way = bool(running or jobs.running([asked.result], page))
    return {
        "rail": rail(mine, asked.result, jobs),
        "job": strip(running, mine),
        "timer": gr.Timer(active=is_under_way),
    }


def _areas(shown: str) -> dict[str, Any]:
    """Show one of the four parts of the place, and hide the others."""
    return {name: gr.update(visible=name == shown) for name in AREAS}


def _key(asked: Location, job: TrainingJob | None) -> str:
    """What is shown: which run, which of its heads, and whether it is under way."""
    state = "over" if not job or job.is_over else "running"
    return f"{asked.result}|{asked.head}|{state}"


def _main(
    asked: Location, mine: Any, held: Any, kind: str, measure: str, job: TrainingJob | None
) -> tuple[dict[str, Any], list[Any]]:
    """The values of the main part, and of its folds; of these none where they stay."""
    from heads.interfaces.views import leaderboard as told
    from heads.runs.leaderboard import leaderboard

    if not asked.result:
        return _areas("card_area" if uploads.is_kept(held) else "welcome"), []
    run = run_access.opened(asked.result)
    if job and not job.is_over:
        status, drawn = training(job)
        return _areas("training_area") | {"status": status, "live": drawn}, []
    board = leaderboard(run)
    if not board.best:
        says = job.error if job and job.error else "No head of this run is done yet."
        hint = " Press “Go on” beside its name." if run_access.owns(run.id, mine) else ""
        return _nothing(failure(says + hint)), result_folds.hide_all()
    error = failure(job.error) if job and job.error else ""
    names = [cell.name for cell in board.cells if not cell.is_baseline]
    head = asked.head if asked.head in names else ""
    chart = chart_of(board, kind, measure, head)
    main = _areas("result_area") | {
        "result": error + told.result(board),
        "doors": doors(board, asked, head or board.recommendation.name or board.best),
        "measure": _measures(board, measure),
        "plot": gr.update(value=plotted(chart), visible=True),
        "says": said(chart),
        "head_area": gr.update(visible=bool(head)),
        "head": head_panel(board, head) if head else "",
    }
    return main, result_folds.label_all(board, head, mine)


def _nothing(told: Any) -> dict[str, Any]:
    """A result of which there is nothing to see but a sentence."""
    gone = gr.update(visible=False)
    found = {"result": told, "plot": gone, "doors": "", "says": "", "head_area": gone}
    return _areas("result_area") | found


def _measures(board: "Leaderboard", chosen: str) -> Any:
    from heads.interfaces.views.format import offered

    shown = {one.name: one.label for one in offered(board.cells)}
    value = chosen if chosen in shown else next(iter(shown))
    return gr.update(choices=[(label, name) for name, label in shown.items()], value=value)


@dataclass(frozen=True, slots=True, kw_only=True)
class Arrival:
    """What follows where one arrives: events, as arguments of Gradio's listeners.

    Attributes:
        shows: Shows what is there.
        rereads: Reads a file that was chosen before.
        probes: Says how long a training on it will take.
    """

    shows: dict[str, Any]
    rereads: dict[str, Any]
    probes: dict[str, Any]


def build(
    page: gr.Blocks, opening: Opening, query: gr.Textbox, mine: gr.BrowserState, jobs: TrainingJobs,
    job: gr.HTML,
) -> Arrival:  # fmt: skip
    """Draws the place; gives what follows where one arrives."""
    held = gr.BrowserState("", storage_key="head-to-head-file", secret="head-to-head")
    with gr.Column(elem_id="data-row"):
        with gr.Column(scale=0, min_width=230, elem_id="rail"):
            file = gr.File(label="Your file", show_label=False, height=112, elem_id="file")
            samples = gr.HTML(render("samples.html", samples=SAMPLES.items()), js_on_load=CLICKS)
            runs = gr.HTML("", elem_id="runs", js_on_load=CLICKS)
        with gr.Column(elem_id="data-main"):
            welcome = gr.HTML(render("welcome.html", limits=current_limits()), elem_id="welcome")
            card = _draw_card(opening, held)
            with gr.Column(visible=False, elem_id="training") as training_area:
                status = gr.HTML("", elem_id="status")
                drawn = gr.Plot(show_label=False, container=False, elem_id="live")
            result_parts = _draw_result(query, mine)
    timer = gr.Timer(BEAT, active=False)
    place = YourData(
        rail=runs, job=job, timer=timer, welcome=welcome, card_area=card.area,
        training_area=training_area, status=status, live=drawn, last=gr.State(""), query=query,
        mine=mine, held=held, file=file, samples=samples, **result_parts,
    )  # fmt: skip
    return _wire(place, card, jobs)


@dataclass(frozen=True, slots=True, kw_only=True)
class Card:
    """The card of a file that was read."""

    area: gr.Column
    view: gr.HTML
    find: gr.Button
    few: gr.Button
    estimate: gr.HTML
    pending: gr.State
    data: data_form.DataInputs
    settings: settings_form.SettingsInputs


def _draw_card(opening: Opening, held: gr.BrowserState) -> Card:
    with gr.Column(visible=False, elem_id="card") as area:
        view = gr.HTML("", elem_id="account", js_on_load=CLICKS)
        with gr.Row(elem_id="start-row"):
            find = gr.Button(FIND, variant="primary", elem_id="start")
            few = gr.Button(f"Find it on {FEWER:,} rows first", visible=False, elem_id="few")
        estimate = gr.HTML("", elem_id="estimate")
        data = data_form.build(held)
        settings = settings_form.build(opening)
    return Card(
        area=area,
        view=view,
        find=find,
        few=few,
        estimate=estimate,
        pending=gr.State(PendingEstimate()),
        data=data,
        settings=settings,
    )


def _draw_result(query: gr.Textbox, mine: gr.BrowserState) -> dict[str, Any]:
    with gr.Column(visible=False, elem_id="result") as area:
        told = gr.HTML("", elem_id="sentences")
        with gr.Row(elem_id="bar"):
            doors = gr.HTML("", elem_id="doors", js_on_load=CLICKS)
            report = gr.Button("Report", size="sm", elem_id="report")
            kind = gr.Radio(
                [FOREST, HEAT], value=FOREST, show_label=False, container=False, label="Drawn as",
                elem_id="kind",
            )  # fmt: skip
            measure = gr.Dropdown(
                [("Score", "")], value="", show_label=False, container=False, label="Shown",
                visible=False, interactive=True, elem_id="measure",
            )  # fmt: skip
        says = gr.HTML("", elem_id="board-says", js_on_load="heads.charts(trigger)")
        plot = gr.Plot(show_label=False, container=False, elem_id="board")
        with gr.Column(visible=False, elem_id="head-panel") as head_area:
            head = gr.HTML("", js_on_load=CLICKS)
        folds, numbers = result_folds.build(query, mine)
    saves(report, _report, [query, mine], "head-to-head-report.html")

    def redrawn(query: str, kind: str, measure: str) -> list[Any]:
        from heads.runs.leaderboard import leaderboard

        asked = Location.of(query)
        chart = chart_of(leaderboard(run_access.opened(asked.result)), kind, measure, asked.head)
        return [gr.update(visible=kind == HEAT), plotted(chart), said(chart)]

    gr.on([kind.input, measure.input], redrawn, [query, kind, measure], [measure, plot, says],
          **BOARDS, **QUIET)  # fmt: skip
    return {
        "result_area": area, "result": told, "doors": doors, "measure": measure, "plot": plot,
        "says": says, "head_area": head_area, "head": head, "folds": folds, "kind": kind,
        "numbers": numbers,
    }  # fmt: skip


def _report(query: str, mine: Any) -> str:
    from heads.interfaces.views.report import report
    from heads.runs.leaderboard import leaderboard

    run = run_access.opened(Location.of(query).result)
    return report(leaderboard(run), run_access.visible(mine))


# --- Events.


def _wire(place: YourData, card: Card, jobs: TrainingJobs) -> Arrival:
    query, mine, held = place.query, place.mine, place.held

    def shown(request: gr.Request, *given: Any) -> list[Any]:
        return seen(*given, jobs=jobs, page=request.session_hash or "")

    shows: dict[str, Any] = {
        "fn": shown,
        "inputs": [query, mine, held, place.kind, place.measure, place.last],
        "outputs": place.all(),
        "trigger_mode": "always_last",  # of two runs that are chosen the second one counts
        **BOARDS,
        **QUIET,
    }
    rereads, probes = _wire_card(place, card, jobs, shows)
    _wire_rail(place, jobs, shows)
    _wire_heads(place)
    _wire_clock(place, jobs, shows)
    return Arrival(shows=shows, rereads=rereads, probes=probes)


class CardHandlers:
    """What the card of a file does: it is read, under which columns."""

    def __init__(self, card: Card) -> None:
        settings = card.settings.updated_components()
        self.shown = [card.view, *card.data.menus(), *settings]
        self._unchanged = [gr.skip()] * len(settings)
        self._chosen = Recent[bool](MOST_PAGES)  # those that have chosen a file

    def opened(self, request: gr.Request) -> list[Any]:
        """Show the card, on which the file before no longer stands."""
        self._chosen[request.session_hash or ""] = True
        return [*_areas("card_area").values(), "", busy("Reading the file")]

    def drawn(self, found: data_form.Read) -> list[Any]:
        """The values of what is shown of a file."""
        settings = settings_form.update_settings(found.data) if found.data else self._unchanged
        return [found.view, *found.menus, *settings]

    def read_with(self, read: Callable[..., data_form.Read]) -> Callable[..., list[Any]]:
        """Return a handler that shows the file as `read` reads it."""

        def reread(*given: Any) -> list[Any]:
            return self.drawn(read(*given))

        return reread

    def uploaded(self, path: str | None, query: str) -> Iterator[list[Any]]:
        """Takes a file over at once: nothing of it stays where Gradio put it."""
        same = [gr.skip()] * (len(self.shown) - 1)
        try:
            name = uploads.keep(path or "")
        except Exception as error:
            yield [None, "", "auto", fresh(query), failed(error), *same]
            return
        yield [None, name, "auto", fresh(query), busy("Reading the file"), *same]
        yield [gr.skip()] * 4 + self.drawn(data_form.guessed(name))

    def returned(self, held: str, shown: str, request: gr.Request) -> list[Any]:
        """Read the file chosen before a reload again, unless it is gone or another is chosen."""
        same = [gr.skip()] * (1 + len(self.shown))
        if not held or shown or request.session_hash in self._chosen:
            return same
        if not uploads.is_kept(held):
            return ["", *same[1:]]
        found = [gr.skip(), *self.drawn(data_form.guessed(held))]
        return same if request.session_hash in self._chosen else found

    def sampled(self, query: str, event: gr.EventData) -> list[Any]:
        """A sample in the place of a file."""
        name = clicked(event).get("sample", "")
        if name not in SAMPLES:
            return [gr.skip()] * (3 + len(self.shown))
        known = uploads.SAMPLE + name
        return [known, "auto", fresh(query), *self.drawn(data_form.guessed(known))]


def fresh(query: str) -> str:
    """Where one is with a new file: under Your data, with no run."""
    return replace(Location.of(query), place="data", result="", head="").query


def _wire_card(
    place: YourData, card: Card, jobs: TrainingJobs, shows: dict[str, Any]
) -> tuple[dict[str, Any], dict[str, Any]]:
    data, settings, reading = card.data, card.settings, CardHandlers(card)
    query, held = place.query, place.held
    asked = [*data.all(), *settings.all()]
    reads: dict[str, Any] = {**QUIET, **READS}
    areas = [place.welcome, place.card_area, place.training_area, place.result_area]
    opens: dict[str, Any] = {
        "fn": reading.opened, "inputs": None, "outputs": [*areas, place.last, card.view],
        "queue": False, **QUIET,
    }  # fmt: skip
    probes: dict[str, Any] = {
        "fn": partial(probed, jobs),
        "inputs": [card.pending, *asked],
        "outputs": [card.find, card.few, card.estimate],
        "trigger_mode": "multiple",  # each ends the one before
        **ESTIMATES,
        **QUIET,
    }
    begun = [held, data.first, query, *reading.shown]
    place.file.upload(**opens)
    place.file.upload(reading.uploaded, [place.file, query], [place.file, *begun], **reads).then(
        **probes
    )
    place.samples.click(**opens)
    place.samples.click(reading.sampled, query, begun, **reads).then(**probes)
    menus = [data.text, data.pair, data.split, data.group, data.labels]
    changes = [*(menu.input for menu in menus), data.order.blur, data.order.submit]
    for events, read, given in (
        ([data.first.input], data_form.guessed, [held, data.first]),
        (changes, data_form.changed, data.all()),
        ([data.label.input], partial(data_form.reformed, True), data.all()),
        ([data.form.input], partial(data_form.reformed, False), data.all()),
    ):
        gr.on(events, reading.read_with(read), given, reading.shown, **reads).then(**probes)
    # A recipe that is typed is a change, and to Gradio no input.
    changes = [settings.grid.input, settings.own.change, settings.model.input]
    changes += [settings.pairs.input, settings.losses.input, settings.tunes.change]
    changes += [
        settings.seeds.release,
        *(
            control.release if isinstance(control, gr.Slider) else control.input
            for control in settings.form
        ),
    ]
    gr.on(changes, **probes)
    _wire_start(place, card, jobs, shows, asked)
    rereads: dict[str, Any] = {
        "fn": reading.returned, "inputs": [held, card.view], "outputs": [held, *reading.shown],
        **reads,
    }  # fmt: skip
    return rereads, probes


def _wire_start(
    place: YourData, card: Card, jobs: TrainingJobs, shows: dict[str, Any], asked: list[Any]
) -> None:
    query, mine = place.query, place.mine
    fields = len(card.data.all())

    def started(
        request: gr.Request, query: str, mine: Any, *given: Any, most: int = 0
    ) -> list[Any]:
        limits = current_limits()
        try:
            page = request.session_hash or ""
            running = jobs.running((run.id for run in run_access.visible(mine)), page)
            if running and limits.public:
                what = "You are training already."
                raise LimitError(what, "Stop it first, or wait for its end.")
            from heads.runs.runner import begin

            address = address_of(request.client)
            jobs.admit(address)
            temporary_files.admit("run", owned=jobs.begun(address))
            data = data_form.chosen(*given[:fields], most=most)
            # What the browser remembers: in public mode a secret, which makes the run its own.
            kept = run_access.new_secret() if limits.public else ""
            named = run_access.run_of(kept) if kept else ""
            run = begin(build_request(data, *given[fields:]), run=named)
            try:
                jobs.begin(run, address, page)
            except LimitError:  # others were faster
                run.delete()
                raise
        except Exception as error:
            return [gr.skip(), gr.skip(), failed(error)]
        known = run_access.remembered([kept or run.id, *run_access.remembered(mine)])
        now = replace(Location.of(query), place="data", result=run.id, head="").query
        return [known, now, ""]

    outputs = [mine, query, card.estimate]
    begins: dict[str, Any] = {**READS, **QUIET}
    given = [query, mine, *asked]
    card.find.click(started, given, outputs, **begins).then(**shows)

    def started_on_few(request: gr.Request, *given: Any) -> list[Any]:
        return started(request, *given, most=FEWER)

    card.few.click(started_on_few, given, outputs, **begins).then(**shows)


class PendingEstimate:
    """What a visitor waits to be told; the next one ends it, so that nobody waits for the past."""

    def __init__(self) -> None:
        self._stop: threading.Event | None = None

    def begin(self) -> threading.Event:
        """A new one, which is at its end once that is set."""
        if self._stop:
            self._stop.set()
        self._stop = threading.Event()
        return self._stop


def probed(jobs: TrainingJobs, pending: PendingEstimate, *given: Any) -> Iterator[list[Any]]:
    """How long it will take: the button says so, from a few texts that are read for it."""
    stop = pending.begin()
    if not given[0]:
        yield [gr.update(value=FIND, interactive=True), gr.update(visible=False), ""]
        return
    # A number that is changed comes twice, first as it was; the page may mix what comes at once.
    if stop.wait(SETTLED):
        yield [gr.skip()] * 3
        return
    measuring = gr.update(value=f"{FIND} · measuring how long …", interactive=True)
    yield [measuring, gr.update(visible=False), ""]
    found = _estimated(jobs, stop, *given)
    yield [gr.skip()] * len(found) if stop.is_set() else found


def _estimated(jobs: TrainingJobs, stop: threading.Event, *given: Any) -> list[Any]:
    """Button, offer of fewer rows and remark once that is measured."""
    limits = current_limits()
    from heads.interfaces.views.leaderboard import duration
    from heads.interruption import Interrupted
    from heads.runs.duration import memory
    from heads.runs.runner import probed as measured

    hidden, fields = gr.update(visible=False), 2 + data_form.ALL
    data = None
    try:
        data = data_form.chosen(*given[:fields])
        found = measured(build_request(data, *given[fields:]), stop)
    except Interrupted:
        return [gr.skip()] * 3  # something else is chosen, and is told next
    except Exception as error:
        # What is wrong with the data, the card says.
        is_said = data is None and isinstance(error, HeadsError)
        unfit = gr.update(value=FIND, interactive=False)
        return [unfit, hidden, "" if is_said else failed(error)]
    seconds = jobs.starting + found.seconds
    about = duration(max(1, round(seconds, -1 if seconds > 30 else 0)))
    is_long = seconds > LONG and len(data.corpus) > 1.2 * FEWER
    told = []
    if found.has_race:
        told.append("A race may make it shorter.")
    if found.tuning_bytes:
        told.append(f"A training of the base model takes about {memory(found.tuning_bytes)}.")
    if limits.run_seconds:
        ends = f"It ends after {limits.run_seconds:.0f} seconds"
        told.append(f"{ends}; heads that are done by then are kept.")
    return [
        gr.update(value=f"{FIND} · about {about}", interactive=True),
        gr.update(visible=is_long),
        render("quiet.html", says=" ".join(told)),
    ]


def _wire_rail(place: YourData, jobs: TrainingJobs, shows: dict[str, Any]) -> None:
    query, mine = place.query, place.mine

    def acted(query: str, mine: Any, event: gr.EventData, request: gr.Request) -> list[Any]:
        """Open, resume, stop or delete a run."""
        data, location = clicked(event), Location.of(query)
        run, action = data.get("run", ""), data.get("do", "")
        here = replace(location, place="data", result=run, head="").query
        if action == "run":
            return [here, gr.skip()]
        if action == "resume":
            _resume(run, mine, jobs, request)
            return [here, run_access.in_front(mine, run)]
        if action == "stop":
            jobs.stop(run_access.owned(run, mine, "stop").id)
        if action != "delete":
            return [gr.skip(), gr.skip()]
        folder = run_access.owned(run, mine, "delete")
        if jobs.running([run]):
            raise DataError("This run is being trained.", "Stop it first.")
        folder.delete()
        shown = "" if run == location.result else location.result
        return [replace(location, result=shown, head="").query, run_access.without(mine, run)]

    place.rail.click(acted, [query, mine], [query, mine], **QUIET).then(**shows)


def _wire_heads(place: YourData) -> None:
    def headed(query: str, mine: Any, kind: str, measure: str, event: gr.EventData) -> list[Any]:
        """Opens a head, or closes it."""
        from heads.runs.leaderboard import leaderboard

        asked, data = Location.of(query), clicked(event)
        name = data.get("head", "")
        is_close = data.get("do") == "close"
        if not asked.result or data.get("do") not in (None, "close", "head"):
            return [gr.skip()] * len(outputs)
        board = leaderboard(run_access.opened(asked.result))
        if not is_close and name not in {one.name for one in board.cells if not one.is_baseline}:
            return [gr.skip()] * len(outputs)
        now = replace(asked, head="" if is_close else name)
        return [
            gr.update(visible=bool(now.head)),
            head_panel(board, name) if now.head else "",
            now.query,
            doors(board, now, now.head or board.recommendation.name or board.best),
            _key(now, None),
            plotted(chart_of(board, kind, measure, now.head)),
            *result_folds.label_all(board, now.head, mine, closes=False),
        ]

    outputs = [place.head_area, place.head, place.query, place.doors, place.last, place.plot]
    outputs += place.folds
    given = [place.query, place.mine, place.kind, place.measure]
    place.head.click(headed, given, outputs, **BOARDS, **QUIET)
    for opens in (place.numbers.click, place.says.select):
        opens(headed, given, outputs, **BOARDS, **QUIET).then(
            None, None, None, js="() => heads.focus('head-panel')", **QUIET
        )


def _resume(run: str, mine: Any, jobs: TrainingJobs, request: gr.Request) -> None:
    """Go on with a run; raise HeadsError if it is another's, or its base model is gone."""
    from heads.backbone.safety import is_here
    from heads.runs.spec import load

    folder = run_access.owned(run, mine, "resume")
    # There a training fetches none itself, and what had been fetched may have made room.
    model = load(folder).model
    if current_limits().public and not is_here(model):
        hint = "Choose it as base model once more, which fetches it, and then go on."
        raise ModelError(f"{model} is not on this machine any more.", hint)
    jobs.begin(folder, address_of(request.client), request.session_hash or "")


def _wire_clock(place: YourData, jobs: TrainingJobs, shows: dict[str, Any]) -> None:
    def ticked(request: gr.Request, query: str, mine: Any, *given: Any) -> list[Any]:
        asked, page = Location.of(query), request.session_hash or ""
        job = jobs.of(asked.result, page) if asked.result else None
        if asked.result and given[-1] != _key(asked, job):  # it has begun, or come to its end
            return seen(query, mine, *given, jobs=jobs, page=page)
        around = _around(asked, mine, jobs, page)
        if job and not job.is_over:
            status, drawn = training(job)
            return values(**around, status=status, live=drawn)
        return values(**around)

    ticks: dict[str, Any] = shows | {"fn": ticked, "trigger_mode": "once"}
    place.timer.tick(**ticks)

    def stopped(mine: Any, event: gr.EventData) -> None:
        data = clicked(event)
        if data.get("do") == "stop":
            jobs.stop(run_access.owned(data.get("run", ""), mine, "stop").id)

    place.job.click(
        stopped, place.mine, None, **QUIET
    )  # a sentence comes back through the queue alone


def came(page: gr.Blocks, arrival: Arrival, jobs: TrainingJobs) -> None:
    """Shows who comes what is there: a run by its link, or a file that was chosen before."""

    def arrived(request: gr.Request, _: str, mine: Any, held: Any, *given: Any) -> list[Any]:
        asked, page = Location.of(dict(request.query_params)), request.session_hash or ""
        shown = seen(asked.query, mine, held, *given, jobs=jobs, page=page)
        if not asked.result and not held:  # who was quick may have chosen data meanwhile
            for name in AREAS:
                shown[NAMES.index(name)] = gr.skip()
        return shown

    def left(request: gr.Request) -> None:
        jobs.left(request.session_hash or "")

    page.unload(left)
    shows: dict[str, Any] = arrival.shows | {"fn": arrived}
    page.load(**shows).then(**arrival.rereads).then(**arrival.probes)
