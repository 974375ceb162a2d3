"""The tab Train: data, heads, then start, watch and stop."""

import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from threading import Event
from typing import TYPE_CHECKING, Any

import gradio as gr
from markupsafe import Markup

from heads.evaluation.metrics import SCORES, Metric, MetricName
from heads.interfaces.views import comparison
from heads.interfaces.views.charts import bars, live
from heads.interfaces.web import run_access, uploads
from heads.interfaces.web.guards import plain, sentence
from heads.interfaces.web.startup import Opening
from heads.interfaces.web.tabs import train_data, train_settings
from heads.interfaces.web.tabs.train_settings import Plan
from heads.interfaces.web.training_process import AlreadyTraining, Places, waiting, worked
from heads.runs.folder import RunFolder
from heads.settings import limits

if TYPE_CHECKING:
    from heads.interfaces.views.leaderboard import Tile
    from heads.parts.resolved_recipe import ResolvedRecipe

# --- What has been heard of a training so far, and how the page shows it.

CURVES = 4  # heads whose curves are drawn at once
BEGUN, TRAINED = 0.43, 0.95  # shares of the bar: before the first head, after the last


@dataclass(kw_only=True, slots=True)
class Progression:
    """The state of a training, as its worker tells it.

    Attributes:
        recipes: The cells that are planned.
        metric: What the scores are.
        says: What is under way.
        share: How far it is (0 to 1).
        done: How many cells are done, baselines too.
        tiles: The cells that are done, as the heat map shows them.
        curves: Of the last heads, the best score on the development rows of the first seed (or
            fold) after so many steps, whatever the settings.
        steps: The most steps that any head has taken.
    """

    recipes: "Sequence[ResolvedRecipe]"
    metric: MetricName = "accuracy"
    says: str = "Starting"
    share: float = 0.0
    done: int = 0
    tiles: "dict[str, Tile]" = field(default_factory=dict)
    curves: dict[str, dict[int, float]] = field(default_factory=dict)
    steps: int = 0
    _times: list[tuple[float, int]] = field(default_factory=list)

    def hear(self, event: dict[str, Any]) -> None:
        """Takes in an event of the worker."""
        self.metric = event.get("metric", self.metric)
        if event["event"] == "progress":
            self.says, self.share = event["says"], max(self.share, event["share"])
        elif event["event"] == "trying":
            if not event["seed"]:  # seeds are not scored on the same rows
                self._try(event["recipe"], event["step"], event["score"])
        elif event["event"] == "cell":
            self._take(event)

    def _try(self, recipe: str, step: int, score: float) -> None:
        points = self.curves.pop(recipe, {})
        points[step] = max(score, points.get(step, score))
        self.curves[recipe] = points  # the last heard of stands last
        while len(self.curves) > CURVES:  # those without a course go first
            solved = (name for name, points in self.curves.items() if not any(points))
            del self.curves[next(solved, next(iter(self.curves)))]
        self.steps = max(self.steps, step)

    def _take(self, event: dict[str, Any]) -> None:
        from heads.evaluation.predictions import BASELINES
        from heads.interfaces.views.format import ends
        from heads.interfaces.views.leaderboard import Tile

        recipe, self.done, planned = event["recipe"], event["done"], event["planned"]
        if recipe not in BASELINES:
            score, between = event["score"], ends(self.metric, event["low"], event["high"])
            self.tiles[recipe] = Tile(value=score, shown=self._score.told(score), below=between)
            share = BEGUN + (TRAINED - BEGUN) * self.done / max(planned, 1)
            self.share = max(self.share, share)  # a race has taken some of the bar before
            self._times.append((time.monotonic(), self.done))
            left = "; the last one is being trained" if self.done == planned - 1 else ""
            self.says = f"Training heads: {self.done} of {planned} done{left}{self._left(planned)}"

    def _left(self, planned: int) -> str:
        """The rate and the time left, once two heads have been timed."""
        from heads.interfaces.views.leaderboard import duration

        (first, before), (last, now) = self._times[0], self._times[-1]
        if now == before or self.done >= planned:
            return ""
        each = (last - first) / (now - before)
        return f", {duration(each)} each, about {duration(round(each * (planned - now)))} left"

    @property
    def status(self) -> Markup:
        """What is under way, with a bar."""
        from heads.events import Progress

        return comparison.progress(Progress(says=self.says, share=self.share))

    @property
    def _score(self) -> Metric:
        return SCORES[self.metric]

    @property
    def heat(self) -> Markup:
        """The heat map, as far as it is filled."""
        from heads.interfaces.views import leaderboard
        from heads.interfaces.views.format import of_metric

        names, measure = leaderboard.in_order(self.recipes), of_metric(self.metric)
        drawn = leaderboard.heat(names, self.tiles, measure, is_live=True)
        title = f"{self._score.title} of the heads that are done"
        return Markup("<h4>{}</h4>{}").format(title, drawn)

    @property
    def curve(self) -> Markup:
        """The validation curves of the heads heard of last, by name so that colours keep still."""
        if not self.curves:
            return Markup("")
        curves, name = dict(sorted(self.curves.items())), self._score
        if not self.steps:  # heads that are solved at once have no course to draw
            best = [(recipe, max(points.values())) for recipe, points in curves.items()]
            drawn = bars(best, shown=[self._score.told(score) for _, score in best])
            says = "solved at once"
        else:
            drawn, says = live(curves, self.steps, self.metric), "step by step"
        title = f"{name.title} on development rows (of the first seed or fold), {says}"
        return Markup("<h4>{}</h4>{}").format(title, drawn)


