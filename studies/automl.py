"""Beside AutoML for text: `python -m studies.automl --data DIR`.

AutoIntent and AutoGluon, each in an environment of its own, and this project get the same training
rows and answer the same test rows, one after the other; every seed draws other training rows, of
each class its share, and reverses the order. Nobody sees the test
labels: of a grid the head is taken that folds of the training rows recommend, and it learns once
more from all of them. Where a tool lets one choose the base model, it is the bundled one. Each runs
in as many threads, without a network. What is done is kept and not done again; ``--write`` stores
the figures for docs/PERFORMANCE.md.
"""

import argparse
import functools
import json
import os
import random
import re
import sys
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import fmean
from tempfile import TemporaryDirectory
from typing import Any

import torch

from benchmarks import stored
from benchmarks.rounds import Answer, CannotSayError, answered, read, write
from benchmarks.stored import Cell, Table, figure, gap, score
from heads.backbone.hub import bundled_folder
from heads.evaluation.intervals import score_interval
from heads.evaluation.predictions import Answers, EvaluationTask, scores
from heads.evaluation.significance import compare
from studies.environments import ask_peer, install

OURS = (sys.executable, "-m", "studies.automl_ours")
KEPT = stored.ROOT / ".venv" / "automl"
SETS: Mapping[str, int] = {"trec6": 2_000, "banking77": 2_000}  # and how many rows, at most
SEEDS, QUICK_ROWS = 2, 300
TABULAR_SECONDS = 120
LINEAR, GRID = "`heads`, `mean+linear` alone", "`heads`, default grid"
INTENT = "AutoIntent, `classic-light`"
TABULAR = f"AutoGluon tabular, `medium_quality`, {TABULAR_SECONDS} s"
MULTIMODAL = "AutoGluon multimodal, `medium_quality`"
RECIPE = "mean+linear"
# Of each its environment, its script and what it is told.
SCRIPTS: Mapping[str, tuple[str, str, Mapping[str, Any]]] = {
    INTENT: ("autointent", "autointent_preset", {"preset": "classic-light"}),
    TABULAR: (
        "autogluon",
        "autogluon_tabular",
        {"preset": "medium_quality", "limit": TABULAR_SECONDS},
    ),
    MULTIMODAL: ("autogluon-multimodal", "autogluon_multimodal", {"preset": "medium_quality"}),
}


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Study:
    """A data set, and what every tool answered on its test rows.

    Attributes:
        name: Of the data set.
        rows: How many are learned from, and of how many.
        task: The classes of the test rows.
        told: What each tool said, seed by seed.
    """

    name: str
    rows: tuple[int, int]
    task: EvaluationTask
    told: Mapping[str, Sequence[Answer]]

    def answers(self, tool: str) -> Answers:
        """The classes that a tool gave, in every seed; a label that it made up is no class."""
        place = {label: number for number, label in enumerate(self.task.classes)}
        given = [[place.get(one, -1) for one in told["given"]] for told in self.told[tool]]
        every = torch.arange(len(self.task.targets))
        return Answers(name=tool, rows=(every,) * len(given), given=tuple(map(torch.tensor, given)))


