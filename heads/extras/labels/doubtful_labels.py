"""Labels of a run that may be wrong, by heads that have not learned from their rows."""

from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import cached_property, partial
from json import dumps
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from heads import display
from heads.caching import check_free, place_told, replacing, writing
from heads.data.corpus import Corpus
from heads.data.labels import SEPARATORS
from heads.data.splits import FOLDS, Splits
from heads.data.table import LISTS, count, where, written_cell
from heads.data.text import folded
from heads.errors import DataError, did_you_mean, printable
from heads.evaluation.predictions import BASELINES, TFIDF, average_by_row
from heads.extras.labels.doubts import Doubts, doubts
from heads.interfaces.views.format import shares as format_shares
from heads.parts.resolve import resolve
from heads.problem import ProblemType
from heads.recipe import Recipe
from heads.runs.cells import MOST_PROBABILITIES, answers_of_cell, kept, probabilities_of_cell
from heads.runs.drill_down import label_of, spelled
from heads.runs.folder import RunFolder
from heads.runs.leaderboard import Leaderboard
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
SIGNS = {".csv": ",", ".tsv": "\t"}  # between the cells of a file, by its ending
ENDINGS = (*SIGNS, ".jsonl", ".parquet")
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
    """A row whose label is to be looked at."""

    line: int  # in the file; in data without lines the number of the row, from 1
    text: str
    pair: str  # the second text, or ""
    label: str
    suggested: str  # the label that the heads predict
    # of its label; of several, of the most doubted one. None for numbers
    label_probability: float | None
    suggested_probability: float | None  # the probability of the suggested label
    agree: int  # how many cells by themselves predict the suggested one, or find a number far off
    conflicts: tuple[int, ...] = ()  # the lines of the same text with another label


@dataclass(frozen=True, slots=True, kw_only=True)
class LabelConflict:
    """A text that is labelled in several ways."""

    text: str
    pair: str  # the second text, or ""
    labels: tuple[tuple[int, str], ...]  # each row's line and label


