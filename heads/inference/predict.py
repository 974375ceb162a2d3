"""A whole file answered by one head: as many rows come back as there are, in their order.

Legend: n texts of a block, c classes.
"""

import time
from collections import Counter
from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np
from torch import Tensor

from heads import display, interruption
from heads.caching import check_free, place_told
from heads.classifier.answers import AnswerColumns, answer_columns
from heads.classifier.classifier import Classifier
from heads.data.columns import guess
from heads.data.formats.table_stream import WRONG_COUNT, Block, Row, TableStream
from heads.data.formats.vector_reading import names_of
from heads.data.formats.vector_stream import block_vectors, vector_columns
from heads.data.formats.writers import Value, check_ending, check_rows, written
from heads.data.frames import Frame, index_of
from heads.data.rows import Rows, TextReader, check_column, missing, text_account
from heads.data.sources import locate_rows, source_name, stream_source
from heads.data.table import ColumnHints, Columns, count, lines_as_json, short, where
from heads.errors import DataError, did_you_mean
from heads.events import Progress
from heads.inference.selection import FileHead, select_file_head
from heads.options import FileOptions, PredictOptions
from heads.settings import current_limits

if TYPE_CHECKING:
    from pandas import DataFrame, Index

FEWEST, MOST = 64, 1_024  # rows of a block: of a large base model few, so that one sees it go on
NO_NUMBERS = "no vector, or one that holds NaN or infinity"
SMALL = 25_000_000  # parameters of a base model that reads the most at once

# --- Which columns hold the texts.


def find_columns(
    stream: TableStream, head: FileHead, options: FileOptions, label: str = ""
) -> Columns:
    """Return the columns of texts or vectors; raise DataError if one is missing or unfit.

    Args:
        label: The column of the labels, which is none of them.
    """
    text, vectors = options.text, options.vectors
    if not head.classifier.backbone.is_given:
        if vectors:
            what = f"{head.classifier.head.name} reads texts, and no vectors."
            raise DataError(what, "Leave out --vectors, or name a run on vectors.")
        return text_columns(stream, head, text, options.pair, label)
    width, there = head.classifier.backbone.width, vector_columns(stream)
    vectors = vectors or text  # as one says it who sees a menu of columns
    name = vectors or head.columns.vectors
    name = name if vectors or name in there else next(iter(there), "")
    if name in there:
        return Columns(label=label, vectors=name)
    what = f"{head.classifier.head.name} learned from vectors of {width:,} numbers, and "
    if vectors:
        raise DataError(f"{what}'{short(vectors)}' holds none.", did_you_mean(vectors, there))
    hint = "Let the model that made those make these, and give a file of vectors."
    raise DataError(f"{what}no column of {stream.name} holds any.", hint)


def text_columns(
    stream: TableStream, head: FileHead, text: str, pair: str, label: str = ""
) -> Columns:
    """Return the columns of the texts: those named, else called as the head's were, else guessed.

    Raises:
        DataError: One is not there or holds no texts, or the head needs two and there is one.
    """
    needs_pair = head.classifier.head.needs_pairs
    for name in filter(None, (text, pair)):
        check_column(stream.sample, name)
    known = head.columns
    guessed = _guessed(stream, text, pair, label)
    first = text or (known.text if known.text in stream.columns else guessed.text)
    second = pair
    if needs_pair and not second:
        is_known = known.pair and known.pair in stream.columns and known.pair != first
        second = known.pair if is_known else guessed.pair
    if needs_pair and second in ("", first):
        name = head.classifier.head.name
        what = f"{name} was trained on two texts a row, and {stream.name} has one column of them."
        raise DataError(what, "Name the other one (--pair).")
    if first == second:
        raise DataError("The same column is chosen twice.", "Choose one for each of text and pair.")
    for name in filter(None, (first, second)):
        check_column(stream.sample, name)
    return Columns(text=first, pair=second, label=label)


def _guessed(stream: TableStream, text: str, pair: str, label: str) -> Columns:
    """Return what a reader of labelled files takes for the texts."""
    if len(stream.columns) == 1:
        return Columns(text=stream.columns[0])
    try:
        return guess(stream.sample, ColumnHints(text=text, pair=pair, label=label))
    except DataError:
        if text:
            return Columns(text=text, pair=pair)
        free = [name for name in stream.columns if name not in stream.sample.unnamed]
        return Columns(text=(free or stream.columns)[0])


# --- Blocks of rows to logits.


