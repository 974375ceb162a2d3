"""Frozen or fine-tuned, head by head: `python -m studies.frozen_or_tuned`.

On few rows of sst2 and trec6, four heads are learned in five ways, five times each: on the frozen
base model, with its last two layers, with LoRA, with everything, and with everything from the head
that was learned first (LP-FT); the head on the mean by SetFit as well. Every way tries as many
settings, on development rows, for as many passes. What was learned from film reviews (sst2) also
answers tweets (sentiment140) and comments (GoEmotions, joy or one of anger, disgust, fear and
sadness), whose words are others: that is what LP-FT is for. The runs are kept, and what is done is
not done again; ``--write`` stores the figures for docs/tuning.md.
"""

import argparse
import csv
import math
import random
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import islice
from pathlib import Path
from statistics import fmean, median
from typing import Any

import torch
from torch import Tensor

import heads
from benchmarks import stored, tuning
from benchmarks.rounds import read, write
from benchmarks.stored import Cell, Table, figure, gap, score
from benchmarks.timing import time_in_turn
from heads.backbone import loading
from heads.backbone.backbone import Backbone
from heads.evaluation.intervals import score_interval
from heads.evaluation.predictions import Answers, EvaluationTask, scores
from heads.evaluation.significance import compare
from heads.features.featurizer import Featurizer
from heads.parts.resolve import resolve, with_options
from heads.parts.resolved_recipe import FROZEN, TUNE
from heads.rng import IsolatedRng
from heads.runs.cells import Cell as TrainedCell
from heads.runs.cells import answers_of_cell
from heads.runs.leaderboard import Leaderboard
from heads.runs.spec import load
from heads.training.finetuning.cost import NUMBER
from heads.training.finetuning.memory import KEPT as KEPT_A_NUMBER
from heads.training.finetuning.module import Texts, TunedRecipe
from heads.training.finetuning.plan import plan_of
from heads.training.task import TrainingTask

KEPT = stored.ROOT / ".venv" / "frozen-or-tuned"
RECIPES = ("mean+linear", "cls+linear", "cls+roberta", "cls@cat4+mlp")
PLAIN = "cls+linear"  # what a dense layer and four layers are compared with
WAYS = ("frozen", "last2", "lora", "full", "lpft")
PAIRED, PAIRED_RECIPE = "setfit", "mean+linear"  # an optional extra, in a run of its own
COLUMNS = (*WAYS, PAIRED)
SEEDS, TRIALS, PASSES, ROWS = 5, 2, 6, 240
ROUNDS = 3  # in which a pass of each way is timed
REVIEWS, COMMENTS = 600, 400  # of the test rows, drawn once
TWEETS = "messy/sentiment140_test_noheader.csv"
NEGATIVE = {"anger", "disgust", "fear", "sadness"}

Row = tuple[str, str]


@dataclass(frozen=True, kw_only=True, eq=False)
class Study:
    """Runs on the same splits with all cells done, seen on some of their tested rows.

    Attributes:
        cells: What was measured, by recipe and way.
        answers: What they answered on these rows.
        task: What they were asked.
    """

    cells: Mapping[tuple[str, str], TrainedCell]
    answers: Mapping[tuple[str, str], Answers]
    task: EvaluationTask

    def only(self, kept: Tensor) -> "Study":
        """The same on some rows: (N,) true where a row of the corpus counts."""

        def some(one: Answers) -> Answers:
            pairs = zip(one.rows, one.given, strict=True)
            own = [(rows[kept[rows]], given[kept[rows]]) for rows, given in pairs]
            return replace(one, rows=tuple(r for r, _ in own), given=tuple(g for _, g in own))

        return replace(self, answers={name: some(own) for name, own in self.answers.items()})

    def score(self, recipe: str, way: str) -> Cell:
        """The mean score of all seeds, with its interval."""
        own = self.answers[recipe, way]
        return score(fmean(scores(own, self.task)), *score_interval(own, self.task))

    def gaps(self, first: tuple[str, str], others: Sequence[tuple[str, str]]) -> list[Cell]:
        """How much better others are than one: all of them are one family."""
        several = [self.answers[name] for name in (first, *others)]
        own = [self.answers[name].name for name in (first, *others) if name[1] != FROZEN]
        found = compare(several, self.task, reference=several[0].name, tuned=own)
        by = {one.name: one for one in found.to_reference}
        told = [by[self.answers[name].name] for name in others]
        return [gap(d.difference, d.low, d.high, differs=d.differs) for d in told]


