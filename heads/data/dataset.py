"""A file as a corpus, with an account of every row and warnings."""

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, replace
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from heads import display
from heads.data.checks import (
    check_labels,
    check_numbers,
    count_labels,
    describe_labels,
    group_findings,
    kind_findings,
    label_findings,
    one_spelling,
    shorten,
    spread_of,
    text_findings,
    vector_findings,
)
from heads.data.columns import doubts, guess
from heads.data.corpus import Corpus, build, in_order, numbered, on_vectors
from heads.data.files import open_table
from heads.data.formats.vector_reading import check_different
from heads.data.labels import are_vectors, cells_of
from heads.data.rows import Rows, account, check_columns, collect
from heads.data.samples import Sample
from heads.data.table import LISTS, Columns, Finding, Table, count, lines_as_json
from heads.errors import DataError

if TYPE_CHECKING:
    from pandas import DataFrame

_HEAD_ROWS = 5
_HEAD_CHARACTERS = 300
_PARTS = 2


@dataclass(frozen=True, slots=True, kw_only=True)
class Data(display.Displayed):
    """A file read, ready to be trained on.

    Attributes:
        columns: Which column was taken for what.
        guessed: Whether the columns were guessed rather than chosen.
        has_header: Whether the first line was taken for the names of the columns.
        rows_in: Rows of the file: those used and those dropped.
        dropped: Rows left out: reason -> lines.
        classes: Rows of each class; nothing where labels are numbers.
        spread: The least number, the quartiles and the greatest, where labels are numbers.
        findings: Warnings, those on the file first.
        head: The first rows as read, cells cut to 300 characters.
        unit: What line numbers count: "line" or "row".
        source: Of a data set of the Hub its name down to the commit, by which it is read again.
    """

    corpus: Corpus
    columns: Columns
    guessed: bool
    has_header: bool
    names: tuple[str, ...]
    rows_in: int
    dropped: Mapping[str, tuple[int, ...]] = field(default_factory=dict)
    classes: Mapping[str, int] = field(default_factory=dict)
    spread: tuple[float, ...] = ()
    notes: tuple[str, ...] = ()
    findings: tuple[Finding, ...] = ()
    head: tuple[tuple[str, ...], ...] = ()
    unit: str = "line"
    source: str = ""

    @property
    def says(self) -> str:
        """What the labels are, such as "6 classes" or "48 labels, 2.3 a row, separated by '|'"."""
        return describe_labels(self.corpus, self.columns)

    def to_pandas(self) -> "DataFrame":
        """The rows that are used: text, second text, label, split, group and line, where they are.

        A label is the name of the class, the names of several, or a number.
        """
        corpus = self.corpus
        columns = {
            "text": corpus.texts,
            "pair": corpus.pairs,
            "label": corpus.labels,
            "split": corpus.parts,
            "group": corpus.groups,
            self.unit: corpus.lines,
        }
        there = {name: values for name, values in columns.items() if values}
        rows = zip(*there.values(), strict=True)
        return display.data_frame(dict(zip(there, row, strict=True)) for row in rows)

    def as_json(self) -> dict[str, Any]:
        """Return all of it but the texts, as JSON can hold it."""
        columns = asdict(self.columns)
        return {
            "name": self.corpus.name,
            "rows_in": self.rows_in,
            "rows": len(self.corpus),
            "dropped": lines_as_json(self.dropped),
            "columns": columns | {key: list(columns[key]) for key in ("labels", "order")},
            "guessed": self.guessed,
            "has_header": self.has_header,
            "unit": self.unit,
            "source": self.source,
            "problem_type": self.corpus.problem.name,
            "ordered": self.corpus.ordered,
            "classes": dict(self.classes),
            "spread": list(self.spread),
            "notes": list(self.notes),
            "warnings": [
                {"kind": each.kind, "says": each.says, "lines": list(each.lines)}
                for each in self.findings
            ],
            "vectors": self.corpus.vectors.width if self.corpus.vectors else None,
            "preview": {"columns": list(self.names), "rows": [list(row) for row in self.head]},
        }


def read(path: Path, columns: Columns | None = None, header: bool | None = None) -> Data:
    """Read a file of texts and labels; columns that are not given are guessed.

    Args:
        path: A CSV, TSV, JSON, JSONL, Parquet or Excel file, or a folder saved by `datasets`.
        header: Whether the first line names the columns; None finds out.

    Raises:
        DataError: It cannot be used; names the line where it is known.
        LimitError: It holds more than this place allows.
    """
    return data_of(open_table(path, header), columns, name=name_of(path))


