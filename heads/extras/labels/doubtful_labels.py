"""Which given labels the heads of a run hold for wrong, on rows that they have not learned from."""

from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import cached_property
from json import dumps
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from heads import display
from heads.data.corpus import Corpus
from heads.data.formats.saving import check_new, save
from heads.data.labels import SEPARATORS
from heads.data.splits import FOLDS, Splits
from heads.data.table import LISTS, count, where
from heads.data.text import folded
from heads.errors import DataError, did_you_mean, printable
from heads.evaluation.predictions import BASELINES, TFIDF, EvaluationTask, average_by_row
from heads.extras.labels.doubts import Doubts, doubts
from heads.interfaces.views.format import shares as format_shares
from heads.parts.resolve import resolve
from heads.problem import ProblemType
from heads.recipe import Recipe
from heads.runs.cells import (
    MOST_PROBABILITIES,
    answers_of_cell,
    kept,
    probabilities_of_cell,
)
from heads.runs.drill_down import label_of, spelled
from heads.runs.folder import RunFolder
from heads.runs.spec import RunSpec, load
from heads.runs.unseen_classes import never_met

if TYPE_CHECKING:
    from pandas import DataFrame

# The weight of the bag of words: of 0, 1/4, 1/2 and 1 the best over five data sets, see
# docs/extras/labels.md.
WORDS = 0.25
MOST_SHOWN = 20  # of the most doubtful ones
LONGEST = 120  # letters of a text in a table
HALF = 0.5  # above it a label is more probable than not
LOOK = (
    "A label that is named may be right: heads on one base model err alike, and the worse they "
    "do, the more of the labels that they doubt are right."
)
FAR_OFF = (
    "Numbers are named that lie further from the prediction than three robust standard deviations "
    "of all rows. Rare ones may be among them, and wrong ones that are nearer are not."
)
ALL = "Without a test set (folds) all rows are."


@dataclass(frozen=True, slots=True, kw_only=True)
class DoubtfulLabel:
    """A row whose label is to be looked at.

    Attributes:
        line: Where it stands in its file; in data without lines its number, from 1.
        text: The text.
        pair: The second text, or nothing.
        label: What it is labelled with.
        suggested: What the heads would label it with.
        label_probability: How probable its label is to the heads; of several labels, that the
            one doubted most is as it is given. None for numbers.
        suggested_probability: The same of what is suggested.
        agree: How many of the cells find by themselves what is suggested the most probable; of
            numbers, how many find the given one too far off.
        conflicts: The lines of the same text with another label.
    """

    line: int
    text: str
    pair: str
    label: str
    suggested: str
    label_probability: float | None
    suggested_probability: float | None
    agree: int
    conflicts: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class LabelConflict:
    """A text that is labelled in several ways.

    Attributes:
        text: The text.
        pair: The second text, or nothing.
        labels: Each row's line and label.
    """

    text: str
    pair: str
    labels: tuple[tuple[int, str], ...]


