"""What every cell of a comparison answered, and what is needed to judge it.

A cell is a recipe or a baseline; a seed is one time that it learned: another split, another draw
of training rows, or another initialisation. Of a k-fold split every fold is a seed; the folds of
one repetition test every row once, and their score is that of all those rows together.

Legend: N rows of the corpus, n tested rows of one seed, m development rows, c classes, s seeds,
g unique texts.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from heads.errors import RecipeError
from heads.evaluation.metrics import AUTO, SCORES, Metric, MetricName, metric_of
from heads.problem import SINGLE_LABEL, ProblemType

MAJORITY = "majority"
TFIDF = "tfidf"
OWN = "own"  # the head that a checkpoint came with, which is not trained here
BASELINES = (MAJORITY, TFIDF, OWN)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Answers:
    """What one cell answered, in every seed: all that a comparison needs.

    Attributes:
        rows: For each seed (n,), the numbers of the tested rows in the corpus.
        given: For each seed what was answered: (n,) the number of the class, (n, c) true at
            the labels given, or (n,) a number.
        is_random: Whether learning it again on the same rows would give other answers: new
            weights, dropout or the order of rows are drawn.
        repetition: For each seed the number of its repetition, where several of them are the
            folds of one; nothing where each stands for itself.
    """

    name: str
    rows: tuple[Tensor, ...]
    given: tuple[Tensor, ...]
    is_random: bool = True
    repetition: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class CellPredictions:
    """What one cell said of every class, in every seed: all that its measures need.

    Attributes:
        rows: For each seed (n,), the numbers of the tested rows in the corpus.
        logits: For each seed (n, c); (n, 1) where a number is predicted.
        thresholds: (c,), the logits above which a label is given, where a row may have any
            number of them, or (s, c) where each seed has its own, (s, n, c) each row; 0 if None.
        held: Logits (m, c) of rows that the head has not learned from, and the numbers (m,) of
            those rows: the confidence is scaled by them.
    """

    name: str
    rows: tuple[Tensor, ...]
    logits: tuple[Tensor, ...]
    thresholds: Tensor | None = None
    held: tuple[Tensor, Tensor] | None = None
    is_random: bool = True
    repetition: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class EvaluationTask:
    """What the cells were asked.

    Attributes:
        targets: (N,) the number of each row's class; (N, c) 1 at each of its labels, else 0;
            or (N,) its number.
        groups: (N,), rows that belong together share a number: they are no independent
            evidence. `groups.grouping` makes them.
        texts: (N,), rows of the same text, or pair of texts, share a number; the groups if None.
        ordered: Whether the classes stand in an order, from low to high.
        metric: What ranks and decides; that of the problem type if None.
    """

    targets: Tensor
    classes: tuple[str, ...]
    groups: Tensor
    problem: ProblemType = SINGLE_LABEL
    ordered: bool = False
    metric: MetricName | None = None
    texts: Tensor | None = None

    @property
    def ranked_by(self) -> MetricName:
        """The metric that ranks and decides."""
        return self.metric or metric_of(AUTO, self.problem)

    @property
    def score(self) -> Metric:
        """That metric as it is counted and said."""
        return SCORES[self.ranked_by]


def check(outcome: CellPredictions, task: EvaluationTask) -> None:
    """Refuses answers that are no numbers.

    Raises:
        RecipeError: A logit is infinite or NaN.
        ValueError: Shapes do not fit, or there is no seed (a fault of the caller).
    """
    if not outcome.rows or len(outcome.rows) != len(outcome.logits):
        raise ValueError(f"{outcome.name}: {len(outcome.rows)} seeds, {len(outcome.logits)} logits")
    if outcome.repetition and len(outcome.repetition) != len(outcome.rows):
        raise ValueError(f"{outcome.name}: {len(outcome.repetition)} numbers of repetitions")
    if task.problem.has_label_sets and task.targets.shape[1:] != (len(task.classes),):
        raise ValueError(f"{tuple(task.targets.shape)} targets for {len(task.classes)} labels")
    fits = (len(task.classes),), (len(outcome.rows), len(task.classes))
    if outcome.thresholds is not None and outcome.thresholds.shape not in fits:
        raise ValueError(f"{outcome.name}: thresholds {tuple(outcome.thresholds.shape)}")
    pairs = list(zip(outcome.rows, outcome.logits, strict=True))
    if outcome.held is not None:
        pairs.append((outcome.held[1], outcome.held[0]))
    for rows, logits in pairs:
        _check_logits(outcome.name, rows, logits, task.problem.outputs(len(task.classes)))


def _check_logits(name: str, rows: Tensor, logits: Tensor, width: int) -> None:
    if not len(rows) or logits.shape != (len(rows), width):
        raise ValueError(f"{name}: logits {tuple(logits.shape)} for {len(rows)} rows")
    broken = int((~logits.isfinite().all(dim=1)).sum())
    if broken:
        what = f"{name} answers {broken:,} of {len(rows):,} rows with no finite number."
        raise RecipeError(what, "Lower its learning rate, or leave it out.")


def answers_of(outcome: CellPredictions | Answers, task: EvaluationTask) -> Answers:
    """What a cell answered: the class of the largest logit, the labels above theirs, a number."""
    if isinstance(outcome, Answers):
        return outcome
    bar = torch.zeros(()) if outcome.thresholds is None else outcome.thresholds
    bars = bar if bar.dim() > 1 else [bar] * len(outcome.logits)
    pairs = zip(outcome.logits, bars, strict=True)
    given = tuple(task.problem.answers(logits, own) for logits, own in pairs)
    return Answers(
        name=outcome.name,
        rows=outcome.rows,
        given=given,
        is_random=outcome.is_random,
        repetition=outcome.repetition,
    )


def repetitions(outcome: CellPredictions | Answers) -> tuple[tuple[int, ...], ...]:
    """For each repetition its seeds: several where they are folds, else one."""
    found: dict[int, list[int]] = {}
    for seed, number in enumerate(outcome.repetition or range(len(outcome.rows))):
        found.setdefault(number, []).append(seed)
    return tuple(map(tuple, found.values()))


def pooled(outcome: CellPredictions) -> CellPredictions:
    """The same with the folds of a repetition put together, as if they were one seed."""
    if not outcome.repetition:
        return outcome

    def joined(values: Sequence[Tensor]) -> tuple[Tensor, ...]:
        return tuple(torch.cat([values[seed] for seed in each]) for each in repetitions(outcome))

    bars = outcome.thresholds
    if bars is not None and bars.dim() == 2:  # each fold has its own
        each = [own.expand(len(rows), -1) for own, rows in zip(bars, outcome.rows, strict=True)]
        bars = torch.stack(joined(each))
    rows, logits = joined(outcome.rows), joined(outcome.logits)
    return replace(outcome, rows=rows, logits=logits, thresholds=bars, repetition=())


def first(outcome: CellPredictions | Answers, seeds: int, task: EvaluationTask) -> Answers:
    """What a cell answered in its first seeds."""
    answers = answers_of(outcome, task)
    return replace(
        answers,
        rows=answers.rows[:seeds],
        given=answers.given[:seeds],
        repetition=answers.repetition[:seeds],
    )


def parts(outcome: CellPredictions | Answers, task: EvaluationTask) -> tuple[Tensor, ...]:
    """For each seed (n,), each row's part of the score of its repetition.

    They are right or wrong where the score is a mean of rows, and else each row's influence on
    it. The score of a repetition is the mean of the parts of all its rows: scores of small folds
    that are no means of rows, such as macro-F1, are biased, and their mean is as well.

    Source: Forman & Scholz 2010 (put the folds together, then score).
    """
    count, classes = task.score.parts[task.problem], len(task.classes)
    return _by_repetition(
        answers_of(outcome, task), lambda given, rows: count(given, task.targets[rows], classes)
    )


def evidence(outcome: CellPredictions | Answers, task: EvaluationTask) -> tuple[Tensor, ...]:
    """Return the parts that variances are made from: where classes are small, others."""
    count, classes = task.score.evidence, len(task.classes)
    if count is None:
        return parts(outcome, task)
    return _by_repetition(
        answers_of(outcome, task),
        lambda given, rows: count(given, task.targets[rows], classes, task.groups[rows]),
    )


def _by_repetition(
    answers: Answers, count: Callable[[Tensor, Tensor], Tensor]
) -> tuple[Tensor, ...]:
    """Count the answers to all rows of each repetition; return the values of each seed (n,)."""
    found = dict[int, Tensor]()
    for seeds in repetitions(answers):
        rows = torch.cat([answers.rows[seed] for seed in seeds])
        given = torch.cat([answers.given[seed] for seed in seeds])
        values = count(given, rows).split([len(answers.rows[seed]) for seed in seeds])
        found |= dict(zip(seeds, values, strict=True))
    return tuple(found[seed] for seed in range(len(answers.rows)))


def scores(outcome: CellPredictions | Answers, task: EvaluationTask) -> tuple[float, ...]:
    """The score of each repetition."""
    found = parts(outcome, task)
    return tuple(
        float(torch.cat([found[seed] for seed in seeds]).mean()) for seeds in repetitions(outcome)
    )


def by_text(
    values: Sequence[Tensor], outcome: CellPredictions | Answers, task: EvaluationTask
) -> Tensor:
    """Each unique text's part in each seed, (s, g), of values (n,) of tested rows.

    Over texts and seeds they come to s times the mean over repetitions of the mean of all rows;
    a text that a seed does not test has 0 there.
    """
    parts = torch.zeros(len(outcome.rows), int(task.groups.max()) + 1).double()
    for seeds in repetitions(outcome):
        rows = sum(len(outcome.rows[seed]) for seed in seeds)
        for seed in seeds:
            value = values[seed] * (len(seeds) / rows)
            parts[seed].index_add_(0, task.groups[outcome.rows[seed]], value)
    return parts


def strata(task: EvaluationTask) -> Tensor:
    """(N,), rows with the same number are alike: parts of the data get their share of each."""
    return task.problem.strata(task.targets)


def average_out_of_fold(
    outcome: CellPredictions, problem: ProblemType, temperature: float = 1.0
) -> tuple[Tensor, Tensor]:
    """Return the probabilities of every test row, by heads that have not learned from it.

    Returns:
        The numbers of the rows, each once, (n,), and their probabilities, (n, c).
    """
    each = [problem.probabilities(logits.double(), temperature) for logits in outcome.logits]
    return average_by_row(outcome.rows, each)


def average_by_row(rows: Sequence[Tensor], values: Sequence[Tensor]) -> tuple[Tensor, Tensor]:
    """Average the predictions of each row over the seeds that tested it.

    Args:
        rows: For each seed (n,), the numbers of its test rows.
        values: For each seed (n, c).

    Returns:
        The numbers of the rows, each once, and their means.
    """
    unique, index = torch.cat(list(rows)).unique(return_inverse=True)
    stacked = torch.cat(list(values)).double()
    total = torch.zeros(len(unique), stacked.shape[1]).double().index_add_(0, index, stacked)
    return unique, total / torch.bincount(index)[:, None]