@cache
def corpus_of(sample: Sample) -> Corpus:
    """Return the rows of a sample, read once."""
    return read(sample.path).corpus


def name_of(path: Path) -> str:
    """Return what a user calls the data: the file's name, or its folder's if that says more.

    >>> name_of(Path("reviews.csv")), name_of(Path("trec6/train.csv"))
    ('reviews', 'trec6')
    """
    folder = path.parent.name
    return folder if path.stem.lower() in ("train", "training", "data") and folder else path.stem


def data_of(table: Table, columns: Columns | None = None, name: str = "") -> Data:
    """Return the data of an opened table, or raise as `read` does."""
    chosen = columns or guess(table)
    if chosen.text in table.vectors and not chosen.vectors:
        chosen = replace(chosen, text="", vectors=chosen.text)
    check_columns(table, chosen)
    vectors = None
    if chosen.vectors:
        vectors = table.vectors[chosen.vectors]()
        check_different(vectors, table.name)
    rows = collect(table, chosen, vectors)
    if not rows.texts:
        reason = max(rows.dropped, key=lambda name: len(rows.dropped[name]))
        what = f"None of the rows of {table.name} can be used: "
        what += f"{count(len(rows.dropped[reason]), 'row')} with {reason}."
        raise DataError(what, "Are the right columns chosen?")
    about_labels = _check(rows, chosen, table)
    corpus = _corpus(rows, chosen, name or table.name)
    if vectors:
        corpus = on_vectors(corpus, vectors, rows.places, are_named=rows.are_named)
    findings = [
        *table.findings,
        *([] if columns else doubts(table)),
        *account(rows, table),
        *kind_findings(rows, corpus, chosen, guessed=columns is None),
        *about_labels,
        *text_findings(rows),
        *group_findings(rows, corpus, chosen),
        *vector_findings(table, chosen, corpus),
    ]
    counts = count_labels(rows)
    return Data(
        corpus=corpus,
        columns=chosen,
        guessed=columns is None,
        has_header=table.has_header,
        names=table.columns,
        rows_in=len(rows.lines) + sum(map(len, rows.dropped.values())),
        dropped={reason: tuple(lines) for reason, lines in rows.dropped.items()},
        classes={} if corpus.numbers else {name: counts[name] for name in corpus.classes},
        spread=spread_of(corpus.numbers),
        notes=table.notes,
        findings=tuple(findings),
        head=tuple(
            tuple(cell[:_HEAD_CHARACTERS] for cell in row) for row in table.rows[:_HEAD_ROWS]
        ),
        unit=table.unit,
        source=table.source,
    )


def _check(rows: Rows, columns: Columns, table: Table) -> list[Finding]:
    """Refuse labels that nothing can be learned from, and warn of odd ones."""
    if columns.number:
        check_numbers(rows.numbers, table.name)
        return []
    if columns.separator == LISTS and are_vectors(cells_of(table, columns.label)):
        what = f"The labels of {table.name} are lists of 0 and 1, which do not say of what."
        raise DataError(what, "Write a column of 0 and 1 for each label, or the labels' names.")
    same = one_spelling(rows)
    cut, many = shorten(rows, table.name), _has_many(rows, columns)
    check_labels(rows, table.name, many=many)
    return [*same, *cut, *label_findings(rows, many=many)]


def _has_many(rows: Rows, columns: Columns) -> bool:
    """Return True if rows have any number of labels; a separator that no cell holds says one."""
    return bool(columns.labels) or any(len(labels) != 1 for labels in rows.sets)


def _corpus(rows: Rows, columns: Columns, name: str) -> Corpus:
    parts = rows.parts if len(set(rows.parts)) >= _PARTS else []
    if columns.number:
        corpus = numbered(
            name, rows.texts, rows.numbers, rows.pairs, columns.label, parts, rows.groups
        )
    else:
        sets = rows.sets if _has_many(rows, columns) else [label for (label,) in rows.sets]
        corpus = build(name, rows.texts, sets, rows.pairs, "", parts, rows.groups)
    if columns.order:
        corpus = in_order(corpus, columns.order)
    return replace(corpus, lines=tuple(rows.lines))