def main() -> None:
    """Asks whoever has not answered yet, and prints or stores the tables."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", type=Path, default=stored.DATA, help="folder of the data sets")
    parser.add_argument("--only", default=",".join(SETS))
    parser.add_argument("--rows", type=int, default=0, help="to learn from, at most")
    parser.add_argument("--seeds", type=int, default=SEEDS)
    parser.add_argument("--threads", type=int, default=os.cpu_count() or 1)
    parser.add_argument(
        "--multimodal",
        type=int,
        default=0,
        metavar="SECONDS",
        help="ask AutoGluon's fine-tuning as well, for so long; 240 were too few",
    )
    parser.add_argument("--kept", type=Path, default=KEPT, help="where answers are kept")
    asked = stored.parse_arguments(parser)
    folders = [asked.data / name for name in asked.only.split(",")]
    asking = tools(asked.threads, asked.multimodal)
    studies = [
        studied(
            folder,
            asking,
            QUICK_ROWS if asked.quick else asked.rows or SETS.get(folder.name, 10**9),
            range(1 if asked.quick else asked.seeds),
            asked.kept,
        )
        for folder in folders
    ]
    tables = [table for study in studies for table in (of_scores(study), of_choices(study))]
    command = f"python -m studies.automl --seeds {asked.seeds} --threads {asked.threads}"
    stored.publish("automl", tables, asked, command=command, data=folders)


# --- Who is asked.


def tools(threads: int, multimodal: int = 0) -> dict[str, Callable[[Answer], Answer]]:
    """What asks each tool that is installed, or can be; ours first.

    Args:
        multimodal: Seconds of fine-tuning; with none it is not asked, nor installed.
    """
    settings = {"OMP_NUM_THREADS": str(threads)}

    def ours(question: Answer) -> Answer:
        with TemporaryDirectory() as cache:  # nothing is kept from before
            return answered(OURS, question, settings | {"HEADS_CACHE": cache})

    asking: dict[str, Callable[[Answer], Answer]] = {
        LINEAR: lambda question: ours({"job": "fit", "recipe": RECIPE} | question),
        GRID: lambda question: ours({"job": "choose"} | question),
    }
    for tool, (environ, script, told) in SCRIPTS.items():
        if tool == MULTIMODAL:
            if not multimodal:
                continue
            tool, told = f"{tool}, {multimodal} s", {**told, "limit": multimodal}
        place = install(environ)
        if place.python is None:
            print(f"{tool}: not installed: {place.reason}", flush=True)
            continue
        known = {"model": str(bundled_folder()), "threads": threads, **told}
        asking[tool] = functools.partial(_ask_tool, place.python, script, known, settings)
    return asking


def _ask_tool(
    python: Path, script: str, told: Answer, settings: Mapping[str, str], question: Answer
) -> Answer:
    with TemporaryDirectory() as place:
        return ask_peer(python, script, {**told, **question, "place": place}, settings)


def studied(
    folder: Path,
    asking: Mapping[str, Callable[[Answer], Answer]],
    most: int,
    seeds: Sequence[int],
    kept: Path,
) -> Study:
    """All tools on one data set, in turn, seed by seed; every other seed backwards."""
    whole, tested = read(folder / "train.csv"), read(folder / "test.csv")
    drawn = {seed: some_of_each(whole, most, seed) for seed in seeds}
    told = {tool: list[Answer]() for tool in asking}
    with TemporaryDirectory() as place:
        test = str(write(Path(place) / "test.csv", tested))
        for seed, rows in drawn.items():
            train = str(write(Path(place) / "train.csv", rows))
            question = {"train": train, "test": test, "seed": seed}
            for tool in list(asking)[:: -1 if seed % 2 else 1]:
                name = re.sub(r"\W+", "-", f"{folder.name} {len(rows)} {seed} {tool}").strip("-")
                try:
                    found = kept_or(kept / f"{name}.json", asking[tool], question)
                except CannotSayError as error:
                    print(f"{folder.name}, seed {seed}, {tool}: {error}", flush=True)
                    continue
                told[tool].append(found)
                print(f"{folder.name}, seed {seed}, {tool}: {found['seconds']:.0f} s", flush=True)
    return Study(
        name=folder.name,
        rows=(len(drawn[seeds[0]]), len(whole)),
        task=task_of(whole, tested),
        told={tool: own for tool, own in told.items() if len(own) == len(seeds)},
    )


def kept_or(path: Path, ask: Callable[[Answer], Answer], question: Answer) -> Answer:
    """What was answered before, or is now.

    Raises:
        CannotSayError: The tool failed.
    """
    if not path.is_file():
        found = ask(question)
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(json.dumps(found), "utf-8")
    return json.loads(path.read_text("utf-8"))


def some_of_each(rows: Sequence[tuple[str, str]], most: int, seed: int) -> list[tuple[str, str]]:
    """Some of the rows, of each class its share: the same of a seed, in the order of the file."""
    by_class = defaultdict[str, list[int]](list)
    for number, (_, label) in enumerate(rows):
        by_class[label].append(number)
    draw, share = random.Random(seed), min(1.0, most / len(rows))
    taken = list[int]()
    for _, own in sorted(by_class.items()):
        taken += draw.sample(own, min(len(own), max(2, round(share * len(own)))))
    return [rows[number] for number in sorted(taken)]


def task_of(rows: Sequence[tuple[str, str]], tested: Sequence[tuple[str, str]]) -> EvaluationTask:
    """The test rows as a question; the same text twice is one piece of evidence."""
    classes = tuple(sorted({label for _, label in (*rows, *tested)}))
    place = {label: number for number, label in enumerate(classes)}
    numbers = dict[str, int]()
    groups = [numbers.setdefault(text, len(numbers)) for text, _ in tested]
    return EvaluationTask(
        targets=torch.tensor([place[label] for _, label in tested]),
        classes=classes,
        groups=torch.tensor(groups),
    )


# --- The tables.


def of_scores(study: Study) -> Table:
    """How often each is right, what that is more than ours, and what it takes."""
    every = {tool: study.answers(tool) for tool in study.told}
    to_linear, to_grid = (differences(study, every, tool) for tool in (LINEAR, GRID))
    some = "" if study.rows[0] == study.rows[1] else f" of {study.rows[1]:,}"
    seeds = max(map(len, study.told.values()))
    return Table(
        title=f"{study.name}: {study.rows[0]:,}{some} rows learned from, "
        f"{len(study.task.targets):,} tested, {seeds} seed{'s' * (seeds > 1)}",
        columns=(
            "tool", "accuracy", "more than `mean+linear`", "more than the grid", "seconds",
            "processor seconds",
        ),
        rows=[
            [
                tool,
                score(fmean(scores(answers, study.task)), *score_interval(answers, study.task)),
                to_linear.get(tool, "–"),
                to_grid.get(tool, "–"),
                figure(fmean(one["seconds"] for one in study.told[tool]), 0),
                figure(fmean(one["cpu_seconds"] for one in study.told[tool]), 0),
            ]
            for tool, answers in every.items()
        ],
    )  # fmt: skip


def differences(study: Study, every: Mapping[str, Answers], reference: str) -> dict[str, Cell]:
    """How much better every other tool is than one of ours, all of them one family."""
    if reference not in every or len(every) == 1:
        return {}
    found = compare(list(every.values()), study.task, reference=reference)
    return {
        one.name: gap(one.difference, one.low, one.high, differs=one.differs)
        for one in found.to_reference
    }


def of_choices(study: Study) -> Table:
    """What each tool took in the end."""

    def rows() -> Iterator[list[Cell]]:
        for tool, told in study.told.items():
            chosen = "; ".join(dict.fromkeys(one["chosen"] for one in told))
            yield [tool, told[0]["version"], chosen]

    return Table(
        title=f"{study.name}: what was taken in the end",
        columns=("tool", "version", "chosen"),
        rows=list(rows()),
    )


if __name__ == "__main__":
    main()
