"""The function of the package that this extra adds."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from heads.backbone.models import BUNDLED
from heads.data.dataset import Data
from heads.events import result

if TYPE_CHECKING:
    from heads.extras.maps.row_map import Method, RowMap
    from heads.runs.leaderboard import Leaderboard


def row_map(
    data: str | Path | Data | Leaderboard,
    readings: Sequence[str] | None = None,
    *,
    method: Method = "pca",
    most: int = 0,
    model: str = BUNDLED,
) -> RowMap:
    """Draw rows as points under several readings side by side.

    Rows whose vectors are alike lie near each other. The map says how much of the variance it
    keeps, and how many of a row's nearest neighbours are still its nearest.

    Args:
        data: A sample, a file or a folder as `heads.read` takes it, or what it returned; or a run,
            by its id, its folder or its leaderboard, whose recommended head answers every row.
        readings: At most four recipes without their heads, such as mean, cls or cls@3. Default: of
            a run those of its recommended head and of the best other one, of vectors these, and
            else mean and cls.
        method: pca, the plane of most variance; or tsne, which keeps neighbours.
        most: The largest number of rows, drawn at random. Default: 10,000, or 5,000 with tsne.
        model: The base model: the bundled one, a Hub id, or (locally) a folder; a run has its own.

    Returns:
        The map: `.readings`, `.to_pandas()`, `.plot()`, `.save("map.parquet")`.

    Raises:
        HeadsError: An argument does not fit.
    """
    from heads.extras.maps.row_map import iter_row_map

    options = {"method": method, "most": most, "model": model}
    return result(iter_row_map(data, readings, **options))
