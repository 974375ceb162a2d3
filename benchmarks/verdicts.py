"""How often the verdict is wrong about heads whose truth is known: `python -m benchmarks.verdicts`.

Sixteen heads that are equally good are compared many times (`simulated.py`): a run is wrong where
any of them is told apart from the reference, or from the best; and the reference's own interval
should hold its truth. Then one of them is made two points better: how often is that found? The
table of docs/training.md is written anew, with the commit that it was made of (`--runs N`;
`--dry` only prints).
"""

import argparse
import math
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import product
from pathlib import Path

import torch

from benchmarks.simulated import (
    EACH,
    HARD,
    RIGHT,
    SMALL,
    Design,
    drawn_of_classes,
    drawn_of_small_classes,
    simulated,
)
from heads.evaluation.details import score_interval
from heads.evaluation.metrics import SCORES, MetricName
from heads.evaluation.predictions import Answers, EvaluationTask
from heads.evaluation.significance import compare

PAGE = Path(__file__).parents[1] / "docs" / "training.md"
MARKS = "<!-- verdicts -->", "<!-- /verdicts -->"
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
    low, high = score_interval(heads[0], task)
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
    parser.add_argument("--dry", action="store_true", help="print the table and leave the page")
    asked = parser.parse_args()
    torch.set_num_threads(1)
    lines: list[str] = [*HEAD]
    for name, luck in MIXES.items():
        for design in DESIGNS:
            lines.append(row(name, design, rates(design, luck, asked.runs)))
            print(lines[-1], flush=True)
    for metric in BY_CLASSES:
        for design in (Design(rows=500, seeds=3), Design(rows=500, seeds=5, repetitions=1)):
            found = rates_by(metric, design, asked.runs)
            lines.append(row(f"16 quiet, by {SCORES[metric].noun}", design, found))
            print(lines[-1], flush=True)
    for metric in OF_SMALL:
        for even, design in product((True, False), OF_FEW):
            found = rates_of_small(metric, design, asked.runs, even=even)
            classes = f"{EACH} rows of each of {SMALL} classes" if even else f"{SMALL} classes"
            own = "solved" if design.seeds == 1 else "quiet"
            lines.append(row(f"16 {own}, {classes}, by {SCORES[metric].noun}", design, found))
            print(lines[-1], flush=True)
    if not asked.dry:
        write(lines, asked.runs)


def write(lines: Sequence[str], runs: int) -> None:
    """Puts the table between its marks."""
    command = ["git", "rev-parse", "--short", "HEAD"]
    commit = subprocess.check_output(command, text=True, cwd=PAGE.parent).strip()
    told = f"Made by `python -m benchmarks.verdicts` of {commit}, {runs:,} runs a line:"
    page = PAGE.read_text("utf-8")
    before, rest = page.split(MARKS[0])
    after = rest.split(MARKS[1])[1]
    body = "\n".join(["", told, "", *lines, ""])
    PAGE.write_text(before + MARKS[0] + body + MARKS[1] + after, "utf-8")


if __name__ == "__main__":
    main()
