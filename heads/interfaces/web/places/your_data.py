"""Your data: a file in, a training that outlives the page, and one recommended head."""

import contextlib
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Any

import gradio as gr

from heads.data.samples import SAMPLES
from heads.errors import DataError, HeadsError, LimitError, ModelError
from heads.evaluation.metrics import SCORES
from heads.interfaces.views.format import of_metric, offered
from heads.interfaces.views.html import busy, failure, render
from heads.interfaces.views.lanes import title_of
from heads.interfaces.web import run_access, temporary_files, uploads
from heads.interfaces.web.guards import Values, by_name, clicked, failed, saves
from heads.interfaces.web.location import MOST, Location
from heads.interfaces.web.places import data_form, result_folds, settings_form
from heads.interfaces.web.places.result_folds import BOARDS, plotted
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


def draw_rail(mine: Any, shown: str, jobs: TrainingJobs) -> Any:
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


def draw_strip(jobs: Sequence[TrainingJob], mine: Any) -> Any:
    """Draw the training that runs, wherever on the page one is; who began it can stop it there."""
    if not jobs:
        return render("job.html", says="")
    job = jobs[0]
    more = f" and {len(jobs) - 1} more" if len(jobs) > 1 else ""
    name = run_access.title_of(job.run.id)
    says = f"Training {name}: {job.course.brief}{more}"
    is_own = run_access.owns(job.run.id, mine)
    return render("job.html", says=says, run=job.run.id, is_own=is_own)


# --- What the main part shows.


def draw_training(job: TrainingJob) -> Values:
    """Draw status and heat map of a training, as far as it is filled."""
    course = job.course
    says = course.says if course.tuned and course.done else course.brief
    status = busy("; ".join(filter(None, (says, course.best))), course.share)
    if not job.recipes:
        return {"status": status, "live": None}
    from heads.interfaces.views.charts import Tile, live_heat
    from heads.runs.racing import stopped_of

    eliminated = [stop.recipe for stop in stopped_of(job.run)]
    metric = SCORES[course.metric]
    tiles = {
        name: Tile(value=score, shown=metric.told(score))
        for name, (score, _, _) in course.scores.items()
    }
    chart = live_heat(job.recipes, tiles, of_metric(course.metric), eliminated)
    return {"status": status, "live": plotted(chart)}


def draw_chart(board: "Leaderboard", kind: str, measure: str, head: str = "") -> "Chart":
    """Draw the forest plot, or the heat map of a measure."""
    from heads.interfaces.views.charts import forest, heat_map

    return heat_map(board, measure or "") if kind == HEAT else forest(board, head)


def describe_chart(chart: "Chart") -> Any:
    """Draw what a chart says, for those who do not see it, and what its signs mean."""
    return render("chart.html", chart="board", says=chart.says, key=chart.key)


def draw_head(board: "Leaderboard", name: str) -> Any:
    """Draw one head of a run, opened."""
    from heads.interfaces.views.head_details import facts

    return render(
        "opened_head.html",
        title=title_of(name),
        name=name,
        is_best=name == board.recommendation.name,
        facts=facts(board, board.cell(name)),
    )


def draw_doors(board: "Leaderboard", asked: Location, head: str) -> Any:
    """Draw what one can do with a run: ask its heads, take one along.

    Args:
        head: The head that is open; the recommended one, if none is.
    """
    from heads.runs.spec import load

    head = head or board.recommendation.name or board.best
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


AREAS = ("welcome", "card_area", "training_area", "result_area")


@dataclass(frozen=True, slots=True, kw_only=True)
class YourData:
    """The components of the place."""

    outputs: dict[str, Any]  # those that show where one is, by the names of `draw_place`
    query: gr.Textbox
    mine: gr.BrowserState
    held: gr.BrowserState
    kind: gr.Radio
    numbers: gr.HTML  # the table whose names open heads
    file: gr.File
    samples: gr.HTML

    @property
    def inputs(self) -> list[Any]:
        """What a `Visit` is made of, in the order of its fields."""
        measure, last = self.outputs["measure"], self.outputs["last"]
        return [self.query, self.mine, self.held, self.kind, measure, last]


