"""A file of cells as a table or as a stream of rows, and its header.

What is learned from a file is read whole, and rows that cannot be used are left out. What is only
answered may be longer than memory, and every row of it comes back. So a first pass counts rows and
columns and draws a sample, in which the columns are found; a second one reads them block by block.
The first row may be a title or name the columns.
"""

import random
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Literal

from heads.data.column_names import is_known
from heads.data.numbers import notation_of
from heads.data.table import Finding, Table, check_size, count, finding, short, where
from heads.errors import DataError

Form = Literal["delimited", "json", "columnar", "excel"]
SAMPLE = 2_000
HEADER_ROWS = 2_000  # first rows, by which it is seen whether there are names of columns
BLOCK_CHARACTERS = 2_000_000  # tokens take about a hundred times as much memory as letters
TEXT = "text"  # what the only column is called, where nothing names it


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """One row of a file.

    Attributes:
        line: The line (or row) on which it begins.
        cells: Its cells as texts, one for each column.
        odd: Why no text can be taken from it; "" where one can.
        own: The row as its format has it: the text of a JSON object, the cells of a sheet.
    """

    line: int
    cells: Sequence[str]
    odd: str = ""
    own: Any = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Block:
    """Some rows, one after another.

    Attributes:
        own: All of them as their format has them, where that keeps no single rows.
    """

    rows: Sequence[Row]
    own: Any = None

    def __len__(self) -> int:
        return len(self.rows)


@dataclass(frozen=True, slots=True, kw_only=True)
class Delimited:
    """How cells are parted in the file, so that what is written looks like it.

    Attributes:
        mark: Whether the file begins with the mark of UTF-8, or is none: a spreadsheet wrote it.
    """

    delimiter: str = ","
    line_end: str = "\n"
    mark: bool = False


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class TableStream:
    """A file that was looked through once, whose rows can be read one block after another.

    Attributes:
        columns: The names of the columns, all different; "column 3" where there is no name.
        titles: The same as they stand in the file, "" where there is no name.
        sample: Some of the rows, from everywhere in the file: in it the columns are found.
        blocks: Reads the rows once more from the first to the last, in blocks of at most so many.
        facts: What a writer of the same format has to know.
        notes: How it was read, a sentence each, where that is not plain.
    """

    name: str
    form: Form
    columns: tuple[str, ...]
    titles: tuple[str, ...]
    rows: int
    sample: Table
    blocks: Callable[[int], Iterator[Block]]
    facts: Any = None
    notes: tuple[str, ...] = ()


def split_blocks(rows: Iterable[Row], most: int) -> Iterator[Block]:
    """Yield rows in blocks of so many, fewer where they are long."""
    held: list[Row] = []
    size = 0
    for row in rows:
        length = sum(map(len, row.cells))
        if held and (len(held) >= most or size + length > BLOCK_CHARACTERS):
            yield Block(rows=held)
            held, size = [], 0
        held.append(row)
        size += length
    if held:
        yield Block(rows=held)


@dataclass(kw_only=True, slots=True)
class Sampler:
    """Draws rows from a stream of unknown length, each with the same chance, always the same.

    Source: Vitter 1985, algorithm R.
    """

    most: int = SAMPLE
    seen: int = 0
    kept: list[tuple[int, Any]] = field(default_factory=list)
    _dice: random.Random = field(default_factory=lambda: random.Random(0))

    def add(self, line: int, row: Any) -> None:
        """Count a row, and draw it or not."""
        self.seen += 1
        if len(self.kept) < self.most:
            self.kept.append((line, row))
        elif (place := self._dice.randrange(self.seen)) < self.most:
            self.kept[place] = (line, row)

    def drawn(self) -> list[tuple[int, Any]]:
        """Return the rows drawn, in the order of the file."""
        return sorted(self.kept, key=lambda pair: pair[0])


