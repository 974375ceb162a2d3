"""Rows of numbers as they come from a file, held to what can be learned from.

Whatever the file, its vectors pass `VectorSink` block by block, so that no more than a block lies
beside the matrix; and no room is made for more than this place allows.
Legend: n rows, w width of a vector.
"""

import hashlib
import json
import math
import tempfile
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field

import numpy as np

from heads.caching import writing
from heads.data.table import Table, check_size, count
from heads.data.vectors import BLOCK, Matrix, RowVectors, Vectors, as_float32
from heads.errors import DataError, LimitError
from heads.settings import cache_folder, current_limits

IN_MEMORY = 256_000_000  # bytes; what is larger lies in a file
KINDS = "fiu"  # of NumPy: floats, and whole numbers as quantised vectors have
FEWEST = 2  # numbers of a vector
SHOWN = 3  # numbers of a vector, in its name
_FEW = 20  # rows that say whether cells are vectors
AGAIN = "Leave such rows out, or let the model make them again."


@dataclass(kw_only=True)
class VectorSink:
    """Takes the vectors of a file in, block by block, and checks every one.

    Attributes:
        name: What they are called in a sentence.
        rows: How many will come.
        into: Where they lie already, if they do.

    Raises:
        DataError: There are none.
        LimitError: All of them would be more than this place allows.
    """

    name: str
    rows: int
    width: int
    into: Matrix | None = None
    _matrix: Matrix = field(init=False, repr=False)
    _names: list[str] = field(default_factory=list, repr=False)

    def __post_init__(self) -> None:
        check_shape(self.name, self.rows, self.width)
        self._matrix = room(self.rows, self.width) if self.into is None else self.into

    def add(self, block: Matrix, lacks: np.ndarray | None = None) -> None:
        """Add vectors (n, w), some of which may be lacking (n,); raise DataError for NaN."""
        start = len(self._names)
        own = as_float32(block)
        bad = ~np.isfinite(own).all(axis=1)
        if bad.any():
            what = f"The vector on row {start + int(bad.argmax()) + 1:,} of {self.name} "
            raise DataError(f"{what}holds NaN, infinity or a number beyond 32 bits.", AGAIN)
        if self.into is None:
            self._matrix[start : start + len(own)] = own
        self._names += names_of(own, lacks)

    def ragged(self, at: int, width: int) -> DataError:
        """Return the vector so many rows after those that came already has another width."""
        row = len(self._names) + at + 1
        what = f"The vector on row {row:,} of {self.name} has {count(width, 'number')}, "
        return DataError(f"{what}and others have {self.width:,}.", "Give vectors of one length.")

    def done(self) -> RowVectors:
        """Return all of them."""
        vectors = Vectors.whole(self._matrix[: len(self._names)])
        return RowVectors(vectors=vectors, names=self._names)


def check_different(found: RowVectors, name: str) -> None:
    """Raise DataError for vectors that are all the same."""
    named = [one for one in found.names if one]
    if len(named) > 1 and len(set(named)) == 1:
        what = f"All {len(named):,} vectors of {name} are the same ({named[0]})."
        raise DataError(what, "Was the model asked about each text?")


def room(rows: int, width: int) -> Matrix:
    """Return zeros for vectors, many in an unnamed file; raise DataError if the disk is full."""
    if rows * width * 4 <= IN_MEMORY:
        return np.zeros((rows, width), np.float32)
    with writing("The vectors"):
        cache_folder().mkdir(parents=True, exist_ok=True)
        # It has no name, and goes with the process; what is not written takes no room.
        with tempfile.TemporaryFile(dir=cache_folder()) as file:
            return np.memmap(file, np.float32, "w+", shape=(rows, width))


