"""Published figures, computed anew: the MTEB classification protocol on a base model as it is.

The normalised mean of at most 256 tokens; ten times so many training rows of each class, shuffled
on from the last draw; scikit-learn's default logistic regression; the mean on the whole test set.

Source: embeddings-benchmark/mteb, abstasks classification (commit a905523).
"""

import csv
from collections import Counter
from collections.abc import Generator, Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor
from torch.nn.functional import normalize

from heads import display
from heads.backbone.backbone import Backbone
from heads.backbone.loading import load
from heads.data.corpus import check_text
from heads.errors import DataError, did_you_mean
from heads.events import Progress
from heads.features.featurizer import Featurizer
from heads.parts.resolve import resolve

EXPERIMENTS = 10
SEED = 42
RESULTS = "embeddings-benchmark/results, all-MiniLM-L6-v2, revision 8b3219a, mteb 1.12.75"


@dataclass(frozen=True, slots=True, kw_only=True)
class Published:
    """Published figures."""

    accuracy: float  # mean of ten experiments
    f1: float  # mean of their macro-F1
    source: str  # the publication


@dataclass(frozen=True, slots=True, kw_only=True)
class Benchmark:
    """One data set of MTEB."""

    train: int  # the number of training rows
    test: int  # the number of test rows
    classes: int  # the number of classes
    per_class: int  # how many training rows of each class an experiment draws
    published: Published  # the figures for the bundled model
    # the classes by their numbers, which moves the last digit; alphabetical if empty
    order: tuple[str, ...] = ()