@dataclass(kw_only=True, slots=True)
class BlockClassifier:
    """Reads the texts of blocks and asks a head about them; notes rows without a text."""

    classifier: Classifier
    reading: TextReader | None = None
    is_paired: bool
    unanswered: dict[str, list[int]] = field(default_factory=dict)

    @classmethod
    def of(cls, stream: TableStream, head: FileHead, columns: Columns) -> "BlockClassifier":
        """Return one for the texts or the vectors of a file."""
        if columns.vectors:
            return VectorBlockClassifier(
                classifier=head.classifier, stream=stream, column=columns.vectors, is_paired=False
            )
        reading = TextReader.of(stream.sample, columns, Rows(unit=stream.sample.unit))
        return cls(classifier=head.classifier, reading=reading, is_paired=bool(columns.pair))

    def texts(self, block: Block) -> tuple[list[int], list[list[str]]]:
        """Return the places in a block of the rows that have texts, and these."""
        assert self.reading is not None
        places, rows = list[int](), list[list[str]]()
        for place, row in enumerate(block.rows):
            reason = row.odd
            if reason == WRONG_COUNT and self.reading.spill:
                reason = ""  # the text is the last column: what is too much belongs to it
            texts = [] if reason else self.reading.texts(row.cells, row.line)
            if reason := reason or missing(texts):
                self.unanswered.setdefault(reason, []).append(row.line)
            else:
                places.append(place)
                rows.append(texts)
        return places, rows

    def notes(self, stream: TableStream) -> list[str]:
        """Return how the file was read and what was done to its texts, a sentence each."""
        findings = list(stream.sample.findings)
        if self.reading:
            findings += text_account(self.reading.found, stream.sample.unit)
        return [*stream.notes, *(finding.says for finding in findings)]

    def logits(self, texts: Sequence[Sequence[str]]) -> Tensor:
        """Return the logits of rows with these texts, (n, c)."""
        pairs = [second for _, second in texts] if self.is_paired else []
        return self.classifier.logits([one[0] for one in texts], pairs)


@dataclass(kw_only=True, slots=True)
class VectorBlockClassifier(BlockClassifier):
    """Reads the vectors of blocks and asks a head about them.

    Attributes:
        known: The vectors of a block by their names, which stand where texts stand elsewhere.
    """

    stream: TableStream
    column: str
    known: dict[str, np.ndarray] = field(default_factory=dict)

    def texts(self, block: Block) -> tuple[list[int], list[list[str]]]:
        """Return the places in a block of the rows that have vectors, and names for these."""
        width = self.classifier.backbone.width
        matrix, can = block_vectors(self.stream, block, self.column, width)
        for row, yes in zip(block.rows, can.tolist(), strict=True):
            if not yes:
                self.unanswered.setdefault(NO_NUMBERS, []).append(row.line)
        places, own = can.nonzero()[0].tolist(), matrix[can]
        names = names_of(own)
        self.known = dict(zip(names, own, strict=True))
        return places, [[name] for name in names]

    def logits(self, texts: Sequence[Sequence[str]]) -> Tensor:
        """Return the logits of rows with vectors of these names, (n, c)."""
        vectors: Any = np.stack([self.known[name] for (name,) in texts])
        return self.classifier.logits(vectors)


def block_rows(classifier: Classifier) -> int:
    """Return how many rows are asked about at once: always the same for a base model.

    What a text is batched with moves the last digits of its logits, so they must not hang on how
    fast the machine is.
    """
    return max(FEWEST, min(MOST, round(MOST * SMALL / max(1, classifier.backbone.parameters))))


@dataclass(kw_only=True, slots=True)
class FilePace:
    """How far a pass over a file is, how fast it goes and how long it will take."""

    rows: int
    done: int = 0
    begun: float = field(default_factory=time.perf_counter)

    @property
    def seconds(self) -> float:
        """Seconds since the pass began."""
        return time.perf_counter() - self.begun

    def step(self, rows: int) -> Progress:
        """Count more rows as done; return how far the pass is."""
        self.done += rows
        rate = self.done / max(self.seconds, 1e-6)
        says = f"Answered {self.done:,} of {self.rows:,} rows: {rate:,.0f} a second"
        left = (self.rows - self.done) / rate
        return Progress(says=f"{says}, {left:,.0f} s left", share=self.done / self.rows)


