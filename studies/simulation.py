"""Heads whose truth is known: what `compare` and `score_intervals` say of them can be counted.

A row is answered right where its ease, with a part of the head's own that stays, and with noise
of each training, is above a threshold, which the luck of that training moves. One text in six
stands in several rows and is answered alike. Three designs: one test set for every seed; k folds,
each row tested once a repetition; and several repetitions of those.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from heads.evaluation import statistics
from heads.evaluation.metrics import MetricName
from heads.evaluation.predictions import Answers, EvaluationTask

RIGHT = 0.85
OWN, NOISE = 0.15, 0.35  # of a head, and of each training, in deviations of the rows' ease
FOLDS = 5


@dataclass(frozen=True, slots=True, kw_only=True)
class Design:
    """Which rows are tested when.

    Attributes:
        rows: How many there are.
        seeds: How many times every head is trained; of folds, in each repetition.
        repetitions: How many times all rows are divided into folds; 0: one test set of all rows.
    """

    rows: int
    seeds: int
    repetitions: int = 0

    def __str__(self) -> str:
        if not self.repetitions:
            return f"{self.rows:,} rows, {self.seeds} seed{'s' * (self.seeds > 1)}"
        times = f" × {self.repetitions}" * (self.repetitions > 1)
        return f"{self.rows:,} rows, {self.seeds} folds{times}"


def groups_of(rows: int, rng: torch.Generator) -> Tensor:
    """(n,), the text of each row; one in six stands in more than one."""
    groups = torch.arange(rows)
    repeated = torch.rand(rows, generator=rng) < 1 / 6
    groups[repeated] = torch.randint(rows, (int(repeated.sum()),), generator=rng)
    return groups.unique(return_inverse=True)[1]


def tested_of(
    design: Design, groups: Tensor, rng: torch.Generator
) -> tuple[tuple[Tensor, ...], tuple[int, ...]]:
    """The rows of every seed, and the repetition that it belongs to; texts stay together."""
    if not design.repetitions:
        return (torch.arange(design.rows),) * design.seeds, ()
    tested, numbers = list[Tensor](), list[int]()
    for number in range(design.repetitions):
        fold = torch.randperm(int(groups.max()) + 1, generator=rng) % design.seeds
        tested += [(fold[groups] == one).nonzero()[:, 0] for one in range(design.seeds)]
        numbers += [number] * design.seeds
    return tuple(tested), tuple(numbers)


def simulated(
    design: Design,
    gains: Sequence[float],
    luck: Sequence[float],
    rng: torch.Generator,
    *,
    is_random: bool = True,
    noises: Sequence[float] = (),
) -> tuple[list[Answers], EvaluationTask]:
    """Heads that are right in 85 % of the rows and so much more, each with luck of its own.

    Args:
        gains: Of each head, 0.01 is one point.
        luck: The deviation of each head's score from training to training, likewise.
        noises: Of each head, by how much its trainings answer rows otherwise; `NOISE` if none.
    """
    groups = groups_of(design.rows, rng)
    task = EvaluationTask(
        targets=torch.zeros(design.rows).long(), classes=("x", "y"), groups=groups
    )
    tested, numbers = tested_of(design, groups, rng)
    texts = int(groups.max()) + 1
    ease = torch.randn(texts, generator=rng)
    heads = []
    each = zip(gains, luck, noises or [NOISE] * len(gains), strict=True)
    for number, (gain, scatter, unlike) in enumerate(each):
        normal = torch.distributions.Normal(0.0, (1 + OWN**2 + unlike**2) ** 0.5)
        own, given = ease + OWN * torch.randn(texts, generator=rng), list[Tensor]()
        for rows in tested:
            right = RIGHT + gain + scatter * torch.randn(1, generator=rng)
            bar = normal.icdf(1 - right.clamp(0.01, 0.99))
            noise = unlike * torch.randn(texts, generator=rng)
            given.append(((own + noise)[groups[rows]] <= bar).long())
        head = Answers(
            name=f"head {number}",
            rows=tested,
            given=tuple(given),
            is_random=is_random,
            repetition=numbers,
        )
        heads.append(head)
    return heads, task


SHARES = (0.55, 0.25, 0.15, 0.05)  # of the classes
WRONG = 0.2


def drawn_of_classes(
    design: Design, cells: int, metric: MetricName, rng: torch.Generator
) -> tuple[list[Answers], EvaluationTask, float]:
    """Like heads on four classes, the rarest in one row of twenty, and their true score.

    A row is hard for all heads or for none, and each has luck of its own; who is wrong answers
    with any other class alike.
    """
    groups = groups_of(design.rows, rng)
    texts, classes = int(groups.max()) + 1, len(SHARES)
    truth = torch.tensor(SHARES).multinomial(texts, True, generator=rng)
    task = EvaluationTask(
        targets=truth[groups], classes=tuple("abcd"), groups=groups, metric=metric, ordered=True
    )
    tested, numbers = tested_of(design, groups, rng)
    ease = torch.randn(texts, generator=rng)
    bar = torch.distributions.Normal(0.0, (1 + OWN**2 + NOISE**2) ** 0.5).icdf(
        torch.tensor(1 - WRONG)
    )
    other = (truth + torch.randint(1, classes, (texts,), generator=rng)) % classes
    heads = []
    for number in range(cells):
        own, given = ease + OWN * torch.randn(texts, generator=rng), list[Tensor]()
        for rows in tested:
            hard = own + NOISE * torch.randn(texts, generator=rng) > bar
            given.append(torch.where(hard, other, truth)[groups[rows]])
        name = f"head {number}"
        heads.append(Answers(name=name, rows=tested, given=tuple(given), repetition=numbers))
    shares = torch.tensor(SHARES).double()
    off = shares[:, None] * (1 - torch.eye(classes)) * (WRONG / (classes - 1))
    return heads, task, float(getattr(statistics, metric)(off + torch.diag(shares * (1 - WRONG))))


SMALL, EACH, HARD = 100, 3, 0.3  # classes, rows of each on average, and how many are wrong


def drawn_of_small_classes(
    design: Design,
    cells: int,
    metric: MetricName,
    rng: torch.Generator,
    *,
    even: bool = False,
    luck: float = 0.0,
) -> tuple[list[Answers], EvaluationTask]:
    """Like heads on a hundred classes of three tested rows each.

    Which rows a head gets wrong is half its own and half the rows'. Uneven classes have no row to
    about nine, one of six that are tested a single one. Heads that are trained once have no luck.

    Args:
        luck: The deviation of a head's score from training to training, 0.01 is one point.
    """
    rows = SMALL * EACH
    truth = torch.randint(SMALL, (rows,), generator=rng)
    truth = torch.arange(rows) % SMALL if even else truth
    task = EvaluationTask(
        targets=truth,
        classes=tuple(map(str, range(SMALL))),
        groups=torch.arange(rows),
        metric=metric,
    )
    is_random = design.seeds > 1
    noise = NOISE * is_random
    tested, numbers = tested_of(design, task.groups, rng)
    ease = torch.randn(rows, generator=rng)
    normal = torch.distributions.Normal(0.0, (2 + noise**2) ** 0.5)
    other = (truth + torch.randint(1, SMALL, (rows,), generator=rng)) % SMALL
    heads = []
    for number in range(cells):
        own, given = ease + torch.randn(rows, generator=rng), list[Tensor]()
        for scored in tested:
            bar = normal.icdf(1 - HARD + luck * torch.randn(1, generator=rng))
            hard = own + noise * torch.randn(rows, generator=rng) > bar
            given.append(torch.where(hard, other, truth)[scored])
        one = Answers(
            name=f"head {number}",
            rows=tested,
            given=tuple(given),
            is_random=is_random,
            repetition=numbers,
        )
        heads.append(one)
    return heads, task