@dataclass(frozen=True, kw_only=True, eq=False)  # no slots: what is worked out is remembered
class DoubtfulLabels(display.Displayed):
    """The labels of a run to review."""

    run: str
    spec: RunSpec
    cells: tuple[str, ...]  # the heads whose probabilities were averaged, and perhaps a baseline
    tested: Tensor  # (n,), the numbers of the checked rows
    doubts: Doubts
    agree: Tensor  # (n,), how many of the cells agree with that

    def __repr__(self) -> str:
        return f"<DoubtfulLabels of {self.run}: {len(self.places):,} of {len(self.tested):,}>"

    @property
    def file(self) -> str:
        """The name of the data that the lines are of."""
        return str(self._account.get("name") or self.spec.corpus.name)

    @property
    def unit(self) -> str:
        """The unit of lines: "line" or "row"."""
        return str(self._account.get("unit") or "line")

    @property
    def _account(self) -> Mapping[str, Any]:
        return self.spec.account.get("test") or self.spec.account

    @cached_property
    def places(self) -> tuple[int, ...]:
        """The places of the doubtful rows in `tested`, the most doubtful first."""
        order = self.doubts.quality.argsort(stable=True)
        return tuple(order[self.doubts.is_doubtful[order]].tolist())

    @cached_property
    def rows(self) -> tuple[DoubtfulLabel, ...]:
        """The doubtful rows, the most doubtful first."""
        return tuple(map(self._row, self.places))

    def _row(self, place: int) -> DoubtfulLabel:
        corpus, row = self.spec.corpus, int(self.tested[place])
        label, suggested = self._probabilities(place)
        return DoubtfulLabel(
            line=_line_of(corpus, row),
            text=corpus.texts[row],
            pair=_pair_of(corpus, row),
            label=label_of(corpus, row),
            suggested=spelled(corpus, self.doubts.suggested[place]),
            label_probability=label,
            suggested_probability=suggested,
            agree=int(self.agree[place]),
            conflicts=self._find_conflicting_lines(row),
        )

    def _probabilities(self, place: int) -> tuple[float | None, float | None]:
        """Return the probabilities of the label and of the suggested one; None of numbers."""
        own, other = self.doubts.sure
        has_classes = self.spec.corpus.problem.has_classes
        return (float(own[place]), float(other[place])) if has_classes else (None, None)

    def _find_conflicting_lines(self, row: int) -> tuple[int, ...]:
        """Return the lines of the same text with another label than a row of the corpus has."""
        corpus, same = self.spec.corpus, self._same_text.get(row, ())
        label = _labels_of(corpus, row)
        return tuple(_line_of(corpus, at) for at in same if _labels_of(corpus, at) != label)

    @cached_property
    def conflicts(self) -> tuple[LabelConflict, ...]:
        """Texts of that file that are labelled in several ways."""
        corpus = self.spec.corpus
        return tuple(
            LabelConflict(
                text=corpus.texts[rows[0]],
                pair=_pair_of(corpus, rows[0]),
                labels=tuple((_line_of(corpus, row), label_of(corpus, row)) for row in rows),
            )
            for rows in dict.fromkeys(self._same_text.values())
        )

    @cached_property
    def _same_text(self) -> Mapping[int, tuple[int, ...]]:
        """For a row whose text has other labels elsewhere in the file, all rows of that text."""
        corpus, groups = self.spec.corpus, defaultdict[str, list[int]](list)
        for row in self.tested.tolist() if "test" in self.spec.account else range(len(corpus)):
            groups[folded(corpus.texts[row], _pair_of(corpus, row))].append(row)
        return {
            row: tuple(same)
            for same in groups.values()
            if len({_labels_of(corpus, row) for row in same}) > 1
            for row in same
        }

    @property
    def says(self) -> str:
        """How many labels to review, and why these, in a sentence."""
        has_classes, number = self.spec.corpus.problem.has_classes, len(self.places)
        labels = count(len(self.tested), "label" if has_classes else "number")
        heads = count(sum(name not in BASELINES for name in self.cells), "head")
        heads += " and the bag of words" * (TFIDF in self.cells)
        why = "find another label more probable" if has_classes else "predict a number far from it"
        who = f"{heads}, none of which had learned from the row"
        return f"{number:,} of {labels} to review: {who}, {why}."

    @property
    def notes(self) -> tuple[str, ...]:
        """Remarks, a sentence or two each."""
        notes, spec, tested = list[str](), self.spec, len(self.tested)
        if self.places:
            notes.append(LOOK if spec.corpus.problem.has_classes else FAR_OFF)
        if left := _count_answered(spec.splits) - tested:
            notes.append(f"{count(left, 'row')} left out: no head that answered has met the class.")
        if spec.splits.kind != FOLDS:
            rows = f"Only the {count(tested, 'row')} for scoring were looked at"
            notes.append(f"{rows}: heads learned from the others. {ALL}")
        if self.conflicts:
            texts = count(len(self.conflicts), "text is", "texts are")
            lines = [line for conflict in self.conflicts for line, _ in conflict.labels]
            notes.append(f"{texts} labelled in several ways: {where(lines, self.unit)}.")
        return tuple(notes)

    def sheet(self, *, whole: bool = False) -> tuple[list[str], list[list[Any]]]:
        """Return column names and the doubtful rows, in their order, as `heads.read` takes them.

        Args:
            whole: All rows of the run in the order of their file. A row that is not doubtful has
                its own label as `suggested`, so that one can train on that column as well.
        """
        corpus, write_labels = self.spec.corpus, _label_writer(self.spec)
        place_of = {row: place for place, row in enumerate(self.tested.tolist())}
        rows = range(len(corpus)) if whole else self.tested[list(self.places)].tolist()
        columns = [*(("text_a", "text_b") if corpus.pairs else ("text",)), "label"]
        columns += ["split"] * bool(corpus.parts) + ["group"] * bool(corpus.groups)
        columns += ["line", "doubtful", "suggested", "label_probability", "suggested_probability"]
        table = list[list[Any]]()
        for row in rows:
            labels = _labels_of(corpus, row)
            cells = [side[row] for side in (corpus.texts, corpus.pairs) if side]
            cells += [write_labels(labels)]
            cells += [side[row] for side in (corpus.parts, corpus.groups) if side]
            cells += [_line_of(corpus, row), *self._judge(place_of.get(row), labels, write_labels)]
            table.append([*cells, " ".join(map(str, self._find_conflicting_lines(row)))])
        return [*columns, "agree", "conflicts"], table

    def _judge(self, place: int | None, labels: "Labels", write: "LabelWriter") -> list[Any]:
        """Return the cells doubtful, suggested, two probabilities and agree of a row."""
        if place is None:  # heads have learned from it
            return ["", write(labels), None, None, None]
        problem, target = self.spec.corpus.problem, self.doubts.suggested[place]
        own, other = (None if p is None else round(p, 4) for p in self._probabilities(place))
        if not self.doubts.is_doubtful[place]:  # its own label stays; no other has a column
            return ["", write(labels), own, None, None]
        if not problem.has_classes:
            suggested = float(target)
        else:
            is_one = problem.is_exclusive
            suggested = [int(target)] if is_one else target.nonzero().flatten().tolist()
        return ["yes", write(suggested), own, other, int(self.agree[place])]

    def to_pandas(self, *, whole: bool = False) -> "DataFrame":
        """Return the sheet as a DataFrame."""
        columns, rows = self.sheet(whole=whole)
        return display.data_frame(dict(zip(columns, row, strict=True)) for row in rows)

    def save(self, to: str | Path, *, whole: bool = False, excel_safe: bool = False) -> Path:
        """Write the sheet into a new file: CSV, TSV, JSONL or Parquet, by the end of its name.

        Args:
            whole: Whether all rows are written, in the order of the file.
            excel_safe: As of `heads.predict`.

        Raises:
            DataError: There is such a file, its name ends otherwise, or the disk refuses it.
        """
        from pandas import DataFrame

        check_new(path := Path(to))
        columns, rows = self.sheet(whole=whole)
        ending = path.suffix.lower()
        guard = partial(written_cell, excel_safe=excel_safe and ending in SIGNS)
        rows = [list(map(guard, row)) for row in rows]
        table = DataFrame(rows, columns=columns, dtype=object)
        with writing(place_told(path)):
            path.parent.mkdir(parents=True, exist_ok=True)
            with replacing(path) as unfinished:
                if ending in SIGNS:  # with a mark of UTF-8, which spreadsheets look for
                    table.to_csv(
                        unfinished,
                        sep=SIGNS[ending],
                        index=False,
                        encoding="utf-8-sig",
                        lineterminator="\r\n",
                    )
                elif ending == ".jsonl":
                    lines = [
                        dumps(dict(zip(columns, row, strict=True)), ensure_ascii=False)
                        for row in rows
                    ]
                    unfinished.write_text("\n".join([*lines, ""]), "utf-8")
                else:
                    table.to_parquet(unfinished, index=False)
        return path

    def describe(self, most: int | None = None) -> display.Description:
        """Return what shell and notebook show: so many labels, the most doubtful first."""
        tables = (self.table(MOST_SHOWN if most is None else most),) if self.rows else ()
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
        """Return the labels as plain values."""
        return {
            "run": self.run,
            "file": self.file,
            "unit": self.unit,
            "problem_type": self.spec.corpus.problem.name,
            "cells": list(self.cells),
            "tested": len(self.tested),
            "says": self.says,
            "notes": list(self.notes),
            "labels": [asdict(row) for row in self.rows],
            "conflicts": [asdict(conflict) for conflict in self.conflicts],
        }


