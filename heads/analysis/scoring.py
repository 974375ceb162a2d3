"""A head scored on a file with labels: by the statistics of a leaderboard, with intervals.

Legend: n scored rows, c classes.
"""

from collections import Counter
from collections.abc import Collection, Generator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from heads import interruption
from heads.analysis.answering import (
    Asked,
    ChosenHead,
    Pace,
    block_rows,
    choosing_head,
    text_columns,
)
from heads.backbone.models import BUNDLED
from heads.classifier.classifier import Classifier
from heads.data.columns import guess
from heads.data.files import open_stream, place_of
from heads.data.groups import grouping
from heads.data.joining import MOST_UNSEEN
from heads.data.labels import (
    are_lists,
    cells_of,
    find_separator,
    label_cells,
    numbers_of,
    parted,
)
from heads.data.numbers import plainest
from heads.data.rows import text_account
from heads.data.table import (
    LISTS,
    MOST_LINES,
    ColumnHints,
    Columns,
    clean_label,
    count,
    short,
    where,
)
from heads.data.table_stream import TableStream
from heads.data.text import folded
from heads.errors import DataError, did_you_mean
from heads.evaluation.calibration import calibration_error, confidence, decided, reliability
from heads.evaluation.details import Measures, measure
from heads.evaluation.metrics import SCORES, MetricName, metric_of
from heads.evaluation.predictions import CellPredictions, EvaluationTask
from heads.evaluation.statistics import Scores
from heads.events import Progress
from heads.problem import ONE_VERSUS_REST, REGRESSION, SINGLE_LABEL, ProblemType
from heads.recipe import Recipe
from heads.settings import Limits
from heads.settings import limits as limits_here

UNKNOWN = "a label that the head does not know"
NEARLY_ALL, MOSTLY = 0.95, 0.5
_FEWEST = 2  # rows: of a single one nothing varies
_SHOWN = 3


@dataclass(frozen=True, slots=True, kw_only=True)
class ClassScores:
    """How well one class is found, where a row has one.

    Attributes:
        name: Of the class.
        rows: How many of the scored rows are of it.
        answered: How often it was answered.
        precision: Of the rows that it was answered for, the share that is of it; None of none.
        recall: Of its rows, the share that it was answered for; None where there are none.
        f1: Their harmonic mean; None where it neither is there nor was answered.
    """

    name: str
    rows: int
    answered: int
    precision: float | None
    recall: float | None
    f1: float | None


