"""Labels that were made wrong, found again: `python -m studies.doubtful_labels --data DIR`.

Of some rows of each data set 5 % get another class, any other as likely, five times. On each a run
is trained (four linear heads in five folds, and counted words), and what `heads.doubtful_labels`
names is held to the rows that were changed. cleanlab, in an environment of its own, is asked about
the same probabilities. The sets have wrong labels of their own, which count here as right: all
precisions are too low by them. The runs are kept, and what is done is not done again; ``--write``
stores the figures for docs/labels.md.
"""

import argparse
import random
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import fmean
from typing import Any

import torch
from sklearn.metrics import average_precision_score
from torch import Tensor

import heads
from benchmarks import stored
from benchmarks.rounds import read, write
from benchmarks.stored import Cell, Table, figure, score
from heads.evaluation.predictions import MAJORITY, TFIDF
from heads.extras.labels.doubtful_labels import WORDS
from heads.extras.labels.doubts import Doubts, doubts
from heads.problem import SINGLE_LABEL
from heads.runs.cells import kept, probabilities_of_cell
from heads.runs.folder import RunFolder
from heads.runs.spec import load
from studies.environments import ask_peer, install

KEPT = stored.ROOT / ".venv" / "doubtful-labels"
RECIPES = ("mean+linear", "cls+linear", "max+linear", "last+linear")
SETS: Mapping[str, int] = {  # and how many of their rows
    "sst2": 2_000,
    "trec6": 2_000,
    "emotion": 2_000,
    "ag_news": 2_000,
    "banking77": 3_000,
}
SEEDS, RATE, QUICK_ROWS = 5, 0.05, 300
SHARES = {
    "best head": None,
    "heads": 0.0,
    "heads, 1/4 words": 0.25,
    "half words": 0.5,
    "words": 1.0,
}
OURS = f"heads, 1/{round(1 / WORDS)} words"
USUAL, NEAREST = "prune_by_noise_rate", "low_self_confidence"


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Case:
    """A data set with labels that were made wrong, and what was said of it.

    Attributes:
        labels: (n,), the labels as they are now.
        wrong: (n,), whether one was changed.
        said: Probabilities (n, c), by whose they are.
        best: The accuracy of the best head on these labels.
        theirs: What cleanlab says of our probabilities.
    """

    labels: Tensor
    wrong: Tensor
    said: Mapping[str, Tensor]
    best: float
    theirs: Mapping[str, Any]