@dataclass(frozen=True, slots=True)
class Visit:
    """What a page sends of itself."""

    query: str  # where it is; see `Location`
    mine: Any = None  # the runs that its browser remembers
    held: Any = ""  # the file that its browser remembers
    kind: str = FOREST  # how the heads are drawn
    measure: str = ""  # what the heat map shows
    last: str = ""  # what stood there: see `_key`
    session: str = ""  # its session, if it will say when it is closed

    @property
    def location(self) -> Location:
        """Where it is."""
        return Location.of(self.query)


def draw_place(visit: Visit, jobs: TrainingJobs) -> Values:
    """Draw all that the place shows; what stands there already stays as it is."""
    location = visit.location
    around, job = _around(visit, jobs), jobs.of(location.result, visit.session)
    key = _key(location, job)
    if location.result and key == visit.last and key.endswith("over"):
        return around
    try:
        main = _main(visit, job)
    except Exception as error:
        main = _nothing(failed(error))
    if key.partition("|")[0] == visit.last.partition("|")[0] and "over" in visit.last:
        # Of the same run another head is open.
        main = {name: value for name, value in main.items() if name not in result_folds.names()}
    return around | main | {"last": key if location.result else ""}


def _around(visit: Visit, jobs: TrainingJobs) -> Values:
    """Draw the rail and the strip; the clock goes while something is trained that is seen."""
    shown, session = visit.location.result, visit.session
    running = jobs.running((run.id for run in run_access.visible(visit.mine)), session)
    is_under_way = bool(running or jobs.running([shown], session))
    return {
        "rail": draw_rail(visit.mine, shown, jobs),
        "job": draw_strip(running, visit.mine),
        "timer": gr.Timer(active=is_under_way),
    }


def _areas(shown: str) -> Values:
    """Show one of the four parts of the place, and hide the others."""
    return {name: gr.update(visible=name == shown) for name in AREAS}


def _key(asked: Location, job: TrainingJob | None) -> str:
    """Say what is shown: which run, which of its heads, and whether it is under way."""
    state = "over" if not job or job.is_over else "running"
    return f"{asked.result}|{asked.head}|{state}"


def _main(visit: Visit, job: TrainingJob | None) -> Values:
    """Draw the main part."""
    from heads.interfaces.views import leaderboard as view

    location, mine = visit.location, visit.mine
    if not location.result:
        return _areas("card_area" if uploads.is_kept(visit.held) else "welcome")
    run = run_access.opened(location.result)
    if job and not job.is_over:
        return _areas("training_area") | draw_training(job)
    board = run_access.board_of(run.id)
    if not board.best:
        says = job.error if job and job.error else "No head of this run is done yet."
        hint = " Press “Go on” beside its name." if run_access.owns(run.id, mine) else ""
        return _nothing(failure(says + hint))
    error = failure(job.error) if job and job.error else ""
    names = [cell.name for cell in board.cells if not cell.is_baseline]
    head = location.head if location.head in names else ""
    chart = draw_chart(board, visit.kind, visit.measure, head)
    return {
        **_areas("result_area"),
        "result": error + view.result(board),
        "doors": draw_doors(board, location, head),
        "measure": _measures(board, visit.measure),
        "plot": gr.update(value=plotted(chart), visible=True),
        "says": describe_chart(chart),
        "head_area": gr.update(visible=bool(head)),
        "head": draw_head(board, head) if head else "",
        **result_folds.label_all(board, head, mine),
    }


def _nothing(message: Any) -> Values:
    """Show a sentence in the place of a result."""
    gone = gr.update(visible=False)
    found = {"result": message, "plot": gone, "doors": "", "says": "", "head_area": gone}
    return _areas("result_area") | found | result_folds.hide_all()


def _measures(board: "Leaderboard", chosen: str) -> Any:
    shown = {one.name: one.label for one in offered(board.cells)}
    value = chosen if chosen in shown else next(iter(shown))
    return gr.update(choices=[(label, name) for name, label in shown.items()], value=value)


