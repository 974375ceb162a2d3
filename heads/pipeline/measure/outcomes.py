"""What every cell of a comparison answered, and what is needed to judge it.

A cell is a recipe or a baseline; a seed is one repetition of it: another split, another draw
of training rows, or another initialisation.

Legend: N rows of the corpus, n tested rows of one seed, c classes, s seeds, g unique texts.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from heads.errors import RecipeError
from heads.pipeline.corpus import folded

MAJORITY = "majority"
TFIDF = "tfidf"
BASELINES = (MAJORITY, TFIDF)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Answers:
    """The classes that one cell answered, in every seed: all that a comparison needs.

    Attributes:
        name: The recipe, or the name of a baseline.
        rows: For each seed (n,), the numbers of the tested rows in the corpus.
        classes: For each seed (n,), the number of the class answered.
    """

    name: str
    rows: tuple[Tensor, ...]
    classes: tuple[Tensor, ...]


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Outcome:
    """What one cell said of every class, in every seed: all that its measures need.

    Attributes:
        name: The recipe, or the name of a baseline.
        rows: For each seed (n,), the numbers of the tested rows in the corpus.
        logits: For each seed (n, c).
    """

    name: str
    rows: tuple[Tensor, ...]
    logits: tuple[Tensor, ...]

    @property
    def classes(self) -> tuple[Tensor, ...]:
        """For each seed (n,), the class of the largest logit."""
        return tuple(logits.argmax(dim=1) for logits in self.logits)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Task:
    """What the cells were asked.

    Attributes:
        targets: (N,), the number of each row's class.
        classes: The names of the classes, in the order of the logits.
        groups: (N,), rows of one and the same text share a number: they are no independent
            evidence. `same_text` makes them.
    """

    targets: Tensor
    classes: tuple[str, ...]
    groups: Tensor


def same_text(texts: Sequence[str], pairs: Sequence[str] = ()) -> Tensor:
    """(N,), equal numbers for rows of equal text; case and white space do not count.

    >>> same_text(["Yes", "no", " yes"]).tolist()
    [0, 1, 0]
    """
    numbers: dict[str, int] = {}
    keys = map(folded, texts, pairs) if pairs else map(folded, texts)
    return torch.tensor([numbers.setdefault(key, len(numbers)) for key in keys], dtype=torch.long)


def check(outcome: Outcome, task: Task) -> None:
    """Refuses answers that are no numbers.

    Raises:
        RecipeError: A logit is infinite or NaN.
        ValueError: Shapes do not fit, or there is no seed (a fault of the caller).
    """
    if not outcome.rows or len(outcome.rows) != len(outcome.logits):
        raise ValueError(f"{outcome.name}: {len(outcome.rows)} seeds, {len(outcome.logits)} logits")
    for rows, logits in zip(outcome.rows, outcome.logits, strict=True):
        if not len(rows) or logits.shape != (len(rows), len(task.classes)):
            raise ValueError(f"{outcome.name}: logits {tuple(logits.shape)} for {len(rows)} rows")
        broken = int((~logits.isfinite().all(dim=1)).sum())
        if broken:
            what = f"{outcome.name} answers {broken:,} of {len(rows):,} rows with no finite number."
            raise RecipeError(what, "Lower its learning rate, or leave it out.")


def right(outcome: Outcome | Answers, task: Task) -> tuple[Tensor, ...]:
    """For each seed (n,), 1 where the class answered is the row's, else 0."""
    return tuple(
        (answered == task.targets[rows]).double()
        for rows, answered in zip(outcome.rows, outcome.classes, strict=True)
    )


def by_text(values: Sequence[Tensor], rows: Sequence[Tensor], task: Task) -> Tensor:
    """Each unique text's part of the mean in each seed, (s, g), of values (n,) of tested rows.

    The parts of a seed sum to its mean; a text that it does not test has 0.
    """
    parts = torch.zeros(len(rows), int(task.groups.max()) + 1).double()
    for part, value, tested in zip(parts, values, rows, strict=True):
        part.index_add_(0, task.groups[tested], value / len(tested))
    return parts