BENCHMARKS = {
    "banking77": Benchmark(
        train=10_003,
        test=3_080,
        classes=77,
        per_class=8,
        published=Published(accuracy=0.8004220779220779, f1=0.7937884047247287, source=RESULTS),
    ),
    "emotion": Benchmark(
        train=16_000,
        test=2_000,
        classes=6,
        per_class=16,
        published=Published(accuracy=0.4083, f1=0.37182060763441444, source=RESULTS),
        order=("sadness", "joy", "love", "anger", "fear", "surprise"),
    ),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Reproduced(display.Displayed):
    """The figures computed here, beside the published ones."""

    name: str  # the data set
    model: str  # the base model
    accuracy: float  # mean of the ten experiments
    f1: float  # mean of their macro-F1
    accuracies: tuple[float, ...]  # of each experiment
    published: Published  # what others measured
    equal: bool  # whether accuracy and F1 are the published ones to every digit

    def describe(self) -> display.Description:
        """Return what the shell shows: the figures computed here and the published ones."""
        rows = (
            ("accuracy", repr(self.accuracy), repr(self.published.accuracy)),
            ("macro-F1", repr(self.f1), repr(self.published.f1)),
        )
        table = display.Table(headers=(self.name, "here", "published"), rows=rows)
        title = "Equal to every digit." if self.equal else "Not equal."
        source = f"Published: {self.published.source}."
        return display.Description(title=title, blocks=(table, source))

    def as_json(self) -> dict[str, Any]:
        """Return the figures as plain values."""
        return asdict(self) | {"accuracies": list(self.accuracies)}


def iter_reproduction(name: str, folder: Path) -> Generator[Progress, None, Reproduced]:
    """Compute published figures anew: yield progress, and return what `heads reproduce` shows."""
    if name not in BENCHMARKS:
        what = f"There are no published figures here for '{name[:80]}'."
        raise DataError(what, did_you_mean(name, BENCHMARKS))
    benchmark = BENCHMARKS[name]
    train, labels = _read(folder / "train.csv", name, benchmark.train)
    test, truth = _read(folder / "test.csv", name, benchmark.test)
    draws = draw_rows(labels, benchmark.per_class, EXPERIMENTS)
    needed = sorted(set().union(*draws))
    yield Progress(says="Loading the bundled model", share=0.0)
    backbone = load()
    texts = [train[row] for row in needed] + test
    reader = Featurizer(resolve("mean+linear"), backbone)
    features = torch.empty(len(texts), reader.width)
    for fraction in _fill_features(features, texts, reader, backbone):
        yield Progress(says=f"Reading {len(texts):,} texts of {name}", share=0.8 * fraction)
    place = {row: number for number, row in enumerate(needed)}
    scores = []
    for number, draw in enumerate(draws, start=1):
        rows, targets = [place[row] for row in draw], [labels[row] for row in draw]
        scores.append(_score(features[rows], targets, features[len(needed) :], truth))
        says = f"Experiment {number} of {EXPERIMENTS}"
        yield Progress(says=says, share=0.8 + 0.2 * number / EXPERIMENTS)
    from numpy import mean  # adds as the published figures were added, to the last digit

    accuracies, f1s = zip(*scores, strict=True)
    accuracy, f1, published = float(mean(accuracies)), float(mean(f1s)), benchmark.published
    return Reproduced(
        name=name,
        model=backbone.id,
        accuracy=accuracy,
        f1=f1,
        accuracies=accuracies,
        published=published,
        equal=(accuracy, f1) == (published.accuracy, published.f1),
    )


def draw_rows(labels: Sequence[int], per_class: int, times: int) -> list[list[int]]:
    """Draw the training rows of each experiment: so many of each class, shuffled on each time."""
    from numpy.random import RandomState

    order = list(range(len(labels)))
    draws = []
    for _ in range(times):
        RandomState(SEED).shuffle(order)
        taken: Counter[int] = Counter()
        rows = []
        for row in order:
            if taken[labels[row]] < per_class:
                rows.append(row)
                taken[labels[row]] += 1
        draws.append(rows)
    return draws


def _read(path: Path, name: str, rows: int) -> tuple[list[str], list[int]]:
    hint = f"Give the folder with the train.csv and test.csv of {name}, columns text,label."
    try:
        with path.open(encoding="utf-8", newline="") as file:
            table = list(csv.reader(file, strict=True))
    except (OSError, UnicodeDecodeError, csv.Error) as error:
        reason = getattr(error, "strerror", None) or type(error).__name__
        raise DataError(f"{path.name} of {name} cannot be read ({reason}).", hint) from None
    if not table or table[0] != ["text", "label"] or any(len(row) != 2 for row in table):
        raise DataError(f"{path.name} is no table with the columns text,label.", hint)
    classes, benchmark = sorted({label for _, label in table[1:]}), BENCHMARKS[name]
    order = benchmark.order or classes
    if len(table) - 1 != rows or len(classes) != benchmark.classes or classes != sorted(order):
        content = f"{len(table) - 1:,} rows of {len(classes):,} classes"
        what = f"{path.name} holds {content}; {name} has {rows:,} of its {benchmark.classes:,}."
        raise DataError(what, hint)
    texts = [check_text(text, "text") for text, _ in table[1:]]
    numbers = {label: number for number, label in enumerate(order)}
    return texts, [numbers[label] for _, label in table[1:]]


@torch.no_grad()
def _fill_features(
    features: Tensor, texts: Sequence[str], reader: Featurizer, backbone: Backbone
) -> Iterator[float]:
    """Fill in the normalised means of the texts (n, w); yield the fraction that is done."""
    done = 0
    for rows, states in backbone.passes(backbone.encode(texts)):
        features[rows] = normalize(reader(states).vectors, dim=1)
        done += len(rows)
        yield done / len(texts)


def _score(
    features: Tensor, labels: Sequence[int], test: Tensor, truth: Sequence[int]
) -> tuple[float, float]:
    from sklearn.linear_model import LogisticRegression
    from sklearn.metrics import accuracy_score, f1_score

    model = LogisticRegression(max_iter=100, random_state=SEED).fit(features.numpy(), labels)
    answers = model.predict(test.numpy())
    return float(accuracy_score(truth, answers)), float(f1_score(truth, answers, average="macro"))