def main() -> None:
    """Learns what is not learned yet, and prints or stores the tables."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", type=Path, default=stored.DATA, help="folder of the data sets")
    parser.add_argument("--only", default="trec6,sst2")
    parser.add_argument("--rows", type=int, default=ROWS, help=f"to learn from ({ROWS})")
    parser.add_argument("--kept", type=Path, default=KEPT, help="where the runs are kept")
    asked = stored.parse_arguments(parser)
    tables = list[Table]()
    for name in asked.only.split(","):
        run = asked.kept / f"{name}-{asked.rows}{'-quick' * asked.quick}"
        paired = run.with_name(f"{run.name}-{PAIRED}")
        board, others = learned(asked.data, name, run, asked.rows, RECIPES, WAYS, quick=asked.quick)
        by_pairs, _ = learned(
            asked.data, name, paired, asked.rows, [PAIRED_RECIPE], [PAIRED], quick=asked.quick
        )
        whole = studied(board, by_pairs)
        rows = torch.arange(len(whole.task.targets))
        last = len(rows) - sum(others.values())
        own = whole.only(rows < last)
        tables += [*of_scores(own, name), of_heads(own, name)]
        tables.append(of_costs(own, name, paces(board), frozen_bytes(board)))
        for other, size in others.items():
            tables += of_scores(whole.only((rows >= last) & (rows < last + size)), other)
            last += size
    folders = [asked.data / name for name in asked.only.split(",")]
    command = "python -m studies.frozen_or_tuned"
    stored.publish("frozen-or-tuned", tables, asked, command=command, data=folders)


def learned(
    data: Path,
    name: str,
    run: Path,
    rows: int,
    recipes: Sequence[str],
    ways: Sequence[str],
    *,
    quick: bool,
) -> tuple[Leaderboard, dict[str, int]]:
    """The leaderboard of a data set; how many rows of other data were tested after its own."""
    tested, others = read(data / name / "test.csv"), dict[str, int]()
    if name == "sst2":
        tested = drawn(tested, REVIEWS)
        for other, known in (("tweets", tweets(data)), ("comments", drawn(comments(data)))):
            others[other] = len(known)
            tested += known
    if (run / "run.json").is_file():
        return heads.resume(str(run)), others
    with tempfile.TemporaryDirectory() as place:
        paths = [Path(place) / f"{name}.csv", Path(place) / "test.csv"]
        write(paths[0], drawn(read(data / name / "train.csv"), 60 if quick else rows))
        write(paths[1], tested)
        config = heads.ExperimentConfig(
            seeds=SEEDS, trials=TRIALS, epochs=1 if quick else PASSES, curve=False
        )
        asked: dict[str, Any] = {"recipes": recipes, "tune": ways}
        board = heads.train_grid(paths[0], test=paths[1], config=config, out=run, **asked)
    return board, others


def drawn(rows: Sequence[Row], most: int = COMMENTS) -> list[Row]:
    """Some of the rows, always the same; each text once."""
    each = list(dict(rows).items())
    random.Random(0).shuffle(each)
    return each[:most]


def tweets(data: Path) -> list[Row]:
    """Tweets about products and people, positive or negative."""
    with (data / TWEETS).open(encoding="utf-8", newline="") as file:
        found = {"0": "negative", "4": "positive"}
        return list({text: found[mark] for mark, text in csv.reader(file) if mark in found}.items())


def comments(data: Path) -> list[Row]:
    """Comments with one feeling, joy or one that is negative, half of each."""
    every = read(data / "goemotions_ekman" / "test.csv")
    glad = [(text, "positive") for text, label in every if label == "joy"]
    bad = [(text, "negative") for text, label in every if label in NEGATIVE]
    random.Random(0).shuffle(glad)
    return [*islice(glad, len(bad)), *bad]


def studied(*boards: Leaderboard) -> Study:
    """All cells of runs on the same rows by recipe and way."""
    by_name = {
        str(with_options(resolve(one), {TUNE: way})): (one, way)
        for one in RECIPES
        for way in COLUMNS
    }
    cells, answers, tasks = {}, {}, []
    for board in boards:
        asked = load(board.folder)
        tasks.append(asked.task)
        for cell in board.cells:
            if not cell.is_baseline:
                number = asked.names.index(cell.name)
                cells[by_name[cell.name]] = cell
                answers[by_name[cell.name]] = answers_of_cell(
                    board.folder, number, cell.name
                ).answers
    assert all(torch.equal(one.targets, tasks[0].targets) for one in tasks)
    return Study(cells=cells, answers=answers, task=tasks[0])


def of_scores(study: Study, name: str) -> Iterator[Table]:
    """What every head came to in every way, and what that is more than frozen."""
    done = {one: [way for way in COLUMNS if (one, way) in study.cells] for one in RECIPES}
    missing = {one: ["–"] * (len(COLUMNS) - len(own)) for one, own in done.items()}
    yield Table(
        title=f"{name}: accuracy",
        columns=("head", *COLUMNS),
        rows=[
            [f"`{one}`", *(study.score(one, way) for way in own), *missing[one]]
            for one, own in done.items()
        ],
    )
    yield Table(
        title=f"{name}: points more than on the frozen base model",
        columns=("head", *COLUMNS[1:]),
        rows=[
            [
                f"`{one}`",
                *study.gaps((one, FROZEN), [(one, way) for way in own[1:]]),
                *missing[one],
            ]
            for one, own in done.items()
        ],
    )


def of_heads(study: Study, name: str) -> Table:
    """What another head adds in each way."""
    others = [one for one in RECIPES if one != PLAIN]
    by_way = {way: study.gaps((PLAIN, way), [(one, way) for one in others]) for way in WAYS}
    return Table(
        title=f"{name}: points more than `{PLAIN}` learned in the same way",
        columns=("head", *WAYS),
        rows=[
            [f"`{one}`", *(by_way[way][place] for way in WAYS)] for place, one in enumerate(others)
        ],
    )


def paces(board: Leaderboard) -> dict[str, float]:
    """Seconds that a pass over the rows takes in each way, on all cores: the middle of some.

    They are taken in turn, since what else runs on a machine changes within the hours of a study.
    """
    corpus, learned = load(board.folder).corpus, load(board.folder).splits.train[0].tolist()
    labels = [str(target) for (target,) in corpus.targets]
    task = tuning.task_of([(corpus.texts[row], labels[row]) for row in learned])
    backbone = loading.load(board.model)
    passes = {
        way: tuning.ours(f"{PLAIN}?tune={way}", backbone, task, kept=way.startswith("last"))
        for way in WAYS[1:]
    }
    passes[PAIRED] = setfit_pass(f"{PAIRED_RECIPE}?tune={PAIRED}", backbone, task)
    return {way: median(own) for way, own in time_in_turn(passes, ROUNDS).items()}


def setfit_pass(recipe: str, backbone: Backbone, task: TrainingTask) -> Callable[[], Any]:
    """Return a call that runs one pass of SetFit's first stage, on as many pairs as rows."""
    from heads.training.finetuning.setfit_trainer import PAIRS, learn_pairs  # an optional extra

    resolved, rng = resolve(recipe), IsolatedRng()
    texts = Texts.of(task, resolved, backbone)
    with rng.rolling():
        module = TunedRecipe(resolved, backbone, task.classes, plan_of(resolved, backbone))
    rows = torch.arange(len(task.targets))
    steps = math.ceil(len(rows) / PAIRS)
    told: dict[str, Any] = {"rate": 3e-5, "steps": steps, "seed": 0, "rng": rng}
    return lambda: learn_pairs(module, texts, task, rows, **told)