# --- A file answered.


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class FileAnswers(display.Displayed):
    """A file that was answered, with an account of every row.

    Attributes:
        head: The head, by the name that it has beside others.
        to: What was written; None where nothing was.
        rows: Rows of the file, and of what was written.
        answered: Those that got an answer.
        unanswered: Those without a text, or without two where the head needs two: reason -> lines.
        abstained: Those that the head was not sure enough of.
        counts: How often each class was answered; nothing of numbers.
        spread: The least, the mean and the greatest number; nothing of classes.
        pair: The column of the second texts, or "".
        columns: The columns of ours.
        unit: What line numbers count: "line" or "row".
        notes: How the file was read, and what was done to texts, a sentence each.
        answers: The values of our columns, one for each row; only where no file was written.
        first: The first rows as they are written: names of columns, and cells.
        vectors: The column of the vectors, where the head learned from vectors; else "".
        index: What the frame of pandas that was answered calls its rows; None of anything else.
    """

    head: str
    model: str
    file: str
    to: Path | None
    rows: int
    answered: int
    unanswered: Mapping[str, tuple[int, ...]]
    abstained: int
    counts: Mapping[str, int]
    spread: tuple[float, ...]
    text: str
    pair: str
    columns: tuple[str, ...]
    seconds: float
    unit: str
    notes: tuple[str, ...]
    vectors: str = ""
    answers: tuple[Mapping[str, Any], ...] = ()
    first: tuple[tuple[str, ...], ...] = ()
    index: "Index | None" = None

    def __repr__(self) -> str:
        to = f", in {self.to}" if self.to else ""
        return f"<FileAnswers {self.file} by {self.head}: {self.answered:,} of {self.rows:,}{to}>"

    @property
    def told(self) -> tuple[str, ...]:
        """The account in sentences, what was not answered first."""
        left = [
            f"{count(len(lines), 'row')} got no answer, {reason}: {where(lines, self.unit)}."
            for reason, lines in self.unanswered.items()
        ]
        return (*left, *self.notes)

    def to_pandas(self) -> "DataFrame":
        """Our columns, a row for each of the file; empty where a file was written.

        Rows of a frame of pandas have its index, so that the columns can be put beside its own.
        """
        found = display.data_frame(self.answers)
        return found if self.index is None or self.to else found.set_axis(self.index)

    def as_json(self) -> dict[str, Any]:
        """Return all of it as plain values."""
        apart = ("to", "unanswered", "answers", "first", "index")
        facts = {n: getattr(self, n) for n in self.__dataclass_fields__ if n not in apart}
        facts["to"] = str(self.to) if self.to else None
        facts["unanswered"] = lines_as_json(self.unanswered)
        return facts | ({} if self.to else {"answers": list(map(dict, self.answers))})


SHOWN_ROWS, SHOWN_LETTERS = 10, 300


class Watcher(Protocol):
    """Who is told what a head said of rows."""

    def add(self, rows: Sequence[Row], texts: Sequence[Sequence[str]], logits: Tensor) -> None:
        """Rows that have texts, these, and the logits (n, c)."""


@dataclass(kw_only=True, slots=True)
class Account:
    """What has been answered so far.

    Attributes:
        keeps: Whether every answer is kept.
        watcher: Who is told of all logits.
    """

    columns: AnswerColumns
    asking: BlockClassifier
    keeps: bool
    watcher: "Watcher | None" = None
    answered: int = 0
    abstained: int = 0
    counts: Counter[str] = field(default_factory=Counter)
    numbers: list[float] = field(default_factory=lambda: [float("inf"), 0.0, float("-inf")])
    kept: list[dict[str, Any]] = field(default_factory=list)
    first: list[tuple[str, ...]] = field(default_factory=list)

    def answer(self, block: Block) -> list[tuple[Value, ...]]:
        """Return the values of our columns, a tuple a row, in the order of the rows."""
        places, texts = self.asking.texts(block)
        values = [self.columns.nothing] * len(block)
        if texts:
            logits = self.asking.logits(texts)
            if self.watcher:
                self.watcher.add([block.rows[place] for place in places], texts, logits)
            given = self.columns.of(logits)
            for place, own in zip(places, given, strict=True):
                values[place] = own
                self._count(own[0])
        self.answered += len(places)
        self._keep(block, values)
        return values

    def _keep(self, block: Block, values: Sequence[Sequence[Value]]) -> None:
        ours = self.columns.columns
        if self.keeps:
            for row in values:
                self.kept.append(
                    {one.name: one.value(value) for one, value in zip(ours, row, strict=True)}
                )
        left = SHOWN_ROWS - len(self.first)
        for row, own in zip(block.rows[:left], values[:left], strict=True):
            cells = (one.cell(value) for one, value in zip(ours, own, strict=True))
            self.first.append(tuple(cell[:SHOWN_LETTERS] for cell in chain(row.cells, cells)))

    def _count(self, answer: Value) -> None:
        if isinstance(answer, float):
            least, total, most = self.numbers
            self.numbers = [min(least, answer), total + answer, max(most, answer)]
        elif isinstance(answer, tuple):
            self.counts.update(answer)
        elif answer:
            self.counts[str(answer)] += 1
        else:
            self.abstained += bool(self.columns.abstain_below)

    def facts(self) -> dict[str, Any]:
        """Return what `FileAnswers` says of it."""
        least, total, most = self.numbers
        classes = self.columns.classifier.classes
        left = self.asking.unanswered
        return {
            "answered": self.answered - self.abstained,
            "unanswered": {reason: tuple(lines) for reason, lines in left.items()},
            "abstained": self.abstained,
            "counts": {name: self.counts[name] for name in classes if name in self.counts},
            "spread": (least, total / self.answered, most) if least <= most else (),
            "answers": tuple(self.kept),
        }


