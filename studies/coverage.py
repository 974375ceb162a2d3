"""How often 95 % intervals of scores hold the true score: `python -m studies.coverage`.

Rows are drawn from Gaussian classes whose truth is known, or with `--features FILE` from a large
data set of which the rows not drawn are the truth. Heads that are solved in closed form are
trained on the project's own splits, and its own `score_intervals` is asked. A setting is a number
of rows and classes, even or skewed (the k-th class in 1 / k of the rows), and a way of testing:

- folds: the truth is the mean score of heads that learn from as many rows as these, drawn anew;
- a test set of as many rows: the truth is the mean score over seeds of heads that learn from these
  very rows. It is taken on new rows, each class weighted by how common it is.
"""

import argparse
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import product
from statistics import fmean

import torch
from torch import Tensor
from torch.nn.functional import one_hot

from heads.data.splits import Splits, split
from heads.errors import DataError
from heads.evaluation import statistics
from heads.evaluation.intervals import score_intervals
from heads.evaluation.metrics import MetricName
from heads.evaluation.predictions import Answers, EvaluationTask
from heads.settings import ExperimentConfig

ROWS, CLASSES = (150, 300, 1_000), (2, 6, 20, 150)
METRICS: tuple[MetricName, ...] = ("accuracy", "macro_f1")
WIDTH = 48  # of the features
DISTANCES = {
    2: 1.5,
    6: 2.5,
    20: 3.5,
    150: 5.0,
}  # of the classes' means from the origin, by their number
TRUE_ROWS = 20_000  # on which truth is taken
MORE_SEEDS = 6  # of which the truth of a head on a test set is the mean
HEADS = ("lda", "centroid", "ridge", "searched", "lucky")  # the last two: other seeds, other heads
STRENGTHS = (3.0, 30.0, 300.0)  # of the penalty, as a searched head tries them
PART = 0.7  # of the features that a lucky head sees


@dataclass(frozen=True, slots=True, kw_only=True)
class Rows:
    """Features (n, w) and classes (n,) of rows drawn, and of others on which truth is taken."""

    x: Tensor
    y: Tensor
    true_x: Tensor
    true_y: Tensor


class Gaussian:
    """Classes with normal features around means of their own."""

    def __init__(self, classes: int, *, skewed: bool) -> None:
        shares = 1 / torch.arange(1, classes + 1) if skewed else torch.ones(classes)
        self.shares = shares.double() / shares.sum()
        rng = torch.Generator().manual_seed(classes)
        means = torch.randn(classes, WIDTH, generator=rng)
        self.means = DISTANCES[classes] * means / means.norm(dim=1, keepdim=True)
        self.true_y = torch.arange(TRUE_ROWS) % classes
        self.true_x = self._around(self.true_y, rng)

    def draw(self, rows: int, rng: torch.Generator) -> Rows:
        y = self.shares.multinomial(rows, True, generator=rng)
        return Rows(x=self._around(y, rng), y=y, true_x=self.true_x, true_y=self.true_y)

    def _around(self, y: Tensor, rng: torch.Generator) -> Tensor:
        return self.means[y] + torch.randn(len(y), WIDTH, generator=rng)


class Sampled:
    """A data set, of which the rows that are not drawn are the truth.

    Args:
        path: A file of `torch.save` with features (n, w) and classes (n,).
    """

    def __init__(self, path: str) -> None:
        self.features, self.targets = torch.load(path)
        self.shares = torch.bincount(self.targets).double() / len(self.targets)

    def draw(self, rows: int, rng: torch.Generator) -> Rows:
        order = torch.randperm(len(self.targets), generator=rng)
        x, y = self.features[order], self.targets[order]
        return Rows(x=x[:rows], y=y[:rows], true_x=x[rows:], true_y=y[rows:])


Source = Gaussian | Sampled


@dataclass(frozen=True, slots=True, kw_only=True)
class Setting:
    """How many rows are drawn, and how they are tested: on folds, or else on as many others."""

    rows: int
    folds: bool
    seeds: int = 3

    def __str__(self) -> str:
        return f"{self.rows:,} rows, " + ("5 folds" if self.folds else f"test, {self.seeds} seeds")


# --- Heads


def weights(head: str, x: Tensor, y: Tensor, classes: int, strength: float, seed: int) -> Tensor:
    """(w + 1, c), what a head learns; the seed is the luck of those that have any."""
    hot = one_hot(y, classes).float()
    sizes, middle, mask = hot.sum(dim=0), x.mean(dim=0), torch.ones(x.shape[1])
    if head == "lucky":
        mask = (
            torch.rand(x.shape[1], generator=torch.Generator().manual_seed(seed)) < PART
        ).float()
    own, penalty = (x - middle) * mask, strength * torch.eye(x.shape[1])
    if head == "ridge":
        solved = torch.linalg.solve(own.T @ own + penalty, own.T @ (hot - hot.mean(dim=0)))
        return torch.cat([solved, (hot.mean(dim=0) - middle @ solved)[None]])
    means, biases = hot.T @ own / sizes.clamp_min(1)[:, None], torch.zeros(classes)
    solved = means.T
    if head != "centroid":
        within = own - means[y]
        scale = strength / len(y) * within.square().mean() * torch.eye(x.shape[1])
        solved = torch.linalg.solve(within.T @ within / len(y) + scale, means.T) * mask[:, None]
        biases = (sizes / len(y)).log()
    biases = biases - (means.T * solved).sum(dim=0) / 2 - middle @ solved
    return torch.cat([solved, torch.where(sizes > 0, biases, -torch.inf)[None]])


def answers(x: Tensor, learned: Tensor) -> Tensor:
    """(n,), the class that each row is given."""
    return (x @ learned[:-1] + learned[-1]).argmax(dim=1)


