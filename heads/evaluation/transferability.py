"""Estimates before any training (LogME, H-score, nearest rows), and whether training agreed.

Legend: n rows, w width, c classes; `features` (n, w); `targets` (n,) numbers of classes, (n, c)
1 at the labels of a row, or (n,) numbers.
"""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from math import isnan

import torch
from torch import Tensor
from torch.nn.functional import normalize, one_hot

from heads.evaluation.metrics import SCORES, MetricName
from heads.evaluation.statistics import micro_f1_parts, spearman_parts
from heads.problem import SINGLE_LABEL, ProblemType

MOST_ROWS = 4_000
WIDE = 1_500  # wider features are judged on as many rows: the work grows with their cube
NEIGHBOURS = 10


@dataclass(frozen=True, slots=True, kw_only=True)
class Estimate:
    """How well some features suit a task; of each number, more is better.

    Attributes:
        name: The pooling and layer that gave the features.
        log_me: Mean log evidence, per row and class, of a Bayesian linear model.
        h_score: How much of the features' variance lies between the classes; of several labels
            the mean, of numbers the share of their variance that the features explain.
        neighbours: What the 10 nearest rows of other texts by cosine reach: the accuracy,
            micro-F1 or Spearman's correlation of their vote or mean.
    """

    name: str
    log_me: float
    h_score: float
    neighbours: float


MEASURES = {"log_me": "LogME", "h_score": "H-score", "neighbours": "10 nearest rows"}


def estimate(
    name: str,
    features: Tensor,
    targets: Tensor,
    *,
    problem: ProblemType = SINGLE_LABEL,
    seed: int = 0,
    groups: Tensor | None = None,
) -> Estimate:
    """All three estimates, on at most 4,000 rows (1,500 of wide ones), which the seed draws.

    Args:
        groups: (n,), rows that share a number are of one text, or belong together otherwise.
    """
    rng = torch.Generator().manual_seed(seed)
    most = MOST_ROWS if features.shape[1] <= WIDE else WIDE
    rows = torch.randperm(len(targets), generator=rng)[:most].sort().values
    features, targets = features[rows], targets[rows]
    return Estimate(
        name=name,
        log_me=log_me(features, targets, problem=problem),
        h_score=h_score(features, targets, problem=problem),
        neighbours=knn_accuracy(
            features, targets, problem=problem, groups=None if groups is None else groups[rows]
        ),
    )


def _target_matrix(targets: Tensor, problem: ProblemType) -> Tensor:
    """(n, c), what a linear model is to answer: an indicator of each class that occurs and is not
    all there is, or the numbers, standardised. Without any, (n, 0).
    """
    if problem.is_exclusive:
        return one_hot(targets.unique(return_inverse=True)[1]).double()
    matrix = targets.double().view(len(targets), -1)
    spread = (matrix - matrix.mean(dim=0)).square().mean(dim=0).sqrt()
    matrix = matrix[:, spread > 0]
    if problem.has_classes:
        return matrix
    return (matrix - matrix.mean(dim=0)) / spread[spread > 0]


def log_me(features: Tensor, targets: Tensor, *, problem: ProblemType = SINGLE_LABEL) -> float:
    """The largest log evidence of a linear model of each class, mean per row and class.

    A class's indicator, or the number in units of its spread, is the features times normal
    weights (precision α) plus normal noise (precision β); α and β are set where the evidence
    is largest. 0 where there is nothing to tell apart.

    Source: You et al. 2021, "LogME", algorithm 1; fixed point as in You et al. 2022 (JMLR).
    """
    features = features.double()
    matrix = _target_matrix(targets, problem)
    if not matrix.shape[1]:
        return 0.0
    rows, width = features.shape
    if width <= rows:
        strengths, axes = torch.linalg.eigh(features.T @ features)
        kept = strengths > 1e-12 * strengths[-1]
        strengths = strengths[kept]
        along = (axes[:, kept].T @ (features.T @ matrix)).square() / strengths[:, None]  # (w', c)
    else:
        strengths, axes = torch.linalg.eigh(features @ features.T)
        kept = strengths > 1e-12 * strengths[-1]
        strengths = strengths[kept]
        along = (axes[:, kept].T @ matrix).square()
    outside = (matrix.square().sum(dim=0) - along.sum(dim=0)).clamp_min(0)
    strengths = strengths[:, None]
    alpha = beta = torch.ones(matrix.shape[1], dtype=torch.double)
    for _ in range(100):
        ratio = alpha / beta
        used = (strengths / (strengths + ratio)).sum(dim=0)
        squares = (strengths * along / (strengths + ratio).square()).sum(dim=0)
        left = (along / (1 + strengths / ratio).square()).sum(dim=0) + outside
        alpha = (used / (squares + 1e-10)).clamp_min(1e-10)  # no features, no weights
        beta = (rows - used) / (left + 1e-10)
        if bool(((alpha / beta / ratio - 1).abs() < 1e-4).all()):
            break
    ratio = alpha / beta
    squares = (strengths * along / (strengths + ratio).square()).sum(dim=0)
    left = (along / (1 + strengths / ratio).square()).sum(dim=0) + outside
    unused = width - len(strengths)
    log_volume = (alpha + beta * strengths).log().sum(dim=0) + unused * alpha.log()
    constant = rows * torch.log(torch.tensor(2 * torch.pi, dtype=torch.double))
    evidence = width * alpha.log() + rows * beta.log() - log_volume - constant
    evidence = (evidence - beta * left - alpha * squares) / 2
    return float(evidence.mean() / rows)


