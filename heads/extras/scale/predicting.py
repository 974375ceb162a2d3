"""Files of any size answered by one head: piece after piece, on one machine or many."""

from __future__ import annotations

import hashlib
import json
import tempfile
from collections import Counter
from collections.abc import Generator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from heads import display
from heads.analysis.answering import ChosenHead, choosing_head, predicting
from heads.backbone.precision import EXACT
from heads.caching import own_code
from heads.classifier.classifier import Classifier
from heads.events import Progress, result
from heads.extras.scale.pieces import (
    NOTES,
    Outcome,
    Piece,
    Source,
)
from heads.interfaces.views.format import commonest, counted
from heads.recipe import Recipe
from heads.runs.folder import find
from heads.settings import Limits

if TYPE_CHECKING:
    import pyarrow

ANSWERS = "answers"
CODE = "backbone/backbone", "classifier/classifier", "data/corpus", "data/rows", "data/text"
CLASSES = 20  # whose counts are listed
FIRST = 200  # rows in which the columns of the texts are found


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class ShardedAnswers(display.Displayed):
    """Files that were answered, as a folder of Parquet files.

    Attributes:
        head: The head, by the name that it has beside others.
        model: Its base model.
        data: What was answered.
        to: The folder: `parts` has the rows with our columns, in order by `manifest.json`.
        rows: How many rows there are, and were written.
        answered: Those that got an answer.
        unanswered: Those without a text: reason -> how many.
        abstained: Those that the head was not sure enough of.
        counts: How often each class was answered; nothing of numbers.
        columns: The columns of ours.
        text, pair, vectors: The columns that were read.
        parts: How many files they are.
        fresh: How many rows were answered now; the others lay there from before.
        seconds: How long it took.
    """

    head: str
    model: str
    data: str
    to: str
    rows: int
    answered: int
    unanswered: Mapping[str, int]
    abstained: int
    counts: Mapping[str, int]
    columns: tuple[str, ...]
    text: str
    pair: str
    vectors: str
    parts: int
    fresh: int
    seconds: float

    def __repr__(self) -> str:
        told = f"{self.answered:,} of {self.rows:,}, in {self.to}"
        return f"<ShardedAnswers {self.data} by {self.head}: {told}>"

    def as_json(self) -> dict[str, Any]:
        """As plain values."""
        return {name: getattr(self, name) for name in self.__dataclass_fields__}

    def describe(self) -> display.Description:
        """Return how many rows were answered and how, and where the answers are."""
        columns = [f"'{name}'" for name in (self.text, self.pair, self.vectors) if name]
        reasons = (
            f"{counted(many, 'row')} got no answer: {why}." for why, many in self.unanswered.items()
        )
        return display.Description(
            title=f"{self.answered:,} of {self.rows:,} rows of {self.data} answered.",
            blocks=(
                f"Head {self.head} on {self.model}; columns read: {', '.join(columns)}.",
                f"{self.fresh:,} rows were answered now, in {self.seconds:,.1f} s.",
                *reasons,
                *([f"Answers: {commonest(self.counts, CLASSES)}."] if self.counts else []),
                *([f"It abstained from {counted(self.abstained, 'row')}."] * bool(self.abstained)),
                f"They are in {self.to}, {counted(self.parts, 'file')} of Parquet.",
            ),
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Choice:
    """Which head answers, and how: what a worker is told.

    Attributes:
        recipe, run, model, sample: The head, as of `heads.predict`.
        text, pair, vectors: The columns that are read.
        logits, probabilities: Whether these are written as well.
        abstain_below: Where one class applies: no answer where it is less sure than that.
        limits: What is allowed.
    """

    recipe: Recipe | str | Classifier
    run: str
    model: str
    sample: str
    limits: Limits
    text: str = ""
    pair: str = ""
    vectors: str = ""
    logits: bool = False
    probabilities: bool = False
    abstain_below: float = 0.0

    @property
    def columns(self) -> dict[str, Any]:
        """What is read and written, as `heads.predict` takes it."""
        names = ("text", "pair", "vectors", "logits", "probabilities", "abstain_below")
        return {name: getattr(self, name) for name in names}

    def head(self) -> Generator[Progress, None, ChosenHead]:
        """Loads the head."""
        return choosing_head(
            self.recipe, run=self.run, model=self.model, sample=self.sample, limits=self.limits
        )

    def settled(self, head: ChosenHead, source: Source) -> tuple[Choice, tuple[str, ...]]:
        """Return the choice with the columns found in the first rows, and the columns of answers.

        No piece then takes another column for the texts, and what cannot be answered is said before
        any worker is begun.
        """
        rows = source.pieces(FIRST)[0].read()
        first = result(predicting(rows, recipe=head, limits=self.limits, **self.columns))
        choice = replace(self, text=first.text, pair=first.pair, vectors=first.vectors)
        return choice, first.columns

    def __call__(self) -> Answering:
        return Answering(choice=self, head=result(self.head()))


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Answering:
    """A head that answers the rows of tables, as `heads.predict` answers those of a file."""

    choice: Choice
    head: ChosenHead

    def __call__(self, table: pyarrow.Table, piece: Piece) -> pyarrow.Table:
        import pyarrow.parquet as parquet

        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "answers.parquet"
            asked = self.choice.columns
            work = predicting(table, to=path, recipe=self.head, limits=self.choice.limits, **asked)
            told = result(work)
            found = parquet.read_table(path)
        facts = {
            "answered": told.answered,
            "abstained": told.abstained,
            "unanswered": {reason: len(lines) for reason, lines in told.unanswered.items()},
            "counts": dict(told.counts),
        }
        return found.replace_schema_metadata({NOTES: json.dumps(facts).encode()})


def facts_of(head: ChosenHead, choice: Choice, columns: Sequence[str]) -> dict[str, Any]:
    """All that answers depend on besides the rows, as plain values."""
    classifier, digest = head.classifier, hashlib.sha256()
    for name, tensor in sorted(classifier.head.module.state_dict().items()):
        digest.update(name.encode() + tensor.detach().contiguous().numpy().tobytes())
    return {
        "head": classifier.head.name,
        "model": classifier.head.model,
        "classes": list(classifier.classes),
        "state": digest.hexdigest()[:16],
        "columns": list(columns),
        **choice.columns,
        "run": find(choice.run).id if choice.run else "",
        "precision": EXACT,
        "code": own_code(*CODE)[:16],
    }


def account_of(
    found: Outcome, head: ChosenHead, columns: Sequence[str], choice: Choice
) -> ShardedAnswers:
    """What all pieces came to."""
    counts, unanswered = Counter[str](), Counter[str]()
    for part in found.parts:
        counts.update(part.facts["counts"])
        unanswered.update(part.facts["unanswered"])
    return ShardedAnswers(
        head=head.classifier.head.name,
        model=head.classifier.head.model,
        data=found.source,
        to=found.work.to,
        rows=found.rows,
        answered=sum(part.facts["answered"] for part in found.parts),
        abstained=sum(part.facts["abstained"] for part in found.parts),
        unanswered=dict(unanswered),
        counts=dict(counts),
        columns=tuple(columns),
        text=choice.text,
        pair=choice.pair,
        vectors=choice.vectors,
        parts=len(found.parts),
        fresh=found.fresh,
        seconds=found.seconds,
    )
