"""One cell of a leaderboard, and how it is kept."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

import torch
from torch import Tensor

from heads.evaluation.calibration import Bin, Calibration, Coverage
from heads.evaluation.details import LabelDetails, Measures
from heads.evaluation.predictions import (
    BASELINES,
    Answers,
    CellPredictions,
    EvaluationTask,
    answers_of,
    average_out_of_fold,
)
from heads.evaluation.significance import Difference
from heads.events import Progress
from heads.runs.folder import RunFolder
from heads.training.fitters.base import Chosen, TriedSettings


@dataclass(frozen=True, slots=True, kw_only=True)
class TuningReport:
    """What it took to learn a base model together with a head.

    Attributes:
        parameters: How many numbers of the base model were learned.
        diverged: How many trainings ended worse than an answer that is the same for every text;
            each was thrown away, and begun anew with other random numbers.
        peak_bytes: The most memory that a training held: the weights of its copy, gradients,
            moments, and what a step keeps for its backward pass.
    """

    parameters: int
    diverged: int
    peak_bytes: int


DIFFERENCES = ("to_reference", "to_best", "to_recommended")
SHOWN_ANEW = ("epochs", "converged")  # settings of a look, not of a trial


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Cell:
    """A recipe, or a baseline, with all that was measured of it.

    Attributes:
        name: The recipe, or "majority" or "tfidf".
        measures: How well it does.
        parameters: How many numbers its head has; 0 for a baseline.
        seconds: How long the search and all seeds took, on one core.
        chosen: The settings of the first seed, whose head is kept.
        chosen_by_seed: For each seed the settings that were best on its development rows.
        tried: The validation curve: everything that was tried, in order.
        development_score: What the settings of all seeds came to on their development rows, on
            average: a little too good, as they were chosen there.
        latency_ms: What reading and head add to the base model for one text; None until known.
        to_reference: Its difference from the reference; None for the reference itself.
        to_best: Its difference from the best head; None for that one.
        to_recommended: Its difference from the recommended head; None for that one, and where the
            two were not compared.
        tuning: What it took to learn the base model as well; None where that is frozen.
    """

    name: str
    measures: Measures
    parameters: int
    seconds: float
    chosen: Chosen
    chosen_by_seed: tuple[Chosen, ...] = ()
    tried: tuple[TriedSettings, ...] = ()
    development_score: float = 0.0
    latency_ms: float | None = None
    to_reference: Difference | None = None
    to_best: Difference | None = None
    to_recommended: Difference | None = None
    tuning: TuningReport | None = None

    @property
    def trials(self) -> int:
        """How many settings a seed has tried, at most."""
        by_seed: dict[int, set[str]] = {}
        for point in self.tried:
            own = {name: v for name, v in point.settings.items() if name not in SHOWN_ANEW}
            by_seed.setdefault(point.seed, set()).add(repr(own))
        return max(map(len, by_seed.values()), default=0)

    @property
    def learned(self) -> int:
        """How many numbers were learned: those of the head, and of the base model where it is."""
        return self.parameters + (self.tuning.parameters if self.tuning else 0)

    @property
    def is_converged(self) -> bool:
        """Whether no seed was still improving when its training was ended."""
        return all(one.get("converged", True) for one in self.chosen_by_seed)

    @property
    def is_baseline(self) -> bool:
        """Whether it needs no base model."""
        return self.name in BASELINES

    def as_json(self) -> dict[str, Any]:
        """The cell as plain values; shares, not percent."""
        own = _plain(self.measures)
        table = self.measures.confusion
        return {
            "recipe": self.name,
            "baseline": self.is_baseline,
            **{name: own[name] for name in ("metric", "rows", "score", "low", "high", "scores")},
            **own["values"],
            "f1": own["f1"],
            "labels": own["labels"],
            "confusion": None if table is None else table.tolist(),
            "reliability": own["bins"],
            "calibration": own["calibration"],
            "parameters": self.parameters,
            "train_seconds": self.seconds,
            "trials": self.trials,
            "tuning": asdict(self.tuning) if self.tuning else None,
            "latency_ms": self.latency_ms,
            "chosen": dict(self.chosen),
            "chosen_by_seed": [dict(one) for one in self.chosen_by_seed],
            **{name: asdict(own) if (own := getattr(self, name)) else None for name in DIFFERENCES},
        }


def _plain(measures: Measures) -> dict[str, Any]:
    """All measures but the confusion as plain values."""
    values = asdict(replace(measures, confusion=None, values=dict(measures.values)))
    del values["confusion"]
    return values


def keep(
    run: RunFolder, number: int, cell: Cell, outcome: CellPredictions, task: EvaluationTask
) -> None:
    """Save a cell and its answers; the JSON last, so that it vouches for the rest."""
    answers, tensors = answers_of(outcome, task), dict[str, Tensor]()
    for seed, (rows, given) in enumerate(zip(answers.rows, answers.given, strict=True)):
        tensors |= {f"rows.{seed}": rows.int(), f"given.{seed}": given}
        if task.problem.is_exclusive:
            sure = outcome.logits[seed].double().softmax(dim=1).amax(dim=1)
            tensors[f"confidence.{seed}"] = sure.float()
    if cell.measures.confusion is not None:
        tensors["confusion"] = cell.measures.confusion.int()
    tensors["is_random"] = torch.tensor(answers.is_random)
    if answers.repetition:
        tensors["repetition"] = torch.tensor(answers.repetition)
    run.write_tensors(f"cells/{number:03}.safetensors", tensors)
    _keep_probabilities(run, number, cell, outcome, task)
    values = {
        "recipe": cell.name,
        "measures": _plain(cell.measures),
        "parameters": cell.parameters,
        "seconds": cell.seconds,
        "tuning": asdict(cell.tuning) if cell.tuning else None,
        "chosen": dict(cell.chosen),
        "chosen_by_seed": [dict(one) for one in cell.chosen_by_seed],
        "tried": [point.as_json() for point in cell.tried],
        "development_score": cell.development_score,
    }
    run.write(f"cells/{number:03}.json", values)
    (run.path / f"cells/{number:03}.failed.json").unlink(missing_ok=True)  # of an earlier attempt


MOST_PROBABILITIES = 50_000_000  # of a cell, which are 100 MB


def _keep_probabilities(
    run: RunFolder, number: int, cell: Cell, outcome: CellPredictions, task: EvaluationTask
) -> None:
    """Writes the probabilities of all classes on every row tested, unless those are too many."""
    if not task.problem.has_classes:
        return
    scaled = cell.measures.calibration
    rows, told = average_out_of_fold(outcome, task.problem, scaled.temperature if scaled else 1.0)
    if told.numel() <= MOST_PROBABILITIES:
        tensors = {"rows": rows.int(), "probabilities": told.half()}
        run.write_tensors(f"cells/{number:03}.probabilities.safetensors", tensors)


def probabilities_of_cell(run: RunFolder, number: int) -> tuple[Tensor, Tensor] | None:
    """Read the rows tested, (n,), and their probabilities, (n, c), at the cell's temperature.

    None of numbers, of too many rows of too many classes, and in runs of before they were kept.
    """
    name = f"cells/{number:03}.probabilities.safetensors"
    if not (run.path / name).is_file():
        return None
    tensors = run.read_tensors(name)
    try:
        return tensors["rows"].long(), tensors["probabilities"].double()
    except KeyError as error:
        raise run.broken(name) from error


def keep_failure(run: RunFolder, number: int, says: str) -> Progress:
    """Notes that a cell could not be trained; the others go on."""
    run.write(f"cells/{number:03}.failed.json", says)
    return Progress(says=says, share=0.5)


def kept(run: RunFolder, number: int) -> Cell | None:
    """Read a cell; None where it is not done; raise DataError if it is broken."""
    values = run.read(f"cells/{number:03}.json")
    if values is None:
        return None
    try:
        table = _tensors(run, number).get("confusion")
        return Cell(
            name=values["recipe"],
            measures=_measures(values["measures"], None if table is None else table.long()),
            parameters=values["parameters"],
            seconds=values["seconds"],
            chosen=values["chosen"],
            chosen_by_seed=tuple(values["chosen_by_seed"]),
            tried=tuple(TriedSettings(**point) for point in values["tried"]),
            development_score=values["development_score"],
            tuning=TuningReport(**own) if (own := values.get("tuning")) else None,
            latency_ms=(run.read("latency.json") or {}).get(values["recipe"]),
        )
    except (KeyError, TypeError, ValueError) as error:
        raise run.broken(f"cells/{number:03}.json") from error


def read_cells(run: RunFolder, names: Sequence[str]) -> dict[str, Cell]:
    """Read every cell that is done, by its name, given the names of all in the order of numbers.

    Raises:
        DataError: One is broken, or gone though the leaderboard lists it: another would answer.
    """
    numbered = enumerate(names)
    cells = {name: cell for number, name in numbered if (cell := kept(run, number))}
    listed = [cell["recipe"] for cell in (run.read("leaderboard.json") or {"cells": []})["cells"]]
    for name in listed:
        if name in names and name not in cells:
            raise run.broken(f"cells/{names.index(name):03}.json", name)
    return cells


def _measures(values: dict[str, Any], confusion: Tensor | None) -> Measures:
    """Measures from plain values, as `_plain` gave them."""
    scaled = values["calibration"]
    if scaled is not None:
        bins = tuple(Bin(**one) for one in scaled["bins"])
        coverage = tuple(Coverage(**one) for one in scaled["coverage"])
        scaled = Calibration(**scaled | {"bins": bins, "coverage": coverage})
    read = {
        "scores": tuple(values["scores"]),
        "f1": tuple(values["f1"]),
        "labels": tuple(LabelDetails(**one) for one in values["labels"]),
        "bins": tuple(Bin(**one) for one in values["bins"]),
        "calibration": scaled,
    }
    return Measures(**values | read, confusion=confusion)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class CellAnswers:
    """What a cell answered on the rows tested, and how sure it was.

    Attributes:
        answers: Rows and answers of every seed.
        confidence: For each seed (n,), the probability of the class answered; none for label sets
            and numbers.
    """

    answers: Answers
    confidence: tuple[Tensor, ...]


def answers_of_cell(run: RunFolder, number: int, name: str) -> CellAnswers:
    """Read the answers of a cell that is done; raise DataError if they are broken."""
    tensors = _tensors(run, number)
    try:
        seeds = range(sum(name.startswith("rows.") for name in tensors))
        repetition, is_random = tensors.get("repetition"), tensors.get("is_random")
        return CellAnswers(
            answers=Answers(
                name=name,
                rows=tuple(tensors[f"rows.{seed}"].long() for seed in seeds),
                given=tuple(tensors[f"given.{seed}"] for seed in seeds),
                is_random=True if is_random is None else bool(is_random),
                repetition=() if repetition is None else tuple(repetition.tolist()),
            ),
            confidence=tuple(
                tensors[key] for seed in seeds if (key := f"confidence.{seed}") in tensors
            ),
        )
    except KeyError as error:
        raise run.broken(f"cells/{number:03}.safetensors") from error


def _tensors(run: RunFolder, number: int) -> Mapping[str, Tensor]:
    return run.read_tensors(f"cells/{number:03}.safetensors")
