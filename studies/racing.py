"""How often a race stops the cell that would have won, and what it saves.

``python -m studies.racing DATA…``, where DATA are folders with train.csv and test.csv. For each,
a whole grid is trained without a race, and what its cells came to on the development rows and on
the tested rows is kept (with ``--keep FOLDER``, for the next time). Then the race is replayed:

* as it would have gone on these development rows;
* on development rows drawn from them with replacement (whose luck comes on top of that of the
  rows themselves, so this is the harder test);
* on as many rows drawn from the tested rows, of which it is known who is the best there.

The winner is the cell with the highest mean score on the tested rows. Its regret is its score
less that of the best cell that goes on. Time is that of one core: searching all cells and
learning those that go on, over searching and learning all. Last, cells that are equally good on
every row: how many of them a race stops.
"""

import argparse
import time
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory

import torch
from torch import Tensor

from benchmarks import stored
from benchmarks.stored import Cell, Table, figure
from heads.api import read
from heads.backbone.backbone import Backbone
from heads.backbone.loading import load
from heads.evaluation.predictions import parts as of_rows
from heads.features.store import FeatureStore
from heads.runs import spec as question
from heads.runs.features import run_features
from heads.runs.folder import RunFolder
from heads.runs.notes import reference_of
from heads.runs.runner import begin, cells_of
from heads.runs.spec import RunRequest, RunSpec
from heads.settings import ExperimentConfig
from heads.training.events import SearchFinished, TrialResult
from heads.training.racing import eliminated
from heads.training.scheduler import Job, Tell, TrainingData, run_trials
from heads.training.search import fit_job, search_job
from heads.training.task import TrainingTask
from heads.training.trial import Trial

COLUMNS = (
    "data", "development rows", "races", "winner stopped", "mean regret, points", "at most",
    "cells that go on", "share of the time",
)  # fmt: skip
EQUAL = (8, 64)  # cells that are equally good


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Whole:
    """A grid without a race: k cells, m development rows, n tested rows, s seeds.

    Attributes:
        data: The name of the data.
        names: Of the cells.
        parts: (m, k), each development row's part of the score at the settings chosen.
        texts: (m,), equal numbers for equal texts.
        tested: (s, n, k), the same of the tested rows.
        search: (k,), seconds of the search, of the thread that did it.
        learn: (k,), seconds of learning with every seed.
    """

    data: str
    names: list[str]
    parts: Tensor
    texts: Tensor
    tested: Tensor
    search: Tensor
    learn: Tensor

    @property
    def scores(self) -> Tensor:
        """(k,), the mean score on the tested rows."""
        return self.tested.double().mean(dim=(0, 1))


@dataclass(frozen=True, slots=True, kw_only=True)
class Ended:
    """How one race ended.

    Attributes:
        lost: Whether the winner was stopped.
        regret: The winner's score less that of the best cell that goes on, in points.
        kept: How many cells go on.
        share: The time that it takes, as a share of that of the whole grid.
    """

    lost: bool
    regret: float
    kept: int
    share: float