@dataclass(frozen=True, slots=True, kw_only=True)
class PartScore:
    """The score of some of the rows.

    Attributes:
        rows: How many.
        score: Theirs.
        low: Lower end of its 95 % interval.
        high: Its upper end.
    """

    rows: int
    score: float
    low: float
    high: float


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class FileScores:
    """How well a head does on a file with labels.

    Attributes:
        head: The head, by the name that it has beside others.
        model: Its base model.
        file: The name of the file.
        problem: What rows are labelled with.
        classes: Those of the head, in the order of every table.
        rows: Rows of the file.
        left_out: Those that are not scored: reason -> lines.
        measures: Every measure on the others, as a leaderboard has them, the score first.
        by_class: Each class closely, where a row has one; of several labels `measures.labels`.
        unknown: Labels of the file that the head does not know, with their rows.
        absent: Classes of the head that no scored row has.
        repeated: How many scored rows have a text that the head learned from; None where it is
            not known what it learned from.
        unrepeated: The score of the others, where there are such rows.
        commonest: The share of the scored rows that have the commonest label; None of several
            labels and of numbers.
        temperature: What the logits are divided by so that the head is as sure as it is right,
            found in its training; 1 where nobody looked for it.
        calibrated_error: The calibration error with the logits divided by that; None of numbers.
        held_out: The scores that it came with, of rows held out in its training, or None.
        text: The column of the texts.
        pair: The column of the second texts, or "".
        label: The column of the labels, or several 0/1 columns, parted by commas.
        seconds: How long it took to read and to answer.
        unit: What line numbers count: "line" or "row".
        notes: How the file was read, and what was done to texts, a sentence each.
    """

    head: str
    model: str
    file: str
    problem: ProblemType
    classes: tuple[str, ...]
    rows: int
    left_out: Mapping[str, tuple[int, ...]]
    measures: Measures
    by_class: tuple[ClassScores, ...]
    unknown: Mapping[str, int]
    absent: tuple[str, ...]
    repeated: int | None
    unrepeated: PartScore | None
    commonest: float | None
    temperature: float
    calibrated_error: float | None
    held_out: Scores | None
    text: str
    pair: str
    label: str
    seconds: float
    unit: str
    notes: tuple[str, ...]

    def __repr__(self) -> str:
        told = SCORES[self.measures.metric].told(self.measures.score)
        return f"<FileScores {self.file} by {self.head}: {told} on {self.measures.rows:,} rows>"

    @property
    def score(self) -> float:
        """By the metric that ranks heads of its run, or is usual for such labels."""
        return self.measures.score

    @property
    def told(self) -> tuple[str, ...]:
        """What flatters or spoils the score, and what was left out, a sentence each."""
        return (*self._on_repeats(), *self._on_labels(), *self._left(), *self.notes)

    def _on_repeats(self) -> list[str]:
        if self.repeated is None:
            return ["What the head learned from is not known here, so nothing tells repeats of it."]
        if not self.repeated:
            return []
        have = "row has a text" if self.repeated == 1 else "rows have texts"
        says = f"{self.repeated:,} of the {self.measures.rows:,} scored {have} that the head "
        says += "learned from, which flatters its score"
        if self.unrepeated is None:
            return [f"{says}; hardly any others are left."]
        name, one = SCORES[self.measures.metric], self.unrepeated
        rest = f"{name.told(one.score)} ({name.between(one.low, one.high)})"
        return [f"{says}: on the {one.rows:,} others it is {rest}."]

    def _on_labels(self) -> list[str]:
        found = []
        if self.unknown:
            rows = len(self.left_out.get(UNKNOWN, ()))
            has = "has" if rows == 1 else "have"
            says = f"{count(rows, 'row')} {has} a label that the head does not know "
            says += f"({_named(self.unknown)}) and {'is' if rows == 1 else 'are'} left out"
            if self.measures.metric == "accuracy":
                both = self.measures.rows + rows
                share = self.measures.score * self.measures.rows / both
                says += f"; counted as wrong, they would make its accuracy {100 * share:.1f} %"
            found.append(f"{says}.")
        if self.absent:
            has = "has" if len(self.absent) == 1 else "have"
            whose = f"{count(len(self.absent), 'class', 'classes')} of the head {has} no row here"
            found.append(f"{whose}: {_named(self.absent)}.")
        return found

    def _left(self) -> list[str]:
        return [
            f"Left out {count(len(lines), 'row')} with {reason}: {where(lines, self.unit)}."
            for reason, lines in self.left_out.items()
            if reason != UNKNOWN
        ]

    def as_json(self) -> dict[str, Any]:
        """All of it as plain values."""
        own = self.measures
        same = (
            "head", "model", "file", "rows", "unknown", "repeated", "commonest", "temperature",
            "calibrated_error", "text", "pair", "label", "seconds",
        )  # fmt: skip
        facts = {name: getattr(self, name) for name in same}
        return facts | {
            "problem_type": self.problem.name,
            "classes": list(self.classes),
            "scored": own.rows,
            "left_out": {
                reason: {"count": len(lines), "lines": list(lines[:MOST_LINES])}
                for reason, lines in self.left_out.items()
            },
            "metric": own.metric,
            "score": own.score,
            "low": own.low,
            "high": own.high,
            "values": dict(own.values),
            "by_class": [asdict(one) for one in self.by_class],
            "labels": [asdict(one) for one in own.labels],
            "confusion": None if own.confusion is None else own.confusion.tolist(),
            "reliability": [asdict(one) for one in own.bins],
            "absent": list(self.absent),
            "unrepeated": asdict(self.unrepeated) if self.unrepeated else None,
            "held_out": asdict(self.held_out) if self.held_out else None,
            "notes": list(self.told),
        }


