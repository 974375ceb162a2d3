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
    """A way to learn one kind of head."""

    pace: ClassVar[float]  # how long it takes a number and row, by a yardstick of no unit
    is_random: ClassVar[bool]  # whether it draws anything: new weights, dropout, an order of rows

    @property
    def learns_from(self) -> Source:
        """What it is given of the rows: a pooled vector, token states, or texts."""
        ...

    def search(self, task: TrainingTask, splits: Splits, seeds: Seeds) -> Searching:
        """Let every seed try settings on its own development rows; return the best of each."""
        ...

    def learn(
        self, task: TrainingTask, found: Searches, rows: BySeed, asked: BySeed, seeds: Seeds
    ) -> list[FittedHead]:
        """Learn with what searches came to on some rows, a seed each; answer others, if any."""
        ...


def refit_searches(
    fitter: Fitter, task: TrainingTask, splits: Splits, found: Searches, seeds: Seeds
) -> list[SearchResult]:
    """Refit the best head of each search on all rows but the development rows, and judge it.

    Solved heads try their settings on a few thousand rows. Judged by those, they would stand
    behind heads that learn step by step, which learn from all rows while they search.
    """
    rows, development = [splits.fitted(n) for n in range(len(found))], splits.development
    heads = fitter.learn(task, found, rows, development, seeds)
    results = list[SearchResult]()
    for number, (search, head) in enumerate(zip(found, heads, strict=True)):
        point = score_settings(search.chosen, 0, head.logits, task, development[number])
        point = replace(point, seed=number)
        state = None if search.state is None else head.state
        results.append(replace(search, point=point, held=head.logits, state=state))
    return results


def score_settings(
    settings: Chosen, step: int, logits: Tensor, task: TrainingTask, rows: Tensor
) -> TriedSettings:
    """Score settings by logits (m, c) of held-out rows, divided by the temperature that suits them.

    Else the loss would tell how sure a head is, which is scaled after training.
    """
    return judge_settings(settings, step, logits * best_factor(logits, task, rows), task, rows)


def best_factor(logits: Tensor, task: TrainingTask, rows: Tensor, start: float = 1.0) -> float:
    """Return one over the temperature that suits the logits (m, c) of some rows best.

    Args:
        start: A factor that was near before.
    """
    return factor_of(logits, task.targets[rows], task.objective, start, task.counts[rows])


def judge_settings(
    settings: Chosen, step: int, logits: Tensor, task: TrainingTask, rows: Tensor
) -> TriedSettings:
    """Judge settings by the logits (m, c) of some rows.

    The score is that of the metric that ranks, whatever is weighed in learning. In the loss rows
    count by the weights of their classes, the same for every loss.
    """
    targets, counts, problem = task.targets[rows], task.counts[rows], task.objective.problem
    losses = task.objective.rows(logits, targets)
    answers = decode(logits, targets, problem)
    if not problem.has_classes and task.span is not None:  # an error has the units of the labels
        answers, targets = task.span.widened(answers), task.span.widened(targets)
    parts = task.score.parts[problem](answers, targets, task.classes)
    return TriedSettings(
        settings=settings,
        step=step,
        score=float(parts.mean()),
        loss=float((losses * counts).sum() / counts.sum()),
        parts=parts.float(),
    )


def decode(logits: Tensor, targets: Tensor, problem: ProblemType) -> Tensor:
    """Return the answers of logits (m, c), labels above the thresholds that suit these rows."""
    cuts = thresholds(logits, targets) if problem.has_label_sets else None
    return problem.answers(logits, cuts)


def best(tried: Sequence[TriedSettings], task: TrainingTask) -> TriedSettings:
    """Return the highest score, of equals the lowest loss.

    A correlation does not see the scale: by it, numbers that hardly leave their mean would do, so
    the lowest loss decides.
    """
    if not task.objective.problem.has_classes and task.score.scale == "correlation":
        return _of_least_loss(tried)
    return max(tried, key=lambda item: (not isnan(item.score), item.score, -item.loss))


def select_one_se(tried: Sequence[TriedSettings], task: TrainingTask) -> TriedSettings:
    """Return the lowest-loss setting within one standard error of the best score.

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