def check_new(path: Path) -> None:
    """Raise DataError for a file that is there already, and a name of no kind of file."""
    if path.suffix.lower() not in ENDINGS:
        what = f"The ending of {path.name[:80]} says no kind of file that is written here."
        raise DataError(what, f"End it in {', '.join(ENDINGS)}.")
    check_free(path)


def _line_of(corpus: Corpus, row: int) -> int:
    return corpus.lines[row] if corpus.lines else row + 1


def _pair_of(corpus: Corpus, row: int) -> str:
    return corpus.pairs[row] if corpus.pairs else ""


def _labels_of(corpus: Corpus, row: int) -> "Labels":
    return corpus.targets[row] if corpus.problem.has_classes else corpus.numbers[row]


def _count_answered(splits: Splits) -> int:
    return len(torch.cat(splits.test).unique())


def doubtful_labels(run: RunFolder, recipes: Sequence[Recipe | str] = ()) -> DoubtfulLabels:
    """Return the labels of a run to review, by the heads that are done; see `heads`."""
    spec = load(run)
    weights, problem = _weigh(run, spec, recipes), spec.task.problem
    rows = _load_probabilities(run, spec, next(iter(weights)))[0]
    is_judged, splits = torch.ones(len(rows), dtype=torch.bool), spec.splits
    if problem.has_classes:  # rows of classes that their heads have never met are left out
        pairs = zip(splits.train, splits.test, strict=True)
        unmet = [test[never_met(spec.task, train, test)] for train, test in pairs]
        is_judged = ~torch.isin(rows, torch.cat(unmet))
    rows, mean = rows[is_judged], torch.zeros(())
    for number, weight in weights.items():
        mean = mean + weight * _load_probabilities(run, spec, number)[1][is_judged]
    targets = spec.task.targets[rows]
    merged, agree = doubts(mean, targets, problem), torch.zeros(len(rows), dtype=torch.long)
    for number in weights:  # read again: all of them together may be large
        probabilities = _load_probabilities(run, spec, number)[1][is_judged]
        agree += _agree(probabilities, targets, merged, problem)
    return DoubtfulLabels(
        run=run.id,
        spec=spec,
        cells=tuple(spec.names[number] for number in weights),
        tested=rows,
        doubts=merged,
        agree=agree,
    )