def _named(labels: Collection[str]) -> str:
    names = list(labels)
    shown = ", ".join(f"'{short(name)}'" for name in names[:_SHOWN])
    return shown + (f" and {len(names) - _SHOWN:,} more" if len(names) > _SHOWN else "")


# --- Which columns hold the labels.


@dataclass(frozen=True, slots=True, kw_only=True)
class LabelHints:
    """What the user said of the labels; the rest is found.

    Attributes:
        label: The column of the labels.
        labels: Columns of 0 and 1, one for each label.
        separator: The sign between labels in a cell.
        group: The column that says which rows belong together.
    """

    label: str = ""
    labels: Sequence[str] = ()
    separator: str | None = None
    group: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Known:
    """The classes of a head as cells may spell them.

    Attributes:
        problem: What a row is labelled with.
        classes: Their places, by name.
        plain: Their names, by how they are spelled without zeros that say nothing.
        most: Letters of a name, beyond which the reader has cut it.
    """

    problem: ProblemType
    classes: Mapping[str, int]
    plain: Mapping[str, str]
    most: int

    @classmethod
    def of(cls, classifier: Classifier, limits: Limits) -> "_Known":
        names = classifier.classes
        return cls(
            problem=problem_of(classifier),
            classes={name: place for place, name in enumerate(names)},
            plain={plainest(name): name for name in names},
            most=limits.label_characters,
        )

    def place(self, label: str) -> int | None:
        """Which class a label is."""
        for name in (label, self.plain.get(plainest(label), ""), label[: self.most].rstrip()):
            if name in self.classes:
                return self.classes[name]
        return None


def problem_of(classifier: Classifier) -> ProblemType:
    """What rows are labelled with that a head can be scored on."""
    problem = classifier.head.problem
    if problem is ONE_VERSUS_REST:
        return SINGLE_LABEL
    return REGRESSION if problem.gives_number else problem


def label_columns(
    stream: TableStream, head: ChosenHead, known: _Known, said: LabelHints, texts: Sequence[str]
) -> Columns:
    """The columns of the labels: those named, those called as the head's were, or those that fit.

    Raises:
        DataError: One that is named is not there, or none fits.
    """
    table = stream.sample
    for name in filter(None, (said.label, *said.labels, said.group)):
        if name not in table.columns:
            what = f"{stream.name} has no column '{short(name)}'."
            raise DataError(what, did_you_mean(name, map(short, table.columns)), column=name)
    if said.label and said.labels:
        what = "A label column is named, and 0/1 columns as well."
        raise DataError(what, "Name the one or the others.")
    columns = Columns(text="", label=said.label, labels=tuple(said.labels), group=said.group)
    if not (said.label or said.labels):
        columns = _found(stream, head, known, columns, texts)
    if known.problem is REGRESSION:
        return replace(columns, number=True)
    if not known.problem.has_label_sets or columns.labels:
        return columns
    return replace(columns, separator=_separator(stream, head, columns.label, said.separator))


def _found(
    stream: TableStream, head: ChosenHead, known: _Known, columns: Columns, texts: Sequence[str]
) -> Columns:
    own, free = head.columns, [name for name in stream.columns if name not in texts]
    if own.label in free:
        return replace(columns, label=own.label)
    if known.problem.has_label_sets:
        flags = [name for name in free if clean_label(name) in known.classes]
        if len(flags) > 1:
            return replace(columns, labels=tuple(flags))
    if known.problem is REGRESSION:
        return replace(columns, label=_numbers(stream, free))
    shares = {name: _share(stream, known, name) for name in free}
    best = max(shares, key=lambda name: shares[name], default="")
    if not best or shares[best] < MOSTLY:
        raise _no_labels(stream, f"the classes of this head ({_named(known.classes)})")
    return replace(columns, label=best)


def _no_labels(stream: TableStream, what: str) -> DataError:
    says = f"No column of {stream.name} holds {what}."
    return DataError(says, "Name the column of the labels (--label).")