@dataclass(frozen=True, kw_only=True, eq=False)  # no slots: what is worked out is remembered
class DoubtfulLabels(display.Displayed):
    """The labels of a run to review.

    Attributes:
        run: The id of the run.
        spec: What it was asked.
        cells: The heads whose probabilities were averaged, and perhaps a baseline.
        tested: (n,), the numbers of the rows that were looked at.
        doubts: What is held of each of them.
        agree: (n,), how many of the cells agree with that.
    """

    run: str
    spec: RunSpec
    cells: tuple[str, ...]
    tested: Tensor
    doubts: Doubts
    agree: Tensor

    def __repr__(self) -> str:
        return f"<DoubtfulLabels of {self.run}: {len(self.places):,} of {len(self.tested):,}>"

    @property
    def file(self) -> str:
        """What the data are called that the lines are of."""
        return str(self._account.get("name") or self.spec.corpus.name)

    @property
    def unit(self) -> str:
        """What lines count: "line" or "row"."""
        return str(self._account.get("unit") or "line")

    @property
    def _account(self) -> Mapping[str, Any]:
        """How the file was read whose rows were looked at."""
        return self.spec.account.get("test") or self.spec.account

    @cached_property
    def places(self) -> tuple[int, ...]:
        """Which of the rows looked at are doubtful, those first that are to be trusted least."""
        order = self.doubts.quality.argsort(stable=True)
        return tuple(order[self.doubts.is_doubtful[order]].tolist())

    @cached_property
    def rows(self) -> tuple[DoubtfulLabel, ...]:
        """The doubtful rows, those first that are to be trusted least."""
        return tuple(map(self._row, self.places))

    def _row(self, place: int) -> DoubtfulLabel:
        corpus, row, own = self.spec.corpus, int(self.tested[place]), self.doubts
        sure = [float(one[place]) if corpus.problem.has_classes else None for one in own.sure]
        return DoubtfulLabel(
            line=line_of(corpus, row),
            text=corpus.texts[row],
            pair=corpus.pairs[row] if corpus.pairs else "",
            label=label_of(corpus, row),
            suggested=spelled(corpus, own.suggested[place]),
            label_probability=sure[0],
            suggested_probability=sure[1],
            agree=int(self.agree[place]),
            conflicts=self.others_of(row),
        )

    def others_of(self, row: int) -> tuple[int, ...]:
        """The lines of the same text with another label than a row of the corpus has."""
        corpus, same = self.spec.corpus, self._same_text.get(row, ())
        return tuple(
            line_of(corpus, one) for one in same if _told(corpus, one) != _told(corpus, row)
        )

    @cached_property
    def conflicts(self) -> tuple[LabelConflict, ...]:
        """Texts of that file that are labelled in several ways."""
        corpus = self.spec.corpus
        return tuple(
            LabelConflict(
                text=corpus.texts[rows[0]],
                pair=corpus.pairs[rows[0]] if corpus.pairs else "",
                labels=tuple((line_of(corpus, row), label_of(corpus, row)) for row in rows),
            )
            for rows in dict.fromkeys(self._same_text.values())
        )

    @cached_property
    def _same_text(self) -> Mapping[int, tuple[int, ...]]:
        """For a row whose text has other labels elsewhere in the file, all rows of that text."""
        corpus, groups = self.spec.corpus, defaultdict[str, list[int]](list)
        of_file = self.tested.tolist() if "test" in self.spec.account else range(len(corpus))
        for row in of_file:
            groups[folded(corpus.texts[row], corpus.pairs[row] if corpus.pairs else "")].append(row)
        torn = [same for same in groups.values() if len({_told(corpus, row) for row in same}) > 1]
        return {row: tuple(same) for same in torn for row in same}

    @property
    def says(self) -> str:
        """How many labels to review, and why these, in a sentence."""
        has_classes, number = self.spec.corpus.problem.has_classes, len(self.places)
        what = count(len(self.tested), "label" if has_classes else "number")
        first = f"{number:,} of {what} to review"
        heads = count(sum(name not in BASELINES for name in self.cells), "head")
        who = f"{heads}{' and the bag of words' * (TFIDF in self.cells)}"
        held = "find another label more probable" if has_classes else "predict a number far from it"
        return f"{first}: {who}, none of which had learned from the row, {held}."

    @property
    def notes(self) -> tuple[str, ...]:
        """What one should know of it, a sentence or two each."""
        return tuple(_notes(self))

    def sheet(self, *, whole: bool = False) -> tuple[list[str], list[list[Any]]]:
        """The doubtful rows for a spreadsheet, in their order: names of columns, and rows.

        What it gives is read as any file of texts and labels.

        Args:
            whole: All rows of the run in the order of their file. A row that is not doubtful has
                its own label as `suggested`, so that one can train on that column as well.
        """
        return _sheet(self, whole=whole)

    def to_pandas(self, *, whole: bool = False) -> "DataFrame":
        """The sheet as a table of pandas."""
        columns, rows = self.sheet(whole=whole)
        return display.data_frame(dict(zip(columns, row, strict=True)) for row in rows)

    def save(self, to: str | Path, *, whole: bool = False, excel_safe: bool = False) -> Path:
        """Writes the sheet into a new file: CSV, TSV, JSONL or Parquet, by the end of its name.

        Args:
            whole: Whether all rows are written, in the order of the file.
            excel_safe: As of `heads.predict`.

        Raises:
            DataError: There is such a file, its name ends otherwise, or the disk refuses it.
        """
        check_new(path := Path(to))
        columns, rows = self.sheet(whole=whole)
        save(path, columns, rows, excel_safe=excel_safe)
        return path

    def describe(self) -> display.Description:
        """Return what shell and notebook show: the most doubtful labels."""
        tables = (self.table(MOST_SHOWN),) if self.rows else ()
        return display.Description(title=self.says, blocks=(*self.notes, *tables))

    def table(self, most: int) -> display.Table:
        """Return the most doubtful labels as a table; 0: all of them."""
        rows = self.rows[:most] if most > 0 else self.rows
        left = len(self.rows) - len(rows)
        return display.Table(
            headers=(self.unit, "label", "suggested", "probabilities", "agree", "text"),
            rows=tuple(map(self._cells_of, rows)),
            note=f"And {left:,} more, which the file has that can be saved." if left else "",
        )

    def _cells_of(self, row: DoubtfulLabel) -> tuple[str, ...]:
        both = (row.label_probability, row.suggested_probability)
        text = " ↔ ".join(part for part in (row.text, row.pair) if part)
        lines = ", ".join(map(str, row.conflicts))
        elsewhere = f" (labelled otherwise on {self.unit} {lines})" if lines else ""
        return (
            str(row.line),
            row.label,
            row.suggested,
            " → ".join(format_shares([value])[0] for value in both if value is not None),
            f"{row.agree} of {len(self.cells)}",
            printable(text if len(text) <= LONGEST else f"{text[:LONGEST].rstrip()}…") + elsewhere,
        )

    def as_json(self) -> dict[str, Any]:
        """The labels as plain values."""
        return {
            "run": self.run,
            "file": self.file,
            "unit": self.unit,
            "problem_type": self.spec.corpus.problem.name,
            "cells": list(self.cells),
            "tested": len(self.tested),
            "says": self.says,
            "notes": list(self.notes),
            "labels": [asdict(one) for one in self.rows],
            "conflicts": [asdict(one) for one in self.conflicts],
        }


