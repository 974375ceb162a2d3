"""Runs of two heads on a part of a sample and a tiny base model: for what is done with a run."""

import csv
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import islice
from pathlib import Path

import pytest

from heads.data.dataset import read
from heads.data.samples import SAMPLES
from heads.runs import learning_curve
from heads.runs.folder import RunFolder
from heads.runs.leaderboard import Leaderboard
from heads.runs.runner import begin, working
from heads.runs.spec import RunRequest
from heads.settings import ExperimentConfig
from heads.training.fitters import successive_halving

ROWS = 90
CONFIG = ExperimentConfig(folds=2, precision="exact", curve=False)


@contextmanager
def training_little() -> Iterator[None]:
    """Take few steps, and draw learning curves of few rows."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(successive_halving, "CAP", 24)
        patch.setattr(learning_curve, "FEWEST", 10)
        yield


def write_sample(path: Path, sample: str, rows: int) -> Path:
    """Write the first rows of a sample as a CSV file."""
    with SAMPLES[sample].path.open(encoding="utf-8", newline="") as file:
        lines = list(islice(csv.reader(file), rows + 1))
    with path.open("w", encoding="utf-8", newline="") as file:
        csv.writer(file).writerows(lines)
    return path


def finished(run: RunFolder) -> Leaderboard:
    """Work on a run to its end."""
    *_, found = working(run)
    assert isinstance(found, Leaderboard)
    return found


class FewRuns:
    """The folder of a run, by the sample of which it learns the first rows; each trained once."""

    def __init__(self, place: Path, model: Path) -> None:
        self.place, self.model = place, model
        self._made: dict[str, str] = {}

    def __call__(self, sample: str) -> str:
        if sample not in self._made:
            self._made[sample] = self._trained(sample)
        return self._made[sample]

    def file(self, sample: str) -> Path:
        """The rows that it learns from."""
        return self.place / f"{sample}.csv"

    def _trained(self, sample: str) -> str:
        write_sample(self.file(sample), sample, ROWS)
        request = RunRequest(
            data=read(self.file(sample)), recipes=("mean+linear", "cls+linear"),
            model=str(self.model), config=CONFIG,
        )  # fmt: skip
        with training_little():
            folder = begin(request, out=self.place / sample)
            finished(folder)
        return str(folder.path)