def _numbers(stream: TableStream, free: Sequence[str]) -> str:
    """The column of numbers that is the label, by what the reader of labelled files takes."""
    with_numbers = []
    for name in free:
        cells = cells_of(stream.sample, name)
        numbers = numbers_of(cells)[1]
        if cells and sum(cells[cell] for cell in numbers) >= NEARLY_ALL * cells.total():
            with_numbers.append(name)
    try:
        guessed = guess(stream.sample, ColumnHints(number=True)).label
    except DataError:
        guessed = ""
    if guessed in with_numbers:
        return guessed
    if len(with_numbers) != 1:
        raise _no_labels(stream, "numbers, as this head gives them")
    return with_numbers[0]


def _share(stream: TableStream, known: _Known, name: str) -> float:
    """The share of the filled cells of a column that are classes of the head."""
    cells = cells_of(stream.sample, name)
    separator = _sign(cells) if known.problem.has_label_sets else ""
    hits = sum(
        rows
        for cell, rows in cells.items()
        if all(
            known.place(one) is not None
            for one in (parted(cell, separator) if separator else (cell,))
        )
    )
    return hits / max(cells.total(), 1)


def _separator(stream: TableStream, head: ChosenHead, label: str, said: str | None) -> str:
    """What parts labels in a cell."""
    if said is not None:
        return "" if said == "none" else said
    if label == head.columns.label and head.columns.separator:
        return head.columns.separator
    return _sign(cells_of(stream.sample, label))


def _sign(cells: "Counter[str]") -> str:
    return LISTS if are_lists(cells) else find_separator(cells) or "|"


# --- Rows to logits and targets.


@dataclass(kw_only=True, slots=True)
class _Scored:
    """What is scored so far.

    Attributes:
        known: The classes of the head.
        texts: Of the rows that are scored.
        targets: The classes of each.
        numbers: Its number, where it has one.
        logits: What the head said, block by block.
        groups: The group of each, where a column says it.
        left_out: Lines of the others, by the reason.
        unknown: Labels that the head does not know.
    """

    known: _Known
    texts: list[list[str]] = field(default_factory=list)
    targets: list[tuple[int, ...]] = field(default_factory=list)
    numbers: list[float] = field(default_factory=list)
    logits: list[Tensor] = field(default_factory=list)
    groups: list[str] = field(default_factory=list)
    left_out: dict[str, list[int]] = field(default_factory=dict)
    unknown: Counter[str] = field(default_factory=Counter)

    def takes(self, said: tuple[str, ...] | float | str, line: int) -> bool:
        """Takes the labels of a row, or its number; whether it can be scored."""
        if isinstance(said, str):
            return self._leaves(said, line)
        if not isinstance(said, tuple):
            self.numbers.append(said)
            self.targets.append(())
            return True
        places = [self.known.place(label) for label in said]
        odd = [label for label, place in zip(said, places, strict=True) if place is None]
        if odd:
            self.unknown.update(odd)
            return self._leaves(UNKNOWN, line)
        self.targets.append(tuple(sorted({place for place in places if place is not None})))
        return True

    def _leaves(self, reason: str, line: int) -> bool:
        self.left_out.setdefault(reason, []).append(line)
        return False


