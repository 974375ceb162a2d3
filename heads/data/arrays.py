"""Texts and their labels as Python holds them: lists, arrays, columns of data frames.

Nothing is left out, as rows of a file are: whoever hands over arrays counts on one answer a row.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from heads.data.corpus import gate
from heads.errors import DataError
from heads.settings import Limits

_SHOWN = 40


class ArrayError(DataError, ValueError):
    """Texts or labels in an array that cannot be used: a ValueError, as scikit-learn expects."""


@dataclass(frozen=True, slots=True, kw_only=True)
class GatedTexts:
    """The gated texts of some rows.

    Attributes:
        texts: One a row.
        pairs: The second text of each row; empty where rows hold one text.
    """

    texts: tuple[str, ...]
    pairs: tuple[str, ...] = ()


def texts_of(X: Any, limits: Limits) -> GatedTexts:
    """The texts of an array-like: (n,) texts, (n, 1) texts or (n, 2) pairs of texts.

    >>> texts_of(["a", "b"], Limits()).texts, texts_of([("a", "b"), ("c", "d")], Limits()).pairs
    (('a', 'b'), ('b', 'd'))

    Raises:
        ArrayError: It is something else, or a text is missing or empty; names the row.
    """
    columns = _columns(X)
    both = [_gated(column, limits, at, len(columns)) for at, column in enumerate(columns)]
    return GatedTexts(texts=both[0], pairs=both[1] if len(both) > 1 else ())


def _columns(X: Any) -> list[Sequence[Any]]:
    """The cells of one or two columns."""
    import numpy as np

    if isinstance(X, str | bytes):
        raise ArrayError("X is one text.", "Write [text] for a list of one.")
    try:
        cells: Any = np.asarray(X, dtype=object)
    except ValueError:  # rows of unlike length
        raise _no_texts("has rows of unlike length") from None
    if not cells.ndim:
        raise _no_texts(f"is a {type(X).__name__}")
    if cells.ndim > 2 or cells.shape[1:] not in ((), (1,), (2,)):
        raise _no_texts(f"is an array of {' × '.join(f'{size:,}' for size in cells.shape)}")
    if not len(cells):
        raise ArrayError("X has 0 rows.", "Give at least one text.")
    return [cells] if cells.ndim == 1 else list(cells.T)


def _no_texts(what: str) -> ArrayError:
    hint = "Give one text a row, or two."
    return ArrayError(f"X {what}, and must be a list of texts, or of pairs of texts.", hint)


def _gated(column: Iterable[Any], limits: Limits, at: int, of: int) -> tuple[str, ...]:
    """The texts of a column as the gate lets them in."""
    what = "text" if of == 1 else ("first text", "second text")[at]
    found = []
    for row, cell in enumerate(column):
        try:
            found.append(gate(cell, limits, what))
        except DataError:
            raise _no_text(cell, row, what) from None
    return tuple(found)


def _no_text(cell: Any, row: int, what: str) -> ArrayError:
    """Why a cell is no text; rows are counted from 0, as Python counts them."""
    if isinstance(cell, str):
        return ArrayError(f"Row {row} of X has an empty {what}.", "Leave such rows out.")
    if isinstance(cell, list | tuple):
        return ArrayError(f"Row {row} of X is not like the others.", "Give one text a row, or two.")
    came = f"{cell!r:.{_SHOWN}} ({type(cell).__name__})"
    hint = "Leave such rows out, or make it a text with str()."
    return ArrayError(f"Row {row} of X has no {what} but {came}.", hint)
