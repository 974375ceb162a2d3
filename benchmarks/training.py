"""A whole grid of heads against passes of the base model over the same rows.

``python -m benchmarks --only grid``. In every round, in turn: the loop that everybody writes,
heads' own exact reading of all eight readings, its reading as the setting `auto` has it, and
the training of 8 × 8 heads with 5 seeds on what that gave, nothing kept from before; and one head
of SetFit and of sentence-transformers, which read the texts for every head. Training is
all of it: search, every seed, the head for the temperature, the answers to the tested rows. It is
done in the order of a race, those first whom a race leaves in it: so one round tells what the
whole takes, what it takes with a race, and what learning takes where settings are known.
"""

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from statistics import fmean
from tempfile import TemporaryDirectory

import torch

from benchmarks.encoding import naive
from benchmarks.peers import SENTENCE, SETFIT, peer
from benchmarks.reports import Row, compared, measured
from benchmarks.rounds import Answer, CannotSayError
from benchmarks.timing import fresh_cache, seconds_of
from heads.api import read
from heads.backbone.backbone import Backbone
from heads.backbone.device import products
from heads.backbone.loading import load
from heads.features.extraction import extract
from heads.features.store import FeatureMatrices, FeatureStore
from heads.runs import spec as question
from heads.runs.grids import recipes_of
from heads.runs.racing import behind
from heads.runs.runner import begin
from heads.runs.spec import RunRequest, RunSpec
from heads.settings import ExperimentConfig
from heads.training.events import SearchFinished
from heads.training.scheduler import Job, TrainingData, run_trials
from heads.training.search import fit_job, search_job
from heads.training.trial import trials

SEEDS = 5


@dataclass(frozen=True, slots=True, kw_only=True)
class Trained:
    """A grid that was trained.

    Attributes:
        search: Seconds in which the settings of every cell were chosen.
        left: Seconds in which those learned whom a race leaves in it.
        stopped: Seconds in which the others did.
        cpu_seconds: Of all cores, for all of it.
    """

    search: float
    left: float
    stopped: float
    cpu_seconds: float
    cells: int

    @property
    def learning(self) -> float:
        """Seconds of learning, where settings are known."""
        return self.left + self.stopped

    @property
    def raced(self) -> float:
        """Seconds of a run with a race."""
        return self.search + self.left

    @property
    def seconds(self) -> float:
        """Of everything."""
        return self.search + self.learning


def main(data: Path, rounds: int) -> list[Row]:
    """Time one grid on banking77 against the passes of the same round."""
    folder, backbone = data / "banking77", load()
    loop, exact, reading, trained = list[float](), list[float](), list[float](), list[Trained]()
    asked, peers = asked_of(folder), peers_of(folder)
    apart: dict[str, list[float]] = {name: [] for name in peers}
    for number in range(rounds):
        loop.append(seconds_of(lambda: naive(asked.corpus.texts, backbone, asked.corpus.pairs)))
        exact.append(features(asked, backbone, "exact").seconds)
        found = features(asked, backbone, asked.config.precision)
        reading.append(found.seconds)
        trained.append(train(asked, found, backbone))
        told = f"naive {loop[-1]:.1f}, exact {exact[-1]:.1f}, {found.precision} {reading[-1]:.1f}"
        for name, ask in peers.items():
            apart[name].append(ask()["seconds"])
            told += f", {name} {apart[name][-1]:.1f}"
        print(f"  round {number + 1}: {told}, training {trained[-1].seconds:.1f} s", flush=True)
    both = [one + other.seconds for one, other in zip(reading, trained, strict=True)]
    rows, cells = len(asked.corpus), trained[0].cells
    what = f"{cells * SEEDS} heads on {folder.name}"
    kind = str(products(asked.config.precision)).removeprefix("torch.")
    note = f"{rows:,} rows; {torch.get_num_threads()} cores, products in {kind}"
    cpu = [one.cpu_seconds for one in trained]
    parts = {
        "training": [one.seconds for one in trained],
        "training with a race": [one.raced for one in trained],
        "learning alone": [one.learning for one in trained],
    }
    targets = {"training": 1.0, "training with a race": 2.0}
    return [
        *(
            compared(
                f"{what}, {part}", seconds, "one exact pass, 8 readings", exact,
                note=note, target=targets.get(part),
            )
            for part, seconds in parts.items()
        ),
        compared(
            f"{what}, reading and training", both, "one naive pass", loop, note=note, target=1.25
        ),
        measured(f"{what}, training, processor seconds", cpu, note=note),
        *one_by_one(what, cells * SEEDS, reading, trained, apart),
    ]  # fmt: skip