@dataclass(frozen=True, slots=True, kw_only=True)
class Arrival:
    """What follows where one arrives: events, as arguments of Gradio's listeners."""

    shows: dict[str, Any]  # what is there
    arrives: dict[str, Any]  # the same to who opens the page
    rereads: dict[str, Any]  # a file that was chosen before
    probes: dict[str, Any]  # how long a training on it will take


def build(
    page: gr.Blocks, opening: Opening, query: gr.Textbox, mine: gr.BrowserState, jobs: TrainingJobs,
    job: gr.HTML,
) -> Arrival:  # fmt: skip
    """Draw the place; return what follows where one arrives."""
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
            result, kind, numbers = _draw_result(query, mine)
    timer = gr.Timer(BEAT, active=False)
    outputs = {
        "rail": runs, "job": job, "timer": timer, "welcome": welcome, "card_area": card.area,
        "training_area": training_area, "status": status, "live": drawn, "last": gr.State(""),
        **result,
    }  # fmt: skip
    place = YourData(
        outputs=outputs, query=query, mine=mine, held=held, kind=kind, numbers=numbers, file=file,
        samples=samples,
    )  # fmt: skip
    return _wire(page, place, card, jobs)


@dataclass(frozen=True, slots=True, kw_only=True)
class Card:
    """The card of a file that was read."""

    area: gr.Column
    view: gr.HTML
    find: gr.Button
    few: gr.Button
    estimate: gr.HTML
    pending: gr.State
    data: dict[str, Any]
    settings: dict[str, Any]
    last_updates: gr.State

    @property
    def outputs(self) -> dict[str, Any]:
        """What reading a file changes, by the names of what `show_card` returns."""
        last_updates = {"last_updates": self.last_updates}
        return {"view": self.view, **self.data, **self.settings, **last_updates}


def _draw_card(opening: Opening, held: gr.BrowserState) -> Card:
    with gr.Column(visible=False, elem_id="card") as area:
        view = gr.HTML("", elem_id="account", js_on_load=CLICKS)
        with gr.Row(elem_id="start-row"):
            find = gr.Button(FIND, variant="primary", elem_id="start")
            few = gr.Button(f"Find it on {FEWER:,} rows first", visible=False, elem_id="few")
        estimate = gr.HTML("", elem_id="estimate")
        data = data_form.build(held)
        settings, last_updates = settings_form.build(opening)
    return Card(
        area=area, view=view, find=find, few=few, estimate=estimate,
        pending=gr.State(PendingEstimate()), data=data, settings=settings,
        last_updates=last_updates,
    )  # fmt: skip


def _draw_result(
    query: gr.Textbox, mine: gr.BrowserState
) -> tuple[dict[str, Any], gr.Radio, gr.HTML]:
    """Draw a result; return what shows it, how it is drawn, and the table of all numbers."""
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
        location = Location.of(query)
        chart = draw_chart(run_access.board_of(location.result), kind, measure, location.head)
        return [gr.update(visible=kind == HEAT), plotted(chart), describe_chart(chart)]

    gr.on([kind.input, measure.input], redrawn, [query, kind, measure], [measure, plot, says],
          **BOARDS, **QUIET)  # fmt: skip
    outputs = {
        "result_area": area, "result": told, "doors": doors, "measure": measure, "plot": plot,
        "says": says, "head_area": head_area, "head": head, **folds,
    }  # fmt: skip
    return outputs, kind, numbers


def _report(query: str, mine: Any) -> str:
    from heads.interfaces.views.report import report

    board = run_access.board_of(Location.of(query).result)
    return report(board, run_access.visible(mine))


# --- Events.


