"""The function of the package that this extra adds."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from heads.backbone.models import BUNDLED
from heads.data.dataset import Data, data_of
from heads.data.samples import SAMPLES
from heads.data.sources import open_source
from heads.errors import DataError
from heads.events import Progress
from heads.settings import Limits
from heads.settings import limits as default_limits

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
    limits: Limits | None = None,
) -> RowMap:
    """Draw rows as points under several readings side by side.

    Rows whose vectors are alike lie near each other. A picture has two dimensions, and a vector
    hundreds: the map says how much of the variance is kept, and how many of a row's nearest
    neighbours are still its nearest.

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
    from heads.extras.maps.row_map import RowMap

    options = {"method": method, "most": most, "model": model, "limits": limits}
    for event in iter_row_map(data, readings, **options):
        if isinstance(event, RowMap):
            return event
    raise AssertionError("a map ends in its result")


def iter_row_map(
    data: str | Path | Data | Leaderboard,
    readings: Sequence[str] | None = None,
    *,
    method: Method = "pca",
    most: int = 0,
    model: str = BUNDLED,
    limits: Limits | None = None,
) -> Iterator[Progress | RowMap]:
    """Yield the progress of `row_map`, then the map."""
    from heads.extras.maps import row_map as maps

    limits = limits or default_limits()
    source = _load_source(data, limits) if isinstance(data, str | Path) else data
    options = {"method": method, "most": most, "model": model, "limits": limits}
    return maps.mapping(source, readings, **options)


def _load_source(name: str | Path, limits: Limits) -> Data | Leaderboard:
    """Return the sample, file or run of that name.

    Raises:
        DataError: There is none.
        LimitError: It is a file, where only samples are allowed.
    """
    from heads.runs.folder import find
    from heads.runs.leaderboard import leaderboard

    path = Path(name)
    is_file = not limits.public and path.exists() and not (path / "run.json").is_file()
    if str(name) in SAMPLES or is_file:
        table, title = open_source(name, limits)
        return data_of(table, limits, name=title)
    try:
        run = find(str(name), is_public=limits.public)
    except DataError:
        what = f"There is no run, no sample and no file called {str(name)[:80]}."
        raise DataError(what, "List runs with: heads runs") from None
    return leaderboard(run)