def frozen_bytes(board: Leaderboard) -> int:
    """What a frozen head takes at most, counted as that of a tuned one is (`TrainingMemory`).

    That is the weights of the base model, the vectors that the head learns from, and every number
    of the head with its gradient and two moments.
    """
    backbone, rows = loading.load(board.model), load(board.folder).splits.train[0]
    weights = sum(own.nbytes for own in backbone.model.state_dict().values())
    vectors = {one: len(rows) * Featurizer(resolve(one), backbone).width for one in RECIPES}
    heads = {one: (1 + KEPT_A_NUMBER) * board.cell(one).learned for one in RECIPES}
    return weights + NUMBER * max(vectors[one] + heads[one] for one in RECIPES)


def of_costs(study: Study, name: str, paces: Mapping[str, float], frozen: int) -> Table:
    """What each way takes: means over the heads, of memory the most.

    Args:
        frozen: The bytes that a frozen head takes.
    """
    rows = list[list[Cell]]()
    for way in COLUMNS:
        own = [study.cells[one, way] for one in RECIPES if (one, way) in study.cells]
        told = [one.tuning for one in own if one.tuning]
        rows.append(
            [
                way,
                figure(paces[way], 2, "s") if told else "–",
                figure(fmean(one.seconds for one in own), 1, "s"),
                figure(max((one.peak_bytes for one in told), default=frozen) / 1e6, 0, "MB"),
                figure(max(one.trials for one in own), 0),
                figure(fmean(one.learned for one in own), 0),
                figure(sum(one.diverged for one in told), 0) if told else "–",
            ]
        )
    return Table(
        title=f"{name}: what it takes",
        columns=(
            "way", "a pass", "a head, all seeds", "memory", "trials a seed", "numbers learned",
            "diverged",
        ),
        rows=rows,
    )  # fmt: skip


if __name__ == "__main__":
    main()