# Others wait in line and see that they do; how many train at once is for `Places` to say.
TRAINS: dict[str, Any] = {"concurrency_id": "train", "concurrency_limit": 16}
QUIET: dict[str, Any] = {"show_progress": "hidden", "api_visibility": "private"}
DATA_FIELDS = train_data.FIELDS  # the first inputs; those of step 2 follow
UNCHANGED: list[Any] = [gr.skip()] * 9  # for each of the outputs
MOST_MINE = 30  # runs that a browser remembers
PATIENCE = 30.0  # seconds that a worker may take beyond its time
SAYS = (
    "From a file to a verdict: which pooling and head suits your data, and how sure one can be. "
    "The base model reads every text once; all heads are then trained on what it read."
)


@dataclass(frozen=True, slots=True, kw_only=True)
class TrainTab:
    """What other tabs need of this one.

    Attributes:
        run: The id of the run that was trained last in this tab.
        mine: The ids of the runs that this browser began; they survive a reload.
        open: The button that leads to the leaderboard.
    """

    run: gr.State
    mine: gr.BrowserState
    open: gr.Button


@dataclass(frozen=True, slots=True, kw_only=True)
class TrainOutputs:
    """What a training changes."""

    status: gr.HTML
    heat: gr.HTML
    curve: gr.HTML
    start: gr.Button
    stop: gr.Button
    resume: gr.Button
    trained: TrainTab

    def all(self) -> list[Any]:
        """In the order of `_values`."""
        own = [self.status, self.heat, self.curve, self.start, self.stop, self.resume]
        return [*own, self.trained.open, self.trained.run, self.trained.mine]


def remembered() -> gr.BrowserState:
    """What a browser remembers; it stands outside of all tabs, for those are drawn when opened."""
    return gr.BrowserState([], storage_key="head-to-head-runs", secret="head-to-head")


def build(page: gr.Blocks, opening: Opening, mine: gr.BrowserState, places: Places) -> TrainTab:
    """Draws the tab and returns what the leaderboard needs of it."""
    uploads.start_sweeping()
    gr.Markdown(SAYS)
    data = train_data.build(page)
    heads = train_settings.build(data.rows, opening)
    gr.Markdown("### 3. Train")
    with gr.Row():
        start = gr.Button("Start training", variant="primary", elem_id="start")
        stop = gr.Button("Stop and keep results", interactive=False, elem_id="stop")
        resume = gr.Button("Go on with this run", visible=False, elem_id="resume")
    status = gr.HTML("", elem_id="status", padding=False)
    opens = gr.Button("Open the leaderboard", visible=False, variant="primary", elem_id="open")
    with gr.Row():
        with gr.Column(min_width=300, scale=3):
            heat = gr.HTML("", elem_id="heat", padding=False)
        with gr.Column(min_width=280, scale=2):
            curve = gr.HTML("", elem_id="curve", padding=False)
    outputs = TrainOutputs(
        status=status, heat=heat, curve=curve, start=start, stop=stop, resume=resume,
        trained=TrainTab(run=gr.State(""), mine=mine, open=opens),
    )  # fmt: skip
    _wire(page, outputs, [mine, *data.all(), *heads.all()], places)
    return outputs.trained


