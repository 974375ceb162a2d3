"""Whether verdicts survive a repetition: `python -m studies.repetition FOLDER…`.

Parts, each from texts to verdict by the product's own functions, on data with a test set:

- `same`: four copies of one recipe (hidden layers of 253, 255, 256 and 257 numbers) are compared on
  rows drawn anew again and again. None differs from another, so every "differs" is false; and the
  interval of a cell should hold what the recipe comes to on average over all draws.
- `patience`: dense heads once more, given four times as long before they count as converged, and
  four times the cap. A head that was stopped too early gains.
- `steps`: dense heads once more, made to take four times the steps that they took, whatever their
  development loss says. A head that was stopped too early gains, one that can overfit loses.

A row of a table for every data set and size goes to standard output as it is done.
"""

import argparse
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from statistics import fmean

import torch
from torch import Tensor

import heads
from heads.backbone.backbone import Backbone
from heads.backbone.device import products
from heads.backbone.loading import load
from heads.backbone.models import BUNDLED
from heads.data.splits import split
from heads.evaluation.intervals import score_intervals
from heads.evaluation.predictions import CellPredictions, EvaluationTask
from heads.evaluation.significance import compare
from heads.features.extraction import extract
from heads.features.store import FeatureMatrices, FeatureStore
from heads.parts.resolve import resolve
from heads.runs.grids import recipes_of
from heads.settings import ExperimentConfig
from heads.training.events import SearchFinished, TrialResult
from heads.training.fitters import successive_halving
from heads.training.fitters.base import SearchResult
from heads.training.scheduler import Job, TrainingData, run_trials
from heads.training.search import learn, prepare_task, search_job, seeds_of, trial_job
from heads.training.trial import Trial, trials

COPIES = ("mean+mlp?hidden=253", "mean+mlp?hidden=255", "mean+mlp", "mean+mlp?hidden=257")
TESTED = 500  # rows that are scored in each draw
TIMES = 4  # as long

AllFound = Mapping[str, Sequence[SearchResult]]  # by the name of the cell: what each seed has found
Longer = Callable[[Sequence[Trial], TrainingData, AllFound], AllFound]


@dataclass(frozen=True, kw_only=True, eq=False)
class Data:
    """A data set, read once.

    Attributes:
        name: Its folder's.
        features: Of the rows to learn from and then of those of the test.
        targets: (n,), their classes.
        classes: The names of those.
        learned: How many rows there are to learn from.
    """

    name: str
    features: FeatureMatrices
    targets: Tensor
    classes: tuple[str, ...]
    learned: int


