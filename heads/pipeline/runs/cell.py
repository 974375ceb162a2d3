"""One cell of a leaderboard, and how it is kept."""

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

import torch
from safetensors import SafetensorError
from safetensors.torch import load_file, save_file
from torch import Tensor

from heads.errors import DataError
from heads.pipeline.grid.learner import Chosen, Tried
from heads.pipeline.measure.measures import Bin, Measures
from heads.pipeline.measure.outcomes import BASELINES, Answers, Outcome
from heads.pipeline.measure.paired import Difference
from heads.pipeline.runs.folder import RunFolder


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Cell:
    """A recipe, or a baseline, with all that was measured of it.

    Attributes:
        name: The recipe, or "majority" or "tfidf".
        measures: How well it does.
        parameters: How many numbers its head has; 0 for a baseline.
        seconds: How long the search and all seeds took, on one core.
        chosen: The settings that were best on the development rows.
        tried: The validation curve: everything that was tried, in order.
        latency_ms: What reading and head add to the base model for one text; None until known.
        to_reference: Its difference from the reference; None for the reference itself.
        to_best: Its difference from the best head; None for that one.
    """

    name: str
    measures: Measures
    parameters: int
    seconds: float
    chosen: Chosen
    tried: tuple[Tried, ...] = ()
    latency_ms: float | None = None
    to_reference: Difference | None = None
    to_best: Difference | None = None

    @property
    def is_baseline(self) -> bool:
        """Whether it needs no base model."""
        return self.name in BASELINES

    def as_json(self) -> dict[str, Any]:
        """The cell as plain values; shares, not percent."""
        own = asdict(self.measures) | {"confusion": self.measures.confusion.tolist()}
        return {
            "recipe": self.name,
            "baseline": self.is_baseline,
            **{name: own[name] for name in own if name not in ("name", "bins")},
            "reliability": own["bins"],
            "parameters": self.parameters,
            "train_seconds": self.seconds,
            "latency_ms": self.latency_ms,
            "chosen": dict(self.chosen),
            "to_reference": asdict(self.to_reference) if self.to_reference else None,
            "to_best": asdict(self.to_best) if self.to_best else None,
        }


def keep(run: RunFolder, number: int, cell: Cell, outcome: Outcome) -> None:
    """Writes a cell and its answers; the JSON last, so that it vouches for the rest.

    Raises:
        DataError: The disk does not take it.
    """
    tensors: dict[str, Tensor] = {"confusion": cell.measures.confusion.int()}
    for seed, (rows, logits) in enumerate(zip(outcome.rows, outcome.logits, strict=True)):
        sure = logits.double().softmax(dim=1).amax(dim=1)
        tensors |= {
            f"rows.{seed}": rows.int(),
            f"classes.{seed}": logits.argmax(dim=1).int(),
            f"confidence.{seed}": sure.float(),
        }
    run.put(f"cells/{number:03}.safetensors", lambda place: save_file(tensors, place))
    values = cell.as_json() | {"tried": [asdict(point) for point in cell.tried]}
    del values["confusion"], values["to_reference"], values["to_best"]
    run.write(f"cells/{number:03}.json", values)
    (run.path / f"cells/{number:03}.failed.json").unlink(missing_ok=True)  # of an earlier attempt


def kept(run: RunFolder, number: int) -> Cell | None:
    """Reads a cell back; None where it is not done.

    Raises:
        DataError: It is broken.
    """
    values = run.read(f"cells/{number:03}.json")
    if values is None:
        return None
    try:
        confusion = _tensors(run, number)["confusion"].long()
        bins = tuple(Bin(**one) for one in values["reliability"])
        plain = {name: values[name] for name in _PLAIN}
        return Cell(
            name=values["recipe"],
            measures=Measures(
                name=values["recipe"],
                accuracies=tuple(values["accuracies"]),
                f1=tuple(values["f1"]),
                bins=bins,
                confusion=confusion,
                **plain,
            ),
            parameters=values["parameters"],
            seconds=values["train_seconds"],
            chosen=values["chosen"],
            tried=tuple(Tried(**point) for point in values["tried"]),
            latency_ms=(run.read("latency.json") or {}).get(values["recipe"]),
        )
    except (KeyError, TypeError, ValueError, OSError, SafetensorError) as error:
        what = f"The run {run.id} is broken: its cell {number} cannot be read."
        raise DataError(what, "Delete the run and train again.") from error


_PLAIN = (
    "rows", "accuracy", "low", "high", "balanced_accuracy", "macro_f1", "log_loss", "brier",
    "calibration_error",
)  # fmt: skip


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Said:
    """What a cell answered on the rows tested, and how sure it was.

    Attributes:
        answers: Rows and classes of every seed.
        confidence: For each seed (n,), the probability of the class answered.
    """

    answers: Answers
    confidence: tuple[Tensor, ...]


def said(run: RunFolder, number: int, name: str) -> Said:
    """Reads the answers of a cell that is done.

    Raises:
        DataError: They are broken.
    """
    try:
        tensors: Mapping[str, Tensor] = _tensors(run, number)
        seeds = range(sum(name.startswith("rows.") for name in tensors))
        return Said(
            answers=Answers(
                name=name,
                rows=tuple(tensors[f"rows.{seed}"].long() for seed in seeds),
                classes=tuple(tensors[f"classes.{seed}"].long() for seed in seeds),
            ),
            confidence=tuple(tensors[f"confidence.{seed}"] for seed in seeds),
        )
    except (KeyError, OSError, SafetensorError) as error:
        what = f"The run {run.id} is broken: the answers of {name} cannot be read."
        raise DataError(what, "Delete the run and train again.") from error


def _tensors(run: RunFolder, number: int) -> dict[str, Tensor]:
    return load_file(run.path / f"cells/{number:03}.safetensors")


def commonest(targets: Tensor, rows: Tensor) -> int:
    """The class that most of some rows have."""
    return int(torch.bincount(targets[rows]).argmax())