def evaluating(
    file: str | Path,
    *,
    recipe: Recipe | str | Classifier = "",
    run: str = "",
    model: str = BUNDLED,
    sample: str = "",
    text: str = "",
    pair: str = "",
    labels: LabelHints | None = None,
    metric: str = "auto",
    header: bool | None = None,
    limits: Limits | None = None,
) -> Generator[Progress, None, FileScores]:
    """The work of `heads.evaluate`: progress, then the scores.

    Raises:
        HeadsError: Anything that does not fit, in one sentence.
    """
    limits, said = limits or limits_here(), labels or LabelHints()
    path = place_of(file)
    asked: dict[str, Any] = {"run": run, "model": model, "sample": sample, "limits": limits}
    head = yield from choosing_head(recipe, **asked)
    known = _Known.of(head.classifier, limits)
    ranked = metric_of(
        head.metric if metric == "auto" else metric, known.problem, ordered=head.ordered
    )
    yield Progress(says=f"Looking through {short(path.name, 60)}", share=0.0)
    stream = open_stream(path, limits, header, head.names)
    texts = text_columns(stream, head, text, pair, said.label)
    columns = label_columns(stream, head, known, said, (texts.text, texts.pair))
    columns = replace(columns, text=texts.text, pair=texts.pair)
    asking, found = Asked.of(stream, head, columns, limits), _Scored(known=known)
    pace = Pace(rows=stream.rows)
    yield from _answering(stream, asking, columns, found, pace)
    _check(found, stream, known)
    task = _task(found, head, known, ranked)
    outcome = _outcome(found, head, task)
    table = stream.sample
    notes = [*stream.notes, *(one.says for one in table.findings)]
    notes += [one.says for one in text_account(asking.reading.found, table.unit)]
    used = columns.labels or (columns.label,)
    return FileScores(
        head=head.classifier.head.name,
        model=head.classifier.head.model,
        file=stream.name,
        classes=head.classifier.classes,
        rows=stream.rows,
        left_out=_lines(asking.unanswered, found.left_out),
        unknown=dict(found.unknown.most_common()),
        text=columns.text,
        pair=columns.pair,
        label=", ".join(used),
        held_out=head.classifier.head.scores,
        seconds=pace.seconds,
        unit=table.unit,
        notes=tuple(dict.fromkeys(notes)),
        **_measured(outcome, task, head, found),
    )


def _answering(
    stream: TableStream, asking: Asked, columns: Columns, found: _Scored, pace: Pace
) -> Generator[Progress, None, None]:
    """The logits of all rows that have a text and a label."""
    read = label_cells(stream.sample, columns)
    group_at = stream.columns.index(columns.group) if columns.group else -1
    for block in stream.blocks(block_rows(asking.classifier)):
        interruption.check()
        chosen = []
        for place, texts in zip(*asking.texts(block), strict=True):
            row = block.rows[place]
            if found.takes(read(row.cells, row.line), row.line):
                chosen.append(texts)
                if group_at >= 0:
                    found.groups.append(clean_label(row.cells[group_at]))
        if chosen:
            found.logits.append(asking.logits(chosen))
            found.texts += chosen
        yield pace.step(len(block))


def _check(found: _Scored, stream: TableStream, known: _Known) -> None:
    """Refuses rows that are too few, or are labelled for another task.

    Raises:
        DataError: So it is.
    """
    odd = len(found.left_out.get(UNKNOWN, ()))
    if odd > MOST_UNSEEN * (odd + len(found.texts)):
        cases = {name.casefold() for name in known.classes}
        spelled = all(name.casefold() in cases for name in found.unknown)
        hint = "Label both alike: they differ by case." if spelled else "Name another --label."
        what = f"{odd:,} rows of {stream.name} have {UNKNOWN} ({_named(found.unknown)}): "
        raise DataError(f"{what}it answers {_named(known.classes)}.", hint)
    if len(found.texts) < _FEWEST:
        left = ", ".join(f"{len(lines):,} with {why}" for why, lines in found.left_out.items())
        what = f"{stream.name} has {count(len(found.texts), 'row')} that can be scored"
        what += f" ({left})" * bool(left)
        raise DataError(f"{what}; at least {_FEWEST} are needed.", "Are the right columns chosen?")


def _lines(*parts: Mapping[str, Sequence[int]]) -> dict[str, tuple[int, ...]]:
    return {reason: tuple(lines) for part in parts for reason, lines in part.items()}


def _task(found: _Scored, head: ChosenHead, known: _Known, metric: MetricName) -> EvaluationTask:
    """What the measures need to know of the scored rows."""
    texts = [one[0] for one in found.texts]
    pairs = [one[1] for one in found.texts if len(one) > 1]
    numbered: dict[tuple[str, ...], int] = {}
    same = [numbered.setdefault(tuple(one), len(numbered)) for one in found.texts]
    classes = head.classifier.classes
    targets = known.problem.targets(found.targets, found.numbers, len(classes))
    return EvaluationTask(
        targets=targets.float() if targets.is_floating_point() else targets,
        classes=classes,
        groups=grouping(texts, pairs, found.groups).tensor,
        problem=known.problem,
        ordered=head.ordered,
        metric=metric,
        texts=torch.tensor(same),
    )


