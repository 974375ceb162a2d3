"""A head scored on a file with labels: by the statistics of a leaderboard, with intervals.

Legend: n scored rows, c classes.
"""

from collections import Counter
from collections.abc import Generator, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, field, replace
from itertools import compress
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from heads import display, interruption
from heads.classifier.classifier import Classifier
from heads.classifier.label_names import ROWS, other_names, rename_classes
from heads.classifier.module import TrainedHead
from heads.data.columns import guess
from heads.data.formats.table_stream import Row, TableStream
from heads.data.formats.vector_stream import vector_columns
from heads.data.frames import Frame
from heads.data.groups import grouping
from heads.data.joining import MOST_UNSEEN, differ_by_case
from heads.data.labels import (
    Marks,
    are_lists,
    cells_of,
    find_separator,
    label_cells,
    numbers_of,
    split_labels,
)
from heads.data.numbers import plainest
from heads.data.rows import check_column
from heads.data.sources import are_given, labelled, locate_rows, source_name, stream_source
from heads.data.table import (
    LISTS,
    ColumnHints,
    Columns,
    clean_label,
    count,
    lines_as_json,
    quoted,
    where,
)
from heads.data.text import folded
from heads.errors import DataError, HeadsError
from heads.evaluation.calibration import calibration_error, confidence, decided, reliability
from heads.evaluation.details import Measures, measure
from heads.evaluation.metrics import SCORES, MetricName, metric_of
from heads.evaluation.predictions import CellPredictions, EvaluationTask
from heads.evaluation.statistics import Scores
from heads.events import Progress
from heads.inference.predict import BlockClassifier, FilePace, block_rows, find_columns
from heads.inference.selection import FileHead, select_file_head
from heads.options import EvaluateOptions
from heads.problem import ONE_VERSUS_REST, REGRESSION, SINGLE_LABEL, ProblemType
from heads.settings import current_limits

if TYPE_CHECKING:
    from pandas import DataFrame

UNKNOWN = "a label that the head does not know"
NEARLY_ALL, MOSTLY = 0.95, 0.5
_FEWEST = 2  # rows: of a single one nothing varies