@dataclass(kw_only=True, slots=True)
class RowScan:
    """One pass over the rows of a file: a table keeps all, a stream the first ones and a sample.

    Attributes:
        is_whole: Whether all rows are kept.
        drawn: The sample.
    """

    is_whole: bool
    rows: list[list[str]] = field(default_factory=list)
    lines: list[int] = field(default_factory=list)
    drawn: Sampler = field(default_factory=Sampler)
    count: int = 0

    def add(self, line: int, row: list[str]) -> None:
        """Count a row, and keep it if it is one of the first or drawn."""
        self.count += 1
        if self.is_whole or len(self.rows) <= HEADER_ROWS:
            self.rows.append(row)
            self.lines.append(line)
        if not self.is_whole:
            self.drawn.add(line, row)


def pad_row(row: list[str], width: int) -> list[str]:
    """Append empty cells to a row until it has so many."""
    return row + [""] * (width - len(row))


WRONG_COUNT = "wrong number of cells"
NAMES_AGAIN = "names of the columns again"


@dataclass(frozen=True, slots=True, kw_only=True)
class Grid:
    """Cells as they stand in a file.

    Attributes:
        rows: The cells, as many in each row; of a stream the first rows only.
        lines: The number of the line (or row, see `unit`) at which each row begins.
        odd: Lines that were left out, as they have another number of cells.
        above: The lines of the title.
        unit: What `lines` counts: "line" or "row".
    """

    name: str
    rows: list[list[str]]
    lines: list[int]
    odd: Sequence[int] = ()
    title: str = ""
    above: Sequence[int] = (1,)
    unit: str = "line"
    notes: Sequence[str] = ()
    findings: Sequence[Finding] = ()


def table_of(grid: Grid, header: bool | None) -> Table:
    """Return the table of a grid, without its title, under the names of its columns.

    Raises:
        DataError: There are no rows, or two columns have one name.
        LimitError: More rows than this place allows.
    """
    rows, lines, unit = grid.rows, grid.lines, grid.unit
    title, above = grid.title, grid.above
    findings, dropped = list(grid.findings), {}
    if header is not False and not title and is_title(rows):
        title = " ".join(filter(None, map(str.strip, rows[0])))
        above, rows, lines = lines[:1], rows[1:], lines[1:]
    if header is not False and title:
        says = f"Took '{short(title)}' above the names of the columns for a title, and left it out."
        findings.append(finding("title", says, above))
    if grid.odd:
        dropped[WRONG_COUNT] = tuple(grid.odd)
        says = f"Left out {count(len(grid.odd), 'row')} with a {WRONG_COUNT}: {where(grid.odd)}."
        findings.append(finding("cells", f"{says} Put quotes around such cells.", grid.odd))
    first, top = rows[0], lines[0]
    named = names_columns(rows) if header is None else header
    if named:
        again = [line for line, row in zip(lines, rows, strict=True) if row == first][1:]
        lines = [line for line, row in zip(lines, rows, strict=True) if row != first]
        rows = [row for row in rows if row != first]
        if again:
            dropped[NAMES_AGAIN] = tuple(again)
            says = f"Left out {count(len(again), 'row')} with the {NAMES_AGAIN}: "
            findings.append(finding("header_again", f"{says}{where(again, unit)}.", again))
    elif header is None:
        says = (
            f"The first {unit} looks like data ('{short(' · '.join(first))}'), so it was kept as a "
            "row; say so if it holds the names of the columns."
        )
        findings.append(finding("header", says, [top]))
    check_size(grid.name, rows=len(rows))
    if not rows:
        what = f"{grid.name} has no data rows."
        raise DataError(what, "Add rows below the names of the columns.")
    columns = _name_columns(first if named else [""] * len(first), grid.name, top)
    unnamed = frozenset(
        name for name, cell in zip(columns, first, strict=True) if named and not cell.strip()
    )
    return Table(
        name=grid.name, columns=columns, rows=rows, lines=lines, has_header=named,
        unnamed=unnamed, spelled=True, dropped=dropped, notes=tuple(grid.notes),
        findings=tuple(findings), unit=unit,
    )  # fmt: skip