def has_probabilities(board: Leaderboard) -> bool:
    """Return whether a run has saved the probabilities of its heads, as old ones did not."""
    run, spec = board.folder, load(board.folder)
    try:
        _load_probabilities(run, spec, next(iter(_weigh(run, spec, ()))))
    except DataError:
        return False
    return True


def _weigh(run: RunFolder, spec: RunSpec, recipes: Sequence[Recipe | str]) -> dict[int, float]:
    """Return the weight of each head or baseline, by its number; together 1."""
    done = {name: number for number, name in enumerate(spec.names) if kept(run, number)}
    heads = [name for name in done if name not in BASELINES]
    if not heads:
        raise DataError(f"No head of the run {run.id} is done yet.", "Wait for it, or resume it.")
    names = [str(name) if str(name) in done else str(resolve(name)) for name in recipes]
    if missing := [name for name in names if name not in done]:
        what = f"The run {run.id} has no trained head {missing[0][:80]}."
        raise DataError(what, did_you_mean(missing[0], done))
    if names or TFIDF not in done:
        names = list(dict.fromkeys(names or heads))
        return {done[name]: 1 / len(names) for name in names}
    return {done[name]: (1 - WORDS) / len(heads) for name in heads} | {done[TFIDF]: WORDS}


def _load_probabilities(run: RunFolder, spec: RunSpec, number: int) -> tuple[Tensor, Tensor]:
    """Return the rows that a head has answered, and its probabilities or numbers, (n, c)."""
    if not spec.task.problem.has_classes:
        answers = answers_of_cell(run, number, spec.names[number]).answers
        return average_by_row(answers.rows, [given[:, None] for given in answers.given])
    if saved := probabilities_of_cell(run, number):
        return saved
    classes = len(spec.corpus.classes)
    if _count_answered(spec.splits) * classes > MOST_PROBABILITIES:
        what = f"Probabilities are not kept of so many rows of {classes:,} classes."
        raise DataError(what, "Train on a part of the rows.")
    what = f"The run {run.id} is of before probabilities of all classes were kept."
    raise DataError(what, "Train again: the texts need not be read again.")


def _agree(probabilities: Tensor, targets: Tensor, merged: Doubts, problem: ProblemType) -> Tensor:
    """Return where one head alone finds the suggested label the most probable, (n,)."""
    if not problem.has_classes:
        return doubts(probabilities, targets, problem).is_doubtful
    if problem.is_exclusive:
        return probabilities.argmax(dim=1) == merged.suggested
    doubted = merged.suggested != targets.bool()
    return (((probabilities > HALF) == merged.suggested) | ~doubted).all(dim=1)


Labels = Sequence[int] | float  # the numbers of a row's labels, or its number
LabelWriter = Callable[[Labels], Any]


def _label_writer(spec: RunSpec) -> LabelWriter:
    """Return what writes labels into a cell; several are separated as in the file, if possible."""
    classes, own = spec.corpus.classes, spec.account.get("columns", {}).get("separator", "")
    signs = [sign for sign in (own, *SEPARATORS) if sign and sign != LISTS]
    sign = next((sign for sign in signs if not any(sign in name for name in classes)), "")

    def write(labels: Labels) -> Any:
        if not isinstance(labels, Sequence):
            return labels
        names = [classes[label] for label in labels]
        if spec.corpus.problem.is_exclusive:
            return names[0]
        return sign.join(names) if sign and own != LISTS else dumps(names, ensure_ascii=False)

    return write