def main() -> None:
    """Trains what is not trained yet, asks cleanlab, and prints or stores the tables."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", type=Path, default=stored.DATA, help="folder of the data sets")
    parser.add_argument("--only", default=",".join(SETS))
    parser.add_argument("--kept", type=Path, default=KEPT, help="where the runs are kept")
    asked = stored.parse_arguments(parser)
    place = install("cleanlab")
    if place.python is None:
        parser.error(f"cleanlab is not installed: {place.reason}")
    names = asked.only.split(",")
    found: dict[str, list[Case]] = {}
    for seed in range(1 if asked.quick else SEEDS):
        for name in names:
            rows = min(SETS[name], QUICK_ROWS) if asked.quick else SETS[name]
            texts, labels, wrong = flipped(asked.data / name / "train.csv", rows, seed)
            run = trained(texts, labels, asked.kept / f"{name}-{rows}-{seed}")
            found.setdefault(name, []).append(case_of(run, wrong, place.python))
            print(f"{name}, seed {seed}: done", flush=True)
    tables = [of_peers(found), of_ways(found), of_shares(found), of_estimates(found)]
    command = "python -m studies.doubtful_labels"
    folders = [asked.data / name for name in names]
    stored.publish("doubtful-labels", tables, asked, command=command, data=folders)


def flipped(file: Path, rows: int, seed: int) -> tuple[list[str], list[str], list[bool]]:
    """Some rows of a file: their texts, their labels of which 5 % were changed, and which."""
    found = read(file)
    random.Random(0).shuffle(found)  # the same rows for every seed
    texts, labels = [text for text, _ in found[:rows]], [label for _, label in found[:rows]]
    classes, draw = sorted(set(labels)), random.Random(seed)
    chosen = sorted(draw.sample(range(len(labels)), round(RATE * len(labels))))
    for row in chosen:
        labels[row] = draw.choice([one for one in classes if one != labels[row]])
    return texts, labels, [row in set(chosen) for row in range(len(labels))]


def trained(texts: Sequence[str], labels: Sequence[str], place: Path) -> RunFolder:
    """A run on these rows, found again where it is there."""
    run = place / "run"
    if (run / "run.json").is_file():
        heads.resume(str(run))
        return RunFolder(path=run)
    place.mkdir(parents=True, exist_ok=True)
    rows = write(place / "rows.csv", list(zip(texts, labels, strict=True)))
    config = heads.ExperimentConfig(curve=False)
    heads.train_grid(rows, recipes=RECIPES, config=config, out=run)
    return RunFolder(path=run)


def case_of(run: RunFolder, wrong: Sequence[bool], python: Path) -> Case:
    """What the cells of a run say of its rows, and what cleanlab makes of that."""
    asked = load(run)
    told, scores = dict[str, Tensor](), dict[str, float]()
    for number, name in enumerate(asked.names):
        cell, own = kept(run, number), probabilities_of_cell(run, number)
        if name != MAJORITY and cell and own:
            assert own[0].equal(torch.arange(len(wrong))), "every row is tested once"
            told[name], scores[name] = own[1] / own[1].sum(dim=1, keepdim=True), cell.measures.score
    words = told.pop(TFIDF)
    mean = torch.stack(list(told.values())).mean(dim=0)
    best = max(told, key=lambda name: scores[name])
    said = {
        name: told[best] if share is None else (1 - share) * mean + share * words
        for name, share in SHARES.items()
    }
    labels = asked.task.targets
    question = {"labels": labels.tolist(), "probabilities": said[OURS].tolist()}
    return Case(
        labels=labels,
        wrong=torch.tensor(wrong),
        said=said,
        best=scores[best],
        theirs=ask_peer(python, "cleanlab_labels", question),
    )


# --- What is counted of a case.


def ours(case: Case, whose: str = OURS) -> Doubts:
    """What is held of its labels, by whose probabilities."""
    return doubts(case.said[whose], case.labels, SINGLE_LABEL)


def precision(case: Case, named: Tensor) -> float:
    """The share of wrong labels among those that are named."""
    return float(case.wrong[named].double().mean())


def recall(case: Case, named: Tensor) -> float:
    """The share of the wrong labels that is named."""
    return float(case.wrong[named].sum() / case.wrong.sum())


def at_k(case: Case, quality: Tensor) -> float:
    """The share of wrong labels among as many of the lowest as there are wrong ones."""
    return precision(case, quality.argsort(stable=True)[: int(case.wrong.sum())])


def average_precision(case: Case, quality: Tensor) -> float:
    """The area under precision over recall, of the ranking."""
    return float(average_precision_score(case.wrong.numpy(), -quality.numpy()))


def theirs(case: Case, way: str) -> Tensor:
    """The rows that cleanlab names."""
    return torch.tensor(case.theirs["named"][way], dtype=torch.long)


def over(cases: Sequence[Case], count: Callable[[Case], float]) -> Cell:
    """The mean over the seeds with the least and the most of them."""
    values = [count(case) for case in cases]
    return score(fmean(values), min(values), max(values))


def number(cases: Sequence[Case], count: Callable[[Case], float]) -> Cell:
    """The mean over the seeds."""
    return figure(fmean(map(count, cases)), 0)


# --- The tables.


def of_peers(found: Mapping[str, Sequence[Case]]) -> Table:
    """What is named and how it is ranked, beside cleanlab as it comes."""

    def rows() -> Iterator[list[Cell]]:
        for name, cases in found.items():
            yield [
                name,
                number(cases, lambda case: int(case.wrong.sum())),
                over(cases, lambda case: case.best),
                number(cases, lambda case: int(ours(case).is_doubtful.sum())),
                over(cases, lambda case: precision(case, ours(case).is_doubtful)),
                over(cases, lambda case: precision(case, theirs(case, USUAL))),
                over(cases, lambda case: recall(case, ours(case).is_doubtful)),
                over(cases, lambda case: recall(case, theirs(case, USUAL))),
            ]

    columns = ["data", "made wrong", "best head right", "named", "of those wrong"]
    columns += ["the same, cleanlab", "of the wrong named", "the same, cleanlab"]
    title = "5 % of the labels made wrong: what is named (mean, least and most of five seeds; %)"
    return Table(title=title, columns=columns, rows=list(rows()))


def of_ways(found: Mapping[str, Sequence[Case]]) -> Table:
    """The ranking of all rows, and every way of cleanlab's to choose rows."""

    def rows() -> Iterator[list[Cell]]:
        for name, cases in found.items():
            yield [
                name,
                over(cases, lambda case: at_k(case, ours(case).quality)),
                over(cases, lambda case: average_precision(case, ours(case).quality)),
                *(
                    over(cases, lambda case, by=by: average_precision(case, _quality(case, by)))
                    for by in ("self_confidence", "normalized_margin")
                ),
                *(
                    over(cases, lambda case, way=way: precision(case, theirs(case, way)))
                    for way in ("confident_learning", "both", NEAREST)
                ),
            ]

    columns = ["data", "precision at k", "average precision"]
    columns += ["the same, cleanlab by self-confidence", "by normalised margin"]
    columns += ["wrong of those named, cleanlab off the diagonal", "both", "low self-confidence"]
    title = (
        "The ranking (k: as many rows as were made wrong), and cleanlab's other ways to name rows"
    )
    return Table(title=title, columns=columns, rows=list(rows()))


def _quality(case: Case, by: str) -> Tensor:
    return torch.tensor(case.theirs["quality"][by], dtype=torch.double)


def of_shares(found: Mapping[str, Sequence[Case]]) -> Table:
    """Whose probabilities find wrong labels best."""
    rows: list[list[Cell]] = []
    for name, cases in found.items():
        own = [
            over(cases, lambda case, who=who: average_precision(case, ours(case, who).quality))
            for who in SHARES
        ]
        named = [
            over(cases, lambda case, who=who: precision(case, ours(case, who).is_doubtful))
            for who in SHARES
        ]
        rows += [[f"{name}, average precision", *own], [f"{name}, wrong of those named", *named]]
    return Table(title="By whose probabilities", columns=["data", *SHARES], rows=rows)


def of_estimates(found: Mapping[str, Sequence[Case]]) -> Table:
    """How many labels the confident joint holds for wrong, which is not told to users."""
    rows: list[list[Cell]] = [
        [
            name,
            number(cases, lambda case: int(case.wrong.sum())),
            number(cases, lambda case: case.theirs["estimated"]),
        ]
        for name, cases in found.items()
    ]
    columns = ["data", "made wrong", "wrong by the confident joint"]
    return Table(title="How many labels are wrong", columns=columns, rows=rows)


if __name__ == "__main__":
    main()
