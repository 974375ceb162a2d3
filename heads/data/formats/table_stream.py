"""A file as a stream of rows, each of them kept as it stands: what is answered row by row.

What is learned from a file is read whole, and rows that cannot be used are left out. What is only
answered may be longer than memory, and every row of it comes back. So a first pass counts rows and
columns and draws a sample, in which the columns are found; a second one reads them block by block.
"""

import random
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

from heads.data.table import Table

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