def peers_of(folder: Path) -> dict[str, Callable[[], Answer]]:
    """The peers that train one head a run, as far as they can be installed here."""
    files = {name: str(folder / f"{name}.csv") for name in ("train", "test")}
    found = dict[str, Callable[[], Answer]]()
    for name in (SETFIT, SENTENCE):
        try:
            found[name] = peer(name, files, search=False)
        except CannotSayError as error:
            print(f"  {name}: {error}", flush=True)
    return found


def one_by_one(
    what: str,
    heads: int,
    reading: Sequence[float],
    trained: Sequence[Trained],
    apart: Mapping[str, Sequence[float]],
) -> Iterator[Row]:
    """The grid with its reading against as many runs of a peer; one of them is measured."""
    ways = {
        "reading and training": [one.seconds for one in trained],
        "reading, training with a race": [one.raced for one in trained],
    }
    for name, seconds in apart.items():
        note = f"one run takes {fmean(seconds):.1f} s; {heads} are taken to take {heads} times that"
        for way, training in ways.items():
            yield compared(
                f"{what}, {way}",
                [sum(both) for both in zip(reading, training, strict=True)],
                f"{heads} runs of {name}",
                [heads * one for one in seconds],
                note=note,
                target=300 if name == SETFIT else None,
                drawn=way == "reading and training",
            )


def asked_of(folder: Path) -> RunSpec:
    """The full grid on a data set with a test set, as a run would ask it."""
    data, test = read(folder / "train.csv"), read(folder / "test.csv")
    whole = RunRequest(data=data, test=test, grid="full", config=ExperimentConfig(seeds=SEEDS))
    with TemporaryDirectory() as place:
        return question.load(begin(whole, out=Path(place) / "run"))


def features(asked: RunSpec, backbone: Backbone, precision: str) -> FeatureMatrices:
    """All readings of the grid in one pass over all rows, none of them known from before."""
    recipes = recipes_of("full", backbone)
    recipes = list({resolved.reading: resolved for resolved in recipes}.values())
    corpus = asked.corpus
    with fresh_cache():
        *_, found = extract(recipes, corpus.texts, corpus.pairs, backbone, precision)
        assert isinstance(found, FeatureMatrices)
        kept = {name: ({"vectors": found.matrix(name)},) for name in found.parts}
    return replace(found, parts=kept)


def train(asked: RunSpec, found: FeatureMatrices, backbone: Backbone) -> Trained:
    """Every cell of the grid, as a run trains it without a race."""
    training_data = TrainingData(
        read=FeatureStore(joint=found, alone=None, siamese={}),
        task=asked.task,
        splits=asked.splits,
        config=asked.config,
        products=products(asked.config.precision),
    )
    cells = trials(asked.resolved, backbone, len(asked.corpus.classes))
    searched, times = dict[str, SearchFinished](), list[float]()
    used = time.process_time()

    def done(jobs: list[Job]) -> None:
        begun = time.perf_counter()
        for event in run_trials(jobs, training_data, torch.get_num_threads()):
            if isinstance(event, SearchFinished):
                searched[event.name] = event
        times.append(time.perf_counter() - begun)

    done([search_job(trial, training_data) for trial in cells])
    out = {one.recipe for one in behind(searched, training_data)}
    for is_out in (False, True):
        part = [trial for trial in cells if (trial.name in out) is is_out]
        done([fit_job(trial, training_data, searched[trial.name]) for trial in part])
    search, left, others = times
    return Trained(
        search=search,
        left=left,
        stopped=others,
        cpu_seconds=time.process_time() - used,
        cells=len(cells),
    )