def _outcome(found: _Scored, head: ChosenHead, task: EvaluationTask) -> CellPredictions:
    """What the head said of the scored rows, as a leaderboard measures it."""
    own, logits = head.classifier.head, torch.cat(found.logits)
    if own.problem is ONE_VERSUS_REST:
        logits = own.problem.competing(logits)
    elif task.problem is REGRESSION:
        logits = own.problem.probabilities(logits)  # of a reward model, the number under a sigmoid
    bars = torch.tensor(own.thresholds) if own.thresholds and task.problem.has_label_sets else None
    rows = torch.arange(len(logits))
    return CellPredictions(name=own.name, rows=(rows,), logits=(logits,), thresholds=bars)


def _measured(
    outcome: CellPredictions, task: EvaluationTask, head: ChosenHead, found: _Scored
) -> dict[str, Any]:
    """What `FileScores` says of the scores."""
    measures = measure(outcome, task)
    repeats = _repeats(head, found)
    rest = None if repeats is None or not bool(repeats.any()) else _part(outcome, task, ~repeats)
    temperature = head.classifier.head.temperature
    return {
        "problem": task.problem,
        "measures": measures,
        "by_class": tuple(_by_class(measures, task.classes)),
        "absent": _absent(task),
        "repeated": None if repeats is None else int(repeats.sum()),
        "unrepeated": rest,
        "commonest": _commonest(task),
        "temperature": temperature,
        "calibrated_error": _error(outcome, task, temperature),
    }


def _repeats(head: ChosenHead, found: _Scored) -> Tensor | None:
    """(n,), whether a row's text is among those that the head learned from."""
    corpus, learned = head.selected.corpus, head.selected.learned
    if corpus is None:
        return None
    pairs = corpus.pairs or [""] * len(corpus)
    known = {_key(corpus.texts[row], pairs[row]) for row in learned}
    return torch.tensor([_key(*one) in known for one in found.texts])


def _key(text: str, pair: str = "") -> str:
    return folded(*sorted((text, pair)))


def _part(outcome: CellPredictions, task: EvaluationTask, chosen: Tensor) -> PartScore | None:
    """The score of some of the rows."""
    rows = chosen.nonzero()[:, 0]
    if len(rows) < _FEWEST:
        return None
    some = replace(outcome, rows=(rows,), logits=(outcome.logits[0][rows],))
    own = measure(some, task)
    return PartScore(rows=len(rows), score=own.score, low=own.low, high=own.high)


def _by_class(measures: Measures, classes: Sequence[str]) -> list[ClassScores]:
    if measures.confusion is None:
        return []
    table = measures.confusion
    rows, answered, right = table.sum(dim=1), table.sum(dim=0), table.diagonal()
    facts = zip(classes, rows.tolist(), answered.tolist(), right.tolist(), measures.f1, strict=True)
    return [
        ClassScores(
            name=name, rows=has, answered=given, precision=hits / given if given else None,
            recall=hits / has if has else None, f1=f1,
        )
        for name, has, given, hits, f1 in facts
    ]  # fmt: skip


def _absent(task: EvaluationTask) -> tuple[str, ...]:
    """Classes that no scored row has."""
    if not task.problem.has_classes:
        return ()
    there = task.problem.target_matrix(task.targets, len(task.classes)).bool().any(dim=0).tolist()
    return tuple(name for name, yes in zip(task.classes, there, strict=True) if not yes)


def _commonest(task: EvaluationTask) -> float | None:
    if not task.problem.is_exclusive:
        return None
    return float(torch.bincount(task.targets).max()) / len(task.targets)


def _error(outcome: CellPredictions, task: EvaluationTask, temperature: float) -> float | None:
    """The calibration error with the logits divided."""
    if not task.problem.has_classes:
        return None
    sure = confidence(outcome, task, temperature)
    return calibration_error(reliability(sure, decided(outcome, task)))