def main() -> None:
    """Replays the race on the data that are named."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("data", nargs="+", type=Path)
    parser.add_argument("--grid", default="full")
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--replays", type=int, default=1000)
    parser.add_argument("--keep", type=Path, help="a folder for what whole grids came to")
    asked = stored.parse_arguments(parser)
    replays = 20 if asked.quick else asked.replays
    with stored.some_of(asked.data, quick=asked.quick) as folders:
        rows = [row for folder in folders for row in told(_whole(folder, asked), replays)]
        tables = [Table(title="", columns=COLUMNS, rows=rows)]
        command = (
            f"python -m studies.racing DATA… --grid {asked.grid} --seeds {asked.seeds} "
            f"--replays {replays}"
        )
        stored.publish("race", tables, asked, command=command, data=folders)


def _whole(folder: Path, asked: argparse.Namespace) -> Whole:
    """What a whole grid came to, now or before."""
    kept = None
    if asked.keep and not asked.quick:
        kept = asked.keep / f"{folder.name}-{asked.grid}-{asked.seeds}.pt"
    if kept and kept.is_file():
        return Whole(**torch.load(kept, weights_only=True))
    whole = gathered(folder, asked.grid, asked.seeds)
    if kept:
        kept.parent.mkdir(parents=True, exist_ok=True)
        torch.save({name: getattr(whole, name) for name in Whole.__slots__}, kept)
    return whole


def told(whole: Whole, replays: int) -> list[list[Cell]]:
    """Prints how races on one data set end; the rows of the table."""
    scores, (rows, cells) = whole.scores, whole.parts.shape
    winner, reference = int(scores.argmax()), whole.names.index(reference_of(whole.names))
    print(
        f"\n{whole.data}: {cells} cells, {rows:,} development rows, {whole.tested.shape[1]:,} "
        f"tested; {whole.names[winner]} wins with {scores[winner]:.4f} "
        f"({whole.names[reference]} {scores[reference]:.4f}); search {whole.search.sum():.0f} s, "
        f"learning {whole.learn.sum():.0f} s"
    )
    rows = [[whole.data, *summed("as it went", [ended(whole, whole.parts, whole.texts)])]]
    rng = torch.Generator().manual_seed(0)
    for name, draw in (("development rows drawn again", again), ("tested rows", from_tested)):
        races = [ended(whole, *draw(whole, rng)) for _ in range(replays)]
        rows.append([whole.data, *summed(name, races)])
    for equal in EQUAL:
        out = [len(nobody_better(whole, equal, rng)) / equal for _ in range(max(1, replays // 5))]
        share = sum(out) / len(out)
        print(f"  {equal} equally good cells: each is stopped in {share:.2%} of {len(out)} races")
    return rows


def summed(name: str, races: list[Ended]) -> list[Cell]:
    """Prints what races have in common; as cells of a table."""
    count = len(races)
    lost, kept = sum(one.lost for one in races), sum(one.kept for one in races) / count
    regrets = torch.tensor([one.regret for one in races])
    print(
        f"  {name:30} {count:5} races: winner stopped {lost / count:6.1%}; regret "
        f"{regrets.mean():.3f} points, at most {regrets.max():.2f}; {kept:.1f} cells go on; "
        f"{sum(one.share for one in races) / count:.2f} of the time"
    )
    return [
        name,
        figure(count, 0),
        figure(lost / count, 1, "%"),
        figure(float(regrets.mean()), 3),
        figure(float(regrets.max()), 2),
        figure(kept, 1),
        figure(sum(one.share for one in races) / count, 2),
    ]


def ended(whole: Whole, parts: Tensor, texts: Tensor) -> Ended:
    """Replays the race on these development rows."""
    out = eliminated(whole.names, parts, texts, always=[reference_of(whole.names)])
    stopped = {one.recipe for one in out}
    on = torch.tensor([name not in stopped for name in whole.names])
    scores = whole.scores
    winner, spent = int(scores.argmax()), whole.search.sum() + whole.learn[on].sum()
    return Ended(
        lost=not bool(on[winner]),
        regret=100 * float(scores[winner] - scores[on].max()),
        kept=int(on.sum()),
        share=float(spent / (whole.search.sum() + whole.learn.sum())),
    )


def again(whole: Whole, rng: torch.Generator) -> tuple[Tensor, Tensor]:
    """The development rows, drawn with replacement; a row drawn twice is two pieces of evidence."""
    rows = len(whole.parts)
    return whole.parts[torch.randint(rows, (rows,), generator=rng)], torch.arange(rows)


def from_tested(whole: Whole, rng: torch.Generator) -> tuple[Tensor, Tensor]:
    """As many rows drawn from the tested ones, as the heads of one seed answered them."""
    (seeds, tested, _), rows = whole.tested.shape, len(whole.parts)
    seed = int(torch.randint(seeds, (1,), generator=rng))
    drawn = torch.randint(tested, (rows,), generator=rng)
    return whole.tested[seed][drawn], torch.arange(rows)


def nobody_better(whole: Whole, cells: int, rng: torch.Generator) -> tuple[str, ...]:
    """Who is stopped of cells that are right on a row with the same chance: that of the row."""
    chance = whole.parts.float().mean(dim=1, keepdim=True).clamp(0, 1).expand(-1, cells)
    parts = torch.bernoulli(chance, generator=rng)
    names = [str(number) for number in range(cells)]
    return tuple(one.recipe for one in eliminated(names, parts, torch.arange(len(parts))))


def gathered(folder: Path, grid: str, seeds: int) -> Whole:
    """Trains a whole grid and gathers what its cells came to."""
    data, test = read(folder / "train.csv"), read(folder / "test.csv")
    config = ExperimentConfig(seeds=seeds, precision="exact")
    asked_for = RunRequest(data=data, test=test, grid=grid, config=config)
    with TemporaryDirectory() as place:
        run = begin(asked_for, out=Path(place) / "run")
        asked, backbone = question.load(run), load()
        trials = cells_of(asked, backbone)
        features = _read(run, asked, trials, backbone)
    training_data = TrainingData(
        read=features, task=asked.task, splits=asked.splits, config=asked.config
    )
    workers, found = max(1, torch.get_num_threads()), dict[str, _Both]()
    for event in run_trials(
        [_both(trial, training_data) for trial in trials], training_data, workers
    ):
        if isinstance(event, _Both):
            found[event.result.trial.name] = event
            print(f"\r{folder.name}: {len(found)} of {len(trials)}", end="", flush=True)
    cells = [found[name] for name in asked.recipes if name in found]
    return Whole(
        data=folder.name,
        names=[one.result.trial.name for one in cells],
        parts=torch.stack([one.searched.parts for one in cells], dim=1),
        texts=training_data.task.groups[torch.cat(training_data.splits.development)],
        tested=torch.stack([_tested(one.result, training_data) for one in cells], dim=2),
        search=torch.tensor([one.seconds[0] for one in cells]),
        learn=torch.tensor([one.seconds[1] for one in cells]),
    )


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class _Both:
    """A cell that was searched and learned, and the thread's own seconds of each."""

    searched: SearchFinished
    result: TrialResult
    seconds: tuple[float, float]


def _both(trial: Trial, training_data: TrainingData) -> Job:
    first = search_job(trial, training_data)

    def work(training_task: TrainingTask, tell: Tell) -> _Both:
        times = [time.thread_time()]  # the machine may be shared
        searched = first.work(training_task, lambda event: None)
        assert isinstance(searched, SearchFinished)
        times.append(time.thread_time())
        result = fit_job(trial, training_data, searched).work(training_task, tell)
        assert isinstance(result, TrialResult)
        times.append(time.thread_time())
        return _Both(
            searched=searched,
            result=result,
            seconds=(times[1] - times[0], times[2] - times[1]),
        )

    return Job(name=first.name, reading=first.reading, work=work, cost=first.cost)


def _read(run: RunFolder, asked: RunSpec, trials: list[Trial], backbone: Backbone) -> FeatureStore:
    reading = run_features(run, asked, trials, backbone)
    while True:
        try:
            next(reading)
        except StopIteration as end:
            return end.value


def _tested(result: TrialResult, training_data: TrainingData) -> Tensor:
    """(s, n), each tested row's part of the score in each seed."""
    return torch.stack([part.float() for part in of_rows(result.outcome, training_data.task)])


if __name__ == "__main__":
    main()