def check_shape(name: str, rows: int, width: int) -> None:
    """Raise DataError or LimitError for no vectors or too many, before there is room for them."""
    limits = current_limits()
    if not rows or not width:
        what = f"{name} holds {rows:,} vectors of {count(width, 'number')}."
        raise DataError(what, "Choose a file with some.")
    check_size(name, rows=rows)
    if width > limits.pooled_width:
        what = f"The vectors of {name} have {width:,} numbers; this place learns from "
        raise LimitError(f"{what}{limits.pooled_width:,} at most.", "Make them shorter.")
    if (size := rows * width * 4) > limits.unpacked_bytes:
        what = f"{name} says that it holds {rows:,} × {width:,} numbers, {size / 1e6:,.0f} MB of "
        what += f"vectors, and this place reads {limits.unpacked_bytes / 1e6:,.0f} MB."
        raise LimitError(what, "Choose a part of the rows.")


def names_of(block: Matrix, lacks: np.ndarray | None = None) -> list[str]:
    """Return what vectors (n, w) are called."""
    heads = block[:, :SHOWN].tolist()
    more = " …" * (block.shape[1] > SHOWN)
    found = []
    for at, (row, head) in enumerate(zip(block, heads, strict=True)):
        if lacks is not None and lacks[at]:
            found.append("")
            continue
        digest = hashlib.blake2b(row.tobytes(), digest_size=8).hexdigest()
        found.append(f"vector {' '.join(f'{one:.3g}' for one in head)}{more} #{digest}")
    return found


# --- Cells that hold lists of numbers, as CSV and JSON files have vectors.


def of_cells(cells: Sequence[str], name: str) -> RowVectors:
    """Read vectors from cells such as "[0.1, -0.2]" or empty ones; raise DataError for others."""
    width = len(next(filter(None, map(numbers_in, cells)), ()))
    sink = VectorSink(name=name, rows=len(cells), width=width)
    for start in range(0, len(cells), BLOCK):
        block, lacks = matrix_of_cells(cells[start : start + BLOCK], width, sink.ragged)
        for at in map(int, np.flatnonzero(lacks)):
            if cells[start + at].strip() and numbers_in(cells[start + at]) is None:
                what = f"The cell on row {start + at + 1:,} of {name} is no list of numbers."
                raise DataError(what, "Write every vector as [0.1, -0.2].")
        sink.add(block, lacks)
    return sink.done()


def matrix_of_cells(
    cells: Sequence[str], width: int, ragged: Callable[[int, int], Exception]
) -> tuple[Matrix, np.ndarray]:
    """Return lists in cells as numbers (n, w), and which rows have none (n,).

    Args:
        ragged: Makes the error of a list of another length, by its place and that length.
    """
    found, lacks = np.zeros((len(cells), width)), np.ones(len(cells), bool)
    for at, cell in enumerate(cells):
        if row := numbers_in(cell):
            if len(row) != width:
                raise ragged(at, len(row))
            found[at], lacks[at] = row, False
    return found, lacks


def vector_places(table: Table) -> list[int]:
    """Return the places of the columns whose first cells hold vectors as lists."""
    some = table.rows[:_FEW]
    return [at for at in range(len(table.columns)) if hold_vectors(row[at] for row in some)]


def hold_vectors(cells: Iterable[str]) -> bool:
    """Return True if cells hold vectors: lists of numbers, two or more, not all of them whole.

    >>> hold_vectors(["[0.5, 1]", "", "[1, 2e-3]"]), hold_vectors(["[1, 0]"]), hold_vectors([""])
    (True, False, False)
    """
    is_fraction = False
    for cell in filter(str.strip, cells):
        row = numbers_in(cell)
        if row is None or len(row) < FEWEST:
            return False
        is_fraction |= any(one != int(one) for one in row if math.isfinite(one))
    return is_fraction


def numbers_in(cell: str) -> list[float] | None:
    """Return the numbers of a list in a cell; None where it is none, or holds something else.

    >>> numbers_in("[1, 0.5]"), numbers_in("[1 0.5]"), numbers_in('["1", "2"]'), numbers_in("[[1]]")
    ([1.0, 0.5], None, [1.0, 2.0], None)
    """
    if not cell.lstrip().startswith("["):
        return None
    try:
        found = json.loads(cell)
        # A list of a JSON file is kept as a list of texts, each as the file has it.
        return [float(one) for one in found]
    except (ValueError, TypeError, RecursionError, OverflowError):
        return None
