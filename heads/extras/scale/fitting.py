"""Heads compared on features of any number of rows: raced on few of them, fitted on all.

Rows are the fidelity of the race. On few rows all recipes search their settings in memory, with the
engine of any run. Recipes that are surely behind are stopped, and the best few of the others go on
to more rows, and to all. What was found on few rows is where learning on more begins.

Source: Jamieson and Talwalkar 2016 (rows as the resource of successive halving); which recipes are
stopped follows the race of any run (`heads.training.racing`).
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Generator, Iterator, Sequence
from dataclasses import asdict, dataclass, field, replace
from functools import partial
from typing import Any

import numpy as np
import torch
from torch import Tensor

from heads.backbone import given
from heads.backbone.backbone import Backbone
from heads.backbone.loading import load
from heads.classifier.module import RecipeModule, TrainedHead
from heads.data.splits import TEST_SET, Splits
from heads.data.table import count
from heads.errors import DataError, RecipeError
from heads.evaluation.calibration import temperature
from heads.evaluation.details import measure
from heads.evaluation.predictions import CellPredictions, EvaluationTask
from heads.evaluation.significance import compare
from heads.evaluation.statistics import Scores
from heads.events import Progress
from heads.extras.scale import streaming
from heads.extras.scale.comparison import FittedCell, Rung, ShardedComparison
from heads.extras.scale.options import FitShardsOptions
from heads.extras.scale.pool import HERE, NamedTask, Pool, make_caller, open_pool
from heads.extras.scale.run_scheduler import schedule_on_ray
from heads.extras.scale.shards import (
    TEXT_HASH,
    FeatureShards,
    ShardReader,
    ShardRows,
    ShardSample,
    Subset,
)
from heads.extras.scale.streaming import State
from heads.extras.scale.sums import Moments, Shards, compute_moments
from heads.features.store import FeatureMatrices, FeatureStore
from heads.parts.poolings import GIVEN
from heads.parts.resolve import resolve, with_options
from heads.parts.resolved_recipe import ResolvedRecipe
from heads.problem import SINGLE_LABEL
from heads.rng import IsolatedRng
from heads.settings import ExperimentConfig
from heads.training.events import CurvePointTried, SearchFinished, TrialFailed
from heads.training.fitters.base import Chosen, SearchResult, score_settings, select_one_se
from heads.training.fitters.closed_form import ClosedFormFitter, settings_of
from heads.training.fitters.logistic import STRENGTHS, LinearFitter
from heads.training.fitters.vector_heads import AdamWFitter, chain_logits
from heads.training.objective import Objective
from heads.training.racing import eliminated
from heads.training.scheduler import TrainingData, run_trials
from heads.training.search import search_job
from heads.training.task import TrainingTask
from heads.training.trial import Trial

HEADS = ("linear", "ridge", "lda", "roberta", "distilbert", "mlp")  # where no recipes are named
IN_MEMORY = 250_000  # training rows up to which a rung is computed in memory
SEARCHED = 1e-3  # of the first gradient, down to which linear heads are solved to choose C
AROUND = (0.3, 1.0, 3.0)  # times C that are tried on more rows
FEWEST = 200  # training rows
SEARCH_ROWS = 3_000  # in memory, on which settings are searched


def load_backbone(shards: FeatureShards, column: str) -> Backbone:
    """Return the base model behind the features, or a stand-in where it is not known."""
    if not shards.model:
        width = shards.readings[shards.vector_column(column)]
        return load(given.named(width))
    backbone = load(shards.model)
    if backbone.revision != shards.revision:
        what = f"{shards.model} is not the version that made the features."
        raise DataError(what, "Bring that version back, or extract them again.")
    return backbone


def resolve_recipes(
    recipes: Sequence[str], shards: FeatureShards, backbone: Backbone
) -> list[ResolvedRecipe]:
    """Return the recipes, or without any some heads on every reading there is."""
    recipes = [recipes] if isinstance(recipes, str) else recipes
    readings = [GIVEN.name] if backbone.is_given else list(shards.readings)
    names = recipes or [f"{reading}+{head}" for reading in readings for head in HEADS]
    resolved = list(map(resolve, names))
    for recipe in resolved:
        if recipe.reading not in readings:
            what = f"{recipe.recipe} reads {recipe.reading}, and there are features of "
            raise RecipeError(f"{what}{', '.join(readings)}.", "Extract that reading as well.")
    return resolved


@dataclass(kw_only=True, eq=False)
class Race:
    """Recipes that race on more and more rows."""

    shards: FeatureShards  # the features
    options: FitShardsOptions  # its label is the name of a column
    classes: tuple[str, ...]  # the names of the labels
    cells: Sequence[Trial]  # the recipes
    backbone: Backbone  # the base model, or what stands for it
    pool: Pool[Any, Any]  # workers that sum over shards
    sample: ShardSample  # which rows are in which subset
    config: ExperimentConfig  # seed and settings
    rows: int  # how many have a label
    rungs: list[Rung] = field(default_factory=list)
    left: list[Trial] = field(default_factory=list)  # those that go on
    fits: dict[str, SearchResult] = field(default_factory=dict)  # the latest, by recipe
    failed: dict[str, str] = field(default_factory=dict)
    held: dict[str, dict[Subset, ShardRows]] = field(default_factory=dict)  # by reading
    moments: dict[tuple[str, float], Moments] = field(default_factory=dict)
    learned: int = 0  # training rows of the latest rung

    def run(self) -> Generator[Progress, None, None]:
        """Let all recipes race, and fit those that are left on all rows."""
        learned = max(1, round(self.rows * (1 - self.sample.test - self.sample.development)))
        rungs = (rung for rung in sorted(self.options.rungs) if 0 < rung < learned)
        shares, keep = [*(rung / learned for rung in rungs), 1.0], max(1, self.options.keep)
        in_memory = [share for share in shares if share * learned <= IN_MEMORY]
        yield Progress(says="Reading the rows of the first comparison", share=0.02)
        self._collect(in_memory[-1] if in_memory else 0.0)
        self.left = list(self.cells)
        for place, share in enumerate(shares):
            begun, at = time.perf_counter(), 0.05 + 0.85 * place / len(shares)
            fit = self._fit_in_memory if share in in_memory else self._fit_streamed
            yield from fit(self.left, share, at)
            is_last = place >= len(shares) - 2  # before all rows
            most = keep if is_last else max(keep, -(-len(self.left) // 2))
            self.left = self._select(most, share, time.perf_counter() - begun)

    # --- Rows.

    def _shards(self, reading: str, share: float) -> Shards:
        """Return the rows under a reading, with a share of the training rows."""
        is_given = self.backbone.is_given
        column = self.shards.vector_column(self.options.vectors) if is_given else reading
        reader = ShardReader(
            column=column, width=self.shards.readings[column], label=self.options.label,
            classes=self.classes, sample=replace(self.sample, share=share),
            has_hash=TEXT_HASH in self.shards.source.schema.names,
        )  # fmt: skip
        return Shards(reader=reader, pieces=self.shards.pieces(column), pool=self.pool)

    def _collect(self, share: float) -> None:
        """Read the held-out rows, and a share of the training rows, into memory."""
        subsets: tuple[Subset, ...] = ("development", "test", *(("train",) if share else ()))
        for reading in dict.fromkeys(cell.reading for cell in self.cells):
            shards = self._shards(reading, share or 1.0)
            read = shards.reader.read_subsets
            tasks = [
                NamedTask(str(piece), partial(read, piece, subsets)) for piece in shards.pieces
            ]
            read_rows = self.pool.results(tasks)
            self.held[reading] = {
                subset: ShardRows.concatenate([rows[subset] for rows in read_rows])
                for subset in subsets
            }
        for subset, rows in self._first.items():
            if len(rows) < 2 and subset != "train":
                what = f"{self.shards.source.name} has too few rows: none is left for {subset}."
                raise DataError(what, "Give more rows.")

    @property
    def _first(self) -> dict[Subset, ShardRows]:
        """The rows in memory under the first reading; targets and keys are those of all."""
        return next(iter(self.held.values()))

    def _evaluation(self, rows: ShardRows) -> EvaluationTask:
        return EvaluationTask(
            targets=rows.targets, classes=self.classes, groups=_number_keys(rows.keys),
            problem=SINGLE_LABEL,
        )  # fmt: skip

    def _objective(self, trial: Trial) -> Objective:
        return Objective(
            problem=SINGLE_LABEL, outputs=len(self.classes), loss=trial.resolved.loss,
            margin=trial.resolved.margin,
        )  # fmt: skip

    def _development(self, trial: Trial) -> TrainingTask:
        """Return the development rows as a training task with the loss of a recipe."""
        rows = self.held[trial.reading]["development"]
        return streaming.task_of_rows(rows.vectors, rows.targets, self._objective(trial))

    # --- In memory.

    def _fit_in_memory(
        self, left: Sequence[Trial], share: float, at: float
    ) -> Generator[Progress, None, None]:
        """Let recipes search their settings on a share of the rows, with the engine of any run."""
        data = self._training_data(share)
        self.learned = len(data.splits.fitted(0))
        if self.learned < FEWEST:
            learned = count(self.learned, "row")
            what = f"{learned} to learn from are few for this, which needs {FEWEST:,}."
            raise DataError(what, "Train as usual: heads train FILE")
        jobs = [search_job(cell, data) for cell in left]
        on = self.options.on
        scheduler = run_trials if on == HERE else schedule_on_ray(on, pool=self.pool)
        by_name, done = {cell.name: cell for cell in left}, 0
        says = f"Searching settings on {self.learned:,} rows"
        with contextlib.closing(scheduler(jobs, data, max(1, torch.get_num_threads()))) as events:
            for event in events:
                if isinstance(event, SearchFinished):
                    trial, (searched,) = by_name[event.name], event.found
                    state = searched.state or self._fit_state(trial, searched, data)
                    self.fits[trial.name] = replace(searched, state=state)
                elif isinstance(event, TrialFailed):
                    self.failed[event.name] = event.says
                done += not isinstance(event, CurvePointTried)
                yield Progress(says=f"{says}: {done} of {len(jobs)} recipes", share=at + 0.01)
        if not self.fits:
            raise DataError(next(iter(self.failed.values())), "")

    def _fit_state(self, trial: Trial, searched: SearchResult, data: TrainingData) -> State:
        rows, none = data.splits.fitted(0), torch.empty(0, dtype=torch.long)
        task = data.training_task(trial.reading, self._development(trial).stop)
        (head,) = trial.fitter.learn(task, [searched], [rows], [none], [self.config.seed])
        return head.state

    def _training_data(self, share: float) -> TrainingData:
        """Return rows in memory: first a share of those for training, then for development."""
        sample, both = replace(self.sample, share=share), dict[str, ShardRows]()
        for reading, rows in self.held.items():
            train = rows["train"].select(sample.select_used(rows["train"].keys))
            both[reading] = ShardRows.concatenate([train, rows["development"]])
        first = next(iter(both.values()))
        every, cut = torch.arange(len(first)), len(first) - len(self._first["development"])
        vectors = {reading: rows.vectors for reading, rows in both.items()}
        joint = FeatureMatrices.of_vectors(every, vectors)
        store = FeatureStore(joint=joint, alone=None, siamese={})
        dice = torch.Generator().manual_seed(self.config.seed)
        search = torch.randperm(cut, generator=dice)[:SEARCH_ROWS].sort().values
        splits = Splits(
            kind=TEST_SET, search=(search,), development=(every[cut:],), train=(every,),
            test=(every[:0],), are_given=True,
        )  # fmt: skip
        task = self._evaluation(first)
        return TrainingData(read=store, task=task, splits=splits, config=self.config)

    # --- From shards.

    def _fit_streamed(
        self, left: Sequence[Trial], share: float, at: float
    ) -> Generator[Progress, None, None]:
        """Fit recipes on a share of the rows, shard by shard."""
        says, done = f"Fitting on {share:.0%} of the rows", 0
        for cell in left:
            key = (cell.reading, share)
            if key not in self.moments:
                yield Progress(says=f"Summing over the rows of {cell.reading}", share=at)
                shards = self._shards(cell.reading, share)
                self.moments[key] = compute_moments(shards, len(self.classes))
        self.learned = self.moments[left[0].reading, share].rows
        for ended in self._stream_results(left, share):
            if ended is not None:
                trial, searched = ended
                self.fits[trial.name] = searched
                done += 1
            yield Progress(says=f"{says}: {done} of {len(left)} recipes", share=at + 0.1)

    def _stream_results(
        self, left: Sequence[Trial], share: float
    ) -> Iterator[tuple[Trial, SearchResult] | None]:
        """Yield each recipe with its result, and None now and then while nothing has ended."""
        steps = dict[NamedTask, Trial]()
        for cell in left:  # those that learn step by step have a worker each, side by side
            if isinstance(cell.fitter, AdamWFitter):
                before = self.fits.get(cell.name)
                shards = replace(self._shards(cell.reading, share), pool=open_pool(make_caller))
                work = streaming.StepwiseSearch(
                    shards=shards, moments=self.moments[cell.reading, share], fitter=cell.fitter,
                    objective=self._objective(cell), settings=[before.chosen] if before else [],
                    development=self.held[cell.reading]["development"], seed=self.config.seed,
                    start=before.state if before else None,
                )  # fmt: skip
                steps[NamedTask(f"The recipe {cell.name}", work)] = cell
        for ended in self.pool.map(steps):
            yield (steps[ended[0]], ended[1]) if ended else None
        for cell in left:  # for the others all workers sum over shards, one after the other
            if not isinstance(cell.fitter, AdamWFitter):
                yield cell, self._solve(cell, share)

    def _solve(self, cell: Trial, share: float) -> SearchResult:
        """Return a head at its optimum, its settings chosen on the development rows."""
        before, task, fitter = self.fits.get(cell.name), self._development(cell), cell.fitter
        shards, moments = self._shards(cell.reading, share), self.moments[cell.reading, share]
        if isinstance(fitter, ClosedFormFitter):
            settings = [before.chosen] if before else settings_of(fitter, moments.rows)
            states = [streaming.solve_closed_form(shards, moments, fitter, one) for one in settings]
            return _select_best(fitter, settings, states, task)
        assert isinstance(fitter, LinearFitter)
        fixed = dict(fitter.resolved.recipe.options).get("C")
        start, standardise, strengths = None, fitter.resolved.standardise is not False, [*STRENGTHS]
        if before:
            start, chosen = before.state, before.chosen
            standardise = bool(chosen["standardise"])
            strengths = [float(f"{float(chosen['C']) * factor:.4g}") for factor in AROUND]
        strengths = [float(fixed)] if fixed else strengths
        settings = [{"standardise": standardise, "C": C} for C in strengths]
        solve = partial(streaming.solve_linear, shards, moments, task.objective)
        best = _select_best(fitter, settings, solve(settings, fitter, start, SEARCHED), task)
        # Only the chosen one is taken to its optimum.
        return _select_best(fitter, [best.chosen], solve([best.chosen], fitter, best.state), task)

    # --- Which recipes go on, and the comparison in the end.

    def _select(self, keep: int, share: float, seconds: float) -> list[Trial]:
        """Return the recipes that go on: of those not surely behind, the best so many."""
        cells = [cell for cell in self.left if cell.name in self.fits]
        points = {cell.name: self.fits[cell.name].point for cell in cells}
        scores, stopped = {name: point.score for name, point in points.items()}, dict[str, str]()
        if share < 1:
            parts = [point.parts for point in points.values() if point.parts is not None]
            keys = _number_keys(self._first["development"].keys)
            stopped = {
                one.recipe: f"{one.behind:.2%} behind the leader, by {one.least:.2%} at least"
                for one in eliminated(list(points), torch.stack(parts, dim=1), keys)
            }
            ranked = sorted((n for n in scores if n not in stopped), key=lambda n: -scores[n])
            stopped |= dict.fromkeys(ranked[keep:], f"not among the best {keep} of those left")
        self.rungs.append(Rung(rows=self.learned, scores=scores, stopped=stopped, seconds=seconds))
        return [cell for cell in cells if cell.name not in stopped]

    def compare(self, seconds: float) -> ShardedComparison:
        """Return the comparison of the heads that are left on the test rows."""
        test, development = self._first["test"], self._first["development"]
        task = self._evaluation(ShardRows.concatenate([test, development]))
        every = torch.arange(len(task.targets))
        asked, held = every[: len(test)], every[len(test) :]
        predictions, cells = list[CellPredictions](), list[FittedCell]()
        for trial in self.left:
            name, chosen, module = trial.name, self.fits[trial.name].chosen, self._build(trial)
            logits = self._logits(trial, module, "development")
            predicted = CellPredictions(
                name=name, rows=(asked,), held=(logits, held),
                logits=(self._logits(trial, module, "test"),),
                is_random=trial.fitter.is_random,  # trained once: its luck is not known
            )  # fmt: skip
            predictions.append(predicted)
            measures = measure(predicted, task)
            scores = Scores(
                rows=measures.rows, accuracy=measures.score, low=measures.low, high=measures.high,
                majority=float(test.targets.bincount().max()) / len(test), metric=measures.metric,
                among=len(self.cells),
            )  # fmt: skip
            head = TrainedHead(
                recipe=module.reader.resolved.recipe, model=self.backbone.id,
                classes=self.classes, problem=SINGLE_LABEL, paired=bool(self.shards.pair),
                temperature=temperature(logits, development.targets, SINGLE_LABEL),
                trained_on=self.shards.source.name, rows=self.learned, scores=scores,
                training=asdict(self.config), trained_as=trial.resolved, module=module,
                chosen=dict(chosen),
            )  # fmt: skip
            facts = {"measures": measures, "chosen": chosen, "parameters": trial.parameters}
            cells.append(FittedCell(name=name, head=head, **facts))
        compared = compare(predictions, task, reference=self.left[0].name)
        to_best = {difference.name: difference for difference in compared.to_best}
        cells = [replace(cell, to_best=to_best.get(cell.name)) for cell in cells]
        cells.sort(key=lambda cell: (cell.name != compared.best, -cell.measures.score))
        return ShardedComparison(
            data=self.shards.source.name,
            rows={"train": self.learned, "development": len(development), "test": len(test)},
            classes=self.classes, label=self.options.label, rungs=tuple(self.rungs),
            cells=tuple(cells), failed=dict(self.failed), model=self.backbone.id, seconds=seconds,
            backbone=self.backbone,
        )  # fmt: skip

    @torch.no_grad()
    def _logits(self, trial: Trial, module: RecipeModule, subset: Subset) -> Tensor:
        """Return the logits of held-out rows, for the softmax."""
        vectors = self.held[trial.reading][subset].vectors
        logits = torch.cat([module.head(some) for some in vectors.split(4_096)])
        return SINGLE_LABEL.learned_by(trial.resolved.loss).competing(logits)

    def _build(self, trial: Trial) -> RecipeModule:
        known, fit = trial.resolved.head.options, self.fits[trial.name]
        options = {name: value for name, value in fit.chosen.items() if name in known}
        recipe = with_options(trial.resolved, options)
        with IsolatedRng().rolling():
            module = RecipeModule(recipe, self.backbone, len(self.classes))
        module.head.load_state_dict(dict(fit.state or {}))
        return module.eval().requires_grad_(False)


def _number_keys(keys: Any) -> Tensor:
    """Return whole numbers from 0 for keys (n,), equal ones for equal keys."""
    return torch.from_numpy(np.unique(keys, return_inverse=True)[1].astype(np.int64))


def _select_best(
    fitter: LinearFitter | ClosedFormFitter,
    settings: Sequence[Chosen],
    states: Sequence[State],
    task: TrainingTask,
) -> SearchResult:
    """Return the settings that are best on the development rows, with their logits and tensors."""
    rows, points, logits = torch.arange(len(task.targets)), [], []
    for chosen, state in zip(settings, states, strict=True):
        if isinstance(fitter, ClosedFormFitter):
            chain = fitter.chain(task.classes, chosen)
        else:
            with IsolatedRng().rolling():
                chain = fitter.resolved.chain(task.vectors.shape[1], task.classes)
        chain.load_state_dict(dict(state))
        logits.append(chain_logits(chain, task, rows))
        points.append(score_settings(chosen, 0, logits[-1], task, rows))
    top = select_one_se(points, task)
    best = points.index(top)
    return SearchResult(chosen=top.settings, point=top, held=logits[best], state=states[best])
