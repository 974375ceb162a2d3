"""Rows of cells, of which the first may be a title or name the columns, to a `Table`."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace

from heads.data.column_names import is_known
from heads.data.numbers import notation_of
from heads.data.table import Finding, Table, check_size, count, finding, short, where
from heads.errors import DataError

WRONG_COUNT = "wrong number of cells"
NAMES_AGAIN = "names of the columns again"
HEADER_ROWS = 2_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Grid:
    """Cells as they stand in a file.

    Attributes:
        rows: The cells, as many in each row where a `Table` is made of them.
        lines: The number of the line (or row, see `unit`) at which each row begins.
        odd: Lines that were left out, as they have another number of cells.
        title: What stands above the rows.
        above: The lines of the title.
        unit: What `lines` counts: "line" or "row".
    """

    rows: list[list[str]]
    lines: list[int]
    odd: Sequence[int] = ()
    title: str = ""
    above: Sequence[int] = (1,)
    unit: str = "line"


def table_of(
    grid: Grid,
    name: str,
    header: bool | None,
    notes: Sequence[str],
    findings: Sequence[Finding],
) -> Table:
    """The table of a grid, without its title, under the names of its columns.

    Args:
        header: Whether the first row names the columns; None finds out.

    Raises:
        DataError: There are no rows, or two columns have one name.
        LimitError: More rows than this place allows.
    """
    rows, lines, unit = grid.rows, grid.lines, grid.unit
    title, above = grid.title, grid.above
    found, dropped = list(findings), {}
    if header is not False and not title and is_title(rows):
        title = " ".join(filter(None, map(str.strip, rows[0])))
        above, rows, lines = lines[:1], rows[1:], lines[1:]
    if header is not False and title:
        says = f"Took '{short(title)}' above the names of the columns for a title, and left it out."
        found.append(finding("title", says, above))
    if grid.odd:
        dropped[WRONG_COUNT] = tuple(grid.odd)
        says = f"Left out {count(len(grid.odd), 'row')} with a {WRONG_COUNT}: {where(grid.odd)}."
        found.append(finding("cells", f"{says} Put quotes around such cells.", grid.odd))
    first, top = rows[0], lines[0]
    named = names_columns(rows) if header is None else header
    if named:
        again = [line for line, row in zip(lines, rows, strict=True) if row == first][1:]
        lines = [line for line, row in zip(lines, rows, strict=True) if row != first]
        rows = [row for row in rows if row != first]
        if again:
            dropped[NAMES_AGAIN] = tuple(again)
            says = f"Left out {count(len(again), 'row')} with the {NAMES_AGAIN}: "
            found.append(finding("header_again", f"{says}{where(again, unit)}.", again))
    elif header is None:
        says = (
            f"The first {unit} looks like data ('{short(' · '.join(first))}'), so it was kept as a "
            "row; say so if it holds the names of the columns."
        )
        found.append(finding("header", says, [top]))
    check_size(name, rows=len(rows))
    if not rows:
        raise DataError(f"{name} has no data rows.", "Add rows below the names of the columns.")
    columns, unnamed = _names(first if named else [""] * len(first), name, top)
    return Table(
        name=name, columns=columns, rows=rows, lines=lines, has_header=named,
        unnamed=unnamed if named else frozenset(), spelled=True, dropped=dropped,
        notes=tuple(notes), findings=tuple(found), unit=unit,
    )  # fmt: skip


@dataclass(frozen=True, slots=True, kw_only=True)
class Top:
    """What the first rows of a file say of all.

    Attributes:
        table: Its columns and what one should know of it, without rows that are to be used.
        skipped: How many rows come before the first one of data.
        names: The row that names the columns; nothing where none does.
    """

    table: Table
    skipped: int
    names: Sequence[str]


def top_of(grid: Grid, name: str, header: bool | None, notes: Sequence[str]) -> Top:
    """Read the title and the names of columns off the first rows, all of one width, of a file.

    Raises:
        DataError: There are no rows, or two columns have one name.
    """
    table = table_of(grid, name, header, notes, ())
    has_title = header is not False and not grid.title and is_title(grid.rows)
    first = grid.rows[int(has_title)]
    found = [one for one in table.findings if one.kind != "header_again"]
    table = replace(table, rows=(), lines=(), dropped={}, findings=tuple(found))
    skipped = has_title + table.has_header
    return Top(table=table, skipped=skipped, names=first if table.has_header else ())


def is_title(rows: Sequence[Sequence[str]]) -> bool:
    """Whether the first row is one cell and empty ones, above a row of names for all columns.

    Or has a comma itself, above a row of which two names are known.
    """
    if len(rows) < 3 or len(rows[0]) < 2 or any(map(is_known, rows[0])):
        return False
    names = [cell.strip() for cell in rows[1]]
    known = sum(map(is_known, names))
    is_alone = sum(bool(cell.strip()) for cell in rows[0]) == 1
    return all(names) and known >= (1 if is_alone else 2)


def names_columns(rows: Sequence[Sequence[str]]) -> bool:
    """Whether the first of the rows holds the names of the columns.

    pandas takes the first row of hostile/c03_no_header.csv and of
    messy/sentiment140_test_noheader.csv for names, and csv.Sniffer that of the latter; it misses
    the names in ag_news/train.csv.
    """
    first = [cell.strip() for cell in rows[0]]
    rest = rows[1 : HEADER_ROWS + 1]
    known = sum(map(is_known, first))
    if known > 1 or not rest or _is_counting(first):
        return known > 0 or _is_counting(first)
    verdicts = [_verdict(cell, [row[at].strip() for row in rest]) for at, cell in enumerate(first)]
    if "data" in verdicts:
        return False
    if known or "name" in verdicts:
        return True
    return all(len(cell) <= 40 and len(cell.split()) <= 4 for cell in first)


def _is_counting(first: Sequence[str]) -> bool:
    """0, 1, 2 and so on: what pandas calls columns without names."""
    cells = list(first[1:] if first[0] == "" else first)
    return len(cells) > 1 and cells == [f"{number}" for number in range(len(cells))]


def _verdict(cell: str, below: Sequence[str]) -> str:
    """What a cell of the first row is, seen from its column: "data", "name" or "" (either)."""
    if not cell:
        return ""
    filled = [other for other in below if other]
    notation = notation_of([cell, *filled])
    if notation.value(cell) is not None or cell in below:
        return "data"
    if filled and all(notation.value(other) is not None for other in filled):
        return "name"
    few = len(Counter(filled)) * 2 <= len(filled)
    return "name" if few else ""


def _names(cells: Sequence[str], name: str, line: int) -> tuple[tuple[str, ...], frozenset[str]]:
    """Names for all columns, and which of them the file does not name."""
    names = [" ".join(cell.split()) or f"column {at}" for at, cell in enumerate(cells, start=1)]
    # hostile/c28_duplicate_columns.csv: pandas calls the second label.1.
    twice = [known for known, times in Counter(names).items() if times > 1]
    if twice:
        what = f"{name} has two columns named '{short(twice[0])}'."
        raise DataError(what, "Rename one of them.", line=line, column=twice[0])
    return tuple(names), frozenset(names[at] for at, cell in enumerate(cells) if not cell.strip())