def _wire(page: gr.Blocks, outputs: TrainOutputs, inputs: list[Any], places: Places) -> None:
    def started(request: gr.Request, mine: Any, *asked: Any) -> Iterator[list[Any]]:
        yield from _watched(places, _visitor(request), mine, lambda: _begun(asked))

    def resumed(request: gr.Request, mine: Any, run: str) -> Iterator[list[Any]]:
        yield from _watched(places, _visitor(request), mine, lambda: run_access.opened(run))

    def stopped(request: gr.Request) -> None:
        places.stop(_visitor(request))

    target, run = outputs.all(), outputs.trained.run
    outputs.start.click(started, inputs, target, **TRAINS, **QUIET)
    outputs.resume.click(resumed, [outputs.trained.mine, run], target, **TRAINS, **QUIET)
    outputs.stop.click(stopped, None, None, queue=False, **QUIET)
    page.unload(stopped)


def _visitor(request: gr.Request) -> str:
    return request.session_hash or ""


def _begun(asked: tuple[Any, ...]) -> RunFolder:
    """Checks the question and writes it into a new run."""
    from heads.runs.runner import begin
    from heads.runs.spec import RunRequest

    data = train_data.chosen(*asked[:DATA_FIELDS])
    plan = Plan.of(*asked[DATA_FIELDS:])
    question = RunRequest(
        data=data,
        recipes=plan.recipes,
        grid=plan.grid,
        pairs=plan.pairs,
        losses=plan.losses,
        model=plan.model,
        config=plan.config,
    )
    return begin(question, limits=limits())


def _watched(places: Places, visitor: str, mine: Any, found: Any) -> Iterator[list[Any]]:
    """Trains a run and shows how it goes; a failure has its sentence, and results stay.

    What stands there of an earlier run goes only once this one has begun.
    """
    course, run = Progression(recipes=()), None
    try:
        with places.taken(visitor) as stop:
            yield _unbegun(course.status, busy=True)
            for event in waiting(places, visitor, stop):
                course.hear(event)
                yield _unbegun(course.status, busy=True)
            if stop.is_set():  # while it waited
                yield _unbegun("")
                return
            course.says = "Starting"
            run = found()
            known = [run.id, *(one for one in _listed(mine) if one != run.id)][:MOST_MINE]
            yield [*_values(course.status, busy=True)[:-2], run.id, known]
            yield from _shown(run, stop)
        yield _ended(run)
    except AlreadyTraining as error:  # the page goes on showing that training
        gr.Warning(plain(sentence(error)))
        yield UNCHANGED
    except Exception as error:
        yield _failed(error, run) if run else _unbegun(comparison.failure(sentence(error)))


def _shown(run: RunFolder, stop: Event) -> Iterator[list[Any]]:
    from heads.runs.spec import load

    asked = load(run)
    course = Progression(recipes=asked.resolved, metric=asked.metric)
    budget = asked.config.budget_seconds
    yield _values(course.status, heat=course.heat, curve="", busy=True)
    for events in worked(run, stop, budget + PATIENCE if budget else 0.0):
        kinds = {event["event"] for event in events}
        for event in events:
            course.hear(event)
        yield _values(
            course.status if kinds else gr.skip(),
            heat=course.heat if "cell" in kinds else gr.skip(),
            curve=course.curve if "trying" in kinds else gr.skip(),
            busy=True,
        )


def _listed(mine: Any) -> list[str]:
    """What the browser remembers, which anybody may have written there."""
    return [one for one in mine if isinstance(one, str)][:MOST_MINE] if mine else []


def _ended(run: RunFolder) -> list[Any]:
    from heads.interfaces.views import leaderboard as view
    from heads.runs.leaderboard import leaderboard

    board = leaderboard(run)
    heat = view.heat_of(board, "accuracy") if board.best else gr.skip()
    is_done = board.state == "finished"
    verdict = view.verdict(board)
    return _values(verdict, heat=heat, has_results=bool(board.best), can_go_on=not is_done)


def _failed(error: Exception, run: RunFolder) -> list[Any]:
    kept = bool(list(run.path.glob("cells/*.json")))
    return _values(comparison.failure(sentence(error)), has_results=kept, can_go_on=kept)


def _unbegun(status: Any, *, busy: bool = False) -> list[Any]:
    """Nothing has begun yet, so the results of an earlier run stay."""
    return [*_values(status, busy=busy)[:5], *UNCHANGED[5:]]


def _values(
    status: Any,
    *,
    heat: Any = None,
    curve: Any = None,
    busy: bool = False,
    has_results: bool = False,
    can_go_on: bool = False,
) -> list[Any]:
    """The values of the outputs, in the order of `TrainOutputs.all`."""
    return [
        status,
        gr.skip() if heat is None else heat,
        gr.skip() if curve is None else curve,
        gr.update(interactive=not busy),
        gr.update(interactive=busy),
        gr.update(visible=can_go_on),
        gr.update(visible=has_results),
        gr.skip(),
        gr.skip(),
    ]
