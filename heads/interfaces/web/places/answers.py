"""What answers a question under Try, as it comes to be known: verdict, lanes, line."""

import time
from collections.abc import Iterator
from contextlib import closing
from dataclasses import dataclass, field, replace
from functools import cache
from typing import TYPE_CHECKING, Any

from heads import api
from heads.data.samples import SAMPLES
from heads.errors import HeadsError
from heads.events import Progress
from heads.interfaces.views import lanes as view
from heads.interfaces.views.html import busy, failure, render
from heads.interfaces.web import run_access
from heads.interfaces.web.guards import Values, failed
from heads.interfaces.web.location import MOST, Location
from heads.interfaces.web.places import base_models
from heads.interfaces.web.visitors import Recent
from heads.options import CompareOptions

if TYPE_CHECKING:
    from heads.interpret.comparison import Compared, Comparison, HeadAnswered, HeadProgress

PATIENCE = 0.3  # seconds of work that need no progress
BEAT = 0.25  # seconds between two pictures of progress
MOST_PENDING = 300
EMPTY = "Type a sentence; the heads answer as you type."
TRAINS = "Training these heads for the first time"


@dataclass(kw_only=True, slots=True)
class PendingQuestion:
    """What a visitor waits for."""

    asked: Location
    cancelled: set[int] = field(default_factory=set)  # lanes not waited for any more, from 1
    is_over: bool = False  # the visitor has asked something else meanwhile, or is gone


class PendingQuestions:
    """The question of each visitor; the next one ends it, so that nobody waits for what is past."""

    def __init__(self) -> None:
        self._of = Recent[PendingQuestion](MOST_PENDING)
        self.visitors = Recent[bool](MOST_PENDING)  # who have asked anything

    def begin(self, visitor: str, asked: Location) -> PendingQuestion:
        """Return a new question, in the place of the one before."""
        self.end(visitor)
        self._of[visitor] = question = PendingQuestion(asked=asked)
        self.visitors[visitor] = True
        return question

    def of(self, visitor: str) -> PendingQuestion | None:
        """Return the question under way, if there is one."""
        return self._of.get(visitor)

    def end(self, visitor: str) -> None:
        """End it: whoever trains heads for it stops."""
        if question := self._of.pop(visitor, None):
            question.is_over = True

    def answered(self, visitor: str, question: PendingQuestion) -> None:
        """Forget a question, unless there is another by now."""
        if self._of.get(visitor) is question:
            del self._of[visitor]


# --- From a question to what is shown, as it comes to be known.


def answering(question: PendingQuestion) -> Iterator[Values]:
    """Yield values of `Try.answers` as heads answer; untrained heads are trained first."""
    asked = question.asked
    needs_pair = asked.has_pairs and not asked.run
    try:
        if not asked.text.strip() or (needs_pair and not asked.pair.strip()):
            second = "Type the second sentence as well, or choose another task."
            missing = EMPTY if not asked.text.strip() else second
            yield {"error": failure(missing)}
        else:
            yield from _answered(question)
    except Exception as error:
        yield {"error": failed(error)}


def offering(asked: Location) -> Iterator[Values]:
    """Yield what stands in place of the answer until the base model of a link is loaded."""
    found = view.waiting(asked.recipes, "waits for its base model")
    lanes = view.lanes(found, asked.lane)
    yield {"verdict": base_models.offer(asked), "lanes": lanes, "under": under(asked)}


def _answered(question: PendingQuestion) -> Iterator[Values]:
    """Ask the heads in turn; one that cannot answer says why in its own lane."""
    from heads.interpret.comparison import iter_comparison

    lanes = _Lanes(question=question)
    try:
        chosen = question.asked.asked
        text, pair = chosen.pop("text"), chosen.pop("pair")
        options = CompareOptions(**chosen)
        events = iter_comparison(text, pair, options, is_cancelled=lanes.is_cancelled)
        with closing(events):
            for event in events:
                if question.is_over:
                    break
                if picture := lanes.show(event):
                    yield picture
    except HeadsError:
        if lanes.is_told:
            is_loaded = base_models.is_at_hand(question.asked)
            yield {"verdict": "" if is_loaded else base_models.offer(question.asked)}
        raise
    if lanes.problem and not (lanes.is_done or question.is_over or question.cancelled):
        raise lanes.problem
    if lanes.started and not lanes.is_done:
        # What is asked now may be wrong, and leave the lanes as they are.
        yield {"lanes": lanes.drawn(is_over=True), "verdict": ""}


