"""The result of `heads.fit_shards`: heads compared on features of any number of rows."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

from heads import display
from heads.backbone.backbone import Backbone
from heads.classifier.classifier import Classifier
from heads.classifier.module import TrainedHead
from heads.errors import RecipeError
from heads.evaluation.details import Measures
from heads.evaluation.metrics import SCORES
from heads.evaluation.significance import Difference
from heads.interfaces.views.format import apart, between, count, counted
from heads.interfaces.views.head_details import settings_says
from heads.recipe import Recipe
from heads.training.fitters.base import Chosen

TRAINED_ONCE = (
    "Heads that begin with random weights were trained once: intervals with them are of these "
    "heads, and say nothing of another training."
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Rung:
    """The scores of recipes on some of the rows."""

    rows: int  # the number of training rows
    scores: Mapping[str, float]  # by recipe, on the development rows
    stopped: Mapping[str, str]  # why recipes were stopped, a sentence each
    seconds: float  # how long it took


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class FittedCell:
    """A recipe that was fitted on all rows."""

    name: str  # the recipe
    measures: Measures  # its measures on the test rows
    chosen: Chosen  # its settings
    parameters: int  # the number of parameters of its head
    head: TrainedHead  # the trained head
    to_best: Difference | None = None  # its difference from the best head; None for that one

    @property
    def row(self) -> tuple[str, ...]:
        """The cell as a row of the table."""
        own, score = self.measures, SCORES[self.measures.metric]
        against = apart(self.to_best, score) + "*" * self.to_best.differs if self.to_best else ""
        interval, size = between(own).replace(" ", ""), count(self.parameters)
        settings = settings_says(self.chosen)
        return self.name, score.told(own.score), interval, against, size, settings

    def as_json(self) -> dict[str, Any]:
        """Return the cell as plain values."""
        own = self.measures
        return {
            "recipe": self.name,
            **{name: getattr(own, name) for name in ("metric", "score", "low", "high")},
            "values": dict(own.values),
            "chosen": dict(self.chosen),
            "parameters": self.parameters,
            "to_best": asdict(self.to_best) if self.to_best else None,
        }


@dataclass(frozen=True, slots=True, kw_only=True, eq=False, repr=False)
class ShardedComparison(display.Displayed):
    """Heads compared on features of any number of rows."""

    data: str
    rows: Mapping[str, int]  # for training, development and testing
    classes: tuple[str, ...]  # in the order of the logits
    label: str  # the column of the labels
    rungs: tuple[Rung, ...]  # the scores of recipes on fewer rows, from few to many
    cells: tuple[FittedCell, ...]  # the recipes that were fitted on all rows, the best first
    failed: Mapping[str, str]  # why recipes could not be learned
    model: str  # the base model
    seconds: float
    backbone: Backbone  # the base model that encoded the texts, or what stands for it

    def __repr__(self) -> str:
        return f"<ShardedComparison {self.data}: {self.verdict}>"

    @property
    def best(self) -> Classifier:
        """The head with the highest score."""
        return self.classifier(self.cells[0].name)

    def classifier(self, recipe: Recipe | str) -> Classifier:
        """Return a head that was fitted on all rows, to ask or to export.

        Raises:
            RecipeError: It was not fitted on all rows.
        """
        heads = {cell.name: cell.head for cell in self.cells}
        if str(recipe) not in heads:
            hint = f"These were: {', '.join(heads)}."
            raise RecipeError(f"{recipe} was not fitted on all rows.", hint)
        return Classifier(backbone=self.backbone, head=heads[str(recipe)])

    @property
    def verdict(self) -> str:
        """Which head is best, and which others are not significantly different."""
        top, *others = self.cells
        score, own = SCORES[top.measures.metric], top.measures
        says = f"{top.name} has the highest {score.noun}, {score.told(own.score)} "
        says += f"({score.between(own.low, own.high)}) on {self.rows['test']:,} rows"
        # Intervals are of heads that were trained once: the luck of a training is not known.
        level = [cell.name for cell in others if cell.to_best and cell.to_best.high >= 0]
        return says + f"; {', '.join(level)} not significantly different" * bool(level) + "."

    def describe(self) -> display.Description:
        """Return the verdict, a table of the heads, and why others were stopped."""
        rows, score = self.rows, SCORES[self.cells[0].measures.metric]
        headers = ("", score.title, "95 %", "against the best", "parameters", "settings")
        blocks: list[str | display.Table] = [
            f"Fitted on {rows['train']:,} rows; settings chosen on {rows['development']:,}, scored "
            f"on {rows['test']:,}. {counted(len(self.classes), 'class')} by '{self.label}'.",
            display.Table(headers=headers, rows=tuple(cell.row for cell in self.cells)),
        ]
        if any(cell.to_best and cell.to_best.differs for cell in self.cells):
            blocks.append("* significantly different from the best.")
        if any("learning_rate" in cell.chosen for cell in self.cells):
            blocks.append(TRAINED_ONCE)
        for rung in self.rungs:
            if rung.stopped:
                title = f"Stopped after {rung.rows:,} rows ({rung.seconds:,.0f} s):"
                stopped = tuple(rung.stopped.items())
                blocks.append(display.Table(title=title, headers=("recipe", "why"), rows=stopped))
        blocks += [f"Note: {why}" for why in self.failed.values()]
        return display.Description(title=self.verdict, blocks=tuple(blocks))

    def as_json(self) -> dict[str, Any]:
        """Return all of it as plain values."""
        names = ("data", "classes", "label", "model", "verdict", "seconds")
        return {
            **{name: getattr(self, name) for name in names},
            "rows": dict(self.rows),
            "rungs": [asdict(rung) for rung in self.rungs],
            "cells": [cell.as_json() for cell in self.cells],
            "failed": dict(self.failed),
        }