def iter_prediction(
    file: str | Path | Frame,
    options: PredictOptions = PredictOptions(),
    *,
    to: str | Path | None = None,
    is_printed: bool = False,
    watch: "Callable[[TableStream, FileHead, Columns], Watcher | None] | None" = None,
) -> Generator[Progress, None, FileAnswers]:
    """Answer a file as `heads.predict` does: yield progress, return the account.

    In public mode, where strangers write files, the output is always safe for a spreadsheet.

    Args:
        is_printed: Whether the file is one to be printed: answers are kept in memory as where none
            is written, and the vectors that were answered are left out.
        watch: Makes who is told of all logits: so rows that are answered are scored as well.
    """
    target = None if to is None else checked_target(Path(to).expanduser(), file)
    with ExitStack() as stack:
        source = locate_rows(file)
        head = yield from select_file_head(options)
        yield Progress(says=f"Looking through {source_name(file)}", share=0.0)
        stream = stream_source(
            source, file, options.header, head.columns.used, of_lines=options.lines
        )
        if target:
            check_rows(target.suffix.lower(), stream.rows)
        columns = find_columns(stream, head, options)
        account = Account(
            columns=answer_columns(
                head.classifier,
                {*stream.columns, *stream.titles},
                separator=head.columns.separator,
                probabilities=options.probabilities,
                logits=options.logits,
                abstain_below=options.abstain_below,
            ),
            asking=BlockClassifier.of(stream, head, columns),
            keeps=target is None or is_printed,
            watcher=watch(stream, head, columns) if watch else None,
        )
        pace, cut, writer = FilePace(rows=stream.rows), 0, None
        if target:
            left = columns.vectors if is_printed else ""
            ours = account.columns.columns
            safe = options.excel_safe or current_limits().public
            writer = stack.enter_context(
                written(target, stream, ours, leaves_out=left, excel_safe=safe)
            )
        for block in stream.blocks(block_rows(head.classifier)):
            interruption.check()
            values = account.answer(block)
            if writer:
                writer.write(block, values)
                cut = writer.cut
            yield pace.step(len(block))
    notes = [*account.asking.notes(stream), *account.columns.notes]
    if cut:
        notes.append(f"Excel holds 32,767 letters a cell: {count(cut, 'cell')} lost the rest.")
    names = tuple(one.name for one in account.columns.columns)
    return FileAnswers(
        head=head.classifier.head.name,
        model=head.classifier.head.model,
        file=stream.name,
        to=target,
        rows=stream.rows,
        **account.facts(),
        text=columns.text,
        pair=columns.pair,
        vectors=columns.vectors,
        columns=names,
        seconds=pace.seconds,
        unit=stream.sample.unit,
        notes=tuple(dict.fromkeys(notes)),
        first=((*stream.titles, *names), *account.first),
        index=index_of(file),
    )


def checked_target(target: Path, source: Any) -> Path:
    """Return a path that can be written to; raise DataError for any other.

    Args:
        source: What is answered.
    """
    check_ending(target)
    if target.is_dir():
        raise DataError(f"{place_told(target)} is a folder.", "Name a file in it.")
    if not target.parent.is_dir():
        what = f"There is no folder {place_told(target.parent)}."
        raise DataError(what, "Make it first, or name another place.")
    is_file = isinstance(source, str | Path) and Path(source).expanduser().exists()
    if is_file and target.exists() and target.samefile(Path(source).expanduser()):
        what = f"{place_told(target)} is the file that is answered, which is never written over."
        raise DataError(what, "Name another file.")
    check_free(target)
    return target