class PlaceHandlers:
    """What the place does as one comes, looks and leaves."""

    def __init__(self, jobs: TrainingJobs) -> None:
        self._jobs = jobs

    def shown(self, request: gr.Request, *given: Any) -> Values:
        """Show where one is."""
        return draw_place(Visit(*given, session=request.session_hash or ""), self._jobs)

    def arrived(self, request: gr.Request, _query: str, *given: Any) -> Values:
        """Show it to who opens the page: a run by its link, or a file that was chosen before."""
        location = Location.of(dict(request.query_params))
        values = self.shown(request, location.query, *given)
        held = given[1]
        if not location.result and not held:
            for name in AREAS:  # who was quick may have chosen data meanwhile
                del values[name]
        return values

    def ticked(self, request: gr.Request, *given: Any) -> Values:
        """Show how far a training is."""
        visit = Visit(*given, session=request.session_hash or "")
        location = visit.location
        job = self._jobs.of(location.result, visit.session) if location.result else None
        if location.result and visit.last != _key(location, job):  # it began, or came to its end
            return draw_place(visit, self._jobs)
        progress = draw_training(job) if job and not job.is_over else {}
        return _around(visit, self._jobs) | progress

    def stopped(self, mine: Any, event: gr.EventData) -> None:
        """Stop the training in the strip."""
        data = clicked(event)
        if data.get("do") == "stop":
            self._jobs.stop(run_access.owned(data.get("run", ""), mine, "stop").id)

    def left(self, request: gr.Request) -> None:
        """The page is closed."""
        self._jobs.left(request.session_hash or "")


def _wire(page: gr.Blocks, place: YourData, card: Card, jobs: TrainingJobs) -> Arrival:
    handlers, inputs, outputs = PlaceHandlers(jobs), place.inputs, place.outputs
    run: dict[str, Any] = {**BOARDS, **QUIET}
    last: dict[str, Any] = {"trigger_mode": "always_last"}  # of two chosen runs the second counts
    shows = by_name(handlers.shown, inputs, outputs) | last | run
    arrives = by_name(handlers.arrived, inputs, outputs) | last | run
    rereads, probes = _wire_card(place, card, jobs, shows)
    _wire_rail(place, jobs, shows)
    _wire_heads(place)
    outputs["timer"].tick(**by_name(handlers.ticked, inputs, outputs), trigger_mode="once", **run)
    # A sentence comes back through the queue alone.
    outputs["job"].click(handlers.stopped, place.mine, None, **QUIET)
    page.unload(handlers.left)
    return Arrival(shows=shows, arrives=arrives, rereads=rereads, probes=probes)


def show_card(read: data_form.Read) -> Values:
    """Return values of `Card.outputs` that show a file as it was read."""
    settings = settings_form.update_settings(read.data) if read.data else {}
    return {"view": read.view, **read.menus, **settings}


class CardHandlers:
    """What the card of a file does: a file, or a sample, is read."""

    def __init__(self) -> None:
        self._chosen = Recent[bool](MOST_PAGES)  # pages that have chosen a file

    def opened(self, request: gr.Request) -> Values:
        """Show the card, on which the file before no longer stands."""
        self._chosen[request.session_hash or ""] = True
        return _areas("card_area") | {"last": "", "view": busy("Reading the file")}

    def uploaded(self, path: str | None, query: str) -> Iterator[Values]:
        """Take a file over at once: nothing of it stays where Gradio put it."""
        new = {"file": None, "first": "auto", "query": query_of_new_file(query)}
        try:
            name = uploads.keep(path or "")
        except Exception as error:
            yield new | {"held": "", "view": failed(error)}
            return
        yield new | {"held": name, "view": busy("Reading the file")}
        yield show_card(data_form.guessed(name))

    def returned(self, held: str, shown: str, request: gr.Request) -> Values:
        """Read the file chosen before a reload again, unless it is gone or another is chosen."""
        if not held or shown or request.session_hash in self._chosen:
            return {}
        if not uploads.is_kept(held):
            return {"held": ""}
        values = show_card(data_form.guessed(held))
        return {} if request.session_hash in self._chosen else values

    def sampled(self, query: str, event: gr.EventData) -> Values:
        """Take a sample in the place of a file."""
        name = clicked(event).get("sample", "")
        if name not in SAMPLES:
            return {}
        held = uploads.SAMPLE + name
        new = {"held": held, "first": "auto", "query": query_of_new_file(query)}
        return new | show_card(data_form.guessed(held))


