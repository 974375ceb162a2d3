"""What has been heard of a training so far, and how the page shows it."""

import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from markupsafe import Markup

from heads.evaluation.metrics import SCORES, Metric, ScoreName
from heads.interfaces import drawings
from heads.interfaces.charts import bars, live

if TYPE_CHECKING:
    from heads.interfaces.boards import Tile

CURVES = 4  # heads whose curves are drawn at once
BEGUN, TRAINED = 0.43, 0.95  # shares of the bar: before the first head, after the last


@dataclass(kw_only=True, slots=True)
class Course:
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

    recipes: Sequence[str]
    metric: Metric = "accuracy"
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
        from heads.interfaces.boards import Tile
        from heads.interfaces.measured import ends

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
        from heads.interfaces.boards import duration

        (first, before), (last, now) = self._times[0], self._times[-1]
        if now == before or self.done >= planned:
            return ""
        each = (last - first) / (now - before)
        return f", {duration(each)} each, about {duration(round(each * (planned - now)))} left"

    @property
    def status(self) -> Markup:
        """What is under way, with a bar."""
        from heads.events import Progress

        return drawings.progress(Progress(says=self.says, share=self.share))

    @property
    def _score(self) -> ScoreName:
        return SCORES[self.metric]

    @property
    def heat(self) -> Markup:
        """The heat map, as far as it is filled."""
        from heads.interfaces import boards
        from heads.interfaces.measured import of_metric

        names, measure = boards.in_order(self.recipes), of_metric(self.metric)
        drawn = boards.heat(names, self.tiles, measure, is_live=True)
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
