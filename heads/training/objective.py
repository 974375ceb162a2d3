"""The objective of a trial: its loss with smoothing, class balance and margin, and its gradient.

The formulas of the losses themselves stand in `heads/parts/losses.py`.

Legend: c outputs; `logits` (…, c); `targets` (…) numbers of classes, or numbers to predict; (…, c)
0 or 1 where rows have any number of labels.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from math import isnan

import torch
from torch import Tensor
from torch.nn.functional import cross_entropy, one_hot

from heads.data.corpus import Corpus
from heads.errors import DataError, LimitError
from heads.parts.losses import hinge_gradient, near, squared
from heads.parts.registry import loss as losses
from heads.parts.resolved_recipe import HINGE, ORDINAL, OVR, SOFTMAX, ResolvedRecipe
from heads.problem import ProblemType

SECANTS = 16  # steps to the temperature at most; from the one before 1 or 2 will do
NEAR, STRIDE = 0.01, 4.0  # of the factor, between the first two that are tried; its longest step
FARTHEST = (1e-2, 1e2)  # that the factor may be


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Objective:
    """A loss for labels of one problem type.

    Attributes:
        loss: Of one class a row: softmax, ovr, ordinal or hinge. Elsewhere the labels decide.
        focal: γ of the focal loss; 0 for all rows alike.
        smoothing: ε, how far targets of 0 and 1 are drawn together.
        balance: (2, c), how much each no and each yes counts; None where all count alike.
        margin: By how much the logit of a row's own class is lowered while a head learns.
    """

    problem: ProblemType
    outputs: int
    loss: str = SOFTMAX
    focal: float = 0.0
    smoothing: float = 0.0
    balance: Tensor | None = None
    margin: float = 0.0

    def __post_init__(self) -> None:
        if not self.problem.has_classes and (self.focal or self.smoothing):
            what = "Focal loss and label smoothing are for classes, and these labels are numbers."
            raise LimitError(what, "Leave them out.")
        if self.loss == HINGE and (self.focal or self.smoothing):
            what = f"loss={HINGE} knows no probabilities, so it is not focal and not smoothed."
            raise LimitError(what, f"Leave these out, or {HINGE}.")

    @property
    def by_class(self) -> bool:
        """Whether every class is a question of its own: sigmoid instead of softmax."""
        if not self.problem.has_classes:
            return False
        return not self.problem.is_exclusive or self.loss == OVR

    @property
    def is_plain(self) -> bool:
        """Whether it is the cross-entropy with one true class, which torch has ready."""
        hard = not (self.focal or self.smoothing or self.margin)
        return self.problem.is_exclusive and self.loss == SOFTMAX and hard

    @property
    def each_by_itself(self) -> bool:
        """Whether every class is a problem of its own: a sigmoid's or an SVM's."""
        return self.by_class or self.loss == HINGE

    def learned(self, logits: Tensor, targets: Tensor) -> Tensor:
        """The logits as the loss sees them while a head learns: less the margin, if there is."""
        if not self.margin:
            return logits
        return logits - self.margin * one_hot(targets, self.outputs)

    def rows(self, logits: Tensor, targets: Tensor) -> Tensor:
        """The loss of each row, (…); logits may have more dimensions in front."""
        if self.is_plain:
            targets = targets.expand(logits.shape[:-1])
            found = cross_entropy(logits.flatten(0, -2), targets.flatten(), reduction="none")
            return found.view(targets.shape)
        target_matrix = self.target_matrix(targets)
        if not self.problem.has_classes:
            return squared(logits, target_matrix)
        if self.by_class and self.balance is not None:
            # One loss a class, (…, c), weighed by what the row is labelled with, and then summed.
            each = losses[OVR](logits[..., None], target_matrix[..., None], focal=self.focal)
            has = self.problem.target_matrix(targets, self.outputs)
            no, yes = self.balance.to(logits.device)
            return (each * (has * yes + (1 - has) * no)).sum(dim=-1)
        name = OVR if self.by_class else self.loss
        return losses[name](logits, target_matrix, focal=self.focal)

    def target_matrix(self, targets: Tensor) -> Tensor:
        """What the squashed logits should be, (…, c); numbers as they are."""
        if self.loss == ORDINAL and self.problem.is_exclusive:
            target_matrix = near(targets, self.outputs)
        else:
            target_matrix = self.problem.target_matrix(targets, self.outputs)
        if not self.smoothing:
            return target_matrix
        even = 0.5 if self.by_class else 1 / self.outputs
        return target_matrix * (1 - self.smoothing) + self.smoothing * even

    def gradients(self, logits: Tensor, targets: Tensor) -> tuple[Tensor, Tensor]:
        """Return the loss of each row (…), and its gradient by the logits (…, c)."""
        if self.is_plain:
            logs = logits.log_softmax(dim=-1)
            true = targets.expand(logits.shape[:-1])[..., None]
            losses = -logs.gather(-1, true).squeeze(-1)
            return losses, _less_one(logs.exp_(), true)
        if not (self.focal or self.balance is not None):
            seen = self.learned(logits, targets)
            return self.rows(seen, targets), self.gradient(logits, targets)
        with torch.enable_grad():
            point = logits.detach().requires_grad_()
            found = self.rows(self.learned(point, targets), targets)
            (gradient,) = torch.autograd.grad(found.sum(), point)
        return found.detach(), gradient

    def gradient(self, logits: Tensor, targets: Tensor) -> Tensor:
        """Return that gradient alone (…, c), for which most losses need not be computed."""
        if self.is_plain:
            return _less_one(logits.softmax(dim=-1), targets.expand(logits.shape[:-1])[..., None])
        if self.focal or self.balance is not None:
            return self.gradients(logits, targets)[1]
        target_matrix, logits = self.target_matrix(targets), self.learned(logits, targets)
        if not self.problem.has_classes:
            return logits - target_matrix
        if self.loss == HINGE:
            return hinge_gradient(logits, target_matrix)
        squashed = logits.sigmoid() if self.by_class else logits.softmax(dim=-1)
        return squashed.sub_(target_matrix)


def _less_one(shares: Tensor, true: Tensor) -> Tensor:
    """Take 1 from the shares (…, c) of the true classes (…, 1), in place."""
    return shares.scatter_add_(-1, true, torch.full_like(true, -1, dtype=shares.dtype))


@torch.no_grad()
def factor_of(
    logits: Tensor, targets: Tensor, objective: Objective, start: float, counts: Tensor
) -> float:
    """The factor of some logits (m, c) for the smallest loss: one over the temperature.

    The loss is the one by which settings are judged, rows counting as they do there; where it is
    focal or weighs classes, another factor suits it than the plain cross-entropy. 1 for numbers,
    and for a hinge, which has a scale of its own. By secants, from a factor that was near before,
    until it hardly moves.

    Source: Guo et al. 2017 (arXiv 1706.04599).
    """
    if not objective.problem.has_classes or objective.loss == HINGE:
        return 1.0
    judged_by, weights = replace(objective, margin=0.0), counts[:, None].double()

    def pull(factor: float) -> float:
        """The derivative of the loss by the factor."""
        return float((logits * judged_by.gradient(logits * factor, targets) * weights).sum())

    at = min(max(start, FARTHEST[0]), FARTHEST[1])
    last, there = at * (1 + NEAR), pull(at * (1 + NEAR))
    for _ in range(SECANTS):
        here = pull(at)
        # The slope of `pull` between the last two, times the factor: so the step is a relative one.
        bend = (there - here) / (last / at - 1)
        if bend > 0:
            move = min(max(1 - here / bend, 1 / STRIDE), STRIDE)
        elif isnan(bend) or not here:
            break
        else:  # a focal loss is not convex, and nothing bends where all is sure
            move = STRIDE if here < 0 else 1 / STRIDE
        last, there, at = at, here, min(max(at * move, FARTHEST[0]), FARTHEST[1])
        if abs(at / last - 1) < NEAR:  # the next step would be far shorter
            break
    return at


def balance_of(targets: Tensor, classes: int) -> Tensor:
    """(2, c): no and yes of every class weigh alike; targets (n, c), or (n,) class numbers.

    Source: scikit-learn's `class_weight="balanced"` in each problem of OneVsRestClassifier.
    """
    target_matrix = targets if targets.dim() == 2 else one_hot(targets, classes).float()
    yes = target_matrix.sum(dim=0)
    counts = torch.stack([len(target_matrix) - yes, yes])
    return len(target_matrix) / (2 * counts.clamp_min(1))


@dataclass(frozen=True, slots=True, kw_only=True)
class TargetScaler:
    """Where numbers lie: they are learned as if their mean were 0 and their deviation 1.

    Attributes:
        centre: Their mean; 0 for a head without a bias, which could not add it again.
        spread: Their standard deviation; 1 where all are equal.
    """

    centre: float
    spread: float

    @classmethod
    def of(cls, numbers: Tensor, *, centred: bool) -> "TargetScaler":
        """Of some numbers (n,)."""
        centre = float(numbers.mean()) if centred else 0.0
        spread = float((numbers - centre).square().mean().sqrt())
        return cls(centre=centre, spread=spread or 1.0)

    def narrowed(self, numbers: Tensor) -> Tensor:
        """The numbers as they are learned."""
        return (numbers - self.centre) / self.spread

    def widened(self, answers: Tensor) -> Tensor:
        """What a head that has learned so answers, as numbers again."""
        return answers * self.spread + self.centre

    def put_back(self, state: Mapping[str, Tensor], last: str) -> dict[str, Tensor]:
        """The tensors of a head that answers with the numbers themselves."""
        new = {**state, f"{last}.weight": state[f"{last}.weight"] * self.spread}
        if f"{last}.bias" in state:
            new[f"{last}.bias"] = state[f"{last}.bias"] * self.spread + self.centre
        return new


def check_order(resolved: ResolvedRecipe, corpus: Corpus) -> None:
    """Raise DataError if a recipe needs an order of the classes and they have none."""
    if (resolved.loss == ORDINAL or resolved.head.ordered) and not corpus.ordered:
        needs = resolved.head.name if resolved.head.ordered else f"loss={ORDINAL}"
        what = f"The classes of {corpus.name} have no order, which {needs} needs."
        other = "head" if resolved.head.ordered else "loss"
        raise DataError(
            what,
            f"Give it from low to high, take numbers as labels, or choose another {other}.",
        )
