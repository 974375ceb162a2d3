"""The tab Train: data, heads, then start, watch and stop."""

from collections.abc import Iterator
from dataclasses import dataclass
from threading import Event
from typing import Any

import gradio as gr

from heads.interfaces import drawings
from heads.interfaces.web import kept_runs, train_data, train_heads, uploads
from heads.interfaces.web.guards import plain, sentence
from heads.interfaces.web.opening import Opening
from heads.interfaces.web.train_course import Course
from heads.interfaces.web.train_plan import Plan
from heads.interfaces.web.worker import AlreadyTraining, Places, waiting, worked
from heads.runs.folder import RunFolder
from heads.settings import limits

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
class Trained:
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
class Outputs:
    """What a training changes."""

    status: gr.HTML
    heat: gr.HTML
    curve: gr.HTML
    start: gr.Button
    stop: gr.Button
    resume: gr.Button
    trained: Trained

    def all(self) -> list[Any]:
        """In the order of `_values`."""
        own = [self.status, self.heat, self.curve, self.start, self.stop, self.resume]
        return [*own, self.trained.open, self.trained.run, self.trained.mine]


def remembered() -> gr.BrowserState:
    """What a browser remembers; it stands outside of all tabs, for those are drawn when opened."""
    return gr.BrowserState([], storage_key="head-to-head-runs", secret="head-to-head")


def build(page: gr.Blocks, opening: Opening, mine: gr.BrowserState, places: Places) -> Trained:
    """Draws the tab and returns what the leaderboard needs of it."""
    uploads.start_sweeping()
    gr.Markdown(SAYS)
    data = train_data.build(page)
    heads = train_heads.build(data.rows, opening)
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
    outputs = Outputs(
        status=status, heat=heat, curve=curve, start=start, stop=stop, resume=resume,
        trained=Trained(run=gr.State(""), mine=mine, open=opens),
    )  # fmt: skip
    _wire(page, outputs, [mine, *data.all(), *heads.all()], places)
    return outputs.trained


def _wire(page: gr.Blocks, outputs: Outputs, inputs: list[Any], places: Places) -> None:
    def started(request: gr.Request, mine: Any, *asked: Any) -> Iterator[list[Any]]:
        yield from _watched(places, _visitor(request), mine, lambda: _begun(asked))

    def resumed(request: gr.Request, mine: Any, run: str) -> Iterator[list[Any]]:
        yield from _watched(places, _visitor(request), mine, lambda: kept_runs.opened(run))

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
    from heads.runs.spec import Question

    data = train_data.chosen(*asked[:DATA_FIELDS])
    plan = Plan.of(*asked[DATA_FIELDS:])
    question = Question(
        data=data,
        recipes=plan.recipes,
        grid=plan.grid,
        pairs=plan.pairs,
        losses=plan.losses,
        model=plan.model,
        contest=plan.contest,
    )
    return begin(question, limits=limits())


def _watched(places: Places, visitor: str, mine: Any, found: Any) -> Iterator[list[Any]]:
    """Trains a run and shows how it goes; a failure has its sentence, and results stay.

    What stands there of an earlier run goes only once this one has begun.
    """
    course, run = Course(recipes=()), None
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
        yield _failed(error, run) if run else _unbegun(drawings.failure(sentence(error)))


def _shown(run: RunFolder, stop: Event) -> Iterator[list[Any]]:
    from heads.runs.spec import load

    asked = load(run)
    course = Course(recipes=asked.recipes, metric=asked.metric)
    budget = asked.contest.budget_seconds
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
    from heads.interfaces import boards
    from heads.runs.leaderboard import leaderboard

    board = leaderboard(run)
    heat = boards.heat_of(board, "accuracy") if board.best else gr.skip()
    is_done = board.state == "finished"
    verdict = boards.verdict(board)
    return _values(verdict, heat=heat, has_results=bool(board.best), can_go_on=not is_done)


def _failed(error: Exception, run: RunFolder) -> list[Any]:
    kept = bool(list(run.path.glob("cells/*.json")))
    return _values(drawings.failure(sentence(error)), has_results=kept, can_go_on=kept)


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
    """The values of the outputs, in the order of `Outputs.all`."""
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
