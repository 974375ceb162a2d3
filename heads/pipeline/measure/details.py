"""What is measured of one kind of label beside the score; each kind fills what it has."""

from collections.abc import Mapping
from dataclasses import dataclass

from torch import Tensor


@dataclass(frozen=True, slots=True, kw_only=True)
class Label:
    """How well one label is found, where a row may have any number of them.

    Each measure is None where nothing was there to take it from.

    Attributes:
        name: Of the label.
        rows: How many of the tested rows have it.
        precision: Of the rows that it was given, the share that has it.
        recall: Of the rows that have it, the share that it was given.
        f1: Their harmonic mean.
        average_precision: The area under precision over recall, over all thresholds.
        threshold: The probability from which it is given.
    """

    name: str
    rows: int
    precision: float | None
    recall: float | None
    f1: float | None
    average_precision: float | None
    threshold: float


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Details:
    """Measures of one kind of label.

    Attributes:
        values: Measures by name, mean over seeds.
        f1: F1 of each class or label; None for one that was neither tested nor answered.
        labels: Every label closely, where a row may have any number of them.
        confusion: (c, c), how often a class (row) was answered with a class (column).
    """

    values: Mapping[str, float]
    f1: tuple[float | None, ...] = ()
    labels: tuple[Label, ...] = ()
    confusion: Tensor | None = None