@dataclass(kw_only=True, slots=True)
class _Lanes:
    """The lanes while their heads are trained and asked."""

    question: PendingQuestion
    lanes: list[view.Lane] = field(init=False)  # as they are now
    begun: float = field(default_factory=time.monotonic)  # when it was asked
    shown: float = 0.0  # when the lanes were last shown
    started: dict[int, float] = field(default_factory=dict[int, float])  # work at each head
    problem: HeadsError | None = None  # of the first head that cannot answer
    are_trained: bool = False  # any head had to be trained
    is_told: bool = False  # it was shown how far the base model is
    is_done: bool = False  # the comparison was shown

    def __post_init__(self) -> None:
        self.lanes = view.waiting(self.question.asked.recipes)

    def is_cancelled(self, number: int) -> bool:
        """Return True if a lane is not waited for any more."""
        return number + 1 in self.question.cancelled

    def show(self, event: "Progress | HeadAnswered | Compared") -> Values:
        """Return what to show once something has come; nothing where that can wait."""
        from heads.interpret.comparison import Compared, HeadAnswered, HeadProgress

        asked, now = self.question.asked, time.monotonic()
        if isinstance(event, Compared):
            self.is_done, picture = True, shown(event.comparison, asked)
            is_whole = not (self.problem or self.question.cancelled)
            return picture if is_whole else picture | {"lanes": self.drawn()}
        is_late, is_due = now - self.begun >= PATIENCE, now - self.shown >= BEAT
        if isinstance(event, HeadAnswered | HeadProgress):
            self.started.setdefault(event.number, now)
            self.are_trained |= isinstance(event, HeadProgress)
            self._put(event, now)
            is_due |= isinstance(event, HeadAnswered)
            if not (self.are_trained and is_late and is_due):  # else all is there at once
                return {}
            self.shown = now
            return {"lanes": self.drawn(), "verdict": busy(TRAINS), "under": under(asked)}
        self.is_told |= is_late
        return {"verdict": busy(event.says)} if is_late else {}

    def _put(self, event: "HeadAnswered | HeadProgress", now: float) -> None:
        """Write into its lane what a head says, why it says nothing, or how far it is."""
        from heads.interpret.comparison import HeadProgress

        lane = self.lanes[event.number]
        if isinstance(event, HeadProgress):
            left = _left(event.share, now - self.started[event.number])
            lane = replace(lane, state=event.says, share=event.share, left=left)
        elif event.prediction:
            lane = view.lane(event.prediction, lane.number)
        else:
            self.problem = self.problem or event.error
            lane = replace(lane, state=str(event.error or "cancelled"), share=-1.0, left="")
        self.lanes[event.number] = lane

    def drawn(self, *, is_over: bool = False) -> Any:
        """Return the lanes; those that are not waited for any more wait, where all is over."""
        lanes = self.lanes
        if is_over:
            lanes = [
                replace(lane, state="waiting", share=-1.0, left="") if lane.share >= 0 else lane
                for lane in lanes
            ]
        return view.lanes(lanes, self.question.asked.lane)


def compared(asked: Location) -> "Comparison":
    """Return what the heads of a place say, all at once."""
    return api.compare(**asked.asked)


def _left(share: float, seconds: float) -> str:
    """Say about how long it takes yet, once that can be told."""
    if share < 0.1 or seconds < PATIENCE:
        return ""
    left = seconds * (1 - share) / share
    return f"about {max(1, round(left))} s left"


def shown(comparison: "Comparison", asked: Location) -> Values:
    """Return all of it, once every head has answered."""
    predictions = comparison.predictions[:MOST]
    found = [view.lane(one, number) for number, one in enumerate(predictions, start=1)]
    data = run_access.title_of(asked.run) if asked.run else ""
    return {
        "verdict": view.verdict(comparison, can_compare=True),
        "lanes": view.lanes(found, asked.lane),
        "line": line(asked),
        "under": under(asked, view.trained_on(comparison, data)),
    }


def line(asked: Location, lane: int | None = None) -> Any:
    """Draw the menus of pooling and head, which show one of the lanes.

    Args:
        lane: Its number, from 1; 0 for a lane to be added. Default: the open lane, else the first.
    """
    from heads.parts.resolve import resolve

    lane = (asked.lane or 1) if lane is None else lane
    recipe = asked.recipes[lane - 1]  # a new lane begins with the last recipe
    try:
        parts = resolve(recipe).recipe
        chosen = {"pooling": parts.pooling, "head": parts.head}
    except HeadsError:  # "own", or a recipe of a link that is none
        chosen = {"pooling": "", "head": ""}
    run_recipes = run_access.heads_of(asked.run) if asked.run else []
    return render(
        "line.html",
        run_heads=[(name, view.title_of(name)) for name in run_recipes],
        recipe=recipe,
        menus=[]
        if asked.run
        else [("pooling", "Pooling", pooling_menu()), ("head", "Head", head_menu())],
        chosen=chosen,
        lanes=list(enumerate(asked.recipes, 1)),
        lane=lane,
        mark=view.COLOURS[lane - 1] if lane else "var(--accent)",
        can_add=len(asked.recipes) < MOST,
    )


Menu = list[tuple[str, list[tuple[str, str]]]]


@cache
def pooling_menu() -> Menu:
    """Return the groups of poolings, each with the name and the title of its poolings."""
    from heads.parts.resolve import pooling

    groups: dict[str, list[tuple[str, str]]] = {"One token": [], "All tokens": [], "Learned": []}
    for part in pooling.values():
        is_one = part.token or "prompt" in part.options or part.is_pooler
        group = "Learned" if part.learned else "One token" if is_one else "All tokens"
        groups[group].append((part.name, part.title))
    return list(groups.items())


@cache
def head_menu() -> Menu:
    """Return the groups of heads, each with the name and the title of its heads."""
    from heads.parts.resolve import head, resolve

    groups: dict[str, list[tuple[str, str]]] = {
        "One linear layer": [], "More layers": [], "Closed form": []
    }  # fmt: skip
    for name, part in head.items():
        is_linear = len(resolve(f"mean+{name}").sketch(8, 3).state_dict()) <= 2
        group = (
            "Closed form" if part.is_solved else "One linear layer" if is_linear else "More layers"
        )
        groups[group].append((name, part.title))
    return list(groups.items())


def under(asked: Location, trained_on: str = "") -> Any:
    """Draw what one can do with the answer."""
    return render(
        "under.html",
        python=view.as_python(asked.asked),
        command=view.as_command(asked.asked),
        link=replace(asked, place="try").query,
        trained_on=trained_on,
    )


def chips(asked: Location) -> Any:
    """Draw sentences to try; a run's heads have none."""
    texts = [] if asked.run else [" ↔ ".join(texts) for texts in SAMPLES[asked.sample].tries]
    return render("chips.html", chips=texts)
