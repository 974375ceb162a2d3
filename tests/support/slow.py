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


def _slow(row: Any) -> Any:
    values = row if isinstance(row, tuple) else (row,)
    return pytest.param(*values, marks=pytest.mark.slow)
