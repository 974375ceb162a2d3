"""The peers: one head and the ranking of layers, everything in turn in the same rounds.

Peers run in environments of their own (benchmarks/venvs.py), each question in a process of its
own. Loading is not timed, for nobody. Trainer and adapters read every row anew in every epoch,
which takes many minutes; they get a part of the rows, and their time is taken to grow in line.
"""

import functools
import statistics
import tempfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from scipy.stats import kendalltau

from benchmarks.reports import Row, compared
from benchmarks.rounds import Answer, CannotSayError, answered, drawn, in_turn, own, precisions
from benchmarks.venvs import environment
from heads.backbone.hub import bundled_folder

RECIPE = "mean+linear"
EXACT, FAST, AGAIN = "ours, exact", "ours, fast", "ours, again"
SETFIT = "SetFit, head only"
SENTENCE = "sentence-transformers + LogisticRegression"
SEARCHED = f"{SENTENCE}, C searched"
TRAINER, ADAPTERS = "Trainer, frozen base, 3 epochs", "adapters, head only, 3 epochs"
RANKER = "transformer-ranker"
SCRIPTS: Mapping[str, tuple[str, str]] = {  # a peer's environment and its script
    SETFIT: ("setfit", "setfit_head"),
    SENTENCE: ("sentence-transformers", "sentence_logistic"),
    TRAINER: ("sentence-transformers", "trainer_frozen"),
    ADAPTERS: ("adapters", "adapter_head"),
    RANKER: ("transformer-ranker", "ranker_layers"),
}
SLOW = (TRAINER, ADAPTERS)
GOALS = {EXACT: 2.5, FAST: 5.0, AGAIN: 50.0}  # against SetFit
ESTIMATES = {"logme": "LogME", "hscore": "H-score", "knn": "nearest rows"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Sizes:
    """How many rows are taken, at most, to learn from and to test on.

    Attributes:
        whole: By all but the slow ones.
        part: By the slow ones.
    """

    whole: tuple[int, int]
    part: tuple[int, int]
    names: tuple[str, ...]


FULL = Sizes(whole=(10**9, 10**9), part=(1_000, 500), names=("banking77", "trec6"))
QUICK = Sizes(whole=(1_000, 500), part=(100, 50), names=("trec6",))


def main(data: Path, rounds: int) -> list[Row]:
    """Measures all peers, on the second data set in one round; with one round, on few rows."""
    found: list[Row] = []
    sizes = FULL if rounds > 1 else QUICK
    for name in sizes.names:
        if (data / name).is_dir():
            found += measured(data / name, sizes, rounds if name == sizes.names[0] else 1)
        else:
            print(f"{data / name} is not there: not measured")
    return found


def measured(folder: Path, sizes: Sizes, rounds: int) -> list[Row]:
    """All peers on one data set."""
    with (
        drawn(folder, *sizes.whole) as files,
        drawn(folder, *sizes.part) as few,
        tempfile.TemporaryDirectory() as kept,
    ):
        print(f"{folder.name}: {files['train_rows']:,} + {files['test_rows']:,} rows")
        asking, missing = asked_of_all(files, few, Path(kept))
        own(_head(files), Path(kept))  # whoever asks again finds what this keeps
        answers, failed = in_turn(asking, rounds)
        scale = Scale(files=files, few=few)
        failed |= missing
        told = [*one_head(folder.name, answers, scale), *absent(folder.name, failed)]
        if "ours, ranking" in answers and RANKER in answers:
            trained = own({"job": "layers", "train": files["train"], "test": files["test"]})
            told += ranking(folder.name, answers, trained)
    return told


def asked_of_all(
    files: Answer, few: Answer, kept: Path
) -> tuple[dict[str, Callable[[], Answer]], dict[str, str]]:
    """What asks whom, by name, and why some cannot be asked."""
    asking: dict[str, Callable[[], Answer]] = {
        EXACT: lambda: own(_head(files)),
        AGAIN: lambda: own(_head(files), kept),
        "ours, ranking": lambda: own(_head(files) | {"job": "rank"}),
    }
    if "fast" in precisions():
        asking[FAST] = lambda: own(_head(files, "fast"))
    missing: dict[str, str] = {}
    for name in SCRIPTS:
        try:
            asking[name] = peer(name, few if name in SLOW else files, search=True)
        except CannotSayError as error:
            missing[name] = str(error)
    return asking, missing


def peer(name: str, files: Answer, *, search: bool) -> Callable[[], Answer]:
    """What asks a peer for a head on these files.

    Raises:
        CannotSayError: It cannot be installed here.
    """
    environ, script = SCRIPTS[name]
    place = environment(environ)
    if place.python is None:
        raise CannotSayError(f"not installed: {place.reason}")
    question = {"train": files["train"], "test": files["test"], "search": search}
    question |= {"model": str(bundled_folder())}
    command = (place.python, Path(__file__).parent / "peer_scripts" / f"{script}.py")
    return functools.partial(answered, command, question)


def _head(files: Answer, precision: str = "exact") -> Answer:
    question = {"job": "head", "recipe": RECIPE, "precision": precision}
    return question | {"train": files["train"], "test": files["test"]}


def absent(data: str, failed: Mapping[str, str]) -> list[Row]:
    """A row for each that could not be measured, with the reason."""
    return [
        Row(what=f"one head, {data}", against=name, note=reason, rounds=0)
        for name, reason in failed.items()
    ]


@dataclass(frozen=True, slots=True, kw_only=True)
class Scale:
    """How the time for some rows becomes that for all."""

    files: Answer
    few: Answer

    def seconds(self, answer: Answer) -> float:
        """What the slow ones would take for the rows that the others had."""
        files, few, phases = self.files, self.few, answer["phases"]
        return (
            phases["train"] * files["train_rows"] / few["train_rows"]
            + phases["answer"] * files["test_rows"] / few["test_rows"]
        )

    @property
    def says(self) -> str:
        files, few = self.files, self.few
        return (
            f"measured on {few['train_rows']:,} of {files['train_rows']:,} rows and "
            f"{few['test_rows']:,} of {files['test_rows']:,} tested, and taken to grow in line"
        )


def one_head(data: str, answers: Mapping[str, Sequence[Answer]], scale: Scale) -> list[Row]:
    """One head of ours against one head of every peer."""
    taken, notes = _peers(answers, scale)
    rows = []
    for name in filter(answers.__contains__, (EXACT, FAST, AGAIN)):
        precision = answers[name][0]["precision"]
        ours = f"{100 * answers[name][0]['accuracy']:.1f} % right, {precision}"
        ways = {
            "whole run": [one["seconds"] for one in answers[name]],
            "reading and learning": [sum(one["phases"].values()) for one in answers[name]],
        }
        for way, seconds in ways.items():
            for peer, theirs in taken.items():
                if peer != SETFIT and (name != EXACT or way != "whole run"):
                    continue
                row = compared(
                    f"one head, {data}, {name.removeprefix('ours, ')}, {way}",
                    seconds,
                    peer,
                    theirs,
                    note=f"{ours}; theirs {notes[peer]}",
                    target=GOALS[name] if peer == SETFIT else None,
                    drawn=data == FULL.names[0],
                )
                rows.append(row)
    return rows


def _peers(
    answers: Mapping[str, Sequence[Answer]], scale: Scale
) -> tuple[dict[str, list[float]], dict[str, str]]:
    """Of every peer with one head: its seconds by round, and its accuracy in words."""
    taken: dict[str, list[float]] = {}
    notes: dict[str, str] = {}
    for name in filter(answers.__contains__, SCRIPTS):
        first = answers[name][0]
        if name == RANKER:
            continue
        notes[name] = f"{100 * first['accuracy']:.1f} %"
        if name in SLOW:
            taken[name] = [scale.seconds(one) for one in answers[name]]
            notes[name] = f"{scale.says} (so few rows give {notes[name]})"
        elif name == SENTENCE:
            fit, search = "fit", "search C"
            taken[name] = [one["seconds"] - one["phases"][search] for one in answers[name]]
            taken[SEARCHED] = [one["seconds"] - one["phases"][fit] for one in answers[name]]
            notes[SEARCHED] = f"{100 * first['searched']:.1f} %"
        else:
            taken[name] = [one["seconds"] for one in answers[name]]
    return taken, notes


def ranking(
    data: str, answers: Mapping[str, Sequence[Answer]], trained: Mapping[str, Any]
) -> list[Row]:
    """The layers of the base model in order of promise: how fast, and whether training agrees."""
    ours, theirs = answers["ours, ranking"], answers[RANKER]
    scores = trained["scores"]
    time = compared(
        f"6 layers ranked by three estimates, {data}",
        [one["seconds"] for one in ours],
        RANKER,
        [one["seconds"] for one in theirs],
        note=f"of which reading {_phase(ours, 'read'):.1f} and {_phase(theirs, 'read'):.1f} s; "
        "ours estimates on at most 4,000 of the rows, theirs on all",
    )
    rows = [time]
    best = 1 + scores.index(max(scores))
    for name, title in ESTIMATES.items():
        mine, other = trained["layers"][name], theirs[0]["layers"][name]
        between, first = _tau(mine, other), [1 + one.index(max(one)) for one in (mine, other)]
        row = Row(
            what=f"layers by {title} and after training, {data}: Kendall's tau",
            ours=_tau(mine, scores),
            against=RANKER,
            peer=_tau(other, scores),
            unit="",
            note=f"ours puts layer {first[0]} first, theirs {first[1]}, training {best}; "
            f"tau between the two {between:.2f}",
        )
        rows.append(row)
    return rows


def _tau(some: Sequence[float], others: Sequence[float]) -> float:
    found = kendalltau(some, others)
    return float(found.statistic)  # pyright: ignore[reportAttributeAccessIssue]


def _phase(answers: Sequence[Answer], name: str) -> float:
    return statistics.median(one["phases"][name] for one in answers)