@dataclass(frozen=True, slots=True, kw_only=True)
class ClassScores:
    """How well one class is found, where a row has one.

    Attributes:
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
    """The score of some of the rows, with the ends of its 95 % interval."""

    rows: int
    score: float
    low: float
    high: float


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class FileScores(display.Displayed):
    """How well a head does on a file with labels.

    Attributes:
        head: The head, by the name that it has beside others.
        classes: Those of the head, in the order of every table.
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
        pair: The column of the second texts, or "".
        vectors: The column of the vectors, where the head learned from vectors; else "".
        label: The column of the labels, or several 0/1 columns, separated by commas.
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
    vectors: str
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
        left = (
            f"Left out {count(len(lines), 'row')} with {reason}: {where(lines, self.unit)}."
            for reason, lines in self.left_out.items()
            if reason != UNKNOWN
        )
        return (*self._on_repeats(), *self._on_labels(), *left, *self.notes)

    def _on_repeats(self) -> list[str]:
        if self.repeated is None:
            return ["What the head learned from is not known here, so nothing tells repeats of it."]
        if not self.repeated:
            return []
        thing = "vector" if self.vectors else "text"
        have = f"has a {thing}" if self.repeated == 1 else f"have {thing}s"
        rows = "row" if self.measures.rows == 1 else "rows"
        says = f"{self.repeated:,} of the {self.measures.rows:,} scored {rows} {have} that "
        says += "the head learned from, which flatters its score"
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
            says += f"({quoted(self.unknown)}) and {'is' if rows == 1 else 'are'} left out"
            if self.measures.metric == "accuracy":
                both = self.measures.rows + rows
                share = self.measures.score * self.measures.rows / both
                says += f"; counted as wrong, they would make its accuracy {100 * share:.1f} %"
            found.append(f"{says}.")
        if self.absent:
            has = "has" if len(self.absent) == 1 else "have"
            whose = f"{count(len(self.absent), 'class', 'classes')} of the head {has} no row here"
            found.append(f"{whose}: {quoted(self.absent)}.")
        return found

    def to_pandas(self) -> "DataFrame":
        """Return a row a class or label, with how well it is found; of numbers, measures."""
        if self.measures.labels or self.by_class:
            return display.data_frame(asdict(row) for row in self.measures.labels or self.by_class)
        return display.data_frame([{"rows": self.measures.rows, **self.measures.values}])

    def as_json(self) -> dict[str, Any]:
        """Return all of it as plain values."""
        own = self.measures
        same = (
            "head", "model", "file", "rows", "unknown", "repeated", "commonest", "temperature",
            "calibrated_error", "text", "pair", "vectors", "label", "seconds",
        )  # fmt: skip
        facts = {name: getattr(self, name) for name in same}
        return facts | {
            "problem_type": self.problem.name,
            "classes": list(self.classes),
            "scored": own.rows,
            "left_out": lines_as_json(self.left_out),
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


# --- Which columns hold the labels.


@dataclass(frozen=True, slots=True, kw_only=True)
class _Known:
    """The classes of a head as cells may spell them.

    Attributes:
        plain: Their names, by how they are spelled without zeros that say nothing.
        most: Letters of a name, beyond which the reader has cut it.
    """

    problem: ProblemType
    classes: Mapping[str, int]
    plain: Mapping[str, str]
    most: int

    @classmethod
    def of(cls, classifier: Classifier) -> "_Known":
        names = classifier.classes
        return cls(
            problem=problem_of(classifier),
            classes={name: place for place, name in enumerate(names)},
            plain={plainest(name): name for name in names},
            most=current_limits().label_characters,
        )

    def place(self, label: str) -> int | None:
        """Return the number of the class that a label is; None for none."""
        for name in (label, self.plain.get(plainest(label), ""), label[: self.most].rstrip()):
            if name in self.classes:
                return self.classes[name]
        return None

    def share(self, cells: "Counter[str]") -> float:
        """Return the share of the filled cells of a column that are classes, or numbers."""
        if self.problem is REGRESSION:
            fits = set(numbers_of(cells)[1])
        else:
            sign = _sign(cells) if self.problem.has_label_sets else ""
            labels = {cell: split_labels(cell, sign) if sign else (cell,) for cell in cells}
            fits = {
                cell
                for cell, names in labels.items()
                if all(self.place(name) is not None for name in names)
            }
        return sum(cells[cell] for cell in fits) / max(cells.total(), 1)


def problem_of(classifier: Classifier) -> ProblemType:
    """Return what rows are labelled with that a head can be scored on."""
    problem = classifier.head.problem
    if problem is ONE_VERSUS_REST:
        return SINGLE_LABEL
    return REGRESSION if problem.gives_number else problem


def label_columns(
    stream: TableStream,
    head: FileHead,
    known: _Known,
    options: EvaluateOptions,
    texts: Sequence[str],
) -> Columns:
    """Find the columns of labels: named ones, ones called as the head's were, or that fit."""
    table = stream.sample
    for name in filter(None, (options.label, *options.labels, options.group)):
        check_column(table, name, may_nest=True)
    if options.label and options.labels:
        what = "A label column is named, and 0/1 columns as well."
        raise DataError(what, "Name the one or the others.")
    columns = Columns(label=options.label, labels=tuple(options.labels), group=options.group)
    if not (options.label or options.labels):
        columns = _find_labels(stream, head, known, columns, texts)
    if known.problem is REGRESSION:
        return replace(columns, number=True)
    if not known.problem.has_label_sets or columns.labels:
        return columns
    if options.separator is not None:
        return replace(columns, separator="" if options.separator == "none" else options.separator)
    separator = head.columns.separator if columns.label == head.columns.label else ""
    return replace(columns, separator=separator or _sign(cells_of(table, columns.label)))


def _find_labels(
    stream: TableStream, head: FileHead, known: _Known, columns: Columns, texts: Sequence[str]
) -> Columns:
    free = [name for name in stream.columns if name not in texts]
    if head.columns.label in free:
        return replace(columns, label=head.columns.label)
    if known.problem.has_label_sets:
        flags = [name for name in free if clean_label(name) in known.classes]
        if len(flags) > 1:
            return replace(columns, labels=tuple(flags))
    cells = {name: cells_of(stream.sample, name) for name in free}
    shares = {name: known.share(counts) for name, counts in cells.items()}
    is_number, guessed, label = known.problem is REGRESSION, "", ""
    with suppress(DataError):  # no column looks like labels
        guessed = guess(stream.sample, ColumnHints(number=is_number or None)).label
    if is_number:
        fits = [name for name in free if shares[name] >= NEARLY_ALL]
        label = guessed if guessed in fits else fits[0] if len(fits) == 1 else ""
    elif max(shares.values(), default=0.0) >= MOSTLY:
        label = max(shares, key=shares.__getitem__)
    elif guessed in free and len(cells[guessed]) == len(known.classes):
        label = guessed  # whose labels the head may call otherwise
    if not label:
        held = f"labels of this head ({quoted(known.classes)})"
        held = "numbers, as this head gives them" if is_number else held
        hint = "Name the column of the labels (--label); without labels: heads predict."
        raise DataError(f"No column of {stream.name} holds {held}.", hint)
    return replace(columns, label=label)


def _sign(cells: "Counter[str]") -> str:
    return LISTS if are_lists(cells) else find_separator(cells) or "|"


# --- Rows to logits and targets.


@dataclass(kw_only=True, slots=True)
class Scoring:
    """Scores the rows of a file that have labels, block after block.

    Attributes:
        read: Reads the labels of a row.
        texts: Of the rows that are scored.
        targets: The classes of each; `numbers`, `groups` where there are such.
        logits: The logits of these rows, block by block.
        left_out: Lines of rows without labels that can be scored, by the reason.
        unknown: Labels that the head does not know.
    """

    stream: TableStream
    head: FileHead
    columns: Columns
    metric: MetricName
    known: _Known
    read: Marks
    texts: list[Sequence[str]] = field(default_factory=list)
    targets: list[tuple[int, ...]] = field(default_factory=list)
    numbers: list[float] = field(default_factory=list)
    logits: list[Tensor] = field(default_factory=list)
    groups: list[str] = field(default_factory=list)
    left_out: dict[str, list[int]] = field(default_factory=dict)
    unknown: Counter[str] = field(default_factory=Counter)

    @classmethod
    def of(
        cls,
        stream: TableStream,
        head: FileHead,
        texts: Columns,
        options: EvaluateOptions = EvaluateOptions(),
    ) -> "Scoring":
        """Return one for a file whose columns of texts are known; raise DataError for no labels."""
        known = _Known.of(head.classifier)
        name = head.metric if options.metric == "auto" else options.metric
        ranked = metric_of(name, known.problem, ordered=head.ordered)
        taken = (texts.text, texts.pair, *vector_columns(stream))
        columns = label_columns(stream, head, known, options, taken)
        columns = replace(columns, text=texts.text, pair=texts.pair, vectors=texts.vectors)
        return cls(
            stream=stream, head=head, columns=columns, metric=ranked, known=known,
            read=label_cells(stream.sample, columns),
        )  # fmt: skip

    def takes(self, row: Row) -> bool:
        """Take the labels of a row, or its number; return whether it can be scored."""
        said = self.read(row.cells, row.line)
        if isinstance(said, str):
            return self._leaves(said, row)
        if isinstance(said, tuple):
            places = [self.known.place(label) for label in said]
            odd = [label for label, place in zip(said, places, strict=True) if place is None]
            if odd:
                self.unknown.update(odd)
                return self._leaves(UNKNOWN, row)
            self.targets.append(tuple(sorted({place for place in places if place is not None})))
        else:
            self.numbers.append(said)
            self.targets.append(())
        if self.columns.group:
            at = self.stream.columns.index(self.columns.group)
            self.groups.append(clean_label(row.cells[at]))
        return True

    def _leaves(self, reason: str, row: Row) -> bool:
        self.left_out.setdefault(reason, []).append(row.line)
        return False

    def keep(self, texts: Sequence[Sequence[str]], logits: Tensor) -> None:
        """Keep what the head said of rows whose labels were taken."""
        self.texts += texts
        self.logits.append(logits)

    def add(self, rows: Sequence[Row], texts: Sequence[Sequence[str]], logits: Tensor) -> None:
        """Take the labels of rows, and keep what the head said of those that have some."""
        chosen = [place for place, row in enumerate(rows) if self.takes(row)]
        if chosen:
            self.keep([texts[place] for place in chosen], logits[chosen])

    def scores(
        self, unanswered: Mapping[str, Sequence[int]], notes: Sequence[str], seconds: float
    ) -> FileScores:
        """Return the scores, once all rows have been asked about.

        Args:
            unanswered: Lines of rows without a text, by the reason.
            notes: How the file was read, and what was done to texts.

        Raises:
            DataError: The rows are too few, or are labelled for another task.
        """
        self._check()
        stream, own, columns = self.stream, self.head.classifier.head, self.columns
        left = [*unanswered.items(), *self.left_out.items()]
        task = self._task()
        outcome = _outcome(torch.cat(self.logits), own, task)
        repeats, rest = _repeats(self.head, self.texts), None
        if repeats is not None and bool(repeats.any()):
            rest = _part(outcome, task, ~repeats)
        measures, commonest, absent, error = measure(outcome, task), None, (), None
        if task.problem.has_classes:
            there = task.problem.target_matrix(task.targets, len(own.classes)).bool().any(dim=0)
            absent = tuple(compress(own.classes, (~there).tolist()))
            sure = confidence(outcome, task, own.temperature)
            error = calibration_error(reliability(sure, decided(outcome, task)))
        if task.problem.is_exclusive:
            commonest = float(torch.bincount(task.targets).max()) / len(task.targets)
        return FileScores(
            head=own.name,
            model=own.model,
            file=stream.name,
            problem=task.problem,
            classes=own.classes,
            rows=stream.rows,
            left_out={reason: tuple(lines) for reason, lines in left},
            measures=measures,
            by_class=tuple(_by_class(measures, own.classes)),
            unknown=dict(self.unknown.most_common()),
            absent=absent,
            repeated=None if repeats is None else int(repeats.sum()),
            unrepeated=rest,
            commonest=commonest,
            temperature=own.temperature,
            calibrated_error=error,
            held_out=own.scores,
            text=columns.text,
            pair=columns.pair,
            vectors=columns.vectors,
            label=", ".join(columns.labels or (columns.label,)),
            seconds=seconds,
            unit=stream.sample.unit,
            notes=tuple(dict.fromkeys(notes)),
        )

    @property
    def is_foreign(self) -> bool:
        """Whether the classes of the head seem to have other names here, and not by case alone."""
        known, is_unmet = self.known.classes, not self.texts and not self.targets
        is_alike = self.known.problem is SINGLE_LABEL and len(self.unknown) == len(known)
        return is_unmet and is_alike and not differ_by_case(self.unknown, known)

    def other_names(self, rows: Sequence[Row], logits: Tensor) -> HeadsError:
        """Return what to say of labels none of which is a class of the head."""
        labels = [
            said[0] for row in rows if isinstance(said := self.read(row.cells, row.line), tuple)
        ]
        known = sorted({*labels, *self.unknown})
        return other_names(self.head.classifier.head, logits, labels, known, self.stream.name)

    def _check(self) -> None:
        """Refuse rows that are too few, or are labelled for another task."""
        known, name = self.known, self.stream.name
        odd = len(self.left_out.get(UNKNOWN, ()))
        if odd > MOST_UNSEEN * (odd + len(self.texts)):
            is_case = differ_by_case(self.unknown, known.classes)
            hint = "Label both alike: they differ by case." if is_case else "Name another --label."
            what = f"{odd:,} rows of {name} have {UNKNOWN} ({quoted(self.unknown)}): "
            raise DataError(f"{what}it answers {quoted(known.classes)}.", hint)
        if len(self.texts) < _FEWEST:
            left = ", ".join(f"{len(lines):,} with {why}" for why, lines in self.left_out.items())
            what = f"{name} has {count(len(self.texts), 'row')} that can be scored"
            what += f" ({left})" * bool(left)
            hint = "Are the right columns chosen?"
            raise DataError(f"{what}; at least {_FEWEST} are needed.", hint)

    def _task(self) -> EvaluationTask:
        texts = [one[0] for one in self.texts]
        pairs = [one[1] for one in self.texts if len(one) > 1]
        numbered: dict[tuple[str, ...], int] = {}
        same = [numbered.setdefault(tuple(one), len(numbered)) for one in self.texts]
        classes, problem = self.head.classifier.classes, self.known.problem
        targets = problem.targets(self.targets, self.numbers, len(classes))
        return EvaluationTask(
            targets=targets.float() if targets.is_floating_point() else targets,
            classes=classes,
            groups=grouping(texts, pairs, self.groups).tensor,
            problem=problem,
            ordered=self.head.ordered,
            metric=self.metric,
            texts=torch.tensor(same),
        )


def iter_evaluation(
    file: str | Path | Frame, options: EvaluateOptions = EvaluateOptions()
) -> Generator[Progress, None, FileScores]:
    """Score a file as `heads.evaluate` does: yield progress, return the scores."""
    source = locate_rows(file)
    head = yield from select_file_head(options)
    renamed = rename_classes(head.classifier.head, options.label_names)
    head = replace(head, classifier=replace(head.classifier, head=renamed))
    yield Progress(says=f"Looking through {source_name(file)}", share=0.0)
    stream = stream_source(source, file, options.header, head.columns.used)
    if are_given(options.labels_file):
        stream = labelled(stream, options.labels_file, options.header)
    texts = find_columns(stream, head, options, options.label)
    scoring = Scoring.of(stream, head, texts, options)
    asking, pace = BlockClassifier.of(stream, head, scoring.columns), FilePace(rows=stream.rows)
    for block in stream.blocks(block_rows(head.classifier)):
        interruption.check()
        pairs = list(zip(*asking.texts(block), strict=True))
        chosen = [texts for place, texts in pairs if scoring.takes(block.rows[place])]
        if scoring.is_foreign:
            some = pairs[:: max(1, len(pairs) // ROWS)]
            logits = asking.logits([texts for _, texts in some])
            raise scoring.other_names([block.rows[place] for place, _ in some], logits)
        if chosen:
            scoring.keep(chosen, asking.logits(chosen))
        yield pace.step(len(block))
    return scoring.scores(asking.unanswered, asking.notes(stream), pace.seconds)


def _outcome(logits: Tensor, own: TrainedHead, task: EvaluationTask) -> CellPredictions:
    if own.problem is ONE_VERSUS_REST:
        logits = own.problem.competing(logits)
    elif task.problem is REGRESSION:
        logits = own.problem.probabilities(logits)  # of a reward model, the number under a sigmoid
    bars = torch.tensor(own.thresholds) if own.thresholds and task.problem.has_label_sets else None
    rows = torch.arange(len(logits))
    return CellPredictions(name=own.name, rows=(rows,), logits=(logits,), thresholds=bars)


def _repeats(head: FileHead, texts: Sequence[Sequence[str]]) -> Tensor | None:
    """Return whether each row's text is one that the head learned from, (n,)."""
    corpus, learned = head.selected.corpus, head.selected.learned
    if corpus is None or (corpus.vectors is not None and not corpus.are_named):
        return None
    pairs = corpus.pairs or [""] * len(corpus)
    known = {_key(corpus.texts[row], pairs[row]) for row in learned}
    return torch.tensor([_key(*one) in known for one in texts])


def _key(text: str, pair: str = "") -> str:
    return folded(*sorted((text, pair)))


def _part(outcome: CellPredictions, task: EvaluationTask, chosen: Tensor) -> PartScore | None:
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