def query_of_new_file(query: str) -> str:
    """Return where one is with a new file: under Your data, with no run."""
    return replace(Location.of(query), place="data", result="", head="").query


def _wire_card(
    place: YourData, card: Card, jobs: TrainingJobs, shows: dict[str, Any]
) -> tuple[dict[str, Any], dict[str, Any]]:
    data, settings, reading = card.data, card.settings, CardHandlers()
    query, held = place.query, data["held"]
    asked = [*data.values(), *settings.values()]
    reads: dict[str, Any] = {**QUIET, **READS}
    outputs = {**place.outputs, **card.outputs, "query": query}
    opens: dict[str, Any] = by_name(reading.opened, None, outputs) | {"queue": False, **QUIET}
    estimate = {"find": card.find, "few": card.few, "estimate": card.estimate}
    probes: dict[str, Any] = {
        **by_name(partial(estimate_duration, jobs), [card.pending, *asked], estimate),
        "trigger_mode": "multiple",  # each ends the one before
        # Menus whose choices are changed meanwhile would refuse what the browser still shows.
        "preprocess": False,
        **ESTIMATES,
        **QUIET,
    }
    place.file.upload(**opens)
    uploaded = by_name(reading.uploaded, [place.file, query], {**outputs, "file": place.file})
    place.file.upload(**uploaded, **reads).then(**probes)
    place.samples.click(**opens)
    place.samples.click(**by_name(reading.sampled, query, outputs), **reads).then(**probes)
    menus = [data[name] for name in ("text", "pair", "split", "group", "labels")]
    changes = [*(menu.input for menu in menus), data["order"].blur, data["order"].submit]
    for events, read, given in (
        ([data["first"].input], data_form.guessed, [held, data["first"]]),
        (changes, data_form.changed, [*data.values()]),
        ([data["label"].input], partial(data_form.reformed, True), [*data.values()]),
        ([data["form"].input], partial(data_form.reformed, False), [*data.values()]),
    ):
        show = partial(_show_read, read)
        gr.on(events, **by_name(show, given, card.outputs), **reads).then(**probes)
    gr.on(settings_form.list_changes(settings), **probes)
    _wire_start(place, card, jobs, shows, asked)
    return by_name(reading.returned, [held, card.view], card.outputs) | reads, probes


def _show_read(read: Callable[..., data_form.Read], *given: Any) -> Values:
    return show_card(read(*given))


def _wire_start(
    place: YourData, card: Card, jobs: TrainingJobs, shows: dict[str, Any], asked: list[Any]
) -> None:
    query, mine = place.query, place.mine
    fields = len(card.data)

    def started(request: gr.Request, query: str, mine: Any, *given: Any, most: int = 0) -> Values:
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
            return {"estimate": failed(error)}
        known = run_access.remembered([kept or run.id, *run_access.remembered(mine)])
        now = replace(Location.of(query), place="data", result=run.id, head="").query
        return {"mine": known, "query": now, "estimate": ""}

    def started_on_few(request: gr.Request, *given: Any) -> Values:
        return started(request, *given, most=FEWER)

    outputs = {"mine": mine, "query": query, "estimate": card.estimate}
    for button, handler in ((card.find, started), (card.few, started_on_few)):
        begins = by_name(handler, [query, mine, *asked], outputs)
        button.click(**begins, **READS, **QUIET).then(**shows)


class PendingEstimate:
    """What a visitor waits to be told; the next one ends it, so that nobody waits for the past."""

    def __init__(self) -> None:
        self._stop: threading.Event | None = None

    def begin(self) -> threading.Event:
        """Return a new one, which is at its end once that is set."""
        if self._stop:
            self._stop.set()
        self._stop = threading.Event()
        return self._stop


def estimate_duration(
    jobs: TrainingJobs, pending: PendingEstimate, *given: Any
) -> Iterator[Values]:
    """Let the button say how long it will take, from a few texts that are encoded for it."""
    stop, unknown = pending.begin(), {"few": gr.update(visible=False), "estimate": ""}
    if not given[0]:
        yield unknown | {"find": gr.update(value=FIND, interactive=True)}
        return
    # A number that is changed comes twice, first as it was; the page may mix what comes at once.
    if stop.wait(SETTLED):
        yield {}
        return
    measuring = gr.update(value=f"{FIND} · measuring how long …", interactive=True)
    yield unknown | {"find": measuring}
    estimate = _measure_duration(jobs, stop, *given)
    yield {} if stop.is_set() else estimate