def line_of(corpus: Corpus, row: int) -> int:
    """Where a row stands in its file; in data without lines its number, from 1."""
    return corpus.lines[row] if corpus.lines else row + 1


def _told(corpus: Corpus, row: int) -> object:
    """What a row is labelled with."""
    return corpus.targets[row] if corpus.problem.has_classes else corpus.numbers[row]


def _answered(splits: Splits) -> int:
    """How many rows are answered by heads that have not learned from them."""
    return len(torch.cat(splits.test).unique())


def _notes(found: DoubtfulLabels) -> Iterator[str]:
    spec = found.spec
    if found.places:
        yield LOOK if spec.corpus.problem.has_classes else FAR_OFF
    if left := _answered(spec.splits) - len(found.tested):
        yield f"{count(left, 'row')} left out: no head that answered has met the class."
    if spec.splits.kind != FOLDS:
        rows = count(len(found.tested), "row")
        yield f"Only the {rows} for scoring were looked at: heads learned from the others. {ALL}"
    if found.conflicts:
        texts = count(len(found.conflicts), "text is", "texts are")
        lines = [line for one in found.conflicts for line, _ in one.labels]
        yield f"{texts} labelled in several ways: {where(lines, found.unit)}."


def doubtful_labels(run: RunFolder, recipes: Sequence[Recipe | str] = ()) -> DoubtfulLabels:
    """The labels of a run to review, by the heads that are done.

    Args:
        recipes: Whose probabilities are averaged, each alike; if none is named, those of all heads,
            and for a quarter those of counted words, which err where heads on one base model agree.

    Raises:
        DataError: No head is done, the run has no such head, or has not kept its probabilities.
    """
    asked = load(run)
    shares, problem = _shares(run, asked, recipes), asked.task.problem
    rows = _said_of_rows(run, asked, next(iter(shares)))[0]
    judged = ~torch.isin(rows, _never_met(asked.splits, asked.task))
    rows = rows[judged]
    mean = sum(
        (share * _said_of_rows(run, asked, number)[1][judged] for number, share in shares.items()),
        torch.zeros(()),
    )
    targets = asked.task.targets[rows]
    found, agree = doubts(mean, targets, problem), torch.zeros(len(rows), dtype=torch.long)
    for number in shares:  # read again: all of them together may be large
        told = _said_of_rows(run, asked, number)[1][judged]
        agree += _agrees(told, targets, found, problem)
    return DoubtfulLabels(
        run=run.id,
        spec=asked,
        cells=tuple(asked.names[number] for number in shares),
        tested=rows,
        doubts=found,
        agree=agree,
    )


def has_probabilities(run: RunFolder) -> bool:
    """Whether a run has kept what it takes, as those of before did not."""
    asked = load(run)
    try:
        _said_of_rows(run, asked, next(iter(_shares(run, asked, ()))))
    except DataError:
        return False
    return True


def _shares(run: RunFolder, asked: RunSpec, recipes: Sequence[Recipe | str]) -> dict[int, float]:
    """How much each head or baseline counts, by its number; together 1."""
    done = {name: number for number, name in enumerate(asked.names) if kept(run, number)}
    heads = [name for name in done if name not in BASELINES]
    if not heads:
        raise DataError(f"No head of the run {run.id} is done yet.", "Wait for it, or resume it.")
    names = [str(one) if str(one) in done else str(resolve(one)) for one in recipes]
    if missing := [name for name in names if name not in done]:
        what = f"The run {run.id} has no trained head {missing[0][:80]}."
        raise DataError(what, did_you_mean(missing[0], done))
    if names or TFIDF not in done:
        names = list(dict.fromkeys(names or heads))
        return {done[name]: 1 / len(names) for name in names}
    return {done[name]: (1 - WORDS) / len(heads) for name in heads} | {done[TFIDF]: WORDS}


