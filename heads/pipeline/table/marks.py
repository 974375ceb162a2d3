"""The label cells of a row to its labels, or to its number."""

from collections.abc import Callable, Sequence

from heads.errors import DataError
from heads.pipeline.table.cells import clean_label, unguard_cell
from heads.pipeline.table.kinds import FLAGS, cells_of, numbers_of, parted
from heads.pipeline.table.sheet import Columns, Table, short

NO_LABEL, NO_NUMBER = "no label", "no number"
# What a row and its line say: its labels, its number, or why it cannot be used.
Marks = Callable[[Sequence[str], int], tuple[str, ...] | float | str]


def marks(table: Table, columns: Columns) -> Marks:
    """How the labels of a row are read.

    Raises:
        DataError: While reading, where a 0/1 column says something else; names the line.
    """
    if columns.labels:
        return _of_flags(table, columns.labels)
    at = table.columns.index(columns.label)
    values = numbers_of(cells_of(table, columns.label))[1] if columns.number else {}
    known: dict[str, tuple[str, ...] | float | str] = {}

    def read(row: Sequence[str], _line: int) -> tuple[str, ...] | float | str:
        raw = row[at]
        if raw not in known:
            cell = clean_label(unguard_cell(raw) if table.spelled else raw)
            known[raw] = values.get(cell, NO_NUMBER) if columns.number else _read(cell, columns)
        return known[raw]

    return read


def _read(cell: str, columns: Columns) -> tuple[str, ...] | str:
    if columns.separator:
        return parted(cell, columns.separator)
    return (cell,) if cell else NO_LABEL


def _of_flags(table: Table, names: Sequence[str]) -> Marks:
    places = [(table.columns.index(name), clean_label(name) or name) for name in names]

    def read(row: Sequence[str], line: int) -> tuple[str, ...]:
        found = []
        for at, name in places:
            cell = row[at].strip().casefold()
            if cell not in FLAGS:
                raise _no_flag(row[at], name, line, table)
            if FLAGS[cell]:
                found.append(name)
        return tuple(sorted(found))

    return read


def _no_flag(cell: str, name: str, line: int, table: Table) -> DataError:
    said = f"says '{short(cell)}'" if cell.strip() else "is empty"
    what = f"The label column '{short(name)}' {said} on {table.unit} {line} of {table.name}."
    return DataError(what, "Write 0 or 1, or choose other columns.", line=line, column=name)
