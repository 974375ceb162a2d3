"""What has been heard of a training so far, and how the page shows it."""

import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from markupsafe import Markup

from heads.interfaces import boards, drawings
from heads.interfaces.boards import MEASURES, Tile, duration
from heads.interfaces.charts import bars, live, percent
from heads.pipeline.measure.outcomes import BASELINES
from heads.pipeline.training import Progress

CURVES = 4  # heads whose curves are drawn at once
BEGUN, TRAINED = 0.43, 0.95  # shares of the bar: before the first head, after the last


@dataclass(kw_only=True, slots=True)
class Course:
    """The state of a training, as its worker tells it.

    Attributes:
        recipes: The cells that are planned.
        says: What is under way.
        share: How far it is (0 to 1).
        done: How many cells are done, baselines too.
        tiles: The cells that are done, as the heat map shows them.
        curves: Of the last heads, the best validation accuracy after each epoch.
        epochs: The longest course that any head has been planned for.
    """

    recipes: Sequence[str]
    says: str = "Starting"
    share: float = 0.0
    done: int = 0
    tiles: dict[str, Tile] = field(default_factory=dict)
    curves: dict[str, dict[int, float]] = field(default_factory=dict)
    epochs: int = 0
    _times: list[tuple[float, int]] = field(default_factory=list)

    def hear(self, event: dict[str, Any]) -> None:
        """Takes in an event of the worker."""
        if event["event"] == "progress":
            self.says, self.share = event["says"], max(self.share, event["share"])
        elif event["event"] == "trying":
            self._try(event["recipe"], event["epoch"], event["accuracy"], event["settings"])
        elif event["event"] == "cell":
            self._take(event)

    def _try(self, recipe: str, epoch: int, accuracy: float, settings: dict[str, Any]) -> None:
        points = self.curves.pop(recipe, {})
        points[epoch] = max(accuracy, points.get(epoch, 0.0))
        self.curves[recipe] = points  # the last heard of stands last
        while len(self.curves) > CURVES:
            del self.curves[next(iter(self.curves))]
        self.epochs = max(self.epochs, epoch, int(settings.get("planned", 0)))

    def _take(self, event: dict[str, Any]) -> None:
        recipe, self.done, planned = event["recipe"], event["done"], event["planned"]
        if recipe not in BASELINES:
            between = f"{event['low'] * 100:.1f} – {event['high'] * 100:.1f}"
            self.tiles[recipe] = Tile(
                value=event["accuracy"], shown=percent(event["accuracy"]), below=between
            )
            self.share = BEGUN + (TRAINED - BEGUN) * self.done / max(planned, 1)
            self._times.append((time.monotonic(), self.done))
            left = "; the last one is being trained" if self.done == planned - 1 else ""
            self.says = f"Training heads: {self.done} of {planned} done{left}{self._left(planned)}"

    def _left(self, planned: int) -> str:
        """The rate and the time left, once two heads have been timed."""
        (first, before), (last, now) = self._times[0], self._times[-1]
        if now == before or self.done >= planned:
            return ""
        each = (last - first) / (now - before)
        return f", {duration(each)} each, about {duration(round(each * (planned - now)))} left"

    @property
    def status(self) -> Markup:
        """What is under way, with a bar."""
        return drawings.progress(Progress(says=self.says, share=self.share))

    @property
    def heat(self) -> Markup:
        """The heat map, as far as it is filled."""
        names = boards.in_order(self.recipes)
        drawn = boards.heat(names, self.tiles, MEASURES["accuracy"], live=True)
        return Markup("<h4>Accuracy of the heads that are done</h4>{}").format(drawn)

    @property
    def curve(self) -> Markup:
        """The validation curves of the heads heard of last, by name so that colours keep still."""
        if not self.curves:
            return Markup("")
        curves = dict(sorted(self.curves.items()))
        if not self.epochs:  # heads that are solved at once have no course to draw
            best = [(name, max(points.values())) for name, points in curves.items()]
            return Markup("<h4>Validation accuracy, solved at once</h4>{}").format(bars(best))
        drawn = live(curves, self.epochs)
        return Markup("<h4>Validation accuracy, pass by pass</h4>{}").format(drawn)
