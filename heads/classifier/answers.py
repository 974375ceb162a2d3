"""What a head answers to texts, as columns to be written: answer, probability, logits.

Legend: n texts, c classes.
"""

from collections.abc import Collection, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from heads.classifier.classifier import Classifier
from heads.data.formats.writers import Added, Value
from heads.data.labels import SEPARATORS
from heads.data.table import LISTS
from heads.errors import DataError

ANSWER, PROBABILITY, ABSTAINED, CALIBRATED = (
    "answer", "probability", "abstained", "calibrated_probability",
)  # fmt: skip
_MOST_TOLD = 2


@dataclass(frozen=True, slots=True, kw_only=True)
class AnswerColumns:
    """The columns that answers come in, and what stands in them.

    Attributes:
        probabilities: Whether every class's probability is a column.
        logits: Whether every class's logit is a column.
        abstain_below: How sure the head must be to answer; 0 where it always does.
    """

    classifier: Classifier
    columns: tuple[Added, ...]
    probabilities: bool
    logits: bool
    abstain_below: float
    notes: tuple[str, ...] = ()

    @property
    def nothing(self) -> tuple[Value, ...]:
        """What stands there of a row without a text."""
        return (None,) * len(self.columns)

    @torch.no_grad()
    def of(self, logits: Tensor) -> list[tuple[Value, ...]]:
        """The values of all columns, given the logits (n, c): a tuple a text."""
        head = self.classifier.head
        shares = head.problem.probabilities(logits)
        found: list[Sequence[Value]] = [self._answers(logits)]
        if head.problem.has_classes:
            found.append(self._chances(logits, shares))
        if self.abstain_below:
            sure = self.classifier.sureness(logits)
            found += [(sure < self.abstain_below).tolist(), sure.tolist()]
        found += shares.T.tolist() if self.probabilities and head.problem.has_classes else []
        found += logits.T.tolist() if self.logits else []
        return list(zip(*found, strict=True))

    def _answers(self, logits: Tensor) -> Sequence[Value]:
        given = self.classifier.decided(logits, abstain_below=self.abstain_below)
        if self.columns[0].kind == "labels":
            return [tuple(map(str, one)) for one in given]
        return [one[0] if one else "" for one in given]

    def _chances(self, logits: Tensor, shares: Tensor) -> list[float | None]:
        """The probability of the class answered; of several labels that of the least sure one."""
        head = self.classifier.head
        chosen = head.problem.chosen(logits, head.thresholds)
        if head.problem.gives_number:
            return shares[:, 0].tolist()
        least = shares.masked_fill(~chosen, torch.inf).amin(dim=1).tolist()
        given = chosen.any(dim=1).tolist()
        return [value if any_given else None for value, any_given in zip(least, given, strict=True)]


def answer_columns(
    classifier: Classifier,
    taken: Collection[str] = (),
    *,
    separator: str = "",
    probabilities: bool = False,
    logits: bool = False,
    abstain_below: float = 0.0,
) -> AnswerColumns:
    """Return the columns of a head's answers; raise DataError if these cannot abstain.

    Args:
        taken: Names that other columns have already.
        separator: What stood between labels where it learned, "[]" where cells were lists.
    """
    if not 0 <= abstain_below <= 1:
        what = f"A probability lies between 0 and 1, and {abstain_below:g} does not."
        raise DataError(what, "Abstain below 0.8, for example.")
    if abstain_below:
        classifier.check_abstains()
    problem, classes = classifier.head.problem, classifier.classes
    wanted = [_answer(classifier, separator)]
    wanted += [Added(name=PROBABILITY, kind="number")] if problem.has_classes else []
    if abstain_below:
        wanted += [Added(name=ABSTAINED, kind="flag"), Added(name=CALIBRATED, kind="number")]
    notes = []
    if probabilities and not problem.has_classes:
        notes.append("This head gives a number, which has no probability.")
    elif probabilities:
        wanted += [Added(name=f"probability_{name}", kind="number") for name in classes]
    wanted += [Added(name=f"logit_{name}", kind="number") for name in classes] if logits else []
    columns, said = _renamed(wanted, taken)
    return AnswerColumns(
        classifier=classifier, columns=columns, probabilities=probabilities, logits=logits,
        abstain_below=abstain_below, notes=(*notes, *said),
    )  # fmt: skip


def _answer(classifier: Classifier, separator: str) -> Added:
    """Return the column of answers: one class, a number, or several labels in a cell."""
    problem, classes = classifier.head.problem, classifier.classes
    if not problem.has_classes:
        return Added(name=ANSWER, kind="number")
    if problem.is_exclusive or problem.gives_number:
        return Added(name=ANSWER)
    # A sign that stands in no label; a list if every sign does.
    signs = (separator or SEPARATORS[0], *SEPARATORS)
    free = (sign for sign in signs if sign == LISTS or not any(sign in name for name in classes))
    return Added(name=ANSWER, kind="labels", separator=next(free, LISTS))


def _renamed(
    wanted: Sequence[Added], taken: Collection[str]
) -> tuple[tuple[Added, ...], list[str]]:
    """The columns under names that nothing else has, and a sentence on each that was changed."""
    known, found, changed = {name.strip() for name in taken}, [], {}
    for one in wanted:
        name, number = one.name, 2
        while name in known:
            name, number = f"{one.name}_{number}", number + 1
        if name != one.name:
            changed[one.name] = name
        known.add(name)
        found.append(Added(name=name, kind=one.kind, separator=one.separator))
    notes = [
        f"The file has a column '{old}' already; ours is called '{new}'."
        for old, new in changed.items()
    ]
    if len(notes) > _MOST_TOLD:
        first, *_ = changed.items()
        notes = [
            f"The file has {len(notes):,} columns called as ours are; ours have a number behind "
            f"their names, such as '{first[1]}' for '{first[0]}'."
        ]
    return tuple(found), notes