def _said_of_rows(run: RunFolder, asked: RunSpec, number: int) -> tuple[Tensor, Tensor]:
    """The rows that a head has answered, and its probabilities or numbers, (n, c).

    Raises:
        DataError: They were not kept.
    """
    if not asked.task.problem.has_classes:
        told = answers_of_cell(run, number, asked.names[number]).answers
        return average_by_row(told.rows, [given[:, None] for given in told.given])
    if found := probabilities_of_cell(run, number):
        return found
    classes = len(asked.corpus.classes)
    if _answered(asked.splits) * classes > MOST_PROBABILITIES:
        what = f"Probabilities are not kept of so many rows of {classes:,} classes."
        raise DataError(what, "Train on a part of the rows.")
    what = f"The run {run.id} is of before probabilities of all classes were kept."
    raise DataError(what, "Train again: the texts need not be read again.")


def _never_met(splits: Splits, task: EvaluationTask) -> Tensor:
    """The rows of a class that the heads which answered them have never met."""
    if not task.problem.has_classes:
        return torch.zeros(0, dtype=torch.long)
    pairs = zip(splits.train, splits.test, strict=True)
    return torch.cat([test[never_met(task, train, test)] for train, test in pairs])


def _agrees(told: Tensor, targets: Tensor, found: Doubts, problem: ProblemType) -> Tensor:
    """(n,), whether a head by itself finds what is suggested more probable than all else."""
    if not problem.has_classes:
        return doubts(told, targets, problem).is_doubtful
    if problem.is_exclusive:
        return told.argmax(dim=1) == found.suggested
    doubted = found.suggested != targets.bool()
    return (((told > HALF) == found.suggested) | ~doubted).all(dim=1)


# --- As a sheet, in which labels are mended and on which one can train again.

Labels = Sequence[int] | float  # the numbers of a row's labels, or its number


def _sheet(found: DoubtfulLabels, *, whole: bool) -> tuple[list[str], list[list[Any]]]:
    """All of it as columns and rows, in which labels are mended."""
    corpus, write_labels = found.spec.corpus, _writer(found.spec)
    place_of = {row: place for place, row in enumerate(found.tested.tolist())}
    rows = range(len(corpus)) if whole else found.tested[list(found.places)].tolist()
    columns = [*(("text_a", "text_b") if corpus.pairs else ("text",)), "label"]
    columns += ["split"] * bool(corpus.parts) + ["group"] * bool(corpus.groups)
    columns += ["line", "doubtful", "suggested", "label_probability", "suggested_probability"]
    columns += ["agree", "conflicts"]
    table, sides = list[list[Any]](), (corpus.texts, corpus.pairs)
    for row in rows:
        labels = corpus.targets[row] if corpus.problem.has_classes else corpus.numbers[row]
        told = [*(side[row] for side in sides if side), write_labels(labels)]
        told += [side[row] for side in (corpus.parts, corpus.groups) if side]
        told.append(line_of(corpus, row))
        told += _held(found, place_of.get(row), labels, write_labels)
        table.append([*told, " ".join(map(str, found.others_of(row)))])
    return columns, table


def _held(
    found: DoubtfulLabels, place: int | None, labels: Labels, write_labels: Callable[[Labels], Any]
) -> list[Any]:
    """What the heads hold of a row: doubtful, suggested, two probabilities, how many agree."""
    if place is None:  # they have learned from it
        return ["", write_labels(labels), None, None, None]
    problem = found.spec.corpus.problem
    given, other = (
        round(float(one[place]), 4) if problem.has_classes else None for one in found.doubts.sure
    )
    if not found.doubts.is_doubtful[place]:  # its own label is kept, and no other has a column
        return ["", write_labels(labels), given, None, None]
    suggested = write_labels(_labels(found.doubts.suggested[place], problem))
    return ["yes", suggested, given, other, int(found.agree[place])]


def _labels(target: Tensor, problem: ProblemType) -> Labels:
    """The labels of a row from its target."""
    if not problem.has_classes:
        return float(target)
    return [int(target)] if problem.is_exclusive else target.nonzero().flatten().tolist()


def _writer(spec: RunSpec) -> Callable[[Labels], Any]:
    """What writes the labels of a row into a cell; several parted as in the file, if possible."""
    classes, own = spec.corpus.classes, spec.account.get("columns", {}).get("separator", "")
    signs = [sign for sign in (own, *SEPARATORS) if sign and sign != LISTS]
    sign = next((one for one in signs if not any(one in name for name in classes)), "")

    def written(labels: Labels) -> Any:
        if not isinstance(labels, Sequence):
            return labels
        names = [classes[label] for label in labels]
        if spec.corpus.problem.is_exclusive:
            return names[0]
        return sign.join(names) if sign and own != LISTS else dumps(names, ensure_ascii=False)

    return written