def train(head: str, x: Tensor, y: Tensor, splits: Splits, number: int, seed: int) -> Tensor:
    """What a head learns from one of the splits; one that searches does so on development rows."""
    classes, strength, rows = int(y.max()) + 1, STRENGTHS[1], splits.train[number]
    if head == "searched":
        learn, look = splits.search[number], splits.development[number]

        def score(strength: float) -> float:
            learned = weights(head, x[learn], y[learn], classes, strength, seed)
            return float((answers(x[look], learned) == y[look]).double().mean())

        strength = max(STRENGTHS, key=score)
    return weights(head, x[rows], y[rows], classes, strength, seed)


def true_scores(learned: Tensor, rows: Rows, shares: Tensor) -> list[float]:
    """The score of a head by each metric on rows of truth, each class as common as it is."""
    classes = len(shares)
    given = answers(rows.true_x, learned)
    table = torch.bincount(rows.true_y * classes + given, minlength=classes**2)
    table = table.view(classes, classes).double()
    table = table / table.sum(dim=1, keepdim=True) * shares[:, None]
    return [float(table.diagonal().sum()), float(statistics.macro_f1(table))]


# --- Coverage


def run(setting: Setting, source: Source, number: int) -> tuple[Tensor, Tensor]:
    """Draw rows, train every head; return their intervals (2, k, 2) and true scores (2, k)."""
    rng = torch.Generator().manual_seed(number)
    drawn = source.draw(setting.rows * (1 if setting.folds else 2), rng)
    x, y = drawn.x, drawn.y
    classes, groups = len(source.shares), torch.arange(len(y))
    parts = [] if setting.folds else ["train"] * setting.rows + ["test"] * setting.rows
    total = setting.seeds if setting.folds else setting.seeds + MORE_SEEDS
    splits = split(y, groups, parts, ExperimentConfig(seeds=total, seed=1_000 * number))
    scored = len(splits) if setting.folds else setting.seeds
    padded = torch.cat([y, torch.tensor([classes - 1])])  # every class, whatever was drawn
    cells, truth = [], []
    for place, head in enumerate(HEADS):
        seeds = [100 * (len(HEADS) * number + place) + one for one in range(len(splits))]
        learned = [train(head, x, padded, splits, one, seed) for one, seed in enumerate(seeds)]
        # Truth is that of a fold's head in all runs, or of seeds that no interval knows.
        others = learned[:1] if setting.folds or head not in HEADS[-2:] else learned[-MORE_SEEDS:]
        found = [true_scores(one, drawn, source.shares) for one in others]
        truth.append([fmean(each) for each in zip(*found, strict=True)])
        given = [answers(x[rows], own) for rows, own in zip(splits.test, learned, strict=True)]
        cells.append(
            Answers(
                name=head,
                rows=splits.test[:scored],
                given=tuple(given[:scored]),
                is_random=head == "lucky",
                repetition=splits.repetition,
            )
        )
    names = tuple(map(str, range(classes)))
    task = EvaluationTask(targets=y, classes=names, groups=groups)
    ends = [score_intervals(cells, replace(task, metric=metric)) for metric in METRICS]
    return torch.tensor(ends), torch.tensor(truth).T


def coverage(setting: Setting, source: Source, runs: int) -> Tensor:
    """(2, k), the share of runs in which a head's interval holds its truth, by metric."""
    done = [run(setting, source, number) for number in range(runs)]
    ends, truth = (torch.stack(own) for own in zip(*done, strict=True))
    if setting.folds:  # other rows of as many are part of what the interval is for
        truth = truth.mean(dim=0, keepdim=True)
    return ((ends[..., 0] <= truth) & (truth <= ends[..., 1])).double().mean(dim=0)


def rows_of(
    sources: Sequence[tuple[str, Source]], settings: Sequence[Setting], runs: int
) -> Iterator[str]:
    """A table, line by line: coverage by head, in percent, and its Monte Carlo error."""
    yield f"| data | tested | metric | {' | '.join(HEADS)} | all | ± |"
    yield "|---" * (len(HEADS) + 5) + "|"
    for (name, source), setting in product(sources, settings):
        try:
            held = coverage(setting, source, runs)
        except DataError as error:
            yield f"| {name} | {setting} | {error} |"
            continue
        for metric, shares in zip(METRICS, held, strict=True):
            mean = float(shares.mean())
            each = " | ".join(f"{100 * float(share):.0f}" for share in shares)
            unsure = 100 * (mean * (1 - mean) / runs) ** 0.5  # heads of a run share its rows
            yield f"| {name} | {setting} | {metric} | {each} | {100 * mean:.1f} | {unsure:.1f} |"


def main() -> None:
    """Print the coverage of every setting that is asked for."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--runs", type=int, default=400)
    parser.add_argument("--rows", type=int, nargs="*", default=ROWS)
    parser.add_argument("--classes", type=int, nargs="*", default=CLASSES)
    parser.add_argument("--features", nargs="*", default=[], help="files instead of Gaussians")
    options = parser.parse_args()
    torch.set_num_threads(1)
    sources: list[tuple[str, Source]] = [(path, Sampled(path)) for path in options.features]
    if not sources:
        for classes, skewed in product(options.classes, (False, True)):
            name = f"{classes} classes, {'skewed' if skewed else 'even'}"
            sources.append((name, Gaussian(classes, skewed=skewed)))
    settings = [Setting(rows=rows, folds=folds) for folds in (True, False) for rows in options.rows]
    for line in rows_of(sources, settings, options.runs):
        print(line, flush=True)


if __name__ == "__main__":
    main()
