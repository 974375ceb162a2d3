"""Rows of a parametrisation of which the short suite takes some."""

from collections.abc import Iterable
from typing import Any

import pytest


def but(rows: Iterable[Any], *often: Any) -> list[Any]:
    """Rows for `pytest.mark.parametrize`, of which all but those that are named are marked slow.

    Raises:
        ValueError: One that is named is no row (any more).
    """
    rows = list(rows)
    if strange := [one for one in often if one not in rows]:
        raise ValueError(f"no row of this parametrisation: {strange}")
    return [one if one in often else _slow(one) for one in rows]


def but_each(nth: int, rows: Iterable[Any]) -> list[Any]:
    """Rows of which the first, and each so many further on, are not marked slow."""
    return [_slow(one) if number % nth else one for number, one in enumerate(rows)]


def _slow(row: Any) -> Any:
    marks = [pytest.mark.slow]
    if hasattr(row, "marks"):  # a row of pytest.param
        return pytest.param(*row.values, marks=[*row.marks, *marks], id=row.id)
    return pytest.param(*(row if isinstance(row, tuple) else (row,)), marks=marks)