@dataclass(frozen=True, slots=True, kw_only=True)
class Top:
    """What the first rows of a file say of all.

    Attributes:
        table: Its columns and what one should know of it, with the first rows.
        skipped: How many rows come before the first one of data.
        names: The row that names the columns; nothing where none does.
        is_one: Whether there is but one column, which nothing names.
    """

    table: Table
    skipped: int
    names: Sequence[str]
    is_one: bool


def top_of(grid: Grid, header: bool | None, known: Collection[str], *, is_one: bool) -> Top:
    """Read the title and the names of columns off the first rows of a file.

    Args:
        known: Names of columns: a first row that holds one names all of them.
        is_one: Whether there is one column: the first of many short texts looks like a name, so
            that only a name that is known is one.
    """
    if header is None and any(cell.strip() in known for cell in grid.rows[0]):
        header = True
    elif header is None and is_one:
        header = is_known(grid.rows[0][0])
    table = table_of(grid, header)
    has_title = header is not False and not grid.title and is_title(grid.rows)
    has_header = table.has_header
    return Top(
        table=table, skipped=has_title + has_header,
        names=grid.rows[int(has_title)] if has_header else (), is_one=is_one and not has_header,
    )  # fmt: skip


def stream_grid(
    scan: RowScan,
    top: Top,
    places: Sequence[int],
    width: int,
    read_rows: Callable[[], Iterator[Row]],
    *,
    form: Form,
    findings: Sequence[Finding] = (),
    facts: Any = None,
) -> TableStream:
    """Return a file of cells that was looked through as a stream.

    Args:
        places: Where in a row the columns of `top` stand; others have no name.
        width: The most cells of a row.
        read_rows: Reads the rows once more.
        findings: Warnings on all rows.
    """
    table = top.table
    names = {places[0]: TEXT} if top.is_one else dict(zip(places, table.columns, strict=False))
    columns = tuple(names.get(at) or f"column {at + 1}" for at in range(width))
    titles = dict(zip(places, top.names or [columns[at] for at in places], strict=False))
    before = scan.lines[top.skipped - 1] if top.skipped else 0
    drawn = [(line, pad_row(row, width)) for line, row in scan.drawn.drawn() if line > before]
    sample = replace(
        table, columns=columns, rows=[row for _, row in drawn], lines=[line for line, _ in drawn],
        unnamed=table.unnamed | {columns[at] for at in range(width) if at not in names},
        findings=(*[one for one in table.findings if one.kind != "header_again"], *findings),
        dropped={},
    )  # fmt: skip
    return TableStream(
        name=table.name, form=form, columns=columns, sample=sample, notes=table.notes, facts=facts,
        titles=tuple(titles.get(at, "") for at in range(width)), rows=scan.count - top.skipped,
        blocks=lambda most: split_blocks(read_rows(), most),
    )  # fmt: skip


def is_title(rows: Sequence[Sequence[str]]) -> bool:
    """Return True if the first row is one cell and empty ones, above names for all columns.

    Or has a comma itself, above a row of which two names are known.
    """
    if len(rows) < 3 or len(rows[0]) < 2 or any(map(is_known, rows[0])):
        return False
    names = [cell.strip() for cell in rows[1]]
    known = sum(map(is_known, names))
    is_alone = sum(bool(cell.strip()) for cell in rows[0]) == 1
    return all(names) and known >= (1 if is_alone else 2)


def names_columns(rows: Sequence[Sequence[str]]) -> bool:
    """Return True if the first of the rows holds the names of the columns.

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
    """Return what a cell of the first row is by its column: "data", "name" or "" (either)."""
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


def _name_columns(cells: Sequence[str], name: str, line: int) -> tuple[str, ...]:
    """Return names for all columns, numbered where a cell is blank; raise DataError for twins."""
    names = [" ".join(cell.split()) or f"column {at}" for at, cell in enumerate(cells, start=1)]
    # hostile/c28_duplicate_columns.csv: pandas calls the second label.1.
    twice = [known for known, times in Counter(names).items() if times > 1]
    if twice:
        what = f"{name} has two columns named '{short(twice[0])}'."
        raise DataError(what, "Rename one of them.", line=line, column=twice[0])
    return tuple(names)
