"""What it takes to learn a head of the grid, whatever its layers.

A fitter searches settings on the development rows and then learns with them on any rows: for
every seed, and again for the learning curve.
Legend: n rows, w width, c classes.
"""

from collections.abc import Callable, Generator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from math import inf, isnan
from typing import Any, ClassVar, Literal, Protocol

from torch import Tensor, nn

from heads.backbone.tuned import TunedBase
from heads.data.splits import Splits
from heads.evaluation.calibration import thresholds
from heads.parts.modules import Repeat, is_learned, is_plain, leaves
from heads.problem import ProblemType
from heads.recipe import Value
from heads.training.objective import factor_of
from heads.training.task import TrainingTask

Chosen = Mapping[str, Value]
Maker = Callable[[], nn.Sequential]  # a new head, its weights drawn from torch's own dice


@dataclass(frozen=True, slots=True, kw_only=True)
class TriedSettings:
    """One point of a validation curve.

    Attributes:
        settings: What is tried, as plain values.
        step: After that many steps of the optimizer; 0 where there are none.
        score: On the development rows, by the metric that ranks; labels with thresholds chosen
            there.
        loss: The mean loss there, of logits divided by the temperature that suits them best.
        seed: The number of the seed, or fold, whose development rows these are; from 0.
        parts: (m,), each development row's part of the score, which is their mean; None where
            they are not at hand any more.
    """

    settings: Chosen
    step: int
    score: float
    loss: float
    seed: int = 0
    parts: Tensor | None = field(default=None, repr=False, compare=False)

    @property
    def finite_loss(self) -> float:
        """The loss; infinite where too large steps ended in no number."""
        return inf if isnan(self.loss) else self.loss

    def as_json(self) -> dict[str, Any]:
        """Return the point as plain values, without its parts."""
        names = ("settings", "step", "score", "loss", "seed")
        return {name: getattr(self, name) for name in names}


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class FittedHead:
    """A head that has been learned: its logits on the rows asked for, and its tensors.

    Attributes:
        base: What the base model has learned with it; None where it is frozen, and of all seeds but
            the first, whose head alone is kept.
        diverged: How often its training was thrown away and begun with other random numbers.
        peak_bytes: The most memory that its training held: weights, gradients, moments, and what a
            step keeps for its backward pass; 0 where the base model is frozen.
    """

    logits: Tensor
    state: dict[str, Tensor]
    base: TunedBase | None = None
    diverged: int = 0
    peak_bytes: int = 0


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class SearchResult:
    """What the search of one seed came to.

    Attributes:
        chosen: The settings that were best on its development rows.
        point: What they came to there.
        held: (m, c), the logits of the head that was learned with them from all its other rows,
            on its development rows; None where only settings are known.
        state: The tensors of that head, from which learning may go on; None where it begins anew.
    """

    chosen: Chosen
    point: TriedSettings
    held: Tensor | None = None
    state: Mapping[str, Tensor] | None = None


Source = Literal["vectors", "states", "texts"]  # what is kept of the rows, and learned from
Seeds = Sequence[int]
BySeed = Sequence[Tensor]  # for each seed the numbers of some rows
Searches = Sequence[SearchResult]  # for each seed what its search came to
Searching = Generator[TriedSettings, None, list[SearchResult]]


class Fitter(Protocol):
    """A way to learn one kind of head.

    Attributes:
        pace: How long it takes a number and row, by a yardstick of no unit.
        is_random: Whether it draws anything: new weights, dropout, an order of rows.
        learns_from: What it is given of the rows: one pooled vector each, the states of their
            tokens, or their texts.
    """

    pace: ClassVar[float]
    is_random: ClassVar[bool]

    @property
    def learns_from(self) -> Source:
        """What it is given of the rows."""
        ...

    def search(self, task: TrainingTask, splits: Splits, seeds: Seeds) -> Searching:
        """Every seed tries settings on its own development rows; the last answer is the best."""
        ...

    def learn(
        self, task: TrainingTask, found: Searches, rows: BySeed, asked: BySeed, seeds: Seeds
    ) -> list[FittedHead]:
        """Learns with what searches came to on some rows, a seed each, and answers others.

        Where nothing is scored, there are no others.
        """
        ...


