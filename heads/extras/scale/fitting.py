"""Heads compared on features of any number of rows: raced on few of them, fitted on all.

Rows are the fidelity of the race. On a hundred thousand rows all recipes search their settings in
memory, by the engine of any run; those that are surely behind are stopped, and of the others the
best few go on to a million rows, and to all. What has been found on few rows is where learning on
more begins.

Source: Jamieson and Talwalkar 2016 (rows as the resource of successive halving); who is stopped is
told by the race of any run (`heads.training.racing`).
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Generator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from typing import Any

import torch
from torch import Tensor

from heads import display
from heads.backbone import given
from heads.backbone.backbone import Backbone
from heads.backbone.loading import load
from heads.classifier.classifier import Classifier
from heads.classifier.module import RecipeModule, TrainedHead
from heads.data.splits import TEST_SET, Splits
from heads.data.table import count
from heads.errors import DataError, RecipeError
from heads.evaluation.calibration import temperature
from heads.evaluation.details import Measures, measure
from heads.evaluation.metrics import SCORES
from heads.evaluation.predictions import CellPredictions, EvaluationTask
from heads.evaluation.significance import Difference, compare
from heads.evaluation.statistics import Scores
from heads.events import Progress, result
from heads.extras.scale.grid import on_ray
from heads.extras.scale.pieces import Piece
from heads.extras.scale.pool import HERE, Pool, applying, pool
from heads.extras.scale.shards import FeatureShards, Part, Sample, ShardReader, ShardRows
from heads.extras.scale.streaming import (
    check_streams,
    learn_by_steps,
    solve_closed_form,
    solve_linear,
    task_of_rows,
)
from heads.extras.scale.sums import Moments, Shards, moments
from heads.features.store import FeatureMatrices, FeatureStore
from heads.interfaces.views.format import apart, between, counted
from heads.interfaces.views.format import count as count_briefly
from heads.parts.poolings import GIVEN
from heads.parts.resolve import resolve, with_options
from heads.parts.resolved_recipe import ResolvedRecipe
from heads.problem import SINGLE_LABEL
from heads.recipe import Recipe
from heads.rng import IsolatedRng
from heads.settings import ExperimentConfig, Limits
from heads.training.fitters.base import Chosen, SearchResult, TriedSettings, score_settings, surest
from heads.training.fitters.closed_form import ClosedFormFitter, settings_of
from heads.training.fitters.logistic import STRENGTHS, LinearFitter
from heads.training.fitters.sgd import SGDFitter
from heads.training.objective import Objective
from heads.training.racing import eliminated
from heads.training.scheduler import TrainingData, TrialFailed, run_trials
from heads.training.search import CurvePointTried, SearchFinished, search_job
from heads.training.task import TrainingTask
from heads.training.trial import Trial, trials

HEADS = ("linear", "ridge", "lda", "roberta", "distilbert", "mlp")  # where no recipes are named
IN_MEMORY = 250_000  # rows to learn from up to which a rung is computed in memory
SEARCHED = 1e-3  # of the first gradient, down to which linear heads are solved to choose C
AROUND = (0.3, 1.0, 3.0)  # times C that are tried on more rows
FEWEST = 200  # rows to learn from
ONCE = (
    "Heads that begin with random weights were trained once: intervals with them are of these "
    "heads, and say nothing of another training."
)
CHOICES_SHOWN = ("C", "alpha", "shrinkage", "learning_rate", "weight_decay", "epochs")


# --- What comes of it.


@dataclass(frozen=True, slots=True, kw_only=True)
class Rung:
    """What recipes came to on some of the rows.

    Attributes:
        rows: That were learned from.
        scores: By recipe, on the development rows.
        stopped: Why recipes did not go on, in a sentence each.
        seconds: How long it took.
    """

    rows: int
    scores: Mapping[str, float]
    stopped: Mapping[str, str]
    seconds: float


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class FittedCell:
    """A recipe that was fitted on all rows.

    Attributes:
        name: The recipe.
        measures: What it came to on the rows that are scored.
        chosen: The settings.
        parameters: How many numbers its head has.
        head: The trained head.
        to_best: Its difference from the best; None for that one.
    """

    name: str
    measures: Measures
    chosen: Chosen
    parameters: int
    head: TrainedHead
    to_best: Difference | None = None

    @property
    def row(self) -> tuple[str, ...]:
        """The cell as a row of the table."""
        own, score = self.measures, SCORES[self.measures.metric]
        against = ""
        if self.to_best:
            against = apart(self.to_best, score) + "*" * self.to_best.differs
        settings = [(name, self.chosen[name]) for name in CHOICES_SHOWN if name in self.chosen]
        return (
            self.name,
            score.told(own.score),
            between(own).replace(" ", ""),
            against,
            count_briefly(self.parameters),
            ", ".join(
                f"{name} {value:.4g}" if isinstance(value, float) else f"{name} {value}"
                for name, value in settings
            ),
        )

    def as_json(self) -> dict[str, Any]:
        """As plain values."""
        own = self.measures
        return {
            "recipe": self.name,
            "metric": own.metric,
            "score": own.score,
            "low": own.low,
            "high": own.high,
            "values": dict(own.values),
            "chosen": dict(self.chosen),
            "parameters": self.parameters,
            "to_best": asdict(self.to_best) if self.to_best else None,
        }


@dataclass(frozen=True, slots=True, kw_only=True, eq=False, repr=False)
class ShardedComparison(display.Displayed):
    """Heads compared on features of any number of rows.

    Attributes:
        data: What the features are called.
        rows: How many there are: to learn from, to choose settings on, and scored.
        classes: Their names, in the order of the logits.
        label: The column of the labels.
        rungs: What recipes came to on fewer rows, from few to many.
        cells: Those that were fitted on all rows, the best first.
        failed: Recipes that could not be learned, and why.
        model: The base model.
        seconds: How long all of it took.
        backbone: The base model that read the texts, or what stands for it.
    """

    data: str
    rows: Mapping[str, int]
    classes: tuple[str, ...]
    label: str
    rungs: tuple[Rung, ...]
    cells: tuple[FittedCell, ...]
    failed: Mapping[str, str]
    model: str
    seconds: float
    backbone: Backbone

    def __repr__(self) -> str:
        return f"<ShardedComparison {self.data}: {self.verdict}>"

    @property
    def best(self) -> Classifier:
        """The head with the highest score."""
        return self.classifier(self.cells[0].name)

    def classifier(self, recipe: Recipe | str) -> Classifier:
        """A head that was fitted on all rows, to ask or to export.

        Raises:
            RecipeError: It was not.
        """
        found = [one for one in self.cells if one.name == str(recipe)]
        if not found:
            names = ", ".join(one.name for one in self.cells)
            raise RecipeError(f"{recipe} was not fitted on all rows.", f"These were: {names}.")
        return Classifier(backbone=self.backbone, head=found[0].head)

    @property
    def verdict(self) -> str:
        """In a sentence or two, which head to take."""
        top, *others = self.cells
        score, own = SCORES[top.measures.metric], top.measures
        told = f"{top.name} has the highest {score.noun}, {score.told(own.score)} "
        told += f"({score.between(own.low, own.high)}) on {self.rows['test']:,} rows"
        # Of heads that were trained once, intervals are of these heads: their luck is not known.
        level = [one.name for one in others if one.to_best and one.to_best.high >= 0]
        if level:
            told += f"; {', '.join(level)} not significantly different"
        return f"{told}."

    def describe(self) -> display.Description:
        """Return the verdict, a table of the heads, and why others were stopped."""
        rows, metric = self.rows, self.cells[0].measures.metric
        blocks: list[str | display.Table] = [
            f"Fitted on {rows['train']:,} rows; settings chosen on {rows['development']:,}, scored "
            f"on {rows['test']:,}. {counted(len(self.classes), 'class')} by '{self.label}'.",
            display.Table(
                headers=(
                    "", SCORES[metric].title, "95 %", "against the best", "parameters", "settings",
                ),
                rows=tuple(cell.row for cell in self.cells),
            ),
        ]  # fmt: skip
        if any(cell.to_best and cell.to_best.differs for cell in self.cells):
            blocks.append("* significantly different from the best.")
        if any("learning_rate" in cell.chosen for cell in self.cells):
            blocks.append(ONCE)
        blocks += [
            display.Table(
                title=f"Stopped after {rung.rows:,} rows ({rung.seconds:,.0f} s):",
                headers=("recipe", "why"),
                rows=tuple(rung.stopped.items()),
            )
            for rung in self.rungs
            if rung.stopped
        ]
        blocks += [f"Note: {why}" for why in self.failed.values()]
        return display.Description(title=self.verdict, blocks=tuple(blocks))

    def as_json(self) -> dict[str, Any]:
        """As plain values."""
        return {
            "data": self.data,
            "rows": dict(self.rows),
            "classes": self.classes,
            "label": self.label,
            "model": self.model,
            "rungs": [asdict(one) for one in self.rungs],
            "cells": [one.as_json() for one in self.cells],
            "failed": dict(self.failed),
            "verdict": self.verdict,
            "seconds": self.seconds,
        }


# --- The work.


def resolved_on(
    shards: FeatureShards, recipes: Sequence[str], vectors: str, limits: Limits
) -> tuple[list[ResolvedRecipe], Backbone]:
    """Return the recipes that are compared, and the base model behind the features."""
    backbone = _backbone(shards, vectors, limits)
    return _recipes(recipes, shards, backbone, vectors), backbone


def race_of(
    shards: FeatureShards,
    resolved: Sequence[ResolvedRecipe],
    backbone: Backbone,
    *,
    counts: Mapping[str, int],
    classes: tuple[str, ...],
    config: ExperimentConfig,
    split: str,
    limits: Limits,
    **given: Any,
) -> Race:
    """Return the race of recipes that can be learned from shards."""
    cells = trials(resolved, backbone, len(classes), limits, SINGLE_LABEL)
    for cell in cells:
        check_streams(cell.fitter, cell.name)
    rows = sum(counts.values())
    return Race(
        shards=shards, classes=classes, cells=cells, backbone=backbone, config=config,
        limits=limits, sample=Sample.of(rows, config.seed, split), rows=rows, **given,
    )  # fmt: skip


def _backbone(shards: FeatureShards, vectors: str, limits: Limits) -> Backbone:
    """The base model that read the texts, or what stands for it where that is not known."""
    if shards.model:
        found = load(shards.model, limits=limits)
        if found.revision != shards.revision:
            what = f"{shards.model} is not the version that made the features."
            raise DataError(what, "Bring that version back, or extract them again.")
        return found
    return load(given.named(shards.readings[_column(shards, vectors)]), limits=limits)


def _column(shards: FeatureShards, vectors: str) -> str:
    """The column of vectors that came from elsewhere."""
    if vectors:
        shards.check_reading(vectors)
        return vectors
    if len(shards.readings) > 1:
        names = ", ".join(shards.readings)
        raise DataError(f"There are several columns of vectors: {names}.", "Name one (--vectors).")
    return next(iter(shards.readings))


def _recipes(
    recipes: Sequence[str], shards: FeatureShards, backbone: Backbone, vectors: str
) -> list[ResolvedRecipe]:
    """The recipes that are asked for; without any, some heads on every reading there is."""
    readings = [GIVEN.name] if backbone.is_given else list(shards.readings)
    named = recipes or [f"{reading}+{head}" for reading in readings for head in HEADS]
    found = [resolve(one) for one in named]
    for one in found:
        if one.reading not in readings:
            what = f"{one.recipe} reads {one.reading}, and there are features of "
            raise RecipeError(f"{what}{', '.join(readings)}.", "Extract that reading as well.")
    return found


@dataclass(kw_only=True, eq=False)
class Found:
    """What a recipe has come to so far.

    Attributes:
        trial: The recipe, and how it is learned.
        result: Its settings, its logits on the development rows, and its score there.
        state: The tensors of its head.
    """

    trial: Trial
    result: SearchResult
    state: Mapping[str, Tensor]


@dataclass(kw_only=True, eq=False)
class Race:
    """Recipes that race on more and more rows.

    Attributes:
        shards: The features.
        label: The column of the labels.
        classes: Their names.
        cells: The recipes.
        backbone: The base model, or what stands for it.
        pool: Workers that sum over shards.
        sample: Which rows belong to what.
        config: Seed and settings.
        limits: What is allowed.
        on: Where work is done.
        workers: At most so many.
        vectors: The column of vectors that came from elsewhere.
        rows: How many have a label.
    """

    shards: FeatureShards
    label: str
    classes: tuple[str, ...]
    cells: Sequence[Trial]
    backbone: Backbone
    pool: Pool[Any, Any]
    sample: Sample
    config: ExperimentConfig
    limits: Limits
    on: str
    workers: int
    vectors: str
    rows: int
    rungs: list[Rung] = field(default_factory=list)
    found: dict[str, Found] = field(default_factory=dict)
    failed: dict[str, str] = field(default_factory=dict)
    held: dict[str, dict[Part, ShardRows]] = field(default_factory=dict)  # by reading
    moments: dict[tuple[str, float], Moments] = field(default_factory=dict)
    learned: int = 0  # rows to learn from, of all

    def run(self, rungs: Sequence[int], keep: int) -> Generator[Progress, None, None]:
        """Lets all recipes race, and fits those that are left on all rows."""
        learned = max(1, round(self.rows * (1 - self.sample.test - self.sample.development)))
        shares = [*(rung / learned for rung in sorted(rungs) if rung < learned), 1.0]
        held = [share for share in shares if share * learned <= IN_MEMORY]
        yield Progress(says="Reading the rows of the first comparison", share=0.02)
        self._collect(held[-1] if held else 0.0)
        left = list(self.cells)
        for place, share in enumerate(shares):
            begun, at = time.perf_counter(), 0.05 + 0.85 * place / len(shares)
            if share in held:
                yield from self._in_memory(left, share, at)
            else:
                yield from self._streamed(left, share, at)
            seconds = time.perf_counter() - begun
            is_last = place >= len(shares) - 2  # before all rows
            most = keep if is_last else max(keep, -(-len(left) // 2))
            left = self._decide(left, most, share, seconds)
        self.found = {cell.name: self.found[cell.name] for cell in left}

    # --- Rows.

    def reader(self, reading: str, share: float) -> ShardReader:
        """Reads rows under a reading, of those to learn from a share."""
        column = _column(self.shards, self.vectors) if self.backbone.is_given else reading
        return ShardReader(
            reading=column, width=self.shards.readings[column], label=self.label,
            classes=self.classes, sample=replace(self.sample, share=share),
            has_hash="text_hash" in self.shards.source.schema.names,
        )  # fmt: skip

    def pieces(self, reading: str) -> list[Piece]:
        """The pieces in which the rows of a reading lie."""
        column = _column(self.shards, self.vectors) if self.backbone.is_given else reading
        return self.shards.pieces(column)

    def _collect(self, share: float) -> None:
        """Reads the rows that are held out, and a share of those to learn from, into memory."""
        parts: tuple[Part, ...] = ("development", "test", *(("train",) if share else ()))
        for reading in dict.fromkeys(cell.reading for cell in self.cells):
            reader = self.reader(reading, share or 1.0)
            pieces = self.pieces(reading)
            tasks = [Collecting(reader=reader, pieces=(one,), parts=parts) for one in pieces]
            by_piece: dict[int, dict[Part, ShardRows]] = {
                task.pieces[0].row: rows for task, rows in filter(None, self.pool.map(tasks))
            }
            self.held[reading] = {
                part: ShardRows.together([by_piece[row][part] for row in sorted(by_piece)])
                for part in parts
            }
        rows = next(iter(self.held.values()))
        for part in ("development", "test"):
            if len(rows[part]) < 2:
                what = f"{self.shards.source.name} has too few rows: none is left for {part}."
                raise DataError(what, "Give more rows.")

    def task(self, trial: Trial, part: Part = "development") -> TrainingTask:
        """The rows that are held out, as a training task of a recipe's own loss."""
        rows = self.held[trial.reading][part]
        objective = Objective(
            problem=SINGLE_LABEL, outputs=len(self.classes), loss=trial.resolved.loss,
            margin=trial.resolved.margin,
        )  # fmt: skip
        return task_of_rows(rows.vectors, rows.targets, objective)

    # --- In memory.

    def _in_memory(
        self, left: Sequence[Trial], share: float, at: float
    ) -> Generator[Progress, None, None]:
        """Recipes search their settings on a share of the rows, by the engine of any run."""
        data = self._training_data(share)
        self.learned = len(data.splits.fitted(0))
        if self.learned < FEWEST:
            what = f"{count(self.learned, 'row')} to learn from are few for this."
            raise DataError(what, "Train as usual: heads train FILE")
        jobs = [search_job(cell, data) for cell in left]
        scheduler = run_trials if self.on == HERE else on_ray(self.on, pool=self.pool)
        by_name, done = {cell.name: cell for cell in left}, 0
        says = f"Searching settings on {self.learned:,} rows"
        with contextlib.closing(scheduler(jobs, data, max(1, torch.get_num_threads()))) as events:
            for event in events:
                if isinstance(event, SearchFinished):
                    trial, (one,) = by_name[event.name], event.found
                    self.found[event.name] = Found(
                        trial=trial, result=one, state=self._state(trial, one, data)
                    )
                elif isinstance(event, TrialFailed):
                    self.failed[event.name] = event.says
                done += not isinstance(event, CurvePointTried)
                yield Progress(says=f"{says}: {done} of {len(jobs)} recipes", share=at + 0.01)
        if not self.found:
            raise DataError(next(iter(self.failed.values())), "")

    def _state(self, trial: Trial, found: SearchResult, data: TrainingData) -> Mapping[str, Tensor]:
        """The tensors of the head that a search ended in."""
        if found.state is not None:
            return found.state
        rows, none = data.splits.fitted(0), torch.empty(0, dtype=torch.long)
        task = data.training_task(trial.reading, self.task(trial).stop)
        (one,) = trial.fitter.learn(task, [found], [rows], [none], [self.config.seed])
        return one.state

    def _training_data(self, share: float) -> TrainingData:
        """The rows in memory: first a share of those to learn from, then the development rows."""
        sample = replace(self.sample, share=share)
        some = {
            reading: (rows["train"].some(sample.chosen(rows["train"].keys)), rows["development"])
            for reading, rows in self.held.items()
        }
        together = {reading: ShardRows.together(rows) for reading, rows in some.items()}
        both, cut = next(iter(together.values())), len(next(iter(some.values()))[0])
        size = len(both)
        groups = _numbered(both.keys)
        every = torch.arange(size)
        vectors = {reading: rows.vectors for reading, rows in together.items()}
        matrices = FeatureMatrices.of_vectors(every, vectors)
        dice = torch.Generator().manual_seed(self.config.seed)
        search = torch.randperm(cut, generator=dice)[:3_000].sort().values
        splits = Splits(
            kind=TEST_SET, search=(search,), development=(every[cut:],), train=(every,),
            test=(every[:0],), are_given=True,
        )  # fmt: skip
        task = EvaluationTask(
            targets=both.targets, classes=self.classes, groups=groups, problem=SINGLE_LABEL
        )
        store = FeatureStore(joint=matrices, alone=None, siamese={})
        return TrainingData(read=store, task=task, splits=splits, config=self.config)

    # --- From shards.

    def _streamed(
        self, left: Sequence[Trial], share: float, at: float
    ) -> Generator[Progress, None, None]:
        """Recipes are fitted on a share of the rows, shard by shard.

        Those that learn step by step have a worker each, side by side; of the others all workers
        sum over shards, one recipe after the other.
        """
        says = f"Fitting on {share:.0%} of the rows"
        for cell in left:
            key = (cell.reading, share)
            if key not in self.moments:
                yield Progress(says=f"Summing over the rows of {cell.reading}", share=at)
                self.moments[key] = moments(self._rows(cell, share), len(self.classes))
        self.learned = next(iter(self.moments[cell.reading, share] for cell in left)).rows
        steps = [cell for cell in left if isinstance(cell.fitter, SGDFitter)]
        tasks = [self._stepping(cell, share) for cell in steps]
        by_name, done = {cell.name: cell for cell in left}, 0
        for ended in self.pool.map(tasks):
            if ended is not None:
                task, result = ended
                self._keep(by_name[task.name], result)
                done += 1
            yield Progress(says=f"{says}: {done} of {len(left)} recipes", share=at + 0.1)
        for cell in left:
            if cell not in steps:
                self._keep(cell, self._solved(cell, share))
                done += 1
                yield Progress(says=f"{says}: {done} of {len(left)} recipes", share=at + 0.1)

    def _rows(self, cell: Trial, share: float) -> Shards:
        return Shards(
            reader=self.reader(cell.reading, share), pieces=self.pieces(cell.reading),
            pool=self.pool,
        )  # fmt: skip

    def _keep(self, cell: Trial, result: SearchResult) -> None:
        assert result.state is not None
        self.found[cell.name] = Found(trial=cell, result=result, state=result.state)

    def _stepping(self, cell: Trial, share: float) -> Stepping:
        before, task = self.found.get(cell.name), self.task(cell)
        return Stepping(
            name=cell.name, fitter=cell.fitter, reader=self.reader(cell.reading, share),
            pieces=tuple(self.pieces(cell.reading)), found=self.moments[cell.reading, share],
            settings=[before.result.chosen] if before else [],
            start=before.state if before else None, vectors=task.vectors, targets=task.targets,
            objective=task.objective, seed=self.config.seed,
        )  # fmt: skip

    def _solved(self, cell: Trial, share: float) -> SearchResult:
        """A head at its optimum, its settings chosen on the development rows."""
        before, task = self.found.get(cell.name), self.task(cell)
        shards, found = self._rows(cell, share), self.moments[cell.reading, share]
        fitter = cell.fitter
        if isinstance(fitter, ClosedFormFitter):
            options = settings_of(fitter, found.rows)
            if before:
                options = [before.result.chosen]
            states = [solve_closed_form(shards, found, fitter, one) for one in options]
            return _best(fitter, list(zip(options, states, strict=True)), task)
        assert isinstance(fitter, LinearFitter)
        return self._solved_linear(fitter, shards, found, task, before)

    def _solved_linear(
        self,
        fitter: LinearFitter,
        shards: Shards,
        found: Moments,
        task: TrainingTask,
        before: Found | None,
    ) -> SearchResult:
        fixed = dict(fitter.resolved.recipe.options).get("C")
        start, standardise, strengths = None, fitter.resolved.standardise is not False, [*STRENGTHS]
        if before:
            start, chosen = before.state, before.result.chosen
            standardise = bool(chosen["standardise"])
            strengths = [float(f"{float(chosen['C']) * factor:.4g}") for factor in AROUND]
        strengths = [float(fixed)] if fixed else strengths
        options: list[Chosen] = [{"standardise": standardise, "C": C} for C in strengths]
        states = solve_linear(shards, found, task.objective, options, fitter, start, SEARCHED)
        best = _best(fitter, list(zip(options, states, strict=True)), task)
        assert best.state is not None
        # The others need no more than that; the one that is kept is taken to its optimum.
        own = solve_linear(shards, found, task.objective, [best.chosen], fitter, best.state)
        return _best(fitter, [(best.chosen, own[0])], task)

    # --- Who goes on, and what comes of it.

    def _decide(
        self, left: Sequence[Trial], keep: int, share: float, seconds: float
    ) -> list[Trial]:
        """The recipes that go on: not surely behind, and of those the best so many."""
        there = [cell for cell in left if cell.name in self.found]
        results = {cell.name: self.found[cell.name].result for cell in there}
        scores = {name: one.point.score for name, one in results.items()}
        if share >= 1:
            self.rungs.append(Rung(rows=self.learned, scores=scores, stopped={}, seconds=seconds))
            return there
        parts = [one.point.parts for one in results.values() if one.point.parts is not None]
        keys = next(iter(self.held.values()))["development"].keys
        out = eliminated(list(results), torch.stack(parts, dim=1), _numbered(keys))
        stopped = {
            one.recipe: f"{one.behind:.2%} behind the leader, by {one.least:.2%} at least"
            for one in out
        }
        ranked = sorted((n for n in scores if n not in stopped), key=lambda n: -scores[n])
        stopped |= dict.fromkeys(ranked[keep:], f"not among the best {keep} of those left")
        self.rungs.append(Rung(rows=self.learned, scores=scores, stopped=stopped, seconds=seconds))
        return [cell for cell in there if cell.name not in stopped]

    def compared(self, seconds: float) -> ShardedComparison:
        """The heads that are left, on the rows that are scored."""
        rows = next(iter(self.held.values()))
        test, development = rows["test"], rows["development"]
        both = ShardRows.together([test, development])
        task = EvaluationTask(
            targets=both.targets, classes=self.classes, groups=_numbered(both.keys),
            problem=SINGLE_LABEL,
        )  # fmt: skip
        asked = torch.arange(len(test))
        outcomes = {}
        for name, one in self.found.items():
            logits = self._answers(one, "test")
            held = self._answers(one, "development"), torch.arange(len(test), len(both))
            outcomes[name] = CellPredictions(
                name=name,
                rows=(asked,),
                logits=(logits,),
                held=held,
                is_random=one.trial.fitter.is_random,  # trained once: then luck is not known
            )
        told = compare(list(outcomes.values()), task, reference=next(iter(outcomes)))
        to_best = {one.name: one for one in told.to_best}
        cells = [
            self._cell(self.found[name], measure(own, task), to_best.get(name), own)
            for name, own in outcomes.items()
        ]
        cells.sort(key=lambda cell: (cell.name != told.best, -cell.measures.score))
        return ShardedComparison(
            data=self.shards.source.name,
            rows={"train": self.learned, "development": len(development), "test": len(test)},
            classes=self.classes,
            label=self.label,
            rungs=tuple(self.rungs),
            cells=tuple(cells),
            failed=dict(self.failed),
            model=self.backbone.id,
            seconds=seconds,
            backbone=self.backbone,
        )

    @torch.no_grad()
    def _answers(self, one: Found, part: Part) -> Tensor:
        """The logits of rows that are held out, for the softmax."""
        module = self._module(one)
        vectors = self.held[one.trial.reading][part].vectors
        logits = torch.cat([module.head(some) for some in vectors.split(4_096)])
        return SINGLE_LABEL.learned_by(one.trial.resolved.loss).competing(logits)

    def _module(self, one: Found) -> RecipeModule:
        known = one.trial.resolved.head.options
        options = {name: value for name, value in one.result.chosen.items() if name in known}
        recipe = with_options(one.trial.resolved, options)
        with IsolatedRng().rolling():
            module = RecipeModule(recipe, self.backbone, len(self.classes))
        module.head.load_state_dict(dict(one.state))
        return module.eval().requires_grad_(False)

    def _cell(
        self, one: Found, measures: Measures, to_best: Difference | None, own: CellPredictions
    ) -> FittedCell:
        module = self._module(one)
        rows = self.held[one.trial.reading]["development"]
        majority = float(torch.bincount(self.held[one.trial.reading]["test"].targets).max())
        scored = len(self.held[one.trial.reading]["test"])
        assert own.held is not None
        head = TrainedHead(
            recipe=module.reader.resolved.recipe,
            model=self.backbone.id,
            classes=self.classes,
            problem=SINGLE_LABEL,
            paired=bool(self.shards.pair),
            temperature=temperature(own.held[0], rows.targets, SINGLE_LABEL),
            trained_on=self.shards.source.name,
            rows=self.learned,
            scores=Scores(
                rows=measures.rows, accuracy=measures.score, low=measures.low, high=measures.high,
                majority=majority / scored, metric=measures.metric, among=len(self.cells),
            ),
            training=asdict(self.config),
            trained_as=one.trial.resolved,
            module=module,
            chosen=dict(one.result.chosen),
        )  # fmt: skip
        return FittedCell(
            name=one.trial.name, measures=measures, chosen=one.result.chosen,
            parameters=one.trial.parameters, head=head, to_best=to_best,
        )  # fmt: skip