def h_score(features: Tensor, targets: Tensor, *, problem: ProblemType = SINGLE_LABEL) -> float:
    """tr(Σ⁻¹ Σ_between): the share of variance between classes, summed over directions.

    The covariance Σ is shrunk towards a multiple of the identity, by Ledoit & Wolf's amount,
    so that it stays sound where rows are few. For two classes it is the share of their
    indicator's variance that a linear regression with that Σ explains; so it is taken of
    numbers, and of several labels as the mean over labels.

    Source: Bao et al. 2019 (H-score); Ibrahim et al. 2022 (shrunk); Ledoit & Wolf 2004.
    """
    from sklearn.covariance import ledoit_wolf_shrinkage

    rows, features = len(features), features.double() - features.double().mean(dim=0)
    level = features.square().mean()
    if level <= 0:
        return 0.0
    shrinkage = float(ledoit_wolf_shrinkage(features.numpy(), assume_centered=True))
    if features.shape[1] > rows:  # all products stay what they are in as many dimensions as rows
        squares, directions = torch.linalg.eigh(features @ features.T)
        features = directions * squares.clamp_min(0).sqrt()
    covariance = features.T @ features / rows
    eye = torch.eye(features.shape[1], dtype=torch.double)
    shrunk = (1 - shrinkage) * covariance + (shrinkage * level + 1e-12 * level) * eye
    matrix = _target_matrix(targets, problem)
    if not matrix.shape[1]:
        return 0.0
    sizes = matrix.sum(dim=0) if problem.is_exclusive else matrix.var(dim=0, correction=0) * rows
    means = matrix.T @ features / sizes[:, None]
    between = means.T * sizes / rows  # (w, c): Σ_between = between @ means
    found = float((1 - shrinkage) * (torch.linalg.solve(shrunk, between) * means.T).sum())
    return found if problem.is_exclusive else found / len(sizes)


def knn_accuracy(
    features: Tensor,
    targets: Tensor,
    k: int = NEIGHBOURS,
    *,
    problem: ProblemType = SINGLE_LABEL,
    groups: Tensor | None = None,
) -> float:
    """What the k nearest other rows, by cosine, answer: their score.

    They vote for their classes, and where votes are level, the class whose rows are nearer
    wins; for each of their labels, which more than half of the votes must give; or they answer
    with the mean of their numbers. A row's own duplicates know its answer, as nothing does that
    a head will be scored on: rows of one group are no neighbours. Rows without any do not count.

    Args:
        groups: (n,), rows of one group share a number; without it, each is its own.
    """
    directions = normalize(features.float(), dim=1)
    near = directions @ directions.T
    if groups is None:
        near.fill_diagonal_(-torch.inf)
    else:
        near.masked_fill_(groups[:, None] == groups, -torch.inf)
    closeness, rows = near.topk(min(k, len(targets) - 1), dim=1)
    has = closeness[:, 0] > -torch.inf
    if not has.any():
        return 0.0
    closeness, rows, targets, known = closeness[has], rows[has], targets[has], targets
    counts = closeness > -torch.inf  # where others are fewer than k
    if not problem.has_classes:
        means = (known[rows].double() * counts).sum(dim=1) / counts.sum(dim=1)
        return float(spearman_parts(means, targets).mean())
    weights = torch.where(counts, 1 + closeness / (10 * k), 0)
    if not problem.is_exclusive:
        votes = (weights[:, :, None] * known[rows].float()).sum(dim=1)
        given = votes > weights.sum(dim=1, keepdim=True) / 2
        return float(micro_f1_parts(given, targets).mean())
    votes = torch.zeros(len(targets), int(known.max()) + 1)
    votes.scatter_add_(1, known[rows], weights)
    return float((votes.argmax(dim=1) == targets).double().mean())


# --- Whether what estimates said before training is what training found.


@dataclass(frozen=True, slots=True, kw_only=True)
class RankAgreement:
    """Whether an estimate agreed with the scores that training gave.

    Attributes:
        tau: Kendall's tau-b with the scores: 1 the same order, 0 none, −1 reversed; None
            where all are equal.
        differs: Whether training has told the two apart.
    """

    measure: str
    tau: float | None
    first: str
    best: str
    differs: bool
    says: str


def agreement(
    estimates: Sequence[Estimate],
    scores: Mapping[str, float],
    worse: Collection[str] = (),
    metric: MetricName = "accuracy",
) -> tuple[RankAgreement, ...]:
    """Whether the estimates agreed with training, each in a number and a sentence.

    Args:
        scores: What training gave with each estimate's features, by its name.
        worse: The names of features that training has told apart from the best.
    """
    from scipy.stats import kendalltau

    agreements = []
    for measure, label in MEASURES.items():
        guessed = {one.name: float(getattr(one, measure)) for one in estimates}
        first = max(guessed, key=guessed.__getitem__)
        best = max(guessed, key=lambda name: (scores[name], name == first))  # if some are level
        found = kendalltau([*guessed.values()], [scores[name] for name in guessed])
        tau = float(found.statistic)  # pyright: ignore[reportAttributeAccessIssue]
        behind = SCORES[metric].gap(scores[best] - scores[first])
        if first == best:
            says = f"{label} chose `{first}`, which is also the best after training."
        elif first in worse:
            says = f"{label} chose `{first}`, which is {behind} worse than `{best}`."
        else:
            says = f"{label} chose `{first}`, which is not distinguishable from the best, `{best}`."
        agreed = RankAgreement(
            measure=label, tau=None if isnan(tau) else tau, first=first, best=best,
            differs=first != best and first in worse, says=says,
        )  # fmt: skip
        agreements.append(agreed)
    return tuple(agreements)