def refitted(
    fitter: Fitter, task: TrainingTask, splits: Splits, found: Searches, seeds: Seeds
) -> list[SearchResult]:
    """What searches came to, each best head refitted on all rows but the development rows.

    Solved heads try their settings on a few thousand rows. Judged by those, they would stand
    behind heads that learn step by step, which learn from all rows while they search.
    """
    rows, asked = [splits.fitted(number) for number in range(len(found))], splits.development
    learned = fitter.learn(task, found, rows, asked, seeds)
    ended = list[SearchResult]()
    for number, (one, own) in enumerate(zip(found, learned, strict=True)):
        point = score_settings(one.chosen, 0, own.logits, task, asked[number])
        state = None if one.state is None else own.state
        point = replace(point, seed=number)
        ended.append(replace(one, point=point, held=own.logits, state=state))
    return ended


def score_settings(
    settings: Chosen, step: int, logits: Tensor, task: TrainingTask, rows: Tensor
) -> TriedSettings:
    """Score settings by logits (m, c) of held-out rows, divided by the temperature that suits them.

    Else the loss would tell how sure a head is, which is scaled after training.
    """
    targets, counts = task.targets[rows], task.counts[rows]
    factor = factor_of(logits, targets, task.objective, 1.0, counts)
    return judged(settings, step, logits * factor, task, rows)


def judged(
    settings: Chosen, step: int, logits: Tensor, task: TrainingTask, rows: Tensor
) -> TriedSettings:
    """What settings came to on some rows, of which these are the logits (m, c).

    The score is that of the metric that ranks, whatever is weighed in learning. In the loss rows
    count by the weights of their classes, the same for every loss.
    """
    targets, counts = task.targets[rows], task.counts[rows]
    losses, total = task.objective.rows(logits, targets), counts.sum()
    parts = _parts(logits, targets, task)
    loss = float((losses * counts).sum() / total)
    return TriedSettings(
        settings=settings, step=step, score=float(parts.mean()), loss=loss, parts=parts.float()
    )


def _parts(logits: Tensor, targets: Tensor, task: TrainingTask) -> Tensor:
    """(m,), each row's part of the score."""
    problem, span = task.objective.problem, task.span
    given = answered(logits, targets, problem)
    if not problem.has_classes and span is not None:  # an error has the units of the labels
        given, targets = span.widened(given), span.widened(targets)
    return task.score.parts[problem](given, targets, task.classes)


def answered(logits: Tensor, targets: Tensor, problem: ProblemType) -> Tensor:
    """What logits (m, c) of development rows answer, as of `Answers`.

    Labels are given above the thresholds that suit these rows.
    """
    cuts = thresholds(logits, targets) if problem.has_label_sets else None
    return problem.answers(logits, cuts)


def best(tried: Sequence[TriedSettings], task: TrainingTask) -> TriedSettings:
    """The highest score, of equals the lowest loss; by a correlation of numbers the lowest loss.

    It does not see the scale: by it, numbers that hardly leave their mean would do.
    """
    if not task.objective.problem.has_classes and task.score.scale == "correlation":
        return _of_least_loss(tried)
    return max(tried, key=lambda item: (not isnan(item.score), item.score, -item.loss))


def surest(tried: Sequence[TriedSettings], task: TrainingTask) -> TriedSettings:
    """Of those that only chance may have put behind the best, the one of lowest loss.

    On a hundred rows the highest score is mostly luck, and the loss still tells settings apart.
    For heads that learn by that loss.

    Source: the one-standard-error rule (Breiman et al. 1984), of the paired difference.
    """
    top, near = best(tried, task), list[TriedSettings]()
    for one in tried:
        if one is top:
            near.append(one)
            continue
        assert one.parts is not None
        assert top.parts is not None
        gaps = (top.parts - one.parts).double()
        if gaps.mean() <= gaps.std(correction=0) / len(gaps) ** 0.5:
            near.append(one)
    return _of_least_loss(near)


def _of_least_loss(tried: Sequence[TriedSettings]) -> TriedSettings:
    return min(tried, key=lambda point: point.finite_loss)


@dataclass(frozen=True, slots=True, kw_only=True)
class FirstLinear:
    """The first linear layer of a head, which takes up a scaling of the input.

    Attributes:
        layer: Its name.
        bias: Whether it has a bias: without one it can take up no shift.
    """

    layer: str
    bias: bool


def first_of(chain: nn.Sequential) -> FirstLinear | None:
    """Return the first linear layer, if it is learned and nothing but dropout stands before it."""
    for name, layer in leaves(chain):
        if name and is_plain(layer, nn.Linear) and is_learned(layer):
            return FirstLinear(layer=name, bias=layer.bias is not None)
        if not is_plain(layer, nn.Dropout, nn.Identity, Repeat):
            return None
    return None
