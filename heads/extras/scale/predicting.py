"""Files of any size answered by one head, piece after piece."""

from __future__ import annotations

import hashlib
import json
import tempfile
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from heads import display
from heads.backbone.device import EXACT
from heads.caching import own_code
from heads.events import result
from heads.extras.scale.pieces import NOTES, Outcome, Piece
from heads.inference.predict import FileAnswers, iter_prediction
from heads.inference.selection import FileHead
from heads.interfaces.views.format import commonest, counted
from heads.options import PredictOptions
from heads.runs.folder import find

if TYPE_CHECKING:
    import pyarrow

ANSWERS = "answers"
CODE = "backbone/backbone", "classifier/classifier", "data/corpus", "data/rows", "data/text"
CLASSES = 20  # whose counts are listed


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class ShardedAnswers(display.Displayed):
    """Files that were answered, as a folder of Parquet files."""

    head: str
    model: str
    data: str
    to: str  # the folder: `parts` has the rows with our columns, in the order of `manifest.json`
    rows: int
    answered: int
    unanswered: Mapping[str, int]  # rows without a text, by the reason
    abstained: int  # rows that the head was not sure enough of
    counts: Mapping[str, int]  # of answers, by class; empty for numbers
    columns: tuple[str, ...]  # those of the answers
    text: str  # the columns that were read
    pair: str
    vectors: str
    parts: int  # the number of files
    fresh: int  # rows that were answered now; the others were there before
    seconds: float

    def __repr__(self) -> str:
        answered = f"{self.answered:,} of {self.rows:,}, in {self.to}"
        return f"<ShardedAnswers {self.data} by {self.head}: {answered}>"

    def as_json(self) -> dict[str, Any]:
        """Return all of it as plain values."""
        return {name: getattr(self, name) for name in self.__dataclass_fields__}

    def describe(self) -> display.Description:
        """Return how many rows were answered and how, and where the answers are."""
        columns = [f"'{name}'" for name in (self.text, self.pair, self.vectors) if name]
        reasons = (
            f"{counted(rows, 'row')} got no answer: {why}." for why, rows in self.unanswered.items()
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


CHOICES = ("text", "pair", "vectors", "logits", "probabilities", "abstain_below")


@dataclass(frozen=True, slots=True, kw_only=True)
class Predictor:
    """A head that answers tables, as `heads.predict` answers a file."""

    head: FileHead  # the head
    options: PredictOptions  # columns read and written

    def predict(self, table: pyarrow.Table, to: Path | None = None) -> FileAnswers:
        """Answer the rows of a table, and write them to a file if one is named."""
        options = replace(self.options, recipe=self.head)
        return result(iter_prediction(table, options, to=to))

    def __call__(self, table: pyarrow.Table, piece: Piece) -> pyarrow.Table:
        import pyarrow.parquet as parquet

        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "answers.parquet"
            answers = self.predict(table, path)
            output = parquet.read_table(path)
        notes = {
            "answered": answers.answered,
            "abstained": answers.abstained,
            "unanswered": {reason: len(rows) for reason, rows in answers.unanswered.items()},
            "counts": dict(answers.counts),
        }
        return output.replace_schema_metadata({NOTES: json.dumps(notes).encode()})


def collect_facts(predictor: Predictor, columns: Sequence[str]) -> dict[str, Any]:
    """Return all that answers depend on besides the rows, as plain values."""
    classifier, run = predictor.head.classifier, predictor.options.run
    digest = hashlib.sha256()
    for name, tensor in sorted(classifier.head.module.state_dict().items()):
        digest.update(name.encode() + tensor.detach().contiguous().numpy().tobytes())
    return {
        "head": classifier.head.name,
        "model": classifier.head.model,
        "classes": list(classifier.classes),
        "state": digest.hexdigest()[:16],
        "columns": list(columns),
        **{name: getattr(predictor.options, name) for name in CHOICES},
        "run": find(run).id if run else "",
        "precision": EXACT,
        "code": own_code(*CODE)[:16],
    }


def sum_up(
    outcome: Outcome, predictor: Predictor, data: str, to: str, columns: Sequence[str]
) -> ShardedAnswers:
    """Return the counts over all pieces."""
    counts, unanswered = Counter[str](), Counter[str]()
    for part in outcome.parts:
        counts.update(part.facts["counts"])
        unanswered.update(part.facts["unanswered"])
    head, options = predictor.head.classifier.head, predictor.options
    return ShardedAnswers(
        head=head.name,
        model=head.model,
        data=data,
        to=to,
        rows=sum(part.rows for part in outcome.parts),
        answered=sum(part.facts["answered"] for part in outcome.parts),
        abstained=sum(part.facts["abstained"] for part in outcome.parts),
        unanswered=dict(unanswered),
        counts=dict(counts),
        columns=tuple(columns),
        text=options.text,
        pair=options.pair,
        vectors=options.vectors,
        parts=len(outcome.parts),
        fresh=outcome.fresh,
        seconds=outcome.seconds,
    )