def _numbered(keys: Any) -> Tensor:
    """Whole numbers from 0 for keys (n,), equal ones for equal keys."""
    import numpy as np

    return torch.from_numpy(np.unique(keys, return_inverse=True)[1].astype(np.int64))


def _best(
    fitter: LinearFitter | ClosedFormFitter,
    tried: Sequence[tuple[Chosen, Mapping[str, Tensor]]],
    task: TrainingTask,
) -> SearchResult:
    """The settings that did best on the development rows."""
    rows, points, answers = torch.arange(len(task.targets)), list[TriedSettings](), list[Tensor]()
    for chosen, state in tried:
        if isinstance(fitter, ClosedFormFitter):
            chain = fitter.chain(task.classes, chosen)
        else:
            with IsolatedRng().rolling():
                chain = fitter.resolved.chain(task.vectors.shape[1], task.classes)
        chain.load_state_dict(dict(state))
        with torch.no_grad():
            answers.append(torch.cat([chain.eval()(one) for one in task.vectors.split(4_096)]))
        points.append(score_settings(chosen, 0, answers[-1], task, rows))
    top = surest(points, task)
    place = points.index(top)
    return SearchResult(chosen=top.settings, point=top, held=answers[place], state=tried[place][1])


# --- What a worker does by itself.


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Collecting:
    """Reads rows of some pieces by the parts that they belong to."""

    reader: ShardReader
    pieces: tuple[Piece, ...]
    parts: tuple[Part, ...]

    def __str__(self) -> str:
        return str(self.pieces[0])

    def __call__(self) -> dict[Part, ShardRows]:
        found = [self.reader.parts(one, self.parts) for one in self.pieces]
        return {part: ShardRows.together([one[part] for one in found]) for part in self.parts}


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Stepping:
    """Lets a head learn step by step, from shard after shard.

    Attributes:
        name: Of the recipe.
        fitter: How it is learned.
        reader, pieces: The rows.
        found: Their moments.
        settings: Those that are tried; all that any head tries if none.
        start: The tensors of a head to begin with.
        vectors, targets, objective: The development rows, and the loss.
        seed: From which weights, dropout and the order of rows are drawn.
    """

    name: str
    fitter: Any
    reader: ShardReader
    pieces: tuple[Piece, ...]
    found: Moments
    settings: Sequence[Chosen]
    start: Mapping[str, Tensor] | None
    vectors: Tensor
    targets: Tensor
    objective: Objective
    seed: int

    def __str__(self) -> str:
        return f"The recipe {self.name}"

    def __call__(self) -> SearchResult:
        fitter: SGDFitter = self.fitter
        shards = Shards(reader=self.reader, pieces=self.pieces, pool=pool(applying))
        task = task_of_rows(self.vectors, self.targets, self.objective)
        settings = self.settings or fitter.settings(task)
        work = learn_by_steps(shards, self.found, fitter, settings, task, self.seed, self.start)
        return result(work)
