"""Vectors in the place of texts: rows of numbers, whichever engine made them.

They are held as 32-bit floats in memory, or in a file that is mapped into it.
Legend: n rows, w width of a vector, m rows of a matrix.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, TypeAlias

import numpy as np

from heads.caching import replacing

if TYPE_CHECKING:  # tables are read before torch is imported
    from torch import Tensor

Matrix: TypeAlias = np.ndarray
BLOCK = 4_096  # rows


def as_float32(matrix: Matrix) -> Matrix:
    """Return numbers in 32 bits, in which those that are too large become infinite."""
    with np.errstate(over="ignore"):
        return np.ascontiguousarray(matrix, dtype=np.float32)


@dataclass(frozen=True, slots=True, eq=False)
class Vectors:
    """One vector a row: some rows of some matrices, one after another.

    Attributes:
        pieces: Matrices (m, w), and of each the numbers of the rows that are taken.
    """

    pieces: tuple[tuple[Matrix, np.ndarray], ...]

    @classmethod
    def whole(cls, matrix: Matrix) -> "Vectors":
        """Return all rows of a matrix."""
        return cls(((matrix, np.arange(len(matrix))),))

    @classmethod
    def opened(cls, path: Path) -> "Vectors":
        """Return all rows of a file that `save` wrote.

        Raises:
            ValueError: It is none.
            OSError: The disk does not give it.
        """
        # Copied where written to, which nobody does: of what cannot be written torch makes nothing.
        return cls.whole(np.load(path, mmap_mode="c", allow_pickle=False))

    def __len__(self) -> int:
        return sum(len(rows) for _, rows in self.pieces)

    @property
    def width(self) -> int:
        """How many numbers a vector has."""
        return self.pieces[0][0].shape[1]

    def of(self, rows: Sequence[int]) -> "Vectors":
        """Return some of the rows, in that order."""
        ends = np.cumsum([len(own) for _, own in self.pieces])
        asked = np.asarray(rows, dtype=np.int64)
        piece = np.searchsorted(ends, asked, side="right")
        runs = np.flatnonzero(np.diff(piece)) + 1  # where the next piece begins
        found = []
        for some, at in zip(np.split(asked, runs), np.split(piece, runs), strict=True):
            if len(some):
                matrix, own = self.pieces[at[0]]
                found.append((matrix, own[some - (ends[at[0]] - len(own))]))
        return Vectors(tuple(found) or ((self.pieces[0][0], asked[:0]),))

    def followed_by(self, other: "Vectors") -> "Vectors":
        """These rows and then those."""
        return Vectors((*self.pieces, *other.pieces))

    def blocks(self) -> Iterator[Matrix]:
        """Yield the rows in order, some at a time."""
        for matrix, rows in self.pieces:
            for start in range(0, len(rows), BLOCK):
                yield matrix[rows[start : start + BLOCK]]

    def tensor(self) -> "Tensor":
        """(n, w); of one whole matrix that is the matrix itself, else a copy."""
        import torch

        (matrix, rows), *more = self.pieces
        if not more and len(rows) == len(matrix) and np.array_equal(rows, np.arange(len(matrix))):
            return torch.from_numpy(matrix)
        found = np.concatenate([matrix[rows] for matrix, rows in self.pieces])
        return torch.from_numpy(found)

    def save(self, path: Path) -> None:
        """Write all rows into a new .npy file, a block at a time.

        Raises:
            OSError: The disk refuses.
        """
        with replacing(path) as place, place.open("wb") as file:
            shape = {"descr": "<f4", "fortran_order": False, "shape": (len(self), self.width)}
            np.lib.format.write_array_header_1_0(file, shape)
            for block in self.blocks():
                file.write(block.astype("<f4", copy=False).tobytes())


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class RowVectors:
    """The vectors of all rows of a file.

    Attributes:
        vectors: One a row, of zeros where it has none.
        names: What each is called where there is no text, "" where it has none: its first numbers,
            and a digest of all of them, by which equal vectors have equal names.
    """

    vectors: Vectors
    names: list[str]

    def of(self, rows: Sequence[int]) -> "RowVectors":
        """Return those of some rows."""
        return RowVectors(vectors=self.vectors.of(rows), names=[self.names[row] for row in rows])