def main() -> None:
    """Measures the parts that are named."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("data", type=Path, nargs="+", help="folders with train.csv and test.csv")
    parser.add_argument("--parts", default="same,patience,steps")
    parser.add_argument("--rows", type=int, nargs="*", default=[500, 1_000, 3_000])
    parser.add_argument("--draws", type=int, default=100)
    parser.add_argument("--seeds", type=int, default=0, help="0: 3 of the same, 5 of more steps")
    asked = parser.parse_args()
    backbone = load(BUNDLED)
    dense = [str(one) for one in recipes_of("small", backbone) if one.head.name != "linear"]
    if "same" in asked.parts:
        print("| data | rows | draws | against the reference | against the best | coverage |")
        print("|---|---|---|---|---|---|")
    for folder in asked.data:
        data = _read(folder, backbone, [*COPIES, *dense])
        for rows in asked.rows if "same" in asked.parts else ():
            print(same(data, backbone, rows, asked.draws, asked.seeds or 3), flush=True)
        for part, longer in (("patience", _patient), ("steps", _forced)):
            if part in asked.parts:
                for line in steps(data, backbone, dense, asked.seeds or 5, longer):
                    print(line, flush=True)


def _read(folder: Path, backbone: Backbone, recipes: Sequence[str]) -> Data:
    learned, scored = (heads.read(folder / f"{part}.csv").corpus for part in ("train", "test"))
    number = {name: place for place, name in enumerate(learned.classes)}
    targets = [one for (one,) in learned.targets]
    targets += [number[scored.classes[one]] for (one,) in scored.targets]
    fixed = list({resolved.reading: resolved for resolved in map(resolve, recipes)}.values())
    events = extract(fixed, (*learned.texts, *scored.texts), (), backbone, "auto")
    features = next(event for event in events if isinstance(event, FeatureMatrices))
    return Data(
        name=folder.name,
        features=features,
        targets=torch.tensor(targets),
        classes=learned.classes,
        learned=len(learned),
    )


def _training_data(
    data: Data, rows: Tensor, learned: int, config: ExperimentConfig
) -> TrainingData:
    """Some rows of the data, the first of which are to be learned from."""
    features = replace(data.features, index=data.features.index[rows])
    targets, groups = data.targets[rows], features.index.unique(return_inverse=True)[1]
    parts = ["train"] * learned + ["test"] * (len(rows) - learned)
    return TrainingData(
        read=FeatureStore(joint=features, alone=None, siamese={}),
        task=EvaluationTask(targets=targets, classes=data.classes, groups=groups),
        splits=split(targets, groups, parts, config),
        config=config,
        products=products("auto"),
    )


def same(data: Data, backbone: Backbone, rows: int, draws: int, seeds: int) -> str:
    """How often copies of one recipe are told apart, and how often an interval holds its mean."""
    begun, false, found = time.perf_counter(), [0, 0], list[tuple[float, float, float]]()
    cells = trials(list(map(resolve, COPIES)), backbone, len(data.classes))
    for draw in range(draws):
        rng = torch.Generator().manual_seed(draw)
        drawn = torch.randperm(len(data.targets), generator=rng)[: rows + TESTED]
        training_data = _training_data(
            data, drawn, rows, ExperimentConfig(seeds=seeds, seed=1_000 * draw)
        )
        outcomes = [
            one.outcome for one in _run([trial_job(c, training_data) for c in cells], training_data)
        ]
        outcomes.sort(key=lambda one: one.name)
        compared = compare(outcomes, training_data.task, reference=outcomes[0].name, seed=draw)
        for place, family in enumerate((compared.to_reference, compared.to_best)):
            false[place] += any(one.differs for one in family)
        intervals = score_intervals(outcomes, training_data.task)
        found += [
            (_score(outcome, training_data.task), *interval)
            for outcome, interval in zip(outcomes, intervals, strict=True)
        ]
        print(f"{data.name} {rows}: {draw + 1} draws, {false} false", file=sys.stderr, flush=True)
    mean = fmean(score for score, _, _ in found)
    held = fmean(low <= mean <= high for _, low, high in found)
    told = f"{time.perf_counter() - begun:.0f} s"
    print(f"{data.name} {rows}: {told}", file=sys.stderr, flush=True)
    shares = " | ".join(f"{100 * count / draws:.0f} %" for count in false)
    return f"| {data.name} | {rows:,} | {draws} | {shares} | {100 * held:.1f} % |"


def _run(jobs: Sequence[Job], training_data: TrainingData) -> Iterator[TrialResult]:
    workers = max(1, torch.get_num_threads())
    return (
        event
        for event in run_trials(jobs, training_data, workers)
        if isinstance(event, TrialResult)
    )


def _score(outcome: CellPredictions, task: EvaluationTask) -> float:
    pairs = zip(outcome.logits, outcome.rows, strict=True)
    return fmean(
        float((logits.argmax(dim=1) == task.targets[rows]).double().mean())
        for logits, rows in pairs
    )


def steps(
    data: Data, backbone: Backbone, recipes: Sequence[str], seeds: int, longer: Longer
) -> Iterator[str]:
    """What learning longer changes: a row a recipe, in points of accuracy with a standard error."""
    rows = torch.arange(len(data.targets))
    training_data = _training_data(data, rows, data.learned, ExperimentConfig(seeds=seeds))
    cells = trials(list(map(resolve, recipes)), backbone, len(data.classes))
    found = _searched(cells, training_data)
    more = longer(cells, training_data, found)
    for cell in cells:
        before, after = (_right(cell, training_data, one[cell.name]) for one in (found, more))
        gain = after - before
        error = float(gain.std()) / len(gain) ** 0.5
        scores = " | ".join(f"{100 * float(one.mean()):.2f}" for one in (before, after))
        gained = f"{100 * float(gain.mean()):+.2f} ± {100 * error:.2f}"
        yield f"| {data.name} | `{cell.name}` | {scores} | {gained} |"


def _searched(cells: Sequence[Trial], training_data: TrainingData) -> AllFound:
    jobs = [search_job(cell, training_data) for cell in cells]
    workers = max(1, torch.get_num_threads())
    events = run_trials(jobs, training_data, workers)
    return {one.name: list(one.found) for one in events if isinstance(one, SearchFinished)}


def _patient(cells: Sequence[Trial], training_data: TrainingData, found: AllFound) -> AllFound:
    """The whole search again, which waits `TIMES` as long."""
    names = ("PATIENCE", "CAP", "CAP_PASSES")
    before = {name: getattr(successive_halving, name) for name in names}
    try:
        for name, value in before.items():
            setattr(successive_halving, name, TIMES * value)
        return _searched(cells, training_data)
    finally:
        for name, value in before.items():
            setattr(successive_halving, name, value)


def _forced(cells: Sequence[Trial], training_data: TrainingData, found: AllFound) -> AllFound:
    """The same settings from the beginning, for `TIMES` as many steps."""
    return {name: [_with_more_steps(one) for one in own] for name, own in found.items()}


def _with_more_steps(found: SearchResult) -> SearchResult:
    epochs = TIMES * float(found.chosen["epochs"])
    return replace(found, chosen={**found.chosen, "epochs": epochs}, state=None)


def _right(cell: Trial, training_data: TrainingData, found: Sequence[SearchResult]) -> Tensor:
    """(n,), how often the heads of all seeds are right about each tested row, from 0 to 1."""
    task = training_data.training_task(cell.reading, threading.Event())
    task, splits = prepare_task(cell, task, training_data), training_data.splits
    learned = learn(cell, task, found, splits.train, splits.test, seeds_of(training_data))
    right = [
        (one.logits.argmax(dim=1) == training_data.task.targets[rows]).double()
        for one, rows in zip(learned, splits.test, strict=True)
    ]
    return torch.stack(right).mean(dim=0)


if __name__ == "__main__":
    main()