def _measure_duration(jobs: TrainingJobs, stop: threading.Event, *given: Any) -> Values:
    """Measure it; return button, offer of fewer rows and remark."""
    limits = current_limits()
    from heads.interfaces.views.leaderboard import duration
    from heads.interruption import Interrupted
    from heads.runs.duration import memory
    from heads.runs.runner import probed as measured

    fields, data = data_form.FIELDS, None
    try:
        data = data_form.chosen(*given[:fields])
        found = measured(build_request(data, *given[fields:]), stop)
    except Interrupted:
        return {}  # something else is chosen, and is told next
    except Exception as error:
        # What is wrong with the data, the card says.
        is_said = data is None and isinstance(error, HeadsError)
        unfit = gr.update(value=FIND, interactive=False)
        remark = "" if is_said else failed(error)
        return {"find": unfit, "few": gr.update(visible=False), "estimate": remark}
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
    return {
        "find": gr.update(value=f"{FIND} · about {about}", interactive=True),
        "few": gr.update(visible=is_long),
        "estimate": render("quiet.html", says=" ".join(told)),
    }


def _wire_rail(place: YourData, jobs: TrainingJobs, shows: dict[str, Any]) -> None:
    def acted(query: str, mine: Any, event: gr.EventData, request: gr.Request) -> Values:
        """Open, resume, stop or delete a run."""
        data, location = clicked(event), Location.of(query)
        run, action = data.get("run", ""), data.get("do", "")
        here = replace(location, place="data", result=run, head="").query
        if action == "run":
            return {"query": here}
        if action == "resume":
            _resume(run, mine, jobs, request)
            return {"query": here, "mine": run_access.in_front(mine, run)}
        if action == "stop":
            jobs.stop(run_access.owned(run, mine, "stop").id)
        if action != "delete":
            return {}
        folder = run_access.owned(run, mine, "delete")
        if jobs.running([run]):
            raise DataError("This run is being trained.", "Stop it first.")
        folder.delete()
        shown = "" if run == location.result else location.result
        now = replace(location, result=shown, head="").query
        return {"query": now, "mine": run_access.without(mine, run)}

    both = {"query": place.query, "mine": place.mine}
    acts = by_name(acted, [*both.values()], both)
    place.outputs["rail"].click(**acts, **QUIET).then(**shows)


def _wire_heads(place: YourData) -> None:
    def headed(query: str, mine: Any, kind: str, measure: str, event: gr.EventData) -> Values:
        """Open a head, or close it."""
        asked, data = Location.of(query), clicked(event)
        name = data.get("head", "")
        is_close = data.get("do") == "close"
        if not asked.result or data.get("do") not in (None, "close", "head"):
            return {}
        board = run_access.board_of(asked.result)
        if not is_close and name not in {one.name for one in board.cells if not one.is_baseline}:
            return {}
        now = replace(asked, head="" if is_close else name)
        return {
            "head_area": gr.update(visible=bool(now.head)),
            "head": draw_head(board, name) if now.head else "",
            "query": now.query,
            "doors": draw_doors(board, now, now.head),
            "last": _key(now, None),
            "plot": plotted(draw_chart(board, kind, measure, now.head)),
            **result_folds.label_all(board, now.head, mine, closes=False),
        }

    inputs = [place.query, place.mine, place.kind, place.outputs["measure"]]
    opens: dict[str, Any] = by_name(headed, inputs, {**place.outputs, "query": place.query})
    opens |= {**BOARDS, **QUIET}
    place.outputs["head"].click(**opens)
    for event in (place.numbers.click, place.outputs["says"].select):
        event(**opens).then(None, None, None, js="() => heads.focus('head-panel')", **QUIET)


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
