"""How often the verdict is wrong about heads whose truth is known: `python -m studies.verdicts`.

Sixteen heads that are equally good are compared many times (`simulation.py`): a run is wrong where
any of them is told apart from the reference, or from the best; and the reference's own interval
should hold its truth. Then one of them is made two points better: how often is that found? And of
frozen heads beside tuned ones, whose scores scatter far more: how often are two frozen ones told
apart, and how often a tuned one from any other? The tables of docs/training.md are written anew,
with the commit that they were made of (`--runs N`; `--only heads,tuned`; `--dry` only prints).
"""

import argparse
import math
import subprocess
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import product
from pathlib import Path

import torch

from benchmarks.reports import replace_region
from heads.evaluation.intervals import score_intervals
from heads.evaluation.metrics import SCORES, MetricName
from heads.evaluation.predictions import Answers, EvaluationTask
from heads.evaluation.significance import compare
from studies.simulation import (
    EACH,
    HARD,
    RIGHT,
    SMALL,
    Design,
    drawn_of_classes,
    drawn_of_small_classes,
    simulated,
)

PAGE = Path(__file__).parents[1] / "docs" / "training.md"
HEADS, TUNED = "verdicts", "verdicts-tuned"  # the marks of the two tables
CELLS, BETTER = 16, 0.02
QUIET, NOISY = 0.003, 0.02  # the deviation of a head's score from training to training
DESIGNS = (
    Design(rows=500, seeds=3),
    Design(rows=500, seeds=5, repetitions=1),
    Design(rows=500, seeds=5, repetitions=3),
    Design(rows=3000, seeds=3),
    Design(rows=3000, seeds=5, repetitions=1),
)
MIXES = {
    "16 quiet": (QUIET,) * CELLS,
    "14 quiet, 2 noisy": (QUIET,) * (CELLS - 2) + (NOISY,) * 2,
    "mixed": tuple(QUIET * 2 ** (number % 4 - 1) for number in range(CELLS)),
}
BY_CLASSES: tuple[MetricName, ...] = ("macro_f1", "mcc", "balanced_accuracy")
OF_FEW = (
    Design(rows=SMALL * EACH, seeds=1),
    Design(rows=SMALL * EACH, seeds=3),
    Design(rows=SMALL * EACH, seeds=5, repetitions=1),
)
OF_SMALL: tuple[MetricName, ...] = ("balanced_accuracy", "macro_f1")
LEARNED = {  # how many heads are frozen, and the luck of those that are tuned
    "8 frozen, 4 tuned": (8, (0.01,) * 4),
    "8 frozen, 4 tuned that scatter wildly": (8, (0.03,) * 4),
    "1 frozen, 4 tuned": (1, (0.01,) * 4),
    "1 frozen, 4 tuned that scatter wildly": (1, (0.03,) * 4),
}
OF_TUNED = (
    Design(rows=500, seeds=5),
    Design(rows=2000, seeds=5),
    Design(rows=500, seeds=5, repetitions=1),
)
HEAD_OF_TUNED = (
    "| heads | rows tested | false of the frozen | of pairs with a tuned one | five points found |",
    "|---|---|---|---|---|",
)
FIVE = 0.05
HEAD = (
    "| heads | rows tested | false against the reference | against the best | intervals that hold "
    "| two points found |",
    "|---|---|---|---|---|---|",
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Rates:
    """Shares of runs.

    Attributes:
        to_reference: In which a head was falsely told apart from the reference.
        to_best: The same from the best.
        held: In which the reference's own interval held its truth.
        found: In which a head that is two points better was told apart from the reference.
    """

    to_reference: float
    to_best: float
    held: float
    found: float


def wrong(
    heads: Sequence[Answers], task: EvaluationTask, truth: float, seed: int
) -> tuple[bool, bool, bool]:
    """Whether a head is told apart from the first, or from the best, and the interval holds."""
    found = compare(heads, task, reference=heads[0].name, seed=seed)
    low, high = score_intervals(heads, task)[0]
    families = (found.to_reference, found.to_best)
    first, second = (any(d.differs for d in family) for family in families)
    return first, second, low <= truth <= high


def rates(design: Design, luck: Sequence[float], runs: int) -> Rates:
    """What many simulated runs come to."""
    none, some = [0.0] * len(luck), [0.0, BETTER, *[0.0] * (len(luck) - 2)]
    told, found = [], []
    for run in range(runs):
        told.append(wrong(*simulated(design, none, luck, _dice(run)), RIGHT, run))
    for run in range(runs // 4):
        heads, task = simulated(design, some, luck, _dice(runs + run))
        found.append(compare(heads, task, reference="head 0", seed=run).to_reference[0].differs)
    shares = [sum(column) / runs for column in zip(*told, strict=True)]
    return Rates(
        to_reference=shares[0],
        to_best=shares[1],
        held=shares[2],
        found=sum(found) / max(1, len(found)),
    )


def rates_by(metric: MetricName, design: Design, runs: int) -> Rates:
    """The same of four classes of unlike size, by a metric that is no mean of rows."""
    told = []
    for run in range(runs):
        heads, task, truth = drawn_of_classes(design, CELLS, metric, _dice(run))
        told.append(wrong(heads, task, truth, run))
    shares = [sum(column) / runs for column in zip(*told, strict=True)]
    return Rates(to_reference=shares[0], to_best=shares[1], held=shares[2], found=math.nan)


def rates_of_small(metric: MetricName, design: Design, runs: int, *, even: bool) -> Rates:
    """The same of a hundred classes of three rows, by a metric to which all count alike.

    What macro-F1 comes to on so few rows hangs on their number: whether intervals hold is asked
    for the mean recall alone.
    """
    told = []
    for run in range(runs):
        heads, task = drawn_of_small_classes(
            design, CELLS, metric, _dice(run), even=even, luck=QUIET * (design.seeds > 1)
        )
        told.append(wrong(heads, task, 1 - HARD, run))
    shares = [sum(column) / runs for column in zip(*told, strict=True)]
    held = shares[2] if metric == "balanced_accuracy" else math.nan
    return Rates(to_reference=shares[0], to_best=shares[1], held=held, found=math.nan)


def rates_of_tuned(design: Design, frozen: int, luck: Sequence[float], runs: int) -> list[float]:
    """Shares of runs with a false difference of frozen heads, and of pairs with a tuned one.

    The third is that of runs in which a tuned head that is five points better than the reference
    is told apart from it.
    """
    every = [*(QUIET,) * frozen, *luck]
    tuned = [f"head {number}" for number in range(frozen, len(every))]
    told = list[tuple[bool, bool]]()
    for run in range(runs):
        heads, task = simulated(design, [0.0] * len(every), every, _dice(run))
        found = compare(heads, task, reference="head 0", tuned=tuned, seed=run)
        assert found.frozen
        pairs = {d for d in (*found.to_reference, *found.to_best) if d.differs}
        pairs |= {d for d in (*found.frozen.to_reference, *found.frozen.to_best) if d.differs}
        mixed = {d for d in pairs if d.name in tuned or d.other in tuned}
        told.append((bool(pairs - mixed), bool(mixed)))
    gains, better = [0.0] * (len(every) - 1) + [FIVE], list[bool]()
    for run in range(runs, runs + runs // 4):
        heads, task = simulated(design, gains, every, _dice(run))
        own = compare(heads, task, reference="head 0", tuned=tuned, seed=run).to_reference
        better += [d.differs for d in own if d.name == tuned[-1]]
    shares = [sum(column) / runs for column in zip(*told, strict=True)]
    return [*shares, sum(better) / max(1, len(better))]


def _dice(number: int) -> torch.Generator:
    return torch.Generator().manual_seed(number)


def row(heads: str, design: Design, found: Rates) -> str:
    """A line of the table."""
    shares = (found.to_reference, found.to_best, found.held, found.found)
    told = ["" if math.isnan(share) else f"{100 * share:.1f} %" for share in shares]
    return f"| {heads} | {design} | {' | '.join(told)} |"


def main() -> None:
    """Simulates, and writes the table into the page."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--runs", type=int, default=400)
    parser.add_argument("--only", default="heads,tuned", help="which of the two tables")
    parser.add_argument("--dry", action="store_true", help="print the tables and leave the page")
    asked = parser.parse_args()
    torch.set_num_threads(1)
    made = {"heads": (HEADS, of_heads), "tuned": (TUNED, of_tuned)}
    for name in asked.only.split(","):
        mark, lines_of = made[name]
        lines = list[str]()
        for line in lines_of(asked.runs):
            print(line, flush=True)
            lines.append(line)
        if not asked.dry:
            write(mark, lines, f"{asked.runs:,} runs a line", f" --only {name}")


def of_heads(runs: int) -> Iterator[str]:
    """The table of heads that are all learned on the frozen base model, line by line."""
    yield from HEAD
    for name, luck in MIXES.items():
        for design in DESIGNS:
            yield row(name, design, rates(design, luck, runs))
    for metric in BY_CLASSES:
        for design in (Design(rows=500, seeds=3), Design(rows=500, seeds=5, repetitions=1)):
            found = rates_by(metric, design, runs)
            yield row(f"16 quiet, by {SCORES[metric].noun}", design, found)
    for metric in OF_SMALL:
        for even, design in product((True, False), OF_FEW):
            found = rates_of_small(metric, design, runs, even=even)
            classes = f"{EACH} rows of each of {SMALL} classes" if even else f"{SMALL} classes"
            own = "solved" if design.seeds == 1 else "quiet"
            yield row(f"16 {own}, {classes}, by {SCORES[metric].noun}", design, found)


def of_tuned(runs: int) -> Iterator[str]:
    """The table of heads some of which are tuned, line by line."""
    yield from HEAD_OF_TUNED
    for (name, (frozen, luck)), design in product(LEARNED.items(), OF_TUNED):
        shares = rates_of_tuned(design, frozen, luck, runs)
        told = [f"{100 * share:.1f} %" for share in shares]
        yield f"| {name} | {design} | {' | '.join(told)} |"


def write(mark: str, lines: Sequence[str], runs: str, flags: str) -> None:
    """Puts a table between its marks."""
    command = ["git", "rev-parse", "--short", "HEAD"]
    commit = subprocess.check_output(command, text=True, cwd=PAGE.parent).strip()
    told = f"Made by `python -m studies.verdicts{flags}` of {commit}, {runs}:"
    page = replace_region(PAGE.read_text("utf-8"), "\n".join([told, "", *lines, ""]), mark)
    assert page is not None
    PAGE.write_text(page, "utf-8")


if __name__ == "__main__":
    main()
